#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_node.py BUILD - an update of prom-client that publishes beside its own, each in processes that take turns; and
how long the event loop waits while 2,000 series are taken every 20 ms, by us from outside, by itself within."""
import json
import os
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common.bench import ROOT, OTHERS, say, skip_peer  # noqa: E402
from support.process import workdir  # noqa: E402
from support.sidelight import Agent, Collector  # noqa: E402
import support.sidelight  # noqa: E402

BUILD = sys.argv[1]
TURNS = 5


def run(socket, ours):
    words = ['taskset', '-c', str(OTHERS[0]), 'node', *(('-r', 'sidelight/prom-client') if ours else ()),
             os.path.join(ROOT, 'bench/bind/node.js')]
    env = {**os.environ, 'NODE_PATH': f'{BUILD}/bindings/node', 'SIDELIGHT_SOCKET': socket}
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, env=env, cwd=workdir()).stdout)


def main():
    if not shutil.which('node') or not os.path.isdir(os.path.join(ROOT, 'tests/node/node_modules/prom-client')):
        skip_peer('no Node or no prom-client (scripts/setup bench)')
        return
    support.sidelight.EXE = f'{BUILD}/sidelight'
    agent = Agent()
    collector = Collector([agent], '--period', '20ms')
    ours, own = [], []
    for _ in range(TURNS):
        ours.append(run(agent.socket, True))
        own.append(run(agent.socket, False))
    collector.stop()
    agent.stop()

    def middle(rows, key):
        return statistics.median(r[key] for r in rows)
    for name, key, unit in (('inc', 'inc', 'ns'), ('observe', 'observe', 'ns'), ('delay.p99', 'delay_p99', 'ms'),
                            ('delay.max', 'delay_max', 'ms')):
        say(f'bind.node.{name}', middle(ours, key), unit, f'median of {TURNS} processes, one CPU', 'prom-client 15.1.3',
            middle(own, key), less_is_better=True)


main()
