#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_small.py SIDELIGHT - /metrics of an idle machine with everything on is small, promtool has nothing to say about
it, and a second Prometheus federates it unchanged."""
import os
import re
import shutil
import subprocess

from support import flows
from support.flows import needs_bpf
from support.process import case, check, fail, run_cases, wait_until, workdir
from support.prometheus import Prometheus, available
from support.sidelight import Agent, Collector

LINES = 2000
LAYER = 'sidelight_tcp_layer_seconds'


def everything(folder):
    """Stores of each kind."""
    with open(f'{folder}/stores.yaml', 'w') as f:
        f.write(f'listen: {folder}/dta.sock\nstores:\n'
                '  - {name: flows, number: 1, kind: key-write, seed: 1, slots: 1000, value: 8, copies: 2, epochs: 2, epoch: 10m, keylog: keys}\n'
                '  - {name: events, number: 2, kind: append, lists: 4, items: 1000, value: 8, batch: 16, lanes: 1}\n'
                '  - {name: bytes, number: 3, kind: increment, seed: 1, rows: 4, columns: 1024}\n'
                '  - {name: paths, number: 4, kind: postcard, slots: 1000, hops: 5, copies: 2}\n'
                '  - {name: sizes, number: 5, kind: sketch, sketch: count-min, rows: 4, columns: 1024, reporters: 1}\n'
                '  - {name: keys, number: 6, kind: append, lists: 1, items: 1000, value: 9, batch: 1, lanes: 1}\n')
    return f'{folder}/stores.yaml'


def has_all(text):
    return all(re.search(f'^{name}', text, re.M) for name in (
        'node_cpu_seconds_total', 'sidelight_tcp_rtt_seconds_bucket', LAYER + '_bucket', 'sidelight_cpu_seconds_total',
        'sidelight_dta_', 'sidelight_analysis_', 'sidelight_trace_'))


@case
def an_idle_machine_has_few_lines():
    text = wait_until(lambda: (lambda t: t if has_all(t) else None)(collector.get('/metrics')),
                      lambda: collector.get('/metrics'), collector)
    lines = len(text.splitlines())
    check(lines <= LINES, f'{lines} lines, {LINES} are too many', collector)
    print(f'{lines} lines, {len(text)} bytes')


@case
def ephemeral_ports_are_one():
    ports = set(re.findall(r'^sidelight_tcp_\w+\{.*?port="(\w+)"', collector.get('/metrics'), re.M))
    check(ports == {'other'}, f'{ports}: the collector listens at an ephemeral port, and nothing else listens', collector)


@case
def histograms_are_whole_where_asked_for():
    def bounds(text):
        return {float(le) for le in re.findall(rf'^{LAYER}_bucket{{.*layer="app".*le="([^"]+)"', text, re.M)}
    few, all_of_them = bounds(collector.get('/metrics')), bounds(collector.get('/metrics?classic=1'))
    check(few < all_of_them and len(few) <= 6 and len(all_of_them) > 50, f'{few} of {all_of_them}', collector)


@case
def promtool_has_nothing_to_say():
    if not shutil.which('promtool'):
        return 'no promtool: install the package prometheus'
    p = subprocess.run(['promtool', 'check', 'metrics'], input=collector.get('/metrics?classic=1'), text=True,
                       stderr=subprocess.PIPE, timeout=300)
    # node_exporter's own names, which --host keeps.
    said = [line for line in p.stderr.splitlines() if not re.match('node_(netstat|entropy|memory|vmstat)_', line)]
    check(not said, *said, collector)


@case
def a_second_prometheus_has_the_same():
    if not available():
        return 'no prometheus: install the package prometheus'
    with Prometheus({'sidelight': (collector.address, '/metrics', {'honor_labels': True})}) as first:
        first.scraped(['sidelight'])
        first.at = None
        upper = {'second': (first.base.removeprefix('http://'), '/federate',
                            {'honor_labels': True, 'params': {'match[]': ['{job="sidelight"}']}})}
        with Prometheus(upper) as second:
            second.scraped(['second'])

            def of(prometheus, at):
                """{series: {time: value}} of the last seconds."""
                found = prometheus.api('/query', query='{job="sidelight"}[8s]', time=at)['result']
                return {tuple(sorted(r['metric'].items())): dict(map(tuple, r['values'])) for r in found}
            at = second.at
            theirs, ours = of(second, at), of(first, at)
            check(theirs and not set(theirs) - set(ours), len(theirs), len(ours))
            # All samples are from one scrape of the first collector; it may lack series that began after the last federation.
            for series, values in theirs.items():
                for t, value in values.items():
                    if ours[series].get(t, value) != value:
                        fail(f'{series} at {t}: {value}, not {ours[series][t]}')
            shared = sum(t in ours[series] for series, values in theirs.items() for t in values)
            check(shared >= len(theirs) / 2, f'{shared} samples of {len(theirs)} series are the same')
            names = {dict(s)['__name__'] for s in theirs}
            missing = {dict(s)['__name__'] for s in ours} - names
            check(not missing, f'not federated: {missing}')


needs_bpf()
flows.own_network()
folder = workdir()
agent = Agent('--hostname', 'one', '--host', '--tcp', 'flows,layers,cpu,net', '--netns', f'/proc/{os.getpid()}/ns/net')
collector = Collector([agent], '--dta', everything(folder), '--analyse', '--tcp-period', '200ms')
run_cases()
for part in (collector, agent):
    check(part.stop() == 0, 'it failed', part)
