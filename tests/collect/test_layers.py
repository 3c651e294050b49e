#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_layers.py SIDELIGHT - where the time of real requests goes, as a collector exposes it: every request once,
bucket by bucket what the kernel's table holds, and on across an agent's death."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from support import flows
from support.flows import needs_bpf
from support.process import Part, fail, wait_until

EXE = sys.argv[1]
PORT, QUICK, SLOW, MORE = 1500, 150, 30, 10
LAYERS = ('mac_in', 'ip_in', 'tcp_in', 'app', 'tcp_out', 'ip_out', 'mac_out')


class Scrape:
    """Series of one exposition: name and labels, and values."""

    def __init__(self, address):
        with urllib.request.urlopen(f'http://{address}/metrics', timeout=60) as r:
            self.text = r.read().decode()

    def all(self, name, **labels):
        return [line.rsplit(' ', 1) for line in self.text.split('\n') if line.startswith(name + '{') and
                all(f'{k}="{v}"' in line for k, v in labels.items())]

    def sum(self, name, **labels):
        found = [float(value) for _, value in self.all(name, **labels)]
        return sum(found) if found else None


def agent(folder):
    a = Part(EXE, 'agent', '--socket', f'{folder}/a.sock', '--host', 'one', '--no-rest', '--tcp',
             'flows,layers,cpu', '--netns', f'/proc/{os.getpid()}/ns/net', '--port', PORT)
    a.ready()
    return a


def dump(folder, kind):
    p = subprocess.run([EXE, 'dump', '--agent', f'{folder}/a.sock', '--kind', kind, '--json'], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    if p.returncode:
        fail(f'dump: {p.stderr}')
    return [json.loads(line) for line in p.stdout.splitlines()]


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
    """One connection, on which so many of each kind of request are made."""
    server = threading.Thread(target=serve, args=(listener,), daemon=True)
    server.start()
    with socket.create_connection(('127.0.0.1', PORT)) as c:
        c.settimeout(60)
        for kind, count in kinds:
            for _ in range(count):
                c.sendall(kind)
                if c.recv(100) != b'answer':
                    fail('no answer')
    server.join()


def passes(address):
    with urllib.request.urlopen(f'http://{address}/api/v1/layers', timeout=60) as r:
        hosts = json.load(r)['hosts']
    return hosts[0]['passes'] if hosts else 0


needs_bpf()
flows.own_network()
with tempfile.TemporaryDirectory() as folder:
    listener = socket.socket()
    listener.bind(('127.0.0.1', PORT))
    listener.listen(8)
    first = agent(folder)
    collector = Part(EXE, 'collect', '--agent', f'{folder}/a.sock', '--listen', '127.0.0.1:0',
                     '--tcp-period', '100ms', '--period', '50ms')
    address = collector.ready()['listen']
    wait_until(lambda: passes(address) >= 3, 'the table of layers is read', collector, seconds=30)
    ask(listener, (b'q', QUICK), (b's', SLOW))
    made = QUICK + SLOW

    def of(s, name, **labels):
        return s.sum(name, host='one', port=PORT, role='server', **labels)

    def counted(n):
        s = Scrape(address)
        return s if of(s, 'sidelight_tcp_requests_total') == n and \
            of(s, 'sidelight_tcp_layer_nanoseconds_count', layer='app') == n and \
            of(s, 'sidelight_tcp_requests_measured_total') + \
            of(s, 'sidelight_tcp_requests_incomplete_total') == n else None
    s = wait_until(lambda: counted(made), lambda: Scrape(address).text, collector, seconds=30)
    measured = of(s, 'sidelight_tcp_requests_measured_total')
    if of(s, 'sidelight_tcp_request_nanoseconds_count') != measured:
        fail(f'{measured} requests are measured', collector)

    # A server that sleeps for 20 ms: so many of its answers took longer than 2^24 ns.
    quick = [float(v) for name, v in s.all('sidelight_tcp_layer_nanoseconds_bucket', role='server', layer='app')
             if float(name.split(',le="')[1].split('"')[0]) == 2 ** 24]
    if len(quick) != 1 or quick[0] > QUICK:
        fail(f'{quick} answers took less than 16.8 ms, {SLOW} did not', collector)

    # What the kernel's table holds, of all groups, is what all workloads have: each layer, and its time.
    def same():
        s, wrong = Scrape(address), []
        groups = [r['group'] for r in dump(folder, 'layers') if 'group' in r]
        for layer in LAYERS + ('total',):
            ours = dict(layer=layer) if layer != 'total' else {}
            name = 'sidelight_tcp_request_nanoseconds' if layer == 'total' else 'sidelight_tcp_layer_nanoseconds'
            theirs = [sum(g['layers'][layer][key] for g in groups) for key in ('count', 'sum_ns')]
            got = [s.sum(f'{name}_{key}', **ours) for key in ('count', 'sum')]
            if got != theirs:
                wrong.append(f'{layer}: {got}, the table has {theirs}')
        seen['wrong'] = wrong
        return not wrong
    seen = {}
    wait_until(same, lambda: str(seen['wrong']), collector, seconds=30)

    with urllib.request.urlopen(f'http://{address}/api/v1/layers?role=server&q={PORT}', timeout=60) as r:
        rows = json.load(r)['workloads']
    if len(rows) != 1 or rows[0]['all']['layers']['app']['count'] != made or \
            rows[0]['all']['layers']['total']['count'] != measured:
        fail(f'{rows}', collector)

    # Time on the CPU, of all cgroups: some, and no more than the table has a moment later.
    run = Scrape(address).sum('sidelight_cpu_seconds_total', host='one')
    table = sum(r['task_cgroup']['run_ns'] for r in dump(folder, 'tasks') if 'task_cgroup' in r)
    if not run or not 0 < run <= table * 1e-9:
        fail(f'{run} s on a CPU, the table has {table} ns', collector)

    # The agent dies: what it counted is stale. Another one: it goes on from there.
    first.p.kill()
    first.p.wait(60)  # until then it answers on its socket
    wait_until(lambda: Scrape(address).sum('sidelight_tcp_requests_total', host='one') is None,
               'the series of a dead agent are stale', collector, seconds=30)
    before = passes(address)
    second = agent(folder)
    wait_until(lambda: passes(address) > before + 2, 'the new table is read', collector)
    ask(listener, (b'q', MORE))
    wait_until(lambda: counted(made + MORE), lambda: Scrape(address).text, collector, seconds=30)
    for part in (collector, second):
        if part.stop():
            fail(f'{part} failed', part)
print('ok')
