# SPDX-License-Identifier: Apache-2.0
"""Exemplars of a region: see "Exemplars" in sidelight-region(5). Callers hold the lock."""
import struct
import time

from . import _format as f

ELEMENTS, SIZE = 64, 256  # the first element is the head
LABELS_MAX = 152
USED, SET, DROPPED = range(3)


def sealed(cells):
    """Returns the check word of a line."""
    def fold(a, b):
        return a * b & f.M ^ a * b >> 64
    mixed = [c ^ k for c, k in zip(cells, f.K)]
    return fold(mixed[0], mixed[1]) + fold(mixed[2], mixed[3]) + fold(mixed[4], mixed[5]) + fold(mixed[6], f.K[0]) & f.M


class Exemplars:
    """The elements of the section at this offset. Its pages have been allocated."""

    def __init__(self, words, at):
        self._words, self._at, self._elements, self._tag = words, at // 8, {}, 0

    def _line(self, at, cells, check):
        self._words[at + 7] = ~check & f.M  # no reader accepts the line until it is complete
        for i, cell in enumerate(cells):
            self._words[at + i] = cell
        self._words[at + 7] = check

    def _head(self, **add):
        cells = list(self._words[self._at:self._at + 7])
        cells[USED] = len(self._elements) + 1
        cells[SET] += add.get('set', 0)
        cells[DROPPED] += add.get('dropped', 0)
        self._line(self._at, cells, f.plain(cells))

    def keep(self, ident, cell, created, value, labels):
        """Replaces the exemplar of this cell of the record. An exemplar that is malformed or has no room is dropped and counted."""
        try:
            data = f.labels([(str(k), str(v)) for k, v in labels.items()], False)
        except f.Refused:
            data = b''
        n = self._elements.get((ident, cell), len(self._elements) + 1)
        if not data or len(data) > LABELS_MAX or n >= ELEMENTS:
            self._head(dropped=1)
            return
        self._tag += 1
        bits, = struct.unpack('<Q', struct.pack('<d', value))
        first = [ident | cell << 32, created, bits, time.time_ns(), len(data)]
        at = self._at + n * SIZE // 8
        words = struct.unpack('<19Q', data.ljust(LABELS_MAX, b'\0'))
        for i, rest in enumerate((first + [words[0]], words[1:7], words[7:13], words[13:19])):
            cells = [i | self._tag << 16 & f.M, *rest]
            self._line(at + 8 * i, cells, sealed(cells))
        self._elements[ident, cell] = n
        self._head(set=1)
