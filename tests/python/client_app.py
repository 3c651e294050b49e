# SPDX-License-Identifier: Apache-2.0
"""client_app.py: a service with prometheus_client, which knows nothing of us. On each line of stdin it does what that says,
and answers by one line."""
import asyncio
import json
import os
import sys
import threading
import time

import lazy  # noqa: F401
import prometheus_client as client
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Enum, Gauge, Histogram, Info, Summary
from prometheus_client.core import (CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily,
                                    StateSetMetricFamily, SummaryMetricFamily, UntypedMetricFamily)
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics

plain = Counter('app_plain', 'Without labels.')
routes = Counter('app_routes_total', 'Two lines,\nand a \\ and a "quote".', ['route', 'code'])
queue = Gauge('app_queue', 'Jobs.', ['kind'], multiprocess_mode='livesum')
asked = Gauge('app_asked', 'A function.')
seconds = Histogram('app_time', 'Time.', ['route'], unit='seconds', buckets=(.1, .5, 1, 5))
sizes = Histogram('app_sizes', 'Bytes.')
ages = Summary('app_ages', 'Years.', ['of'])
build = Info('app_build', 'What it is.')
parts = Info('app_parts', 'By part.', ['part'])
state = Enum('app_state', 'Of work.', states=['starting', 'running', 'done'])
states = Enum('app_states', 'Of parts.', ['part'], states=['on', 'off'])
gone = Gauge('app_gone', 'Comes and goes.', ['x'])
other = Counter('app_other', 'In a registry of its own.', registry=CollectorRegistry())
twin = Counter('app_plain', 'Without labels.', registry=CollectorRegistry())
forged = Gauge('app_forged', 'Says that it is another.', ['service', 'host', 'process', 'uid'])
asked.set_function(lambda: 42)
modes = {m: Gauge(f'mode_{m}', 'By mode.', multiprocess_mode=m)
         for m in ('all', 'liveall', 'min', 'livemin', 'max', 'livemax', 'sum', 'livesum')}
children = []


class Foreign:
    """A collector of another library."""

    def collect(self):
        yield CounterMetricFamily('foreign', 'Counted elsewhere.', value=7)
        yield GaugeMetricFamily('foreign_gauge', 'Measured elsewhere.', value=-1.5)
        yield UntypedMetricFamily('foreign_untyped', 'Of no type.', value=3)
        yield InfoMetricFamily('foreign_build', 'Known elsewhere.', value={'of': 'it'})
        yield StateSetMetricFamily('foreign_state', 'Elsewhere.', value={'a': False, 'b': True})
        yield SummaryMetricFamily('foreign_summary', 'Observed elsewhere.', count_value=4, sum_value=10)
        h = HistogramMetricFamily('foreign_histogram', 'Observed elsewhere.', labels=['x'])
        h.add_metric(['1'], buckets=[('1.0', 2), ('2.0', 5), ('+Inf', 9)], sum_value=20)
        yield h


class Changing:
    """A collector whose buckets change, and one of whose families cannot be published."""
    turn = 0

    def collect(self):
        h = HistogramMetricFamily('changing_sizes', 'Of other buckets.', labels=['x'])
        h.add_metric(['1'], buckets=[(f'{self.turn}.0', 1), ('+Inf', 2)], sum_value=5)
        yield h
        yield SummaryMetricFamily('changing_nan', 'Of no number.', count_value=float('nan'), sum_value=1)
        yield GaugeMetricFamily('changing_turn', 'Comes last.', value=self.turn)


class Odd(Counter):
    """An application's own class."""

    def inc(self, amount=1, exemplar=None):
        super().inc(2 * amount, exemplar)


odd = Odd('app_odd', 'Counts twice.')
REGISTRY.register(Foreign())


def more():
    plain.inc()
    plain.inc(1.5, {'trace_id': '4bf92f3577b34da6a3ce929d0e0e4736'})
    plain.inc(amount=2)
    routes.labels('/a', 200).inc()
    routes.labels(route='ü"\\\n', code=500).inc(3)
    queue.labels('x').set(7)
    queue.labels('x').inc(3)
    queue.labels('x').dec()
    queue.labels('y').set('-2.5')
    seconds.labels('/a').observe(.5)
    seconds.labels('/a').observe(7, {'trace_id': 'abc'})
    with seconds.labels('/b').time():
        pass
    sizes.observe(11)
    for i in range(100):
        ages.labels('a').observe(i)
    build.info({'version': '1.0'})
    build.info({'version': '1.2', 'more': 'ä"'})
    parts.labels('engine').info({'n': '5'})
    state.state('running')
    states.labels('wheel').state('off')
    states.labels('door').state('on')
    gone.labels('a').set(1)
    gone.labels('b').set(2)
    gone.labels('c').set(3)
    gone.remove('a')
    gone.labels('b').set(4)
    other.inc(9)
    twin.inc(0)
    odd.inc()
    forged.labels('bank', 'elsewhere', '1', '0').set(1)
    for g in modes.values():
        g.set(5)


def refused():
    """Calls that must throw, with the client's messages."""
    said = []
    for call in (lambda: plain.inc(-1), lambda: routes.inc(), lambda: routes.labels('one'), lambda: queue.set(1),
                 lambda: queue.labels('x').set('a'), lambda: queue.labels('x').set(10 ** 400), lambda: plain.inc(1, {'x' * 100: 'y' * 100}), lambda: state.state('no'),
                 lambda: Counter('app_plain', 'Again.'), lambda: gone.remove('no'), lambda: sizes.observe(1, {'9': 'x'}),
                 lambda: parts.labels('engine').info({'part': 'x'})):
        try:
            call()
            said.append('nothing')
        except Exception as e:
            said.append(f'{type(e).__name__}: {e}')
    return said


def many(f):
    some = [threading.Thread(target=f) for _ in range(4)]
    for t in some:
        t.start()
    for t in some:
        t.join()


def count(n=2000):
    for i in range(n):
        routes.labels(f'/{i % 7}', 200).inc()
        sizes.observe(i % 50)


async def coroutines():
    async def one():
        for _ in range(100):
            routes.labels('/0', 200).inc()
            await asyncio.sleep(0)
    await asyncio.gather(*(one() for _ in range(20)))


def fork():
    """A child that counts, sets gauges to its number, and lives until it is killed."""
    there, here = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if not pid:
        from_0 = odd._value.get() == 0
        count(1000)
        for g in modes.values():
            g.set(len(children) + 1)
        while from_0 and not any(t.name == 'sidelight-sampler' for t in threading.enumerate()):
            pass
        os.write(here, b'.' if from_0 else b'!')
        while os.getppid() == parent:
            time.sleep(0.05)
        os._exit(0)
    children.append(pid)
    assert os.read(there, 1) == b'.', 'the child counts from where its parent was'
    return pid


def publisher():
    """Returns Sidelight's view; nothing without Sidelight."""
    from sidelight import _backend
    return _backend.default()


def full():
    for i in range(2000):
        routes.labels(f'/full/{i}', 404).inc()
    return publisher().refused


def change():
    Changing.turn += 1
    if Changing.turn == 1:
        REGISTRY.register(Changing())


def unusual():
    """Uses what the client accepts but a region cannot express. Returns what the client exposes."""
    many_states = Enum('app_many_states', 'Of more than a region has.', states=[f's{i}' for i in range(100)])
    not_number = Counter('app_not_number', 'Of some.')
    many_states.state('s7')
    many_states.state('s99')
    not_number.inc(2)
    not_number.inc(float('nan'))
    not_number.inc(3)
    return [s.name for s in many_states.collect()[0].samples if s.value] + [repr(s.value) for s in not_number.collect()[0].samples[:1]]


def register_again():
    """Registers metrics that already have observations, and observes more. Returns what the client exposes."""
    for metric in (sizes, ages):
        REGISTRY.unregister(metric)
        REGISTRY.register(metric)
    sizes.observe(11)
    ages.labels('a').observe(3)
    return [s.value for m in (sizes, ages) for s in m.collect()[0].samples if not s.name.endswith('_created')]


def unregister():
    REGISTRY.unregister(plain)
    REGISTRY.unregister(ages)
    gone.clear()


commands = {
    'more': more, 'refused': refused, 'show': lambda: client.generate_latest().decode(), 'full': full,
    'unusual': unusual, 'change': change, 'register again': register_again, 'fork': fork,
    'openmetrics': lambda: openmetrics(REGISTRY).decode(), 'threads': lambda: many(count),
    'asyncio': lambda: asyncio.run(coroutines()), 'unregister': unregister, 'register': lambda: REGISTRY.register(plain),
    'attached': lambda: publisher().attached(),
    'twin': lambda: twin.inc(100) or [twin._value.get(), plain._value.get()],
    'threads that run': lambda: sorted(t.name for t in threading.enumerate()),
}
for line in sys.stdin:
    print(json.dumps(commands[line.rstrip('\n')]()), flush=True)
for pid in children:
    os.kill(pid, 9)
