# SPDX-License-Identifier: Apache-2.0
"""The publisher's side of sidelight-attach(7): a connection, and the thread that watches it.

The first offer() makes the first attempt itself: connect and PUBLISH do not wait for the agent, so that even a process that
ends at once is seen. The thread does the rest, and sleeps while it is connected.
"""
import errno
import os
import select
import socket
import struct
import threading
import time

from . import _threads
from ._descriptor import Descriptor
from ._threads import log

MAGIC = 0x314d4c53
PUBLISH, ADMITTED, REFUSED, CLOSE, VERDICT = 1, 2, 3, 4, 20
RETRY_MIN, RETRY_MAX, RETRY_FULL, RETRY_REFUSED = 0.25, 0.5, 0.01, 30.0
AGAIN_MAX = 7  # quick retries after EAGAIN; the delay doubles from RETRY_MIN to 16 s
REGIONS_MAX = 64  # per connection


class Attachment:
    """Offers regions to the agent at path."""

    def __init__(self, path):
        self.path = path
        self._lock = threading.Lock()
        self._sock, self._connection = None, None  # the socket, and its descriptor
        self._wake, self._thread = None, None  # _wake: the two ends of a pipe
        self._regions, self._sent, self._serial = [], {}, 0  # _sent: {serial: region}
        self._retry = {}  # {region: time at which it is offered again}
        self._logged, self.attached, self._ended = False, False, False
        self._verdict = (False, 0.0, 0.0)

    # ---- called by threads that publish ----

    def offer(self, region):
        """Offers a new region. Does not wait."""
        with self._lock:
            self._regions.append(region)
            if self._sock:
                self._publish(region)
            else:
                self._connect()
            self.watch()

    def watch(self):
        """Starts the thread if necessary. Without it, an agent that starts later would not see this process."""
        if self._thread is None and not self._ended:
            self._wake = self._wake or [Descriptor(fd) for fd in os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)]
            self._thread = _threads.start('sidelight', self._run)

    def wake(self):
        if not self._wake:
            return
        try:
            os.write(self._wake[1].number(), b'.')
        except OSError:  # the application closed it
            pass

    def stop(self):
        """Sends CLOSE for all regions."""
        with self._lock:
            self._ended = True
            if self._sock and self._connection.ours():
                for region in self._regions:
                    self._send(CLOSE, struct.pack('<Q', region.instance))
                try:
                    # Closing a socket with an unread message resets the connection, which the agent would see before CLOSE.
                    self._sock.shutdown(socket.SHUT_RD)
                    while self._sock.recv(4096):
                        pass
                except OSError:
                    pass
            self._disconnect()
        self.wake()

    def forked(self):
        """Called in a forked child: connection and thread are the parent's, and an open socket would hide its end from the agent."""
        for end in self._wake or ():
            end.close()
        self._wake, self._ended = None, True
        self._disconnect()

    def alarmed(self):
        anomalous, _, end = self._verdict
        return anomalous and time.monotonic() < end

    # ---- the connection; under the lock ----

    def _connect(self):
        """Returns the seconds until the next attempt, or None if connected."""
        try:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        except OSError:
            return RETRY_MAX
        try:
            sock.connect(self.path)
        except OSError as e:
            sock.close()
            return RETRY_FULL if e.errno == errno.EAGAIN else RETRY_MAX
        self._sock, self._connection, self._sent = sock, Descriptor(sock.fileno()), {}
        self._retry.clear()
        for region in self._regions:
            self._publish(region)
        return None

    def _disconnect(self):
        if self._sock and self._connection.ours():
            self._sock.close()
        elif self._sock:
            self._sock.detach()
        self._sock, self.attached = None, False

    def _send(self, kind, payload, fd=None):
        self._serial = self._serial % 0xffffffff + 1
        packet = struct.pack('<IHHII', MAGIC, kind, 0, len(payload), self._serial) + payload
        try:
            self._connection.number()
            socket.send_fds(self._sock, [packet], [] if fd is None else [fd.number()], socket.MSG_NOSIGNAL)
            return True
        except OSError:
            return False

    def _publish(self, region):
        if self._send(PUBLISH, struct.pack('<QQ', region.instance, region.size), region.fd):
            self._sent[self._serial] = region
        else:
            self._retry[region] = time.monotonic() + RETRY_MAX
            self.wake()  # the thread, which may sleep without a time limit

    # ---- the thread ----

    def _run(self):
        wake, delay = self._wake[0].number(), RETRY_FULL
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        watched = None
        try:
            while not self._ended:
                with self._lock:
                    sock = self._sock
                    if sock is not watched:
                        watched, connected = sock, sock is not None
                        poll = select.poll()
                        poll.register(wake, select.POLLIN)
                        if connected:
                            poll.register(sock, select.POLLIN)
                    wait = self._wait(delay if sock is None else None)
                events = poll.poll(None if wait is None else wait * 1000)
                if any(fd == wake for fd, _ in events):
                    os.read(self._wake[0].number(), 4096)
                    continue
                with self._lock:
                    if self._ended:
                        break
                    if sock is not self._sock:
                        continue  # offer() has connected meanwhile
                    if sock is None:
                        wanted = self._connect()
                        delay = min(delay + RETRY_MIN / 2, wanted) if wanted else RETRY_MIN
                        continue
                    now = time.monotonic()
                    for region in [r for r, at in self._retry.items() if at <= now]:
                        del self._retry[region]
                        self._publish(region)
                if events and not self._receive(sock):
                    with self._lock:
                        self._disconnect()
                    delay = RETRY_MIN
        except (OSError, ValueError):  # the application closed our descriptors
            log.debug('the thread ends', exc_info=True)

    def _wait(self, delay):
        times = [at - time.monotonic() for at in self._retry.values()] if self._sock else []
        times += [delay] if delay is not None else []
        return max(min(times), 0.001) if times else None

    def _receive(self, sock):
        """Returns False if the connection has ended."""
        try:
            self._connection.number()
            packet = sock.recv(4096)  # the kernel drops descriptors in it
        except BlockingIOError:
            return True
        except OSError:
            return False
        if len(packet) < 16:
            return False
        magic, kind, _, length, serial = struct.unpack_from('<IHHII', packet)
        if magic != MAGIC or length != len(packet) - 16:
            return False
        if kind == ADMITTED:
            self.attached = True
            with self._lock:
                if serial in self._sent:
                    self._sent[serial].again = 0
        elif kind == REFUSED and length >= 4:
            error, = struct.unpack_from('<i', packet, 16)
            self._refused(serial, error, packet[20:].split(b'\0')[0].decode('utf-8', 'replace'))
        elif kind == VERDICT and length >= 40:
            _, flags, ttl, _, score = struct.unpack_from('<QQQqd', packet, 16)
            self._verdict = (bool(flags & 1), score, time.monotonic() + min(ttl, 3600 * 10**9) / 1e9)
        return True  # or a message of a later version

    def _refused(self, serial, error, reason):
        with self._lock:
            region = self._sent.pop(serial, None)
            if region is None:
                return
            if error == errno.ENODATA and not region.dense:
                try:
                    region.allocate_all()
                    self._retry[region] = time.monotonic()
                    return
                except OSError as e:
                    reason = str(e)
            delay = RETRY_REFUSED
            if error == errno.EAGAIN and region.again < AGAIN_MAX:
                delay = RETRY_MIN * 2 ** region.again
                region.again += 1
            self._retry[region] = time.monotonic() + delay
            first = delay == RETRY_REFUSED and not self._logged
            self._logged |= first
        if first:
            log.warning('the agent refused the region, next try in %d s socket=%s error=%d reason="%s"', RETRY_REFUSED,
                        self.path, error, reason)
