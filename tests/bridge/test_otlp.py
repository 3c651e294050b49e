#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics and spans by OTLP are published or refused with a reason. test_otlp.py SIDELIGHT CASE"""
import gzip
import http.client
import json
import re
import socket
import struct
import sys
import time

from bridge import Bridged, count, field, of, varint, worker
from support import http as client
from support.process import case, check, run_cases, wait_until
from support.published import read
from support.sidelight import Collector


def otlp(service, *metrics):
    """ExportMetricsServiceRequest in protobuf."""
    name = field(1, field(1, 'service.name') + field(2, field(1, service)))
    return field(1, field(1, name) + field(2, b''.join(field(2, m) for m in metrics)))


@case
def otlp_metrics_are_published():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    url = f'http://127.0.0.1:{port}/v1/metrics'

    def post(body, kind='application/x-protobuf', **headers):
        return client.request(url, 'POST', body, {'Content-Type': kind, **headers})[0]

    route = field(7, field(1, 'http.route') + field(2, field(1, '/cart')))
    total = field(1, 'http.requests') + field(7, field(1, route + field(4, 17.0)) + field(2, 2) + field(3, 1))
    delta = field(1, 'jobs') + field(7, field(1, field(4, 5.0)) + field(2, 1) + field(3, 1))
    # 10 values of 1.5 and 1 of 0, at scale 5.
    exponential = field(1, 'wait') + field(3, 's') + field(10, field(1, (
        b'\x21' + struct.pack('<Q', 11) + field(5, 15.0) + field(6, 10) + b'\x39' + struct.pack('<Q', 1) +
        field(8, field(1, 36) + field(2, varint(10))))) + field(2, 2))
    with Bridged('--otlp', f'127.0.0.1:{port}') as agent, Collector([agent], '--period', '20ms') as collector:
        def ready():
            try:
                return post(b'') == 200
            except OSError:
                return False
        wait_until(ready, 'the receiver', agent)
        # All over one connection: a second one that arrives before the first has ended counts as another sender.
        shop = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
        members = b''.join(gzip.compress(part) for part in re.findall(b'(?s).{1,20}', otlp('shop', delta)))
        for body, more in (otlp('shop', total, delta, exponential), {}), (members, {'Content-Encoding': 'gzip'}):
            shop.request('POST', '/v1/metrics', body, {'Content-Type': 'application/x-protobuf', **more})
            answer = shop.getresponse()
            check(answer.status == 200, answer.read())
            answer.read()
        check(post(b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"json.gauge","gauge":{"dataPoints":'
                   b'[{"asInt":"-7"}]}}]}]}]}', 'application/json') == 200)
        check(post(b'\x0a\x05', 'application/x-protobuf') == 400)
        check(post(b'{', 'application/json') == 400)
        check(post(b'a', 'text/plain') == 415)
        check(post(gzip.compress(bytes(64 << 20)), **{'Content-Encoding': 'gzip'}) == 400)
        check(post(gzip.compress(otlp('shop', delta)) + b'x', **{'Content-Encoding': 'gzip'}) == 400)

        # A label that is too long, and negative observations, are counted.
        long = field(7, field(1, 'k') + field(2, field(1, 'x' * 2000)))
        check(post(otlp('lost', field(1, 'a') + field(5, field(1, long + field(4, 1.0))))) == 200)
        negative = field(1, b'\x21' + struct.pack('<Q', 3) + field(9, field(2, varint(3))))
        check(post(otlp('lost', field(1, 'b') + field(10, negative + field(2, 2)))) == 200)
        wait_until(lambda: count(collector, 'otlp_refused') == 2, lambda: count(collector, 'otlp_refused'), collector, agent)

        def now():
            return {n + ''.join(v for _, v in l): float(v)
                    for (n, l), v in read(collector.get('/metrics'), of('shop'))[0].items()}
        wait_until(lambda: now().get('jobs_total') == 10 and 'wait_seconds_count' in now(), now, collector, agent)
        series = now()
        check(series['http_requests_total/cart'] == 17, series)
        check((series['wait_seconds_count'], series['wait_seconds_sum']) == (11, 15), series)
        buckets = {float(k.removeprefix('wait_seconds_bucket')): v for k, v in series.items() if k.startswith('wait_seconds_bucket')}
        check(buckets[1] == 1 and buckets[2] == 11 and buckets[float('inf')] == 11, buckets)
        wait_until(lambda: collector.total('json_gauge', 'service="unknown_service"') == -7, collector)
        wait_until(lambda: count(collector, 'otlp_malformed') == 4, collector)
        wait_until(lambda: count(collector, 'otlp_points') == 6 and count(collector, 'otlp_refused', cause='negative') == 1 and
                   count(collector, 'otlp_refused', cause='unpublishable') == 1, lambda: collector.find('sidelight_bridge_otlp'), collector)


class Otlp:
    """Senders of OTLP in JSON, and the address that they send to."""

    def __init__(self):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.at = f'127.0.0.1:{s.getsockname()[1]}'

    def connect(self, agent):
        def try_it():
            try:
                c = http.client.HTTPConnection(self.at, timeout=60)
                return c if post_otlp(c, {})[0] == 200 else None
            except OSError:
                return None
        return wait_until(try_it, 'the receiver', agent)


def post_otlp(connection, body, path='/v1/metrics'):
    """(status, answer)"""
    connection.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def counters(service, values, start=1000, time=2000, temporality=2, **attributes):
    """A request with counters: {name: value}."""
    text = [{'key': k, 'value': {'stringValue': v}} for k, v in {'service.name': service, **attributes}.items()]
    return {'resourceMetrics': [{'resource': {'attributes': text}, 'scopeMetrics': [{'metrics': [
        {'name': name, 'sum': {'aggregationTemporality': temporality, 'isMonotonic': True, 'dataPoints': [
            {'asInt': str(value), 'startTimeUnixNano': str(start * 10**9), 'timeUnixNano': str(time * 10**9)}]}}
        for name, value in values.items()]}]}]}


@case
def otlp_senders_are_told_apart():
    otlp = Otlp()
    with Bridged('--otlp', otlp.at, '--otlp-resource-labels', 'env') as agent, Collector([agent], '--period', '20ms') as collector:
        first, second = otlp.connect(agent), otlp.connect(agent)

        def served(**labels):
            return {re.search('pod="(.*?)"', k)[1]: v for k, v in collector.find('served_total').items()
                    if all(f'{name}="{value}"' in k for name, value in labels.items())}
        for i in range(1, 4):
            check(post_otlp(first, counters('twins', {'served': 100 * i})) == (200, {}))
            check(post_otlp(second, counters('twins', {'served': i}, start=1001)) == (200, {}))
        wait_until(lambda: served(service='twins') == {'twins': 300, 'twins-2': 3}, served, collector, agent)
        # A sender that connects again is the same one.
        first.close()
        wait_until(lambda: post_otlp(third := otlp.connect(agent), counters('twins', {'served': 400})) == (200, {}) and
                   served(service='twins') == {'twins': 400, 'twins-2': 3}, served, collector, agent)
        # A sender keeps its series after another one has left.
        second.close()
        first, second = otlp.connect(agent), otlp.connect(agent)
        for value in 5, 6:
            check(post_otlp(first, counters('left', {'served': value})) == (200, {}))
            check(post_otlp(second, counters('left', {'served': 10 * value})) == (200, {}))
            if value == 5:
                first.close()
                first = otlp.connect(agent)
                wait_until(lambda: post_otlp(second, counters('left', {'served': 50})) == (200, {}) and
                           served(service='left') == {'left': 5, 'left-2': 50}, served, collector, agent)
        wait_until(lambda: served(service='left') == {'left': 6, 'left-2': 60}, served, collector, agent)
        # Spans and metrics of a process have connections of their own.
        span = {'traceId': '01' * 16, 'spanId': '02' * 8, 'name': 'x', 'startTimeUnixNano': '8', 'endTimeUnixNano': '9'}
        spans = {'resourceSpans': [{'resource': counters('both', {})['resourceMetrics'][0]['resource'],
                                    'scopeSpans': [{'spans': [span]}]}]}
        check(post_otlp(first, spans, '/v1/traces') == (200, {}))
        check(post_otlp(second, counters('both', {'served': 1})) == (200, {}))
        check(post_otlp(first, spans, '/v1/traces') == (200, {}))
        wait_until(lambda: served(service='both') == {'both': 1}, served, collector, agent)
        check(not collector.find('both-2'), collector)
        # Over one connection, senders are told apart by their resources.
        for pid in '7', '8':
            check(post_otlp(second, counters('forks', {'served': int(pid)}, **{'process.pid': pid, 'env': 'test'})) == (200, {}))
        wait_until(lambda: served(service='forks', env='test') == {'forks': 7, 'forks-2': 8}, served, collector, agent)
        wait_until(lambda: collector.total('target_info', 'process_pid="8"', 'pod="forks-2"') == 1,
                   lambda: collector.find('target_info'), collector)


@case
def otlp_senders_that_left_free_their_regions():
    """All bridges share 63 regions: here, 50 are those of targets, which are down."""
    otlp = Otlp()
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        down = [w for i in range(50) for w in ('--scrape', f'http://127.0.0.1:{s.getsockname()[1]}/{i},interval=1h')]
        with Bridged('--otlp', otlp.at, *down) as agent, Collector([agent], '--period', '20ms') as collector:
            wait_until(lambda: count(collector, 'scrapes') == 50, collector, agent)
            c = otlp.connect(agent)
            answers = [post_otlp(c, counters(f's{i}', {'served': 1}))[1] for i in range(20)]
            taken = answers.index(next(a for a in answers if a))
            check(5 < taken < 13 and not any(answers[:taken]), answers)
            check(all('no region for another service' in a['partialSuccess']['errorMessage'] for a in answers[taken:]), answers)
            wait_until(lambda: count(collector, 'otlp_refused', cause='regions') == 20 - taken == count(collector, 'otlp_refused'),
                       lambda: collector.find('sidelight_bridge_otlp_refused_total'), collector)
            check('all 63 regions of the bridges are in use' in agent.logged() and 'max=24' not in agent.logged(), agent)
            c.close()
            c = otlp.connect(agent)
            wait_until(lambda: post_otlp(c, counters('more', {'served': 7})) == (200, {}) and
                       collector.total('served_total', 'service="more"') == 7, collector, agent)


@case
def otlp_answers_say_what_was_refused():
    otlp = Otlp()
    with Bridged('--otlp', otlp.at) as agent, Collector([agent], '--period', '20ms') as collector:
        c = otlp.connect(agent)
        twice = counters('s', {'a': 1, 'b': 2})
        metrics = twice['resourceMetrics'][0]['scopeMetrics'][0]['metrics']
        metrics += [metrics[0], {'name': 'c', 'sum': {'dataPoints': [{'asInt': 1}]}}]
        partial = post_otlp(c, twice)[1]['partialSuccess']
        check(partial['rejectedDataPoints'] == '2' and 'was received before' in partial['errorMessage'] and
              'aggregation temporality' in partial['errorMessage'], partial)
        # The same in protobuf; and a delta that is sent twice counts once.
        metric = field(1, 'd') + field(7, field(1, field(4, 1.0) + b'\x19' + struct.pack('<Q', 5 * 10**9)) + field(2, 1) + field(3, 1))
        resource = field(1, field(1, field(1, 'service.name') + field(2, field(1, 's'))))

        # One connection, because a sender that connects again before the agent sees the end of its connection is another one.
        again = otlp.connect(agent)

        def send():
            again.request('POST', '/v1/metrics', field(1, resource + field(2, field(2, metric))),
                          {'Content-Type': 'application/x-protobuf'})
            return again.getresponse().read()
        check(send() == b'', 'nothing was refused')
        answer = send()
        check(answer[0] == 0x0a and answer[2:6] == b'\x08\x01\x12' + answer[5:6] and b'was received before' in answer, answer)
        span = {'traceId': '01' * 16, 'spanId': '02' * 8, 'name': 'x', 'startTimeUnixNano': '9', 'endTimeUnixNano': '8'}
        partial = post_otlp(c, {'resourceSpans': [{'scopeSpans': [{'spans': [span, {**span, 'spanId': ''}]}]}]},
                            '/v1/traces')[1]['partialSuccess']
        check(partial['rejectedSpans'] == '2' and '1 span: ' in partial['errorMessage'], partial)
        for name, labels in (('otlp_refused', {'duplicate': 2, 'temporality': 1}), ('otlp_refused_spans', {'ids': 1, 'times': 1})):
            wait_until(lambda: {k: count(collector, name, cause=k) for k in labels} == labels and
                       count(collector, name) == sum(labels.values()), lambda: collector.find('sidelight_bridge_otlp'), collector)
        wait_until(lambda: collector.total('a_total', 'service="s"') == 1 and collector.total('d_total', 'service="s"') == 1, collector)
        # From one temporality to the other, the series begins anew.
        for temporality, value, time in ((2, 40, 2001), (1, 5, 2002), (1, 6, 2003), (2, 50, 2004)):
            check(post_otlp(c, counters('s', {'b': value}, time=time, temporality=temporality)) == (200, {}))
            want = 11 if value == 6 else value
            wait_until(lambda: collector.total('b_total', 'service="s"') == want, lambda: collector.find('b_total'), collector)


@case
def costly_otlp_bodies_are_refused():
    """Each body is short as it arrives, but would cause very much work. The next sender must not wait because of it."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        url = f'http://127.0.0.1:{s.getsockname()[1]}'

    def post(body, kind='application/x-protobuf', path='/v1/metrics'):
        """(status, what the answer says)"""
        status, _, said = client.request(url + path, 'POST', gzip.compress(body, 1), {
            'Content-Type': kind, 'Content-Encoding': 'gzip'}, seconds=300)
        return status, said.decode(errors='replace')

    group = b'\x0b'  # field 1, which begins a group
    point = field(7, field(1, 'k') + field(2, field(1, 'v')))
    attributes = b''.join(field(7, b'') for _ in range(1000))
    costly = [
        (b'\x0a\x00' * 4000000, 'resources'),
        (field(1, field(2, b'') * 4000000), 'messages'),
        (field(1, field(2, field(2, b'') * 4000000)), 'messages'),
        (field(1, field(2, field(2, field(1, 'm') + field(5, field(1, b'') * 4000000)))), 'messages'),
        (field(1, field(2, field(2, field(1, 'm') + field(5, field(1, attributes) * 1000)))), 'messages'),
        (field(1, field(1, field(1, b'') * 4000000)), 'messages'),
    ]
    with Bridged('--otlp', url.removeprefix('http://')) as agent, Collector([agent], '--period', '20ms') as collector:
        def ready():
            try:
                return post(b'')[0] == 200
            except OSError:
                return False
        wait_until(ready, 'the receiver', agent)
        pid = worker(agent)

        def rss():
            with open(f'/proc/{pid}/statm') as f:
                return int(f.read().split()[1]) * 4096
        before = rss()
        for body, cause in costly:
            status, said = post(body)
            check(status == 413 and f'too many {cause}' in said, cause, len(body), status, said)
            status, said = post(body, path='/v1/traces')
            check(status in (200, 413), status, said)
            check(post(otlp('good', field(1, 'a') + field(5, field(1, point + field(4, 1.0)))))[0] == 200, 'the next')
        for body in (b'{"resourceMetrics":[' + b'{},' * 2700000 + b'{}]}', b'[' + b'0,' * 4000000 + b'0]'):
            status, said = post(body, 'application/json')
            check(status == 413 and 'too many values' in said, status, said)
        for body in (b'[' * 100000, b'{"a":' * 100000 + b'0' + b'}' * 100000):
            status, said = post(body, 'application/json')
            check(status == 400, status, said)
        check(post(group * 4000000)[0] == 400, 'groups')
        check(rss() < before + (96 << 20), f'{before} became {rss()}')
        for cause, n in (('resources', 1), ('messages', 5), ('values', 2)):
            wait_until(lambda: count(collector, 'otlp_costly', cause=cause) >= n, cause, collector, agent)


@case
def otlp_bodies_that_never_end_are_bounded():
    """A sender takes no more memory than its share, and other senders are still served."""
    otlp, senders = Otlp(), []
    size = 8 << 20
    with Bridged('--otlp', otlp.at) as agent, Collector([agent], '--period', '20ms') as collector:
        c = otlp.connect(agent)
        for _ in range(8):
            s = socket.create_connection(otlp.at.split(':'))
            s.sendall(b'POST /v1/metrics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n'
                      b'Content-Length: %d\r\n\r\n' % size + bytes(size - 1))
            senders.append(s)
        wait_until(lambda: count(collector, 'otlp_http_refused', cause='bodies') >= 5,
                   lambda: collector.find('sidelight_bridge_otlp_http'), collector, agent)
        check(post_otlp(c, counters('other', {'served': 1})) == (200, {}))
        for s in senders:
            s.close()


@case
def otlp_traces_are_kept_as_those_of_a_pod():
    """Spans of two services, one in protobuf and one in JSON: the collector keeps their trace."""
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        at = f'127.0.0.1:{free.getsockname()[1]}'
    trace, root, child = bytes(range(1, 17)), bytes(range(1, 9)), bytes(range(2, 10))
    start = time.time_ns() - 10**9

    def fixed64(number, value):
        return varint(number << 3 | 1) + struct.pack('<Q', value)

    def attribute(key, value):
        return field(9, field(1, key) + field(2, value))
    span = field(2, field(1, trace) + field(2, root) + field(5, 'GET /cart') + field(6, 2) + fixed64(7, start) +
                 fixed64(8, start + 8 * 10**8) + attribute('http.response.status_code', field(3, 500)) +
                 attribute('ratio', field(4, 0.5)) + field(15, field(2, 'no stock') + field(3, 2)))
    name = field(1, field(1, field(1, 'service.name') + field(2, field(1, 'shop'))))
    body = field(1, name + field(2, span))
    more = json.dumps({'resourceSpans': [{'resource': {'attributes': [
        {'key': 'service.name', 'value': {'stringValue': 'db'}}]}, 'scopeSpans': [{'spans': [
            {'traceId': trace.hex(), 'spanId': child.hex(), 'parentSpanId': root.hex(), 'name': 'SELECT', 'kind': 3,
             'startTimeUnixNano': str(start + 10**8), 'endTimeUnixNano': str(start + 3 * 10**8), 'flags': 0x301,
             'attributes': [{'key': 'db.system', 'value': {'stringValue': 'postgresql'}}], 'events': [{'name': 'x'}]},
            {'traceId': '00' * 16, 'spanId': child.hex(), 'name': 'no trace'}]}]}]})
    with Bridged('--otlp', at) as agent, Collector(
            [agent], '--period', '20ms', '--trace-budget', '1', '--trace-head', '1', '--trace-linger', '2s') as collector:
        def post(body, kind='application/x-protobuf'):
            return client.request(f'http://{at}/v1/traces', 'POST', body, {'Content-Type': kind})[0]

        def ready():
            try:
                return post(b'') == 200
            except OSError:
                return False
        wait_until(ready, 'the receiver', agent)
        check(post(more.encode(), 'application/json') == 200)
        check(post(body) == 200)
        check(post(b'\x0a\x05') == 400)
        check(post(b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"xy"}]}]}]}', 'application/json') == 400)

        def kept():
            found = [t for t in collector.api('traces')['traces'] if t['trace_id'] == trace.hex()]
            return found and found[0]['spans_read'] == 2 and collector.api('traces/' + trace.hex())
        one = wait_until(kept, lambda: collector.api('traces'), collector, agent)
        spans = {s['service']: s for s in one['spans']}
        check(spans.keys() == {'shop', 'db'}, one)
        shop, db = spans['shop'], spans['db']
        check((shop['span_id'], shop['name'], shop['kind'], shop['status'], shop['message']) ==
              (root.hex(), 'GET /cart', 'server', 'error', 'no stock'), shop)
        check(shop['attributes'] == {'http.response.status_code': 500, 'ratio': 0.5}, shop)
        check((db['parent_id'], db['kind'], db['attributes']) == (root.hex(), 'client', {'db.system': 'postgresql'}), db)
        check(abs(shop['duration_seconds'] - 0.8) < 1e-6 and abs(db['duration_seconds'] - 0.2) < 1e-6, one)
        wait_until(lambda: count(collector, 'otlp_spans') == 2 and count(collector, 'otlp_refused_spans') == 1 and
                   count(collector, 'otlp_malformed') == 2, collector)
        # At most eight services have memory for spans.
        for i in range(9):
            named = field(1, field(1, field(1, 'service.name') + field(2, field(1, f'more{i}'))))
            check(post(field(1, named + field(2, span))) == 200)
        wait_until(lambda: count(collector, 'otlp_spans') == 8 and count(collector, 'otlp_refused_spans') == 4,
                   lambda: (count(collector, 'otlp_spans'), count(collector, 'otlp_refused_spans')), collector)


run_cases(only=sys.argv[2:])
