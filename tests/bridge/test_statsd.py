#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Updates of StatsD are exact, or counted as lost. test_statsd.py SIDELIGHT CASE"""
import os
import resource
import socket
import struct
import sys

from bridge import Bridged, count, worker
from support.process import SCALE, case, check, run_cases, skip, wait_until, workdir
from support.sidelight import Collector


@case
def statsd_updates_are_exact_or_counted_as_lost():
    sys.path.append('/usr/lib/python3/dist-packages')  # whichever Python runs this
    try:
        import statsd
    except ImportError:
        skip('no python3-statsd')
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    with Bridged('--statsd', f'127.0.0.1:{port}') as agent, Collector([agent], '--period', '50ms') as collector:
        wait_until(lambda: collector.find('sidelight_bridge_statsd_packets_total'), 'StatsD', collector, agent)
        c = statsd.StatsClient('127.0.0.1', port)
        n = int(100_000 * SCALE)  # 10^6 in a soak test
        for _ in range(n):
            c.incr('a.total')
        with c.pipeline() as pipe:
            for i in range(1000):
                pipe.timing('wait', 250)
                pipe.gauge('level', i)

        def all_counted():
            c.incr('last')  # the kernel reports with each packet how many it dropped before
            return collector.total('a_total') + count(collector, 'statsd_dropped') >= n
        wait_until(all_counted, lambda: (collector.total('a_total'), count(collector, 'statsd_dropped')), collector, agent)
        check(collector.total('a_total') + count(collector, 'statsd_dropped') <= n + 100, 'counted twice')
        check(count(collector, 'statsd_malformed') == 0)


@case
def statsd_by_a_unix_socket_loses_nothing():
    folder = workdir()
    with Bridged('--statsd', f'unix:{folder}/statsd.sock') as agent, Collector([agent], '--period', '50ms') as collector:
        wait_until(lambda: os.path.exists(f'{folder}/statsd.sock'), 'the socket', agent)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.connect(f'{folder}/statsd.sock')  # senders wait for room
            for i in range(100000):
                s.send(b'exact:%d|c|#env:test,x\nset:%d|s' % (i, i % 100))
        wait_until(lambda: collector.total('exact_total', 'env="test"', 'x="true"') == sum(range(100000)),
                   lambda: collector.find('exact_total'), collector, agent)
        wait_until(lambda: count(collector, 'statsd_lines') == 200000, collector)
        check(count(collector, 'statsd_packets') == 100000)


@case
def statsd_over_connections_loses_nothing():
    folder = workdir()
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        at = s.getsockname()
    with open(f'{folder}/map.yaml', 'w') as f:
        f.write('mappings:\n- {match: "part.*", name: parts, labels: {n: $1}}\n')
    with Bridged('--statsd', f'tcp:127.0.0.1:{at[1]}', '--statsd', f'unix-stream:{folder}/stream.sock', '--statsd-dialect', 'dogstatsd',
                 '--statsd-mapping', f'{folder}/map.yaml') as agent, Collector([agent], '--period', '50ms') as collector:
        wait_until(lambda: os.path.exists(f'{folder}/stream.sock'), 'the socket', agent)
        n = 20000
        lines = b''.join(b'part.%d:%d|c\n' % (i % 3, i) for i in range(n))
        with socket.create_connection(at) as s:
            # Lines that are cut anywhere, and the last without a newline.
            for i in range(0, len(lines), 997):
                s.sendall(lines[i:i + 997])
            s.sendall(b'last:-5|g')
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f'{folder}/stream.sock')
            for i in range(n):
                packet = b'packed:%d|c\npacked:1|c' % i
                s.sendall(struct.pack('<I', len(packet)) + packet)
        whole = n * (n - 1) // 2
        wait_until(lambda: (collector.total('parts_total'), collector.total('packed_total'), collector.total('last')) ==
                   (whole, whole + n, -5), lambda: collector.find('parts_total'), collector, agent)
        check(len(collector.find('parts_total')) == 3)
        wait_until(lambda: count(collector, 'statsd_lines') == 3 * n + 1 and count(collector, 'statsd_connections') == 2 and
                   count(collector, 'statsd_packets') == n, lambda: collector.find('sidelight_bridge_statsd'), collector)
        # A message without an end is cut off and counted.
        for beginning in b'x' * 70000, struct.pack('<I', 70000 & 0xffff) + b'x' * 10, b'half a packet\nand a line without a type':
            with socket.create_connection(at) as s:
                try:
                    s.sendall(beginning)
                except OSError:
                    pass
        wait_until(lambda: count(collector, 'statsd_truncated') == 2 and count(collector, 'statsd_malformed') == 2,
                   lambda: collector.find('sidelight_bridge_statsd'), collector)


@case
def statsd_idle_connections_shut_nobody_out():
    folder = workdir()
    with Bridged('--statsd', f'unix-stream:{folder}/stream.sock') as agent, Collector([agent], '--period', '50ms') as collector:
        wait_until(lambda: os.path.exists(f'{folder}/stream.sock'), 'the socket', agent)

        def connect():
            s = socket.socket(socket.AF_UNIX)
            s.connect(f'{folder}/stream.sock')
            return s

        def connected(n):
            wait_until(lambda: count(collector, 'statsd_connections') == n, lambda: collector.find('sidelight_bridge_statsd'), collector)
        busy = connect()
        idle = [connect() for _ in range(255)]
        connected(256)
        busy.sendall(b'busy:1|c\n')
        wait_until(lambda: collector.total('busy_total') == 1, 'a line', collector)
        # There are 256 connections. To admit another one, the oldest connection that sends nothing is closed.
        other = connect()
        other.sendall(b'other:1|c\n')
        wait_until(lambda: collector.total('other_total') == 1, 'the newcomer', collector, agent)
        check(idle[0].recv(1) == b'' and count(collector, 'statsd_refused_connections') == 1)
        busy.sendall(b'busy:1|c\n')
        wait_until(lambda: collector.total('busy_total') == 2, 'a connection in use', collector)
        for s in busy, other, *idle:
            s.close()
        # Without a free descriptor, a connection waits until there is one.
        pid, limit = worker(agent), resource.prlimit(worker(agent), resource.RLIMIT_NOFILE)
        wait_until(lambda: len(os.listdir(f'/proc/{pid}/fd')) < 200, 'the descriptors', agent)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(int(fd) for fd in os.listdir(f'/proc/{pid}/fd')), limit[1]))
        late = connect()
        late.sendall(b'late:1|c\n')
        wait_until(lambda: 'a connection has to wait error=Too many open files' in '\n'.join(agent.err), 'the log', agent)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
        wait_until(lambda: collector.total('late_total') == 1, 'the connection that waited', collector, agent)


run_cases(only=sys.argv[2:])
