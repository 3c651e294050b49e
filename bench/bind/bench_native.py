#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_native.py BUILD LANGUAGE - updates by the bindings for C++ and Rust beside those of their peers, in processes that
take turns on one CPU. An agent is there, and no collector."""
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common.bench import OTHERS, say, skip_peer  # noqa: E402
from support.process import workdir  # noqa: E402
from support.sidelight import Agent  # noqa: E402
import support.sidelight  # noqa: E402

BUILD, LANGUAGE = sys.argv[1:3]
TURNS = 7
# Ours, its peer, and what the peer is.
SIDES = {
    'cpp': ('bench_update', 'bench_update_stock', 'prometheus-cpp 1.0'),
    'rust': ('bench_update_rust', 'bench_update_c', 'libsidelight in C'),
}


def run(program, socket):
    words = ['taskset', '-c', str(OTHERS[0]), f'{BUILD}/bench/bind/{program}']
    env = {**os.environ, 'SIDELIGHT_SOCKET': socket, 'LD_LIBRARY_PATH': f'{BUILD}/lib'}
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, env=env, cwd=workdir()).stdout)


def main():
    ours, peer, what = SIDES[LANGUAGE]
    have_peer = os.path.exists(f'{BUILD}/bench/bind/{peer}')
    if not have_peer:
        skip_peer('built without prometheus-cpp-dev')
    support.sidelight.EXE = f'{BUILD}/sidelight'
    agent = Agent()
    rows = ([], [])
    for _ in range(TURNS):
        rows[0].append(run(ours, agent.socket))
        if have_peer:
            rows[1].append(run(peer, agent.socket))
    agent.stop()
    for key in rows[0][0]:
        a, b = (statistics.median(r[key] for r in side) if side else None for side in rows)
        say(f'bind.{LANGUAGE}.{key}', a, 'ns', f'CPU time, median of {TURNS} processes in turn, one CPU; 256 counters in turn, '
            '12 classic buckets', what if have_peer else None, b, less_is_better=True)


main()
