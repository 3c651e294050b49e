#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""region_reader.py FILE: prints the values of a region as JSON.

A second reader of region format 1, written from sidelight-region(5) alone: it shares nothing with
the C one, and the standard library is all it needs. FILE may be /proc/PID/fd/N.
"""
import json
import re
import struct
import sys
import time

MASK = (1 << 64) - 1
K = (0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
     0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3)
HOT, STRIPES, SCHEMA, ENTRIES, SPANS, CREATED = 1, 2, 3, 4, 5, 19
STRING = 16
METRICS, DIRECTORY = 1, 2
(COUNTER, COUNTER_F64, GAUGE, GAUGE_F64, HISTOGRAM_EXP, HISTOGRAM, INFO, STATESET) = range(1, 9)
KINDS = {COUNTER: 'counter', COUNTER_F64: 'counter_f64', GAUGE: 'gauge', GAUGE_F64: 'gauge_f64',
         HISTOGRAM_EXP: 'histogram_exp', HISTOGRAM: 'histogram', INFO: 'info',
         STATESET: 'stateset'}
STATES = ('free', 'live', 'dead', 'closed', 'retired')


class Fault(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Fault(what)


def fnv1a(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001b3) & MASK
    return h


def plain(cells):
    return sum(c * k for c, k in zip(cells, K)) & MASK


def mixed(cells):
    return sum(((c * k) & MASK) ^ ((c * k) >> 64) for c, k in zip(cells, K)) & MASK


assert plain(range(1, 8)) == 0xaa87591af3b8cdd6 and mixed(range(1, 8)) == 0xaa87591af3b8cddc


def sealed(cells):
    def pair(a, b):
        return ((a * b) & MASK) ^ ((a * b) >> 64)
    return (sum(pair(cells[i] ^ K[i], cells[i + 1] ^ K[i + 1]) for i in (0, 2, 4)) +
            pair(cells[6] ^ K[6], K[0])) & MASK


assert sealed(range(1, 8)) == 0x308358a406848306


def unfold(cell):
    return struct.unpack('<d', struct.pack('<Q', cell ^ (cell >> 32)))[0]


def text(data):
    need(0 not in data, 'NUL in a text')
    return data.decode('utf-8')


def labels(data, ascending):
    need(not data or data[-1] == 0, 'labels without an end')
    parts = data.split(b'\0')[:-1] if data else []
    need(len(parts) % 2 == 0, 'a key without a value')
    out = {}
    for key, value in zip(parts[::2], parts[1::2]):
        need(re.fullmatch(rb'[a-zA-Z_][a-zA-Z0-9_]*', key) and not key.startswith(b'__')
             and len(key) <= 255, 'a key is ill-formed')
        need(len(value) <= 1023, 'a value is too long')
        need(key.decode() not in out, 'a key is there twice')
        need(not ascending or not out or max(out) < key.decode(), 'keys do not ascend')
        out[key.decode()] = text(value)
    need(len(out) <= 32, 'too many labels')
    return out


class Region:
    def __init__(self, path):
        self.file = open(path, 'rb', buffering=0)
        self.unsettled = 0
        h = self.read(0, 4096)
        (magic, version, self.minor, header_size, self.size, self.kind, self.pid, self.instance,
         self.start_ns, self.start_ticks, boot_id, count, label_bytes) = struct.unpack_from(
             '<8sHHIQIIQQQ16sII', h)
        need(magic == b'SIDELGHT', 'magic')
        need(version == 1, 'version')
        need(struct.unpack_from('<Q', h, 4088)[0] == fnv1a(h[:4088]), 'check of the header')
        need(header_size == 4096 and self.size <= 1 << 32, 'size')
        need(self.size <= self.file.seek(0, 2), 'smaller than it says')
        need(self.kind in (METRICS, DIRECTORY) and self.instance and count <= 16, 'header')
        b = boot_id.hex()
        self.boot_id = '-'.join((b[:8], b[8:12], b[12:16], b[16:20], b[20:]))
        need(label_bytes <= 3576, 'bytes of labels')
        self.labels = labels(h[512:512 + label_bytes], False)
        self.sections, taken = {}, []
        for i in range(count):
            kind, stride, offset, length = struct.unpack_from('<IIQQ', h, 80 + 24 * i)
            need(kind and offset % 64 == 0 and offset >= 4096 and offset + length <= self.size,
                 'a section is out of bounds')
            need(all(offset >= e or offset + length <= s for s, e in taken), 'sections overlap')
            taken.append((offset, offset + length))
            if kind <= SPANS or kind == CREATED:
                need(kind not in self.sections, 'a section is there twice')
                self.sections[kind] = (stride, offset, length)
        want = {HOT, STRIPES, SCHEMA} if self.kind == METRICS else {HOT, ENTRIES}
        need(set(self.sections) - {SPANS, CREATED} == want, 'sections')
        if SPANS in self.sections:
            stride, _, length = self.sections[SPANS]
            self.span_lines, rest = divmod(stride, 88)
            self.rings = self.sections[STRIPES][2] // self.sections[STRIPES][0]
            self.heads = (self.rings * 64 + 4095) // 4096 * 4096
            need(self.kind == METRICS and not rest and 512 <= self.span_lines <= 4194304 and
                 not self.span_lines & (self.span_lines - 1) and
                 length == self.heads + self.rings * stride, 'spans')

    def read(self, offset, length):
        self.file.seek(offset)
        data = b''
        while len(data) < length:
            piece = self.file.read(length - len(data))
            need(piece, 'the file ends too early')
            data += piece
        return data

    def line(self, offset, check, tries=5000):
        for i in range(tries):
            words = struct.unpack('<8Q', self.read(offset, 64))
            if check(words[:7]) == words[7]:
                return words[:7]
            if i > 10:
                time.sleep(1e-5)
        self.unsettled += 1
        return None

    def hot(self):
        cells = self.line(self.sections[HOT][1], plain)
        need(cells, 'the hot line never verified')
        return cells

    def records(self, used):
        offset, length = self.sections[SCHEMA][1:]
        need(used <= length and used % 8 == 0, 'schema in use')
        data, at, out, taken = self.read(offset, used), 0, [], set()
        while at < used:
            need(used - at >= 64, 'a record is cut off')
            size, = struct.unpack_from('<I', data, at)
            need(size >= 64 and size % 8 == 0 and size <= used - at, 'length of a record')
            record = data[at:at + size]
            check, = struct.unpack_from('<Q', record, 56)
            need(fnv1a(record[:56] + bytes(8) + record[64:]) == check, 'check of a record')
            r = self.record(record)
            need(r['id'] == len(out), 'id of a record')
            if r['cells']:
                cells = range(r['cell'], r['cell'] + r['cells'])
                need(cells.stop <= self.sections[STRIPES][0] // 64 * 7, 'cells are out of bounds')
                need(taken.isdisjoint(cells), 'cells overlap')
                taken.update(cells)
            out.append(r)
            at += size
        self.strings = {r['id']: r['name'] for r in out if r['kind'] == STRING}
        return [r for r in out if r['kind'] in KINDS and self.is_there(r['id'])]

    def is_there(self, ident):
        """Its metric was not removed."""
        if CREATED not in self.sections or ident >= self.sections[CREATED][2] // 64 * 7:
            return True
        cells = self.line(self.sections[CREATED][1] + ident // 7 * 64, mixed)
        return cells is None or cells[ident % 7] != 0

    def ring_lines(self, ring, at, places, end):
        """{number: cells} of the lines that verify, of the last ones before end."""
        offset = self.sections[SPANS][1] + self.heads + ring * self.sections[SPANS][0] + at
        out = {}
        for n in range(max(0, end - places), end):
            cells = self.line(offset + n % places * 64, sealed, 3)
            if cells and cells[0] >> 16 == n:
                out[n] = cells
        return out

    def spans(self, rings):
        """Returns every valid span, and the content of heads, roots and index."""
        out, size = [], self.span_lines
        for ring in range(rings):
            head = self.line(self.sections[SPANS][1] + 64 * ring, plain)
            need(head, 'a head never verified')
            lines = self.ring_lines(ring, 24 * size, size, head[0])
            spans = []
            for n, cells in lines.items():
                place, count = cells[0] & 255, cells[0] >> 8 & 255
                own = [lines.get(n + i) for i in range(count)]
                if place or count < 2 or count > 8 or None in own:
                    continue
                if any(c[0] & 0xffff != count << 8 | i for i, c in enumerate(own)):
                    continue
                spans.append(self.span(n, cells, [w for c in own[1:] for w in c[1:]]))
            roots = self.ring_lines(ring, 0, size // 4, head[1])
            index = self.ring_lines(ring, 16 * size, size // 8, head[2])
            out.append({
                'spans_written': head[3], 'dropped': head[4], 'cut': head[5], 'spans': spans,
                'roots': [f'{c[1]:016x}{c[2]:016x}' for c in roots.values()
                          if c[0] & 0xffff == 0xff00],
                'entries': [[e & 0xffffffff, e >> 32 & 255, e >> 40 & 1, e >> 41]
                            for c in index.values() for e in c[1:]
                            if c[0] & 0xffff == 0xfe00 and e]})
        return out

    def span(self, number, first, words):
        meta, at, attributes, message = words[0], 1, {}, ''
        for _ in range(meta >> 56):
            word, at = words[at], at + 1
            key, kind, length = word & 0xffffffff, word >> 32 & 255, word >> 40 & 255
            if kind in (1, 5):
                need(length <= 128, 'bytes of a string')
                count = (length + 7) // 8
                raw = struct.pack(f'<{count}Q', *words[at:at + count])[:length]
                value, at = raw.decode('utf-8', 'replace'), at + count
            else:
                need(kind in (2, 3, 4), 'type of an attribute')
                raw, at = struct.pack('<Q', words[at]), at + 1
                value = bool(raw[0]) if kind == 4 else struct.unpack('<q' if kind == 2 else '<d',
                                                                     raw)[0]
            if kind == 5:
                message = value
            else:
                attributes[self.strings[key]] = value
        return {'number': number, 'trace_id': f'{first[1]:016x}{first[2]:016x}',
                'span_id': f'{first[3]:016x}', 'parent_id': f'{first[4]:016x}' if first[4] else '',
                'start_ns': first[5], 'duration_ns': first[6],
                'name': self.strings[meta & 0xffffffff],
                'kind': ('internal', 'server', 'client', 'producer', 'consumer')[meta >> 32 & 15],
                'status': ('unset', 'ok', 'error')[meta >> 36 & 15], 'flags': meta >> 40 & 255,
                'remote': bool(meta >> 48 & 1), 'message': message, 'attributes': attributes}

    @staticmethod
    def record(record):
        (_, kind, _, cell, cells, ident, _, name, unit, help_, label, state, bounds, scale,
         states, first, _, threshold) = struct.unpack_from('<IHHIIIIHHHHHHhHiId', record)
        replaceable = 33 <= kind <= 45
        kind -= 32 * replaceable
        r = {'id': ident, 'kind': kind, 'cell': cell, 'cells': cells}
        if kind == STRING:
            need(not cells and 0 < name < 256, 'a string')
            r['name'] = text(record[64:64 + name])
        if kind not in KINDS:
            return r
        at = 64 + 8 * bounds
        r['bounds'] = list(struct.unpack_from(f'<{bounds}d', record, 64))
        end = at + name + unit + help_ + label + state
        need(end <= len(record) if replaceable else (end + 7) // 8 * 8 == len(record),
             'the parts of a record are not its length')
        pieces = []
        for n in (name, unit, help_, label, state):
            pieces.append(record[at:at + n])
            at += n
        need(re.fullmatch(rb'[a-zA-Z_:][a-zA-Z0-9_:]*', pieces[0]), 'name')
        r['name'], r['unit'], r['help'] = (text(p) for p in pieces[:3])
        r['labels'] = labels(pieces[3], True)
        r['states'] = [text(s) for s in pieces[4].split(b'\0')[:-1]]
        need(len(r['states']) == states, 'states')
        r['scale'], r['first_bucket'], r['zero_threshold'] = scale, first, threshold
        return r

    def stripes(self, lines, stripes):
        """[stripe][cell]; None where a line never verified."""
        stride, offset, length = self.sections[STRIPES]
        need(lines <= stride // 64 and stripes <= length // stride, 'lines or stripes in use')
        out = []
        for s in range(stripes):
            cells = []
            for i in range(lines):
                cells += self.line(offset + s * stride + i * 64, plain if s else mixed) or [None] * 7
            out.append(cells)
        return out


def number(value):
    if value != value:
        return 'NaN'
    if value in (float('inf'), float('-inf')):
        return '+Inf' if value > 0 else '-Inf'
    return value


def metric(r, stripes):
    def total(cell):
        words = [s[cell] if cell < len(s) else 0 for s in stripes]
        return None if None in words else sum(words) & MASK

    def total_f64(cell):
        words = [s[cell] if cell < len(s) else 0 for s in stripes]
        value = 0.0
        for w in words:
            if w is None:
                return None
            value += unfold(w)
        return number(value)

    def shared(cell):
        return stripes[0][cell] if stripes and cell < len(stripes[0]) else 0

    out = {'id': r['id'], 'kind': KINDS[r['kind']], 'name': r['name'], 'labels': r['labels'],
           'unit': r['unit'], 'help': r['help']}
    kind, cell, cells = r['kind'], r['cell'], r['cells']
    if kind == COUNTER:
        out['value'] = total(cell)
    elif kind == COUNTER_F64:
        out['value'] = total_f64(cell)
    elif kind == GAUGE:
        word = shared(cell)
        out['value'] = word - (1 << 64) if word >> 63 else word
    elif kind == GAUGE_F64:
        out['value'] = number(unfold(shared(cell)))
    elif kind == STATESET:
        out['value'] = {s: bool(shared(cell) >> i & 1) for i, s in enumerate(r['states'])}
    elif kind in (HISTOGRAM, HISTOGRAM_EXP):
        buckets = [total(c) for c in range(cell + 2, cell + cells)]
        out.update(count=sum(buckets) & MASK, sum=total_f64(cell), refused=total(cell + 1))
        if kind == HISTOGRAM:
            out.update(bounds=r['bounds'], buckets=buckets)
        else:
            out.update(scale=r['scale'], first_bucket=r['first_bucket'],
                       zero_threshold=r['zero_threshold'], zero=buckets[0],
                       buckets=buckets[1:-1], above=buckets[-1])
    return out


def read(path):
    region = Region(path)
    hot = region.hot()
    out = {'size': region.size, 'pid': region.pid, 'instance': f'{region.instance:016x}',
           'start_ns': region.start_ns, 'start_ticks': region.start_ticks,
           'boot_id': region.boot_id, 'labels': region.labels}
    if region.kind == DIRECTORY:
        offset, entries = region.sections[ENTRIES][1], []
        for i in range(hot[1]):
            c = region.line(offset + 64 * i, plain)
            need(c, 'an entry never verified')
            if c[3] >> 32 & 255:
                entries.append({'id': c[0], 'addr': c[1], 'length': c[2],
                                'rkey': c[3] & 0xffffffff, 'state': STATES[c[3] >> 32 & 255],
                                'generation': c[4], 'instance': f'{c[6]:016x}'})
        out['hot'] = {'generation': hot[0], 'live': hot[2], 'refused': hot[3],
                      'state': STATES[hot[4]], 'lease_ns': hot[6]}
        out['entries'] = entries
        return out
    records = region.records(hot[1])
    stripes = region.stripes(hot[2], hot[3])
    out['hot'] = {'generation': hot[0], 'schema_used': hot[1], 'lines_used': hot[2],
                  'stripes_used': hot[3], 'state': STATES[hot[4] & 255],
                  'threads_sharing': hot[4] >> 8, 'refused': hot[6]}
    out['unsettled'] = region.unsettled
    if SPANS in region.sections:
        out['rings'] = region.spans(hot[3])
    out['metrics'] = [metric(r, stripes) for r in records]
    return out


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit('usage: region_reader.py FILE')
    try:
        print(json.dumps(read(sys.argv[1])))
    except (Fault, UnicodeDecodeError, OSError) as e:
        sys.exit(f'region_reader.py: {e}')
