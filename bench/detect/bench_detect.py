#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_detect.py SIDELIGHT [all|check] - how well faults are found, and what verdicts save, over recorded
days (data/README.md): one JSON object a line. With "all", each figure of each detector. With "check", the default detector alone, and
exit status 1 if a figure is worse than FLOORS.

Definitions. A fault's window is the WINDOW seconds from its injection: the faults of these data last
about three minutes, and rows come each minute. Training is on the hours after the last fault, which
are free of them; what is scored goes from the first row to the end of the last window, so no row is
both. A false positive is a row of any pod outside of all windows whose score exceeds the threshold;
the threshold at x % is the lowest score that x % of those rows exceed. Recall is the share of faults
whose injected pod has a row above the threshold within the window. Top-k: fewer than k other pods have
a score in the window as high as the injected one's highest; ties count against us. The truth,
faults.csv, is moved away before the detector runs."""
import bisect
import collections
import csv
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile

EXE = sys.argv[1]
ALL = 'all' in sys.argv[2:]
CHECK = 'check' in sys.argv[2:]
HERE = os.path.dirname(os.path.abspath(__file__))
WINDOW = 240
SETTLE = 600       # after the last fault, before training begins
ROOT_BYTES = 64    # a trace's root record, always read
SPAN_BYTES = 128   # the least that a span takes in a region: two lines
DETECTORS = ('combined', 'fd', 'threshold', 'mad', 'ewma', 'cusum', 'autoencoder')
DAYS = {'ob': '2022-08-22', 'tt': '2023-01-29'}
NAMES = {'ob': 'Online Boutique', 'tt': 'Train Ticket'}
# A little below what is reached, so that only a change for the worse is a failure.
FLOORS = {'detect.culprit.2pct': 0.62, 'detect.top1': 0.74, 'detect.trainticket.culprit.5pct': 0.42,
          'detect.trainticket.top3': 0.1, 'trace.verdict': 0.53, 'trace.verdict.trainticket': 0.2,
          'trace.retro': 0.99,
          'trace.retro.trainticket': 0.99}
CEILINGS = {'trace.retro.bytes': 0.17, 'sample.volume': 0.02, 'sample.volume.left_out': 0,
            'sample.volume.trainticket.left_out': 0}
seen = {}
# What MicroView's detector as documented and the best simple statistic reach, from issue 3.
PEER = 'MicroView FD as documented'
PEERS = {'detect.culprit.2pct': 0.12, 'detect.top1': 0.17, 'detect.trainticket.culprit.5pct': 0.11,
         'detect.trainticket.top3': 0.04}


def say(name, value, unit, conditions, peer=None, peer_value=None):
    seen[name] = value
    ratio = value / peer_value if peer_value else None
    print(json.dumps({'name': name, 'value': value, 'unit': unit, 'peer': peer,
                      'peer_value': peer_value, 'ratio': ratio, 'conditions': conditions}),
          flush=True)


class Day:
    def __init__(self, folder, name):
        with tarfile.open(os.path.join(HERE, 'data', name + '.tar.xz')) as tar:
            # The archives are our own; 3.11.2 of Debian 12 may know no filter.
            tar.extractall(folder, **({'filter': 'data'} if hasattr(tarfile, 'data_filter') else {}))
        self.folder = os.path.join(folder, name)
        truth = os.path.join(folder, name + '.faults.csv')
        os.rename(os.path.join(self.folder, 'faults.csv'), truth)
        with open(truth) as f:
            self.faults = [(int(r['inject_unix_s']), r['pod'], r['type']) for r in csv.DictReader(f)]
        times = []
        for metrics in os.listdir(os.path.join(self.folder, 'metrics')):
            with open(os.path.join(self.folder, 'metrics', metrics)) as f:
                times.append([int(line.split(',', 1)[0]) for line in list(f)[1:]])
        # The median over pods: one of them has a broken clock.
        self.first = statistics.median_low(t[0] for t in times)
        self.last = statistics.median_low(t[-1] for t in times)
        self.pods, self.rows = len(times), statistics.median_low(len(t) for t in times)
        self.last_fault = self.faults[-1][0]
        self.times = next(t for t in times if t[0] == self.first and t[-1] == self.last)
        self.train = f'{self.last_fault + SETTLE}:{self.last}'
        self.score = f'{self.first}:{self.last_fault + WINDOW}'
        self.seconds = 0

    def replay(self, *args, score=None):
        out = os.path.join(self.folder, 'out.csv')
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([EXE, 'replay', self.folder, '--train', self.train, '--score',
                        score or self.score, *(a if a != 'OUT' else out for a in args)], check=True,
                       stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        with open(out) as f:
            return list(csv.DictReader(f))

    def within(self, t):
        return any(at <= t <= at + WINDOW for at, _, _ in self.faults)

    def verdicts(self, detector, *args, **more):
        return [(int(r['unix_s']), r['pod'], float(r['score']), r['anomalous'] == '1')
                for r in self.replay('--detector', detector, '--verdicts', 'OUT', *args, **more)]


def judge(day, rows):
    negatives = sorted(s for t, _, s, _ in rows if not day.within(t))
    by_pod = collections.defaultdict(list)
    for t, pod, s, _ in rows:
        by_pod[pod].append((t, s))
    r = {'flagged': sum(a for t, _, _, a in rows if not day.within(t)) / len(negatives)}
    for percent in (1, 2, 5):
        threshold = negatives[min(len(negatives) - 1, -int(-len(negatives) * (1 - percent / 100) // 1))]
        hits, delays = 0, []
        for at, pod, _ in day.faults:
            first = next((t for t, s in by_pod[pod] if at <= t <= at + WINDOW and s > threshold), None)
            if first is not None:
                hits += 1
                delays.append(first - at)
        r[percent] = hits / len(day.faults)
        r[f'delay{percent}'] = statistics.median(delays) if delays else None
    for k in (1, 3):
        r[f'top{k}'] = 0
    for at, pod, _ in day.faults:
        worst = {p: max((s for t, s in by_pod[p] if at <= t <= at + WINDOW), default=-1)
                 for p in by_pod}
        rank = sum(s >= worst.get(pod, -1) for s in worst.values()) - (pod in worst)
        for k in (1, 3):
            r[f'top{k}'] += (rank < k) / len(day.faults)
    return r


def detection(days):
    for detector in DETECTORS[:1] if CHECK else DETECTORS:
        for short, day in days.items():
            r = judge(day, day.verdicts(detector))
            what = (f'{detector}, {NAMES[short]} {DAYS[short]}: culprit recall at 1/2/5 % false '
                    f'positives {r[1]:.2f}/{r[2]:.2f}/{r[5]:.2f}, top-1 {r["top1"]:.2f}, top-3 '
                    f'{r["top3"]:.2f}, median delay at 2 % {r["delay2"]} s, flagged outside of windows '
                    f'{100 * r["flagged"]:.1f} % at a budget of 1 an hour and pod (1.7 %)')
            if detector == 'combined':
                names = ((2, 'detect.culprit.2pct'), ('top1', 'detect.top1')) if short == 'ob' else (
                    (5, 'detect.trainticket.culprit.5pct'), ('top3', 'detect.trainticket.top3'))
                for key, name in names:
                    say(name, r[key], 'share', what, PEER, PEERS[name])
                say(f'detect.{short}.replay', day.seconds, 's',
                    f'CPU time of the whole of sidelight replay: {day.pods} pods, {day.rows} rows each')
            else:
                key, name = (2, '2pct') if short == 'ob' else (5, '5pct')
                say(f'detect.{short}.{detector}.{name}', r[key], 'share', what)
            if ALL:
                for key in (1, 2, 5, 'delay2', 'top1', 'top3'):
                    say(f'all.{short}.{detector}.{key}', r[key], 's' if key == 'delay2' else 'share', '')


def traces(days):
    for short, day in days.items():
        with open(os.path.join(day.folder, 'traces.csv')) as f:
            rows = list(csv.DictReader(f))
        sets = collections.defaultdict(list)
        for r in rows:
            r['s'] = int(r['end_unix_ns']) - int(r['start_unix_ns'])
            sets[r['pods']].append(r['s'])
        medians = {k: statistics.median(v) for k, v in sets.items() if len(v) >= 20}
        symptomatic = {r['trace_id'] for r in rows
                       if r['pods'] in medians and r['s'] > 5 * medians[r['pods']]}
        spans = {r['trace_id']: int(r['spans']) for r in rows}
        total = sum(spans.values())
        for name, args in (('trace.verdict', ('--no-latency', '--budget', '0.2')),
                           ('trace.retro', ('--budget', '0.15'))):
            kept = {r['trace_id'] for r in day.replay('--keep', 'OUT', *args) if r['kept'] == '1'}
            share = len(kept & symptomatic) / len(symptomatic)
            moved = (ROOT_BYTES * len(rows) + SPAN_BYTES * sum(spans[t] for t in kept)) / (
                SPAN_BYTES * total)
            what = (f'{NAMES[short]} {DAYS[short]}: {len(kept) / len(rows):.3f} of {len(rows)} traces '
                    f'kept, {len(symptomatic)} symptomatic (over 5 times the median of their set of '
                    f'pods, sets of 20 and more), {moved:.3f} of the bytes moved')
            full = name if short == 'ob' else name + '.trainticket'
            peer = ('head sampling', len(kept) / len(rows)) if name == 'trace.verdict' else (None, None)
            say(full, share, 'share', what, *peer)
            if name == 'trace.retro':
                say(full + '.bytes', moved, 'share',
                    f'{ROOT_BYTES} bytes a trace always, {SPAN_BYTES} a span of kept ones, against '
                    f'every span exported', 'tail sampling', 1)


def held(values, at, rows=None):
    """Mean distance from what the last sample said, in deviations, over these rows or all; before
    the first sample, nothing is said."""
    known = [x for x in values if x is not None]
    spread = statistics.pstdev(known) if len(known) > 1 else 0
    if spread == 0 or not at:
        return None
    errors = []
    for i in rows or range(len(values)):
        if i < at[0] or i >= len(values):
            continue
        last = values[at[bisect.bisect_right(at, i) - 1]]
        if values[i] is not None and last is not None:
            errors.append(abs(values[i] - last))
    return sum(errors) / len(errors) / spread if errors else None


def volume(days):
    """What the collector's own sampler would send (replay --sample): one sample in EVERY rows of a
    minute, and all rows from AROUND rows before an anomaly to as many after it. The budget is one
    false alarm a day and pod: what is flagged is stored in full."""
    every, around = 120, 2
    for short, day in days.items():
        path = os.path.join(day.folder, 'sample.csv')
        # Rows are a minute apart, give or take a second: half a row more is as many rows.
        rows = day.verdicts('combined', '--false-alarms', str(1 / 24), '--sample', path,
                            '--sample-every', f'{every * 60}s', '--sample-around',
                            f'{around * 60 + 30}s', score=f'{day.first}:{day.last}')
        place, flagged = collections.defaultdict(dict), set()
        for t, pod, _, anomalous in rows:
            place[pod][t] = len(place[pod])
            if anomalous:
                flagged.add((pod, t))
        sampled = {pod: [] for pod in place}
        with open(path) as f:
            for r in csv.DictReader(f):
                sampled[r['pod']].append(place[r['pod']][int(r['unix_s'])])
        sent, total = sum(map(len, sampled.values())), len(rows)
        missed = sum(place[pod][t] not in sampled[pod] for pod, t in flagged)
        caught = sum(any((pod, t) in flagged for t in place[pod] if at <= t <= at + WINDOW)
                     for at, pod, _ in day.faults)
        error = {(how, part): [] for how in ('adaptive', 'uniform') for part in ('', '.faults')}
        for pod, at in sampled.items():
            with open(os.path.join(day.folder, 'metrics', pod + '.csv')) as f:
                table = [line.rstrip('\n').split(',')[1:] for line in list(f)[1:]]
            table = table[:min(len(table), len(place[pod]))]
            evenly = list(range(at[0], len(table), max(1, round(len(table) / len(at))))) if at else []
            within = [i for t, i in place[pod].items()
                      if any(pod == culprit and begin <= t <= begin + WINDOW
                             for begin, culprit, _ in day.faults)]
            for column in zip(*table):
                values = [float(x) if x not in ('', 'nan', 'NaN') else None for x in column]
                for how, where in (('adaptive', at), ('uniform', evenly)):
                    for part, some in (('', None), ('.faults', within)):
                        e = held(values, where, some) if some or not part else None
                        if e is not None:
                            error[how, part].append(e)
        name = 'sample.volume' if short == 'ob' else 'sample.volume.trainticket'
        what = (f'{NAMES[short]} {DAYS[short]}, the whole day, through the collector\'s own sampler '
                f'(sidelight replay --sample): one sample in {every} rows, and from {around} rows before '
                f'an anomaly to {around} after; budget one false alarm a day and pod; {sent} of {total} '
                f'rows sent, {missed} of {len(flagged)} rows above the threshold left out, {caught} of '
                f'{len(day.faults)} faults at full resolution')
        say(name, sent / total, 'share', what)
        for part, where in (('', 'all rows'), ('.faults', 'rows of the injected pod in fault windows')):
            say(name + '.error' + part, statistics.mean(error['adaptive', part]), 'deviations',
                f'mean error of holding the last sample until the next, over all metrics and {where}; '
                f'the peer is the same number of samples evenly spread', 'uniform sampling',
                statistics.mean(error['uniform', part]))
        seen[name + '.left_out'] = missed


def main():
    folder = tempfile.mkdtemp(prefix='sl-detect-')
    try:
        days = {short: Day(folder, name) for short, name in DAYS.items()}
        detection(days)
        traces(days)
        volume(days)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    worse = [name for name, floor in FLOORS.items() if seen[name] < floor]
    worse += [name for name, ceiling in CEILINGS.items() if seen[name] > ceiling]
    if CHECK and worse:
        print('worse than it was:', ', '.join(worse), file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
