#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_partition.py SIDELIGHT - three collectors, each in a network namespace of its own, share hosts that all of them reach
(unix sockets, which belong to no network). The link between one and the others is cut, and mended. Their samples go to a real
VictoriaMetrics, which takes those of any order, over links that stay."""
import os
import time

from support.flows import own_network
from support.process import Part, check, output, run, skip, wait_until
from support.sidelight import Agent, Collector, generate
from support.victoria import Victoria, available

NODES, HOSTS, PERIOD = 3, 4, 0.2  # period: seconds


def ip(*words, at=()):
    output(*at, 'ip', *words)


def make_network():
    """This process' namespace has the receiver and a switch; each node a link to either. Nodes as words before a command.
    The end of their last process ends the namespaces."""
    own_network()
    if run('ip', 'link', 'add', 'switch', 'type', 'bridge', code=None).returncode:
        skip('this kernel has no bridge')
    ip('link', 'set', 'switch', 'up')
    nodes = []
    for i in range(NODES):
        p = Part('unshare', '--net', 'sleep', 'infinity')
        wait_until(lambda: os.readlink(f'/proc/{p.pid}/ns/net') != os.readlink('/proc/self/ns/net'), 'a namespace', p)
        at = 'nsenter', f'--net=/proc/{p.pid}/ns/net'
        for name, address, peer in (('store', f'10.99.{i}.2/24', f'store{i}'), ('peers', f'10.98.0.{i + 1}/24', f'peers{i}')):
            ip('link', 'add', peer, 'type', 'veth', 'peer', 'name', name, 'netns', str(p.pid))
            ip('address', 'add', address, 'dev', name, at=at)
            ip('link', 'set', name, 'up', at=at)
            ip('link', 'set', peer, 'up')
        ip('address', 'add', f'10.99.{i}.1/24', 'dev', f'store{i}')
        ip('link', 'set', f'peers{i}', 'master', 'switch')
        nodes.append((p, at))
    return nodes


def up(c):
    return {h['target'] for h in c.api('hosts')['hosts'] if h['condition'] == 'up'}


def disturbed(parts):
    """How often the machine made one stand still, or another see it so; and those that the test caused."""
    return sum(x.total(f'sidelight_discover_{w}_total') for x in parts for w in ('lapses', 'overlaps', 'leaves'))


def times(v, host):
    """Of all samples of the host's counter, in order; it has one series, and does not go back."""
    found = v.samples('generated_updates_total', service=f'of-{host}')
    check(len(found) <= 1, 'a series for each reader', host, found.keys())
    samples = sorted(*found.values()) if found else []
    values = [x for _, x in samples]
    check(values == sorted(values), 'a counter goes back', host, samples)
    return [t / 1000 for t, _ in samples]


def readers(t, begin, end):
    """2 if many samples are close together, as one reader's are not."""
    t = [x for x in t if begin < x < end]
    gaps = [b - a for a, b in zip(t, t[1:])]
    check(gaps, begin, t, end)
    return 2 if sum(g < PERIOD / 2 for g in gaps) > len(gaps) / 4 else 1


class Test:
    def __init__(self, parts, hosts, store):
        self.parts, self.hosts, self.store = parts, hosts, store
        self.alone, self.rest = parts[0], parts[1:]

    def await_readers(self, *groups):
        """Until each group of collectors reads all hosts, and each host once."""
        def shared(c):
            sets = [up(x) for x in c]
            return sum(map(len, sets)) == len(self.hosts) and set().union(*sets) == self.hosts
        wait_until(lambda: all(shared(c) for c in groups), lambda: [up(x) for x in self.parts], *self.parts)

    def samples_say(self, count):
        """As many collectors read each host from now on, for some seconds."""
        begin, before = time.time(), disturbed(self.parts)
        end = begin + 20 * PERIOD
        wait_until(lambda: all(max(times(self.store, i), default=0) > end for i in range(HOSTS)), 'samples', *self.parts)
        for i in range(HOSTS):
            found = readers(times(self.store, i), begin, end)
            check(found == count or disturbed(self.parts) > before, f'{found} readers in place of {count}', i, *self.parts)

    def heal(self):
        """Of two that both believe: one reader again, each counts it, and says it, but for one that has left meanwhile."""
        def noted(c):
            return min(c.total('sidelight_discover_overlaps_total'), c.logged().count('hosts may have been read by both'))

        def left():
            return sum(x.total('sidelight_discover_leaves_total') for x in self.parts)
        before, calm = [noted(c) for c in self.parts], left()
        ip('link', 'set', 'peers0', 'up')
        self.await_readers(self.parts)
        for c, n in zip(self.parts, before):
            others = len(self.rest) if c is self.alone else 1
            wait_until(lambda: noted(c) >= n + others or left() > calm, lambda: f'{noted(c)} overlaps are noted, not {n + others}', c)


def main():
    if not available():
        skip('no victoria-metrics: install the package victoria-metrics')
    nodes = make_network()
    agents = [Agent('--hostname', f'node-{i}') for i in range(HOSTS)]
    pods = [generate(a.socket, '--pods', 1, '--metrics', 1, '--kinds', 'counter', '--rate', 200, '--updates', 1000000, '--service',
                     f'of-{i}') for i, a in enumerate(agents)]
    hosts = [a.socket for a in agents]
    names = [f'10.98.0.{i + 1}:9464' for i in range(NODES)]
    with Victoria(host='0.0.0.0') as store:
        def collect(i):
            c = Collector([], '--discover', ','.join(hosts), '--peers', ','.join(names), '--self', names[i], '--open', '--period',
                          f'{PERIOD}s', '--sample-every', '0', '--remote-write', f'http://10.99.{i}.1:{store.port}/api/v1/write',
                          listen='0.0.0.0:9464', before=nodes[i][1])
            c.url = f'http://10.99.{i}.2:9464'
            return c
        ip('link', 'set', 'peers0', 'down')
        test = Test([collect(i) for i in range(NODES)], set(hosts), store)
        # They start apart.
        test.await_readers([test.alone], test.rest)
        test.heal()
        test.samples_say(1)
        # And one is cut off.
        ip('link', 'set', 'peers0', 'down')
        test.await_readers([test.alone], test.rest)
        test.samples_say(2)
        test.heal()
        test.samples_say(1)
        for c in test.parts:
            lost = {k: n for k, n in c.find('sidelight_push_dropped_total').items() if n}
            check(not lost, 'samples are lost', lost, c)
            check(c.total('sidelight_discover_peer_failures_total', 'cause="timeout"') > 0, 'no failed question', c)
            check(c.stop() == 0, c)
    for p in pods:
        p.kill()
    for p in agents:
        p.stop()
    for p, _ in nodes:
        p.kill()


if __name__ == '__main__':
    main()
