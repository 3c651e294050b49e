# SPDX-License-Identifier: Apache-2.0
"""Made days of two applications, in the form of the recorded ones: metrics/POD.csv with a row per minute, spans.csv around
faults, and the truth beside the folder. Requests are played through a graph of services one by one, so that callers slow
down because they wait, not because a rule says so. The same seed gives the same bytes.

- "shops": the services of examples/: a gateway, two replicas of a shop, its database, and a queue of jobs with a worker.
- "market": a search that asks four shards at once, a payment that is tried up to three times, each for at most 400 ms, and
  mails that a queue delivers later.

Names of metrics are those of Prometheus' conventions. Faults last three rows, one pod at a time: a delay of its network, a
busy processor, a lock (own time without processor), errors, a leak of memory."""
import heapq
import math
import os
import random

from days import SETTLE, WINDOW, Day

STEP, T0 = 60, 1700000000
REQUESTS = 60  # a row, on average
TRAIN, EVERY, LASTS = 240, 11, 3  # rows: for training, from a fault to the next, of a fault
KINDS = ('network_delay', 'cpu', 'lock', 'errors', 'leak')
BUCKET = math.log(1.35)  # of a latency histogram
# service: {operation: (own time in ms, what it does)}. call: wait for it; all: at once; retry: up to three times; send: by a queue.
SHOPS = {
    'gateway': {'GET /products': (0.6, [('call', 'shop', 'list')]), 'POST /orders': (0.8, [('call', 'shop', 'order')]),
                'GET /products/N': (0.5, [('call', 'shop', 'get')])},
    'shop': {'list': (2.0, [('call', 'database', 'select')]), 'get': (1.0, [('call', 'database', 'select')]),
             'order': (1.5, [('call', 'database', 'select'), ('call', 'database', 'insert'), ('send', 'worker', 'job')])},
    'database': {'select': (1.2, []), 'insert': (3.0, [])},
    'worker': {'job': (8.0, [('call', 'database', 'insert')])},
}
MARKET = {
    'edge': {'search': (0.8, [('call', 'users', 'session'), ('call', 'search', 'query')]),
             'view': (0.7, [('call', 'users', 'session'), ('call', 'catalog', 'item'), ('call', 'advice', 'similar')]),
             'buy': (1.0, [('call', 'users', 'session'), ('call', 'basket', 'get'), ('call', 'orders', 'place')])},
    'users': {'session': (0.9, [])},
    'search': {'query': (2.5, [('all', [('call', f'shard{i}', 'scan') for i in range(4)]), ('call', 'catalog', 'item')])},
    'shard0': {'scan': (4.0, [])}, 'shard1': {'scan': (4.2, [])}, 'shard2': {'scan': (3.8, [])},
    'shard3': {'scan': (4.1, [])},
    'catalog': {'item': (1.1, [])},
    'advice': {'similar': (5.0, [('all', [('call', 'catalog', 'item'), ('call', 'search', 'query')])])},
    'basket': {'get': (1.0, [('call', 'store', 'read')])},
    'store': {'read': (0.5, []), 'write': (0.9, [])},
    'orders': {'place': (2.0, [('call', 'store', 'write'), ('retry', 'payment', 'charge'), ('send', 'mailer', 'mail')])},
    'payment': {'charge': (3.0, [('call', 'bank', 'transfer')])},
    'bank': {'transfer': (12.0, [])},
    'mailer': {'mail': (6.0, [])},
}
APPS = {'shops': (SHOPS, 'gateway', {'GET /products': 0.6, 'GET /products/N': 0.2, 'POST /orders': 0.2}, {'shop': 2}),
        'market': (MARKET, 'edge', {'search': 0.4, 'view': 0.4, 'buy': 0.2}, {})}
TIMEOUT, TRIES = 0.4, 3
COLUMNS = (['container_cpu_usage_cores', 'container_memory_working_set_bytes', 'network_receive_bytes',
            'network_transmit_bytes'] +
           [f'{side}_request_duration_seconds_p{q}' for side in ('client', 'server') for q in (90, 95, 99)] +
           ['requests_per_second', 'request_errors_total'])


def quantile(values, q):
    """As from a histogram whose buckets are a factor of 1.35 wide; '' without values."""
    if not values:
        return ''
    bins = {}
    for v in values:
        b = math.floor(math.log(max(v, 1e-4)) / BUCKET)
        bins[b] = bins.get(b, 0) + 1
    rank, below = q * len(values), 0
    for b in sorted(bins):
        if below + bins[b] >= rank:
            low, high = math.exp(b * BUCKET), math.exp((b + 1) * BUCKET)
            return repr(low + (high - low) * (rank - below) / bins[b])
        below += bins[b]
    return repr(math.exp((max(bins) + 1) * BUCKET))


class Pod:
    def __init__(self, name, rng):
        self.name, self.count, self.errors = name, 0, 0
        self.memory = rng.uniform(5e7, 4e8)
        self.idle = rng.uniform(0.002, 0.02)
        self.free_at = 0.0
        self.healthy()
        self.clear()

    def healthy(self):
        self.delay, self.busy, self.lock, self.failing, self.leaked = 0.0, 1.0, 0.0, 0.0, 1.0

    def clear(self):
        self.client, self.server, self.cpu = [], [], 0.0


class World:
    """Requests, one by one; times in seconds."""

    def __init__(self, app, seed):
        self.services, self.entry, mix, replicas = APPS[app]
        self.rng = random.Random(f'{app} {seed}')
        self.mix = list(mix), list(mix.values())
        self.pods = {s: [Pod(f'{s}-{i}', self.rng) for i in range(replicas.get(s, 1))] for s in self.services}
        self.all = [p for pods in self.pods.values() for p in pods]
        self.spans, self.ids = None, 0

    def own(self, pod, ms):
        work = 1e-3 * ms * math.exp(self.rng.gauss(0, 0.25))
        if self.rng.random() < 0.01:
            work *= 8  # a pause
        pod.cpu += work
        return work * pod.busy

    def span(self, parent):
        self.ids += 1
        return self.ids if self.spans is not None else parent

    def record(self, span, parent, pod, operation, begin, end):
        if self.spans is not None:
            heapq.heappush(self.spans, (end, self.trace, span, parent, pod.name, operation, begin))

    def serve(self, service, operation, t, parent, pod=None):
        """(end, whether it went well)"""
        pod = pod or self.rng.choice(self.pods[service])
        ms, steps = self.services[service][operation]
        mine, begin, good = self.span(parent), t, True
        pod.count += 1
        t += self.own(pod, ms / 2) + (pod.lock if self.rng.random() < 0.7 else 0)
        if pod.failing and self.rng.random() < pod.failing:
            pod.errors += 1
            good = False
        else:
            for step in steps:
                t, good = self.step(pod, step, t, mine)
                if not good:
                    pod.errors += 1
                    break
            t += self.own(pod, ms / 2)
        pod.server.append(t - begin)
        self.record(mine, parent, pod, operation, begin, t)
        return t, good

    def step(self, pod, step, t, parent):
        if step[0] == 'call':
            return self.call(pod, step[1], step[2], t, parent)
        if step[0] == 'all':
            ends = [self.step(pod, s, t, parent) for s in step[1]]
            return max(e for e, _ in ends), all(g for _, g in ends)
        if step[0] == 'retry':
            for tries in range(TRIES):
                end, good = self.call(pod, step[1], step[2], t, parent, TIMEOUT)
                if good:
                    return end, True
                t = end + 0.01 * 2 ** tries
            return end, False
        return self.send(pod, step[1], step[2], t, parent), True

    def network(self, pod, other):
        return 4e-4 * math.exp(self.rng.gauss(0, 0.3)) + (pod.delay + other.delay) * self.rng.uniform(0.9, 1.1)

    def call(self, pod, service, operation, t, parent, patience=math.inf):
        other, mine = self.rng.choice(self.pods[service]), self.span(parent)
        net = self.network(pod, other)
        queue = 2e-4 * (other.busy ** 2 + pod.busy ** 2) * self.rng.expovariate(1)  # for a processor
        end, good = self.serve(service, operation, t + net / 2 + queue, mine, other)
        end += net / 2
        if end - t > patience:
            end, good = t + patience, False
        pod.client.append(end - t)
        self.record(mine, parent, pod, operation, t, end)
        return end, good

    def send(self, pod, service, operation, t, parent):
        other, mine = self.pods[service][0], self.span(parent)
        end = t + 3e-4 * math.exp(self.rng.gauss(0, 0.2)) + pod.delay
        begin = max(end + self.network(pod, other), other.free_at)
        other.free_at = self.serve(service, operation, begin, mine, other)[0]
        self.record(mine, parent, pod, 'send ' + operation, t, end)
        return end

    def minute(self, t, load, trace):
        """A row: {pod: values}"""
        n = max(1, round(self.rng.gauss(load * REQUESTS, math.sqrt(load * REQUESTS))))
        for p in self.all:
            p.clear()
        before = {p: p.count for p in self.all}
        self.spans = [] if trace else None
        for at in sorted(self.rng.uniform(0, STEP - 2) for _ in range(n)):
            self.ids += 1
            self.trace = self.ids
            operation = self.rng.choices(*self.mix)[0]
            self.serve(self.entry, operation, t + at, 0)
        rows = {}
        for p in self.all:
            count = p.count - before[p]
            cpu = (p.cpu / STEP * p.busy + p.idle * p.busy) * math.exp(self.rng.gauss(0, 0.06))
            p.memory *= math.exp(self.rng.gauss(0, 0.002))
            traffic = 900 * (count + len(p.client)) / STEP * math.exp(self.rng.gauss(0, 0.05))
            rows[p] = [repr(cpu), repr(p.memory * p.leaked), repr(traffic), repr(1.4 * traffic),
                       *(quantile(p.client, q) for q in (0.9, 0.95, 0.99)),
                       *(quantile(p.server, q) for q in (0.9, 0.95, 0.99)), repr(count / STEP), str(p.errors)]
        return rows

    def strike(self, pod, kind, age):
        """Severities are even on a logarithmic scale; drawn at the fault's first row."""
        def even(low, high):
            return math.exp(self.rng.uniform(math.log(low), math.log(high)))
        if kind == 'network_delay':
            pod.delay = pod.delay or even(0.02, 0.3)
        elif kind == 'cpu':
            pod.busy = pod.busy if age else even(1.7, 6)
        elif kind == 'lock':
            pod.lock = pod.lock or even(0.02, 0.3)
        elif kind == 'errors':
            pod.failing = pod.failing or even(0.1, 0.8)
        else:
            pod.leaked *= even(1.05, 1.3)


class App(Day):
    """A day of the application. Its fault-free rows come first."""

    def __init__(self, exe, folder, app, seed, faults=30):
        world = World(app, seed)
        self.exe, self.folder, self.faults, self.seconds = exe, os.path.join(folder, f'{app}-{seed}'), [], 0
        os.makedirs(os.path.join(self.folder, 'metrics'))
        rows, n = {p: [] for p in world.all}, TRAIN + 5 + EVERY * faults
        with open(os.path.join(self.folder, 'spans.csv'), 'w') as f:
            f.write('TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration\n')
            for r in range(n):
                age = (r - TRAIN - 5) % EVERY
                inside = r >= TRAIN + 5
                if inside and age == 0:
                    pod, kind = world.rng.choice(world.all), KINDS[len(self.faults) % len(KINDS)]
                    self.faults.append((T0 + r * STEP + 5, pod.name, kind))
                for p in world.all:
                    if not inside or age >= LASTS:
                        p.healthy()
                if inside and age < LASTS:
                    world.strike(pod, kind, age)
                load = 1 + 0.3 * math.sin(r / 40) + 0.1 * math.sin(r / 7)
                made = world.minute(r * STEP, load, trace=inside and (age < LASTS or age >= EVERY - 2))
                for p, values in made.items():
                    # A row tells of the minute before it.
                    rows[p].append(f'{T0 + (r + 1) * STEP},' + ','.join(values))
                for end, trace, span, parent, name, operation, begin in sorted(world.spans or ()):
                    f.write(f'{trace},{span},{parent or "root"},{name},{operation},{T0 * 10**9 + round(begin * 1e9)},'
                            f'{T0 * 10**9 + round(end * 1e9)},{round((end - begin) * 1e6)}\n')
        for p, lines in rows.items():
            with open(os.path.join(self.folder, 'metrics', p.name + '.csv'), 'w') as f:
                f.write('\n'.join(['TimeStamp,' + ','.join(COLUMNS), *lines]) + '\n')
        self.pods, self.rows = len(rows), n
        split = T0 + TRAIN * STEP
        self.train, self.score = f':{split}', f'{split + 1}:{self.faults[-1][0] + max(WINDOW, SETTLE)}'

    def replay(self, *args, **more):
        return super().replay(*args, spans=os.path.join(self.folder, 'spans.csv'), **more)
