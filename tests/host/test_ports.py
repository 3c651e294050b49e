#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A port unlike the same port of other hosts is an incident. test_ports.py SIDELIGHT HOST_AT CASE"""
import contextlib
import sys

from scene import put_files, rdma_files
from support.process import case, check, run_cases, wait_until, workdir
from support.sidelight import Agent, Collector, Pod

HOSTS, FAST, SLOW = 4, '100 Gb/sec (4X EDR)', '25 Gb/sec (1X EDR)'


class Cluster:
    """Hosts node-0, node-1, ..., each with two ports, and a collector that analyses them."""

    def __init__(self, stack):
        folder = workdir()
        self.roots = [f'{folder}/{i}' for i in range(HOSTS)]
        for root in self.roots:
            for port in (1, 2):
                put_files(root, rdma_files('mlx5_0', port, FAST))
        agents = [stack.enter_context(Agent('--hostname', f'node-{i}')) for i in range(HOSTS)]
        self.collector = stack.enter_context(Collector(agents, '--analyse'))
        self.pods = [Pod(sys.argv[2], root, a.socket) for root, a in zip(self.roots, agents)]
        for p in self.pods:
            stack.callback(p.close)
        self.lost = 5

    def put(self, host, port, file, text):
        put_files(self.roots[host], {f'/sys/class/infiniband/mlx5_0/ports/{port}/{file}': text + '\n'})

    def lose(self, host, port, count):
        self.lost += count
        self.put(host, port, 'hw_counters/out_of_sequence', str(self.lost))

    def incidents(self):
        """Those that are open, after a reading."""
        for p in self.pods:
            p.tell('round')
        return [i for i in self.collector.api('incidents')['incidents'] if not i['end']]

    def named(self, *parts):
        """The open incident whose sentence has these parts, and no port of another host is in one."""
        incidents = self.incidents()
        check(all(parts[0] in i['sentence'] for i in incidents), incidents)
        return next((i for i in incidents if all(part in i['sentence'] for part in parts)), None)


@case
def a_slow_link_is_an_incident_until_it_is_fast():
    with contextlib.ExitStack() as stack:
        c = Cluster(stack)
        c.put(2, 1, 'rate', SLOW)
        i = wait_until(lambda: c.named(
            'the host node-2 has had a slow link at mlx5_0 port 1 since ',
            'is 25 Gb/s (median of its 3 siblings: 100 Gb/s). First, check its cable and its port of the switch: ibstat mlx5_0 1.'),
                       c.incidents, c.collector, every=0.5)
        c.put(2, 1, 'rate', FAST)
        wait_until(lambda: not c.incidents(), c.incidents, c.collector, every=0.5)
        ended = next(x for x in c.collector.api('incidents')['incidents'] if x['id'] == i['id'])
        check(ended['sentence'].startswith('the host node-2 had a slow link at mlx5_0 port 1 from '), ended)


@case
def a_port_that_loses_packets_is_an_incident():
    with contextlib.ExitStack() as stack:
        c = Cluster(stack)

        def lost():
            c.lose(1, 2, 40)
            return c.named('the host node-1 has lost packets at mlx5_0 port 2 since ', 'out_of_sequence',
                           'rdma statistic show link mlx5_0/2.')
        # Errors are judged after ten steps of a second, with ten rows each.
        wait_until(lambda: not c.incidents() and c.collector.total('sidelight_analysis_rows_total') > 20 * 10 * HOSTS, 'steps',
                   c.collector, every=0.5)
        wait_until(lost, c.incidents, c.collector, every=0.5)
        wait_until(lambda: not c.incidents(), c.incidents, c.collector, every=0.5)


run_cases(only=sys.argv[3:])
