# SPDX-License-Identifier: Apache-2.0
"""Regions of any shape, with holes except where something is written, as a hostile publisher makes them."""
import fcntl
import mmap
import os
import struct
import time

from support.protocol import LIVE, SHRINK_GROW, fnv1a, line_check

COUNTER, GAUGE = 1, 3


def record(number, name, kind=COUNTER, cell=None):
    text = name.encode()
    length = (64 + len(text) + 7) & ~7
    r = bytearray(length)
    struct.pack_into('<IHHIIIIH', r, 0, length, kind, 0, number if cell is None else cell, 1, number, 1, len(text))
    r[64:64 + len(text)] = text
    struct.pack_into('<Q', r, 56, fnv1a(r))
    return bytes(r)


def schema(names, kind=COUNTER):
    return b''.join(record(i, n, kind) for i, n in enumerate(names))


class HostileRegion:
    """A region whose hot line claims that all lines of all stripes are in use."""

    def __init__(self, records, lines, stripes=1, labels=(('service', 'hostile'),)):
        def pages(n):
            return (n + 4095) & ~4095
        self.instance = int.from_bytes(os.urandom(8), 'little') or 1
        stride = pages(lines * 64)
        at = 8192 + stride * stripes
        self.size = at + max(pages(len(records)), 4096)
        text = b''.join(k.encode() + b'\0' + v.encode() + b'\0' for k, v in labels)
        h = bytearray(4096)
        struct.pack_into('<8sHHIQIIQQQ16sII', h, 0, b'SIDELGHT', 1, 0, 4096, self.size, 1, os.getpid(),
                         self.instance, time.time_ns(), 0, bytes(16), 3, len(text))
        struct.pack_into('<IIQQ', h, 80, 1, 64, 4096, 64)
        struct.pack_into('<IIQQ', h, 104, 2, stride, 8192, stride * stripes)
        struct.pack_into('<IIQQ', h, 128, 3, 8, at, self.size - at)
        h[512:512 + len(text)] = text
        struct.pack_into('<Q', h, 4088, fnv1a(h[:4088]))
        self.fd = os.memfd_create('hostile', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        self.map = mmap.mmap(self.fd, self.size)
        self.map[0:4096] = bytes(h)
        self.map[at:at + len(records)] = records
        self.hot = [1, len(records), stride // 64, stripes, LIVE, time.time_ns(), 0]
        self.put_hot()
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SHRINK_GROW)

    def put_hot(self):
        self.map[4096:4160] = struct.pack('<8Q', *self.hot, line_check(self.hot))

    def change_layout(self):
        self.hot[0] += 1
        self.put_hot()

    def occupied(self):
        """Bytes of it that are not holes."""
        return os.fstat(self.fd).st_blocks * 512


def colliding(count):
    """Names that unseeded FNV-1a puts into one bucket of any table of up to 2^20 buckets (Joux's multicollision)."""
    low, prime, state, blocks = 0xfffff, 0x100000001b3, 0xcbf29ce484222325 & 0xfffff, []
    letters = [bytes([97 + n % 26, 97 + n // 26 % 26, 97 + n // 676 % 26, 97 + n // 17576]) for n in range(26 ** 4)]
    while 2 ** len(blocks) < count:
        seen = {}
        for block in letters:
            h = state
            for b in block:
                h = (h ^ b) * prime & low
            if h in seen:
                blocks.append((seen[h].decode(), block.decode()))
                state = h
                break
            seen[h] = block
    return [''.join(pair[n >> k & 1] for k, pair in enumerate(blocks)) for n in range(count)]
