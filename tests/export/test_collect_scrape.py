#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_collect_scrape.py SIDELIGHT PUBLISHER - the whole way: an application publishes through
libsidelight, the agent admits it, the collector reads it, Prometheus scrapes that and answers."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import exposition as e
import prometheus as p

SIDELIGHT, PUBLISHER = sys.argv.pop(1), sys.argv.pop(1)
PROTOBUF = ('application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;'
            'encoding=delimited')


class WholeWay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix='sl-scrape-')
        cls.daemons = []
        try:
            cls.start()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def start(cls):
        socket = os.path.join(cls.folder, 'agent.sock')
        cls.daemons.append(p.Daemon(SIDELIGHT, 'agent', '--socket', socket, '--no-rest',
                                    '--host', 'node-1'))
        cls.publisher = subprocess.Popen([PUBLISHER, socket], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        ready = cls.publisher.stdout.readline().split()
        assert ready[2] == 'attached=1', ready
        cls.pid = ready[1].split('=')[1]
        cls.daemons.append(p.Daemon(SIDELIGHT, 'collect', '--agent', socket, '--listen',
                                    '127.0.0.1:0', '--period', '20ms'))
        cls.address = cls.daemons[-1].ready['listen']
        end = time.monotonic() + 60
        while b'shop_queue' not in cls.fetch('/metrics')[1]:
            assert time.monotonic() < end, 'the collector never showed the pod'
            time.sleep(0.05)

    @classmethod
    def tearDownClass(cls):
        if hasattr(cls, 'publisher'):
            cls.publisher.stdin.close()
            cls.publisher.wait(60)
            cls.publisher.stdout.close()
        codes = [d.stop() for d in reversed(cls.daemons)]
        shutil.rmtree(cls.folder)
        assert codes == [0] * len(codes), codes

    @classmethod
    def fetch(cls, path, **headers):
        r = urllib.request.Request(f'http://{cls.address}{path}', headers=headers)
        with urllib.request.urlopen(r, timeout=60) as answer:
            return answer.headers, answer.read()

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
        with self.assertRaises(urllib.error.HTTPError) as r:
            self.fetch('/nowhere')
        self.assertEqual(r.exception.code, 404)
        self.assertIn('error', json.loads(r.exception.read()))
        r.exception.close()

    def test_prometheus_answers_what_was_published(self):
        if not p.available():
            self.skipTest('no prometheus: install the package prometheus')
        jobs = {'sidelight': (self.address, '/metrics')}
        with p.Prometheus(jobs, native=True) as prometheus:
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
        with p.Prometheus(jobs) as prometheus:  # and by OpenMetrics
            prometheus.scraped(jobs)
            ask = prometheus.scalar
            self.assertEqual(ask('shop_requests_total{code="50\\n0"}'), 2**63)
            self.assertEqual(ask('shop_latency_seconds_count'), 1002)
            self.assertEqual(ask('shop_latency_seconds_bucket{le="0.5"}'), 501)
            got = ask('histogram_quantile(0.5, shop_latency_seconds_bucket)')
            self.assertAlmostEqual(got / 0.5, 1, delta=0.05)


if __name__ == '__main__':
    unittest.main()
