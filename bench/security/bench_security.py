#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_security.py BUILD attack|torture - attacks of docs/security.md that do harm; calls that were made to fail."""
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
from bench import ROOT, say  # noqa: E402

BUILD, WHAT = sys.argv[1:]
PARTS = ('library', 'agent', 'tables', 'collector', 'stores', 'translator')
SECONDS = 40  # for the calls of a part; 'make soak' makes all of them fail


def attacks():
    """(what is attacked, names of its tests) of each row of the table of attacks."""
    with open(os.path.join(ROOT, 'docs', 'security.md')) as f:
        table = re.search(r'^### Attacks\n(.*?)^## ', f.read(), re.S | re.M)[1]
    rows = [[c.strip() for c in line.split('|')[1:-1]] for line in table.splitlines() if line.startswith('| ')]
    tests = []
    for what, _, named, _ in rows[1:]:
        if named:
            tests.append((what, re.findall(r'`([^`]+)`', named) or tests[-1][1]))  # 'the same'
    return tests


def built():
    """Names of this build's tests, and of those that need a guest."""
    tests = json.loads(subprocess.run(['meson', 'introspect', '--tests', BUILD], check=True, text=True,
                                      stdout=subprocess.PIPE).stdout)
    return {t['name'].split(' / ')[-1]: any(s.endswith('guest') for s in t['suite']) for t in tests}


def run(setup, names):
    """{name: OK, FAIL, SKIP, ...} of these tests."""
    if not names:
        return {}
    test = ['meson', 'test', '-C', BUILD, '--no-rebuild', '--setup', setup, '--num-processes', '1']
    out = subprocess.run([*test, *names], text=True, stdout=subprocess.PIPE).stdout
    return dict(re.findall(r'^\s*\d+/\d+ .* / (\S+)\s+([A-Z]+)', out, re.M))


def attack():
    table, guest_of = attacks(), built()
    # A '*' stands for parts, which are torture.points.
    names = {n for _, named in table for n in named if n in guest_of}
    came = {}
    for setup in ('native', 'guest'):
        came |= run(setup, sorted(n for n in names if guest_of[n] == (setup == 'guest')))
    by_row = [(what, [came.get(n, 'SKIP') for n in named if '*' not in n]) for what, named in table]
    by_row = [(what, results) for what, results in by_row if results]
    refused = sum(all(r == 'OK' for r in results) for _, results in by_row)
    opened = [what for what, results in by_row if not {'OK', 'SKIP'}.issuperset(results)]
    say('attack.refused', refused, 'attacks',
        f'of {len(by_row)} in docs/security.md, by {len(names)} tests; {len(by_row) - refused - len(opened)} have a test '
        'that this machine or build cannot run')
    say('attack.open', len(opened), 'attacks', '; '.join(opened) or 'each attack is refused')


def torture():
    environment = {**os.environ, 'TORTURE_SECONDS': str(SECONDS), 'PYTHONPATH': f'{ROOT}/tests',
                   'LD_LIBRARY_PATH': f'{BUILD}/lib'}
    for part in PARTS:
        programs = (f'{BUILD}/{p}' for p in ('sidelight', 'tests/torture/torture_fail.so', 'tests/torture/torture_app'))
        out = subprocess.run([sys.executable, os.path.join(ROOT, 'tests', 'torture', 'torture.py'), *programs, part],
                             text=True, stdout=subprocess.PIPE, cwd=BUILD, env=environment)
        end = re.search(rf'^{part}: (\d+) of (\d+) points: (.*)', out.stdout, re.M)
        if out.returncode == 77 or not end:
            print(f'SKIP: torture of {part}: exit {out.returncode}: {out.stdout[-200:]}', file=sys.stderr)
            continue
        if out.returncode:
            print(out.stdout, file=sys.stderr)  # which call, and what came of it
        found = int((re.search(r'(\d+) found', end[3]) or [0, 0])[1])
        say(f'torture.points.{part}', int(end[1]), 'failed calls',
            f'of {end[2]}, in {SECONDS} s; {found} crashes, hangs, wrong counts or leaks ({end[3]})')
        say(f'torture.found.{part}', found, 'findings', f'of torture.points.{part}')


{'attack': attack, 'torture': torture}[WHAT]()
