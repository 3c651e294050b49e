#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_flow_events.py SIDELIGHT [TEST]... - drops by their reason, retransmissions, latency and the queue of an interface,
as the kernel reports them: held against what was sent and against the kernel's own counters."""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

from support import flows
from support.flows import needs_bpf, sent_again, tcp_info
from support.process import case, fail, output, run, run_cases, skip, wait_until
from support.reporter import Far, Listener, key_of, reporter

EXE = sys.argv[1]
DROPS, RETRANSMISSIONS, LATENCY, QUEUE = 12, 13, 14, 15
SUBJECTS = {'drops': DROPS, 'retransmissions': RETRANSMISSIONS, 'latency': LATENCY, 'queue': QUEUE}


class Reporter:
    """At the near end of a veth pair; also: {(store, key): value} of what is not a flow."""

    def __init__(self, *subjects, interface='sl-near', more=()):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(('0.0.0.0', 0))
        self.got = Listener(sock)
        self.part, _ = reporter(interface, f':{sock.getsockname()[1]}', '--report',
                                ','.join(f'{s}={SUBJECTS[s]}' for s in subjects), *more)
        if any('cannot report' in line for line in self.part.err):
            skip(f'this kernel cannot: {self.part.err}')
        self.also = self.got.also

    def end(self):
        """Ends it; its counts."""
        self.part.p.send_signal(signal.SIGTERM)
        self.part.wait()
        counts = json.loads(self.part.stdout()[self.part.stdout().index('{'):])
        wait_until(lambda: self.got.reports == counts['reports'], lambda: f'{self.got.reports} of {counts}')
        self.got.stop()
        return counts


def dropped(r, key):
    """{(packets, bytes)} of a flow, one for each reason."""
    return [v for (store, k), v in list(r.also.items()) if store == DROPS and k[:-4] == key]


def total(found):
    return tuple(map(sum, zip(*found))) if found else (0, 0)


@case
def drops_for_each_reason():
    if not shutil.which('nft'):
        skip('nft is not installed (Debian package nftables)')
    with Far() as far:
        r = Reporter('drops')
        # The firewall refuses port 7 as it comes, and port 9 as it leaves; nothing listens at port 8.
        run('nft', '-f', '-', stdin=None, input='''
            table inet sl {
                chain in { type filter hook input priority 0; udp dport 7 drop; };
                chain out { type filter hook output priority 0; udp dport 9 drop; }
            }''')
        wanted = {}
        for family, here, there in far.ADDRESSES:
            header = 28 if family == socket.AF_INET else 48
            s = far.call(lambda: socket.socket(family, socket.SOCK_DGRAM))
            s.bind((there, 0))
            for port, count in (7, 20), (8, 30):
                for _ in range(count):
                    s.sendto(100 * b'x', (here, port))
                wanted[key_of(s, (here, port)), {7: 'NETFILTER_DROP', 8: 'NO_SOCKET'}[port]] = count, count * (100 + header)
            s.close()
            with socket.socket(family, socket.SOCK_DGRAM) as s:
                s.bind((here, 0))
                for _ in range(10):
                    try:
                        s.sendto(50 * b'y', (there, 9))
                    except PermissionError:  # the sender is told of the drop by this error
                        pass
                wanted[key_of(s, (there, 9)), 'NETFILTER_DROP'] = 10, 10 * (50 + header)
        wait_until(lambda: all(dropped(r, key) == [v] for (key, _), v in wanted.items()),
                   lambda: str([(key.hex(), v, dropped(r, key)) for (key, _), v in wanted.items()]), r.part)
        run('nft', 'delete', 'table', 'inet', 'sl')
        numbers = {}
        for (store, key), _ in r.also.items():
            for (flow, reason), _ in wanted.items():
                if key[:-4] == flow:
                    numbers.setdefault(reason, set()).add(key[-4:])
        counts = r.end()
        if any(len(n) != 1 for n in numbers.values()) or numbers['NO_SOCKET'] == numbers['NETFILTER_DROP'] or \
                counts['drops']['NETFILTER_DROP'] != 60 or counts['drops']['NO_SOCKET'] < 60:
            fail(f'{numbers} {counts}')


@case
def sums_that_leave_the_table_are_counted():
    """Each of 900 flows has a drop of its own; the table has room for 512."""
    with Far() as far:
        r = Reporter('drops', more=('--flows', '512'))
        _, here, there = far.ADDRESSES[0]
        open_ones = [far.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(900)]
        for s in open_ones:  # each has a port of its own as long as all are open
            s.bind((there, 0))
            s.sendto(b'x', (here, 8))
        wait_until(lambda: len(r.also) >= 100, lambda: f'{len(r.also)} reported', r.part)
        counts = r.end()
        for s in open_ones:
            s.close()
    # Others than ours may be dropped, too, and the table may forget earlier than it has to.
    if not 900 - 512 <= counts['evicted_events'] <= counts['drops']['NO_SOCKET'] + 100 or counts['drops']['NO_SOCKET'] < 900 or \
            len(r.also) + counts['evicted_events'] < 900:
        fail(f'{len(r.also)} reported, {counts}')


def qdisc(interface):
    return json.loads(output('tc', '-s', '-j', 'qdisc', 'show', 'dev', interface))[0]


@case
def a_queue_and_what_it_drops():
    with Far() as far:
        def shape(verb, rate):
            run('tc', 'qdisc', verb, 'dev', 'sl-near', 'root', 'tbf', 'rate', rate, 'burst', '2000', 'limit', '20000')
        there = far.sockets[0]
        shape('add', '16kbit')
        r = Reporter('drops', 'queue')
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind(('10.77.0.1', 0))
            for _ in range(60):
                s.sendto(958 * b'q', there.getsockname())
            key = key_of(s, there.getsockname())
        place = (QUEUE, struct.pack('>II', 9, socket.if_nametoindex('sl-near')))

        def same():
            q = qdisc('sl-near')
            return q['qlen'] and r.also.get(place) == (q['qlen'], q['backlog'])
        wait_until(same, lambda: f'{qdisc("sl-near")}, reported {r.also.get(place)}', r.part)
        shape('change', '10mbit')
        wait_until(lambda: r.also.get(place) == (0, 0), lambda: f'{r.also.get(place)}', r.part)
        arrived = [0]

        def closes():
            """All packets sent have either arrived or been dropped."""
            try:
                while True:
                    arrived[0] += len(there.recv(2000)) == 958
            except TimeoutError:
                pass
            n = 60 - arrived[0]
            return 0 < n <= qdisc('sl-near')['drops'] and total(dropped(r, key)) == (n, n * 986)
        wait_until(closes, lambda: f'{arrived} arrived, {qdisc("sl-near")}, reported {dropped(r, key)}', r.part)
        run('tc', 'qdisc', 'del', 'dev', 'sl-near', 'root')
        r.end()


@case
def retransmissions_of_a_stream():
    """Through a queue too short for it."""
    with Far() as far:
        for family, _, there in far.ADDRESSES:
            run('tc', 'qdisc', 'add', 'dev', 'sl-near', 'root', 'tbf', 'rate', '50mbit', 'burst', '5000', 'limit', '12000')
            r = Reporter('retransmissions')
            before = sent_again()
            listener = far.call(lambda: socket.socket(family))
            listener.bind((there, 0))
            listener.listen()
            c = socket.create_connection(listener.getsockname()[:2])
            s, _ = listener.accept()
            flows.transfer(c, s, 3 << 20)
            key = (RETRANSMISSIONS, key_of(c, listener.getsockname(), 6))
            for one in (c, s):
                one.shutdown(socket.SHUT_WR)
            wait_until(lambda: tcp_info(c)['state'] not in (1, 4, 5), 'the end is acknowledged')  # no FIN is on its way
            resent = tcp_info(c)['bytes_retrans']
            for one in (c, s, listener):
                one.close()

            def same():
                n = sent_again() - before
                return n and r.also.get(key) == (n, resent)
            wait_until(same, lambda: f'{sent_again() - before} sent again, {resent} bytes, reported {r.also}', r.part)
            r.end()
            run('tc', 'qdisc', 'del', 'dev', 'sl-near', 'root')


@case
def latency_of_a_connection():
    with Far() as far:
        r = Reporter('latency')
        for family, _, there in far.ADDRESSES:
            listener = far.call(lambda: socket.socket(family))
            listener.bind((there, 0))
            listener.listen()
            began = time.monotonic()
            c = socket.create_connection(listener.getsockname()[:2])
            connected_us = (time.monotonic() - began) * 1e6
            s, _ = listener.accept()
            key = (LATENCY, key_of(c, listener.getsockname(), 6))
            known = set()

            def said():
                """Sends a message that is acknowledged: the report contains the values that the socket had before."""
                info = tcp_info(c)
                known.add(info['rtt'])
                least = info['min_rtt']
                c.sendall(b'm')
                flows.receive(s, 1)
                wait_until(lambda: not tcp_info(c)['unacked'], 'not acknowledged')
                a, b = r.also.get(key, (0, 0))
                return a >> 32 in known and a & 0xffffffff == least and 0 < b >> 32 <= connected_us and not b & 0xffffffff
            wait_until(said, lambda: f'{r.also.get(key)}, known {known}, connected in {connected_us} us', r.part)
            for one in (c, s, listener):
                one.close()
        r.end()


@case
def wrong_options():
    for wrong in 'drops', 'drops=x', 'drops=1,drops=2', 'flows=1', 'drops=70000', 300 * 'x':
        q = subprocess.run([EXE, 'report', '--interface', 'lo', '--target', ':40040', '--report', wrong],
                           capture_output=True, text=True, timeout=300)
        if q.returncode != 2 or '--report' not in q.stderr:
            fail(f'{wrong}: exit {q.returncode} {q.stderr}')


needs_bpf()
flows.own_network()
run_cases()
