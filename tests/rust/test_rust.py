#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_rust.py SIDELIGHT APP CASE - the crate for Rust, seen by a real agent and collector."""
import os
import signal
import sys

from conformance.reader import Reader
from support.exposition import of_application
from support.process import check, wait_until
from support.sidelight import Agent, Collector, Pod

APP, CASE = sys.argv[2:4]


def start(agent, *options, service='app'):
    return Pod(APP, *options, env={'SIDELIGHT_SOCKET': agent.socket, 'SIDELIGHT_SERVICE': service})


def exemplars(app):
    """Returns the metrics in its memory, by name."""
    folder = f'/proc/{app.pid}/fd'
    fd = next(n for n in os.listdir(folder) if os.readlink(f'{folder}/{n}').startswith('/memfd:'))
    reader = Reader(os.open(f'{folder}/{fd}', os.O_RDONLY))
    reader.quiet()
    return {reader.records[i]['name']: (dict(labels), value) for i, _, labels, value in reader.exemplars()}


EXEMPLARS = {
    'app_plain_total': ({'trace_id': '0af7651916cd43dd8448eb211c80319c', 'span_id': 'b7ad6b7169203331'}, 1),
    'app_busy_seconds_total': ({'user': '7'}, 0.25),
    'app_took_seconds': ({'trace_id': '000000000000000000000000000000ab'}, 0.5),
}
SHOWN = {
    ('app_plain_total', ()): 9, ('app_busy_seconds_total', ()): 1.5, ('app_queue', ()): -2, ('app_level', ()): 1.5,
    ('app_latest', ()): 4, ('app_took_seconds_count', ()): 15, ('app_took_seconds_sum', ()): 39.1875,
    ('app_took_seconds_bucket', (('le', '0.125'),)): 6, ('app_took_seconds_bucket', (('le', '10'),)): 15,
    ('app_native_count', ()): 3, ('app_lengths_count', ()): 15, ('app_lengths_bucket', (('le', '2'),)): 9,
    ('app_state', (('app_state', 'up'),)): 1, ('app_state', (('app_state', 'down'),)): 0,
    ('app_ages_count', ()): 15, ('app_ages_sum', ()): 36, ('app_ages', (('quantile', '0.9'),)): 3, ('app_other', ()): 6.5,
    ('app_requests_total', (('code', '200'), ('route', '/a'))): 12, ('app_requests_total', (('route', 'ü"\\\n'),)): 3,
    ('app_build_info', (('version', '1.2 "ä"'),)): 1,
}


def each_kind_is_shown(agent, collector):
    app = start(agent)
    for _ in range(3):
        app.ask('more')
    check(app.ask('values') == [9, 1.5, -2, 1.5, 4, 15, 39.1875, 15, 36, 6.5], lambda: f"the handles say {app.ask('values')}")

    def differ():
        have = {(name, tuple(k for k in labels if k[0] != 'zone')): v
                for (name, labels), v in of_application(collector.get('/metrics'))[2].items()}
        return [(k, want, have.get(k)) for k, want in SHOWN.items() if have.get(k) != want]
    wait_until(lambda: not differ(), differ, collector)
    types, helps, samples = of_application(collector.get('/metrics'))
    check(all(('zone', 'a') in k[1] for k in samples if k[0].startswith('app_')), 'the label of the publisher')
    for name, kind in {'app_plain_total': 'counter', 'app_latest': 'gauge', 'app_native': 'histogram', 'app_ages': 'summary',
                       'app_other': 'untyped', 'app_state': 'gauge'}.items():
        check(types.get(name) == kind, f'{name} is {types.get(name)}, not {kind}')
    check(helps['app_requests_total'] == 'Two lines,\\nand a "quote".', helps)
    check(not any(k[0] in ('app_passing_total', 'app_old_info') or ('route', '/gone') in k[1] for k in samples), samples)
    check(app.ask('alarmed') is False, 'a verdict without a collector that analyses')
    app.ask('exemplars')
    check(exemplars(app) == EXEMPLARS, lambda: exemplars(app))
    check(app.ask('refused') == 7, lambda: f"{app.ask('refused')} were refused")
    check(app.close() == 0, 'an exit status', app)


def spans_reach_a_collector(agent, collector):
    app = start(agent)
    app.ask('spans')
    # The caller's trace has an error, and is kept.
    kept = wait_until(lambda: collector.api('traces')['traces'], 'a kept trace', collector)
    check(kept[0]['trace_id'] == '0af7651916cd43dd8448eb211c80319c', kept)
    wait_until(lambda: {s['name'] for s in collector.api(f"traces/{kept[0]['trace_id']}")['spans']} == {'GET /cart', 'ask'},
               lambda: collector.api(f"traces/{kept[0]['trace_id']}"), collector)
    check(app.close() == 0, 'an exit status', app)


def threads_lose_nothing(agent, collector):
    app = start(agent)
    check(app.ask('threads') == 200000, 'value()')
    collector.await_total('app_plain_total', 200000)
    collector.await_total('app_took_seconds_bucket', 100000, 'le="1"')
    collector.await_total('app_took_seconds_sum', 250000)
    collector.await_total('app_ages_count', 200000)
    check(app.close() == 0, 'an exit status', app)


def forked_children_count_by_themselves(agent, collector):
    app = start(agent)
    app.ask('more')
    pids = [app.ask('fork') for _ in range(3)]
    collector.await_total('app_plain_total', 303)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    app.ask('more')
    collector.await_total('app_plain_total', 306)
    app.kill()


def counts_on_while_the_agent_is_away(agent, collector):
    app = start(agent)
    app.ask('more')
    collector.await_total('app_plain_total', 3)
    agent.kill()
    app.ask('more')
    again = Agent(folder=agent.folder)
    collector.await_total('app_plain_total', 6)
    check(app.ask('attached') is True, 'it is attached')
    check(app.close() == 0, 'an exit status', app)
    return again


def goes_on_when_its_region_is_full(agent, collector):
    app = start(agent)
    check(app.ask('full') == 0, 'some were refused')
    wait_until(lambda: len(collector.find('app_requests_total')) == 2000, 'all are shown', collector)
    check(app.close() == 0, 'an exit status', app)
    app = start(agent, 'fixed', service='fixed')
    refused = app.ask('full')
    check(refused > 1500, f'{refused} were refused')
    check(app.ask('threads') == 200000, 'it goes on')
    collector.await_total('app_plain_total', 200000, 'service="fixed"')
    check(app.close() == 0, 'an exit status', app)
    print(f'{refused} were refused')


def forged_labels_are_told_apart(agent, collector):
    app = start(agent)
    app.ask('forge')
    wait_until(lambda: collector.find('app_requests_total', 'exported_host="victim"'), collector.series, collector)
    check(not collector.find('app_requests_total', ',host="victim"'), collector.series)
    check(app.close() == 0, 'an exit status', app)


def main():
    agent = Agent()
    collector = Collector([agent], '--period', '20ms', *(['--sum-processes'] if 'forked' in CASE else []))
    agent = globals()[CASE](agent, collector) or agent
    check(collector.stop() == 0 and agent.stop() == 0, 'an exit status', collector, agent)


main()
