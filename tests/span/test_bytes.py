#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bytes.py SIDELIGHT TRAFFIC - at most the share --trace-bytes of what was published is READ, also of traces whose
roots are half of it, and what is left out for that is counted."""
import os
import sys

from support.exposition import total
from support.process import Part, check, wait_until
from support.sidelight import Agent, Collector

traffic = sys.argv[2]
TRACES, SHARE, AHEAD = 40000 * int(os.environ.get('SL_TEST_SCALE', '1')), 0.2, 256 << 10


def of(c, name, **labels):
    return total(c.get('/metrics'), f'sidelight_trace_{name}_total', **labels)


a = Agent()
c = Collector([a], '--trace-head', '0.1')
t = Part(traffic, a.socket, str(TRACES), '10000', 'small')
t.ready()
wait_until(lambda: of(c, 'published_spans') == TRACES, lambda: c.get('/metrics'), c)
wait_until(lambda: of(c, 'roots') + of(c, 'lost', cause='bytes') + of(c, 'lost', cause='roots_overrun') == TRACES,
           lambda: c.get('/metrics'), c)
published = of(c, 'published_bytes')
moved = sum(of(c, 'read_bytes', part=part) for part in ('roots', 'index', 'spans'))
print(f'{moved:.0f} of {published:.0f} bytes moved')
check(moved <= SHARE * published + AHEAD, f'{moved} of {published}', c)
check(of(c, 'lost', cause='bytes') > TRACES / 10, 'no root is left out', c)
check(of(c, 'kept') > 0, 'none is kept', c)
for part in (c, a):
    check(part.stop() == 0, 'it failed', part)
t.kill()
