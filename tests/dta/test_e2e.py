# SPDX-License-Identifier: Apache-2.0
"""Reports from a generator through a translator into the stores of a collector, and out of its queries: real
processes, and every report accounted for."""
import json
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

from support.http import get
from support.process import Part, case, check, poll, run_cases, wait_until, workdir

SIDELIGHT = sys.argv[1]
D = workdir()

STORES = '''
listen: {socket}
{more}
stores:
  - {{name: flows, number: 1, kind: key-write, seed: 1, slots: 200000, value: 8, copies: 2}}
  - {{name: events, number: 2, kind: append, lists: 4, items: 32768, value: 8, batch: 16, lanes: 4}}
  - {{name: bytes, number: 3, kind: increment, seed: 1, rows: 2, columns: 100000}}
  - {{name: paths, number: 4, kind: postcard, slots: 50000, hops: 5, copies: 2}}
  - {{name: sizes, number: 5, kind: sketch, sketch: count-min, rows: 2, columns: 256, reporters: 3, lanes: 4}}
'''


class Collector(Part):
    def __init__(self, name, more=''):
        with open(f'{D}/{name}.yaml', 'w') as f:
            f.write(STORES.format(socket=f'{D}/{name}.dir/dta.sock', more=more))
        super().__init__(SIDELIGHT, 'collect', '--dta', f'{D}/{name}.yaml', '--listen', '127.0.0.1:0')
        ready = self.ready()
        address = ready.get('listen') or ready.get('http')
        self.url = f'http://{address.removeprefix("http://")}/api/v1/dta'
        self.socket = f'unix:{D}/{name}.dir/dta.sock'

    def status(self):
        return json.loads(get(self.url))

    def ask(self, store, **what):
        return json.loads(get(f'{self.url}/query?store={store}' + ''.join(f'&{k}={v}' for k, v in what.items())))

    def ask_all(self, store, keys):
        answers = []
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for i in range(0, len(keys), 1000):
            body = json.dumps({'store': store, 'keys': keys[i:i + 1000]}).encode()
            with opener.open(urllib.request.Request(f'{self.url}/query', body, {'Content-Type': 'application/json'}), timeout=300) as a:
                answers += json.loads(a.read())['answers']
        return answers

    def items(self, number):
        """All items of a list, as numbers, ring by ring."""
        rings, position = {}, {}
        for lane in range(4):
            while True:
                a = self.ask('events', list=number, lane=lane, max=4096, **{'from': position.get(lane, 0)})
                ring = a['rings'][0] if a.get('rings') else {'items': []}
                if not ring['items']:
                    break
                check(not ring['overrun'], f'the ring was overrun: {ring["overrun"]}', self)
                rings.setdefault(lane, []).extend(int(i, 16) for i in ring['items'])
                position[lane] = ring['next']
        return rings


def translator(*collectors, options=(), listen='127.0.0.1:0', name='t'):
    where = [w for c in collectors for w in ('--collector', c.socket)]
    t = Part(SIDELIGHT, 'translate', *where, '--listen', listen, '--json', '--name', name, *options)
    t.address = t.ready()['listen']
    return t


def generate(t, *options):
    g = Part(SIDELIGHT, 'generate', 'dta', '--to', t.address, '--json', '--show', '0', '--expect', f'{D}/x',
             '--lists', '4', '--rows', '2', '--columns', '256', *options)
    check(g.wait() == 0, 'the generator failed', g, t)
    with open(f'{D}/x') as f:
        lines = [line.split() for line in f]
    return json.loads(g.out[-1]), {kind: [w[1:] for w in lines if w[0] == kind]
                                   for kind in ('keywrite', 'append', 'increment', 'postcard')}


def account(t):
    check(t.stop() == 0, 'the translator failed', t)
    return json.loads(t.out[-1])


def found_as_written(c, want, least=.99):
    """Every answer is right, and nearly all keys are found. The limits are far from the values of the formulas."""
    keys = [w[0] for w in want['keywrite']]
    right = 0
    for (key, value), a in zip(want['keywrite'], c.ask_all('flows', keys)):
        check(a['result'] == 'empty' or a['value'] == value, f'{key}: {a}, and not {value}', c)
        right += a['result'] == 'found'
    check(right >= least * len(keys), f'{right} of {len(keys)} keys found', c)
    keys = [w[0] for w in want['postcard']]
    whole = 0
    for (key, *hops), a in zip(want['postcard'], c.ask_all('paths', keys)):
        for hop, said in zip(hops, a.get('path') or []):
            check(said in (None, 0, int(hop)), f'{key}: {a}, and not {hops}', c)
        whole += a['result'] == 'found' and a['known_hops'] == 5
    check(whole >= .9 * least * len(keys), f'{whole} of {len(keys)} paths whole', c)
    keys = [w[0] for w in want['increment']]
    exact = 0
    for (key, value), a in zip(want['increment'], c.ask_all('bytes', keys)):
        check(a['value'] >= int(value), f'{key}: {a}, and less than {value}', c)
        exact += a['value'] == int(value)
    check(exact >= .9 * len(keys), f'{exact} of {len(keys)} sums exact', c)


@case
def paths_are_whole_over_workers_and_translators():
    """Five switches report one hop each. Whichever part receives a hop, and whenever, the path contains it."""
    paths, hops = 400, 5
    for parts, workers in ((1, 1), (1, 4), (2, 2)):
        c = Collector(f'c{parts}{workers}')
        all_t = [translator(c, options=('--workers', str(workers)), name=f't{i}') for i in range(parts)]
        for hop in range(hops):
            for i, t in enumerate(all_t):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                    s.connect(('127.0.0.1', int(t.address.rsplit(':', 1)[1])))
                    mine = [p for p in range(paths) if (p + hop) % parts == i]
                    for n, at in enumerate(range(0, len(mine), 20)):
                        part = mine[at:at + 20]
                        body = struct.pack('>BBHBBHHH', 4, 0, len(part), 2, 8, 8, 4, 0) + b''.join(
                            struct.pack('>QBBHI', p, hop, hops, 0, p * 10 + hop) for p in part)
                        s.send(struct.pack('>BBBBHHIIQII', 0xd7, 2, 0, 1, 0, 32 + len(body), hop + 1, n * 20, 0, 9,
                                           len(part)) + body)
        accounts = [account(t) for t in all_t]
        stored = sum(a['engine']['stored'] for a in accounts)
        check(stored == paths * hops, f'{stored} hops stored of {paths * hops}: {accounts}', c)
        whole = sum(a['result'] == 'found' and a['path'] == [p * 10 + h for h in range(hops)]
                    for p, a in enumerate(c.ask_all('paths', [f'{p:016x}' for p in range(paths)])))
        # In two copies of 50,000 slots each, 2 in a million of 400 paths collide in both.
        check(whole >= paths - 1, f'{parts} translators, {workers} workers: {whole} of {paths} paths are whole', c)
        check(c.stop() == 0, 'the collector failed', c)


@case
def finds_every_report_and_closes_the_account():
    c = Collector('c')
    t = translator(c, options=('--workers', '2'))
    g, want = generate(t, '--kinds', 'all', '--count', '10000', '--keys', '10000', '--pack', '7', '--reporters',
                       '3', '--rate', '300000', '--essential', '--loss', '.03', '--duplicate', '.03', '--reorder',
                       '.05')
    a = account(t)
    check(a['engine']['stored'] == a['loss']['arrived'] == g['reports'], f'{a}, and not {g}', t)
    check(a['loss']['recovered'] and a['loss']['duplicates'], f'too kind a network: {a}')
    found_as_written(c, want)
    for i in range(4):
        items = sorted(n for ring in c.items(i).values() for n in ring)
        check(items == list(range(2500)), f'list {i}: {len(items)} items', c)
    sketch = c.ask('sizes', key='00000000')
    check(sketch['complete'] and sketch['reporters'] == 3, f'{sketch}', c)
    told = sum(w['account']['engine']['stored'] for w in c.status()['translators'])
    check(told == g['reports'], f'the collector knows of {told} of {g["reports"]}', c)


@case
def kills_lose_nothing_stored():
    c = Collector('c', more=f'directory: {D}')
    t = translator(c)
    _, first = generate(t, '--kinds', 'keywrite,append,increment,postcard', '--count', '5000', '--keys', '5000',
                        '--pack', '10', '--rate', '300000', '--essential')
    wait_until(lambda: sum(len(r) for i in range(4) for r in c.items(i).values()) == 5000, 'not all', c, t)
    t.stop(signal.SIGKILL)
    t = translator(c, listen=t.address)
    generate(t, '--kinds', 'append', '--count', '2000', '--rate', '300000', '--essential')
    wait_until(lambda: sum(len(r) for i in range(4) for r in c.items(i).values()) == 7000, 'not all', c, t)
    c.stop(signal.SIGKILL)
    wait_until(lambda: any('collector is not available' in line for line in t.err), 'it has not noticed', t)
    # Reports without a store are not acknowledged: the reporter keeps them and sends them to the next server.
    g = Part(SIDELIGHT, 'generate', 'dta', '--to', t.address, '--json', '--kinds', 'append', '--count', '2000',
             '--lists', '4', '--essential', '--wait', '60s')
    check(not poll(lambda: g.p.poll() is not None, .3), 'it ended without an acknowledgement', g, t)
    c = Collector('c', more=f'directory: {D}')
    found_as_written(c, first)
    check(g.wait() == 0, 'the generator failed', g, t, c)
    wait_until(lambda: sum(len(r) for i in range(4) for r in c.items(i).values()) == 9000, 'not all', c, t)
    for i in range(4):
        for ring in c.items(i).values():
            # Three generators, one after the other; retransmitted items arrived in another order.
            check(ring[:1750] == list(range(1250)) + list(range(500)), f'list {i}: {len(ring)} items', c)
            check(sorted(ring[1750:]) == list(range(500)), f'list {i}: {len(ring)} items', c)


@case
def two_deaths_store_at_most_a_window_twice():
    """40,000 items. The collector is killed, and then the translator in use: each item is stored, few of them twice."""
    c = Collector('c', more=f'directory: {D}')
    two = [translator(c, name=name) for name in ('t1', 't2')]
    r = subprocess.Popen([SIDELIGHT, 'report', '--target', ','.join(t.address for t in two), '--store', '2', '--essential',
                          '--backup-packets', '16384', '--wait', '600s', '--timeout', '120s', '--json'],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        for part in range(80):
            r.stdin.write(''.join(f'append {i % 4} {i:016x}\n' for i in range(part * 500, part * 500 + 500)).encode())
            r.stdin.flush()
            if part == 20:
                c.stop(signal.SIGKILL)
            if part == 40:
                two[0].stop(signal.SIGKILL)
            if part == 60:
                c = Collector('c', more=f'directory: {D}')
            time.sleep(.01)
        said = json.loads(r.communicate(timeout=300)[0])
    finally:
        r.kill()
        r.wait()
    check(r.returncode == 0 and said['sent'] == 40000 and said['failovers'] > 0, f'{said}', *two, c)
    stored = []

    def all_stored():
        stored[:] = [i for n in range(4) for ring in c.items(n).values() for i in ring]
        return len(set(stored)) == 40000
    wait_until(all_stored, lambda: f'{len(set(stored))} of 40000 items', two[1], c)
    twice = len(stored) - 40000
    check(twice <= 2 * 4096, f'{twice} items were stored twice', two[1], c)
    return f'{twice} of 40,000 items were stored twice'


@case
def next_translator_gets_unacknowledged_reports():
    """For a new reporter, and for one whose beginning the next translator has not seen."""
    c = Collector('c')
    for sequence, before in ((0, 0), (100000, 30)):
        t = translator(c, options=('--flush', '1h'))  # a batch is 16: nothing of it is ever written
        g = Part(SIDELIGHT, 'generate', 'dta', '--to', t.address, '--json', '--kinds', 'append', '--count', '30',
                 '--lists', '4', '--pack', '5', '--essential', '--wait', '60s', '--sequence', sequence)
        wait_until(lambda: sum(w.get('account', {}).get('engine', {}).get('waiting', 0)
                                for w in c.status()['translators']) == 30, 'not all was taken', c, t, g)
        check(g.p.poll() is None, 'acknowledged, and in no store', g, t)
        t.stop(signal.SIGKILL)
        t = translator(c, listen=t.address)
        check(g.wait() == 0, 'the generator failed', g, t)
        wait_until(lambda: sum(len(r) for i in range(4) for r in c.items(i).values()) == before + 30, 'not all', c, t)
        a = account(t)
        check(a['loss']['arrived'] == a['engine']['stored'] == 30 and not a['loss']['lost'], f'{a}', t)
        # For all that it knows, the one before had stored them.
        check(a['maybe_twice'] == 30, f'{a}', t)


@case
def keys_move_from_a_dead_collector():
    two = [Collector('c1'), Collector('c2')]
    t = translator(*two)
    _, want = generate(t, '--count', '4000', '--keys', '4000', '--rate', '300000', '--essential', '--loss', '.02',
                       '--duplicate', '.05')

    def told():
        """All collectors together received each report and packet once."""
        of = [c.status()['account'] for c in two]
        check(all(a['closes'] for a in of), f'{of}')
        return {'stored': sum(a['stored'] for a in of), 'sent': sum(a['sent'] - a['duplicates'] - a['late'] for a in of),
                'numbered': sum(a['translators']['loss']['expected'] for a in of),
                'told of packets': sum(a['translators']['packets'] > 0 for a in of)}
    want_told = {'stored': 4000, 'sent': 4000, 'numbered': 4000, 'told of packets': 1}
    wait_until(lambda: told() == want_told, lambda: f'{told()} is not {want_told}', t)
    keys = [w[0] for w in want['keywrite']]
    answers = [[a['result'] == 'found' for a in c.ask_all('flows', keys)] for c in two]
    check(not any(a and b for a, b in zip(*answers)), 'a key is in both')
    check(sum(map(sum, answers)) >= .99 * len(keys), f'{[sum(a) for a in answers]} keys of {len(keys)}')
    check(all(sum(a) > 1000 for a in answers), f'{[sum(a) for a in answers]} keys')
    two[0].stop(signal.SIGKILL)
    wait_until(lambda: any('collector is not available' in line for line in t.err), 'it has not noticed', t)
    generate(t, '--count', '4000', '--keys', '4000', '--rate', '300000', '--essential')
    a = account(t)
    check(a['engine']['stored'] == 8000, f'{a}', t)
    there = sum(a['result'] == 'found' for a in two[1].ask_all('flows', keys))
    check(there >= .99 * len(keys), f'{there} of {len(keys)} keys went to the other')


@case
def reporters_fail_over_to_another_translator():
    c = Collector('c')
    two = [translator(c, name=n) for n in ('t1', 't2')]
    keys = [f'{n:08x}' for n in range(2000)]

    def lines(some):
        return ''.join(f'keywrite {k} {k}{k}\n' for k in some).encode()
    r = subprocess.Popen([SIDELIGHT, 'report', '--target', ','.join(t.address for t in two), '--store', '1', '--copies',
                          '2', '--essential', '--packet', '256', '--timeout', '60s', '--json'], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
    try:
        r.stdin.write(lines(keys[:1000]))
        r.stdin.flush()
        wait_until(lambda: sum(a['result'] == 'found' for a in c.ask_all('flows', keys[:1000])) > 950, 'not all', c)
        two[0].stop(signal.SIGKILL)
        out = json.loads(r.communicate(lines(keys[1000:]), timeout=300)[0])
    finally:
        r.kill()
        r.wait()
    check(r.returncode == 0 and out['failovers'] and out['sent'] == 2000, f'exit {r.returncode}: {out}', two[1])
    a = account(two[1])
    check(a['loss']['expected'] == a['loss']['arrived'] == a['engine']['stored'] > 0, f'{a}', two[1])
    right = sum(a.get('value') == k + k for k, a in zip(keys, c.ask_all('flows', keys)))
    check(right >= .99 * len(keys), f'{right} of {len(keys)}', c)


run_cases()
