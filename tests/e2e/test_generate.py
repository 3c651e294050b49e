#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The collector shows exactly the values that 'sidelight generate metrics' reports."""
import signal
import subprocess
import sys

from support.exposition import total
from support.process import alive, check, poll, wait_until, workdir
from support.sidelight import Agent, Collector, generate, report

sidelight = sys.argv[1]
d = workdir()
a = Agent(folder=d)
c = Collector([a], '--period', '5ms')


def shown(expect, service):
    """Returns the collector's sums, once they equal expect or a time has passed."""
    text = ''

    def equal():
        nonlocal text
        text = c.get('/metrics')
        return all(total(text, n, service=service) == v for n, v in expect.items())

    poll(equal)
    return {n: total(text, n, service=service) for n in expect}


# Every kind, several pods a process, several threads.
g = generate(a.socket, '--pods', '20', '--pods-per-process', '7', '--metrics', '30',
             '--threads', '3', '--updates', '700', '--kinds', 'counter,gauge,histogram',
             '--service', 'kinds', '--hold', '1h')
r = report(g)
check(r['complete'] and r['per_metric_total'] == 2100 and r['grand_total'] == 20 * 30 * 2100,
      f'the report adds up wrong: {r}', g)
check(r['expect']['generated_updates_total'] == 20 * 10 * 2100, f'counters: {r["expect"]}', g)
got = shown(r['expect'], 'kinds')
check(got == r['expect'], f'the collector shows {got}, the generator made {r["expect"]}', a, c, g)
text = c.get('/metrics')
check(total(text, 'generated_updates_total', service='kinds', pod='kinds-13', metric='6') == 2100,
      'one metric of one pod', c)
check(g.stop() == 0, 'SIGTERM while holding is a clean end', g)

# Pods that ended without a goodbye keep their last values for the agent's grace.
g = generate(a.socket, '--pods', '3', '--metrics', '5', '--updates', '1000', '--service',
             'gone')
check(g.wait() == 0, 'the generator failed', g)
r = report(g)
got = shown(r['expect'], 'gone')
check(got == r['expect'], f'last words: {got} instead of {r["expect"]}', a, c)

# The same seed observes the same sizes.
sums = []
for seed in ('7', '7', '8'):
    g = generate(a.socket, '--kinds', 'histogram', '--metrics', '2', '--updates', '50',
                 '--seed', seed, '--service', 'seed')
    check(g.wait() == 0, 'the generator failed', g)
    sums.append(report(g)['expect']['generated_size_bytes_sum'])
check(sums[0] == sums[1] != sums[2], f'seeds: {sums}')

# Stopped half way: the report says so, and its numbers are right.
g = generate(a.socket, '--pods', '2', '--metrics', '10', '--threads', '2', '--updates',
             '1000000000', '--rate', '5000', '--service', 'stopped')
g.ready()
wait_until(lambda: total(c.get('/metrics'), 'generated_updates_total', service='stopped'), 'nothing is counted', g, c)
check(g.stop(signal.SIGINT) == 0, 'SIGINT is a clean end', g)
r = report(g)
check(not r['complete'] and r['per_metric_total'] is None, f'it claims to be complete: {r}', g)
check(0 < r['grand_total'] <= 2 * 2 * 5000 * (r['elapsed_seconds'] + 0.1),
      f'the rate was not kept: {r}', g)
check(sum(p['total'] for p in r['per_pod']) == r['grand_total'], f'pods do not add up: {r}', g)
got = shown(r['expect'], 'stopped')
check(got == r['expect'], f'stopped: {got} instead of {r["expect"]}', a, c)

# Idle pods exist; their end is the end of the generator's parent, even by SIGKILL.
g = generate(a.socket, '--pods', '4', '--updates', '0', '--hold', '1h', '--service', 'idle')
check(report(g)['grand_total'] == 0, 'idle', g)
pids = [p['pid'] for p in report(g)['per_pod']]
g.stop(signal.SIGKILL)


wait_until(lambda: not any(map(alive, pids)), 'pods outlive a killed generator')

# No agent: one line, exit 1.
p = subprocess.run([sidelight, 'generate', 'metrics', '--socket', f'{d}/none', '--wait', '300ms'],
                   stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
check(p.returncode == 1 and p.stderr.count('\n') == 1 and not p.stdout,
      f'without an agent: {p.returncode} {p.stderr} {p.stdout}')
check(c.stop() == 0 and a.stop() == 0, 'agent and collector end cleanly', a, c)
