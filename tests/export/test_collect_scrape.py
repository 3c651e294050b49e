#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_collect_scrape.py SIDELIGHT PUBLISHER - the whole way: an application publishes through
libsidelight, the agent admits it, the collector reads it, Prometheus scrapes that and answers."""
import json
import shutil
import subprocess
import sys
import unittest

from support import exposition as e
from support import http
from support.process import check, wait_until
from support.prometheus import Prometheus, available
from support.sidelight import Agent, Collector, Pod

PUBLISHER = sys.argv[2]
PROTOBUF = ('application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;'
            'encoding=delimited')


class WholeWay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.agent = Agent('--hostname', 'node-1')
        cls.publisher = Pod(PUBLISHER, cls.agent.socket)
        ready = cls.publisher.ready()
        check(ready['attached'] == '1', ready, cls.publisher)
        cls.pid = ready['pid']
        cls.collector = Collector([cls.agent], '--period', '20ms')
        wait_until(lambda: 'shop_queue' in cls.collector.get('/metrics'), 'the pod', cls.collector)

    @classmethod
    def tearDownClass(cls):
        cls.publisher.close()
        codes = [part.stop() for part in (cls.collector, cls.agent)]
        check(codes == [0, 0], codes, cls.collector, cls.agent)

    @classmethod
    def fetch(cls, path, **headers):
        status, found, body = http.request(cls.collector.url + path, headers=headers)
        check(status == 200, f'{path}: {status}')
        return found, body

    def labels(self, **more):
        return tuple(sorted(dict(more, service='shop', pod='shop-"0"\\', namespace='default',
                                 host='node-1', process=self.pid).items()))

    def check(self, samples):
        self.assertEqual(samples['shop_requests_total'], {
            self.labels(code='200'): 1234567890123, self.labels(code='50\n0'): 2**63})
        self.assertEqual(samples['shop_cpu_seconds_total'], {self.labels(): 0.1})
        self.assertEqual(samples['shop_queue'], {self.labels(): -42})
        self.assertEqual(samples['shop_temperature_celsius'], {self.labels(): 21.5})
        self.assertEqual(samples['shop_build_info'], {
            self.labels(compiler='gcc', version='1.2.3'): 1})
        self.assertEqual({dict(k)['shop_state']: v for k, v in samples['shop_state'].items()},
                         {'starting': 0, 'up': 1, 'draining': 0})

    def test_the_text_is_valid_and_exact(self):
        headers, body = self.fetch('/metrics')
        self.assertEqual(headers['Content-Type'], 'text/plain; version=0.0.4; charset=utf-8')
        s = e.text(body)
        self.check(s)
        self.assertEqual({float(dict(k)['le']): v for k, v in s['shop_wait_seconds_bucket'].items()},
                         {0.01: 10, 0.1: 100, 1: 1000, float('inf'): 1001})
        self.assertEqual(s['shop_latency_seconds_count'], {self.labels(): 1002})
        self.assertTrue([n for n in s if n.startswith('sidelight_')])
        if shutil.which('promtool'):
            r = subprocess.run(['promtool', 'check', 'metrics'], input=body,
                               stderr=subprocess.PIPE)
            self.assertEqual((r.returncode, r.stderr), (0, b''))

    def test_openmetrics_is_valid_and_exact(self):
        headers, body = self.fetch('/metrics', Accept='application/openmetrics-text')
        self.assertTrue(headers['Content-Type'].startswith('application/openmetrics-text'))
        self.check(e.openmetrics(body))

    def test_protobuf_is_valid_and_exact(self):
        if not shutil.which('protoc'):
            self.skipTest('no protoc: install protobuf-compiler')
        s = e.protobuf(self.fetch('/metrics', Accept=PROTOBUF)[1])
        self.check(s)
        h = s['shop_latency_seconds'][self.labels()]
        self.assertEqual((h['schema'], h['count'], h['zero_count']), (3, 1002, 1))

    def test_health_and_status(self):
        self.assertEqual(self.fetch('/-/healthy')[1], b'ok\n')
        self.assertEqual(self.fetch('/-/ready')[1], b'ready\n')
        headers, body = self.fetch('/api/v1/status')
        status = json.loads(body)
        self.assertEqual(headers['Content-Type'].split(';')[0], 'application/json')
        self.assertTrue(status['ready'])
        self.assertGreaterEqual(status['totals']['pods_live'], 1)  # the agent may be one too
        code, answer = http.get_json(self.collector.url + '/nowhere')
        self.assertEqual(code, 404)
        self.assertIn('error', answer)

    def test_prometheus_answers_what_was_published(self):
        if not available():
            self.skipTest('no prometheus: install the package prometheus')
        jobs = {'sidelight': (self.collector.address, '/metrics')}
        with Prometheus(jobs, native=True) as prometheus:
            prometheus.scraped(jobs)
            ask = prometheus.scalar
            self.assertEqual(ask('shop_requests_total{code="200"}'), 1234567890123)
            self.assertEqual(ask('shop_requests_total{code="50\\n0"}'), 2**63)
            self.assertEqual(ask('shop_requests_total{code="200",pod="shop-\\"0\\"\\\\",'
                                 f'host="node-1",process="{self.pid}"}}'), 1234567890123)
            self.assertEqual(ask('shop_cpu_seconds_total'), 0.1)
            self.assertEqual(ask('shop_queue'), -42)
            self.assertEqual(ask('shop_state{shop_state="up"}'), 1)
            self.assertEqual(ask('shop_build_info{version="1.2.3"}'), 1)
            self.assertEqual(ask('shop_wait_seconds_bucket{le="0.1"}'), 100)
            # native: 1 ms to 1 s evenly, a 0, and one above all; a bucket is 9 % wide
            self.assertEqual(ask('histogram_count(shop_latency_seconds)'), 1002)
            self.assertAlmostEqual(ask('histogram_sum(shop_latency_seconds)'), 1e6 + 500.5, 3)
            for q in (0.1, 0.5, 0.9, 0.99):
                got = ask(f'histogram_quantile({q}, shop_latency_seconds)')
                self.assertAlmostEqual(got / q, 1, delta=0.05)
            self.assertGreater(ask('histogram_quantile(1, shop_latency_seconds)'), 100)
        with Prometheus(jobs) as prometheus:  # and by OpenMetrics
            prometheus.scraped(jobs)
            ask = prometheus.scalar
            self.assertEqual(ask('shop_requests_total{code="50\\n0"}'), 2**63)
            self.assertEqual(ask('shop_latency_seconds_count'), 1002)
            self.assertEqual(ask('shop_latency_seconds_bucket{le="0.5"}'), 501)
            got = ask('histogram_quantile(0.5, shop_latency_seconds_bucket)')
            self.assertAlmostEqual(got / 0.5, 1, delta=0.05)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
