#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_row.py SIDELIGHT [PAIRS] - analyse.live.row: what a row costs the live collector, and what
that does to its deadlines. Collectors with and without --analyse take turns on the same pods."""
import os
import re
import statistics
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'collect'))
from bench_collect import CPUS, METRICS, Stage, real_time, say  # noqa: E402

PODS, SECONDS = 64, 10
PAIRS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
NAMES = ('analysis_busy_seconds_total', 'analysis_rows_total', 'collector_missed_deadlines_total',
         'collector_rounds_total', 'collector_busy_seconds_total', 'analysis_pods{state="warming_up"}')


def scrape(port):
    with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=30) as r:
        text = r.read().decode()
    found = dict(re.findall(r'^sidelight_(\S+?)(?:\{worker="0"\})? (\S+)$', text, re.M))
    return {n: float(found.get(n, 0)) for n in NAMES}


def run(s, first, *options):
    p = s.start('collect', '--agent', s.socket, '--listen', '127.0.0.1:0', '--period', '10ms',
                '--cpus', str(CPUS[0]), *options, cpus=CPUS[:1], first=first)
    port = s.wait(p.stdout)
    # Past the warm-up: a row costs most when each of them is learned.
    deadline = time.monotonic() + 120
    while True:
        time.sleep(1)
        before = scrape(port)
        if not options or (before[NAMES[1]] and not before[NAMES[5]]):
            break
        assert time.monotonic() < deadline, f'still warming up: {before}'
    time.sleep(SECONDS)
    after = scrape(port)
    assert not after[NAMES[5]], after
    p.terminate()
    p.communicate()
    return {n: after[n] - before[n] for n in NAMES}


def figure(name, what, kinds, first):
    on, off = [], []
    with Stage(PODS, '--updates', '4000000000', '--rate', '6400', '--kinds', kinds) as s:
        for _ in range(PAIRS):
            off.append(run(s, first))
            on.append(run(s, first, '--analyse', '--analyse-step', '100ms', '--warm-up', '5s'))
    rows = [1e6 * r['analysis_busy_seconds_total'] / r['analysis_rows_total'] for r in on]

    def missed(runs):  # a deadline is a round that began or one that was missed
        n = sum(r['collector_missed_deadlines_total'] for r in runs)
        return 100 * n / (n + sum(r['collector_rounds_total'] for r in runs))

    def busy(runs):
        return 100 * sum(r['collector_busy_seconds_total'] for r in runs) / (SECONDS * len(runs))
    say(name, round(statistics.median(rows), 1), 'us',
        f'{PODS} pods x {METRICS} {what}, read every 10 ms, each scored every 100 ms, after the '
        f'warm-up; wall time within analysis over rows (sidelight_analysis_busy_seconds), one core'
        f'{" (SCHED_FIFO)" if first else ""}, median of {PAIRS} runs of {SECONDS} s '
        f'({min(rows):.1f} to {max(rows):.1f}); deadlines missed: {missed(on):.2f} %, without '
        f'--analyse, in turns with it, {missed(off):.2f} %; busy {busy(on):.1f} % and {busy(off):.1f} %')


figure('analyse.live.row', 'counters', 'counter', real_time())
figure('analyse.live.row.mixed', 'counters, gauges and histograms', 'counter,gauge,histogram',
       real_time())
