#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sidelight dump and a reader written from sidelight-region(5) alone decode spans to the same values."""
import json
import subprocess
import sys

from support import region_reader
from support.process import Part, check, workdir
from support.sidelight import Agent

sidelight, traffic = sys.argv[1:]
d = workdir()
a = Agent(folder=d)
t = Part(traffic, f'{d}/agent.sock', '100', '0')
made = t.ready()
dump = subprocess.run([sidelight, 'dump', '--json', str(t.pid)], stdout=subprocess.PIPE, text=True)
check(dump.returncode == 0, 'dump failed', t)
regions = [json.loads(line) for line in dump.stdout.splitlines()]
check(sorted(r['labels']['service'] for r in regions) == ['cart', 'db', 'front'], dump.stdout[:500])
spans = 0
for r in regions:
    fd = r['source'].split()[-1]
    other = region_reader.read(f'/proc/{t.pid}/fd/{fd}')
    check(len(r['rings']) == len(other['rings']) == 2, 'rings')
    for ours, theirs in zip(r['rings'], other['rings']):
        for key in ('spans_written', 'dropped', 'cut', 'roots', 'spans'):
            check(ours[key] == theirs[key], f'{key}: {ours[key]} and {theirs[key]}')
        check(ours['lines_of_no_span'] == 0, 'lines of no span')
        check(sum(e[1] for e in theirs['entries']) == ours['lines'], 'index')
        spans += len(ours['spans'])
check(spans == int(made['spans']), f'{spans} spans')
text = subprocess.run([sidelight, 'dump', str(t.pid)], stdout=subprocess.PIPE, text=True).stdout
check('db.statement=SELECT' in text and '300 spans in' in text, text[:2000])
t.stop()
a.stop()
print(f'{spans} spans read alike')
