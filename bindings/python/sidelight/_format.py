# SPDX-License-Identifier: Apache-2.0
"""Encodes region format 1: see sidelight-region(5). This file must not use memory maps, processes or sockets."""
import re
import struct

# The minor version that publishers write; 0 has no summaries, and removes nothing. All that depends on it asks here.
MINOR = 1

M = (1 << 64) - 1
K = (0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
     0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3)
HEADER, LINE, PAGE = 4096, 64, 4096
HOT, STRIPES, SCHEMA, CREATED, EXEMPLARS = 1, 2, 3, 19, 20
GENERATION, SCHEMA_USED, LINES_USED, STRIPES_USED, STATE, CHANGED_NS, REFUSED = range(7)
LIVE, CLOSED = 1, 3
COUNTER_F64, GAUGE_F64, HISTOGRAM, INFO, STATESET, SUMMARY, UNKNOWN, GAUGE_TIMED, STRING = 2, 4, 6, 7, 8, 9, 10, 13, 16
REPLACEABLE = 32
COMBINE = {'': 0, 'sum': 1, 'min': 2, 'max': 3, 'mostrecent': 4, 'all': 5}
LIVE_ONLY, MIRRORED = 8, 16
REPLACE_S = 11
NAME_MAX, HELP_MAX, VALUE_MAX, LABELS_MAX, BUCKETS_MAX, STATES_MAX = 255, 1023, 1023, 32, 4096, 64
HEADER_LABELS_MAX = 3576
NAME = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*\Z')
KEY = re.compile(r'(?!__)[a-zA-Z_][a-zA-Z0-9_]*\Z')


class Refused(ValueError):
    """The format cannot express the metric, or has no room for it."""


def fnv1a(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = (h ^ b) * 0x100000001b3 & M
    return h


def plain(cells):
    return sum(c * k for c, k in zip(cells, K)) & M


def place(cell):
    """Returns the positions of the cell and of its check word in the stripe, in words of 8 bytes, and its number in the line."""
    line, i = divmod(cell, 7)
    return line * 8 + i, line * 8 + 7, i


def text(value, most, what):
    data = value.encode('utf-8', 'replace')
    if len(data) > most or b'\0' in data:
        raise Refused(f'{what} is longer than {most} bytes, or has a NUL')
    return data


def cut(value, most):
    """Returns UTF-8 without NUL, cut between two characters."""
    return value.replace('\0', '').encode('utf-8', 'replace')[:most].decode('utf-8', 'ignore').encode()


def labels(pairs, of_record, utf8=False):
    """Encodes labels: in the given order for a header, sorted by key for a record. utf8: keys may be any UTF-8."""
    data = [(text(k, NAME_MAX, 'a label'), text(v, VALUE_MAX, 'the value of a label')) for k, v in pairs]
    if len(data) > LABELS_MAX or len({k for k, _ in data}) < len(data):
        raise Refused(f'more than {LABELS_MAX} labels, or one of them twice')
    if not all(KEY.match(k) or utf8 and k and not k.startswith('__') for k, _ in pairs):
        raise Refused(f'a label is not [a-zA-Z_][a-zA-Z0-9_]*: {[k for k, _ in pairs]}')
    return b''.join(k + b'\0' + v + b'\0' for k, v in (sorted(data) if of_record else data))


def header(size, sections, label_bytes, instance, pid, start_ns, start_ticks, boot_id, minor):
    h = bytearray(HEADER)
    struct.pack_into('<8sHHIQIIQQQ16sII', h, 0, b'SIDELGHT', 1, minor, HEADER, size, 1, pid, instance, start_ns, start_ticks,
                     boot_id, len(sections), len(label_bytes))
    for i, section in enumerate(sections):
        struct.pack_into('<IIQQ', h, 80 + 24 * i, *section)
    h[512:512 + len(label_bytes)] = label_bytes
    struct.pack_into('<Q', h, 4088, fnv1a(memoryview(h)[:4088]))
    return h


class Shape:
    """A record without its place: kind, name, unit, help, labels, bounds, states, flags, number of cells."""
    __slots__ = ('kind', 'name', 'labels', 'bounds', 'cells', 'flags', 'body', 'parts', 'key', 'replaceable')

    def __init__(self, kind, name, help='', pairs=(), bounds=(), states=(), flags=0, unit='', minor=0):
        utf8 = minor and kind != STATESET  # in the exposition, a label has the state set's name
        legacy = NAME.match(name)
        if kind != STRING and not legacy and not (utf8 and name):
            raise Refused(f'the name {name!r} is not [a-zA-Z_:][a-zA-Z0-9_:]*')
        names = [text(s, NAME_MAX, 'a state') + b'\0' for s in states]
        if len(set(names)) < len(names) or len(names) > STATES_MAX or b'\0' in names:
            raise Refused(f'more than {STATES_MAX} states, or one of them twice or empty')
        if len(bounds) + 1 > BUCKETS_MAX or any(b - b for b in bounds) or any(a >= b for a, b in zip(bounds, bounds[1:])):
            raise Refused('bounds are finite, ascending, and at most 4095')
        self.kind, self.name, self.bounds, self.flags = kind, name, tuple(bounds), flags
        self.labels = labels(tuple(pairs), True, utf8)
        # A replaceable series may be removed. Readers of minor 0 skip it, which is required if the name is UTF-8.
        self.replaceable = bool(minor and (self.labels or kind == INFO or kind != STRING and not legacy))
        self.cells = {HISTOGRAM: 3 + len(bounds), SUMMARY: 2 + len(bounds), INFO: 0, STRING: 0, GAUGE_TIMED: 2}.get(kind, 1)
        self.key = name, self.labels
        self.parts = (text(name, NAME_MAX, 'the name'), unit.encode(), cut(help, HELP_MAX), self.labels, b''.join(names))
        if len(self.labels) > 65535:
            raise Refused('labels are longer than 65535 bytes')
        self.body = struct.pack(f'<{len(bounds)}d', *bounds) + b''.join(self.parts)

    def length(self, replaceable):
        """Returns the record's length. For a replaceable record it is rounded up further, so that more records fit in its place."""
        to = 64 if replaceable else 8
        return 64 + (len(self.body) + to - 1) // to * to

    def record(self, cell, ident, generation, replaceable, minor):
        length = self.length(replaceable)
        name, unit, help_, label, states = map(len, self.parts)
        r = bytearray(length)
        struct.pack_into('<IHHIIIIHHHHHHhHiIdQ', r, 0, length, self.kind | (REPLACEABLE if replaceable else 0),
                         self.flags if minor else 0, cell, self.cells, ident, generation, name, unit, help_, label, states,
                         len(self.bounds), 0, self.parts[4].count(b'\0'), 0, 0, 0.0, 0)
        r[64:64 + len(self.body)] = self.body
        struct.pack_into('<Q', r, 56, fnv1a(r))
        return bytes(r)
