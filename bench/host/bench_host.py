#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_host.py BUILD - CPU time of reading this machine, beside node_exporter's for a scrape, taking turns; and the share
of a processor that an agent takes with --host at 10 Hz."""
import os
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common.bench import say, skip_peer  # noqa: E402
from common.exporter import Peer, cpu_ns  # noqa: E402
from support.sidelight import Agent, Collector  # noqa: E402
import support.sidelight  # noqa: E402

BUILD = sys.argv[1]
TURNS, SECONDS = 5, 20


def family(pid):
    """A process and its descendants."""
    out = [pid]
    for p in out:
        with open(f'/proc/{p}/task/{p}/children') as f:
            out += map(int, f.read().split())
    return out


def share():
    """Percent of a processor, of all processes of the agent."""
    support.sidelight.EXE = f'{BUILD}/sidelight'
    agent = Agent('--host')
    collector = Collector([agent], '--period', '100ms')
    time.sleep(5)
    start = {p: cpu_ns(p) for p in family(agent.pid)}
    began = time.monotonic_ns()
    time.sleep(SECONDS)
    spent = sum(cpu_ns(p) - n for p, n in start.items())
    out = spent / (time.monotonic_ns() - began) * 100
    collector.stop()
    agent.stop()
    return out


def main():
    peer = Peer() if shutil.which('prometheus-node-exporter') else None
    if not peer:
        skip_peer('no node_exporter (Debian package prometheus-node-exporter)')
    ours, full, theirs = [], [], []
    for _ in range(TURNS):
        out = subprocess.run([f'{BUILD}/bench/host/bench_host', '5'], check=True, text=True, stdout=subprocess.PIPE).stdout
        ours.append(float(out.split()[0]))
        full.append(float(out.split()[1]))
        if peer:
            theirs.append(peer.scrapes())
    name, scrape = ('node_exporter, a scrape', statistics.median(theirs) / 1000) if peer else (None, None)
    if peer:
        peer.p.stop()
    how = f'CPU time, median of {TURNS} turns'
    say('host.read', statistics.median(ours) / 1000, 'us', f'{how}; a round at 10 Hz, mean over 5 s', name, scrape,
        less_is_better=True)
    say('host.read.full', statistics.median(full) / 1000, 'us', f'{how}; everything is read', name, scrape, less_is_better=True)
    say('host.agent.share', share(), '%', f'--host at 10 Hz, {SECONDS} s, all processes of the agent', less_is_better=True)


main()
