#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reader of this kit refuses a region as soon as one rule is broken. test_reader.py WRITER..."""
import os
import struct
import sys
import tempfile

import reader
from kit import Setting
from reader import HOT, SCHEMA, STRIPES, Fault, Reader, fnv1a, mixed, plain

with tempfile.TemporaryDirectory() as folder:
    s = Setting(sys.argv[1:], folder)
    s.writer.tell('count', 10)
    s.reader.quiet()
    GOOD, SECTIONS, RECORDS = bytearray(s.reader.map), s.reader.sections, s.reader.records
    s.writer.end()
HOT_AT, (STRIDE, STRIPES_AT, _), SCHEMA_AT = SECTIONS[HOT][1], SECTIONS[STRIPES], SECTIONS[SCHEMA][1]
PLACE = {r['name']: r for r in RECORDS}
USED = struct.unpack_from('<4Q', GOOD, HOT_AT)


def set_line(data, at, index, value, check):
    words = list(struct.unpack_from('<8Q', data, at))
    words[index] = value
    words[7] = check(words)
    struct.pack_into('<8Q', data, at, *words)


def set_cell(data, stripe, cell, value):
    set_line(data, STRIPES_AT + stripe * STRIDE + cell // 7 * 64, cell % 7, value, plain if stripe else mixed)


def flip(at):
    return lambda d: d.__setitem__(at, d[at] ^ 1)


def hot(cell, value):
    return lambda d: set_line(d, HOT_AT, cell, value, plain)


def record_help(d):
    """A record that changes, with a right check."""
    length, = struct.unpack_from('<I', d, SCHEMA_AT)
    at = d.index(b'Requests.', SCHEMA_AT)
    d[at] = ord('r')
    struct.pack_into('<Q', d, SCHEMA_AT + 56, 0)
    struct.pack_into('<Q', d, SCHEMA_AT + 56, fnv1a(d[SCHEMA_AT:SCHEMA_AT + length]))


def add_unused(d):
    free = next(c for c in range(USED[2] * 7) if not any(r['cell'] <= c < r['cell'] + r['cells'] for r in RECORDS))
    set_cell(d, 0, free, 5)


counter, gauge = PLACE['kit_requests_total']['cell'], PLACE['kit_depth']['cell']
LINE = STRIPES_AT + STRIDE + counter // 7 * 64
BROKEN = {
    'a byte of the header': flip(600), 'a byte of the hot line': flip(HOT_AT), 'a check word': flip(HOT_AT + 56),
    'a byte of a counter': flip(LINE + counter % 7 * 8), 'a byte of a record': flip(SCHEMA_AT + 70),
    'generation goes back': hot(0, USED[0] - 1), 'schema shrinks': hot(1, USED[1] - 8), 'lines shrink': hot(2, USED[2] - 1),
    'a change without a generation': hot(3, USED[3] + 1), 'stripes beyond the section': hot(3, 10**6), 'state': hot(4, 9),
    'a record changes': record_help,
    'a counter goes back': lambda d: set_cell(d, 1, counter, 1), 'a gauge outside of stripe 0': lambda d: set_cell(d, 1, gauge, 1),
    'an unused cell': add_unused, 'a line not in use': flip(STRIPES_AT + USED[2] * 64),
    'schema not in use': flip(SCHEMA_AT + USED[1]),
    'a stripe not in use': flip(STRIPES_AT + USED[3] * STRIDE),
    'a plain line in stripe 0': lambda d: set_line(d, STRIPES_AT + gauge // 7 * 64, gauge % 7, 2**64 - 10, plain),
}


def memory(data):
    fd = os.memfd_create('region')
    os.write(fd, data)
    return fd


reader.PATIENCE = 0.1  # nothing writes from here on: a line that does not verify never will
fd = memory(GOOD)
Reader(fd, close=False).quiet()
for name, break_it in BROKEN.items():
    # The same memory, so that the reader has seen the right state.
    os.pwrite(fd, GOOD, 0)
    r = Reader(fd, close=False)
    r.quiet()
    data = bytearray(GOOD)
    break_it(data)
    assert data != GOOD, name
    os.pwrite(fd, data, 0)
    try:
        r.quiet()
    except Fault as e:
        print(f'ok   {name}: {e}')
    else:
        sys.exit(f'{name}: the reader took it')
