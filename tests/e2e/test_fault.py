#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fault.py SIDELIGHT EXAMPLES KIND... - a service that breaks is found by its own metrics, is
told of it and told again when it is over: from the injection to its log level; and by a person who clicks on what is red
on the page. The first kind is
injected by 'sidelight demo --fault', the others by hand, as its banner says.

That the analysis finds recorded faults is held without a clock by tests/analyse/test_shop.c. Here the
machine may have no CPU to spare, so a fault counts as tried if its own metric shows that it hit
REQUESTS requests, and as found if an anomaly of those seconds blames a metric that it moves. Of 95 that
were recorded on starved machines none is missed (docs/accuracy.md), so less than one in 30 is, with
a confidence of 95 %: all of TRIES by chance, for one of four kinds, in less than one run of 200,000."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

from fault_page import FaultPage
from support.exposition import total
from support.http import get
from support.process import Part, check, fail, poll, skip, wait_until, workdir

sidelight, examples, *kinds = sys.argv[1:]
SECONDS, TRIES, REQUESTS = 3, 4, 30
# Per fault: metrics that it changes itself and that may be blamed; and its effect on one of them, in requests.
FAULTS = {
    'cpu': (('shop_cpu_seconds', 'http_request_duration_seconds'),
            lambda m: total(m, 'shop_cpu_seconds_total') / 0.002),
    'slow': (('shop_database_duration_seconds', 'http_request_duration_seconds',
              'http_requests_in_flight'),
             lambda m: total(m, 'shop_database_duration_seconds_sum') / 0.02),
    # Error answers are shorter, and the cache keeps the last answers.
    'errors': (('http_requests_total', 'http_response_bytes', 'shop_cache_bytes'),
               lambda m: total(m, 'http_requests_total', code='500')),
    'leak': (('shop_cache_bytes', 'shop_cpu_seconds', 'http_request_duration_seconds'),
             lambda m: total(m, 'shop_cache_bytes') / 32768),
}

if not shutil.which('wrk'):
    skip('wrk is not installed')
demo = Part(sidelight, 'demo', '--examples', examples, '--listen', '127.0.0.1:0', '--shop-listen',
            '127.0.0.1:0', '--period', '10ms', '--warm-up', '60s', '--fault', f'{kinds[0]}@{SECONDS}',
            env={'TMPDIR': tempfile.mkdtemp(dir=workdir())})
ready = demo.ready(180)
page = FaultPage(ready['page'])


def api(path):
    return json.loads(get(ready['page'] + 'api/v1/' + path))


def shop():
    """Returns the shop as the collector sees it: its instance and its last verdict."""
    return next(p for p in api('pods?q=shop-0')['pods'] if p['verdict'])


def anomalies():
    return [a for a in api('anomalies')['anomalies'] if a['pod'] == 'shop-0']


def logged(text):
    """How often the shop wrote that."""
    with open(ready['shop_log']) as f:
        return f.read().count(text)


def quiet():
    """Waits until nothing is wrong and the shop has been told: a fault during an incident would join that incident. If the
    machine itself has changed since the demo learned, the change becomes normal after five minutes."""
    def over():
        return (all(a['end'] for a in anomalies()) and all(i['end'] for i in api('incidents')['incidents']) and
                logged('level is now info') == logged('level is now debug'))
    wait_until(over, lambda: f'does not end: {json.dumps(anomalies()[:1])[:250]}', seconds=400)


class Try:
    """A fault, from before its injection until the rows of its last moment were judged."""

    def __init__(self, kind):
        self.blame, self.hit = FAULTS[kind]
        self.told = logged('level is now debug')
        self.before = self.most = self.hit(get(ready['metrics']))
        self.begin = time.time()

    def inject(self, kind):
        query = f"{ready['shop']}/fault?kind={kind}&seconds={SECONDS}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(query, method='POST'), timeout=300) as answer:
            check(answer.status == 200, f'{kind} was not taken')
        self.end = time.time() + SECONDS

    def within(self):
        """The anomalies of these seconds, however early they began."""
        return [a for a in anomalies() if a['last'] >= self.begin and a['begin'] <= self.end + 1]

    def finding(self):
        """Returns the anomaly that blames a metric which the fault changes."""
        self.most = max(self.most, self.hit(get(ready['metrics'])))
        return next((a for a in self.within()
                     if any(b['metric'].startswith(self.blame) for b in a['blame'])), None)

    def wait(self):
        """The finding, or None when the rows of the fault and a second more have been judged."""
        poll(lambda: self.finding() or shop()['verdict']['time'] > self.end + 1, SECONDS + 60)
        return self.finding()

    def requests(self):
        return self.most - self.before

    def __str__(self):
        course = api(f"scores?instance={shop()['instance']}")
        score = max((s for t, s in zip(course['t'], course['score'])
                     if self.begin - 1 < t < self.end + 1), default=float('nan'))
        blamed = [a['blame'][0]['metric'] for a in self.within() if a['blame']]
        return (f'{self.requests():.0f} requests hit, score {score:.2f} of 1, '
                f'blamed {blamed}, load {os.getloadavg()[0]:.0f}')


def first(kind):
    """The demo injects it by itself, when it has learned."""
    t = Try(kind)
    line = f'fault {kind}: injected'

    def injected():
        if any(o.startswith(line) for o in demo.out):
            return True
        t.told, t.before, t.begin = logged('level is now debug'), t.hit(get(ready['metrics'])), time.time()
        return False
    wait_until(injected, lambda: f'{kind} was not injected: {demo.out[-1:]}', demo, seconds=400)
    t.end = time.time() + SECONDS
    return t


def find(kind, by_demo):
    tried, missed = 0, []
    for _ in range(3 * TRIES):
        if by_demo:
            t = first(kind)
        else:
            quiet()
            t = Try(kind)
            t.inject(kind)
        by_demo = False
        found = t.wait()
        print(f"{kind}: {t}{', found' if found else ''}", flush=True)
        if found:
            return t, found
        # A fault that hardly happened could not be found, and does not count.
        if t.requests() < REQUESTS:
            continue
        tried += 1
        missed.append(f'{t}')
        if tried == TRIES:
            break
    fail(f'{kind} missed {tried} times, {missed[-1]}' if missed else
         f'{kind} never happened: the machine gave the shop no CPU')


def on_top(kind, found):
    """The service stands first where people look, with its anomaly as the cause."""
    def first():
        top = subprocess.run([sidelight, 'top', '--once', '--json', ready['page']], capture_output=True, text=True,
                             timeout=300)
        check(not top.returncode, f'{kind}: top: {top.stderr}')
        return json.loads(top.stdout)['services'][0]
    def is_it():
        s = first()
        a = s['anomaly']
        return s['service'] == 'shop' and s['attention'] >= 50 and a and a['id'] >= found['id'] and a['sentence']
    wait_until(is_it, lambda: f'{kind}: on top is {first()}')


for i, kind in enumerate(kinds):
    t, found = find(kind, not i)
    on_top(kind, found)  # until then, the page leads to the fault before
    page.look(kind, FAULTS[kind][0])
    # The service hears of it, and acts.
    wait_until(lambda: logged('level is now debug') > t.told, lambda: f'{kind}: the shop was not told')
    wait_until(lambda: logged('shop: debug '), lambda: f'{kind}: nothing was logged')
    # Samples from before it are there, as the rounds read them: every 10 ms, or as often as a busy machine lets them.
    history = api(f"history?series={found['instance']}/0&last=60s&points=10000")['series'][0]
    before = sum(t.begin - 6 < at < t.begin - 1 for at in history['t'])
    check(before > 10, f'{kind}: the seconds before it are gone: {before} samples')
    if kind == 'slow':
        # Traces are kept because of the verdict, also of requests that were neither slow nor failed.
        def kept():
            for trace in api('traces?limit=1000')['traces']:
                if trace['reason'] == 'verdict' and trace['service'] == 'shop' and trace['start'] > t.begin - 1:
                    spans = api('traces/' + trace['trace_id'])['spans']
                    if spans and all(s['service'] == 'shop' and s['duration_seconds'] >= 0 for s in spans):
                        return trace
            return None
        wait_until(kept, lambda: f'{kind}: no trace was kept for it')
        # The anomaly names one that can be looked at, be it slow or not.
        named = poll(lambda: next((a['trace'] for a in t.within() if a.get('trace')), None))
        check(named and api('traces/' + named)['spans'], f'{kind}: its trace {named}')
    # It ends, and the service hears of that, too.
    poll(lambda: time.time() > t.end)
    quiet()
    print(f'{kind}: over after {time.time() - t.begin:.0f} s')
wait_until(lambda: any(o.startswith(f'fault {kinds[0]}: found') for o in demo.out), 'it is not printed', demo)
check(demo.stop() == 0, 'the demo ends cleanly', demo)
