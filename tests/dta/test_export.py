# SPDX-License-Identifier: Apache-2.0
"""'sidelight query --all': every kind of store, as CSV and JSON lines, contains what was reported."""
import csv
import io
import json
import os
import subprocess
import sys

from support.http import get_json
from support.process import Part, check, wait_until, workdir

SIDELIGHT = sys.argv[1]
D = workdir()
STORES = f'''
listen: {D}/dta.sock
directory: {D}/stores
stores:
  - {{name: flows, number: 1, kind: key-write, seed: 1, slots: 1000000, value: 8, copies: 4, keylog: keys}}
  - {{name: bare, number: 2, kind: key-write, seed: 1, slots: 1000000, value: 8, copies: 4}}
  - {{name: bytes, number: 3, kind: increment, seed: 1, rows: 4, columns: 100000, keylog: keys}}
  - {{name: paths, number: 4, kind: postcard, seed: 1, slots: 100000, hops: 5, copies: 2, keylog: keys}}
  - {{name: events, number: 5, kind: append, lists: 3, items: 8192, value: 8, batch: 16, lanes: 4}}
  - {{name: sizes, number: 6, kind: sketch, sketch: count-min, rows: 2, columns: 64, reporters: 1}}
  - {{name: keys, number: 7, kind: append, lists: 3, items: 65536, value: 14, lanes: 4}}
'''
N = 9000  # more than two pages


def run(*words, code=0):
    p = subprocess.run([SIDELIGHT, *words], capture_output=True, timeout=300)
    check(code is None or p.returncode == code, f'{words}: exit {p.returncode}: {p.stdout[-300:]}{p.stderr[-300:]}')
    return p.stdout.decode(), p.stderr.decode()


def table(text):
    """RFC 4180: lines end with CRLF, and there is one header."""
    check(text.endswith('\r\n') and text.count('\n') == text.count('\r\n'), text[:200])
    rows = list(csv.DictReader(io.StringIO(text, newline='')))
    check(all(None not in r and None not in r.values() for r in rows), 'a line of another number of fields')
    return rows


def report(t, lines, store):
    """Sends lines in several runs, each with a reporter number of its own and no more reports than the ring has room for."""
    for i in range(0, len(lines), 1000):
        report.reporter += 1
        p = subprocess.run([SIDELIGHT, 'report', '--target', t.at, '--essential', '--store', str(store), '--packet', '900',
                            '--reporter', str(report.reporter), '--json'], input='\n'.join(lines[i:i + 1000]),
                           capture_output=True, text=True, timeout=300)
        check(p.returncode == 0 and json.loads(p.stdout)['dropped_ring'] == 0, f'report: {p.stdout}{p.stderr}', t)


report.reporter = 0


def both(c, *words):
    """The same records as CSV and as JSON lines."""
    rows = table(run('query', '--all', '-c', c.at, *words)[0])
    lines = [json.loads(line) for line in run('query', '--all', '--json', '-c', c.at, *words)[0].splitlines()]
    check([str(r.get('value', '')) for r in lines] == [r.get('value', '') for r in rows], f'{words}: CSV is not as JSON')
    return rows


os.mkdir(f'{D}/stores')
with open(f'{D}/stores.yaml', 'w') as f:
    f.write(STORES)
c = Part(SIDELIGHT, 'collect', '--dta', f'{D}/stores.yaml', '--listen', '127.0.0.1:0')
c.at = c.ready()['listen'].removeprefix('http://')
t = Part(SIDELIGHT, 'translate', '--collector', f'unix:{D}/dta.sock', '--listen', '127.0.0.1:0', '--json')
t.at = t.ready()['listen']
keys = {f'{i:016x}': f'{7 * i:016x}' for i in range(1, N + 1)}
lines = [f'keywrite copies=4 {k} {v}' for k, v in keys.items()]
report(t, lines, 1)
report(t, lines[:3000], 1)  # keys that come again stand once
report(t, lines, 2)
report(t, [f'increment copies=4 {k} {i}' for i, k in enumerate(keys, 1)], 3)
report(t, [f'postcard copies=2 {k} {h} 3 {h + 10}' for k in list(keys)[:500] for h in range(3)], 4)
report(t, [f'append {i % 3} {i:016x}' for i in range(1, 4001)], 5)
everything = 3 * N + 3000 + 1500 + 4000


def account():
    return json.loads(run('query', 'status', '--json', '-c', c.at)[0])['account']


wait_until(lambda: account()['stored'] >= everything and not account()['waiting'], lambda: f'{everything}: {account()}', c, t)

rows = both(c, 'flows')
check({r['key']: r['value'] for r in rows} == keys and len(rows) == N, f'{len(rows)} of {N} keys')
check({r['epoch'] for r in rows} == {'0'} and {r['store'] for r in rows} == {'flows'}, f'{rows[0]}')

slots = both(c, 'bare')
check(3 * N < len(slots) <= 4 * N and {r['value'] for r in slots} == set(keys.values()), f'{len(slots)} slots of {N} keys')
check(len(both(c, 'flows', '--slots')) > N, 'a store with a key log has no slots')

rows = both(c, 'bytes')
check(len(rows) == N and all(int(r['value']) >= i for i, r in enumerate(sorted(rows, key=lambda r: r['key']), 1)), 'counts')
total = sum(int(r['value']) for r in both(c, 'bytes', '--slots'))
check(total == 4 * N * (N + 1) // 2, f'{total} in four rows')

paths = both(c, 'paths')
check(len(paths) == 500 and {r['path'] for r in paths} == {'10 11 12'}, f'{len(paths)} {paths[:2]}')

items = both(c, 'events')
check(sorted(int(r['value'], 16) for r in items) == list(range(1, 4001)), f'{len(items)} items')
check(all(int(r['value'], 16) % 3 == int(r['list']) for r in items), 'an item in another list')

# With keys from a file, keys that were never reported are marked as not found.
with open(f'{D}/keys', 'w') as f:
    f.write('\n'.join([*list(keys)[:1500], 'text:unknown', 'u64:5']) + '\n')
rows = both(c, 'flows', '--keys', f'{D}/keys')
check([r['result'] for r in rows] == ['found'] * 1500 + ['empty', 'found'] and rows[-1]['value'] == keys[f'{5:016x}'],
      f'{len(rows)} {rows[-2:]}')

# A sketch, all of it read at one moment.
g = Part(SIDELIGHT, 'generate', 'dta', '--to', t.at, '--kinds', 'sketch', '--rows', '2', '--columns', '64', '--store', '6', '--keys',
         '50', '--essential', '--show', '0')
check(g.wait() == 0, 'the generator failed', g, t)
wait_until(lambda: '1 of 1 reporters' in run('query', 'sketch', 'sizes', '-c', c.at, code=None)[0], 'the sketch', c, t)
cells = both(c, 'sizes')
sums = [sum(int(r['value']) for r in cells if r['row'] == row) for row in ('0', '1')]
check(sums[0] == sums[1] > 0, f'{sums}')

# Files are the same, with and without the collector's help.
file = f'{D}/stores/bare.0.0.store'
check(table(run('query', '--all', '--file', file)[0]) == slots, 'a file of slots')
check(len(run('query', '--all', '--json', '--file', file)[0].splitlines()) == len(slots), 'a file as JSON')

# An epoch is named, and one that is over is refused, instead of mixed with another.
run('query', 'rotate', 'flows', '-c', c.at)
wait_until(lambda: json.loads(run('query', 'status', '--json', '-c', c.at)[0])['stores'][0]['epoch'] == 1, 'rotation', c, t)
check(both(c, 'flows') == [] and len(both(c, 'flows', '--epoch', '0')) == N, 'epochs')
check('no such epoch' in run('query', '--all', 'flows', '--epoch', '5', '-c', c.at, code=1)[1], 'an epoch that is not there')
for words in (['--all'], ['--all', 'a', 'b'], ['--all', 'a/b'], ['--all', 'flows', '--keys', 'x', '--slots'], ['--slots']):
    run('query', *words, '-c', c.at, code=2)
check("no store 'nosuch'" in run('query', '--all', 'nosuch', '-c', c.at, code=1)[1], 'no store')
for wrong in ('', '?store=flows&at=1.2', '?store=flows&at=1.2.3.4.5', '?store=flows&epoch=x'):
    p = subprocess.run(['curl', '-sg', '-o', '/dev/null', '-w', '%{http_code}', f'http://{c.at}/api/v1/dta/export{wrong}'],
                       capture_output=True, text=True)
    check(p.stdout == '400', f'{wrong}: {p.stdout}')
# Any position is valid, but may be followed by nothing.
for at in ('18446744073709551615.18446744073709551615.18446744073709551615.18446744073709551615', '9.9.9.9', '0.0.7.9'):
    for store in ('flows', 'bare', 'events', 'bytes', 'paths'):
        p = subprocess.run(['curl', '-sgf', f'http://{c.at}/api/v1/dta/export?store={store}&epoch=0&at={at}'], capture_output=True)
        check(p.returncode == 0 and json.loads(p.stdout)['records'] is not None, f'{store} at {at}: {p}', c)
check(c.poll() is None if hasattr(c, 'poll') else True, 'the collector', c)
# The collector mends a file of its own that is too short.
with open(file, 'rb') as whole, open(f'{D}/short.store', 'wb') as short:
    short.write(whole.read(4096))
run('query', '--all', '--file', f'{D}/short.store', code=1)

# A page ends when the budget of its query is used up.
check(c.stop() == 0, 'it ends', c)
c = Part(SIDELIGHT, 'collect', '--dta', f'{D}/stores.yaml', '--listen', '127.0.0.1:0', '--query-samples', '1000')
c.at = c.ready()['listen'].removeprefix('http://')
for path in ('export?store=bare', 'export?store=bytes', 'export?store=events', 'keys?store=flows', 'keys?store=bytes&top=1'):
    status, answer = get_json(f'http://{c.at}/api/v1/dta/{path}')
    check(status == 422 and '1000 samples' in answer['error'], f'{path}: {status} {str(answer)[:200]}', c)
