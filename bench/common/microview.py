# SPDX-License-Identifier: Apache-2.0
"""The peer: MicroView's analysis of a pod in numpy, as its NSDI'26 artifact documents and runs it. Written from its
description; no line is taken from it. Where the description leaves a choice, this takes the faster one, so that the
ratios are lower bounds.

A metric takes 64 bytes of a page of 4 KiB: a name of 55 bytes, a type, and a double at 56. A detector normalises each
metric by its mean and deviation in training (a deviation of 0 counts as 1) and the row to unit length, and scores it by
the length of its residual against the first k right singular vectors of a Frequent Directions sketch (Liberty, KDD 2013;
the variant with 2l rows, which factorises only when they are full). Rows below the threshold are added."""
import math
import struct
import time

import numpy as np

PAGE, VALUE_AT = 4096, 56
METRIC = struct.Struct('<55scd')


class FrequentDirections:
    def __init__(self, rows, columns, directions):
        self.l, self.k = rows, directions
        self.sketch = np.zeros((2 * rows, columns))
        self.next = 0
        self.basis = np.zeros((directions, columns))

    def residual(self, y):
        return y - (y @ self.basis.T) @ self.basis

    def add(self, y):
        if self.next == len(self.sketch):
            self.shrink()
        self.sketch[self.next] = y
        self.next += 1

    def shrink(self):
        _, s, vt = np.linalg.svd(self.sketch, full_matrices=False)
        at = min(self.l, len(s)) - 1
        s = np.sqrt(np.maximum(s * s - s[at] * s[at], 0))
        self.sketch[:] = 0
        self.sketch[:len(s)] = s[:, None] * vt
        self.basis = vt[:self.k]
        self.next = at


class Detector:
    def __init__(self, training, percentile=99):
        n = int(math.sqrt(training.shape[1]))
        self.mean, self.deviation = training.mean(axis=0), training.std(axis=0)
        self.deviation[self.deviation == 0] = 1
        self.fd = FrequentDirections(n, training.shape[1], n)
        self.threshold = math.inf
        for row in training:
            self.fd.add(self.normalise(row))
        self.fd.shrink()
        self.threshold = np.percentile([self.score_of(self.normalise(row)) for row in training], percentile)

    def normalise(self, row):
        z = (row - self.mean) / self.deviation
        length = math.sqrt(z @ z)
        return z / length if length else z

    def score_of(self, y):
        r = self.fd.residual(y)
        return math.sqrt(r @ r)

    def score(self, row):
        """The score, and whether it is above the threshold; learns from the row if not."""
        y = self.normalise(row)
        score = self.score_of(y)
        if score <= self.threshold:
            self.fd.add(y)
        return score, score > self.threshold


def per_second(work, count, repeats=5):
    """Items per second of CPU time: the median of repeats of work(), which handles count items."""
    took = []
    for _ in range(repeats):
        start = time.thread_time()
        work()
        took.append(time.thread_time() - start)
    return count / sorted(took)[repeats // 2]


def causes(rng, rows, columns):
    """Rows of four causes and noise, as bench/sketch/sketch.c makes them."""
    c = np.arange(columns)[:, None] * np.arange(1, 5) * 0.3
    return rng.standard_normal((rows, 4)) @ np.sin(c).T + 0.3 * rng.standard_normal((rows, columns))


def fd_metrics_per_second(columns=64, directions=8, rows=4096):
    """fd.score.update: rows of unit length, each scored and then added."""
    y = causes(np.random.default_rng(1), rows, columns)
    y /= np.linalg.norm(y, axis=1)[:, None]
    fd = FrequentDirections(directions, columns, directions)

    def work():
        for row in y:
            r = fd.residual(row)
            math.sqrt(r @ r)
            fd.add(row)
    work()
    return per_second(work, rows * columns)


def pipeline_hz(pods=256, columns=64, rounds=3):
    """pipeline.256x64.fd: rounds in which each pod's row is scored."""
    rng = np.random.default_rng(1)
    detectors = [Detector(50 + 5 * rng.standard_normal((200, columns))) for _ in range(pods)]
    rows = 50 + 5 * rng.standard_normal((rounds, pods, columns))

    def work():
        for of_round in rows:
            for detector, row in zip(detectors, of_round):
                detector.score(row)
    return per_second(work, rounds)


def collect_hz(pods=256, columns=64, names=True):
    """collect.shm.256x64: rounds in which each pod's page is copied, unpacked and kept. Without names, by a view of the
    values, which the layout allows to a reader who knows the metrics."""
    rounds = 3 if names else 20
    pages = columns * METRIC.size // PAGE or 1
    shared = bytearray(pods * pages * PAGE)
    for i in range(pods * columns):
        METRIC.pack_into(shared, i * METRIC.size, b'metric%d' % (i % columns), b'c', i)
    memory = memoryview(shared)
    history = np.zeros((rounds, pods, columns))

    def by_name(page):
        return list({name.rstrip(b'\0').decode(): value for name, _, value in METRIC.iter_unpack(page)}.values())

    def by_view(page):
        return np.frombuffer(page, np.float64)[VALUE_AT // 8::METRIC.size // 8]
    values = by_name if names else by_view

    def work():
        for r in range(rounds):
            for pod in range(pods):
                at = pod * pages * PAGE
                history[r, pod] = values(bytes(memory[at:at + pages * PAGE]))
    work()
    return per_second(work, rounds)
