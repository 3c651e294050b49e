#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_again.py SIDELIGHT POD - 'sidelight replay' of what 'sidelight collect --record' wrote, with two workers, pods
that come and go, one without metrics at first, pods with the host's name, a fault, and errors while a pod is learned,
gives the collector's verdicts to the bit; so it does after a restart that loads the model, with pods that begin with
models kept meanwhile."""
import os
import shutil
import subprocess
import sys
import time

from support.process import Missed, check, wait_until, widen
from support.sidelight import EXE, Agent, Collector, Pod

PODS = 5


def rows(folder):
    """Without a last line that may still be incomplete."""
    with open(os.path.join(folder, 'verdicts.csv')) as f:
        return f.read().split('\n')[:-1]


def scored(verdict):
    return float(verdict.split(',')[2]) > 0


def scores(recording, name):
    """Verdicts of a pod above 0."""
    return sum(scored(v) for v in rows(recording) if f',{name},' in v)


def fail_early(recording, pod, name):
    """Errors are an anomaly of a pod that has no threshold yet: without one, nothing else scores. The pod must have rows
    and still be learned when this looks, and when it fails."""
    def of_pod(what=lambda _: True):
        return [v for v in rows(recording) if f',{name},' in v and what(v)]

    def anomalous(verdict):
        return verdict.split(',')[3] == '1'
    wait_until(lambda: len(of_pod()) > 30, f'rows of {name}')
    if of_pod(scored):
        raise Missed('the warm-up')
    pod.tell('fault')
    wait_until(lambda: of_pod(anomalous), f'errors of {name}')
    pod.tell('fine')
    before = next(i for i, v in enumerate(of_pod(scored)) if anomalous(v))
    if before >= 10:
        raise Missed('the warm-up')


def start(agent, recording, model, warm_up=3):
    return Collector([agent], '--period', '10ms', '--workers', '2', '--analyse', '--analyse-step', '200ms', '--warm-up', f'{warm_up}s',
                     '--record', recording, '--model', model, '--model-every', '1s')


def same_again(recording):
    live = rows(recording)
    p = subprocess.run([EXE, 'replay', recording, '--verdicts', '-'], capture_output=True, text=True, timeout=300)
    check(p.returncode == 0, p.stderr)
    again = p.stdout.splitlines()
    for i, (a, b) in enumerate(zip(live, again)):
        check(a == b, f'{recording}: verdict {i}: live {a}, replayed {b}')
    check(len(live) == len(again), f'{len(live)} live, {len(again)} replayed')
    print(f'{len(live) - 1} verdicts are the same, {sum(map(scored, live[1:]))} of them above 0')


def main():
    agent = Agent('--hostname', os.uname().nodename)
    recording, model = os.path.join(agent.folder, 'recording'), os.path.join(agent.folder, 'model')
    pods = [Pod(sys.argv[2], agent.socket, f'shop-{i}') for i in range(PODS)]
    bare = [Pod(sys.argv[2], agent.socket, os.uname().nodename) for _ in range(2)]
    processes = [f'shop[{p.p.pid}]' for p in bare]

    def start_and_fail_early(factor):
        collector = start(agent, recording, model, 3 * factor)
        try:
            fail_early(recording, pods[1], 'shop-1')
        except Missed:
            check(collector.stop() == 0, 'the collector failed', collector)
            for path in recording, model:
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
            raise
        return collector
    collector = widen(start_and_fail_early, 1, 5, 25)
    for name in [f'shop-{i}' for i in range(PODS)] + processes:
        wait_until(lambda: scores(recording, name) > 20, f'scores of {name}')
    pods[0].tell('fault')
    pods[4].close()
    pods.append(Pod(sys.argv[2], agent.socket, 'shop-9', '500'))
    wait_until(lambda: len([v for v in rows(recording) if ',shop-9,' in v]) > 20, 'rows of a new pod')
    pods[0].tell('fine')
    time.sleep(1)
    check(collector.stop() == 0, 'the collector failed', collector)
    for name in processes:
        check(os.path.exists(os.path.join(recording, 'metrics', name + '.csv')), f'no rows of {name}')
    check('kept,' in open(os.path.join(recording, 'events.csv')).read(), 'no models were kept')
    same_again(recording)
    for i in range(2):  # the recording goes on, of pods that it has files of
        before = len(rows(recording))
        collector = start(agent, recording, model)
        wait_until(lambda: sum(map(scored, rows(recording)[before:])) > 200, 'scores after a restart', collector)
        pods.append(Pod(sys.argv[2], agent.socket, f'shop-new{i}'))
        wait_until(lambda: scores(recording, f'shop-new{i}') > 20, 'scores of a pod that begins with what was kept', collector)
        check(collector.stop() == 0, 'the collector failed', collector)
    check(open(os.path.join(recording, 'events.csv')).read().count('\nmodels,') == 2, 'no models were loaded')
    same_again(recording)
    for p in pods[:4] + pods[5:] + bare:
        p.close()
    check(agent.stop() == 0, 'the agent failed', agent)


main()
