# SPDX-License-Identifier: Apache-2.0
"""The culprit (docs/analytics.md) in numpy: the formulas as they stand there, exact medians and quantiles where the product
has histograms, all pods of a row at once. It is the peer of the product's figures. Needs python3-numpy."""
import collections
import csv
import math
import os
import re

import numpy as np

NOW, BASE, FAST, SLOW = 2, 60, 3, 40  # rows
SPREAD, MISS, OWN = 0.3, 0.05, 0.7
SHARE_MIN, SHARE_MAX = 0.002, 0.98
LEVEL = 0.002  # of its level: the least usual move of a resource
DELAYS = 0.03 * (4 / 0.03) ** (np.arange(8) / 7)  # s
SURVIVAL = np.array([0.10, 0.05, 0.01])
DEPTH = -np.log(SURVIVAL)
CLIENT, SERVER = 0, 1


def service(pod):
    """'shop' of 'shop-7d9fb8c6-x2x9z' and of 'shop-0'."""
    for _ in range(2):
        head, dash, tail = pod.rpartition('-')
        if not dash or not head or re.search('[^0-9b-df-hj-np-tv-z]', tail):
            break
        pod = head
    return pod


def columns_of(names):
    """Six of latencies, and groups of those of resources."""
    def side(n):
        return CLIENT if re.search('client|upstream|outgoing|outbound', n) else SERVER
    latency = {}
    for i, n in enumerate(map(str.lower, names)):
        q = re.search('p(90|95|99)', n)
        if q and re.search('latency|duration|response_time', n):
            latency[side(n), ('90', '95', '99').index(q[1])] = i
    groups = [[i for i, n in enumerate(map(str.lower, names))
               if re.search(words, n) and not re.search('node|host|limit|quota|latency|duration', n)]
              for words in ('cpu', 'memory|_rss|heap|_bytes$')]
    return [latency[k, j] for k in (CLIENT, SERVER) for j in range(3)], [g for g in groups if g]


def read(day):
    """Names of pods and columns; times[pod, row]; values[pod, row, column]."""
    pods, times, values = [], [], []
    folder = os.path.join(day.folder, 'metrics')
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name)) as f:
            columns, *rows = csv.reader(f)
        pods.append(name[:-4])
        t = np.array([int(r[0]) for r in rows])
        times.append(t if (np.diff(t) > 0).all() and day.first <= t[0] <= day.last else np.array(day.times[:len(t)]))
        values.append(np.array([[float(v) if v.lower() not in ('', 'nan') else np.nan for v in r[1:]] for r in rows]))
    n = min(map(len, times))
    return pods, columns[1:], np.stack([t[:n] for t in times]), np.stack([v[:n] for v in values])


def paths(file):
    """{(caller, callee): (share of the caller's calls, share of the requests to it, calls of the callee in one of these)},
    of services."""
    traces = collections.defaultdict(dict)
    with open(file) as f:
        for r in csv.DictReader(f):
            traces[r['TraceID']][r['SpanID']] = (r['ParentID'], service(r['PodName']))
    requests, calls = collections.Counter(), collections.Counter()
    seen = collections.defaultdict(lambda: np.zeros(3))  # calls, requests, entries
    for spans in traces.values():
        below = {s: collections.Counter() for s in spans}  # entries of services below a span
        children = collections.defaultdict(list)
        for s, (parent, _) in spans.items():
            children[parent].append(s)
        order = [s for s, (parent, _) in spans.items() if parent not in spans]
        for s in order:
            order += children[s]
        for s in reversed(order):
            for c in children[s]:
                below[s] += below[c]
                if spans[c][1] != spans[s][1]:
                    below[s][spans[c][1]] += 1
        for s, (parent, me) in spans.items():
            above = spans.get(parent, (None, None))[1]
            if (above is None and parent != 'root') or above == me:
                continue  # no entry of the service
            requests[me] += 1
            for other, n in below[s].items():
                seen[me, other] += (0, 1, n)
            if above:
                calls[above] += 1
                for other in {*below[s], me}:
                    seen[above, other] += (1, 0, 0)
    return {(a, b): (c / max(1, calls[a]), q / max(1, requests[a]), max(1, n / max(1, q)))
            for (a, b), (c, q, n) in seen.items() if a != b}


def surprise(deviation, spread):
    return 2 * np.log1p((deviation / spread) ** 2 / 3)


def usual_at(usual, survival):
    """The usual log latency at survival[..., 3]: linear in -log survival through the three quantiles, usual[..., 3]."""
    t = -np.log(np.clip(survival, 1e-4, 1))
    low, middle, high = (usual[..., k, None] for k in range(3))
    below = low + np.maximum((high - low) / (DEPTH[2] - DEPTH[0]), 0.3) * (t - DEPTH[0])
    first = low + np.maximum((middle - low) / (DEPTH[1] - DEPTH[0]), 0) * (t - DEPTH[0])
    second = middle + np.maximum((high - middle) / (DEPTH[2] - DEPTH[1]), 0) * (t - DEPTH[1])
    return np.where(t < DEPTH[0], below, np.where(t < DEPTH[1], first, second))


def predicted(usual, share, delay):
    """The log quantiles if these shares of calls take longer by these delays; delay[...], share[n], usual[n, 3]."""
    share = share[:, None]
    delayed = share >= SURVIVAL
    at = usual_at(usual, np.where(delayed, SURVIVAL / share, (SURVIVAL - share) / (1 - share)))
    longer = np.log(delay[..., None] + np.exp(np.where(delayed, at, usual)))
    return np.maximum(np.where(delayed, longer, np.minimum(at, longer)), usual)


def log_mean(l):
    most = l.max(0)
    return most + np.log(np.exp(l - most).mean(0))


class Culprit:
    def __init__(self, pods, names, calls):
        self.latency, self.groups = columns_of(names)
        self.resources = sum(self.groups, [])
        self.n, terms = len(pods), []
        services = [service(p) for p in pods]
        replicas = collections.Counter(services)
        for i, callee in enumerate(services):
            for a, caller in enumerate(services):
                client, server, k = calls.get((caller, callee), (0, 0, 0))
                for kind, share, times in ((CLIENT, client, 1), (SERVER, server, k)):
                    if share / replicas[callee] >= SHARE_MIN:
                        terms.append((i, a, kind, min(SHARE_MAX, share / replicas[callee]), times))
        self.callee, self.caller, self.kind = (np.array([t[k] for t in terms], int) for k in range(3))
        self.share, self.times = (np.array([t[k] for t in terms], float) for k in (3, 4))
        self.y, self.x, self.last, self.fresh = [], [], None, 0
        self.deviations, self.moves, self.past = [], [], []

    def rewind(self):
        self.fresh, self.x = 0, []

    def look(self, row):
        """Of the row of all pods: log latencies now and usually, [pod, kind, quantile]; whether known; moves of resources."""
        known = ~np.isnan(row[:, self.latency]).reshape(self.n, 2, 3).any(-1)
        self.last = row if self.last is None else np.where(np.isnan(row), self.last, row)
        row = np.nan_to_num(self.last)
        self.y = (self.y + [np.log(np.maximum(row[:, self.latency], 1e-3)).reshape(self.n, 2, 3)])[-BASE - NOW:]
        self.fresh += 1
        now = np.mean(self.y[-min(self.fresh, NOW):], 0)
        usual = np.median(self.y[:-NOW], 0) if len(self.y) > NOW else now
        x = row[:, self.resources]
        fast, slow = ((x - np.median(self.x[-n:], 0) if self.x else 0 * x) for n in (FAST, SLOW))
        self.x = (self.x + [x])[-SLOW:]
        move = np.where(fast * slow > 0, np.minimum(abs(fast), abs(slow)), 0)
        return now, usual, known & (self.fresh >= NOW), move, x

    def train(self, rows):
        levels = []
        for row in rows:
            now, usual, _, move, x = self.look(row)
            if len(self.y) == BASE + NOW:
                self.deviations.append(now - usual)
            self.moves.append(move)
            levels.append(abs(x))
        low, high = np.quantile(self.deviations, (0.1, 0.9), axis=0)
        self.spread = np.maximum((high - low) / 2.56, SPREAD)
        self.usual_move = np.maximum(np.maximum(np.quantile(self.moves, 0.99, axis=0) / 2.576,
                                                LEVEL * np.median(levels, axis=0)), 1e-12)
        self.rewind()

    def evidence(self, now, usual, known, pod, kind, share, delay):
        n, u, s = now[pod, kind], usual[pod, kind], self.spread[pod, kind]
        return known[pod, kind] * (surprise(n - u, s) - surprise(n - predicted(u, share, delay), s)).mean(-1)

    def score(self, row):
        now, usual, known, move, _ = self.look(row)
        late, delay = np.zeros((len(DELAYS), self.n)), DELAYS[:, None]
        l = self.evidence(now, usual, known, self.caller, self.kind, self.share, delay * self.times)
        np.add.at(late, (slice(None), self.callee), np.log(MISS + (1 - MISS) * np.exp(l)))
        own = self.evidence(now, usual, known, np.arange(self.n), SERVER, np.full(self.n, OWN),
                            np.repeat(delay, self.n, 1))
        surprises = np.log(np.maximum(1, move / self.usual_move)) * (self.fresh > FAST)
        novelty, at = np.zeros(self.n), 0
        for g in self.groups:
            novelty += surprises[:, at:at + len(g)].max(1)
            at += len(g)
        total = novelty + np.maximum(0, log_mean(late) + np.maximum(0, log_mean(own)))
        weight = np.exp(total - total.max())
        weighted = total * weight / (weight.sum() + math.exp(-total.max()))
        self.past = (self.past + [weighted])[-4:]
        before = self.past[:-2]
        return np.maximum(0, weighted - np.max(before, 0)) if before else weighted


def verdicts(day, spans):
    """[(unix_s, pod, score, False)] of the rows up to the last window; learned from those after the last fault."""
    pods, names, times, values = read(day)
    culprit = Culprit(pods, names, paths(spans))
    clock = np.median(times, 0)
    learn, judge = day.ranges(clock)
    culprit.train(values[:, r] for r in np.flatnonzero(learn))
    found = []
    for r in np.flatnonzero(judge):
        found += [(int(times[i, r]), pod, float(s), False) for i, (pod, s) in enumerate(zip(pods, culprit.score(values[:, r])))]
    return found
