#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who gets in by TLS, certificates, passwords and roles: test_gate.py SIDELIGHT CASE"""
import base64
import contextlib
import http.client
import http.server
import json
import os
import re
import socket
import ssl
import sys
import threading

from support.attacker import Attacker
from support.http import request
from support.pki import Authority, bcrypt
from support.process import Part, case, check, run, run_cases, skip, wait_until, workdir
from support.prometheus import Prometheus, Receiver, available
from support.sidelight import EXE, Agent, Collector

STORES = '''
listen: [{folder}/dta.sock]
tenants: [{{number: 0, name: default}}]
stores:
  - {{name: flows, number: 1, kind: key-write, seed: 1, slots: 20000, value: 8, copies: 4, epochs: 1}}
  - {{name: bytes, number: 2, kind: increment, rows: 4, columns: 1000, epochs: 2}}
'''
METRICS = ('GET', '/metrics')
ROTATE = ('POST', '/api/v1/dta/stores/bytes/rotate')
RELOAD = ('POST', '/api/v1/dta/reload')
PASSWORDS = {'reader': 'r-e-a-d', 'actor': 'a-c-t', 'boss': 'a-d-m-i-n'}


def write(path, text):
    """Replaces the file, as administrators' tools do."""
    with open(path + '.new', 'w') as f:
        f.write(text)
    os.chmod(path + '.new', 0o600)
    os.replace(path + '.new', path)
    return path


class Gate(Part):
    """A collector with two stores behind a web.yml, whose folder has server.pem and server.key."""

    def __init__(self, web, *options, listen='127.0.0.1:0', authority=None):
        self.folder = workdir()
        self.authority = authority or Authority()
        self.renew()
        write(f'{self.folder}/stores.yaml', STORES.format(folder=self.folder))
        self.web = f'{self.folder}/web.yml'
        self.guard(web)
        super().__init__(EXE, 'collect', '--dta', f'{self.folder}/stores.yaml', '--listen', listen,
                         '--web-config', self.web, *options)
        self.port = int(self.ready()['listen'].rsplit(':', 1)[1])

    def renew(self):
        self.authority.issue('server', ['DNS:localhost', 'IP:127.0.0.1'], folder=self.folder)

    def guard(self, web):
        write(self.web, web if isinstance(web, str) else json.dumps(web))

    def ask(self, method='GET', path='/metrics', user=None, pair=None, password=None, body=None, **headers):
        """(status, answer, headers); the status is None if TLS ends it."""
        if user:
            word = f'{user}:{PASSWORDS.get(user, "") if password is None else password}'
            headers['Authorization'] = 'Basic ' + base64.b64encode(word.encode()).decode()
        headers = {k.replace('_', '-'): v for k, v in headers.items()}
        c = http.client.HTTPSConnection('127.0.0.1', self.port, timeout=300, context=self.authority.context(pair))
        try:
            c.request(method, path, body, headers)
            a = c.getresponse()
            return a.status, a.read().decode(), a.headers
        except (ssl.SSLError, ConnectionError, http.client.BadStatusLine) as e:
            return None, str(e), {}
        finally:
            c.close()

    def refused(self, cause, user='reader', **how):
        said = self.ask(user=user, **how)[1]
        found = re.search(f'sidelight_collector_http_refused_total{{cause="{cause}"}} ([0-9]+)', said)
        check(found, said[:1000], self)
        return int(found[1])

    def counts(self, cause, line, **how):
        """Waits until a refusal has been counted and logged."""
        wait_until(lambda: self.refused(cause, **how) and line in self.logged(), f'{cause}, "{line}"', self)


def users():
    return {u: bcrypt(p) for u, p in PASSWORDS.items()}


def tls(**more):
    return {'cert_file': 'server.pem', 'key_file': 'server.key', **more}


ROLES = {'roles': {'act': {'users': ['actor'], 'certificates': ['ops.example']}, 'admin': {'users': ['boss']}}}


@case
def users_have_their_role():
    folder = workdir()
    roles = write(f'{folder}/roles.yml', json.dumps(ROLES))
    with Gate({'tls_server_config': tls(), 'basic_auth_users': users(),
               'http_server_config': {'headers': {'X-Frame-Options': 'deny'}}}, '--roles', roles, listen='0.0.0.0:0') as c:
        check(c.ask()[0] == 401, 'nobody reads', c)
        check(c.ask(user='reader', password='wrong')[0] == 401, 'a wrong password', c)
        check(c.ask(user='stranger', password='r-e-a-d')[0] == 401, 'no such user', c)
        check(c.ask(Authorization='Basic !!!')[0] == 401, 'garbage', c)
        check(c.ask(Authorization='Bearer r-e-a-d')[0] == 401, 'a password is no token', c)
        for user, may in (('reader', (200, 403, 403)), ('actor', (200, 200, 403)), ('boss', (200, 200, 200))):
            got = tuple(c.ask(*request, user=user)[0] for request in (METRICS, ROTATE, RELOAD))
            check(got == may, f'{user}: {got}, not {may}', c)
        status, answer, _ = c.ask(*ROTATE, user='boss', Origin='https://evil.example')
        check(status == 403, f'from another page: {status} {answer}', c)
        status, answer, _ = c.ask(*ROTATE, user='boss', Sec_Fetch_Site='cross-site')
        check(status == 403, f'from another site: {status} {answer}', c)
        check(c.ask(user='reader')[2]['X-Frame-Options'] == 'deny', 'the header of web.yml', c)
        check(c.refused('password') == 3 and c.refused('role') == 3 and c.refused('origin') == 2, 'counts', c)
        check(c.refused('token') == 2, f'{c.refused("token")} without', c)
        with socket.create_connection(('127.0.0.1', c.port), 60) as s:
            s.sendall(b'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n')
            check(not s.recv(100).startswith(b'HTTP'), 'plain HTTP is answered', c)
        c.counts('handshake', 'the TLS handshake failed peer=127.0.0.1 error=')


@case
def certificates_are_verified():
    authority, other = Authority(), Authority('another')
    folder = workdir()
    roles = write(f'{folder}/roles.yml', json.dumps({'roles': {'read': {'certificates': ['prometheus.example']},
                                                               'act': {'certificates': ['ops.example']}}}))
    good = authority.issue('client', ['DNS:prometheus.example'])
    ops = authority.issue('ops', ['DNS:ops.example', 'DNS:prometheus.example'])
    web = {'tls_server_config': tls(client_ca_file=authority.ca, client_auth_type='RequireAndVerifyClientCert',
                                    client_allowed_sans=['prometheus.example', 'unnamed.example'], min_version='TLS13')}
    with Gate(web, '--roles', roles, listen='0.0.0.0:0', authority=authority) as c:
        me = {'user': None, 'pair': good}
        check(c.ask(pair=good)[0] == 200, c.ask(pair=good), c)
        check(c.ask(*ROTATE, pair=good)[0] == 403 and c.ask(*ROTATE, pair=ops)[0] == 200, 'roles by certificate', c)
        check(c.ask(pair=authority.issue('unnamed', ['DNS:unnamed.example']))[0] == 403, 'a certificate without a role', c)
        for pair, line in (
                (None, 'the client has none'),
                (other.issue('client', ['DNS:prometheus.example']), 'issuer is unknown'),
                (authority.issue('late', ['DNS:prometheus.example'], -9, -1), 'expired'),
                (authority.issue('early', ['DNS:prometheus.example'], 1, 9), 'not yet valid'),
                (authority.issue('usage', ['DNS:prometheus.example'], use='serverAuth'), 'purpose'),
                (authority.issue('san', ['DNS:evil.example']), 'client_allowed_sans')):
            before = c.refused('certificate', **me)
            check(c.ask(pair=pair)[0] is None, f'gets in: {line}', c)
            wait_until(lambda: c.refused('certificate', **me) == before + 1, f'counted: {line}', c)
            # At most one line per second, of whichever comes first.
            wait_until(lambda: line in c.logged() or c.ask(pair=pair)[0], f'said: {line}', c, every=0.3)
        older = ssl.create_default_context(cafile=authority.ca)
        older.load_cert_chain(*good)
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        with contextlib.suppress(ssl.SSLError, ConnectionError), socket.create_connection(('127.0.0.1', c.port), 60) as s:
            older.wrap_socket(s, server_hostname='127.0.0.1')
            check(False, 'TLS 1.2 although min_version is TLS13', c)


EXTERNAL = '/apis/external.metrics.k8s.io/v1beta1'


@case
def front_proxies_say_who_asks():
    """The aggregation layer of kube-apiserver, as its proxy and its check of availability speak: a client certificate of an
    authority of its own, and headers that name the user."""
    authority, proxies = Authority(), Authority('front proxy authority')
    other = Authority('another')
    proxy = proxies.issue('front-proxy-client', use='clientAuth')
    folder = workdir()

    def roles(**more):
        return write(f'{folder}/roles.yml', json.dumps({'requestheader': {
            'client_ca_file': proxies.ca, 'allowed_names': ['front-proxy-client']}, **more}))

    def said_by(user, *groups, pair=proxy, path=EXTERNAL, method='GET', more=()):
        """Sends a request as a proxy does, with a header per group. Returns (status, answer)."""
        conn = http.client.HTTPSConnection('127.0.0.1', c.port, timeout=300, context=authority.context(pair))
        try:
            conn.putrequest(method, path, skip_host=True)
            names = [('X-Remote-User', user), *(('X-Remote-Group', g) for g in groups)] if user is not None else []
            for name, value in (('Host', 'sidelight-scaling.default.svc:443'), ('Accept', 'application/json'), *names, *more):
                conn.putheader(name, value)
            conn.endheaders()
            a = conn.getresponse()
            return a.status, a.read().decode()
        except (ssl.SSLError, ConnectionError, http.client.BadStatusLine) as e:
            return None, str(e)
        finally:
            conn.close()

    hpa = ('system:serviceaccount:kube-system:horizontal-pod-autoscaler', 'system:serviceaccounts', 'system:authenticated')
    with Agent() as agent, Part(EXE, 'generate', 'metrics', '--socket', agent.socket, '--pods', '1', '--metrics', '1', '--rate', '100',
                                '--updates', '100000000'), \
            Gate({'tls_server_config': tls()}, '--roles', roles(), '--agent', agent.socket, '--analyse', '--period', '100ms',
                 '--reader-token-file', write(f'{folder}/token', 'a-token-of-readers'), listen='0.0.0.0:0', authority=authority) as c:
        reader = {'user': None, 'Authorization': 'Bearer a-token-of-readers'}
        # Is it there? kube-aggregator asks for the discovery document.
        status, answer = said_by('system:kube-aggregator', 'system:masters')
        check(status == 200, f'{status} {answer}', c)
        found = json.loads(answer)
        check(found['kind'] == 'APIResourceList' and found['groupVersion'] == 'external.metrics.k8s.io/v1beta1', found)
        names = {r['name'] for r in found['resources'] if r['namespaced'] and r['kind'] == 'ExternalMetricValueList'}
        check('sidelight_scaling_pressure' in names, found)
        check(json.loads(said_by('system:kube-aggregator', 'system:masters', path='/apis')[1])['kind'] == 'APIGroupList', 'groups', c)

        # An autoscaler lists the values of a metric.
        def values():
            status, answer = said_by(*hpa, path=f'{EXTERNAL}/namespaces/default/sidelight_scaling_anomalous_ratio?labelSelector=service')
            check(status == 200, f'{status} {answer}', c)
            answer = json.loads(answer)
            check(answer['kind'] == 'ExternalMetricValueList' and answer['apiVersion'] == 'external.metrics.k8s.io/v1beta1', answer)
            return answer['items']
        for item in wait_until(values, 'values', c):
            check(item['metricName'] == 'sidelight_scaling_anomalous_ratio' and re.fullmatch('[0-9]+m?', item['value']) and
                  re.fullmatch(r'....-..-..T..:..:..Z', item['timestamp']) and item['metricLabels']['service'], item)
        # A user who is not named by the proxy has no role, like one without credentials.
        check(said_by(None)[0] == 403 and said_by('')[0] == 403, 'a proxy that names no user', c)
        check(c.ask(path=EXTERNAL)[0] == 401, 'without a certificate', c)
        check(c.ask(path=EXTERNAL, **reader)[0] == 200, 'a reader by token', c)
        check(c.ask(path='/-/healthy')[0] == 200, 'a probe', c)
        # These headers count only if they come from a proxy, whatever other credentials their sender has.
        client = authority.issue('client')
        forged = 0
        for how in ({'pair': None}, {'pair': None, 'path': '/-/healthy'}, {'pair': None, 'more': [('Authorization', reader['Authorization'])]}):
            status, answer = said_by(*hpa, **how)
            check(status == 403 and 'front proxy' in answer, f'{how}: {status} {answer}', c)
            forged += 1
        for name in ('X-Remote-Group', 'X-Remote-Extra-Scopes', 'x-remote-user', 'X-Remote-Uid'):
            check(said_by(None, pair=None, more=[(name, 'system:masters')])[0] == 403, name, c)
            forged += 1
        check(c.refused('forwarded', **reader) == forged, f'{c.refused("forwarded", **reader)} of {forged}', c)
        check('refusing a request with the headers of a front proxy, but without its certificate' in c.logged(), 'said', c)
        # Certificates that are no proxy's.
        for pair, line in ((client, 'issuer is unknown'), (other.issue('front-proxy-client'), 'issuer is unknown'),
                           (proxies.issue('aggregator'), 'allowed_names of requestheader'),
                           (proxies.issue('sans', ['DNS:front-proxy-client']), 'allowed_names of requestheader'),
                           (proxies.issue('front-proxy-client', [], -9, -1, folder=workdir()), 'expired'),
                           (proxies.issue('front-proxy-client', use='serverAuth', folder=workdir()), 'purpose')):
            before = c.refused('certificate', **reader)
            check(said_by(*hpa, pair=pair)[0] is None, f'gets in: {line}', c)
            wait_until(lambda: c.refused('certificate', **reader) > before, f'counted: {line}', c)
            wait_until(lambda: line in c.logged() or said_by(*hpa, pair=pair)[0], f'said: {line}', c, every=0.3)
        check(said_by(*hpa, method='POST', path=ROTATE[1])[0] == 403, 'a reader acts', c)
        # Roles of users and groups that the proxy names; the first settings stay until the new ones are read.
        roles(roles={'read': {'remote_groups': ['system:masters']}, 'act': {'remote_users': ['ops']}})
        wait_until(lambda: said_by(*hpa)[0] == 403, 'roles are read again', c)
        check(said_by('x', 'a', 'system:masters')[0] == 200 and said_by('ops')[0] == 200, 'by group, by user', c)
        check(said_by('ops', method='POST', path=ROTATE[1])[0] == 200, 'an actor acts', c)
    # A client's authority does not make a proxy of its certificates, nor a proxy's a client.
    roles(roles={'read': {'certificates': ['client', 'front-proxy-client']}})
    web = {'tls_server_config': tls(client_ca_file=authority.ca, client_auth_type='RequireAndVerifyClientCert')}
    with Gate(web, '--roles', f'{folder}/roles.yml', listen='0.0.0.0:0', authority=authority) as c:
        namesake = authority.issue('front-proxy-client', folder=workdir())
        check(said_by(None, pair=client, path='/metrics')[0] == 200 and said_by(None, path='/metrics')[0] == 403, 'as themselves', c)
        check(said_by(*hpa, pair=client)[0] == 403 and said_by(*hpa, pair=namesake)[0] == 403, 'no proxies', c)
        check(said_by('x', path='/metrics')[0] == 403, 'the proxy names who may not read', c)
    for bad, line in (({'client_ca_file': proxies.ca}, 'allowed_names'), ({'client_ca_file': proxies.ca, 'allowed_names': []}, 'one to'),
                      ({'client_ca_file': '/none.pem', 'allowed_names': ['x']}, 'cannot read'),
                      ({'client_ca_file': proxy[1], 'allowed_names': ['x']}, 'contains no certificate'),
                      ({'allowed_names': ['x']}, 'client_ca_file'), ({'allow': ['x']}, "unknown key 'allow'")):
        path = write(f'{folder}/bad.yml', json.dumps({'requestheader': bad}))
        write(f'{folder}/web.yml', json.dumps({'tls_server_config': {'cert_file': proxy[0], 'key_file': proxy[1]}}))
        p = run(EXE, 'collect', '--agent', f'{folder}/none.sock', '--listen', '127.0.0.1:0', '--web-config', f'{folder}/web.yml',
                '--roles', path, code=1)
        check(line in p.stderr and len(p.stderr.splitlines()) == 1, f'{bad}: {p.stderr}')


@case
def wrong_passwords_cost_little():
    """One user makes a thousand guesses; another one, who was here before, is admitted all the time."""
    with Gate({'tls_server_config': tls(), 'basic_auth_users': users()}) as c:
        check(c.ask(user='reader')[0] == 200, 'the right one', c)
        conn = http.client.HTTPSConnection('127.0.0.1', c.port, timeout=300, context=c.authority.context())
        statuses = {401: 0, 429: 0}
        for i in range(1000):
            word = base64.b64encode(f'reader:guess {i}'.encode()).decode()
            conn.request('GET', '/metrics', headers={'Authorization': f'Basic {word}'})
            a = conn.getresponse()
            a.read()
            check(a.status in statuses and (a.status == 401 or a.headers['Retry-After']), a.status, c)
            statuses[a.status] += 1
            if i % 100 == 0:
                check(c.ask(user='reader')[0] == 200, f'the right one, after {i} guesses', c)
        conn.close()
        check(statuses[429] >= 500, f'{statuses}', c)
        check((c.refused('password'), c.refused('guesses')) == (statuses[401], statuses[429]), statuses, c)
        check('too many wrong passwords' in c.logged(), 'not said', c)


@case
def files_change_under_load():
    with Gate({'tls_server_config': tls(), 'basic_auth_users': users()}) as c:
        failed, asked, end = [], [0], threading.Event()

        def load():
            while not end.is_set():
                got = c.ask(user='reader')
                asked[0] += 1
                if got[0] != 200:
                    failed.append(got[:2])

        def serial():
            with socket.create_connection(('127.0.0.1', c.port), 60) as s, \
                    c.authority.context().wrap_socket(s, server_hostname='localhost') as t:
                return t.getpeercert()['serialNumber']
        threads = [threading.Thread(target=load, daemon=True) for _ in range(3)]
        for t in threads:
            t.start()
        for _ in range(2):
            old = serial()
            c.renew()
            wait_until(lambda: serial() != old, 'the new certificate is served', c)
        c.guard({'tls_server_config': tls(), 'basic_auth_users': {**users(), 'late': bcrypt('l-a-t-e')}})
        wait_until(lambda: c.ask(user='late', password='l-a-t-e')[0] == 200, 'a user who was added', c)
        for broken, line in (({'tls_server_config': tls(), 'basic_auth_user': {}}, "unknown key 'basic_auth_user'"),
                             ({'tls_server_config': tls(cert_file='none.pem'), 'basic_auth_users': users()}, 'none.pem'),
                             ({'basic_auth_users': users()}, 'enabling or disabling TLS requires a restart')):
            before = c.refused('settings')
            c.guard(broken)
            wait_until(lambda: c.refused('settings') == before + 1 and line in c.logged(), line, c)
            check(c.ask(user='late', password='l-a-t-e')[0] == 200, 'the former stays', c)
        end.set()
        for t in threads:
            t.join()
        check(not failed and asked[0] > 10, f'{len(failed)} of {asked[0]} failed: {failed[:3]}', c)


@case
def reloads_on_loopback_keep_authentication():
    """Other local users get in neither while an editor or a generator writes web.yml, nor by a file without users."""
    web = write(f'{workdir()}/web.yml', json.dumps({'basic_auth_users': users()}))
    word = 'Basic ' + base64.b64encode(b'reader:r-e-a-d').decode()
    with Agent() as a, Collector([a], '--web-config', web) as c:
        def status(**headers):
            return request(c.url + '/metrics', headers=headers)[0]
        for i, (text, line) in enumerate((('', 'the file is empty'), ('# users follow\n', 'the file is empty'),
                                          ('http_server_config: {}', 'no longer be authenticated'))):
            check(status() == 401 and status(Authorization=word) == 200, 'before', text, c)
            with open(web, 'w') as f:
                f.write(text)
            wait_until(lambda: c.logged().count('keeping the previous settings') > i or status() != 401, ('a reload', text), c)
            check(line in c.logged(), text, c)
            check(status() == 401 and status(Authorization=word) == 200, 'after', text, c)
            said = request(c.url + '/metrics', headers={'Authorization': word})[2].decode()
            check(f'sidelight_collector_http_refused_total{{cause="settings"}} {i + 1}\n' in said, 'counted', text, c)


@case
def slow_handshakes_refuse_no_other():
    """Another user begins more handshakes than there are connections, and ends none."""
    with Gate({'tls_server_config': tls(), 'basic_auth_users': users()}, '--max-connections', '32') as c:
        held = []

        def attack():
            for i in range(300):
                s = socket.create_connection(('127.0.0.1', c.port), 60)
                with contextlib.suppress(OSError):
                    s.sendall(b'\x16\x03\x01\x02\x00\x01'[:i % 7])
                held.append(s)
        with Attacker(attack):
            for i in range(10):
                got = c.ask(user='reader')
                check(got[0] == 200, f'request {i} beside slow handshakes: {got[:2]}', c)
            # Each ends by itself, although the attacker does nothing more.
            c.counts('handshake', 'the TLS handshake failed')
            check(c.refused('full') > 0, 'those beyond the attacker\'s share', c)


@case
def listening_widely_needs_tls_and_proof():
    folder = workdir()
    token = write(f'{folder}/token', '0123456789abcdef0123456789abcdef\n')
    Authority().issue('server', ['IP:127.0.0.1'], folder=folder)
    with_users = write(f'{folder}/users.yml', json.dumps({'basic_auth_users': users()}))
    with_tls = write(f'{folder}/tls.yml', json.dumps({'tls_server_config': tls()}))
    for what, code, line in (
            ([], 2, '--web-config'),
            (['--reader-token-file', token], 2, '--insecure-listen'),
            (['--insecure-listen'], 2, 'reachable from other hosts'),
            (['--web-config', with_users], 1, '--insecure-listen'),
            (['--web-config', with_tls], 1, 'readers need not authenticate'),
            (['--roles', with_tls], 2, '--web-config'),
            (['--web-config', f'{folder}/none'], 1, 'none')):
        p = run(EXE, 'collect', '--agent', f'{folder}/none.sock', '--listen', '0.0.0.0:0', *what, code=code)
        check(line in p.stderr and len(p.stderr.splitlines()) == 1, f'{what}: {p.stderr}')
    for what in (['--reader-token-file', token, '--insecure-listen'],
                 ['--reader-token-file', token, '--web-config', with_tls]):
        with Part(EXE, 'collect', '--agent', f'{folder}/none.sock', '--listen', '0.0.0.0:0', *what) as c:
            c.ready()
    p = run(EXE, 'agent', '--socket', f'{folder}/a.sock', '--rest', '0.0.0.0:0', '--rest-token-file', token, code=1)
    check('--insecure-listen' in p.stderr, p.stderr)
    p = run(EXE, 'agent', '--socket', f'{folder}/a.sock', '--rest', '127.0.0.1:0', '--web-config', with_tls, code=1)
    check('basic_auth_users' in p.stderr, p.stderr)
    with Agent('--rest', '127.0.0.1:0', '--web-config', with_users) as a:
        check(a.ask('GET', '/rdma/mrs')[0] == 401, 'REST without a password', a)
        word = 'Basic ' + base64.b64encode(b'reader:r-e-a-d').decode()
        check(a.ask('GET', '/rdma/mrs', headers={'Authorization': word})[0] == 200, 'REST with a password', a)
        status, said = a.ask('POST', '/metrics', {}, headers={'Authorization': word})
        check(status == 403, f'a reader publishes: {status} {said}', a)


@case
def prometheus_scrapes_by_certificate_and_password():
    if not available():
        skip('no prometheus')
    authority = Authority()
    pair = authority.issue('prometheus')
    web = {'tls_server_config': tls(client_ca_file=authority.ca, client_auth_type='RequireAndVerifyClientCert'),
           'basic_auth_users': users()}
    with Gate(web, authority=authority) as c:
        password = write(f'{c.folder}/password', PASSWORDS['reader'])
        how = {'scheme': 'https', 'tls_config': {'ca_file': authority.ca, 'cert_file': pair[0], 'key_file': pair[1]},
               'basic_auth': {'username': 'reader', 'password_file': password}}
        with Prometheus({'sidelight': (f'127.0.0.1:{c.port}', '/metrics')}, how=how) as p:
            p.scraped(['sidelight'])
            check(p.scalar('up{job="sidelight"}') == 1, p.targets(), c)
        settings = write(f'{c.folder}/client.yml', json.dumps({k: v for k, v in how.items() if k != 'scheme'}))
        run(EXE, 'query', 'status', '-c', f'https://127.0.0.1:{c.port}', '--http-config', settings)
        run(EXE, 'query', 'status', '-c', f'https://127.0.0.1:{c.port}', code=1)
        # Sidelight scrapes it, too.
        with Agent('--scrape', f'https://127.0.0.1:{c.port}/metrics,interval=1s,config={settings}') as a, \
                Part(EXE, 'collect', '--agent', a.socket, '--listen', '127.0.0.1:0') as other:
            at = other.ready()['listen']

            def up():
                conn = http.client.HTTPConnection(at, timeout=300)
                conn.request('GET', '/metrics')
                said = conn.getresponse().read().decode()
                conn.close()
                return re.search(r'^up{[^}]*} 1$', said, re.M)
            wait_until(up, 'the bridge scrapes by TLS', a)


class Webhook:
    """An HTTPS server that keeps the requests it received: [(headers, body)]."""

    def __init__(self, authority):
        got = self.got = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                got.append((dict(self.headers), body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        authority.guard(self.server)
        self.url = f'https://127.0.0.1:{self.server.server_port}/v1/traces'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@case
def receivers_get_secrets_that_no_log_has():
    """Remote write to Prometheus by TLS and password, and to a receiver that wants all the rest."""
    if not available():
        skip('no prometheus')
    authority = Authority()
    folder = workdir()
    authority.issue('server', ['IP:127.0.0.1'], folder=folder)
    secret, token = 's3cret-of-remote-write', 't0ken-of-the-receiver'
    web = write(f'{folder}/web.yml', json.dumps({'tls_server_config': tls(), 'basic_auth_users': {'writer': bcrypt(secret)}}))
    write(f'{folder}/password', secret + '\n')
    write(f'{folder}/token', 'wrong-' + token)
    to_prometheus = write(f'{folder}/prometheus.yml', json.dumps({
        'basic_auth': {'username': 'writer', 'password_file': 'credential:password'}, 'tls_config': {'ca_file': authority.ca}}))
    receiver = Webhook(authority)
    to_receiver = authority.client(f'{folder}/receiver.yml', authorization={'credentials_file': 'token'},
                                   headers={'X-Scope-OrgID': 'tenant 7'})
    with Receiver(web=web, how=(authority, 'writer', secret)) as p, Agent() as a:
        for to, config in ((p.url, to_prometheus), (receiver.url, to_receiver)):
            with Part(EXE, 'collect', '--agent', a.socket, '--listen', '127.0.0.1:0', '--remote-write', to,
                      '--remote-write-config', config, '--sample-every', '0', '--period', '100ms',
                      env={'CREDENTIALS_DIRECTORY': folder}) as c:
                c.ready()
                if to == p.url:
                    p.eventually(lambda: p.query('sidelight_agent_admitted_total'), 'remote write arrives')
                else:
                    wait_until(lambda: receiver.got, 'the receiver is sent something', c)
                    headers, _ = receiver.got[0]
                    check(headers['Authorization'] == f'Bearer wrong-{token}', headers)
                    check(headers['X-Scope-OrgID'] == 'tenant 7', headers)
                    write(f'{folder}/token', token)  # read again for each request
                    wait_until(lambda: receiver.got[-1][0]['Authorization'] == f'Bearer {token}', 'the new token', c)
                    os.remove(f'{folder}/token')
                    wait_until(lambda: 'cannot read the secret in' in c.logged(), 'a secret that is gone is said', c)
                with open(f'/proc/{c.pid}/cmdline', 'rb') as f:
                    shown = f.read().decode()
                for word in (secret, token, base64.b64encode(f'writer:{secret}'.encode()).decode()):
                    check(word not in c.logged() and word not in shown, f'{word} is shown', c)
    for bad, line in (({'basic_auth': {'username': 'x', 'password': secret}}, "'password_file'"),
                      ({'bearer_token': secret}, "'bearer_token_file'"),
                      ({'oauth2': {}}, "unknown key 'oauth2'"),
                      ({'follow_redirects': True}, 'redirects are never followed')):
        path = write(f'{folder}/bad.yml', json.dumps(bad))
        p = run(EXE, 'collect', '--agent', f'{folder}/none.sock', '--listen', '127.0.0.1:0', '--remote-write', receiver.url,
                '--remote-write-config', path, code=1)
        check(line in p.stderr and secret not in p.stderr, p.stderr)
    p = run(EXE, 'collect', '--agent', f'{folder}/none.sock', '--listen', '127.0.0.1:0', '--remote-write',
            f'https://writer:{secret}@127.0.0.1:1/', code=1)
    check('basic_auth' in p.stderr and secret not in p.stderr, p.stderr)


@case
def receivers_are_reached_by_their_proxy():
    """No name server knows the receiver: only its proxy can reach it, and gets no other's secret."""
    asked = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers['Content-Length']))
            asked.append((self.path, dict(self.headers)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass
    folder = workdir()
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    write(f'{folder}/token', 't0ken-of-the-receiver')
    config = write(f'{folder}/receiver.yml', json.dumps({
        'proxy_url': f'http://127.0.0.1:{server.server_address[1]}', 'no_proxy': 'other.invalid',
        'authorization': {'credentials_file': 'token'}}))
    try:
        with Agent() as a:
            for host, reached in (('receiver.invalid', True), ('other.invalid', False)):
                asked.clear()
                with Collector([a], '--remote-write', f'http://{host}/write', '--remote-write-config', config,
                               '--sample-every', '0', '--period', '100ms') as c:
                    if reached:
                        wait_until(lambda: asked, 'the proxy is asked', c)
                        path, headers = asked[0]
                        check(path == f'http://{host}/write', path)
                        check(headers['Authorization'] == 'Bearer t0ken-of-the-receiver', headers)
                    else:
                        wait_until(lambda: f'failed, will retry url=http://{host}/write' in c.logged(), 'its name is unknown', c)
                        check(not asked, 'no_proxy', asked)
                    check('t0ken' not in c.logged(), 'the token is shown', c)
    finally:
        server.shutdown()
        server.server_close()


run_cases()
