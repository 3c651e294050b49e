#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slow and failed traces of three services are kept whole and fetched afterwards; the others never
move. The collector is killed in between and finds them again in the rings, and the services do
not wake up for it: a written trace costs them nothing more."""
import json
import os
import signal
import sys
import urllib.error

from support.exposition import total
from support.http import get
from support.process import Part, check, poll, workdir
from support.sidelight import Agent, Collector

sidelight, traffic = sys.argv[1:]
d = workdir()
TRACES = 2000  # the first one that is slow and fails would be number 4849

a = Agent(folder=d)
c = Collector([a])
api = c.url + '/api/v1/traces'


def api_get(path='', **kw):
    return json.loads(get(api + path, **kw))


def refused(path):
    try:
        get(api + path)
    except urllib.error.HTTPError as e:
        return e.code
    return 200


check(api_get()['traces'] == [], 'traces before there are any', c)
t = Part(traffic, f'{d}/agent.sock', str(TRACES), '2000')
made = t.ready()
slow, failed = int(made['slow']), int(made['failed'])


def listed():
    found = api_get('?limit=10000')
    return found if found['roots'] == TRACES and len(found['traces']) >= slow + failed else None


found = poll(listed)
check(found, f'not all traces were seen: {api_get("?limit=3")}', c, t)
by_reason = {}
for trace in found['traces']:
    by_reason.setdefault(trace['reason'], []).append(trace)
    check(trace['reason'] in ('slow', 'error'), f'kept without a reason: {trace}')
check(len(by_reason['error']) == failed and len(by_reason['slow']) == slow,
      f'slow {slow} failed {failed}, kept { {k: len(v) for k, v in by_reason.items()} }', c)
check(len({trace['trace_id'] for trace in found['traces']}) == len(found['traces']), 'one twice')


def whole(trace_id):
    one = api_get('/' + trace_id)
    return one if len(one['spans']) == 6 else None


for trace in found['traces']:
    one = poll(lambda: whole(trace['trace_id']))
    check(one, f'not whole: {api_get("/" + trace["trace_id"])}', c)
    check(one['pods'] == 3 and one['orphans'] == 0 and one['lost_lines'] == 0, str(one))
    spans = {s['name']: s for s in one['spans']}
    check(sorted(s['service'] for s in one['spans']) == ['cart', 'cart', 'db', 'db', 'db', 'front'],
          str(one))
    check(spans['GET /cart']['parent_id'] == '' and one['root'] == 'GET /cart', str(one))
    check(spans['cart.get']['parent_id'] == spans['GET /cart']['span_id'], str(one))
    check(spans['call db']['parent_id'] == spans['cart.get']['span_id'], str(one))
    check(spans['db.query']['parent_id'] == spans['call db']['span_id'], str(one))
    check(spans['row']['parent_id'] == spans['db.query']['span_id'], str(one))
    check(spans['db.query']['attributes'] ==
          {'db.statement': 'SELECT * FROM carts WHERE id = ?', 'db.ratio': 0.25}, str(one))
    i = spans['cart.get']['attributes']['items']
    check((i % 97 == 96) == (spans['db.query']['status'] == 'error') == one['error'], str(one))
    check(i % 50 == 49 or i % 97 == 96, str(one))
    check((i % 50 == 49) == (abs(one['duration_seconds'] - 0.03) < 1e-9), str(one))
    check(spans['db.query']['message'] == ('deadlock' if one['error'] else ''), str(one))

# A search finds the same as looking at each of them, without their spans in the list.
every, spans_of = found['traces'], {x['trace_id']: api_get('/' + x['trace_id'])['spans'] for x in found['traces']}
last = max(every, key=lambda x: x['start'])


def searched(query):
    answer = api_get('?limit=10000&' + query)
    check(answer['matching'] == len(answer['traces']), query, answer['matching'])
    return [x['trace_id'] for x in answer['traces']]


def same(query, wanted):
    wanted = [x['trace_id'] for x in every if wanted(x)]
    check(wanted and sorted(searched(query)) == sorted(wanted), query, len(wanted), len(searched(query)))


same('status=failed', lambda x: x['error'])
same('status=ok&root=get%20/C', lambda x: not x['error'] and 'GET /cart' in x['root'])
same('min_duration=20ms', lambda x: x['duration_seconds'] >= 0.02)
same('service=db', lambda x: any(s['service'] == 'db' for s in spans_of[x['trace_id']]))
same('attribute=db.ratio=0.25', lambda x: any(s['attributes'].get('db.ratio') == 0.25 for s in spans_of[x['trace_id']]))
same('attribute=items=49', lambda x: any(s['attributes'].get('items') == 49 for s in spans_of[x['trace_id']]))
same(f'start={last["start"]:.6f}', lambda x: x['start'] + x['duration_seconds'] >= last['start'])
same(f'end={last["start"] - 0.1:.6f}', lambda x: x['start'] <= last['start'] - 0.1)
for nothing in 'service=none', 'attribute=db.ratio=0.5', 'attribute=items=49x', 'min_duration=1h', 'root=POST':
    check(searched(nothing) == [], nothing)
longest = [x['duration_seconds'] for x in api_get('?sort=duration&limit=10000')['traces']]
check(longest == sorted(longest, reverse=True) and len(longest) == len(every), longest[:5])
few = api_get('?sort=duration&limit=1')
check(len(few['traces']) == 1 and few['matching'] == len(every), few)
for odd in 'status=maybe', 'sort=name', 'min_duration=long', 'attribute=items', 'start=then':
    check(refused('?' + odd) == 400, odd)

# Most of the published lines were never read, and all of them are counted.
text = c.get('/metrics')
check(total(text, 'sidelight_trace_published_spans_total') == int(made['spans']), 'spans', c)
published = total(text, 'sidelight_trace_published_bytes_total')
moved = total(text, 'sidelight_trace_read_bytes_total')
print(f'{moved:.0f} of {published:.0f} bytes moved: '
      + ', '.join(f'{p} {total(text, "sidelight_trace_read_bytes_total", part=p):.0f}'
                  for p in ('heads', 'roots', 'index', 'spans', 'schema')))
check(0 < moved - total(text, 'sidelight_trace_read_bytes_total', part='heads') < published / 2,
      f'{moved} of {published} bytes', c)
check(total(text, 'sidelight_trace_lost_total') == 0, 'something was lost', c)
check(refused('/0') == 400 and refused('/' + 'f' * 32) == 404 and refused('/' + 'F' * 32) == 400,
      'odd ids')


def spent():
    """[nanoseconds on a CPU, times put there] of every thread of the services."""
    threads = []
    for task in sorted(os.listdir(f'/proc/{t.pid}/task')):
        with open(f'/proc/{t.pid}/task/{task}/schedstat') as f:
            ran, _, times = f.read().split()
        threads.append([int(ran), int(times)])
    return threads


def last_slow_is_found():
    found = poll(lambda: next((x for x in api_get('?limit=10000')['traces']
                                if x['trace_id'] == made['slow_id'] and x['spans_read'] == 6), None))
    check(found, 'the last slow trace was not found after a restart', c)


# Another collector finds the traces that are still in the rings, without the help of their publishers.
c.stop(signal.SIGKILL)
before = spent()
c = Collector([a])
api = c.url + '/api/v1/traces'
last_slow_is_found()
# ThreadSanitizer has a thread of its own, which runs now and then.
check(len(before) > 1 and (spent() == before or os.environ.get('SL_TEST_TSAN')), f'the services ran: {before}, {spent()}', t)

# So does one after the pods died.
c.stop(signal.SIGKILL)
t.stop(signal.SIGKILL)
c = Collector([a])
api = c.url + '/api/v1/traces'
last_slow_is_found()

# A list and a trace end when the query's budget is used up.
with Collector([a], '--query-samples', '5') as few:
    api = few.url + '/api/v1/traces'
    for path in '', f'/{made["slow_id"]}':
        check(poll(lambda: refused(path) == 422), f'{path} is not limited', few)
check(c.stop() == 0 and a.stop() == 0, 'exit codes', a, c)
print(f'{len(found["traces"])} traces kept of {TRACES}, fetched after the fact while '
      f'{len(before)} threads of their services slept')
