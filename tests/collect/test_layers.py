#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_layers.py SIDELIGHT - the time per layer of real requests, as a collector exposes it: every request once,
equal to the kernel's table bucket by bucket, and continuous across an agent's death."""
import json
import os
import socket
import threading
import time

from support import flows
from support.exposition import Scrape
from support.flows import needs_bpf
from support.process import case, check, fail, run, run_cases, wait_until
from support.sidelight import EXE, Agent, Collector

PORT, QUICK, SLOW, MORE = 1500, 150, 30, 10
MADE = QUICK + SLOW
LAYERS = ('mac_in', 'ip_in', 'tcp_in', 'app', 'tcp_out', 'ip_out', 'mac_out')


def agent(folder=None):
    return Agent('--hostname', 'one', '--tcp', 'flows,layers,cpu', '--netns', f'/proc/{os.getpid()}/ns/net',
                 '--port', str(PORT), folder=folder)


def dump(kind):
    def answered():
        p = run(EXE, 'dump', '--agent', first.socket, '--kind', kind, '--json', code=None)
        check(not p.returncode or 'did not answer' in p.stderr, p.stderr)
        return p.stdout
    return [json.loads(line) for line in wait_until(answered, 'the agent answers', first).splitlines()]


def serve(listener):
    with listener.accept()[0] as c:
        while True:
            request = c.recv(100)
            if not request:
                return
            if request == b's':
                time.sleep(0.02)
            c.sendall(b'answer')


def ask(listener, *kinds):
    """One connection with (kind, count) requests."""
    server = threading.Thread(target=serve, args=(listener,), daemon=True)
    server.start()
    with socket.create_connection(('127.0.0.1', PORT)) as c:
        c.settimeout(300)
        for kind, count in kinds:
            for _ in range(count):
                c.sendall(kind)
                if c.recv(100) != b'answer':
                    fail('no answer')
    server.join()


def passes():
    hosts = collector.api('layers')['hosts']
    return hosts[0]['passes'] if hosts else 0


def of(s, name, **labels):
    return s.sum(name, host='one', port=PORT, role='server', **labels)


def classic():
    """With the layers by port."""
    return Scrape(collector.get('/metrics?classic=1'))


def counted(n):
    s = collector.scrape()
    return s if of(s, 'sidelight_tcp_requests_total') == n and \
        of(s, 'sidelight_tcp_layer_seconds_count', layer='app') == n and \
        of(s, 'sidelight_tcp_requests_measured_total') + \
        of(s, 'sidelight_tcp_requests_incomplete_total') == n else None


@case
def each_request_is_counted_once():
    s = wait_until(lambda: counted(MADE), lambda: collector.scrape().text, collector, seconds=30)
    measured = of(s, 'sidelight_tcp_requests_measured_total')
    if of(s, 'sidelight_tcp_request_seconds_count') != measured:
        fail(f'{measured} requests are measured', collector)

    # A server that sleeps for 20 ms: SLOW answers took longer than 2^-6 s.
    s = classic()
    quick = [float(v) for name, v in s.all('sidelight_tcp_layer_seconds_bucket', role='server', layer='app')
             if float(name.split(',le="')[1].split('"')[0]) == 2 ** -6]
    if len(quick) != 1 or quick[0] > QUICK:
        fail(f'{quick} answers took less than 15.6 ms, {SLOW} did not', collector)


@case
def workloads_have_what_the_table_has():
    def same():
        s, wrong = classic(), []
        groups = [r['group'] for r in dump('layers') if 'group' in r]
        for layer in LAYERS + ('total',):
            ours = dict(layer=layer) if layer != 'total' else {}
            name = 'sidelight_tcp_request_seconds' if layer == 'total' else 'sidelight_tcp_layer_seconds'
            theirs = [sum(g['layers'][layer][key] for g in groups) for key in ('count', 'sum_ns')]
            got = [s.sum(f'{name}_count', **ours), round(s.sum(f'{name}_sum', **ours) * 1e9)]
            if got != theirs:
                wrong.append(f'{layer}: {got}, the table has {theirs}')
            if layer in ('app', 'total'):
                continue
            in_all = [s.sum('sidelight_tcp_stack_seconds_count', layer=layer),
                      round(s.sum('sidelight_tcp_stack_seconds_sum', layer=layer) * 1e9)]
            if in_all != theirs:
                wrong.append(f'{layer} of all ports: {in_all}, the table has {theirs}')
        seen['wrong'] = wrong
        return not wrong
    seen = {}
    wait_until(same, lambda: str(seen['wrong']), collector, seconds=30)

    measured = of(collector.scrape(), 'sidelight_tcp_requests_measured_total')
    rows = collector.api(f'layers?role=server&q={PORT}')['workloads']
    if len(rows) != 1 or rows[0]['all']['layers']['app']['count'] != MADE or \
            rows[0]['all']['layers']['total']['count'] != measured:
        fail(f'{rows}', collector)


@case
def cpu_time_is_within_that_of_the_table():
    run = collector.scrape().sum('sidelight_cpu_seconds_total', host='one')
    table = sum(r['task_cgroup']['run_ns'] for r in dump('tasks') if 'task_cgroup' in r)
    if not run or not 0 < run <= table * 1e-9:
        fail(f'{run} s on a CPU, the table has {table} ns', collector)


@case
def a_dead_agent_leaves_stale_series_that_another_continues():
    global first
    first.kill()
    wait_until(lambda: collector.scrape().sum('sidelight_tcp_requests_total', host='one') is None,
               'the series of a dead agent are stale', collector, seconds=30)
    before = passes()
    first = agent(first.folder)
    wait_until(lambda: passes() > before + 2, 'the new table is read', collector)
    ask(listener, (b'q', MORE))
    wait_until(lambda: counted(MADE + MORE), lambda: collector.scrape().text, collector, seconds=30)


needs_bpf()
flows.own_network()
listener = socket.socket()
listener.bind(('127.0.0.1', PORT))
listener.listen(8)
first = agent()
collector = Collector([first], '--tcp-period', '100ms', '--period', '50ms')
wait_until(lambda: passes() >= 3, 'the table of layers is read', collector, seconds=30)
ask(listener, (b'q', QUICK), (b's', SLOW))
run_cases()
for part in (collector, first):
    check(part.stop() == 0, 'it failed', part)
