#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_app.py SIDELIGHT NODE PACKAGES CASE - an application that uses prom-client, with and without us."""
import json
import math
import os
import shutil
import sys

from support.exposition import of_application
from support.process import check, skip, wait_until, workdir
from support.sidelight import Agent, Collector, Pod

NODE, PACKAGES, CASE = sys.argv[2:5]
HERE = os.path.dirname(os.path.abspath(__file__))
DEFAULTS = ('process_', 'nodejs_')  # which change by themselves


def node(agent, script, *options, publish=True, env=None, folder=HERE):
    return Pod(NODE, *(('-r', 'sidelight/prom-client') if publish else ()), *options, os.path.join(folder, script),
               env={'NODE_PATH': PACKAGES, 'SIDELIGHT_SOCKET': agent.socket, 'SIDELIGHT_SERVICE': 'app',
                    'SIDELIGHT_COLLECT_SECONDS': '0.2', **(env or {})})


def ask(app, what):
    return json.loads(app.tell(what))


def with_client(client):
    """A folder of applications whose prom-client is that of this folder."""
    folder = workdir()
    for script in ('app.js', 'counts.js', 'exemplars.js'):
        shutil.copy(os.path.join(HERE, script), folder)
    os.mkdir(os.path.join(folder, 'node_modules'))
    os.symlink(os.path.join(HERE, client), os.path.join(folder, 'node_modules', 'prom-client'))
    return folder


def installed(client):
    folder = os.path.join('node_modules', client)
    if not os.path.isdir(os.path.join(HERE, folder)):
        skip(f'no {client}: scripts/setup test installs it')
    return folder


def same_as_stock(agent, collector, folder=HERE):
    """Names, types, help, labels and values are those that prom-client itself shows, and its errors are the same."""
    app, stock = (node(agent, 'app.js', publish=p, folder=folder) for p in (True, False))
    for a in (app, stock):
        for _ in range(3):
            ask(a, 'more')
        ask(a, 'reset')
        ask(a, 'more')
    check(ask(app, 'refused') == ask(stock, 'refused'), lambda: f"{ask(app, 'refused')}, stock {ask(stock, 'refused')}")
    shown = {k: ask(app, k) for k in ('show', 'aggregated')}
    for k, text in shown.items():
        mine, theirs = of_application(text), of_application(ask(stock, k))
        still = [{k: v for k, v in p[2].items() if not k[0].startswith(DEFAULTS)} for p in (mine, theirs)]
        check(mine[:2] == theirs[:2] and still[0] == still[1], f'{k}: {still}')
    types, helps, samples = of_application(shown['show'])

    def differ():
        mine = of_application(collector.get('/metrics'))[2]
        return [(k, v, mine.get(k)) for k, v in samples.items()
                if not (k in mine if k[0].startswith(DEFAULTS) else math.isclose(mine.get(k, math.nan), v, rel_tol=1e-12))
                and not k[0].startswith(('nodejs_gc_', 'process_'))]
    wait_until(lambda: not differ(), differ, collector)
    t, h, s = of_application(collector.get('/metrics'))
    for name, kind in types.items():
        if not any(k[0] in (name, name + '_count') for k in samples) or (name not in t and name.startswith('nodejs_gc')):
            continue  # prom-client shows the type even of a metric without a value
        check(t.get(name) == kind, f'{name} is {t.get(name)}, not {kind}')
        check(h.get(name) == helps[name], f'{name}: {h.get(name)}, not {helps[name]}')
    check('SidelightWarning' not in app.logged(), 'a warning', app)
    changing = [k for k in samples if k[0].startswith(DEFAULTS)]
    check(s['app_other_total', ()] == 36, 'a registry of its own')  # where prom-client shows no default labels
    check(sum(k[0] == 'app_gone' for k in s) == 1, [k for k in s if k[0] == 'app_gone'])
    check(sum(k[0] == 'app_routes_total' for k in s) == 4, [k for k in s if k[0] == 'app_routes_total'])
    ask(app, 'unregister')
    wait_until(lambda: not collector.find('app_queue'), 'what is no longer registered goes', collector)
    check(app.close() == 0 and stock.close() == 0, 'an exit status', app, stock)
    print(f'{len(samples) - len(changing)} samples are the same; {len(changing)} change by themselves')


def agent_comes_back(agent, collector):
    """Counts made while the agent is away appear when it is back."""
    app = node(agent, 'app.js')
    ask(app, 'more')
    wait_until(lambda: collector.total('app_plain_total') == 2.5, 'the first', collector, app)
    agent.kill()
    ask(app, 'more')
    again = Agent(folder=agent.folder)
    wait_until(lambda: collector.total('app_plain_total') == 5, 'both', collector, app, again)
    check(ask(app, 'attached') is True, 'it is attached')
    check(app.close() == 0, 'an exit status', app)
    return again


def full(agent, collector):
    """When the memory is full, more is added. If it is fixed, new metrics are refused and counted."""
    app = node(agent, 'app.js')
    ask(app, 'more')
    check(ask(app, 'full') == 0, 'some were refused')
    wait_until(lambda: len(collector.find('app_routes_total')) == 100004, 'all are shown', collector, app)
    check(app.close() == 0, 'an exit status', app)
    app = node(agent, 'app.js', env={'APP_CELLS': '1000', 'SIDELIGHT_SERVICE': 'fixed'})
    ask(app, 'more')
    refused = ask(app, 'full')
    check(refused > 98000, f'{refused} were refused')
    ask(app, 'more')
    check(len(of_application(ask(app, 'show'))[2]) > 100000, 'prom-client lost some')
    wait_until(lambda: collector.total('app_plain_total', 'service="fixed"') == 5, 'it goes on', collector, app)
    check(app.close() == 0, 'an exit status', app)
    print(f'{refused} were refused')


def twin(agent, collector):
    """A series of two registries is their sum, and goes on when one of them ends it."""
    app = node(agent, 'app.js')
    ask(app, 'twin')
    wait_until(lambda: collector.total('app_twin_total') == 9, lambda: collector.find('app_twin_total'), collector, app)
    check(app.close() == 0, 'an exit status', app)


def odd(agent, collector):
    """Help is truncated, the bound of infinity is added by itself, and labels that contain a NUL do not make another series."""
    app = node(agent, 'app.js')
    check(ask(app, 'odd') == 1, 'the label with a NUL')
    wait_until(lambda: (collector.total('app_long_bucket', 'le="1"'), collector.total('app_long_count')) == (0, 1),
               lambda: collector.find('app_long_bucket'), collector, app)
    check(of_application(collector.get('/metrics'))[1]['app_long'] == 'x' * 1022, 'the help')
    wait_until(lambda: collector.total('app_nul_total') == 1, lambda: collector.find('app_nul_total'), collector, app)
    check(app.close() == 0, 'an exit status', app)


def unopened(agent, collector):
    """Where no publisher can be opened, prom-client works as without us, with one warning."""
    app = node(agent, 'app.js', env={'SIDELIGHT_SOCKET': '/' + 'x' * 200})
    ask(app, 'more')
    check(of_application(ask(app, 'show'))[2]['app_plain_total', (('zone', 'a'),)] == 2.5, 'prom-client does not count', app)
    check(app.logged().count('metrics are not published') == 1, 'no warning', app)
    check(app.close() == 0, 'an exit status', app)


def oldest(agent, collector):
    """The first version of the shape that is known."""
    same_as_stock(agent, collector, with_client(installed('prom-client-15.0.0')))


def stored(agent, collector):
    """Its main branch, by a stand-in."""
    same_as_stock(agent, collector, with_client('stored'))


def left_alone(agent, collector):
    """A prom-client of another shape, older or to come, works as without us: with one warning, and nothing is published."""
    for client in (installed('prom-client-1.0.0'), installed('prom-client-14.2.0'), 'other'):
        folder = with_client(client)
        apps = [node(agent, 'counts.js', publish=p, folder=folder) for p in (False, True)]
        for app in apps:
            wait_until(lambda: any(line.startswith('"') for line in app.out), 'what it shows', app)
        shown = [json.loads(next(line for line in app.out if line.startswith('"'))) for app in apps]
        check('counts_requests_total 7' in shown[0] and shown[0] == shown[1], shown)
        check([app.close() for app in apps] == [0, 0], 'an exit status', *apps)
        warnings = apps[1].logged().count('SidelightWarning')
        check(warnings == 1 and 'is not published' in apps[1].logged(), f'{client}: {warnings} warnings', apps[1])
        check('SidelightWarning' not in apps[0].logged(), client)
    check(not collector.find('counts_requests_total'), 'a series of it')


def exemplars(agent, collector):
    """If prom-client counts before it refuses an exemplar, the count is published, too."""
    for service, folder in (('hashed', HERE), ('stored', with_client('stored'))):
        app = node(agent, 'exemplars.js', folder=folder, env={'SIDELIGHT_SERVICE': service})
        wait_until(lambda: app.out, 'what it counted', app)
        counted, observed, refused = json.loads(app.out[0])
        check(counted == 6 and observed == 3 and refused >= 1, app.out)
        of = f'service="{service}"'
        wait_until(lambda: (collector.total('exemplars_asked_total', of), collector.total('exemplars_took_count', of)) == (counted, observed),
                   lambda: collector.find('exemplars_asked_total') | collector.find('exemplars_took_count'), collector, app)
        check(app.close() == 0, 'an exit status', app)


def imported(agent, collector):
    """A prom-client loaded by an import statement is patched as well."""
    app = node(agent, 'module.mjs')
    wait_until(lambda: collector.total('module_total') == 3, 'the metric', collector, app)
    check(app.close() == 0, 'an exit status', app)


def threads(agent, collector):
    """Worker threads count into one metric, exactly, and end while others go on."""
    app = node(agent, 'threads.js', publish=False)
    wait_until(lambda: app.out == ['done'], 'the threads', app)
    wait_until(lambda: collector.total('threads_total') == 400000, lambda: f"{collector.total('threads_total')}", collector)
    check(app.close() == 0, 'an exit status', app)


def worker(agent, collector):
    """The only thread that loaded the addon ends, and the process goes on."""
    app = node(agent, 'worker.js', publish=False)
    wait_until(lambda: app.out, 'the end of the worker', app)
    check(app.out == ['done'], app.out, app)
    wait_until(lambda: collector.total('worker_total') == 3, 'what it counted', collector, app)
    check(app.close() == 0, 'an exit status', app)


def main():
    if not os.path.isdir(os.path.join(HERE, 'node_modules', 'prom-client')):
        skip('no prom-client: scripts/setup test installs it')
    agent = Agent()
    collector = Collector([agent], '--period', '20ms')
    agent = globals()[CASE](agent, collector) or agent
    check(collector.stop() == 0 and agent.stop() == 0, 'an exit status', collector, agent)


main()
