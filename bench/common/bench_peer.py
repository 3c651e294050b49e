#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_peer.py fd|pipeline COMMAND... - runs a benchmark and MicroView's Frequent Directions in numpy in turns, and
prints the lines of the benchmark, with the peer in the figures that it is the peer of."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench  # noqa: E402

TURNS = 5
# Of the figures whose names begin so.
PEERS = {'fd': ('fd.score.update', 'metrics/s'), 'pipeline': ('pipeline.256x64', 'Hz')}


def main():
    kind, command = sys.argv[1], sys.argv[2:]
    first, unit = PEERS[kind]
    missing = bench.numpy_missing()
    if missing:
        bench.skip_peer(missing)
        measure = None
    else:
        import microview
        measure = {'fd': microview.fd_metrics_per_second, 'pipeline': microview.pipeline_hz}[kind]
    lines, theirs = {}, []
    for _ in range(TURNS):
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        for line in out.splitlines():
            row = json.loads(line)
            lines.setdefault(row['name'], []).append(row)
        if measure:
            theirs.append(measure())
    for name, rows in lines.items():
        rows.sort(key=lambda r: r['value'])
        row = rows[TURNS // 2]
        if theirs and name.startswith(first) and not name.endswith('.floor') and row['unit'] == unit:
            peer = bench.median(theirs)
            row.update(peer='MicroView FD in numpy', peer_value=peer, ratio=row['value'] / peer)
        row['conditions'] += f'; median of {TURNS} turns'
        print(json.dumps(row), flush=True)


main()
