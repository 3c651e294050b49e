#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cpp.py SIDELIGHT APP CASE STOCK - an application that uses prometheus-cpp, with our headers and with its own: APP and
STOCK are the same source; STOCK is '' where prometheus-cpp is not installed."""
import json
import math
import os
import signal
import sys

from support.exposition import of_application
from support.process import check, skip, wait_until
from support.sidelight import Agent, Collector, Pod

APP, CASE, STOCK = sys.argv[2:5]


def start(agent, *options, exe=APP, service='app'):
    return Pod(exe, *options, env={'SIDELIGHT_SOCKET': agent.socket, 'SIDELIGHT_SERVICE': service,
                                   'SIDELIGHT_COLLECT_SECONDS': '0.2'})


def ask(app, what):
    return json.loads(app.tell(what))


def stock(agent, exe=STOCK):
    if not STOCK:
        skip('prometheus-cpp (Debian package prometheus-cpp-dev) is not installed')
    return start(agent, exe=exe)


def await_total(collector, name, want, *parts):
    wait_until(lambda: collector.total(name, *parts) == want, lambda: f'{name} is {collector.total(name, *parts)}, not {want}',
               collector)


def differences(mine, wanted, prefix=''):
    """[(series, value wanted, value)] of two expositions, of the series with this beginning."""
    mine, wanted = ({k: v for k, v in of_application(text)[2].items() if k[0].startswith(prefix)} for text in (mine, wanted))
    return [(k, wanted.get(k), mine.get(k)) for k in wanted.keys() | mine.keys()
            if not (k in wanted and k in mine and math.isclose(mine[k], wanted[k], rel_tol=1e-12))]


def await_same(collector, wanted, prefix):
    """What prometheus-cpp shows comes out of the collector, and nothing else of the application."""
    types, helps, samples = of_application(wanted)
    wait_until(lambda: not differences(collector.get('/metrics'), wanted, prefix),
               lambda: differences(collector.get('/metrics'), wanted, prefix), collector)
    t, h, _ = of_application(collector.get('/metrics'))
    for name, kind in types.items():
        check(t.get(name) == kind, f'{name} is {t.get(name)}, not {kind}')
        check(h.get(name) == helps.get(name), f'{name}: {h.get(name)}, not {helps.get(name)}')
    return len(samples)


def same_as_stock(agent, collector):
    """Names, types, help, labels and values are those that prometheus-cpp itself shows, and its errors are the same."""
    app, other = start(agent), stock(agent)
    for a in (app, other):
        for _ in range(3):
            ask(a, 'more')
    check(ask(app, 'refused') == ask(other, 'refused'), lambda: f"{ask(app, 'refused')}, stock {ask(other, 'refused')}")
    wanted, shown = ask(other, 'show'), ask(app, 'show')
    check(of_application(shown)[:2] == of_application(wanted)[:2], f'{shown}, and not {wanted}')
    check(not differences(shown, wanted), lambda: differences(shown, wanted))
    n = await_same(collector, wanted, 'app_')
    for a in (app, other):
        check(ask(a, 'unregister') is True, 'Remove() of a family')
        check(ask(a, 'short') == 5, 'a registry begins at 0')
    wait_until(lambda: not collector.find('app_level'), 'what is no longer registered goes', collector)
    await_total(collector, 'app_short_total', 5)
    check(app.close() == 0 and other.close() == 0, 'an exit status', app, other)
    print(f'{n} samples are the same')


def publishes_what_a_collectable_lists(agent, collector):
    """A Collectable of the application's own is published from the time that an Exposer has it."""
    app = start(agent)
    await_same(collector, ask(app, 'custom'), 'custom_')
    ask(app, 'no_custom')
    wait_until(lambda: not any(k.startswith('custom') for k in collector.series()), 'it goes', collector)
    check(app.close() == 0, 'an exit status', app)


def samples_need_no_change(agent, collector):
    """A service as prometheus-cpp's own samples are compiles unchanged, and is shown to its end and after it."""
    server = f'{os.path.dirname(APP)}/cpp_server'
    app = start(agent, '1001', exe=server)
    wait_until(lambda: app.out == ['done'], 'the service', app)
    await_total(collector, 'observed_packets_total', 251, 'protocol="tcp"', 'direction="rx"')
    await_total(collector, 'observed_packets_total', 250, 'protocol="tcp"', 'direction="tx"')
    await_total(collector, 'observed_packets_total', 500, 'protocol="udp"')
    check(app.close() == 0, 'an exit status', app)
    await_total(collector, 'http_requests_total', 1001)
    if not STOCK:
        skip('prometheus-cpp (Debian package prometheus-cpp-dev) is not installed')
    other = stock(agent, exe=f'{os.path.dirname(APP)}/cpp_server_stock')
    wait_until(lambda: other.out == ['done'], 'the service', other)
    check(other.close() == 0, 'an exit status', other)


def threads_lose_nothing(agent, collector):
    app = start(agent)
    check(ask(app, 'threads') == 200000, 'Value()')
    await_total(collector, 'app_routes_total', 200000)
    await_total(collector, 'app_plain_total', 100000)
    await_total(collector, 'app_took_seconds_bucket', 100000, 'le="1"')
    await_total(collector, 'app_took_seconds_sum', 250000)
    await_total(collector, 'app_ages_count', 200000)
    check(app.close() == 0, 'an exit status', app)


def forked_children_count_by_themselves(agent, collector):
    """And are in the sum after they were killed. A sum has no quantiles, those of one process alone are shown."""
    app = start(agent)
    ask(app, 'more')
    pids = [ask(app, 'fork')]
    await_total(collector, 'app_ages', 3, 'of="child"')
    pids += [ask(app, 'fork') for _ in range(2)]
    await_total(collector, 'app_plain_total', 3.25 + 301.5)
    wait_until(lambda: math.isnan(collector.total('app_ages', 'of="child"')), 'no quantiles', collector)
    await_total(collector, 'app_ages_count', 3, 'of="child"')
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    await_total(collector, 'sidelight_agent_dead_total', 6)  # two regions each
    await_total(collector, 'app_plain_total', 3.25 + 301.5)
    await_total(collector, 'app_ages_count', 3, 'of="child"')
    ask(app, 'more')
    await_total(collector, 'app_plain_total', 6.5 + 301.5)
    app.kill()


def counts_on_while_the_agent_is_away(agent, collector):
    app = start(agent)
    ask(app, 'more')
    await_total(collector, 'app_plain_total', 3.25)
    agent.kill()
    ask(app, 'more')
    again = Agent(folder=agent.folder)
    await_total(collector, 'app_plain_total', 6.5)
    check(ask(app, 'attached') is True, 'it is attached')
    check(app.close() == 0, 'an exit status', app)
    return again


def goes_on_when_its_region_is_full(agent, collector):
    """Memory that is full is followed by more; where it is fixed, what is new is refused, and counts for itself alone."""
    app = start(agent)
    check(ask(app, 'full') == 1 and ask(app, 'refusals') == 0, 'some were refused')
    wait_until(lambda: len(collector.find('app_routes_total')) == 2000, 'all are shown', collector)
    check(app.close() == 0, 'an exit status', app)
    app = start(agent, 'fixed', service='fixed')
    ask(app, 'more')
    check(ask(app, 'full') == 1, 'Value() of what is not published')
    refused = ask(app, 'refusals')
    check(refused > 1500, f'{refused} were refused')
    check(len(of_application(ask(app, 'show'))[2]) > 2000, 'the registry lost some')
    ask(app, 'more')
    await_total(collector, 'app_plain_total', 6.5, 'service="fixed"')
    check(app.close() == 0, 'an exit status', app)
    print(f'{refused} were refused')


def forged_labels_are_told_apart(agent, collector):
    """Labels by which a collector tells processes apart are renamed where a service sets them itself."""
    app = start(agent)
    ask(app, 'forge')
    wait_until(lambda: collector.find('app_routes_total', 'exported_host="victim"'), collector.series, collector)
    check(not collector.find('app_routes_total', ',host="victim"') and not collector.find('app_routes_total', '{host="victim"'),
          collector.series)
    check(app.close() == 0, 'an exit status', app)


SUMS = (forked_children_count_by_themselves,)


def main():
    case = globals()[CASE]
    agent = Agent()
    collector = Collector([agent], '--period', '20ms', *(['--sum-processes'] if case in SUMS else []))
    agent = case(agent, collector) or agent
    check(collector.stop() == 0 and agent.stop() == 0, 'an exit status', collector, agent)


main()
