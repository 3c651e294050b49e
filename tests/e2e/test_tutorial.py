#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/tutorial.md, in one shell, and what they print: test_tutorial.py BUILD TUTORIAL.MD

Ports are others, because those of the tutorial may be in use. What installs or builds is left to scripts/fresh."""
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

from support.process import PATIENCE, check, skip, wait_until, workdir
from support.prometheus import available

build, tutorial = sys.argv[1:]
PORTS = '9464', '8000', '9090'
LEFT_OUT = re.compile(r'sudo |scripts/setup |make$|export PATH')


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return str(s.getsockname()[1])


def blocks(text):
    """[(language, content)] of the indented and the fenced blocks"""
    found = []
    for fenced, indented in re.findall(r'^```python\n(.*?)^```|((?:^    [^\n]*\n|^\n(?=    ))+)', text, re.M | re.S):
        found.append(('python', fenced) if fenced else ('shell', re.sub('^    ', '', indented, flags=re.M).strip()))
    return [(kind, content) for kind, content in found if content]


class Shell:
    """A shell that runs block after block, as a person would."""

    def __init__(self, folder):
        self.p = subprocess.Popen(['bash'], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, 'TMPDIR': folder, 'PATH': build + ':' + os.environ['PATH'],
                                       'PYTHONPATH': build + '/bindings/python'}, start_new_session=True)

    def run(self, block):
        """What it prints"""
        end = f'--- end {time.monotonic_ns()}'
        # Programs that the shell starts in the background must not keep the pipe open.
        block = re.sub(r' &$', ' >>log 2>&1 &', block, flags=re.M)
        self.p.stdin.write(f'{block}\necho "{end}"\n')
        self.p.stdin.flush()
        lines = []
        while True:
            line = self.p.stdout.readline()
            check(line, 'the shell has ended after', block)
            if line.endswith(end + '\n'):
                return ''.join(lines) + line[:-len(end) - 1]
            lines.append(line)


def is_learned():
    try:
        with urllib.request.urlopen(f'http://127.0.0.1:{ports["9464"]}/api/v1/incidents') as answer:
            analysis = json.load(answer)['analysis']
    except OSError:  # not yet there
        return False
    return analysis['pods'] and not analysis['learning']


def incidents(out):
    return [i for i in json.loads(out)['incidents'] if 'bakery' in json.dumps(i)]


# Output of each block, sooner or later.
PRINTS = {
    'sidelight top --once': lambda out: re.search(r'bakery', out) and re.search(r'^bakery_orders_total.*code="200".* [1-9]', out, re.M),
    '/api/v1/incidents': incidents,
    '/api/v1/traces': lambda out: any(t.get('reason') for t in json.loads(out)['traces']),
    '/api/v1/alerts': lambda out: any(a['labels']['alertname'] == 'Incident' and a['state'] == 'firing'
                                      for a in json.loads(out)['data']['alerts']),
    '/api/v1/query': lambda out: any(r['metric'] == {'service': 'bakery'} and float(r['value'][1]) > 1
                                     for r in json.loads(out)['data']['result']),
}
if not available():
    skip('no prometheus')
with open(tutorial) as f:
    text = f.read()
ports = {p: free_port() for p in PORTS}
for old, new in ports.items():
    text = re.sub(rf'(?<=127\.0\.0\.1)(:|\', ){old}', lambda m: m[1] + new, text)
text = text.replace('sidelight collect ', f'sidelight collect --listen 127.0.0.1:{ports["9464"]} ')
folder = workdir()
shell = Shell(folder)
try:
    ran = 0
    for kind, content in blocks(text):
        if kind == 'python':
            with open(f'{folder}/bakery/bakery.py', 'w') as f:
                f.write(content)
            continue
        content = '\n'.join(line for line in content.splitlines() if not LEFT_OUT.match(line))
        content = content.replace('$OLDPWD', os.path.dirname(os.path.dirname(os.path.abspath(tutorial))))
        if '/slow' in content:
            wait_until(is_learned, 'the bakery is not learned')
        expected = next((p for words, p in PRINTS.items() if words in content), None)
        if expected:
            out = ''

            def printed():
                global out
                out = shell.run(content)
                try:
                    return expected(out)
                except ValueError:  # no JSON: the server is not ready
                    return False
            wait_until(printed, lambda: f'{content} prints {out[:2000]}')
        elif content:
            shell.run(content)
        ran += 1
    check(ran > 10, ran, 'blocks')
finally:
    shell.run('kill $(jobs -p) 2>/dev/null; wait')
    shell.p.stdin.close()
    shell.p.wait(PATIENCE)
