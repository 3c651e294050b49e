# SPDX-License-Identifier: Apache-2.0
"""Makes prometheus_client publish: `import sidelight.prometheus`, or SIDELIGHT=1 where sidelight.pth is installed.

Instruments, registries and generate_latest() work as before. What a registry holds is published: counters, gauges,
summaries and histograms by each update; infos, enums, remove() and clear() at once; functions of gauges and collectors
that are not the client's own, such as process_*, every $SIDELIGHT_COLLECT_SECONDS, 5 by default. A child of fork() counts
from 0, as in the client's multiprocess mode, which needs not be on: $PROMETHEUS_MULTIPROC_DIR may stay, and go.

Two metrics of one name in two registries are one series, the sum of both."""
import functools
import gc
import os
import time
import weakref
from bisect import bisect_left

from prometheus_client import metrics, registry, values
from prometheus_client.samples import Exemplar

from . import _format as f
from ._backend import default, lock
from ._mirror import Mirror
from ._sampler import Sampler

Base = metrics.MetricWrapperBase
INSTRUMENTS = (metrics.Counter, metrics.Gauge, metrics.Summary, metrics.Histogram, metrics.Info, metrics.Enum)
_every = Sampler(float(os.environ.get('SIDELIGHT_COLLECT_SECONDS') or 5))
_mirror = Mirror()
_owners = weakref.WeakValueDictionary()  # by key: the metric that ends the series
_used = set()  # the keys of what is published


# ---- values, in place of the client's own ----

class _Number:
    """Of a counter or a gauge, as the client reads it when it is scraped, and an application may write it."""
    __slots__ = ('inc', 'set', 'get', '_exemplar')

    def __init__(self, cell):
        self.inc, self.set, self.get, self._exemplar = cell.inc, cell.set, cell.get, None

    def set_exemplar(self, exemplar):
        self._exemplar = exemplar

    def get_exemplar(self):
        return self._exemplar


class _Sum:
    __slots__ = ('get',)

    def __init__(self, cell):
        self.get = cell.sum


class _Count:
    """The observations of a bucket."""
    __slots__ = ('_cell', '_i', '_exemplar')

    def __init__(self, cell, i):
        self._cell, self._i, self._exemplar = cell, i, None

    def get(self):
        return float(self._cell.count(self._i))

    set_exemplar, get_exemplar = _Number.set_exemplar, _Number.get_exemplar


class _Both:
    """Counts for the client, which keeps its own values, and for us: where the series is another metric's as well, or the
    client's multiprocess mode has files of it, or there were observations before us."""
    __slots__ = ('_metric', '_cell')

    def __init__(self, metric, cell):
        self._metric, self._cell = metric, cell

    def inc(self, amount=1, exemplar=None):
        if isinstance(self._metric, metrics.Counter):
            _counter_inc(self._metric, amount, exemplar)
            self._cell.inc(amount, exemplar)
        else:
            _gauge_inc(self._metric, amount)
            self._cell.inc(amount)

    def dec(self, amount=1):
        _gauge_dec(self._metric, amount)
        self._cell.dec(amount)

    def set(self, value):
        _gauge_set(self._metric, value)
        self._cell.set(float(value))

    def observe(self, amount, exemplar=None):
        if isinstance(self._metric, metrics.Histogram):
            _histogram_observe(self._metric, amount, exemplar)
        else:
            _summary_observe(self._metric, amount)
        self._cell.observe(amount, exemplar)


# ---- publication ----

def _pairs(metric):
    return tuple(zip(metric._labelnames, metric._labelvalues))


def _bounds(metric):
    return tuple(b for b in metric._upper_bounds if b != metrics.INF)


def _shape(metric):
    """(kind, suffix of the name, further arguments of Publisher.metric())"""
    if isinstance(metric, metrics.Counter):
        return f.COUNTER_F64, '_total', {}
    if isinstance(metric, metrics.Gauge):
        mode = metric._multiprocess_mode
        return f.GAUGE_TIMED if mode.endswith('mostrecent') else f.GAUGE_F64, '', {'combine': mode}
    if isinstance(metric, metrics.Histogram):
        return f.HISTOGRAM, '', {'bounds': _bounds(metric)}
    if isinstance(metric, metrics.Summary):
        return f.SUMMARY, '', {}
    return f.STATESET, '', {'states': tuple(metric._states)}


def _publish(metric):
    """A metric without labels, or a child. It counts on from where it is."""
    if isinstance(metric, metrics.Info):
        metric._sidelight = None
        _publish_info(metric, metric._value)
        return
    if isinstance(metric, metrics.Enum) and not hasattr(metric, '_states'):
        metric._sidelight_due = True
        return
    if getattr(metric, '_sidelight_key', None):
        return  # it is registered twice
    kind, suffix, more = _shape(metric)
    key = metric._name + suffix, _pairs(metric)
    with lock():
        shared, owner = key in _used, _owners.get(key)
        cell = default().metric(kind, key[0], metric._documentation, key[1], unit=metric._unit, **more)
        _used.add(key)
        if owner is None:
            _owners[key] = metric
            metric._sidelight_key = key
        elif type(owner._sidelight) is not _Both:
            _split(owner, cell)
    _enter(metric, cell, shared)


def _enter(metric, cell, shared):
    if isinstance(metric, metrics.Enum):
        cell.set(1 << metric._value)
        metric._sidelight = cell
        return
    if isinstance(metric, (metrics.Counter, metrics.Gauge)):
        value = metric._value.get()
        shared = shared or getattr(metric._value, '_multiprocess', False)
        if value:
            cell.inc(value) if shared or isinstance(metric, metrics.Counter) else cell.set(value)
        if not shared:
            metric._value = _Number(cell)
        if '_child_samples' in metric.__dict__:
            _ask(metric)
    else:
        histogram = isinstance(metric, metrics.Histogram)
        parts = [metric._sum, *(metric._buckets if histogram else [metric._count])]
        shared = shared or any(getattr(v, '_multiprocess', False) or v.get() for v in parts)
        if not shared:
            metric._sum = _Sum(cell)
            if histogram:
                metric._buckets = [_Count(cell, i) for i in range(len(metric._upper_bounds))]
            else:
                metric._count = _Count(cell, 0)
    metric._sidelight = _Both(metric, cell) if shared else cell


def _split(metric, cell):
    """Of one series the cell has the sum; from now on this metric keeps its own part of it as the client does."""
    def value(number):
        own = values.MutexValue(*[None] * 6)
        own.set(number)
        return own
    if isinstance(metric, metrics.Enum):
        return  # the client has its own state in any case
    if isinstance(metric, (metrics.Counter, metrics.Gauge)):
        metric._value = value(cell.get())
    else:
        counts = [value(float(n)) for n in cell.counts()]
        metric._sum = value(cell.sum())
        if isinstance(metric, metrics.Histogram):
            metric._buckets = counts
        else:
            metric._count, = counts
    metric._sidelight = _Both(metric, cell)


def _ask(gauge):
    """Publishes what the gauge's function says."""
    _unask(gauge)
    gauge._sidelight_call = lambda: gauge._sidelight.set(gauge._child_samples()[0][2])
    _every.add(gauge._sidelight_call)


def _unask(gauge):
    call = gauge.__dict__.pop('_sidelight_call', None)
    if call:
        _every.remove(call)


def _publish_info(metric, facts):
    pairs = _pairs(metric) + tuple((k, str(v)) for k, v in facts.items())
    with lock():
        if metric._sidelight not in (None, pairs):
            default().remove(metric._name, metric._sidelight)
        metric._sidelight = pairs
        default().metric(f.INFO, metric._name, metric._documentation, pairs)


def _end(metric):
    """It counts for the client alone. What it counts goes on from where it is."""
    if isinstance(metric, metrics.Info):
        pairs, metric._sidelight = getattr(metric, '_sidelight', None), None
        if pairs is not None:
            default().remove(metric._name, pairs)
        return
    _unask(metric)
    key = getattr(metric, '_sidelight_key', None)
    if key:
        metric._sidelight_key = None
        with lock():
            _used.discard(key)
            default().remove(*key)


def _all(metric):
    """What is published of a metric that a registry holds."""
    return list(metric._metrics.values()) if metric._is_parent() else [metric]


# ---- the client's methods ----

_counter_inc = metrics.Counter.inc
_gauge_inc, _gauge_dec, _gauge_set = metrics.Gauge.inc, metrics.Gauge.dec, metrics.Gauge.set
_gauge_set_function = metrics.Gauge.set_function
_summary_observe, _histogram_observe = metrics.Summary.observe, metrics.Histogram.observe
_info_info, _enum_state, _enum_init = metrics.Info.info, metrics.Enum.state, metrics.Enum.__init__
_remove, _clear = Base.remove, Base.clear
_register, _unregister = registry.CollectorRegistry.register, registry.CollectorRegistry.unregister


def _with_exemplar(metric, update, value, amount, labels):
    """As the client, which counts even if it then refuses the exemplar."""
    try:
        metrics._validate_exemplar(labels)
    except ValueError:
        update(amount)
        raise
    update(amount, labels)
    if type(metric._sidelight) is not _Both:
        value.set_exemplar(Exemplar(labels, amount, time.time()))


def inc_counter(self, amount=1, exemplar=None):
    try:
        cell = self._sidelight
    except AttributeError:
        return _counter_inc(self, amount, exemplar)
    if not exemplar:
        cell.inc(amount)
    else:
        _with_exemplar(self, cell.inc, self._value, amount, exemplar)


def inc_gauge(self, amount=1):
    try:
        cell = self._sidelight
    except AttributeError:
        return _gauge_inc(self, amount)
    cell.inc(amount)


def dec_gauge(self, amount=1):
    try:
        cell = self._sidelight
    except AttributeError:
        return _gauge_dec(self, amount)
    cell.dec(amount)


def set_gauge(self, value):
    try:
        cell = self._sidelight
    except AttributeError:
        return _gauge_set(self, value)
    cell.set(float(value))


def set_function(self, call):
    _gauge_set_function(self, call)
    if hasattr(self, '_sidelight'):
        _ask(self)


def observe_summary(self, amount):
    try:
        cell = self._sidelight
    except AttributeError:
        return _summary_observe(self, amount)
    cell.observe(amount)


def observe_histogram(self, amount, exemplar=None):
    try:
        cell = self._sidelight
    except AttributeError:
        return _histogram_observe(self, amount, exemplar)
    if not exemplar:
        cell.observe(amount)
    else:
        bucket = self._buckets[bisect_left(self._upper_bounds, amount)] if amount == amount else _Number(self._sum)
        _with_exemplar(self, cell.observe, bucket, amount, exemplar)


def info(self, val):
    _info_info(self, val)
    if getattr(self, '_sidelight', None) is not None:
        _publish_info(self, dict(val))


def state(self, state):
    _enum_state(self, state)
    if hasattr(self, '_sidelight'):
        self._sidelight.set(1 << self._value)


def init_enum(self, *args, **named):
    """An enum registers itself before it knows its states."""
    _enum_init(self, *args, **named)
    if self.__dict__.pop('_sidelight_due', False):
        _publish(self)


def remove(self, *labelvalues):
    child = getattr(self, '_metrics', {}).get(tuple(map(str, labelvalues)))
    _remove(self, *labelvalues)
    if child is not None:
        _end(child)


def clear(self):
    children = list(getattr(self, '_metrics', {}).values())
    _clear(self)
    for child in children:
        _end(child)


def register(self, collector):
    _register(self, collector)
    _enter_registry(collector)


def unregister(self, collector):
    _unregister(self, collector)
    if isinstance(collector, INSTRUMENTS):
        for metric in _all(collector):
            _end(metric)
    else:
        _mirror.remove(collector)


def _enter_registry(collector):
    if isinstance(collector, INSTRUMENTS):
        for metric in _all(collector):
            _publish(metric)
    elif type(collector).__name__ != 'MultiProcessCollector':  # which has what all processes count
        _mirror.add(collector)
        _every.add(_mirror.copy)


def _initialised(cls):
    """Publishes a child as soon as it is there; a metric without labels is published by its registry."""
    init = cls._metric_init

    @functools.wraps(init)
    def metric_init(self):
        init(self)
        if self._labelvalues:
            _publish(self)
    cls._metric_init = metric_init


def _patch():
    for cls, methods in {
        metrics.Counter: {'inc': inc_counter},
        metrics.Gauge: {'inc': inc_gauge, 'dec': dec_gauge, 'set': set_gauge, 'set_function': set_function},
        metrics.Summary: {'observe': observe_summary}, metrics.Histogram: {'observe': observe_histogram},
        metrics.Info: {'info': info}, metrics.Enum: {'state': state, '__init__': init_enum},
        Base: {'remove': remove, 'clear': clear},
        registry.CollectorRegistry: {'register': register, 'unregister': unregister},
    }.items():
        for name, ours in methods.items():
            setattr(cls, name, functools.wraps(getattr(cls, name))(ours))
    for cls in INSTRUMENTS:
        _initialised(cls)
    for one in [o for o in gc.get_objects() if isinstance(o, registry.CollectorRegistry)]:
        for collector in list(one._collector_to_names):
            _enter_registry(collector)


_patch()
