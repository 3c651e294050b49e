#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reader of this kit agrees with every vector: it accepts valid ones and refuses invalid ones."""
import os
import struct

import reader
from reader import Fault

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'vectors')


def rows(name):
    with open(os.path.join(HERE, name)) as f:
        return [line.split() for line in f if line[0] != '#']


def data(words):
    return b''.join(bytes(int(w[1:])) if w[0] == '@' else bytes.fromhex(w) for w in words)


def verdict(check):
    try:
        check()
        return 'ok', ''
    except Fault as e:
        return 'bad', str(e)


count = 0
for kind, *words in rows('lines.txt'):
    *cells, check = (int(w, 16) for w in words)
    assert reader.CHECKS[kind](cells) == check, (kind, cells)
    count += 1
for bits, cell, value in rows('f64.txt'):
    assert struct.pack('<d', reader.f64_of(int(cell, 16))) == struct.pack('<Q', int(bits, 16)), value
    assert reader.cell_of(float(value)) == int(cell, 16), value
    count += 1
for want, *words in rows('fnv.txt'):
    assert reader.fnv1a(data(words)) == int(want, 16)
    count += 1
reasons = {}
for want, name, *words in rows('headers.txt'):
    h = data(words)
    size = 24576 if struct.unpack_from('<Q', h, 16)[0] == 24576 else 20480
    got, reasons[name] = verdict(lambda: reader.parse_header(h, size))
    assert got == want, (name, got, reasons[name])
for want, name, *words in rows('records.txt'):
    got, reasons[name] = verdict(lambda: reader.check_names(reader.parse_schema(data(words), 448)))
    assert got == want, (name, got, reasons[name])
for want, name, *words in rows('exemplars.txt'):
    got, reasons['exemplar-' + name] = verdict(lambda: reader.parse_element(data(words)))
    assert got == want, (name, got, reasons['exemplar-' + name])
# A vector is refused for the reason in its name, and not because its check word is wrong.
for name, why in reasons.items():
    assert (why in ('check of a record', 'check of the header', 'check of an exemplar')) == (name in ('check', 'exemplar-check')), (name, why)
print(f'{count + len(reasons)} vectors')
