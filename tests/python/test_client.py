#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_client.py SIDELIGHT PYTHON PACKAGES native|pure CASE - a service with Debian's prometheus_client, which publishes
because $SIDELIGHT is 1, beside the same service without."""
import json
import math
import os
import signal
import sys
import time

from packages import installed
from support.exposition import sample
from support.process import check, run, skip, wait_until
from support.sidelight import Agent, Collector, Pod

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'conformance'))
from reader import Fault, Reader  # noqa: E402

PYTHON, PACKAGES, BACKEND, CASE = sys.argv[2:6]
HERE = os.path.dirname(os.path.abspath(__file__))
IDENTITY = {'service', 'pod', 'process', 'namespace', 'container', 'host', 'unit', 'uid'}
CHANGING = ('process_', 'python_', 'app_time_seconds_')  # by themselves


def start(agent, publish=True, script='client_app.py', before=(), **env):
    env = {**installed(PYTHON, PACKAGES, BACKEND), 'SIDELIGHT_SOCKET': agent.socket, 'SIDELIGHT_SERVICE': 'app',
           'SIDELIGHT_COLLECT_SECONDS': '0.2', 'SIDELIGHT': '1' if publish else '0', **env}
    return Pod(*before, PYTHON, os.path.join(HERE, script), env=env)


def ask(app, what):
    return json.loads(app.tell(what))


def parse(body):
    """({name: type}, {name: help}, {(sample, labels): value}) without identities and _created."""
    types, helps, samples = {}, {}, {}
    for line in body.splitlines():
        if line.startswith('# ') and line != '# EOF':
            _, what, name, rest = line.split(' ', 3)
            if what != 'UNIT' and not name.endswith('_created'):
                (types if what == 'TYPE' else helps)[name] = rest
        elif line and line[0] != '#':
            name, labels, value, _ = sample(line.split(' # ')[0])
            labels = {k: v for k, v in labels if k not in IDENTITY}
            if 'le' in labels:
                labels['le'] = float(labels['le'])
            if not name.endswith('_created'):
                samples[name, tuple(sorted(labels.items()))] = value
    return types, helps, samples


def shows_what_stock_shows(agent, collector):
    """Names, types, help, labels and values, in both formats; what the client throws, and what it shows itself."""
    app, stock = start(agent), start(agent, publish=False)
    for a in (app, stock):
        for _ in range(3):
            ask(a, 'more')
    check(ask(app, 'refused') == ask(stock, 'refused'), lambda: f"{ask(app, 'refused')}, stock {ask(stock, 'refused')}")
    check('sidelight' in ' '.join(ask(app, 'threads that run')), 'it is not patched')
    for form, accept in (('show', 'text/plain'), ('openmetrics', 'application/openmetrics-text')):
        mine, theirs = parse(ask(app, form)), parse(ask(stock, form))
        still = [{k: v for k, v in p[2].items() if not k[0].startswith(CHANGING)} for p in (mine, theirs)]
        check(mine[:2] == theirs[:2] and still[0] == still[1], lambda: f'{form}: {still}')
        check(mine[2].keys() == theirs[2].keys(), f'{form}: other series')

        def shown():
            return parse(run('curl', '-s', '-H', f'Accept: {accept}', collector.url + '/metrics').stdout)

        def differ():
            has = shown()[2]
            return [(k, v, has.get(k)) for k, v in theirs[2].items() if k[0] != 'app_forged' and
                    not (k in has if k[0].startswith(CHANGING) else math.isclose(has.get(k, math.nan), v, rel_tol=1e-12))]
        wait_until(lambda: not differ(), differ, collector, app)
        types, helps, samples = shown()
        for name in theirs[0]:
            check(types.get(name) == theirs[0][name], f'{form} {name} is {types.get(name)}, not {theirs[0][name]}')
            check(helps.get(name) == theirs[1][name], f'{form} {name}: {helps.get(name)}, not {theirs[1][name]}')
        check(sum(k[0] == 'app_gone' for k in samples) == 2, [k for k in samples if k[0] == 'app_gone'])
        check(sum(k[0] == 'app_build_info' for k in samples) == 1, 'an info that was replaced is there')
        check(samples['app_other_total', ()] == 27, 'a registry of its own')
    said = collector.find('app_forged')
    check(len(said) == 1 and all(p in str(said) for p in ('exported_host="elsewhere"', 'exported_process="1"')), f'{said}')
    check('service="app"' in str(said) and 'service="bank"' in str(said), f'{said}')
    check(app.close() == 0 and stock.close() == 0, 'an exit status', app, stock)
    print(f'{len(theirs[2])} samples')


def read_quiet(path):
    """Reads the region while nothing changes in it. The client's thread may add a series meanwhile; then the region is read
    again."""
    for again in reversed(range(10)):
        reader = Reader(os.open(path, os.O_RDONLY))
        try:
            reader.quiet()
            return reader
        except Fault:
            if not again:
                raise
            time.sleep(.2)


def modes_and_exemplars(agent, collector):
    """In the memory itself: how gauges are combined, exemplars, and since when a metric counts."""
    sums = {'all': 5, 'min': 2, 'max': 3, 'sum': 1}
    begun = time.time_ns()
    app = start(agent)
    for _ in range(2):
        ask(app, 'more')
    ask(app, 'refused')
    flags, exemplars = {}, {}
    for fd in os.listdir(f'/proc/{app.pid}/fd'):
        if 'memfd:sidelight' in os.readlink(f'/proc/{app.pid}/fd/{fd}'):
            reader = read_quiet(f'/proc/{app.pid}/fd/{fd}')
            of = {r['id']: r for r in reader.records}
            flags.update({r['name']: r['flags'] & 15 for r in reader.records})
            exemplars.update({(of[i]['name'], cell): (dict(labels), value) for i, cell, labels, value in reader.exemplars()})
            check(all(begun <= t <= time.time_ns() for t in reader.created.values() if t), f'{reader.created}')
    for mode in ('all', 'min', 'max', 'sum'):
        check(flags[f'mode_{mode}'] == sums[mode] and flags[f'mode_live{mode}'] == 8 + sums[mode], f'{mode}: {flags}')
    check(exemplars == {('app_plain_total', 0): ({'trace_id': '4bf92f3577b34da6a3ce929d0e0e4736'}, 1.5),
                        ('app_time_seconds', 6): ({'trace_id': 'abc'}, 7)}, f'{exemplars}')
    check(app.close() == 0, 'an exit status', app)


def what_ends_goes(agent, collector):
    """Two metrics with one name share a series, but each keeps its own value; unregistered metrics disappear."""
    app = start(agent)
    ask(app, 'more')
    check(ask(app, 'twin') == [100, 4.5], 'their own values')
    wait_until(lambda: collector.total('app_plain_total') == 104.5, 'the sum', collector, app)
    ask(app, 'unregister')
    wait_until(lambda: not any(map(collector.find, ('app_plain_total', 'app_ages_count', 'app_gone'))), 'their end', collector)
    ask(app, 'register')
    wait_until(lambda: collector.total('app_plain_total') == 4.5, 'it is back', collector, app)
    check(app.close() == 0, 'an exit status', app)


def accepts_what_stock_accepts(agent, collector):
    """A NaN, more states than a region has, and metrics that are registered again count for the client as before."""
    app, stock = start(agent), start(agent, publish=False)
    for what in ('more', 'unusual', 'register again'):
        mine, theirs = ask(app, what), ask(stock, what)
        check(mine == theirs, f'{what}: {mine}, stock {theirs}', app)
    for name, value in (('app_not_number_total', 5), ('app_sizes_count', 1), ('app_ages_count', 1)):
        wait_until(lambda: collector.total(name) == value, lambda: f'{name} {collector.total(name)}', collector, app)
    check(app.close() == 0 and stock.close() == 0, 'an exit status', app, stock)


def collectors_may_change(agent, collector):
    """A family that changes its buckets, or cannot be published, keeps no other family from being published."""
    app = start(agent)
    for turn in (1, 2):
        ask(app, 'change')
        wait_until(lambda: collector.total('changing_turn') == turn, lambda: collector.find('changing_turn'), collector, app)
    wait_until(lambda: collector.total('changing_sizes_bucket', 'le="2"') == 1, lambda: collector.find('changing_sizes_bucket'),
               collector, app)
    wait_until(lambda: not collector.find('changing_sizes_bucket', 'le="1"'), 'the buckets before go', collector)
    check(app.close() == 0, 'an exit status', app)


def later_versions(agent, collector):
    """Changes that methods of later versions of the client make to its values and children are published. So are
    observations of infinity and NaN."""
    apps = [start(agent, publish=p, script='newer_app.py') for p in (True, False)]
    for app in apps:
        ask(app, 'count')
    wait_until(lambda: collector.total('newer_removed_total') == 15, 'the first', collector, apps[0])
    for change in ('remove', 'exchange', 'reset', 'begin anew', 'nan'):
        said = [ask(app, change) for app in apps]
        mine, theirs = ([(k, v) for k, v in parse(text)[2].items() if not k[0].endswith('_created')] for text in said)
        check(repr(mine) == repr(theirs), f'{change}: {mine}, not {theirs}')

        def differ():
            has = {k: v for k, v in parse(collector.get('/metrics'))[2].items() if k[0].startswith('newer_')}
            want = {k: v for k, v in mine if not math.isnan(v)}
            return [(k, want.get(k), has.get(k)) for k in want.keys() | has.keys()
                    if has.get(k) != want.get(k) and not (k in has and k in dict(mine) and k not in want)]
        wait_until(lambda: not differ(), lambda: f'{change}: {differ()}', collector, apps[0])
    check([app.close() for app in apps] == [0, 0], 'an exit status', *apps)


def otel(agent, collector):
    """What OpenTelemetry's SDK hands to the exporter, in memory: scopes, lists and keys that become one are told apart."""
    app = start(agent, publish=False, script='otel_app.py')
    for n in (1, 3):
        check(app.ask(n) is True, 'an export')
        want = {('shop_requests_total', ('http_route="/a"', 'otel_scope_name="shop"', 'otel_scope_version="1.0"')): n,
                ('shop_requests_total', ('http_route="/b;/c"',)): 2 * n, ('shop_requests_total', ('otel_scope_name="other"',)): 5 * n,
                ('shop_queue', ('kinds="[\\"x\\", \\"y\\"]"',)): -n, ('shop_load', ()): n / 4 if n < 3 else 0,
                ('shop_seconds_count', ()): 3 * n, ('shop_seconds_sum', ()): 6.5 * n, ('shop_seconds_bucket', ('le="1"',)): n}

        def has():
            return {k: collector.total(k[0], *k[1]) for k in want}
        wait_until(lambda: has() == want, has, collector, app)
    check(not collector.find('shop_load'), 'what is not measured any more')
    check(app.logged().count('not published') == 2 and not collector.find('shop_delta_total'), app.logged)
    check(app.close() == 0, 'an exit status', app)


def unknown(agent, collector):
    """A client that lacks what we rely on works as without Sidelight, and one line says so."""
    apps = [start(agent, publish=False, script='other_app.py', PUBLISH=p) for p in ('1', '')]
    said = [ask(app, 'count') for app in apps]
    check(said[0] == said[1] and 'other_total 3.0' in said[0], said)
    check(apps[0].logged().count('not supported by sidelight') == 1, 'no line', apps[0])
    check([app.close() for app in apps] == [0, 0], 'an exit status', *apps)
    check(not collector.find('other_total'), 'a series of it')


def loses_nothing(agent, collector):
    """Nor do those that are killed."""
    app = start(agent)
    ask(app, 'more')
    ask(app, 'threads')
    ask(app, 'asyncio')
    pids = [ask(app, 'fork') for _ in range(3)]
    routes, sizes = 4 + 8000 + 2000 + 3000, 1 + 8000 + 3000

    def counted():
        return collector.total('app_routes_total'), collector.total('app_sizes_count')
    wait_until(lambda: counted() == (routes, sizes), counted, collector, app)
    wait_until(lambda: collector.total('mode_livesum') == 11, 'the sum of a gauge', collector)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: collector.total('mode_livesum') == 5, 'the sum of those that live', collector)
    check(counted() == (routes, sizes), f'later: {counted()}')
    ask(app, 'threads')
    wait_until(lambda: counted() == (routes + 8000, sizes + 8000), counted, collector, app)
    app.kill()


def agent_comes_back(agent, collector):
    app = start(agent)
    ask(app, 'more')
    wait_until(lambda: collector.total('app_plain_total') == 4.5, 'the first', collector, app)
    agent.kill()
    ask(app, 'more')
    again = Agent(folder=agent.folder)
    wait_until(lambda: collector.total('app_plain_total') == 9, 'both', collector, app, again)
    wait_until(lambda: ask(app, 'attached') is True, 'it is attached', app)
    check(app.close() == 0, 'an exit status', app)
    return again


def full_region(agent, collector):
    """Refused metrics still count for the client, and existing ones continue to count."""
    app = start(agent, script='full_app.py')
    refused = ask(app, 'full')
    check(refused > 1000, f'{refused} were refused')
    ask(app, 'more')
    check(sum(k[0] == 'app_routes_total' for k in parse(ask(app, 'show'))[2]) == 2002, 'the client lost some')
    wait_until(lambda: collector.total('app_plain_total') == 4.5, 'it goes on', collector, app)
    check(app.close() == 0, 'an exit status', app)
    print(f'{refused} were refused')


def unopened(agent, collector):
    """Where no publisher can be opened, the client works as without us."""
    for limit, env in (('--fsize=100000', {}), ('--fsize=unlimited', {'SIDELIGHT_SOCKET': '/' + 'x' * 200}),
                       ('--fsize=unlimited', {'SIDELIGHT_SERVICE': 'x' * 5000})):
        app = start(agent, before=('prlimit', limit), **env)
        ask(app, 'more')
        check(parse(ask(app, 'show'))[2]['app_plain_total', ()] == 4.5, 'the client does not count', app)
        check(app.close() == 0 and 'Traceback' not in app.logged(), 'an error', app)


def main():
    if run(PYTHON, '-c', 'import prometheus_client', code=None).returncode:
        skip('no python3-prometheus-client')
    agent = Agent()
    sums = ('--sum-processes',) if CASE == 'loses_nothing' else ()
    collector = Collector([agent], *sums, '--period', '20ms')
    agent = globals()[CASE](agent, collector) or agent
    check(collector.stop() == 0 and agent.stop() == 0, 'an exit status', collector, agent)


main()
