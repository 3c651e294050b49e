#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_stopped.py SIDELIGHT QUEUE - one of two workers of the demo's queue is stopped for 3 s. Each time it is found, its service is the
cause, and the sentence says that it finishes no work. The other worker, which does all of it, has no fault."""
import os
import signal
import sys
import time

from support.process import Part, check, poll, wait_until
from support.sidelight import Agent, Collector

STOP_S, TIMES = 3, 2

agent = Agent('--hostname', 'node-1')
queue = Part(sys.argv[2], env={'SIDELIGHT_SOCKET': agent.socket})
queue.ready()
c = Collector([agent], '--period', '10ms', '--analyse', '--warm-up', '20s')


def pods():
    """{PID: pod} of the queue's processes."""
    return {p['pid']: p for p in c.api('pods?q=queue')['pods'] if p.get('verdict')}


def known():
    return len(pods()) == 3 and not any(p['verdict']['learning'] for p in pods().values())


def incidents(since):
    return [i for i in c.api('incidents')['incidents'] if i['last'] >= since]


wait_until(known, pods, c, seconds=400)
worker = max(pids for pids in pods() if pids != queue.pid)
for _ in range(TIMES):
    wait_until(lambda: all(i['end'] for i in incidents(0)), lambda: incidents(0), c, seconds=400)
    since = time.time()
    os.kill(worker, signal.SIGSTOP)
    time.sleep(STOP_S)
    os.kill(worker, signal.SIGCONT)
    found = poll(lambda: [i for i in incidents(since) if i['cause']['pid'] == worker], 20)
    said = [(i['kind'], i['cause']['pid'], i['sentence']) for i in incidents(since)]
    print(said, flush=True)
    check(found, f'not found: {said}, load {os.getloadavg()[0]:.0f}', c)
    check(all(i['cause']['service'] == 'queue' for i in incidents(since)), said)
    check(' finished no work ' in found[0]['sentence'] and 'jobs_done' in found[0]['sentence'], said)
c.stop()
queue.stop()
agent.stop()
