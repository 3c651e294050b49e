# SPDX-License-Identifier: Apache-2.0
"""newer_app.py: a service whose prometheus_client has methods of later versions, on the tables and values that the client has. On
each line of stdin it does what that says, and answers by what the client itself shows."""
import json
import sys
import time

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary, generate_latest

REGISTRY = CollectorRegistry()


class NewerCounter(Counter):
    def remove_by_labels(self, labels):
        with self._lock:
            at = [(self._labelnames.index(k), v) for k, v in labels.items()]
            for key in [key for key in self._metrics if all(key[i] == v for i, v in at)]:
                del self._metrics[key]

    def keep_by_labels(self, labels):
        """By another table."""
        with self._lock:
            at = [(self._labelnames.index(k), v) for k, v in labels.items()]
            self._metrics = {key: child for key, child in self._metrics.items() if all(key[i] == v for i, v in at)}

    def reset(self):
        self._value.set(0)
        self._created = time.time()


class NewerHistogram(Histogram):
    def reset(self):
        self._sum.set(0)
        for bucket in self._buckets:
            bucket.set(0)

    def begin_anew(self):
        self._metric_init()


class NewerSummary(Summary):
    def reset(self):
        self._count.set(0)
        self._sum.set(0)


removed = NewerCounter('newer_removed', 'h', ['a', 'b'], registry=REGISTRY)
counted = NewerCounter('newer_counted', 'h', registry=REGISTRY)
took = NewerHistogram('newer_took', 'h', registry=REGISTRY, buckets=(1, 2))
sized = NewerSummary('newer_sized', 'h', registry=REGISTRY)


def observe():
    for value in (.5, 1.5, 7):
        took.observe(value)
        sized.observe(value)


def count():
    for a in 'xyz':
        removed.labels(a, '1').inc(5)
    counted.inc(7)
    observe()


def reset():
    for metric in (counted, took, sized):
        metric.reset()
    counted.inc(2)
    observe()
    took.observe(1)


def begin_anew():
    took.begin_anew()
    took.observe(2)


def nan():
    for metric in (took, sized):
        for value in 'inf', 'nan', '1':
            metric.observe(float(value))


commands = {
    'count': count, 'remove': lambda: removed.remove_by_labels({'a': 'x'}), 'exchange': lambda: removed.keep_by_labels({'a': 'z'}),
    'reset': reset, 'begin anew': begin_anew, 'nan': nan,
}
for line in sys.stdin:
    commands[line.rstrip('\n')]()
    print(json.dumps(generate_latest(REGISTRY).decode()), flush=True)
