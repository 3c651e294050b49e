# SPDX-License-Identifier: Apache-2.0
"""Number and sum of the samples of the RTT are those that the kernel takes, seen by a kprobe at the
function that takes them. Only where the kernel has kprobes, and that function is not inlined."""
import os
import re
import sys

import flows
from flows import Flows, fail, needs_bpf, pair, receive, same_as_tcp_info, skip

flows.EXE = sys.argv[1]
FUNCTION = 'tcp_ack_update_rtt'
needs_bpf()
if os.uname().machine != 'x86_64':
    skip('the arguments are read from the registers of x86-64')
TRACING = next((d for d in ('/sys/kernel/tracing', '/sys/kernel/debug/tracing')
                if os.path.exists(d + '/kprobe_events')), None)
if not TRACING:
    skip('this kernel has no kprobe events')
with open('/proc/kallsyms') as f:
    if not re.search(rf' {FUNCTION}$', f.read(), re.M):
        skip(f'{FUNCTION} is inlined in this kernel')


def write(name, text, mode='w'):
    with open(f'{TRACING}/{name}', mode) as f:
        f.write(text)


flows.own_network()
event = f'sl{os.getpid()}'
# (sk, flag, seq_rtt_us, sack_rtt_us, ...): the RTT of what was acknowledged in order or, failing that,
# by SACK; negative if there is none.
try:
    write('kprobe_events', f'p:{event}/rtt {FUNCTION} sk=%di:x64 seq=%dx:s64 sack=%cx:s64\n', 'a')
except OSError as e:
    with open(f'{TRACING}/error_log') as f:
        fail(f'no kprobe: {e}: {f.read()}')
try:
    write('trace', '')
    write(f'events/{event}/enable', '1')
    watch = Flows('--new')
    client, server = pair()
    for i in range(300):
        client.sendall(b'q' * (i % 7 + 1))
        receive(server, i % 7 + 1)
        # Some answers are long, so that acknowledgements come of their own.
        size = 200000 if i % 50 == 7 else 100
        server.sendall(b'r' * size)
        receive(client, size)
    got = [same_as_tcp_info(watch, s) for s in (client, server)]
    write(f'events/{event}/enable', '0')
    with open(f'{TRACING}/trace') as f:
        lines = f.read()
finally:
    write(f'events/{event}/enable', '0')
    write('kprobe_events', f'-:{event}/rtt\n', 'a')
samples = {}
for m in re.finditer(r'sk=(\w+) seq=(-?\d+) sack=(-?\d+)', lines):
    sk, rtt, sack = m[1], int(m[2]), int(m[3])
    rtt = rtt if rtt >= 0 else sack
    if rtt >= 0:
        count, total = samples.get(sk, (0, 0))
        samples[sk] = (count + 1, total + rtt)
ours = sorted((f['rtt_count'], f['rtt_sum_us']) for f in got)
theirs = sorted(v for v in samples.values() if v[0] > 10)
if ours != theirs:
    fail(f'samples and their sums are {ours}, the kernel took {theirs}', watch.part)
watch.end()
print(f'ok   samples of the RTT and their sum: {ours}')
