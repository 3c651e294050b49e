#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_deploy.py SIDELIGHT POD DEPLOY-FOLDER DASHBOARD... - every expression of the shipped dashboards
and alert rules has data: the real Prometheus scrapes a live collector and evaluates them."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import types
import unittest

from support.analysis import System
from support.devices import Translator
from support.http import request
from support.packets import flow_of, ipfix
from support.process import skip, wait_until, workdir
from support.prometheus import Prometheus, available
from support.sidelight import EXE, Collector

POD, DEPLOY, BOARDS = sys.argv[2], sys.argv[3], sys.argv[4:]
RULES = os.path.join(DEPLOY, 'rules.yml')
VARIABLES = {'$service': '.*', '$host': '.*', '$exporter': '.*', '$__rate_interval': '30s', '${requests}': 'shop_requests_total',
             '${errors}': 'shop_errors_total', '${latency}': 'shop_latency_seconds'}
OWN = '${requests}', '${errors}', '${latency}'
STORES = '  - {name: flows, number: 1, kind: key-write, slots: 1000, value: 8, copies: 2, epochs: 2, epoch: 1s}\n'
# Those that may have no series, and why.
NONE = {
    ('hosts', 'Disks'): 'a machine may have no disks of its own',
    ('hosts', 'Network'): 'a namespace may have loopback alone',
    ('hosts', 'Tasks wait for'): 'a kernel may have no PSI',
    ('hosts', 'Tasks wait for a CPU'): 'a kernel may have no PSI, and cgroups may be of version 1',
    ('hosts', 'Free space'): 'a container may see no file system of its own',
}


def dashboards():
    """{title: board}"""
    boards = {}
    for path in BOARDS:
        with open(path) as f:
            board = json.load(f)
        boards[board['title'].removeprefix('Sidelight: ')] = board
    return boards


def expressions(board):
    """[(panel, expression, legend)], with those of its variables."""
    found = [(x['title'], t['expr'], t['legendFormat']) for x in board['panels'] for t in x.get('targets', [])]
    for v in board['templating']['list']:
        name = re.fullmatch(r'label_values\((\w+), (\w+)\)', str(v['query']))
        if name:
            found.append((v['name'], name[1], '{{%s}}' % name[2]))
    return found


def choices(board, names):
    """{variable: the metrics that Grafana offers}: it looks for the expression anywhere in a name, and takes the group of 'regex'."""
    found = {}
    for v in board['templating']['list']:
        asked = re.fullmatch(r'metrics\((.*)\)', str(v['query']))
        if asked:
            values = (re.search(v.get('regex', '').strip('/') or '(.*)', n) for n in names if re.search(asked[1], n))
            found['${%s}' % v['name']] = sorted({m[1] for m in values if m})
    return found


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
                           timeout=300)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertIn(f'{len(rules())} rules found', r.stdout)

    def test_rules_of_shards_fire_when_hosts_are_unread(self):
        if not shutil.which('promtool'):
            self.skipTest('no promtool')

        def collector(i, known, read, list_hash):
            labels = f'shard="{i}", shards="3", instance="{i}", job="sidelight"'
            return [{'series': f'{name}, {labels}}}' if '{' in name else f'{name}{{{labels}}}', 'values': f'{value}x20'} for name, value in (
                ('sidelight_discover_hosts{state="known"', known), ('sidelight_discover_hosts{state="read"', read),
                ('sidelight_discover_hosts{state="refused"', 0), ('sidelight_discover_replicas', 2),
                ('sidelight_discover_list_hash', list_hash))]

        def test(*collectors, **alerts):
            """The alerts that fire after ten minutes, with their value."""
            return {'interval': '1m', 'input_series': sum((collector(i, *c) for i, c in collectors), []),
                    'promql_expr_test': [], 'alert_rule_test': [
                        {'eval_time': '10m', 'alertname': name, 'exp_alerts': [
                            {'exp_labels': {'severity': 'warning', 'job': 'sidelight', 'shards': '3'},
                             'exp_annotations': {'summary': text}} for text in alerts.get(name, [])]}
                        for name in ('HostsUnread', 'HostListsDiffer')]}
        unread, differ = '%d readers of hosts are missing among 3 shards: is a collector down?', \
            'collectors of 3 shards discover different hosts: some may be read by none'
        tests = [test((0, (6, 4, 7)), (1, (6, 5, 7)), (2, (6, 3, 7))),
                 test((0, (6, 4, 7)), (2, (6, 3, 7)), HostsUnread=[unread % 5]),  # one is absent
                 test((0, (6, 4, 7)), (1, (6, 3, 7)), (2, (6, 3, 7)), HostsUnread=[unread % 2]),  # beyond --max-hosts
                 test((0, (2, 2, 7)), (1, (2, 1, 8)), (2, (2, 1, 7)), HostListsDiffer=[differ])]
        self.promtool(tests, '1m')

    def test_an_incident_alerts_and_load_does_not(self):
        if not shutil.which('promtool'):
            self.skipTest('no promtool')

        def test(faults, loads, *alerts):
            labels = {'instance': 'c:9464', 'job': 'sidelight'}
            text = ', '.join(f'{k}="{v}"' for k, v in labels.items())
            return {'interval': '10s', 'input_series': [
                        {'series': f'sidelight_incidents_open{{kind="{kind}", {text}}}', 'values': f'0 {value}x10'}
                        for kind, value in (('fault', faults), ('load', loads))] + [
                        {'series': f'sidelight_anomalous{{pod="cart-0", service="cart", {text}}}', 'values': '0 1x10'}],
                    'promql_expr_test': [], 'alert_rule_test': [
                        {'eval_time': '0s', 'alertname': 'Incident', 'exp_alerts': []},
                        {'eval_time': '10s', 'alertname': 'Incident', 'exp_alerts': [
                            {'exp_labels': {'severity': 'warning', 'kind': 'fault', **labels}, 'exp_annotations': {'summary': a}}
                            for a in alerts]}]}
        said = '%d open on the collector c:9464: its page says what broke and what to do first'
        self.promtool([test(0, 3), test(2, 0, said % 2), test(1, 1, said % 1)], '10s')

    def test_what_bridges_and_discovery_lose_is_told(self):
        if not shutil.which('promtool'):
            self.skipTest('no promtool')
        lost = {'DiscoveryFails': ('sidelight_discover_errors_total', 'the collector i cannot ask a source of hosts; it keeps reading those that it knows'),
                'ScrapesFail': ('sidelight_bridge_failures_total', 'an agent on h cannot scrape t: c'),
                'SeriesNotPublished': ('sidelight_bridge_refused_total', 'a bridge on h read series that cannot be published'),
                'PointsRefused': ('sidelight_bridge_otlp_refused_total', 'OTLP points sent to h were refused: c')}
        labels = {'instance': 'i', 'host': 'h', 'target': 't', 'cause': 'c'}
        text = ', '.join(f'{k}="{v}"' for k, v in labels.items())
        self.promtool([{'interval': '1m', 'input_series': [{'series': f'{metric}{{{text}}}', 'values': values}], 'promql_expr_test': [],
                        'alert_rule_test': [{'eval_time': '10m', 'alertname': name, 'exp_alerts': [
                            {'exp_labels': {'severity': 'warning', **labels}, 'exp_annotations': {'summary': said}}] * fires}]}
                       for name, (metric, said) in lost.items() for values, fires in (('7x20', 0), ('0+1x20', 1))], '1m')

    def test_a_port_that_differs_from_its_siblings_is_named(self):
        if not shutil.which('promtool'):
            self.skipTest('no promtool')

        again = 'mlx5_0 port 1 on n1 resends more than its siblings: check its cable'
        paused = 'mlx5_0 on n1 is paused by its peer (1k frames per second): a receiver behind the switch is too slow'
        slow = 'the link of mlx5_0 port 1 on n1 is slower than those of its siblings (12.5GB/s)'
        dropped = 'mlx5_0 on n1 dropped 60 packets within ten minutes'
        nic, rdma, port = 'sidelight_nic_counter_total', 'sidelight_rdma_hw_counter_total', {'port': '1'}
        tests = []
        for alert, name, labels, usual, odd, summary in (
                ('PortDrops', 'node_infiniband_port_discards_sent_total', port, '7x30', '0+6x30', dropped),
                ('PortDrops', nic, {'counter': 'rx_prio3_discards'}, '7x30', '0+6x30', dropped),
                ('PortDrops', nic, {'counter': 'rx_prio3_pause'}, '7x30', '0+6x30', None),
                ('PortPaused', nic, {'counter': 'rx_prio3_pause'}, '0+60x30', '0+60000x30', paused),
                ('PortLosesPackets', rdma, {'counter': 'out_of_sequence', **port}, '0+60x30', '0+6000x30', again),
                ('PortLosesPackets', rdma, {'counter': 'out_of_sequence', **port}, '0+600x30', '0+660x30', None),
                ('LinkSlow', 'node_infiniband_rate_bytes_per_second', port, '25e9x30', '12.5e9x30', slow)):
            for values in ((usual, usual, usual), (usual, odd, usual)):  # of three hosts
                fires = odd in values and summary
                tests.append({
                    'interval': '1m', 'promql_expr_test': [], 'input_series': [
                        {'series': name + '{' + ', '.join(f'{k}="{v}"' for k, v in all_.items()) + '}', 'values': v}
                        for i, v in enumerate(values) for all_ in [{'host': f'n{i}', 'device': 'mlx5_0', **labels}]],
                    'alert_rule_test': [{'eval_time': '20m', 'alertname': alert, 'exp_alerts': [
                        {'exp_labels': {'severity': 'warning', 'host': 'n1', 'device': 'mlx5_0', **(port if 'port' in labels else {})},
                         'exp_annotations': {'summary': summary}}] if fires else []}]})
        self.promtool(tests, '1m')

    def promtool(self, tests, interval):
        path = f'{workdir()}/rules-test.yml'
        with open(path, 'w') as f:  # JSON is YAML
            json.dump({'rule_files': [os.path.abspath(RULES)], 'evaluation_interval': interval, 'tests': tests}, f)
        r = subprocess.run(['promtool', 'test', 'rules', path], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def test_every_panel_has_a_place_and_no_two_the_same(self):
        for board in dashboards().values():
            taken = {}
            for x in board['panels']:
                g = x['gridPos']
                self.assertLessEqual(g['x'] + g['w'], 24, x['title'])
                for cell in ((a, b) for a in range(g['x'], g['x'] + g['w'])
                             for b in range(g['y'], g['y'] + g['h'])):
                    self.assertNotIn(cell, taken, (x['title'], taken.get(cell)))
                    taken[cell] = x['title']
            self.assertEqual(len({x['id'] for x in board['panels']}), len(board['panels']))

    def test_every_expression_has_data(self):
        """Those of connections where eBPF is allowed: the scrapes themselves are connections."""
        probe = subprocess.run([EXE, 'tcp', 'probe', '--json'], capture_output=True,
                               text=True, timeout=300)
        tcp = probe.returncode == 0
        if not tcp:
            print(f'SKIP: expressions of connections: {probe.stderr.strip()}', flush=True)
        with System(POD, '--host', '--otlp', f'unix:{workdir()}/otlp.sock', '--scrape', 'http://127.0.0.1:9/metrics,interval=1s',
                    *['--tcp', 'flows,layers,cpu'] * tcp) as s:
            with open(f'{s.folder}/stores.yaml', 'w') as f:
                f.write(f'listen: {s.folder}/dta.sock\nstores:\n{STORES}')
            # No receiver listens in this test.
            s.collect('--webhook', 'http://127.0.0.1:9/', '--dta', f'{s.folder}/stores.yaml', '--trace-head', '0.1')
            translator = Translator(EXE, types.SimpleNamespace(socket=f'unix:{s.folder}/dta.sock'), ('ipfix',))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as exporter:
                exporter.sendto(ipfix([(flow_of(1), 1, 2, 64500, 64501, 700)]), ('127.0.0.1', translator.port['ipfix']))
            with Collector([], '--discover', '/nowhere', '--shard', '0/2') as shard, \
                    Prometheus({'sidelight': (s.collector.address, '/metrics', {'honor_labels': True}),
                                'shards': (shard.address, '/metrics', {})}) as prometheus:
                prometheus.scraped(['sidelight', 'shards'])
                prometheus.at = None  # what comes later counts as well
                for title, board in dashboards().items():
                    offered = choices(board, prometheus.api('/label/__name__/values'))
                    self.assertEqual(offered, {v: [VARIABLES[v]] for v in OWN} if offered else {}, title)
                    for where, expr, text in expressions(board):
                        self.one(prometheus, tcp, (title, where), expr, text)
                for where, expr, text in rules():
                    self.one(prometheus, tcp, ('rules', where), re.sub(r' (==|>) [0-9.]+$', '', expr), text)
            self.exemplar(s)
            translator.stop()

    def one(self, prometheus, tcp, where, expr, text):
        if where in NONE or (re.search('sidelight_(tcp|cpu)_', expr) and not tcp):
            return
        for name, value in VARIABLES.items():
            expr = expr.replace(name, value)
        self.assertNotIn('$', expr, where)
        found = prometheus.eventually(lambda: prometheus.query(expr), (where, expr))
        # Labels of legends and annotations are in the answer, those of groups in the series.
        have = set.union(*(set(labels) for labels, _ in found))
        wanted = set(re.findall(r'\{\{ ?(?:\$labels\.)?(\w+)', text)) - {'value'}
        self.assertLessEqual(wanted - {'service', 'namespace'}, have, (where, expr))

    def exemplar(self, s):
        """A bucket of the pod's latency has a trace that is kept."""
        def linked():
            _, _, body = request(s.collector.url + '/metrics', headers={'Accept': 'application/openmetrics-text'})
            found = re.findall(r'^shop_latency_seconds_bucket.* # {trace_id="(\w+)"}', body.decode(), re.M)
            return found and {t['trace_id'] for t in s.api('traces')['traces']}.issuperset(found)
        wait_until(linked, 'an exemplar links to a kept trace', s.collector)


if __name__ == '__main__':
    if not available():
        skip('no prometheus: install the package prometheus')
    unittest.main(argv=sys.argv[:1], verbosity=2)
