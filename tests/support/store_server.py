# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the store server, written from control.h and store.h: it may lie, end and return, and a test reads its
memory without a query, and so without hashing."""
import json
import mmap
import os
import socket
import struct
import threading

KINDS = {'key-write': 1, 'append': 2, 'increment': 3, 'postcard': 4, 'sketch': 5}
BANKS = 8192
CONTROL = 3  # version of the control channel


def fnv(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = (h ^ b) * 0x100000001b3 & 2**64 - 1
    return h


class Store:
    def __init__(self, kind, number, tenant=0, seed=1, epoch=0, slots=1024, rows=1, value=0, batch=0, lists=0,
                 lanes=1, hops=0, sketch=0, reporters=0, banks=1, copies=0):
        self.__dict__.update(locals())
        b = struct.pack('<IHHQQQ11I', KINDS[kind], tenant, number, seed, epoch, slots, rows, value, batch,
                        lists, lanes, hops, sketch, reporters, banks, copies, 0)
        b += bytes(248 - len(b))
        self.config = b + struct.pack('<Q', fnv(b))
        pad = lambda n: (n + 7) & ~7
        self.block = pad(batch * value) + 8
        bank = {'key-write': slots * (8 + pad(value)), 'append': lists * lanes * slots * self.block,
                'increment': rows * slots * 8, 'postcard': slots * 8 * hops,
                'sketch': lanes * (192 + (rows * slots * 8 + 63 & ~63))}[kind]
        self.stride = bank + 4095 & ~4095
        self.bytes = BANKS + banks * self.stride
        self.fd = os.memfd_create('store')
        os.ftruncate(self.fd, self.bytes)
        self.map = mmap.mmap(self.fd, self.bytes)

    def close(self):
        self.map.close()
        os.close(self.fd)

    def bank(self, epoch=0):
        at = BANKS + epoch % self.banks * self.stride
        return memoryview(self.map)[at:at + self.stride]

    def column_sums(self, epoch=0):
        """increment: of each row."""
        words = self.bank(epoch)[:self.rows * self.slots * 8].cast('Q')
        return [sum(words[r * self.slots:(r + 1) * self.slots]) for r in range(self.rows)]

    def occupied(self, epoch=0):
        """key-write: slots whose check word is not 0."""
        words = self.bank(epoch)[:self.slots * self.block_bytes()].cast('Q')
        step = self.block_bytes() // 8
        return sum(1 for i in range(self.slots) if words[i * step])

    def block_bytes(self):
        return 8 + (self.value + 7 & ~7)

    def blocks(self, number, lane=0):
        """append: {number of a block: its items} of one list."""
        bank, found = self.bank(), {}
        ring = (number * self.lanes + lane) * self.slots * self.block
        for position in range(self.slots):
            at = ring + position * self.block
            tail = int.from_bytes(bank[at + self.block - 8:at + self.block], 'little')
            if tail:
                items = [bytes(bank[at + i * self.value:at + (i + 1) * self.value])
                         for i in range(tail >> 32 & 255)]
                found[((tail >> 40) - 1) * self.slots + position] = items
        return found

    def next_blocks(self, lane=0):
        return [max(self.blocks(i, lane), default=-1) + 1 for i in range(self.lists)]


def usual():
    return [Store('key-write', 1, slots=1 << 17, value=8, copies=4, banks=2),
            Store('append', 2, slots=1024, value=8, batch=16, lists=4, lanes=2),
            Store('increment', 3, slots=1 << 14, rows=4),
            Store('postcard', 4, slots=1 << 14, hops=5, copies=2),
            Store('sketch', 5, slots=256, rows=2, sketch=1, reporters=3, lanes=2)]


class StoreServer:
    """Serves at path until close(). before(say) replaces the store server's messages."""

    def __init__(self, path, stores, before=None, lane=0):
        self.stores, self.before, self.lane = stores, before, lane
        self.heard, self.said = [], []  # messages of translators; connections
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(8)
        self.path = path
        self.closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while not self.closed:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            self.said.append(c)
            threading.Thread(target=self._serve, args=(c,), daemon=True).start()

    @staticmethod
    def say(c, message, fd=None):
        data = message if isinstance(message, bytes) else json.dumps(message).encode() + b'\n'
        if fd is None:
            c.sendall(data)
        else:
            socket.send_fds(c, [data], [fd])

    def name_stores(self, c):
        self.say(c, {'type': 'welcome', 'version': CONTROL, 'instance': 7, 'lane': self.lane, 'port': 0})
        for i, s in enumerate(self.stores):
            self.say(c, {'type': 'object', 'number': i, 'bytes': s.bytes, 'addr': 0, 'rkey': 0}, s.fd)
            m = {'type': 'store', 'tenant': s.tenant, 'store': s.number, 'name': s.kind, 'object': i,
                 'epoch': s.epoch, 'config': s.config.hex()}
            if s.kind == 'append':
                m['next'] = s.next_blocks(self.lane)
            self.say(c, m)
        self.say(c, {'type': 'ready'})

    def _serve(self, c):
        try:
            with c.makefile('r') as lines:
                for line in lines:
                    m = json.loads(line)
                    self.heard.append(m)
                    if m['type'] == 'hello':
                        (self.before or self.name_stores)(c)
        except OSError:
            pass

    def close(self):
        self.closed = True
        for s in [self.listener] + self.said:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        os.unlink(self.path)
