#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What strangers do to a collector's HTTP: test_access.py SIDELIGHT CASE"""
import contextlib
import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from http.client import HTTPException
from urllib.error import HTTPError

from support.attacker import Attacker, ask_slowly, publish_long_names
from support.browser import Browser, NoBrowser
from support.front import front
from support.http import request, request_at
from support.process import KEEPS_FREED, SCALE, Part, case, check, run, run_cases, skip, wait_until, workdir
from support.sidelight import EXE, Agent, Collector

STORES = '''
listen: [{folder}/dta.sock]
tenants: [{{number: 0, name: default}}]
stores:
  - {{name: flows, number: 1, kind: key-write, seed: 1, slots: 20000, value: 8, copies: 4, epochs: 1}}
  - {{name: bytes, number: 2, kind: increment, rows: 4, columns: 1000, epochs: 2}}
'''
JSON = {'Content-Type': 'application/json'}
RESIZE = ('PUT', '/api/v1/dta/stores/flows', b'{"slots": 30000}')
ROTATE = ('POST', '/api/v1/dta/stores/bytes/rotate', None)
RELOAD = ('POST', '/api/v1/dta/reload', None)
TOKEN = '0123456789abcdef0123456789abcdef'
OTHER = 'fedcba9876543210fedcba9876543210'


class Stores(Part):
    """A collector with two stores, whose runtime directory is a folder of its own."""

    def __init__(self, *options, listen='127.0.0.1:0', stores=STORES):
        self.folder = workdir()
        self.file = f'{self.folder}/stores.yaml'
        self.write(stores)
        super().__init__(EXE, 'collect', '--dta', self.file, '--listen', listen, *options,
                         env={'RUNTIME_DIRECTORY': self.folder, 'XDG_RUNTIME_DIR': ''})
        self.at = self.ready()['listen'].removeprefix('http://').replace('0.0.0.0', '127.0.0.1')

    def write(self, stores):
        with open(self.file, 'w') as f:
            f.write(stores.format(folder=self.folder))

    def ask(self, method, path, body=None, **headers):
        """(status, answer)"""
        headers = {k.replace('_', '-'): v for k, v in headers.items()}
        status, _, answer = request(f'http://{self.at}{path}', method, body, headers)
        return status, answer.decode(errors='replace')

    def store(self, name):
        """Returns the status of this store. The request has the token of this machine's user, in case one is needed."""
        j = json.loads(self.ask('GET', '/api/v1/dta', Authorization=f'Bearer {TOKEN}')[1])
        return next(s for s in j['stores'] if s['name'] == name)

    def raw(self, text, source=None):
        """Returns what the server answers until it closes the connection, or until the body ends with a brace or a newline."""
        host, port = self.at.rsplit(':', 1)
        with socket.create_connection((host, int(port)), 20, source) as s:
            s.sendall(text)
            got = b''
            s.settimeout(300)
            while b'\r\n\r\n' not in got or not got.endswith(b'}') and not got.endswith(b'\n'):
                part = s.recv(65536)
                if not part:
                    break
                got += part
            return got.decode(errors='replace')


def token_file(token=TOKEN):
    path = f'{workdir()}/token'
    with open(path, 'w') as f:
        f.write(token + '\n')
    os.chmod(path, 0o600)
    return path


def query(c, *words, code=0):
    return run(EXE, 'query', *words, '-c', c.at, code=code,
               env={**os.environ, 'RUNTIME_DIRECTORY': c.folder, 'XDG_RUNTIME_DIR': ''})


@case
def state_changes_need_a_token():
    with Stores() as c:
        for method, path, body in (RESIZE, ROTATE, RELOAD):
            before = c.store('flows'), c.store('bytes')
            status, answer = c.ask(method, path, body, **(JSON if body else {}))
            check(status == 401, f'{method} {path} without a token: {status} {answer}', c)
            status, _ = c.ask(method, path, body, Authorization=f'Bearer {OTHER}', **(JSON if body else {}))
            check(status == 401, f'{method} {path} with a wrong token: {status}', c)
            after = c.store('flows'), c.store('bytes')
            for b, a in zip(before, after):
                check((b['epoch'], b['objects'][-1]['slots']) == (a['epoch'], a['objects'][-1]['slots']), f'{b} became {a}', c)
        said = c.ask('GET', '/metrics')[1]
        check('sidelight_collector_http_refused_total{cause="token"} 6' in said, 'refusals are not counted', c)
    with Stores('--admin-token-file', token_file()) as c:
        for method, path, body in (RESIZE, ROTATE, RELOAD):
            status, answer = c.ask(method, path, body, Authorization=f'Bearer {TOKEN}', **(JSON if body else {}))
            check(status == 200, f'{method} {path}: {status} {answer}', c)
    with Stores('--admin-token-file', token_file(), '--reader-token-file', token_file(OTHER)) as c:
        check(c.ask('GET', '/metrics')[0] == 401, 'a reader without its token', c)
        check(c.ask('GET', '/metrics', Authorization=f'Bearer {OTHER}')[0] == 200, 'a reader', c)
        check(c.ask('GET', '/metrics', Authorization=f'Bearer {TOKEN}')[0] == 200, 'an admin reads', c)
        check(c.ask('GET', '/-/healthy')[0] == 200, 'health is public', c)
        status, _ = c.ask(*ROTATE, Authorization=f'Bearer {OTHER}')
        check(status == 403, f'a reader rotates: {status}', c)


@case
def refused_files_are_not_worth_a_retry():
    everywhere = STORES.replace('dta.sock]', 'dta.sock, "0.0.0.0:0"]')
    with Stores('--admin-token-file', token_file(), stores=everywhere + 'insecure_listen: true\n') as c:
        for stores, why in ((everywhere, 'reachable from other hosts'), ('stores: 7\n', 'stores')):
            c.write(stores)
            status, answer = c.ask(*RELOAD, Authorization=f'Bearer {TOKEN}')
            check(status == 400 and why in answer, f'{status} {answer}', c)


@case
def own_user_changes_stores_by_command():
    with Stores() as c:
        epoch = c.store('bytes')['epoch']
        query(c, 'rotate', 'bytes')
        wait_until(lambda: c.store('bytes')['epoch'] == epoch + 1, 'no rotation', c)
        query(c, 'resize', 'flows', '30000')
        query(c, 'reload')
        token = next(p for p in os.listdir(c.folder) if p.endswith('.token'))
        check(os.stat(f'{c.folder}/{token}').st_mode & 0o777 == 0o600, 'the mode of the token', c)
        said = query(c, 'rotate', 'flows', code=1).stderr
        check('one epoch' in said, said)
    check(not os.path.exists(f'{c.folder}/{token}'), 'the token outlives its collector')
    with Stores('--admin-token-file', token_file()) as c:
        said = query(c, 'rotate', 'bytes', code=1).stderr
        check('--token-file' in said, said)
        query(c, 'rotate', 'bytes', '--token-file', token_file())


@case
def pages_of_others_change_nothing():
    """The request that a browser sends for fetch(url, {method: "POST", mode: "no-cors"}), and the same with a guessed token."""
    with Stores() as c:
        before = c.store('bytes')['epoch']
        status, answer = c.ask(*ROTATE, Origin='http://evil.example', Content_Type='text/plain;charset=UTF-8')
        check(status == 403 and c.store('bytes')['epoch'] == before, f'a page rotates: {status} {answer}', c)
    with Stores('--admin-token-file', token_file()) as c:
        before = c.store('bytes')['epoch']
        for origin in ('http://evil.example', 'null', f'https://{c.at}x', 'http://127.0.0.1:1'):
            for more in ({}, {'Authorization': f'Bearer {TOKEN}'}):
                status, answer = c.ask(*ROTATE, Origin=origin, **more)
                check(status == 403, f'{origin}: {status} {answer}', c)
        status, answer = c.ask('POST', '/api/v1/dta/query', b'{"store":"flows","keys":["u32:1"]}', Origin='http://evil.example',
                               **JSON)
        check(status == 403, f'a query from a page: {status} {answer}', c)
        status, answer = c.ask('POST', '/api/v1/dta/query', b'{"store":"flows","keys":["u32:1"]}', Content_Type='text/plain')
        check(status == 415, f'a body that no preflight asked for: {status} {answer}', c)
        check(c.store('bytes')['epoch'] == before, 'rotated', c)
        # The page of the collector itself.
        status, answer = c.ask('POST', '/api/v1/dta/query', b'{"store":"flows","keys":["u32:1"]}', Origin=f'http://{c.at}', **JSON)
        check(status == 200, f'the own page: {status} {answer}', c)
        status, answer = c.ask(*ROTATE, Origin=f'http://{c.at}', Authorization=f'Bearer {TOKEN}')
        check(status == 200, f'the own page: {status} {answer}', c)


@case
def foreign_host_names_read_nothing():
    """DNS rebinding: the page's own name leads to loopback, and the browser takes the answer for the page's."""
    with Stores() as c:
        for path in ('/metrics', '/api/v1/status', '/api/v1/dta', '/', '/-/healthy'):
            for host in ('evil.example', f'evil.example:{c.at.rsplit(":", 1)[1]}', 'localhost.evil.example', '127.0.0.1.evil.example'):
                status, answer = c.ask('GET', path, Host=host)
                check(status == 403, f'{host} reads {path}: {status}', c)
        for host in ('localhost', 'LOCALHOST:9464', '127.0.0.1', '[::1]:80', '10.1.2.3:9464'):
            check(c.ask('GET', '/metrics', Host=host)[0] == 200, f'{host} is refused', c)
    with Stores('--allow-host', 'monitor.example') as c:
        check(c.ask('GET', '/metrics', Host='Monitor.Example:443')[0] == 200, 'the name that is allowed', c)
        check(c.ask('GET', '/metrics', Host='evil.example')[0] == 403, 'another name', c)
        body = b'{"store":"flows","keys":["u32:1"]}'
        for origin, expected in (('https://monitor.example', 200), ('https://monitor.example.evil.example', 403)):
            status, answer = c.ask('POST', '/api/v1/dta/query', body, Origin=origin, **JSON)
            check(status == expected, f'{origin}: {status} {answer}', c)


@case
def listening_widely_needs_a_choice():
    folder = workdir()
    with open(f'{folder}/stores.yaml', 'w') as f:
        f.write(STORES.format(folder=folder))
    for wide in ('0.0.0.0:0', '[::]:0'):
        try:
            p = subprocess.run([EXE, 'collect', '--dta', f'{folder}/stores.yaml', '--listen', wide], capture_output=True,
                               text=True, timeout=5)
        except subprocess.TimeoutExpired:
            check(False, f'--listen {wide} serves without a word')
        check(p.returncode == 2 and '--open' in p.stderr and '--reader-token-file' in p.stderr, f'{wide}: {p}')
    with Stores('--open', listen='0.0.0.0:0') as c:
        check(c.ask('GET', '/metrics')[0] == 200, 'open', c)
        check(any('WARN' in line and 'open' in line for line in c.err), 'no warning', c)
        check(c.ask(*ROTATE)[0] == 401, 'open for changes', c)
    with Stores('--reader-token-file', token_file(), '--insecure-listen', listen='0.0.0.0:0') as c:
        check(c.ask('GET', '/api/v1/status')[0] == 401, 'without the token', c)
        check(c.ask('GET', '/api/v1/status', Authorization=f'Bearer {TOKEN}')[0] == 200, 'with the token', c)
        check(c.ask('GET', '/')[0] == 200, 'the page, which asks for the token', c)


@case
def resize_stays_within_memory():
    """30e9 slots of 16 bytes are 480 GB: refused, with the bound, and nothing is allocated."""
    admin = {'Authorization': f'Bearer {TOKEN}', **JSON}
    with Stores('--admin-token-file', token_file()) as c:
        resident = c.resident_bytes()
        for slots in (30_000_000_000, 2**62, 2**63 - 1):
            status, answer = c.ask('PUT', RESIZE[1], json.dumps({'slots': slots}).encode(), **admin)
            check(status in (400, 507), f'{slots}: {status} {answer}', c)
        status, answer = c.ask('PUT', RESIZE[1], b'{"slots": 30000000000}', **admin)
        check(status == 507 and '--max-store-bytes' in answer, f'{status} {answer}', c)
        check(c.resident_bytes() < resident + (64 << 20), 'memory was taken', c)
        check(c.ask('GET', '/metrics')[0] == 200, 'it is dead', c)
    with Stores('--admin-token-file', token_file(), '--max-store-bytes', '4M') as c:
        status, answer = c.ask('PUT', RESIZE[1], b'{"slots": 1000000}', **admin)
        check(status == 507 and '--max-store-bytes' in answer, f'{status} {answer}', c)
        status, answer = c.ask('PUT', RESIZE[1], b'{"slots": 30000}', **admin)
        check(status == 200, f'{status} {answer}', c)
        # Older epochs count, too: 3.5 MiB more are over the bound.
        status, answer = c.ask('PUT', RESIZE[1], b'{"slots": 230000}', **admin)
        check(status == 507, f'{status} {answer}', c)


@case
def ambiguous_lengths_are_refused():
    """Two readers of one stream that end a body at different bytes: RFC 9112, 6.1 and 6.3."""
    body = '{"store":"flows","keys":["u32:1"]}'
    head = 'POST /api/v1/dta/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
    chunked = f'{len(body):x}\r\n{body}\r\n0\r\n\r\n'
    smuggled = 'GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    for name, text in {
            'TE and CL': f'{head}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n{chunked}{smuggled}',
            'CL and TE': f'{head}Content-Length: {len(chunked)}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}{smuggled}',
            'two CLs': f'{head}Content-Length: {len(body)}\r\nContent-Length: {len(body) + len(smuggled)}\r\n\r\n{body}{smuggled}',
            'two equal CLs': f'{head}Content-Length: {len(body)}\r\nContent-Length: {len(body)}\r\n\r\n{body}{smuggled}',
            'a list of CLs': f'{head}Content-Length: {len(body)}, {len(body)}\r\n\r\n{body}{smuggled}',
            'two TEs': f'{head}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n{chunked}{smuggled}',
            'another TE': f'{head}Transfer-Encoding: gzip, chunked\r\n\r\n{chunked}{smuggled}',
            'a signed CL': f'{head}Content-Length: +{len(body)}\r\n\r\n{body}{smuggled}',
            'CL with a space before the colon': f'{head}Content-Length : {len(body)}\r\n\r\n{body}{smuggled}',
            'TE with a space, and CL': f'{head}Transfer-Encoding : chunked\r\nContent-Length: {len(body)}\r\n\r\n{body}{smuggled}',
            'a folded TE': f'{head}Transfer-Encoding:\r\n chunked\r\nContent-Length: {len(body)}\r\n\r\n{body}{smuggled}',
            'a TE that is folded away': f'{head}X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: {len(body)}\r\n\r\n'
                                        f'{body}{smuggled}',
            'TE after a bare CR': f'{head}X: a\rTransfer-Encoding: chunked\r\nContent-Length: {len(body)}\r\n\r\n{body}{smuggled}',
            'TE after a bare LF': f'{head}X: a\nTransfer-Encoding: chunked\r\nContent-Length: {len(body)}\r\n\r\n{body}{smuggled}',
            'more than a port': f'GET /metrics HTTP/1.1\r\nHost: localhost:80@evil.example\r\n\r\n{smuggled}',
            'two hosts': f'GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n{smuggled}',
            'GET with both': 'GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n'
                             f'Content-Length: 4\r\n\r\n{chunked}{smuggled}'}.items():
        with Stores() as c:
            got = c.raw(text.encode())
            check(got.startswith('HTTP/1.1 400 '), f'{name}: {got[:200]!r}', c)
            check(' 200 OK' not in got and 'ok\n' not in got, f'{name}: the connection went on: {got[:600]!r}', c)
    # The line of a chunk may end at a bare LF or not (a proxy's next request would be in it), and trailers may hide a CL: bytes
    # after a chunked body are never taken for a request.
    n = f'{len(body):x}'
    with Stores() as c:
        for name, text in {'chunked alone': chunked, 'a bare LF': f'{n};a\n{body}\r\n0\r\n\r\n',
                           'LF alone': f'{n}\n{body}\n0\n\n',
                           'a trailer': f'{n}\r\n{body}\r\n0\r\nContent-Length: 5\r\n\r\n'}.items():
            got = c.raw(f'{head}Transfer-Encoding: chunked\r\n\r\n{text}{smuggled}'.encode())
            check(got.startswith('HTTP/1.1 200 ') and '\r\nConnection: close\r\n' in got, f'{name}: {got[:400]!r}', c)
            check(got.count('HTTP/1.1 ') == 1, f'{name}: the connection went on: {got[:600]!r}', c)


@case
def no_page_gets_leave_by_a_preflight():
    """CORS: no answer allows another origin, whatever the request asks for, and no token is taken from a URL."""
    with Stores('--reader-token-file', token_file(OTHER), '--admin-token-file', token_file()) as c:
        for method in ('OPTIONS', 'GET', 'PUT', 'POST', 'TRACE'):
            got = c.raw(f'{method} {RESIZE[1]} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n'
                        'Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: authorization\r\n'
                        'Access-Control-Request-Private-Network: true\r\nConnection: close\r\n\r\n'.encode())
            check(got[:12] in ('HTTP/1.1 401', 'HTTP/1.1 403', 'HTTP/1.1 405'), f'{method}: {got[:300]!r}', c)
            check('access-control' not in got.lower() and 'HTTP/1.1 2' not in got, f'{method}: {got[:600]!r}', c)
        for name in ('token', 'access_token', 'authorization', 'key'):
            status, _ = c.ask('GET', f'/api/v1/status?{name}={TOKEN}&{name}=Bearer%20{TOKEN}')
            check(status == 401, f'a token in the URL, as {name}: {status}', c)
        check(TOKEN not in ''.join(c.err), 'a token in the log', c)


SLOW = '''
import socket, sys, time
host, port, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = []
for i in range(n):
    s = socket.socket()
    if sys.argv[4] != "-":
        s.bind((sys.argv[4].replace("*", str(2 + i % 250)), 0))
    try:
        s.settimeout(300)
        s.connect((host, port))
        s.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nX: ")
    except OSError:
        pass
    held.append(s)
print("held", flush=True)
while len(sys.argv) > 5:  # a new one for each that was closed
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex((host, port))
    held.append(s)
    held.pop(0).close()
    time.sleep(0.001)
time.sleep(600)
'''


def slow(c, n, source, uid, *again):
    """n connections that never finish their request, by a process of another user, which may go on connecting."""
    host, port = c.at.rsplit(':', 1)
    argv = [sys.executable, '-c', SLOW, host, port, n, source, *again]
    p = Part('setpriv', '--reuid', uid, '--regid', uid, '--clear-groups', *argv)
    wait_until(lambda: p.out == ['held'], 'the slow connections', p)
    return p


@case
def slow_peers_refuse_no_scrape():
    """One user holds all connections, then one with many addresses: others are served at once."""
    if os.getuid():
        skip('only root may be another user')
    for source, again, scrapes in (('127.0.0.2', (), 20), ('127.0.0.*', (), 20), ('-', ('again',), 200)):
        with Stores('--max-connections', '256') as c:
            p = slow(c, 256, source, 65534, *again)
            for i in range(scrapes):
                try:
                    status, answer = c.ask('GET', '/metrics')
                except OSError as e:
                    check(False, f'scrape {i} beside 256 slow connections from {source}: {e}', c)
                check(status == 200, f'scrape {i}: {status}', c)
            p.kill()


@case
def answers_not_taken_refuse_no_other():
    """A user asks for more than all answers may hold, and takes none of it."""
    with Agent() as agent, Collector([agent], '--period', '20ms') as c:
        os.chmod(agent.folder, 0o755)
        held = []

        def attack():
            held.append(publish_long_names(agent, 10000, pods=2))
            wait_until(lambda: len(c.get('/api/v1/metrics?limit=10000')) > 1 << 20, 'a large answer', c)
            held.extend(ask_slowly(c.address, b'GET /api/v1/metrics?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n')
                        for _ in range(60))
            held[1].recv(1)
            time.sleep(1)
        with Attacker(attack):
            for i in range(20):
                try:
                    check(c.api('pods')['pods'], 'no pods', c)
                except HTTPError as e:
                    check(False, f'question {i}: {e}', c)


@case
def answers_not_taken_by_many_end():
    """A user with the subordinate uids of a rootless container: each holds an answer that it takes slowly."""
    with Agent() as agent, Collector([agent], '--period', '20ms', '--max-connections', '32') as c:
        os.chmod(agent.folder, 0o755)
        held = []

        def attack():
            held.append(publish_long_names(agent, 40000))
            wait_until(lambda: len(c.get('/metrics')) > 4 << 20, 'a large answer', c)

        def hold():
            s = ask_slowly(c.address, b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
            s.settimeout(300)
            held.append((s, s.recv(1)))

            def dawdle():  # an idle connection ends by itself
                while s.recv(4096):
                    time.sleep(2)
            threading.Thread(target=dawdle, daemon=True).start()

        def scraped():
            try:
                return c.get('/metrics')
            except (OSError, HTTPException):
                return None
        with Attacker(attack), contextlib.ExitStack() as all_of_them:
            for k in range(32):
                all_of_them.enter_context(Attacker(hold, uid=60000 + k))
            wait_until(scraped, 'a scrape', c)
            for i in range(10):
                check(scraped(), f'scrape {i}', c)
            check(c.total('sidelight_collector_http_refused_total', 'cause="evicted"') > 0, 'they ended by themselves', c)


CLONE_NEWNET = 0x40000000


@case
def many_addresses_refuse_no_scrape():
    """In a network of the test's own: strangers of one address, then of as many as there are connections."""
    if os.getuid() or ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        skip('no network namespace')
    run('ip', 'link', 'set', 'lo', 'up')
    run('ip', 'route', 'add', 'local', '10.9.0.0/16', 'dev', 'lo')
    for source in ('10.9.1.1', '10.9.1.*'):
        with Stores('--open', '--max-connections', '128', listen='10.9.0.1:0') as c:
            p = slow(c, 256, source, 65534)
            for i in range(20):
                for scraper in ('10.9.2.1', '10.9.2.2'):
                    got = c.raw(b'GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', (scraper, 0))
                    check(got.startswith('HTTP/1.1 200 '), f'{scraper}, {i}: {got[:200]!r}', c)
            p.kill()


@case
def two_hundred_scrapes_at_once_are_whole():
    with Agent() as agent, Collector([agent]) as c:
        wait_until(lambda: c.find('sidelight_host_up'), 'a host', c)
        together, answers = threading.Barrier(200), []

        def scrape():
            together.wait()
            answers.append(request(c.url + '/metrics', seconds=300))
        threads = [threading.Thread(target=scrape, daemon=True) for _ in range(200)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        check([status for status, *_ in answers] == [200] * 200, [status for status, *_ in answers], c)
        check(all(b'\nsidelight_host_up{' in body and body.endswith(b'\n') for *_, body in answers), 'one is not whole', c)


@case
def odd_requests_get_plain_answers():
    """10,000 headers, a thousand ranges, upgrades to HTTP/2 and to WebSocket, and HTTP/2 without asking."""
    def raw(c, data):
        host, port = c.address.rsplit(':', 1)
        with socket.create_connection((host, int(port)), 60) as s:
            answer = b''
            with contextlib.suppress(ConnectionError):
                s.sendall(data)
            with contextlib.suppress(ConnectionError):
                while piece := s.recv(65536):
                    answer += piece
        return answer

    def scrape(*lines):
        return '\r\n'.join(('GET /metrics HTTP/1.1', 'Host: localhost', 'Connection: close', *lines, '', '')).encode()
    ranges = ','.join(f'{i}-{i}' for i in range(0, 2000, 2))
    with Agent() as agent, Collector([agent]) as c:
        serves = front(c)
        for lines in ((f'Range: bytes={ranges}',),
                      ('Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__'),
                      ('Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==')):
            answer = raw(c, scrape(*lines))
            check(answer.startswith(b'HTTP/1.1 200 ') and b'\nsidelight_collector_rounds_total' in answer, lines, answer[:300], c)
            check(b'multipart' not in answer.split(b'\r\n\r\n')[0] and b'Upgrade:' not in answer.split(b'\r\n\r\n')[0], answer[:300], c)
        for data in (scrape(*(f'X-{i}: {i}' for i in range(10000))),
                     b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + bytes(9) * 1000):
            answer = raw(c, data)
            check(not answer or answer.startswith((b'HTTP/1.1 4', b'HTTP/1.0 4', b'HTTP/1.1 505', b'HTTP/1.0 505')), answer[:300], c)
            check(request(c.url + '/metrics')[0] == 200, 'the next one', c)
        check(front(c) == serves, 'another front', c)


@case
def port_scans_leave_nothing():
    """10,000 connections, to an address and to a path, that are closed, reset, left in the middle of a request, or left open."""
    def connect(at):
        s = socket.socket(socket.AF_UNIX if at.startswith('unix:') else socket.AF_INET)
        host, _, port = at.rpartition(':')
        s.connect(at.removeprefix('unix:') if at.startswith('unix:') else (host, int(port)))  # with a timeout, a full queue is an error
        s.settimeout(60)
        return s

    def scan(at, n, kinds=4):
        held = []
        for i in range(n):
            with contextlib.suppress(OSError):  # refused because too many are open
                s = connect(at)
                if i % kinds == 1:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
                elif i % kinds == 2:
                    s.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-')
                elif i % kinds == 3:
                    held.append(s)
                    continue
                s.close()
            if len(held) > 500:
                held.pop(0).close()

    def crowd(at):
        """More connections at once than it takes: it keeps the memory that it needs for the maximum."""
        with contextlib.ExitStack() as all_of_them:
            for _ in range(700):
                s = all_of_them.enter_context(connect(at))
                with contextlib.suppress(OSError):
                    s.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-')

    def size(pids):
        """(descriptors, resident bytes)"""
        total = [0, 0]
        for pid in pids:
            total[0] += len(os.listdir(f'/proc/{pid}/fd'))
            with open(f'/proc/{pid}/statm') as f:
                total[1] += int(f.read().split()[1]) * 4096
        return total

    for listen in ('127.0.0.1:0', f'unix:{workdir()}/http'):
        # The memory of twice as many connections, some of which are being closed, is less than what is allowed below.
        with Collector([f'{workdir()}/none.sock'], '--max-connections', '64', listen=listen) as c:
            pids = (c.pid, front(c))
            descriptors = size(pids)[0]
            # One thread of the front waits for an answer; afterwards it has hundreds of connections to serve, closed ones and
            # open ones.
            os.kill(c.pid, signal.SIGSTOP)
            with connect(c.address) as waits:
                waits.sendall(b'GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n')
                if listen.startswith('unix:'):  # others wait until the collector goes on
                    scan(c.address, 3000, kinds=3)
                scan(c.address, 3000)
                os.kill(c.pid, signal.SIGCONT)
                check(waits.recv(15) == b'HTTP/1.1 200 OK', 'it is answered', c)
            crowd(c.address)

            def grows():
                """Returns whether 5,000 more connections take more memory. Memory that is allocated only once counts only
                once."""
                resident = size(pids)[1]
                scan(c.address, int(5000 * SCALE))
                wait_until(lambda: size(pids)[0] <= descriptors, lambda: f'{descriptors} descriptors became {size(pids)[0]}', c)
                print(f'{resident} bytes became {size(pids)[1]}')
                return size(pids)[1] >= resident + (8 << 20)
            check(not all(grows() for _ in range(3)) or KEEPS_FREED, 'each scan costs memory', c)
            check(front(c) == pids[1], 'another front', c)
            check(request_at(c.address, 'GET', '/api/v1/status')[0] == 200, 'it answers', c)


@case
def page_asks_for_its_token():
    try:
        browser = Browser()
    except NoBrowser as why:
        skip(str(why))
    with Stores('--reader-token-file', token_file()) as c, browser:
        page = browser.page(f'http://{c.at}/')
        page.wait("!document.querySelector('#token').hidden", what='the question')
        for value, then in ((OTHER, 'hidden === false'), (TOKEN, 'hidden === true')):
            page.click('#token-value')
            page.type('#token-value', value)
            page.click('#token button')
            page.wait("document.querySelector('#token-value').value === ''", what='the form')
            page.wait(f"document.querySelector('#token').{then}", what=f'after {value}')
        page.wait("!document.querySelector('#tab-reports').hidden", what='the data')


run_cases()
