#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reader.py FILE: checks a region of metrics against sidelight-region(5), format 1 up to minor 1, and prints its values.

The standard library is all it needs, and it shares no code with any writer. FILE may be /proc/PID/fd/N.
As a module: Reader(fd).round(), while the writer writes; .quiet() once it does not.
"""
import json
import math
import mmap
import os
import re
import struct
import sys
import time

M = (1 << 64) - 1
K = (0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
     0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3)
HOT, STRIPES, SCHEMA, ENTRIES, SPANS, CREATED, EXEMPLARS = 1, 2, 3, 4, 5, 19, 20
STRING, REPLACEABLE = 16, 32
KINDS = dict(enumerate(('counter', 'counter_f64', 'gauge', 'gauge_f64', 'histogram_exp', 'histogram', 'info', 'stateset',
                        'summary', 'unknown', 'gauge_histogram', 'gauge_histogram_exp', 'gauge_timed'), 1))
(COUNTER, COUNTER_F64, GAUGE, GAUGE_F64, HISTOGRAM_EXP, HISTOGRAM, INFO, STATESET, SUMMARY, UNKNOWN, GAUGE_HISTOGRAM,
 GAUGE_HISTOGRAM_EXP, GAUGE_TIMED) = KINDS
MIRROR = 16
REPLACE_S = 11
NAME = re.compile(rb'[a-zA-Z_:][a-zA-Z0-9_:]*')
KEY = re.compile(rb'[a-zA-Z_][a-zA-Z0-9_]*')


PATIENCE = 5  # seconds, for a line that does not verify


class Fault(Exception):
    """A rule of the format is violated."""


def need(condition, *what):
    if not condition:
        raise Fault(' '.join(map(str, what)))


def fnv1a(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & M
    return h


def fold128(a, b):
    return a * b & M ^ a * b >> 64


def plain(c):
    return sum(c[i] * K[i] for i in range(7)) & M


def mixed(c):
    return sum(fold128(c[i], K[i]) for i in range(7)) & M


def sealed(c):
    return (sum(fold128(c[i] ^ K[i], c[i + 1] ^ K[i + 1]) for i in (0, 2, 4)) + fold128(c[6] ^ K[6], K[0])) & M


def folded(c):
    return sum((c[i] ^ c[i] >> 32) * K[i] for i in range(7)) & M


CHECKS = {'plain': plain, 'mixed': mixed, 'sealed': sealed, 'folded': folded}


def cell_of(value):
    bits, = struct.unpack('<Q', struct.pack('<d', value))
    return bits ^ bits >> 32


def f64_of(cell):
    return struct.unpack('<d', struct.pack('<Q', cell ^ cell >> 32))[0]


def utf8(data, what):
    need(0 not in data, what, 'has a NUL')
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Fault(f'{what} is not UTF-8') from None


def parse_labels(data, of_record=False, free_keys=False):
    need(not data or data[-1] == 0, 'labels have no end')
    parts = data.split(b'\0')[:-1]
    need(len(parts) % 2 == 0, 'a key without a value')
    out, last = {}, b''
    for key, value in zip(parts[::2], parts[1::2]):
        need(0 < len(key) <= 255 and not key.startswith(b'__'), 'the label', key)
        need(free_keys or KEY.fullmatch(key), 'the label', key)
        need(not of_record or key > last, 'labels do not ascend')
        need(key.decode() not in out, 'a label is there twice')
        need(len(value) <= 1023, 'the value of a label is too long')
        out[utf8(key, 'a label')] = utf8(value, 'the value of a label')
        last = key
    need(len(out) <= 32, 'more than 32 labels')
    return out


def parse_exemplar(lines):
    """(id, cell, created, labels, value) of the seven cells of each of its lines."""
    need([c[0] & 0xffff for c in lines] == [0, 1, 2, 3] and len({c[0] >> 16 for c in lines}) == 1, 'tags of an exemplar')
    first = lines[0]
    need(first[5] <= 152, 'the labels of an exemplar are too long')
    text = struct.pack('<Q', first[6]) + b''.join(struct.pack('<6Q', *c[1:]) for c in lines[1:])
    return (first[1] & 0xffffffff, first[1] >> 32, first[2], parse_labels(text[:first[5]]),
            struct.unpack('<d', struct.pack('<Q', first[3]))[0])


def parse_element(data):
    """Checks and returns an exemplar, from an element of 256 bytes."""
    lines = [struct.unpack_from('<8Q', data, 64 * i) for i in range(4)]
    for line in lines:
        need(sealed(line[:7]) == line[7], 'check of an exemplar')
    return parse_exemplar([line[:7] for line in lines])


# ---- header ----------------------------------------------------------------------------------------------------------

def parse_header(h, size):
    """A region of metrics, by the 4096 bytes of its header and the size of the memory."""
    need(len(h) == 4096, 'the header is cut off')
    (magic, version, minor, header_size, said, kind, pid, instance, start_ns, ticks, boot, count,
     label_bytes) = struct.unpack_from('<8sHHIQIIQQQ16sII', h)
    need(magic == b'SIDELGHT', 'magic')
    need(version == 1, 'version', version)
    need(struct.unpack_from('<Q', h, 4088)[0] == fnv1a(h[:4088]), 'check of the header')
    need(header_size == 4096, 'size of the header')
    need(said == size and size <= 1 << 32, 'size', said, 'of', size)
    need(kind == 1, 'kind', kind)
    need(instance, 'instance is 0')
    need(count <= 16, 'sections')
    need(label_bytes <= 3576, 'bytes of labels')
    taken, sections = [(0, 4096)], {}
    for i in range(count):
        t, stride, offset, length = struct.unpack_from('<IIQQ', h, 80 + 24 * i)
        need(t, 'a section of type 0')
        need(offset % 64 == 0 and offset >= 4096 and length <= size and offset <= size - length, 'place of section', t)
        need(all(offset >= end or offset + length <= begin for begin, end in taken), 'sections overlap')
        taken.append((offset, offset + length))
        if t <= EXEMPLARS:
            need(t not in sections, 'section', t, 'is there twice')
            sections[t] = (stride, offset, length)
    need({HOT, STRIPES, SCHEMA} <= set(sections) <= {HOT, STRIPES, SCHEMA, SPANS, CREATED, EXEMPLARS}, 'types of sections')
    need((sections[HOT][0], sections[HOT][2]) == (64, 64), 'the hot line')
    stride, _, length = sections[STRIPES]
    need(stride and stride % 4096 == 0 and length and length % stride == 0, 'stripes')
    need(sections[SCHEMA][0] == 8 and sections[SCHEMA][2] % 8 == 0, 'schema')
    if SPANS in sections:
        lines, rest = divmod(sections[SPANS][0], 88)
        rings = length // stride
        need(not rest and 512 <= lines <= 1 << 22 and not lines & (lines - 1) and
             sections[SPANS][2] == (rings * 64 + 4095 & ~4095) + rings * 88 * lines, 'spans')
    if CREATED in sections:
        need(sections[CREATED][0] == 64 and sections[CREATED][2] and sections[CREATED][2] % 64 == 0, 'created')
    if EXEMPLARS in sections:
        n, rest = divmod(sections[EXEMPLARS][2], 256)
        need(sections[EXEMPLARS][0] == 256 and not rest and 2 <= n <= 4096, 'exemplars')
    return {'minor': minor, 'pid': pid, 'instance': instance, 'start_ns': start_ns, 'start_ticks': ticks, 'boot_id': boot,
            'sections': sections, 'labels': parse_labels(h[512:512 + label_bytes])}


# ---- schema ----------------------------------------------------------------------------------------------------------

def cell_rule(kind, cells, bounds):
    if kind in (COUNTER, COUNTER_F64, GAUGE, GAUGE_F64, STATESET, UNKNOWN):
        return cells == 1
    if kind in (HISTOGRAM_EXP, GAUGE_HISTOGRAM_EXP):
        return 5 <= cells <= 4098
    if kind in (HISTOGRAM, GAUGE_HISTOGRAM):
        return cells == 3 + bounds <= 4098
    return cells == {INFO: 0, STRING: 0, SUMMARY: 2 + bounds, GAUGE_TIMED: 2}[kind] and bounds <= 64


def parse_record(data):
    """Checks and returns the first record of data, by the rules that concern a single record. More data may follow it."""
    need(len(data) >= 64, 'a record is cut off')
    (length, whole, flags, cell, cells, ident, _, name, unit, help_, labels, states, bounds, scale, state_count, first, _,
     zero, check) = struct.unpack_from('<IHHIIIIHHHHHHhHiIdQ', data)
    need(64 <= length <= len(data) and length % 8 == 0, 'length of a record')
    data = data[:length]
    need(fnv1a(data[:56] + bytes(8) + data[64:]) == check, 'check of a record')
    kind = whole & ~REPLACEABLE if whole & REPLACEABLE and whole & ~REPLACEABLE in KINDS else whole
    r = {'length': length, 'kind': kind, 'whole': whole, 'replaceable': kind != whole, 'flags': flags, 'id': ident,
         'cell': cell, 'cells': cells, 'bytes': data}
    if kind not in KINDS and kind != STRING:
        return r
    at, end = 64 + 8 * bounds, 64 + 8 * bounds + name + unit + help_ + labels + states
    need(length == end + 7 & ~7 or (r['replaceable'] and length > end), 'length of a record')
    need(not any(data[end:]), 'the end of a record is not 0')
    r['bounds'] = list(struct.unpack_from(f'<{bounds}d', data, 64))
    parts = []
    for n in (name, unit, help_, labels, states):
        parts.append(data[at:at + n])
        at += n
    free = kind != whole or kind >= SUMMARY
    need(1 <= name <= 255, 'length of the name')
    need(free or NAME.fullmatch(parts[0]), 'the name', parts[0])
    r['name'] = utf8(parts[0], 'the name')
    need(unit <= 255 and re.fullmatch(rb'[a-zA-Z0-9_:]*', parts[1]), 'the unit', parts[1])
    need(help_ <= 1023, 'the help text is too long')
    r['unit'], r['help'] = parts[1].decode(), utf8(parts[2], 'the help text')
    r['labels'] = parse_labels(parts[3], True, free)
    r.update(scale=scale, first=first, zero=zero, states=[])
    need(cell_rule(kind, cells, bounds), 'cells of a', KINDS.get(kind, 'string'), cells)
    rule_of_kind(r, parts[4], bounds, state_count)
    return r


def rule_of_kind(r, states, bounds, state_count):
    kind = r['kind']
    if kind == STRING:
        need(not (r['unit'] or r['help'] or r['labels'] or states or bounds), 'a string has other parts')
        return
    need(not bounds or kind in (HISTOGRAM, GAUGE_HISTOGRAM, SUMMARY), 'bounds')
    need(all(map(math.isfinite, r['bounds'])) and all(a < b for a, b in zip(r['bounds'], r['bounds'][1:])), 'bounds')
    if kind in (HISTOGRAM, HISTOGRAM_EXP, GAUGE_HISTOGRAM, GAUGE_HISTOGRAM_EXP):
        need('le' not in r['labels'], 'a label le')
    if kind in (HISTOGRAM_EXP, GAUGE_HISTOGRAM_EXP):
        need(-4 <= r['scale'] <= 8 and abs(r['first']) <= 1 << 20, 'scale and first bucket')
        need(math.isfinite(r['zero']) and r['zero'] >= 0, 'zero threshold')
    if kind == SUMMARY:
        need(all(0 <= q <= 1 for q in r['bounds']) and 'quantile' not in r['labels'], 'quantiles')
    need((kind == STATESET) == bool(state_count or states), 'states')
    if kind == STATESET:
        names = states.split(b'\0')
        need(states[-1:] == b'\0' and len(names) - 1 == state_count <= 64, 'states')
        r['states'] = [utf8(s, 'a state') for s in names[:-1]]
        need(all(0 < len(s) <= 255 for s in names[:-1]) and len(set(r['states'])) == state_count, 'states')
        need(':' not in r['name'] and r['name'] not in r['labels'], 'the name of a state set')


def parse_schema(data, cells_of_stripe, before=()):
    """Checks and returns all records of data, also by the rules for their order."""
    out, taken, at = list(before), set(), 0
    for r in out:
        taken.update(range(r['cell'], r['cell'] + r['cells']))
    while at < len(data):
        r = parse_record(data[at:])
        need(r['id'] == len(out), 'id', r['id'])
        need(r['cell'] + r['cells'] <= cells_of_stripe or not r['cells'], 'cells are out of bounds')
        cells = range(r['cell'], r['cell'] + r['cells'])
        need(taken.isdisjoint(cells), 'cells overlap')
        taken.update(cells)
        out.append(r)
        at += r['length']
    return out


def check_names(records):
    """Checks the records that are in use."""
    seen = set()
    for r in records:
        if r['kind'] in KINDS:
            key = r['name'], tuple(r['labels'].items())
            need(key not in seen, 'twice:', *key)
            seen.add(key)


# ---- a region --------------------------------------------------------------------------------------------------------

class Reader:
    """Reads a region that a writer may be writing. Every method raises Fault."""

    def __init__(self, fd, close=True):
        size = os.fstat(fd).st_size
        need(size >= 8192, 'size', size)
        self.map = mmap.mmap(fd, size, prot=mmap.PROT_READ)
        if close:
            os.close(fd)
        self.words = memoryview(self.map).cast('Q')
        self.head = bytes(self.map[:4096])
        self.header = parse_header(self.head, size)
        self.sections = self.header['sections']
        self.hot = (0,) * 7
        self.records, self.created, self.values, self.seen = [], {}, {}, {}
        self.cells = {}
        self.rounds = self.unsettled = 0

    def close(self):
        self.words.release()
        self.map.close()

    def line(self, offset, check):
        """The cells of a line, once it verifies. The words are loaded one by one, as a READ may do. On a busy machine a
        writer may be stopped for long between two stores."""
        w, at, i, end = self.words, offset // 8, 0, time.monotonic() + PATIENCE
        while i % 64 or time.monotonic() < end:
            i += 1
            cells = w[at], w[at + 1], w[at + 2], w[at + 3], w[at + 4], w[at + 5], w[at + 6], w[at + 7]
            if check(cells) == cells[7]:
                return cells[:7]
            if i % 64 == 0:
                time.sleep(1e-4)
        raise Fault(f'the line at {offset} does not verify')

    def round(self):
        """Returns {(name, labels): value} of the metrics in use."""
        need(self.map[:4096] == self.head, 'the header changed')
        hot, old = self.line(self.sections[HOT][1], plain), self.hot
        stride, _, length = self.sections[STRIPES]
        need(all(new >= was for new, was in zip(hot[:4], old[:4])), 'the hot line went back:', old, hot)
        need(hot[1] % 8 == 0 and hot[1] <= self.sections[SCHEMA][2], 'schema in use', hot[1])
        need(hot[2] * 64 <= stride and hot[3] * stride <= length, 'lines and stripes in use', hot)
        need(hot[0] > old[0] or hot[1:4] == old[1:4], 'a change without a generation:', old, hot)
        need(hot[4] & 255 in (1, 2, 3), 'state', hot[4] & 255)
        if hot[1] > old[1]:
            at = self.sections[SCHEMA][1]
            self.records = parse_schema(self.map[at + old[1]:at + hot[1]], stride // 64 * 7, self.records)
        self.hot = hot
        self.read_created()
        there = [r for r in self.records if self.created.get(r['id'], 1)]
        check_names(there)
        lines = {}
        for r in there:
            if r['kind'] in KINDS:
                self.take(r, lines)
        for name in set(self.seen) - {r['id'] for r in there}:
            self.seen.pop(name, None)
        self.rounds += 1
        self.values = {(r['name'], tuple(r['labels'].items())): r['value'] for r in there if 'value' in r}
        return self.values

    def read_created(self):
        offset = self.sections[SCHEMA][1]
        if CREATED not in self.sections:
            same = b''.join(r['bytes'] for r in self.records)
            need(self.map[offset:offset + len(same)] == same, 'a record changed')
            return
        _, at, length = self.sections[CREATED]
        now, room = {}, length // 64 * 7
        for first in range(0, min(len(self.records), room), 7):
            for i, cell in enumerate(self.line(at + first // 7 * 64, mixed)):
                now[first + i] = cell
        clock = time.monotonic()
        for r in self.records:
            new, was = now.get(r['id'], 1), self.created.get(r['id'], 1)
            data = bytes(self.map[offset:offset + r['length']])
            offset += r['length']
            if new != was:
                r.pop('value', None)
                self.seen.pop(r['id'], None)
            if data != r['bytes'] and new:  # the writer may be replacing a removed record
                need(r['replaceable'] and new != was, 'a record changed')
                need(clock - r.get('there', -REPLACE_S) >= REPLACE_S - 1, 'a record was replaced too soon')
                other = parse_record(data)
                need(all(other[k] == r[k] for k in ('length', 'id', 'whole', 'cell', 'cells')) and
                     len(other['bounds']) == len(r['bounds']), 'a record was replaced by one of another shape')
                r.clear()
                r.update(other)
            if new:
                r['there'] = clock
        self.created = now

    def cell(self, stripe, number, lines):
        key = stripe, number // 7
        if key not in lines:
            stride, offset, _ = self.sections[STRIPES]
            lines[key] = self.line(offset + stripe * stride + number // 7 * 64, plain if stripe else mixed)
        return lines[key][number % 7]

    def take(self, r, lines):
        """Sets r['value'] from the cells, unless its lines are not in use yet. lines: cache of the lines read in this round."""
        _, used, count = self.hot[1:4]
        if r['cells'] and (r['cell'] + r['cells'] - 1) // 7 >= used:
            return
        kind, cells = r['kind'], range(r['cell'], r['cell'] + r['cells'])

        def total(c):
            return sum(self.cell(s, c, lines) for s in range(count)) & M

        def total_f64(c):
            return sum(f64_of(self.cell(s, c, lines)) for s in range(count))

        def shared(c):
            return self.cell(0, c, lines)
        if kind == COUNTER:
            v = total(cells[0])
        elif kind == COUNTER_F64:
            v = total_f64(cells[0])
        elif kind == GAUGE:
            v = shared(cells[0])
            v -= v >> 63 << 64
        elif kind in (GAUGE_F64, UNKNOWN):
            v = f64_of(shared(cells[0]))
        elif kind == GAUGE_TIMED:
            v = f64_of(shared(cells[0])), shared(cells[1])
        elif kind == STATESET:
            v = {s: bool(shared(cells[0]) >> i & 1) for i, s in enumerate(r['states'])}
            need(shared(cells[0]) >> len(r['states']) == 0, 'a state without a name is on')
        elif kind == INFO:
            v = 1
        elif kind == SUMMARY:
            v = {'sum': total_f64(cells[0]), 'count': total(cells[1]),
                 'quantiles': {q: f64_of(shared(c)) for q, c in zip(r['bounds'], cells[2:])}}
        else:
            v = {'sum': total_f64(cells[0]), 'refused': total(cells[1]), 'buckets': [total(c) for c in cells[2:]]}
        self.never_back(r, v)
        r['value'] = v

    def never_back(self, r, v):
        kind = r['kind']
        if r['flags'] & MIRROR or kind not in (COUNTER, COUNTER_F64, HISTOGRAM, HISTOGRAM_EXP, SUMMARY):
            return
        grows = [v] if kind in (COUNTER, COUNTER_F64) else [v['count']] if kind == SUMMARY else v['buckets'] + [v['refused']]
        before = self.seen.get(r['id'])
        need(before is None or all(b <= g or g != g for b, g in zip(before, grows)), r['name'], 'went back:', before, grows)
        self.seen[r['id']] = grows

    def quiet(self):
        """Checks in addition what holds while the writer doesn't write: unused memory is 0. Returns the same as round()."""
        self.round()
        stride, offset, length = self.sections[STRIPES]
        own = {}
        for r in self.records:
            alone = r['kind'] in (GAUGE, GAUGE_F64, STATESET, UNKNOWN, GAUGE_HISTOGRAM, GAUGE_HISTOGRAM_EXP, GAUGE_TIMED)
            for i in range(r['cells']):
                own[r['cell'] + i] = alone or r['flags'] & MIRROR or (r['kind'] == SUMMARY and i > 1)
        for stripe in range(length // stride):
            base = offset + stripe * stride
            if stripe >= self.hot[3]:
                need(not any(self.map[base:base + stride]), 'stripe', stripe, 'is not in use and not 0')
                continue
            need(not any(self.map[base + self.hot[2] * 64:base + stride]), 'lines not in use are not 0')
            for n in range(self.hot[2]):
                for i, cell in enumerate(self.line(base + n * 64, plain if stripe else mixed)):
                    c = n * 7 + i
                    need(not cell or c in own, 'the cell', c, 'belongs to no record and is not 0')
                    need(not cell or not stripe or not own[c], 'the cell', c, 'is of stripe 0 alone')
        _, at, length = self.sections[SCHEMA]
        need(not any(self.map[at + self.hot[1]:at + length]), 'schema not in use is not 0')
        self.exemplars()
        return self.values

    def exemplars(self):
        """Returns the stored exemplars as [(id, cell, labels, value)]."""
        out = []
        if EXEMPLARS not in self.sections:
            return out
        _, at, length = self.sections[EXEMPLARS]
        used, _, self.exemplars_dropped = self.line(at, plain)[:3]
        need(used <= length // 256, 'exemplars in use')
        for e in range(1, used):
            ident, cell, created, labels, value = parse_exemplar(
                [self.line(at + 256 * e + 64 * i, sealed) for i in range(4)])
            need(ident < len(self.records), 'the record of an exemplar')
            need(cell < self.records[ident]['cells'], 'the cell of an exemplar')
            if created == self.created.get(ident, 0) or not created:
                out.append((ident, cell, labels, value))
        return out


def main():
    if len(sys.argv) != 2:
        sys.exit('usage: reader.py FILE')
    try:
        reader = Reader(os.open(sys.argv[1], os.O_RDONLY))
        for (name, labels), value in reader.quiet().items():
            print(json.dumps({'name': name, 'labels': dict(labels), 'value': value}))
    except (Fault, OSError) as e:
        sys.exit(f'reader.py: {e}')


if __name__ == '__main__':
    main()
