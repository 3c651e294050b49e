# SPDX-License-Identifier: Apache-2.0
"""python.py own|client: the time of an update in microseconds, as one line of JSON: of our own interface, or of
prometheus_client, which is what the environment makes of it.
python.py recycle: on each line of stdin, a number of workers that count and end one after the other; then "scrape", which
says how many milliseconds the client's multiprocess mode takes to show them all."""
import atexit
import json
import os
import sys
import time

LABELS = ['method', 'code']


def microseconds(n, call, *args):
    for _ in range(n // 10):
        call(*args)
    start = time.perf_counter_ns()
    for _ in range(n):
        call(*args)
    return (time.perf_counter_ns() - start) / n / 1000


def updates(client):
    counter = client.Counter('bench_total', 'Counted.', LABELS).labels('GET', '200')
    histogram = client.Histogram('bench_seconds', 'Observed.', LABELS).labels('GET', '200')
    print(json.dumps({'inc': microseconds(500000, lambda: counter.inc()),
                      'observe': microseconds(300000, lambda: histogram.observe(.3)),
                      'empty': microseconds(500000, lambda: None)}))


def recycle(client):
    from prometheus_client.multiprocess import MultiProcessCollector
    routes = client.Counter('bench_requests', 'Requests.', ['route'])
    seconds = client.Histogram('bench_seconds', 'Time.', ['route'])

    def worker():
        for i in range(20):
            routes.labels(f'/{i}').inc()
            seconds.labels(f'/{i % 5}').observe(i / 10)
        atexit._run_exitfuncs()  # of an end in order
        os._exit(0)

    for line in sys.stdin:
        if line.strip() == 'scrape':
            times = []
            for _ in range(3):
                start = time.perf_counter()
                registry = client.CollectorRegistry()
                MultiProcessCollector(registry)
                client.generate_latest(registry)
                times.append((time.perf_counter() - start) * 1000)
            print(json.dumps(min(times)), flush=True)
            continue
        for _ in range(int(line)):
            pid = os.fork()
            if not pid:
                worker()
            os.waitpid(pid, 0)
        print('null', flush=True)


if sys.argv[1] == 'own':
    import sidelight
    updates(sidelight)
else:
    import prometheus_client
    (recycle if sys.argv[1] == 'recycle' else updates)(prometheus_client)
