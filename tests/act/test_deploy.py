#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_deploy.py SIDELIGHT POD DEPLOY-FOLDER - the shipped dashboard and alert rules refer only to
series and labels that exist: the real Prometheus scrapes a live collector and evaluates every
expression of them."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from support.analysis import System
from support.process import skip
from support.prometheus import Prometheus, available
from support.sidelight import EXE

POD, DEPLOY = sys.argv[2:4]
RULES = os.path.join(DEPLOY, 'rules.yml')


def dashboard():
    """[(panel, expression, legend)]"""
    with open(os.path.join(DEPLOY, 'grafana', 'sidelight.json')) as f:
        board = json.load(f)
    found = [(x['title'], t['expr'], t['legendFormat'])
             for x in board['panels'] for t in x.get('targets', [])]
    for v in board['templating']['list']:
        name = re.fullmatch(r'label_values\((\w+), (\w+)\)', str(v['query']))
        if name:
            found.append((v['name'], name[1], '{{%s}}' % name[2]))
    return board, found


def rules():
    """[(alert, expression, text of its annotations)]; the house's own layout, as tests need no YAML."""
    with open(RULES) as f:
        text = f.read()
    found = []
    for part in re.split(r'^      - alert: ', text, flags=re.M)[1:]:
        expr = re.search(r'^        expr: (?:>-\n)?((?:.|\n)*?)^        (?:for|labels|annotations):',
                         part, re.M)[1]
        found.append((part.split('\n')[0], ' '.join(expr.split()), part.split('annotations:')[1]))
    return found


class Deploy(unittest.TestCase):
    def test_rules_are_well_formed(self):
        if not shutil.which('promtool'):
            self.skipTest('no promtool')
        r = subprocess.run(['promtool', 'check', 'rules', RULES], capture_output=True, text=True,
                           timeout=60)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertIn(f'{len(rules())} rules found', r.stdout)

    def test_every_panel_has_a_place_and_no_two_the_same(self):
        board, _ = dashboard()
        taken = {}
        for x in board['panels']:
            g = x['gridPos']
            self.assertLessEqual(g['x'] + g['w'], 24, x['title'])
            for cell in ((a, b) for a in range(g['x'], g['x'] + g['w'])
                         for b in range(g['y'], g['y'] + g['h'])):
                self.assertNotIn(cell, taken, (x['title'], taken.get(cell)))
                taken[cell] = x['title']
        self.assertEqual(len({x['id'] for x in board['panels']}), len(board['panels']))

    def test_every_expression_is_of_series_that_there_are(self):
        """Those of connections where eBPF is allowed: the scrapes themselves are connections."""
        probe = subprocess.run([EXE, 'tcp', 'probe', '--json'], capture_output=True,
                               text=True, timeout=60)
        tcp = probe.returncode == 0
        if not tcp:
            print(f'SKIP: expressions of connections: {probe.stderr.strip()}', flush=True)
        with System(POD, *['--tcp', 'flows,layers,cpu'] * tcp) as s:
            s.collect('--webhook', 'http://127.0.0.1:9/')  # no receiver listens in this test
            with Prometheus({'sidelight': (s.collector.address, '/metrics')}) as prometheus:
                prometheus.scraped(['sidelight'])
                prometheus.at = None  # what comes later counts as well
                prometheus.eventually(lambda: prometheus.query('sidelight_scaling_pressure'), 'pods')
                prometheus.eventually(lambda: prometheus.query('rate(sidelight_trace_roots_total[1m])'),
                                      'two scrapes')
                if tcp:
                    prometheus.eventually(lambda: prometheus.query(
                        'rate(sidelight_tcp_sent_segments_total[1m])'), 'connections')
                    prometheus.eventually(lambda: prometheus.query(
                        'rate(sidelight_tcp_layer_seconds_count{role="server"}[1m])'), 'layers')
                    prometheus.eventually(lambda: prometheus.query(
                        'rate(sidelight_cpu_seconds_total[1m])'), 'scheduler time')
                for where, expr, text in dashboard()[1] + rules():
                    if re.search('sidelight_(tcp|cpu)_', expr) and not tcp:
                        continue
                    self.one(prometheus, where, expr.replace('$service', '.*'), text)

    def one(self, prometheus, where, expr, text):
        used = set(re.findall(r'\bsidelight_\w+', expr))
        self.assertTrue(used, where)
        prometheus.eventually(lambda: used <= set(prometheus.api('/label/__name__/values')),
                              f'{where}: {used}')
        # as it stands, and what it looks at while all is well; there is nothing after a scrape that failed
        prometheus.query(expr)
        found = prometheus.eventually(lambda: prometheus.query(re.sub(r' (==|>) [0-9.]+$', '', expr)),
                                      (where, expr))
        have = set.union(*(set(labels) for labels, _ in found))
        wanted = set(re.findall(r'\{\{ ?(?:\$labels\.)?(\w+)', text)) - {'value'}
        self.assertLessEqual(wanted, have, (where, expr))
        for keys in re.findall(r'\bby \(([^)]*)\)', expr):
            prometheus.eventually(lambda: set(keys.split(', ')) <= {
                k for name in used for of, _ in prometheus.query(name) for k in of}, (where, expr))


if __name__ == '__main__':
    if not available():
        skip('no prometheus: install the package prometheus')
    unittest.main(argv=sys.argv[:1], verbosity=2)
