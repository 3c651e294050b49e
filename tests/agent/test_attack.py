#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an unprivileged user of the host does to the agent: test_attack.py SIDELIGHT COUNTER CASE"""
import ctypes
import errno
import fcntl
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

from support.attacker import STRANGER, Attacker, answers, endless_page, hold_lock, lingering, nested, unread
from support.front import front
from support.http import as_user
from support.process import Part, case, check, run_cases, skip, wait_until
from support.protocol import (CLOSE, CLOSED, DEAD, LIVE, MAGIC, OPEN, PUBLISH, SHRINK_GROW, SUBSCRIBE, Client, Consumer, Refused,
                              Region, consume, total)
from support.sidelight import EXE, Agent, counter

LIBC = ctypes.CDLL(None, use_errno=True)
held = []  # descriptors that an attacker keeps open


def public(agent):
    os.chmod(agent.folder, 0o755)
    return agent


def all_are_served(agent):
    """Checks that PUBLISH, OPEN, STATUS and REST of other clients work. If the agent hangs, a time-out of a minute ends the
    wait."""
    r = Region()
    publisher = Client(agent.socket)
    id, _ = publisher.publish(r)
    c = Consumer(agent.socket)
    c.open(id).close()  # while its publisher is connected, because the region goes with it
    c.close()
    publisher.close()
    agent.status()
    check(agent.ask('GET', '/health')[0] == 200)


def shared_bytes(agent):
    """Shared memory that is mapped into the agent and exists."""
    with open(f'/proc/{agent.pid}/status') as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith('RssShmem'))


def send(s, payload, fds):
    """Sends one packet of any content with these descriptors, and closes them."""
    socket.send_fds(s, [payload], [f if isinstance(f, int) else f.fileno() for f in fds])
    for f in fds:
        os.close(f) if isinstance(f, int) else f.close()


def connection(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(300)
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
            time.sleep(0.2)  # the agent reads the packets
            all_are_served(agent)
            fds = agent.descriptors()
            print(f'{before} descriptors, {fds} attacked')
        wait_until(lambda: agent.descriptors() <= before + 2, 'all descriptors are closed', agent)
    # Part.__exit__() has checked that SIGTERM was heeded


def send_unread(agent, packets):
    """
    Sends (payload, descriptors) on a connection that the agent does not read, so that it has the descriptors' last
    references. It gives such a connection up after 5 s, which a busy machine may take: then with the next.
    """
    for payload, fds in packets:
        held.extend(fds)  # until they are sent, as an error would close them here
    for _ in range(5):
        s = unread(agent.socket)
        held.append(s)
        try:
            for payload, fds in packets:
                socket.send_fds(s, [payload], [f.fileno() for f in fds])
        except (BrokenPipeError, ConnectionResetError):
            continue
        for f in {f for _, fds in packets for f in fds}:
            held.remove(f)
            f.close()
        answers(s)
        return
    raise AssertionError('the agent reads on')


def nothing():
    return open('/dev/null', 'rb', buffering=0)


@case
def surplus_descriptors_delay_nobody():
    """The agent expects one descriptor. It must not close additional ones in its loop."""
    def attack(agent):
        for n in (2, 3, 253):
            send_unread(agent, [(publish_packet(), some_lingering(2) + [nothing() for _ in range(n - 2)])])
    attacked(attack)


@case
def a_hung_close_delays_nobody():
    """A publisher sends a descriptor whose close() hangs, and behind it more descriptors of other kinds than any queue
    holds."""
    def attack(agent):
        pairs = [nested() for _ in range(4)]
        held.extend(pairs)
        send_unread(agent, [(publish_packet(), [a]) for a, _ in pairs])
        for _ in range(100):
            send(connection(agent.socket), publish_packet(), [nothing()])
    attacked(attack)


@case
def unread_descriptors_delay_nobody():
    """When the agent closes a connection, the kernel closes the descriptors in unread packets."""
    def attack(agent):
        for _ in range(4):
            send_unread(agent, [(b'not a packet', [])] + [(publish_packet(), [t]) for t in some_lingering(4)])
    attacked(attack)


def at_front(agent, n):
    """Sends n requests over a unix socket, each with a descriptor whose close() hangs; closes some connections at once."""
    for i in range(n):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(agent.rest.removeprefix('unix:'))
        request = b'GET /health HTTP/1.1\r\nHost: x\r\n' + b'\r\n' * (i % 2)
        send(s, request, some_lingering(1))
        if i % 3:
            held.append(s)
        else:
            s.close()


@case
def rest_descriptors_delay_nobody():
    """Descriptors beside a request, which the kernel closes on the thread that reads its bytes."""
    with Agent(rest=True) as agent:
        public(agent)
        pid = front(agent)
        os.kill(pid, signal.SIGSTOP)  # so that the front holds the last reference to every descriptor
        with Attacker(lambda: at_front(agent, 480)):  # more connections than a single user may have threads for
            os.kill(pid, signal.SIGCONT)
            for _ in range(20):
                check(agent.ask('GET', '/health')[0] == 200)
            for uid in (STRANGER - 1, STRANGER - 2):
                check(as_user(uid, agent.ask, 'GET', '/health')[0] == 200)
            check(front(agent) == pid, agent)
            with open(f'/proc/{pid}/status') as f:
                threads = next(int(line.split()[1]) for line in f if line.startswith('Threads'))
            print(f'{threads} threads of the front')
            check(threads > 100, 'nothing hung')
        # The threads end when their peers are gone.
        wait_until(lambda: len(os.listdir(f'/proc/{pid}/task')) < 16, agent)
        check(as_user(STRANGER, agent.ask, 'GET', '/health')[0] == 200)


@case
def stop_waits_for_no_stranger():
    """The kernel closes the descriptors of connections not yet accepted together with the listener."""
    agent = public(Agent(rest=True))

    def attack():
        at_front(agent, 20)
        for _ in range(60):
            send(connection(agent.socket), publish_packet(), some_lingering(1))
    for pid in (agent.pid, front(agent)):
        os.kill(pid, signal.SIGSTOP)
    with Attacker(attack):
        agent.p.send_signal(signal.SIGTERM)
        os.kill(agent.pid, signal.SIGCONT)
        check(agent.wait(60) == 0, agent)


def open_for_writing(fd, size):
    """Tries what root in a container can do with a read-only descriptor."""
    try:
        again = os.open(f'/proc/self/fd/{fd}', os.O_RDWR)
    except PermissionError:
        os.fchmod(fd, 0o666)  # its owner, where the test is no root
        again = os.open(f'/proc/self/fd/{fd}', os.O_RDWR)
    for write in (lambda: os.pwrite(again, b'x', 8192),
                  lambda: mmap.mmap(again, size).__setitem__(8192, 1)):
        try:
            write()
            raise AssertionError('a consumer wrote')
        except PermissionError:
            pass
    os.close(again)


@case
def consumers_cannot_write_even_as_root():
    with Agent() as agent:
        r, c = Region(), Client(consume(agent.socket))
        _, payload, fd = c.ask(SUBSCRIBE)
        open_for_writing(fd, struct.unpack('<QQ', payload)[1])
        id, _ = Client(agent.socket).publish(r)
        _, payload, fd = c.ask(OPEN, struct.pack('<Q', id))
        open_for_writing(fd, r.size)
        r.line(8192, (77, 0, 0, 0, 0, 0, 0), mixed=True)  # its publisher counts on
        # One that the agent cannot protect is not handed out.
        sealed = Region(seals=SHRINK_GROW | 1)
        id, _ = Client(agent.socket).publish(sealed)
        try:
            c.ask(OPEN, struct.pack('<Q', id))
            raise AssertionError('handed out')
        except Refused as e:
            check(e.error == 1 and 'F_SEAL_SEAL' in e.reason, e)


@case
def last_values_are_repaired_after_a_restart():
    """A region that a consumer has cannot be mapped writable again: a copy is repaired."""
    agent = Agent()
    client, r = Client(agent.socket), Region()
    id, _ = client.publish(r)
    Consumer(agent.socket).open(id).close()
    agent.kill()
    agent = Agent(folder=agent.folder)
    try:
        client = Client(agent.socket)
        id, _ = client.publish(r)
        c = Consumer(agent.socket)
        before = c.entry(r.instance)
        # In the middle of an update: the cell is stored, but the check word is not.
        r.line(8192, (41, 0, 0, 0, 0, 0, 0), mixed=True)
        r.map[8192:8200] = struct.pack('<Q', 42)
        client.close()
        wait_until(lambda: c.entry(r.instance)['state'] == DEAD, agent)
        # The publisher lives on, so that nothing is repaired under it.
        check(agent.status()['counters']['lines_repaired'] == 0)
        again = Client(agent.socket)
        check(again.publish(r)[0] == id)
        pod = counter(agent)
        mine = wait_until(lambda: [e for e in c.entries() if e['state'] == LIVE and e['id'] != id])[0]
        c.open(mine['id']).close()
        agent.kill()
        agent = Agent(folder=agent.folder)
        c = Consumer(agent.socket)
        e = wait_until(lambda: c.entry(mine['instance']))
        sum = int(pod.tell())
        pod.kill()
        wait_until(lambda: c.entry(mine['instance'])['state'] == DEAD, agent)
        check(c.entry(mine['instance'])['generation'] > e['generation'])
        view = c.open(e['id'])
        check(view.line(4096)[4] & 0xff == DEAD, 'the hot line')
        check(total(view)['ticks_total'] >= sum)
        view.close()
    finally:
        agent.stop()


@case
def restart_waits_for_no_stranger():
    """Any user who could read the folder could block a restarting agent for ever by flock()."""
    agent = Agent()
    agent.kill()
    os.chmod(agent.folder, 0o755)
    held.append(os.open(agent.folder, os.O_RDONLY | os.O_DIRECTORY))
    fcntl.flock(held[-1], fcntl.LOCK_EX)
    with Agent(folder=agent.folder) as agent:
        agent.status()
        check(not [f for f in os.listdir(agent.folder) if 'lock' in f], 'a lock is left behind')


@case
def a_squatter_takes_no_instance():
    """An instance that is read from the API, published by another user first or in between."""
    agent = Agent('--grace', '100ms', '--lease', '50ms')
    r = Region()
    public(agent)
    try:
        def attack():
            squat = Region(r.instance)
            s = Client(agent.socket)
            held.extend((squat, s))
            return s.publish(squat)[0]
        with Attacker(attack) as squatter:  # before the victim
            c, victim = Consumer(agent.socket), Client(agent.socket)
            id, _ = victim.publish(r)
            check(c.entry(r.instance)['id'] == id)
            theirs = next(e for e in c.entries() if e['id'] == int(squatter.said))
            check(theirs['instance'] != r.instance and theirs['state'] == LIVE, theirs)
            mine, other = c.tenant(c.entry(r.instance)), c.tenant(theirs)
            check(mine['trusted'] and mine['uid'] == 0 and mine['instance'] == r.instance, mine)
            check(not other['trusted'] and other['uid'] == STRANGER, other)
            check(other['instance'] == r.instance and other['key'] != mine['key'], other)
        # After a restart the victim finds its own, even if another was faster.
        victim.close()
        agent.kill()
        with Agent(folder=agent.folder) as again:
            public(again)
            with Attacker(attack) as squatter:
                v = Client(again.socket)
                id, _ = v.publish(r)
                check(id != int(squatter.said))
                c = Consumer(again.socket)
                check(c.open(id).map[:4096] == r.map[:4096], 'the memory of the victim')
                v.send(CLOSE, struct.pack('<Q', r.instance))
                wait_until(lambda: c.entry(r.instance)['state'] == CLOSED)
                check(next(e for e in c.entries() if e['id'] == int(squatter.said))['state'] == LIVE)
    finally:
        agent.kill()


@case
def one_user_leaves_room_for_others():
    """Regions, memory and connections: two users took it all; now a third and root find theirs."""
    with Agent('--max-regions', '64', '--max-memory', '1M') as agent:
        public(agent)

        def attack(size=None):
            told = []
            for _ in range(400):
                r, s = Region(), Client(agent.socket)
                held.extend((r, s))
                try:
                    s.publish(r)
                except Refused as e:
                    told.append(str(e))
                except OSError:
                    pass  # turned away: too many connections
            check(told, 'nothing was refused')
            return told[0]
        with Attacker(attack) as one, Attacker(attack, STRANGER - 1):
            print(one.said)
            check('its share is' in one.said and '--max-' in one.said, one.said)

            def newcomer():
                r, s = Region(), Client(agent.socket)
                held.extend((r, s))
                return s.publish(r)[0]
            for uid in (STRANGER - 2, STRANGER - 3):
                with Attacker(newcomer, uid):
                    pass
            for _ in range(6):
                check(newcomer())
            n = agent.status()['counters']['refused']
            check(n['quota'] and not n['regions'] and not n['memory'], n)


@case
def holes_cost_the_agent_no_memory():
    """64 regions of 16 MB with one page each: at their publisher's death, the agent repairs them."""
    with Agent('--grace', '60s') as agent:
        public(agent)
        before = shared_bytes(agent)

        def attack():
            for _ in range(16):
                r, s = Region(stripes=4000), Client(agent.socket)
                # The hot line claims that everything is in use.
                r.line(4096, (1, 0, 64, 4000, LIVE, 0, 0))
                held.extend((r, s))
                s.publish(r)
        with Attacker(attack):
            pass
        wait_until(lambda: agent.status()['counters']['dead'] >= 16, agent)
        after = shared_bytes(agent)
        print(f'{before >> 10} kB, {after >> 10} kB')
        check(after - before < 8 << 20, before, after)


def memory(agent):
    """Bytes that are the agent's: its own, and pages of files that are mapped into it."""
    with open(f'/proc/{agent.pid}/status') as f:
        return sum(int(line.split()[1]) << 10 for line in f if line.startswith(('RssShmem', 'VmHWM')))


@case
def schemas_cost_the_agent_no_memory():
    """Schemas of holes, long ones and short ones, when a reader asks for all metrics."""
    with Agent('--grace', '60s', rest=True) as agent:
        public(agent)
        agent.ask('GET', '/metrics')
        before = memory(agent)

        def attack():
            for used in [15 << 20] * 8 + [1 << 20] * 8:
                r, s = Region(schema=used), Client(agent.socket)
                r.line(4096, (1, used, 64, 1, LIVE, time.time_ns(), 0))
                held.extend((r, s))
                s.publish(r)
        with Attacker(attack):
            status, answer = agent.ask('GET', '/metrics')
            after = memory(agent)
        print(f'{before >> 10} kB, {after >> 10} kB')
        check(after - before < 12 << 20, before, after)
        check(status == 200 and sum('fault' in r for r in answer['regions']) == 16, answer)
        check(sum('too long' in r.get('fault', '') for r in answer['regions']) == 8, answer)


def refused_open(consumer, id):
    try:
        consumer.ask(OPEN, struct.pack('<Q', id))
    except Refused as e:
        return e.error
    raise AssertionError(f'region {id} is handed out')


@case
def a_held_lock_delays_nobody():
    """A publisher holds a lock on its memory forever: from before PUBLISH, from after it, or when it sends CLOSE."""
    pages = []
    with Agent('--grace', '60s', rest=True) as agent:
        public(agent)

        def attack():
            ids = []
            for when in ('before', 'after', 'close'):
                r, s = Region(), Client(agent.socket)
                held.extend((r, s))
                if when == 'before':
                    hold_lock(r.fd, pages.pop())
                ids.append(s.publish(r)[0])
                if when != 'before':
                    hold_lock(r.fd, pages.pop())
                if when == 'close':
                    s.send(CLOSE, struct.pack('<Q', r.instance))
            return json.dumps(ids)

        if not endless_page():
            skip('needs root, or vm.unprivileged_userfaultfd=1')
        with Attacker(attack, first=lambda: pages.extend(endless_page() for _ in range(3))) as one:
            ids, c = json.loads(one.said), Consumer(agent.socket)
            wait_until(lambda: [e for e in c.entries() if e['state'] == CLOSED], agent)
            for id in ids:
                check(refused_open(c, id) == errno.EAGAIN, id)
            all_are_served(agent)
        for id in ids:  # the locks ended with their holder
            c.open(id).close()


@case
def a_lease_delays_nobody():
    """open() of a file with a lease waits 45 s for its holder, each time."""
    def attack(agent):
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # what asks for it
        for _ in range(3):
            r = Region()
            os.fchmod(r.fd, 0o755)
            lease = os.open(f'/proc/self/fd/{r.fd}', os.O_RDWR)
            held.extend((r, lease))
            fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            send(connection(agent.socket), struct.pack('<IHHIIQQ', MAGIC, PUBLISH, 0, 16, 1, r.instance, r.size),
                 [os.dup(lease)])
    attacked(attack)


def sendable(fd):
    """Returns whether the kernel can send this descriptor over a socket; it refuses some kinds."""
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with a, b:
        try:
            return socket.send_fds(a, [b'x'], [fd])
        except OSError:
            return 0


def strange():
    """Descriptors of each kind that this kernel gives to a user."""
    def of_number(number, *args):
        fd = LIBC.syscall(number, *args)
        return [fd] if fd >= 0 else []
    fds = [os.pidfd_open(os.getpid()), os.open('/proc/self', os.O_PATH),
           os.dup(os.memfd_create('other')), os.open('/dev/zero', os.O_RDWR), *os.pipe()]
    poll = select.epoll()
    poll.register(fds[-1])
    fds += [os.dup(poll.fileno()), os.eventfd(0)]
    for family, kind in ((socket.AF_VSOCK, socket.SOCK_STREAM), (socket.AF_NETLINK, socket.SOCK_RAW),
                         (socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_STREAM)):
        try:
            s = socket.socket(family, kind)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 250))
            fds.append(s.detach())
        except (OSError, TypeError):
            pass
    for path in ('/dev/fuse', '/dev/userfaultfd', '/dev/ptmx'):
        try:
            fds.append(os.open(path, os.O_RDWR))
        except OSError:
            pass
    for flags in (os.MFD_HUGETLB | os.MFD_ALLOW_SEALING, os.MFD_ALLOW_SEALING):
        try:
            fd = os.memfd_create('huge', flags)
            os.ftruncate(fd, 1 << 30)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SHRINK_GROW)
            fds.append(fd)
        except OSError:
            pass
    ring = ctypes.create_string_buffer(256)
    fds += of_number(425, 8, ring) + of_number(447, 0)  # io_uring_setup, memfd_secret
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    socket.send_fds(a, [b'x'], [a.fileno(), b.fileno()])  # a cycle
    return [fd for fd in fds + [a.detach(), b.detach()] if sendable(fd)]


@case
def strange_descriptors_delay_nobody():
    """First each kind of descriptor with a PUBLISH of its own, then all of them in each of many packets."""
    def attack(agent):
        refused = 0
        for fd in strange():
            s = Client(agent.socket)
            held.append(s)
            try:
                s.ask(PUBLISH, struct.pack('<QQ', 1, 16384), [fd])
            except Refused:
                refused += 1
            os.close(fd)
        kept = strange()
        check(refused == len(kept), f'{refused} of {len(kept)} were refused')
        for _ in range(40):
            c = connection(agent.socket)
            # The connection itself, too.
            send(c, publish_packet(), [os.dup(c.fileno())] + [os.dup(fd) for fd in (kept * 253)[:252]])
        return refused
    attacked(attack)


@case
def spoiled_regions_cost_a_consumer_nothing():
    """Asking for regions that cannot be handed out is no fault of the client."""
    with Agent() as agent:
        public(agent)

        def attack():
            s = Client(agent.socket)
            held.append(s)
            for _ in range(40):
                held.append(Region(seals=SHRINK_GROW | 1))
                id, _ = s.publish(held[-1])
            return id
        with Attacker(attack) as one:
            c, r = Consumer(agent.socket), Region()
            id, _ = Client(agent.socket).publish(r)
            for e in c.entries():
                check(e['id'] == id or refused_open(c, e['id']) == errno.EPERM, e)
            check(len(c.entries()) > 40 and c.open(id).map, one.said)


run_cases(only=sys.argv[3:])
