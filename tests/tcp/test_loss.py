# SPDX-License-Identifier: Apache-2.0
"""A link with loss, and one that goes down: bytes and retransmissions equal those of iperf3 and nstat exactly.

Three namespaces in a row, the queue in the middle: netem where the kernel has it (loss, delay,
reordering), else a token bucket that is too small."""
import json
import os
import socket
import subprocess
import sys
import time

from support import flows
from support.flows import needs_bpf
from support.process import Part, fail, output, skip, wait_until

AMOUNT = sys.argv[2] if len(sys.argv) > 2 else '30M'
NAMES = [f'sl-tcp-{os.getpid()}-{n}' for n in 'arb']
CLEAN = 'a clean link'
COOKIE = 37  # the cookie that iperf3 sends first on each stream


def within(name):
    """Not 'ip netns exec', which fails where / is no mount point, as in a chroot."""
    return 'nsenter', f'--net=/run/netns/{name}'


def inside(name, *argv):
    return output(*within(name), *argv)


def build():
    a, r, b = NAMES
    for name in NAMES:
        output('ip', 'netns', 'add', name)
        inside(name, 'ip', 'link', 'set', 'lo', 'up')
    for end, subnet in ((a, 1), (b, 2)):
        output('ip', 'link', 'add', 'sl0', 'netns', end, 'type', 'veth', 'peer', 'name',
            f'to{subnet}', 'netns', r)
        for name, dev, host in ((end, 'sl0', 2), (r, f'to{subnet}', 1)):
            inside(name, 'ip', 'addr', 'add', f'10.99.{subnet}.{host}/24', 'dev', dev)
            inside(name, 'ip', 'link', 'set', dev, 'up')
        inside(end, 'ip', 'route', 'add', 'default', 'via', f'10.99.{subnet}.1')
    inside(r, 'sysctl', '-qw', 'net.ipv4.ip_forward=1')


def impair(*what):
    return subprocess.run([*within(NAMES[1]), 'tc', 'qdisc', 'replace', 'dev', 'to2', 'root',
                           *what], stderr=subprocess.PIPE, text=True).returncode == 0


def limit(rate):
    if not impair('netem', 'rate', rate) and not impair('tbf', 'rate', rate, 'burst', '20kb', 'limit', '400kb'):
        skip('neither netem nor tbf in this kernel')


def nstat(name):
    out = json.loads(inside(name, 'nstat', '-a', '-s', '-z', '-j'))
    return next(iter(out.values())) if 'kernel' in out else out


def flap():
    """The link goes down when data is on its way, which would take most of a minute, and comes back after a timeout."""
    def passed():
        return json.loads(inside(NAMES[1], 'ip', '-s', '-j', 'link', 'show', 'to2'))[0]['stats64']['tx']['bytes']
    before, timeouts = passed(), nstat(NAMES[0])['TcpExtTCPTimeouts']
    wait_until(lambda: passed() > before + 30000, 'data is on its way')
    inside(NAMES[1], 'ip', 'link', 'set', 'to2', 'down')
    wait_until(lambda: nstat(NAMES[0])['TcpExtTCPTimeouts'] > timeouts, 'a timeout')
    limit('100mbit')
    inside(NAMES[1], 'ip', 'link', 'set', 'to2', 'up')


def transfer(label, meanwhile=None):
    """Runs iperf3 through the link; iperf3, nstat and Sidelight must agree."""
    begin, before, old = time.monotonic(), nstat(NAMES[0]), set(WATCH.seen)
    server = Part(*within(NAMES[2]), 'iperf3', '-s', '-1', '-p', PORT)
    wait_until(lambda: 'LISTEN' in inside(NAMES[2], 'ss', '-ltn'), 'iperf3 listens', server, seconds=20)
    client = Part(*within(NAMES[0]), 'iperf3', '-c', '10.99.2.2', '-p', PORT, '-n', AMOUNT, '-J')
    if meanwhile:
        meanwhile()
    if client.wait() or server.wait():
        fail(label, client, server)
    told = json.loads(client.stdout())

    # Two connections, two ends each.
    def closed():
        WATCH.update()
        ends = [f for i, f in WATCH.seen.items() if i not in old and f['closed'] and f['remote_port']]
        return ends if len(ends) == 4 else None
    seen = wait_until(closed, 'all are closed', WATCH.part)
    after = nstat(NAMES[0])
    ours = [f for f in seen if f['local'] == '10.99.1.2']
    data = max(ours, key=lambda f: f['bytes_sent'])
    peer = next(f for f in seen if f['remote_port'] == data['local_port'])
    stream = told['end']['streams'][0]
    grown = {k: after[k] - before.get(k, 0) for k in after}
    both = lambda name: sum(f[name] for f in ours)  # noqa: E731

    def same(what, got, expected):
        if got != expected:
            changed = {k: v for k, v in grown.items() if v and k.startswith('TcpExt')}
            fail(f'{label}: {what} is {got}, not {expected}: {data}; nstat: {changed}')

    def seen_by_calls(what, got, expected):
        # Linux 6.18 skips a few calls of tracepoints under load and while other programs attach (docs/tcp.md). The guest's
        # kernel skips only calls that it counts as missed.
        missed = (WATCH.table or {}).get('missed', 0)
        if abs(got - expected) > max(missed, 0 if 'GUEST' in os.environ else 3 + expected / 20):
            same(what, got, expected)
        elif got != expected:
            print(f'note: {label}: {what} is {got}, not {expected}; {missed} calls known to be left out by the kernel')

    same('bytes written', data['write_bytes'], stream['sender']['bytes'] + COOKIE)
    same('bytes read by the peer', peer['read_bytes'], stream['receiver']['bytes'] + COOKIE)
    same('retransmissions by nstat', both('retrans'), grown['TcpRetransSegs'])
    # iperf3 reads its counters when it has written everything; segments in the queue may be lost later, many of them on a busy
    # machine.
    if data['retrans'] < stream['sender']['retransmits']:
        fail(f"{label}: {data['retrans']} segments again, iperf3 says {stream['sender']['retransmits']}")
    seen_by_calls('fast ones by nstat', both('re_fast'), grown['TcpExtTCPFastRetrans'])
    seen_by_calls('recoveries by nstat', both('fast'),
                  grown['TcpExtTCPSackRecovery'] + grown['TcpExtTCPRenoRecovery'])
    # Each of them, the SYN's among them; TCPSackRecoveryFail and the like say besides in which state some came. Before
    # 6.7 the socket does not count them: we do.
    (same if 'total_rto' in flows.tcp_info(HELD) else seen_by_calls)(
        'timeouts by nstat', both('timeouts'), grown['TcpExtTCPTimeouts'])
    same('the causes, added up', sum(both(c) for c in ('re_fast', 're_rto', 're_tlp', 're_syn')),
         both('retrans'))
    same('spurious ones by nstat', both('dsack'), grown['TcpExtTCPDSACKRecvSegs'])
    if peer['ooo'] == 0 and data['re_fast'] and label != CLEAN:
        fail(f'{label}: it lost some, and nothing came out of order: {peer}')
    mean = data['rtt_sum_us'] / data['rtt_count']
    print(f"ok   {label}: {data['write_bytes']} bytes, {data['retrans']} segments again "
          f"({data['re_fast']} fast, {data['re_rto']} after {data['timeouts']} timeouts, "
          f"{data['re_tlp']} by probe, {data['dsack']} spurious), {data['rtt_count']} samples of the "
          f"RTT, mean {mean:.0f} us, smallest {data['rtt_min_us']} us "
          f'({time.monotonic() - begin:.1f} s)', flush=True)
    return data, stream


needs_bpf()
for tool in ('iperf3', 'nstat', 'tc', 'ss'):
    if subprocess.run(['which', tool], stdout=subprocess.DEVNULL).returncode:
        skip(f'{tool} is not installed')
# Flows of all namespaces are watched: a port that no other run of this test here has, and no client is given.
for PORT in range(10000 + os.getpid() % 20000, 32000):
    HELD = socket.socket()
    try:
        HELD.bind(('', PORT))
        break
    except OSError:
        HELD.close()
try:
    build()
    # Both ends, by their ports, and nothing else on this machine.
    WATCH = flows.Flows('--new', '-p', PORT, '--closed', netns=False)
    data, _ = transfer(CLEAN)
    if impair('netem', 'delay', '20ms', 'loss', '2%'):
        data, stream = transfer('loss of 2 % and 20 ms')
        if data['rtt_min_us'] < 20000 or data['rtt_sum_us'] / data['rtt_count'] < 20000:
            fail(f'the RTT is below the delay: {data}')
        impair('netem', 'delay', '10ms', 'reorder', '25%', '50%')
        transfer('reordering')
    else:
        print('SKIP: netem: this kernel has none; a token bucket that is too small loses instead')
        if not impair('tbf', 'rate', '300mbit', 'burst', '20kb', 'limit', '40kb'):
            skip('neither netem nor tbf in this kernel')
        data, _ = transfer('a queue that is too short')
        if not data['retrans'] or not data['re_fast']:
            fail(f'nothing was lost: {data}')
    limit('200kbit')
    AMOUNT = '1M'
    data, _ = transfer('a link that flaps', flap)
    if not data['re_rto']:
        fail(f'nothing was sent again after a timeout: {data}')
    WATCH.end()
finally:
    for n in NAMES:
        subprocess.run(['ip', 'netns', 'del', n], stderr=subprocess.DEVNULL)
