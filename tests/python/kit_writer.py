# SPDX-License-Identifier: Apache-2.0
"""kit_writer.py MINOR: the binding as a writer that the conformance kit examines. Minor 0 is that of Python alone."""
import sys
import time

import sidelight

LATENCIES = (0.05, 0.5, 5.0, 50.0)
MINOR = int(sys.argv[1])
p = sidelight.Publisher(service='kit', cells=700, **({} if MINOR else {'minor': 0}))
removable = None


def make():
    m = {
        'requests': sidelight.Counter('kit_requests_total', 'Requests.', ['method', 'code'], publisher=p).labels('get', 200),
        'temperature': sidelight.Gauge('kit_temperature', publisher=p),
        'seconds': sidelight.Counter('kit_seconds_total', unit='seconds', publisher=p),
        'latency': sidelight.Histogram('kit_latency_seconds', buckets=(0.1, 1, 10), publisher=p),
        'state': sidelight.Enum('kit_state', states=('up', 'down'), publisher=p),
    }
    sidelight.Info('kit_build_info', publisher=p).info({'version': '1.2 "ä"'})
    kinds = 'counter counter_f64 gauge_f64 histogram stateset info'
    if MINOR:
        m['size'] = sidelight.Summary('kit_size_bytes', publisher=p)
        kinds += ' summary'
    global removable
    removable = sidelight.Counter('kit_removable_total', 'Comes and goes.', ['of'], publisher=p)
    return m, kinds


def count(m, rounds):
    for i in range(1, rounds + 1):
        m['requests'].inc()
        m['seconds'].inc(0.5)
        m['temperature'].set(i * 0.25)
        m['latency'].observe(LATENCIES[(i - 1) % 4])
        m['state'].state('down' if i % 2 else 'up')
        if 'size' in m:
            m['size'].observe(2)
        if i % 100 == 0:
            time.sleep(0.001)


for line in sys.stdin:
    word, *rest = line.split()
    said = ''
    if word == 'make':
        metrics, said = make()
    elif word == 'count':
        count(metrics, int(rest[0]))
    elif word == 'traced':
        if MINOR:
            sidelight.Counter('kit_traced_total', publisher=p).inc(exemplar={rest[0]: rest[1]})
        said = '' if MINOR else 'lacks'
    elif word == 'named':
        if MINOR:
            sidelight.Counter('kit.größe', '', [rest[0]], publisher=p).labels(rest[1]).inc()
        said = '' if MINOR else 'lacks'
    elif word == 'labels':
        removable.labels(rest[0]).inc()
    elif word == 'remove':
        removable.remove(rest[0])
    print('ok', said, flush=True)
p.close()
