#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Costly queries do no harm to a collector's HTTP: test_queries.py SIDELIGHT CASE"""
import contextlib
import json
import os
import socket
import threading
import time
from urllib.parse import urlencode

from support.http import request
from support.process import case, check, run_cases, wait_until
from support.sidelight import Agent, Collector, generate

METRICS = 100
HEAVY = '/api/v1/query?' + urlencode({'query': 'sum(rate({__name__=~"generated_.+"}[1d]))'})
LIGHT = '/api/v1/query?' + urlencode({'query': 'sidelight_agent_admitted_total'})


@contextlib.contextmanager
def collector(*options, metrics=METRICS, rows=100, kinds='counter'):
    """A collector with a history of `metrics` series of `rows` values each."""
    with Agent() as agent, generate(agent.socket, '--pods', '1', '--metrics', str(metrics), '--updates', str(10 * metrics),
                                    '--kinds', kinds, '--hold', '1h') as pod, \
            Collector([agent], '--period', '5ms', '--history', '128M', *options) as c:
        wait_until(lambda: c.total('sidelight_collector_history_points') > rows * metrics, 'a history', c, pod, every=0.2)
        yield c


def slow(steps):
    """A query whose cost depends on the steps, and not on how much history there is: at each it reads the 2 s before."""
    now = time.time()
    return '/api/v1/query_range?' + urlencode({'query': 'sum(rate({__name__=~"generated_.+"}[2s]))', 'start': now - 1, 'end': now,
                                               'step': 1 / steps})


def ask(c, path, **headers):
    """(status, JSON)"""
    status, _, body = request(c.url + path, headers={k.replace('_', '-'): v for k, v in headers.items()}, seconds=600)
    return status, json.loads(body)


def refused(c, cause):
    return c.total('sidelight_collector_http_refused_total', f'cause="{cause}"')


def at_once(c, n, path):
    """Sends n requests at once; returns the list of their statuses, which grows, and the threads."""
    statuses = []

    def query():
        statuses.append(ask(c, path)[0])
    threads = [threading.Thread(target=query, daemon=True) for _ in range(n)]
    for t in threads:
        t.start()
    return statuses, threads


def send(c, path):
    """A client that does not read its answer."""
    host, port = c.address.rsplit(':', 1)
    s = socket.create_connection((host, int(port)), 60)
    s.sendall(f'GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
    return s


@case
def health_never_waits_for_a_query():
    def goes_first(c, path, steps):
        """Whether the path is answered while queries wait; false, too, if queries of this length end before the queue is full, or
        before this machine asks."""
        before = refused(c, 'queue_full')
        statuses, threads = at_once(c, 40, slow(steps))
        wait_until(lambda: refused(c, 'queue_full') > before or not any(t.is_alive() for t in threads), 'the queue is full', c)
        check(request(c.url + path)[0] == 200, path, c)
        done = statuses.count(200)
        for t in threads:
            t.join()
        check(set(statuses) <= {200, 503}, statuses, c)
        return refused(c, 'queue_full') > before and done < statuses.count(200) / 2
    with collector('--query-timeout', '10m') as c:
        for path in ('/-/healthy', '/-/ready', '/metrics', '/api/v1/status'):
            check(any(goes_first(c, path, 250 << i) for i in range(5)), f'{path} waited for queries', c)


@case
def queries_end_in_time():
    with collector('--query-timeout', '1ms', metrics=4000, rows=50) as c:
        for path in (HEAVY, '/api/v1/query_range?' + urlencode({'query': 'avg_over_time({__name__=~".+"}[1d])', 'step': '1',
                                                                'start': time.time() - 60, 'end': time.time()})):
            status, answer = ask(c, path)
            check(status == 503 and answer['errorType'] == 'timeout' and '--query-timeout' in answer['error'], status, answer, c)
        check(refused(c, 'query_timeout') == 2, f'{refused(c, "query_timeout")} counted', c)
    # Each step has the values of the step before.
    with collector('--query-timeout', '1s', metrics=2000, rows=1, kinds='histogram') as c:
        now = time.time()
        path = '/api/v1/query_range?' + urlencode({'query': 'count(count_values("v", {__name__=~"generated_.+_sum"} @ end()))',
                                                   'start': now - 1.8, 'end': now, 'step': '1ms'})
        status, answer = ask(c, path)
        took = time.time() - now
        check(took < 8 and status in (200, 503), took, status, str(answer)[:500], c)


def query_thread(c):
    """(the only thread that runs queries, the ns for which it ran)"""
    for thread in os.listdir(f'/proc/{c.pid}/task'):
        with open(f'/proc/{c.pid}/task/{thread}/comm') as f:
            if f.read() == 'sl-http-query\n':
                break
    with open(f'/proc/{c.pid}/task/{thread}/schedstat') as f:
        return thread, int(f.read().split()[0])


@case
def queries_end_with_their_clients():
    """The client of a query that runs has left, and those of a queue full of queries. Another client does not wait for them."""
    def running_one_ends(c):
        """False if the query was answered before its client left."""
        idle, before = query_thread(c), refused(c, 'client_left')
        with send(c, slow(1000)):
            wait_until(lambda: query_thread(c) != idle, 'the query runs', c, every=0.001)
        check(ask(c, LIGHT)[0] == 200, 'another query is answered', c)
        return refused(c, 'client_left') > before

    def waiting_ones_end(c):
        before, full = refused(c, 'client_left'), refused(c, 'queue_full')
        clients = [send(c, slow(1000)) for _ in range(20)]
        wait_until(lambda: refused(c, 'queue_full') > full, 'the queue is full', c)
        for s in clients:
            s.close()
        wait_until(lambda: ask(c, LIGHT)[0] == 200, 'another query is answered', c)
        return refused(c, 'client_left') >= before + 5
    with collector('--query-timeout', '1h', '--query-concurrency', '1', rows=400) as c:
        for ends in running_one_ends, waiting_ones_end:
            check(any(ends(c) for _ in range(20)), f'{ends.__name__}: {refused(c, "client_left")} ended', c)


@case
def few_queries_wait():
    with collector('--query-timeout', '1h', '--query-concurrency', '1') as c:
        def some_are_refused():
            before = refused(c, 'queue_full')
            statuses, threads = at_once(c, 60, slow(250))
            for t in threads:
                t.join()
            check(set(statuses) <= {200, 503} and statuses.count(200) >= 11, statuses, c)
            check(refused(c, 'queue_full') - before == statuses.count(503), statuses, c)
            return 503 in statuses
        check(any(some_are_refused() for _ in range(5)), 'all waited', c)
        check(ask(c, LIGHT)[0] == 200, 'one more', c)


@case
def samples_of_a_query_are_bounded():
    with collector('--query-samples', '1000') as c:
        for path in (HEAVY, '/api/v1/query_range?' + urlencode({'query': 'sum(rate({__name__=~"generated_.+"}[1d]))', 'step': '1',
                                                                'start': time.time() - 10, 'end': time.time()})):
            status, answer = ask(c, path)
            check(status == 422 and answer['errorType'] == 'execution' and 'more than 1000 samples' in answer['error'],
                  status, answer, c)
        name = next(m['name'] for m in c.api('metrics?kind=counter')['metrics'])
        status, answer = ask(c, f'/api/v1/group?metric={name}&fn=rate')
        check(status == 422 and '1000 samples' in answer['error'], status, answer, c)
        check(refused(c, 'query_samples') == 3, 'counted', c)
        check(ask(c, LIGHT)[0] == 200, 'a small one', c)


@case
def pages_of_other_sites_start_no_query():
    """A page in the operator's browser can send a GET to loopback, although it cannot read the answer."""
    with collector(metrics=10, rows=1) as c:
        for path in (HEAVY, '/api/v1/series?match[]=up', '/api/v1/labels', '/api/v1/group?metric=x', '/api/v1/traces'):
            for headers in ({'Sec_Fetch_Site': 'cross-site'}, {'Origin': 'https://evil.example'}, {'Origin': 'null'}):
                status, answer = ask(c, path, **headers)
                check(status == 403 and 'other web pages' in answer['error'], path, status, answer, c)
        for headers in ({}, {'Sec_Fetch_Site': 'same-origin'}, {'Sec_Fetch_Site': 'same-site'}, {'Sec_Fetch_Site': 'none'},
                        {'Origin': c.url}):
            check(ask(c, LIGHT, **headers)[0] == 200, headers, c)
        check(request(c.url + '/metrics', headers={'Sec-Fetch-Site': 'cross-site'})[0] == 200, 'what costs little', c)
        check(refused(c, 'origin') == 15, 'counted', c)


run_cases()
