# SPDX-License-Identifier: Apache-2.0
"""A publisher over libsidelight, with the interface of the one in _publisher.py, but many times faster."""
import atexit
import errno
import logging
import os
import threading
import weakref

from . import _format as f
from . import _native
from ._identity import service_name
from ._threads import log

LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
CELLS = 4096
_publishers = weakref.WeakSet()
_lock = _held = threading.RLock()  # _held: the lock that the forking thread holds
after_fork = []


def lock():
    """Returns the lock for rare operations. Updates need no lock."""
    return _lock


class Publisher:
    """Like the class in _publisher.py. If the publisher cannot be opened, metrics count for this process only. With
    max_regions=1, what does not fit is refused; otherwise the library decides."""

    def __init__(self, service=None, pod=None, namespace=None, labels=None, socket=None, cells=CELLS, schema_bytes=None,
                 max_regions=16, span_bytes=0, strict=True):
        self._refused, self._closed = 0, False
        try:
            self._native = _native.Publisher(service or service_name(), pod, namespace, tuple((labels or {}).items()), socket,
                                             cells, schema_bytes or 0, max_regions == 1, span_bytes)
        except OSError as e:
            if strict and e.errno == errno.EINVAL:
                raise ValueError('labels or sizes of the publisher are ill-formed') from None
            log.warning('metrics are not published error="%s"', e)
            self._native, self._closed = _native.Publisher(), True
        self._families, self._metrics = {}, {}  # _metrics: {(name, labels): (kind, family, pairs, value)}
        self._histograms = {}  # {name: family}; a family has one set of bounds
        _publishers.add(self)

    # ---- metrics ----

    def metric(self, kind, name, help='', labels=(), bounds=(), states=(), combine='', unit='', mirror=False):
        """Returns the value (native_value.c) of this metric, and creates it with 0 if necessary."""
        pairs = tuple(labels)
        shape = (kind, tuple(bounds), tuple(states), combine, unit, mirror)
        _native.check_fork()
        with _lock:
            known = self._metrics.get((name, tuple(sorted(pairs))))
            if known and known[0] == shape:
                return known[3]
            try:
                if known:
                    raise ValueError('the name and labels are those of another metric')
                value, family = self._make(shape, name, help, pairs)
            except ValueError as e:  # also text that UTF-8 or C cannot have
                self._refused += 1
                log.debug('a metric is not published metric=%r reason="%s"', name, e)
                value, family = self._nowhere(shape), None
            if family:
                self._metrics[name, tuple(sorted(pairs))] = shape, family, pairs, value
        self._log()
        return value

    def _family(self, shape, name, help):
        kind, bounds, states, combine, unit, mirror = shape
        return self._native.family(kind, name, f.cut(help, f.HELP_MAX).decode(), unit, bounds, states,
                                   f.COMBINE[combine.removeprefix('live')], combine.startswith('live'), mirror)

    def _make(self, shape, name, help, pairs):
        """Returns (value, family); without a family, the value is not published."""
        if self._closed:
            return self._nowhere(shape), None
        if shape[0] == f.INFO:
            there = self._native.info(name, f.cut(help, f.HELP_MAX).decode(), pairs, False)
            return None, there and self._native
        family = self._families.get((name, shape))
        if family is None and shape[0] == f.HISTOGRAM and name in self._histograms:
            value = self._native.histogram(name, f.cut(help, f.HELP_MAX).decode(), shape[4], shape[1], pairs, shape[5])
            return value, value.placed() and self._histograms[name]
        if family is None:
            family = self._family(shape, name, help)
            if family.valid():
                self._families[name, shape] = family
                if shape[0] == f.HISTOGRAM:
                    self._histograms[name] = family
        value = family.metric(pairs)
        return value, value.placed() and family

    def _nowhere(self, shape):
        """Returns a value that counts for this process only."""
        return None if shape[0] == f.INFO else _native.nowhere(shape[0], shape[1], len(shape[2]))

    def remove(self, name, labels=()):
        """Removes the metric. Returns False if it does not exist."""
        pairs = tuple(labels)
        _native.check_fork()
        with _lock:
            shape, family, pairs, value = self._metrics.pop((name, tuple(sorted(pairs))), (None,) * 4)
            if family is None or self._closed:
                return False
            if shape[0] == f.INFO:
                return self._native.info(name, '', pairs, True)
            return family.remove(pairs, value)

    def _forked(self):
        """Restores the parent's state of state sets on first access."""
        for _, _, _, value in list(self._metrics.values()):
            if isinstance(value, _native.States):
                value.get()

    # ---- spans ----

    def span_word(self, text, key):
        """Returns the number of a span's name or an attribute's key; 0 if it is malformed, and is then ignored."""
        try:
            return self._native.span_word(text, key)
        except ValueError:
            self._refused += 1
            return 0

    # ---- state ----

    @property
    def refused(self):
        return self._refused + self._native.refused()

    def attached(self):
        """True while an agent has a region of this process."""
        self._log()
        return self._native.attached()

    def alarmed(self):
        """True while a collector finds this process anomalous."""
        return self._native.alarmed()

    @staticmethod
    def _log():
        for level, line in _native.logged():
            log.log(LEVELS[level], '%s', line.removeprefix('sidelight: '))

    def close(self):
        """Closes the publisher and tells the agent. Later updates are not published."""
        with _lock:
            if self._closed:
                return
            self._closed, self._refused = True, self.refused
            for _, _, _, value in self._metrics.values():
                if value is not None:
                    _native.leave(value)
            self._metrics, self._families, self._histograms = {}, {}, {}
        self._native.close()


def _in_child():
    """Called at the first use in a forked child, which may not have been created by os.fork()."""
    global _lock
    _lock = threading.RLock()  # another thread of the parent may have held it
    for p in list(_publishers):
        p._forked()
    for call in after_fork:
        call()


@atexit.register
def _close_all():
    for p in list(_publishers):
        p.close()


_native.on_fork(_in_child)


def _before_fork():
    global _held
    lock = _lock
    lock.acquire()
    _held = lock


def _after_fork():
    """Releases the lock taken before the fork, not _lock: another hook may have used this module in the child, which then has
    a new _lock."""
    _held.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
