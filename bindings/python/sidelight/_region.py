# SPDX-License-Identifier: Apache-2.0
"""One region: its memory, its layout and its schema. Callers hold the publisher's lock."""
import errno
import fcntl
import mmap
import os
import time

from . import _exemplar
from . import _format as f
from ._descriptor import Descriptor

_MFD_NOEXEC_SEAL = 8
_abandoned = []  # maps of regions whose descriptors the application closed


def _start_ticks():
    try:
        with open('/proc/self/stat', 'rb') as stat:
            return int(stat.read().rpartition(b')')[2].split()[19])
    except OSError:
        return 0


def _boot_id():
    try:
        with open('/proc/sys/kernel/random/boot_id') as boot:
            return bytes.fromhex(boot.read().strip().replace('-', ''))
    except OSError:
        return bytes(16)


def _memfd():
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create('sidelight', flags | _MFD_NOEXEC_SEAL)
    except OSError as e:
        if e.errno != errno.EINVAL:  # before Linux 6.3
            raise
        return os.memfd_create('sidelight', flags)


class Record:
    """A record in use: its place, and the object that writes its cells."""
    __slots__ = ('region', 'shape', 'ident', 'at', 'cell', 'replaceable', 'value', 'removed')

    def __init__(self, region, shape, ident, at, cell, replaceable):
        self.region, self.shape, self.ident, self.at, self.cell = region, shape, ident, at, cell
        self.replaceable, self.value, self.removed = replaceable, None, None


class Region:
    """Two stripes: 0 for gauges, 1 for counters. Raises OSError if there is no memory."""

    def __init__(self, labels, cells, schema_bytes, minor):
        self.minor, self.cells_max, self.schema_max = minor, cells, schema_bytes
        self.stride = ((cells + 6) // 7 * f.LINE + f.PAGE - 1) // f.PAGE * f.PAGE
        self.schema_at = 2 * f.PAGE + 2 * self.stride
        self.records_max = cells  # maximum number of records with a creation time
        self.created_at = self.schema_at + schema_bytes
        created = ((self.records_max + 6) // 7 * f.LINE + f.PAGE - 1) // f.PAGE * f.PAGE if minor else 0
        self.exemplars_at = self.created_at + created
        exemplars = _exemplar.ELEMENTS * _exemplar.SIZE if minor else 0
        self.size = self.exemplars_at + exemplars
        sections = [(f.HOT, f.LINE, f.PAGE, f.LINE), (f.STRIPES, self.stride, 2 * f.PAGE, 2 * self.stride),
                    (f.SCHEMA, 8, self.schema_at, schema_bytes)]
        if minor:
            sections.append((f.CREATED, f.LINE, self.created_at, created))
            sections.append((f.EXEMPLARS, _exemplar.SIZE, self.exemplars_at, exemplars))
        self.instance = int.from_bytes(os.urandom(8), 'little') or 1
        self.generation = self.schema_used = self.lines_used = self.cells_used = self.idents = 0
        self.refused, self.dense = 0, False
        self.again = 0  # number of EAGAIN answers since it was last admitted
        self._exemplars = None
        self.allocated = {}  # {first byte of a section: end of its allocated memory}
        self.fd = Descriptor(_memfd())
        try:
            fd = self.fd.number()
            os.fchmod(fd, 0o444)
            os.ftruncate(fd, self.size)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            self._allocate(0, 3 * f.PAGE)
            self._allocate(2 * f.PAGE + self.stride, f.PAGE)
            if created:
                self._allocate(self.created_at, created)
            self.map = mmap.mmap(self.fd.number(), self.size)
        except OSError:
            self.fd.close()
            raise
        self.words = memoryview(self.map).cast('Q')
        self.map[:f.HEADER] = bytes(f.header(self.size, sections, labels, self.instance, os.getpid(), time.time_ns(),
                                             _start_ticks(), _boot_id(), minor))
        self.state = f.LIVE
        self.publish()

    def _allocate(self, first, length):
        """Allocates the pages from first on, because touching a page that the system cannot provide causes SIGBUS."""
        done = self.allocated.get(first, first)
        end = (first + length + f.PAGE - 1) // f.PAGE * f.PAGE
        if end > done:
            os.posix_fallocate(self.fd.number(), done, min(end, self.size) - done)
            self.allocated[first] = end

    def allocate_all(self):
        """Fills holes, for an agent that registers memory: it accepts no memory with holes."""
        os.posix_fallocate(self.fd.number(), 0, self.size)
        self.dense = True

    def stripe(self, n):
        """Returns the index of the first word."""
        return (2 * f.PAGE + n * self.stride) // 8

    def publish(self):
        """Writes the hot line, after everything that it refers to. The check word is last, so that readers never accept half a line."""
        self.generation += 1
        now = {f.LINES_USED: self.lines_used, f.STRIPES_USED: 2, f.SCHEMA_USED: self.schema_used,
               f.GENERATION: self.generation, f.CHANGED_NS: time.time_ns(), f.STATE: self.state, f.REFUSED: self.refused}
        self._hot(now)

    def _hot(self, now):
        words, at = self.words, f.PAGE // 8
        for cell, value in now.items():
            words[at + cell] = value
        words[at + 7] = f.plain(words[at:at + 7])

    def refuse(self):
        self.refused += 1
        self._hot({f.REFUSED: self.refused})

    def room(self, shape, replaceable):
        return (self.cells_used + shape.cells <= self.cells_max and self.idents < self.records_max and
                self.schema_used + shape.length(replaceable) <= self.schema_max)

    def add(self, shape, replaceable):
        """Creates a record, which is not published yet, with cells of 0. Requires room()."""
        record = Record(self, shape, self.idents, self.schema_used, self.cells_used if shape.cells else 0, replaceable)
        data = shape.record(record.cell, record.ident, self.generation + 1, replaceable, self.minor)
        lines = (self.cells_used + shape.cells + 6) // 7
        self._allocate(self.schema_at, record.at + len(data))
        for stripe in (0, 1):
            self._allocate(2 * f.PAGE + stripe * self.stride, lines * f.LINE)
        self.map[self.schema_at + record.at:self.schema_at + record.at + len(data)] = data
        self.schema_used += len(data)
        self.cells_used += shape.cells
        self.lines_used = max(self.lines_used, lines)
        self.idents += 1
        return record

    def replace(self, record, shape):
        """Writes another record of the same form in the place of a removed one, with cells of 0."""
        data = shape.record(record.cell, record.ident, self.generation + 1, True, self.minor)
        at = self.schema_at + record.at
        self.map[at:at + len(data)] = data
        record.shape = shape

    def set_created(self, record, ns):
        """Sets the creation time; 0 removes the record. Call publish() afterwards."""
        if not self.minor:
            return
        at, check, i = f.place(record.ident)
        words, base = self.words, self.created_at // 8
        old = words[base + at]
        words[base + at] = ns
        a, b = ns * f.K[i], old * f.K[i]
        words[base + check] = words[base + check] + (a & f.M ^ a >> 64) - (b & f.M ^ b >> 64) & f.M

    def keep_exemplar(self, record, cell, value, labels):
        """Sets the exemplar of a cell of the record; cell 0 is the first one."""
        if not self.minor:
            return
        if self._exemplars is None:
            self._allocate(self.exemplars_at, self.size - self.exemplars_at)
            self._exemplars = _exemplar.Exemplars(self.words, self.exemplars_at)
        created = self.words[self.created_at // 8 + f.place(record.ident)[0]]
        self._exemplars.keep(record.ident, cell, created, value, labels)

    def clear_cells(self, record):
        """Sets the values to 0."""
        words = self.words
        for cell in range(record.cell, record.cell + record.shape.cells):
            at, check, i = f.place(cell)
            for stripe in (0, 1):
                base = self.stripe(stripe)
                old = words[base + at]
                words[base + at] = 0
                term = old * f.K[i]
                term = term if stripe else term & f.M ^ term >> 64
                words[base + check] = words[base + check] - term & f.M

    def end(self):
        """Marks the region as closed."""
        self.state = f.CLOSED
        self.publish()

    def drop(self):
        """Closes the descriptor, unless the application did. The memory is freed together with the last cell in it."""
        if not self.fd.ours():
            _abandoned.append(self.map)  # the map has a duplicate of the descriptor, and would close that number, which the application may use
        self.fd.close()
        self.words = self.map = self._exemplars = None
