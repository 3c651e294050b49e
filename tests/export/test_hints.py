#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_hints.py SIDELIGHT - Prometheus says in a remote read what it evaluates. Points that cannot change the result are left out, so
that instant queries over five minutes of 10-ms samples are answered, and rightly."""
import json
import math
import time
import urllib.parse

from support.process import check, skip, wait_until
from support.prometheus import Prometheus, available
from support.sidelight import Agent, Collector, generate

SERIES = '{service="many",__name__=~"generated_(updates_total|level|size_bytes_count)"}'
PODS = 20, 60
QUERIES = [f'count({SERIES})', f'sum({SERIES})', 'generated_level', 'sum by (pod) (generated_updates_total offset 2s)',
           *(f'sum by (pod) ({fn}({name}[{window}]))' for window in ('2s', '5m')
             for fn, name in [('rate', 'generated_updates_total'), ('increase', 'generated_updates_total'), ('delta', 'generated_level'),
                              ('irate', 'generated_updates_total'), ('idelta', 'generated_level'), ('changes', 'generated_level'),
                              ('resets', 'generated_level'), ('min_over_time', 'generated_level'), ('max_over_time', 'generated_level'),
                              ('last_over_time', 'generated_level'), ('present_over_time', 'generated_level')]),
           'count(count_over_time(generated_level[1s]))', 'sum(avg_over_time(generated_level{pod="many-1"}[5s]))',
           'max_over_time(sum(generated_updates_total{pod=~"many-[12]"})[4s:100ms])', 'absent(nosuch)',
           'generated_level{pod="many-1"} / on (pod, metric) generated_level']


def ask(ask_api, path, **params):
    return json.loads(ask_api(f'/api/v1/{path}?{urllib.parse.urlencode(params)}'))


def rows(data):
    return sorted((sorted(r['metric'].items()), [(round(float(t), 3), float(v)) for t, v in r.get('values', [r.get('value')])])
                  for r in data['result'])


def same(ours, theirs):
    return [m for m, _ in ours] == [m for m, _ in theirs] and all(
        [t for t, _ in a] == [t for t, _ in b] and all(math.isclose(v, w, rel_tol=1e-9) for (_, v), (_, w) in zip(a, b))
        for (_, a), (_, b) in zip(ours, theirs))


if not available():
    skip('no prometheus: install the package prometheus')
with Agent() as agent, Collector([agent], '--period', '10ms') as c, Prometheus({}, read=[c.url + '/api/v1/read']) as p:
    begun = time.time()
    with generate(agent.socket, '--service', 'many', '--pods', str(PODS[0]), '--metrics', str(PODS[1]), '--pods-per-process', '10',
                  '--kinds', 'counter,gauge,histogram', '--rate', '3000', '--updates', '1000', '--hold', '1h') as g:
        # More points than one message of samples can hold.
        wait_until(lambda: c.total('sidelight_collector_history_points') > 2700000, 'a long history', c, g, every=0.5)
        at = round(time.time() - 0.1, 3)
        some = 0
        for query in QUERIES:
            ours, theirs = (rows(ask(get, 'query', query=query, time=at)['data']) for get in (c.get, lambda path: p.get(path)))
            check(same(ours, theirs), query, ours[:2], theirs[:2])
            some += bool(theirs)
        check(some == len(QUERIES), f'{some} of {len(QUERIES)} have an answer')
        check(float(ask(p.get, 'query', query=QUERIES[0], time=at)['data']['result'][0]['value'][1]) == PODS[0] * PODS[1], 'all series')
        # Over a range, each step has a value of its own; series that rest need few points.
        for query in ('sum(generated_level)', 'sum by (pod) (generated_updates_total{pod=~"many-[123]"})', 'sum(rate(generated_updates_total{pod="many-1"}[1s]))'):
            span = {'query': query, 'start': begun + 1.234, 'end': at - 0.777, 'step': 0.25}
            ours, theirs = (rows(ask(get, 'query_range', **span)['data']) for get in (c.get, lambda path: p.get(path)))
            check(same(ours, theirs) and ours, query, ours[:1], theirs[:1])
        # If a query cannot be thinned and is too large, Prometheus shows the error.
        answer = ask(p.get, 'query', query=f'sum(sum_over_time({SERIES}[5m]))', time=at)
        check(any('the response is too large' in w for w in answer.get('warnings', [])), {**answer, 'data': None})
