#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""200 publishers ('make soak': 2,000) attach and are killed within seconds, while another one counts. Its counts are exact,
each death is seen once, and nothing is left: test_deaths.py SIDELIGHT"""
import os
import signal
import time

from support.exposition import total
from support.hostile import HostileRegion, schema
from support.process import SCALE, check, wait_until
from support.protocol import Client
from support.sidelight import Agent, Collector, generate, report

N, AT_ONCE = 2000 if SCALE > 1 else 200, 16
records = schema([f'brief{i}_total' for i in range(100)])


def live_and_die(agent):
    pid = os.fork()
    if not pid:
        try:
            Client(agent.socket).publish(HostileRegion(records, 15))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    return pid


def mappings(part):
    with open(f'/proc/{part.pid}/maps') as f:
        return sum('memfd:' in line for line in f)


with Agent('--grace', '200ms', '--lease', '100ms') as a, Collector([a], '--period', '5ms') as c:
    g = generate(a.socket, '--pods', '1', '--metrics', '4', '--updates', '100000', '--hold', '1h')
    wanted = report(g)['expect']['generated_updates_total']
    wait_until(lambda: total(c.get('/metrics'), 'generated_updates_total') == wanted, 'its counts', a, c, g)
    before, rest = a.status()['counters'], (mappings(a), mappings(c), a.descriptors())
    begun, children = time.monotonic(), []
    for _ in range(N):
        children.append(live_and_die(a))
        if len(children) == AT_ONCE:
            os.waitpid(children.pop(0), 0)
    for pid in children:
        os.waitpid(pid, 0)
    took = time.monotonic() - begun

    def since(name):
        return a.status()['counters'][name] - before[name]
    wait_until(lambda: since('freed') == N, lambda: f'{since("freed")} of {N} are freed', a)
    check(since('admitted') == since('dead') == N, f'{since("admitted")} admitted, {since("dead")} dead', a)
    wait_until(lambda: (mappings(a), mappings(c)) <= rest[:2] and a.descriptors() <= rest[2],
               lambda: f'{rest} became {mappings(a), mappings(c), a.descriptors()}', a, c)
    text = c.get('/metrics')
    check(total(text, 'generated_updates_total') == wanted, 'the counts of the other', c)
    wait_until(lambda: 'brief' not in c.get('/metrics'), 'series of the dead are shown', c)
    g.stop()
print(f'{N} publishers attached and died within {took:.1f} s')
