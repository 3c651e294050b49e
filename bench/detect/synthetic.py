#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""synthetic.py SIDELIGHT RIVALS [DETECTOR...] - how well made faults are found, in the fault-free hours of the recorded days. By default all detectors.

The first half of those hours is for training. In the second, about every 11 minutes, three rows of one pod are changed:
1, 2, 4 or 8 kinds of metrics, each by a factor of 1.2 to 5 (logarithmically even, one in four downwards; 0 becomes 1).
With every other fault the traffic and latencies of up to three other pods change by a factor of up to 2, as those of
callers do. A figure is the mean of bench_detect.py's over SETS draws of each day."""
import json
import math
import os
import random
import shutil
import statistics
import sys
import tempfile

from days import DAYS, RIVALS, SETTLE, WINDOW, Day, judge

SETS = 6
DETECTORS = ('combined', 'fd', 'threshold', 'autoencoder', *RIVALS)
# Columns of one kind: usage and its rate, the three quantiles of a latency.
KINDS = ((0, 1), (2, 3), (4,), (5,), (6,), (7,), (8, 10, 12), (9, 11, 13), (14,), (16,), (17,), (18,))
CALLERS = (6, 7, 9, 11, 13, 14)


def even(rng, low, high):
    return math.exp(rng.uniform(math.log(low), math.log(high)))


class Made(Day):
    """A day of made faults, out of the fault-free hours of a recorded one."""

    def __init__(self, day, folder, seed):
        rng, self.exe = random.Random(seed), day.exe
        header, times, table = {}, {}, {}
        for name in sorted(os.listdir(os.path.join(day.folder, 'metrics'))):
            with open(os.path.join(day.folder, 'metrics', name)) as f:
                lines = f.read().splitlines()
            rows = [line.split(',') for line in lines[1:]]
            first = len(rows) - sum(t > day.last_fault + SETTLE for t in day.times)
            header[name] = lines[0]
            times[name] = day.times[first:]
            table[name] = [r[1:] for r in rows[first:]]
        names, n = sorted(table), min(len(t) for t in table.values())
        half, self.faults = n // 2, []
        i = half + 12
        while i < n - 8:
            culprit = rng.choice(names)
            self.faults.append((times[culprit][i] - 5, culprit[:-4], 'made'))
            for kind in rng.sample(KINDS, rng.choice((1, 2, 4, 8))):
                factor = even(rng, 1.2, 5) ** rng.choice((1, 1, 1, -1))
                self.change(table[culprit], i, kind, factor)
            if rng.random() < 0.5:
                for other in rng.sample([x for x in names if x != culprit], 3):
                    factor = even(rng, 1.1, 2) ** rng.choice((1, -1))
                    self.change(table[other], i, CALLERS, factor)
            i += rng.randint(9, 13)
        self.folder = os.path.join(folder, 'made')
        os.makedirs(os.path.join(self.folder, 'metrics'))
        for name in names:
            with open(os.path.join(self.folder, 'metrics', name), 'w') as f:
                f.write(header[name] + '\n')
                for t, row in zip(times[name], table[name]):
                    f.write(f'{t},' + ','.join(row) + '\n')
        split = times[names[0]][half]
        self.train = f':{split - 30}'
        self.score = f'{split - 29}:{self.faults[-1][0] + WINDOW}'
        self.seconds = 0

    @staticmethod
    def change(rows, at, columns, factor):
        for row in rows[at:at + 3]:
            for c in columns:
                try:
                    v = float(row[c])
                except ValueError:
                    continue
                row[c] = repr(v * factor if v else float(factor > 1))


def main():
    Day.rivals = sys.argv[2]
    wanted = sys.argv[3:] or DETECTORS
    for short, name in DAYS.items():
        results = {d: [] for d in wanted}
        faults = 0
        for seed in range(SETS):
            folder = tempfile.mkdtemp(prefix='sl-synthetic-')
            try:
                made = Made(Day(sys.argv[1], folder, name), folder, seed)
                faults += len(made.faults)
                for d in wanted:
                    results[d].append(judge(made, made.verdicts(d)))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        for d in wanted:
            for key in (1, 2, 5, 'top1', 'top3'):
                print(json.dumps({'name': f'synthetic.{short}.{d}.{key}', 'unit': 'share',
                                  'value': round(statistics.mean(r[key] for r in results[d]), 3),
                                  'conditions': f'{faults} made faults in {SETS} draws'}), flush=True)


main()
