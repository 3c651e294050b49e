#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_vectors.py: writes vectors/*.txt again. README.md says what is in them."""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'vectors')
M = (1 << 64) - 1
K = (0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
     0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3)


def fnv(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = (h ^ b) * 0x100000001b3 % 2**64
    return h


def mum(a, b):
    return (a * b >> 64) ^ (a * b % 2**64)


def checks(c):
    yield 'plain', sum(a * b for a, b in zip(c, K)) % 2**64
    yield 'mixed', sum(mum(a, b) for a, b in zip(c, K)) % 2**64
    x = [a ^ b for a, b in zip(c, K)]
    yield 'sealed', (mum(x[0], x[1]) + mum(x[2], x[3]) + mum(x[4], x[5]) + mum(x[6], K[0])) % 2**64
    yield 'folded', sum((a ^ a >> 32) * b for a, b in zip(c, K)) % 2**64


def short(data):
    """Hexadecimal, where @N stands for N bytes of 0."""
    out, at = [], 0
    while at < len(data):
        run = len(data) - at - len(data[at:].lstrip(b'\0'))
        if run >= 8:
            out.append(f'@{run}')
            at += run
            continue
        end = data.find(bytes(8), at)
        end = len(data) if end < 0 else end
        out.append(data[at:end].hex())
        at = end
    return ' '.join(out)


def save(name, head, lines):
    with open(os.path.join(HERE, name), 'w') as f:
        f.write(''.join(f'# {line}\n' for line in head) + '\n'.join(lines) + '\n')


def lines():
    rows = [(1, 2, 3, 4, 5, 6, 7), tuple(M - i for i in range(7)), (0,) * 7, (1 << 63, 0, 0, 0, 0, 0, 0),
            (0, 0, 0, 0, 0, 0, 1), (0xdeadbeef, 1 << 32, 42, 0, 2**53 + 1, 0x3fb99999a623000, 9)]
    rows += [tuple(1 << (9 * i + j) % 64 for i in range(7)) for j in range(8)]
    save('lines.txt', ['kind of line, seven cells, check word'],
         [f'{kind} {" ".join(f"{c:x}" for c in row)} {check:x}' for row in rows for kind, check in checks(row)])


def f64():
    values = [0.0, -0.0, 1.0, -1.0, 0.1, 17.0, 300.0, 1e300, 5e-324, 2.0**53, float('inf'), float('-inf')]
    bits = [struct.unpack('<Q', struct.pack('<d', v))[0] for v in values]
    save('f64.txt', ['bits of a number, its cell, the number'],
         [f'{b:016x} {b ^ b >> 32:016x} {v!r}' for b, v in zip(bits, values)])


def fnvs():
    texts = [b'', b'a', b'foobar', b'SIDELGHT', bytes(64), bytes(range(256))]
    save('fnv.txt', ['FNV-1a, the bytes in hexadecimal'], [f'{fnv(t):016x} {t.hex()}' for t in texts])


def header(size=20480, sections=((1, 64, 4096, 64), (2, 4096, 8192, 8192), (3, 8, 16384, 4096)),
           labels=b'service\0shop\0', minor=1, kind=1, instance=0x1122334455667788, magic=b'SIDELGHT', version=1,
           header_size=4096, wrong=0):
    h = bytearray(4096)
    struct.pack_into('<8sHHIQIIQQQ16sII', h, 0, magic, version, minor, header_size, size, kind, 4711, instance,
                     1700000000000000000, 123456, bytes(range(16)), len(sections), len(labels))
    for i, s in enumerate(sections):
        struct.pack_into('<IIQQ', h, 80 + 24 * i, *s)
    h[512:512 + len(labels)] = labels
    struct.pack_into('<Q', h, 4088, fnv(h[:4088]) ^ wrong)
    return bytes(h)


def headers():
    hot, stripes, schema = (1, 64, 4096, 64), (2, 4096, 8192, 8192), (3, 8, 16384, 4096)
    usual = (hot, stripes, schema)
    many = b''.join(b'k%d\0v\0' % i for i in range(33))
    rows = [
        ('ok', 'usual', {}), ('ok', 'minor-0', {'minor': 0}), ('ok', 'minor-7', {'minor': 7}),
        ('ok', 'no-labels', {'labels': b''}), ('ok', 'an-empty-value', {'labels': b'a\0\0'}),
        ('ok', 'an-unknown-section', {'sections': (*usual, (900, 1, 4160, 64))}),
        ('ok', 'created', {'size': 24576, 'sections': (*usual, (19, 64, 20480, 128))}),
        ('ok', 'exemplars', {'size': 24576, 'sections': (*usual, (20, 256, 20480, 4096))}),
        ('bad', 'magic', {'magic': b'sidelght'}), ('bad', 'version-2', {'version': 2}), ('bad', 'check', {'wrong': 1}),
        ('bad', 'header-size', {'header_size': 4095}), ('bad', 'size', {'size': 20481}), ('bad', 'instance-0', {'instance': 0}),
        ('bad', 'kind-of-region', {'kind': 99}), ('bad', 'no-stripes', {'sections': (hot, schema)}),
        ('bad', 'a-section-twice', {'sections': (*usual, (3, 8, 12288, 64))}),
        ('bad', 'sections-overlap', {'sections': (hot, stripes, (3, 8, 16320, 4096))}),
        ('bad', 'an-unknown-section-overlaps', {'sections': (*usual, (900, 1, 16384, 64))}),
        ('bad', 'a-section-in-the-header', {'sections': ((1, 64, 4032, 64), stripes, schema)}),
        ('bad', 'a-section-out-of-bounds', {'sections': (hot, stripes, (3, 8, 16384, 4104))}),
        ('bad', 'a-section-that-wraps', {'sections': (hot, stripes, (3, 8, 16384, M - 7))}),
        ('bad', 'a-section-not-aligned', {'sections': (hot, stripes, (3, 8, 16392, 64))}),
        ('bad', 'stride-of-stripes', {'sections': (hot, (2, 4032, 8192, 8064), schema)}),
        ('bad', 'length-of-stripes', {'sections': (hot, (2, 4096, 8192, 4160), schema)}),
        ('bad', 'created-stride', {'size': 24576, 'sections': (*usual, (19, 8, 20480, 128))}),
        ('bad', 'one-exemplar', {'size': 24576, 'sections': (*usual, (20, 256, 20480, 256))}),
        ('bad', 'a-label-without-value', {'labels': b'a\0'}), ('bad', 'a-label-without-end', {'labels': b'a\0b'}),
        ('bad', 'a-label-twice', {'labels': b'a\0b\0a\0c\0'}), ('bad', 'a-reserved-label', {'labels': b'__a\0b\0'}),
        ('bad', 'a-label-that-is-no-name', {'labels': b'a-b\0c\0'}), ('bad', 'a-value-not-utf8', {'labels': b'a\0\xff\0'}),
        ('bad', 'too-many-labels', {'labels': many}), ('bad', 'a-label-too-long', {'labels': b'a' * 256 + b'\0b\0'}),
        ('bad', 'a-value-too-long', {'labels': b'a\0' + b'b' * 1024 + b'\0'}),
    ]
    save('headers.txt', ['ok or bad, name, the 4096 bytes of the header of a region of 20480 bytes (or as the header says',
                         'where that is 24576); @N: N bytes of 0'],
         [f'{want} {name} {short(header(**how))}' for want, name, how in rows])


def record(kind=1, cell=0, cells=1, name=b'a_total', ident=0, unit=b'', help_=b'', labels=b'', states=b'', count=0, bounds=(),
           scale=0, first=0, zero=0.0, flags=0, wrong=0, pad=0, length=0, end=b''):
    body = struct.pack(f'<{len(bounds)}d', *bounds) + name + unit + help_ + labels + states
    body += bytes(-len(body) % 8 + pad)
    if end:
        body = body[:-len(end)] + end
    r = bytearray(struct.pack('<IHHIIIIHHHHHHhHiIdQ', length or 64 + len(body), kind, flags, cell, cells, ident, 1, len(name),
                              len(unit), len(help_), len(labels), len(states), len(bounds), scale, count, first, 0, zero, 0))
    r += body
    struct.pack_into('<Q', r, 56, fnv(r) ^ wrong)
    return bytes(r)


def records():
    r, two = record, b'on\0off\0'
    rows = [
        ('ok', 'counter', r(help_='Zähler'.encode(), unit=b'bytes')), ('ok', 'counter-f64', r(2)), ('ok', 'gauge', r(3)),
        ('ok', 'gauge-f64', r(4, labels=b'a\0b\0c\0\0')), ('ok', 'histogram-exp', r(5, cells=5, scale=3, first=-10)),
        ('ok', 'histogram', r(6, cells=5, bounds=(0.1, 1.0))), ('ok', 'histogram-no-bounds', r(6, cells=3)),
        ('ok', 'info', r(7, cells=0, labels=b'v\x001\0')), ('ok', 'state-set', r(8, states=two, count=2)),
        ('ok', 'summary', r(9, cells=2)), ('ok', 'summary-quantiles', r(9, cells=4, bounds=(0.5, 0.99))),
        ('ok', 'unknown', r(10)), ('ok', 'gauge-histogram', r(11, cells=4, bounds=(1.0,))),
        ('ok', 'gauge-histogram-exp', r(12, cells=6, scale=-4)), ('ok', 'gauge-timed', r(13, cells=2, flags=4)),
        ('ok', 'string', r(16, cells=0, name='beliebig €'.encode())),
        ('ok', 'replaceable-counter', r(33)), ('ok', 'replaceable-padded', r(33, pad=40)),
        ('ok', 'replaceable-utf8', r(34, name='grün'.encode(), labels='ключ\0значение\0'.encode())),
        ('ok', 'utf8-name-of-kind-10', r(10, name=b'a.b c')), ('ok', 'unknown-kind', r(200, cells=7, name=b'')),
        ('ok', 'flags-unknown', r(flags=0xff00)), ('ok', 'last-cell', r(cell=447)),
        ('ok', 'two', r() + r(ident=1, cell=1, name=b'b_total')),
        ('ok', 'two-label-sets', r(labels=b'a\x001\0') + r(ident=1, cell=1, labels=b'a\x002\0')),
        ('bad', 'check', r(wrong=1)), ('bad', 'length-too-short', r(length=56)), ('bad', 'length-not-of-parts', r(pad=8)),
        ('bad', 'padding-not-0', r(end=b'\1')), ('bad', 'replaceable-padding-not-0', r(33, pad=40, end=b'\1')),
        ('bad', 'first-id', r(ident=1)), ('bad', 'id-again', r() + r(cell=1, name=b'b_total')),
        ('bad', 'cell-out-of-bounds', r(cell=448)), ('bad', 'unknown-kind-out-of-bounds', r(200, cells=449, name=b'')),
        ('bad', 'cells-overlap', r(6, cells=4, bounds=(1.0,)) + r(ident=1, cell=3, name=b'b_total')),
        ('bad', 'name-and-labels-twice', r() + r(3, ident=1, cell=1)), ('bad', 'no-name', r(name=b'')),
        ('bad', 'name-too-long', r(name=b'a' * 256)), ('bad', 'name-with-digit', r(name=b'1a')),
        ('bad', 'name-utf8-of-kind-1', r(name='ä'.encode())), ('bad', 'name-with-nul', r(33, name=b'a\0b')),
        ('bad', 'name-not-utf8', r(33, name=b'\xff')), ('bad', 'unit', r(unit=b'm/s')), ('bad', 'help-not-utf8', r(help_=b'\xc3')),
        ('bad', 'help-too-long', r(help_=b'a' * 1024)), ('bad', 'labels-do-not-ascend', r(labels=b'b\0\0a\0\0')),
        ('bad', 'label-twice', r(labels=b'a\0\0a\0\0')), ('bad', 'label-reserved', r(33, labels=b'__a\0\0')),
        ('bad', 'label-utf8-of-kind-1', r(labels='ä\0\0'.encode())), ('bad', 'label-without-value', r(labels=b'a\0')),
        ('bad', 'cells-of-a-counter', r(cells=2)), ('bad', 'bounds-of-a-counter', r(bounds=(1.0,))),
        ('bad', 'states-of-a-counter', r(states=b'a\0', count=1)), ('bad', 'exp-too-few-cells', r(5, cells=4)),
        ('bad', 'exp-scale', r(5, cells=5, scale=9)), ('bad', 'exp-first-bucket', r(5, cells=5, first=(1 << 20) + 1)),
        ('bad', 'exp-zero-threshold', r(5, cells=5, zero=-1.0)), ('bad', 'le-label', r(6, cells=3, labels=b'le\0\0')),
        ('bad', 'bounds-do-not-ascend', r(6, cells=5, bounds=(1.0, 1.0))),
        ('bad', 'bounds-infinite', r(6, cells=4, bounds=(float('inf'),))), ('bad', 'cells-of-a-histogram', r(6, cells=4)),
        ('bad', 'cells-of-an-info', r(7)), ('bad', 'no-state', r(8)), ('bad', 'states-of-another-number', r(8, states=two, count=3)),
        ('bad', 'state-twice', r(8, states=b'a\0a\0', count=2)), ('bad', 'state-empty', r(8, states=b'\0', count=1)),
        ('bad', 'state-label', r(8, name=b'a', labels=b'a\0\0', states=two, count=2)),
        ('bad', 'state-colon', r(8, name=b'a:b', states=two, count=2)), ('bad', 'cells-of-a-summary', r(9, cells=3)),
        ('bad', 'quantile-above-1', r(9, cells=3, bounds=(1.5,))), ('bad', 'quantile-label', r(9, cells=2, labels=b'quantile\0\0')),
        ('bad', 'cells-of-a-timed-gauge', r(13)), ('bad', 'cells-of-a-string', r(16)),
        ('bad', 'string-with-help', r(16, cells=0, help_=b'a')),
    ]
    save('records.txt', ['ok or bad, name, schema in use of a region whose stripes have 448 cells; @N: N bytes of 0'],
         [f'{want} {name} {short(data)}' for want, name, data in rows])


def element(labels=b'trace_id\x004bf9\0', number=1, tags=(0, 1, 2, 3), numbers=None, wrong=0, length=None):
    text = labels[:152].ljust(152, b'\0')
    first = (0, 1 << 32, 1700000000000000001, struct.unpack('<Q', struct.pack('<d', 2.5))[0], 1700000000500000000,
             len(labels) if length is None else length)
    words = struct.unpack('<19Q', text)
    out = b''
    for i, cells in enumerate((first[1:] + words[:1], words[1:7], words[7:13], words[13:19])):
        cells = (tags[i] | (numbers or (number,) * 4)[i] << 16, *cells)
        out += struct.pack('<8Q', *cells, dict(checks(cells))['sealed'] ^ wrong)
    return out


def exemplars():
    x = element
    rows = [
        ('ok', 'usual', x()), ('ok', 'no-labels', x(b'')), ('ok', 'number-of-48-bits', x(number=2**48 - 1)),
        ('ok', 'value-utf8', x('user\0Zoë\0'.encode())), ('ok', 'value-empty', x(b'user\0\0')),
        ('ok', 'labels-in-any-order', x(b'b\x001\0a\x002\0')), ('ok', 'all-bytes', x(b'user\0' + b'x' * 146 + b'\0')),
        ('ok', 'a-label-over-two-lines', x(b'a\0' + b'y' * 60 + b'\0b\0z\0')),
        ('bad', 'check', x(wrong=1)), ('bad', 'lines-of-two', x(numbers=(1, 1, 2, 1))), ('bad', 'lines-in-disorder', x(tags=(0, 2, 1, 3))),
        ('bad', 'too-long', x(b'user\0' + b'x' * 146 + b'\0', length=153)), ('bad', 'no-end', x(b'user\0x')),
        ('bad', 'key-without-value', x(b'user\0')), ('bad', 'key-utf8', x('kä\0v\0'.encode())), ('bad', 'key-empty', x(b'\0v\0')),
        ('bad', 'key-reserved', x(b'__a\0v\0')), ('bad', 'key-twice', x(b'a\0v\0a\0w\0')), ('bad', 'value-not-utf8', x(b'a\0\xff\0')),
    ]
    save('exemplars.txt', ['ok or bad, name, the 256 bytes of an element'], [f'{want} {name} {short(data)}' for want, name, data in rows])


def attach():
    def packet(kind, payload, serial=1):
        return (struct.pack('<IHHII', 0x314d4c53, kind, 0, len(payload), serial) + payload).hex()
    instance = 0x1122334455667788
    save('attach.txt', ['The dialogue of a publisher of the region "usual" of headers.txt, whose first serial is 1.',
                        'direction, name, packet'],
         ['> PUBLISH ' + packet(1, struct.pack('<QQ', instance, 20480)),
          '< ADMITTED ' + packet(2, struct.pack('<QQ', 7, 99)),
          '< REFUSED ' + packet(3, struct.pack('<i252s', 28, b'no room')),
          '< VERDICT ' + packet(20, struct.pack('<QQQqdQQ', instance, 1, 10**9, 1700000000000000000, 2.5, 0, 0), 0),
          '< UNKNOWN ' + packet(999, b'a later message'),
          '> CLOSE ' + packet(4, struct.pack('<Q', instance), 2)])


if __name__ == '__main__':
    for write in (lines, f64, fnvs, headers, records, exemplars, attach):
        write()
