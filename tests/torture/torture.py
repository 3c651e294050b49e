#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torture.py SIDELIGHT FAIL APP PART [--all] [POINT...]

Every allocation and every system call of a part fails once. A first run with the preload library FAIL (fail.c) lists
the points, which are functions by their call site; then one run per point fails there. After it the part works: a
failure of one call costs at most that one attempt. Judged: no crash, no hang, no wrong count, no growth, and a line of
log from a part that gives up, which it may do before it is ready only.

A sample of the points is tried, as many as TORTURE_SECONDS allow; with --all, or an SL_TEST_SCALE above 1, all of them,
and calls that are interrupted, and the last call of each point as well as the first."""
import collections
import concurrent.futures
import errno
import http.client
import http.server
import itertools
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from support import region_reader
from support.http import get, request_at
from support.process import SCALE, Part, check, poll, skip, wait_until, workdir
from support.protocol import LIVE, STATUS, STATUS_IS, Client, Consumer, Refused, Region, consume
from support.sidelight import Agent

SIDELIGHT, FAIL, APP, PART, *ARGS = sys.argv[1:]  # a victim is the program that SIDELIGHT would execute
SECONDS = float(os.environ.get('TORTURE_SECONDS', '15'))
PATIENCE = 120  # time limit of each step; a retry is due within a second, and the machine may be busy
OURS = ('sidelight-agent', 'sidelight-collect', 'sidelight-translate', 'libsidelight', 'libjansson', 'libc')
LIBRARIES = ('libmicrohttpd', 'libcurl-gnutls', 'libyaml-0', 'libsystemd', 'libbpf', 'libibverbs', 'librdmacm')
# Functions that cannot fail, or whose failure makes a library call abort().
EXEMPT = {
    ('write', 'libmicrohttpd.so'): 'an eventfd of its own has room for a one',
    ('shutdown', 'libmicrohttpd.so'): 'a connected socket; the library waits for its end',
    ('fstat64', 'libsidelight.so'): 'one that fails is left open, as it may not be ours',
}
D = workdir()
names = itertools.count()


class Finding(Exception):
    """A forbidden result."""


class GaveUp(Exception):
    """It ended before it was ready, with an error message."""


class Victim(Part):
    """The part whose call fails."""

    def __init__(self, env, *argv, stdin=subprocess.DEVNULL):
        self.asked, self.steps = False, 0  # since it is ready
        super().__init__(*argv, env=env, stdin=stdin)

    def ended(self):
        code = self.wait(10)
        said = self.err
        if code < 0:
            raise Finding(f'crash: signal {signal.Signals(-code).name}', *said[-3:])
        if not self.asked and (code == 0 or self.steps):
            raise Finding(f'ended by itself: exit {code}', *said[-3:])
        if code not in (0, 1):
            raise Finding(f'exit {code}', *said[-3:])
        if code and not said:
            raise Finding(f'silent: exit {code}')
        if not self.asked:
            raise GaveUp(said[-1])
        if code:
            raise GaveUp('at the end: ' + said[-1])

    def until(self, condition, what):
        """The first true value of condition(), which may fail on the way."""
        def now():
            try:
                return condition()
            except (OSError, ValueError, KeyError, http.client.HTTPException, EOFError, AssertionError, Refused,
                    region_reader.Fault) as e:
                self.why = e
                return None
        self.why = ''
        value = poll(lambda: now() or self.p.poll() is not None, PATIENCE)
        if self.p.poll() is not None and not self.asked:
            self.ended()
        if not value:
            raise Finding(f'stuck: {what}', str(self.why), *self.err[-3:], *self.stacks())
        self.steps += 1
        return value

    def ready_now(self):
        def said():
            if any('ready' in line and 'standard output' in line for line in self.err):
                raise GaveUp('its line "ready" cannot be written')
            return next((line for line in list(self.out) if line.startswith('ready')), None)
        line = self.until(said, 'ready')
        self.steps = 0
        return dict(w.split('=', 1) for w in line.split() if '=' in w)

    def sockets(self):
        return sum(os.readlink(f'/proc/{self.pid}/fd/{n}').startswith('socket')
                   for n in os.listdir(f'/proc/{self.pid}/fd'))

    def stacks(self):
        """Prints the stacks of its threads, for debugging."""
        if not shutil.which('gdb') or '--stacks' not in ARGS:
            return []
        return subprocess.run(['gdb', '-p', str(self.pid), '-batch', '-ex', 'thread apply all bt 12'],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()

    def end(self, sig=signal.SIGTERM):
        self.asked = True
        if self.p.poll() is None and sig:
            self.p.send_signal(sig)
        try:
            self.p.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Finding('hang at the end', *self.err[-3:], *self.stacks()) from None
        self.ended()


# ---- what each part does ---------------------------------------------------------------------------------------------

def status(socket_path):
    """The agent's, as JSON."""
    c = Client(consume(socket_path))
    try:
        kind, payload, fd = c.ask(STATUS)
        check(kind == STATUS_IS, kind)
        with os.fdopen(fd, 'rb') as f:
            return json.loads(os.pread(f.fileno(), os.fstat(f.fileno()).st_size, 0).rstrip(b'\0'))
    finally:
        c.close()


class Library:
    """Publishes, attaches, counts in threads and a child, closes: valid metrics have all their counts."""

    def __init__(self):
        self.agent = Agent('--grace', '100ms', '--max-regions-per-uid', '1000')

    def attached(self, pid):
        return sum(r['pid'] == pid and r['state'] == 'live' for r in status(self.agent.socket)['regions'])

    def run(self, env):
        later = f'{D}/l{next(names)}'
        v = Victim({**env, 'FAIL_MODULE': 'libsidelight.so'}, APP, self.agent.socket, later, stdin=subprocess.PIPE)
        try:
            files = v.until(lambda: list(v.out) and v.out[0].startswith('counted') and v.out[0].split()[1:], 'counts')
            files = [f for f in map(int, files) if f >= 0]
            os.symlink(self.agent.socket, later)
            # Without its thread, the second publisher cannot be attached, and says so.
            v.until(lambda: self.attached(v.pid) + ('cannot start the attach thread' in v.logged()) >= len(files), 'is attached')
            v.p.stdin.write('?\n')
            v.p.stdin.flush()
            said = v.until(lambda: v.out[1:], 'compares')[0]
            if not said.startswith('exact'):
                raise Finding('lost counts: ' + said)
            for fd in files:
                for m in region_reader.read(f'/proc/{v.pid}/fd/{fd}')['metrics']:
                    value = m.get('value', m.get('count'))
                    if value != 2000:
                        raise Finding(f'lost counts: {m["name"]} is {value} in the region')
            if said != 'exact 0' and not v.err:
                raise Finding(f'silent: {said}')
            v.p.stdin.close()
            v.end(sig=None)
        finally:
            v.kill()
            os.unlink(later)


def connections_closed(v, sock, listening):
    """Waits until an agent has closed its connections. Returns how many sockets it says stay open for lack of memory."""
    leaked = 0

    def closed():
        nonlocal leaked
        leaked = status(sock)['counters']['descriptors_leaked']
        time.sleep(0.05)  # that connection, too; and it starts a thread for those that wait
        return v.sockets() <= listening + leaked
    v.until(closed, 'its connections are closed')
    return leaked


class OfAgent:
    """Admits a pod and a client of REST, shows its status, hands out memory, sees the pod die."""

    def run(self, env):
        d = f'{D}/a{next(names)}'
        os.mkdir(d)
        sock = f'{d}/agent.sock'
        v = Victim(env, f'{SIDELIGHT}-agent', '--socket', sock, '--grace', '100ms', '--lease', '50ms', '--rest',
                   f'unix:{d}/rest.sock')
        pod, region = None, Region()

        def publish():
            nonlocal pod
            pod = Client(sock)
            pod.publish(region)
            return True

        def live():
            c = Consumer(sock)
            try:
                entry = c.entry(region.instance)
                return entry and entry['state'] == LIVE and c.open(entry['id']).line(4096)[4] == LIVE
            finally:
                c.close()

        def freed():
            return status(sock)['counters']['freed'] >= 1 and not any(
                r['instance'] == f'{region.instance:016x}' for r in status(sock)['regions'])
        try:
            rest = v.ready_now()['rest']
            # If the start of a process for clients failed, it may be restarting now, with all of its sockets.
            v.until(lambda: request_at(rest, 'GET', '/metrics', seconds=10)[0] == 200, 'REST answers')
            time.sleep(0.2)
            listening = v.sockets()
            v.until(publish, 'the pod is admitted')
            v.until(lambda: request_at(rest, 'POST', '/metrics', json.dumps({
                'microservice_id': 'cart', 'name': 'jobs_total', 'type': 'counter', 'value': 3}).encode(),
                {'Content-Type': 'application/json'}, seconds=10)[0] in (200, 201), 'REST publishes')
            v.until(lambda: len(request_at(rest, 'GET', '/metrics', seconds=10)[1]['regions']) >= 2, 'REST lists')
            v.until(live, 'is read')
            pod.close()
            v.until(freed, 'the region is freed')
            # If a socket could not be closed for lack of memory, it remains, and is counted.
            leaked = connections_closed(v, sock, listening)
            v.end()
            if 'FAIL_AT' not in env and os.path.exists(sock):
                raise Finding('its socket is left')
            return leaked
        finally:
            v.kill()
            if pod:
                pod.close()
            region.close()
            shutil.rmtree(d)


class OfTables:
    """Publishes the kernel's tables, and takes its programs out of the kernel."""

    def __init__(self):
        if os.geteuid():
            skip('attaching eBPF programs needs root')

    def run(self, env):
        d = f'{D}/k{next(names)}'
        os.mkdir(d)
        sock = f'{d}/agent.sock'
        v = Victim(env, f'{SIDELIGHT}-agent', '--socket', sock, '--no-rest', '--tcp', 'flows,layers,cpu,net', '--tcp-flows',
                   '256', '--tcp-dev', 'lo')
        server = socket.create_server(('127.0.0.1', 0))
        try:
            v.ready_now()
            listening = v.sockets()
            client = socket.create_connection(server.getsockname())
            peer, _ = server.accept()
            client.send(b'?')
            peer.recv(1)

            v.until(lambda: len(status(sock)['regions']) >= 2, 'tables are published')
            client.close()
            peer.close()
            leaked = connections_closed(v, sock, listening)
            v.end()
            return leaked
        finally:
            v.kill()
            server.close()
            shutil.rmtree(d)


class Taker(http.server.BaseHTTPRequestHandler):
    """A receiver of everything that a collector sends."""

    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class OfCollector:
    """Reads one pod and another that appears later, answers scrapes and requests, and stops."""

    def __init__(self):
        self.agent = Agent('--grace', '100ms', '--lease', '50ms', '--max-regions-per-uid', '1000')
        self.pod = Part(APP, self.agent.socket, stdin=subprocess.PIPE)
        wait_until(lambda: self.pod.out, 'the pod counts')
        self.receiver = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Taker)
        threading.Thread(target=self.receiver.serve_forever, daemon=True).start()

    def run(self, env):
        d = f'{D}/c{next(names)}'
        os.mkdir(d)
        to = f'http://127.0.0.1:{self.receiver.server_address[1]}/'
        v = Victim(env, f'{SIDELIGHT}-collect', '--agent', self.agent.socket, '--listen', '127.0.0.1:0', '--analyse',
                   '--history', '4M', '--model', f'{d}/model', '--record', f'{d}/rows', '--remote-write', to,
                   '--sample-every', '0', '--webhook', to, '--alert', to, '--otlp', to, '--otlp-sent', f'{d}/sent')
        late, region = None, Region()
        try:
            address = v.ready_now()['listen'].removeprefix('http://')

            def values():
                lines = get(f'http://{address}/metrics', seconds=10).splitlines()
                return [float(x.rsplit(' ', 1)[1]) for x in lines if x.startswith('torture_7_total{')]
            v.until(lambda: 2000. in values(), 'the pod is shown')
            v.until(lambda: 'sidelight_push_sent_total{to="remote_write"} 0' not in
                    get(f'http://{address}/metrics', seconds=10), 'samples are sent')
            # If memory runs out in the middle of a page, the response breaks off, as HTTP requires: the scrape fails.
            if (counts := v.until(lambda: set(values()), 'the pod is still shown')) != {2000.}:
                raise Finding(f'wrong counts: {counts}')
            late = Client(self.agent.socket)
            late.publish(region)
            v.until(lambda: f'{region.instance:016x}' in get(f'http://{address}/api/v1/pods', seconds=10),
                    'a later pod is shown')
            for path in ('status', 'metrics', 'anomalies'):
                v.until(lambda: json.loads(get(f'http://{address}/api/v1/{path}', seconds=10)), path)
            v.end()
        finally:
            v.kill()
            if late:
                late.close()
            region.close()
            shutil.rmtree(d)


STORES = '''
listen: {0}/dta.sock
stores:
  - {{name: flows, number: 1, kind: key-write, slots: 20000, value: 8, copies: 2, seed: 1}}
  - {{name: events, number: 2, kind: append, lists: 4, items: 4096, value: 8, batch: 16, lanes: 8}}
'''


def generate(to, expect, *options):
    """Sends essential reports; the process after its end."""
    return subprocess.run([SIDELIGHT, 'generate', 'dta', '--to', to, '--json', '--show', '0', '--essential', '--wait',
                           '10s', '--expect', expect, *options],
                          timeout=60, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class OfTranslator:
    """Stores the reports of one reporter, each exactly once, and prints its account at the end."""
    REPORTS = 200

    def __init__(self):
        self.folder = workdir()
        with open(f'{self.folder}/stores.yaml', 'w') as f:
            f.write(STORES.format(self.folder))
        self.collector = Part(SIDELIGHT, 'collect', '--dta', f'{self.folder}/stores.yaml', '--listen', '127.0.0.1:0')
        self.collector.ready()

    def run(self, env):
        n = next(names)
        v = Victim(env, f'{SIDELIGHT}-translate', '--collector', f'unix:{self.folder}/dta.sock', '--listen',
                   '127.0.0.1:0', '--json', '--name', f't{n}')
        try:
            to = v.ready_now()['listen']
            g = generate(to, f'{self.folder}/x{n}', '--kinds', 'keywrite,append', '--lists', '4', '--count',
                         str(self.REPORTS), '--keys', str(self.REPORTS), '--pack', '10', '--reporter', str(n + 1))
            if v.p.poll() is not None:
                v.ended()
            if g.returncode:
                raise Finding(f'reports are not acknowledged: {g.stdout[-200:]}', *v.err[-3:])
            v.end()
            if not v.out or not v.out[-1].startswith('{'):
                raise Finding('no account', *v.out[-3:], *v.err[-3:])
            a = json.loads(v.out[-1])
            if a['engine']['stored'] != 2 * self.REPORTS:
                raise Finding(f'{a["engine"]["stored"]} stored of {2 * self.REPORTS}: {a}')
        finally:
            v.kill()


class OfStores:
    """Holds a store that a translator writes, answers for it, and stops."""

    def run(self, env):
        d = f'{D}/s{next(names)}'
        os.mkdir(d)
        os.mkdir(f'{d}/files')
        with open(f'{d}/stores.yaml', 'w') as f:
            f.write(STORES.format(d).replace('stores:', f'directory: {d}/files\nstores:'))
        v = Victim(env, f'{SIDELIGHT}-collect', '--dta', f'{d}/stores.yaml', '--listen', '127.0.0.1:0')
        t = None
        try:
            address = v.ready_now()['listen'].removeprefix('http://')
            t = Part(SIDELIGHT, 'translate', '--collector', f'unix:{d}/dta.sock', '--listen', '127.0.0.1:0', '--json')
            to = v.until(lambda: [line for line in list(t.out) if line.startswith('ready')], 'a translator writes')[0]
            g = generate(to.split()[1].split('=')[1], f'{d}/x', '--count', '100', '--keys', '100')
            if g.returncode:
                raise Finding(f'reports are not acknowledged: {g.stdout[-200:]}', *v.err[-3:])
            with open(f'{d}/x') as f:
                keys = [line.split()[1:3] for line in f if line.startswith('keywrite')]

            def found():
                answers = [json.loads(get(f'http://{address}/api/v1/dta/query?store=flows&key={k}', seconds=10))
                           for k, _ in keys[:10]]
                return [a['value'] for a in answers] == [value for _, value in keys[:10]]
            v.until(found, 'what was reported is found')
            v.until(lambda: json.loads(get(f'http://{address}/api/v1/dta', seconds=10))['account']['stored'] == 100,
                    'the account is whole')
            v.end()
        finally:
            v.kill()
            if t:
                t.kill()
            shutil.rmtree(d)


PARTS = {'library': Library, 'agent': OfAgent, 'tables': OfTables, 'collector': OfCollector, 'stores': OfStores,
         'translator': OfTranslator}
INTERRUPTED = {'read', 'write', 'recv', 'recvfrom', 'recvmsg', 'send', 'sendmsg', 'accept4', 'connect', 'open64',
               'flock'}


# ---- points ----------------------------------------------------------------------------------------------------------

class Trace:
    """The file that FAIL wrote in a run."""

    def __init__(self, path):
        self.points, self.left, self.calls, self.files, self.failed = {}, collections.Counter(), {}, [], None
        with open(path, 'rb') as f:
            used, = struct.unpack('<q8x', f.read(16))
            for line in f.read(used).decode().splitlines():
                what, *w = line.split()
                if what == 'point':
                    self.points[w[0]] = w[1:]
                elif what == 'left':
                    self.left[w[0]] += 1
                elif what == 'calls':
                    self.calls[w[0]] = int(w[1])
                elif what == 'file':
                    self.files.append(' '.join(w))
                elif what == 'failed':
                    self.failed = w
        os.unlink(path)


def attempt(part, point=None, error=None):
    """Returns the trace and the result of one run."""
    path = f'{D}/trace{next(names)}'
    env = {'LD_PRELOAD': FAIL, 'FAIL_TRACE': path}
    if point:
        env['FAIL_AT'] = point
    if error:
        env['FAIL_ERRNO'] = str(error)
    said = 0
    try:
        said = part.run(env) or 0  # descriptors that it counted as leaked
        result = 'ok'
    except GaveUp as e:
        result = f'gave up: {e}'
    except Finding as e:
        result = e
    except Exception as e:  # such as an incomplete answer
        result = Finding(f'{type(e).__name__}: {e}')
    trace = Trace(path)
    trace.files = trace.files[said:]
    return trace, result


def grown(trace, usual):
    """Returns the points with more allocated blocks at the end than in any run without a failure. Leaks within other libraries
    do not count, except for JSON, which the program allocates."""
    return [p for p, n in trace.left.items() if p in usual.points and n > usual.left[p] + 1 and
            usual.points[p][2].split('+')[0].split('.')[0] in OURS]


def unsure(trace):
    """Returns the number of descriptors that a publisher leaves open because it cannot tell whether they are still its own."""
    return trace.failed[1] == 'fstat64' and sum('/memfd:sidelight' in f for f in trace.files) == 1 if trace.failed else 0


def fair(where):
    """Whether this call can fail, and is the program's or that of a library that works for it."""
    name, side, nearest = where[:3]
    return (side == 'outside') == ('--outside' in ARGS) and nearest.split('+')[0].split('.')[0] in OURS + LIBRARIES and \
        not any(name == f and nearest.startswith(library) for f, library in EXEMPT)


def main():
    part = PARTS[PART]()
    chosen = [a for a in ARGS if not a.startswith('--')]
    every = '--all' in ARGS or SCALE > 1
    usual, result = attempt(part)
    check(result == 'ok', f'without a failure: {result.args if isinstance(result, Finding) else result}')
    for _ in range(2):  # some points are reached only with other timing
        more, result = attempt(part)
        check(result == 'ok', f'without a failure: {result}')
        usual.points.update(more.points)
        usual.left |= more.left
        usual.files = max(usual.files, more.files, key=len)
    points = chosen or sorted(p for p, w in usual.points.items() if fair(w))
    if every:  # interrupted, too, and at the last call instead of the first
        points += [f'{p}/{errno.EINTR}' for p in points if usual.points[p][0] in INTERRUPTED]
        points += [f'{p}:{n}' for p, n in usual.calls.items() if p in points and n > 1]
    findings, counts, tried = [], collections.Counter(), 0
    begun, lock = time.monotonic(), threading.Lock()

    def one(point):
        nonlocal tried
        if not every and not chosen and time.monotonic() - begun > SECONDS:
            return
        trace, result = attempt(part, *point.split('/'))
        if result == 'ok' and trace.files:
            more = grown(trace, usual)
            if more:
                result = Finding('leak: ' + '; '.join(' '.join(usual.points[p][:4]) for p in more))
            elif len(trace.files) > len(usual.files) + unsure(trace):
                result = Finding(f'leak: {len(usual.files)} descriptors in other runs, here:', *trace.files)
        with lock:
            tried += 1
            if not trace.failed:
                counts['not reached'] += 1
            elif isinstance(result, Finding):
                counts['found'] += 1
                findings.append((point, trace.failed, result.args))
            else:
                counts[result.split(':')[0]] += 1
            if '--verbose' in ARGS and not tried % 20:
                print(f'{tried} of {len(points)}', flush=True)
            if isinstance(result, Finding):
                where = ' '.join((trace.failed or usual.points.get(point[:16], ['']))[1:])
                print(point, result if not isinstance(result, Finding) else '\n    '.join(map(str, result.args)),
                      '\n   at', where, flush=True)

    # Neighbours in the program are far from each other here, so that a sample is spread over all of it.
    order = sorted(points, key=lambda p: (len(p) > 16, p[:16][::-1]))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(one, order))
    print(f'{PART}: {tried} of {len(points)} points: ' + ', '.join(f'{n} {k}' for k, n in sorted(counts.items())))
    check(not findings, f'{len(findings)} findings')


if __name__ == '__main__':
    main()
