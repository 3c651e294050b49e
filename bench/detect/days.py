# SPDX-License-Identifier: Apache-2.0
"""Recorded days with injected faults (data/README.md), and how verdicts about them are judged.

- A fault's window is the WINDOW seconds from its injection: these faults last about three minutes, and rows come each
  minute.
- Training is on the hours after the last fault, which are free of faults; scoring is from the first row to the end of the
  last window, so no row is in both.
- A false positive is a row of any pod outside all windows whose score exceeds the threshold. The threshold at x % is the
  lowest score that x % of those rows exceed.
- Recall is the share of faults whose injected pod has a row above the threshold within the window.
- Some injections are not listed, and their rows count as negatives. The schedule is regular: where the distance between two
  faults is a multiple of the usual one, the times between are suspected. Figures are given with and without these windows.
- Top-k: fewer than k other pods have a score in the window as high as the injected pod's highest; ties count against it.

The truth, faults.csv, is moved away before a detector runs."""
import collections
import csv
import os
import random
import resource
import statistics
import subprocess
import tarfile

import recording

HERE = os.path.dirname(os.path.abspath(__file__))
WINDOW = 240
SETTLE = 600  # after the last fault, before training begins
DAYS = {'ob': '2022-08-22', 'tt': '2023-01-29'}
NAMES = {'ob': 'Online Boutique', 'tt': 'Train Ticket'}


def unlisted(times):
    """Times that the gaps of a schedule suggest: evenly between two injections that are 1.5 times as far apart as usual."""
    gaps = [b - a for a, b in zip(times, times[1:])]
    usual, found = statistics.median(gaps), []
    for at, gap in zip(times, gaps):
        n = round(gap / usual) if gap > 1.5 * usual else 1
        found += [at + gap * k / n for k in range(1, n)]
    return found


RIVALS = ('logsum', 'pca', 'mad', 'ewma', 'cusum')


class Day:
    acts = None    # the program of acts.c
    rivals = None  # of rivals.c

    def __init__(self, exe, folder, name):
        self.exe = exe
        with tarfile.open(os.path.join(HERE, 'data', name + '.tar.xz')) as tar:
            # Python 3.11.2 of Debian 12 has no filters.
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
        # The median over pods, one of which has a broken clock.
        self.first = statistics.median_low(t[0] for t in times)
        self.last = statistics.median_low(t[-1] for t in times)
        self.pods, self.rows = len(times), statistics.median_low(len(t) for t in times)
        self.last_fault = self.faults[-1][0]
        self.suspected = unlisted([at for at, _, _ in self.faults])
        self.times = next(t for t in times if t[0] == self.first and t[-1] == self.last)
        self.train = f'{self.last_fault + SETTLE}:{self.last}'
        self.score = f'{self.first}:{self.last_fault + WINDOW}'
        self.seconds = 0

    def recording(self, spans):
        """The recording of the day with these spans, or those that it has; made when it is first asked for."""
        at = os.path.join(self.folder, 'recording-' + os.path.basename(spans or ''))
        if not os.path.exists(at):
            self.step_ns = recording.convert(self.folder, at, spans, say=lambda text: None)
        return at

    def replay(self, *args, score=None, spans=None, exe=None):
        out, folder = os.path.join(self.folder, 'out.csv'), self.recording(spans)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*(exe or (self.exe, 'replay')), folder, '--train', self.train, '--score', score or self.score, '--verdicts', out,
                        *args], check=True, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        with open(out) as f:
            return list(csv.DictReader(f))

    def act(self, lines, *args):
        return subprocess.run([self.acts, *map(str, args)], input=''.join(lines), check=True, stdout=subprocess.PIPE,
                              text=True).stdout.splitlines()

    def kept(self, budget, latency):
        """The traces that the collector's policy keeps by the verdicts of the last two rows, and by latency or not."""
        verdicts = [(int(r['unix_s']) * 10**9, r['pod'], float(r['score']), float(r['suspicion'])) for r in self.replay()]
        with open(os.path.join(self.folder, 'traces.csv')) as f:
            traces = list(csv.DictReader(f))
        at = 'end_unix_ns' if latency else 'start_unix_ns'
        traces.sort(key=lambda t: int(t[at]))
        recent, lines, n = collections.defaultdict(lambda: collections.deque(maxlen=2)), [], 0
        for t in traces:
            now = int(t[at])
            while n < len(verdicts) and verdicts[n][0] <= now:
                recent[verdicts[n][1]].append(verdicts[n])
                n += 1

            def most(pod, what):
                return max((v[what] for v in recent[pod] if v[0] >= now - 3 * self.step_ns), default=0)
            pods = t['pods'].split('|')
            lines.append('\t'.join(map(str, (
                t['trace_id'], t['root_pod'], t['root_operation'], t['pods'], int(t['end_unix_ns']) - int(t['start_unix_ns']),
                most(t['root_pod'], 2), max(most(p, 2) for p in pods), '|'.join(str(most(p, 3)) for p in pods)))) + '\n')
        return {t['trace_id'] for t, why in zip(traces, self.act(lines, 'traces', budget, int(latency))) if why}

    def sampled(self, rows, every, around):
        """[(pod, time)] of the rows that the collector's sampler sends; rows are those of verdicts(), every and around seconds."""
        pods = sorted({pod for _, pod, _, _ in rows})
        number, lines, moment, seen, first = {pod: i for i, pod in enumerate(pods)}, [], 0, set(), 0
        for t, pod, score, anomalous in rows:
            if pod in seen or abs(t - first) * 10**9 > self.step_ns // 2:
                moment, seen, first = moment + 1, set(), t
            seen.add(pod)
            lines.append(f'{moment} {number[pod]} {t * 10**9} {score} {int(anomalous)}\n')
        said = self.act(lines, 'samples', self.step_ns, round(every * 10**9), round(around * 10**9))
        return [(pods[int(n)], int(ns) // 10**9) for n, ns, _ in map(str.split, said)]

    def ranges(self, times):
        """Which of these times are for training, and which are scored."""
        def inside(span):
            low, high = (float(x) if x else None for x in span.split(':'))
            return (times >= (low or 0)) & (times <= (high or float('inf')))
        return inside(self.train), inside(self.score)

    def within(self, t):
        return any(at <= t <= at + WINDOW for at, _, _ in self.faults)

    def verdicts(self, detector, *args, **more):
        exe = (self.rivals,) if detector in RIVALS else None
        return [(int(r['unix_s']), r['pod'], float(r['score']), r['anomalous'] == '1')
                for r in self.replay('--detector', detector, *args, exe=exe, **more)]


def threshold_at(negatives, percent):
    return negatives[min(len(negatives) - 1, -int(-len(negatives) * (1 - percent / 100) // 1))]


def judge(day, rows, suspected=True, some=None):
    """{percent: recall, 'delay' + percent, 'top1', 'top3', 'flagged', 'hits': {percent or top: by fault}}. suspected: windows of
    unlisted injections are negatives as well. some: of the faults, those that count; default all."""
    faults = day.faults if some is None else some
    negatives = sorted(s for t, _, s, _ in rows if not day.within(t) and
                       (suspected or not any(at <= t <= at + WINDOW for at in day.suspected)))
    by_pod = collections.defaultdict(list)
    for t, pod, s, _ in rows:
        by_pod[pod].append((t, s))
    r = {'flagged': sum(a for t, _, _, a in rows if not day.within(t)) / len(negatives), 'hits': {}}
    for percent in (1, 2, 5):
        threshold = threshold_at(negatives, percent)
        delays = [next((t - at for t, s in by_pod[pod] if at <= t <= at + WINDOW and s > threshold), None)
                  for at, pod, _ in faults]
        r['hits'][percent] = [d is not None for d in delays]
        found = [d for d in delays if d is not None]
        r[f'delay{percent}'] = statistics.median(found) if found else None
    ranks = []
    for at, pod, _ in faults:
        worst = {p: max((s for t, s in by_pod[p] if at <= t <= at + WINDOW), default=-1)
                 for p in by_pod}
        ranks.append(sum(s >= worst.get(pod, -1) for s in worst.values()) - (pod in worst))
    for k in (1, 3):
        r['hits'][f'top{k}'] = [rank < k for rank in ranks]
    r.update((key, statistics.mean(hits)) for key, hits in r['hits'].items())
    return r


def interval(hits, draws=4000):
    """The middle 95 % of the share of hits in samples of as many faults, drawn with replacement."""
    rng = random.Random(1)
    shares = sorted(statistics.fmean(rng.choices(hits, k=len(hits))) for _ in range(draws))
    return shares[round(0.025 * draws)], shares[round(0.975 * draws) - 1]
