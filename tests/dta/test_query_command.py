# SPDX-License-Identifier: Apache-2.0
"""'sidelight query' on every kind of store, on a file and on several collectors; and the same answers from the
collector over HTTP and in its exposition."""
import json
import math
import os
import signal
import subprocess
import sys
import urllib.error

from support import exposition
from support.exposition import series
from support.http import get, request
from support.process import Part, check, poll, wait_until, workdir

SIDELIGHT = sys.argv[1]
D = workdir()
# Hash seeds, because a copy that another key has by chance would change the output.
STORES = '''
listen: {socket}
directory: {folder}
tenants:
{tenants}
stores:
  - {{name: flows, number: 1, kind: key-write, seed: 1, slots: 20000, value: 8, copies: 4, keylog: keys}}
  - {{name: events, number: 2, kind: append, lists: 2, items: 256, value: 8, batch: 16, lanes: 4}}
  - {{name: bytes, number: 3, kind: increment, seed: 1, rows: 4, columns: 10000, keylog: keys}}
  - {{name: paths, number: 4, kind: postcard, seed: 1, slots: 20000, hops: 5, copies: 2, values: {values}}}
  - {{name: sizes, number: 5, kind: sketch, sketch: count-min, rows: 4, columns: 1024, reporters: 3, lanes: 4}}
  - {{name: union, number: 6, kind: sketch, sketch: hyperloglog, rows: 1, columns: 1024, reporters: 3, lanes: 4}}
  - {{name: keys, number: 7, kind: append, lists: 2, items: 4096, value: 14, lanes: 4}}
  - {{name: seldom, number: 8, kind: increment, seed: 1, rows: 4, columns: 1000, keylog: short}}
  - {{name: short, number: 9, kind: append, items: 64, value: 14, lanes: 4}}
  - {{name: medians, number: 10, kind: sketch, sketch: count-sketch, rows: 5, columns: 1024, reporters: 3, lanes: 4}}
'''
TENANT = '  - {number: 0, name: default}\n'


class Collector(Part):
    def __init__(self, name, tenants=TENANT, http='127.0.0.1:0', options=()):
        self.file, self.folder, self.socket = f'{D}/{name}.yaml', f'{D}/{name}', f'unix:{D}/{name}.sock'
        os.makedirs(self.folder, exist_ok=True)
        with open(f'{D}/values', 'w') as f:
            f.write('\n'.join(map(str, range(1, 1001))))
        self.write(tenants)
        super().__init__(SIDELIGHT, 'collect', '--dta', self.file, '--listen', http, *options)
        self.at = self.ready()['listen'].removeprefix('http://')

    def write(self, tenants):
        with open(self.file, 'w') as f:
            f.write(STORES.format(socket=self.socket[5:], folder=self.folder, values=f'{D}/values', tenants=tenants))

    def get(self, path):
        return json.loads(get(f'http://{self.at}/api/v1/dta{path}'))

    def post(self, **body):
        """(status, JSON) of a query of several keys"""
        status, _, said = request(f'http://{self.at}/api/v1/dta/query', 'POST', json.dumps(body).encode(),
                                  {'Content-Type': 'application/json'})
        return status, json.loads(said)


def translator(name, *collectors, options=()):
    where = [w for c in collectors for w in ('--collector', c.socket)]
    t = Part(SIDELIGHT, 'translate', *where, '--listen', '127.0.0.1:0', '--json', '--name', name, *options)
    t.at = t.ready()['listen']
    return t


def query(*words, code=0):
    p = subprocess.run([SIDELIGHT, 'query', *words], capture_output=True, text=True, timeout=300)
    check(code is None or p.returncode == code, f'query {" ".join(words)}: exit {p.returncode}: {p.stdout[-300:]}{p.stderr[-300:]}')
    return p.stdout or p.stderr


def report(t, lines, *options, code=0):
    p = subprocess.run([SIDELIGHT, 'report', '--target', t.at, '--essential', *options], input='\n'.join(lines),
                       capture_output=True, text=True, timeout=300)
    check(code is None or p.returncode == code, f'report: exit {p.returncode}: {p.stdout}{p.stderr}', t)


def whatever_is_printed_is_found(c, t):
    """Queries find what the generator says that they must find, in text and in JSON."""
    g = Part(SIDELIGHT, 'generate', 'dta', '--to', t.at, '--kinds', 'all', '--count', '1000', '--keys', '200', '--lists',
             '2', '--essential', '--reporters', '3', '--pack', '5', '--show', '3')
    check(g.wait() == 0, 'the generator failed', g, t)
    report(t, [f'increment copies=4 {i:016x} 1' for i in range(1, 301)], '--store', '8', '--copies', '4', '--packet', '300')
    # Translators report it once per second; waiting items appear a little later.
    reports = int(g.out[0].split()[0]) + 300
    wait_until(lambda: all((c.get('')['account']['sent'] >= reports, c.get('')['account']['waiting'] == 0)),
               'something waits for ever', c, t)
    printed = [line.split() for line in g.out if line.startswith('  ')]
    check({w[0] for w in printed} == {'keywrite', 'append', 'increment', 'postcard', 'sketch'}, f'{printed}', g)
    for what, key, *rest in printed:
        if what == 'keywrite':
            said = query(what, 'flows', key, '-c', c.at)
            check(said.startswith(f'{key} = {rest[1]}, 2 copies agree, epoch ') and 'probability 2.2e-19' in said, said)
        elif what == 'increment':
            said = query(what, 'bytes', key, '-c', c.at)
            check(int(said.split()[2]) >= int(rest[1]) and 'too high with probability 0.865' in said, said)
        elif what == 'postcard':
            check(query(what, 'paths', key, '-c', c.at).startswith(f'{key} = {" ".join(rest[1:])}, 2 copies'), key)
        elif what == 'sketch':
            said = query(what, 'sizes', key, '-c', c.at)
            check(said.endswith(f'3 of 3 reporters: {" ".join(rest[1:])}\n'), f'{said}, and not {rest}')
    hll = Part(SIDELIGHT, 'generate', 'dta', '--to', t.at, '--kinds', 'sketch', '--hll', '--rows', '1', '--store', '6',
               '--keys', '5000', '--essential', '--reporters', '3', '--show', '1')
    check(hll.wait() == 0, 'the generator failed', hll, t)
    wait_until(lambda: '3 of 3 reporters' in query('sketch', 'union', '-c', c.at, code=None), 'the sketch', c, t)
    estimate = [line.split()[2:] for line in hll.out if line.startswith('  sketch')][0]
    said = query('sketch', 'union', '-c', c.at)
    check(said.endswith(f': {" ".join(estimate)}\n') and abs(int(estimate[0]) - 5000) < 800, f'{said}, {estimate}')
    cs = Part(SIDELIGHT, 'generate', 'dta', '--to', t.at, '--kinds', 'sketch', '--count-sketch', '--rows', '5', '--store', '10',
              '--keys', '200', '--essential', '--reporters', '3', '--show', '9')
    check(cs.wait() == 0, 'the generator failed', cs, t)
    key = f'{1:016x}'
    wait_until(lambda: '3 of 3 reporters' in query('sketch', 'medians', key, '-c', c.at, code=None), 'the sketch', c, t)
    printed = [line.split()[1:] for line in cs.out if line.startswith('  sketch')]
    check(len(printed) == 9, f'{printed}', cs)
    for key, _, *estimate in printed:
        said = query('sketch', 'medians', key, '-c', c.at)
        check(said.endswith(f'3 of 3 reporters: {" ".join(estimate)}\n'), f'{said}, and not {estimate}')
    # Key n comes n + 2 times to each reporter that has it, by --seed 1: of three, one or two. 200 keys seldom meet.
    right = [int(v) == (n + 2) * (1, 2, 2, 1)[n % 4] for n, (_, _, v, *_) in enumerate(printed)]
    check(sum(right) >= 7, f'{printed}')


def a_key_rewritten_with_fewer_copies_has_its_newest_value(c, t):
    """Four copies of one value, and the first one overwritten by another."""
    report(t, ['keywrite copies=4 text:disagree u64:1', 'keywrite copies=1 text:disagree u64:2'], '--store', '1', '--packet',
           '128', '--reporter', '4')
    ask = ('text:disagree', '-c', c.at, '--json')
    wait_until(lambda: json.loads(query('keywrite', 'flows', *ask, code=None)).get('value', '')[-1:] == '2',
               'not there', c)
    for policy, code, result, value, agreed in (
            (('first',), 0, 'found', 2, 1), (('plurality',), 0, 'found', 2, 1),
            (('consensus', '--consensus', '3'), 1, 'conflict', None, 0), (('consensus', '--consensus', '1'), 0, 'found', 2, 1),
            (('plurality', '--copies', '2'), 0, 'found', 2, 1)):
        a = json.loads(query('keywrite', 'flows', *ask, '--policy', *policy, code=code))
        check((a['result'], a.get('value'), a['agreed']) == (result, value and f'{value:016x}', agreed), f'{policy}: {a}')
        check(a['verified'] == a['asked'] == (2 if '--copies' in policy else 4), f'{policy}: {a}')
    said = query('keywrite', 'flows', 'text:disagree', '-c', c.at, '-p', 'consensus', '--consensus', '4', code=1)
    check('conflict' in said, said)
    # The certainty of "empty" with 4 copies in 20000 slots, by the formula in docs/dta.md.
    never = ('keywrite', 'flows', 'text:never', '-c', c.at)
    for options, copies, within in (((), 4, None), (('--within', '7000'), 4, 7000), (('-w', '7000', '-n', '1'), 1, 7000)):
        a = json.loads(query(*never, '--json', *options, code=1))
        check(a['result'] == 'empty' and a['within'] == (within or a['within']), f'{a}')
        p = 1 - (1 - math.exp(-a['within'] / 20000 * copies)) ** copies
        check(abs(a['found_within_probability'] - p) < 1e-9 and (within or abs(p - .99) < 1e-4), f'{p}, and not {a}')
    said = query(*never, '--within', '7000', code=1)
    check('empty' in said and 'among the last 7000 keys of its epoch' in said and 'probability 0.678' in said, said)
    query(*never, '--within', '0', code=2)
    check('nothing was counted' in query('increment', 'bytes', 'text:never', '-c', c.at, code=1), 'a count')
    check('unknown' in query('keywrite', 'flows', 'text:never', '-c', c.at, '--epoch', '77', code=1), 'an epoch to come')
    # A hop with a value that is not allowed is no path.
    report(t, [f'postcard copies=2 text:path {hop} 2 {value}' for hop, value in ((0, 5), (1, 4711))], '--store', '4',
           '--reporter', '4')
    wait_until(lambda: 'conflict' in query('postcard', 'paths', 'text:path', '-c', c.at, code=None), 'a wrong hop', c)
    for what in (('keywrite', 'events', 'text:word'), ('append', 'none'), ('keywrite', 'none', 'text:word')):
        query(*what, '-c', c.at, code=1)
    for what in (('keywrite', 'flows'), ('keywrite', 'flows', 'xyz'), ('dance',), ('keywrite', 'flows', 'text:abcd', '-p', 'best')):
        query(*what, '-c', c.at, code=2)


def what_http_says_is_what_the_command_says(c):
    for kind, store, key in (('keywrite', 'flows', f'{1:016x}'), ('increment', 'bytes', f'{1:016x}'),
                             ('postcard', 'paths', f'{1:016x}'), ('sketch', 'sizes', f'{1:016x}'), ('append', 'events', None)):
        said = json.loads(query(kind, store, *([key] if key else []), '-c', c.at, '--json'))
        check(said == c.get(f'/query?store={store}&list=0' + (f'&key={key}' if key else '')), f'{kind}: {said}')
        check(said['result'] == 'found' and said['store'] == store, f'{said}')
    keys = [f'{i:016x}' for i in range(5)]
    several = [json.loads(line) for line in query('keywrite', 'flows', *keys, '-c', c.at, '--json').splitlines()]
    check([a['key'] for a in several] == keys and all(a['result'] == 'found' for a in several), f'{several}')
    for path in ('/query', '/query?store=flows', '/query?store=none&key=00000000', '/query?store=flows&key=x&policy=y',
                 '/keys?store=events', '/keys?store=flows&max=0'):
        try:
            c.get(path)
            check(False, f'{path} was answered', c)
        except urllib.error.HTTPError as e:
            check(e.code in (400, 404) and json.loads(e.read())['error'], f'{path}: {e}')
    # A number is no store's name, and nor is another number that comes after it.
    status, said = c.post(store=7, keys=keys, copies=1)
    check(status == 400 and said['error'] == 'missing parameter store', f'{status}: {said}')
    # A list would be answered once per key.
    status, said = c.post(store='events', keys=keys, max=4096)
    check(status == 400 and 'a single key' in said['error'], f'{status}: {str(said)[:300]}')
    status, said = c.post(store='events', keys=keys[:1], max=4096)
    check(status == 200 and said['answers'][0]['result'] == 'found', f'{status}: {str(said)[:300]}')
    # The merge of a sketch's lanes is charged per key: here 4 rows, 1024 columns and 4 lanes.
    with Collector('poor', options=('--query-samples', '40000')) as poor:
        for n, code in ((1, 200), (2, 200), (3, 422)):
            status, said = poor.post(store='sizes', keys=keys[:n])
            check(status == code, f'{n} keys: {status}: {str(said)[:300]}', poor)
    # The tails of a list are looked at even if it is empty.
    with Collector('poorest', options=('--query-samples', '2')) as poor:
        status, _, said = request(f'http://{poor.at}/api/v1/dta/query?store=events')
        check(status == 422, f'a list beyond --query-samples: {status} {said[:200]}', poor)


def keys_are_those_of_their_store_and_what_is_gone_is_told(c):
    flows = c.get('/keys?store=flows&max=1000')
    bytes_ = json.loads(query('keys', 'bytes', '--top', '--max', '1000', '-c', c.at, '--json'))
    check(flows['known'] == 201 and bytes_['known'] == 200, f'{flows["known"]}, {bytes_["known"]}')  # text:disagree
    check(not flows['overwritten_blocks'] and not bytes_['overwritten_blocks'], 'nothing was overwritten')
    values = [k['value'] for k in bytes_['keys']]
    check(values == sorted(values, reverse=True) and values[-1] > 0, f'{values[:3]}...')
    # The list of keys of this one holds 64 of 300.
    short = c.get('/keys?store=seldom&max=1000')
    check(0 < short['known'] <= 64 and short['overwritten_blocks'] * 16 + short['known'] >= 300, f'{short}')
    p = subprocess.run([SIDELIGHT, 'query', 'keys', 'seldom', '-c', c.at], capture_output=True, text=True, timeout=300)
    check('were overwritten' in p.stderr and len(p.stdout.splitlines()) == short['known'], p.stderr)


def success_is_measured_beside_the_prediction(c):
    def load(store):
        return next(s['load'][0] for s in c.get('')['stores'] if s['name'] == store)
    wait_until(lambda: (load('flows')['measured'] or {}).get('known') == 201, lambda: f'{load("flows")}', c)
    m = load('flows')['measured']
    check(m['asked'] == 201 and m['low'] <= m['ratio'] <= m['high'] and m['predicted'] > .99, f'{m}')
    check(load('paths')['measured'] is None and 'no key log' in load('paths')['why_not_measured'], f'{load("paths")}')
    check('% of 201 sampled keys' in query('status', '-c', c.at), 'status')
    share = exposition.text(get(f'http://{c.at}/metrics').encode())
    for name in 'found_ratio', 'found_predicted_ratio':
        stores = {dict(labels)['store']: v for labels, v in share[f'sidelight_dta_{name}'].items()}
        check(list(stores) == ['flows'] and .9 < stores['flows'] <= 1, f'{name}: {stores}')


def a_5_tuple_is_told_in_words(c, t):
    flow = 'flow:10.0.0.1:443,192.0.2.7:65535,tcp'
    report(t, [f'keywrite copies=4 {flow} u64:7'], '--store', '1')
    wait_until(lambda: flow in query('keys', 'flows', '--max', '1000', '--flows', '-c', c.at).splitlines(),
               'a 5-tuple', c, t)
    check('0a000001c000020701bbffff06' in query('keys', 'flows', '--max', '1000', '-c', c.at).splitlines(), 'its digits')
    check(found(('-c', c.at), 'flows', flow), 'its value', c, t)


def lost_output_is_a_failure_with_its_reason(c):
    for words in (('status',), ('status', '--json'), ('reporters',), ('keys', 'flows'), ('keywrite', 'flows', 'text:disagree')):
        with open('/dev/full', 'w') as full:
            p = subprocess.run([SIDELIGHT, 'query', *words, '-c', c.at], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
        check(p.returncode == 1 and 'standard output: No space left on device' in p.stderr, f'{words}: {p}')


def a_reader_that_sleeps_sees_the_overrun(c, t):
    reader = Part(SIDELIGHT, 'query', 'append', 'events', '--list', '1', '--follow', '-c', c.at)
    wait_until(lambda: reader.out and reader.out[-1] == f'{499:016x}', lambda: f'{len(reader.out)} items', reader)
    before = len(reader.out)
    reader.p.send_signal(signal.SIGSTOP)
    report(t, [f'append 1 u64:{1000000 + i}' for i in range(1024)], '--store', '2', '--reporter', '9')
    wait_until(lambda: json.loads(query('append', 'events', '--list', '1', '--lane', '0', '-c', c.at, '--json', '--max',
                                         '256'))['rings'][0]['items'][-1:] == [f'{1001023:016x}'], 'not there', t, c)
    reader.p.send_signal(signal.SIGCONT)
    wait_until(lambda: reader.out[-1] == f'{1001023:016x}', 'it does not go on', reader)
    items = [int(x, 16) for x in reader.out[before:]]
    check(len(items) <= 256 and items == list(range(items[0], 1001024)), f'{len(items)} items from {items[0]}', reader)
    wait_until(lambda: any('blocks were overwritten before' in line for line in reader.err), 'no word of it', reader)
    check(reader.stop() == 0, 'the reader failed', reader)


def metric(c, name, **labels):
    return next(v for n, have, v in series(get(f'http://{c.at}/metrics')) if n == f'sidelight_dta_{name}' and have == labels)


def reload(c, tenants, outcome='done'):
    before = metric(c, 'reloads_total', outcome=outcome)
    c.write(tenants)
    c.p.send_signal(signal.SIGHUP)
    wait_until(lambda: metric(c, 'reloads_total', outcome=outcome) == before + 1,
               lambda: f'not {outcome}: {tenants}', c)


def taken(t, *options):
    """A report is acknowledged, now or soon."""
    return poll(lambda: subprocess.run(
        [SIDELIGHT, 'report', '--target', t.at, '--essential', '--timeout', '1s', '--store', '3', '--reporter', '12', *options,
         'increment', 'text:reload'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300).returncode == 0)


def rates_and_keys_change_while_it_runs(c):
    """Changes by a reload reach translators. An invalid file changes nothing, and is reported and counted."""
    key = f'{D}/mac'
    with open(key, 'w') as f:
        f.write('0123456789abcdef' * 2)
    t = translator('r', c)
    check(taken(t), 'a report', t)
    reload(c, TENANT.replace('}', ', rate: 1, burst: 1}'))

    def limited():
        report(t, ['increment text:rate'] * 50, '--store', '3', '--reporter', '13', '--timeout', '10ms', '--single', code=None)
        return c.get('')['account']['dropped_by_cause']['rate'] > 0
    wait_until(limited, 'no rate', c, t)
    reload(c, TENANT.replace('}', f', key: {key}, required: true}}'))
    check(taken(t, '--key-file', key), 'the key is not known', t)
    for wrong, said in (('  - {number: 0, rate: many}\n', 'rate'), ('  - {number: 3}\n', 'removing tenant 0'),
                        ('  - {number: 0, key: /none/such}\n', 'No such file'), (TENANT + 'listen: 7\n', ' ')):
        reload(c, wrong, 'refused')
        wait_until(lambda: any('reload failed' in line and said in line for line in c.err),
                   lambda: f'{said}: not said', c)
    check(taken(t, '--key-file', key), 'the key is not known any more', t)
    report(t, ['increment text:forged'], '--store', '3', '--reporter', '14', '--timeout', '10ms', code=None)
    wait_until(lambda: sum(w['account']['refused']['mac'] for w in c.get('')['translators'] if w['name'] == 'r'),
               'forged', t)
    c.write(TENANT)
    # In each form, the collector's token is found.
    for at in c.at, f'http://{c.at}/':
        query('reload', '-c', at)
    check(taken(t), 'a key is still asked for', t)
    check(t.stop() == 0, 'the translator failed', t)


def found(where, store, key):
    """Returns the answer about a key once it has been written, because an acknowledged report may not be written yet."""
    return poll(lambda: (lambda a: a['result'] == 'found' and a)(json.loads(
        query('increment' if store == 'bytes' else 'keywrite', store, key, '--json', *where, code=None))))


def sketches_are_merged_cell_by_cell(c1, c2, only):
    """One epoch, in which the reporters sent their cells to either collector: the result is as if all had gone to one."""
    for store, options in ((6, ('--hll', '--rows', '1', '--keys', '20000')), (5, ('--keys', '200'))):
        g = Part(SIDELIGHT, 'generate', 'dta', '--to', only[c2].at, '--kinds', 'sketch', '--store', str(store), '--essential',
                 '--reporter', '21', *options)
        check(g.wait() == 0, 'the generator failed', g)

    def ask(store, key, *where):
        return json.loads(query('sketch', store, *key, '--json', *where, code=None))
    for store, key in (('union', ()), ('sizes', (f'{1:016x}',))):
        ones = [poll(lambda: (lambda a: a['result'] == 'found' and a)(ask(store, key, '-c', c.at))) for c in (c1, c2)]
        values = [a['estimate'] for a in ones]
        a = ask(store, key, '-c', c1.at, '-c', c2.at)
        check(a == ask(store, key, '-c', c2.at, '-c', c1.at), f'{store}: another order, another answer')
        check(a['reporters'] == sum(o['reporters'] for o in ones) == 4 and a['collectors'] == 2 and 'cells' not in a, f'{a}')
        if store == 'union':  # some keys are in both
            check(1.2 * max(values) < a['estimate'] < 1.1 * sum(values), f'{a}, {values}')
        else:  # the least of the sums is not below the sum of the least
            check(sum(values) <= a['estimate'] <= sum(values) + a['error'] and min(values) > 0, f'{a}, {values}')


def several_collectors_are_asked_as_one(c1, c2):
    """Each key is asked for at its own collector first, and then at the next one. Counts and lists of both are combined."""
    both, keys = ('-c', c1.at, '-c', c2.at), [f'text:many{i}' for i in range(200)]
    t, only = translator('m', c1, c2), {c: translator(f'only{i}', c) for i, c in enumerate((c1, c2))}
    report(t, [f'keywrite copies=4 {k} u64:{i}' for i, k in enumerate(keys)], '--store', '1')
    found(both, 'flows', keys[-1])
    answers = [json.loads(line) for line in query('keywrite', 'flows', *keys, '--json', *both).splitlines()]
    check([int(a['value'], 16) for a in answers] == list(range(200)), 'another value')
    owned = {c: [k for k, a in zip(keys, answers) if a['collector'] == c.at] for c in (c1, c2)}
    check(min(map(len, owned.values())) > 40, f'{[len(o) for o in owned.values()]}')
    for c, other in ((c1, c2), (c2, c1)):
        # The other one has something else to say of this key: it is not asked.
        report(only[other], [f'keywrite copies=4 {owned[c][0]} u64:999'], '--store', '1')
        check(int(found(('-c', other.at), 'flows', owned[c][0])['value'], 16) == 999, 'the other one')
        for where in (both, both[2:] + both[:2]):
            a = found(where, 'flows', owned[c][0])
            check(int(a['value'], 16) < 200 and a['collector'] == c.at, f'{a}, not of {c.at}')
        # If a key's own collector does not have it, the next one answers.
        report(only[other], [f'keywrite copies=4 text:moved-{c.pid} u64:{c.pid}'], '--store', '1')
        check(found(both, 'flows', f'text:moved-{c.pid}')['collector'] == other.at, 'a key that has moved')
    report(only[c1], ['increment copies=4 text:both-have 5'], '--store', '3')
    report(only[c2], ['increment copies=4 text:both-have 7', 'append 0 text:ofc2'], '--store', '3')
    wait_until(lambda: found(both, 'bytes', 'text:both-have')['value'] == 12,
               lambda: f'{found(both, "bytes", "text:both-have")}')
    wait_until(lambda: any(k == {'key': b'both-have'.hex(), 'value': 12} for k in json.loads(
        query('keys', 'bytes', '--top', '--max', '1000', '--json', *both))['keys']), 'the sum of a key')
    sketches_are_merged_cell_by_cell(c1, c2, only)
    rings = json.loads(query('append', 'events', '--list', '1', '--json', *both))['rings']
    check({r['collector'] for r in rings} == {c1.at, c2.at}, f'{rings}'[:500])
    check(query('status', *both).count('account: ') == 2, 'status of both')
    c2.stop(signal.SIGKILL)
    p = subprocess.run([SIDELIGHT, 'query', 'keywrite', 'flows', owned[c1][1], *both], capture_output=True, text=True, timeout=300)
    check(p.returncode == 0 and c2.at in p.stderr, f'{p}')
    query('keywrite', 'flows', owned[c2][1], *both, code=1)
    # If a collector is missing, sums and lists are incomplete, and the command fails.
    with open(f'{D}/keys', 'w') as f:
        f.write('text:both-have\n')
    for words, text in ((('increment', 'bytes', 'text:both-have'), ' = 5 ('), (('keys', 'bytes'), ''), (('append', 'events'), ''),
                        (('sketch', 'union'), ''), (('--all', '--keys', f'{D}/keys', 'bytes'), '')):
        p = subprocess.run([SIDELIGHT, 'query', *words, *both], capture_output=True, text=True, timeout=300)
        check(p.returncode == 1 and text in p.stdout and 'incomplete: no answer from 1 of 2 collectors' in p.stderr, f'{p}')
    wait_until(lambda: any('collector is not available' in line for line in t.err), 'the translator has not noticed', t)
    report(t, [f'keywrite copies=4 {owned[c2][1]} u64:77'], '--store', '1', '--reporter', '5')
    wait_until(lambda: int(found(both, 'flows', owned[c2][1])['value'], 16) == 77, 'failover')
    query('status', '-c', '127.0.0.1:1', '-c', '127.0.0.1:2', code=1)

    def epoch():
        return next(s['epoch'] for s in c1.get('')['stores'] if s['name'] == 'seldom')
    # The command fails if one of them was not changed, although the other was.
    before = epoch()
    said = query('rotate', 'seldom', *both, code=1)
    check(c2.at in said, said)
    wait_until(lambda: epoch() > before, 'no new epoch', c1)
    # The file of the one that is gone.
    file = f'{c2.folder}/flows.0.0.store'
    check('agree' in query('keywrite', '--file', file, owned[c2][2]), 'the file')
    with open(file, 'r+b') as f:
        f.truncate(os.path.getsize(file) - 4096)
    check('truncated' in query('keywrite', '--file', file, owned[c2][2], code=1), 'a file that was cut short')


def the_exposition_is_strictly_right(c):
    samples = exposition.text(get(f'http://{c.at}/metrics').encode())
    mine = {n: v for n, v in samples.items() if n.startswith('sidelight_dta_')}
    check(set(mine) >= {f'sidelight_dta_{n}' for n in (
        'epoch', 'late_rotations_total', 'load_ratio', 'reloads_total', 'reports', 'rotations_total', 'store_bytes',
        'store_huge_bytes', 'translators')}, f'{sorted(mine)}')
    stores = {dict(labels)['store'] for labels in mine['sidelight_dta_epoch']}
    check(stores == {'flows', 'events', 'bytes', 'paths', 'sizes', 'union', 'keys', 'seldom', 'short', 'medians'}, f'{stores}')
    load = mine['sidelight_dta_load_ratio'][(('store', 'flows'),)]
    check(0 < load < 1 and mine['sidelight_dta_load_ratio'][(('store', 'bytes'),)] == 0, f'{load}')
    account = c.get('')['account']
    check(account['closes'] and account['sent'] > 0, f'{account}', c)
    exposition.openmetrics(get(f'http://{c.at}/metrics', accept='application/openmetrics-text').encode())


if __name__ == '__main__':
    one, two = Collector('c1'), Collector('c2')
    first = translator('t', one)
    whatever_is_printed_is_found(one, first)
    a_key_rewritten_with_fewer_copies_has_its_newest_value(one, first)
    what_http_says_is_what_the_command_says(one)
    keys_are_those_of_their_store_and_what_is_gone_is_told(one)
    success_is_measured_beside_the_prediction(one)
    a_5_tuple_is_told_in_words(one, first)
    lost_output_is_a_failure_with_its_reason(one)
    a_reader_that_sleeps_sees_the_overrun(one, first)
    rates_and_keys_change_while_it_runs(one)
    the_exposition_is_strictly_right(one)
    several_collectors_are_asked_as_one(one, two)
