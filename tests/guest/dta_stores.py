# SPDX-License-Identifier: Apache-2.0
"""dta_stores.py HOW EXPECTED ACCOUNT: the collector on this host has in its stores what 'sidelight generate dta --expect'
wrote down, all of which was acknowledged, and the translator's account (its --json) closes.

plain: nobody was killed. killed: the account is of the second of two translators, of which the first was killed.
orphaned: the collector was killed, and operations were under way then.
"""
import json
import subprocess
import sys


def ask(kind, store, keys):
    out = subprocess.run(['sidelight', 'query', kind, store, *keys, '--json'], stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


how = sys.argv[1]
with open(sys.argv[2]) as f:
    lines = [line.split() for line in f]
with open(sys.argv[3]) as f:
    account = json.loads(f.read().splitlines()[-1])
engine, output, loss = account['engine'], account['output'], account['loss']
dropped = sum(engine['dropped'].values())
unsure = output['unconfirmed'] + output['failed']
print('=', {k: v for k, v in {**engine, **output, **loss}.items() if v and not isinstance(v, dict)}, dropped)
assert account['reports'] == account['fresh'] + loss['duplicates'] + loss['late'], 'reports do not add up'
assert account['fresh'] == engine['in'] == engine['stored'] + dropped and not engine['waiting'], 'the engine does not'
assert loss['expected'] == loss['arrived'] + loss['missing'] + loss['lost'], 'the window does not'
assert output['writes'] + output['adds'] == output['completed'] + unsure, 'the operations do not'
if how == 'plain':
    assert not dropped + unsure, 'something did not take effect, though nobody was lost'
    assert loss['expected'] == loss['arrived'] == len(lines), 'not each was taken once'
for kind, store in (('keywrite', 'flows'), ('increment', 'bytes')):
    want = [line[1:] for line in lines if line[0] == kind]
    said = ask(kind, store, [key for key, _ in want]) if want else []
    assert len(said) == len(want), f'{len(said)} answers to {len(want)} keys'
    # A slot of another key's, a counter that two share: rare in a store so large, but no mistake.
    wrong = [(w, s) for w, s in zip(want, said) if
             (int(s['value']) < int(w[1]) if kind == 'increment' else s['result'] != 'empty' and s['value'] != w[1])]
    other = sum(str(s.get('value')) != w[1] for w, s in zip(want, said))
    assert not wrong, f'{kind}: {len(wrong)} of {len(want)} wrong: {wrong[0]}'
    if how == 'plain' or kind == 'keywrite':
        assert other <= 4, f'{kind}: {other} of {len(want)} are not there, overwritten or shared'
    elif other:
        print('=', other, 'of', len(want), 'keys were added to twice: written, but not yet acknowledged')
