#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_pairs.py SIDELIGHT - a textfile's counters x_total and other x reach each reader: promtool, the
real Prometheus by OpenMetrics, by remote write and by federation, the API, and another collector."""
import json
import subprocess
import sys

from support import exposition as e
from support import http
from support.process import check, skip, wait_until, workdir
from support.prometheus import Prometheus, Receiver, available
from support.sidelight import Agent, Collector

FILE = """# TYPE go_memstats_alloc_bytes gauge
go_memstats_alloc_bytes 17
# TYPE go_memstats_alloc_bytes_total counter
go_memstats_alloc_bytes_total 42
# TYPE took_seconds_total counter
took_seconds_total 8
# TYPE took_seconds histogram
took_seconds_bucket{le="1"} 2
took_seconds_bucket{le="+Inf"} 3
took_seconds_sum 5
took_seconds_count 3
# TYPE odd untyped
odd 6
# TYPE odd_total counter
odd_total 7
"""
WANT = {'go_memstats_alloc_bytes': 17, 'go_memstats_alloc_bytes_total': 42, 'took_seconds_count': 3,
        'took_seconds_total': 8, 'odd': 6, 'odd_total': 7}
NAMES = 'go_memstats_.*|took_seconds_(count|total)|odd.*'
PROTOBUF = 'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited'


def shown(collector):
    s = collector.series()
    return {k.split('{')[0]: float(v) for k, v in s.items() if k.split('{')[0] in WANT}


def stored(prometheus, job=''):
    of_job = f',job="{job}"' if job else ''
    return {s.pop('__name__'): v for s, v in prometheus.query(f'{{__name__=~"{NAMES}"{of_job}}}')}


def formats(collector):
    text = http.get(collector.url + '/metrics').encode()
    r = subprocess.run(['promtool', 'check', 'metrics'], input=text, stderr=subprocess.PIPE)
    check(b'error' not in r.stderr, r.stderr)
    for name in WANT:
        if name.endswith('_total'):
            check(f'# TYPE {name} counter\n'.encode() in text, f'the type of {name}')
    body = http.request(collector.url + '/metrics', headers={'Accept': 'application/openmetrics-text'})[2].decode()
    for name in WANT:
        check(f'\n{name}{{' in body, name, body)
        if name.endswith('_total'):
            check(f'# TYPE {name} unknown\n' in body, f'the type of {name} in OpenMetrics')
    body = http.request(collector.url + '/metrics', headers={'Accept': PROTOBUF})[2]
    types = {f['name'][0]: f.get('type') for f in e.decode(body)}
    counter = types['sidelight_collector_rounds_total']
    for name in {*WANT, 'took_seconds'} - {'took_seconds_count'}:
        check(name in types and (types[name] == counter) == name.endswith('_total'), name, types)


if not available():
    skip('no prometheus: install the package prometheus')
folder = workdir()
with open(f'{folder}/pairs.prom', 'w') as f:
    f.write(FILE)
with Agent('--textfile', folder) as agent, Receiver() as receiver:
    with Collector([agent], '--period', '20ms', '--remote-write', receiver.url,
                   '--sample-every', '1s') as collector:
        wait_until(lambda: shown(collector) == WANT, lambda: shown(collector), collector, agent)
        check(collector.total('sidelight_collector_conflicts') == 0, 'conflicts', collector)
        formats(collector)
        names = {m['name'] for m in json.loads(collector.get('/api/v1/metrics?limit=500'))['metrics']}
        check(names >= {*WANT} - {'took_seconds_count'} | {'took_seconds'}, names)
        wait_until(lambda: stored(receiver) == WANT, lambda: stored(receiver), collector)
        jobs = {'direct': (collector.address, '/metrics')}
        with Prometheus(jobs) as prometheus:  # by OpenMetrics
            prometheus.scraped(jobs)
            check(stored(prometheus, 'direct') == WANT, stored(prometheus, 'direct'))
            federated = prometheus.get('/federate', **{'match[]': '{job="direct"}'})
            check(all(f'\n{n}{{' in federated for n in WANT), federated)
        with Agent('--scrape', f'{collector.url}/metrics,interval=200ms') as above, \
                Collector([above], '--period', '20ms') as top:
            wait_until(lambda: shown(top) == WANT, lambda: shown(top), top, above)
