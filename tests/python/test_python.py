#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_python.py SIDELIGHT PYTHON PACKAGES native|pure CASE - the package for Python, seen by a real agent and collector."""
import json
import os
import signal
import sys

from packages import installed
from support.process import check, wait_until
from support.sidelight import Agent, Collector, Pod

PYTHON, PACKAGES, BACKEND, CASE = sys.argv[2:6]
HERE = os.path.dirname(os.path.abspath(__file__))


def start(agent):
    return Pod(PYTHON, os.path.join(HERE, 'app.py'),
               env={**installed(PYTHON, PACKAGES, BACKEND), 'SIDELIGHT_SOCKET': agent.socket, 'SIDELIGHT_SERVICE': 'app'})


def ask(app, what):
    return json.loads(app.tell(what))


def await_total(collector, name, want, *parts):
    wait_until(lambda: collector.total(name, *parts) == want, lambda: f'{name} is {collector.total(name, *parts)}, not {want}',
               collector)


def each_kind_is_shown(agent, collector):
    app = start(agent)
    ask(app, 'count')
    await_total(collector, 'app_requests_total', 3000)
    await_total(collector, 'app_sizes_sum', 6000)
    await_total(collector, 'app_sizes_count', 3000)
    await_total(collector, 'app_seconds_count', 3000)
    await_total(collector, 'app_seconds_bucket', 2000, 'le="1"')
    await_total(collector, 'app_queue', 7)
    await_total(collector, 'app_state', 1, 'app_state="running"')
    await_total(collector, 'app_build_info', 1, 'version="1.2"')
    text = collector.get('/metrics')
    for line in ('# TYPE app_requests_total counter', '# HELP app_requests_total Two lines,\\nand a "quote".',
                 '# TYPE app_sizes summary', '# TYPE app_seconds histogram', '# TYPE app_queue gauge'):
        check(line in text.splitlines(), line)
    ask(app, 'remove')
    wait_until(lambda: not collector.find('app_requests_total', 'route="/2"'), 'what was removed goes', collector)
    check(app.close() == 0, 'an exit status', app)


def threads_and_coroutines_lose_nothing(agent, collector):
    app = start(agent)
    ask(app, 'threads')
    ask(app, 'asyncio')
    await_total(collector, 'app_requests_total', 10000)
    await_total(collector, 'app_seconds_count', 8000)
    check(app.close() == 0, 'an exit status', app)


def forked_children_count_by_themselves(agent, collector):
    """And are in the sum after they were killed."""
    app = start(agent)
    ask(app, 'count')
    pids = [ask(app, 'fork') for _ in range(3)]
    await_total(collector, 'app_requests_total', 3900)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    await_total(collector, 'app_requests_total', 3900)
    ask(app, 'count')
    await_total(collector, 'app_requests_total', 6900)
    app.kill()


def removed_metrics_come_back_changed(agent, collector):
    app = start(agent)
    ask(app, 'again')
    await_total(collector, 'app_again', 5)
    await_total(collector, 'app_after', 6)
    check(app.close() == 0, 'an exit status', app)


def daemons_keep_their_files(agent, collector):
    """A child that closed our descriptors publishes by itself, and its files that have the same numbers stay as they are."""
    app = start(agent)
    ask(app, 'count')
    check(ask(app, 'daemon') == [0, 0], 'the exit statuses of children', app)
    await_total(collector, 'app_requests_total', 3006)
    check(app.close() == 0, 'an exit status', app)


def further_regions_reach_a_late_agent(agent, collector):
    app = start(agent)
    check(ask(app, 'late') == 32, 'no PUBLISH', app)
    check(app.close() == 0, 'an exit status', app)


def offers_again_soon_after_eagain(agent, collector):
    app = start(agent)
    check(ask(app, 'soon') == 32, 'no PUBLISH', app)
    check(app.close() == 0, 'an exit status', app)


def counts_on_while_the_agent_is_away(agent, collector):
    app = start(agent)
    ask(app, 'count')
    await_total(collector, 'app_requests_total', 3000)
    agent.kill()
    ask(app, 'count')
    again = Agent(folder=agent.folder)
    await_total(collector, 'app_requests_total', 6000)
    check(ask(app, 'attached') is True, 'it is attached')
    check(app.close() == 0, 'an exit status', app)
    return again


def full_region_refuses_and_counts(agent, collector):
    app = start(agent)
    refused = ask(app, 'full')
    check(refused > 900, f'{refused} were refused')
    ask(app, 'count')
    await_total(collector, 'app_requests_total', 3000)
    check(app.close() == 0, 'an exit status', app)


def main():
    agent = Agent()
    collector = Collector([agent], '--sum-processes', '--period', '20ms')
    agent = globals()[CASE](agent, collector) or agent
    check(collector.stop() == 0 and agent.stop() == 0, 'an exit status', collector, agent)


main()
