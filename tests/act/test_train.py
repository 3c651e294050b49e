#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_train.py SIDELIGHT POD - a model trained from a week in the real VictoriaMetrics: a new collector has a threshold
from the pod's first row. Of a value that is usual at night, it says nothing at night, and it finds it by day."""
import json
import os
import subprocess
import sys
import time
import unittest
import urllib.parse

from support import http
from support.process import check, skip, wait_until, workdir
from support.sidelight import EXE, Agent, Collector, Pod
from support.victoria import Victoria, available

MINUTE, HOUR, WEEK = 60, 3600, 7 * 24 * 3600
NOW = int(time.time()) // MINUTE * MINUTE
LIVE, OTHER = 6, 600  # mean of the pod's gauge shop_queue, and a level that it never has


def wave(t):
    """Noise of -1 to 1, the same in each run."""
    return (t // MINUTE * 7919 % 1009) / 504.5 - 1


def is_near(t):
    """Within two hours of the present hour of the week."""
    off = (NOW - t) % WEEK
    return min(off, WEEK - off) <= 2 * HOUR


def model(*words, code=0):
    r = subprocess.run([EXE, 'model', *words], capture_output=True, text=True, timeout=120)
    check(r.returncode == code, words, r.stdout + r.stderr)
    return r


class Train(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.store = Victoria()
        cls.folder = workdir()
        cls.agent = Agent()
        cls.pod = Pod(sys.argv[2], cls.agent.socket, 'shop-0')

    @classmethod
    def tearDownClass(cls):
        cls.pod.close()
        cls.agent.stop()
        cls.store.part.kill()

    def put(self, service, *series, weeks=1):
        """Imports series for a pod of a service: (name, labels, value of a time), a value each minute."""
        times = range(NOW - weeks * WEEK, NOW + 1, MINUTE)
        lines = [json.dumps({'metric': {'__name__': name, 'service': service, 'pod': f'{service}-0', 'host': 'node-1',
                                        'process': '7', 'namespace': 'default', **labels},
                             'timestamps': [1000 * t for t in times], 'values': [value(t) for t in times]})
                 for name, labels, value in series]
        http.request(self.store.base + '/api/v1/import', 'POST', '\n'.join(lines).encode())
        http.get(self.store.base + '/internal/force_flush')

    def train(self, service, *options):
        path = os.path.join(workdir(), 'models')
        said = model('train', '--from', self.store.base, '--service', service, '--out', path, *options).stderr
        return path, said

    def collect(self, path, *options):
        return Collector([self.agent], '--period', '10ms', '--analyse', '--model', path, '--warm-up', '1h', *options)

    def judged(self, c):
        """The pod's verdict as soon as it has one."""
        def found():
            pods = [p for p in c.api('pods?q=shop-0')['pods'] if 'verdict' in p]
            return pods and pods[0]['verdict']
        return wait_until(found, 'a verdict', c)

    def put_queue(self, usual_now):
        """The service's week: at this hour of the week its queue has this level, at other hours the other one."""
        levels = {True: usual_now, False: OTHER if usual_now == LIVE else LIVE}
        self.put('shop', ('shop_queue', {}, lambda t: levels[is_near(t)] * (1 + 0.5 * wave(t))), weeks=2)

    def clear(self):
        http.request(f'{self.store.base}/api/v1/admin/tsdb/delete_series?' +
                     urllib.parse.urlencode({'match[]': '{service="shop"}'}), 'POST', b'')

    def test_a_value_of_another_hour_is_found_and_one_of_this_hour_is_not(self):
        for usual_now, found in ((LIVE, False), (OTHER, True)):
            self.clear()
            self.put_queue(usual_now)
            path, said = self.train('shop', '--this-hour', '--days', '14', '--detector', 'threshold')
            self.assertIn('1 of 1 pods', said)
            with self.collect(path, '--detector', 'threshold') as c:
                verdict = self.judged(c)
                self.assertFalse(verdict['learning'], verdict)
                if found:
                    a = wait_until(lambda: c.api('anomalies')['anomalies'], 'an anomaly', c)[0]
                    self.assertEqual(a['blame'][0]['metric'], 'shop_queue', a)
                else:
                    rows = c.total('sidelight_analysis_rows_total')
                    wait_until(lambda: c.total('sidelight_analysis_rows_total') > rows + 100, 'ten seconds of rows', c)
                    # The collector may find anything in metrics that the store lacks.
                    blamed = [b['metric'] for a in c.api('anomalies')['anomalies'] for b in a['blame']]
                    self.assertNotIn('shop_queue', blamed)

    def test_a_fault_is_found_without_a_warm_up(self):
        self.clear()
        bounds = [2 ** (k / 8) / 1000 for k in range(0, 48)]
        share = [min(max((b - 0.005) / 0.01, 0), 1) for b in bounds] + [1]  # share of the pod's requests below each bound
        self.put('shop', ('shop_queue', {}, lambda t: LIVE * (1 + 0.5 * wave(t))),
                 *(('shop_latency_seconds_bucket', {'le': le}, lambda t, n=n: (t - NOW + WEEK) * round(700 * n))
                   for le, n in zip([*map(str, bounds), '+Inf'], share)),
                 ('shop_latency_seconds_sum', {}, lambda t: (t - NOW + WEEK) * 7))
        path, said = self.train('shop')
        self.assertIn('4 columns; left out: 0 counters', said)
        with self.collect(path) as c:
            self.assertFalse(self.judged(c)['learning'])
            rows = c.total('sidelight_analysis_rows_total')
            wait_until(lambda: c.total('sidelight_analysis_rows_total') > rows + 50, 'a level', c)
            self.pod.tell('slow')  # errors would be found in a warm-up, too
            try:
                wait_until(lambda: any(b['metric'].startswith(('shop_latency', 'shop_queue'))
                                       for a in c.api('anomalies')['anomalies'] for b in a['blame']), 'the fault', c)
            finally:
                self.pod.tell('fine')

    def test_histograms_have_the_columns_of_the_collector(self):
        bounds = [2 ** (k / 8) / 1000 for k in range(0, 48)]
        buckets = [('shop_latency_seconds_bucket', {'le': str(b)}, lambda t, n=n: (t - NOW + WEEK) * min(n, 24))
                   for n, b in enumerate(bounds)]
        self.put('slow', *buckets, ('shop_latency_seconds_bucket', {'le': '+Inf'}, lambda t: (t - NOW + WEEK) * 24),
                 ('shop_latency_seconds_sum', {}, lambda t: (t - NOW + WEEK) * 24 * 0.003),
                 ('shop_latency_seconds_count', {}, lambda t: (t - NOW + WEEK) * 24),
                 ('shop_errors_total', {'code': '500', 'path': '/a'}, lambda t: (t - NOW + WEEK) // 600),
                 ('shop_cpu_seconds_total', {}, lambda t: 0.1 * (t - NOW + WEEK)))
        path, said = self.train('slow')
        self.assertIn('4 columns; left out: 1 counters, 0 series', said)
        one = json.loads(model('--json', path).stdout)[0]
        self.assertEqual((one['name'], one['detector'], one['step_seconds']), ('slow', 'combined', 1.0))
        self.assertGreater(one['steps'], 9000)
        # Training a second service keeps the first one's model in the file.
        self.put('other', ('x_total', {}, lambda t: 5 * (t - NOW + WEEK)), ('y', {}, wave))
        model('train', '--from', self.store.base, '--service', 'other', '--out', path)
        self.assertEqual([m['name'] for m in json.loads(model('--json', path).stdout)], ['other', 'slow'])

    def test_errors_are_one_line(self):
        for words, said in ((('--from', self.store.base, '--service', 'none'), 'service none has no series'),
                            (('--from', self.store.base, '--service', 'x' * 400), 'too long'),
                            (('--from', 'http://127.0.0.1:1', '--service', 'x'), '127.0.0.1:1: '),
                            (('--from', self.store.base + '/nothing', '--service', 'x'), 'HTTP status'),
                            (('--from', self.store.base, '--service', 'x', '--token-file', '/none'), '/none')):
            path = f'{self.folder}/none'
            r = model('train', *words, '--out', path, code=1)
            self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)
            self.assertIn(said, r.stderr)
            self.assertFalse(os.path.exists(path))
        model('train', '--from', self.store.base, code=2)


if __name__ == '__main__':
    if not available():
        skip('no victoria-metrics: install the package victoria-metrics')
    unittest.main(argv=sys.argv[:1], verbosity=2)
