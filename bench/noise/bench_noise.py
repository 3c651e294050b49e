#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_noise.py BUILD - what observers take from a program that computes on a CPU: fixed-work-quantum noise of an idle machine, of one
with an agent whose memory a collector on another CPU reads every 10 ms, and of those with node_exporter and with PCP, taking turns."""
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common.bench import Part, get, say, skip_peer  # noqa: E402
from common.exporter import Peer  # noqa: E402
from support.sidelight import Agent, Collector  # noqa: E402
import support.sidelight  # noqa: E402

BUILD = sys.argv[1]
TURNS, SECONDS = 7, 5
READER = 0  # the CPU of what reads or scrapes, as another machine would
CPU = os.cpu_count() - 1
PCP = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'pcp.sh')


@contextlib.contextmanager
def sidelight():
    """The agent may run anywhere; the collector stands for a SmartNIC."""
    with Agent('--host') as agent, Collector([agent], '--period', '10ms') as c:
        for task in os.listdir(f'/proc/{c.pid}/task'):
            os.sched_setaffinity(int(task), {READER})
        yield


@contextlib.contextmanager
def node_exporter():
    peer, over = Peer(), threading.Event()

    def scrape():
        os.sched_setaffinity(threading.get_native_id(), {READER})
        while not over.wait(1):
            get(peer.address, '/metrics')
    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        peer.p.stop()


@contextlib.contextmanager
def pcp():
    with Part(PCP, f'{BUILD}/bench/noise/debian') as p:
        p.ready(600)
        yield


def main():
    support.sidelight.EXE = f'{BUILD}/sidelight'
    observers = {'idle': contextlib.nullcontext, 'sidelight': sidelight}
    if shutil.which('prometheus-node-exporter'):
        observers['node_exporter'] = node_exporter
    else:
        skip_peer('no node_exporter (Debian package prometheus-node-exporter)')
    if os.geteuid() == 0 and shutil.which('debootstrap'):
        observers['pcp'] = pcp
    else:
        skip_peer('no PCP: its Debian in a folder needs root and debootstrap')
    seen = {name: [] for name in observers}
    for _ in range(TURNS):
        for name, observer in observers.items():
            with observer():
                out = subprocess.run([f'{BUILD}/bench/noise/bench_fwq', str(CPU), str(SECONDS)], check=True, text=True, stdout=subprocess.PIPE)
            seen[name].append([float(x) for x in out.stdout.split()])
    median = {name: [statistics.median(x) for x in zip(*turns)] for name, turns in seen.items()}
    how = {'idle': 'nothing else runs', 'sidelight': 'agent --host at its default, read from CPU 0 every 10 ms by shared memory',
           'node_exporter': 'scraped each second from CPU 0',
           'pcp': 'pmcd and pmlogger as Debian configures them, but with a sample each second'}
    for name, (lost, detours, excess) in median.items():
        say(f'noise.{name}', lost, 'ppm', f'time lost by a pinned loop of 100 us on CPU {CPU}; {how[name]}; {detours:.0f} detours of 1 us and more '
            f'per second, p99.9 {excess / 1000:.1f} us above the median; median of {TURNS} turns of {SECONDS} s', *(('idle', median['idle'][0])
                                                                                                           if name != 'idle' else ()),
            less_is_better=True)


main()
