# SPDX-License-Identifier: Apache-2.0
"""dta_stores.py DIR NAME...: the stores of the collector on this host hold everything that the generators of these runs
recorded (--expect), all of which was acknowledged, and the account of each run's last translator (its --json) closes.

NAME-killed: the account is of the second of two translators, of which the first was killed. NAME-orphaned: the
collector was killed while operations were outstanding. Some may then be stored twice, as their acknowledgements were
lost: in lists and counters at most the account's maybe_twice."""
import json
import subprocess
import sys


def ask(kind, store, *rest):
    for _ in range(6):  # a query waits 10 s, which an emulated machine may take for one of 1,000 keys
        out = subprocess.run(['sidelight', 'query', kind, store, *rest, '--json'], stdout=subprocess.PIPE, text=True)
        if out.stdout:  # its exit status also indicates that a key was not found
            return [json.loads(line) for line in out.stdout.splitlines()]
    sys.exit(f'FAIL: query {kind} {store}: no answer in six attempts')


def ask_keys(kind, store, keys):
    for i in range(0, len(keys), 1000):  # as many keys as the command accepts
        yield from ask(kind, store, *keys[i:i + 1000])


class Run:
    def __init__(self, name):
        self.name = name
        self.plain = '-' not in name
        self.want = {'keywrite': [], 'increment': [], 'append': []}
        for file in ('expected', 'items'):
            with open(f'{folder}/{file}-{name}') as f:
                for kind, *rest in map(str.split, f):
                    self.want[kind].append(rest)
        self.items = int(self.want['append'][0][2])
        self.sent = len(self.want['keywrite']) + len(self.want['increment']) + self.items
        with open(f'{folder}/account-{name}') as f:
            self.account = json.loads(f.read().splitlines()[-1])
        self.twice = self.account['maybe_twice']

    def check_account(self):
        a, engine, output, loss = self.account, self.account['engine'], self.account['output'], self.account['loss']
        dropped = sum(engine['dropped'].values())
        unsure = output['unconfirmed'] + output['failed']
        print('=', self.name, {k: v for k, v in {**engine, **output, **loss, 'maybe_twice': self.twice}.items()
                              if v and not isinstance(v, dict)}, dropped)
        assert a['packets'] == a['packets_taken'] + a['unread'] + sum(a['refused'].values()), 'packets do not add up'
        assert a['reports'] == a['fresh'] + loss['duplicates'] + loss['late'], 'reports do not add up'
        assert a['fresh'] == engine['in'] == engine['stored'] + dropped and not engine['waiting'], 'the engine does not'
        assert loss['expected'] == loss['arrived'] + loss['missing'] + loss['lost'], 'the window does not'
        assert output['writes'] + output['adds'] == output['completed'] + unsure, 'the operations do not'
        if self.plain:
            assert not dropped + unsure, 'something did not take effect, though no process was lost'
            assert loss['expected'] == loss['arrived'] == self.sent, 'not each was taken once'
        if '-killed' not in self.name:
            assert self.plain or output['connects'] > 1, 'it never came back'

    def check_keys(self, said):
        """Key-Write: each key has its value, except for those that other keys have overwritten."""
        assert [s['key'] for s in said] == [key for key, _ in self.want['keywrite']], 'not an answer to each key'
        self.overwritten = sum(s['result'] == 'empty' for s in said)
        wrong = [(w, s) for w, s in zip(self.want['keywrite'], said) if s['result'] != 'empty' and s['value'] != w[1]]
        assert not wrong, f'key-write: {len(wrong)} wrong: {wrong[0]}'
        # In a store so large, a few in all: where reports are missing, it is not one alone.
        assert self.overwritten <= 2, f'key-write: {self.overwritten} of {len(said)} are not there'

    def check_counts(self, said):
        more = [int(s['value']) - int(w[1]) for w, s in zip(self.want['increment'], said)]
        assert len(said) == len(more) and min(more) >= 0, f'increment: {len(said)} answers, by {min(more)} off'
        self.added_twice = sum(m > 0 for m in more)
        # Two keys that share both their counters are rare, too.
        assert self.added_twice <= (0 if self.plain else self.twice) + 2, f'increment: {self.added_twice} have too much'

    def check_items(self, rings):
        there = [[int(item, 16) for item in ring['items']] for ring in rings]
        every = [item for ring in there for item in ring]
        back = sum(a >= b for ring in there for a, b in zip(ring, ring[1:]))
        assert set(every) == set(range(self.items)), f'append: {self.items - len(set(every))} items are missing'
        doubles = len(every) - self.items
        assert doubles <= (0 if self.plain else self.twice), f'append: {doubles} items are there twice'
        # A report that was lost and requested again comes after those that arrived meanwhile.
        assert back <= self.twice + self.account['loss']['reordered'], f'append: out of order at {back} places'
        print('=', self.sent, 'sent, all stored;', self.overwritten, 'overwritten; twice:', doubles, 'items,',
              self.added_twice, 'additions, of at most', self.twice)


folder = sys.argv[1]
runs = [Run(name) for name in sys.argv[2:]]
values = ask_keys('keywrite', 'flows', [key for r in runs for key, _ in r.want['keywrite']])
counts = ask_keys('increment', 'bytes', [key for r in runs for key, _ in r.want['increment']])
failed = False
for r in runs:
    some = [next(values, {}) for _ in r.want['keywrite']], [next(counts, {}) for _ in r.want['increment']]
    try:
        r.check_account()
        r.check_keys(some[0])
        r.check_counts(some[1])
        r.check_items([ring for a in ask('append', f'events-{r.name}', '--max', '4096') for ring in a['rings']])
    except (AssertionError, KeyError) as e:
        print('FAIL:', r.name, repr(e))
        failed = True
sys.exit(failed)
