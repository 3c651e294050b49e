#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP is served by a process of its own, and may lose it: test_apart.py SIDELIGHT CASE"""
import os
import re
import signal
import socket
import time

from support.front import children, front, name, spawners
from support.http import get
from support.memory import held
from support.process import alive, case, check, poll, run_cases, skip, wait_until, workdir
from support.sidelight import Agent, Collector

TOKEN = '5a1debeef5a1debeef5a1debeef00'
ENDS_S = 60  # a process that must end does so within a second, but may take longer on a busy machine
RESTRICTED = os.environ.get('SL_TEST_INSTRUMENTED') != '1'


def post(agent, value):
    status, got = agent.ask('POST', '/metrics', {'microservice_id': 'cart', 'name': 'jobs_total', 'type': 'counter',
                                                 'add': value})
    check(status in (200, 201), got, agent)
    return got['value']


def scraped(collector):
    """The series, or None while no front answers."""
    try:
        return collector.series()
    except OSError:
        return None


def rounds(series):
    return sum(v for k, v in series.items() if k.startswith('sidelight_collector_rounds_total'))


def jobs(series):
    return sum(v for k, v in series.items() if k.startswith('jobs_total'))


@case
def a_killed_front_loses_no_count():
    with Agent(rest=True) as agent, Collector([agent]) as collector:
        check(post(agent, 3) == 3, 'posted', agent)
        wait_until(lambda: jobs(collector.series()) == 3, 'it is read', collector)
        for i in range(2):
            before = collector.series()
            for part in agent, collector:
                os.kill(front(part), signal.SIGKILL)
            begun = time.monotonic()
            after = wait_until(lambda: scraped(collector), 'metrics are back', collector, every=0.01)
            took = time.monotonic() - begun
            check(jobs(after) == 3 + i, f'{jobs(after)} jobs', collector)
            check(rounds(after) >= rounds(before) > 0, f'{rounds(before)} and then {rounds(after)} rounds', collector)
            wait_until(lambda: front(agent), 'REST is back', agent, every=0.01)
            check(post(agent, 1) == 4 + i, 'the value before is kept', agent)
            wait_until(lambda: jobs(collector.series()) == 4 + i, 'it is read', collector)
        ended = [line for line in collector.logged().splitlines() if 'serves clients' in line]
        check(len(ended) == 2, ended, collector)
        check(collector.total('sidelight_helper_restarts_total', 'helper="http"') == 2, collector)
        wait_until(lambda: collector.total('sidelight_agent_helper_restarts_total', 'helper="http"') == 2, collector)
    return f'metrics were back after {took:.2f} s'


@case
def a_front_that_hangs_delays_no_round():
    with Agent(rest=True) as agent, Collector([agent], '--stats-csv', f'{workdir()}/csv') as collector:
        stopped = front(collector)
        before = rounds(collector.series())
        os.kill(stopped, signal.SIGSTOP)
        with socket.create_connection(collector.address.rsplit(':', 1)) as s:  # the stopped process does not answer
            s.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
            time.sleep(2)  # 200 rounds
            os.kill(stopped, signal.SIGCONT)
            wait_until(lambda: rounds(collector.series()) >= before + 100, 'rounds went on', collector)
            check(front(collector) == stopped, 'the same process', collector)
        os.kill(stopped, signal.SIGSTOP)  # the collector can stop it in this state


@case
def fronts_end_with_their_server():
    agent = Agent(rest=True)
    for part in agent, Collector([agent]):
        pids = *spawners(part), front(part)
        for s in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            for p in pids:  # as a terminal or systemd sends them to all
                os.kill(p, s)
        check(all(map(alive, pids)), f'{pids} ended before their server', part)
        part.kill()
        wait_until(lambda: not any(map(alive, pids)), f'{pids} end', every=0.01)


@case
def a_spawner_that_is_killed_is_replaced():
    with Agent(rest=True) as agent, Collector([agent]) as collector:
        for part in agent, collector:
            serves, old = front(part), set(spawners(part))
            killed = min(old)
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda: len(spawners(part)) == 2 and killed not in spawners(part), 'another spawner', part)
            check(front(part) == serves, 'the front goes on', part)
            os.kill(serves, signal.SIGKILL)
            wait_until(lambda: front(part) not in (None, serves), 'another front', part)
            check('a spawner exited: restarting it helper=http-spawner signal=9' in part.logged(), part)
        check(post(agent, 1) == 1, 'REST', agent)
        wait_until(lambda: scraped(collector), 'metrics', collector)
        check(collector.total('sidelight_helper_restarts_total') == 2, collector)


def ends_with_an_error(part, line, goes_on):
    """goes_on() is true if the part has restarted the helper, which it must not be able to do."""
    poll(lambda: part.p.poll() is not None or goes_on(), ENDS_S)
    check(part.p.poll() == 1, 'it exits with 1', part)
    check(line in part.logged(), part)


@case
def what_cannot_be_started_again_ends_the_server():
    agent = Agent(rest=True)
    collector = Collector([agent])
    for part in agent, collector:
        for i in range(3):
            before = front(part)
            os.kill(before, signal.SIGKILL)
            if i < 2:
                wait_until(lambda: front(part) not in (None, before), 'another front', part)
        ends_with_an_error(part, 'exited three times within a minute', lambda: front(part) not in (None, before))
    with Agent() as agent:
        collector = Collector([agent])
        killed = spawners(collector)
        os.kill(collector.pid, signal.SIGSTOP)  # so that it does not replace the first one before the second is killed
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        os.kill(collector.pid, signal.SIGCONT)
        ends_with_an_error(collector, 'the processes that start it have exited', lambda: set(spawners(collector)) - set(killed))


def reaches(part, *secrets):
    """Fails unless the front has no privilege, no file, and no memory of others."""
    pid = front(part)
    with open(f'/proc/{pid}/status') as f:
        status = dict(line.split(':\t', 1) for line in f.read().splitlines() if ':\t' in line)
    check(not int(status['CapPrm'], 16) | int(status['CapEff'], 16) | int(status['CapInh'], 16), status['CapPrm'])
    check(os.geteuid() or not int(status['CapBnd'], 16), status['CapBnd'])
    check(status['NoNewPrivs'] == '1', status)
    check(not RESTRICTED or status['Seccomp'] == '2', status)

    def opened():
        out = []
        for n in os.listdir(f'/proc/{pid}/fd'):
            try:
                out += [os.readlink(f'/proc/{pid}/fd/{n}')] if int(n) > 2 else []
            except FileNotFoundError:  # closed meanwhile
                pass
        return out
    links = opened()
    check(not [link for link in links if not re.match(r'socket:|anon_inode:\[(eventpoll|eventfd)\]$', link)], links)
    # One listener, the control socket, a channel for each of two threads, and netlink; those of clients close.
    wait_until(lambda: sum(link.startswith('socket:') for link in opened()) <= 5, opened)
    with open(f'/proc/{pid}/maps') as f:
        maps = f.read().splitlines()
    check(not [line for line in maps if line.split()[1][3] == 's'], maps)
    check(not RESTRICTED or not held(pid, [s.encode() for s in secrets]), f'{pid} holds a secret')


@case
def fronts_reach_nothing():
    path = f'{workdir()}/token'
    with open(path, 'w') as f:
        f.write(TOKEN)
    os.chmod(path, 0o600)
    with Agent('--rest-token-file', path, '--rest', '127.0.0.1:0') as agent, \
            Collector([agent], '--admin-token-file', path) as collector:
        wait_until(lambda: collector.total('sidelight_agent_regions'), 'it reads', collector)
        try:
            reaches(agent, TOKEN)
            reaches(collector, TOKEN)
        except PermissionError:
            skip('the memory of other processes is not to be read here')
        for part in agent, collector:
            old = front(part)
            os.kill(old, signal.SIGKILL)
            wait_until(lambda: front(part) not in (None, old), 'another front', part, every=0.01)
        wait_until(lambda: scraped(collector), 'it serves', collector, every=0.01)
        reaches(agent, TOKEN)
        reaches(collector, TOKEN)


@case
def unconfined_fronts_are_apart():
    with Agent('--unconfined', rest=True) as agent, Collector([agent], '--unconfined') as collector:
        for part in agent, collector:
            check(front(part) not in (None, part.pid), 'a process of its own', part)
            with open(f'/proc/{front(part)}/status') as f:
                check('Seccomp:\t2' not in f.read(), 'it keeps all calls', part)
        check('sidelight_collector' in get(collector.url + '/metrics'), 'it serves', collector)


run_cases()
