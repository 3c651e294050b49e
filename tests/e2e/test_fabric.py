#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host without RDMA is read over TCP: test_fabric.py SIDELIGHT CASE..."""
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

from support.process import check, run_cases, case, wait_until, workdir
from support.sidelight import EXE, Agent, Collector, generate, report

SILENT = 200


def secret(text='between the two of us'):
    path = f'{workdir()}/secret'
    with open(path, 'w') as f:
        f.write(text)
    return path


class Host(Agent):
    def __init__(self, key, *options, port=0, folder=None):
        super().__init__('--fabric', f'tcp::{port}', '--rdma-secret', key, *options, folder=folder)
        self.target = self.ready()['fabric']
        self.port = int(self.target.rsplit(':', 1)[1])


def reader(host, key, *options):
    return Collector([host.target if isinstance(host, Host) else host], '--period', '5ms', '--rdma-secret', key, *options)


def publish(host, updates='700'):
    g = generate(host.socket, '--pods', '9', '--metrics', '20', '--updates', updates, '--kinds',
                 'counter,gauge,histogram', '--service', 'far', '--hold', '1h')
    return g, report(g)['expect']


def of_application(c):
    """Returns the generated series, without the label of the host's reader."""
    return {k: v for k, v in c.series().items() if 'service="far"' in k and not k.startswith('sidelight_')}


def await_values(c, expect):
    for name, want in expect.items():
        c.await_total(name, want, 'service="far"')


@case
def shows_what_a_local_reader_shows():
    key = secret()
    with Host(key) as host:
        g, expect = publish(host)
        with Collector([host], '--period', '5ms') as near, reader(host, key) as far:
            await_values(near, expect)
            await_values(far, expect)
            check(of_application(near) == of_application(far), 'the two differ', near, far)
            check(far.find('sidelight_host_connects_total', 'fabric="tcp"'), 'it is read otherwise', far)

            def cpu():
                return far.total('sidelight_agent_fabric_cpu_seconds_total')
            before = wait_until(cpu, 'the cost of READs is shown', far)
            wait_until(lambda: cpu() > before, 'and grows', far)
            wait_until(lambda: far.total('sidelight_agent_fabric_sent_bytes_total') > 100000, 'as do bytes', far)
        g.stop()


@case
def demands_the_secret_on_both_sides():
    key, other = secret(), secret('of another pair altogether')
    for options, code in ((('--fabric', 'tcp::0'), 2), (('--fabric', 'tcp:nowhere', '--rdma-secret', key), 2),
                          (('--fabric', 'verbs::0', '--rdma-secret', key), 2)):
        p = subprocess.run([EXE, 'agent', '--socket', f'{workdir()}/a', '--no-rest', *options], capture_output=True,
                           text=True, timeout=300)
        check(p.returncode == code and len(p.stderr.splitlines()) == 1, options, p)
    with Host(key) as host, reader(host, key) as c:
        for keys, why in ((('--rdma-secret', other), 'different secret'), ((), 'use --rdma-secret')):
            with Collector([host.target], '--period', '5ms', *keys) as wrong:
                def lines():
                    return [s for s in wrong.err if why in s and 'not authenticated' not in s]
                wait_until(lines, 'the reason is said', wrong)
                check(len(lines()) == 1, 'in one line', wrong)
                check(not wrong.find('sidelight_agent_queue_pairs'), 'nothing is read', wrong)
        wait_until(lambda: c.total('sidelight_agent_rdma_refused_total', 'cause="proof"') >= 2, 'refusals count', c)
    # An agent without a secret is not believed either.
    with Agent('--fabric', 'tcp::0', '--insecure-listen') as open_agent:
        with reader(open_agent.ready()['fabric'], key) as c:
            wait_until(lambda: 'did not prove that it knows the secret' in c.logged(), 'the agent is doubted', c)


@case
def counts_go_on_after_the_agent_is_killed():
    key, folder = secret(), workdir()
    host = Host(key, folder=folder)
    g = generate(host.socket, '--pods', '3', '--metrics', '4', '--updates', '1000000', '--rate', '2000',
                 '--service', 'far')
    with reader(host, key) as c:
        def total():
            return c.total('generated_updates_total', 'service="far"')
        wait_until(total, 'counts come', c)
        host.kill()
        wait_until(lambda: c.total('sidelight_host_up') == 0, 'the loss is seen', c)
        before = total()
        with Host(key, port=host.port, folder=folder) as again:
            wait_until(lambda: c.total('sidelight_host_up') == 1, 'the collector is back', c, again)
            wait_until(lambda: total() > before, 'counts go on', c, again)
        g.kill()


def request(magic=0x31434c53, flags=0):
    return struct.pack('<IIII40x', magic, 1, flags, 0)


def ask(*ranges, count=None):
    """READs of (address, key, bytes)."""
    return struct.pack('<II', 0x31514c53, len(ranges) if count is None else count) + b''.join(
        struct.pack('<QII', *r) for r in ranges)


@case
def hostile_peers_harm_nobody():
    key = secret()
    with Host(key) as host, reader(host, key) as c:
        g, expect = publish(host)
        await_values(c, expect)
        at, before = ('127.0.0.1', host.port), host.descriptors()
        garbage = (b'GET / HTTP/1.1\r\n\r\n', b'\0', b'\xff' * 4096, os.urandom(65536), request()[:9], request()[:-1],
                   request(1), request(), request(flags=1), request(flags=2), request() + b'\xff' * 1000,
                   b'\x16\3\1' + b'\xff' * 5000, b'\x16\3\1\2\0' + bytes(512))
        for sent in garbage * 8:
            with socket.create_connection(at) as s:
                try:
                    s.sendall(sent)
                    s.settimeout(0.05)
                    s.recv(100)
                except OSError:
                    pass
        silent = [socket.create_connection(at) for _ in range(SILENT)]
        # Too many to be waited for: only some stay.
        wait_until(lambda: host.descriptors() <= before + 70, lambda: f'{host.descriptors()} of {before}', host)
        with reader(host, key) as late:
            await_values(late, expect)
        # Those connections are closed as well.
        wait_until(lambda: host.descriptors() <= before + 2, lambda: f'{host.descriptors()} of {before}', host)
        wait_until(lambda: c.total('sidelight_agent_fabric_silent_total') >= SILENT, 'they are counted', c)
        wait_until(lambda: c.total('sidelight_agent_rdma_refused_total', 'cause="malformed"') >= 8, 'so is garbage', c)
        check(c.total('sidelight_host_connects_total') == 1, 'the first reader stayed connected', c)
        for s in silent:
            s.close()
        g.stop()


def cpu_ns(pid):
    """CPU time of all threads."""
    spent = 0
    for task in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{task}/schedstat') as f:
            spent += int(f.read().split()[0])
    return spent


def take(s, n):
    data = b''
    with contextlib.suppress(ConnectionError):
        while len(data) < n and (piece := s.recv(n - len(data))):
            data += piece
    return data


@case
def reads_beyond_memory_are_refused():
    """A host without a secret answers requests in order, however they arrive; anything else ends the connection."""
    with Agent('--fabric', 'tcp::0', '--insecure-listen') as host:
        at = ('127.0.0.1', int(host.ready()['fabric'].rsplit(':', 1)[1]))

        def connect():
            s = socket.create_connection(at, 60)
            s.sendall(request())
            magic, _, _, base, size, key = struct.unpack('<IIQQQI', take(s, 64)[:36])
            check(magic == 0x31484c53, 'it is welcome', host)
            return s, base, size, key

        def answer(s):
            """(errno, ranges or the one that is refused, bytes of all)"""
            head = take(s, 24)
            return None if len(head) < 24 else struct.unpack('<IIIIQ', head)[1:3] + struct.unpack('<Q', head[16:])
        s, base, size, key = connect()
        data = ask((base, key, 64), (base + 8, key, 100)) * 50
        for i in range(0, len(data), 7):
            s.sendall(data[i:i + 7])
        for _ in range(50):
            check(answer(s) == (0, 2, 164), 'an answer', host)
            first, second = take(s, 64), take(s, 100)
            check(first[8:] == second[:56], 'the bytes that were asked for', host)
        # While half an ask is there, the host waits for the rest.
        s.sendall(ask((base, key, 64)) * 9 + ask((base, key, 64))[:12])
        for _ in range(9):
            check(answer(s) == (0, 1, 64) and len(take(s, 64)) == 64, 'an answer', host)
        before = cpu_ns(host.p.pid)
        time.sleep(2)
        check(cpu_ns(host.p.pid) - before < 0.25e9, 'it waits without working', host)
        s.sendall(ask((base, key, 64))[12:])
        check(answer(s) == (0, 1, 64) and len(take(s, 64)) == 64, 'the last answer', host)
        s.sendall(ask(*[(base, key, 65536)] * 256) * 2)  # more than sockets hold: the rest is sent while it is taken
        for _ in range(2):
            check(answer(s) == (0, 256, 2**24) and len(take(s, 2**24)) == 2**24, 'a large answer', host)
        for n, wrong in ((1, (base, key ^ 1, 64)), (0, (base + size, key, 1)), (2, (base + size - 8, key, 9)), (0, (base - 1, key, 1)),
                         (3, (2**64 - 1, key, 2)), (0, (base, key, 2**32 - 1)), (0, (base, key, 0))):
            s, *_ = connect()
            s.sendall(ask(*[(base, key, 8)] * n, wrong))
            check(answer(s) == (13, n, 0) and not take(s, 1), f'{wrong}: EACCES and its end', host)
        for wrong in (ask(), ask(*[(base, key, 8)] * 257), ask((base, key, 8), count=2**32 - 1), b'SLQ2' + bytes(20)):
            s, *_ = connect()
            s.sendall(wrong)
            check(not take(s, 1), f'{wrong[:16]}: its end', host)


@case
def hosts_that_lie_are_left():
    """A host that answers with more, less or other than was asked for is disconnected, with a line."""
    base, size = 4096, 65536
    lies = (struct.pack('<IIIIQ', 0x31414c53, 0, 1, 0, 2**40), struct.pack('<IIIIQ', 0x31414c53, 0, 4000, 0, 64),
            struct.pack('<IIIIQ', 0x31414c53, 0, 0, 0, 0), struct.pack('<IIIIQ', 0x31414c53, 13, 4000, 0, 0),
            struct.pack('<IIIIQ', 0x31414c53, 13, 0, 0, 0), b'HTTP/1.1 400 Bad Request\r\n\r\n', b'')

    def host(listener, lie):
        while True:
            s = listener.accept()[0]
            if take(s, 56) == request():
                s.sendall(struct.pack('<IIQQQIIQ', 0x31484c53, 1, 7, base, size, 5, 0, 0) + bytes(16))
                if take(s, 8)[:4] == b'SLQ1':
                    s.sendall(lie)
            if lie:
                while s.recv(4096):  # until the collector leaves
                    pass
            s.close()
    for lie in lies:
        listener = socket.create_server(('127.0.0.1', 0))
        threading.Thread(target=host, args=(listener, lie), daemon=True).start()
        why = 'closed the connection' if not lie else 'Permission denied' if lie[4:12] == struct.pack('<II', 13, 0) \
            else 'does not match the request'
        with Collector([f'tcp://127.0.0.1:{listener.getsockname()[1]}'], '--period', '5ms') as c:
            # For an unreachable host, only the first reason is logged.
            wait_until(lambda: why in json.dumps(c.api('hosts')), f'{lie}: {why}', c)


class Way:
    """A proxy to the host's port, which buffers hardly more than it is told to pass on. While it is closed, the host's answers
    wait in the host's sockets."""

    def __init__(self, port):
        self.to, self.host_sides, self.open = port, [], threading.Event()
        self.open.set()
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.target = 'tcp://127.0.0.1:%d' % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            reader_side, _ = self.listener.accept()
            self.open.wait()
            host_side = socket.socket()
            host_side.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host_side.connect(('127.0.0.1', self.to))
            self.host_sides.append(host_side)
            threading.Thread(target=self.carry, args=(reader_side, host_side), daemon=True).start()
            threading.Thread(target=self.carry, args=(host_side, reader_side), daemon=True).start()

    def carry(self, source, sink):
        try:
            while source not in self.host_sides or self.open.wait():
                data = source.recv(4096)
                if not data:
                    break
                sink.sendall(data)
        except OSError:
            pass
        self.open.wait()  # a reader that gives up is no end either
        for s in source, sink:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def answers_wait(self):
        with open('/proc/net/tcp') as f:
            rows = [line.split() for line in list(f)[1:]]
        waiting = {(r[1][-4:], r[2][-4:]) for r in rows if not r[4].startswith('00000000:')}
        return any(('%04X' % self.to, '%04X' % s.getsockname()[1]) in waiting for s in self.host_sides)


@case
def a_still_reader_delays_no_other():
    """Its answers wait, also those of memory that is gone."""
    key = secret()
    with Host(key, '--grace', '0', '--lease', '200ms') as host, reader(host, key) as c:
        g, expect = publish(host)
        way = Way(host.port)
        with reader(way.target, key, '--period', '1ms') as still:
            await_values(still, expect)
            way.open.clear()
            try:
                wait_until(way.answers_wait, 'the answers wait', host)
                g.kill()
                wait_until(lambda: c.total('sidelight_agent_freed_total') >= 9, 'the memory is freed', c)
                g, expect = publish(host, '300')
                await_values(c, expect)
            finally:
                way.open.set()
            await_values(still, expect)
        check(c.total('sidelight_host_connects_total') == 1, 'the other one stayed connected', c)
        g.stop()


run_cases(only=sys.argv[2:] or None)
