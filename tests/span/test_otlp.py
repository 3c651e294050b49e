#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kept traces reach a receiver of OTLP/HTTP, written here from the protocol's definition, which is
down at first, then refuses twice, then gets every span of every kept trace exactly once, also
after the collector was killed and found them again; a receiver that cannot know says so. A span
that ends long after its trace was sent follows on its own. Spans that the receiver reports as
rejected are counted."""
import gzip
import http.server
import json
import os
import signal
import struct
import sys
import threading

from support.exposition import total
from support.http import get
from support.pki import Authority
from support.process import Part, case, check, poll, run_cases, wait_until, workdir
from support.sidelight import Agent, Collector

sidelight, traffic, lossy = sys.argv[1:]
d = workdir()
spans, refusals, encodings, strangers, lock = [], [503, 429], [], [], threading.Lock()
# ExportTraceServiceResponse: 4 spans were left out, and why; then nothing, and a warning alone.
WHY = b'too old\x1b[2J'
answers = [bytes([0x0a, 4 + len(WHY), 0x08, 4, 0x12, len(WHY)]) + WHY, b'',
           bytes([0x0a, 2 + len(WHY), 0x12, len(WHY)]) + WHY]


def fields(data):
    """Parses a protobuf message into [(field number, value)]; values are integers or bytes."""
    at, out = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            value = varint()
        elif tag & 7 == 2:
            n = varint()
            value, at = data[at:at + n], at + n
            assert len(value) == n
        else:
            n = {1: 8, 5: 4}[tag & 7]
            value, at = int.from_bytes(data[at:at + n], 'little'), at + n
        out.append((tag >> 3, value))
    return out


def attributes(message, number):
    out = {}
    for n, v in fields(message):
        if n != number:
            continue
        pair = dict(fields(v))
        (kind, value), = fields(pair[2])
        out[pair[1].decode()] = {1: lambda: value.decode(), 2: lambda: bool(value),
                                 3: lambda: value - (value >> 63 << 64),
                                 4: lambda: struct.unpack('<d', struct.pack('<Q', value))[0]}[kind]()
    return out


def take(body):
    for n, resource_spans in fields(body):
        assert n == 1
        parts = fields(resource_spans)
        resource = attributes(dict(parts)[1], 1)
        for scope_spans in (v for n, v in parts if n == 2):
            inner = fields(scope_spans)
            assert dict(fields(dict(inner)[1]))[1] == b'sidelight'
            for span in (v for n, v in inner if n == 2):
                f = dict(fields(span))
                status = dict(fields(f[15]))
                spans.append({
                    'trace_id': f[1].hex(), 'span_id': f[2].hex(),
                    'parent_id': f.get(4, b'').hex(), 'name': f[5].decode(), 'kind': f[6],
                    'start': f[7], 'end': f[8], 'attributes': attributes(span, 9),
                    'status': status.get(3, 0), 'message': status.get(2, b'').decode(),
                    'flags': f[16], 'resource': resource})


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        packed = self.headers.get('Content-Encoding') == 'gzip'
        if packed:
            body = gzip.decompress(body)
        with lock:
            encodings.append(packed)
            if self.headers['Authorization'] != 'Bearer of-spans':
                strangers.append(self.headers['Authorization'])
            code = 401 if strangers else refusals.pop(0) if refusals else 200
            answer = answers.pop(0) if answers and code == 200 else b''
            if code == 200:
                assert self.path == '/v1/traces', self.path
                assert self.headers['Content-Type'] == 'application/x-protobuf'
                take(body)
        self.send_response(code)
        self.send_header('Content-Type', 'application/x-protobuf')
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


# A port that is taken, where no server answers yet.
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Receiver, bind_and_activate=False)
server.server_bind()
authority = Authority()
authority.guard(server)
receiver = f'https://127.0.0.1:{server.server_address[1]}'
with open(f'{d}/token', 'w') as f:
    f.write('of-spans')
config = authority.client(f'{d}/config', authorization={'credentials_file': 'token'})


def collector(*options):
    return Collector([a], '--otlp', receiver, '--otlp-config', config, *options)


a = Agent(folder=d)
c = collector('--otlp-sent', f'{d}/sent')
t = Part(traffic, f'{d}/agent.sock', '1000', '2000')
made = t.ready()
kept = int(made['slow']) + int(made['failed'])
wait_until(lambda: total(c.get('/metrics'), 'sidelight_trace_kept_total') == kept, 'not all were kept', c)
server.server_activate()
threading.Thread(target=server.serve_forever, daemon=True).start()


api = c.url + '/api/v1/traces'


def arrived():
    with lock:
        return len(spans) >= 6 * kept


def outcome(name):
    return total(c.get('/metrics'), 'sidelight_trace_exported_spans_total', outcome=name)


def services(trace):
    with lock:
        return sorted(s['resource']['service.name'] for s in spans if s['trace_id'] == trace)


@case
def kept_traces_arrive_whole():
    wait_until(arrived, lambda: f'{len(spans)} spans of {6 * kept} arrived', c)
    check(not refusals, 'it never had to try again')
    check(all(encodings), f'{encodings}: not compressed')
    for trace in json.loads(get(api))['traces']:
        one = json.loads(get(f'{api}/{trace["trace_id"]}'))
        got = {s['span_id']: s for s in spans if s['trace_id'] == trace['trace_id']}
        check(len(got) == len(one['spans']) == 6, f'{trace}: {got}')
        for s in one['spans']:
            g = got[s['span_id']]
            check(all(g[k] == s[k] for k in ('parent_id', 'name', 'message', 'attributes')), f'{s} {g}')
            check(g['kind'] == 1 + ('internal', 'server', 'client').index(s['kind']), f'{s} {g}')
            check(g['status'] == ('unset', 'ok', 'error').index(s['status']), f'{s} {g}')
            check(g['end'] - g['start'] == round(s['duration_seconds'] * 1e9), f'{s} {g}')
            check(g['resource']['service.name'] == s['service'] and
                  g['resource']['service.instance.id'] == s['instance'] and
                  g['resource']['sidelight.trace.reason'] == trace['reason'], f'{s} {g}')
            check(g['flags'] & 0xff == 1 and
                  bool(g['flags'] & 0x200) == (s['kind'] == 'server' and s['parent_id'] != ''), f'{g}')
            check('sidelight.trace.maybe_again' not in g['resource'], f'{g}')
    check(len(spans) == 6 * kept, 'a span came twice')


@case
def exported_spans_are_counted_by_outcome():
    wait_until(lambda: outcome('sent') == 6 * kept - 4, lambda: f'{outcome("sent")} are counted as sent', c)
    text = c.get('/metrics')
    check(outcome('partial') == 4, 'what the receiver left out is not counted', c)
    check(total(text, 'sidelight_trace_exported_spans_total') == 6 * kept, 'some were dropped', c)
    check(total(text, 'sidelight_trace_export_retries_total') >= 2, 'retries are not counted', c)
    check(poll(lambda: any('partly rejected' in line and 'rejected=4' in line and 'too old' in line
                            for line in c.err)) and not any('\x1b' in line for line in c.err), 'the receiver was not heard', c)


@case
def a_span_that_comes_late_is_sent_once():
    global root, late
    root = Part(lossy, f'{d}/agent.sock', 'root')
    context = root.ready()['traceparent']
    late_id = context.split('-')[1]


    root.p.send_signal(signal.SIGUSR1)
    wait_until(lambda: services(late_id) == ['root'], lambda: f'the root has not arrived: {services(late_id)}', c)
    late = Part(lossy, f'{d}/agent.sock', 'child', 'late', context)
    late.ready()
    wait_until(lambda: len(services(late_id)) > 1, 'what came late is not sent', c)
    one = json.loads(get(f'{api}/{late_id}'))
    check(sorted(s['service'] for s in one['spans']) == ['late', 'root'] and one['pods'] == 2 and
          one['lost_lines'] == one['orphans'] == 0, str(one))
    wait_until(lambda: outcome('sent') + outcome('partial') == 6 * kept + 2, 'not all are counted', c)
    check(services(late_id) == ['late', 'root'], f'{services(late_id)}: a span came twice', c)
    check(total(c.get('/metrics'), 'sidelight_trace_lost_total') == 0, 'something is lost', c)


@case
def a_successor_sends_nothing_again():
    """Another collector on the same file waits for no lock; after a kill its successor knows what was sent."""
    global c
    other = Part(sidelight, 'collect', '--agent', f'{d}/agent.sock', '--listen', '127.0.0.1:0', '--otlp',
                 receiver, '--otlp-sent', f'{d}/sent')
    check(other.wait() == 1 and any('another process is using it' in line for line in other.err),
          'a file for two', other)
    c.stop(signal.SIGKILL)
    spans.clear()
    c = collector('--otlp-sent', f'{d}/sent')
    wait_until(lambda: total(c.get('/metrics'), 'sidelight_trace_export_known_total') == kept + 1,
               'the traces that were sent are not known', c)
    check(not spans and not total(c.get('/metrics'), 'sidelight_trace_exported_spans_total'),
          f'{len(spans)} spans were sent again', c)
    check(c.stop() == 0, 'exit code', c)


@case
def without_its_file_repeats_are_marked():
    global c
    refusals.append(415)  # it takes no gzip
    encodings.clear()
    c = collector()
    wait_until(lambda: len(spans) >= 6 * kept + 2, lambda: f'{len(spans)} spans of {6 * kept + 2} arrived', c)
    check(all(s['resource'].get('sidelight.trace.maybe_again') is True for s in spans),
          'it does not say that they may have been sent before', c)
    check(encodings[0] and not any(encodings[1:]), f'{encodings}: compressed after 415')
    check(not strangers, strangers)
    check(c.stop() == 0, 'exit code', c)


@case
def a_receiver_of_another_authority_gets_nothing():
    spans.clear()
    other = Authority('another').client(f'{d}/other', authorization={'credentials_file': 'token'})
    with Collector([a], '--otlp', receiver, '--otlp-config', other) as c:
        wait_until(lambda: any('certificate verification failed' in line for line in c.err if receiver in line),
                   'it is said', c)
        wait_until(lambda: total(c.get('/metrics'), 'sidelight_trace_export_retries_total'), 'it is counted', c)
    check(not spans, f'{len(spans)} spans arrived')


@case
def a_file_without_a_first_line_is_initialised_again():
    """The process that created the file was killed after setting its size, or a power failure lost its first line."""
    with open(f'{d}/begun', 'wb') as f:
        f.truncate(os.path.getsize(f'{d}/sent'))
    c = collector('--otlp-sent', f'{d}/begun')
    check(c.stop() == 0, 'exit code', c)
    with open(f'{d}/begun', 'rb') as begun, open(f'{d}/sent', 'rb') as sent:
        check(begun.read(64) == sent.read(64), 'it is not initialised', c)


@case
def half_a_file_is_refused():
    with open(f'{d}/sent', 'r+b') as f:
        f.truncate(1000)
    bad = Part(sidelight, 'collect', '--agent', f'{d}/agent.sock', '--listen', '127.0.0.1:0', '--otlp',
               receiver, '--otlp-sent', f'{d}/sent')
    check(bad.wait() == 1 and any('not a list of sent traces' in line for line in bad.err), 'half a file', bad)


run_cases(only=[])
for p in (t, root, late):
    p.stop()
check(a.stop() == 0, 'exit code', a)
server.shutdown()
