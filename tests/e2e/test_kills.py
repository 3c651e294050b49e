#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""4 threads make 100 million increments each of one counter, while agent and collector are killed
and restarted again and again: the collector's final sum is exactly 400 million, and it never
decreases on the way."""
import signal
import sys
import time

from support.exposition import series
from support.process import check, poll, wait_until, workdir
from support.sidelight import Agent, Collector, generate, report

sidelight = sys.argv[1]
d = workdir()
THREADS, UPDATES = 4, 100_000_000
WANTED = THREADS * UPDATES

begin = time.monotonic()
a = Agent(folder=d)
c = Collector([a], '--period', '1ms')
# Slow enough to be at it while the others die: at least 4 seconds, and more where it takes long to start them.
duration = max(4, 8 * (time.monotonic() - begin))
g = generate(a.socket, '--metrics', '1', '--threads', str(THREADS), '--updates', str(UPDATES),
             '--rate', str(int(UPDATES / duration)), '--hold', '1h', '--service', 'kills')
g.ready()
seen, kills = [], {'agent': 0, 'collector': 0}


def value():
    """Returns the collector's present value, or None if it does not know the series yet."""
    try:
        found = [v for n, labels, v in series(c.get('/metrics')) if n == 'generated_updates_total'
                 and labels['service'] == 'kills']
    except OSError:
        return None
    check(len(found) <= 1, f'one process gave several series: {found}', c)
    return found[0] if found else None


def look():
    v = value()
    if v is not None:
        check(not seen or v >= seen[-1], f'the counter went back: {seen[-1:]} -> {v}', a, c)
        seen.append(v)
    return v


start = time.monotonic()
while not g.out and time.monotonic() - start < 200:
    time.sleep(0.15)
    look()
    if sum(kills.values()) % 2:
        c.stop(signal.SIGKILL)
        c = Collector([a], '--period', '1ms')
        kills['collector'] += 1
    else:
        a.stop(signal.SIGKILL)
        time.sleep(0.1)
        a = Agent(folder=d)
        kills['agent'] += 1
    # Both find each other again within the promised second, plus a margin.
    poll(lambda: look() is not None, 60)
r = report(g, 120)
check(r['complete'] and r['grand_total'] == WANTED, f'the generator was stopped: {r}', g)
check(min(kills.values()) >= 2, f'no process was killed in between: {kills}', g)
wait_until(lambda: look() == WANTED, lambda: f'{seen[-1:]} is shown instead of {WANTED}', a, c, g, seconds=90)
check(any(0 < v < WANTED for v in seen), 'nothing was seen on the way')
print(f'{WANTED:,} increments, {kills["agent"]} agents and {kills["collector"]} collectors killed, '
      f'{len(seen)} readings')
g.stop()
