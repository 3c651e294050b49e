#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_relabel.py SIDELIGHT - several receivers of remote write, each with rules of its own. The same rules in the real vmagent make
the same series."""
import json
import sys
import urllib.parse

from support import http
from support.process import case, check, run, run_cases, skip, wait_until, workdir
from support.sidelight import EXE, Agent, Collector, generate, report
from support.victoria import Victoria, VmAgent, available

RULES = '''
- source_labels: [__name__]
  regex: generated_size_bytes_bucket|generated_level
  action: drop
- source_labels: [service, pod]
  separator: /
  regex: (.*)/far-(\\d+)
  target_label: where
  replacement: $2 of ${1}
- {source_labels: [where], regex: '[01] of .*', action: keep}
- {regex: process|host, action: labeldrop}
- {target_label: cluster, replacement: east}
- {source_labels: [service], regex: far, target_label: service, replacement: ''}
- {source_labels: [nothing], target_label: empty}
- {source_labels: [pod], regex: no-such, target_label: pod, replacement: other}
- {source_labels: [__name__], regex: generated_(.*), target_label: __name__}
'''


def rules(text=RULES):
    path = f'{workdir()}/rules.yml'
    with open(path, 'w') as f:
        f.write(text)
    return path


def series(store):
    """{labels: newest value} of all that it has."""
    text = http.get(store.base + '/api/v1/export?' + urllib.parse.urlencode({'match[]': '{__name__!=""}'}))
    return {tuple(sorted(line['metric'].items())): line['values'][-1] for line in map(json.loads, text.splitlines())}


@case
def each_receiver_gets_what_its_rules_say():
    if not available():
        skip('no victoria-metrics: install the package victoria-metrics')
    path = rules()
    with Victoria() as all_of_it, Victoria() as ours, Victoria() as theirs, VmAgent(theirs.url, path) as agent, Agent() as a:
        g = generate(a.socket, '--pods', '3', '--metrics', '6', '--updates', '700', '--kinds', 'counter,gauge,histogram',
                     '--service', 'far', '--hold', '1h')
        report(g)
        with Collector([a], '--period', '10ms', '--sample-every', '200ms',
                       *(w for s in (all_of_it, ours, agent) for w in ('--remote-write', s.url)),
                       '--remote-relabel', '', '--remote-relabel', path) as c:
            wait_until(lambda: len(series(theirs)) > 10 and series(ours) == series(theirs), lambda: (series(ours), series(theirs)), c,
                       agent.part, every=0.5)
            names = {dict(labels)['__name__'] for labels in series(ours)}
            check(names == {'updates_total', 'size_bytes_count', 'size_bytes_sum'}, names)
            check({dict(labels)['where'] for labels in series(ours)} == {'0 of far', '1 of far'}, series(ours))
            whole = series(all_of_it)
            check(any(dict(labels)['__name__'] == 'generated_level' for labels in whole), 'the first one gets all')
            check(not any('where' in dict(labels) for labels in whole), 'unchanged')
            for to in 'remote_write', 'remote_write_2', 'remote_write_3':
                check(c.total('sidelight_push_sent_total', f'to="{to}"') > 0, f'{to} is counted', c)
        g.stop()


@case
def wrong_rules_are_named_with_their_line():
    words = ('collect', '--agent', '/none', '--listen', '127.0.0.1:0', '--remote-write', 'http://127.0.0.1:9/')
    for text, why in (('- {action: hashmod}', ':1: action'), ('- {action: keep}\n', ':1: keep and drop require source_labels'),
                      ('- {target_label: a}\n- {target_label: "a b"}', ':2: replace requires a target_label'),
                      ('- {source_labels: [a], regex: "(", action: keep}', ':1: regular expression'),
                      ('- {target_label: a, modulus: 3}', 'modulus'), ('a: 1', ':1: '), ('- ' * 70, ': ')):
        p = run(EXE, *words, '--remote-relabel', rules(text), code=1)
        check(why in p.stderr and len(p.stderr.splitlines()) == 1, text, p.stderr)
    p = run(EXE, *words, '--remote-relabel', 'a', '--remote-relabel', 'b', code=2)
    check('--remote-relabel needs --remote-write' in p.stderr, p.stderr)
    p = run(EXE, *words, *['--remote-write', 'http://127.0.0.1:9/'] * 8, code=2)
    check('at most 8' in p.stderr, p.stderr)


if __name__ == '__main__':
    run_cases(only=sys.argv[2:] or None)
