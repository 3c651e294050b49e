# SPDX-License-Identifier: Apache-2.0
"""Sidelight for Python: metrics in memory of this process, which a collector reads without its help.

    import sidelight

    requests = sidelight.Counter('http_requests_total', 'Requests answered.', ['code'])
    requests.labels('200').inc()

All calls are safe in any thread, coroutine and signal handler, and in forked children, which have regions of their own. No call
waits, or fails because there is no agent. Metrics that the format cannot represent are counted (Publisher.refused) and logged
once; arguments that are never valid raise ValueError."""
import time as _time

from . import _format
from ._backend import Publisher, configure, default
from ._sampler import every_second
from ._span import current_span, span

__all__ = ['Counter', 'Enum', 'Gauge', 'Histogram', 'Info', 'Publisher', 'Summary', 'alarmed', 'attached', 'configure',
           'current_span', 'span']
DEFAULT_BUCKETS = (.005, .01, .025, .05, .075, .1, .25, .5, .75, 1.0, 2.5, 5.0, 7.5, 10.0)


class _Metric:
    """A metric, or a family of metrics with different label values."""
    _kind, _bounds, _states, _combine = 0, (), (), ''

    def __init__(self, name, help='', labels=(), unit='', publisher=None):
        self.name, self.help, self.unit, self.label_names = name, help, unit, tuple(map(str, labels))
        self._publisher = publisher or default()
        self._children = {}
        if not self.label_names:
            self._bind(())

    def labels(self, *values, **named):
        """Returns the metric with these label values, given in the order of label_names or by name. Keep the result, because this
        call is slower than an update."""
        if named:
            if values or set(named) != set(self.label_names):
                raise ValueError(f'{self.name} has the labels {self.label_names}')
            values = tuple(named[k] for k in self.label_names)
        if len(values) != len(self.label_names) or not self.label_names:
            raise ValueError(f'{self.name} has the labels {self.label_names}')
        key = tuple(map(str, values))
        child = self._children.get(key)
        if child is None:
            child = self.__class__.__new__(self.__class__)
            child.__dict__.update(self.__dict__, label_names=(), _children={})
            child._bind(tuple(zip(self.label_names, key)))
            child = self._children.setdefault(key, child)
        return child

    def remove(self, *values):
        """Ends the series with these label values. A metric returned by labels() before continues to count, unpublished."""
        key = tuple(map(str, values))
        if self._children.pop(key, None) is None:
            raise KeyError(key)
        self._publisher.remove(self.name, tuple(zip(self.label_names, key)))

    def clear(self):
        """Ends all series of the family."""
        for key in list(self._children):
            self._children.pop(key, None)
            self._publisher.remove(self.name, tuple(zip(self.label_names, key)))

    def _bind(self, pairs):
        self._value = self._publisher.metric(self._kind, self.name, self.help, pairs, self._bounds, self._states,
                                             self._combine, self.unit)
        self._bound(self._value)


class Counter(_Metric):
    """A number that only increases. inc(amount=1), value()"""
    _kind = _format.COUNTER_F64

    def _bound(self, cell):
        self.inc, self.value = cell.inc, cell.get


class Gauge(_Metric):
    """A number. set(value), inc(amount=1), dec(amount=1), value()

    combine: how a collector with --sum-processes combines the processes of a service: 'sum', 'min', 'max', 'mostrecent', 'all';
    or, for live processes only, 'livesum' and so on."""
    _kind = _format.GAUGE_F64

    def __init__(self, name, help='', labels=(), unit='', combine='', publisher=None):
        if combine.removeprefix('live') not in _format.COMBINE:
            raise ValueError(f'combine is {combine!r}')
        self._combine = combine
        if combine.endswith('mostrecent'):
            self._kind = _format.GAUGE_TIMED
        super().__init__(name, help, labels, unit, publisher)

    def _bound(self, cell):
        self.set, self.inc, self.dec, self.value = cell.set, cell.inc, cell.dec, cell.get

    def set_function(self, call):
        """Sets the gauge to call() once per second, in a thread."""
        every_second.add(lambda: self.set(float(call())))


class _Observed(_Metric):
    def _bound(self, cell):
        self.observe, self.sum, self.counts = cell.observe, cell.sum, cell.counts

    def time(self):
        """Returns a context manager that observes the duration of its body in seconds."""
        return _Timer(self)


class Histogram(_Observed):
    """Observations in buckets. observe(value), time(), sum(), counts() per bucket. buckets: ascending upper bounds."""
    _kind = _format.HISTOGRAM

    def __init__(self, name, help='', labels=(), unit='', buckets=DEFAULT_BUCKETS, publisher=None):
        self._bounds = tuple(float(b) for b in buckets if b != float('inf'))
        super().__init__(name, help, labels, unit, publisher)


class Summary(_Observed):
    """Sum and number of observations. observe(value), time(), sum(), counts()"""
    _kind = _format.SUMMARY


class Info(_Metric):
    """Facts as labels. info({'version': '1.2'})"""
    _kind, _last = _format.INFO, None

    def _bind(self, pairs):
        self._pairs = pairs

    def info(self, facts):
        pairs = self._pairs + tuple((k, str(v)) for k, v in facts.items())
        if self._last not in (None, pairs):
            self._publisher.remove(self.name, self._last)
        self._last = pairs
        self._publisher.metric(self._kind, self.name, self.help, pairs)

    def remove(self, *values):
        child = self._children.get(tuple(map(str, values)))
        super().remove(*values)
        if child._last is not None:
            self._publisher.remove(self.name, child._last)

    def clear(self):
        for key in list(self._children):
            self.remove(*key)


class Enum(_Metric):
    """One of several states, initially the first one. state(name)"""
    _kind = _format.STATESET

    def __init__(self, name, help='', labels=(), states=(), publisher=None):
        self._states = tuple(map(str, states))
        if not self._states:
            raise ValueError(f'{name} has no states')
        super().__init__(name, help, labels, '', publisher)

    def _bound(self, cell):
        if not cell.get():
            cell.set(1)

    def state(self, name):
        self._value.set(1 << self._states.index(name))


class _Timer:
    def __init__(self, metric):
        self._metric = metric

    def __enter__(self):
        self._begun = _time.perf_counter()
        return self

    def __exit__(self, *_):
        self._metric.observe(max(_time.perf_counter() - self._begun, 0))


def attached():
    """True while an agent has the default publisher's region."""
    return default().attached()


def alarmed():
    """True while a collector finds this process anomalous, so that an application can log more."""
    return default().alarmed()
