#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_replicas.py SIDELIGHT POD - two collectors read each host. Their samples go to the real VictoriaMetrics, which keeps one per
period; what they say of an anomaly tells a receiver that it is the same."""
import contextlib
import json
import sys
import time

from support.analysis import System
from support.process import case, check, run_cases, skip, wait_until
from support.receiver import Receiver
from support.sidelight import Agent, Collector, generate
from support.victoria import Victoria, available

POD = sys.argv[2]
HOSTS, PERIOD, ROUNDS = 6, 0.5, 20  # PERIOD: seconds
NAME = 'generated_updates_total'


@contextlib.contextmanager
def fleet(store, *options):
    """Agents with a pod each, and two collectors of all of them; options: of each collector."""
    with contextlib.ExitStack() as stack:
        agents = [stack.enter_context(Agent('--hostname', f'node-{i}')) for i in range(HOSTS)]
        for i, a in enumerate(agents):
            pod = generate(a.socket, '--pods', 1, '--metrics', 1, '--kinds', 'counter', '--rate', 200, '--updates', 10000000,
                           '--service', f'of-{i}')
            stack.callback(pod.kill)
        parts = []
        for i, of in enumerate(options or ((), ())):
            c = Collector([], '--discover', ','.join(a.socket for a in agents), '--shard', f'{i}/2', '--replicas', 2, '--period',
                          f'{PERIOD}s', '--sample-every', 0, '--remote-write', store.url, *of)
            stack.callback(c.kill)
            parts.append(c)
        for c in parts:
            wait_until(lambda: sum(h['condition'] == 'up' for h in c.api('hosts')['hosts']) == HOSTS, 'all hosts', c)
        yield parts


def samples(store, host):
    """Of the host's counter: [(seconds, value)]. It has one series."""
    found = store.samples(NAME, service=f'of-{host}')
    check(len(found) == 1, 'a series for each collector', host, list(found))
    return [(t / 1000, v) for t, v in next(iter(found.values()))]


def await_samples(store, until, *parts):
    for i in range(HOSTS):
        wait_until(lambda: store.samples(NAME, service=f'of-{i}') and samples(store, i)[-1][0] > until, f'samples of host {i}', *parts)


def own_samples(c, host):
    """The times that the collector itself read the host's counter."""
    answer = c.api('metrics?q=' + NAME)
    found, = [m for m in answer['metrics'] if answer['pods'][m['id'].split('/')[0]]['service'] == f'of-{host}']
    series, = c.api(f'history?series={found["id"]}&last=10m&points=10000')['series']
    return series['t']


def intervals(times):
    """The intervals of the store that have one of these times: each begins behind a multiple of the period."""
    return {-int(-round(t * 1000) // round(PERIOD * 1000)) for t in times}


def longest_gap(times):
    return max(b - a for a, b in zip(times, times[1:]))


def missed(c):
    return c.total('sidelight_collector_missed_deadlines_total')


def check_host(store, host, survivor, begin, end, late):
    """late: the survivor missed deadlines, as on a busy machine."""
    times = [t for t, _ in samples(store, host) if begin < t <= end]
    own = [t for t in own_samples(survivor, host) if begin < t <= end]
    check(longest_gap(own) <= 2 * PERIOD or late, 'the survivor did not read', host, own, survivor)
    check(intervals(own) <= intervals(times), 'an interval without a sample', host, own, times, survivor)
    check(len(intervals(times)) == len(times), 'two samples in an interval', host, times)
    # Samples beside the end of an interval may leave the next one empty.
    steady = all(0.1 < t / PERIOD % 1 < 0.9 for t in own)
    check(longest_gap(times) <= 2 * PERIOD or late or not steady, 'a gap', host, times, survivor)
    for span in 5, 15:
        count, = store.query(f'count_over_time({NAME}{{service="of-{host}"}}[{span}s])', end).values()
        check(count == sum(end - span < t for t in times), 'a query counts a sample twice', host, span, count, times)
        check(count == span / PERIOD or late or not steady, 'not one sample per period', host, span, count, times)


@case
def a_killed_collector_leaves_no_gap_and_every_sample_counts_once():
    if not available():
        skip('no victoria-metrics: install the package victoria-metrics')
    with Victoria(options=[f'-dedup.minScrapeInterval={round(PERIOD * 1000)}ms']) as store, fleet(store) as (victim, survivor):
        before, begin = missed(survivor), time.time()
        await_samples(store, begin + ROUNDS * PERIOD, victim, survivor)
        check(victim.total('sidelight_push_sent_total') > HOSTS * ROUNDS / 2, 'it sends as well', victim)
        victim.kill()
        end = time.time() + ROUNDS * PERIOD
        await_samples(store, end, survivor)
        end -= end % PERIOD  # of an interval
        late = missed(survivor) > before
        for i in range(HOSTS):
            values = [v for _, v in samples(store, i)]
            check(values == sorted(values), 'a counter goes back', i, values)
            check_host(store, i, survivor, begin, end, late)
        lost = {k: n for k, n in survivor.find('sidelight_push_dropped_total').items() if n}
        check(not lost and survivor.stop() == 0, 'samples are lost', lost, survivor)


@case
def a_label_tells_replicas_apart_for_stores_that_want_it():
    if not available():
        skip('no victoria-metrics: install the package victoria-metrics')
    with Victoria() as store, fleet(store, *(('--remote-label', f'collector_replica={x}', '--remote-label', 'service=other')
                                             for x in 'ab')) as parts:
        def replicas(host):
            found = store.samples(NAME, service=f'of-{host}')  # a pod's own label is kept
            return sorted(dict(k)['collector_replica'] for k in found), len({tuple(x for x in k if x[0] != 'collector_replica') for k in found})
        for i in range(HOSTS):
            wait_until(lambda: replicas(i) == (['a', 'b'], 1), lambda: replicas(i), *parts)
        check('collector_replica' not in parts[0].get('/metrics'), 'it is of remote write alone')


@case
def both_say_of_an_incident_that_it_is_the_same():
    with Receiver() as hook, System(POD) as s, contextlib.ExitStack() as stack:
        def options(i):
            return ['--webhook', f'{hook.url}/hook{i}', '--alert', f'{hook.url}/alert{i}', '--trace-head', 1]
        s.collect(*options(0))
        other = stack.enter_context(Collector([s.agent], '--period', '10ms', '--analyse', '--analyse-step', '200ms', '--warm-up', '10s',
                                              '--false-alarms', '60', *options(1)))

        def learned():
            pods = [p for p in other.api('pods?q=shop-0')['pods'] if 'verdict' in p]
            return pods and not pods[0]['verdict']['learning']
        s.learned()
        wait_until(learned, 'the other one knows the pod, too', other)

        def begun():
            return [{(e['id'], json.dumps(e['labels'], sort_keys=True)) for e in hook.got.get(f'/hook{i}', [])} for i in range(2)]
        s.sicken(lambda: set.intersection(*begun()), lambda: begun())
        time.sleep(1)
        s.pod.tell('fine')
        alike = [{json.dumps(a['labels'], sort_keys=True) for a in hook.got[f'/alert{i}']} for i in range(2)]
        check(alike[0] & alike[1], 'alerts have other labels', alike)
        anomalies = [c.api('anomalies')['anomalies'] for c in (s.collector, other)]
        for a in anomalies[0] + anomalies[1]:
            # Numbers that each collector counts by itself could be equal by chance, so look at the parts.
            instance, _, minute = a['event_id'].rpartition('-')
            check(instance == a['instance'] and 0 <= int(minute) - a['begin'] // 60 < 10, 'not of instance and minute', a)
        ids = set.intersection(*({i['id'] for i in c.api('incidents')['incidents']} for c in (s.collector, other)))
        check(ids <= {a['event_id'] for a in anomalies[0]}, 'an incident has another identifier than its first anomaly', ids)
        check(ids & {x for x, _ in begun()[0] & begun()[1]}, 'the API has other identifiers', ids, begun())
        kept = [{t['trace_id'] for t in c.api('traces?limit=1000')['traces']} for c in (s.collector, other)]
        check(kept[0] & kept[1], 'no trace is kept by both', [len(k) for k in kept])


if __name__ == '__main__':
    run_cases(only=sys.argv[3:])
