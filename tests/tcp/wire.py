# SPDX-License-Identifier: Apache-2.0
"""A wire between two network namespaces that does to each packet what a test says: pass it on, drop it,
hold it, mark it. Both ends are TUN devices, and this process carries the packets one by one. So losses,
delays and marks are known to the packet, on any kernel, without netem. Also reads captures of tcpdump.

The near end is in the namespace of this process, the far end in one of a child's own."""
import array
import collections
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time

from support import flows
from support.process import Part, fail, skip, wait_until

NEAR, FAR = '10.98.0.1', '10.98.0.2'
MTU = 1500
FIN, SYN, RST, ACK, ECE, CWR = 1, 2, 4, 16, 64, 128


def tun(name, address):
    """A TUN device in this network namespace; its descriptor."""
    fd = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(fd, 0x400454ca, struct.pack('16sH22x', name.encode(), 0x1001))  # TUNSETIFF: TUN, no header
    for args in (('link', 'set', name, 'mtu', MTU, 'up'), ('link', 'set', 'lo', 'up'),
                 ('addr', 'add', f'{address}/24', 'dev', name)):
        subprocess.run(['ip', *map(str, args)], check=True)
    return fd


def patience(name, address, on):
    """See Wire.patient(), of one end."""
    with open('/proc/sys/net/ipv4/tcp_early_retrans', 'w') as f:
        f.write('0' if on else '3')
    subprocess.run(['ip', 'route', 'replace', '10.98.0.0/24', 'dev', name, 'src', address, 'scope', 'link', 'proto', 'kernel',
                    *(('rto_min', '10s') if on else ())], check=True)


def checksum(data):
    words = array.array('H', data + bytes(len(data) % 2))
    words.byteswap()
    total = sum(words)
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Packet:
    """An IPv4 packet with TCP in it."""

    def __init__(self, raw, when=None):
        self.raw, self.when = raw, when
        ip = (raw[0] & 15) * 4
        self.source, self.dest = socket.inet_ntoa(raw[12:16]), socket.inet_ntoa(raw[16:20])
        self.ecn = raw[1] & 3
        self.sport, self.dport, self.seq, self.ack = struct.unpack_from('!HHII', raw, ip)
        self.flags = raw[ip + 13]
        data = ip + (raw[ip + 12] >> 4) * 4
        self.length = struct.unpack_from('!H', raw, 2)[0] - data
        self.end = self.seq + self.length & 0xffffffff

    def elsewhere(self, by):
        """The same with other sequence numbers, with which nothing can be done."""
        raw = bytearray(self.raw)
        ip = (raw[0] & 15) * 4
        struct.pack_into('!I', raw, ip + 4, (self.seq + by) % 2**32)
        raw[ip + 16:ip + 18] = b'\0\0'
        covered = bytes(raw[12:20]) + struct.pack('!HH', 6, len(raw) - ip) + bytes(raw[ip:])
        struct.pack_into('!H', raw, ip + 16, checksum(covered))
        return bytes(raw)

    def marked(self):
        """The same with "congestion experienced"."""
        raw = bytearray(self.raw)
        raw[1] |= 3
        raw[10:12] = b'\0\0'
        struct.pack_into('!H', raw, 10, checksum(bytes(raw[:(raw[0] & 15) * 4])))
        return bytes(raw)


def is_tcp(raw):
    return len(raw) >= 40 and raw[0] >> 4 == 4 and raw[9] == 6


class Wire:
    """rule(far, packet): decides about a packet to the far end, or from there. None: pass it on; otherwise a list of packets to
    send in its place. delay: seconds in each direction. sent_again: data segments whose bytes had been seen before, by their
    sender's address."""

    def __init__(self):
        self.rule, self.delay = None, 0
        self.sent_again = collections.Counter()
        self.newest = {}
        self.held = []
        self.late = collections.deque()  # (time, fd, raw)
        try:
            near = tun('sl-wire0', NEAR)
        except OSError as e:
            skip(f'no TUN device: {e}')
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.child = os.fork()
        if not self.child:
            ours.close()  # so that the end of the other one is seen
            os.close(near)
            self._far_end(theirs)
        theirs.close()
        self.socket = ours
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        self.fds = [near, fds[0]]
        self.wake_read, self.wake_write = os.pipe()
        self.lock = threading.Lock()
        threading.Thread(target=self._carry, daemon=True).start()

    @staticmethod
    def _far_end(control):
        """Creates a namespace and, in it, the requested listeners, whose sockets it passes to the caller."""
        flows.libc.prctl(1, signal.SIGKILL)
        try:
            if flows.libc.unshare(0x40000000):
                os._exit(1)
            socket.send_fds(control, [b'x'], [tun('sl-wire1', FAR)])
            while True:
                what = control.recv(100)
                if what == b'listen':
                    listener = socket.socket()
                    listener.bind((FAR, 0))
                    listener.listen(64)
                    socket.send_fds(control, [b'x'], [listener.fileno()])
                elif what == b'ecn':
                    ecn()
                    control.send(b'x')
                elif what in (b'patient', b'usual'):
                    patience('sl-wire1', FAR, what == b'patient')
                    control.send(b'x')
                else:
                    os._exit(0)
        finally:
            os._exit(1)

    def listen(self):
        """A listening socket at the far end."""
        self.socket.send(b'listen')
        _, fds, _, _ = socket.recv_fds(self.socket, 1, 1)
        return socket.socket(fileno=fds[0])

    def use_ecn(self):
        ecn()
        self.socket.send(b'ecn')
        self.socket.recv(1)

    def patient(self, on=True):
        """Connections from now on send nothing again only because no acknowledgement came for some milliseconds: no
        probe, no timeout before 10 s. This process carries the packets, and may be held up."""
        patience('sl-wire0', NEAR, on)
        self.socket.send(b'patient' if on else b'usual')
        self.socket.recv(1)

    def within(self):
        """Returns the prefix of commands for the far end."""
        return 'nsenter', f'--net=/proc/{self.child}/ns/net'

    def pair(self):
        """A connection from the near end: (client, server)."""
        with self.listen() as listener:
            client = socket.create_connection(listener.getsockname())
            return client, listener.accept()[0]

    def _carry(self):
        while True:
            wait = None
            if self.late:
                wait = max(0, self.late[0][0] - time.monotonic())
            ready = select.select([*self.fds, self.wake_read], [], [], wait)[0]
            if self.wake_read in ready:
                os.read(self.wake_read, 100)
            while self.late and self.late[0][0] <= time.monotonic():
                _, fd, raw = self.late.popleft()
                os.write(fd, raw)
            for i, fd in enumerate(self.fds):
                while fd in ready:
                    try:
                        raw = os.read(fd, 65536)
                    except BlockingIOError:
                        break
                    with self.lock:
                        self._one(i == 0, raw)

    def _one(self, to_far, raw):
        to = self.fds[to_far]
        out = [raw]
        if is_tcp(raw):
            p = Packet(raw)
            if p.length:
                key = p.source, p.sport, p.dport
                newest = self.newest.get(key)
                if newest is not None and (p.end - newest) % 2**32 >= 2**31 or p.end == newest:
                    self.sent_again[p.source] += 1
                else:
                    self.newest[key] = p.end
            changed = self.rule(to_far, p) if self.rule else None
            out = out if changed is None else changed
        for each in out:
            if self.delay:
                self.late.append((time.monotonic() + self.delay, to, each))
            else:
                os.write(to, each)

    def hold(self, p):
        """For a rule: keeps the packet until release()."""
        self.held.append(p.raw)
        return []

    def release(self):
        """Removes the rule; packets that were held go on to the near end."""
        with self.lock:
            self.rule = None
            for raw in self.held:
                os.write(self.fds[0], raw)
            self.held.clear()

    def set(self, rule=None, delay=0):
        with self.lock:
            self.rule, self.delay = rule, delay
        os.write(self.wake_write, b'x')

    def end(self):
        self.socket.close()
        os.waitpid(self.child, 0)


def ecn():
    with open('/proc/sys/net/ipv4/tcp_ecn', 'w') as f:
        f.write('1')


class Capture:
    """tcpdump at one end of the wire."""

    def __init__(self, path, device, *within):
        self.path = path
        self.part = Part(*within, 'tcpdump', '-Z', 'root', '-U', '--immediate-mode', '-n', '-s', '200', '-B', '16384',
                         '--time-stamp-precision=nano', '-i', device, '-w', path, 'tcp')
        wait_until(lambda: any('listening on' in line for line in list(self.part.err)), 'tcpdump listens', self.part)

    def end(self):
        """[Packet], with .when in ns since the epoch."""
        self.part.stop(signal.SIGINT)
        lost = next((line for line in self.part.err if 'dropped by kernel' in line), '0 ')
        if lost.split()[0] != '0':
            fail(f'tcpdump: {lost}')
        with open(self.path, 'rb') as f:
            raw = f.read()
        magic, link = struct.unpack_from('=I', raw)[0], struct.unpack_from('=I', raw, 20)[0]
        if magic != 0xa1b23c4d or link not in (12, 101):
            fail(f'{self.path}: magic {magic:x}, link type {link}')
        at, packets = 24, []
        while at < len(raw):
            seconds, ns, length, _ = struct.unpack_from('=IIII', raw, at)
            at += 16
            if is_tcp(raw[at:at + length]):
                packets.append(Packet(raw[at:at + length], seconds * 10**9 + ns))
            at += length
        return packets
