#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills each process of an agent, a collector and a translator under load: one at a time, and two in each order. Parts that
end with an error are started again, as by a service manager. Then all services are back, and no count is lost.
test_every_process.py SIDELIGHT"""
import itertools
import json
import os
import re
import signal
import time

from support import http
from support.front import children, name
from support.process import SCALE, Part, alive, check, poll, run, wait_until, workdir
from support.sidelight import EXE, generate, report

THREADS, UPDATES = 2, 30_000_000
folder = workdir()
textfiles = f'{folder}/textfiles'
os.mkdir(textfiles)
with open(f'{textfiles}/a.prom', 'w') as f:
    f.write('from_a_file 5\n')
with open(f'{folder}/stores.yaml', 'w') as f:
    f.write(f'listen: [{folder}/dta.sock]\nhugepages: never\n'
            'stores:\n  - {name: flows, number: 1, kind: key-write, slots: 1000, value: 8, copies: 2}\n')
tcp = json.loads(run(EXE, 'tcp', 'probe', '--json', code=None).stdout or '{}').get('boundaries')
kafka = ()
if os.path.exists(f'{os.path.dirname(EXE)}/sidelight-kafka'):
    kafka = '--kafka-config', f'{folder}/kafka.properties'  # the broker does not answer
    with open(kafka[1], 'w') as f:
        f.write('bootstrap.servers=127.0.0.1:1\n')
ARGS = {
    'agent': ('--socket', f'{folder}/agent.sock', '--textfile', textfiles, '--otlp', f'unix:{folder}/otlp.sock',
              *(('--tcp', 'flows') if tcp else ())),
    'collect': ('--agent', f'{folder}/agent.sock', '--dta', f'{folder}/stores.yaml', '--listen', '127.0.0.1:0',
                '--period', '5ms', *kafka),
    'translate': ('--collector', f'unix:{folder}/dta.sock', '--listen', '127.0.0.1:0'),
}


class Service:
    """A part that is started again when it ends, as with Restart=always."""

    def __init__(self, command):
        self.command, self.starts, self.logs = command, 0, ''
        self.start()

    def start(self):
        self.part = Part(EXE, self.command, *ARGS[self.command])
        self.starts += 1

    def at(self):
        """The address that the current run serves; '-' before it is ready."""
        return next((re.search(r'listen=(?:http://)?(\S+)', line)[1] for line in list(self.part.out)
                     if line.startswith('ready')), '-') if self.part.out else '-'

    def look(self):
        code = self.part.p.poll()
        if code is None:
            return
        check(code in (1, -signal.SIGKILL), f'{self.command} ended with {code}', self.part)
        self.logs += self.part.logged()
        self.start()


def tree(pid):
    try:
        found = [c for c in children(pid) if alive(c)]
    except FileNotFoundError:
        found = []
    return [pid] + [p for c in sorted(found) for p in tree(c)]


def processes():
    """{'agent/sidelight-http/1': pid}"""
    out = {}
    for s in services:
        for pid in tree(s.part.pid):
            try:
                label = f'{s.command}/{name(pid)}'
            except OSError:
                continue
            n = next(i for i in itertools.count(1) if f'{label}/{i}' not in out)
            out[f'{label}/{n}'] = pid
    return out


def scraped():
    try:
        return http.get(f'http://{by["collect"].at()}/metrics', seconds=10)
    except (OSError, ValueError, http.http.client.HTTPException):
        return ''


def value(text, metric):
    return sum(float(v) for v in re.findall(rf'^{metric}(?:{{.*}})? ([0-9.e+]+)$', text, re.M))


def shown():
    """The count as the collector shows it. It may end once more: it does after three deaths of its helpers in a minute."""
    def look():
        for s in services:
            s.look()
        return value(scraped(), 'generated_updates_total')
    return wait_until(look, 'a count is shown')


def rest_tables():
    """Whether REST answers, and shows the tables of the kernel."""
    try:
        status, answer = http.request_at(f'unix:{folder}/rest.sock', 'GET', '/tcp')
    except (OSError, ValueError, http.http.client.HTTPException):
        return False
    return status == 200 and (not tcp or bool(answer['tcp'] and answer['tcp']['parts']))


def takes_otlp():
    try:
        return http.request_at(f'unix:{folder}/otlp.sock', 'POST', '/v1/metrics', b'{"resourceMetrics":[]}',
                               {'Content-Type': 'application/json'})[0] == 200
    except (OSError, ValueError, http.http.client.HTTPException):
        return False


written = 0


def takes_reports():
    """Whether reported values can be queried."""
    global written
    written += 1
    if '-' in (by['translate'].at(), by['collect'].at()):
        return False
    run(EXE, 'report', '--target', by['translate'].at(), '--store', '1', 'keywrite', 'text:flow', f'u64:{written}', code=None,
        seconds=60)
    p = run(EXE, 'query', '--collector', by['collect'].at(), 'keywrite', 'flows', 'text:flow', code=None, seconds=60)
    return p.returncode == 0 and written.to_bytes(8, 'big').hex() in p.stdout.replace(' ', '')


PARTS = {
    '/metrics': lambda: value(scraped(), 'generated_updates_total') > 0,
    'REST': rest_tables,
    'textfiles': lambda: 'from_a_file' in scraped(),
    'OTLP': takes_otlp,
    'reports': takes_reports,
}


def all_back(what):
    """Waits until all parts work; returns how long that took."""
    begun = time.monotonic()
    for part, works in PARTS.items():
        def works_again():
            for s in services:
                s.look()
            return works()
        if not poll(works_again, every=0.05):
            for s in services:
                print(f'--- {s.command}\n{s.logs}{s.part.logged()}')
            check(False, f'{part} is not back after {what}')
    return time.monotonic() - begun


def whole():
    """All processes, once none has ended for a while."""
    def all_of_them():
        for s in services:
            s.look()
        found = processes()
        return len(found) >= count and found
    return wait_until(all_of_them, lambda: f'{len(processes())} processes instead of {count}: {sorted(processes())}')


by = {c: Service(c) for c in ARGS}
services = list(by.values())
generator = generate(f'{folder}/agent.sock', '--metrics', '1', '--threads', str(THREADS), '--updates', str(UPDATES),
                     '--rate', str(UPDATES // 15), '--hold', '1h', '--service', 'kills')
count = 0
all_back('the start')
count = len(processes())
labels = sorted(processes())
print(f'{count} processes: {labels}', flush=True)
cases = [(p,) for p in labels] + list(itertools.permutations(labels, 2))
if SCALE <= 1:
    # Only the first of two equal spawners, and only pairs in which one depends on the other.
    singles = [p for p in labels if not ('spawn' in p and int(p[-1]) % 2 == 0)]
    cases = [(p,) for p in singles]
    cases += [(a, b) for a, b in itertools.permutations(singles, 2) if 'spawn' in a and '/1' in a and 'http' in b and
              a.split('/')[0] == b.split('/')[0]]
slowest = 0
for case in cases:
    now = whole()
    before = shown()
    for p in case:
        if p in now and alive(now[p]):
            os.kill(now[p], signal.SIGKILL)
    took = all_back(case)
    slowest = max(slowest, took)
    print(f'{" then ".join(case)}: back after {took:.2f} s', flush=True)
    after = shown()
    check(after >= before, f'the counter went back from {before} to {after} after {case}')
r = report(generator)
check(r['complete'] and r['grand_total'] == THREADS * UPDATES, r)
wait_until(lambda: value(scraped(), 'generated_updates_total') == THREADS * UPDATES,
           lambda: f'{value(scraped(), "generated_updates_total")} of {THREADS * UPDATES}')
said = ''.join(s.logs + s.part.logged() for s in services)
check(len(re.findall(r'exited: restarting it helper=\S+ signal=9', said)) > 0, said)
print(f'{len(cases)} cases, the slowest back after {slowest:.2f} s; '
      f'{ {s.command: s.starts for s in services} } starts; {THREADS * UPDATES:,} increments')
