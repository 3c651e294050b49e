#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_fabric.py BUILD - what READs over libfabric's tcp cost the observed host, beside node_exporter's scrape; taking turns."""
import os
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common.bench import get, say, skip_peer  # noqa: E402
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


main()
