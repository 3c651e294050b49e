#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_flow_gso.py SIDELIGHT [TEST]... - a frame that the kernel coalesced is reported as the packets that it is on the
wire, with the headers of each: held against what arrives where none is coalesced.

  a ── m1   this namespace, which forwards   m2 ── b
       in: coalesced            out: coalesced, and segmented behind"""
import contextlib
import json
import os
import signal
import socket
import struct
import sys
import threading

from support import flows
from support.flows import needs_bpf
from support.process import case, fail, run, run_cases, wait_until
from support.reporter import Listener, Namespace, key_of, reporter

EXE = sys.argv[1]
UDP_SEGMENT = 103
A, B = ('10.78.1.1', 'fd78:1::1'), ('10.78.2.1', 'fd78:2::1')


def mac(name):
    return '02:00:00:00:00:' + {'a': '0a', 'm1': '01', 'm2': '02', 'b': '0b', 'va': '1a', 'vb': '1b'}[name]


class Path:
    def __init__(self, stack):
        self.a, self.b = stack.enter_context(Namespace()), stack.enter_context(Namespace())
        here = run
        for far, name, near, net in ((self.a, 'a', 'm1', 1), (self.b, 'b', 'm2', 2)):
            here('ip', 'link', 'add', near, 'address', mac(near), 'type', 'veth', 'peer', 'name', name, 'address',
                 mac(name), 'netns', str(far.pid))
            stack.callback(here, 'ip', 'link', 'del', near)
            for inside, device, own, other, number in ((here, near, 2, name, 1), (far.run, name, 1, near, 2)):
                inside('ip', 'addr', 'add', f'10.78.{net}.{own}/24', 'dev', device)
                inside('ip', 'addr', 'add', f'fd78:{net}::{own}/64', 'dev', device, 'nodad')
                inside('ip', 'link', 'set', 'dev', device, 'up')
                for address in (f'10.78.{net}.{number}', f'fd78:{net}::{number}'):
                    inside('ip', 'neigh', 'add', address, 'lladdr', mac(other), 'dev', device, 'nud', 'permanent')
            far.run('ip', 'route', 'add', 'default', 'via', f'10.78.{net}.2')
            far.run('ip', 'route', 'add', 'default', 'via', f'fd78:{net}::2')
        here('ip', 'link', 'set', 'dev', 'm2', 'gso_max_segs', '1')  # coalesced packets are segmented there
        for setting in 'ipv4/ip_forward', 'ipv6/conf/all/forwarding':
            with open(f'/proc/sys/net/{setting}', 'w') as f:
                f.write('1')

    def tunnel(self, *kind):
        """10.79.0.1 and .2, within packets between the addresses of a and b."""
        for far, device, own, peer, other, inner in ((self.a, 'va', A[0], B[0], 'vb', 1),
                                                     (self.b, 'vb', B[0], A[0], 'va', 2)):
            far.run('ip', 'link', 'add', device, 'address', mac(device), 'type', *kind, 'remote', peer,
                    *(['local', own] if kind[0] == 'vxlan' else []))
            far.run('ip', 'addr', 'add', f'10.79.0.{inner}/24', 'dev', device)
            far.run('ip', 'link', 'set', 'dev', device, 'up')
            far.run('ip', 'neigh', 'add', f'10.79.0.{3 - inner}', 'lladdr', mac(other), 'dev', device, 'nud',
                    'permanent')


class Wire:
    """Counts the frames that an interface receives: {flow: (packets, bytes)} of IP, outer headers."""

    def __init__(self, space, interface):
        self.sock = space.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        self.sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self.sock.bind((interface, 3))
        self.sock.settimeout(0.1)
        self.seen, self.end, self.most = {}, False, 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        b = bytearray(128)
        while True:
            try:
                n, _, _, at = self.sock.recvmsg_into([b], 0, socket.MSG_TRUNC)
            except TimeoutError:
                if self.end:
                    break
                continue
            if at[2] == socket.PACKET_OUTGOING:
                continue
            if b[12:14] == b'\x08\x00':
                key = bytes(b[26:34]) + bytes(b[34:38]) + bytes(b[23:24])
            elif b[12:14] == b'\x86\xdd':
                key = bytes(b[22:54]) + bytes(b[54:58]) + bytes(b[20:21])
            else:
                continue
            packets, size = self.seen.get(key, (0, 0))
            self.seen[key] = (packets + 1, size + n)
            self.most = max(self.most, n)

    def stop(self):
        """Returns the packets seen; fails if any were missed."""
        self.end = True
        self.thread.join()
        dropped = struct.unpack('II', self.sock.getsockopt(263, 6, 8))[1]  # SOL_PACKET, PACKET_STATISTICS
        self.sock.close()
        if dropped or self.most > 1514:
            fail(f'{dropped} frames were missed, and the longest has {self.most} bytes')
        return self.seen


def bulk(path, family, address, count=int(os.environ.get('SL_BULK', 4 << 20))):
    """A TCP transfer from a to b. Its key."""
    listener = path.b.call(lambda: socket.socket(family))
    listener.bind((address, 0))
    listener.listen()
    c = path.a.call(lambda: socket.socket(family))
    c.settimeout(60)
    c.connect(listener.getsockname())
    s, _ = listener.accept()
    flows.transfer(c, s, count)
    key = key_of(c, listener.getsockname(), 6)
    for one in (c, s, listener):
        one.close()
    return key


def segmented_datagrams(path):
    r = path.b.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    s = path.a.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    r.bind((B[0], 0))
    s.bind((A[0], 0))
    s.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
    for _ in range(50):
        s.sendto(b'd' * 20500, r.getsockname())  # 20 of 1,000 bytes, and one of 500
    key = key_of(s, r.getsockname())
    s.close()
    r.close()
    return key


def compare(transfers, *options):
    """Both reporters report of each flow what b receives. transfers(path) returns {flow as reported: flows as received},
    later."""
    with contextlib.ExitStack() as stack:
        path = Path(stack)
        wire = Wire(path.b, 'b')
        got, parts = [], []
        for interface, direction in ('m1', 'in'), ('m2', 'out'):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind(('0.0.0.0', 0))
            got.append(Listener(sock))
            parts.append(reporter(interface, f':{sock.getsockname()[1]}', '--direction', direction, *options)[0])
        keys = transfers(path)

        def truth():
            seen = dict(wire.seen)
            return {k: tuple(map(sum, zip(*(seen[w] for w in keys(seen)[k])))) for k in keys(seen)}
        # The last packets may come after the last call.
        wait_until(lambda: truth() and all(g.last.get(k) == v for k, v in truth().items() for g in got),
                   lambda: str([(k.hex(), v, *(g.last.get(k) for g in got)) for k, v in truth().items()]))
        wire.stop()
        packets = sum(v[0] for v in truth().values())
        for p, g in zip(parts, got):
            p.p.send_signal(signal.SIGTERM)
            p.wait()
            g.stop()
            counts = json.loads(p.stdout()[p.stdout().index('{'):])
            if not counts['packets'] < packets / 2:
                fail(f'{packets} packets were not coalesced: {counts}')


@case
def streams_and_datagrams():
    def transfers(path):
        keys = [bulk(path, socket.AF_INET, B[0]), bulk(path, socket.AF_INET6, B[1]), segmented_datagrams(path)]
        return lambda seen: {k: [k] for k in keys if k in seen}
    compare(transfers)


def through_tunnel(port, inner, *kind):
    """Each transfer is reported as the outer flow and as the inner flow."""
    def transfers(path):
        path.tunnel(*kind)
        flow = bulk(path, socket.AF_INET, '10.79.0.2')

        def keys(seen):
            outer = [k for k in list(seen) if k[10:] == struct.pack('>HB', port, 17)]
            # The kernel's own packets in the tunnel have ports of their own.
            return {flow: [max(outer, key=seen.get)]} if inner and outer else {k: [k] for k in outer}
        return keys
    compare(transfers, *(['--inner'] if inner else []))


@case
def within_vxlan():
    for inner in False, True:
        through_tunnel(4789, inner, 'vxlan', 'id', '5', 'dstport', '4789')


@case
def within_geneve():
    with Namespace() as space:
        if run('nsenter', '-t', space.pid, '-n', 'ip', 'link', 'add', 'gen', 'type', 'geneve', 'id', '1', 'remote',
               '127.0.0.1', code=None).returncode:
            print('SKIP: this kernel has no Geneve')
            return
    for inner in False, True:
        through_tunnel(6081, inner, 'geneve', 'id', '5')


def framed(ip, payload):
    """A datagram from port 7 of 10.1.2.1 or fd01::1 to port 8 of .3, with its IP header."""
    udp = struct.pack('>HHHH', 7, 8, 8 + len(payload), 0) + payload
    if ip == 4:
        return bytes([0x45, 0]) + struct.pack('>HHHBBH', 20 + len(udp), 0, 0, 64, 17, 0) + bytes([10, 1, 2, 1, 10, 1, 2, 3]) + udp
    return struct.pack('>IHBB', 6 << 28, len(udp), 17, 64) + bytes([0xfd, 1] + 13 * [0] + [1]) + \
        bytes([0xfd, 1] + 13 * [0] + [3]) + udp


@case
def what_a_tunnel_may_hold():
    """Options, no frame, either family. Packets that are truncated or not IP belong to the tunnel."""
    ether = lambda kind, body: 12 * b'\2' + struct.pack('>H', kind) + body
    geneve = lambda words, kind, body: struct.pack('>BBHI', words, 0, kind, 5 << 8) + 4 * words * b'o' + body
    vxlan = lambda body, flags=8: struct.pack('>B7x', flags) + body
    v4, v6 = (socket.inet_pton(f, a) + socket.inet_pton(f, b) + struct.pack('>HHB', 7, 8, 17)
              for f, a, b in ((socket.AF_INET, '10.1.2.1', '10.1.2.3'), (socket.AF_INET6, 'fd01::1', 'fd01::3')))
    whole = [(6081, geneve(0, 0x6558, ether(0x800, framed(4, b'a'))), v4), (6081, geneve(5, 0x800, framed(4, b'b')), v4),
             (6081, geneve(63, 0x6558, ether(0x86dd, framed(6, b'c'))), v6), (4789, vxlan(ether(0x86dd, framed(6, b'd'))), v6),
             (8472, vxlan(ether(0x800, framed(4, b'e'))), v4)]
    own = [(6081, geneve(9, 0x800, b'')[:20]), (6081, b''), (4789, vxlan(ether(0x806, 28 * b'r'))), (4789, b'x'),
           (4789, vxlan(ether(0x800, framed(4, b'f')), 0)), (6081, b'\x40' + geneve(0, 0x800, framed(4, b'g'))[1:]),
           (8472, vxlan(ether(0x800, framed(4, b'')[:22])))]
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('0.0.0.0', 0))
    got = Listener(sock)
    p, _ = reporter('lo', f':{sock.getsockname()[1]}', '--direction', 'in', '--inner')
    wanted = {}
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as s:
        s.bind(('127.0.0.1', 0))
        for port, payload, *key in whole + own:
            s.sendto(payload, ('127.0.0.1', port))
            key = key[0] if key else key_of(s, ('127.0.0.1', port))
            packets, size = wanted.get(key, (0, 0))
            wanted[key] = packets + 1, size + 42 + len(payload)
    wait_until(lambda: all(got.last.get(k) == v for k, v in wanted.items()),
               lambda: str([(k.hex(), v, got.last.get(k)) for k, v in wanted.items()]), p)
    p.stop()
    got.stop()


needs_bpf()
flows.own_network()
run_cases()
