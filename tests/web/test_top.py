#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_top.py SIDELIGHT PUBLISHER - 'sidelight top' over a real collector, at a pseudo terminal and for scripts; and over
one that lies."""
import http.server
import json
import os
import re
import signal
import sys
import threading

from support.process import check, run, wait_until, workdir
from support.screen import Screen
from support.sidelight import Agent, Collector
from system import CheckedPod, System

EXE, PUBLISHER = sys.argv[1:3]
PLAIN = {'LC_ALL': 'C', 'NO_COLOR': ''}


def top(*args, code=0, **kw):
    return run(EXE, 'top', *args, code=code, seconds=60, **kw)


def rows(frame):
    """Returns the names of the services in a table, in order."""
    head = next((i for i, line in enumerate(frame) if line.startswith('SERVICE')), None)
    names = [] if head is None else [line.split()[0] for line in frame[head + 1:] if re.match(r'\S+ +\d+/\d+ ', line)]
    return names


def services(system):
    return {s['service']: s for s in json.loads(top('--once', '--json', system.listen).stdout)['services']}


def busy(system, pods):
    """Until the figures of both pods are known."""
    def known():
        for i, pod in enumerate(pods):
            pod.tell('add', 10 * (i + 1))
            pod.tell('observe', 0.001 * (i + 1))
        found = services(system)
        return all(n in found and (found[n]['requests'] or {}).get('per_second') and found[n]['latency'] and
                   found[n]['latency']['p50_seconds'] for n in ('cart', 'mail')) and found
    return wait_until(known, lambda: services(system))


def scripts_get_a_table_or_json(system, pods):
    found = busy(system, pods)
    cart, mail = found['cart'], found['mail']
    check(cart['requests']['metric'] == 'test_requests_total' and cart['requests']['from'] == 'application', cart)
    check(mail['requests']['per_second'] > 1.2 * cart['requests']['per_second'] > 0, cart, mail)
    check(cart['requests']['error_ratio'] == 0 and cart['pods'] == cart['pods_live'] == 1, cart)
    check(cart['latency']['metric'] == 'test_latency_seconds', cart['latency'])
    check(0.0008 < cart['latency']['p50_seconds'] < 0.0012 < 0.0017 < mail['latency']['p50_seconds'] < 0.0023, found)
    check(len(cart['spark']) == 60 and cart['spark'][-1] is not None and cart['spark'][0] is None, cart['spark'])
    check(cart['changing'] > 0 and cart['unchanged'] > 0 and 'sidelight-agent' not in found, found)
    said = top('--once', '--sort', 'rate', f'http://{system.listen}/').stdout
    check(rows(said.splitlines()) == ['mail', 'cart'] and '\033' not in said, said)
    check(rows(top('--once', '--sort', 'name', system.listen).stdout.splitlines()) == ['cart', 'mail'])
    check(rows(top('--once', '--filter', 'AIL', system.listen).stdout.splitlines()) == ['mail'])
    status, answer = system.get('services?window=61')
    check(status == 400 and 'window=61' in answer['error'], answer)
    check(system.get('map?window=1&window=2')[0] == 400)
    status, answer = system.get('map')
    check(status == 200 and {n['service'] for n in answer['nodes']} == {'cart', 'mail'} and not answer['edges'], answer)


def what_is_wrong_is_one_line(system, _):
    for args, code, text in ((('127.0.0.1:1', '--once'), 1, '127.0.0.1:1: '), (('--sort', 'x'), 2, '--sort: expected attention'),
                             (('a/b', '--once'), 2, 'is not http://'), (('a', 'b'), 2, 'one collector'),
                             (('user@host', '--once'), 2, 'is not http://'),
                             ((system.listen, '--once', '--token-file', '/none'), 1, '/none')):
        said = top(*args, code=code)
        check(text in said.stderr and said.stderr.count('\n') == 1 and not said.stdout, args, said.stderr)
    # JSON is for programs, even on a terminal: end instead of showing the last answer.
    s = Screen(24, 80, EXE, 'top', '--json', '-i', '100ms', '127.0.0.1:1')
    s.end(1)
    check(b'127.0.0.1:1: ' in s.raw and b'\033' not in s.raw, s.raw)


def a_token_lets_it_read(system, _):
    secret = f'{workdir()}/token'
    with open(secret, 'w') as f:
        f.write('0123456789abcdef0123\n')
    os.chmod(secret, 0o600)
    c = Collector([system.agent], '--period', '10ms', '--reader-token-file', secret)
    check('--token-file' in top('--once', c.address, code=1).stderr)
    check('services' in json.loads(top('--once', '--json', '--token-file', secret, c.address).stdout))
    check(c.stop() == 0)


def keys_do_what_the_screen_says(system, pods):
    busy(system, pods)
    s = Screen(24, 80, EXE, 'top', '-i', '100ms', system.listen, env=PLAIN)
    frame = s.wait(lambda f: len(rows(f)) == 2, 'both services')
    check('by attention;' in frame[0] and 'P99' in ' '.join(frame) and 'WHY' in ' '.join(frame), frame)
    s.key(b'>')
    frame = s.next(lambda f: 'by name;' in f[0], 'by name')
    check(rows(frame) == ['cart', 'mail'], frame)
    check(any(re.match(r'[ _.=+*%#-]{10,} max \d', line) for line in frame), 'no plot', frame)
    s.key(b'\033[B')
    s.next(lambda f: any(line.startswith('mail: ') for line in f), 'the plot of mail')
    for key, name in ((b'\033[H', 'cart'), (b'\033[F', 'mail'), (b'\033[5~', 'cart'), (b'\033[6~', 'mail')):
        s.key(key)
        s.next(lambda f, name=name: any(line.startswith(f'{name}: ') for line in f), f'the plot of {name} after {key}')
    s.key(b'\r')
    frame = s.next(lambda f: any(line == 'mail' for line in f), 'the details of mail')
    check(any('test_requests_total' in line for line in frame) and any(line.startswith('series ') for line in frame), frame)
    check(not any('trying again' in line for line in frame) and any(line.startswith('Enter or Esc: back') for line in frame), frame)
    s.key(b'\033')
    frame = s.next(lambda f: len(rows(f)) == 2, 'the table again')
    check('(lost)' not in frame[0], frame)
    s.key(b'/qar')
    s.next(lambda f: any('filter: qar_' in line for line in f) and not rows(f), 'q is text while one types')
    s.key(b'\x7f\x7f\x7fcar\r')
    s.next(lambda f: rows(f) == ['cart'], 'the filter')
    s.key(b'\033')
    s.next(lambda f: len(rows(f)) == 2, 'no filter')
    s.key(b'?')
    s.next(lambda f: any(line.startswith('Enter ') for line in f) and not rows(f), 'the help')
    s.key(b'x ')
    s.next(lambda f: 'PAUSED' in f[0] and len(rows(f)) == 2, 'a pause')
    s.key(b' ')
    s.next(lambda f: 'PAUSED' not in f[0] and len(rows(f)) == 2, 'no pause')
    s.resize(7, 50)
    s.next(lambda f: max(map(len, f)) <= 50 and len(f) <= 6 and rows(f), 'a small frame')
    s.resize(50, 200)
    s.next(lambda f: 'RTX/s' in ' '.join(f), 'a large frame')
    s.key(b'q')
    s.end()
    check(s.raw.isascii() and b'\033[1;31m' not in s.raw, 'not plain')


# Runs a command like a shell: in a process group of its own, whose parent may continue it. Other process groups cannot be
# stopped.
SHELL = '''import os, sys
pid = os.fork()
if not pid:
    os.setpgid(0, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
try:
    os.setpgid(pid, pid)
except PermissionError:
    pass  # it has done so itself
os.tcsetpgrp(0, pid)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
'''


def state_of(pid):
    with open(f'/proc/{pid}/stat') as f:
        return f.read().rpartition(')')[2].split()[0]


def the_terminal_is_restored_however_it_ends(system, _):
    for how, code in ((b'\x03', 0), (signal.SIGTERM, 0), (signal.SIGSEGV, -signal.SIGSEGV)):
        s = Screen(24, 80, EXE, 'top', '-i', '100ms', system.listen)
        s.wait(lambda f: len(rows(f)) == 2, 'both services')
        check(s.modes() != s.before)
        if how == b'\x03':
            s.key(how)
        else:
            s.p.send_signal(how)
        s.end(code)
    s = Screen(24, 80, sys.executable, '-c', SHELL, EXE, 'top', '-i', '100ms', system.listen, env={'LC_ALL': 'C.UTF-8'})
    for _ in range(2):
        s.wait(lambda f: len(rows(f)) == 2, 'both services')
        check(any(c in s.text() for c in '▁█'), 'no blocks in UTF-8')
        with open(f'/proc/{s.p.pid}/task/{s.p.pid}/children') as f:
            pid = int(f.read())
        wait_until(lambda: s.modes() != s.before, 'it takes keys')
        s.key(b'\x1a')  # Ctrl-Z
        wait_until(lambda: state_of(pid) == 'T', 'it stops')
        check(s.modes() == s.before, 'the terminal of a stopped process')
        os.kill(pid, signal.SIGCONT)
        s.next(lambda f: len(rows(f)) == 2, 'it goes on')
    s.key(b'q')
    s.end()


def a_collector_may_go_and_come_back(system, _):
    s = Screen(24, 80, EXE, 'top', '-i', '100ms', system.listen)
    s.wait(lambda f: len(rows(f)) == 2, 'both services')
    system.collector.kill()
    frame = s.next(lambda f: any('trying again' in line for line in f), 'it says that')
    check(len(rows(frame)) == 2, 'the last answer stays', frame)
    s.key(b'>')
    s.next(lambda f: 'by name;' in f[0], 'keys work meanwhile')
    system.start_collector()
    s.next(lambda f: 'trying again' not in ' '.join(f) and len(rows(f)) == 2, 'it is back')
    s.key(b'q')
    s.end()


EVIL = '\033]0;owned\007\033[2J\x9b31m\u202eevil\u0301\t\n' + '長' * 40
LIES = ({'services': [{'service': EVIL, 'namespace': EVIL, 'pods': -1, 'pods_live': 1e300, 'attention': 1e308,
                       'attention_why': EVIL * 20, 'hosts': [EVIL, 7, None], 'spark': [EVIL, None, 1e308, -5, True] * 200,
                       'requests': {'per_second': 1e308, 'error_ratio': -1e308, 'metric': EVIL}, 'latency': [],
                       'connections': {'open': '1', 'why': EVIL, 'rtt_seconds': 1e300},
                       'anomaly': {'sentence': EVIL, 'pod': EVIL, 'blame': [{'metric': EVIL, 'share': 1e300}, 3]}},
                      None, 3, [], {}, {'service': 5, 'spark': {}}]},
        {'services': {}}, {'services': None}, [], 'text', None, {'error': EVIL})


class Liar(http.server.BaseHTTPRequestHandler):
    lie = LIES[0]

    def do_GET(self):
        body = json.dumps(Liar.lie).encode() if Liar.lie is not None else b'{"services": [' + b'[' * 5000
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def what_is_not_known_is_not_made_up(_system, _pods):
    """The kernel's request rate has no history, and without --analyse it is not known whether all is as usual."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Liar)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for requests, text in ((None, 'db: the request rate is unknown'),
                           ({'per_second': 50, 'from': 'kernel'}, 'db: no history of the request rate')):
        Liar.lie = {'services': [{'service': 'db', 'spark': [None] * 60, 'requests': requests, 'attention_why': ''}]}
        s = Screen(24, 80, EXE, 'top', '-i', '100ms', f'127.0.0.1:{server.server_port}')
        frame = s.wait(lambda f: any(line.startswith('db: ') for line in f), 'the row')
        check(text in frame and 'db: nothing needs attention' in frame, frame)
        s.key(b'q')
        s.end()
    server.shutdown()
    server.server_close()


def what_a_collector_says_never_controls_the_terminal(_system, _pods):
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Liar)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f'127.0.0.1:{server.server_port}'
    for locale in ('C', 'C.UTF-8'):
        Liar.lie = LIES[0]
        said = top('--once', at, env={**os.environ, 'LC_ALL': locale}).stdout
        check(re.fullmatch(r'[\n -~]*', said) and 'evil' in said and said.count('\n') == 5, said)
        s = Screen(24, 80, EXE, 'top', '-i', '100ms', at, env={'LC_ALL': locale})
        s.wait(lambda f: 'evil' in ' '.join(f), 'the row')
        s.key(b'\r')
        s.next(lambda f: any(line.startswith('series') for line in f), 'the details')
        for lie in LIES[1:]:
            Liar.lie = lie
            s.next(lambda f: any('trying again' in line for line in f), lie)
        s.key(b'q')
        s.end()
    for lie in LIES[1:]:
        Liar.lie = lie
        said = top('--once', '--json', at, code=1)
        check(not said.stdout and re.fullmatch(r'[ -~]*\n', said.stderr), lie, said.stderr)
    server.shutdown()
    server.server_close()


system = System(PUBLISHER)
system.agent = Agent('--grace', '60s')
system.socket = system.agent.socket
system.start_collector()
pods = [CheckedPod(PUBLISHER, system.socket, n, f'{n}-0') for n in ('cart', 'mail')]
for test in (scripts_get_a_table_or_json, what_is_wrong_is_one_line, a_token_lets_it_read, keys_do_what_the_screen_says,
             the_terminal_is_restored_however_it_ends, what_is_not_known_is_not_made_up,
             what_a_collector_says_never_controls_the_terminal, a_collector_may_go_and_come_back):
    test(system, pods)
    print('ok', test.__name__, flush=True)
