#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_otel.py SIDELIGHT NODE - what OpenTelemetry's own SDK counts arrives exactly: in protobuf and JSON, cumulative and
as differences, with exponential histograms in buckets of the SDK's own scale; and its traces are kept. Points whose names or labels
become the same are kept apart or joined, never overwritten."""
import json
import os
import socket
import sys

from support import exposition, http
from support.process import Part, check, skip, wait_until
from support.sidelight import Agent, Collector

NODE, HERE = sys.argv[2], os.path.dirname(os.path.abspath(__file__))
MODULES = os.path.join(HERE, '..', 'node', 'node_modules')
N = int(100_000 * float(os.environ.get('SL_TEST_SCALE', '1')))

PROTOBUF = 'application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited'


def native(collector, name, pod):
    """(schema, count of the zero bucket, {bucket: count}) of a histogram."""
    body = http.request(collector.url + '/metrics', headers={'Accept': PROTOBUF})[2]
    h, = [m['histogram'][0] for f in exposition.decode(body) if f['name'] == [name] for m in f['metric']
          if any(pod == f'{l["name"][0]}="{l["value"][0]}"' for l in m['label'])]
    at, n, out, deltas = 0, 0, {}, iter(h['positive_delta'])
    for span in h['positive_span']:
        at += int(span.get('offset', [0])[0])
        for _ in range(int(span['length'][0])):
            n += int(next(deltas))
            out.update({at: n} if n else {})
            at += 1
    return int(h['schema'][0]), int(h.get('zero_count', [0])[0]), out


if not os.path.isdir(f'{MODULES}/@opentelemetry/sdk-metrics'):
    skip('no @opentelemetry/sdk-metrics: scripts/setup installs it')
with socket.socket() as s:
    s.bind(('127.0.0.1', 0))
    port = s.getsockname()[1]
at = f'127.0.0.1:{port}'
with Agent('--otlp', at, '--exponential-scale', '6') as agent, Collector([agent], '--period', '20ms', '--trace-budget', '1', '--trace-head',
                                             '1') as collector:
    def listens():
        with socket.socket() as s:
            return s.connect_ex(('127.0.0.1', port)) == 0
    wait_until(listens, 'the receiver', agent)
    for form in 'proto', 'json':
        for temporality in 'cumulative', 'delta':
            pod = f'pod="{form}-{temporality}"'
            program = Part(NODE, f'{HERE}/otel.js', MODULES, f'http://{at}', form, temporality, str(N))
            check(program.wait(300) == 0, program)
            did = json.loads(program.out[-1])

            def total(name, *labels):
                return collector.total(name, pod, *labels)
            want = {('http_requests_total', 'http_route="/a"'): N // 2, ('http_requests_total', 'http_route="/b"'): N // 2,
                    ('level',): -N // 2, ('wait_seconds_count',): N, ('wait_seconds_sum',): sum(i % 200 for i in range(N)),
                    ('wait_seconds_bucket', 'le="1"'): N // 100, ('wait_seconds_bucket', 'le="100"'): N // 200 * 101,
                    ('near_bytes_count',): N, ('near_bytes_sum',): did['exponential'] + 100 * N,
                    ('size_bytes_count',): N, ('size_bytes_sum',): did['exponential']}
            wait_until(lambda: all(total(*k) == v for k, v in want.items()),
                       lambda: {k: (total(*k), v) for k, v in want.items()}, collector, agent)
            # Powers of 2 are bounds of buckets at every scale: the counts up to them are exact.
            for b in (2**i for i in range(10)):
                check(total('size_bytes_bucket', f'le="{b}"') == (b + 1) * (N // 1000), b, collector.find('size_bytes_bucket', pod))

            # From 100 to 1099 its 160 buckets have scale 5, of which each is in two of ours: whole in the upper one.
            schema, zero, buckets = native(collector, 'near_bytes', pod)
            check(schema == 6 and not zero and all(i % 2 == 0 for i in buckets), schema, zero, buckets)
            check(len(buckets) > 100, 'coarser than the SDK', buckets)
            for i in range(6 * 64, 11 * 64, 2):
                below = min(max(int(2**(i / 64)) - 99, 0), 1000) * (N // 1000)
                check(sum(n for k, n in buckets.items() if k <= i) == below, i, below, buckets)

            def kept():
                one = [t for t in collector.api('traces')['traces'] if t['trace_id'] == did['trace']]
                return one and one[0]['spans_read'] == 2 and collector.api('traces/' + did['trace'])
            spans = {s['name']: s for s in wait_until(kept, 'the trace', collector, agent)['spans']}
            check(spans['GET /cart']['status'] == 'error' and spans['GET /cart']['kind'] == 'server', spans)
            check(spans['SELECT']['attributes'] == {'db.system': 'pg'} and spans['SELECT']['span_id'] == did['child'], spans)
            print(f'ok   {form}, {temporality}: {N} updates', flush=True)
            for name in 'scoped', 'lists', 'keys', 'name_x':
                got = collector.find(name + '_total', pod)
                check(len(got) == 2 and sorted(got.values()) == [3, 10], name, got)
    check(collector.total('sidelight_bridge_otlp_malformed_total') == 0)
    check(collector.total('sidelight_bridge_otlp_refused_total') == 0)
    check(collector.total('sidelight_bridge_otlp_refused_spans_total') == 0)
