#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_client_parser.py SIDELIGHT PUBLISHER - the strict parser of Prometheus' Python client takes the collector's OpenMetrics, and
promtool has nothing to say about the names that are ours."""
import re
import shutil
import subprocess
import sys

from support import http
from support.process import check, skip, wait_until
from support.sidelight import Agent, Collector, Pod, generate

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    skip('no prometheus_client: install python3-prometheus-client')


def parse(body):
    """{family: (type, number of samples)}"""
    return {f.name: (f.type, len(f.samples)) for f in text_string_to_metric_families(body)}


def takes(body):
    try:
        return bool(parse(body))
    except ValueError:
        return False


with Agent('--host') as agent, Collector([agent], '--period', '20ms', '--created', '--analyse') as collector:
    publisher = Pod(sys.argv[2], agent.socket)
    check(publisher.ready()['attached'] == '1', publisher)
    with generate(agent.socket, '--pods', '2', '--metrics', '6', '--kinds', 'counter,gauge,histogram', '--updates', '1000',
                  '--hold', '1h') as pods:
        def openmetrics():
            status, headers, body = http.request(collector.url + '/metrics', headers={'Accept': 'application/openmetrics-text;version=1.0.0'})
            check(status == 200 and headers['Content-Type'].startswith('application/openmetrics-text'), status, headers)
            return body.decode()
        body = wait_until(lambda: (lambda b: b if b.count(' # {') >= 4 and b.count('generated_size_bytes_sum') == 4 and 'node_cpu' in b else None)(
            openmetrics()), 'all kinds of both pods, and exemplars', collector, pods)
        families = parse(body)
        kinds = {kind for kind, _ in families.values()}
        check({'counter', 'gauge', 'histogram', 'summary', 'gaugehistogram', 'info', 'unknown'} <= kinds, kinds)
        check(families['generated_size_bytes'][0] == 'histogram' and families['generated_size_bytes'][1] > 100, families['generated_size_bytes'])
        check(sum(n for _, n in families.values()) == sum(line[0] != '#' for line in body.splitlines()), 'each line is a sample')
        # The parser can refuse.
        check(not takes(body.removesuffix('# EOF\n')) and not takes(body.replace('_total{', '{', 1)), 'it takes anything')
        if shutil.which('promtool'):
            text = collector.get('/metrics?classic=1')
            p = subprocess.run(['promtool', 'check', 'metrics'], input=text, text=True, stderr=subprocess.PIPE, timeout=300)
            ours = [line for line in p.stderr.splitlines() if line.startswith('sidelight_')]
            check(not ours and 'error' not in p.stderr and re.search('^sidelight_collector_rounds_total', text, re.M), p.stderr)
    publisher.close()
