# SPDX-License-Identifier: Apache-2.0
"""A publisher: its regions and metrics, and their replacement in forked children."""
import atexit
import os
import time
import weakref

from . import _cells as cells
from . import _format as f
from ._attach import REGIONS_MAX, Attachment, log
from ._identity import pod_name, service_name
from ._region import Region

CELLS, CELLS_MAX, SCHEMA_PER_CELL = 4096, 65536, 128
_publishers = weakref.WeakSet()
after_fork = []


def lock():
    """Returns the lock that protects all publishers."""
    return cells.lock


class State(cells.Word):
    """The cell of a state set."""
    __slots__ = ('kept',)

    def __init__(self):
        super().__init__()
        self.kept = 0

    def set(self, value):
        self.kept = value & f.M  # a refused state set may have more than 64 states
        super().set(self.kept)

    def place(self, words, stripe, cell):
        """Keeps the parent's state in a forked child."""
        super().place(words, stripe, cell)
        super().set(self.kept)


class Timed(cells.Gauge):
    """The cells of a gauge that records when it was set."""
    __slots__ = ('time',)

    def __init__(self):
        self.time = cells.Word()
        super().__init__()

    def place(self, words, stripe, cell):
        super().place(words, stripe, cell)
        self.time.place(words, stripe, cell + 1)

    def leave(self):
        super().leave()
        self.time.leave()

    def set(self, value):
        super().set(value)
        self.time.set(time.time_ns())

    def inc(self, amount=1):
        super().inc(amount)
        self.time.set(time.time_ns())


def value_of(kind, bounds, summary, mirror):
    """Returns the value object for a metric of this shape."""
    if kind in (f.HISTOGRAM, f.SUMMARY):
        return (cells.Mirror if mirror else cells.Observer)(bounds, summary)
    if mirror and kind == f.COUNTER_F64:
        return cells.Gauge()
    return {f.COUNTER_F64: cells.Counter, f.GAUGE_F64: cells.Gauge, f.UNKNOWN: cells.Gauge, f.GAUGE_TIMED: Timed,
            f.STATESET: State, f.INFO: lambda: None}[kind]()


class Publisher:
    """Publishes the metrics of this process. Does not raise if there is no room or no agent: metrics that are not
    published are counted in refused, and the first one is logged.

    service, pod, namespace: labels of all series; default $SIDELIGHT_SERVICE or the program; $POD_NAME, the container or
    SERVICE-PID; $POD_NAMESPACE. labels: a dict of further labels. socket: path of the agent's socket; default $SIDELIGHT_SOCKET.
    cells: number of cells in the first region; when it is full, another region is created, up to max_regions. strict: raise
    ValueError if labels are malformed or too long;
    otherwise log a warning, and use 'unknown' as service and pod, without further labels."""

    def __init__(self, service=None, pod=None, namespace=None, labels=None, socket=None, cells=CELLS, schema_bytes=None,
                 max_regions=16, minor=None, strict=True):
        self._service, self._pod = service or service_name(), pod
        namespace = namespace or os.environ.get('POD_NAMESPACE')
        self._more = [('namespace', namespace)] if namespace else []
        self._more += list((labels or {}).items())
        try:
            if len(self._labels()) > f.HEADER_LABELS_MAX:
                raise f.Refused('labels of the publisher are too long')
        except f.Refused as e:
            if strict:
                raise
            log.warning('the labels of the publisher are replaced error="%s"', e)
            self._service, self._pod, self._more = 'unknown', 'unknown', []
        self._path = socket or os.environ.get('SIDELIGHT_SOCKET') or '/run/sidelight/agent.sock'
        self._cells, self._schema = cells, schema_bytes
        self._max_regions, self.minor = min(max_regions, REGIONS_MAX), f.MINOR if minor is None else minor
        self.refused, self._logged = 0, False
        self._open()
        _publishers.add(self)

    def _labels(self):
        """Returns the labels of this process. A forked child has another pod, unless the application has set the pod."""
        pod = self._pod or pod_name(self._service)
        return f.labels([('service', self._service), ('pod', pod), *self._more], False)

    def _open(self):
        self.regions, self._records, self._free = [], {}, []
        self._closed = False
        self._attach = Attachment(self._path)
        with cells.lock:
            try:
                self._new_region()  # created even if there is no metric yet
            except OSError as e:
                log.warning('no memory for metrics yet error="%s"', e)

    # ---- metrics ----

    def metric(self, kind, name, help='', labels=(), bounds=(), states=(), combine='', unit='', mirror=False):
        """Returns the value (_cells.py) of this metric, and creates it with 0 if necessary."""
        summary = kind == f.SUMMARY
        if not self.minor:
            # Minor 0 has no summaries: a histogram without bounds has the same sum and count.
            kind = {f.SUMMARY: f.HISTOGRAM, f.GAUGE_TIMED: f.GAUGE_F64, f.UNKNOWN: f.GAUGE_F64}.get(kind, kind)
        if not cells.guard[0]:
            cells.revive()
        try:
            flags = f.COMBINE[combine.removeprefix('live')] | (f.LIVE_ONLY if combine.startswith('live') else 0)
            flags |= f.MIRRORED if mirror else 0
            shape = f.Shape(kind, name, help, labels, bounds, states, flags, unit, self.minor)
            with cells.lock:
                return self._find(shape, summary)
        except (f.Refused, OSError) as e:
            self._refuse(name, e)
            return value_of(kind, bounds, summary, mirror)

    def _find(self, shape, summary):
        record = self._records.get(shape.key)
        if record and record.removed is None:
            if (record.shape.kind, record.shape.bounds, record.shape.flags) != (shape.kind, shape.bounds, shape.flags):
                raise f.Refused('the name and labels are those of another metric')
            return record.value
        if record and (record.shape.kind, record.shape.flags, record.shape.body) != (shape.kind, shape.flags, shape.body):
            record = None  # the other shape may not fit into the record
        self._attach.watch()
        value = value_of(shape.kind, shape.bounds, summary, shape.flags & f.MIRRORED)
        self._put(shape, value, record)
        return value

    def _put(self, shape, value, record=None):
        """Publishes a metric, in the place of record if that belongs to it, otherwise anywhere."""
        record = record or self._free_place(shape)
        if record:
            region = record.region
            if record in self._free:
                self._free.remove(record)
            region.clear_cells(record)
            if record.shape.key != shape.key or record.shape.body != shape.body:
                if self._records.get(record.shape.key) is record:
                    del self._records[record.shape.key]
                region.replace(record, shape)
            record.removed = None
        else:
            region = self._region_for(shape, shape.replaceable)
            record = region.add(shape, shape.replaceable)
        record.value = value
        self._place(record)
        region.set_created(record, time.time_ns())
        region.publish()
        self._records[shape.key] = record

    def _free_place(self, shape):
        if not shape.replaceable:
            return None
        length, now = shape.length(True), time.monotonic()
        for record in self._free:
            other = record.shape
            if record.replaceable and now - record.removed >= f.REPLACE_S and other.kind == shape.kind and \
                    other.cells == shape.cells and len(other.bounds) == len(shape.bounds) and \
                    other.length(True) == length:
                return record
        return None

    def _region_for(self, shape, replaceable):
        for region in self.regions:
            if region.room(shape, replaceable):
                return region
        if len(self.regions) >= self._max_regions:
            raise f.Refused('all regions are full')
        return self._new_region(shape.cells, shape.length(replaceable))

    def _new_region(self, cells_min=0, schema_min=0):
        grown = min(self._cells << len(self.regions), max(CELLS_MAX, self._cells))
        count = max(grown, cells_min)
        schema = max(self._schema or grown * SCHEMA_PER_CELL, schema_min)
        region = Region(self._labels(), count, (schema + f.PAGE - 1) // f.PAGE * f.PAGE, self.minor)
        self.regions.append(region)
        self._attach.offer(region)
        return region

    @staticmethod
    def _place(record):
        words, value, kind = record.region.words, record.value, record.shape.kind
        if kind in (f.COUNTER_F64, f.HISTOGRAM) and not record.shape.flags & f.MIRRORED:
            value.record = record
        counted = kind in (f.COUNTER_F64, f.HISTOGRAM, f.SUMMARY) and not record.shape.flags & f.MIRRORED
        stripe = record.region.stripe(1 if counted else 0)
        if kind in (f.HISTOGRAM, f.SUMMARY):
            value.place(words, stripe, record.cell, record.cell + (2 if kind == f.HISTOGRAM else 1))
        elif value is not None:
            value.place(words, stripe, record.cell)

    def remove(self, name, labels=()):
        """Removes the metric; if the format cannot express that, it keeps its value. Returns False if it does not exist."""
        if not cells.guard[0]:
            cells.revive()
        with cells.lock:
            try:
                record = self._records.get((name, f.labels(tuple(labels), True, bool(self.minor))))
            except f.Refused:
                return False
            if record is None or record.removed is not None:
                return False
            if not self.minor:
                return True
            if isinstance(record.value, cells.Observer):
                record.value.leave(record.value.counts())
            elif record.value is not None:
                record.value.leave()
            record.removed, record.value = time.monotonic(), None
            record.region.set_created(record, 0)
            record.region.publish()
            self._free.append(record)
            return True

    def _refuse(self, name, why):
        with cells.lock:
            self.refused += 1
            first, self._logged = not self._logged, True
            for region in self.regions[:1]:
                region.refuse()
        if first:
            log.warning('a metric is not published; further refusals are only counted metric=%s reason="%s"',
                        name, why)

    def _observation_refused(self):
        with cells.lock:
            for region in self.regions[:1]:
                region.refuse()

    # ---- state ----

    def attached(self):
        """True while an agent has a region of this process."""
        return bool(cells.guard[0]) and self._attach.attached

    def alarmed(self):
        """True while a collector finds this process anomalous."""
        return bool(cells.guard[0]) and self._attach.alarmed()

    # ---- the end, and fork ----

    def close(self):
        """Closes the publisher and tells the agent. Later updates are not published."""
        if not cells.guard[0] or self._closed:
            return
        with cells.lock:
            self._closed = True
            for record in self._records.values():
                if record.value is not None:
                    record.value.leave()
            for region in self.regions:
                region.end()
            self._attach.stop()
            self._max_regions = 0
            for region in self.regions:
                region.drop()
            self.regions, self._records = [], {}

    def _forked(self):
        self._attach.forked()

    def _revive(self):
        """Publishes the same metrics, starting at 0, in regions of this process."""
        old, records = self.regions, self._records
        self._attach.forked()
        for region in old:
            region.drop()
        if self._closed:
            return
        self._open()
        self.refused = 0
        for record in records.values():
            if record.removed is not None:
                continue
            try:
                self._put(record.shape, record.value)
            except (f.Refused, OSError) as e:
                if record.value is not None:
                    record.value.leave()
                self._refuse(record.shape.name, e)


def _revive_all():
    with cells.lock:
        for p in list(_publishers):
            p._revive()
    for call in after_fork:
        call()


def _after_in_child():
    # The child may fork again, so its hooks must be in order; and it must not keep the parent's connection open.
    cells.lock.release()
    for p in list(_publishers):
        p._forked()


def _before():
    cells.lock.acquire()


def _after_in_parent():
    cells.lock.release()


@atexit.register
def _close_all():
    for p in list(_publishers):
        p.close()


cells.after_fork.append(_revive_all)
cells.on_refusal.append(lambda: next((p._observation_refused() for p in list(_publishers)), None))
os.register_at_fork(before=_before, after_in_child=_after_in_child, after_in_parent=_after_in_parent)
