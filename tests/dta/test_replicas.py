# SPDX-License-Identifier: Apache-2.0
"""Two collectors that hold the same keys. One is killed and comes back: nothing is lost, what it missed is known and told,
a query answers with the confidence that it deserves, and all accounts close."""
import json
import signal
import socket
import subprocess
import sys

from support.http import get
from support.process import Part, check, wait_until, workdir

SIDELIGHT = sys.argv[1]
D = workdir()
STORES = '''
listen: {socket}
{more}
stores:
  - {{name: flows, number: 1, kind: key-write, seed: 1, slots: 200000, value: 8, copies: 4, keylog: keys}}
  - {{name: bytes, number: 2, kind: increment, seed: 2, rows: 4, columns: 100000}}
  - {{name: events, number: 3, kind: append, seed: 3, items: 8192, value: 8, batch: 16, lanes: 4}}
  - {{name: keys, number: 4, kind: append, seed: 4, items: 65536, value: 14, lanes: 4}}
'''


class Collector(Part):
    def __init__(self, name, more='', listen=None):
        self.socket = f'{D}/{name}.sock'
        with open(f'{D}/{name}.yaml', 'w') as f:
            f.write(STORES.format(socket=listen or self.socket, more=more))
        super().__init__(SIDELIGHT, 'collect', '--dta', f'{D}/{name}.yaml', '--listen', '127.0.0.1:0')
        self.part_ready = self.ready()
        self.at = self.part_ready['listen'].removeprefix('http://')

    def status(self):
        return json.loads(get(f'http://{self.at}/api/v1/dta'))


def query(kind, store, *keys, of=None, code=0):
    at = [w for c in of or (a, b) for w in ('-c', c.at)]
    p = subprocess.run([SIDELIGHT, 'query', kind, store, *keys, '--json', *at], capture_output=True, text=True, timeout=300)
    check(code is None or p.returncode == code, f'{kind} {store} {keys[:1]}: {p}')
    return [json.loads(line) for line in p.stdout.splitlines()]


def words(kind, store, *keys):
    p = subprocess.run([SIDELIGHT, 'query', kind, store, *keys, '-c', a.at, '-c', b.at], capture_output=True, text=True, timeout=300)
    return p.stdout + p.stderr


def report(lines, store):
    for i in range(0, len(lines), 1000):
        report.number += 1
        p = subprocess.run([SIDELIGHT, 'report', '--target', t.at, '--essential', '--store', str(store), '--reporter',
                            str(report.number), '--packet', '900', '--json'], input='\n'.join(lines[i:i + 1000]),
                           capture_output=True, text=True, timeout=300)
        said = json.loads(p.stdout)
        check(p.returncode == 0 and said['dropped_ring'] == 0 and said['waiting'] == 0, f'report: {p}', t)


report.number = 0


def key(i):
    return f'{i:016x}'


def write(first, last, value):
    report([f'keywrite copies=4 {key(i)} {value + i:016x}' for i in range(first, last)], 1)
    report([f'increment copies=4 {key(i)} 3' for i in range(first, last)], 2)
    report([f'append 0 {i:016x}' for i in range(first, last)], 3)


def values(answers):
    return [int(r['value'], 16) if r['result'] == 'found' else None for r in answers]


p = subprocess.run([SIDELIGHT, 'translate', '--collector', f'unix:{D}/a.sock', '--replicas', '2'], capture_output=True, text=True)
check(p.returncode == 2 and '--replicas 2 requires at least as many --collector' in p.stderr, f'{p}')
# A peer on another host needs RDMA and the secret, and accepts readers only after they have proved that they know it.
with open(f'{D}/far.yaml', 'w') as f:
    f.write(STORES.format(socket=f'{D}/far.sock', more='peer: "127.0.0.1:1"'))
p = subprocess.run([SIDELIGHT, 'collect', '--dta', f'{D}/far.yaml', '--listen', '127.0.0.1:0'], capture_output=True, text=True)
check(p.returncode and 'it needs rdma and a secret' in p.stderr, f'{p}')
open_one = Collector('far', listen='"127.0.0.1:0"')
where = next(w for w in open_one.part_ready['dta'].split(',') if w)
with socket.create_connection(where.rsplit(':', 1)) as s:
    s.sendall(b'{"type":"hello","version":3,"name":"peer","output":"verbs","reads":true}\n')
    said = s.makefile().readline()
check('must prove that it knows the secret' in said, said, open_one)
open_one.stop()
a, b = Collector('a'), Collector('b')
t = Part(SIDELIGHT, 'translate', '--collector', f'unix:{a.socket}', '--collector', f'unix:{b.socket}', '--replicas', '2', '--listen',
         '127.0.0.1:0', '--name', 't', '--json')
t.at = t.ready()['listen']
write(0, 600, 1000)

# Each collector has everything.
OLD, NEW = [key(i) for i in range(600)], [key(i) for i in range(600, 900)]
for one in (a, b):
    wait_until(lambda: values(query('keywrite', 'flows', *OLD, of=[one], code=None)) == [1000 + i for i in range(600)],
               'a replica has not all', one, t)
for r in query('keywrite', 'flows', *OLD):
    check(r['replicas'] == {'wanted': 2, 'asked': 2, 'agree': 2, 'missing': [], 'differ': [], 'may_be_old': False}, f'{r}')
check('2 of 2 replicas agree' in words('keywrite', 'flows', key(1)), words('keywrite', 'flows', key(1)))
check([r['value'] for r in query('increment', 'bytes', *OLD)] == [3] * 600, 'a count of two replicas is not their sum')
check(a.status()['replicas'] == 2 and a.status()['gaps'] == [], f'{a.status()["gaps"]}')

# One is killed. Reports go on: 300 new keys, and new values of 100 old ones.
a.stop(signal.SIGKILL)
wait_until(lambda: any('collector is not available' in line for line in t.err), 'the translator has not noticed', t)
write(600, 900, 1000)
write(0, 100, 5000)
want = [5000 + i if i < 100 else 1000 + i for i in range(900)]
wait_until(lambda: values(query('keywrite', 'flows', *OLD, *NEW, code=None)) == want, 'the other has not all', b, t)
one = query('keywrite', 'flows', key(700))[0]['replicas']
check((one['asked'], one['agree'], one['may_be_old']) == (1, 1, False), f'{one}')
check('1 of 2 replicas agree, 1 unreachable' in words('keywrite', 'flows', key(700)), words('keywrite', 'flows', key(700)))

# It returns empty: it reports since when it knows nothing, and the other one answers.
a = Collector('a')
wait_until(lambda: a.status()['gaps'], 'the gap is not told', a, t)
gap, = a.status()['gaps']
check(gap['translator'] == 't' and gap['from'] < gap['to'] and gap['reports'] == 3 * 400, f'{gap}')
check(b.status()['gaps'] == [], f'{b.status()["gaps"]}')
check(values(query('keywrite', 'flows', *OLD, *NEW)) == want, 'with one that is empty')
one = query('keywrite', 'flows', key(700))[0]
check(one['collector'] == b.at and one['replicas']['missing'] == [a.at] and not one['replicas']['may_be_old'], f'{one}')
check(f'missing at {a.at}' in words('keywrite', 'flows', key(700)), words('keywrite', 'flows', key(700)))


def disagree(store, *more):
    p = subprocess.run([SIDELIGHT, 'query', '--all', '--disagree', store, '-c', a.at, '-c', b.at, *more], capture_output=True,
                       text=True, timeout=300)
    check(p.returncode in (0, 1), f'{p}')
    return p.returncode, p.stdout


# Each key on which the replicas disagree is listed, whether the keys come from both key logs or from a list.
code, out = disagree('flows', '--json')
rows = [json.loads(line) for line in out.splitlines()]
check(code == 1 and sorted(r['key'] for r in rows) == OLD + NEW, f'{code}, {len(rows)} keys')
check(all(r['replicas']['missing'] == [a.at] and int(r['value'], 16) == want[int(r['key'], 16)] for r in rows), f'{rows[0]}')
with open(f'{D}/keys', 'w') as f:
    f.write(f'{key(700)}\n{key(12345)}\n')
code, out = disagree('bytes', '--keys', f'{D}/keys')
head, *rows = [line.split(',') for line in out.split()]
check(code == 1 and [dict(zip(head, r))[n] for r in rows for n in ('key', 'value', 'missing')] == [key(700), '3', a.at], out)
check('has no key log' in subprocess.run([SIDELIGHT, 'query', '--all', '--disagree', 'bytes', '-c', a.at, '-c', b.at],
                                         capture_output=True, text=True).stderr, 'a store without keys')
write(900, 1000, 1000)
late = [key(i) for i in range(900, 1000)]
wait_until(lambda: values(query('keywrite', 'flows', *late, of=[a], code=None)) == [1000 + i for i in range(900, 1000)],
           'what came since is not there', a, t)
check(values(query('keywrite', 'flows', key(950))) == [1950] and query('keywrite', 'flows', key(950))[0]['replicas']['agree'] == 2,
      'what came since')
check([r['value'] for r in query('increment', 'bytes', key(50), key(950))] == [6, 3], f'{query("increment", "bytes", key(50))}')
# An answer of this collector alone may be outdated.
b.stop(signal.SIGKILL)
one, = query('keywrite', 'flows', key(950))
check(one['replicas']['may_be_old'] and one['gaps'] and 'may be outdated: the collector was unavailable' in words('keywrite', 'flows', key(950)), f'{one}')

# Accounts close, at the collector (as far as its translator counted since its start) and at the translator: each report counts
# twice, except those that only one collector took.
wait_until(lambda: a.status()['account']['closes'] and a.status()['account']['stored'] == 2100, lambda: f'{a.status()["account"]}', a, t)
t.stop(signal.SIGINT)
account = json.loads(t.stdout()[t.stdout().index('{'):])
reports = 3 * (600 + 400 + 100)
engine = account['engine']
check(account['fresh'] == reports and 2 * reports == engine['in'] + account['unreplicated'], f'{account}')
check(engine['in'] == engine['stored'] + sum(engine['dropped'].values()) and account['unreplicated'] == 3 * 400, f'{account}')

# The gap of one collector is still known after the translator is killed, from the translator's file.
a.stop()
b = Collector('b')


def with_gaps(workers):
    part = Part(SIDELIGHT, 'translate', '--collector', f'unix:{b.socket}', '--collector', f'unix:{D}/a.sock', '--replicas', '2',
                '--listen', '127.0.0.1:0', '--name', 't3', '--gaps', f'{D}/gaps', '--workers', str(workers), '--json')
    wait_until(lambda: any('writing' in line for line in part.err), 'it does not write', part)
    return part


a = Collector('a')
t = with_gaps(2)
t.at = t.ready()['listen']
again = subprocess.run([SIDELIGHT, 'translate', '--collector', '/x', '--collector', '/y', '--replicas', '2', '--gaps', f'{D}/gaps'],
                       capture_output=True, text=True, timeout=300)
check(again.returncode == 1 and 'another process is using it' in again.stderr, f'{again}')
a.stop(signal.SIGKILL)
wait_until(lambda: any('collector is not available' in line for line in t.err), 'the translator has not noticed', t)
write(0, 100, 1000)
t.stop(signal.SIGKILL)
# One worker takes over the gaps of two.
t = with_gaps(1)
a = Collector('a')
wait_until(lambda: a.status()['gaps'], 'the gap is not told', a, t)
gap, = a.status()['gaps']
check(gap['translator'] == 't3' and gap['reports'] == 300 and gap['to'] - gap['from'] > 1, f'{gap}')
t.stop()
with open(f'{D}/other', 'w') as f:
    f.write('x')
again = subprocess.run([SIDELIGHT, 'translate', '--collector', '/x', '--collector', '/y', '--replicas', '2', '--gaps', f'{D}/other'],
                       capture_output=True, text=True, timeout=300)
check(again.returncode == 1 and 'is not a gap file' in again.stderr, f'{again}')
a.stop()
b.stop()

# With a peer, a returning collector catches up by reading the other one's memory.
a, b = Collector('a2', f'peer: unix:{D}/b2.sock'), Collector('b2', f'peer: {D}/a2.sock')
t = Part(SIDELIGHT, 'translate', '--collector', f'unix:{a.socket}', '--collector', f'unix:{b.socket}', '--replicas', '2', '--listen',
         '127.0.0.1:0', '--name', 't2', '--json')
t.at = t.ready()['listen']
write(0, 600, 1000)
wait_until(lambda: values(query('keywrite', 'flows', *OLD, of=[b], code=None)) == [1000 + i for i in range(600)], 'not all', b, t)
a.stop(signal.SIGKILL)
wait_until(lambda: any('collector is not available' in line for line in t.err), 'the translator has not noticed', t)
write(600, 900, 1000)
write(0, 100, 5000)
wait_until(lambda: values(query('keywrite', 'flows', *OLD, *NEW, of=[b], code=None)) == want, 'the other has not all', b, t)
a = Collector('a2', f'peer: unix:{D}/b2.sock')
# Written while it catches up, and therefore newer than what it reads.
write(100, 150, 9000)
want[100:150] = [9000 + i for i in range(100, 150)]
wait_until(lambda: [g['filled'] for g in a.status()['gaps']] == [True], lambda: f'{a.status()["gaps"]}', a, t)
wait_until(lambda: values(query('keywrite', 'flows', *OLD, *NEW, of=[a], code=None)) == want, 'it has not caught up', a, b, t)
wait_until(lambda: values(query('keywrite', 'flows', *OLD, *NEW, of=[b], code=None)) == want, 'the other', b, t)
answers = query('keywrite', 'flows', *OLD, *NEW)
check(all(r['replicas']['agree'] == 2 and not r['replicas']['may_be_old'] for r in answers), f'{answers[0]}')
check(disagree('flows', '--json') == (0, ''), 'they disagree')
counts = [r['value'] for r in query('increment', 'bytes', key(50), key(500), key(700), of=[a])]
check(counts == [6, 3, 3], f'{counts}')
rings = query('append', 'events', '--max', '4096', of=[a])[0]['rings']
items = {int(i, 16) for r in rings for i in r['items']}
check(items >= set(range(900)), f'{len(items)} items')
check(all(g == [] for g in [b.status()['gaps']]) and b.status()['refused_connections'] == 0, f'{b.status()["refused_by_cause"]}')
# Then it answers alone, and the next epoch of its translator is like any other.
b.stop(signal.SIGKILL)
check(values(query('keywrite', 'flows', *OLD, *NEW)) == want, 'alone')
check(not query('keywrite', 'flows', key(5))[0]['replicas']['may_be_old'], 'it is as good as the other')
