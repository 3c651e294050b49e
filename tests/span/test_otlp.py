#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kept traces go to a receiver of OTLP/HTTP, written here from the protocol's definition, which is
down at first, then refuses twice, and then gets every span of every kept trace exactly once."""
import http.server
import json
import os
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'e2e'))
from harness import Part, agent, check, collector, get, total, until, workdir  # noqa: E402

sidelight, traffic = sys.argv[1:]
d = workdir()
spans, refusals, lock = [], [503, 429], threading.Lock()


def fields(data):
    """[(number, value)] of a message: integers, or bytes."""
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
        with lock:
            code = refusals.pop(0) if refusals else 200
            if code == 200:
                assert self.path == '/v1/traces', self.path
                assert self.headers['Content-Type'] == 'application/x-protobuf'
                take(body)
        self.send_response(code)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *args):
        pass


# A port that is taken, where nobody answers yet.
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Receiver, bind_and_activate=False)
server.server_bind()
receiver = f'http://127.0.0.1:{server.server_address[1]}'

a = agent(sidelight, d)
c, url = collector(sidelight, d, '--otlp', receiver)
t = Part(traffic, f'{d}/agent.sock', '1000', '2000')
made = t.ready()
kept = int(made['slow']) + int(made['failed'])
check(until(lambda: total(get(url), 'sidelight_trace_kept_total') == kept), 'not all were kept', c)
server.server_activate()
threading.Thread(target=server.serve_forever, daemon=True).start()


def arrived():
    with lock:
        return len(spans) >= 6 * kept


check(until(arrived, 60), f'{len(spans)} spans of {6 * kept} arrived', c)
check(not refusals, 'it never had to try again')
api = url.replace('/metrics', '/api/v1/traces')
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
check(len(spans) == 6 * kept, 'a span came twice')
text = get(url)
check(until(lambda: total(get(url), 'sidelight_trace_exported_spans_total', outcome='sent')
            == 6 * kept), 'not all are counted as sent', c)
check(total(text, 'sidelight_trace_exported_spans_total')
      == total(text, 'sidelight_trace_exported_spans_total', outcome='sent'), 'some were dropped', c)
t.stop()
check(c.stop() == 0 and a.stop() == 0, 'exit codes', a, c)
server.shutdown()
print(f'{len(spans)} spans of {kept} traces')
