# SPDX-License-Identifier: Apache-2.0
"""Copies the metrics of prometheus_client's collectors that are not its own instruments: process_*, python_*, and those of the
application. Each copy() scrapes them once."""
import math

from . import _format as f
from ._backend import default
from ._threads import log

NUMBERS = {'counter': (f.COUNTER_F64, ''), 'gauge': (f.GAUGE_F64, 'liveall'), 'unknown': (f.UNKNOWN, 'liveall')}


def series(family):
    """[(kind, name, labels, further arguments of Publisher.metric(), value)], by the family's type."""
    if family.type in NUMBERS:
        kind, combine = NUMBERS[family.type]
        wanted = family.name + ('_total' if family.type == 'counter' else '')
        return [(kind, s.name, tuple(s.labels.items()), {'combine': combine}, s.value) for s in family.samples
                if s.name == wanted]
    if family.type == 'info':
        return [(f.INFO, family.name, tuple(s.labels.items()), {}, None) for s in family.samples]
    if family.type == 'stateset':
        return list(_states(family))
    if family.type in ('summary', 'histogram'):
        return list(_observed(family))
    return []


def _states(family):
    found = {}
    for s in family.samples:
        labels = dict(s.labels)
        state = labels.pop(family.name, '')
        found.setdefault(tuple(labels.items()), {})[state] = s.value
    for labels, states in found.items():
        on = sum(1 << i for i, value in enumerate(states.values()) if value)
        yield f.STATESET, family.name, labels, {'states': tuple(states)}, on


def _observed(family):
    """Returns sum and counts, without quantiles. The buckets of a histogram are cumulative in the samples."""
    found = {}
    for s in family.samples:
        labels = {k: v for k, v in s.labels.items() if k not in ('le', 'quantile')}
        total, counts = found.setdefault(tuple(labels.items()), ([0.0], {}))
        if s.name == family.name + '_sum' and math.isfinite(s.value):
            total[0] = s.value
        elif s.name == family.name + '_count' and family.type == 'summary':
            counts[math.inf] = s.value
        elif s.name == family.name + '_bucket':
            counts[float(s.labels['le'])] = s.value
    for labels, (total, counts) in found.items():
        bounds = sorted(counts)
        if not bounds or bounds[-1] != math.inf:
            continue
        each = [int(counts[b]) for b in bounds]
        if family.type == 'histogram':
            each = [max(n - m, 0) for n, m in zip(each, [0, *each])]
            yield f.HISTOGRAM, family.name, labels, {'bounds': tuple(bounds[:-1])}, (total[0], each)
        else:
            yield f.SUMMARY, family.name, labels, {}, (total[0], each)


class Mirror:
    def __init__(self):
        self.collectors, self._cells = [], {}  # _cells: {(kind, name, labels): (further arguments, cell)}
        self._failed = set()  # errors that a warning was logged for

    def add(self, collector):
        self.collectors = [*self.collectors, collector]

    def remove(self, collector):
        self.collectors = [c for c in self.collectors if c is not collector]

    def copy(self):
        self.publish(found for collector in self.collectors for found in self._found(collector))

    def _found(self, collector):
        """Returns pairs for publish(). A collector or family that fails does not affect others."""
        found = []
        try:
            for family in collector.collect():
                try:
                    found += [(family, one) for one in series(family)]
                except Exception:
                    self._warn(family.name)
        except Exception:
            self._warn(type(collector).__name__)
        return found

    def _warn(self, what):
        if what not in self._failed:
            self._failed.add(what)
            log.warning('a collector or metric failed and is not published; further failures are not logged of=%r', what, exc_info=True)

    def publish(self, found):
        """Publishes found: pairs of an object with documentation and unit, and a result of series(). Ends all other series."""
        seen = set()
        for family, (kind, name, labels, more, value) in found:
            labels = tuple((k, str(v)) for k, v in labels)
            seen.add((kind, name, labels))
            try:
                self._set(family, kind, name, labels, more, value)
            except Exception:
                self._warn(name)
        for key in self._cells.keys() - seen:
            del self._cells[key]
            default().remove(key[1], key[2])

    def _set(self, family, kind, name, labels, more, value):
        key = kind, name, labels
        known, cell = self._cells.get(key, (None, None))
        if known not in (None, more):  # other buckets or states
            default().remove(name, labels)
        if known != more:
            mirror = kind in (f.COUNTER_F64, f.SUMMARY, f.HISTOGRAM)
            cell = default().metric(kind, name, family.documentation, labels, unit=family.unit, mirror=mirror, **more)
            self._cells[key] = more, cell
        if kind in (f.SUMMARY, f.HISTOGRAM):
            cell.set(*value)
        elif cell is not None:
            cell.set(value)
