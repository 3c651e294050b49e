#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_bytes.py SIDELIGHT TRAFFIC - at most the share --trace-bytes of what was published is READ, also of traces whose
roots are half of it and of one that is all of it, and what is left out for that is counted."""
import os
import sys

from support.exposition import total
from support.process import Part, check, wait_until
from support.sidelight import Agent, Collector

traffic = sys.argv[2]
TRACES, SHARE, AHEAD = 40000 * int(os.environ.get('SL_TEST_SCALE', '1')), 0.2, 256 << 10
SPANS = 10000  # of a large trace


def of(c, name, **labels):
    return total(c.get('/metrics'), f'sidelight_trace_{name}_total', **labels)


def moved(c):
    return sum(of(c, 'read_bytes', part=part) for part in ('roots', 'index', 'spans'))


def stop(*parts):
    for part in parts:
        check(part.stop() == 0, 'it failed', part)


def many_small_ones():
    a = Agent()
    c = Collector([a], '--trace-head', '0.1')
    t = Part(traffic, a.socket, str(TRACES), '10000', 'small')
    t.ready()
    wait_until(lambda: of(c, 'published_spans') == TRACES, lambda: c.get('/metrics'), c)
    wait_until(lambda: of(c, 'roots') + of(c, 'lost', cause='bytes') + of(c, 'lost', cause='roots_overrun') >= TRACES,
               lambda: c.get('/metrics'), c)
    published = of(c, 'published_bytes')
    print(f'{moved(c):.0f} of {published:.0f} bytes moved')
    check(moved(c) <= SHARE * published + AHEAD, f'{moved(c)} of {published}', c)
    check(of(c, 'lost', cause='bytes') > TRACES / 10, 'no root is left out', c)
    check(of(c, 'kept') > 0, 'none is kept', c)
    stop(c, a)
    t.kill()


def a_large_one():
    a = Agent()
    c = Collector([a])
    t = Part(traffic, a.socket, str(SPANS), '1', 'large')
    t.ready()
    wait_until(lambda: of(c, 'published_spans') == SPANS and of(c, 'kept') == 1, lambda: c.get('/metrics'), c)
    # Each of its lines is read or left out, but for those of the index.
    wait_until(lambda: of(c, 'lost', cause='bytes') > 0, lambda: c.get('/metrics'), c)
    published = of(c, 'published_bytes')
    print(f'{moved(c):.0f} of {published:.0f} bytes moved, of one trace')
    check(moved(c) <= SHARE * published + AHEAD, f'{moved(c)} of {published}', c)
    check(of(c, 'read_bytes', part='spans') > 0, 'none of its spans are read', c)
    kept = c.api('traces')['traces'][0]
    check(kept['lost_lines'] > 0, kept, c)
    stop(c, a)
    t.kill()


many_small_ones()
a_large_one()
