#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_prometheus.py SERVER - the real Prometheus scrapes every format and answers correctly."""
import math
import subprocess
import sys
import unittest

from support import exposition as e
from support.http import request
from support.process import Part, skip
from support.prometheus import Prometheus, available

SERVER = sys.argv.pop(1)

if not available():
    skip('no prometheus: install the package prometheus')


def fetch(address, path, accept=None):
    _, headers, body = request(f'http://{address}{path}', headers={'Accept': accept} if accept else {})
    return headers['Content-Type'], body


def native_quantile(q, h):
    """Computes a quantile like PromQL: linear within the bucket that contains the rank."""
    factor = 2 ** 2 ** -h['schema']
    buckets = [(0, h['zero_threshold'], h['zero_count'])]
    buckets += [(factor**(i - 1), factor**i, n) for i, n in sorted(h['buckets'].items())]
    rank, below = q * h['count'], 0
    for low, high, n in buckets:
        if n and below + n >= rank:
            return low + (high - low) * (rank - below) / n
        below += n
    return buckets[-1][1]


class Scrapes(unittest.TestCase):
    def setUp(self):
        self.server = Part(SERVER)
        self.address = self.server.ready()['address']
        self.assertIn('127.0.0.1:', self.address)

    def tearDown(self):
        self.assertEqual(self.server.stop(), 0)

    def same(self, prometheus, job, samples):
        """Checks that Prometheus has every sample of the text, with the same value, and no others."""
        stored = {}
        for labels, value in prometheus.query(f'{{job="{job}",__name__=~"shop_.*"}}'):
            name = labels.pop('__name__')
            self.assertEqual((labels.pop('job'), labels.pop('instance')), (job, self.address))
            stored.setdefault(name, {})[tuple(sorted(labels.items()))] = value
        expected = {name: {tuple(kv for kv in labels if kv[1]): float(value)
                           for labels, value in of_name.items()}
                    for name, of_name in samples.items()}
        self.assertEqual(repr(sorted((n, sorted(s.items(), key=repr)) for n, s in
                                     stored.items())),
                         repr(sorted((n, sorted(s.items(), key=repr)) for n, s in
                                     expected.items())))

    def test_promtool_has_nothing_to_say(self):
        kind, body = fetch(self.address, '/metrics')
        self.assertEqual(kind, 'text/plain; version=0.0.4; charset=utf-8')
        r = subprocess.run(['promtool', 'check', 'metrics'], input=body, stderr=subprocess.PIPE)
        self.assertEqual((r.returncode, r.stderr), (0, b''))

    def test_text_and_openmetrics(self):
        text = e.text(fetch(self.address, '/metrics')[1])
        kind, body = fetch(self.address, '/metrics', 'application/openmetrics-text')
        self.assertTrue(kind.startswith('application/openmetrics-text'))
        openmetrics = e.openmetrics(body)
        jobs = {'text': (self.address, '/text'), 'openmetrics': (self.address, '/metrics')}
        with Prometheus(jobs) as prometheus:
            prometheus.scraped(jobs)
            self.same(prometheus, 'text', text)
            self.same(prometheus, 'openmetrics', openmetrics)
            # only OpenMetrics has units, so Prometheus has received it
            meta = prometheus.api('/metadata', metric='shop_size_bytes')['shop_size_bytes']
            self.assertIn({'type': 'histogram', 'help': 'Sizes', 'unit': 'bytes'}, meta)
            meta = prometheus.api('/metadata', metric='shop_state')['shop_state']
            self.assertIn('stateset', [m['type'] for m in meta])
            self.assertEqual(prometheus.scalar(
                'shop_requests_total{job="openmetrics",code="200"}'), 123456789)
            self.assertEqual(prometheus.scalar('shop_queue{job="text",queue="in"}'), -5)
            self.assertTrue(math.isnan(prometheus.scalar('shop_load{job="text",cpu="0"}')))
            # the count of the overflow is above all bounds: the quantile is the last of them
            self.assertEqual(prometheus.scalar(
                'histogram_quantile(0.99, shop_latency_seconds_bucket{job="text",path="/cart"})'),
                1024)

    def test_protobuf_with_native_histograms(self):
        accept = ('application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;'
                  'encoding=delimited')
        kind, body = fetch(self.address, '/metrics', accept)
        self.assertEqual(kind.replace(' ', ''), accept)
        sent = e.protobuf(body)
        text = e.text(fetch(self.address, '/metrics')[1])
        for s in ('_bucket', '_sum', '_count'):  # comes as one native histogram
            del text['shop_latency_seconds' + s]
        jobs = {'protobuf': (self.address, '/metrics')}
        with Prometheus(jobs, native=True) as prometheus:
            prometheus.scraped(jobs)
            native = 'shop_latency_seconds{path="/cart"}'
            stored = [s for s in prometheus.query('shop_latency_seconds')]
            self.assertEqual(len(stored), 2)
            for labels, value in stored:
                self.assertIsInstance(value, dict, 'not a native histogram')
            h = sent['shop_latency_seconds'][(('path', '/cart'),)]
            self.assertEqual(h['count'], 118)
            self.assertEqual(prometheus.scalar(f'histogram_count({native})'), 118)
            self.assertEqual(prometheus.scalar(f'histogram_sum({native})'), 1234.5)
            self.assertEqual(prometheus.scalar(
                'histogram_count(shop_latency_seconds{path="/none"})'), 0)
            for q in (0.01, 0.1, 0.5, 0.9, 0.95, 0.999):
                self.assertAlmostEqual(prometheus.scalar(f'histogram_quantile({q}, {native})') /
                                       native_quantile(q, h), 1, 9, q)
            # every bucket: [kind, lower, upper, count]
            got = [(float(low), float(high), float(n)) for _, low, high, n in
                   dict((k['path'], v) for k, v in stored)['/cart']['buckets']]
            factor = 2 ** 2 ** -h['schema']
            want = [(0, h['zero_threshold'], h['zero_count'])]
            want += [(factor**(i - 1), factor**i, n) for i, n in sorted(h['buckets'].items())]
            self.assertEqual(len(got), len(want))
            for a, b in zip(got, want):
                self.assertEqual(a[2], b[2])
                self.assertAlmostEqual(a[1] / b[1], 1, 12)
            # classic ones and all others are as in the text
            self.check_rest(prometheus, text)

    def check_rest(self, prometheus, text):
        for name, of_name in text.items():
            stored = {}
            for labels, value in prometheus.query(f'{name}{{job="protobuf"}}'):
                for k in ('__name__', 'job', 'instance'):
                    labels.pop(k)
                if 'le' in labels:  # Prometheus writes it, from the number
                    labels['le'] = repr(float(labels['le']))
                stored[tuple(sorted(labels.items()))] = value
            wanted = {}
            for labels, value in of_name.items():
                labels = {k: repr(float(v)) if k == 'le' else v for k, v in labels if v}
                wanted[tuple(sorted(labels.items()))] = float(value)
            self.assertEqual(repr(sorted(stored.items())), repr(sorted(wanted.items())), name)


if __name__ == '__main__':
    unittest.main()
