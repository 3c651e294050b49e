#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_wsgi.py SIDELIGHT PYTHON PACKAGES native|pure gunicorn|uwsgi - a Django service with prometheus_client under a server
with four workers, which are recycled after some requests and killed at random: with --sum-processes the totals are those
that the workers wrote down, within one update for each kill, and no worker that has ended has left a series. The real
Prometheus, which scrapes meanwhile, has the same totals and sees no reset."""
import contextlib
import os
import random
import shutil
import signal
import socket
import struct
import sys
import threading
import time

from packages import installed
from support.process import Part, alive, check, run, skip, wait_until, workdir
from support.prometheus import Prometheus, available
from support.sidelight import Agent, Collector

PYTHON, PACKAGES, BACKEND, SERVER = sys.argv[2:6]
HERE = os.path.dirname(os.path.abspath(__file__))
SCALE = int(os.environ.get('SL_TEST_SCALE') or 1)
REQUESTS, RECYCLED, KILLS = 1200 * SCALE, 40, 6
ROUTES = ('cart', 'pay', 'list')


def serve(listen, env):
    """A real server, as Debian has it."""
    if SERVER == 'gunicorn':
        return Part(PYTHON, '-m', 'gunicorn', '--workers', 4, '--max-requests', RECYCLED, '--max-requests-jitter', 10,
                    '--bind', f'unix:{listen}', '--chdir', HERE, '--worker-tmp-dir', os.path.dirname(listen), 'django_app',
                    env=env)
    return Part('uwsgi_python3', '--master', '--need-app', '--processes', 4, '--max-requests', RECYCLED, '--http-socket', listen,
                '--min-worker-lifetime', 0, '--die-on-term', '--pythonpath', HERE, '--module', 'django_app', '--disable-logging',
                '--reload-mercy', 5, env=env)


def get(listen, path):
    """The body, or None: the worker was killed, or none answers yet."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(300)
        try:
            s.connect(listen)
            s.sendall(f'GET {path} HTTP/1.0\r\nHost: shop\r\n\r\n'.encode())
            answer = b''.join(iter(lambda: s.recv(65536), b''))
        except OSError:
            return None
    head, _, body = answer.partition(b'\r\n\r\n')
    return body.decode() or None if head.split(b' ')[1:2] == [b'200'] else None


def noted(folder):
    """(updates begun, updates done, workers)"""
    out = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), 'rb') as f:
            out.append(struct.unpack('<QQ', f.read(16).ljust(16, b'\0')))
    return sum(b for b, _ in out), sum(d for _, d in out), len(out)


class Load:
    """Clients that ask until there were this number of answers."""

    def __init__(self, listen, requests):
        self.listen, self.left, self.lock, self.pids = listen, requests, threading.Lock(), []
        self.threads = [threading.Thread(target=self.ask, daemon=True) for _ in range(4)]
        for t in self.threads:
            t.start()

    def ask(self):
        while self.left > 0:
            pid = get(self.listen, f'/hit/{random.choice(ROUTES)}')
            if pid is None:
                time.sleep(0.02)
                continue
            with self.lock:
                self.left -= 1
                self.pids = [*self.pids[-100:], int(pid)]

    def over(self):
        return not any(t.is_alive() for t in self.threads)


def parts(text):
    """{(TYPE or HELP, name): what it says} of the shop's metrics."""
    return {tuple(line.split(' ', 3)[1:3]): line.split(' ', 3)[3] for line in text.splitlines()
            if line.startswith(('# HELP shop_', '# TYPE shop_')) and '_created' not in line}


def workers_of(server):
    with open(f'/proc/{server.pid}/task/{server.pid}/children') as f:
        return [pid for pid in map(int, f.read().split()) if alive(pid)]


def scraping(stack, jobs):
    if available():
        return stack.enter_context(Prometheus(jobs))
    print('SKIP: no prometheus: install the package prometheus')
    return None


def main(stack):
    if run(PYTHON, '-c', 'import django, prometheus_client', code=None).returncode:
        skip('no python3-django or python3-prometheus-client')
    if not shutil.which('uwsgi_python3') if SERVER == 'uwsgi' else run(PYTHON, '-c', 'import gunicorn', code=None).returncode:
        skip(f'no {SERVER}')
    agent, folder, notes = Agent(), workdir(), workdir()
    collector = Collector([agent], '--sum-processes', '--period', '50ms')
    jobs = {'sidelight': (collector.address, '/metrics')}
    prometheus = scraping(stack, jobs)
    listen = f'{folder}/shop.sock'
    env = {**installed(PYTHON, PACKAGES, BACKEND), 'SIDELIGHT': '1', 'SIDELIGHT_SERVICE': 'shop', 'NOTES': notes,
           'SIDELIGHT_SOCKET': agent.socket, 'SIDELIGHT_COLLECT_SECONDS': '0.02'}
    server = serve(listen, env)
    wait_until(lambda: get(listen, '/hit/first'), 'an answer', server)
    if prometheus:  # a quick machine would be done before it scrapes twice
        prometheus.eventually(lambda: prometheus.query('shop_requests_total'), 'a first scrape')
    load, killed = Load(listen, REQUESTS), 0
    for i in range(KILLS):
        wait_until(lambda: load.left < REQUESTS * (KILLS - i) / (KILLS + 1), 'answers', server, seconds=300)
        live = [pid for pid in set(load.pids[-8:]) if os.path.exists(f'/proc/{pid}')]
        time.sleep(random.random() / 50)
        if live:
            os.kill(random.choice(live), signal.SIGKILL)
            killed += 1
    wait_until(load.over, 'the end of the load', server, seconds=300)
    begun, done, workers = noted(notes)
    check(killed and done >= REQUESTS and begun - done <= killed, f'{begun} updates begun, {done} done, {killed} killed')
    check(workers > 4 + KILLS, f'{workers} workers: none was recycled')

    def totals():
        return [collector.total(n) for n in ('shop_requests_total', 'shop_seconds_count')]
    wait_until(lambda: all(done <= t <= begun for t in totals()), lambda: f'{totals()}, not {done} to {begun}', collector, server)
    text = wait_until(lambda: get(listen, '/metrics'), 'the client\'s own page', server)
    check(parts(text), text)
    # A gauge of those that live is there once a worker of these has it.
    wait_until(lambda: parts(text).items() <= parts(collector.get('/metrics')).items(), lambda: f'{parts(text)}', collector, server)
    wait_until(lambda: len(collector.find('shop_requests_total')) == len(ROUTES) + 1, collector.find('shop_requests_total'))
    # Dead workers take no memory in the end, but remain in the sum.
    wait_until(lambda: len(collector.find('shop_working')) == 1 and collector.total('shop_working') == 0, 'the gauge', collector)
    check(all(done <= t <= begun for t in totals()), f'{totals()}, later, not {done} to {begun}')
    if prometheus:
        def stored():
            return [v for name in ('shop_requests_total', 'shop_seconds_count') for _, v in prometheus.query(f'sum({name})')]
        prometheus.eventually(lambda: len(stored()) == 2 and all(done <= t <= begun for t in stored()),
                              lambda: f'{stored()} in Prometheus, not {done} to {begun}')
        check(prometheus.scalar('max(resets({__name__=~"shop_requests_total|shop_seconds_count"}[1h]))') == 0, 'a reset')
        check(prometheus.scalar('max(count_over_time(shop_requests_total[1h]))') > 1, 'it did not scrape meanwhile')
    print(f'{totals()[0]:.0f} of {done} to {begun}, by {workers} workers, {killed} of them killed')
    # uwsgi waits for ever for a worker that it still replaces when it is told to end.
    wait_until(lambda: len(workers_of(server)) >= 4, 'the workers', server)
    check(server.stop() in (0, -15), 'an exit status', server)
    check(collector.stop() == 0 and agent.stop() == 0, 'an exit status', collector, agent)


with contextlib.ExitStack() as whole:
    main(whole)
