# SPDX-License-Identifier: Apache-2.0
"""Updates cells: see "THE WRITER" in sidelight-region(5).

A store of 8 bytes through a memoryview of format 'Q' is one machine instruction, unlike struct.pack_into(): no reader sees
half of it, and no SIGKILL leaves half of it. Between two stores a reader sees a line that does not verify, and after a
SIGKILL the agent computes its check word anew.

All threads of a process write stripe 1 (counters, plain lines) and stripe 0 (gauges, mixed lines) under one lock. What
follows the lock has neither calls nor loops, so that CPython runs no signal handler in between that updates the same cell.
"""
import mmap
import os
import threading
from bisect import bisect_left

from . import _format as f

M, K = f.M, f.K
MADV_WIPEONFORK = 18

lock = threading.RLock()
_owner, _reviving = os.getpid(), False
# 1 in this process, 0 in any forked child. Python's hooks do not suffice, because uwsgi's fork() does not run them.
_guard_map = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
_guard_map.madvise(MADV_WIPEONFORK)
guard = memoryview(_guard_map)
guard[0] = 1
# Converts a number to its bits.
_bits = bytearray(8)
_as_f64, _as_u64 = memoryview(_bits).cast('d'), memoryview(_bits).cast('Q')
after_fork, on_refusal = [], []


def revive():
    """Called at the first use in a forked child. Gives publishers regions of their own; only then is guard set to 1."""
    global lock, _owner, _reviving
    pid = os.getpid()
    if _owner != pid:
        _owner, lock, _reviving = pid, threading.RLock(), False  # another thread of the parent may have held it
    with lock:
        if guard[0] or _reviving:
            return
        _reviving = True
        try:
            for call in after_fork:
                call()
        finally:
            guard[0] = 1
            _reviving = False


def refuse():
    """Counts an observation that is not a number."""
    for call in on_refusal:
        call()


def keep_exemplar(record, cell, value, labels):
    """Sets an exemplar. labels: a dict. Does nothing for a metric without a place."""
    with lock:
        if record is not None and record.region.words is not None:
            try:
                record.region.keep_exemplar(record, cell, value, labels)
            except OSError:  # no memory, or the application closed our descriptor
                refuse()


def _nowhere(words):
    return memoryview(bytearray(8 * words)).cast('Q')


class Counter:
    """One f64 cell in a plain line. Without a place, it counts for this process only. record: the record of its place."""
    __slots__ = ('_words', '_at', '_check', '_k', '_old', '_value', 'record')

    def __init__(self):
        self._value = 0.0
        self.leave()

    def place(self, words, stripe, cell):
        """Moves to this cell, which is 0, with the value 0. stripe: the first word of the stripe."""
        at, check, i = f.place(cell)
        self._words, self._at, self._check, self._k = words, stripe + at, stripe + check, K[i]
        self._old, self._value = 0, 0.0

    def leave(self):
        """Moves to memory that is not published."""
        self._words, self._at, self._check, self._k, self._old = _nowhere(2), 0, 1, 0, 0
        self.record = None

    def get(self):
        if not guard[0]:
            revive()
        return self._value

    def inc(self, amount=1, exemplar=None):
        """Returns True if the amount is NaN and was therefore refused."""
        if amount < 0:
            raise ValueError('Counters can only be incremented by non-negative amounts.')
        if not guard[0]:
            revive()
        if amount != amount:
            refuse()
            return True
        with lock:
            words, check = self._words, self._check
            self._value = value = self._value + amount
            _as_f64[0] = value
            bits = _as_u64[0]
            new = bits ^ bits >> 32
            words[self._at] = new
            words[check] = words[check] + (new - self._old) * self._k & M
            self._old = new
        if exemplar:
            keep_exemplar(self.record, 0, amount, exemplar)

    def set(self, value):
        if not guard[0]:
            revive()
        with lock:
            words, check = self._words, self._check
            self._value = value
            _as_f64[0] = value
            bits = _as_u64[0]
            new = bits ^ bits >> 32
            words[self._at] = new
            words[check] = words[check] + (new - self._old) * self._k & M
            self._old = new


class Gauge(Counter):
    """One f64 cell in a mixed line."""
    __slots__ = ()

    def inc(self, amount=1):
        if not guard[0]:
            revive()
        with lock:
            words, check, k = self._words, self._check, self._k
            self._value = value = self._value + amount
            _as_f64[0] = value
            bits = _as_u64[0]
            new = bits ^ bits >> 32
            words[self._at] = new
            a, b = new * k, self._old * k
            words[check] = words[check] + (a & M ^ a >> 64) - (b & M ^ b >> 64) & M
            self._old = new

    def dec(self, amount=1):
        self.inc(-amount)

    def set(self, value):
        if not guard[0]:
            revive()
        with lock:
            words, check, k = self._words, self._check, self._k
            self._value = value
            _as_f64[0] = value
            bits = _as_u64[0]
            new = bits ^ bits >> 32
            words[self._at] = new
            a, b = new * k, self._old * k
            words[check] = words[check] + (a & M ^ a >> 64) - (b & M ^ b >> 64) & M
            self._old = new


class Word:
    """One u64 cell in a mixed line."""
    __slots__ = ('_words', '_at', '_check', '_k')

    def __init__(self):
        self.leave()

    def place(self, words, stripe, cell):
        at, check, i = f.place(cell)
        self._words, self._at, self._check, self._k = words, stripe + at, stripe + check, K[i]

    def leave(self):
        self._words, self._at, self._check, self._k = _nowhere(2), 0, 1, 0

    def get(self):
        if not guard[0]:
            revive()
        return self._words[self._at]

    def set(self, value):
        if not guard[0]:
            revive()
        with lock:
            words, check, k = self._words, self._check, self._k
            a, b = value * k, words[self._at] * k
            words[self._at] = value
            words[check] = words[check] + (a & M ^ a >> 64) - (b & M ^ b >> 64) & M


class Observer:
    """The cells of a histogram or a summary in plain lines: the sum, and u64 numbers of observations."""
    __slots__ = ('bounds', '_sum', '_words', '_places', 'record')

    def __init__(self, bounds, summary=False):
        """bounds: without infinity. A summary has one bucket, its count."""
        self.bounds = () if summary else tuple(bounds)
        self._sum = Counter()
        self.leave()

    def place(self, words, stripe, cell, first):
        """first: the index of the first bucket's cell."""
        self._sum.place(words, stripe, cell)
        self._words = words
        places = [f.place(first + n) for n in range(len(self.bounds) + 1)]
        self._places = [(stripe + at, stripe + check, K[i]) for at, check, i in places]

    def leave(self, counts=()):
        """Moves to memory that is not published. counts: the number of observations in each bucket."""
        self._sum.leave()
        self.record = None
        n = len(self.bounds) + 1
        self._words, self._places = _nowhere(n + 1), [(i, n, 0) for i in range(n)]
        for i, count in enumerate(counts):
            self._words[i] = count

    def sum(self):
        return self._sum.get()

    def counts(self):
        """Returns the number of observations in each bucket."""
        if not guard[0]:
            revive()
        return [self._words[at] for at, _, _ in self._places]

    def observe(self, amount, exemplar=None):
        """Returns True if the amount is NaN and was therefore refused."""
        if not guard[0]:
            revive()
        # A NaN belongs to no bucket, and the sum would remain NaN for ever.
        bucket = bisect_left(self.bounds, amount)
        at, check, k = self._places[bucket]
        with lock:
            total = self._sum
            value = total._value + amount
            if value == value:
                words = self._words
                words[at] = words[at] + 1
                words[check] = words[check] + k & M
                total._value = value
                _as_f64[0] = value
                bits = _as_u64[0]
                new = bits ^ bits >> 32
                check = total._check
                words = total._words
                words[total._at] = new
                words[check] = words[check] + (new - total._old) * total._k & M
                total._old = new
        if value != value:
            refuse()
            return True
        if exemplar:
            keep_exemplar(self.record, 2 + bucket, amount, exemplar)

    def count(self, i):
        return self.counts()[i]


class Mirror:
    """The cells of a histogram or a summary with observations from elsewhere: all in mixed lines, and set together."""

    def __init__(self, bounds, summary=False):
        self._sum, self._counts = Gauge(), [Word() for _ in range(1 if summary else len(bounds) + 1)]

    def place(self, words, stripe, cell, first):
        self._sum.place(words, stripe, cell)
        for i, count in enumerate(self._counts):
            count.place(words, stripe, first + i)

    def leave(self):
        for cell in (self._sum, *self._counts):
            cell.leave()

    def set(self, total, counts):
        """counts: observations per bucket, not cumulative."""
        self._sum.set(total)
        for cell, count in zip(self._counts, counts):
            cell.set(count)
