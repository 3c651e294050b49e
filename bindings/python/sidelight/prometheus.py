# SPDX-License-Identifier: Apache-2.0
"""Makes prometheus_client publish: `import sidelight.prometheus`, or SIDELIGHT=1 where sidelight.pth is installed.

Instruments, registries and generate_latest() work as before. All metrics of a registry are published: each update of a counter,
gauge, summary or histogram, and each change of an info or enum, immediately; the functions of gauges, and collectors such as
process_* that are not the client's own, every $SIDELIGHT_COLLECT_SECONDS, 5 by default. A forked child counts from 0, as in
the client's multiprocess mode. That mode is not required: $PROMETHEUS_MULTIPROC_DIR may be set or not.

Two metrics with the same name in two registries are one series, the sum of both."""
import functools
import gc
import math
import os
import time
import warnings
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
_owners = weakref.WeakValueDictionary()  # key -> the metric that ends the series
_used = set()  # the keys of published series


# ---- values, in place of the client's own ----

class _Number:
    """The value of a counter or gauge, with the interface that the client and applications use."""
    __slots__ = ('inc', 'set', 'get', '_exemplar')

    def __init__(self, cell):
        self.inc, self.set, self.get, self._exemplar = cell.inc, cell.set, cell.get, None

    def set_exemplar(self, exemplar):
        self._exemplar = exemplar

    def get_exemplar(self):
        return self._exemplar


class _Part:
    """A part of a summary or histogram. Methods added by later versions of the client may write it: then the series ends, and
    another one begins that counts from 0, while the client keeps its own values."""
    __slots__ = ('_metric', '_find', 'get', '_exemplar')

    def __init__(self, metric, find, get):
        self._metric, self._find, self.get, self._exemplar = metric, find, get, None

    def set(self, value, timestamp=None):
        self._change('set', value)

    def inc(self, amount):
        self._change('inc', amount)

    def _change(self, method, value):
        def change():
            getattr(self._find(self._metric), method)(value)
        if type(self._find(self._metric)) is _Part:
            _begin_anew(self._metric, change)
        else:
            change()

    set_exemplar, get_exemplar = _Number.set_exemplar, _Number.get_exemplar


def _sum_of(metric, cell):
    return _Part(metric, lambda m: m._sum, cell.sum)


def _count_of(metric, cell, i):
    find = (lambda m: m._buckets[i]) if isinstance(metric, metrics.Histogram) else (lambda m: m._count)
    return _Part(metric, find, lambda: float(cell.count(i)))


class _Children(dict):
    """The client's children, by label values. Ends the series of any child that is removed."""
    __slots__ = ()

    def __delitem__(self, key):
        child = self[key]
        super().__delitem__(key)
        _end(child)

    def pop(self, key, *default):
        child = super().pop(key, *default)
        if isinstance(child, Base):
            _end(child)
        return child

    def popitem(self):
        key, child = super().popitem()
        _end(child)
        return key, child

    def clear(self):
        children = list(self.values())
        super().clear()
        for child in children:
            _end(child)


class _Both:
    """Counts both in the client's own values and in the published ones. Used if another metric publishes the same series, if
    the client's multiprocess mode has files of it, or if there were observations before it was published."""
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
        if self._cell.observe(amount, exemplar) and isinstance(self._metric, metrics.Summary):
            self._cell.observe(0.0)


# ---- publication ----

def _pairs(metric):
    return tuple(zip(metric._labelnames, metric._labelvalues))


def _bounds(metric):
    return tuple(b for b in metric._upper_bounds if b != metrics.INF)


def _shape(metric):
    """Returns (kind, suffix of the name, further arguments of Publisher.metric())."""
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
    """Publishes a metric without labels, or a child, starting with its current value."""
    if isinstance(metric, metrics.Info):
        metric._sidelight = None
        _publish_info(metric, metric._value)
        return
    if isinstance(metric, metrics.Enum) and not hasattr(metric, '_states'):
        metric._sidelight_due = True
        return
    if getattr(metric, '_sidelight_key', None):
        return  # registered twice
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
        if value and not (isinstance(metric, metrics.Counter) and value < 0):
            cell.inc(value) if shared or isinstance(metric, metrics.Counter) else cell.set(value)
        if not shared:
            metric._value = _Number(cell)
            if math.isnan(value) and isinstance(metric, metrics.Counter):
                _count_nan(metric)
            if isinstance(metric, metrics.Counter):
                metric._value.set = lambda value: _begin_anew(metric, lambda: metric._value.set(value))  # Counter.reset()
            else:
                metric._value.set = lambda value, timestamp=None: cell.set(value)
        if '_child_samples' in metric.__dict__:
            _ask(metric)
    else:
        histogram = isinstance(metric, metrics.Histogram)
        parts = [metric._sum, *(metric._buckets if histogram else [metric._count])]
        shared = shared or any(getattr(v, '_multiprocess', False) or v.get() for v in parts)
        if not shared:
            metric._sum = _sum_of(metric, cell)
            if histogram:
                metric._buckets = [_count_of(metric, cell, i) for i in range(len(metric._upper_bounds))]
            else:
                metric._count = _count_of(metric, cell, 0)
        elif type(metric._sum) is _Part:
            _keep_own(metric)  # it was published before
    metric._sidelight = _Both(metric, cell) if shared else cell


def _own_value(number):
    own = values.MutexValue(*[None] * 6)
    own.set(number)
    return own


def _keep_own(metric):
    """Gives the metric ordinary values of the client again."""
    if isinstance(metric, metrics.Enum):
        return  # an enum always keeps its own state
    if isinstance(metric, (metrics.Counter, metrics.Gauge)):
        metric._value = _own_value(metric._value.get())
        return
    metric._sum = _own_value(metric._sum.get())
    if isinstance(metric, metrics.Histogram):
        metric._buckets = [_own_value(b.get()) for b in metric._buckets]
    else:
        metric._count = _own_value(metric._count.get())


def _split(metric, cell):
    """The cell holds the sum of several metrics, so this metric keeps its own part in values of the client from now on."""
    if isinstance(metric, metrics.Enum):
        return
    _keep_own(metric)
    metric._sidelight = _Both(metric, cell)


def _begin_anew(metric, change):
    """Ends the series, changes the client's own values and, if the metric was published, publishes the new values."""
    with lock():
        published = metric._sidelight_key
        _end(metric)
        _keep_own(metric)
        metric.__dict__.pop('_sidelight', None)
        change()
        if published:
            _publish(metric)


def _count_nan(counter):
    """From now on the value is NaN for the client. Readers see the sum of the numbers."""
    counter._value.get = lambda: math.nan


def _observe_nan(metric):
    """From now on the sum is NaN for the client. A summary has one more observation, which is all that readers see."""
    metric._sum.get = lambda: math.nan
    if isinstance(metric, metrics.Summary):
        metric._sidelight.observe(0.0)


def _ask(gauge):
    """Publishes the result of the gauge's function periodically."""
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
    """Ends the published series. The metric continues to count for the client."""
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
            if _owners.get(key) is metric:
                del _owners[key]
            default().remove(*key)


def _all(metric):
    """Returns the published parts of a registered metric: its children, or itself."""
    return list(metric._metrics.values()) if metric._is_parent() else [metric]


# ---- the client's methods ----

_counter_inc = metrics.Counter.inc
_gauge_inc, _gauge_dec, _gauge_set = metrics.Gauge.inc, metrics.Gauge.dec, metrics.Gauge.set
_gauge_set_function = metrics.Gauge.set_function
_summary_observe, _histogram_observe = metrics.Summary.observe, metrics.Histogram.observe
_info_info, _enum_state, _enum_init = metrics.Info.info, metrics.Enum.state, metrics.Enum.__init__
_register, _unregister = registry.CollectorRegistry.register, registry.CollectorRegistry.unregister


def _with_exemplar(metric, update, value, amount, labels):
    """Like the client, counts even if the exemplar is then refused."""
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
    if not exemplar or amount != amount:
        if cell.inc(amount):
            _count_nan(self)
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
    if cell.observe(amount):
        _observe_nan(self)


def observe_histogram(self, amount, exemplar=None):
    try:
        cell = self._sidelight
    except AttributeError:
        return _histogram_observe(self, amount, exemplar)
    if not exemplar or amount != amount:
        if cell.observe(amount):
            _observe_nan(self)
    else:
        bucket = self._buckets[bisect_left(self._upper_bounds, amount)]
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
    """Publishes after the constructor, because an enum registers itself before its states are set."""
    _enum_init(self, *args, **named)
    if self.__dict__.pop('_sidelight_due', False):
        _publish(self)


def set_attribute(self, name, value):
    """Detects changes of the children by remove(), clear(), remove_by_labels() and methods of later versions, which change or
    replace the dict of children."""
    if name != '_metrics':
        object.__setattr__(self, name, value)
        return
    before, value = self.__dict__.get(name, {}), _Children(value)
    object.__setattr__(self, name, value)
    kept = set(map(id, value.values()))
    for child in list(before.values()):
        if id(child) not in kept:
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
        if collector._is_parent():
            collector._metrics = collector._metrics  # created before the client was patched
        for metric in _all(collector):
            _publish(metric)
    elif type(collector).__name__ != 'MultiProcessCollector':  # which contains the values of all processes
        _mirror.add(collector)
        _every.add(_mirror.copy)


def _initialised(cls):
    """Publishes a child on creation. A metric without labels is published by its registry. Methods such as reset() may call
    _metric_init() again, which restarts the series."""
    init = cls._metric_init

    @functools.wraps(init)
    def metric_init(self):
        again = getattr(self, '_sidelight_key', None)
        if again:
            _end(self)
        init(self)
        if self._labelvalues or again:
            _publish(self)
    cls._metric_init = metric_init


def _patch():
    for cls, methods in {
        metrics.Counter: {'inc': inc_counter},
        metrics.Gauge: {'inc': inc_gauge, 'dec': dec_gauge, 'set': set_gauge, 'set_function': set_function},
        metrics.Summary: {'observe': observe_summary}, metrics.Histogram: {'observe': observe_histogram},
        metrics.Info: {'info': info}, metrics.Enum: {'state': state, '__init__': init_enum},
        registry.CollectorRegistry: {'register': register, 'unregister': unregister},
    }.items():
        for name, ours in methods.items():
            setattr(cls, name, functools.wraps(getattr(cls, name))(ours))
    Base.__setattr__ = set_attribute
    for cls in INSTRUMENTS:
        _initialised(cls)
    # Compare real types: isinstance() asks an object for its class, which would evaluate lazy objects of the application.
    for one in [o for o in gc.get_objects() if type.__subclasscheck__(registry.CollectorRegistry, type(o))]:
        for collector in list(one._collector_to_names):
            _enter_registry(collector)


SHAPE = {metrics.Counter: ('_value',), metrics.Gauge: ('_value', '_multiprocess_mode'), metrics.Summary: ('_sum', '_count'),
         metrics.Histogram: ('_sum', '_buckets', '_upper_bounds'), metrics.Info: ('_value',), metrics.Enum: ('_value', '_states')}


def _missing():
    """Returns the names that this file relies on and the client lacks. Tries each kind of instrument in a registry of its own."""
    missing, own = [], registry.CollectorRegistry()
    for cls, parts in SHAPE.items():
        states = {'states': ['a']} if cls is metrics.Enum else {}
        parent = cls('probe_' + cls.__name__.lower(), 'p', ['l'], registry=own, **states)
        child = parent.labels('x')
        missing += [f'{cls.__name__}.{part}' for part in (*parts, '_name', '_documentation', '_unit', '_labelnames', '_labelvalues',
                                                          '_metric_init', '_child_samples') if not hasattr(child, part)]
        if parent._metrics != {('x',): child} or not parent._is_parent():
            missing.append(f'{cls.__name__}._metrics')
    return missing + [name for name in ('_collector_to_names',) if not hasattr(own, name)]


def _start():
    """Leaves an unexpected client unchanged, so that the application works as without Sidelight."""
    try:
        missing = _missing()
    except Exception as e:
        missing = [f'{type(e).__name__}: {e}']
    if missing:
        warnings.warn('this prometheus_client is not supported by sidelight: it works as usual, but is not published '
                      f"(missing: {', '.join(missing)})", RuntimeWarning, stacklevel=2)
    else:
        _patch()


_start()
