#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_remote_read.py SIDELIGHT CASE - the real Prometheus asks for the history by remote read, and computes what
/api/v1/history says; a reader of chunks, written from Prometheus' documents, gets the same points."""
import json
import math
import os
import random
import struct
import sys
import unittest
import urllib.parse

from support import http
from support.attacker import Attacker, ask_slowly, publish_long_names
from support.process import check, skip, wait_until
from support.prometheus import Prometheus, available
from support.sidelight import Agent, Collector, generate

try:
    import snappy
except ImportError:
    skip('no python3-snappy')
if not available():
    skip('no prometheus: install the package prometheus')


# ---- protobuf and the protocol, from its documents alone ----

def varint(v):
    out = bytearray()
    while v >= 0x80:
        out.append(v & 0x7f | 0x80)
        v >>= 7
    return bytes(out) + bytes([v])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def take_varint(data, at):
    v = shift = 0
    while True:
        v |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return v, at


def fields(data):
    at = 0
    while at < len(data):
        tag, at = take_varint(data, at)
        if tag & 7 == 0:
            value, at = take_varint(data, at)
        elif tag & 7 == 1:
            value, at = struct.unpack_from('<d', data, at)[0], at + 8
        else:
            n, at = take_varint(data, at)
            value, at = data[at:at + n], at + n
        yield tag >> 3, value


def signed(v):
    return v - (1 << 64) if v >> 63 else v


def read_request(matchers, start_ms, end_ms, types=()):
    query = field(1, start_ms) + field(2, end_ms) + b''.join(
        field(3, (field(1, kind) if kind else b'') + field(2, name) + field(3, value)) for kind, name, value in matchers)
    return field(1, query) + b''.join(field(2, t) for t in types)


def label_set(messages):
    return tuple((dict(fields(m))[1].decode(), dict(fields(m)).get(2, b'').decode()) for m in messages)


def samples_of(body):
    """{labels: [(ms, value)]} of the first query."""
    out = {}
    (_, result), = fields(snappy.uncompress(body))
    for _, series in fields(result):
        labels = label_set([v for n, v in fields(series) if n == 1])
        points = [dict(fields(v)) for n, v in fields(series) if n == 2]
        assert labels not in out, labels
        out[labels] = [(signed(p.get(2, 0)), p.get(1, 0.0)) for p in points]
    return out


class Bits:
    def __init__(self, data):
        self.value, self.left = int.from_bytes(data, 'big'), 8 * len(data)

    def take(self, n):
        self.left -= n
        return self.value >> self.left & (1 << n) - 1

    def signed(self, n):
        v = self.take(n)
        return v - (1 << n) if v > 1 << n - 1 else v  # the positive half has one more

    def varint(self):
        v = shift = 0
        while True:
            b = self.take(8)
            v |= (b & 0x7f) << shift
            shift += 7
            if not b & 0x80:
                return v


def xor_chunk(data):
    count, b, out = struct.unpack('>H', data[:2])[0], Bits(data[2:]), []
    leading = bits = 0
    for i in range(count):
        if i == 0:
            z = b.varint()
            ms, value = z >> 1 ^ -(z & 1), b.take(64)
        else:
            if i == 1:
                delta = b.varint()
            else:
                ones = 0
                while ones < 4 and b.take(1):
                    ones += 1
                delta += [0, 14, 17, 20, 64][ones] and (
                    b.signed([0, 14, 17, 20, 64][ones]))
            ms += delta
            if b.take(1):
                if b.take(1):
                    leading, bits = b.take(5), b.take(6) or 64
                value ^= b.take(bits) << 64 - leading - bits
        out.append((ms, struct.unpack('<d', value.to_bytes(8, 'little'))[0]))
    return out


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def chunks_of(body):
    """{labels: [(ms, value)]} of a stream. Series must come in order, and the pieces of one together."""
    out, at, last = {}, 0, None
    while at < len(body):
        n, at = take_varint(body, at)
        assert struct.unpack_from('>I', body, at)[0] == crc32c(body[at + 4:at + 4 + n]), 'a frame\'s CRC'
        for number, series in fields(body[at + 4:at + 4 + n]):
            if number != 1:
                continue
            labels = label_set([v for k, v in fields(series) if k == 1])
            assert last is None or labels >= last, (last, labels)
            last = labels
            for chunk in (dict(fields(v)) for k, v in fields(series) if k == 2):
                points = xor_chunk(chunk[4])
                assert (points[0][0], points[-1][0], chunk[3]) == (signed(chunk[1]), signed(chunk[2]), 1)
                out.setdefault(labels, []).extend(points)
        at += 4 + n
    return out


# ---- what is expected ----

def rate(points, start, end, counter=True, per_second=True):
    """Prometheus' extrapolation, from its description: points are [(ms, value)] within [start, end]."""
    points = [p for p in points if start <= p[0] <= end]
    if len(points) < 2:
        return None
    grown = points[-1][1] - points[0][1]
    if counter:
        grown += sum(a[1] for a, b in zip(points, points[1:]) if b[1] < a[1])
    first, last = points[0][0], points[-1][0]
    # Subtracted as integers, as Prometheus does: a gap of just 1.1 intervals is decided by the last bit.
    before, after, span, end = (t / 1000 for t in (first - start, end - last, last - first, end - start))
    mean = span / (len(points) - 1)
    if counter and grown > 0 and points[0][1] >= 0:
        before = min(before, span * points[0][1] / grown)
    whole = span
    whole += before if before < mean * 1.1 else mean / 2
    whole += after if after < mean * 1.1 else mean / 2
    return grown * whole / span / (end if per_second else 1)


def expressions(counter, gauge, histogram, start):
    """Queries for each feature of PromQL that the collector supports. Equal values have no order, so ranked values differ."""
    c, g, h = (f'{name}{{service="shop"}}' for name in (counter, gauge, histogram))
    at = f'{start + 0.1:.3f}'
    ranked = ' or '.join(f'avg_over_time({c[:-1]},pod="shop-{i}"}}[1s]) * {i + 1}' for i in range(3))
    yield from ['1', '1+1', '-1', '2 ^ 3 ^ 2', '-2 ^ 2', '2 ^ -1', '1 - 2 - 3', '7 % 4 * 2', '(1 + 2) * 3', '1 / 0', '-1 / 0', '0 / 0', '0x1f',
                '.5e1', 'Inf', '-inf', 'NaN', '1 == bool 1', '1 > bool 2', '1 atan2 2', '"text"', "'a\\n'", '`raw\\n`', 'time()', 'time() - 1',
                'vector(1)', 'vector(time())', 'scalar(vector(2))', f'scalar({c})', f'scalar(sum({c})) + 1', f'vector(scalar(sum({c})))']
    for op in ('+', '-', '*', '/', '%', '^', 'atan2', '==', '!=', '<', '>', '<=', '>=', '== bool', '> bool'):
        yield f'{g} {op} 3'
        yield f'3 {op} {g}'
        yield f'{c} {op} ignoring (nosuch) {c}'
    for op in ('+', '/', '>', '< bool'):
        yield f'{c} {op} on (pod) {h}'
        yield f'rate({c}[500ms]) {op} ignoring (process) rate({h}[500ms])'
        yield f'{c} {op} on (service) group_left sum by (service) ({g})'
        yield f'sum by (service) ({g}) {op} on (service) group_right {c}'
        yield f'{c} {op} on (pod) group_left (le, host) sum by (pod, host) ({g})'
        # Where one side has no value, the labels of the other may be the same.
        yield f'nosuch {op} on (service) {c}'
        yield f'{c} {op} on (service) (nosuch or {g} offset -1h)'
        yield f'{c} {op} on (service) group_right nosuch'
    for op in ('and', 'or', 'unless'):
        yield f'{c} {op} {c}'
        yield f'{c} {op} on (pod) ({g} > 100)'
        yield f'({c} > 100) {op} ignoring (process) ({g} > 3)'
        yield f'{c} {op} on () vector(1)'
        yield f'{c} {op} on (nosuch) nosuch'
    yield from [f'-{c}', f'-sum({g}) + 1', f'+{g}', f'{c} @ {at}', f'{c} @ start()', f'rate({c}[500ms] @ end())', f'{c} offset -200ms',
                f'rate({c}[200ms] offset -100ms)', f'{c} @ {at} offset 50ms', f'sum({c} offset 100ms) / sum({c})']
    for fn in ('abs', 'ceil', 'floor', 'exp', 'ln', 'log2', 'log10', 'sqrt', 'sgn', 'round', 'sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'sinh',
               'cosh', 'tanh', 'asinh', 'acosh', 'atanh', 'deg', 'rad', 'sort', 'sort_desc', 'absent'):
        yield f'{fn}({g} / 7)'
    yield from [f'round({g} / 7, 0.1)', f'clamp({g}, 2, 5)', f'clamp({g}, 5, 2)', f'clamp_min({g}, 3)', f'clamp_max({g}, 3)',
                *(f'{fn}, scalar(absent(vector(1))))' for fn in (f'clamp({g}, 0', f'clamp_min({g}', f'clamp_max({g}')),
                'absent(nosuch)', 'absent(nosuch{a="b",c=~"d",e="f"})', 'absent(nosuch{a="b",a="c"})', 'absent(sum(nosuch))',
                'absent_over_time(nosuch{a="b"}[1s])', f'absent_over_time({g}[1s])']
    for fn in ('idelta', 'deriv', 'changes', 'resets', 'present_over_time', 'stddev_over_time', 'stdvar_over_time'):
        for x in (c, g):
            yield f'{fn}({x}[300ms])'
    for q in ('0.5', '0.99', '-1', '2', '0', '1'):
        yield f'quantile_over_time({q}, {g}[300ms])'
        yield f'quantile({q}, {g})'
    yield from [f'predict_linear({g}[300ms], 10)', f'predict_linear({c}[300ms], -1)', f'predict_linear({g}[300ms] offset 200ms, 10)',
                f'stddev({g})', f'stdvar by (service) ({g})', f'group({g})',
                f'group by (pod) ({g})', *(f'{k}, {ranked})' for k in ('topk(1', 'topk(2', 'bottomk(1', 'topk(scalar(vector(2))')), f'topk by (pod) (1, {g})', f'topk(0, {g})',
                f'count_values("v", round({g}, 100))', f'count_values by (pod) ("pod", round({g}, 1000))',
                f'count_values("v", {g} / 8)', f'SUM({c})', f'sum by () ({c})', f'sum without () ({c})']
    yield from [f'label_replace({c}, "to", "$1", "pod", "shop-(.)")', f'label_replace({c}, "to", "x${{1}}y", "pod", "s(h)op-[01]")',
                f'label_replace({c}, "pod", "", "pod", "shop-1")', f'label_replace({c}, "to", "a", "nosuch", "")',
                f'label_replace({c}, "__name__", "other", "", "")', f'label_join({c}, "to", "-", "pod", "service", "nosuch")',
                f'label_join({c}, "to", ",")', *(f'label_replace({c}, "to", "{to}", "pod", "(?P<name>shop)-(.)")' for to in
                ('$1_total', '${1}_total', '$name$2', '$name_', '$$1', '$3', '$')), f'sum by (to) (label_replace(rate({c}[1s]), "to", "$1", "pod", "shop-(.)"))']
    yield from [f'max_over_time(sum({c})[500ms:100ms])', f'rate({c}[500ms:50ms])', f'avg_over_time(rate({c}[200ms])[1s:100ms])',
                'sum_over_time(vector(1)[1s:100ms])', f'max_over_time({g}[400ms:100ms] offset 100ms)', f'last_over_time({c}[300ms:100ms] @ {at})',
                f'count_over_time({c}[3m:])', f'quantile_over_time(0.9, ({g} + 1)[500ms:10ms])']
    bucket, total = (h.replace('_count{', f'_{part}{{') for part in ('bucket', 'sum'))
    yield from [bucket, total, f'sum by (le) ({bucket})', f'rate({total}[3s]) / rate({h}[3s])', f'increase({bucket[:-1]},le="+Inf"}}[3s])',
                f'rate({bucket}[2s] @ {start + 1})', f'histogram_quantile(0.9, {bucket})',
                *(f'histogram_quantile({q}, sum by (le) (rate({bucket}[{w}])))' for q in (0.5, 0.9, 0.99) for w in ('2s', '1m'))]
    yield from [f'histogram_quantile(0.9, {c})', f'sum({c}) by (pod) # a comment', f'sum(\n{c}\n)']


class RemoteRead(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.agent = Agent('--hostname', 'node-1', '--grace', '1h')
        cls.collector = Collector([cls.agent], '--period', '10ms')
        pods = generate(cls.agent.socket, '--pods', 3, '--metrics', 3, '--kinds', 'counter,gauge,histogram', '--rate', 400,
                        '--updates', 700, '--service', 'shop', '--hold', '1s')
        check(pods.wait() == 0, 'the pods', pods)
        wait_until(lambda: len(cls.metrics()) == 9, 'the metrics', cls.collector)
        # The data of ended pods no longer changes, so all are asked about the same points.
        wait_until(lambda: not any(p['state'] in ('live', 'stale') for p in cls.collector.api('pods?limit=1000')['pods'] if p['service'] == 'shop'),
                   'they have ended', cls.collector)
        cls.history = {}
        for m in cls.metrics():
            series, = cls.collector.api(f'history?series={m["id"]}&last=10m&points=10000')['series']
            assert not series['decimated'] and not series['clipped'], series['recorded']
            by_ms = {}
            for t, v in zip(series['t'], series['v']):
                by_ms[round(t * 1e6) // 1000] = v
            suffix = {'counter': '_total', 'histogram': '_count'}.get(m['kind'], '')
            cls.history[m['name'].removesuffix('_total') + suffix, m['pod']] = sorted(by_ms.items())
        cls.first = min(p[0][0] for p in cls.history.values())
        cls.last = max(p[-1][0] for p in cls.history.values())

    @classmethod
    def tearDownClass(cls):
        codes = [part.stop() for part in (cls.collector, cls.agent)]
        check(codes == [0, 0], codes, cls.collector, cls.agent)

    @classmethod
    def metrics(cls):
        answer = cls.collector.api('metrics?limit=1000')
        return [{**m, 'pod': answer['pods'][m['id'].split('/')[0]]['pod']} for m in answer['metrics']
                if answer['pods'][m['id'].split('/')[0]]['service'] == 'shop']

    def ask(self, matchers, start=None, end=None, types=(), status=200):
        found, headers, body = http.request(
            self.collector.url + '/api/v1/read', 'POST',
            snappy.compress(read_request(matchers, self.first if start is None else start, self.last if end is None else end,
                                         types)),
            {'Content-Type': 'application/x-protobuf', 'Content-Encoding': 'snappy'})
        self.assertEqual(found, status, body)
        return headers, body

    def same(self, got, want=None):
        """These points, by default all of history, and nothing else but sums and buckets. A diff of thousands would take minutes."""
        got = {(dict(k)['__name__'], dict(k)['pod']): v for k, v in got.items() if not dict(k)['__name__'].endswith(('_bucket', '_sum'))}
        want = self.history if want is None else want
        self.assertEqual(set(got), set(want))
        for k, v in want.items():
            self.assertEqual(len(got[k]), len(v), k)
            self.assertIsNone(next((pair for pair in zip(got[k], v) if pair[0] != pair[1]), None), k)

    def test_samples_are_the_history(self):
        headers, body = self.ask([(0, 'service', 'shop')])
        self.assertEqual((headers['Content-Type'], headers['Content-Encoding']), ('application/x-protobuf', 'snappy'))
        self.same(samples_of(body))
        self.assertGreater(max(len(v) for v in self.history.values()), 100)

    def test_chunks_are_the_history(self):
        headers, body = self.ask([(0, 'service', 'shop')], types=(1, 0))
        self.assertEqual(headers['Content-Type'], 'application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse')
        self.same(chunks_of(body))
        # A client that prefers samples, or does not support chunks, receives samples.
        self.same(samples_of(self.ask([(0, 'service', 'shop')], types=(0, 1))[1]))

    def test_times_are_bounds(self):
        middle = (self.first + self.last) // 2
        got = samples_of(self.ask([(0, 'service', 'shop'), (0, 'pod', 'shop-1')], middle, middle + 300)[1])
        want = {k: [p for p in v if middle <= p[0] <= middle + 300] for k, v in self.history.items() if k[1] == 'shop-1'}
        self.same(got, {k: v for k, v in want.items() if v})
        self.assertEqual(samples_of(self.ask([(0, 'service', 'shop')], self.last + 1000, self.last + 2000)[1]), {})
        self.assertEqual(samples_of(self.ask([(0, 'service', 'shop')], -2**63, self.first - 1000)[1]), {})
        self.same(samples_of(self.ask([(0, 'service', 'shop')], -2**63, 2**63 - 1)[1]))

    def test_matchers_select(self):
        def pods(*matchers):
            return {dict(k)['pod'] for k in samples_of(self.ask([(0, 'service', 'shop'), *matchers])[1])}
        for matchers, want in [
                ([(0, 'pod', 'shop-1')], {'shop-1'}), ([(1, 'pod', 'shop-1')], {'shop-0', 'shop-2'}),
                ([(2, 'pod', 'shop-[12]')], {'shop-1', 'shop-2'}), ([(3, 'pod', '.*-0|.*-2')], {'shop-1'}),
                ([(2, 'pod', 'shop-')], set()),  # the whole value
                ([(0, 'nosuch', '')], {'shop-0', 'shop-1', 'shop-2'}), ([(1, 'nosuch', '')], set()),
                ([(2, 'nosuch', 'x?')], {'shop-0', 'shop-1', 'shop-2'}), ([(2, 'pod', '(?i)SHOP-2')], {'shop-2'}),
                ([(2, '__name__', '.*_count'), (2, 'pod', r'\w+-\d')], {'shop-0', 'shop-1', 'shop-2'}),
                ([(0, '__name__', 'nosuch')], set())]:
            self.assertEqual(pods(*matchers), want, matchers)

    def test_bad_requests_are_told_why(self):
        def post(body, **headers):
            return http.request(self.collector.url + '/api/v1/read', 'POST', body,
                                {'Content-Type': 'application/x-protobuf', **headers})
        for body, words in [(b'', b'snappy'), (b'\xff' * 40, b'snappy'), (snappy.compress(b'\x0a\xff'), b'malformed'),
                            (snappy.compress(b'\0' * 300000), b'262144 bytes'),
                            (snappy.compress(read_request([(2, 'pod', '(')], 0, 1)), b'regular expression'),
                            (snappy.compress(read_request([(7, 'pod', 'x')], 0, 1)), b'malformed matcher'),
                            (snappy.compress(read_request([(0, 'pod', 'x')] * 17, 0, 1)), b'more than 16 matchers'),
                            (snappy.compress(read_request([(2, 'pod', '(' * 300 + 'x' + ')' * 300)], 0, 1)), b'expression'),
                            (snappy.compress(field(1, b'') * 17), b'more than 16 queries')]:
            status, _, answer = post(body)
            self.assertEqual(status, 400, answer)
            self.assertIn(words, answer)
        # A regular expression that backtracks too long is given up.
        slow = '(.*)*' * 12 + '(?!)'
        status, _, answer = post(snappy.compress(read_request([(0, 'service', 'shop'), (2, 'pod', slow)], 0, 1)))
        self.assertEqual((status, b'too expensive' in answer), (400, True), answer)
        self.assertEqual(post(snappy.compress(read_request([], 0, 1)), **{'Content-Type': 'text/plain'})[0], 415)
        self.assertEqual(http.request(self.collector.url + '/api/v1/read')[0], 405)
        generator = random.Random(1)
        whole = read_request([(2, 'pod', 'shop-.*')], self.first, self.last, (1,))
        for _ in range(300):
            bad = bytearray(whole)
            for _ in range(generator.randrange(1, 4)):
                bad[generator.randrange(len(bad))] = generator.randrange(256)
            self.assertIn(post(snappy.compress(bytes(bad)))[0], (200, 400))
        self.same(samples_of(self.ask([(0, 'service', 'shop')])[1]))

    def test_prometheus_computes_what_the_history_says(self):
        names = sorted({name for name, _ in self.history})
        self.assertEqual(len(names), 3, names)
        points = self.history
        start = math.ceil(self.first / 1000) + 0.5
        asked = 0
        with Prometheus({}, read=[self.collector.url + '/api/v1/read']) as p:
            def matrix(query, step=0.01, seconds=0.5):
                r = p.api('/query_range', query=query, start=start, end=start + seconds, step=step)['result']
                return {tuple(sorted(s['metric'].items())): [(float(t), float(v)) for t, v in s['values']] for s in r}

            def close(got, want, what):
                self.assertEqual(set(got), set(want), what)
                for k in want:
                    self.assertEqual([round(t, 3) for t, _ in got[k]], [round(t, 3) for t, _ in want[k]], (what, k))
                    for (t, a), (_, b) in zip(got[k], want[k]):
                        self.assertTrue(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9), (what, k, t, a, b))

            steps = [round(start * 1000) + 10 * i for i in range(51)]
            per_pod = {}
            for name in names:
                gauge = not name.endswith(('_total', '_count'))
                for fn, compute in [
                        ('rate', lambda p, a, b: rate(p, a, b)), ('increase', lambda p, a, b: rate(p, a, b, per_second=False)),
                        ('delta', lambda p, a, b: rate(p, a, b, counter=False, per_second=False))]:
                    for window in (200, 500, 1000):
                        if (fn == 'delta') != gauge:
                            continue
                        got = {dict(k)['pod']: v for k, v in matrix(f'{fn}({name}{{service="shop"}}[{window}ms])').items()}
                        want = {pod: [(t / 1000, v) for t in steps
                                      for v in [compute(points[name, pod], t - window, t)] if v is not None]
                                for pod in ('shop-0', 'shop-1', 'shop-2')}
                        close(got, {k: v for k, v in want.items() if v}, f'{fn} {name} {window}')
                        per_pod[fn, name, window] = got
                        asked += 1
                for fn, compute in [('max_over_time', max), ('min_over_time', min), ('count_over_time', len),
                                    ('sum_over_time', sum), ('last_over_time', lambda v: v[-1]),
                                    ('avg_over_time', lambda v: sum(v) / len(v))]:
                    for window in (200, 1000):
                        got = {dict(k)['pod']: v
                               for k, v in matrix(f'{fn}({name}{{service="shop"}}[{window}ms])').items()}
                        want = {}
                        for pod in ('shop-0', 'shop-1', 'shop-2'):
                            for t in steps:
                                v = [v for at, v in points[name, pod] if t - window <= at <= t]
                                if v:
                                    want.setdefault(pod, []).append((t / 1000, compute(v)))
                        close(got, want, f'{fn} {name} {window}')
                        asked += 1
            for (fn, name, window), each in per_pod.items():
                got = matrix(f'sum({fn}({name}{{service="shop"}}[{window}ms]))').get((), [])
                want = {}
                for series in each.values():
                    for t, v in series:
                        want[round(t, 3)] = want.get(round(t, 3), 0) + v
                close({(): got}, {(): sorted(want.items())}, f'sum {fn} {name} {window}')
                asked += 1
            self.same_answers_without_an_engine(p, start)
        self.assertGreaterEqual(asked, 50)

    def own(self, path, status=200, **params):
        found, _, body = http.request(f'{self.collector.url}/api/v1/{path}?{urllib.parse.urlencode(params, doseq=True)}')
        self.assertEqual(found, status, (path, params, body))
        return json.loads(body)

    def same_answers_without_an_engine(self, p, start):
        """/api/v1/query_range and the like return the same as Prometheus does over remote read."""
        def result(data):
            r = data['result']
            if data['resultType'] in ('scalar', 'string'):
                return [([], [(r[0], r[1] if data['resultType'] == 'string' else float(r[1]))])]
            return sorted((sorted(s['metric'].items()),
                           [(round(float(t), 3), float(v)) for t, v in s.get('values', [s.get('value')])]) for s in r)

        def same(ours, theirs, what):
            self.assertEqual([m for m, _ in ours], [m for m, _ in theirs], what)
            for (m, a), (_, b) in zip(ours, theirs):
                self.assertEqual([t for t, _ in a], [t for t, _ in b], (what, m))
                for (t, v), (_, w) in zip(a, b):
                    self.assertTrue(v == w or math.isnan(v) and math.isnan(w) or math.isclose(v, w, rel_tol=1e-9, abs_tol=1e-12),
                                    (what, m, t, v, w))
        names = sorted({name for name, _ in self.history})
        selectors = ['{__name__=~"generated.*",service="shop"}', *(f'{n}{{service="shop"}}' for n in names)]
        queries = [*selectors, f'{names[0]}', f'{names[0]}{{pod!~"shop-[01]"}} offset 200ms', '{service="shop",pod="shop-1"}',
                   'nosuch', '{pod="nosuch"}', '{pod=~"shop-\\\\d"}']
        for n in names:
            x = f'{n}{{service="shop"}}'
            queries += [f'{fn}({x}[{w}])' for fn in ('rate', 'increase', 'delta', 'irate', 'avg_over_time', 'min_over_time',
                                                     'max_over_time', 'sum_over_time', 'count_over_time', 'last_over_time')
                        for w in (('200ms', '1s') if n == names[0] else ('500ms',))]
            queries += [f'{op} {by} (rate({x}[500ms]))' for op in ('sum', 'avg', 'min', 'max', 'count')
                        for by in ('', 'by (pod)', 'by (service, nosuch)', 'without (pod, process)')
                        if n == names[0] or by == 'by (pod)']
            queries += [f'max(sum(rate({x}[1s])) by (pod))', f'sum({x})', f'count({x} offset 100ms)',
                        f'sum by (__name__) (last_over_time({x}[1s]))']
        queries += expressions(*names, start)
        self.assertGreaterEqual(len(set(queries)), 200)
        ranges = {'start': start, 'end': start + 0.5, 'step': 0.01}, {'start': start, 'end': start + 60, 'step': '20s'}
        answered = 0
        for query in queries:
            with self.subTest(query):
                # A range of strings is refused by both.
                for params in () if query[0] in '"\'`' else ranges:
                    ours = result(self.own('query_range', query=query, **params)['data'])
                    same(ours, result(p.api('/query_range', query=query, **params)), query)
                    answered += bool(ours)
                at = start + 0.3
                same(result(self.own('query', query=query, time=at)['data']), result(p.api('/query', query=query, time=at)), query)
        self.assertGreater(answered, len(queries))
        for bad, words in (
                ('', 'selector'), ('(', 'selector'), ('x +', 'selector'), ('rate(x)', 'range vector'), ('rate(x[5m)', 'expected ]'),
                ('histogram_quantile(x)', 'arguments'), ('x[5m]', '/api/v1/history'), ('sum(x', 'expected , or )'), ('sum by (x', 'expected , or )'),
                ('{a=~".*"}', 'empty'), ('{a="b"', 'expected'), ('x{a=~"("}', 'regular expression'), ('x offset', 'duration'),
                ('holt_winters(x[5m], 0.1, 0.1)', 'holt_winters()'), ('timestamp(x)', 'timestamp()'), ('hour()', 'hour()'),
                ('histogram_fraction(0, 1, x)', 'histogram_fraction()'), ('x[5m][1m:]', 'instant vector'), ('(x)[5m]', 'selector'),
                ('1 == 2', 'bool'), ('1 + bool 2', 'bool'), ('x and 1', 'vector'), ('1 + on (a) x', 'both sides'),
                ('x and on (a) group_left y', 'group_'), ('"a" + 1', 'a string'), ('topk(x)', 'arguments'), ('sum(1)', 'instant vector'),
                ('x offset 1m offset 1m', 'offset'), ('x @ 1 @ 2', '@'), ('1 @ 5', '@'), ('x @ y', '@'), ('-"a"', 'a string'), ('5m', 'number'),
                ('(' * 200 + '1' + ')' * 200, 'nested'), ('+'.join(['1'] * 2000), 'operands')):
            answer = self.own('query', 400, query=bad)
            self.assertEqual((answer['status'], answer['errorType']), ('error', 'bad_data'), bad)
            self.assertIn(words, answer['error'], bad)
        name = names[0]
        for wrong, words in ((f'{name} + on (service) {name}', 'many'), (f'{name} * on (service) group_left sum by (pod, service) ({name})', 'many'),
                             (f'sum by (service) ({name}) + on (service) {name}', 'many'),
                             (f'label_replace({name}, "a-b", "", "", "")', 'label name'), ('count_values("", x)', 'label name'), (f'label_replace(sum by (pod) ({name}), "pod", "x", "", "")', 'same labels')):
            answer = self.own('query', 422, query=wrong, time=start + 0.3)
            self.assertEqual((answer['status'], answer['errorType']), ('error', 'execution'), wrong)
            self.assertIn(words, answer['error'], wrong)
        self.own('query_range', 400, query='"x"', start=1, end=2, step=1)
        for params in ({'start': 0, 'end': 100000, 'step': 1}, {'start': 5, 'end': 1, 'step': 1}, {'start': 1, 'end': 5, 'step': 0},
                       {'start': 'x', 'end': 5, 'step': 1}, {'start': 1, 'step': 1}):
            self.own('query_range', 400, query='x', **params)

    def post(self, path, status=200, kind='application/x-www-form-urlencoded', at='', **params):
        found, _, body = http.request(f'{self.collector.url}/api/v1/{path}{at}', 'POST',
                                      urllib.parse.urlencode(params, doseq=True).encode(), {'Content-Type': kind})
        self.assertEqual(found, status, (path, params, body))
        return json.loads(body)

    def test_grafana_finds_what_it_asks_for(self):
        """Queries as forms, the metadata of metrics, and the version."""
        name = sorted({name for name, _ in self.history})[0]
        at = self.first / 1000 + 0.5
        query = f'sum by (pod) ({name}{{service="shop",pod=~"shop-.+"}})'
        self.assertEqual(self.post('query', query=query, time=at), self.own('query', query=query, time=at))
        self.assertEqual(len(self.post('query', query=query, time=at)['data']['result']), 3)
        span = {'query': query, 'start': at, 'end': at + 1, 'step': '100ms'}
        self.assertEqual(self.post('query_range', **span), self.own('query_range', **span))
        self.assertEqual(self.post('query', at=f'?time={at}', query=query), self.own('query', query=query, time=at))
        matches = {'match[]': ['{service="shop",pod="shop-1"}', '{service="shop",pod="shop-2"}']}
        for path in ('series', 'labels', 'label/pod/values'):
            self.assertEqual(self.post(path, **matches), self.own(path, **matches))
        self.assertEqual(self.post('label/pod/values', **matches)['data'], ['shop-1', 'shop-2'])
        self.post('query', 415, kind='text/plain', query=query)
        for body in (b'query=%zz', b'query=%00', b'query=%4', b'a&' * 5000, b'query=x\0y'):
            self.assertEqual(http.request(self.collector.url + '/api/v1/query', 'POST', body,
                                          {'Content-Type': 'application/x-www-form-urlencoded'})[0], 400, body)
        found = http.request(self.collector.url + '/api/v1/query', 'POST', b'query=x',
                             {'Content-Type': 'application/x-www-form-urlencoded', 'Origin': 'http://evil.example'})
        self.assertEqual(found[0], 403, found)
        metadata = self.own('metadata')['data']
        self.assertLessEqual({m['name'] if m['kind'] != 'counter' else m['name'].removesuffix('_total') + '_total'
                              for m in self.metrics()}, set(metadata))
        for entries in metadata.values():
            self.assertEqual([set(e) for e in entries], [{'type', 'help', 'unit'}])
        self.assertEqual(list(self.own('metadata', metric=name)['data']), [name] if not name.endswith('_count') else [name[:-6]])
        self.assertEqual(len(self.own('metadata', limit=2)['data']), 2)
        self.assertRegex(self.own('status/buildinfo')['data']['version'], r'^2\.\d+\.\d+$')

    def test_labels_and_series_are_listed(self):
        labels = [dict(zip(('__name__', 'pod'), k)) for k in self.history]
        got = self.own('series', **{'match[]': ['{service="shop"}', '{service="shop",pod="shop-1"}']})['data']
        self.assertEqual(sorted((s['__name__'], s['pod']) for s in got if not s['__name__'].endswith(('_sum', '_bucket'))),
                         sorted(self.history))
        self.assertEqual({s.get('le', '+Inf')[-4:] for s in got if s['__name__'].endswith('_sum')}, {'+Inf'})
        self.assertIn('1.0', {s['le'] for s in got if s['__name__'].endswith('_bucket')})
        self.assertEqual({s['host'] for s in got}, {'node-1'})
        self.own('series', 400)
        self.own('series', 400, **{'match[]': '{'})
        self.assertEqual(self.own('label/pod/values', **{'match[]': '{service="shop"}'})['data'], ['shop-0', 'shop-1', 'shop-2'])
        names = self.own('label/__name__/values')['data']
        self.assertEqual(names, sorted(names))
        self.assertLessEqual({s['__name__'] for s in labels}, set(names))
        self.assertLessEqual({'__name__', 'host', 'pod', 'process', 'service'}, set(self.own('labels')['data']))
        self.assertEqual(self.own('label/nosuch/values')['data'], [])
        # All buckets only where they are selected, so that many histograms do not exceed the limit.
        self.assertIn('generated_size_bytes_bucket', names)
        self.assertEqual(self.own('label/le/values')['data'], ['+Inf'])
        self.assertGreater(len(self.own('label/le/values', **{'match[]': '{service="shop"}'})['data']), 10)
        # Outside of the time that is asked for there is nothing.
        self.assertEqual(self.own('label/pod/values', start=1, end=2)['data'], [])
        self.assertEqual(self.own('label/pod/values', start='2020-01-01T00:00:00Z', **{'match[]': '{service="shop"}'})['data'],
                         ['shop-0', 'shop-1', 'shop-2'])


class Strangers(unittest.TestCase):
    @unittest.skipIf(os.geteuid(), 'needs root to become another user')
    def test_answers_not_taken_refuse_no_other(self):
        """A user begins as many reads as there may be, and takes no answer."""
        path, headers = '/api/v1/read', {'Content-Type': 'application/x-protobuf', 'Content-Encoding': 'snappy'}

        def body(name):
            return snappy.compress(read_request([(2, '__name__', name)], 1, 2**53, (1,)))
        with Agent() as agent, Collector([agent], '--period', '20ms', '--query-timeout', '5m') as c:
            os.chmod(agent.folder, 0o755)
            held = []

            def attack():
                held.append(publish_long_names(agent, 10000, pods=4))
                wait_until(lambda: len(http.request(c.url + path, 'POST', body('x.+'), headers)[2]) > 6 << 20, 'a large answer', c)
                data = body('x.+')
                head = {'Host': 'localhost', 'Content-Length': len(data), **headers}
                question = f'POST {path} HTTP/1.1\r\n' + ''.join(f'{k}: {v}\r\n' for k, v in head.items()) + '\r\n'
                for _ in range(4):
                    s = ask_slowly(c.address, question.encode() + data)
                    s.recv(1)
                    held.append(s)
            with Attacker(attack):
                for _ in range(5):
                    status, _, answer = http.request(c.url + path, 'POST', body('sidelight_host_up'), headers)
                    self.assertEqual(status, 200, answer)
                self.assertEqual(c.total('sidelight_collector_http_refused_total', 'cause="answers"'), 2)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
