#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two levels of collectors, of which the first publish series for the second: test_levels.py SIDELIGHT POD CASE..."""
import os
import re
import signal
import sys
import time

from support.process import _cases, case, check, poll, reachable, wait_until
from support.sidelight import EXE, Agent, Collector, Pod

POD = sys.argv[2]
UID = str(os.geteuid())
EVENTS = 'level_events_total'
SUM = 'sum by (namespace, host) (level_work_total)'


class Rack(Agent):
    """The agent beside collectors."""

    def __init__(self, *options, **kw):
        # With this grace, regions would stay in the agent for the whole test.
        super().__init__('--origin-uid', UID, '--grace', '1h', *options, **kw)


class Leaf:
    """A host with its agent and pods, and the collector that reads it."""

    def __init__(self, name, rack, *publish, period='100ms', agent=('--grace', '1h')):
        self.agent = Agent('--hostname', name, *agent)
        self.name, self.rack, self.publish, self.period = name, rack, publish, period
        self.pods, self.collector = [], None
        self.collect()

    def collect(self):
        self.collector = Collector([self.agent], '--period', self.period, '--publish-socket', self.rack.socket,
                                   *(w for s in self.publish for w in ('--publish', s)))

    def pod(self, name, namespace='shop'):
        p = Pod(POD, self.agent.socket, name, namespace)
        wait_until(lambda: p.out == ['0'], 'the pod is ready', p)
        self.pods.append(p)
        return p


def top(*racks, period='100ms', options=()):
    return Collector(racks, '--period', period, *options)


LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


def by_labels(series):
    """Returns the series with unordered labels, because a region sorts the labels of a metric."""
    return {(k.partition('{')[0], frozenset(LABEL.findall(k))): v for k, v in series.items()}


def of_pods(collector, *parts):
    return by_labels({k: v for k, v in collector.series().items()
                      if k.startswith('level_') and all(p in k for p in parts)})


def await_same(collector, leaves, name, *parts):
    """Waits until the top shows the same as the leaves, apart from the order of labels."""
    def all_leaves():
        want = {}
        for leaf in leaves:
            want.update(by_labels(leaf.collector.find(name, *parts)))
        return want

    wait_until(lambda: by_labels(collector.find(name)) == all_leaves() != {},
               lambda: f'{collector.find(name)}, not {all_leaves()}', collector, *[x.collector for x in leaves])


@case
def kills_leave_totals_exact():
    rack = Rack()
    leaves = [Leaf(f'leaf{i}', rack, EVENTS, SUM) for i in range(4)]
    t = top(rack)
    for i, leaf in enumerate(leaves):
        leaf.pod(f'pod-{i}').tell('run')
    seen = {}

    def look():
        """No series ever decreases, also if a process died in between. The sum of a new collector is another series."""
        try:
            now = {**t.find(EVENTS), **t.find('level_work_total')}
        except OSError:
            return {}
        for k, v in now.items():
            check(v >= seen.get(k, 0), f'{k} went back: {seen.get(k)} -> {v}', t)
        seen.update(now)
        return now

    wait_until(lambda: len(look()) == 8, lambda: f'8 series, not {look()}', t, *[x.collector for x in leaves])
    before = sum(v for k, v in look().items() if EVENTS in k)
    check(before > 0, 'nothing was counted yet')

    leaves[0].pods[0].kill()
    time.sleep(0.5)
    look()
    leaves[1].collector.kill()
    wait_until(lambda: not t.find(EVENTS, 'host="leaf1"'), 'the series of a dead leaf end', t)
    leaves[1].collect()
    wait_until(lambda: len(look()) == 8, lambda: f'8 series, not {look()}', t, leaves[1].collector)
    t.kill()
    t = top(rack)
    wait_until(lambda: len(look()) == 8, lambda: f'8 series, not {look()}', t)

    totals = {f'leaf{i}': int(leaf.pods[0].tell('stop')) for i, leaf in enumerate(leaves) if i}
    (dead,) = wait_until(lambda: leaves[0].collector.find(EVENTS), 'the last values of the dead pod').values()
    totals['leaf0'] = dead
    check(dead > 0 and min(totals.values()) > 0, totals)
    await_same(t, leaves, EVENTS)
    for host, want in totals.items():
        for name in (EVENTS, 'level_work_total'):
            wait_until(lambda: t.total(name, f'host="{host}"') == want or look() is None,
                       lambda: f'{name} of {host}: {t.find(name)}, not {want}', t)
    check(sum(t.find('level_work_total').values()) == sum(totals.values()), t.find('level_work_total'))
    return f'{sum(totals.values()):.0f} events'


@case
def keeps_labels_values_and_types():
    """The same is true over a third level."""
    rack, hall = Rack(), Rack()
    selectors = [f'{n}{{namespace="shop"}}' for n in ('level_events_total', 'level_joules_total', 'level_depth',
                                                      'level_ratio', 'level_size_bytes')]
    leaf = Leaf('leaf', rack, *selectors, agent=('--grace', '0'))
    leaf.pod('one').tell('add', 11)
    leaf.pod('two').tell('add', 2 ** 10)
    leaf.pod('other', 'elsewhere').tell('add', 5)
    middle = Collector([rack], '--period', '100ms', '--publish-socket', hall.socket, '--publish',
                       '{__name__=~"level_.*"}')
    t = top(hall)
    for c in (middle, t):
        wait_until(lambda: of_pods(c) == {k: v for k, v in of_pods(leaf.collector, 'namespace="shop"').items()
                                          if 'level_wait' not in k[0] and 'level_work' not in k[0]} != {},
                   lambda: f'{of_pods(c)}, not {of_pods(leaf.collector)}', c, leaf.collector)
    own = [line for line in leaf.collector.get('/metrics').splitlines() if line.startswith('# TYPE level_')
           and 'wait' not in line and 'work' not in line]
    check(own == [line for line in t.get('/metrics').splitlines() if line.startswith('# TYPE level_')], own, t)
    (k,) = t.find('level_depth', 'pod="one"')
    for part in ('namespace="shop"', 'host="leaf"', 'service="level"', f'process="{leaf.pods[0].pid}"'):
        check(part in k, k)
    check('instance' not in k and 'exported' not in k, k)
    # A pod that is gone, and one that is new, with the same name.
    leaf.pods[0].close()
    wait_until(lambda: len(t.find(EVENTS)) == 1, lambda: f'one pod, not {t.find(EVENTS)}', t, middle)
    again = leaf.pod('one')
    again.tell('add', 3)
    wait_until(lambda: t.find(EVENTS, f'process="{again.pid}"'), 'the new pod', t, middle)
    check(list(t.find(EVENTS, f'process="{again.pid}"').values()) == [3], t.find(EVENTS))


@case
def a_dead_leaf_is_stale_within_two_periods():
    """Counted in rounds of the top collector: scrapes of later rounds no longer have the series."""
    rack = Rack()
    leaf = Leaf('leaf', rack, EVENTS, period='1s')
    leaf.pod('one').tell('add', 1)
    t = top(rack, period='1s')
    wait_until(lambda: t.find(EVENTS), 'the series', t, leaf.collector)
    leaf.collector.kill()
    # The connection has hung up; the agent notices this before it answers.
    wait_until(lambda: rack.status()['counters']['dead'] == 1, 'the agent sees the death', rack)
    died = t.total('sidelight_collector_rounds_total')
    gone = 0
    while gone < 3:
        s = t.series()
        rounds = sum(v for k, v in s.items() if k.startswith('sidelight_collector_rounds_total'))
        there = any(k.startswith(EVENTS) for k in s)
        check(not there or rounds <= died + 2, f'still there {rounds - died} rounds later', t)
        gone = 0 if there else gone + 1
        time.sleep(0.1)


@case
def a_leaf_that_stands_still_is_stale():
    rack = Rack()
    leaf = Leaf('leaf', rack, EVENTS)
    leaf.pod('one').tell('add', 1)
    t = top(rack)
    wait_until(lambda: t.find(EVENTS), 'the series', t, leaf.collector)
    os.kill(leaf.collector.pid, signal.SIGSTOP)
    wait_until(lambda: not t.find(EVENTS), 'it is stale', t)
    check(rack.status()['use']['live'] == 1, 'the agent has the region', rack)
    os.kill(leaf.collector.pid, signal.SIGCONT)
    wait_until(lambda: t.find(EVENTS), 'it is back', t, leaf.collector)


@case
def samples_have_the_time_of_level_one():
    """The top reads 20 times as often as the leaf, and has as many samples, of the same times."""
    rack = Rack()
    leaf = Leaf('leaf', rack, EVENTS, period='1s')
    leaf.pod('one').tell('run')
    t = top(rack, period='50ms')

    def times(c):
        (m,) = c.api(f'metrics?q={EVENTS}')['metrics']
        (h,) = c.api(f'history?series={m["id"]}&last=1h&points=10000')['series']
        return h['t']

    wait_until(lambda: t.find(EVENTS), 'the series', t, leaf.collector)
    wait_until(lambda: len(times(t)) >= 5, 'five samples', t, leaf.collector)
    at_top = times(t)

    def missing():
        at_leaf = times(leaf.collector)
        return [a for a in at_top if not any(abs(a - b) < 0.3 for b in at_leaf)]
    wait_until(lambda: not missing(), lambda: f'{missing()} are not in {times(leaf.collector)}', t)
    apart = sorted(b - a for a, b in zip(at_top, at_top[1:]))
    check(apart[len(apart) // 2] > 0.5, f'samples of one time: {at_top}', t)
    # A top that comes later gives the last values the time at which they were read.
    os.kill(leaf.collector.pid, signal.SIGSTOP)
    stopped = time.time()
    time.sleep(1)
    later = top(rack, options=('--stale', '1h'))
    wait_until(lambda: later.find(EVENTS), 'the series', later)
    check(max(times(later)) <= stopped, f'{times(later)} is after {stopped}', later)
    os.kill(leaf.collector.pid, signal.SIGCONT)


@case
def foreign_identity_is_refused():
    """An identity is refused from any user that --origin-uid does not name, including root and the agent's own user."""
    for options in ((), ('--origin-uid', str(int(UID) + 1))):
        rack = Agent(*options)
        leaf = Leaf('leaf', rack, EVENTS)
        leaf.pod('one').tell('add', 1)
        t = top(rack)
        wait_until(lambda: rack.status()['counters']['refused']['identity'], 'a refusal is counted', rack)
        wait_until(lambda: f'cause=identity pid={leaf.collector.pid}' in rack.logged(), 'and logged', rack)
        wait_until(lambda: leaf.collector.total('sidelight_publish_left_out', 'cause="agent"') == 1,
                   'the collector counts what it cannot publish', leaf.collector)
        check('--origin-uid' in leaf.collector.logged(), 'it says what to do', leaf.collector)
        check(not t.find(EVENTS) and rack.status()['use']['live'] == 0, 'nothing is shown', t)
        t.stop()
    if os.geteuid():
        return 'not as another user: only root can be one'
    # An ordinary user is not the one that is named.
    rack = Rack()
    leaf = Leaf('leaf', rack, EVENTS)
    leaf.pod('one').tell('add', 1)
    t = top(rack)
    wait_until(lambda: t.find(EVENTS), 'the named user publishes', t)
    os.chmod(leaf.agent.folder, 0o755)
    os.chmod(rack.folder, 0o755)
    other = Collector(['/dev/null'], '--publish-socket', rack.socket, '--publish', EVENTS,
                      before=('setpriv', '--reuid', '12345', '--clear-groups'), exe=reachable(EXE, 'collect'))
    wait_until(lambda: rack.status()['counters']['refused']['identity'], 'a refusal is counted', rack, other)
    check('cause=identity' in rack.logged() and 'uid=12345' in rack.logged(), 'and logged', rack)
    return None


@case
def sums_are_exact_and_do_not_decrease():
    """Pods end, their last values expire, and a host is away and comes back: each increment counts once."""
    rack = Rack()
    leaf = Leaf('leaf', rack, 'sum by (namespace) (level_events_total)', 'sum by (host) (level_size_bytes)',
                'sum(level_depth)', 'sum by (process) (level_joules_total)', agent=('--grace', '0'))
    pods = [leaf.pod(f'pod-{i}') for i in range(3)]
    for i, p in enumerate(pods):
        p.tell('add', 100 * (i + 1))
    t = top(rack)

    def await_sum(name, want, *parts):
        t.await_total(name, want, *parts)
        check(len(t.find(name, *parts)) == 1, t.find(name, *parts), t)

    own = f'process="{leaf.collector.pid}"'
    await_sum(EVENTS, 600, 'namespace="shop"', own, 'collector="')
    await_sum('level_size_bytes_count', 600, 'host="leaf"')
    await_sum('level_size_bytes_bucket', 240, 'le="1.0"') if t.find('level_size_bytes_bucket', 'le="1.0"') else \
        await_sum('level_size_bytes_bucket', 240, 'le="1"')
    await_sum('level_depth', -600)
    check(len(t.find('level_joules_total')) == 3, t.find('level_joules_total'))
    pods[0].close()
    wait_until(lambda: not leaf.collector.find(EVENTS, 'pod="pod-0"'), 'its values have expired', leaf.collector)
    pods[1].tell('add', 7)
    await_sum(EVENTS, 607, 'namespace="shop"')
    await_sum('level_size_bytes_count', 607)
    await_sum('level_depth', -507)
    # The leaf's agent is away; its publishers count on, and are the same when it is back.
    folder = leaf.agent.folder
    leaf.agent.kill()
    wait_until(lambda: not leaf.collector.find(EVENTS), 'the host is away', leaf.collector)
    wait_until(lambda: not t.find(EVENTS), 'a sum of nothing ends', t)
    pods[2].tell('add', 1)
    leaf.agent = Agent('--hostname', 'leaf', '--grace', '0', folder=folder)
    await_sum(EVENTS, 608, 'namespace="shop"')
    await_sum('level_size_bytes_count', 608)


@case
def nothing_is_left_out_in_silence():
    rack = Rack()
    leaf = Leaf('leaf', rack, EVENTS, '{__name__=~"level_(events|wait).*"}', 'sum(level_work_total)', 'level_work_total',
                '{__name__=~"sidelight_collector_rounds_total"}')
    leaf.pod('one').tell('add', 1)
    c = leaf.collector

    def counts():
        return {re.search('cause="([a-z]+)"', k)[1]: v for k, v in c.find('sidelight_publish_left_out').items()}

    want = {'selector': 2, 'type': 1, 'labels': 0, 'regex': 0, 'own': 1, 'room': 0, 'agent': 0}
    wait_until(lambda: counts() == want, lambda: f'{counts()}, not {want}', c)
    check(c.total('sidelight_publish_series') == 2, c)
    for cause in ('selector', 'type', 'own'):
        check(f'a selected series is not published cause={cause}' in c.logged(), cause, c)
    check(c.logged().count('a selected series is not published') == 3, 'once per cause', c)
    for wrong in ('avg by (a) (x)', 'sum without (a) (x)', 'x[5m]', 'x offset 5m', 'rate(x[1m])', '{', '1'):
        p = Pod(sys.argv[1], 'collect', '--agent', leaf.agent.socket, '--publish', wrong)
        check(p.wait() == 2 and '--publish' in p.logged(), wrong, p)


if __name__ == '__main__':
    for which in sys.argv[3:] or _cases:
        check(which in _cases, f'no such case: {which}')
        begun = time.monotonic()
        print(f'ok   {which} {_cases[which]() or ""} ({time.monotonic() - begun:.1f} s)', flush=True)
