#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kit.py [--case CASE] WRITER...: holds a writer of regions against sidelight-region(5) and sidelight-attach(7).

WRITER is a program that publishes over $SIDELIGHT_SOCKET, and does what it is told line by line; README.md has the
words. This program is the agent, and the reader of the memory that the writer hands over.
"""
import argparse
import errno
import fcntl
import os
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

from reader import HOT, STRIPES, Fault, Reader, mixed, need, plain

MAGIC = 0x314d4c53
PUBLISH, ADMITTED, REFUSED, CLOSE, VERDICT, UNKNOWN = 1, 2, 3, 4, 20, 999
SHRINK, GROW = fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_GROW
PATIENCE = 60
ROUNDS = 20000
# Latencies that the writer observes, and the bounds of their histogram.
LATENCIES = (0.05, 0.5, 5.0, 50.0)
BOUNDS = (0.1, 1.0, 10.0)


class Agent:
    """The socket of publishers."""

    def __init__(self, path):
        self.path = path
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.bind(path)
        self.s.listen(16)
        self.s.settimeout(PATIENCE)

    def accept(self):
        c, _ = self.s.accept()
        c.settimeout(PATIENCE)
        return c

    def close(self):
        """Closes the socket like an agent that was killed."""
        self.s.close()
        os.unlink(self.path)


def packet(kind, payload, serial):
    return struct.pack('<IHHII', MAGIC, kind, 0, len(payload), serial) + payload


def receive(c):
    """(kind, payload, serial, descriptors)"""
    data, fds, _, _ = socket.recv_fds(c, 4096, 4)
    need(data, 'the connection ended')
    need(len(data) >= 16, 'a packet is too short')
    magic, kind, _, length, serial = struct.unpack_from('<IHHII', data)
    need(magic == MAGIC and length == len(data) - 16, 'head of a packet', data[:16].hex())
    return kind, data[16:], serial, fds


def publication(c):
    """(fd, instance, size, serial) of a PUBLISH, by the rules of PUBLISHING."""
    kind, payload, serial, fds = receive(c)
    need(kind == PUBLISH and len(payload) == 16, 'the first packet is no PUBLISH')
    need(len(fds) == 1, 'descriptors of PUBLISH:', len(fds))
    instance, size = struct.unpack('<QQ', payload)
    st = os.fstat(fds[0])
    need(st.st_size == size, 'size of the memory')
    need(stat.S_IMODE(st.st_mode) == 0o444, 'mode of the memory', oct(st.st_mode))
    need(fcntl.fcntl(fds[0], fcntl.F_GET_SEALS) & ~0x20 == SHRINK | GROW, 'seals')  # MFD_NOEXEC_SEAL adds F_SEAL_EXEC
    need(fcntl.fcntl(fds[0], fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR, 'the memory is not open for writing')
    return fds[0], instance, size, serial


def admit(c, serial):
    c.send(packet(ADMITTED, struct.pack('<QQ', 1, 2), serial))


class Writer:
    all = []

    def __init__(self, argv, path):
        self.p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, 'SIDELIGHT_SOCKET': path})
        self.all.append(self)

    def send(self, *words):
        self.p.stdin.write(' '.join(map(str, words)) + '\n')
        self.p.stdin.flush()

    def answer(self):
        line = self.p.stdout.readline().split()
        need(line and line[0] == 'ok', 'the writer answers', line, 'and not ok')
        return line[1:]

    def tell(self, *words):
        self.send(*words)
        return self.answer()

    def end(self):
        self.p.stdin.close()
        code = self.p.wait(PATIENCE)
        need(code == 0, 'the writer ends with', code)

    def kill(self):
        self.p.send_signal(signal.SIGKILL)
        self.p.wait()
        self.p.stdin.close()
        self.p.stdout.close()


def wanted(kinds, n, latest=None):
    """{name of a metric: its value after n rounds}. latest: the number of the last round."""
    last = n if latest is None else latest
    per = [n // 4 + (i < n % 4) for i in range(4)]
    out = {
        'counter': ('kit_requests_total', n), 'counter_f64': ('kit_seconds_total', n * 0.5), 'gauge': ('kit_depth', -last),
        'gauge_f64': ('kit_temperature', last * 0.25),
        'histogram': ('kit_latency_seconds', {'sum': sum(a * b for a, b in zip(per, LATENCIES)), 'refused': 0, 'buckets': per}),
        'info': ('kit_build_info', 1), 'stateset': ('kit_state', {'up': last % 2 == 0, 'down': last % 2 == 1}),
        'summary': ('kit_size_bytes', {'sum': n * 2.0, 'count': n, 'quantiles': {}}),
        'unknown': ('kit_unknown', float(last)),
    }
    need(set(kinds) <= set(out), 'kinds that the kit does not know:', *kinds)
    need({'counter', 'counter_f64'} & set(kinds) and {'gauge', 'gauge_f64'} & set(kinds), 'neither counter nor gauge')
    return dict(out[k] for k in kinds)


LABELS = {'kit_requests_total': (('code', '200'), ('method', 'get')), 'kit_build_info': (('version', '1.2 "ä"'),)}


def compare(values, want, exact=True):
    """The values of the metrics without further labels are those wanted."""
    for name, value in want.items():
        got = values.get((name, LABELS.get(name, ())))
        need(got is not None, 'there is no', name, LABELS.get(name, ()))
        if isinstance(value, dict) and 'sum' in value:
            need(abs(got['sum'] - value['sum']) <= 1e-9 * abs(value['sum']), name, got, 'and not', value)
            got, value = {**got, 'sum': 0}, {**value, 'sum': 0}
        need(got == value, name, got, 'and not', value)


# ---- cases -----------------------------------------------------------------------------------------------------------

class Setting:
    """An agent, a writer that made its metrics, and a reader of its region."""

    def __init__(self, argv, folder):
        self.agent = Agent(os.path.join(folder, 'agent.sock'))
        self.writer = Writer(argv, self.agent.path)
        self.connect()
        self.kinds = self.writer.tell('make')

    def connect(self):
        self.c = self.agent.accept()
        fd, self.instance, _, serial = publication(self.c)
        self.inode = os.fstat(fd).st_ino
        self.reader = Reader(fd)
        need(self.reader.header['instance'] == self.instance, 'instance of PUBLISH and header')
        need(self.reader.header['pid'] == self.writer.p.pid, 'PID in the header')
        with open(f'/proc/{self.writer.p.pid}/stat') as f:
            ticks = int(f.read().rpartition(')')[2].split()[19])
        need(self.reader.header['start_ticks'] == ticks, 'start of the process in the header')
        with open('/proc/sys/kernel/random/boot_id') as f:
            need(self.reader.header['boot_id'].hex() == f.read().strip().replace('-', ''), 'boot_id in the header')
        admit(self.c, serial)


def read_while_written(s):
    """Every rule of the region holds in each round while the writer writes, and the totals are exact."""
    s.writer.send('count', ROUNDS)
    answers = []
    t = threading.Thread(target=lambda: answers.append(s.writer.answer()), daemon=True)
    t.start()
    seen = set()
    while t.is_alive():
        v = s.reader.round()
        seen.add(repr(v.get(('kit_requests_total', LABELS['kit_requests_total']), v.get(('kit_seconds_total', ())))))
    need(len(seen) > 2, 'the values did not change while the writer wrote:', len(seen))
    compare(s.reader.quiet(), wanted(s.kinds, ROUNDS))
    return f'{s.reader.rounds} rounds, {len(seen)} different'


def closes_in_order(s):
    """The end of the writer is CLOSE and state closed."""
    s.writer.tell('count', 3)
    s.writer.end()
    kind, payload, _, fds = receive(s.c)
    need(kind == CLOSE and payload == struct.pack('<Q', s.instance) and not fds, 'the last packet is no CLOSE')
    compare(s.reader.quiet(), wanted(s.kinds, 3))
    need(s.reader.hot[4] & 255 == 3, 'state', s.reader.hot[4] & 255)


def agent_comes_back(s):
    """A writer whose agent ended goes on counting, and publishes the same memory to the next one."""
    s.agent.close()
    s.c.close()
    s.writer.tell('count', 100)
    inode, instance, before = s.inode, s.instance, s.reader
    s.agent = Agent(s.agent.path)
    s.connect()
    need((s.inode, s.instance) == (inode, instance), 'another region for the second agent')
    s.writer.tell('count', 100)
    compare(s.reader.quiet(), wanted(s.kinds, 200, 100))
    before.close()


def takes_any_answer(s):
    """Verdicts and messages of later versions change nothing."""
    for _ in range(100):
        s.c.send(packet(VERDICT, struct.pack('<QQQqdQQ', s.instance, 1, 10**9, time.time_ns(), 2.5, 0, 0), 0))
        s.c.send(packet(UNKNOWN, b'a later message', 0))
    s.writer.tell('count', 10)
    compare(s.reader.quiet(), wanted(s.kinds, 10))
    s.c.setblocking(False)
    try:
        need(False, 'the writer answers', s.c.recv(4096))
    except BlockingIOError:
        pass


def killed_at_any_time(s):
    """A writer that is killed leaves memory that is right once the check words are computed anew; at most the last round is
    incomplete."""
    s.writer.send('count', 10**9)
    key, end = ('kit_requests_total', LABELS['kit_requests_total']), time.monotonic() + PATIENCE
    while s.reader.round().get(key, 0) < 1000:
        need(time.monotonic() < end, 'the writer does not count')
    s.writer.kill()
    broken = repair(s.reader)
    need(broken <= 2, broken, 'lines do not verify')
    v = s.reader.quiet()
    rounds = [total(v[name, LABELS.get(name, ())]) / total(one) for name, one in wanted(s.kinds, 1).items()
              if name.endswith(('_total', '_bytes')) and (name, LABELS.get(name, ())) in v]
    h = v.get(('kit_latency_seconds', ()))
    rounds += [sum(h['buckets'])] if h else []
    need(max(rounds) - min(rounds) <= 1 and min(rounds) > 100, 'rounds by metric:', *rounds)
    return f'{int(min(rounds))} rounds, {broken} lines repaired'


def total(value):
    return value['count'] if isinstance(value, dict) else value


def repair(r):
    """Repairs a copy as the agent does. Returns the number of repaired lines."""
    stride, offset, _ = r.sections[STRIPES]
    words, broken = memoryview(bytearray(r.map)).cast('Q'), 0
    hot = list(words[r.sections[HOT][1] // 8:][:8])
    for stripe in range(hot[3]):
        for n in range(hot[2]):
            at = (offset + stripe * stride + n * 64) // 8
            right = (plain if stripe else mixed)(list(words[at:at + 7]))
            broken += right != words[at + 7]
            words[at + 7] = right
    r.words, r.map = words, words.cast('B')
    return broken


def comes_before_the_agent(argv, folder):
    """A writer without an agent counts, and its region appears soon after an agent does."""
    w = Writer(argv, os.path.join(folder, 'agent.sock'))
    kinds = w.tell('make')
    w.tell('count', 50)
    s = Setting.__new__(Setting)
    s.agent, s.writer, s.kinds = Agent(os.path.join(folder, 'agent.sock')), w, kinds
    begun = time.monotonic()
    s.connect()
    took = time.monotonic() - begun
    compare(s.reader.quiet(), wanted(kinds, 50))
    w.end()
    return f'after {took:.2f} s'


def goes_dense_when_told(argv, folder):
    """ENODATA: the writer allocates all of its memory, and publishes it again."""
    agent = Agent(os.path.join(folder, 'agent.sock'))
    w = Writer(argv, agent.path)
    c = agent.accept()
    fd, _, size, serial = publication(c)
    c.send(packet(REFUSED, struct.pack('<i252s', errno.ENODATA, b'the memory has holes'), serial))
    # The writer may publish again over the same connection or over another one.
    ready, _, _ = select.select([c, agent.s], [], [], PATIENCE)
    need(ready, 'the region is not published again')
    ended = c in ready and not c.recv(1, socket.MSG_PEEK)
    again = agent.accept() if ended or agent.s in ready else c
    fd2, _, _, serial = publication(again)
    need(os.fstat(fd).st_ino == os.fstat(fd2).st_ino, 'another region')
    need(os.fstat(fd2).st_blocks * 512 >= size, 'the memory still has holes')
    admit(again, serial)
    w.tell('make')
    w.end()


def removes_and_gives_again(s):
    """Minor 1: a removed metric disappears, starts from 0 if it is added again, and makes room for another one after 11 s."""
    r, name = s.reader, 'kit_removable_total'
    s.writer.tell('labels', 'first')
    need(r.quiet()[name, (('of', 'first'),)] == 1, 'the metric does not count')
    s.writer.tell('remove', 'first')
    need((name, (('of', 'first'),)) not in r.quiet(), 'the metric was not removed')
    s.writer.tell('labels', 'first')
    need(r.quiet()[name, (('of', 'first'),)] == 1, 'the metric does not begin at 0')
    s.writer.tell('remove', 'first')
    used = r.hot[1]
    s.writer.tell('labels', 'other')
    need(r.quiet()[name, (('of', 'other'),)] == 1 and r.hot[1] > used, 'a record was replaced at once')
    used = r.hot[1]
    time.sleep(11.5)
    r.round()
    s.writer.tell('labels', 'third')
    v = r.quiet()
    need(v[name, (('of', 'third'),)] == 1 and (name, (('of', 'first'),)) not in v, 'the third label set', v)
    need(r.hot[1] == used, 'the room of a removed metric was not used again')


def keeps_exemplars(s):
    """Minor 1: keeps a counter's latest exemplar. An exemplar that does not fit or is malformed is dropped and counted."""
    def traced(key, value):
        return None if s.writer.tell('traced', key, value) == ['lacks'] else s.reader.quiet()['kit_traced_total', ()]

    def kept():
        return [(cell, labels, value) for ident, cell, labels, value in s.reader.exemplars()
                if s.reader.records[ident]['name'] == 'kit_traced_total']
    if traced('user', 'ä') is None:
        return 'the writer has none'
    need(kept() == [(0, {'user': 'ä'}, 1)], 'the first exemplar', kept())
    need(traced('user', 'x' * 146) == 2 and kept() == [(0, {'user': 'x' * 146}, 1)], 'an exemplar of 152 bytes', kept())
    dropped = s.reader.exemplars_dropped
    for n, (key, value) in enumerate((('user', 'x' * 147), ('kä', '1')), 1):
        need(traced(key, value) == 2 + n and kept() == [(0, {'user': 'x' * 146}, 1)], key, value, kept())
        need(s.reader.exemplars_dropped == dropped + n, 'dropped exemplars:', s.reader.exemplars_dropped)
    need(traced('b', '2') == 5 and kept() == [(0, {'b': '2'}, 1)], 'the last exemplar', kept())


def keeps_names_in_utf8(s):
    """Minor 1: any name and key of a counter."""
    if s.writer.tell('named', 'käse', 'ö') == ['lacks']:
        return 'the writer has none'
    s.writer.tell('named', 'käse', 'ö')
    need(s.reader.quiet().get(('kit.größe', (('käse', 'ö'),))) == 2, 'kit.größe', s.reader.values)


CASES = {f.__name__: f for f in (read_while_written, closes_in_order, agent_comes_back, takes_any_answer, killed_at_any_time,
                                 comes_before_the_agent, goes_dense_when_told, removes_and_gives_again,
                                 keeps_exemplars, keeps_names_in_utf8)}
MINOR_1 = (removes_and_gives_again, keeps_exemplars, keeps_names_in_utf8)
ALONE = (comes_before_the_agent, goes_dense_when_told)


def run(case, argv):
    """Returns the result of the case; raises Fault."""
    with tempfile.TemporaryDirectory() as folder:
        f, s = CASES[case], None
        try:
            if f in ALONE:
                return f(argv, folder)
            s = Setting(argv, folder)
            return f(s)
        finally:
            for w in Writer.all:
                if w.p.poll() is None:
                    w.kill()
            Writer.all.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--case', action='append', choices=CASES)
    parser.add_argument('--minor', type=int, default=0, help='also the cases of this minor version')
    parser.add_argument('writer', nargs=argparse.REMAINDER)
    args = parser.parse_args()
    failed = 0
    for name in args.case or [c for c in CASES if args.minor or CASES[c] not in MINOR_1]:
        try:
            said = run(name, args.writer)
            print(f'ok   {name.replace("_", "-")}{f": {said}" if said else ""}', flush=True)
        except (Fault, OSError, TimeoutError) as e:
            failed += 1
            print(f'FAIL {name.replace("_", "-")}: {e!r}', flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
