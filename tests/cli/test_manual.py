#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_manual.py SIDELIGHT MAN - the manual page of each command describes exactly the options of its --help."""
import os
import re
import subprocess
import sys

sidelight, man = sys.argv[1:3]


def of_help(*command):
    out = subprocess.run([sidelight, *command, '--help'], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         check=True, timeout=300).stdout
    return set(re.findall(r'^ +(?:-\w, )?--([a-z0-9][a-z0-9-]*)', out, re.M)), out


def of_page(text):
    """Options that an item is about; and all that are named."""
    named = r'Fl (?:Fl |-)([a-z0-9][a-z0-9-]*)'
    items = {o for line in re.findall(r'^\.It (.*)', text, re.M) for o in re.findall(named, line)}
    return items, set(re.findall(named, text))


wrong = []
commands = [c for c in re.findall(r'^  ([a-z]+) +\S', of_help()[1], re.M) if c != 'help']
for command in commands:
    options, said = of_help(command)
    for sub in {'generate': ('metrics', 'dta'), 'model': ('train',), 'tcp': re.findall(r'^  ([a-z]+) +\S', said, re.M)}.get(command, ()):
        options |= of_help(command, sub)[0]
    page = f'sidelight-{command}.1'
    with open(os.path.join(man, page)) as f:
        items, named = of_page(f.read())
    wrong += [f'{page} says nothing of --{o}' for o in sorted(options - named - {'help'})]
    wrong += [f'{page} describes --{o}, which {command} --help has not' for o in sorted(items - options - {'help', 'version'})]
    if len(options) < 2:
        wrong.append(f'{command} --help has {len(options)} options')
if len(commands) < 10:
    wrong.append(f'commands: {commands}')
print('\n'.join(wrong) or f'ok: {len(commands)} commands')
sys.exit(bool(wrong))
