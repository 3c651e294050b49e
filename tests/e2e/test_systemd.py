#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the agent, the collector, the translator and the reporter say to a service manager, and take from it: test_systemd.py SIDELIGHT CASE"""
import ctypes
import os
import shutil
import socket
import sys
import threading
import time

from support import http
from support.flows import needs_bpf, own_network
from support.process import Part, case, check, run_cases, skip, wait_until, workdir
from support.protocol import LIVE, Client, Consumer, Region, the_entry
from support.sidelight import EXE, Agent, Collector
from support.store_server import StoreServer, usual

PERIOD = 1  # seconds between two signs of life at most: half of WATCHDOG_USEC
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
libc = ctypes.CDLL(None, use_errno=True)

if 'HAVE_SYSTEMD=1' not in os.environ.get('SL_FEATURES', 'HAVE_SYSTEMD=1'):
    skip('built without libsystemd')


class Manager:
    """The end of NOTIFY_SOCKET."""

    def __init__(self):
        path = workdir() + '/notify'
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.s.bind(path)
        self.env = {'NOTIFY_SOCKET': path, 'WATCHDOG_USEC': str(2 * PERIOD * 1000000)}

    def heard(self, seconds):
        """Returns all messages that arrive within this time."""
        end, out = time.monotonic() + seconds, []
        while (left := end - time.monotonic()) > 0:
            self.s.settimeout(left)
            try:
                out += self.s.recv(4096).decode().splitlines()
            except TimeoutError:
                break
        return out

    def await_signs(self, count, part):
        wait_until(lambda: self.heard(0.1).count('WATCHDOG=1'), 'READY', part)
        for _ in range(count):
            wait_until(lambda: 'WATCHDOG=1' in self.heard(0.1), 'a sign of life', part)


class StoppedThread:
    """One thread of a process stands still; the others go on."""

    def __init__(self, part, name):
        self.tid = next(int(t) for t in os.listdir(f'/proc/{part.pid}/task') if self.named(part, t) == name)

    @staticmethod
    def named(part, tid):
        with open(f'/proc/{part.pid}/task/{tid}/comm') as f:
            return f.read().strip()

    def __enter__(self):
        if libc.ptrace(PTRACE_SEIZE, self.tid, 0, 0):
            skip(f'this user may not stop a thread: {os.strerror(ctypes.get_errno())}')
        check(libc.ptrace(PTRACE_INTERRUPT, self.tid, 0, 0) == 0, 'PTRACE_INTERRUPT')
        check(os.waitpid(self.tid, WALL)[0] == self.tid, 'the thread stands')
        return self

    def __exit__(self, *_):
        libc.ptrace(PTRACE_DETACH, self.tid, 0, 0)


def falls_silent(manager, part, thread, lives):
    """Notifications stop while one thread is stopped, although the rest of the process runs; then they resume."""
    with StoppedThread(part, thread):
        said = []
        for _ in range(4):
            lives()
            said += manager.heard(PERIOD)
        # One message may be from before.
        check(said.count('WATCHDOG=1') <= 1, f'{thread} stands still, and yet: {said}', part)
    manager.await_signs(1, part)


@case
def watchdog_sees_an_agent_that_stands_still():
    m = Manager()
    with Agent(env=m.env) as agent:
        m.await_signs(2, agent)
        falls_silent(m, agent, 'sidelight-agent', lambda: None)


@case
def watchdog_sees_a_worker_that_stands_still():
    m = Manager()
    with Agent() as agent, Collector([agent], '--workers', '2', env=m.env) as c:
        m.await_signs(2, c)
        for thread in 'worker-1', 'control', 'sidelight-colle':
            falls_silent(m, c, thread, lambda: check('ok' in c.get('/-/healthy'), 'the others go on', c))


@case
def watchdog_sees_a_translator_that_stands_still():
    m, d = Manager(), workdir()
    StoreServer(f'{d}/dta.sock', usual())
    with Part(EXE, 'translate', '--collector', f'unix:{d}/dta.sock', '--listen', '127.0.0.1:0', '--workers', '2', env=m.env) as t:
        t.ready()
        m.await_signs(2, t)
        for thread in 'worker-1', 'sidelight-trans':
            falls_silent(m, t, thread, lambda: None)


@case
def watchdog_sees_a_reporter_that_stands_still():
    needs_bpf()
    own_network()
    m = Manager()
    with Part(EXE, 'report', '--interface', 'lo', '--target', ':40040', '--store', '1', env=m.env) as r:
        r.ready()
        m.await_signs(2, r)
        falls_silent(m, r, 'sidelight-repor', lambda: None)


# ---- sockets ----

START = '''import os, sys
fd = int(sys.argv[1])
os.dup2(fd, 3)
if fd != 3:
    os.close(fd)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')
os.execv(sys.argv[2], sys.argv[2:])'''


def start(listener, *words):
    """A part that gets the socket as from a service manager, which keeps it."""
    return Part(sys.executable, '-c', START, listener.fileno(), EXE, *words, pass_fds=[listener.fileno()])


def listen(family, kind, at):
    s = socket.socket(family, kind)
    s.bind(at)
    s.listen()
    return s


@case
def publishers_wait_while_the_agent_restarts():
    path = workdir() + '/agent.sock'
    with listen(socket.AF_UNIX, socket.SOCK_SEQPACKET, path) as s:
        def agent():
            return start(s, 'agent', '--socket', path, '--no-rest')
        for kill in True, False, True:
            waiting, r, got = Client(path), Region(), []  # connected while there is no agent
            t = threading.Thread(target=lambda: got.append(waiting.publish(r)))
            t.start()
            a = agent()
            a.ready()
            t.join()
            check(got, 'it was admitted', a)
            the_entry(Consumer(path), LIVE)
            a.kill() if kill else a.stop()
            check(os.path.exists(path), 'the file is the manager\'s')
            Client(path).close()  # it listens


@case
def scrapes_wait_while_the_collector_restarts():
    with listen(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', 0)) as s, Agent() as agent:
        at = '127.0.0.1:%d' % s.getsockname()[1]
        for kill in True, False, True:
            got = []
            t = threading.Thread(target=lambda: got.append(http.get(f'http://{at}/-/healthy')))
            t.start()
            c = start(s, 'collect', '--agent', agent.socket, '--listen', at)
            c.ready()
            t.join()
            check(got == ['ok\n'], got, c)
            c.kill() if kill else c.stop()


@case
def a_socket_that_no_option_names_is_refused():
    d = workdir()
    for kind, words in ((socket.SOCK_SEQPACKET, ['agent', '--socket', d + '/other.sock', '--no-rest']),
                        (socket.SOCK_STREAM, ['agent', '--socket', d + '/s', '--no-rest']),
                        (socket.SOCK_STREAM, ['collect', '--agent', d + '/none', '--listen', '127.0.0.1:0'])):
        with listen(socket.AF_UNIX, kind, d + '/s') as s:
            if words[2] == d + '/s':  # the wrong type of socket: another server answers there
                why = 'another agent answers'
            else:
                why = f'the service manager passed the socket {d}/s, but no option uses it'
            p = start(s, *words)
            check(p.wait() == 1 and why in p.logged(), p.logged(), p)
        os.unlink(d + '/s')


@case
def systemd_starts_a_collector_when_it_is_asked():
    if not shutil.which('systemd-socket-activate'):
        skip('no systemd-socket-activate')
    d = workdir()
    with Agent() as agent, Part('systemd-socket-activate', '-l', d + '/http.sock', EXE, 'collect', '--agent',
                                agent.socket, '--listen', f'unix:{d}/http.sock') as p:
        wait_until(lambda: os.path.exists(d + '/http.sock'), 'it listens', p)
        check(http.request_at(f'unix:{d}/http.sock', 'GET', '/api/v1/status')[0] == 200, 'an answer', p)


run_cases()
