#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table "Who listens" of docs/security.md, row by row: test_listeners.py SIDELIGHT SECURITY.md"""
import contextlib
import re
import sys

from support.pki import bcrypt
from support.process import Part, check, wait_until, workdir
from support.sidelight import EXE
from support.sockets import opened

WIDE = '0.0.0.0:0'
folder = workdir()


def stores(name, *more):
    path = f'{folder}/{name}.yaml'
    with open(path, 'w') as f:
        f.write('\n'.join([f'listen: ["{WIDE}"]', *more, 'tenants: [{number: 0, name: default}]',
                           'stores: [{name: flows, number: 1, kind: key-write, seed: 1, slots: 20000, value: 8, copies: 4, epochs: 1}]']))
    return path


token = f'{folder}/token'
with open(token, 'w') as f:
    f.write('0123456789abcdef')
users = f'{folder}/web.yml'
with open(users, 'w') as f:
    f.write(f'basic_auth_users: {{otlp: "{bcrypt("a-password-of-senders")}"}}')
agent = ('agent', '--socket', f'{folder}/agent.sock')
translate = ('translate', '--collector', f'unix:{folder}/none.sock', '--name', 't')
collect = ('collect', '--listen', '127.0.0.1:0', '--dta')
# listener: (command that would admit other hosts, [(further options that permit it, the warning)])
ROWS = {
    'HTTP of the collector': (('collect', '--agent', f'{folder}/none.sock', '--listen', WIDE), [
        (('--open',), 'anyone who can reach the address'),
        (('--reader-token-file', token, '--insecure-listen'), 'in the clear')]),
    'REST of the agent': ((*agent, '--rest', WIDE, '--rest-token-file', token), [(('--insecure-listen',), 'in the clear')]),
    'OTLP': ((*agent, '--no-rest', '--otlp', WIDE), [(('--web-config', users, '--insecure-listen'), 'in the clear')]),
    'StatsD': ((*agent, '--no-rest', '--statsd', WIDE), []),
    'reports': ((*translate, '--listen', WIDE), [(('--insecure-listen',), 'any host may send packets')]),
    'packets of devices': ((*translate, '--input', f'sflow={WIDE}'), [(('--insecure-listen',), 'any host may send packets')]),
    'translators of stores': ((*collect, stores('closed')), [((*collect, stores('open', 'insecure_listen: true')), 'accepts any translator')]),
    'reads over TCP': ((*agent, '--no-rest', '--fabric', 'tcp:0.0.0.0:1'), []),
    'reads over RDMA': (None, []),  # tests/guest has a device
}


def table():
    """{listener: the other columns}"""
    with open(sys.argv[2]) as f:
        rows = f.read().split('## Who listens')[1].split('\n## ')[0]
    cells = [[c.strip() for c in line.split('|')[1:-1]] for line in rows.splitlines() if line.startswith('|')]
    return {row[0]: row[1:] for row in cells[2:]}


def sockets(pid):
    """Local addresses of its UDP sockets and of those that listen, in hexadecimal as in /proc/net/udp."""
    own, found = opened(pid), set()
    for family in ('udp', 'udp6', 'tcp', 'tcp6'):
        with contextlib.suppress(OSError), open(f'/proc/{pid}/net/{family}') as f:  # it may have ended
            found |= {w[1].split(':')[0] for w in map(str.split, list(f)[1:])
                      if f'socket:[{w[9]}]' in own and (family[0] == 'u' or w[3] == '0A')}
    return found


def is_ready(part):
    return any(line.startswith('ready') for line in part.out + part.err)


def listens(part):
    """Whether other hosts may connect, although the process should have ended."""
    return is_ready(part) or any(set(address) == {'0'} for address in sockets(part.pid))


said = table()
check(said.keys() == ROWS.keys(), said.keys() ^ ROWS.keys(), 'differ')
for listener, (words, unsafe) in ROWS.items():
    if not words:
        continue
    part = Part(EXE, *words)
    wait_until(lambda: part.p.poll() is not None or listens(part), listener, 'does not end', part)
    check(part.p.poll(), listener, 'listens', part)
    safe, risk = (re.findall('`(.*?)`', c) for c in said[listener][2:])
    for option in (*safe, *risk):
        check(option in part.logged(), listener, 'does not name', option, part)
    for more, line in unsafe:
        command = more if more[0] == 'collect' else (*words, *more)
        with Part(EXE, *command) as part:
            # The process that serves may warn after the main process is ready.
            wait_until(lambda: line in part.logged(), listener, 'does not warn', part)
    print('ok  ', listener)

# By default, other hosts can reach no socket.
for words in (translate, (*translate, '--input', 'sflow')):
    with Part(EXE, *words) as part:
        at = wait_until(lambda: sockets(part.pid), 'a socket', part)
        check(set(at) == {'0100007F'}, at, part)
