# SPDX-License-Identifier: Apache-2.0
"""Who reports: the inventory of 'sidelight query reporters' and /api/v1/dta/reporters has each reporter that a
translator knows, with what it sent and lost; bounded, and after its translator is gone."""
import json
import signal
import socket
import struct
import subprocess
import sys

from support.http import get
from support.process import Part, check, wait_until, workdir

SIDELIGHT = sys.argv[1]
D = workdir()
STORES = f'listen: {D}/dta.sock\nstores:\n  - {{name: flows, number: 1, kind: key-write, slots: 100000, value: 8}}\n'


def query(*words):
    p = subprocess.run([SIDELIGHT, 'query', 'reporters', '-c', c.at, *words], capture_output=True, text=True, timeout=300)
    check(p.returncode == 0, f'{p}', c)
    return p.stdout


def inventory():
    return json.loads(get(f'http://{c.at}/api/v1/dta/reporters'))


def told():
    return {r['reporter']: r for r in map(json.loads, query('--json').splitlines())}


def report(number, count):
    p = subprocess.run([SIDELIGHT, 'report', '--target', t.at, '--essential', '--store', '1', '--reporter', str(number)],
                       input=''.join(f'keywrite {i:016x} {i:016x}\n' for i in range(count)), capture_output=True, text=True,
                       timeout=300)
    check(p.returncode == 0, f'{p}', t)


def packet(reporter):
    """Returns the packets that the program sends."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind(('127.0.0.1', 0))
    p = subprocess.Popen([SIDELIGHT, 'report', '--target', f'127.0.0.1:{listener.getsockname()[1]}', '--store', '1', '--reporter',
                          str(reporter)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    p.communicate(b'keywrite 0000000000000001 0000000000000002\n', timeout=300)
    return bytearray(listener.recv(2000))


with open(f'{D}/stores.yaml', 'w') as f:
    f.write(STORES)
c = Part(SIDELIGHT, 'collect', '--dta', f'{D}/stores.yaml', '--listen', '127.0.0.1:0')
c.at = c.ready()['listen'].removeprefix('http://')
check(query('--json') == '' and len(query().splitlines()) == 1, 'reporters before there is one')
t = Part(SIDELIGHT, 'translate', '--collector', f'unix:{D}/dta.sock', '--listen', '127.0.0.1:0', '--name', 't1', '--json')
t.at = t.ready()['listen']
report(11, 300)
report(12, 7)
wait_until(lambda: (told().get(11, {}).get('arrived'), told().get(12, {}).get('arrived')) == (300, 7), lambda: f'{told()}', c, t)
one = told()[11]
check(one['translator'] == 't1' and one['connected'] and one['tenant'] == 0 and one['address'] == '127.0.0.1' and one['port'] > 0,
      f'{one}')
check(one['lost'] == one['missing'] == one['collisions'] == 0 and not one['authenticated'] and one['incarnation'] > 0, f'{one}')
wait_until(lambda: told()[11]['age_seconds'] >= told()[11]['silent_seconds'] > 1, lambda: f'{told()}')

# A gap that is not filled is lost, and it is that reporter's.
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
at = (t.at.rsplit(':', 1)[0], int(t.at.rsplit(':', 1)[1]))
d = packet(13)
found = inventory()
check(found['more'] == 0 and {r['reporter'] for r in found['reporters']} == {11, 12}, f'{found}')
s.sendto(d, at)
later = bytearray(d)
later[12:16] = struct.pack('>I', struct.unpack_from('>I', d, 12)[0] + 41)
s.sendto(later, at)
wait_until(lambda: told().get(13, {}).get('lost') == 40, lambda: f'{told()}', c, t)
check(told()[11]['lost'] == 0 and told()[13]['arrived'] == 2, f'{told()}')

# Reporters beyond the limit are only counted; the latest ones are listed.
g = Part(SIDELIGHT, 'generate', 'dta', '--to', t.at, '--kinds', 'keywrite', '--count', '2000', '--reporters', '300', '--pack', '4',
         '--show', '0')
check(g.wait() == 0, 'the generator failed', g, t)
wait_until(lambda: inventory()['more'] >= 300 + 3 - 128 - 5, 'the others are not counted', c, t)
check(len(told()) == 128 and 'other reporters were last heard from earlier' in query(), 'the list is not bounded')
t.stop(signal.SIGKILL)
wait_until(lambda: not any(r['connected'] for r in told().values()), 'its translator is gone', c)
check('(gone)' in query(), query())

# If a translator lies, entries that are no reporters are left out, numbers are numbers, and all of it is bounded.
s = socket.socket(socket.AF_UNIX)
s.connect(f'{D}/dta.sock')


def say(**message):
    s.sendall(json.dumps(message).encode() + b'\n')


good = {'tenant': 0, 'reporter': 1, 'address': '192.0.2.1', 'arrived': 5, 'rate': 1.5}
say(type='hello', version=3, name='liar', output='shm', called='x', replicas=-7)
say(type='reporters', more=-1, reporters=[
    7, None, [], 'x', {}, {**good, 'address': '\x1b[2J'}, {**good, 'address': None}, {**good, 'port': -1, 'tenant': 1 << 40},
    {**good, 'rate': -1, 'arrived': -1, 'age_seconds': 1e300, 'reporter': 'x'}, *([good] * 300)])
say(type='reporters', reporters={'a': 1})
say(type='reporters', more=-1, reporters=[{**good, 'port': -1, 'tenant': 1 << 40, 'arrived': -1, 'age_seconds': 1e300}] + [good] * 300)
say(type='gap', to=1, reports='x')
say(type='gap', **{'from': 9, 'to': 1})
for i in range(100):
    say(type='gap', **{'from': i, 'to': i + 1, 'reports': 1})


def of_liar():
    return [r for r in inventory()['reporters'] if r['translator'] == 'liar']


wait_until(lambda: len(of_liar()) == 128 and of_liar()[0]['arrived'] == 0, lambda: f'{of_liar()}'[:500], c)
first = of_liar()[0]
check((first['port'], first['tenant'], first['arrived']) == (0, 0, 0) and first['age_seconds'] < 1.1e9, f'{first}')
check(len(inventory()['reporters']) == 256 and '\x1b' not in query(), 'not bounded')
status = json.loads(get(f'http://{c.at}/api/v1/dta'))
wait_until(lambda: len(json.loads(get(f'http://{c.at}/api/v1/dta'))['gaps']) == 64, 'gaps', c)
gaps = json.loads(get(f'http://{c.at}/api/v1/dta'))['gaps']
wait_until(lambda: json.loads(get(f'http://{c.at}/api/v1/dta'))['gaps'][-1]['to'] > 99.5e-9, lambda: f'{gaps[-1]}', c)
check(sum(g['reports'] for g in json.loads(get(f'http://{c.at}/api/v1/dta'))['gaps']) == 100, 'a gap is forgotten')
check(status['replicas'] == 1, f'{status["replicas"]}')
