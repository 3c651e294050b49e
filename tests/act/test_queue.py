#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_queue.py SIDELIGHT POD - remote write through outages: real receivers are killed and come back, the collector
is killed, the queue on disk is full; every sample arrives once, or is counted."""
import http.server
import json
import math
import os
import threading
import time
import unittest
import sys

import snappy

from support import victoria
from support.process import run, skip, wait_until, workdir
from support.prometheus import Receiver, available
from support.sidelight import Agent, Collector, Pod

POD = sys.argv[2]
NAME = 'shop_requests_total'


class System:
    def __init__(self, url, *options):
        self.url, self.options = url, options
        self.queue = os.path.join(workdir(), 'queue')

    def __enter__(self):
        self.agent = Agent('--hostname', 'node-1')
        self.pod = Pod(POD, self.agent.socket, 'shop-0')
        self.collect()
        return self

    def collect(self):
        self.collector = Collector([self.agent], '--period', '50ms', '--sample-every', '0',
                                   '--remote-write', self.url, '--remote-queue', self.queue, *self.options)

    def own(self):
        """Returns the history as [(ms, value)], with the first value per millisecond, which is the one sent: a busy collector
        may read twice in a millisecond."""
        found = [m for m in self.collector.api('metrics?q=' + NAME)['metrics'] if m['name'] == NAME]
        if not found:
            return []
        series, = self.collector.api(f'history?series={found[0]["id"]}&last=10m&points=10000')['series']
        points = {}
        for t, v in zip(series.get('t', []), series.get('v', [])):
            points.setdefault(math.floor(t * 1000 + 1e-4), v)
        return list(points.items())

    def lost(self):
        return {k: v for name in ('sidelight_push_dropped_total', 'sidelight_sampling_left_out_total')
                for k, v in self.collector.find(name).items() if 'same_millisecond' not in k}

    def sent_until(self, ms, stored):
        """Waits until the receiver has the sample of this time."""
        wait_until(lambda: any(t >= ms for t, _ in stored()), 'the samples arrive', self.collector)

    def __exit__(self, error, *_):
        self.pod.close()
        self.collector.stop()
        self.agent.stop()


class Queue(unittest.TestCase):
    def through_outages(self, url, kill, again, stored):
        """stored(): [(ms, value)] at the receiver, in order."""
        with System(url) as s:
            wait_until(lambda: len(stored()) > 20, 'samples', s.collector)
            kill()
            at = time.time() * 1000
            wait_until(lambda: s.collector.total('sidelight_push_waiting_bytes', 'to="remote_write"') > 0, 'a queue')
            wait_until(lambda: s.own()[-1][0] > at + 2500, 'an outage')
            first = s.own()
            # When the collector dies, everything but the last second and the thread's time slice is on disk.
            wait_until(lambda: s.own()[-1][0] > first[-1][0] + 2500, 'all of it is queued')
            s.collector.kill()
            s.collect()
            wait_until(lambda: len(s.own()) > 20, 'samples after the collector\'s death')
            kept = s.own()[0][0]
            again()
            s.sent_until(kept + 1000, stored)
            second = [x for x in s.own() if x[0] <= kept + 1000]
            got = stored()
            times = [t for t, _ in got]
            self.assertEqual(times, sorted(set(times)), 'each once, in order')
            begin = got[0][0]
            want = [x for x in first + second if x[0] >= begin]
            missing = set(want) - set(got)
            lost = {k: v for k, v in s.lost().items() if v}
            # If the receiver died after storing a request and before answering, it refuses the second try. Then nothing is missing.
            if set(lost) != {'sidelight_push_dropped_total{to="remote_write",cause="refused"}'}:
                self.assertFalse(lost)
            else:
                self.assertIn('out of order', s.collector.logged())
            self.assertFalse(missing, f'{sorted(missing)[:5]}: {len(missing)} of {len(want)}, from {first[0]} to {first[-1]}, then '
                             f'from {second[0]}; received: {[x for x in got if abs(x[0] - min(missing or {(0, 0)})[0]) < 200]}')
            self.assertEqual(os.stat(s.queue).st_mode & 0o7777, 0o600)

    def test_prometheus_has_each_sample_once_after_deaths(self):
        if not available():
            skip('no prometheus: install the package prometheus')
        with Receiver() as p:
            def stored():
                end = time.time() + 1
                r = json.loads(p.get('/api/v1/query', query=f'{NAME}[1h]', time=end))['data']['result']
                return [(round(t * 1000), float(v)) for t, v in r[0]['values']] if r else []
            self.through_outages(p.url, p.part.kill, p.again, stored)

    def test_victoria_metrics_has_each_sample_once_after_deaths(self):
        if not victoria.available():
            skip('no victoria-metrics: install the package victoria-metrics')
        lives = [victoria.Victoria()]

        def stored():
            got = list(lives[-1].samples(NAME, pod='shop-0').values())
            self.assertLessEqual(len(got), 1)
            return sorted((t, float(v)) for t, v in got[0]) if got else []

        def again():
            lives.append(victoria.Victoria(lives[0].folder, lives[0].port))
        try:
            self.through_outages(lives[0].url, lives[0].part.stop, again, stored)
        finally:
            lives[-1].part.kill()

    def test_the_way_by_vmauth_and_vmagent_delivers(self):
        if not victoria.available():
            skip('no victoria-metrics: install the package victoria-metrics')
        with victoria.Victoria() as end, victoria.VmAgent(end.url) as agent, \
                victoria.VmAuth(agent.base, 'sidelight', 'very-secret') as gate:
            with System(gate.url, '--remote-write-config', gate.client) as s:
                def stored():
                    return [x for v in end.samples(NAME, pod='shop-0').values() for x in v]
                wait_until(lambda: len(s.own()) > 40, 'samples', s.collector)
                want = s.own()[:40]
                s.sent_until(want[-1][0], stored)
                got = {(t, float(v)) for t, v in stored()}
                begin = min(got)[0]
                self.assertFalse({x for x in want if x[0] >= begin} - got)
                self.assertEqual(set(s.lost().values()), {0.0}, s.lost())
            self.assertNotIn('very-secret', s.collector.logged())

    def test_a_full_queue_drops_the_oldest_and_counts_them(self):
        got, taking = [], threading.Event()

        class Late(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                if not taking.is_set():
                    self.send_error(503)
                    return
                # 1.0: each sample is a field 2 of 1 + 1 + 9 + 1 + 6 bytes in a field 1, whose labels come first
                got.append(snappy.uncompress(body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Late)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with System(f'http://127.0.0.1:{server.server_port}/w', '--remote-queue-size', '64K',
                        '--remote-protocol', '1.0') as s:
                def count(name, *parts):
                    return s.collector.total(name, 'to="remote_write"', *parts)
                wait_until(lambda: count('sidelight_push_dropped_total', 'cause="full"') > 100, 'the queue is full',
                           s.collector)
                taking.set()
                wait_until(lambda: len(got) > 3 and count('sidelight_push_waiting_bytes') == 0, 'it is sent')
                s.pod.close()  # then nothing more is to be sent, at last
                names = ['sidelight_sampling_samples_total', 'sidelight_sampling_exemplars_total']

                def balance():
                    taken = sum(s.collector.total(n) for n in names)
                    return taken, count('sidelight_push_sent_total'), count('sidelight_push_dropped_total')

                def settled():
                    taken, sent, dropped = balance()
                    return taken == sent + dropped and count('sidelight_push_waiting_bytes') == 0
                wait_until(settled, balance, s.collector)
                _, sent, dropped = balance()
                samples = sum(n for b in list(got) for n in counts(b))
                self.assertEqual(samples, sent)
                self.assertEqual(dropped, count('sidelight_push_dropped_total', 'cause="full"'))
                self.assertIn('the queue on disk is full', s.collector.logged())
        finally:
            server.shutdown()
            server.server_close()

    def test_a_bad_queue_is_one_clear_line(self):
        with Agent() as a:
            path = os.path.join(workdir(), 'file')
            with open(path, 'w') as f:
                f.write('x' * 100)
            exe = sys.argv[1]
            for more, code, line in ((('--remote-write', 'http://127.0.0.1:1/', '--remote-queue', path), 1,
                                      'the file is not a queue; move it away'),
                                     (('--remote-queue', path), 2, '--remote-queue needs --remote-write'),
                                     (('--remote-write', 'http://127.0.0.1:1/', '--remote-protocol', '3'), 2,
                                      'is not one of 1.0, 2.0, auto')):
                p = run(exe, 'collect', '--agent', a.socket, *more, code=code)
                self.assertIn(line, p.stderr)


def fields(data):
    """(number, wire, value or bytes) of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        v = shift = 0
        while True:
            b = data[at]
            at += 1
            v |= (b & 127) << shift
            shift += 7
            if b < 128:
                return v
    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, 0, varint()
        elif tag & 7 == 1:
            yield tag >> 3, 1, data[at:at + 8]
            at += 8
        else:
            n = varint()
            yield tag >> 3, 2, data[at:at + n]
            at += n


def counts(request):
    """Of each series of a WriteRequest: its samples, exemplars and histograms."""
    for number, _, series in fields(request):
        if number == 1:
            yield sum(n in (2, 3, 4) for n, _, _ in fields(series))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1], verbosity=2)
