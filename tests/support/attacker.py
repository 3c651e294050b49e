# SPDX-License-Identifier: Apache-2.0
"""An attacker: a process of another user, which runs an attack and stays until the test ends it."""
import ctypes
import fcntl
import mmap
import os
import platform
import signal
import socket
import struct
import sys
import threading
import time
import traceback

from support.hostile import HostileRegion, schema
from support.process import skip
from support.protocol import MAGIC, PUBLISH, Client, Region

STRANGER = 65534
SIOCOUTQ = 0x5411
USERFAULTFD = {'x86_64': 323, 'aarch64': 282}
_libc = ctypes.CDLL(None, use_errno=True)


class Attacker:
    """Runs attack() as another user; .said is its result, if true. Its descriptors stay open until stop(). first() runs before,
    as root, in the same process."""

    def __init__(self, attack, uid=STRANGER, first=None):
        if os.geteuid():
            skip('needs root to become another user')
        told, tells = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(told)
            signal.alarm(300)  # should the test be killed
            try:
                if first:
                    first()
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                os.write(tells, str(attack() or 'done').encode())
                while True:
                    signal.pause()
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                # Exit before the traceback's objects are closed: closing a lingering socket takes minutes.
                os._exit(1)
        os.close(tells)
        with open(told) as f:
            self.said = os.read(f.fileno(), 4096).decode()
        if not self.said:
            self.stop()
            raise AssertionError('the attack could not be carried out')

    def stop(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.pid = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def publish_long_names(agent, counters, pods=1):
    """Publishes this many counters per pod, under long names. Returns objects that must stay open."""
    held = []
    for pod in range(pods):
        region = HostileRegion(schema([f'{"x" * 90}{i:05}_total' for i in range(counters)]), counters // 7 + 1,
                               labels=(('service', 'hostile'), ('pod', str(pod))))
        client = Client(agent.socket)  # which may be silent for 5 s
        client.publish(region)
        held.extend((client, region))
    return held


def ask_slowly(address, question):
    """Asks HOST:PORT. Returns the socket, which holds little of the answer until it is read."""
    host, port = address.rsplit(':', 1)
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect((host, int(port)))
    s.sendall(question)
    return s


def lingering(seconds=250):
    """(TCP socket whose last close() takes this long, its peer): the peer's window is zero."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(('127.0.0.1', 0))
    listener.listen()
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # hundreds cost the kernel little
    s.connect(listener.getsockname())
    peer, _ = listener.accept()
    listener.close()
    s.setblocking(False)
    try:
        while True:
            s.send(bytes(65536))
    except BlockingIOError:
        pass
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, seconds))
    return s, peer


def nested(seconds=250):
    """Returns a unix socket whose last close() closes a lingering socket in its queue, and objects that must stay open."""
    s, peer = lingering(seconds)
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    socket.send_fds(b, [b'x'], [s.fileno()])
    s.close()
    return a, (b, peer)


def unread(path):
    """A connection that the agent stops reading until answers() is called, because its answers are not read. The agent then
    holds the last reference to descriptors that are sent on it and closed here."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(path)
    r = Region()
    still = 0
    while still < 100:  # an agent that waits for a CPU does not read either
        if struct.unpack('i', fcntl.ioctl(s, SIOCOUTQ, bytes(4)))[0]:
            still += 1
            time.sleep(0.01)
            continue
        still = 0
        socket.send_fds(s, [struct.pack('<IHHIIQQ', MAGIC, PUBLISH, 0, 16, 1, r.instance, r.size)], [r.fd])
    return s


def answers(s):
    """Takes the answers until none comes for a while."""
    s.settimeout(0.3)
    try:
        while s.recv(4096):
            pass
    except (TimeoutError, ConnectionResetError):
        pass


def endless_page():
    """
    Memory whose page fault is never served. A user's own FUSE file is the same, and needs no right;
    this needs root where vm.unprivileged_userfaultfd is 0.
    """
    u = _libc.syscall(USERFAULTFD.get(platform.machine(), -1), os.O_CLOEXEC)
    if u < 0:
        return None
    page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    at = ctypes.addressof(ctypes.c_char.from_buffer(page))
    fcntl.ioctl(u, 0xc018aa3f, struct.pack('<QQQ', 0xaa, 0, 0))
    fcntl.ioctl(u, 0xc020aa00, struct.pack('<QQQQ', at, 4096, 1, 0))
    return u, page, at


def hold_lock(fd, endless):
    """Holds the lock of a file's inode, by a write() that does not end, while this process lives."""
    args = fd, ctypes.c_void_p(endless[2]), ctypes.c_size_t(8), ctypes.c_long(0)
    threading.Thread(target=lambda: _libc.pwrite(*args), daemon=True).start()
    while True:  # until it waits in the kernel
        time.sleep(0.05)
        with open(f'/proc/self/task/{max(map(int, os.listdir("/proc/self/task")))}/stat') as f:
            if f.read().rpartition(')')[2].split()[0] in 'DS':
                return
