#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_formats.py RENDER_KINDS - the formats by strict readers, by promtool and by protoc."""
import math
import shutil
import struct
import subprocess
import sys
import unittest

from support import exposition as e

RENDER = sys.argv.pop(1)


def render(*args):
    return subprocess.run([RENDER, *args], stdout=subprocess.PIPE, check=True).stdout


class Formats(unittest.TestCase):
    def test_text_reads_back(self):
        s = e.text(render('text'))
        self.assertEqual(s['http_requests_total'][
            (('code', '500'), ('path', 'C:\\DIR\n"x" é'))], 2**64 - 1)
        self.assertEqual(s['http_requests_total'][(('code', ''),)], 2**53 + 1)
        self.assertEqual(s['queue'][(('q', 'low'),)], -2**63)
        self.assertEqual(s['temperature_celsius'][(('at', 'e'),)], 5e-324)
        self.assertEqual(s['temperature_celsius'][(('at', 'f'),)], sys.float_info.max)
        self.assertTrue(math.isnan(s['temperature_celsius'][(('at', 'b'),)]))
        self.assertEqual(s['app:mode'][(('app_mode', 'on "fire"\\\n'), ('unit', 'a'))], 0)

    def test_openmetrics_is_strictly_valid(self):
        e.openmetrics(render('openmetrics'))
        e.openmetrics(render('openmetrics', '1000'))

    def test_the_strict_reader_is_strict(self):
        good = b'# TYPE a counter\na_total 1\n# EOF\n'
        e.openmetrics(good)
        for bad in (
                b'', b'# EOF', good[:-6], good + b'a 1\n', good + b'# EOF\n',
                b'\n# EOF\n', b'# a comment\n# EOF\n', b'a 1\n# EOF\n',
                b'# TYPE a counter\na 1\n# EOF\n',
                b'# TYPE a counter\na_total -1\n# EOF\n',
                b'# TYPE a counter\na_total NaN\n# EOF\n',
                b'# TYPE a counter\na_total 1\na_total 1\n# EOF\n',
                b'# TYPE a counter\n# TYPE a counter\n# EOF\n',
                b'# TYPE a counter\na_total 1\n# HELP a x\n# EOF\n',
                b'# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\na{x="1"} 1\n# EOF\n',
                b'# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n',
                b'# TYPE a_seconds info\n# UNIT a_seconds seconds\n# EOF\n',
                b'# TYPE a gauge\na{} 1.\xff\n# EOF\n',
                b'# TYPE a gauge\na{x="1",} 1\n# EOF\n',
                b'# TYPE a gauge\na{x="1",x="2"} 1\n# EOF\n',
                b'# TYPE a gauge\na{x="\\q"} 1\n# EOF\n',
                b'# TYPE a gauge\na{x="a\nb"} 1\n# EOF\n',
                b'# TYPE a gauge\na{x="a"b"} 1\n# EOF\n',
                b'# TYPE a gauge\na{0="a"} 1\n# EOF\n',
                b'# TYPE a gauge\na  1\n# EOF\n', b'# TYPE a gauge\na 1 \n# EOF\n',
                b'# TYPE a gauge\na .5\n# EOF\n', b'# TYPE a gauge\na 0x1\n# EOF\n',
                b'# HELP a "\n# TYPE a gauge\n# EOF\n',
                b'# TYPE a counter\n# TYPE a_total gauge\n# EOF\n',
                b'# TYPE a info\na_info 2\n# EOF\n',
                b'# TYPE a stateset\na{b="x"} 1\n# EOF\n',
                b'# TYPE a stateset\na{a="x"} 2\n# EOF\n',
                b'# TYPE a histogram\na_bucket{le="1.0"} 1\na_sum 1\na_count 1\n# EOF\n',
                b'# TYPE a histogram\na_bucket{le="1"} 1\na_bucket{le="+Inf"} 1\na_sum 1\n'
                b'a_count 1\n# EOF\n',
                b'# TYPE a histogram\na_bucket{le="1.0"} 2\na_bucket{le="+Inf"} 1\na_sum 1\n'
                b'a_count 1\n# EOF\n',
                b'# TYPE a histogram\na_bucket{le="2.0"} 0\na_bucket{le="1.0"} 1\n'
                b'a_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n# EOF\n',
                b'# TYPE a histogram\na_bucket{le="+Inf"} 1\na_sum 1\na_count 2\n# EOF\n',
                b'# TYPE a histogram\na_bucket{le="+Inf"} 1\na_count 1\n# EOF\n',
                b'# TYPE a histogram\na_bucket{le="+Inf",x="1"} 1\na_bucket{le="+Inf"} 1\n'
                b'a_sum{x="1"} 1\na_count{x="1"} 1\na_sum 1\na_count 1\n# EOF\n'):
            with self.subTest(bad=bad):
                with self.assertRaises((e.Invalid, UnicodeDecodeError)):
                    e.openmetrics(bad)

    def test_all_formats_say_the_same(self):
        t, o = e.text(render('text')), e.openmetrics(render('openmetrics'))
        bare = {n: {tuple((k, str(float(v)) if k == 'le' else v) for k, v in labels): value
                    for labels, value in s.items()} for n, s in t.items()}
        also = {n: {tuple((k, str(float(v)) if k == 'le' else v) for k, v in labels): value
                    for labels, value in s.items()} for n, s in o.items()}
        self.assertEqual(repr(bare), repr(also))  # NaN is not equal to itself
        if not shutil.which('protoc'):
            self.skipTest('no protoc: install protobuf-compiler')
        for name, of_name in e.protobuf(render('protobuf')).items():
            for labels, value in of_name.items():
                if not isinstance(value, dict):
                    self.assertEqual(repr(float(t[name][labels])), repr(value), (name, labels))
                    continue
                self.assertEqual(value['count'], t[name + '_count'][labels])
                self.assertEqual(value['sum'], t[name + '_sum'][labels])
                if 'classic' in value:
                    bounds = value['classic']
                else:  # each bound of the text is one of a native bucket
                    factor = 2 ** 2 ** -value['schema']
                    bounds = [(float(dict(k)['le']), None) for k in t[name + '_bucket']
                              if tuple(p for p in k if p[0] != 'le') == labels]
                    bounds = [(b, value['zero_count'] + sum(
                        n for i, n in value['buckets'].items() if factor**i <= b * 1.0000001))
                              for b, _ in bounds if not math.isinf(b)]
                    self.assertGreater(len(bounds), 5)
                for b, count in bounds:
                    got = [v for k, v in t[name + '_bucket'].items()
                           if float(dict(k)['le']) == b and
                           tuple(p for p in k if p[0] != 'le') == labels]
                    self.assertEqual(got, [count], (name, labels, b))

    def test_native_histograms_are_exact(self):
        if not shutil.which('protoc'):
            self.skipTest('no protoc: install protobuf-compiler')
        h = e.protobuf(render('protobuf'))['size_bytes']
        self.assertEqual(h[(('shard', '0'),)], {
            'count': 15, 'sum': 123.5, 'schema': 0, 'zero_threshold': 0.125, 'zero_count': 5,
            'buckets': {-2: 1, 1: 3, 5: 2, 7: 4}})
        self.assertEqual(h[(('shard', '1'),)]['count'], 0)
        self.assertEqual(h[(('shard', '2'),)]['buckets'],
                         {-79: 10, -78: 20, -72: 30, 0: 40, 1: 50, 80: 60, 81: 70})

    def test_doubles_are_those_of_python(self):
        # repr() is shortest and nearest too, by another algorithm
        for line in render('numbers', '200000').decode().splitlines():
            bits, got = line.split(' ')
            value, = struct.unpack('<d', struct.pack('<Q', int(bits, 16)))
            if math.isnan(value):
                self.assertEqual(got, 'NaN')
                continue
            self.assertEqual(struct.pack('<d', float(got)), struct.pack('<d', value), line)
            digits = [s.lower().split('e')[0].replace('.', '').strip('-+0') for s in
                      (got, repr(value))]
            self.assertEqual(digits[0].rstrip('0'), digits[1].rstrip('0'), line)

    def test_promtool_reads_the_text(self):
        if not shutil.which('promtool'):
            self.skipTest('no promtool: install prometheus')
        p = subprocess.run(['promtool', 'check', 'metrics'], input=render('text'),
                           stderr=subprocess.PIPE)
        # 3: it was read, and found names that are bad style, as the fixture's are
        self.assertEqual(p.returncode, 3, p.stderr)
        self.assertNotIn(b'error', p.stderr)


if __name__ == '__main__':
    unittest.main()
