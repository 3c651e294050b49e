#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_minor1.py SIDELIGHT PUBLISHER - exemplars, creation times, names in UTF-8 and the kinds of minor 1 are exported in every
format, and Prometheus accepts them."""
import re
import sys
import unittest
import urllib.parse

from support import exposition as e
from support import http
from support.process import check, wait_until
from support.prometheus import Prometheus, Receiver, available
from support.sidelight import Agent, Collector, Pod

OPENMETRICS = 'application/openmetrics-text;version=1.0.0'
PROTOBUF = 'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited'
UTF8 = ';escaping=allow-utf-8'


class Minor1(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.agent = Agent()
        cls.publisher = Pod(sys.argv[2], cls.agent.socket)
        check(cls.publisher.ready()['attached'] == '1', cls.publisher)
        cls.collector = Collector([cls.agent], '--period', '20ms', '--created')
        wait_until(lambda: b'# {' in cls.get(OPENMETRICS)[1], 'an exemplar', cls.collector)
        wait_until(lambda: cls.get(OPENMETRICS)[1].count(b'# {') == 4, 'all exemplars', cls.collector)

    @classmethod
    def tearDownClass(cls):
        cls.publisher.close()
        codes = [part.stop() for part in (cls.collector, cls.agent)]
        check(codes == [0, 0], codes, cls.collector, cls.agent)

    @classmethod
    def get(cls, accept):
        status, headers, body = http.request(cls.collector.url + '/metrics', headers={'Accept': accept})
        check(status == 200, status)
        return headers['Content-Type'], body

    def lines(self, accept):
        """Returns {name and our labels: the rest of the line}, without the labels of all series."""
        out = {}
        for line in self.get(accept)[1].decode().splitlines():
            if 'service="kinds"' in line:
                line = re.sub(r'(service|pod|host|process)="[^"]*",?', '', line)
                name, rest = re.fullmatch(r'((?:[^ {]+)?(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?) (.*)', line).groups()
                out[name.replace(',}', '}').replace('{}', '')] = rest
        return out

    def test_exemplars_are_of_their_lines(self):
        lines = self.lines(OPENMETRICS)
        self.assertEqual(lines['done_total'], '2 # {span_id="0000000000000003",trace_id="%016x%016x"} '
                                              '2 1700000000.5' % (1, 2))
        self.assertEqual(lines['wait_seconds_bucket{le="1.0"}'], '1 # {trace_id="%032x"} 0.5 1700000000.5' % 4)
        self.assertEqual(lines['wait_seconds_bucket{le="+Inf"}'],
                         '2 # {user="a \\"b\\"\\n"} 7 1700000000.500000001')
        self.assertEqual(lines['wait_seconds_bucket{le="0.1"}'], '0')
        of = [(k, v) for k, v in lines.items() if k.startswith('latency_seconds_bucket') and '#' in v]
        self.assertEqual(len(of), 1)
        bound = float(re.search('le="(.*?)"', of[0][0])[1])
        self.assertTrue(0.25 <= bound < 0.5, of)
        self.assertNotIn(' # {', self.get('text/plain')[1].decode())

    def test_protobuf_has_exemplars_and_creation_times(self):
        families = {f['name'][0]: f['metric'][0] for f in e.decode(self.get(PROTOBUF)[1])}
        done = families['done_total']['counter'][0]
        self.assertEqual(done['exemplar'][0]['value'], ['2'])
        self.assertEqual(done['created_timestamp'][0], {'seconds': ['1600000000'], 'nanos': ['250000000']})
        buckets = families['wait_seconds']['histogram'][0]['bucket']
        self.assertEqual([b['exemplar'][0]['value'][0] for b in buckets if 'exemplar' in b], ['0.5', '7'])
        self.assertEqual(families['latency_seconds']['histogram'][0]['exemplars'][0]['value'], ['0.25'])

    def test_creation_times(self):
        lines = self.lines(OPENMETRICS)
        self.assertEqual(lines['done_created'], '1600000000.25')
        for name in 'wait_seconds_created', 'latency_seconds_created', 'size_bytes_created':
            self.assertGreater(float(lines[name]), 1700000000)
        self.assertFalse([k for k in lines if k.startswith(('thing_c', 'queue_seconds_cr', 'last_c'))])
        self.assertNotIn('_created', self.get('text/plain')[1].decode())

    def test_kinds(self):
        lines = self.lines(OPENMETRICS)
        self.assertEqual([lines['size_bytes{quantile="0.5"}'], lines['size_bytes{quantile="0.99"}'],
                          lines['size_bytes_sum'], lines['size_bytes_count']], ['0.25', '2', '12', '3'])
        self.assertEqual([lines['thing'], lines['last'], lines['queue_seconds_gcount'], lines['queue_seconds_gsum'],
                          lines['queue_seconds_bucket{le="1.0"}']], ['1.5', '3', '6', '9', '3'])

    def test_names_in_utf8_are_quoted_for_those_who_take_them(self):
        for kind in OPENMETRICS, 'text/plain;version=0.0.4':
            found, body = self.get(kind + UTF8)
            self.assertTrue(found.endswith('; escaping=allow-utf-8'), found)
            lines = self.lines(kind + UTF8)
            self.assertEqual(lines['{"http.requests_total","käse"="1"}'], '5')
            self.assertEqual([lines['{"disk.free"}'], lines['disk_free'], lines['{"disk free"}']], ['6', '7', '8'])
            suffix = '' if kind == OPENMETRICS else '_total'
            self.assertIn(f'# TYPE "http.requests{suffix}" counter\n', body.decode())
            if kind == OPENMETRICS:
                self.assertIn('{"http.requests_created","käse"="1"}', lines)

    def test_names_in_utf8_are_escaped_for_others(self):
        for kind in OPENMETRICS, 'text/plain', '*/*':
            found, body = self.get(kind)
            self.assertNotIn('escaping', found)
            lines = self.lines(kind)
            self.assertEqual(lines['http_requests_total{k_se="1"}'], '5')
            self.assertEqual([lines['disk_free'], lines['U__disk_2e_free'], lines['U__disk_20_free']], ['7', '6', '8'])
        names = [f['name'][0] for f in e.decode(self.get(PROTOBUF)[1])]
        self.assertIn('http_requests_total', names)
        self.assertIn('http.requests_total', [f['name'][0] for f in e.decode(self.get(PROTOBUF + UTF8)[1])])

    def test_names_in_utf8_are_quoted_in_queries(self):
        query = urllib.parse.quote('sum by ("käse", service) ({"http.requests_total","käse"="1"})')
        found, = self.collector.api(f'query?query={query}')['data']['result']
        self.assertEqual((found['metric'], found['value'][1]), ({'käse': '1', 'service': 'kinds'}, '5'))

    def test_prometheus_takes_all_of_it(self):
        if not available():
            self.skipTest('no prometheus: install the package prometheus')
        jobs = {'sidelight': (self.collector.address, '/metrics')}
        with Prometheus(jobs, features=['exemplar-storage']) as prometheus:
            prometheus.scraped(jobs)
            self.assertEqual(prometheus.scalar('http_requests_total{k_se="1"}'), 5)
            self.assertEqual(prometheus.scalar('size_bytes{quantile="0.99"}'), 2)
            self.assertEqual(prometheus.scalar('done_created'), 1600000000.25)
            got = {x['labels'].get('trace_id') or x['labels']['user'] for x in self.exemplars(prometheus)}
            got = {x.replace('\\n', '\n').replace('\\"', '"') for x in got}  # 2.42 leaves escapes of exemplars
            self.assertEqual(got, {'%016x%016x' % (1, 2), '%032x' % 4, '%032x' % 5, 'a "b"\n'})

    @staticmethod
    def exemplars(prometheus):
        found = prometheus.api('/query_exemplars', query='{service="kinds"}', start=1699999999, end=1700000002)
        return [{**x, 'series': s['seriesLabels']} for s in found for x in s['exemplars']]

    def test_prometheus_receives_all_of_it_by_remote_write(self):
        if not available():
            self.skipTest('no prometheus: install the package prometheus')
        with Receiver(native=True, features=['exemplar-storage']) as prometheus:
            sender = Collector([self.agent], '--period', '20ms', '--remote-write', prometheus.url, '--remote-native',
                               '--sample-every', '1s', '--sample-around', '0')
            wait_until(lambda: len(self.exemplars(prometheus)) >= 4, 'exemplars arrive', sender)
            got = {(x['series']['__name__'], x['series'].get('le'), x['labels'].get('trace_id') or x['labels']['user'],
                    float(x['value']), x['timestamp']) for x in self.exemplars(prometheus)}
            self.assertEqual(got, {('done_total', None, '%016x%016x' % (1, 2), 2, 1700000000.5),
                                   ('wait_seconds_bucket', '1', '%032x' % 4, 0.5, 1700000000.5),
                                   ('wait_seconds_bucket', '+Inf', 'a "b"\n', 7, 1700000000.5),
                                   ('latency_seconds', None, '%032x' % 5, 0.25, 1700000000.5)})
            for name, value in {'http_requests_total{k_se="1"}': 5, 'disk_free': 7, 'U__disk_2e_free': 6,
                                'U__disk_20_free': 8}.items():
                prometheus.eventually(lambda: prometheus.query(name), name)
                self.assertEqual(prometheus.scalar(name), value, name)
            lost = {**sender.find('sidelight_push_dropped_total'), **sender.find('sidelight_sampling_left_out_total')}
            self.assertEqual({k: v for k, v in lost.items() if v and 'same_milli' not in k}, {})
            self.assertEqual(list(sender.find('sidelight_sampling_exemplars_total').values()), [4])
            self.assertEqual(sender.stop(), 0)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
