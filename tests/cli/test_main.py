#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line: --help, --version, help CMD, and one clear line with exit status 2 for misuse."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sidelight = sys.argv[1]


def run(*args):
    p = subprocess.run([sidelight, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=300)
    return p.returncode, p.stdout, p.stderr


def expect(condition, what):
    if not condition:
        print(f'FAILED: {what}')
        sys.exit(1)


code, out, err = run('--help')
expect(code == 0 and not err and out.startswith('Usage: sidelight COMMAND'), (code, out, err))
expect(run('help') == run('-h') == run('--help'), 'help, -h and --help are the same')
commands = re.findall(r'^  ([a-z]+) +\S', out, re.M)
expect({'agent', 'collect', 'demo', 'dump', 'generate'} <= set(commands), f'commands: {commands}')

for summary in re.findall(r'^  [a-z]+ +(\S.*)', out, re.M):
    expect(summary[0].isupper() and summary[-1] != '.', f'the summary "{summary}"')
expect(run('help', 'help') == run('help', '--help') == run('help'), 'help help')
code, out, err = run('help', 'generate', 'metrics')
expect((code, out, err) == run('generate', 'metrics', '--help') and 'generate metrics' in out,
       f'help generate metrics: {code} {out} {err}')

code, out, err = run('--version')
expect(code == 0 and re.match(r'sidelight \d+\.\d+\.\d+ ', out), (code, out, err))

for command in commands:
    if command == 'help':
        continue
    code, out, err = run(command, '--help')
    expect(code == 0 and not err and out.startswith(f'Usage: sidelight {command}'),
           f'{command} --help: {code} {err}')
    expect(all(len(line) <= 80 for line in out.split('\n')), f'{command} --help: a line over 80')
    expect(run('help', command) == (code, out, err), f'help {command} is {command} --help')
    code, out, err = run(command, '--no-such-option')
    expect(code == 2 and not out and err.count('\n') == 1 and err.startswith('sidelight '),
           f'{command} --no-such-option: {code} {out} {err}')

for args, said in (
        ((), 'no command given'),
        (('colect',), "did you mean 'collect'?"),
        (('gen',), "did you mean 'generate'?"),
        (('zzzzzz',), "unknown command 'zzzzzz'"),
        (('--colour',), "unknown option '--colour'"),
        (('help', 'agnet'), "did you mean 'agent'?"),
        (('version',), "did you mean '--version'?"),
        (('halp',), "did you mean 'help'?"),
        (('--hlep',), "did you mean '--help'?"),
        (('zzzzz',), "unknown command 'zzzzz'; see"),
        (('generate',), 'expected metrics or dta'),
        (('generate', 'nothing'), "cannot generate 'nothing'"),
        (('generate', 'metrics', '--kinds', 'counter,gague'), "'gague' is not one of"),
        (('generate', 'metrics', '--pods-per-process', '16'), 'expected 1 to 15'),
        (('generate', 'metrics', 'more'), "unexpected argument 'more'")):
    code, out, err = run(*args)
    expect(code == 2 and not out and err.count('\n') == 1 and said in err,
           f'{args}: {code} {out} {err}')

# If the help cannot be written, the command fails.
with open('/dev/full', 'w') as full:
    for args in (('--help',), ('--version',), *((c, '--help') for c in commands if c != 'help'), ('generate', 'dta', '--help'),
                 ('translate', '--print-map')):
        p = subprocess.run([sidelight, *args], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
        expect(p.returncode == 1 and re.fullmatch('sidelight.*: standard output: No space left on device\n', p.stderr), f'{args}: {p}')

# Text that others may have chosen must not control the terminal, not even with C1 controls.
for args, said in ((('generate', 'x\033\x9b2J'), "cannot generate 'x???2J'"),
                   (('agent', '--status', '--socket', '/none\x9b2J'), 'no agent answers on /none??2J: ')):
    code, out, err = run(*args)
    expect(code and not out and said in err and re.fullmatch('[\n -~]*', err), f'{args}: {code} {err!r}')

# A program of its own is found where 'make install' puts it; without, one line names its package.
with tempfile.TemporaryDirectory() as folder:
    os.mkdir(f'{folder}/bin')
    agent = f'{sidelight}-agent'
    sidelight = shutil.copy(sidelight, f'{folder}/bin')
    code, out, err = run('manage', '--help')
    expect(code == 1 and not out and err == "sidelight: 'manage' is not installed; install the package sidelight-tools\n",
           f'without its program: {code} {out} {err}')
    os.makedirs(f'{folder}/libexec/sidelight')
    shutil.copy(agent, f'{folder}/libexec/sidelight')
    code, out, err = run('agent', '--host', '--no-rest', '--socket', f'{folder}/agent.sock')
    expect(code == 1 and err.count('\n') == 1 and 'the package sidelight-bridge' in err, f'without bridges: {code} {out} {err}')
    with open(f'{folder}/libexec/sidelight/sidelight-manage', 'w') as f:
        f.write('#!/bin/sh\necho "$$ $0 $*"\n')
        os.fchmod(f.fileno(), 0o755)
    p = subprocess.Popen([sidelight, 'manage', 'up', 'a file'], stdout=subprocess.PIPE, text=True)
    out = p.communicate(timeout=60)[0]
    expect(out == f'{p.pid} {folder}/bin/../libexec/sidelight/sidelight-manage up a file\n', f'as the same process: {out}')
