# SPDX-License-Identifier: Apache-2.0
"""replicas.py DIR has N...: the collector of this host alone has what the generators of these runs recorded (--expect).
replicas.py DIR filled: it tells of a gap, and then that it is filled."""
import json
import subprocess
import sys
import time
import urllib.request

folder, what, *runs = sys.argv[1:]
status = lambda: json.loads(urllib.request.urlopen('http://127.0.0.1:9464/api/v1/dta', timeout=300).read())


def ask(kind, store, *rest):
    out = subprocess.run(['sidelight', 'query', kind, store, *rest, '--json'], stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def wrong_of(run):
    """Returns wrong values. Of 900 keys in 100,000 slots, one in a thousand runs loses both copies of two keys."""
    want = {'keywrite': [], 'increment': []}
    with open(f'{folder}/expected-{run}') as f:
        for kind, *rest in map(str.split, f):
            want[kind].append(rest)
    said = ask('keywrite', 'flows', *[key for key, _ in want['keywrite']])
    wrong = [f'{w}: {s}' for w, s in zip(want['keywrite'], said) if s.get('value') != w[1]]
    wrong = wrong if len(wrong) > 2 else []
    said = ask('increment', 'bytes', *[key for key, _ in want['increment']])
    wrong += [f'{w}: {s}' for w, s in zip(want['increment'], said) if int(s['value']) < int(w[1])]
    if run != '3':
        rings = ask('append', f'events{run}', '--max', '4096')[0]['rings']
        items = {int(i, 16) for r in rings for i in r['items']}
        wrong += [f'{len(items)} items'] if not items >= set(range(300)) else []
    return wrong


end = time.monotonic() + 300
if what == 'filled':
    while not (gaps := status()['gaps']) or not all(g['filled'] for g in gaps):
        assert time.monotonic() < end, f'not filled: {gaps}'
        time.sleep(.5)
    print('=', gaps)
    # 300 keys and counts of the second run, and its items; and what the translator held when it noticed.
    assert len(gaps) == 1 and gaps[0]['reports'] >= 900 and gaps[0]['from'] < gaps[0]['to'], f'{gaps}'
else:
    while wrong := [w for run in runs for w in wrong_of(run)]:
        assert time.monotonic() < end, f'{len(wrong)} wrong: {wrong[0]}'
        time.sleep(.5)
