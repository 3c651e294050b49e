#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_discover.py SIDELIGHT - hosts by files, DNS and the Kubernetes API (a server of the test; the real one: deploy/kube),
and shared by three collectors of which one is killed, one stopped."""
import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import struct
import sys
import threading
import time
import urllib.parse

from support.pki import Authority, bcrypt
from support.process import Part, case, check, run, run_cases, skip, wait_until, workdir
from support.prometheus import Receiver, available
from support.sidelight import Agent, Collector, generate

EXE = sys.argv[1]
HOSTS = 6


def free_ports(n):
    held = [socket.create_server(('127.0.0.1', 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def write(path, text):
    """As a whole, as those who write such files do."""
    with open(path + '.new', 'w') as f:
        f.write(text)
    os.rename(path + '.new', path)


def json_file(path, what):
    write(path, json.dumps(what))  # JSON is YAML
    return path


def up(c):
    return {h['target'] for h in c.api('hosts')['hosts'] if h['condition'] == 'up'}


def state(c, name, which):
    return c.total(f'sidelight_discover_{name}', f'state="{which}"')


def disturbances(alive):
    """How often the machine made one stand still, or another see it so."""
    return sum(x.total(f'sidelight_discover_{w}_total') for x in alive for w in ('lapses', 'overlaps', 'leaves'))


@case
def a_file_adds_and_removes_hosts_and_garbage_changes_nothing():
    path = f'{workdir()}/hosts.yml'
    with Agent() as a, Agent() as b:
        write(path, json.dumps([{'targets': [a.socket], 'labels': {'zone': 'eu'}}]))
        with Collector([], '--discover', f'file:{path}', '--discover-every', '200ms') as c:
            wait_until(lambda: up(c) == {a.socket}, 'the first host', c)
            write(path, f'- targets: ["{a.socket}", {b.socket}]\n')
            wait_until(lambda: up(c) == {a.socket, b.socket}, 'the second one', c)
            for bad in ('', '[]', '{"targets": 1}', '- targets: [', '- {targets: [""]}', '- {hosts: [x]}', '\0\1\2'):
                errors = c.total('sidelight_discover_errors_total')
                write(path, bad)
                wait_until(lambda: c.total('sidelight_discover_errors_total') > errors, f'{bad!r} is counted', c)
                check(up(c) == {a.socket, b.socket}, f'{bad!r} changed hosts', up(c), c)
            check('its hosts stay' in c.logged(), c)
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
                                 ('too many pages of pods', lambda: (setattr(Kube, 'endless', True), setattr(Kube, 'old', False)))):
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


@case
def three_collectors_share_hosts_and_take_over_without_a_sample_twice():
    if not available():
        skip('no prometheus: install the package prometheus')
    folder = workdir()
    authority = Authority()
    authority.issue('server', ['IP:127.0.0.1'], folder=folder)
    web = json_file(f'{folder}/web.yml', {'tls_server_config': {'cert_file': 'server.pem', 'key_file': 'server.key'},
                                          'basic_auth_users': {'peer': bcrypt('of-peers')}})
    write(f'{folder}/password', 'of-peers')
    asks = json_file(f'{folder}/peers-config', {'tls_config': {'ca_file': authority.ca},
                                                'basic_auth': {'username': 'peer', 'password_file': 'credential:password'}})
    ports = free_ports(3)
    names = [f'127.0.0.1:{p}' for p in ports]
    agents = [Agent('--hostname', f'node-{i}') for i in range(HOSTS)]
    write(f'{folder}/hosts', json.dumps([{'targets': [a.socket for a in agents]}]))
    write(f'{folder}/peers', json.dumps([{'targets': names}]))
    pods = [generate(a.socket, '--pods', 1, '--metrics', 1, '--kinds', 'counter', '--rate', 200, '--updates', 1000000,
                     '--service', f'of-{i}') for i, a in enumerate(agents)]
    with Receiver() as p:
        def collect(i):
            return Collector([], '--discover', f'file:{folder}/hosts', '--peers', f'file:{folder}/peers', '--period', '100ms',
                             '--remote-write', p.url, '--sample-every', '0', '--discover-every', '500ms', '--web-config', web,
                             '--peers-config', asks, listen=names[i], how=(authority, 'peer', 'of-peers'),
                             env={'CREDENTIALS_DIRECTORY': folder})
        c = [collect(i) for i in range(3)]

        def owners(alive):
            return [up(x) for x in alive]

        def shared(alive):
            sets = owners(alive)
            return sum(map(len, sets)) == HOSTS and len(set().union(*sets)) == HOSTS

        def disturbed(alive):
            return disturbances(alive)
        wait_until(lambda: shared(c), lambda: owners(c), *c)
        victim = max(c, key=lambda x: len(up(x)))
        rest = [x for x in c if x is not victim]
        kept, calm = owners(rest), disturbed(rest)
        time.sleep(2)
        victim.kill()
        wait_until(lambda: shared(rest), lambda: owners(rest), *rest)
        now = owners(rest)
        check(all(k <= n for k, n in zip(kept, now)) or disturbed(rest) > calm, 'what others had has not moved', kept, now)
        time.sleep(2)
        # One that stands still is dead for the other, which takes its hosts; when it goes on it lets go before it reads.
        other, slow = sorted(rest, key=lambda x: len(up(x)))
        # A machine under load may have made it stand still, or seem dead, before.
        lapses = slow.total('sidelight_discover_lapses_total')
        overlaps = other.total('sidelight_discover_overlaps_total')
        slow.p.send_signal(signal.SIGSTOP)
        wait_until(lambda: len(up(other)) == HOSTS, lambda: up(other), other)
        time.sleep(3)  # longer than its lease, even if the other had taken its hosts before
        slow.p.send_signal(signal.SIGCONT)
        wait_until(lambda: slow.total('sidelight_discover_lapses_total') > lapses, 'it notes that it stood still', slow)
        wait_until(lambda: other.total('sidelight_discover_overlaps_total') > overlaps, 'the other notes that it lives', other)
        wait_until(lambda: shared(rest), lambda: owners(rest), *rest)
        time.sleep(2)
        for x in rest:
            lost = {k: v for k, v in x.find('sidelight_push_dropped_total').items() if v}
            # What one that stood still had not yet sent may be older than what its successor sent meanwhile.
            stale = x.total('sidelight_discover_lapses_total') and all('cause="refused"' in k for k in lost)
            check(stale or not lost, 'samples were refused, as of two collectors at a time', lost, x)
        # Per host: one series, whose samples ascend and are not closer than rounds are; the gaps are of the take-overs.
        end = time.time()
        for i in range(HOSTS):
            data = json.loads(p.get('/api/v1/query', query='{service="of-%d",__name__=~"gen.*_total"}[10m]' % i, time=end))
            result = data['data']['result']
            check(len(result) == 1, i, result)
            times = [round(t * 1000) for t, _ in result[0]['values']]
            check(times == sorted(set(times)), 'a sample twice', i)
            values = [float(v) for _, v in result[0]['values']]
            check(values == sorted(values), 'a counter goes back', i)
            gaps = [b - a for a, b in zip(times, times[1:])]
            check(len(times) > 20, i, len(times))
            # rounds are 100 ms apart: two collectors at a time would make twice as many
            close = sum(g < 50 for g in gaps)
            check(close < len(gaps) / 4, 'two read at a time', i, gaps)
        for x in rest:
            check(x.stop() == 0, x)
    for g in pods:
        g.kill()
    for a in agents:
        a.stop()


class Peers:
    """Collectors that share hosts, which are only names; each has a list of peers of its own."""
    HOSTS = 24

    def __init__(self, n):
        self.folder = workdir()
        self.names = [f'127.0.0.1:{p}' for p in free_ports(n)]
        self.parts = [None] * n

    def names_of(self, i, *peers):
        write(f'{self.folder}/peers-{i}', json.dumps([{'targets': [self.names[k] for k in peers]}]))

    def start(self, i):
        hosts = ','.join(f'/nowhere/{k}' for k in range(self.HOSTS))
        self.parts[i] = Collector([], '--discover', hosts, '--peers', f'file:{self.folder}/peers-{i}', '--discover-every', '200ms',
                                  listen=self.names[i])

    def kill(self, i):
        self.parts[i].kill()
        self.parts[i] = None

    def alive(self):
        return [c for c in self.parts if c]

    def owned(self):
        return [state(c, 'hosts', 'owned') if c else 0 for c in self.parts]

    def counted(self, what):
        return [c.total(f'sidelight_discover_{what}_total') if c else 0 for c in self.parts]

    def until(self, condition, what, seconds=30):
        """Waits; no host has two readers meanwhile, unless the machine made one stand still."""
        calm = self.counted('lapses')

        def one_reader():
            begun, owned = time.monotonic(), self.owned()
            if time.monotonic() - begun < 0.5:
                check(sum(owned) <= self.HOSTS or self.counted('lapses') != calm, 'two readers', owned, *self.alive())
            return condition(owned)
        wait_until(one_reader, lambda: f'{what}: {self.owned()}', *self.alive(), seconds=seconds, every=0.05)

    def shared_by(self, *those):
        return lambda owned: sum(owned) == self.HOSTS and all((owned[i] > 0) == (i in those) for i in range(len(owned)))


@case
def a_collector_that_peers_no_longer_name_leaves_its_hosts_to_them():
    """As a pod of Kubernetes that is not ready any more, while it lives."""
    p = Peers(3)
    for i in range(3):
        p.names_of(i, 0, 1, 2)
        p.start(i)
    p.until(p.shared_by(0, 1, 2), 'all share')
    for i in 1, 2:
        p.names_of(i, 1, 2)
    p.until(p.shared_by(1, 2), 'the one that is not named has left')
    check(p.counted('leaves')[0] >= 1 and 'this one leaves its hosts to others' in p.parts[0].logged(), 'it says so', *p.parts)
    wait_until(lambda: [state(c, 'peers', 'joined') for c in p.parts] == [2, 2, 2], 'two have joined', *p.parts)
    # And one alone: its list loses all others, who live.
    p.names_of(1, 1)
    p.until(p.shared_by(1), 'the last that is named')
    for i in 1, 2:
        p.names_of(i, 0, 1, 2)
    p.until(p.shared_by(0, 1, 2), 'all share again')
    # It knows it before they do.
    p.names_of(0, 1, 2)
    p.until(p.shared_by(1, 2), 'it is not among its own')
    check('no source names it' in p.parts[0].logged(), 'it says so', *p.parts)
    p.names_of(0, 0, 1, 2)
    p.until(p.shared_by(0, 1, 2), 'and once more')
    calm = not any('peer is dead' in c.logged() or 'stood still' in c.logged() for c in p.parts)
    check(p.counted('overlaps') == [0, 0, 0] or not calm, 'overlaps', p.counted('overlaps'), *p.parts)
    # Names that come and go take no room for ever: more than 256 of them.
    for n in range(4):
        write(f'{p.folder}/peers-0', json.dumps([{'targets': p.names + [f'127.0.{n}.{k}:1' for k in range(1, 101)]}]))
        wait_until(lambda: state(p.parts[0], 'peers', 'known') == 103, 'a hundred more', p.parts[0])
        p.names_of(0, 0, 1, 2)
        wait_until(lambda: state(p.parts[0], 'peers', 'known') == 3, 'they are gone', p.parts[0])
    for c in p.parts:
        check(c.stop() == 0, c)


@case
def one_that_hears_nobody_is_heard():
    """It reads all hosts and cannot be told. Of two the other leaves them to it; a majority goes on, and counts it."""
    p = Peers(3)
    for i in range(3):
        p.names_of(i, *([0, 1, 2] if i else [0]))
    p.start(0)
    p.until(p.shared_by(0), 'one')
    p.start(1)
    time.sleep(4)  # longer than one waits until it takes hosts
    p.until(p.shared_by(0), 'the one that is heard leaves all to the one that is not told')
    check(state(p.parts[1], 'peers', 'joined') == 1, 'it has not joined', *p.alive())
    p.start(2)
    for c in p.parts[1:]:
        wait_until(lambda: c.total('sidelight_discover_overlaps_total') > 0 and 'hosts may be read by this one and by' in c.logged(),
                   'the majority counts and says it', c)
    check(p.owned()[0] == p.HOSTS, 'it reads all', p.owned())
    p.names_of(0, 0, 1, 2)
    wait_until(lambda: p.shared_by(0, 1, 2)(p.owned()), lambda: f'its list is mended: {p.owned()}', *p.parts)
    for c in p.parts:
        check(c.stop() == 0, c)


@case
def peers_that_prove_nothing_are_dead_and_counted():
    """One is asked, by TLS with a certificate that has a role; each of the others makes another mistake."""
    folder, authority, other = workdir(), Authority(), Authority('another')
    name = f'127.0.0.1:{free_ports(1)[0]}'
    authority.issue('server', ['IP:127.0.0.1'], folder=folder)
    good = authority.issue('peer', ['DNS:peer.example'])
    web = json_file(f'{folder}/web.yml', {'tls_server_config': {
        'cert_file': 'server.pem', 'key_file': 'server.key', 'client_ca_file': authority.ca,
        'client_auth_type': 'RequireAndVerifyClientCert'}})
    roles = json_file(f'{folder}/roles.yml', {'roles': {'read': {'certificates': ['peer.example']}}})

    def collect(n, *config):
        return Collector([], '--discover', '127.0.0.9', '--peers', name, '--self', f'other-{n}:1', *config)

    def asks(n, ca=authority.ca, pair=good, **more):
        shutil.copy(ca, f'{folder}/ca-{n}')
        tls = {'ca_file': f'ca-{n}', **({'cert_file': pair[0], 'key_file': pair[1]} if pair else {})}
        return collect(n, '--peers-config', json_file(f'{folder}/asks-{n}', {'tls_config': tls, **more}))

    def told(c, cause, line):
        # By TLS 1.3 a server refuses a certificate after the handshake: the alert comes, or the request meets a closed socket.
        causes = ('tls', 'connect') if line == 'alert' else (cause,)
        wait_until(lambda: sum(c.total('sidelight_discover_peer_failures_total', f'cause="{x}"') for x in causes) > 1, causes, c)
        said = [x for x in c.err if any(f'peer={name} cause={y} ' in x for y in causes)]
        check(said and (line in said[0] or line == 'alert' and 'ending data' in said[0]), causes, line, said, c)
        check(state(c, 'peers', 'alive') == 1, 'it counts as alive', c)

    with Part(EXE, 'collect', '--discover', '127.0.0.9', '--peers', name, '--listen', name, '--web-config', web,
              '--roles', roles) as asked, contextlib.ExitStack() as parts:
        asked.ready()
        for n, (c, cause, line) in enumerate((
                (lambda n: asks(n, other.ca), 'tls', 'certificate'),
                (lambda n: asks(n, pair=None), 'tls', 'alert'),
                (lambda n: asks(n, pair=other.issue('peer', ['DNS:peer.example'])), 'tls', 'alert'),
                (lambda n: asks(n, pair=authority.issue('late', ['DNS:peer.example'], -9, -1)), 'tls', 'alert'),
                (lambda n: asks(n, pair=authority.issue('stranger')), 'status', 'no role that reads'),
                (lambda n: asks(n, bearer_token_file='none'), 'secret', 'cannot read the secret'),
                (collect, 'connect', 'does it serve TLS?'))):
            told(parts.enter_context(c(n)), cause, line)
        c = parts.enter_context(asks('right'))
        wait_until(lambda: state(c, 'peers', 'alive') == 2, 'with the right ones it is heard', c)
        check(c.total('sidelight_discover_peer_failures_total') == 0 and 'cannot be asked' not in c.logged(), c)
        # Files are read again, by those who ask and by the one that is asked.
        wrong = parts.enter_context(asks('mended', other.ca))
        told(wrong, 'tls', 'certificate')
        shutil.copy(authority.ca, f'{folder}/ca-mended')
        wait_until(lambda: state(wrong, 'peers', 'alive') == 2, 'it is heard once the authority is right', wrong)
        authority.issue('server', ['IP:127.0.0.1'], -9, -1, folder=folder)
        wait_until(lambda: 'read again' in asked.logged(), 'the expired certificate is served', asked)
        told(parts.enter_context(asks('expired')), 'tls', 'expired')


@case
def what_cannot_work_is_one_clear_line():
    for words, line in ((['--discover', ''], 'is not file:PATH'), (['--discover', 'kube:x'], 'is not file:PATH'),
                        (['--discover', 'a', '--self', 'b:1'], '--self and --peers-config need --peers'),
                        *((['--discover', 'a', '--peers', 'b', '--open', '--listen', at], '--peers needs --self')
                          for at in ('127.0.0.1:0', '[::1]:0', '0.0.0.0:9464', '[::]:9464', 'unix:/run/x')),
                        (['--peers', 'b', '--agent', 'c'], '--peers needs --discover')):
        p = run(EXE, 'collect', *words, code=2)
        check(line in p.stderr, words, p.stderr)


if __name__ == '__main__':
    run_cases()
