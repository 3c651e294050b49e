#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""1,000 pods come and go 100 times: the memory of agent and collector returns to where it was, and
no descriptor and no region is left. Every tenth time the collector's sum is checked, too. (Queue
pairs and keys: tests/guest.)"""
import json
import os
import subprocess
import sys

from harness import SCALE, agent, check, collector, fail, generate, get, report, total, until, workdir

sidelight = sys.argv[1]
d = workdir()
PODS, ROUNDS = 1000, max(20, int(100 * min(SCALE, 10)))
HISTORY = 1024  # KiB; a budget, and filled as time goes by
a = agent(sidelight, d, '--grace', '200ms', '--lease', '100ms')
c, url = collector(sidelight, d, '--period', '20ms', '--history', f'{HISTORY}K')


def descriptors(part):
    return len(os.listdir(f'/proc/{part.pid}/fd'))


def resident(part):
    with open(f'/proc/{part.pid}/status') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('VmRSS'))


def mappings(part):
    """Of regions: memfds that are mapped."""
    with open(f'/proc/{part.pid}/maps') as f:
        return sum('memfd:' in line for line in f)


def at_rest(allowed):
    """What both hold once all pods are gone: nothing of them is mapped any more, and the allocator
    has given back what was theirs (asked for once in so many departures, and once a second)."""
    check(until(lambda: mappings(a) == rest_a and mappings(c) == rest_c, 90),
          f'mapped regions: agent {mappings(a)} of {rest_a}, collector {mappings(c)} of {rest_c}',
          a, c)
    check(until(lambda: descriptors(a) <= fds_a, 60), f'agent: {descriptors(a)} descriptors, '
          f'{fds_a} before', a)
    check(until(lambda: descriptors(c) <= fds_c, 60), f'collector: {descriptors(c)} descriptors, '
          f'{fds_c} before', c)
    for name, part, most in zip(('agent', 'collector'), (a, c), allowed):
        check(until(lambda: resident(part) <= most, 90),
              f'{name}: {resident(part)} KiB, {most} are allowed', a, c)
    return resident(a), resident(c)


get(url)  # whatever a first scrape opens is there
until(lambda: mappings(c) > 0, 5)
rest_a, rest_c, fds_a, fds_c = mappings(a), mappings(c), descriptors(a), descriptors(c) + 4
first = resident(a), resident(c)
# Tables grow to the largest number of pods, and stay so: that much from the start to the first look.
# After it nothing may grow: a leak of 30 bytes a pod would be 2.7 MiB.
allowed = first[0] + 4096, first[1] + HISTORY + 8192
for i in range(ROUNDS):
    look = i % 10 == 9
    g = generate(sidelight, d, '--pods', str(PODS), '--pods-per-process', '15', '--metrics', '4',
                 '--updates', '3', '--service', f'round{i}', '--wait', '60s',
                 *(['--hold', '1h'] if look else []))
    if look:
        wanted = report(g)['expect']['generated_updates_total']
        text = ''

        def whole():
            global text
            text = get(url)
            return total(text, 'generated_updates_total', service=f'round{i}') == wanted

        if not until(whole, 90):
            print('\n'.join(line for line in text.split('\n') if line.startswith('sidelight_') and
                            '_bucket' not in line and not line.endswith(' 0')))
            shown = total(text, 'generated_updates_total', service=f'round{i}')
            fail(f'round {i}: {shown} is shown instead of {wanted}', a, c, g)
        g.stop()
    else:
        check(g.wait() == 0, f'round {i}: the generator failed', g, a)
    if i == 9:
        settled = at_rest(allowed)
        allowed = settled[0] + 2048, settled[1] + HISTORY + 2048
end = at_rest(allowed)
check(until(lambda: total(get(url), 'generated_updates_total') == 0),
      'series of pods long gone are shown', c)
status = json.loads(subprocess.run(
    [sidelight, 'agent', '--status', '--json', '--socket', f'{d}/agent.sock'], check=True,
    stdout=subprocess.PIPE).stdout)
n, left = status['counters'], status['use']['regions']['used']
check(n['admitted'] == n['dead'] + n['closed'] == n['freed'] == PODS * ROUNDS and not left,
      f'the agent has {left} regions and counted {n}', a)
print(f'{ROUNDS} x {PODS} pods. Resident before, after 10 rounds, at '
      f'the end: agent {first[0]}, {settled[0]}, {end[0]} KiB; collector {first[1]}, {settled[1]}, '
      f'{end[1]} KiB. Descriptors: agent {fds_a}, {descriptors(a)}; collector {fds_c - 4}, '
      f'{descriptors(c)}. Regions: 0')
check(c.stop() == 0 and a.stop() == 0, 'agent and collector end cleanly', a, c)
