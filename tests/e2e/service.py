# SPDX-License-Identifier: Apache-2.0
"""service.py PORT [ADDRESS-PORT] - a service that answers requests on PORT of loopback, with a histogram and spans; or, with
PORT 0, sends requests to the other one at the rate of the last line of stdin. A line 'slow SECONDS' makes it answer later."""
import socket
import sys
import threading
import time

import sidelight

PORT, NEXT = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
seconds = sidelight.Histogram('http_request_duration_seconds', 'Time to answer.')
requests = sidelight.Counter('http_requests_total', 'Requests answered.')
told = {'slow': 0.0, 'rate': 20.0}


def serve(connection):
    with connection, connection.makefile('rw') as f:
        for header in f:
            with seconds.time(), sidelight.span('GET /cart', 'server', header.strip()):
                time.sleep(0.001 + told['slow'])
            requests.inc()
            f.write('\n')
            f.flush()


def listen():
    with socket.create_server(('127.0.0.1', PORT)) as s:
        while True:
            threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()


def ask():
    with socket.create_connection(('127.0.0.1', NEXT)) as s, s.makefile('rw') as f:
        due = time.monotonic()
        while True:
            with seconds.time(), sidelight.span('GET /', 'server'), sidelight.span('ask', 'client') as call:
                f.write(f'{call.traceparent}\n')
                f.flush()
                f.readline()
            requests.inc()
            due = max(due + 1 / told['rate'], time.monotonic() - 1)
            time.sleep(max(due - time.monotonic(), 0))


threading.Thread(target=listen if PORT else ask, daemon=True).start()
print('ready', flush=True)
for line in sys.stdin:
    what, value = line.split()
    told[what] = float(value)
    print('done', flush=True)
