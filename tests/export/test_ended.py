#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ended.py SIDELIGHT CASE - pods that ended stay in the history, and in no memory beyond its budget."""
import json
import math
import time
import urllib.parse

from support.process import KEEPS_FREED, case, check, run_cases, skip, wait_until
from support.prometheus import Prometheus, available
from support.sidelight import Agent, Collector, generate, report

VALUES = '{service=~"stays|ends",__name__=~"generated_(updates_total|level|size_bytes_count)"}'
QUERIES = (f'sum by (__name__) ({VALUES})', f'count({VALUES})', f'sum by (service) (rate({VALUES}[1s]))',
           'sum(generated_size_bytes_sum)', 'sum by (le, service) (generated_size_bytes_bucket)',
           'histogram_quantile(0.9, sum by (le) (rate(generated_size_bytes_bucket[3s])))',
           'max_over_time(sum(generated_updates_total{service="ends"})[1s:100ms])')


def ask(c, path, **params):
    return c.api(f'{path}?{urllib.parse.urlencode(params, doseq=True)}')


def same(before, after, what):
    check(json.dumps(before['data'], sort_keys=True) == json.dumps(after['data'], sort_keys=True), what, before, after)


@case
def sums_over_the_past_stay_the_same():
    how = '--metrics', '3', '--updates', '500', '--rate', '3000', '--kinds', 'counter,gauge,histogram', '--hold', '1h'
    with Agent('--grace', '1s') as agent, Collector([agent], '--period', '10ms', '--history', '16M') as c, \
            generate(agent.socket, '--pods', '2', '--service', 'stays', *how) as stays:
        ends = generate(agent.socket, '--pods', '3', '--service', 'ends', *how)
        report(stays)
        report(ends)
        wait_until(lambda: len(c.find('generated_updates_total')) == 5, 'all pods are exposed', c)
        time.sleep(2)
        at = round(time.time() - 0.5, 3)
        span = {'start': at - 2, 'end': at, 'step': '50ms'}
        group = {'fn': 'rate', 'by': 'pod', 'start': at - 2, 'end': at, 'points': 20, 'metric': 'generated_updates_total'}
        heat = {**group, 'fn': 'p90', 'metric': 'generated_size_bytes'}

        def past():
            return {**{q: ask(c, 'query', query=q, time=at) for q in QUERIES},
                    **{q + ' range': ask(c, 'query_range', query=q, **span) for q in QUERIES},
                    'series': ask(c, 'series', start=at - 1, end=at, **{'match[]': VALUES}),
                    'pods': ask(c, 'label/pod/values', start=at - 1, end=at, **{'match[]': VALUES})}

        def groups():
            return [ask(c, 'group', **g)['groups'] for g in (group, heat)]
        before, grouped = past(), groups()
        check(len(before[QUERIES[0]]['data']['result']) == 3, before, c)
        check(len(grouped[0]) == 5 and len(grouped[1]) == 5, grouped)
        ends.kill()
        total = 'sum(generated_size_bytes_sum)'

        def expired():
            same(before[total], ask(c, 'query', query=total, time=at), f'{total} while the pods expire')
            return not c.find('generated_updates_total', 'service="ends"')
        wait_until(expired, 'the pods expire', c, every=0)
        after = past()
        for what, answer in before.items():
            same(answer, after[what], what)
        check(groups() == grouped, 'groups', grouped, groups())
        # Now, only the others are there, also for a Prometheus that reads the history.
        def services():
            return {r['metric']['service']: r['value'][1] for r in
                    ask(c, 'query', query='count by (service) (generated_updates_total)')['data']['result']}
        wait_until(lambda: services() == {'stays': '2'}, services, c)
        now = time.time()
        check(not ask(c, 'series', start=now, end=now + 1, **{'match[]': '{service="ends"}'})['data'], 'series of now')
        check(len(ask(c, 'group', metric='generated_updates_total', by='pod', last='500ms', points=5)['groups']) == 2, 'groups of now', c)
        # Counts over the last minute include pods that ended in it.
        found = ask(c, 'query', query='count(count_over_time(generated_updates_total[1m]))')['data']['result'][0]['value'][1]
        check(found == '5', found, c)
        if available():
            with Prometheus({}, read=[c.url + '/api/v1/read']) as p:
                for q in QUERIES[:6]:
                    want, found = (sorted(r['result'], key=lambda r: sorted(r['metric'].items()))
                                   for r in (before[q]['data'], p.api('/query', query=q, time=at)))
                    check([r['metric'] for r in want] == [r['metric'] for r in found] and all(
                        math.isclose(float(a['value'][1]), float(b['value'][1]), rel_tol=1e-12) for a, b in zip(want, found)),
                          q, want, found)
                found = p.api('/query', query='count by (service) (generated_updates_total)')['result']
                check([(r['metric'], r['value'][1]) for r in found] == [({'service': 'stays'}, '2')], found)


@case
def thousands_of_ended_pods_stay_in_the_budget():
    with Agent('--grace', '100ms', '--max-regions', '4096') as agent, Collector([agent], '--period', '10ms', '--history', '32M') as c:
        def churn(times):
            """The most memory that it held. How many ended pods are there at once depends on how busy this machine is."""
            most = 0
            for _ in range(times):
                generate(agent.socket, '--pods', '100', '--pods-per-process', '10', '--metrics', '200', '--updates', '1',
                         '--hold', '150ms').wait()
                most = max(most, c.resident_bytes())
            wait_until(lambda: c.total('sidelight_collector_regions', 'state="dead"') + c.total('sidelight_collector_regions', 'state="closed"') < 10,
                       'they expire', c)
            return most
        begun = time.time()
        before = churn(16)
        churn(24)
        after = c.resident_bytes()
        print(f'{before:,} bytes, then {after:,}')
        if not KEEPS_FREED:
            check(after < before + (16 << 20), f'{before} bytes, then {after}', c)
        state = c.total('sidelight_collector_memory_bytes', 'state')
        check(state < 8 << 20, f'{state} bytes are counted', c)
        listed = len(ask(c, 'label/process/values', start=begun, **{'match[]': 'generated_updates_total{metric="0"}'})['data'])
        check(listed > 20, f'{listed} processes are listed', c)
        wait_until(lambda: len(ask(c, 'label/process/values', start=begun)['data']) < 5, 'labels of those that are there', c)


@case
def quantiles_are_those_of_a_scrape():
    """Prometheus scrapes the collector once per second, and stores the same as the history of buckets."""
    if not available():
        skip('no prometheus')
    with Agent() as agent, Collector([agent], '--period', '10ms') as c, \
            Prometheus({'c': (c.address, '/metrics')}, how=(('honor_labels', True),)) as p, \
            generate(agent.socket, '--pods', '3', '--metrics', '2', '--kinds', 'histogram', '--rate', '400', '--updates', '2400',
                     '--hold', '1h') as g:
        def both(query, at):
            return [sorted((sorted((k, v) for k, v in r['metric'].items() if k not in ('job', 'instance')), float(r['value'][1])) for r in d['result'])
                    for d in (ask(c, 'query', query=query, time=at)['data'], p.api('/query', query=query, time=at))]
        busy = wait_until(lambda: p.query('sum(rate(generated_size_bytes_count[1m])) > 0 and sum(generated_size_bytes_count) > 6000') and time.time(), 'observations', c, p)
        report(g)
        wait_until(lambda: p.query('sum(generated_size_bytes_count) == 14400'), 'all observations', c, p)
        at = time.time() + 1.5
        time.sleep(2)
        for name in ('generated_size_bytes_bucket', 'generated_size_bytes_sum', 'generated_size_bytes_count'):
            ours, theirs = both(name, at)
            check(ours == theirs and len(ours) >= 6, name, ours, theirs)
        for q in (0.1, 0.5, 0.9, 0.99):
            ours, theirs = both(f'histogram_quantile({q}, sum by (le) (generated_size_bytes_bucket))', at)
            check(ours == theirs and len(ours) == 1, q, ours, theirs)
            ours, theirs = both(f'histogram_quantile({q}, sum by (le) (rate(generated_size_bytes_bucket[1m])))', busy)
            check(math.isclose(ours[0][1], theirs[0][1], rel_tol=0.1), q, ours, theirs)


run_cases()
