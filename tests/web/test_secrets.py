#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Only the processes that need a secret have it in memory, for every secret: test_secrets.py SIDELIGHT CASE"""
import base64
import json
import os
import secrets
import signal

from support.front import children, helper, name, spawners
from support.http import request, request_at
from support.memory import held
from support.pki import Authority, bcrypt
from support.process import alive, case, check, run, run_cases, skip, wait_until, workdir
from support.sidelight import EXE, Agent, Collector

folder = workdir()
forms = {}  # {name: forms} of the secrets written so far


def draw(secret, text=None, mode=0o600):
    """Writes a secret into a file of its own and returns its path."""
    text = text or secrets.token_hex(16)
    forms[secret] = {text.encode(), base64.b64encode(text.encode()).rstrip(b'=')[:-1]}
    if len(text) == 32 and all(c in '0123456789abcdef' for c in text):
        forms[secret].add(bytes.fromhex(text))
    path = f'{folder}/{secret}'
    with open(path, 'w') as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def write(file, content):
    path = f'{folder}/{file}'
    with open(path, 'w') as f:
        f.write(content if isinstance(content, str) else json.dumps(content))
    os.chmod(path, 0o600)
    return path


def client(secret):
    """Settings of a client that presents a secret."""
    return write(f'{secret}.yml', {'basic_auth': {'username': 'u', 'password_file': draw(secret)}})


def tree(pid):
    return [pid] + [p for c in children(pid) if alive(c) for p in tree(c)]


def apart(part, **needed):
    """Checks that each process holds only the secrets that it needs, by process name; 'itself' is the part itself."""
    for pid in tree(part.pid):
        who = 'itself' if pid == part.pid else name(pid)
        wrong = {s for s in forms if s not in needed.get(who.replace('-', '_'), ()) and held(pid, forms[s])}
        check(not wrong, f'{who} ({pid}) holds {sorted(wrong)}', part)
    said = part.logged() + part.stdout()
    check(not [s for s, f in forms.items() if any(x in said.encode() for x in f)], 'a log has a secret', part)


def says_none(*answers):
    for a in answers:
        check(not [s for s, f in forms.items() if any(x in a for x in f)], f'a page has a secret: {a[:500]}')


def replace_all(part):
    """Kills helpers and spawners, and waits for the next ones, which start after the secrets were read."""
    for pid in [p for p in tree(part.pid)[1:] if name(p) in ('sidelight-http', 'sidelight-tcp', 'sidelight-kafka')]:
        what = name(pid)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: helper(part, what) not in (None, pid), f'another {what}', part)
    first, n = min(spawners(part)), len(spawners(part))
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: first not in spawners(part) and len(spawners(part)) == n, 'another spawner', part)


def tables():
    return not run(EXE, 'tcp', 'probe', '--json', code=None).returncode


def has(option):
    return f'--{option}' in run(EXE, 'agent', '--help').stdout


@case
def an_agents_secrets():
    scrape = client('scrape-password')
    options = ['--rest', '127.0.0.1:0', '--rest-token-file', draw('rest-token'), '--insecure-listen',
               '--scrape', f'http://127.0.0.1:1/metrics,job=j,interval=100ms,config={scrape}']
    if tables():
        options += ['--tcp', 'flows']
    if os.environ.get('SL_TEST_FABRIC') == '1':
        options += ['--fabric', 'tcp:127.0.0.1:0', '--rdma-secret', draw('rdma-secret')]
    with Agent(*options) as agent:
        needed = {'itself': ('rest-token', 'rdma-secret'), 'sidelight_bridg': ('scrape-password',)}
        says_none(*(json.dumps(request_at(agent.rest, 'GET', path, headers={'Authorization': 'Bearer wrong'})).encode()
                    for path in ('/tcp', '/none')))
        apart(agent, **needed)
        replace_all(agent)
        apart(agent, **needed)


@case
def a_collectors_secrets():
    write('stores.yaml', f'listen: [{folder}/dta.sock]\nhugepages: never\n'
          f'tenants:\n  - {{number: 7, name: proven, key: {draw("dta-key")}, required: true}}\n'
          'stores:\n  - {name: flows, tenant: 7, number: 1, kind: key-write, slots: 1000, value: 8, copies: 2}\n')
    options = ['--dta', f'{folder}/stores.yaml', '--rdma-secret', draw('rdma-secret'), '--history', '8M', '--analyse']
    for role in 'reader', 'actor', 'admin':
        options += [f'--{role}-token-file', draw(f'{role}-token')]
    for option, url in (('remote-write', 'http://127.0.0.1:1/w'), ('alert', 'http://127.0.0.1:1/api/v2/alerts'),
                        ('webhook', 'http://127.0.0.1:1/hook'), ('otlp', 'http://127.0.0.1:1/v1/traces')):
        options += [f'--{option}', url, f'--{option}-config', client(f'{option}-password')]
    ours = set(forms)
    if os.path.exists(f'{os.path.dirname(EXE)}/sidelight-kafka'):
        options += ['--kafka-config', write('kafka.properties', 'bootstrap.servers=127.0.0.1:1\n'
                    'security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=u\n'
                    f'sasl.password.file={draw("kafka-password")}\n')]
    with Collector(['tcp://127.0.0.1:1'], *options) as collector:
        needed = {'itself': ours, 'sidelight_kafka': ('kafka-password',)}
        says_none(*(request(collector.url + path, headers={'Authorization': 'Bearer wrong'})[2]
                    for path in ('/metrics', '/none', '/api/v1/status', '/api/v1/dta/stores')))
        apart(collector, **needed)
        replace_all(collector)
        apart(collector, **needed)


@case
def those_of_a_web_yml():
    authority = Authority()
    authority.issue('server', ['DNS:localhost', 'IP:127.0.0.1'], folder=folder)
    with open(f'{folder}/server.key') as f:
        lines = f.read().splitlines()
    forms['tls-key'] = {lines[1].encode(), base64.b64decode(''.join(lines[1:-1]))[40:60]}
    hashed = bcrypt('a password of a user')
    forms['password-hash'] = {hashed.encode()}
    web = write('web.yml', {'tls_server_config': {'cert_file': 'server.pem', 'key_file': 'server.key'},
                            'basic_auth_users': {'reader': hashed}})
    with Collector([f'{folder}/none.sock'], '--web-config', web, '--history', '8M',
                   how=(authority, 'reader', 'a password of a user')) as collector:
        wait_until(lambda: collector.get('/metrics'), collector)
        apart(collector, itself=('tls-key', 'password-hash'))
        replace_all(collector)
        wait_until(lambda: collector.get('/metrics'), collector)
        apart(collector, itself=('tls-key', 'password-hash'))


try:
    held(os.getppid(), ())
except PermissionError:
    skip('the memory of other processes is not to be read here')
if os.environ.get('SL_TEST_INSTRUMENTED') == '1':
    skip('a sanitizer keeps what was freed')
run_cases()
