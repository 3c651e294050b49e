#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cluster.py SIDELIGHT NODE PACKAGES - eight workers of a cluster that uses prom-client, of which three are killed
at random: with --sum-processes the totals are those that they had written down, within one update for each kill."""
import os
import random
import re
import signal
import struct
import sys
import time

from support.process import Part, alive, check, skip, wait_until, workdir
from support.sidelight import Agent, Collector

NODE, PACKAGES = sys.argv[2:4]
HERE = os.path.dirname(os.path.abspath(__file__))
WORKERS, UPDATES, KILLS = 8, 20000, 3


def noted(folder):
    """{pid: (updates begun, done)} of the workers that have noted any."""
    out = {}
    for pid in os.listdir(folder):
        with open(os.path.join(folder, pid), 'rb') as f:
            out[int(pid)] = struct.unpack('<QQ', f.read(16).ljust(16, b'\0'))
    return out


def totals_noted(folder):
    return [sum(n) for n in zip(*noted(folder).values())] or [0, 0]


def main():
    if not os.path.isdir(os.path.join(HERE, 'node_modules', 'prom-client')):
        skip('no prom-client: scripts/setup test installs it')
    agent, folder = Agent(), workdir()
    collector = Collector([agent], '--sum-processes', '--period', '50ms')
    app = Part(NODE, '-r', 'sidelight/prom-client', os.path.join(HERE, 'cluster.js'), WORKERS, UPDATES, folder,
               env={'NODE_PATH': PACKAGES, 'SIDELIGHT_SOCKET': agent.socket, 'SIDELIGHT_SERVICE': 'shop'})
    pids = wait_until(lambda: len(app.out) >= WORKERS and [int(p) for p in app.out[:WORKERS]], 'the workers', app)
    wait_until(lambda: totals_noted(folder)[1] > UPDATES, 'updates', app)
    for pid in random.sample(pids, KILLS):
        time.sleep(random.random() / 5)
        os.kill(pid, signal.SIGKILL)

    def over():
        # A worker under load may not have begun when others are killed already.
        done = noted(folder)
        return all(done.get(p, (0, 0)) == (UPDATES, UPDATES) for p in pids if alive(p))
    wait_until(over, 'the end of the updates', app, seconds=300)
    begun, done = totals_noted(folder)
    check(begun - done <= KILLS, f'{begun} begun, {done} done')
    for name in ('shop_requests_total', 'shop_seconds_count'):
        wait_until(lambda: done <= collector.total(name) <= begun,
                   lambda: f'{name} is {collector.total(name)}, not {done} to {begun}', collector, app)
    time.sleep(1)
    totals = {n: collector.total(n) for n in ('shop_requests_total', 'shop_seconds_count')}
    check(all(done <= t <= begun for t in totals.values()), f'{totals}, later, not {done} to {begun}')
    check(all(re.search(r'service="shop"', k) for k in collector.find('shop_requests_total')), 'another service')
    print(f'{totals}, {done} to {begun} were noted')
    app.kill()
    check(collector.stop() == 0 and agent.stop() == 0, 'an exit status', collector, agent)


main()
