#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_span.py SIDELIGHT PYTHON PACKAGES native|pure - spans of two services in one trace, as a collector reads them; without
the extension the trace that came in goes on."""
import json
import os
import sys

from packages import installed
from support.process import check, wait_until
from support.sidelight import Agent, Collector, Pod

PYTHON, PACKAGES, BACKEND = sys.argv[2:5]
HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ['GET /cart', 'call', 'fails', 'in a thread', 'inner', 'inner', 'load', 'wait', 'wait']


def ask(app, what):
    return json.loads(app.tell(what))


def trace_of(collector, header):
    """{name of a span: [span]} of a trace."""
    spans = {}
    for s in collector.api('traces/' + header.split('-')[1])['spans']:
        spans.setdefault(s['name'], []).append(s)
    return spans


def whole(app, collector):
    header = ask(app, 'request')

    def found():
        known = [t['trace_id'] for t in collector.api('traces?limit=1000')['traces']]
        return header.split('-')[1] in known and trace_of(collector, header)
    spans = wait_until(lambda: found() and sum(map(len, found().values())) == 2 * len(NAMES) and found(),
                       lambda: f'{found()}', collector, app)
    check(sorted(n for n, some in spans.items() for _ in some) == sorted(2 * NAMES), f'{spans.keys()}')
    root = next(s for s in spans['GET /cart'] if s['service'] == 'app')
    served = next(s for s in spans['GET /cart'] if s['service'] == 'db')
    call = next(s for s in spans['call'] if s['service'] == 'app')
    check(served['parent_id'] == call['span_id'] and call['parent_id'] == root['span_id'], f'{served} {call} {root}')
    check(root['kind'] == 'server' and call['kind'] == 'client', f'{root} {call}')
    given = root['attributes']
    check(given == {'items': 3, 'share': 0.5, 'first': True, 'user': 'ä' * 10, 'big': str(2**80)}, f'{given}')
    fails = next(s for s in spans['fails'] if s['service'] == 'app')
    check(fails['status'] == 'error' and fails['message'] == "KeyError: 'gone'", f'{fails}')
    for name in ('load', 'in a thread', 'wait', 'fails'):
        check(all(s['parent_id'] == {'app': root, 'db': served}[s['service']]['span_id'] for s in spans[name]), f'{spans[name]}')
    waits = {s['span_id'] for s in spans['wait']}
    check({s['parent_id'] for s in spans['inner']} == waits, 'coroutines inherit')
    header = ask(app, 'fork')
    spans = wait_until(lambda: header.split('-')[1] in [t['trace_id'] for t in collector.api('traces?limit=1000')['traces']] and
                       len(trace_of(collector, header)) == 2 and trace_of(collector, header), 'the trace across a fork', app)
    check(len(spans['forks']) == len(spans['child']) == 1, f'{spans}')
    check(spans['child'][0]['parent_id'] == spans['forks'][0]['span_id'], f'{spans}')


def main():
    agent = Agent()
    collector = Collector([agent], '--trace-budget', '1', '--period', '20ms')
    app = Pod(PYTHON, os.path.join(HERE, 'span_app.py'),
              env={**installed(PYTHON, PACKAGES, BACKEND), 'SIDELIGHT_SOCKET': agent.socket, 'SIDELIGHT_SERVICE': 'app'})
    given = ask(app, 'given')
    check(given.startswith('00-4bf92f3577b34da6a3ce929d0e0e4736-'), f'{given}')
    check(('00f067aa0ba902b7' in given) == (BACKEND == 'pure'), f'{given}')
    if BACKEND == 'native':
        whole(app, collector)
    else:
        check(ask(app, 'request') == '', 'there is no trace')
    check(app.close() == 0, 'an exit status', app)
    check(collector.stop() == 0 and agent.stop() == 0, 'an exit status', collector, agent)


main()
