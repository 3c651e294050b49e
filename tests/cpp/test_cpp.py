#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cpp.py SIDELIGHT APP CASE STOCK - an application that uses prometheus-cpp, with our headers and with its own: APP and
STOCK are the same source; STOCK is '' where prometheus-cpp is not installed."""
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


def stock(agent, exe=STOCK):
    if not STOCK:
        skip('prometheus-cpp (Debian package prometheus-cpp-dev) is not installed')
    return start(agent, exe=exe)


def differences(mine, wanted, prefix=''):
    """[(series, value wanted, value)] of two expositions, of the series with this beginning."""
    mine, wanted = ({k: v for k, v in of_application(text)[2].items() if k[0].startswith(prefix)} for text in (mine, wanted))
    return [(k, wanted.get(k), mine.get(k)) for k in wanted.keys() | mine.keys()
            if not (k in wanted and k in mine and math.isclose(mine[k], wanted[k], rel_tol=1e-12))]


def await_same(collector, wanted, prefix):
    """The collector shows the same series as prometheus-cpp, and no others of the application."""
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
            a.ask('more')
    check(app.ask('refused') == other.ask('refused'), lambda: f"{app.ask('refused')}, stock {other.ask('refused')}")
    wanted, shown = other.ask('show'), app.ask('show')
    check(of_application(shown)[:2] == of_application(wanted)[:2], f'{shown}, and not {wanted}')
    check(not differences(shown, wanted), lambda: differences(shown, wanted))
    n = await_same(collector, wanted, 'app_')
    for a in (app, other):
        check(a.ask('unregister') is True, 'Remove() of a family')
        check(a.ask('short') == 5, 'a registry begins at 0')
    wait_until(lambda: not collector.find('app_level'), 'what is no longer registered goes', collector)
    collector.await_total('app_short_total', 5)
    check(app.close() == 0 and other.close() == 0, 'an exit status', app, other)
    print(f'{n} samples are the same')


def publishes_what_a_collectable_lists(agent, collector):
    """A Collectable of the application's own is published from the time that an Exposer has it."""
    app = start(agent)
    await_same(collector, app.ask('custom'), 'custom_')
    app.ask('no_custom')
    wait_until(lambda: not any(k.startswith('custom') for k in collector.series()), 'it goes', collector)
    check(app.close() == 0, 'an exit status', app)


def copies_no_instrument(agent, collector):
    """A registry publishes its metrics itself, so they count once even if a Collectable lists them."""
    app = start(agent)
    app.ask('more')
    wanted = app.ask('show')
    check(app.ask('delegated') == wanted, 'values that count by themselves', app)
    await_same(collector, wanted, 'app_')
    app.ask('info')
    app.ask('delegated')
    app.ask('more')
    collector.await_total('app_plain_total', 6.5)
    check(len(collector.find('app_version_info')) == 1, lambda: collector.find('app_version_info'))
    check(app.close() == 0, 'an exit status', app)


def holds_no_lock_while_it_collects(agent, collector):
    """Collect() may wait for a lock of a thread that forks, or adds a metric."""
    app = start(agent)
    check(app.ask('held') is True, 'a deadlock', app)
    check(app.close() == 0, 'an exit status', app)


def publishes_despite_malformed_text(agent, collector):
    """Help is cut, and made UTF-8; a label with a NUL is no other series."""
    app = start(agent)
    app.ask('texts')
    wait_until(lambda: collector.find('app_long') and collector.find('app_latin'), 'both', collector)
    helps = of_application(collector.get('/metrics'))[1]
    check(helps['app_long'] == 'x' * 1022 and helps['app_latin'] == 'M?ll', helps)
    collector.await_total('app_routes_total', 1, 'route="nul"')
    check(app.ask('refusals') == 1, 'the label with a NUL')
    check(app.close() == 0, 'an exit status', app)


def has_what_later_versions_have(agent, collector):
    """Infos, and names of labels that depend on the type: prometheus-cpp 1.1 to 1.3."""
    app = start(agent)
    check('app_version_info{of="app",version="1.0"} 1' in app.ask('info'), 'what a registry shows')
    check(app.ask('reserved') == 6, 'labels that are reserved')
    wait_until(lambda: collector.find('app_version_info', 'version="1.0"', 'of="app"'), 'the info', collector)
    check(collector.total('app_version_info') == 1, 'the one that was removed')
    check(app.close() == 0, 'an exit status', app)


def samples_need_no_change(agent, collector):
    """A service as prometheus-cpp's own samples are compiles unchanged, and is shown to its end and after it."""
    server = f'{os.path.dirname(APP)}/cpp_server'
    app = start(agent, '1001', exe=server)
    wait_until(lambda: app.out == ['done'], 'the service', app)
    collector.await_total('observed_packets_total', 251, 'protocol="tcp"', 'direction="rx"')
    collector.await_total('observed_packets_total', 250, 'protocol="tcp"', 'direction="tx"')
    collector.await_total('observed_packets_total', 500, 'protocol="udp"')
    check(app.close() == 0, 'an exit status', app)
    collector.await_total('http_requests_total', 1001)
    if not STOCK:
        skip('prometheus-cpp (Debian package prometheus-cpp-dev) is not installed')
    other = stock(agent, exe=f'{os.path.dirname(APP)}/cpp_server_stock')
    wait_until(lambda: other.out == ['done'], 'the service', other)
    check(other.close() == 0, 'an exit status', other)


def threads_lose_nothing(agent, collector):
    app = start(agent)
    check(app.ask('threads') == 200000, 'Value()')
    collector.await_total('app_routes_total', 200000)
    collector.await_total('app_plain_total', 100000)
    collector.await_total('app_took_seconds_bucket', 100000, 'le="1"')
    collector.await_total('app_took_seconds_sum', 250000)
    collector.await_total('app_ages_count', 200000)
    check(app.close() == 0, 'an exit status', app)


def forks_beside_new_metrics_end(agent, collector):
    app = start(agent)
    check(app.ask('race') == 200, 'children')
    check(app.close() == 0, 'an exit status', app)


def forked_children_count_by_themselves(agent, collector):
    """They stay in the sum after they were killed. A sum has no quantiles; those of a single process are shown."""
    app = start(agent)
    app.ask('more')
    pids = [app.ask('fork')]
    collector.await_total('app_ages', 3, 'of="child"')
    pids += [app.ask('fork') for _ in range(2)]
    collector.await_total('app_plain_total', 3.25 + 301.5)
    wait_until(lambda: math.isnan(collector.total('app_ages', 'of="child"')), 'no quantiles', collector)
    collector.await_total('app_ages_count', 3, 'of="child"')
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    collector.await_total('sidelight_agent_dead_total', 6)  # two regions each
    collector.await_total('app_plain_total', 3.25 + 301.5)
    collector.await_total('app_ages_count', 3, 'of="child"')
    app.ask('more')
    collector.await_total('app_plain_total', 6.5 + 301.5)
    app.kill()


def counts_on_while_the_agent_is_away(agent, collector):
    app = start(agent)
    app.ask('more')
    collector.await_total('app_plain_total', 3.25)
    agent.kill()
    app.ask('more')
    again = Agent(folder=agent.folder)
    collector.await_total('app_plain_total', 6.5)
    check(app.ask('attached') is True, 'it is attached')
    check(app.close() == 0, 'an exit status', app)
    return again


def goes_on_when_its_region_is_full(agent, collector):
    """When the memory is full, more is added. If it is fixed, new metrics are refused, and count only within the process."""
    app = start(agent)
    check(app.ask('full') == 1 and app.ask('refusals') == 0, 'some were refused')
    wait_until(lambda: len(collector.find('app_routes_total')) == 2000, 'all are shown', collector)
    check(app.close() == 0, 'an exit status', app)
    app = start(agent, 'fixed', service='fixed')
    app.ask('more')
    check(app.ask('full') == 1, 'Value() of what is not published')
    refused = app.ask('refusals')
    check(refused > 1500, f'{refused} were refused')
    check(len(of_application(app.ask('show'))[2]) > 2000, 'the registry lost some')
    app.ask('more')
    collector.await_total('app_plain_total', 6.5, 'service="fixed"')
    check(app.close() == 0, 'an exit status', app)
    print(f'{refused} were refused')


def forged_labels_are_told_apart(agent, collector):
    """Labels by which a collector tells processes apart are renamed where a service sets them itself."""
    app = start(agent)
    app.ask('forge')
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
