#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_fault.py SIDELIGHT EXAMPLES KIND... - a service that breaks is found by its own metrics, is
told of it and told again when it is over: from the injection to its log level. The first kind is
injected by 'sidelight demo --fault', the others by hand, as its banner says."""
import json
import shutil
import sys
import tempfile
import time
import urllib.request

from harness import Part, check, get, skip, until, workdir

sidelight, examples, *kinds = sys.argv[1:]
# What may be blamed: metrics that the fault moves itself.
BLAME = {
    'cpu': ('shop_cpu_seconds', 'http_request_duration_seconds'),
    'slow': ('shop_database_duration_seconds', 'http_request_duration_seconds',
             'http_requests_in_flight'),
    # What it answers is shorter, and the last answers are what it keeps.
    'errors': ('http_requests_total', 'http_response_bytes', 'shop_cache_bytes'),
    'leak': ('shop_cache_bytes', 'shop_cpu_seconds', 'http_request_duration_seconds'),
}

if not shutil.which('wrk'):
    skip('wrk is not installed')
demo = Part(sidelight, 'demo', '--examples', examples, '--listen', '127.0.0.1:0', '--shop-listen',
            '127.0.0.1:0', '--period', '10ms', '--warm-up', '60s', '--fault', f'{kinds[0]}@3',
            env={'TMPDIR': tempfile.mkdtemp(dir=workdir())})
ready = demo.ready(180)


def api(path):
    return json.loads(get(ready['page'] + 'api/v1/' + path))


def logged():
    """Lines that the shop wrote."""
    with open(ready['shop_log']) as f:
        return f.read()


def anomalies(above):
    return [a for a in api('anomalies')['anomalies'] if a['pod'] == 'shop-0' and a['id'] > above]


def traces_of_verdict(since):
    """Kept traces of the shop that are there because of its verdict alone, with their spans."""
    for t in api('traces?limit=1000')['traces']:
        if t['reason'] == 'verdict' and t['service'] == 'shop' and t['start'] > since:
            spans = api('traces/' + t['trace_id'])['spans']
            if spans and all(s['service'] == 'shop' and s['duration_seconds'] >= 0 for s in spans):
                yield t, spans


def inject(kind):
    query = f"{ready['shop']}/fault?kind={kind}&seconds=3"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(query, method='POST'), timeout=20) as answer:
        check(answer.status == 200, f'{kind} was not taken', demo)


def quiet(kind):
    """Waits until nothing is wrong: what breaks during an anomaly joins it, and can't be told from it. If the
    machine itself is no longer as it was when the demo learned, that becomes normal after two minutes."""
    check(until(lambda: all(a['end'] for a in anomalies(0)), 300), f'{kind}: does not end: {anomalies(0)}', demo)
    return max((a['id'] for a in anomalies(0)), default=0)


above, told = 0, 0
for i, kind in enumerate(kinds):
    if i:
        above = quiet(kinds[i - 1])
        told = logged().count('log level is now debug')
        inject(kind)
    else:
        check(until(lambda: any(o.startswith(f'fault {kind}: injected') for o in demo.out), 300),
              'no fault was injected', demo)
    begin = time.time()
    found = until(lambda: anomalies(above), 15)
    if not found:
        # Of 82 that were tried after half the warm-up, on a machine with seven times the load it can carry, one was not.
        print(f'{kind}: again')
        above = quiet(kind)
        inject(kind)
        begin = time.time()
        found = until(lambda: anomalies(above), 15)
    check(found, f'{kind} was not found above {above}: {anomalies(0)}', demo)
    # Detected by what the fault does, in the anomaly that it began or joined.
    names = until(lambda: [b['metric'] for a in anomalies(above) for b in a['blame']
                           if b['metric'].startswith(BLAME[kind])], 10)
    check(names, f'{kind}: blamed {anomalies(above)}', demo)
    print(f'{kind}: {names[0]}, {time.time() - begin:.2f} s')
    # The service hears of it, and acts.
    check(until(lambda: logged().count('log level is now debug') > told, 20),
          f'{kind}: the shop was not told', demo)
    told = logged().count('log level is now debug')
    check(until(lambda: 'shop: debug ' in logged()), 'nothing was logged', demo)
    # Samples from before the fault are there, as the rounds read them: every 10 ms, or as often as a busy machine lets them.
    history = api(f"history?series={found[0]['instance']}/0&last=60s&points=10000")['series'][0]
    before = sum(begin - 6 < t < begin - 1 for t in history['t'])
    check(before > 30, f'{kind}: the seconds before it are gone: {before} samples', demo)
    # Traces are kept because of the verdict, also of requests that were neither slow nor failed.
    if kind == 'slow':
        kept = until(lambda: next(traces_of_verdict(begin - 1), None), 30)
        check(kept, f"{kind}: no trace was kept for it: {api('traces?limit=20')}", demo)
        print(f"{kind}: trace {kept[0]['trace_id']} of {kept[0]['root']}, {len(kept[1])} spans")
        # The anomaly names one that can be looked at, be it slow or not.
        named = until(lambda: next((a['trace'] for a in anomalies(above) if a.get('trace')), None), 30)
        check(named and api('traces/' + named)['spans'], f'{kind}: its trace {named}', demo)
    # It ends, and the service hears of that, too.
    until(lambda: time.time() > begin + 4)
    quiet(kind)
    print(f'{kind}: over after {time.time() - begin:.0f} s')
    check(until(lambda: logged().count('log level is now info') ==
                logged().count('log level is now debug'), 40),
          f'{kind}: the shop was not told that it is over: {logged()[-600:]}', demo)
check(any(o.startswith(f'fault {kinds[0]}: found') for o in demo.out), 'it is not printed', demo)
check(demo.stop() == 0, 'the demo ends cleanly', demo)
