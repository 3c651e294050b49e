#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_dashboards.py SIDELIGHT POD HOST_AT DEPLOY-FOLDER DASHBOARD... --ranks [MPI MPIRUN LIBRARY PROGRAM] - each query of the
dashboards, each of their variables and each alert rule has a value: the real Prometheus scrapes a live collector and evaluates
them."""
import glob
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../host'))
from scene import rdma_files  # noqa: E402
from support.analysis import System
from support.devices import Translator
from support.http import request
from support.mpi import mpirun
from support.packets import flow_of, flow_text, ipfix
from support.process import check, skip, wait_until, workdir
from support.prometheus import Prometheus, available
from support.sidelight import EXE, Agent, Collector, Pod

POD, HOST_AT, DEPLOY = sys.argv[2:5]
BOARDS, RANKS = (lambda words, at: (words[:at], words[at + 1:]))(sys.argv[5:], sys.argv[5:].index('--ranks'))
RULES = os.path.join(DEPLOY, 'rules.yml')
# The test's value of each variable.
CHOSEN = {'service': '.*', 'host': '.*', 'exporter': '.*', 'job': '.*', 'requests': 'shop_requests_total', 'errors': 'shop_errors_total',
          'latency': 'shop_latency_seconds', '__rate_interval': '30s'}
METRICS = 'requests', 'errors', 'latency'
STORES = f'''
  - {{name: flows, number: 1, kind: key-write, slots: 1000, value: 8, copies: 2, epochs: 2, epoch: 1s}}
  - {{name: flow_bytes, number: 10, kind: increment, columns: 65536, copies: 2, series: [{{key: "{flow_text(flow_of(1))}", name: backup}}]}}
'''
# A machine that has everything: this one may have no disk, no PSI, no cgroups of version 2 and no RDMA adapter.
WAITS = ''.join(f'{k} avg10=0.00 avg60=0.00 avg300=0.00 total=5\n' for k in ('some', 'full'))
MACHINE = {
    '/proc/stat': 'cpu  20 0 0 0 0 0 0 0 0 0\ncpu0 1234 20 30 4000 50 6 7 8 9 10\n', '/proc/loadavg': '0.25 1.50 12.07 3/456 789\n',
    '/proc/meminfo': 'MemTotal: 1000 kB\nMemAvailable: 400 kB\n',
    '/proc/diskstats': '   8       0 sda 10 20 30 40 50 60 70 80 9 1000 110 12 13 14 15 16 17\n',
    '/proc/net/dev': 'Inter-|   Receive  |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets '
                     'errs drop fifo colls carrier compressed\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n',
    **{f'/proc/pressure/{of}': WAITS for of in ('cpu', 'memory', 'io')},
    '/proc/self/mountinfo': '20 1 8:1 / / rw,relatime - ext4 x rw\n',
    '/proc/self/mounts': 'x /cg cgroup2 rw 0 0\n', '/cg/cgroup.controllers': 'cpu io memory pids\n',
    **{f'/cg/system.slice/docker-{"f" * 64}.scope/{name}': text for name, text in {
        'cgroup.procs': '1\n', 'cpu.stat': 'usage_usec 2500000\nuser_usec 1500000\nsystem_usec 1000000\n', 'cpu.pressure': WAITS,
        'memory.current': '10485760\n', 'memory.stat': 'anon 1000\nfile 5000\ninactive_file 485760\n'}.items()},
    **rdma_files('mlx5_0', 1, '100 Gb/sec (4X EDR)')}


def dashboards():
    """{name: board}"""
    boards = {}
    for path in BOARDS:
        with open(path) as f:
            board = json.load(f)
        boards[board['uid'].removeprefix('sidelight-')] = board
    return boards


def expressions(board):
    """[(panel, expression, legend)]"""
    return [(x['title'], t['expr'], t['legendFormat']) for x in board['panels'] for t in x.get('targets', [])]


def variables(board):
    """Variables whose values Grafana queries from Prometheus."""
    return [v for v in board['templating']['list'] if v['type'] != 'datasource']


def chosen(text):
    """The text with its variables replaced as Grafana does."""
    for name, value in CHOSEN.items():
        text = re.sub(r'\$(%s\b|\{%s\})' % (name, name), lambda _, v=value: v, text)
    check('$' not in text, f'a variable that no dashboard has: {text}')
    return text


def offered(v, prometheus):
    """The values that Grafana offers for a variable: it looks for the expression of metrics() anywhere in a name, and takes the
    group of 'regex'."""
    labels, metrics = re.fullmatch(r'label_values\((.+), (\w+)\)', v['query']), re.fullmatch(r'metrics\((.+)\)', v['query'])
    check(labels or metrics, f'{v["name"]}: not a query that this test understands: {v["query"]}')
    if labels:
        found = {labels_of.get(labels[2]) for labels_of, _ in prometheus.query(chosen(labels[1]))} - {None}
    else:
        found = {n for n in prometheus.api('/label/__name__/values') if re.search(metrics[1], n)}
    taken = (re.search(v.get('regex', '').strip('/') or '(.*)', n) for n in found)
    return sorted({m[1] for m in taken if m})


def rules():
    """Returns [(alert, expression, text of its annotations)]. Parses the layout of our file by regular expressions, because
    tests have no YAML parser."""
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

    def test_errors_have_a_metric_or_a_code(self):
        if not shutil.which('promtool'):
            self.skipTest('no promtool')
        expr = next(e for where, e, _ in expressions(dashboards()['services']) if where.startswith('Errors'))
        series = {'shop_requests_total{service="own"': 10, 'shop_errors_total{service="own"': 1, 'shop_requests_total{service="codes", code="200"': 6,
                  'shop_requests_total{service="codes", code="503"': 2, 'shop_requests_total{service="well", code="200"': 5,
                  'shop_requests_total{service="neither"': 5}
        self.promtool([{'interval': '10s', 'input_series': [{'series': f'{k}}}', 'values': f'0+{v}x10'} for k, v in series.items()],
                        'promql_expr_test': [{'expr': chosen(e), 'eval_time': '1m', 'exp_samples': [
                            {'labels': f'{{service="{k}"}}', 'value': v} for k, v in found.items()]} for e, found in (
                                (expr, {'codes': 0.25, 'own': 0.1, 'well': 0}),
                                (expr.replace('${errors}', ''), {'codes': 0.25, 'well': 0}))],  # there is no such metric
                        'alert_rule_test': []}], '10s')

    def test_a_port_that_differs_from_its_siblings_is_named(self):
        if not shutil.which('promtool'):
            self.skipTest('no promtool')

        again = 'mlx5_0 port 1 on n1 resends more than its siblings: check its cable'
        paused = 'mlx5_0 on n1 is paused by its peer (1k frames per second): a receiver behind the switch is too slow'
        slow = 'the link of mlx5_0 port 1 on n1 has 50% of the speed of its siblings'
        dropped = 'mlx5_0 on n1 dropped 60 packets within ten minutes'
        nic, rdma, port = 'sidelight_nic_counter_total', 'sidelight_rdma_hw_counter_total', {'port': '1'}
        tests = []
        for alert, name, labels, usual, odd, summary in (
                ('PortDrops', ('node_infiniband_port_discards_transmitted_total', 'node_infiniband_port_errors_received_total'), port, '7x30', '0+3x30', dropped),
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
                        {'series': n + '{' + ', '.join(f'{k}="{v}"' for k, v in all_.items()) + '}', 'values': v}
                        for i, v in enumerate(values) for all_ in [{'host': f'n{i}', 'device': 'mlx5_0', **labels}]
                        for n in (name if isinstance(name, tuple) else (name,))],
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

    def test_each_file_is_installed_and_uses_its_own_variables(self):
        """Grafana imports a file by hand without asking for a data source, and reads those that provisioning names."""
        self.assertEqual({os.path.realpath(p) for p in BOARDS}, {os.path.realpath(p) for p in glob.glob(f'{DEPLOY}/grafana/*.json')})
        for path in BOARDS:
            with open(path) as f:
                board = json.load(f)
            self.assertEqual(board['uid'], 'sidelight-' + os.path.basename(path).removesuffix('.json'))
            self.assertNotIn('__inputs', board)
            self.assertEqual({v['name']: CHOSEN[v['name']] for v in variables(board) if 'allValue' in v},
                             {v['name']: v['allValue'] for v in variables(board) if 'allValue' in v})
            known = {v['name'] for v in board['templating']['list']} | {'__rate_interval'}
            used = set(re.findall(r'\$\{?(\w+)', json.dumps([board['panels'], board['templating']]))) - {'__all'}
            self.assertEqual(used - known, set(), path)
            self.assertEqual(known - used, set(), path)
        with open(f'{DEPLOY}/grafana/provisioning/dashboards/sidelight.yaml') as f, open(f'{DEPLOY}/grafana/README.md') as readme:
            self.assertIn(f"-t {re.search('path: (.*)', f.read())[1]} *.json", readme.read())

    def test_every_query_has_a_value(self):
        """Panels about connections are tested where eBPF is allowed: the scrapes themselves are connections."""
        probe = subprocess.run([EXE, 'tcp', 'probe', '--json'], capture_output=True,
                               text=True, timeout=300)
        self.tcp = probe.returncode == 0
        if not self.tcp:
            print(f'SKIP: queries of connections: {probe.stderr.strip()}', flush=True)
        if not RANKS:
            print('SKIP: the dashboard of jobs: no mpirun, or no library for MPI (option mpi)', flush=True)
        node, root = Agent('--hostname', 'node-2'), workdir()
        for path, text in MACHINE.items():
            os.makedirs(os.path.dirname(root + path), exist_ok=True)
            with open(root + path, 'w') as f:
                f.write(text)
        machine = Pod(HOST_AT, root, node.socket)
        with System(POD, '--host', '--otlp', f'unix:{workdir()}/otlp.sock', '--scrape', 'http://127.0.0.1:9/metrics,interval=1s',
                    *['--tcp', 'flows,layers,cpu'] * self.tcp) as s:
            with open(f'{s.folder}/stores.yaml', 'w') as f:
                f.write(f'listen: {s.folder}/dta.sock\nstores:{STORES}')
            # No receiver listens in this test.
            s.collect('--agent', node.socket, '--webhook', 'http://127.0.0.1:9/', '--dta', f'{s.folder}/stores.yaml', '--trace-head', '0.1')
            translator = Translator(EXE, types.SimpleNamespace(socket=f'unix:{s.folder}/dta.sock'), ('ipfix',))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as exporter:
                exporter.sendto(ipfix([(flow_of(1), 1, 2, 64500, 64501, 700)]), ('127.0.0.1', translator.port['ipfix']))
            # The free space is that of the reading before.
            wait_until(lambda: machine.tell('round') and s.collector.find('node_filesystem_avail_bytes', 'host="node-2"'),
                       'a machine of files', machine, s.collector)
            job, end = None, f'{workdir()}/end'
            if RANKS:
                job = mpirun(*RANKS[:3], 4, RANKS[3], end, f'{end}-slow', 0, SIDELIGHT_SOCKET=s.socket, SLURM_JOB_ID='4711', SLURM_JOB_NAME='weather')
            with Collector([], '--discover', '/nowhere', '--shard', '0/2') as shard:
                jobs = {'sidelight': (s.collector.address, '/metrics', {'honor_labels': True}), 'shards': (shard.address, '/metrics', {})}
                with Prometheus(jobs) as classic, Prometheus(jobs, native=True) as native:
                    for prometheus in (classic, native):
                        prometheus.scraped(jobs)
                        prometheus.at = None  # later data counts as well
                        self.board(prometheus, 'jobs', dashboards()['jobs'])
                    if job:  # ranks that wait use the CPUs
                        with open(end, 'w'):
                            self.assertEqual(job.wait(), 0, job.logged())
                    for prometheus in (classic, native):
                        for name, board in dashboards().items():
                            if name != 'jobs':
                                self.board(prometheus, name, board)
                        for where, expr, text in rules():
                            self.one(prometheus, ('rules', where), re.sub(r' (==|>|<) [0-9.]+$', '', expr), text)
            self.exemplar(s)
            translator.stop()
        machine.close()
        node.stop()

    def board(self, prometheus, name, board):
        if name == 'jobs' and not RANKS:
            return
        for v in variables(board):
            if name == 'tcp' and not self.tcp:
                continue
            values = prometheus.eventually(lambda: offered(v, prometheus), (name, v['name'], v['query']))
            if v['name'] in METRICS:
                self.assertEqual(values, [CHOSEN[v['name']]], (name, v['name']))
        for where, expr, text in expressions(board):
            self.one(prometheus, (name, where), expr, text)

    def one(self, prometheus, where, expr, text):
        if re.search('sidelight_(tcp|cpu)_', expr) and not self.tcp or where == ('rules', 'PortPaused'):
            return  # the counters of a NIC's driver come from the kernel alone; promtool tests this rule
        expr = chosen(expr)

        def has_values():
            """A series that is not a number is an empty panel."""
            answer = prometheus.query(expr)
            return any(math.isfinite(v) for _, v in answer) and answer
        found = prometheus.eventually(has_values, (where, expr))
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
