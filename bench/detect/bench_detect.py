#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_detect.py SIDELIGHT [all|check] - how well faults are found, and what verdicts save, over recorded days (days.py).
"all": each figure of each detector. "check": the default detector alone; exit status 1 if a figure is worse than FLOORS."""
import bisect
import collections
import csv
import os
import shutil
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
import bench  # noqa: E402
from days import DAYS, NAMES, SETTLE, WINDOW, Day, judge  # noqa: E402

EXE = sys.argv[1]
ALL = 'all' in sys.argv[2:]
CHECK = 'check' in sys.argv[2:]
ROOT_BYTES = 64    # a trace's root record, always read
SPAN_BYTES = 128   # the least that a span takes in a region: two lines
DETECTORS = ('combined', 'fd', 'threshold', 'mad', 'ewma', 'cusum', 'autoencoder')
# A little below what is reached: a change for the worse fails.
FLOORS = {'detect.culprit.2pct': 0.62, 'detect.top1': 0.74, 'detect.trainticket.culprit.5pct': 0.42,
          'detect.trainticket.top3': 0.1, 'trace.verdict': 0.53, 'trace.verdict.trainticket': 0.2,
          'trace.retro': 0.99,
          'trace.retro.trainticket': 0.99}
CEILINGS = {'trace.retro.bytes': 0.17, 'sample.volume': 0.02, 'sample.volume.left_out': 0,
            'sample.volume.trainticket.left_out': 0}
seen = {}
PEER = 'MicroView FD in numpy'


def say(name, value, unit, conditions, *peer, **more):
    seen[name] = value
    bench.say(name, value, unit, conditions, *peer, **more)


def peer_verdicts(day):
    """What MicroView's detector scores, or None without numpy: trained and scored on the same rows as ours."""
    if CHECK:
        return None
    missing = bench.numpy_missing()
    if missing:
        bench.skip_peer(missing)
        return None
    import numpy as np
    from microview import Detector
    found = []
    for name in sorted(os.listdir(os.path.join(day.folder, 'metrics'))):
        table = np.genfromtxt(os.path.join(day.folder, 'metrics', name), delimiter=',', skip_header=1)
        times, rows = table[:, 0], np.nan_to_num(table[:, 1:])
        if not day.first <= times[0] <= day.last:  # a broken clock: rows come each minute all the same
            times = np.array(day.times[:len(times)])
            rows = rows[:len(times)]
        training = rows[times > day.last_fault + SETTLE]
        detector = Detector(training, 99)
        for t, row in zip(times, rows):
            if t <= day.last_fault + WINDOW:
                found.append((int(t), name[:-4], *detector.score(row)))
    return found


def summary(r):
    return (f'culprit recall at 1/2/5 % false positives {r[1]:.2f}/{r[2]:.2f}/{r[5]:.2f}, top-1 {r["top1"]:.2f}, top-3 '
            f'{r["top3"]:.2f}, median delay at 2 % {r["delay2"]} s, flagged outside of windows {100 * r["flagged"]:.1f} %')


def detection(days):
    theirs = {short: peer_verdicts(day) for short, day in days.items()}
    theirs = {short: judge(days[short], rows) for short, rows in theirs.items() if rows}
    for detector in DETECTORS[:1] if CHECK else DETECTORS:
        for short, day in days.items():
            r = judge(day, day.verdicts(detector))
            peer = theirs.get(short)
            what = (f'{detector}, {NAMES[short]} {DAYS[short]}: {summary(r)}, at a budget of 1 per hour and pod (1.7 %)' +
                    (f'; the peer: {summary(peer)}' if peer and detector == 'combined' else ''))
            if detector == 'combined':
                names = ((2, 'detect.culprit.2pct'), ('top1', 'detect.top1')) if short == 'ob' else (
                    (5, 'detect.trainticket.culprit.5pct'), ('top3', 'detect.trainticket.top3'))
                for key, name in names:
                    say(name, r[key], 'share', what, *((PEER, peer[key]) if peer else ()))
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
                    f'{ROOT_BYTES} bytes per trace always, {SPAN_BYTES} per span of kept ones, against '
                    f'every span exported', 'tail sampling', 1, less_is_better=True)


def held(values, at, rows=None):
    """Mean distance, in deviations, of the values from the last sample, over these rows or all after the first sample."""
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
    """What the collector's sampler sends (replay --sample): one row in `every`, and all rows from `around` rows before an
    anomaly to as many after it. The budget is one false alarm per day and pod; what is flagged is sent in full."""
    every, around = 120, 2
    for short, day in days.items():
        path = os.path.join(day.folder, 'sample.csv')
        # Rows are a minute apart, plus or minus a second, so half a row is added to a number of rows.
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
        what = (f'{NAMES[short]} {DAYS[short]}, the whole day, through the collector\'s sampler '
                f'(sidelight replay --sample): one sample in {every} rows, and from {around} rows before '
                f'an anomaly to {around} after; budget one false alarm per day and pod; {sent} of {total} '
                f'rows sent, {missed} of {len(flagged)} rows above the threshold left out, {caught} of '
                f'{len(day.faults)} faults at full resolution')
        say(name, sent / total, 'share', what)
        for part, where in (('', 'all rows'), ('.faults', 'rows of the injected pod in fault windows')):
            say(name + '.error' + part, statistics.mean(error['adaptive', part]), 'deviations',
                f'mean error of holding the last sample until the next, over all metrics and {where}; '
                f'the peer is the same number of samples evenly spread', 'uniform sampling',
                statistics.mean(error['uniform', part]), less_is_better=True)
        seen[name + '.left_out'] = missed


def main():
    folder = tempfile.mkdtemp(prefix='sl-detect-')
    try:
        days = {short: Day(EXE, folder, name) for short, name in DAYS.items()}
        detection(days)
        traces(days)
        volume(days)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    worse = [name for name, floor in FLOORS.items() if seen[name] < floor]
    worse += [name for name, ceiling in CEILINGS.items() if seen[name] > ceiling]
    if CHECK and worse:
        print('below FLOORS or above CEILINGS:', ', '.join(worse), file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
