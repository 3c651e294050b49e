#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_live.py BUILD [--faults N] [--quiet-minutes N] [--busy] [--keep DIR] - whether a fault of a running service is
found, as shipped: three shops (examples/shop.c) at 60 requests/s each, an agent, and 'sidelight collect --analyse' with
its defaults. Faults of 5 s come to one shop at a time; then there are minutes without any. An anomaly of a shop that
begins within a fault of its own, or 1 s after it, has found it; each other is a false alarm. --busy: at a load of 8, by as
many busy loops as it takes beside what else runs. --restart: afterwards the collector is started again from its --model,
and as many faults follow; the peer of what is found then is what was found before."""
import argparse
import http.client
import os
import random
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
import bench  # noqa: E402

KINDS = ('slow', 'errors', 'cpu', 'leak')
SECONDS = 5     # of a fault
AFTER = 1       # seconds after a fault in which an anomaly may begin that is still its own
BETWEEN = 12    # seconds from the end of a fault to the next
RATE = 60       # requests per second of a shop
LEARN = 120     # seconds before the first fault; the default warm-up is 60
LOADERS = 4     # connections of a shop


class Load(threading.Thread):
    """A connection that sends requests to a shop, some of them orders."""

    def __init__(self, address, seed):
        super().__init__(daemon=True)
        self.address, self.random, self.done, self.failed = address, random.Random(seed), False, 0

    def run(self):
        due, connection = time.monotonic(), None
        while not self.done:
            due += self.random.expovariate(RATE / LOADERS)
            time.sleep(max(0, due - time.monotonic()))
            due = max(due, time.monotonic() - 1)  # after an outage no more than a second is made up for
            try:
                connection = connection or http.client.HTTPConnection(self.address, timeout=10)
                if self.random.random() < 0.2:
                    connection.request('POST', '/orders', f'product={self.random.randrange(1, 5)}')
                else:
                    connection.request('GET', '/products')
                connection.getresponse().read()
            except OSError:
                self.failed += 1
                connection = None


class Live:
    def __init__(self, build, keep):
        self.exe, self.build = os.path.join(build, 'sidelight'), build
        self.folder, self.keep = bench.workdir(), keep
        self.parts, self.shops, self.load, self.collector = [], [], [], None
        self.socket = self.folder + '/agent.sock'
        self.model = self.folder + '/model'
        self.recording = os.path.join(keep, 'recording') if keep else None

    def start(self, *argv):
        part = bench.Part(*argv)
        self.parts.append(part)
        return part

    def run_system(self):
        self.start(self.exe, 'agent', '--socket', self.socket, '--no-rest').ready()
        for i in range(3):
            shop = self.start('env', f'SIDELIGHT_SOCKET={self.socket}', f'POD_NAME=shop-{i}',
                              os.path.join(self.build, 'examples/shop'), '--listen', '127.0.0.1:0', '--threads', '2', '--faults')
            shop.ready()
            address = next(line for line in shop.out if line.startswith('ready')).split('http://')[1]
            self.shops.append(address)
            self.load += [Load(address, 10 * i + k) for k in range(LOADERS)]
        for l in self.load:
            l.start()
        self.collect()

    def collect(self):
        more = ['--record', self.recording] if self.recording else []
        self.collector = bench.Part(self.exe, 'collect', '--agent', self.socket, '--listen', '127.0.0.1:0', '--analyse',
                                    '--model', self.model, *more)
        self.address = self.collector.ready()['listen']

    def restart(self):
        bench.check(self.collector.stop() == 0, 'the collector failed', self.collector)
        self.collect()

    def inject(self, shop, kind):
        c = http.client.HTTPConnection(self.shops[shop], timeout=10)
        c.request('POST', f'/fault?kind={kind}&seconds={SECONDS}')
        bench.check(c.getresponse().status == 200, f'{kind} was not taken')
        c.close()

    def anomalies(self):
        import json
        return json.loads(bench.get(self.address, '/api/v1/anomalies?max=1000'))['anomalies']

    def end(self):
        for l in self.load:
            l.done = True
        code = self.collector.stop() if self.collector else 0
        for p in reversed(self.parts):
            p.stop()
        bench.check(code == 0, 'the collector failed', self.collector)
        shutil.rmtree(self.folder, ignore_errors=True)


def judge(faults, anomalies, begin, end):
    """[(kind, seconds until found or None)], and the anomalies that are no fault's."""
    found, false, taken = [], [], set()
    for t, pod, kind in faults:
        own = [a for a in anomalies if a['pod'] == pod and t <= a['begin'] <= t + SECONDS + AFTER]
        taken.update(a['id'] for a in own)
        found.append((kind, min(a['begin'] for a in own) - t if own else None))
    for a in anomalies:
        if begin <= a['begin'] <= end and a['id'] not in taken:
            false.append(a)
    return found, false


def inject(live, n, rnd):
    """[(time, pod, kind)] of n faults, one after the other."""
    faults, kinds = [], [KINDS[i % len(KINDS)] for i in range(n)]
    rnd.shuffle(kinds)
    for kind in kinds:
        shop = rnd.randrange(3)
        faults.append((time.time(), f'shop-{shop}', kind))
        live.inject(shop, kind)
        time.sleep(SECONDS + BETWEEN)
    return faults


def share(found):
    """Found within a second."""
    return sum(d is not None and d <= 1 for _, d in found) / max(1, len(found))


def say(suffix, judged, conditions, pod_hours, earlier=None):
    found, false = judged
    by_kind = {k: [d for kind, d in found if kind == k] for k in KINDS}
    delays = sorted(d for _, d in found if d is not None)
    conditions = (f'{conditions}, {len(found)} faults of {SECONDS} s; found of each kind: ' +
                  ', '.join(f'{k} {sum(d is not None for d in v)}/{len(v)}' for k, v in by_kind.items()))
    bench.say('live.found' + suffix, share(found), 'share within 1 s', conditions,
              *(('before the restart', share(earlier[0])) if earlier else ()))
    for name, q in (('p50', 0.5), ('p95', 0.95)):
        if delays:
            bench.say(f'live.delay{suffix}.{name}', bench.quantile(delays, q), 's', conditions, less_is_better=True)
    bench.say('live.falsealarms' + suffix, len(false) / pod_hours, 'per pod and hour',
              f'{conditions}; {len(false)} in {pod_hours:.2f} pod-hours' +
              ''.join(f"; {x['pod']} {(x.get('blame') or [{}])[0].get('metric', '')}" for x in false[:8]), less_is_better=True)


class BusyLoops(threading.Thread):
    """Busy loops, of which as many run as make eight tasks that can run."""
    WANTED = 8

    def __init__(self):
        super().__init__(daemon=True)
        self.loops = [bench.Part(sys.executable, '-c', 'while True: pass') for _ in range(self.WANTED)]
        self.ended = threading.Event()
        self.sum = self.looks = 0
        self.start()

    def run(self):
        running, others = self.WANTED, 0
        while not self.ended.wait(0.5):
            with open('/proc/loadavg') as f:
                now = int(f.read().split()[3].split('/')[0]) - 1  # this thread
            self.sum += now
            self.looks += 1
            others = 0.9 * others + 0.1 * max(now - running, 0)
            running = max(self.WANTED - round(others), 0)
            for i, loop in enumerate(self.loops):
                loop.p.send_signal(signal.SIGCONT if i < running else signal.SIGSTOP)

    def mean(self):
        return self.sum / max(self.looks, 1)

    def end(self):
        self.ended.set()
        self.join()
        for loop in self.loops:
            loop.p.send_signal(signal.SIGCONT)
            loop.stop()


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument('build')
    p.add_argument('--faults', type=int, default=40)
    p.add_argument('--quiet-minutes', type=float, default=5)
    p.add_argument('--busy', action='store_true')
    p.add_argument('--restart', action='store_true')
    p.add_argument('--keep')
    a = p.parse_args()
    live = Live(a.build, a.keep)
    load = BusyLoops() if a.busy else None
    rnd = random.Random(1)
    faults, runs = [], []  # runs: [(judged, pod-hours)]
    conditions = f'3 shops at {RATE} requests/s, defaults'
    try:
        live.run_system()
        time.sleep(LEARN)
        for again in (False, True) if a.restart else (False,):
            if again:
                live.restart()
                time.sleep(5)
            begin = time.time()
            mine = inject(live, a.faults, rnd)
            time.sleep(60 * a.quiet_minutes)
            end = time.time()
            runs.append((judge(mine, live.anomalies(), begin, end), 3 * (end - begin) / 3600))
            faults += mine
    finally:
        if load:
            load.end()
        live.end()
    if load:
        conditions += f', load {load.mean():.1f}'
    if a.keep:
        with open(os.path.join(a.keep, 'faults.csv'), 'w') as f:
            f.write('unix_s,pod,kind\n')
            f.writelines(f'{t:.3f},{pod},{kind}\n' for t, pod, kind in faults)
    busy = '.busy' if a.busy else ''
    if a.restart:
        say('.restart' + busy, runs[1][0], conditions + ', from the model of before', runs[1][1], runs[0][0])
    else:
        say(busy, runs[0][0], conditions, runs[0][1])


main()
