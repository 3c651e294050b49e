# SPDX-License-Identifier: Apache-2.0
"""The translator as a process, with a store server of the test's own."""
import json
import os
import random
import signal
import socket
import struct
import sys
import time

from account import account_of
from support.process import Part, case, check, run_cases, wait_until, workdir
from support.store_server import CONTROL, StoreServer, Store, usual

SIDELIGHT = sys.argv[1]
D = workdir()
random.seed(1)


class Translator(Part):
    def __init__(self, *options, path=f'{D}/s', listen='127.0.0.1:0', ready=True):
        super().__init__(SIDELIGHT, 'translate', '--collector', f'unix:{path}', '--listen', listen, '--json',
                         '--name', 't', *options)
        if ready:
            self.address = self.ready()['listen']
            self.port = int(self.address.rsplit(':', 1)[1])

    def account(self):
        return account_of(self)


def generate(t, *options, code=0):
    g = Part(SIDELIGHT, 'generate', 'dta', '--to', t.address, '--json', '--show', '0', *options)
    check(g.wait() == code, 'the generator failed', g, t)
    said = json.loads(g.out[-1])
    check(code or said['complete'], 'it was stopped', g, t)
    return said


def expected(path):
    with open(path) as f:
        for line in f:
            yield line.split()


def lists(stores, count=4):
    """Returns the numbers of the items in each list, in the order of the ring, whose blocks must have no gap."""
    for i in range(count):
        blocks = stores[1].blocks(i)
        first = min(blocks, default=0)
        check(sorted(blocks) == list(range(first, first + len(blocks))), f'list {i}: blocks {sorted(blocks)}')
        yield [int.from_bytes(item, 'big') for b in sorted(blocks) for item in blocks[b]]


UNKIND = ('--loss', '.05', '--duplicate', '.05', '--reorder', '.1')
ALL = ('--kinds', 'all', '--count', '12000', '--keys', '12000', '--pack', '7', '--reporters', '3', '--lists', '4',
       '--rows', '2', '--columns', '256', '--rate', '400000')


@case
def essential_reports_arrive_exactly_once():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator()
    g = generate(t, *ALL, *UNKIND, '--essential', '--expect', f'{D}/x')
    a = t.account()
    check(a['loss']['arrived'] == g['reports'] == a['engine']['stored'], f'not all: {a} {g}', t)
    check(a['loss']['duplicates'] > 0 and a['loss']['recovered'] > 0, f'too kind a network: {a}', t)
    for items in lists(stores):
        check(sorted(items) == list(range(3000)), f'items lost or twice: {len(items)}')
    total = sum(int(w[2]) for w in expected(f'{D}/x') if w[0] == 'increment')
    check(stores[2].column_sums() == [total, total, 0, 0], f'{stores[2].column_sums()}: not {total}')
    written = stores[0].occupied()
    check(10000 < written <= 24000, f'{written} slots of 12000 keys in 2 copies')
    told = [m for m in server.heard if m['type'] == 'account'][-1]
    check({k: told[k] for k in a if k != 'others'} == {k: a[k] for k in a if k != 'others'},
          f'the server was told {told}, and not {a}')
    server.close()


@case
def losses_are_counted_and_nothing_is_taken_twice():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator()
    g = generate(t, *ALL, *UNKIND, '--expect', f'{D}/x')
    # The last report of each reporter has arrived, so that every gap is known.
    a = t.account()
    check(a['loss']['expected'] == g['reports'], f'{a["loss"]}: not {g["reports"]} reports')
    lost = a['loss']['missing'] + a['loss']['lost']
    check(lost >= g['withheld'] > 0, f'{lost} lost, {g["withheld"]} withheld', t)
    check(a['socket_drops'] or lost == g['withheld'], f'{lost} lost, {g["withheld"]} withheld', t)
    if not a['socket_drops']:
        want = {int(w[1]): w[2:] for w in expected(f'{D}/x') if w[0] == 'append'}
        for i, items in enumerate(lists(stores)):
            arrive, _, numbers = map(int, want[i])
            check(len(items) == len(set(items)) == arrive and sum(items) == numbers,
                  f'list {i}: {len(items)} items, sum {sum(items)}, and not {want[i]}')
    server.close()


def newest(stores):
    return max((int.from_bytes(i, 'big') for b in stores[1].blocks(3).values() for i in b), default=0)


@case
def a_packet_seen_in_part_gives_its_other_reports():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(first, again):
        body = b''.join(struct.pack('>BBHBBHHH', 2, 0, 3, 0, 4, 8, 2, 0) +
                        b''.join(struct.pack('>IQ', 1, first + b + i) for i in range(3)) for b in (0, 3))
        s.sendto(header(7, first, 6, body, blocks=2, flags=2 * again), ('127.0.0.1', t.port))
    # Two blocks of three reports per packet; each packet begins where the one before was at its middle.
    for first in (0, 3, 6, 1):
        send(first, first > 3)
    wait_until(lambda: sum(map(len, lists(stores))) >= 12, 'not all came', t)
    server.close()
    wait_until(lambda: any('collector is not available' in line for line in t.err), 'it has not noticed', t)
    send(12, True)
    a = t.account()
    check(a['loss']['duplicates'] == 12 and a['fresh'] == 18 and a['engine']['dropped']['output_down'] == 6, f'{a}', t)
    check(list(lists(stores))[1] == list(range(12)), f'{list(lists(stores))[1]}', t)
    # Only retransmitted reports that were taken may be stored twice, not those that had arrived before or that no server could
    # store.
    check(a['maybe_twice'] == 3, f'{a}', t)


@case
def killed_translator_leaves_no_gap_or_double():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator()
    g = Part(SIDELIGHT, 'generate', 'dta', '--to', t.address, '--kinds', 'append', '--count',
             '1000000000', '--lists', '4', '--pack', '5', '--rate', '20000', '--show', '0')
    wait_until(lambda: stores[1].next_blocks()[3] > 20, 'nothing came', t, g)
    t.stop(signal.SIGKILL)
    before = newest(stores)
    t2 = Translator(listen=t.address)
    # Too short for the ring to wrap.
    wait_until(lambda: newest(stores) > before, 'nothing came after the restart', t2, g, every=.01)
    check(g.stop() == 0 and g.out[0].endswith(', stopped before the end'), 'the generator failed', g)
    t2.account()
    for items in lists(stores):
        check(items == sorted(set(items)), 'items twice, or out of order')
    server.close()


@case
def lost_store_server_costs_only_the_gap():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator()
    some = ('--kinds', 'append', '--count', '1000', '--lists', '4', '--pack', '10', '--rate', '200000')
    generate(t, *some)
    wait_until(lambda: sum(map(len, lists(stores))) == 1000, 'not all was stored', t)
    server.close()
    wait_until(lambda: any('collector is not available' in line for line in t.err), 'it has not noticed', t)
    generate(t, *some)
    # A new object each time, as in a collector that was restarted.
    later = usual()
    server = StoreServer(f'{D}/s', later)
    wait_until(lambda: sum('writing' in line for line in t.err) == 2, 'it has not come back', t)
    generate(t, *some)
    a = t.account()
    check(a['engine']['dropped']['output_down'] == 1000 and a['engine']['stored'] == 2000, f'{a["engine"]}', t)
    check(sum(map(len, lists(stores))) == sum(map(len, lists(later))) == 1000, 'not where it belongs')
    server.close()


@case
def an_epoch_is_drained_before_it_is_reported():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator()
    generate(t, '--count', '500', '--keys', '500', '--copies', '1')
    wait_until(lambda: stores[0].occupied(0) > 400, 'nothing was stored', t)
    first = stores[0].occupied(0)
    server.say(server.said[0], {'type': 'rotate', 'tenant': 0, 'store': 1, 'epoch': 1})
    wait_until(lambda: {'type': 'rotated', 'tenant': 0, 'store': 1, 'epoch': 1} in server.heard, 'it has not rotated', t)
    generate(t, '--count', '300', '--keys', '300', '--copies', '1')
    wait_until(lambda: stores[0].occupied(1) > 200, 'the next epoch has nothing', t)
    check(stores[0].occupied(0) == first, 'the epoch before was written into')
    t.account()
    server.close()


def header(reporter, sequence, reports, body, blocks=1, version=2, tenant=0, flags=0):
    return struct.pack('>BBBBHHIIQII', 0xd7, version, flags, blocks, tenant, 32 + len(body), reporter, sequence, 0,
                       9, reports) + body


def keywrite(n):
    return struct.pack('>BBHBBHHH', 1, 0, 1, 1, 8, 8, 1, 0) + struct.pack('>QQ', n, n)


@case
def reports_from_other_ports_are_stored_once():
    """A reporter whose packets come from 16 ports, which the kernel spreads over the workers, and a replay from others."""
    for workers in (1, 2, 3):
        server = StoreServer(f'{D}/s', usual())
        t = Translator('--workers', workers)
        ports = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(96)]
        wait_until(lambda: sum('started writing' in line for line in t.err) == workers, 'no store', t)
        for n in range(400):
            ports[n // 200 * 16 + n % 16].sendto(header(7, n % 200, 1, keywrite(n % 200)), ('127.0.0.1', t.port))
        a = t.account()
        check((a['engine']['stored'], a['loss']['duplicates'], a['loss']['reporters'], a['loss']['lost']) == (200, 200, 1, 0),
              f'{workers} workers: {a}', t)
        server.close()
    # The original's reporters have no number: a window for each address, which one worker hears.
    server = StoreServer(f'{D}/s', [Store('append', 2, slots=1024, value=4, batch=16, lists=4, lanes=3)])
    t = Translator('--workers', '3', '--legacy', 'b')
    wait_until(lambda: sum('started writing' in line for line in t.err) == 3, 'no store', t)
    for n in range(96):
        ports[n].sendto(struct.pack('>BBBII', 2, n % 48, 0x40, 0, n % 48), ('127.0.0.1', t.port))
    a = t.account()
    check((a['engine']['stored'], a['loss']['duplicates']) == (48, 48), f'the original: {a}', t)
    server.close()


@case
def a_forged_packet_mutes_no_reporter():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('127.0.0.1', t.port))
    at, forged = 0, header(1, 0, 1, keywrite(1))
    forged = forged[:24] + struct.pack('>I', 77) + forged[28:]  # of another incarnation

    def report():
        nonlocal at
        s.send(header(1, at, 1, struct.pack('>BBHBBHHH', 2, 0, 1, 0, 4, 8, 2, 0) + struct.pack('>IQ', 0, at)))
        at += 1
        return any('same number' in line for line in t.err)
    for _ in range(10):
        report()
    s.send(forged)
    wait_until(report, 'nobody is told of two reporters with one number', t, every=.05)
    s.send(header(1, 0x70000000, 1, keywrite(2)))  # a jump
    known = at
    for _ in range(10):
        report()
    a = t.account()
    items = [i for one in lists(stores) for i in one]
    check(set(items) >= set(range(10)) | set(range(known, at)), f'{items}: not those from {known} to {at}', t)
    check(len(items) == len(set(items)) and a['engine']['stored'] == len(items) + 2, f'{items} {a}', t)
    check(a['loss']['collisions'] == 1 == a['loss']['jumps'], f'{a}', t)
    check(a['loss']['late'] + len(items) == at and a['loss']['expected'] <= at + 2, f'{at} reports: {a}', t)
    server.close()


@case
def strangers_get_no_more_back_than_they_sent():
    stores = [Store('append', 1, tenant=t, slots=1024, value=8, batch=16, lists=4, lanes=2) for t in (0, 7)]
    server = StoreServer(f'{D}/s', stores)
    t = Translator()
    server.say(server.said[0], {'type': 'tenant', 'tenant': 7, 'rate': 0, 'burst': 0, 'required': False,
                                'keys': [{'key': '00112233445566778899aabbccddeeff'}]})
    mark = {'type': 'rotated', 'tenant': 0, 'store': 9, 'epoch': 1}
    server.say(server.said[0], dict(mark, type='rotate'))
    wait_until(lambda: mark in server.heard, 'the tenant was not taken', t)
    item = struct.pack('>BBHBBHHH', 2, 0, 1, 0, 4, 8, 1, 0) + struct.pack('>IQ', 0, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(.2)
    s.connect(('127.0.0.1', t.port))
    sent = got = answers = 0
    # Each packet leaves a gap before it, which a translator would report as missing five times.
    for i in range(300):
        tenant = 7 * (i % 2)
        p = header(i // 2 % 50, 3 + 4 * (i // 100), 1, item, flags=4, tenant=tenant)
        sent += s.send(p)
        while i % 20 == 19:
            try:
                answer = s.recv(2048)
            except socket.timeout:
                break
            answers += 1
            got += len(answer)
            check(len(answer) == 24 + 8 * answer[3], f'an answer of {len(answer)} bytes is signed by the key of a tenant', t)
    a = t.account()
    check(answers > 100 and got <= sent, f'{got} bytes came back for {sent} in {answers} answers', t)
    check(a['held_back'] > 0, f'{a}', t)
    server.close()


@case
def a_rate_is_of_the_tenant_over_all_workers():
    server = StoreServer(f'{D}/s', usual())
    t = Translator('--workers', '4')
    for i, c in enumerate(server.said):
        mark = {'type': 'rotated', 'tenant': 0, 'store': 9, 'epoch': i + 1}
        server.say(c, {'type': 'tenant', 'tenant': 0, 'rate': 10, 'burst': 100, 'required': False, 'keys': []})
        server.say(c, dict(mark, type='rotate'))
        wait_until(lambda: mark in server.heard, 'the tenant was not taken', t)
    began = time.monotonic()
    for reporter in range(40):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for first in range(0, 100, 20):
                body = struct.pack('>BBHBBHHH', 1, 0, 20, 1, 8, 8, 1, 0) + b''.join(
                    struct.pack('>QQ', reporter << 32 | first + i, 1) for i in range(20))
                s.sendto(header(reporter, first, 20, body), ('127.0.0.1', t.port))
    a = t.account()
    most = 100 + 10 * (time.monotonic() - began) + 1
    check(100 <= a['engine']['stored'] <= most, f'{a["engine"]}: more than {most} stored', t)
    check(a['engine']['stored'] + a['engine']['dropped']['rate'] == a['engine']['in'] > 1000, f'{a}', t)
    server.close()


@case
def a_resent_report_replaces_no_newer_one():
    stores = [Store('key-write', 1, slots=1 << 17, value=8, copies=1)]
    server = StoreServer(f'{D}/s', stores)
    t = Translator('--workers', '2')
    value_of = lambda key, n: key << 32 | n

    def packet(first, keys, number, again=0):
        body = struct.pack('>BBHBBHHH', 1, 2, len(keys), 1, 8, 8, 1, 0) + \
            b''.join(struct.pack('>QQ', k, value_of(k, number)) for k in keys)
        return header(1, first, len(keys), body, flags=2 * again)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(20)
    s.connect(('127.0.0.1', t.port))
    rounds, keys, sent, named = 4, 1000, {}, set()  # all reports lie within a window
    for number in range(rounds):
        for at in range(0, keys, 20):
            first = number * keys + at
            sent[first] = (range(at, at + 20), number)
            if random.random() > .05 or first in (0, (rounds - 1) * keys + keys - 20):
                s.send(packet(first, *sent[first]))
            else:
                named.add(first)
    lost = len(named)
    check(lost > 3, f'only {lost} packets lost')
    while named:
        answer = s.recv(2048)
        for i in range(answer[3] if answer[2] == 2 else 0):
            first, count = struct.unpack_from('>II', answer, 24 + 8 * i)
            for p in range(first, first + count, 20):
                s.send(packet(p, *sent[p], again=1))
                named.discard(p)
    a = t.account()
    check(a['loss']['missing'] + a['loss']['lost'] == 0 == a['socket_drops'], f'{a}', t)
    words = stores[0].bank()[:stores[0].slots * 16]
    values = {int.from_bytes(words[i + 8:i + 16], 'big') for i in range(0, len(words), 16)} - {0}
    old = [v for v in values if v & 0xffffffff != rounds - 1]
    check(len(values) > .98 * keys and not old, f'{len(old)} of {len(values)} keys have an old value', t)
    check(a['engine']['dropped']['superseded'] > 0, f'{a}', t)
    server.close()


@case
def refuses_strangers_and_hostile_packets():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator('--reporters', '100')
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    to = ('127.0.0.1', t.port)
    good = header(1, 0, 1, keywrite(1))
    sent = [good]
    sent += [header(1000 + i, 0, 1, keywrite(i)) for i in range(2000)]  # strangers
    sent += [header(1, 0, 1, keywrite(1), tenant=77)]
    sent += [good[:n] for n in range(0, len(good))]
    sent += [good + b'x', header(1, 0, 1, keywrite(1), version=9)]
    for _ in range(1500):
        bad = bytearray(good)
        for _ in range(random.randrange(1, 5)):
            bad[random.randrange(len(bad))] = random.randrange(256)
        sent.append(bytes(bad))
    sent += [random.randbytes(random.randrange(1, 1400)) for _ in range(300)]
    for i, p in enumerate(sent):
        s.sendto(p, to)
    generate(t, '--count', '2000', '--keys', '2000', '--reporter', '1000', '--rate', '100000', '--incarnation', '9',
             '--sequence', '1')
    a = t.account()
    check(a['packets'] + a['socket_drops'] >= len(sent), f'{len(sent)} were sent: {a}', t)
    if not a['socket_drops']:
        check(a['refused_reporter'] >= 1900 and a['refused_tenant'] >= 1, f'{a}', t)
        for cause in ('truncated', 'oversized', 'version', 'opcode', 'copies', 'count', 'flags'):
            check(a['refused'][cause], f'nothing was refused as {cause}: {a["refused"]}', t)
    server.close()


class OriginalReporter:
    """A reporter of the original protocol, form B: it has 8 bits of sequence numbers, and answers on port 40044 say up to where
    all packets arrived (a NACK asks for those behind). Each has an address of its own, as nothing else tells reporters
    apart."""

    def __init__(self, port):
        while True:
            self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.answers = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            me = f'127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.{random.randrange(1, 255)}'
            try:
                self.answers.bind((me, 40044))
                break
            except OSError:  # another translator's
                self.close()
        self.s.bind((me, 0))
        self.s.connect(('127.0.0.1', port))
        self.kept, self.next = {}, 1  # packets not yet acknowledged, by their unwrapped number
        self.nacks = self.again = 0

    def report(self, packet, lost, retransmitable=True):
        """packet(sequence, flags)"""
        if retransmitable:
            self.kept[self.next] = packet(self.next & 255, 0x40)
            if not lost:
                self.s.send(self.kept[self.next])
            self.next += 1
        elif not lost:
            self.s.send(packet(0, 0))

    def listen(self, seconds):
        self.answers.settimeout(seconds)
        try:
            answer = self.answers.recv(100)
        except TimeoutError:
            return False
        check(len(answer) == 2 and not answer[1] & 0x7f, f'{answer.hex()} is no answer')
        last = self.next - 1 - (self.next - 1 - answer[0] & 255)
        for number in [n for n in self.kept if n <= last]:
            del self.kept[number]
        if answer[1]:
            self.nacks += 1
            self.send_again()
        return True

    def send_again(self):
        for number in sorted(self.kept):
            self.s.send(self.kept[number])
            self.again += 1

    def close(self):
        self.s.close()
        self.answers.close()


@case
def original_reporters_resend_on_nack():
    # The original's append: list, 4 bytes; its number of a store is its opcode.
    events = Store('append', 2, slots=1024, value=4, batch=16, lists=4, lanes=2)
    server = StoreServer(f'{D}/s', [events])
    t = Translator('--legacy', 'b')
    random.seed(7)
    r = OriginalReporter(t.port)
    for i in range(3000):
        while len(r.kept) >= 32:  # fewer than the window, which is 64
            if not r.listen(.02):
                r.send_again()
        r.report(lambda sequence, flags, i=i: struct.pack('>BBBII', 2, sequence, flags, i & 3, i), random.random() < .1)
        # Reports that cannot be retransmitted have no number: they are taken as they come, and do not affect the others.
        r.report(lambda sequence, flags, i=i: struct.pack('>BBBII', 2, sequence, flags, i & 3, i + 10000), i % 10,
                 retransmitable=False)
    wait_until(lambda: not r.kept or (r.listen(.02) or r.send_again()) and False, lambda: f'{len(r.kept)} remain',
               t, seconds=30)
    a = t.account()
    r.close()
    for i, items in enumerate(lists([None, events])):
        want = [n for n in range(3000) if n & 3 == i]
        want += [n + 10000 for n in want if not n % 10]
        check(sorted(items) == want, f'list {i}: {len(items)} items, not {len(want)}', t)
    check(r.nacks and a['loss']['recovered'], f'nothing was asked for: {a}', t)
    check(a['loss']['arrived'] == 3000 and a['fresh'] == 3300 and not a['loss']['missing'], f'{a}', t)
    server.close()


def stopped(pid):
    with open(f'/proc/{pid}/stat') as f:
        return f.read().rsplit(')', 1)[1].split()[0] == 'T'


@case
def an_overflow_lowers_the_credits_while_it_lasts():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator('--receive-buffer', '64k')
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('127.0.0.1', t.port))
    sequence = 0

    def ask(seconds=1):
        """Sends a packet that requests an answer, and returns the credits in the answer."""
        nonlocal sequence
        p = bytearray(header(1, sequence, 1, keywrite(sequence)))
        p[2] = 4
        s.send(p)
        sequence += 1
        s.settimeout(seconds)
        try:
            return struct.unpack('>I', s.recv(2048)[16:20])[0]
        except TimeoutError:
            return None
    wait_until(lambda: ask() == 0xffffffff, 'credits before anything overflowed', t)

    def lowered():
        nonlocal sequence
        os.kill(t.pid, signal.SIGSTOP)
        wait_until(lambda: stopped(t.pid), 'it runs on', t)
        sequence += 1  # a gap before the dropped reports, which is requested as soon as it runs again
        for _ in range(2000):
            s.send(header(1, sequence, 1, keywrite(sequence)))
            sequence += 1
        os.kill(t.pid, signal.SIGCONT)
        return (ask() or 0) in (2048, 1024, 512, 256, 128, 64)
    # On a busy machine, the overflow may be over before the test asks.
    wait_until(lowered, 'it asks for as many as before', t)
    wait_until(lambda: ask() == 0xffffffff, 'it never wants more again', t)
    a = t.account()
    check(a['socket_drops'] and a['slowed'], f'{a}', t)
    server.close()


@case
def queued_packets_are_taken_at_the_end():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('127.0.0.1', t.port))
    os.kill(t.pid, signal.SIGSTOP)
    wait_until(lambda: stopped(t.pid), 'it runs on', t)
    for i in range(3000):
        p = bytearray(header(1, i, 1, keywrite(i)))
        p[2] = 4 if i == 2999 else 0
        s.send(p)
    os.kill(t.pid, signal.SIGTERM)
    os.kill(t.pid, signal.SIGCONT)
    a = t.account()
    check(a['packets'] + a['socket_drops'] == 3000 and not a['maybe_twice'], f'{a}', t)
    if not a['socket_drops'] + a['unread']:
        check(a['engine']['stored'] == 3000, f'{a}', t)
        s.settimeout(10)
        check(struct.unpack('>I', s.recv(2048)[12:16])[0] == 3000, 'it was not acknowledged', t)
    server.close()


def block(opcode, items, store=1, copies=1, key=8, value=8, count=None, flags=0):
    return struct.pack('>BBHBBHHH', opcode, flags, len(items) if count is None else count, copies, key, value, store, 0) + \
        b''.join(items)


@case
def packets_of_other_networks_are_refused():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator('--allow-from', '10.0.0.0/8,127.0.0.2/31', '--allow-from', '2001:db8::/32')
    good = header(1, 0, 1, block(1, [bytes(16)]))
    for n in (1, 4, 3):  # 127.0.0.2/31 is 127.0.0.2 and 127.0.0.3
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind((f'127.0.0.{n}', 0))
        s.connect(('127.0.0.1', t.port))
        s.send(good)
    a = t.account()  # at its end, a translator takes the packets left in its sockets
    check((a['packets'], a['refused_source'], a['packets_taken'], a['fresh']) == (3, 2, 1, 1), f'{a}', t)
    server.close()
    for wrong in ('10.0.0.0/33', 'x', '10.0.0.0/8,', '::1/129'):
        p = Part(SIDELIGHT, 'translate', '--collector', f'unix:{D}/s', '--allow-from', wrong)
        check(p.wait() == 2 and wrong in p.logged(), p)


@case
def refuses_wrong_packets_by_cause():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(('127.0.0.1', t.port))
    item, pair = bytes(16), struct.pack('>IQ', 1, 5)
    good = header(1, 0, 1, block(1, [item]))
    flagged, unproved = bytearray(good), bytearray(good) + bytes(24)
    flagged[2], unproved[2] = 0x80, 1
    longer, shorter = bytearray(good), bytearray(good)
    longer[6:8], shorter[6:8] = struct.pack('>H', len(good) + 8), struct.pack('>H', len(good) - 8)
    three = block(1, [item]), block(2, [pair], 2, 0, 4)
    refused = [
        ('truncated', good[:-1]), ('truncated', good[:20]), ('truncated', good[:1]), ('truncated', longer),
        ('oversized', good + b'x'), ('oversized', shorter), ('version', header(1, 0, 1, block(1, [item]), version=9)),
        ('opcode', header(1, 0, 1, block(9, [item]))), ('opcode', header(1, 0, 1, block(0, [item]))),
        ('copies', header(1, 0, 1, block(1, [item], copies=0))), ('copies', header(1, 0, 1, block(1, [item], copies=200))),
        ('key', header(1, 0, 1, block(1, [bytes(11)], key=3))), ('key', header(1, 0, 1, block(1, [bytes(73)], key=65))),
        ('value', header(1, 0, 1, block(1, [bytes(10)], value=2))),
        ('value', header(1, 0, 1, block(4, [bytes(8) + b'\5\5' + bytes(6)], store=4))),  # hop 5 of 5
        ('count', header(1, 0, 2, block(1, [item]))), ('count', header(1, 0, 0, block(1, [item], count=0))),
        ('count', header(1, 0, 1, b'', blocks=0)), ('flags', flagged), ('flags', header(1, 0, 1, block(1, [item], flags=4))),
        ('mac', unproved),
        # The third of three lies: the other two are not taken either.
        ('truncated', header(1, 0, 4, b''.join(three) + block(1, [item], count=2), blocks=3)),
        ('copies', header(1, 0, 3, b''.join(three) + block(1, [item], copies=9), blocks=3)),
    ]
    dropped = [
        ('no_store', block(1, [item], store=99)), ('no_store', block(2, [pair], 1, 0, 4)),  # no such store; a store of another kind
        ('shape', block(1, [bytes(24)], value=16)), ('shape', block(1, [item], copies=8)),
        ('list', block(2, [struct.pack('>IQ', 4, 5)], 2, 0, 4)), ('list', block(4, [bytes(8) + b'\0\6' + bytes(6)], 4, 2)),
    ]
    for _, p in refused:
        s.send(p)
    s.send(header(1, 0, 1, block(1, [item]), tenant=77))
    for i, (_, b) in enumerate(dropped):
        s.send(header(1, i, 1, b))
    # The second of three blocks names an unknown store; the other two are taken.
    s.send(header(1, len(dropped), 3, three[0] + block(1, [item], store=98) + three[1], blocks=3))
    wait_until(lambda: sum(map(len, lists(stores))) == 1, 'the last packet has not come', t)
    a = t.account()
    check(not a['socket_drops'] and a['refused_tenant'] == 1, f'{a}', t)
    want = {cause: sum(c == cause for c, _ in refused) for cause in a['refused']}
    check(a['refused'] == want, f'refused {a["refused"]}, and not {want}', t)
    causes = [c for c, _ in dropped] + ['no_store']
    want = {cause: causes.count(cause) for cause in a['engine']['dropped']}
    check(a['engine']['dropped'] == want, f'dropped {a["engine"]["dropped"]}, and not {want}', t)
    check(a['engine']['stored'] == 2, f'{a}', t)
    server.close()


@case
def only_keyed_reporters_store_and_rotation_loses_nothing():
    store = Store('key-write', 1, tenant=7, slots=1 << 10, value=8, copies=1)
    events = Store('append', 2, tenant=7, slots=1024, value=8, batch=16, lists=4, lanes=2)
    server = StoreServer(f'{D}/s', [store, events])
    t = Translator()
    keys = ['00112233445566778899aabbccddeeff', 'ffeeddccbbaa99887766554433221100']
    for i, key in enumerate(keys):
        with open(f'{D}/key{i}', 'w') as f:
            f.write(key)

    def tenant(*keys, rate=0):
        # The translator handles messages in order, so its answer to the rotation shows that it has taken the tenant.
        tenant.epoch += 1
        server.say(server.said[0], {'type': 'tenant', 'tenant': 7, 'rate': rate, 'burst': rate, 'required': True,
                                  'keys': [{'key': k} for k in keys]})
        mark = {'type': 'rotated', 'tenant': 0, 'store': 9, 'epoch': tenant.epoch}
        server.say(server.said[0], dict(mark, type='rotate'))
        wait_until(lambda: mark in server.heard, 'the tenant was not taken', t)
    tenant.epoch = 0
    tenant(keys[0])
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('127.0.0.1', 0))
    s.settimeout(60)

    def recorded(key, number):
        """An authenticated packet, redirected to another tenant."""
        r = Part(SIDELIGHT, 'report', '--target', f'127.0.0.1:{s.getsockname()[1]}', '--tenant', '7', '--store', '1',
                 '--reporter', str(number), '--key-file', f'{D}/key{key}', '--translator', 't', 'keywrite', f'u64:{number}', 'u64:2')
        check(r.wait() == 0, 'the reporter failed', r)
        while not (packet := s.recv(65536))[3]:
            pass  # the heartbeat of the one before, when it ended
        return packet
    right, other = recorded(0, 5), recorded(1, 6)
    forged = [bytearray(right) for _ in range(3)]
    forged[0][50] ^= 1   # its contents
    forged[1][-1] ^= 1   # its MAC
    forged[2][11] ^= 1   # the claimed identity
    plain = bytearray(right[:-24])
    plain[2] = 0
    to = ('127.0.0.1', t.port)
    for p in (*forged, plain, other, right, right, right):
        s.sendto(p, to)
    elsewhere = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    elsewhere.bind(('127.0.0.2', 0))
    elsewhere.sendto(right, to)
    wait_until(lambda: store.occupied() == 1, 'who has the key is refused, too', t)
    # While reports arrive, rates and keys are sent again and again, with a wrong key between them.
    g = Part(SIDELIGHT, 'generate', 'dta', '--to', t.address, '--json', '--kinds', 'append', '--count', '4000', '--lists',
             '4', '--tenant', '7', '--key', f'{D}/key0', '--essential', '--show', '0', '--rate', '20000')
    ended = False
    while not ended:
        ended = g.p.poll() is not None  # once, however late this is
        tenant(keys[0], rate=1000000)
        tenant(keys[0][:16])
    check(g.wait() == 0, 'the generator failed', g, t)
    wait_until(lambda: any('cannot use the' in line for line in t.err),
               'nothing is said of a key of a wrong length', t)
    tenant(keys[1])
    s.sendto(right, to)
    s.sendto(other, to)
    wait_until(lambda: store.occupied() == 2, 'the other key is not taken', t)
    a = t.account()
    check(a['engine']['stored'] == 4002 and not sum(a['engine']['dropped'].values()), f'{a}', t)
    # Forged, without a MAC, of another key; and the first key's when it was taken back.
    check(a['refused']['mac'] == 6, f'{a["refused"]}', t)
    check(a['loss']['duplicates'] >= 3 and a['loss']['expected'] == a['loss']['arrived'] == 4002, f'{a["loss"]}', t)
    server.close()


@case
def a_lying_store_server_is_left_for_an_honest_one():
    right = usual()
    small = Store('key-write', 1, slots=64, value=8, copies=1)

    def welcome(c, **more):
        StoreServer.say(c, {'type': 'welcome', 'version': CONTROL, 'instance': 1, 'lane': 0, 'port': 0, **more})

    def then(*messages, fd=None, **more):
        def lie(c):
            welcome(c, **more)
            for m in messages:
                StoreServer.say(c, m, fd if m.get('type') == 'object' else None)
        return lie

    def store(s, **more):
        return {'type': 'store', 'tenant': 0, 'store': 1, 'name': 'x', 'object': 0, 'epoch': 0,
                'config': s.config.hex(), **more}

    thing = {'type': 'object', 'number': 0, 'bytes': small.bytes, 'addr': 0, 'rkey': 0}
    huge = Store('key-write', 1, slots=1 << 20, value=8, copies=1)
    lies = [
        ('type', then({'kind': 'welcome'})),
        ('version', then(version=CONTROL - 1)),
        ('lane', then(lane=64)),
        ('descriptor', then(thing)),
        ('shorter', then(dict(thing, bytes=small.bytes + 4096), fd=small.fd)),
        ('size', then(dict(thing, bytes=1 << 60), fd=small.fd)),
        ('same number', then(thing, thing, fd=small.fd)),
        ('unknown object', then(store(small))),
        ('larger', then(thing, store(huge), fd=small.fd)),
        ('configuration', then(thing, store(small, config='00' * 255), fd=small.fd)),
        ('kind', then(thing, store(small, config='ff' * 256), fd=small.fd)),
        ('lane', then(dict(thing, bytes=right[1].bytes), store(right[1]), fd=right[1].fd, lane=5)),
        ('lists', then(dict(thing, bytes=right[1].bytes), store(right[1], next=[1]), fd=right[1].fd)),
        ('new epoch', then({'type': 'rotate', 'tenant': -1})),
        ('tenant', then({'type': 'tenant', 'tenant': 70000})),
        ('Protocol', lambda c: StoreServer.say(c, b'[1, 2\n')),
        ('go away?', lambda c: StoreServer.say(c, {'type': 'bye', 'why': 'go away\x1b'})),
    ]
    # Each lie is told to a separate translator, which then finds an honest server.
    servers, translators = [], []
    for i, (_, lie) in enumerate(lies):
        def first(c, server=len(servers), lie=lie):
            o = servers[server]
            (lie if len(o.said) == 1 else o.name_stores)(c)
        servers.append(StoreServer(f'{D}/lie{i}', right, before=first))
        translators.append(Translator(path=f'{D}/lie{i}', ready=False))
    for (word, _), server, t in zip(lies, servers, translators):
        t.ready()
        wait_until(lambda: any(word in line for line in t.err), lambda: f'nothing is said of {word}', t)
        check(len(server.said) == 2, f'{word}: {len(server.said)} connections', t)
        t.account()
        server.close()


@case
def a_capture_is_translated_to_its_end():
    stores = usual()
    server = StoreServer(f'{D}/s', stores)
    with open(f'{D}/capture', 'wb') as f:
        f.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for i in range(1000):
            # Packets of one system call were captured in one piece. The last one is cut into 100, which is more than a batch.
            each = [header(1, i, 1, keywrite(i))] if i < 999 else [header(1, n, 1, keywrite(n)) for n in range(999, 1099)]
            udp = b''.join(each)
            udp = struct.pack('>HHHH', 5, 40040, 8 + len(udp), 0) + udp
            tags = b'\x81\x00\x00\x05' * (i % 3)
            if i % 2:
                ip = struct.pack('>IHBB', 6 << 28, len(udp), 17, 64) + bytes(31) + b'\x01' * 1 + bytes(0)
                ip = ip[:8] + bytes(15) + b'\x01' + bytes(15) + b'\x02'
                frame = bytes(12) + tags + b'\x86\xdd' + ip + udp
            else:
                ip = struct.pack('>BBHHHBBH', 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + b'\x0a\0\0\1\x0a\0\0\2'
                frame = bytes(12) + tags + b'\x08\x00' + ip + udp
            f.write(struct.pack('<IIII', i, 0, len(frame), len(frame)) + frame)
    p = Part(SIDELIGHT, 'translate', '--collector', f'unix:{D}/s', '--pcap', f'{D}/capture', '--json')
    check(p.wait() == 0, 'it failed', p)
    a = json.loads(p.out[-1])
    check(a['packets'] == a['engine']['stored'] == 1099 and not a['others'], f'{a}', p)
    server.close()


run_cases()
