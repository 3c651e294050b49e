# SPDX-License-Identifier: Apache-2.0
"""app.py: a service that does on each line of stdin what it says, and answers by one line."""
import asyncio
import ctypes
import errno
import gc
import json
import os
import socket
import struct
import sys
import tempfile
import threading
import time

import sidelight

requests = sidelight.Counter('app_requests_total', 'Two lines,\nand a "quote".', ['route', 'code'])
queue = sidelight.Gauge('app_queue', 'Jobs.', combine='sum')
latest = sidelight.Gauge('app_latest', 'Set last.', combine='mostrecent')
seconds = sidelight.Histogram('app_seconds', 'Time.', buckets=(0.1, 1, 10))
sizes = sidelight.Summary('app_sizes', 'Bytes.')
state = sidelight.Enum('app_state', 'Of work.', states=('starting', 'running'))
sidelight.Info('app_build', 'What it is.').info({'version': '1.2'})
children = []


def count(n):
    for i in range(n):
        requests.labels(f'/{i % 3}', 200).inc()
        seconds.observe(i % 3)
        sizes.observe(2)
    queue.set(7)
    state.state('running')
    latest.set(os.getpid())


def threads():
    some = [threading.Thread(target=count, args=(2000,)) for _ in range(4)]
    for t in some:
        t.start()
    for t in some:
        t.join()


async def many():
    async def one():
        for _ in range(100):
            requests.labels('/0', 200).inc()
            await asyncio.sleep(0)
    await asyncio.gather(*(one() for _ in range(20)))


def fork():
    """Forks a child that counts by itself and lives until it is killed."""
    there, here = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if not pid:
        count(300)
        os.write(here, b'.')
        while os.getppid() == parent:
            time.sleep(0.05)
        os._exit(0)
    children.append(pid)
    os.read(there, 1)
    return pid


fork_without_hooks = ctypes.PyDLL(None).fork  # like uwsgi


def daemon(fork):
    """A child that closes all descriptors, opens files with the same numbers, and counts. Returns its exit status."""
    pid = fork()
    if not pid:
        try:
            for turn in range(2):  # the second time in a process that has a region
                numbers = range(3, 256 << turn)
                os.closerange(numbers.start, numbers.stop)
                files = [os.open('/dev/null', os.O_RDWR) for _ in numbers]
                null = os.stat('/dev/null')
                count(3 * (1 - turn))
                latest.set(turn)
                sidelight.Histogram(f'app_turn_{turn}', buckets=range(1000)).observe(1)
                seconds.observe(1, {'trace_id': 'x'} if turn else None)
                gc.collect()
                if not all(os.path.samestat(os.fstat(fd), null) for fd in files):
                    os._exit(1)
            os._exit(0)
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1]


def late():
    """Whether an agent gets a further region that could not be sent at once, because it read late."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f'{folder}/agent')
        listener.listen()
        listener.settimeout(60)
        publisher = sidelight.Publisher(socket=f'{folder}/agent', cells=1, schema_bytes=4096)
        agent, _ = listener.accept()
        agent.settimeout(60)
        with connection_to(listener.getsockname()) as own:
            try:
                while own.send(b'junk', socket.MSG_DONTWAIT):
                    pass
            except BlockingIOError:
                pass
        for name in ('app_first', 'app_second'):
            sidelight.Gauge(name, publisher=publisher)
        said = [agent.recv(4096)]
        while said[-1] == b'junk' or len(said) == 1:
            said.append(agent.recv(4096))
        agent.close()
        publisher.close()
        return len(said[-1])


def soon():
    """Returns the length of the PUBLISH after EAGAIN, which arrives much sooner than after any other refusal."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f'{folder}/agent')
        listener.listen()
        listener.settimeout(20)
        publisher = sidelight.Publisher(socket=f'{folder}/agent')
        sidelight.Gauge('app_soon', publisher=publisher)
        agent, _ = listener.accept()
        agent.settimeout(20)
        magic, serial = struct.unpack('<I8xI', agent.recv(4096)[:16])
        agent.send(struct.pack('<IHHIIi252s', magic, 3, 0, 256, serial, errno.EAGAIN, b'try again'))
        said = agent.recv(4096)
        if not said:  # libsidelight connects again
            agent.close()
            agent, _ = listener.accept()
            agent.settimeout(20)
            said = agent.recv(4096)
        agent.close()
        publisher.close()
        return len(said)


def connection_to(path):
    """Returns a duplicate of the socket that is connected to this path."""
    for fd in os.listdir('/proc/self/fd'):
        try:
            if os.readlink(f'/proc/self/fd/{fd}').startswith('socket:'):
                own = socket.socket(fileno=os.dup(int(fd)))
                if own.getpeername() == path:
                    return own
        except OSError:  # not connected, or closed since
            pass
    return None


def again():
    """A metric that was removed comes back with a longer help."""
    publisher = sidelight._backend.default()
    first, after = (sidelight.Gauge(f'app_{name}', 'Short.', ['x']).labels('1') for name in ('again', 'after'))
    first.set(1)
    after.set(6)
    publisher.remove('app_again', (('x', '1'),))
    sidelight.Gauge('app_again', 'Long. ' * 100, ['x']).labels('1').set(5)


def full():
    small = sidelight.Publisher(service='small', cells=50, max_regions=1)
    c = sidelight.Counter('small_total', labels=['n'], publisher=small)
    for i in range(1000):
        c.labels(i).inc()
    return small.refused


commands = {
    'count': lambda: count(3000), 'threads': threads, 'asyncio': lambda: asyncio.run(many()), 'fork': fork, 'full': full,
    'late': late, 'soon': soon, 'again': again, 'daemon': lambda: [daemon(fork) for fork in (os.fork, fork_without_hooks)],
    'remove': lambda: requests.remove('/2', 200), 'attached': sidelight.attached,
}
for line in sys.stdin:
    print(json.dumps(commands[line.strip()]()), flush=True)
for pid in children:
    os.kill(pid, 9)
