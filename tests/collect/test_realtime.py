#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers keep their deadlines on busy CPUs, without occupying a CPU: test_realtime.py SIDELIGHT CASE"""
import os
import sys
import time

from support.process import Part, case, check, reachable, run_cases, skip, wait_until
from support.sidelight import EXE, Agent, Collector

NOBODY = 65534


def worker(collector):
    for t in os.listdir(f'/proc/{collector.pid}/task'):
        with open(f'/proc/{collector.pid}/task/{t}/comm') as f:
            if f.read().strip() == 'worker-0':
                return int(t)


def policy(collector):
    return os.sched_getscheduler(worker(collector)) & ~os.SCHED_RESET_ON_FORK


def total(collector, name):
    return collector.total(f'sidelight_collector_{name}')


def allowed():
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except OSError as error:
        skip(f'no real-time priority: {error}')


def missed(agent, *options):
    """The share of deadlines that a collector misses while every CPU has 8 busy processes."""
    with Collector([agent], '--period', '10ms', *options) as collector:
        busy = [Part(sys.executable, '-c', 'while True: pass')
                for _ in range(8 * len(os.sched_getaffinity(0)))]
        try:
            time.sleep(1)
            before = total(collector, 'rounds_total'), total(collector, 'missed_deadlines_total')
            time.sleep(4)
            rounds = total(collector, 'rounds_total') - before[0]
            late = total(collector, 'missed_deadlines_total') - before[1]
        finally:
            for p in busy:
                p.kill()
        return late / (rounds + late)


@case
def busy_cpus_delay_no_round():
    allowed()
    with Agent() as agent:
        off = missed(agent, '--realtime', 'off')
        auto = missed(agent)
    check(auto < 0.1 or auto < off / 4, f'{100 * auto:.1f} % of deadlines missed, with --realtime off {100 * off:.1f} %')
    return f'{100 * auto:.2f} % of deadlines missed, with --realtime off {100 * off:.1f} %'


@case
def a_worker_takes_no_cpu():
    allowed()
    with Agent() as agent, Collector([agent], '--period', '10us') as collector:
        check(total(collector, 'realtime') == 1, 'it has real-time priority', collector)
        seen = set()
        # With a round every 10 us, the worker never pauses.
        wait_until(lambda: seen.add(policy(collector)) or seen == {os.SCHED_FIFO, os.SCHED_OTHER}, lambda: seen, collector,
                   every=0.003)
        wait_until(lambda: total(collector, 'realtime_used_up_total') > 2, 'its share ends', collector)


@case
def the_programs_priority_is_kept():
    allowed()
    with Agent() as agent, Collector([agent], before=('chrt', '-r', '3')) as collector:
        check(total(collector, 'realtime') == 1, 'it has real-time priority', collector)
        check(policy(collector) == os.SCHED_RR, policy(collector), collector)
        check(os.sched_getparam(worker(collector)).sched_priority == 3, 'its own priority', collector)


@case
def it_can_be_switched_off():
    with Agent() as agent, Collector([agent], '--realtime', 'off') as collector:
        check(policy(collector) == os.SCHED_OTHER, policy(collector))
        check(total(collector, 'realtime') == 0, collector)
        check('real-time' not in collector.logged(), collector)


@case
def a_refusal_is_said():
    if os.geteuid():
        skip('not root')
    with Agent('--consumer-uid', NOBODY) as agent:
        os.chmod(agent.folder, 0o755)
        user = ('prlimit', '--rtprio=0', 'setpriv', '--reuid', str(NOBODY), '--clear-groups')
        with Collector([agent], before=user, exe=reachable(EXE, 'collect')) as c:
            check(total(c, 'realtime') == 0, c)
            check(policy(c) == os.SCHED_OTHER, policy(c))
            check(c.logged().count('workers have no real-time priority') == 1, c)


run_cases()
