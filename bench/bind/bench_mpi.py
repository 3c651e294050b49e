#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_mpi.py BUILD MPI... - the time that bindings/mpi adds to a call: a rank with it and without it, in turns on one CPU. An agent is
there, and no collector."""
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common.bench import OTHERS, say  # noqa: E402
from support.process import workdir  # noqa: E402
from support.sidelight import Agent  # noqa: E402
import support.sidelight  # noqa: E402

BUILD = sys.argv[1]
TURNS = 5
CALLS = {'barrier': 1, 'allreduce': 1, 'sendrecv': 1, 'isend': 3}


def run(mpi, socket, preload):
    env = {'SIDELIGHT_SOCKET': socket}
    if preload:
        env['LD_PRELOAD'] = f'{BUILD}/bindings/mpi/libsidelight-mpi-{mpi}.so'
    words = [f'mpirun.{mpi}', '-np', '1']
    for key, value in env.items():
        words += ['-x', f'{key}={value}'] if mpi == 'openmpi' else ['-genv', key, value]
    words += ['--allow-run-as-root'] if mpi == 'openmpi' else []
    words += ['taskset', '-c', str(OTHERS[0]), f'{BUILD}/bench/bind/bench_mpi_{mpi}']
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, env={**os.environ, 'TMPDIR': workdir()}).stdout)


support.sidelight.EXE = f'{BUILD}/sidelight'
agent = Agent()
for mpi in sys.argv[2:]:
    rows = [(run(mpi, agent.socket, True), run(mpi, agent.socket, False)) for _ in range(TURNS)]
    for key, calls in CALLS.items():
        ours, stock = (statistics.median(r[i][key] for r in rows) / calls for i in (0, 1))
        say(f'bind.mpi.{mpi}.{key}', ours - stock, 'ns', f'added per call to {stock:.0f} ns; CPU time, median of {TURNS} processes in turn, '
            'one rank, 8 bytes to itself')
agent.stop()
