#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_verdict_back.py SIDELIGHT POD - a pod fails: from its metrics alone a collector detects it,
keeps its traces, which look as before, and notifies the pod, again at the end. Over the agent's
socket, or in a guest by RDMA (tests/guest/spans.sh)."""
import json
import subprocess
import sys

from support.exposition import total
from support.http import get
from support.process import check, poll, wait_until, workdir
from support.sidelight import RDMA, Agent, Collector

sidelight, pod = sys.argv[1:]
HOLD = 300  # on a machine that is no longer as it was, an anomaly ends after two minutes
d = workdir()
a = Agent(folder=d)
p = subprocess.Popen([pod, f'{d}/agent.sock', 'shop-0'], stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE, text=True)
c = Collector([a], '--period', '20ms', '--analyse', '--analyse-step', '200ms',
                   # At one false alarm per hour the threshold would stay wide for long after so short a warm-up.
                   '--warm-up', '5s', '--false-alarms', '60', '--analyse-hold', '2m', '--trace-head', '0.05')
api = c.url + '/api/v1/'


def alarmed(order='?'):
    """Sends the pod a command, and returns what it has been told about itself."""
    p.stdin.write(order + '\n')
    p.stdin.flush()
    return p.stdout.readline() == 'alarmed 1\n'


def verdict():
    pods = json.loads(get(api + 'pods?q=shop-0'))['pods']
    return pods and pods[0].get('verdict')


def calm():
    v = verdict()
    return v and not v['learning'] and not v['anomalous'] and not alarmed()


def traces(reason):
    return [t for t in json.loads(get(api + 'traces?limit=10000'))['traces']
            if t['reason'] == reason]


wait_until(calm, lambda: f'what is usual was not learned: {verdict()}', c, seconds=HOLD)
wait_until(lambda: traces('head'), 'of traces that are as ever some are kept all the same', c)

for attempt in range(8):  # a machine too busy may sleep through a fault
    alarmed('fault')
    if poll(alarmed, 5 * (attempt + 1)):
        break
    alarmed('fine')
    poll(calm, HOLD)
else:
    check(False, f'the pod was not told: {verdict()}', c, a)
check(verdict()['anomalous'], 'it was told what is not so', c)
wait_until(lambda: traces('verdict'), 'no trace was kept by the verdict', c)
one = traces('verdict')[-1]
one = poll(lambda: next((t for t in [json.loads(get(f'{api}traces/{one["trace_id"]}'))]
                          if t['spans']), None))
check(one and one['spans'][0]['pod'] == 'shop-0' and one['spans'][0]['name'] == 'GET /'
      and round(one['duration_seconds'] * 1e9) == 5000000, f'{one}', c)
check(not traces('slow') and not traces('error'), 'all of them look alike', c)

alarmed('fine')
wait_until(lambda: not alarmed(), lambda: f'the pod was not told that it is over: {verdict()}', c, a, seconds=HOLD)
text = c.get('/metrics')
told = total(text, 'sidelight_analysis_told_total')
check(told > 1, 'what was told is counted', c)
print(f'told {told:g} times, by {"a WRITE into the board" if RDMA else "the socket"}; '
      f'{len(traces("verdict"))} traces kept by the verdict')
p.stdin.close()
p.stdout.close()
check(p.wait() == 0 and c.stop() == 0 and a.stop() == 0, 'exit codes', c, a)
