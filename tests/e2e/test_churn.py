#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""1,000 pods come and go 30 times (300 times in a soak): the memory of agent and collector returns to its start, and no
descriptor and no region is left. Every tenth time the collector's sum is checked as well. (Queue
pairs and keys: tests/guest.)"""
import sys

from support.exposition import total
from support.process import SCALE, check, fail, poll, wait_until, workdir
from support.sidelight import Agent, Collector, generate, report

sidelight = sys.argv[1]
d = workdir()
PODS, ROUNDS = 1000, max(30, int(30 * min(SCALE, 10)))
HISTORY = 1024  # KiB; a budget, and filled as time goes by
a = Agent('--grace', '200ms', '--lease', '100ms', folder=d)
c = Collector([a], '--period', '20ms', '--history', f'{HISTORY}K')


def resident(part):
    return part.resident_bytes() >> 10


def mappings(part):
    """Returns the number of mapped memfds, which are regions."""
    with open(f'/proc/{part.pid}/maps') as f:
        return sum('memfd:' in line for line in f)


def at_rest(allowed):
    """What both hold once all pods are gone: nothing of them is mapped any more, and the allocator
    has given back what was theirs (asked for after some departures, and once per second)."""
    wait_until(lambda: mappings(a) == rest_a and mappings(c) == rest_c,
               lambda: f'mapped regions: agent {mappings(a)} of {rest_a}, collector {mappings(c)} of {rest_c}', a, c, seconds=90)
    wait_until(lambda: a.descriptors() <= fds_a, lambda: f'agent: {a.descriptors()} descriptors, '
          f'{fds_a} before', a)
    wait_until(lambda: c.descriptors() <= fds_c, lambda: f'collector: {c.descriptors()} descriptors, '
          f'{fds_c} before', c)
    for name, part, most in zip(('agent', 'collector'), (a, c), allowed):
        wait_until(lambda: resident(part) <= most, lambda: f'{name}: {resident(part)} KiB, {most} are allowed', a,
                   c, seconds=90)
    return resident(a), resident(c)


c.get('/metrics')  # the first scrape has opened everything it needs
poll(lambda: mappings(c) > 0, 5)
rest_a, rest_c, fds_a, fds_c = mappings(a), mappings(c), a.descriptors(), c.descriptors() + 4
first = resident(a), resident(c)
# Tables grow to the largest number of pods, and stay so: that much from the start to the first look.
# After it nothing may grow: a leak of 250 bytes per pod would be 2.4 MiB, and in a soak one of 10 bytes.
allowed = first[0] + 4096, first[1] + HISTORY + 8192
settled = 0, 0
for i in range(ROUNDS):
    look = i % 10 == 9
    g = generate(a.socket, '--pods', str(PODS), '--pods-per-process', '15', '--metrics', '4',
                 '--updates', '3', '--service', f'round{i}', '--wait', '60s',
                 *(['--hold', '1h'] if look else []))
    if look:
        wanted = report(g)['expect']['generated_updates_total']
        text = ''

        def whole():
            global text
            text = c.get('/metrics')
            return total(text, 'generated_updates_total', service=f'round{i}') == wanted

        if not poll(whole, 90):
            print('\n'.join(line for line in text.split('\n') if line.startswith('sidelight_') and
                            '_bucket' not in line and not line.endswith(' 0')))
            shown = total(text, 'generated_updates_total', service=f'round{i}')
            fail(f'round {i}: {shown} is shown instead of {wanted}', a, c, g)
        g.stop()
    else:
        check(g.wait() == 0, f'round {i}: the generator failed', g, a)
    if i in (9, 19):  # a single look might come just after tables of 1,000 pods were returned
        settled = tuple(map(max, settled, at_rest(allowed)))
        allowed = (settled[0] + 2048, settled[1] + HISTORY + 2048) if i == 19 else allowed
end = at_rest(allowed)
wait_until(lambda: total(c.get('/metrics'), 'generated_updates_total') == 0, 'series of pods long gone are shown', c)
status = a.status()
n, left = status['counters'], status['use']['regions']['used']
check(n['admitted'] == n['dead'] + n['closed'] == n['freed'] == PODS * ROUNDS and not left,
      f'the agent has {left} regions and counted {n}', a)
print(f'{ROUNDS} x {PODS} pods. Resident before, after 20 rounds, at '
      f'the end: agent {first[0]}, {settled[0]}, {end[0]} KiB; collector {first[1]}, {settled[1]}, '
      f'{end[1]} KiB. Descriptors: agent {fds_a}, {a.descriptors()}; collector {fds_c - 4}, '
      f'{c.descriptors()}. Regions: 0')
check(c.stop() == 0 and a.stop() == 0, 'agent and collector end cleanly', a, c)
