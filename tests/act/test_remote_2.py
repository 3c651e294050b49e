#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_remote_2.py SIDELIGHT POD PROTO - version 2.0 of remote write. No receiver of Debian 12 has it, so the judge is
Google's decoder with the messages of the specification; Prometheus and VictoriaMetrics show that --remote-protocol auto
finds those that have it not."""
import http.server
import importlib
import json
import os
import sys
import threading
import time
import unittest

import snappy

from support import victoria
from support.process import Part, run, skip, wait_until, workdir
from support.prometheus import Receiver, available
from support.sidelight import EXE, Agent, Collector, Pod

POD, PROTO = sys.argv[2:4]
STALE = 0x7ff0000000000002


def messages():
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        skip('no protobuf: install the package python3-protobuf')
    to = workdir()
    folder, name = PROTO.rsplit('/', 1)
    run('protoc', '-I', folder, '--python_out', to, name)
    sys.path.insert(0, to)
    return importlib.import_module(name.removesuffix('.proto') + '_pb2')


v2 = messages()


class Judge:
    """A receiver of version 2.0. mode: how it answers."""

    def __init__(self):
        self.mode, self.requests, self.heads = 'write', [], []
        self.told = self.kept = self.ones = 0
        judge = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                status, numbers = judge.take(dict(self.headers), snappy.uncompress(body))
                self.send_response(status)
                for name, n in numbers.items():
                    self.send_header(f'X-Prometheus-Remote-Write-{name}-Written', str(n))
                self.send_header('Content-Length', '0')
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.server.server_port}/api/v1/write'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, head, body):
        two = head['X-Prometheus-Remote-Write-Version'] == '2.0.0'
        self.heads.append(head)
        if not two:
            self.ones += 1
            return 204, {}
        if self.mode == '415':
            return 415, {}
        if self.mode == 'silent':
            return 204, {}
        r = v2.Request.FromString(body)
        self.requests.append(r)
        n = {'Samples': sum(len(t.samples) for t in r.timeseries),
             'Histograms': sum(len(t.histograms) for t in r.timeseries),
             'Exemplars': sum(len(t.exemplars) for t in r.timeseries)}
        if self.mode == 'partial' and n['Samples'] > 1:
            n['Samples'] -= 1  # as if one had been out of order
            self.kept += sum(n.values())
            self.told += 1
            return 400, n
        self.kept += sum(n.values())
        return 204, n

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Distant(Judge):
    """Answers after a second. sent: {pod: {connection: its times of NAME, in order of arrival}}; most: requests at once."""

    def __init__(self, name):
        super().__init__()
        self.lock, self.name, self.sent, self.busy, self.most = threading.Lock(), name, {}, 0, 0

    def take(self, head, body):
        r = v2.Request.FromString(body)
        with self.lock:
            self.busy += 1
            self.most = max(self.most, self.busy)
            for t in r.timeseries:
                words = [r.symbols[i] for i in t.labels_refs]
                labels = dict(zip(words[::2], words[1::2]))
                if labels['__name__'] == self.name:
                    # A connection has a thread of its own.
                    self.sent.setdefault(labels['pod'], {}).setdefault(threading.get_ident(), []).extend(
                        x.timestamp for x in t.samples)
        time.sleep(1)
        with self.lock:
            self.busy -= 1
        return super().take(head, body)


class Two(unittest.TestCase):
    def system(self, url, *options):
        agent = Agent('--hostname', 'node-1')
        pod = Pod(POD, agent.socket, 'shop-0')
        collector = Collector([agent], '--period', '50ms', '--sample-every', '1s', '--remote-native',
                              '--remote-write', url, *options)

        def end():
            pod.close()
            collector.stop()
            agent.stop()
        self.addCleanup(end)
        return collector

    def check(self, r):
        self.assertEqual(r.symbols[0], '')
        self.assertEqual(len(set(r.symbols)), len(r.symbols))
        out = {}
        for t in r.timeseries:
            self.assertFalse(len(t.labels_refs) % 2)
            words = [r.symbols[i] for i in t.labels_refs]
            labels = dict(zip(words[::2], words[1::2]))
            self.assertEqual(list(labels), sorted(set(words[::2])))
            self.assertTrue(all(labels.values()))
            self.assertTrue(bool(t.samples) != bool(t.histograms), labels)
            times = [s.timestamp for s in list(t.samples) + list(t.histograms)]
            self.assertEqual(times, sorted(set(times)))
            self.assertNotIn(frozenset(labels.items()), out, 'a series once per request')
            out[frozenset(labels.items())] = t
        return [(dict(k), t) for k, t in out.items()]

    def test_what_is_sent_is_as_the_specification_says(self):
        with Judge() as judge:
            c = self.system(judge.url, '--remote-protocol', '2.0')
            series = {}

            def heard():
                while judge.requests:
                    r = judge.requests.pop(0)
                    for labels, t in self.check(r):
                        series.setdefault(labels['__name__'], []).append((r, t))
                return len(series.get('shop_latency_seconds', [])) > 3 and {'shop_requests_total', 'shop_queue',
                                                                            'shop_batch_bucket'} <= set(series)
            wait_until(heard, 'samples and native histograms', c)
            head = judge.heads[0]
            self.assertEqual(head['Content-Type'], 'application/x-protobuf;proto=io.prometheus.write.v2.Request')
            self.assertEqual(head['Content-Encoding'], 'snappy')
            self.assertTrue(head['User-Agent'].startswith('sidelight/'))
            kinds = v2.Metadata
            exposed = c.get('/metrics')
            for name, family, kind in (('shop_requests_total', 'shop_requests_total', kinds.METRIC_TYPE_COUNTER),
                                       ('shop_queue', 'shop_queue', kinds.METRIC_TYPE_GAUGE),
                                       ('shop_batch_bucket', 'shop_batch', kinds.METRIC_TYPE_HISTOGRAM),
                                       ('shop_latency_seconds', 'shop_latency_seconds', kinds.METRIC_TYPE_HISTOGRAM)):
                self.assertIn(f'# TYPE {family} ', exposed)
                for r, t in series[name]:
                    self.assertEqual(t.metadata.type, kind, name)
            units = {r.symbols[t.metadata.unit_ref] for r, t in series['shop_latency_seconds']}
            self.assertEqual(units, {'seconds'})
            for name in ('shop_requests_total', 'shop_latency_seconds', 'shop_batch_bucket'):
                for _, t in series[name]:
                    first = (list(t.samples) + list(t.histograms))[0]
                    self.assertTrue(0 < t.created_timestamp <= first.timestamp, (name, t))
                    self.assertEqual(first.start_timestamp, t.created_timestamp)
            self.assertEqual(series['shop_queue'][0][1].created_timestamp, 0)
            h = series['shop_latency_seconds'][-1][1].histograms[-1]
            counts, sums = [], 0
            for d in h.positive_deltas:
                sums += d
                counts.append(sums)
            self.assertEqual(h.count_int, sum(counts) + h.zero_count_int)
            self.assertEqual(h.schema, 3)
            self.assertEqual(sum(s.length for s in h.positive_spans), len(counts))
            self.assertEqual(c.total('sidelight_push_dropped_total'), 0)
            self.assertEqual(c.total('sidelight_remote_write_version'), 2)

    def test_shards_have_a_request_each_in_flight_and_keep_every_series_in_order(self):
        folder = workdir()
        queue = f'{folder}/shards'
        agent = Agent('--hostname', 'node-1')
        pods = [Pod(POD, agent.socket, f'shop-{i}') for i in range(12)]
        with Distant('shop_requests_total') as judge:
            options = ('--period', '10ms', '--sample-every', '0', '--remote-write', judge.url, '--remote-protocol', '2.0',
                       '--remote-queue', queue, '--remote-queue-size', '8M')
            c = Collector([agent], '--remote-shards', '4', *options)

            def times():
                with judge.lock:
                    return {pod: [list(t) for t in by.values()] for pod, by in judge.sent.items()}
            wait_until(lambda: len(times()) == 12 and all(sum(map(len, by)) > 300 for by in times().values()), 'all pods', c)
            self.assertEqual(judge.most, 4)
            self.assertGreater(len({connection for by in judge.sent.values() for connection in by}), 2)
            for pod, by in times().items():
                self.assertEqual(len(by), 1, f'{pod} uses one connection')
                self.assertEqual(by[0], sorted(set(by[0])), pod)
            self.assertEqual(len(c.find('sidelight_push_sent_total')), 1)
            self.assertEqual(c.total('sidelight_push_dropped_total'), 0)
            self.assertEqual(c.stop(), 0)
            self.assertEqual(set(os.listdir(folder)), {'shards', 'shards.1', 'shards.2', 'shards.3'})
            fewer = Part(EXE, 'collect', '--agent', agent.socket, '--remote-shards', '2', *options)
            self.assertNotEqual(fewer.wait(), 0)
            self.assertIn(f'{queue}.2 is the queue of another shard: set --remote-shards to at least 3', fewer.logged())
        for p in pods:
            p.close()
        agent.stop()

    def test_what_the_receiver_says_it_left_out_is_counted(self):
        with Judge() as judge:
            judge.mode = 'partial'
            c = self.system(judge.url)
            wait_until(lambda: judge.told > 2, 'partial writes', c)
            judge.mode = 'write'
            wait_until(lambda: c.total('sidelight_push_dropped_total', 'cause="refused"') == judge.told,
                       lambda: (judge.told, c.find('sidelight_push_dropped_total')), c)
            wait_until(lambda: c.total('sidelight_push_sent_total') == judge.kept,
                       lambda: (judge.kept, c.find('sidelight_push_sent_total')), c, every=0.005)

    def test_a_receiver_of_version_1_gets_version_1(self):
        for mode in ('415', 'silent'):
            with self.subTest(mode), Judge() as judge:
                judge.mode = mode
                c = self.system(judge.url)
                wait_until(lambda: judge.ones > 2, 'requests of version 1.0', c)
                self.assertEqual(len(judge.heads) - judge.ones, 1)
                self.assertEqual(c.total('sidelight_push_dropped_total'), 0)
                self.assertEqual(c.total('sidelight_remote_write_fallbacks_total'), 1)
                self.assertEqual(c.total('sidelight_remote_write_version'), 1)

    def test_a_forced_version_2_that_is_not_taken_is_counted(self):
        with Judge() as judge:
            judge.mode = 'silent'
            c = self.system(judge.url, '--remote-protocol', '2.0')
            wait_until(lambda: c.total('sidelight_push_dropped_total', 'cause="partial"') > 0, 'a loss is counted', c)
            self.assertEqual(c.total('sidelight_push_sent_total'), 0)
            self.assertIn('use --remote-protocol 1.0', c.logged())

    def test_real_receivers_of_version_1_lose_nothing(self):
        def stored(sent, c):
            wait_until(lambda: sent('shop_queue{pod="shop-0"}'), 'samples', c)
            self.assertEqual(c.total('sidelight_remote_write_version'), 1)
            self.assertEqual(c.total('sidelight_push_dropped_total'), 0)
        if not available() or not victoria.available():
            skip('no prometheus or victoria-metrics: install the packages')
        with Receiver(native=True) as p:
            c = self.system(p.url)
            stored(p.query, c)
            wait_until(lambda: p.query('histogram_count(shop_latency_seconds{pod="shop-0"})'), 'histograms', c)
        with victoria.Victoria() as v:
            stored(lambda q: json.loads(victoria.http.get(f'{v.base}/api/v1/query?query=shop_queue'))['data']['result'],
                   self.system(v.url))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
