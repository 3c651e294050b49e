#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Missing parts of a trace are counted, line by line: a pod that died before its spans were fetched,
a ring that a fast writer overran, a head that lies."""
import signal
import sys

from support.exposition import total
from support.process import Part, check, poll, wait_until, workdir
from support.sidelight import Agent, Collector

sidelight, lossy = sys.argv[1:]
d = workdir()
LINES = 2         # lines of a span with at most one attribute
BURST = 20000     # its ring has room for 128 roots, and for the spans of 85 traces

a = Agent('--grace', '1s', folder=d)
# Without a spread: if some of 128 slow traces after 30 quick ones were learned, the others would count as usual.
c = Collector([a], '--trace-budget', '1', '--trace-bytes', '0', '--trace-slow-spread', '0')


def api(path):
    return c.api(path)


def metrics(name, **labels):
    return total(c.get('/metrics'), 'sidelight_trace_' + name, **labels)


def lost(cause):
    return metrics('lost_total', cause=cause)


def is_listed(pod):
    return any(p['pod'] == pod for p in api('pods')['pods'])


# A pod that died. Its spans were known by their index, but not wanted yet.
root = Part(lossy, f'{d}/agent.sock', 'root')
at_root = root.ready()['traceparent']
db = Part(lossy, f'{d}/agent.sock', 'child', 'db', at_root)
disk = Part(lossy, f'{d}/agent.sock', 'child', 'disk', db.ready()['traceparent'])
disk.ready()
wait_until(lambda: metrics('published_spans_total') == 2 and
            metrics('read_bytes_total', part='index') >= 2 * 64, 'the index was not read', c)
db.stop(signal.SIGKILL)
wait_until(lambda: not is_listed('db'), 'db does not expire', a, c)
root.p.send_signal(signal.SIGUSR1)
trace_id = at_root.split('-')[1]


def kept():
    found = [t for t in api('traces')['traces'] if t['trace_id'] == trace_id]
    return found[0] if found and found[0]['spans_read'] == 2 else None


found = poll(kept)
check(found, f'the trace of a dead pod was not kept: {api("traces")}', c)
one = api('traces/' + trace_id)
check(sorted(s['service'] for s in one['spans']) == ['disk', 'root'], str(one))
# disk's parent was in db: the gap is there to be seen.
check(one['reason'] == 'error' and one['lost_lines'] == LINES and one['orphans'] == 1, str(one))
check(lost('pod_gone') == LINES, f'{lost("pod_gone")} lines of the dead', c)

for p in (root, disk):
    p.stop(signal.SIGKILL)

# A ring that is overrun many times between two looks at it.
roots, spans = metrics('roots_total'), metrics('published_spans_total')
burst = Part(lossy, f'{d}/agent.sock', 'burst', str(BURST))
burst.ready()
wait_until(lambda: metrics('roots_total') == roots + 30,
           lambda: f'{metrics("roots_total") - roots} of 30 roots are read, {lost("roots_overrun")} lost', c, a, burst)
roots, spans = roots + 30, spans + 30
burst.p.send_signal(signal.SIGUSR1)
wait_until(lambda: metrics('published_spans_total') == spans + 3 * BURST, 'spans are missing', c)
# Each root was either seen or is lost, and no root is both.
wait_until(lambda: metrics('roots_total') - roots + lost('roots_overrun') == BURST,
           lambda: f'{metrics("roots_total") - roots} roots, {lost("roots_overrun")} lost', c)
check(lost('roots_overrun') > BURST / 2, 'the ring was not overrun: is it the machine?', c)


def settled():
    """The lines of every trace are all either read or counted as lost, except for traces whose index was overrun, of which only
    the root is known."""
    traces = [t for t in api('traces?limit=10000')['traces'] if t['trace_id'] != trace_id]
    lines = [t['spans_read'] * LINES + t['lost_lines'] for t in traces]
    known = LINES if lost('index_overrun') else 3 * LINES
    # A collector that is starved for longer than a trace lingers counts its root as lost, and reads it afterwards.
    late = [t['spans_read'] == 3 and t['lost_lines'] == LINES for t in traces]
    if len(traces) == metrics('roots_total') - roots and all(known <= n <= 3 * LINES or l for n, l in zip(lines, late)) \
            and sum(t['lost_lines'] for t in traces) == lost('overrun'):
        return traces
    return None


traces = poll(settled)
check(traces, f'{api("traces?limit=3")}, unread {lost("unread")}', c)
overrun = sum(t['lost_lines'] for t in traces)
check(overrun > 0, 'nothing was overrun', c)
check(all(lost(w) == 0 for w in ('unsettled', 'lies', 'unread', 'memory', 'evicted')), c.get('/metrics'), c)
# A publisher that lies about what it wrote is no longer read, and its numbers are in no sum.
published = metrics('published_spans_total')
liar = Part(lossy, f'{d}/agent.sock', 'liar')
liar.ready()
wait_until(lambda: lost('lies') == 1, 'the lie was not noticed', c)
check(published <= metrics('published_spans_total') <= published + 1, 'the lie was added up', c)
print(f'{len(traces)} of {BURST} roots seen, {overrun} lines of their spans overrun')
check(c.stop() == 0 and a.stop() == 0, 'exit codes', a, c)
