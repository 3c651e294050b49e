# SPDX-License-Identifier: Apache-2.0
"""For tests of the bridges: an agent with bridges, a target that they read, and protobuf."""
import http.server
import os
import struct
import threading

from support.process import check
from support.sidelight import Agent


class Server:
    """An HTTP server whose answer is a function of the handler."""

    def __init__(self, answer):
        outer = self
        self.requests = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests += 1
                try:
                    answer(self)
                except OSError:
                    pass  # the client went

            def log_message(self, *a):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.url = f'http://127.0.0.1:{self.server.server_port}/metrics'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Bridged(Agent):
    """An agent whose bridges do not end by themselves, unless the test ends them."""
    ends = False

    def __exit__(self, error, *more):
        super().__exit__(error, *more)
        said = '\n'.join(self.err)
        check(error or self.ends == ('the process that runs the bridges exited' in said), said)
        check('Sanitizer' not in said and 'runtime error' not in said, said)


def worker(agent):
    """Returns the process that parses the input of other programs."""
    with os.popen(f'pgrep -P {agent.pid} -x sidelight-bridg') as f:
        return int(f.read().split()[0])


def say(body, kind='text/plain; version=0.0.4', **headers):
    def answer(h):
        b = body() if callable(body) else body
        h.send_response(200)
        h.send_header('Content-Type', kind)
        h.send_header('Content-Length', str(len(b)))
        for k, v in headers.items():
            h.send_header(k.replace('_', '-'), v)
        h.end_headers()
        h.wfile.write(b)
    return answer


def count(collector, name, **labels):
    return collector.total(f'sidelight_bridge_{name}_total',
                           *(f'{k}="{v}"' for k, v in labels.items()))


def of(service):
    return lambda labels: labels.get('service') == service


def varint(n):
    return bytes([n & 0x7f | 0x80]) + varint(n >> 7) if n > 0x7f else bytes([n])


def field(number, value):
    """A field of protobuf: a length for bytes and str, fixed64 for floats, varint for ints."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack('<d', value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value
