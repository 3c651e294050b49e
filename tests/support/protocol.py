# SPDX-License-Identifier: Apache-2.0
"""The agent's socket and region format 1 in Python, written from the manual pages alone."""
import errno
import fcntl
import mmap
import os
import resource
import socket
import struct
import time

from support.process import wait_until

# An ordinary user has 1,024 descriptors, and may have more.
_, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_hard, _hard))

MAGIC = 0x314d4c53
PUBLISH, ADMITTED, REFUSED, CLOSE = 1, 2, 3, 4
SUBSCRIBE, WELCOME, OPEN, REGION = 16, 17, 18, 19
STATUS, STATUS_IS = 32, 33
FREE, LIVE, DEAD, CLOSED, RETIRED = range(5)
SHRINK_GROW = 6
K = (0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93,
     0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3)
M = (1 << 64) - 1


def fnv1a(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = ((h ^ b) * 0x100000001b3) & M
    return h


def line_check(cells, mixed=False):
    """Returns the check word of a plain line, or of a mixed one, as in stripe 0."""
    products = [c * k for c, k in zip(cells, K)]
    return sum(p & M ^ p >> 64 if mixed else p for p in products) & M


class Refused(Exception):
    def __init__(self, error, reason):
        super().__init__(f'{error}: {reason}')
        self.error, self.reason = error, reason


class Region:
    """A publisher's: stripes of a page each, and a schema."""

    def __init__(self, instance=None, labels=(('service', 'py'),), seals=SHRINK_GROW, stripes=1, schema=4096):
        self.instance = instance or int.from_bytes(os.urandom(8), 'little') or 1
        self.size = 8192 + 4096 * stripes + schema
        text = b''.join(k.encode() + b'\0' + v.encode() + b'\0' for k, v in labels)
        h = bytearray(4096)
        struct.pack_into('<8sHHIQIIQQQ16sII', h, 0, b'SIDELGHT', 1, 0, 4096, self.size, 1,
                         os.getpid(), self.instance, time.time_ns(), 0, bytes(16), 3, len(text))
        struct.pack_into('<IIQQ', h, 80, 1, 64, 4096, 64)
        struct.pack_into('<IIQQ', h, 104, 2, 4096, 8192, 4096 * stripes)
        struct.pack_into('<IIQQ', h, 128, 3, 8, 8192 + 4096 * stripes, schema)
        h[512:512 + len(text)] = text
        struct.pack_into('<Q', h, 4088, fnv1a(h[:4088]))
        self.fd = os.memfd_create('py', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        os.fchmod(self.fd, 0o444)
        self.map = mmap.mmap(self.fd, self.size)
        self.map[0:4096] = bytes(h)
        self.line(4096, (1, 0, 1, 1, LIVE, time.time_ns(), 0))
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)

    def line(self, at, cells, mixed=False):
        self.map[at:at + 64] = struct.pack('<8Q', *cells, line_check(cells, mixed))

    def close(self):
        self.map.close()
        os.close(self.fd)


def consume(path):
    """The socket of consumers beside that of publishers."""
    return path + '.consume' if os.path.exists(path + '.consume') else path


class Client:
    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.settimeout(300)
        self.s.connect(path)
        self.serial = 0

    def send(self, kind, payload=b'', fds=()):
        self.serial += 1
        packet = struct.pack('<IHHII', MAGIC, kind, 0, len(payload), self.serial) + payload
        if fds:
            socket.send_fds(self.s, [packet], list(fds))
        else:
            self.s.send(packet)

    def receive(self):
        """(kind, payload, fd or None); raises Refused, EOFError."""
        packet, fds, _, _ = socket.recv_fds(self.s, 4096, 4)
        if not packet:
            raise EOFError
        magic, kind, _, length, serial = struct.unpack_from('<IHHII', packet)
        assert magic == MAGIC and length == len(packet) - 16, packet
        if kind == REFUSED:
            error, reason = struct.unpack_from('<i252s', packet, 16)
            raise Refused(error, reason.split(b'\0')[0].decode())
        assert serial == self.serial
        return kind, packet[16:], fds[0] if fds else None

    def ask(self, kind, payload=b'', fds=()):
        self.send(kind, payload, fds)
        return self.receive()

    def publish(self, region):
        kind, payload, _ = self.ask(PUBLISH, struct.pack('<QQ', region.instance, region.size),
                                    [region.fd])
        assert kind == ADMITTED
        return struct.unpack('<QQ', payload)

    def close(self):
        self.s.close()


class View:
    """A region of another process, read-only."""

    def __init__(self, fd, size):
        self.map = mmap.mmap(fd, size, prot=mmap.PROT_READ)
        os.close(fd)

    def line(self, at, mixed=False):
        for _ in range(100000):
            words = struct.unpack('<8Q', self.map[at:at + 64])
            if line_check(words[:7], mixed) == words[7]:
                return words[:7]
        raise AssertionError(f'the line at {at} never verified')

    def sections(self):
        n, = struct.unpack_from('<I', self.map, 72)
        return {t: (stride, offset, length) for t, stride, offset, length in
                (struct.unpack_from('<IIQQ', self.map, 80 + 24 * i) for i in range(n))}

    def close(self):
        self.map.close()


class Consumer(Client):
    def __init__(self, path):
        super().__init__(consume(path))
        kind, payload, fd = self.ask(SUBSCRIBE)
        assert kind == WELCOME
        self.agent, size = struct.unpack('<QQ', payload)
        self.directory = View(fd, size)

    def entries(self, own=False):
        """[dict], of those that are there; without the agent's own region."""
        d = self.directory
        used = d.line(4096)[1]
        _, at, _ = d.sections()[4]
        out = []
        for slot in range(used):
            c = d.line(at + 64 * slot)
            state = c[3] >> 32 & 0xff
            if state != FREE and (own or slot):
                out.append({'slot': slot, 'id': c[0], 'length': c[2], 'state': state,
                            'generation': c[4], 'changed_ns': c[5], 'instance': c[6]})
        return out

    def entry(self, instance):
        return next((e for e in self.entries(True) if e['instance'] == instance), None)

    def tenant(self, entry):
        """The tenant of an entry, as the kernel attests it."""
        _, at, _ = self.directory.sections()[18]
        one = self.directory.line(at + 128 * entry['slot'])
        two = self.directory.line(at + 128 * entry['slot'] + 64)
        assert one[0] == two[0] == entry['id'], (one, two, entry)
        return {'key': one[1], 'uid': one[2] & 0xffffffff, 'trusted': bool(one[2] >> 32 & 1),
                'contained': bool(one[2] >> 33 & 1), 'pid': one[3],
                'container': one[4].to_bytes(8, 'big') + one[5].to_bytes(8, 'big'),
                'pod': one[6].to_bytes(8, 'big') + two[1].to_bytes(8, 'big'), 'instance': two[2]}

    def open(self, id):
        def ask():
            try:
                return self.ask(OPEN, struct.pack('<Q', id))
            except Refused as e:
                if e.error != errno.EAGAIN:  # a thread of the agent seals it
                    raise
        kind, payload, fd = wait_until(ask, every=0.001)
        assert kind == REGION
        _, instance, size = struct.unpack('<QQQ', payload)
        view = View(fd, size)
        view.instance = instance
        return view

    def close(self):
        self.directory.close()
        super().close()


def total(view):
    """{name: sum over the stripes} of the u64 counters of a region."""
    sections = view.sections()
    hot = view.line(4096)
    stride, stripes, _ = sections[2]
    _, at, _ = sections[3]
    out, end = {}, at + hot[1]
    while at < end:
        length, kind = struct.unpack_from('<IH', view.map, at)
        cell, = struct.unpack_from('<I', view.map, at + 8)
        name_bytes, = struct.unpack_from('<H', view.map, at + 24)
        if kind == 1:
            name = view.map[at + 64:at + 64 + name_bytes].decode()
            out[name] = sum(view.line(stripes + s * stride + cell // 7 * 64, s == 0)[cell % 7]
                            for s in range(hot[3])) & M
        at += length
    return out


def the_entry(consumer, state=None):
    """The directory's only entry in this state, once it is there."""
    return wait_until(lambda: next((e for e in consumer.entries()
                                    if state is None or e['state'] == state), None), every=0.001)
