#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""left_out.py NAME=SIDELIGHT... - was a constant fitted to the faults by which it is judged? Each SIDELIGHT is a build with
other constants; the first is the one that ships. For each kind of fault of both days, the build that finds most of all
other kinds is chosen (by recall at 2 % false positives on Online Boutique, at 5 % on Train Ticket; then by top-1; then
the first), and its hits on the kind left out are counted. Then the same with days in place of kinds."""
import collections
import json
import shutil
import sys
import tempfile

from days import DAYS, WINDOW, Day, threshold_at

BUILDS = dict(a.split('=', 1) for a in sys.argv[1:])

PERCENT = {'ob': 2, 'tt': 5}


def found(day, rows, percent):
    """[(kind, found, first in rank)] of the day's faults."""
    negatives = sorted(s for t, _, s, _ in rows if not day.within(t))
    threshold = threshold_at(negatives, percent)
    result = []
    for at, pod, kind in day.faults:
        worst = collections.defaultdict(lambda: -1)
        for t, p, s, _ in rows:
            if at <= t <= at + WINDOW:
                worst[p] = max(worst[p], s)
        others = max((s for p, s in worst.items() if p != pod), default=-1)
        result.append((kind, worst[pod] > threshold, worst[pod] > others))
    return result


def main():
    folder = tempfile.mkdtemp(prefix='sl-left-out-')
    try:
        days = {k: Day(None, folder, name) for k, name in DAYS.items()}
        faults = {}
        for name, exe in BUILDS.items():
            for day in days.values():
                day.exe = exe
            faults[name] = [(k, *f) for k, day in days.items()
                            for f in found(day, day.verdicts('combined'), PERCENT[k])]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    shipped = next(iter(BUILDS))
    for what, of in (('kind', lambda f: (f[0], f[1])), ('day', lambda f: f[0])):
        hits = first = n = 0
        chosen = {}
        for left in sorted({of(f) for f in faults[shipped]}):
            def worth(name):
                rest = [f for f in faults[name] if of(f) != left]
                return sum(f[2] for f in rest), sum(f[3] for f in rest)
            best = max(BUILDS, key=worth)
            chosen[' '.join(left) if what == 'kind' else left] = best
            mine = [f for f in faults[best] if of(f) == left]
            hits, first, n = hits + sum(f[2] for f in mine), first + sum(f[3] for f in mine), n + len(mine)
        all_ = faults[shipped]
        print(json.dumps({
            'name': f'detect.left_out.{what}', 'value': hits / n, 'unit': 'share', 'peer': 'as shipped',
            'peer_value': sum(f[2] for f in all_) / n, 'ratio': hits / max(1, sum(f[2] for f in all_)),
            'conditions': f'{n} faults of both days; top-1 {first / n:.2f}, as shipped '
            f'{sum(f[3] for f in all_) / n:.2f}; chosen with each left out: {chosen}'}), flush=True)
    for name in BUILDS:
        for k in days:
            mine = [f for f in faults[name] if f[0] == k]
            print(json.dumps({'name': f'detect.left_out.{k}.{name}', 'unit': 'share',
                              'value': sum(f[2] for f in mine) / len(mine),
                              'conditions': f'top-1 {sum(f[3] for f in mine) / len(mine):.2f}'}))


main()
