#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_hostile_host.py SIDELIGHT - a host of 'sidelight manage' that was taken over runs nothing on the operator's
machine and writes nothing to the operator's terminal; and the file's own values reach a host as they are."""
import json
import os
import re
import subprocess
import sys

from support.process import case, check, run_cases, workdir

EXE = os.path.abspath(sys.argv[1])

# Replaces ssh. 'honest' runs the script like a host; any other host answers with the content of files of its name.
SSH = r'''#!/bin/sh
folder=${0%/*}
printf '%s\n' "$*" >>"$folder/calls"
while [ $# -gt 3 ]; do shift; done
[ "$1" = honest ] && exec sh -s
script=$(cat)
case "$script" in
  *setsid*) cat "$folder/$1.start" ;;
  *'kill -TERM'*) cat "$folder/$1.stop" ;;
  *alive*) cat "$folder/$1.look" ;;
  *'export '*) cat "$folder/$1.step"; cat "$folder/$1.step" >&2 ;;
esac
'''


class Scene:
    def __init__(self, plan):
        self.folder = workdir()
        self.path = f'{self.folder}/plan.yaml'
        with open(self.path, 'w') as f:
            f.write(plan.replace('DIR', self.folder))
        with open(f'{self.folder}/ssh', 'w') as f:
            f.write(SSH)
        os.chmod(f'{self.folder}/ssh', 0o755)
        os.mkdir(f'{self.folder}/run')  # where steps run

    def manage(self, *args):
        p = subprocess.run([EXE, 'manage', *args, self.path], stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=300, cwd=self.folder,
                           env={**os.environ, 'PATH': f'{self.folder}:{os.environ["PATH"]}'})
        out, err = (text.decode(errors='surrogateescape') for text in (p.stdout, p.stderr))
        ran = {f for f in os.listdir(self.folder) + os.listdir(f'{self.folder}/run') if 'pwned' in f} - {'-n odd; touch pwned.yaml', ODD}
        check(not ran, f'{args}: a value ran on this machine: {ran}')
        check('Traceback' not in err, f'{args}: {err}')
        for c in out + err:
            check(c.isprintable() or c in '\n\t', f'{args}: {c!r} reaches the terminal')
        for line in (out + err).split('\n'):
            check(len(line) < 1000 or '--json' in args, f'{args}: a line of {len(line)} characters')
        return p.returncode, out, err

    def answers(self, host, value, step=b''):
        for kind, answer in (('start', b'ready listen=' + value), ('stop', b'stopped ' + value),
                             ('look', b'p%b up 1 ready listen=%b' % (host.encode(), value)), ('step', step)):
            with open(f'{self.folder}/{host}.{kind}', 'wb') as f:
                f.write(answer + b'\n')


def plan(hosts, steps):
    """Creates a part 'pHOST' on each host, and each host's steps, in which P stands for that part."""
    lines = ['name: plan', 'directory: DIR/run', 'hosts:', *(f'  {h}: {{ssh: [{h}]}}' for h in hosts), 'parts:',
             *(f'  - {{name: p{h}, host: {h}, run: [collect]}}' for h in hosts)]
    for key, of_key in steps.items():
        lines += [f'{key}:', *(f'  - {step}'.replace('P', f'p{h}').replace('H', h) for h in hosts for step in of_key)]
    return '\n'.join(lines) + '\n'


RUN = b'touch${IFS}pwned'
GOOD = (b'127.0.0.1:7', b'[::1]:7', b'unix:/run/a-b_c.sock', b'/x/y', b'0/1', b'fe80::1%eth0', b'x\n' + RUN,
        b'x\nready listen=;' + RUN)
# All characters with a meaning to a shell, in a command that creates a file; an option; control sequences of a terminal.
BAD = (b';' + RUN, b'x;' + RUN + b';', b'$(' + RUN + b')', b'`' + RUN + b'`', b'|' + RUN, b'x||' + RUN,
       b'x&' + RUN + b'&', b'x&&' + RUN, b'>pwned', b'x>>pwned', b'2>pwned', b"';" + RUN + b";'", b'";' + RUN + b';"',
       b'"$(' + RUN + b')"', b'\\";' + RUN + b'#', b'${x:=$(' + RUN + b')}', b'<(' + RUN + b')', b'{a,b};' + RUN,
       b'(' + RUN + b')', b'!' + RUN, b'x\t;' + RUN, b'x\r;' + RUN, b'x\v;' + RUN, b'x\f;' + RUN, b'x\0;' + RUN,
       b'x\x85;' + RUN, b'x\xe2\x80\xa8;' + RUN, b'*', b'?', b'~root', b'#', b'-oProxyCommand=x', b'--config=/etc/passwd',
       b'', b'\x1b]0;title\x07\x1b[2J\x1b[8m', b'\xc2\x9b2J', '\u202e\u2066x'.encode(), b'\xff\xfe', b'x' * 100000,
       b'[' * 100000, b'\x1b[31m' * 20000, b'\n' * 5000)


@case
def no_answer_runs_or_reaches_the_terminal():
    hosts = [f'{"good" if i < len(GOOD) else "bad"}{i}' for i in range(len(GOOD + BAD))]
    scene = Scene(plan(hosts, {'test': (
        "{name: plain of H, shell: 'echo got ${P.listen}'}",
        "{name: quoted of H, shell: 'echo \"got ${P.listen}\"'}",
        '{name: argument of H, run: [help, "${P.listen}"], exits: 2}',
        "{name: there of H, host: H, shell: 'echo ${P.listen}'}")}))
    for host, value in zip(hosts, GOOD + BAD):
        scene.answers(host, value)
    code, out, err = scene.manage('up')
    check(code == 0 and out.count('\n') == len(hosts), f'{code} {out} {err}')
    scene.manage('status')
    scene.manage('--json', 'status')
    code, out, err = scene.manage('test')
    check(code == 1 and f'{4 * len(GOOD)} passed, {4 * len(BAD)} failed' in out, f'{code} {out} {err}')
    for line in out.splitlines():
        if line.startswith('FAILED'):
            check('of bad' in line and '.listen}' in line and 'refused' in line, line)
    scene.manage('down')


@case
def what_a_step_prints_there_is_shown_as_text():
    said = (b'\x1b[2Jx', b'\xc2\x9b2J', b'[' * 3000, b'[' * 900 + b']' * 900, b'1e999', b'NaN', b'9' * 5000, b'x' * 100000)
    hosts = [f'h{i}' for i in range(len(said))]
    scene = Scene(plan(hosts, {'bench': ("{name: figure, host: H, shell: 'true'}",)}))
    for host, text in zip(hosts, said):
        scene.answers(host, b'x', text)
    code, out, err = scene.manage('bench')
    check(code == 0 and f'{len(said)} passed' in out, f'{code} {out} {err}')
    p = scene.manage('--json', 'bench')
    json.loads(p[1], parse_constant=lambda c: check(False, c))


ODD = "a b'c\"$(touch pwned)`touch pwned`;&|<>*?\\"


@case
def values_of_the_file_reach_a_host_as_they_are():
    scene = Scene('''
name: plan
directory: %s
files: ['-n odd; touch pwned.yaml']
hosts:
  far: {ssh: [-p, '22', honest], program: %s}
parts:
  - {name: part, host: far, run: ['ready listen=x y', "${directory}", %s]}
test:
  - {name: word, host: far, run: ['%%s\\n', "${directory}", %s]}
  - {name: variable, host: far, shell: '[ "${directory}" = "$PWD" ] && [ "${part.listen}" = x ]'}
''' % tuple(map(json.dumps, ('DIR/' + ODD, 'DIR/pro gram', ODD, ODD))))
    with open(f'{scene.folder}/-n odd; touch pwned.yaml', 'w') as f:
        f.write('x')
    with open(f'{scene.folder}/pro gram', 'w') as f:
        f.write('#!/bin/sh\nprintf "%s\\n" "$@" >words\nprintf "%s\\n" "$@"\n'
                'case "$1" in ready*) exec sleep 60;; esac\n')
    os.chmod(f'{scene.folder}/pro gram', 0o755)
    code, out, err = scene.manage('--up', 'test')
    words = f'{scene.folder}/{ODD}/words'
    check(code == 0 and '2 passed' in out, f'{code} {out} {err}')
    check(not os.path.exists(words) or ODD in open(words).read(), 'the words of run were changed')
    with open(f'{scene.folder}/calls') as f:
        check(all(line.endswith(' -- honest sh -s\n') for line in f), 'the destination may be an option')


@case
def an_option_is_no_destination_and_no_program():
    for hosts, words in (('{ssh: [-oProxyCommand=touch pwned]}', 'destination'),
                         ('{ssh: [x, -oProxyCommand=touch pwned]}', 'destination'),
                         ("{ssh: ['']}", 'destination'), ('{ssh: [x], program: -x}', 'program'),
                         ("{ssh: [x], program: ''}", 'program')):
        scene = Scene(f'name: plan\nhosts:\n  far: {hosts}\nparts:\n  - {{name: a, host: far, run: [b]}}\n')
        code, out, err = scene.manage('up')
        check(code == 2 and re.search(r'plan\.yaml:[34]: ', err) and words in err and err.count('\n') == 1,
              f'{hosts}: {code} {out} {err}')
        check(not os.path.exists(f'{scene.folder}/calls'), f'{hosts}: ssh was started')


run_cases(only=sys.argv[2:])
