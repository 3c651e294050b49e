#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_go.py SIDELIGHT APP CASE - the package for Go, seen by a real agent and collector."""
import json
import math
import os
import signal
import struct
import sys
import time

from support.exposition import of_application
from support.process import SCALE, check, skip, wait_until
from support.protocol import Consumer
from support.sidelight import Agent, Collector, Pod

VERDICT = 20
APP, CASE = sys.argv[2:4]
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../conformance'))
from reader import Reader  # noqa: E402


def start(agent):
    return Pod(APP, env={'SIDELIGHT_SOCKET': agent.socket, 'SIDELIGHT_SERVICE': 'app'})


def await_total(collector, name, want, *parts):
    wait_until(lambda: collector.total(name, *parts) == want, lambda: f'{name} is {collector.total(name, *parts)}, not {want}',
               collector)


def each_kind_is_shown(agent, collector):
    app = start(agent)
    app.tell('count')
    await_total(collector, 'app_requests_total', 3000)
    await_total(collector, 'app_bytes_total', 1500)
    await_total(collector, 'app_summary_sum', 6000)
    await_total(collector, 'app_summary_count', 3000)
    await_total(collector, 'app_seconds_count', 3000)
    await_total(collector, 'app_seconds_sum', 3000)
    await_total(collector, 'app_seconds_bucket', 2000, 'le="1"')
    await_total(collector, 'app_sizes_count', 3000)
    await_total(collector, 'app_sizes_sum', 300000)
    await_total(collector, 'app_queue', 7)
    await_total(collector, 'app_latest', app.pid)
    await_total(collector, 'app_state', 1, 'app_state="running"')
    await_total(collector, 'app_build_info', 1, 'version="1.2"')
    text = collector.get('/metrics').splitlines()
    for line in ('# TYPE app_requests_total counter', '# HELP app_requests_total Two lines,\\nand a "quote".',
                 '# TYPE app_summary summary', '# TYPE app_seconds histogram', '# TYPE app_sizes histogram',
                 '# TYPE app_queue gauge', '# HELP app_sizes Sizes.'):
        check(line in text, line)
    check(app.tell('remove') == 'true', 'there was none to remove')
    wait_until(lambda: not collector.find('app_requests_total', 'route="/2"'), 'what was removed goes', collector)
    check(app.close() == 0, 'an exit status', app)


def goroutines_lose_nothing(agent, collector):
    app, each = start(agent), int(30000 * SCALE)
    app.tell('goroutines', each)
    await_total(collector, 'app_requests_total', 4 * each)
    await_total(collector, 'app_bytes_total', 2 * each)
    await_total(collector, 'app_seconds_count', 4 * each)
    await_total(collector, 'app_sizes_count', 4 * each)
    await_total(collector, 'app_summary_sum', 8 * each)
    check(app.close() == 0, 'an exit status', app)


def region(app):
    """Reads the first region of the process."""
    folder = f'/proc/{app.pid}/fd'
    fd = next(fd for fd in sorted(os.listdir(folder), key=int) if 'memfd' in os.readlink(f'{folder}/{fd}'))
    return Reader(os.open(f'{folder}/{fd}', os.O_RDONLY))


def processes_of_a_service_are_combined(agent, collector):
    """Counters add up, and gauges say how they are combined."""
    first, second = start(agent), start(agent)
    for app in (second, first):
        app.tell('count')
    await_total(collector, 'app_requests_total', 6000)
    await_total(collector, 'app_queue', 14)
    reader = region(first)
    latest = reader.round()['app_latest', ()]
    check(latest[0] == first.pid and abs(latest[1] / 1e9 - time.time()) < 3600, latest)
    flags = {r['name']: (r['kind'], r['flags']) for r in reader.records}
    check((flags['app_queue'], flags['app_latest'], flags['app_requests_total']) == ((4, 1), (13, 4), (1, 0)), flags)
    check(first.close() == 0 and second.close() == 0, 'an exit status', first, second)


def restarts_and_kills_lose_nothing(agent, collector):
    """A process is killed, replaced by another image of itself, or restarted: no count is lost."""
    app = start(agent)
    app.tell('count')
    await_total(collector, 'app_requests_total', 3000)
    app.tell('exec')
    app.tell('count')
    await_total(collector, 'app_requests_total', 6000)
    app.tell('count')
    check(app.stop(signal.SIGKILL) == -signal.SIGKILL, 'it was killed', app)
    again = start(agent)
    again.tell('count')
    await_total(collector, 'app_requests_total', 12000)
    await_total(collector, 'app_sizes_count', 12000)
    check(again.close() == 0, 'an exit status', again)


def counts_on_while_the_agent_is_away(agent, collector):
    app = start(agent)
    app.tell('count')
    await_total(collector, 'app_requests_total', 3000)
    agent.kill()
    app.tell('count')
    again = Agent(folder=agent.folder)
    await_total(collector, 'app_requests_total', 6000)
    check(app.tell('attached') == 'true', 'it is attached')
    check(app.close() == 0, 'an exit status', app)
    return again


def full_regions_go_on_or_refuse(agent, collector):
    app = start(agent)
    refused = int(app.tell('full'))
    check(refused > 900, f'{refused} were refused')
    check(int(app.tell('more')) == 0, 'some of many were refused')
    app.tell('count')
    await_total(collector, 'app_requests_total', 3000)
    await_total(collector, 'app_more_total', 20000)
    await_total(collector, 'small_total', 1000 - refused)
    check(app.close() == 0, 'an exit status', app)


def labels_of_identity_are_the_agents(agent, collector):
    app = start(agent)
    app.tell('forge')
    found = wait_until(lambda: collector.find('forged_total'), 'the series', collector)
    series, = found
    check(f'process="{app.pid}"' in series and 'exported_process="1"' in series, series)
    check(app.close() == 0, 'an exit status', app)


def verdicts_reach_the_application(agent, collector):
    """Verdicts end when their time is over."""
    app = start(agent)
    wait_until(lambda: app.tell('attached') == 'true', 'it is attached', app)
    check(app.tell('alarmed') == 'false', 'alarmed without a verdict')
    consumer, instance = Consumer(agent.socket), region(app).header['instance']

    def judge(anomalous, seconds):
        consumer.send(VERDICT, struct.pack('<QQQqdQQ', instance, anomalous, int(seconds * 1e9), time.time_ns(), 2.5, 0, 0))
    judge(1, 3600)
    wait_until(lambda: app.tell('alarmed') == 'true', 'it is alarmed', app, agent)
    time.sleep(0.02)  # an agent drops a verdict that comes within 10 ms
    judge(1, 0.1)
    wait_until(lambda: app.tell('alarmed') == 'false', 'the verdict ends', app, agent)
    consumer.close()
    check(app.close() == 0, 'an exit status', app)


def exemplars_are_in_the_region(agent, collector):
    """Compares both halves of the application, as the reader of the conformance kit sees them."""
    app = start(agent)
    for command in ('count', 'exemplar', 'observe'):
        app.tell(command)
    reader = region(app)
    wait_until(lambda: ('p_requests_total', (('route', '/0'),)) in reader.round(), 'the mirrored series', app)

    def found():
        reader.round()
        return {(reader.records[ident]['name'], labels['trace_id'], cell, value)
                for ident, cell, labels, value in reader.exemplars()}
    want = {('app_requests_total', 'beef', 0, 1.0), ('app_seconds', 'cafe', 3, 0.5), ('p_requests_total', '0af7', 0, 1.0)}
    wait_until(lambda: found() == want, found, app)
    check(app.close() == 0, 'an exit status', app)


def spans_are_kept(agent, collector):
    app = start(agent)
    for _ in range(3):
        traceparent = app.tell('trace')
    trace_id = traceparent.split('-')[1]
    wait_until(lambda: trace_id in collector.get('/api/v1/traces'), lambda: collector.get('/api/v1/traces'), collector)

    def spans():
        found = {s['name']: s for s in json.loads(collector.get('/api/v1/traces/' + trace_id))['spans']}
        return found if len(found) == 2 else None
    found = wait_until(spans, lambda: collector.get('/api/v1/traces/' + trace_id), collector)
    root, child = found['GET /cart'], found['look up']
    check(child['parent_id'] == root['span_id'] == traceparent.split('-')[2] and root['parent_id'] == '', found)
    check(root['attributes']['cart.items'] == 3 and root['attributes']['user'] == 'ä' + 126 * 'u', root)
    check(child['attributes']['ratio'] == 0.5 and child['attributes']['cached'] is True, child)
    check(child['message'] == 'no such item' and child['status'] == 'error' and child['kind'] == 'client', child)
    check(child['duration_seconds'] >= 0.02 and root['duration_seconds'] >= child['duration_seconds'], found)
    check(app.close() == 0, 'an exit status', app)


def mirror_shows_what_client_golang_shows(agent, collector):
    """Names, types, help, labels and values; deleted metrics disappear."""
    app = start(agent)
    for _ in range(2):
        app.tell('observe')
    types, helps, samples = of_application(json.loads(app.tell('show')))
    still = {k: v for k, v in samples.items() if not k[0].startswith(('go_', 'p_native_bucket'))}
    check(len(still) > 15 and ('p_native_sum', ()) in still, still)

    def differ():
        mine = of_application(collector.get('/metrics'))[2]
        return [(k, v, mine.get(k)) for k, v in still.items()
                if not (k in mine and (mine[k] == v or math.isclose(mine[k], v, rel_tol=1e-12)))]
    wait_until(lambda: not differ(), differ, collector)
    # Metrics that change by themselves are shown by now, too.
    wait_until(lambda: types.keys() <= of_application(collector.get('/metrics'))[0].keys(), 'all families', collector)
    t, h, mine = of_application(collector.get('/metrics'))
    for name, kind in types.items():
        check(t.get(name) == kind, f'{name} is {t.get(name)}, not {kind}')
        check(h.get(name, '') == helps.get(name), f'{name}: {h.get(name)}, not {helps.get(name)}')
    changing = [k for k in samples if k[0].startswith('go_')]
    gone = [k for k in changing if k not in mine]
    check(len(changing) > 20 and not gone, gone)
    check(sum(k[0] == 'p_native_bucket' for k in mine) > 10, [k for k in mine if k[0] == 'p_native_bucket'])
    check(app.tell('delete') == 'true', 'there was none to delete')
    wait_until(lambda: not collector.find('p_requests_total', 'route="/2"'), 'what was deleted goes', collector)
    check(app.tell('refused') == '0', 'some were refused')
    check(app.close() == 0, 'an exit status', app)
    print(f'{len(still)} samples are the same; {len(changing)} change by themselves')


def publishes_opentelemetry(agent, collector):
    """What OpenTelemetry's SDK hands to the exporter, in memory: scopes, lists and keys that become one are told apart."""
    app = start(agent)
    for n in (1, 3):
        check(app.tell(n).endswith('of an unsupported kind: shop.delta, shop.sizes'), 'an export', app)
        want = {('shop_requests_total', ('http_route="/a"', 'otel_scope_name="shop"', 'otel_scope_version="1.0"')): n,
                ('shop_requests_total', ('http_route="/b;/c"',)): 2 * n, ('shop_requests_total', ('otel_scope_name="other"',)): 5 * n,
                ('shop_queue', ('kinds="[\\"x\\",\\"y\\"]"',)): -n, ('shop_load', ()): n / 4 if n < 3 else 0,
                ('shop_seconds_count', ()): 3 * n, ('shop_seconds_sum', ()): 6.5 * n, ('shop_seconds_bucket', ('le="1"',)): n}

        def has():
            return {k: collector.total(k[0], *k[1]) for k in want}
        wait_until(lambda: has() == want, has, collector, app)
    check(not collector.find('shop_load') and not collector.find('shop_delta_total'), 'what is not measured any more')
    check(app.close() == 0, 'an exit status', app)


def main():
    if APP.startswith('SKIP: '):
        skip(APP.removeprefix('SKIP: '))
    agent = Agent()
    options = () if CASE in ('labels_of_identity_are_the_agents', 'spans_are_kept') else ('--sum-processes',)
    collector = Collector([agent], *options, '--period', '20ms')
    agent = globals()[CASE](agent, collector) or agent
    check(collector.stop() == 0 and agent.stop() == 0, 'an exit status', collector, agent)


main()
