#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_host.py BUILD - CPU time of reading this machine, beside node_exporter's for a scrape, taking turns; and the share
of a processor that an agent takes with --host at 10 Hz."""
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common.bench import Part, get, poll, say, skip_peer  # noqa: E402
from support.sidelight import Agent, Collector  # noqa: E402
import support.sidelight  # noqa: E402

BUILD = sys.argv[1]
TURNS, SCRAPES, SECONDS = 5, 30, 20


def cpu_ns(pid):
    """CPU time of a process: its clock, of which clock_getcpuclockid(3) makes the number."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def family(pid):
    """A process and its descendants."""
    out = [pid]
    for p in out:
        with open(f'/proc/{p}/task/{p}/children') as f:
            out += map(int, f.read().split())
    return out


class Peer:
    def __init__(self):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.address = f'127.0.0.1:{s.getsockname()[1]}'
        # What it says of itself is not what is compared.
        self.p = Part('prometheus-node-exporter', f'--web.listen-address={self.address}', '--web.disable-exporter-metrics')
        poll(self.answers, 20)

    def answers(self):
        try:
            return get(self.address, '/metrics')
        except OSError:
            return None

    def scrapes(self):
        """Nanoseconds per scrape."""
        start = cpu_ns(self.p.pid)
        for _ in range(SCRAPES):
            get(self.address, '/metrics')
            time.sleep(0.02)
        return (cpu_ns(self.p.pid) - start) / SCRAPES


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
