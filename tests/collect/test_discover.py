#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_discover.py SIDELIGHT - hosts by files, DNS and the Kubernetes API (a server of the test; the real one: deploy/kube),
and shared by collectors of which each reads a shard."""
import contextlib
import http.server
import json
import os
import re
import socket
import struct
import sys
import threading
import time
import urllib.parse

from support.process import case, check, run, run_cases, wait_until, workdir
from support.sidelight import Agent, Collector

EXE = sys.argv[1]
HOSTS = 6


def write(path, text):
    """Replaces the file as a whole, as programs that write such files do."""
    with open(path + '.new', 'w') as f:
        f.write(text)
    os.rename(path + '.new', path)


def up(c):
    return {h['target'] for h in c.api('hosts')['hosts'] if h['condition'] == 'up'}


def state(c, name, which):
    return c.total(f'sidelight_discover_{name}', f'state="{which}"')


@case
def a_file_adds_and_removes_hosts_and_garbage_changes_nothing():
    path = f'{workdir()}/hosts.yml'
    with Agent() as a, Agent() as b:
        write(path, json.dumps([{'targets': [a.socket], 'labels': {'zone': 'eu'}}]))
        with Collector([], '--discover', f'file:{path}', '--discover-every', '200ms') as c:
            wait_until(lambda: up(c) == {a.socket}, 'the first host', c)
            # One is named twice, now and when the file is read again.
            write(path, f'- targets: ["{a.socket}", {b.socket}, {b.socket}]\n')
            wait_until(lambda: up(c) == {a.socket, b.socket}, 'the second one', c)
            write(path, f'- targets: ["{b.socket}", {b.socket}, {b.socket}, {a.socket}, {a.socket}]\n')
            time.sleep(1)
            check(up(c) == {a.socket, b.socket}, up(c), c)
            for bad in ('', '[]', '{"targets": 1}', '- targets: [', '- {targets: [""]}', '- {hosts: [x]}', '\0\1\2'):
                errors = c.total('sidelight_discover_errors_total')
                write(path, bad)
                wait_until(lambda: c.total('sidelight_discover_errors_total') > errors, f'{bad!r} is counted', c)
                check(up(c) == {a.socket, b.socket}, f'{bad!r} changed hosts', up(c), c)
            check('keeping its hosts' in c.logged(), c)
            write(path, f'- targets: ["{b.socket}"]\n')
            wait_until(lambda: up(c) == {b.socket}, 'the first one is let go', c)
            write(path, f'- targets: ["{a.socket}"]\n')
            wait_until(lambda: up(c) == {a.socket}, 'and comes back', c)


class Kube(http.server.BaseHTTPRequestHandler):
    """Answers in pages, as the API server does: a page's token is where it begins. 410: it is too old."""
    pods, asked, endless, old = [], [], False, False

    def do_GET(self):
        Kube.asked.append((self.path, self.headers.get('Authorization')))
        if self.headers.get('Authorization') != 'Bearer a-token':
            self.send_error(401)
            return
        q = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        begin = int(q.get('continue', ['at=0'])[0].removeprefix('at='))
        end = begin + int(q['limit'][0])
        if begin and Kube.old:
            self.send_error(410)
            return
        body = json.dumps({'kind': 'PodList', 'metadata': {'continue': f'at={end}'} if Kube.endless or end < len(Kube.pods) else {},
                           'items': [{'status': {'podIP': ip, 'conditions': [{'type': 'Ready', 'status': str(ready)}]}}
                                     for ip, ready in Kube.pods[begin:end]]}).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@case
def pods_of_kubernetes_are_hosts_while_they_are_ready():
    account = workdir()
    write(f'{account}/token', 'a-token\n')
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Kube)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Kube.pods = [('127.0.0.2', True), ('127.0.0.3', False), ('127.0.0.4', True)]
    try:
        with Collector([], '--discover', 'kube:telemetry/app=sidelight,tier in (agent):18515', '--kube-api',
                       f'http://127.0.0.1:{server.server_port}', '--kube-account', account,
                       '--discover-every', '200ms', '--max-hosts', '2000') as c:
            def known():
                return {h['target'] for h in c.api('hosts')['hosts']}
            wait_until(lambda: known() == {'127.0.0.2:18515', '127.0.0.4:18515'}, 'ready pods', c)
            check(Kube.asked[0][0] ==
                  '/api/v1/namespaces/telemetry/pods?limit=500&labelSelector=app%3Dsidelight%2Ctier%20in%20%28agent%29', Kube.asked[0])
            Kube.pods = [('127.0.0.3', True)]
            wait_until(lambda: known() == {'127.0.0.3:18515'}, 'others are ready', c)
            write(f'{account}/token', 'wrong')
            wait_until(lambda: c.total('sidelight_discover_errors_total') > 0, 'a refusal is counted', c)
            check(known() == {'127.0.0.3:18515'}, known())
            check('HTTP 401' in c.logged() and 'a-token' not in c.logged(), c)
            for line, change in (('HTTP 410', lambda: setattr(Kube, 'old', True)),
                                 ('the list of pods has too many pages', lambda: (setattr(Kube, 'endless', True), setattr(Kube, 'old', False)))):
                Kube.pods = [(f'127.1.{i >> 8}.{i & 255}', True) for i in range(1201)]
                change()
                write(f'{account}/token', 'a-token')
                wait_until(lambda: line in c.logged(), line, c)
                check(known() == {'127.0.0.3:18515'}, f'half of a list is none: {line}', len(known()))
            Kube.endless = False
            wait_until(lambda: len(known()) == 1201, 'all pages', c)
            os.unlink(f'{account}/token')
            wait_until(lambda: f'cannot read the secret in {account}/token' in c.logged(), 'no token', c)
            check(len(known()) == 1201, 'hosts stay', c)
    finally:
        Kube.endless = Kube.old = False
        server.shutdown()
        server.server_close()


def dns(server, names):
    """Answers SRV questions by RFC 1035 and 2782: names[0] is a list of (host, port)."""
    while True:
        try:
            q, at = server.recvfrom(4096)
        except OSError:
            return
        end = 12
        while q[end]:
            end += q[end] + 1
        end += 5
        answers = b''
        for host, port in names[0]:
            rd = struct.pack('>HHH', 1, 1, port) + b''.join(bytes([len(w)]) + w.encode() for w in host.split('.')) + b'\0'
            answers += b'\xc0\x0c' + struct.pack('>HHIH', 33, 1, 1, len(rd)) + rd
        server.sendto(q[:2] + struct.pack('>HHHHH', 0x8180, 1, len(names[0]), 0, 0) + q[12:end] + answers, at)


@case
def services_of_dns_are_hosts():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(('127.0.0.1', 0))
    names = [[('one.example', 18515), ('two.example', 18516)]]
    threading.Thread(target=dns, args=(server, names), daemon=True).start()
    try:
        with Collector([], '--discover', 'dns:_sidelight._tcp.example.', '--dns-server',
                       f'127.0.0.1:{server.getsockname()[1]}', '--discover-every', '200ms') as c:
            def known():
                return {h['target'] for h in c.api('hosts')['hosts']}
            wait_until(lambda: known() == {'one.example:18515', 'two.example:18516'}, known, c)
            names[0] = []
            wait_until(lambda: c.total('sidelight_discover_errors_total') > 0, 'no answer is counted', c)
            check(len(known()) == 2, known())
    finally:
        server.close()


def shares(c):
    """{number of shards: hosts that it reads}: one of them, and with a label of its own."""
    found = c.find('sidelight_discover_hosts', 'state="read"')
    return {int(re.search('shards="([0-9]+)"', k)[1]): v for k, v in found.items()}


@case
def each_host_that_is_known_is_read_as_often_as_replicas_say():
    hosts = [f'/nowhere/{k}' for k in range(24)]
    for n, replicas in ((1, 1), (3, 1), (3, 2)):
        with contextlib.ExitStack() as stack:
            parts = [stack.enter_context(Collector([], '--discover', ','.join(hosts), '--shard', f'{i}/{n}',
                                                   '--replicas', replicas)) for i in range(n)]
            wait_until(lambda: all(state(c, 'hosts', 'known') == 24 for c in parts), 'all are known', *parts)
            readers = [h['target'] for c in parts for h in c.api('hosts')['hosts']]
            check(sorted(readers) == sorted(hosts * replicas), n, replicas, readers)
            check(all(shares(c) == {n: len(c.api('hosts')['hosts'])} for c in parts), [shares(c) for c in parts])
            check(all(c.total('sidelight_discover_replicas') == replicas for c in parts), *parts)


@case
def lists_that_differ_show():
    """Each listed host is read by its owner. If lists differ, either the number of hosts read or the hash of the list shows
    it."""
    def seen(*lists):
        with contextlib.ExitStack() as stack:
            parts = [stack.enter_context(Collector([], '--discover', ','.join(f'/nowhere/{k}' for k in known), '--shard', f'{i}/2'))
                     for i, known in enumerate(lists)]
            return (sum(sum(shares(c).values()) for c in parts), max(state(c, 'hosts', 'known') for c in parts),
                    len({c.total('sidelight_discover_list_hash', 'shards="2"') for c in parts}))
    check(seen((1, 2, 3, 4), (4, 3, 2, 1)) == (4, 4, 1), 'equal lists in another order')
    read, _, hashes = seen((1, 2), (3, 4))
    check(hashes == 2, 'lists of other hosts', read)
    read, known, hashes = seen((1, 2, 3, 4), (1, 2))
    check(known == 4 and hashes == 2, 'a shorter list', read)


@case
def the_number_of_shards_changes_without_a_restart():
    folder = workdir()
    with contextlib.ExitStack() as stack:
        agents = [stack.enter_context(Agent()) for _ in range(HOSTS)]
        sockets = {a.socket for a in agents}

        def collect(i):
            return stack.enter_context(Collector([], '--discover', ','.join(sockets), '--shard', f'file:{folder}/shards',
                                                 '--discover-every', '200ms', env={'POD_NAME': f'collector-{i}'}))

        def await_shared(n, parts):
            wait_until(lambda: sorted(h for c in parts for h in up(c)) == sorted(sockets) and
                       all(list(shares(c)) == [n] for c in parts), lambda: [up(c) for c in parts], *parts)
        write(f'{folder}/shards', 'auto/2\n')
        parts = [collect(i) for i in range(2)]
        await_shared(2, parts)
        for bad in ('auto/0', 'auto/1x', '', 'auto/1'):  # the last is right, but for the first collector alone
            errors = parts[1].total('sidelight_discover_errors_total')
            write(f'{folder}/shards', bad)
            wait_until(lambda: parts[1].total('sidelight_discover_errors_total') > errors + 1, f'{bad!r} is counted', parts[1])
            check(list(shares(parts[1])) == [2], f'{bad!r} changes nothing', parts[1])
        check(parts[1].logged().count('cannot read --shard again, keeping shard 1/2') == 1, 'one line', parts[1])
        await_shared(1, parts[:1])
        write(f'{folder}/shards', 'auto/3\n')
        parts.append(collect(2))
        await_shared(3, parts)
        check('the shard is now 1/3 instead of 1/2' in parts[1].logged(), parts[1])


@case
def what_cannot_work_is_one_clear_line():
    for words, line in ((['--discover', ''], 'is not file:PATH'), (['--discover', 'kube:x'], 'is not file:PATH'),
                        (['--agent', 'a', '--shard', '0/1'], '--shard needs --discover'),
                        (['--discover', 'a', '--replicas', '2'], '--replicas needs --shard'),
                        (['--discover', 'a', '--shard', '0/2', '--replicas', '3'], '--replicas 3 requires at least as many shards, not 2'),
                        *((['--discover', 'a', '--shard', bad], 'is not I/N, auto/N or file:PATH') for bad in ('', '1', 'x/2', '/etc')),
                        (['--discover', 'a', '--shard', '2/2'], 'shards are numbered from 0 to 1')):
        p = run(EXE, 'collect', *words, code=2)
        check(line in p.stderr, words, p.stderr)


if __name__ == '__main__':
    run_cases()
