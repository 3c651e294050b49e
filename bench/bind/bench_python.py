#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_python.py BUILD [RECYCLED] - an update from Python, of our own interface and of prometheus_client that publishes,
beside prometheus_client's own, each in processes that take turns; and the time of a scrape after RECYCLED workers (7000)
have ended, beside the client's multiprocess mode."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from common.bench import ROOT, OTHERS, check, get, say, skip_peer, workdir  # noqa: E402
from support.sidelight import Agent, Collector, Pod  # noqa: E402
from support.process import wait_until  # noqa: E402
import support.sidelight  # noqa: E402

BUILD = sys.argv[1]
RECYCLED = int(sys.argv[2]) if len(sys.argv) > 2 else 7000
PYTHON = '/usr/bin/python3'
SCRIPT = os.path.join(ROOT, 'bench/bind/python.py')
TURNS = 7


def environment(socket, publish=False, pure=False, multiprocess=None):
    """As if the package were installed: sidelight.pth is read as well."""
    base = f'{workdir()}/base'
    env = {**os.environ, 'PYTHONUSERBASE': base, 'SIDELIGHT_SOCKET': socket, 'SIDELIGHT': str(int(publish)),
           'SIDELIGHT_PURE': str(int(pure)), 'SIDELIGHT_SERVICE': 'bench'}
    folder = subprocess.run([PYTHON, '-m', 'site', '--user-site'], env=env, stdout=subprocess.PIPE, text=True).stdout.strip()
    os.makedirs(os.path.dirname(folder))
    os.symlink(f'{BUILD}/bindings/python', folder)
    if multiprocess:
        env['PROMETHEUS_MULTIPROC_DIR'] = multiprocess
    return env


def update(socket):
    """The medians of processes that take turns, without what an empty call takes."""
    kinds = {
        'own': ('own', environment(socket)), 'pure': ('own', environment(socket, pure=True)),
        'dropin': ('client', environment(socket, publish=True)), 'mutex': ('client', environment(socket)),
        'dropin.pure': ('client', environment(socket, publish=True, pure=True)),
        'multiprocess': ('client', environment(socket, multiprocess=workdir())),
    }
    rows = {name: [] for name in kinds}
    for _ in range(TURNS):
        for name, (what, env) in kinds.items():
            said = subprocess.run(['taskset', '-c', str(OTHERS[0]), PYTHON, SCRIPT, what], check=True, stdout=subprocess.PIPE,
                                  env=env).stdout
            rows[name].append(json.loads(said))

    def middle(name, what):
        return statistics.median(r[what] - r['empty'] for r in rows[name])
    for ours, peer, mode in (('own', 'mutex', 'in one process'), ('pure', 'multiprocess', 'multiprocess mode'),
                             ('dropin', 'mutex', 'in one process'), ('dropin.pure', 'multiprocess', 'multiprocess mode')):
        for what in ('inc', 'observe'):
            say(f"bind.python.{'' if ours == 'own' else ours + '.'}{what}", middle(ours, what), 'us',
                f'median of {TURNS} processes, one CPU, 15 buckets', f'prometheus_client 0.16, {mode}', middle(peer, what),
                less_is_better=True)


def scrape(agent):
    """After a tenth of the workers, and after all of them."""
    collector = Collector([agent], '--sum-processes', '--period', '100ms')
    ours = Pod(PYTHON, SCRIPT, 'recycle', env=environment(agent.socket, publish=True))
    files = workdir()
    peer = Pod(PYTHON, SCRIPT, 'recycle', env=environment(agent.socket, multiprocess=files))
    found = {}
    for upto in (RECYCLED // 10, RECYCLED):
        some = upto - sum(v[0] for v in found.values())
        for done in range(0, some, 100):  # the agent keeps what has ended for a moment
            json.loads(ours.tell(min(100, some - done)))
            json.loads(peer.tell(min(100, some - done)))
            wait_until(lambda: len(agent.status()['regions']) < 500, 'ended regions go', agent)
        wait_until(lambda: collector.total('bench_requests_total') == 20 * upto,
                   lambda: f"{collector.total('bench_requests_total')}, not {20 * upto}", collector, ours)
        wait_until(lambda: len(agent.status()['regions']) < 3, 'ended regions go', agent)
        times = []
        for _ in range(30):
            start = time.perf_counter()
            get(collector.address, '/metrics')
            times.append((time.perf_counter() - start) * 1000)
        found[upto] = some, min(times), json.loads(peer.tell('scrape'))
    (_, first, first_peer), (_, last, last_peer) = found.values()
    where = f'/metrics after {RECYCLED} workers of 20 counters and 5 histograms ended, totals exact'
    mode = 'prometheus_client 0.16, multiprocess mode'
    say('bind.python.scrape', last, 'ms', where, mode, last_peer, less_is_better=True)
    say('bind.python.scrape.growth', last / first, 'times', f'{where}, by that after a tenth of them', mode,
        last_peer / first_peer, less_is_better=True)
    check(ours.close() == 0 and peer.close() == 0, 'an exit status', ours, peer)
    shutil.rmtree(files)
    collector.stop()


def main():
    if subprocess.run([PYTHON, '-c', 'import prometheus_client'], stderr=subprocess.DEVNULL).returncode:
        skip_peer('no python3-prometheus-client (scripts/setup bench)')
        return
    support.sidelight.EXE = f'{BUILD}/sidelight'
    agent = Agent()
    update(agent.socket)
    scrape(agent)
    agent.stop()


main()
