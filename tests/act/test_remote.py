#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_remote.py SIDELIGHT POD - samples of a live pod at receivers of remote write: the real
Prometheus, and one that answers with errors, hangs and resets."""
import http.server
import json
import socket
import struct
import threading
import sys
import time
import unittest

from support.analysis import System
from support.process import skip, wait_until
from support.prometheus import Receiver, available

POD = sys.argv[2]


class Remote(unittest.TestCase):
    def test_prometheus_gets_a_baseline_and_all_around_an_anomaly(self):
        if not available():
            skip('no prometheus: install the package prometheus')
        with Receiver(native=True) as prometheus, System(POD) as s:
            s.collect('--remote-write', prometheus.url, '--sample-every', '4s',
                      '--sample-around', '2s')
            start = time.time()
            s.learned()
            time.sleep(5)  # a stretch with the baseline alone
            a = s.fault(2)
            self.assertEqual(a['pod'], 'shop-0')
            self.assertTrue(a['blame'][0]['metric'].startswith('shop_'), a)

            def samples(name, begin, end):
                # a matrix selector gives the samples as they were sent
                window = max(1, int((end - begin) * 1000))
                result = json.loads(prometheus.get(
                    '/api/v1/query', query=f'{name}{{pod="shop-0"}}[{window}ms]', time=end))
                result = result['data']['result']
                return [float(t) for t, _ in result[0]['values']] if result else []

            begin, last = a['begin'], a['last']
            wait_until(lambda: samples('shop_requests_total', last + 1, last + 2),
                       'the samples after the anomaly arrive')
            for name in ('shop_requests_total', 'shop_queue', 'shop_latency_seconds_count'):
                before = samples(name, begin - 1.9, begin)
                within = samples(name, begin, last)
                # Far more than one in 4 s; how many of the rounds, each 10 ms, are not late is up to the machine.
                self.assertGreater(len(before), 5, name)
                self.assertGreater(len(within), 2 * (last - begin), name)
                # out of history they come as they were read: in order and each once
                self.assertEqual(before, sorted(set(before)))
            # Far from any anomaly one in 4 s: the newest up to each tick, whose phase is the pod's.
            instance = int(a['instance'], 16)
            tick = (instance ^ instance >> 32) % 4_000_000_000 / 1e9
            tick += ((start - tick) // 4 + 2) * 4
            full = [(x['begin'] - 2, x['last'] + 2) for x in s.api('anomalies')['anomalies']
                    if x['instance'] == a['instance']]
            ticks = 0
            while tick < begin - 2:
                if all(tick < f or t < tick - 4 for f, t in full):
                    got = [x for x in samples('shop_requests_total', tick - 4.001, tick)
                           if int((tick - 4) * 1000) < round(x * 1000) <= int(tick * 1000)]
                    self.assertEqual(len(got), 1, (tick, got))
                    ticks += 1
                tick += 4
            self.assertTrue(ticks)
            labels = prometheus.api('/series', **{'match[]': 'shop_requests_total'})[0]
            self.assertEqual({k: labels[k] for k in ('pod', 'service', 'namespace', 'host')},
                             {'pod': 'shop-0', 'service': 'shop', 'namespace': 'default',
                              'host': 'node-1'})
            lost = s.metric('sidelight_push_dropped_total')
            self.assertEqual(set(lost.values()), {0.0}, lost)

    def test_prometheus_gets_histograms_as_they_are(self):
        """After the death of the pod nothing changes, so Prometheus has the same values as /metrics."""
        if not available():
            skip('no prometheus: install the package prometheus')
        with Receiver(native=True) as prometheus, System(POD) as s:
            s.collect('--remote-write', prometheus.url, '--remote-native',
                      '--sample-every', '1s')
            wait_until(lambda: sum(s.metric('shop_batch_count').values()) > 100, 'observations')
            s.pod.kill()
            key = 'pod="shop-0"'

            def exposed(name, **more):
                return [v for k, v in s.metric(name).items()
                        if key in k and all(f'{a}="{b}"' in k for a, b in more.items())]
            n = exposed('shop_batch_count')[0]

            def there():
                got = prometheus.query('histogram_count(shop_latency_seconds{pod="shop-0"})')
                return got and got[0][1] == exposed('shop_latency_seconds_count')[0]
            wait_until(there, 'the last words arrive')
            n = exposed('shop_batch_count')[0]
            for le in ('5.5', '7.5', '9.5', '+Inf'):
                self.assertEqual(prometheus.scalar(f'shop_batch_bucket{{pod="shop-0",le="{le}"}}'),
                                 exposed('shop_batch_bucket', le=le)[0], le)
            self.assertEqual(exposed('shop_batch_bucket', le='+Inf'), [n])
            for name in ('shop_batch_sum', 'shop_latency_seconds_sum'):
                self.assertEqual(prometheus.scalar(name + '{pod="shop-0"}'), exposed(name)[0], name)
            # The buckets: of each bound of the text form, as many observations are below it.
            h = prometheus.query('shop_latency_seconds{pod="shop-0"}')[0][1]
            self.assertEqual(float(h['sum']), exposed('shop_latency_seconds_sum')[0])
            for labels, below in s.metric('shop_latency_seconds_bucket').items():
                le = float(labels.split('le="')[1].split('"')[0])
                if key in labels and le != float('inf'):
                    self.assertEqual(sum(float(c) for _, _, high, c in h['buckets']
                                         if float(high) <= le * (1 + 1e-9)), below, le)
            # a healthy pod observes 5 to 15 ms
            low, high = (prometheus.scalar(f'histogram_quantile({q}, shop_latency_seconds'
                                           '{pod="shop-0"})') for q in (0.01, 0.99))
            self.assertTrue(0.0045 < low < 0.0055 and 0.014 < high < 0.017, (low, high))

    def test_a_hostile_receiver_holds_nothing_up_and_what_is_lost_is_counted(self):
        class Hostile(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            count = 0

            def do_POST(self):
                Hostile.count += 1
                what = Hostile.count % 5
                if what == 1:
                    self.send_error(500)
                elif what == 2:  # reset
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                               struct.pack('ii', 1, 0))
                    self.connection.close()
                    self.close_connection = True
                elif what == 3:
                    self.rfile.read(int(self.headers['Content-Length']))
                    self.send_error(400)
                elif what == 4:
                    self.wfile.write(b'\0\1\2 no HTTP')
                    self.close_connection = True
                else:
                    held.wait(3)
                    self.close_connection = True

            def log_message(self, *_):
                pass

            def handle(self):
                try:
                    super().handle()
                except (OSError, ValueError):
                    pass

        held = threading.Event()
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Hostile)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with System(POD) as s:
                s.collect('--remote-write', f'http://127.0.0.1:{server.server_port}/w',
                          '--sample-every', '0')
                wait_until(lambda: s.metric('sidelight_collector_rounds_total'), 'rounds')
                wait_until(lambda: sum(s.metric(
                    'sidelight_push_dropped_total').values()) > 0, 'what is refused is counted')
                wait_until(lambda: sum(s.metric(
                    'sidelight_push_errors_total').values()) > 2, 'errors are counted')
                status = s.api('status')
                rounds = status['totals']['rounds']
                wait_until(lambda: s.api('status')['totals']['rounds'] > rounds + 50, 'rounds go on')
        finally:
            held.set()
            server.shutdown()
            server.server_close()


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
