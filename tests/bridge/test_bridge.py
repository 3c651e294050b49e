#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The process of the bridges: what happens when it is killed, and its options. test_bridge.py SIDELIGHT CASE"""
import os
import re
import signal
import socket
import sys
import threading
import time

from bridge import Bridged, count, say, Server, worker
from support import http as client
from support.process import Part, case, check, run_cases, wait_until, workdir
from support.sidelight import Collector


@case
def a_killed_worker_is_started_again():
    server = Server(say(b'a_total 5\n'))
    with Bridged('--scrape', f'{server.url},job=again,interval=50ms,timeout=60s') as agent, Collector([agent], '--period', '20ms') as collector:
        def pids():
            return {re.search('process="(.*?)"', k)[1] for k in collector.find('a_total')}
        wait_until(lambda: len(pids()) == 1, 'the series', collector, agent)
        first = pids()
        agent.ends = True
        os.kill(worker(agent), signal.SIGKILL)
        wait_until(lambda: pids() - first, 'another worker', collector, agent)
        check('the process that runs the bridges exited' in '\n'.join(agent.err), agent)
        last = worker(agent)
    wait_until(lambda: not os.path.exists(f'/proc/{last}'), 'it ends with the agent')


def lose(agent):
    """Kills the worker. Returns when there is another one."""
    agent.ends = True
    last = worker(agent)
    os.kill(last, signal.SIGKILL)

    def another():
        try:
            return worker(agent) != last
        except IndexError:
            return False
    wait_until(another, 'another worker', agent)


@case
def a_mapping_that_breaks_ends_statsd_alone():
    folder = workdir()

    def write(text):
        with open(f'{folder}/rules.yml', 'w') as f:
            f.write(text)
    write('mappings:\n- match: a.*\n  name: a\n')
    with Bridged('--host', '--statsd', f'unix:{folder}/statsd.sock', '--statsd-mapping', f'{folder}/rules.yml') as agent, \
            Collector([agent], '--period', '20ms') as collector:
        def processes():
            return {re.search('process="(.*?)"', k)[1] for k in collector.find('node_forks_total')}
        wait_until(lambda: len(processes()) == 1, 'the host', collector, agent)
        check(count(collector, 'statsd_mapping_errors') == 0)
        first = processes()
        write('mappings: 17\n')
        lose(agent)
        wait_until(lambda: processes() - first, 'the host again', collector, agent)
        wait_until(lambda: count(collector, 'statsd_mapping_errors') == 1, collector, agent)
        check(any('StatsD is not served' in line for line in agent.err), agent)
        # The agent would end at the third death within a minute.
        check(sum('the process that runs the bridges exited' in line for line in agent.err) == 1, agent)
        write('mappings:\n- match: a.*\n  name: a\n')
        lose(agent)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            def sent():
                try:
                    return s.sendto(b'a.b:1|c', f'{folder}/statsd.sock')
                except OSError:
                    return 0
            wait_until(sent, 'StatsD', agent)
        wait_until(lambda: collector.find('a_total'), 'StatsD again', collector, agent)


@case
def a_target_with_broken_settings_is_down():
    server = Server(say(b'a_total 5\n'))
    settings = f'{workdir()}/client.yml'
    option = f'{server.url},job=broken,interval=50ms,timeout=60s,config={settings}'

    def write(text):
        with open(settings, 'w') as f:
            f.write(text)
    write('nonsense: 1\n')
    p = Part(sys.argv[1], 'agent', '--socket', f'{workdir()}/s', '--no-rest', '--scrape', option)
    check(p.wait() == 2 and 'nonsense' in '\n'.join(p.err), p)
    write('follow_redirects: false\n')
    with Bridged('--scrape', option) as agent, Collector([agent], '--period', '20ms') as collector:
        def up():
            return list(collector.find('up', 'service="broken"', f'process="{worker(agent)}"').values())
        wait_until(lambda: up() == [1], up, collector, agent)
        write('nonsense: 1\n')
        lose(agent)
        wait_until(lambda: up() == [0], up, collector, agent)
        wait_until(lambda: count(collector, 'failures', cause='config', target=server.url) > 1, collector, agent)
        write('follow_redirects: false\n')
        wait_until(lambda: up() == [1], up, collector, agent)


@case
def sockets_of_a_killed_worker_are_waited_for():
    """Its child processes may keep them open for a moment after the next one starts."""
    folder = workdir()
    paths = f'{folder}/otlp.sock', f'{folder}/statsd.sock'
    held = []
    for path in paths:
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].bind(path)
        held[-1].listen()

    def give_up():
        held[1].accept()  # the first attempt
        time.sleep(0.3)
        for s in held:
            s.close()
    threading.Thread(target=give_up, daemon=True).start()
    with Bridged('--otlp', f'unix:{paths[0]}', '--statsd', f'unix-stream:{paths[1]}') as agent, Collector([agent], '--period', '20ms') as collector:
        def posted():
            try:
                return client.request_at(f'unix:{paths[0]}', 'POST', '/v1/metrics', b'{"resourceMetrics":[]}', {'Content-Type': 'application/json'})[0] == 200
            except OSError:
                return False
        wait_until(posted, 'OTLP', agent)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(paths[1])
            s.sendall(b'late:1|c\n')
            wait_until(lambda: collector.find('late_total'), 'StatsD', collector, agent)


@case
def wrong_options_are_usage_errors():
    for words, why in ((('--scrape', 'ftp://x/'), 'not an http or https URL'),
                       (('--scrape', 'http://x/,interval=0'), "not 'interval=0'"),
                       (('--scrape', 'http://x/,what=1'), "not 'what=1'"),
                       (('--statsd', '0.0.0.0:8125'), 'only this host may send'),
                       (('--statsd', 'nonsense'), 'expected an address'),
                       (('--statsd', 'tcp:0.0.0.0:8125'), 'only this host may send'),
                       (('--statsd', 'unix-stream:'), 'expected an address'),
                       (('--statsd-dialect', 'x', '--host'), "not 'x'"),
                       (('--statsd-mapping', '/nowhere', '--host'), '/nowhere'),
                       (('--otlp', '0.0.0.0:4318'), 'only this host may send'),
                       (('--scrape', 'http://x/') * 100, 'more than')):
        p = Part(sys.argv[1], 'agent', '--socket', f'{workdir()}/s', '--no-rest', *words)
        code = p.wait()
        check(code == 2 and why in '\n'.join(p.err), words[:2], code, p)


run_cases(only=sys.argv[2:])
