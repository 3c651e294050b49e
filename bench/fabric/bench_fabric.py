#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_fabric.py BUILD - what READs over TCP cost: a single one, beside node_exporter's scrape, and the rounds of a collector, beside
shared memory and bare sockets; taking turns."""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common.bench import FIRST, Stage, check, cpu_ns, get, median, say, skip_peer  # noqa: E402
from common.exporter import Peer  # noqa: E402

BUILD = sys.argv[1]
TURNS = 5


def main():
    peer = Peer() if shutil.which('prometheus-node-exporter') else None
    if not peer:
        skip_peer('no node_exporter (Debian package prometheus-node-exporter)')
    rates, ours, theirs = [], [], []
    for _ in range(TURNS):
        out = subprocess.run([f'{BUILD}/bench/fabric/bench_fabric', '3'], check=True, text=True, stdout=subprocess.PIPE).stdout
        rates.append(float(out.split()[0]))
        ours.append(float(out.split()[1]) / 1000)
        if peer:
            theirs.append(peer.scrapes() / 1000)
    name, scrape, page = None, None, ''
    if peer:
        size = len(get(peer.address, '/metrics')) / 1024
        name, scrape, page = 'node_exporter, a scrape', statistics.median(theirs), f'; the scrape is of {size:.0f} KiB'
        peer.p.stop()
    how = f'loopback, median of {TURNS} turns'
    say('read.tcp.4k', statistics.median(ours), 'us', f'CPU time of the host per READ, one at a time, {how}{page}', name, scrape,
        less_is_better=True)
    say('read.tcp.4k.rate', statistics.median(rates), 'READs/s', f'one at a time, both ends on this machine, {how}')



# ---- the rounds of a collector: 256 pods of 64 counters, 100 times per second ------------------------------------------

PODS, METRICS, SECONDS = 256, 64, 5


def cores(s, target, *options):
    """CPU time of the agent and of a collector, in cores, and the collector's rounds per second."""
    p = s.start([FIRST], 'collect', '--agent', target, '--listen', '127.0.0.1:0', '--period', '10ms', '--history', '64M', *options)
    address = p.ready()['listen']

    def rounds():
        return sum(float(line.rsplit(' ', 1)[1]) for line in get(address, '/metrics').splitlines()
                   if line.startswith('sidelight_collector_rounds_total'))
    time.sleep(2)
    first = rounds(), cpu_ns(s.agent.pid), cpu_ns(p.pid), time.monotonic_ns()
    time.sleep(SECONDS)
    last = rounds(), cpu_ns(s.agent.pid), cpu_ns(p.pid), time.monotonic_ns()
    p.stop()
    n, agent, collector, ns = (b - a for a, b in zip(first, last))
    return agent / ns, collector / ns, n / ns * 1e9


def rounds():
    with tempfile.TemporaryDirectory() as folder:
        key = os.path.join(folder, 'key')
        with open(key, 'w') as f:
            f.write('a secret of this benchmark')
        os.chmod(key, 0o600)
        secret = ('--rdma-secret', key)
        turns = {}
        for way, options in ('', ('--insecure-listen',)), ('.tls', secret):
            with Stage(os.path.join(BUILD, 'sidelight'), PODS, '--updates', '4000000000', '--rate', '100', '--hold', '10m',
                       agent=('--fabric', 'tcp::0', *options)) as s:
                target = re.search(r'fabric=(\S+)', s.agent.out[0]).group(1)
                turns[way] = [cores(s, target, *(secret if way else ())) for _ in range(3)]
                turns['.shm'] = [cores(s, s.socket) for _ in range(3)]
    floors = [[float(x) for x in subprocess.run([f'{BUILD}/bench/fabric/bench_fabric', '3', 'floor'], check=True, text=True,
                                                stdout=subprocess.PIPE).stdout.split()] for _ in range(3)]
    for way in '', '.tls':
        for side, floor in (0, 'host'), (1, 'collector'):
            rate = median([turn[2] for turn in turns[way]])
            check(rate > 50, f'{rate:.0f} rounds/s')
            say(f'read.tcp{way}.{floor}', round(median([turn[side] for turn in turns[way]]), 4), 'cores',
                f'{PODS} pods x {METRICS} counters, period of 10 ms, {rate:.0f} rounds/s, median of 3 turns of {SECONDS} s; over shared '
                f'memory {median([turn[side] for turn in turns[".shm"]]):.3f}', None, None,
                'sockets: a request, and 256 x 1,408 bytes by writev', median([f[side] for f in floors]), less_is_better=True)


main()
rounds()
