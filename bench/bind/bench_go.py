#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_go.py BUILD - an update of the package for Go beside client_golang's, in turns in the same processes: in one goroutine, and
in one on each of two CPUs."""
import json
import os
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common.bench import ROOT, say, skip_peer  # noqa: E402
from support.process import workdir  # noqa: E402
from support.sidelight import Agent  # noqa: E402
import support.sidelight  # noqa: E402

BUILD = sys.argv[1]
DEBIAN = '/usr/share/gocode'
PROCESSES, TURNS = 7, 5  # where the memory of a process happens to lie makes a difference
HOW = {'inc': 'CPU time, one goroutine', 'inc.parallel': 'two goroutines on two CPUs, one counter, time of each',
       'observe': 'CPU time, one goroutine, 11 bounds'}


def main():
    if not os.path.isdir(f'{DEBIAN}/src/github.com/prometheus/client_golang'):
        skip_peer('no client_golang (scripts/setup bench)')
        return
    folder = workdir()
    env = {**os.environ, 'GOPATH': f'{ROOT}/bindings/go:{DEBIAN}', 'GO111MODULE': 'off', 'GOFLAGS': '', 'GOENV': 'off',
           'GOCACHE': os.path.abspath(f'{BUILD}/go-cache'), 'CGO_ENABLED': '0'}
    subprocess.run(['go', 'build', '-o', f'{folder}/bench', f'{ROOT}/bench/bind/go.go'], check=True, env=env)
    support.sidelight.EXE = f'{BUILD}/sidelight'
    agent = Agent()
    runs = [json.loads(subprocess.run([f'{folder}/bench', str(TURNS)], check=True, stdout=subprocess.PIPE,
                                      env={**os.environ, 'SIDELIGHT_SOCKET': agent.socket}).stdout) for _ in range(PROCESSES)]
    agent.stop()
    found = {name: [statistics.median(r[name][side] for r in runs if name in r) for side in (0, 1)]
             for name in set().union(*runs)}
    for name in HOW:
        if name in found:
            say(f'bind.go.{name}', found[name][0], 'ns', f'median of {PROCESSES} processes, {HOW[name]}', 'client_golang 1.14',
                found[name][1], 'two plain additions in memory' if name == 'inc' else None, found['floor'][0],
                less_is_better=True)
        else:
            print(f'SKIP: bind.go.{name}: two goroutines never had two CPUs at the same time', file=sys.stderr)


if shutil.which('go'):
    main()
else:
    skip_peer('no Go (scripts/setup bench)')
