#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an unprivileged user of the host does to the agent: test_attack.py SIDELIGHT COUNTER CASE"""
import os
import socket
import struct
import subprocess
import sys
import time

from support import http
from support.attacker import STRANGER, Attacker, answers, lingering, nested, unread
from support.process import Part, case, check, run_cases, skip, wait_until
from support.protocol import MAGIC, PUBLISH, Client, Consumer, Refused, Region
from support.sidelight import EXE, Agent, counter

held = []  # descriptors that an attacker keeps open


def public(agent):
    os.chmod(agent.folder, 0o755)
    return agent


def all_are_served(agent):
    """PUBLISH, OPEN, STATUS, REST and SIGTERM of others; a hang is ended by a time-out of a minute."""
    r = Region()
    id, _ = Client(agent.socket).publish(r)
    c = Consumer(agent.socket)
    c.open(id).close()
    c.close()
    agent.status()
    http.get(f'http://{agent.rest}/health')


def send(s, payload, fds):
    """One packet with these descriptors, whatever it is; they are closed here."""
    socket.send_fds(s, [payload], [f if isinstance(f, int) else f.fileno() for f in fds])
    for f in fds:
        os.close(f if isinstance(f, int) else f.detach())


def connection(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(60)
    s.connect(path)
    held.append(s)
    return s


def some_lingering(n):
    fds = []
    for _ in range(n):
        s, peer = lingering()
        held.append(peer)
        fds.append(s)
    return fds


def publish_packet(serial=1):
    return struct.pack('<IHHIIQQ', MAGIC, PUBLISH, 0, 16, serial, 1, 16384)


def attacked(attack):
    with Agent('--grace', '100ms', '--lease', '50ms', rest=True) as agent:
        public(agent)
        before = agent.descriptors()
        all_are_served(agent)
        with Attacker(lambda: attack(agent)):
            time.sleep(0.2)  # the agent takes what was sent
            all_are_served(agent)
            fds = agent.descriptors()
            print(f'{before} descriptors, {fds} attacked')
        wait_until(lambda: agent.descriptors() <= before + 2, 'all descriptors are closed', agent)
    # Part.__exit__() has checked that SIGTERM was heeded


@case
def surplus_descriptors_delay_nobody():
    """One descriptor is expected: what comes with it must not be closed by the agent's loop."""
    def attack(agent):
        for n in (2, 3, 253):
            s = unread(agent.socket)
            held.append(s)
            send(s, publish_packet(), some_lingering(2) + [os.open('/dev/null', os.O_RDONLY)
                                                           for _ in range(n - 2)])
            answers(s)
    attacked(attack)


@case
def a_hung_close_delays_nobody():
    """A descriptor whose close() hangs, and more non-memfds behind it than any queue holds."""
    def attack(agent):
        s = unread(agent.socket)
        held.append(s)
        for _ in range(4):
            a, keep = nested()
            held.append(keep)
            send(s, publish_packet(), [a])
        answers(s)
        for _ in range(100):
            send(connection(agent.socket), publish_packet(), [os.open('/dev/null', os.O_RDONLY)])
    attacked(attack)


@case
def unread_descriptors_delay_nobody():
    """The kernel closes what is unread in a connection that the agent closes."""
    def attack(agent):
        for _ in range(4):
            s = unread(agent.socket)
            held.append(s)
            s.send(b'not a packet')
            for t in some_lingering(4):
                send(s, publish_packet(), [t])
            answers(s)
    attacked(attack)


run_cases(only=sys.argv[3:])
