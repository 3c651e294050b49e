# SPDX-License-Identifier: Apache-2.0
"""The in-kernel reporter as a process, the packets it sends, and network namespaces for them."""
import ctypes
import os
import socket
import struct
import subprocess
import sys
import threading

from support.process import Part, fail, output, wait_until

EXE = sys.argv[1] if len(sys.argv) > 1 else None


class Listener:
    """Parses packets of reports by docs/dta-wire.md alone. proof: the length of the authentication that each packet must end
    with, in bytes."""

    def __init__(self, sock, credits=None, proof=0):
        self.proof, self.also = proof, {}  # also: {(store, key): numbers} of what is not a flow
        self.credits, self.answered = credits, 0
        self.sock, self.last, self.reports, self.sequences, self.heartbeats = sock, {}, 0, [], []
        self.sock.settimeout(0.1)
        self.end = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.end:
            try:
                b, at_ = self.sock.recvfrom(65536)
            except TimeoutError:
                continue
            if self.credits is not None and b[2] & 4:
                b = b[:2] + bytes([b[2] & ~4]) + b[3:]
                head = struct.unpack_from('>II', b, 8)  # reporter, sequence
                # Everything up to this packet arrived: its own numbers end with the reports that it says.
                self.sock.sendto(struct.pack('>BBBBIIIII', 0xd7, 2, 1, 0, head[0], *struct.unpack_from('>I', b, 24),
                                             head[1] + struct.unpack_from('>I', b, 28)[0], self.credits, 0), at_)
                self.answered += 1
            magic, version, flags, blocks, tenant, length, reporter, sequence, _, _, n = \
                struct.unpack_from('>BBBBHHIIQII', b)
            flags ^= bool(self.proof)
            b = b[:len(b) - self.proof]
            if (magic, version, flags & ~4, blocks, length, reporter, n) == (0xd7, 2, 0, 0, len(b), 9, 0) and len(b) == 32:
                self.heartbeats.append(sequence)
                continue
            opcode, _, count, copies, key, value, store, zero = struct.unpack_from('>BBHBBHHH', b, 32)
            if (magic, version, flags & ~4, blocks, tenant, length, reporter, opcode, count, copies, value, store == 4 or store in range(12, 16), zero) != \
                    (0xd7, 2, 0, 1, 0, len(b), 9, 1, n, 3, 16, True, 0) or len(b) != 44 + n * (key + 16):
                print(f'FAILED: a packet is not as written down: {b[:60].hex()}')
                os._exit(1)
            self.sequences.append((sequence, n))
            self.reports += n
            for i in range(n):
                item = b[44 + i * (key + 16):][:key + 16]
                packets, size = struct.unpack('>QQ', item[key:])
                if store != 4:
                    self.also[store, item[:key]] = packets, size
                    continue
                at = self.last.get(item[:key], (0, 0))
                self.last[item[:key]] = max(at, (packets, size))

    def stop(self):
        self.end = True
        self.thread.join()
        self.sock.close()


def key_of(sock, peer, protocol=17):
    family = sock.family
    me = sock.getsockname()
    return socket.inet_pton(family, me[0]) + socket.inet_pton(family, peer[0]) + \
        struct.pack('>HHB', me[1], peer[1], protocol)


def reporter(interface, target, *args):
    p = Part(EXE, 'report', '--interface', interface, '--target', target, '--store', '4', '--copies', '3',
             '--reporter', '9', '--json', *args)
    return p, p.ready()['target']


def datagrams(family, host, count, size):
    s = socket.socket(family, socket.SOCK_DGRAM)
    r = socket.socket(family, socket.SOCK_DGRAM)
    r.bind((host, 0))
    s.bind((host, 0))
    for _ in range(count):
        s.sendto(b'x' * size, r.getsockname())
    key = key_of(s, r.getsockname())
    s.close()
    r.close()
    return key


class Namespace:
    """A network namespace of its own."""

    def __init__(self):
        self.process = subprocess.Popen(['unshare', '-n', 'sleep', '600'])
        self.pid = self.process.pid

    def begin(self):
        wait_until(lambda: os.readlink(f'/proc/{self.pid}/ns/net') != os.readlink('/proc/self/ns/net'), 'a namespace',
                   seconds=20)
        self.run('ip', 'link', 'set', 'lo', 'up')

    def run(self, *command):
        return output('nsenter', '-t', self.pid, '-n', *command)

    def call(self, function):
        """Calls it in there: a socket lives in the namespace in which it was made."""
        libc, got = ctypes.CDLL(None, use_errno=True), []

        def there():
            fd = os.open(f'/proc/{self.pid}/ns/net', os.O_RDONLY)
            if not libc.setns(fd, 0x40000000):
                got.append(function())
            os.close(fd)
        t = threading.Thread(target=there)
        t.start()
        t.join()
        return got[0]

    def end(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.end()


class Far(Namespace):
    """A network namespace behind a veth pair, with a socket of each address family in it."""
    ADDRESSES = ((socket.AF_INET, '10.77.0.1', '10.77.0.2'), (socket.AF_INET6, 'fd77::1', 'fd77::2'))

    def begin(self):
        super().begin()
        self.link()
        self.sockets = []
        for family, _, address in self.ADDRESSES:
            self.sockets.append(self.call(lambda: socket.socket(family, socket.SOCK_DGRAM)))
            self.sockets[-1].bind((address, 0))
        for sock, (family, here, _) in zip(self.sockets, self.ADDRESSES):
            self.wait_for(sock, family, here)

    def link(self):
        """Creates the pair."""
        pid = self.pid
        inside = ['nsenter', '-t', str(pid), '-n']
        for command in (['ip', 'link', 'add', 'sl-near', 'type', 'veth', 'peer', 'name', 'sl-far', 'netns', str(pid)],
                        ['ip', 'addr', 'add', '10.77.0.1/24', 'dev', 'sl-near'],
                        ['ip', 'addr', 'add', 'fd77::1/64', 'dev', 'sl-near', 'nodad'],
                        ['ip', 'link', 'set', 'sl-near', 'up'],
                        [*inside, 'ip', 'addr', 'add', '10.77.0.2/24', 'dev', 'sl-far'],
                        [*inside, 'ip', 'addr', 'add', 'fd77::2/64', 'dev', 'sl-far', 'nodad'],
                        [*inside, 'ip', 'link', 'set', 'sl-far', 'up']):
            subprocess.run(command, check=True)

    def wait_for(self, sock, family, here):
        """Waits until the path works and the neighbour is known: until then, the kernel drops packets beyond a small queue."""
        sock.settimeout(0.05)
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.bind((here, 0))
            sent = [0]

            def through():
                sent[0] += 1
                s.sendto(b'%d' % sent[0], sock.getsockname())
                try:
                    while sock.recv(16) != b'%d' % sent[0]:
                        pass
                    return True
                except TimeoutError:
                    return False
            wait_until(through, lambda: f'nothing comes through to {sock.getsockname()}', seconds=20)

    def __exit__(self, *_):
        # The other end goes along. If only the namespace ended, both ends would go as well, but later.
        subprocess.run(['ip', 'link', 'del', 'sl-near'], stderr=subprocess.DEVNULL)
        self.end()
