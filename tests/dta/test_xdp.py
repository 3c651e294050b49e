#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_xdp.py SIDELIGHT - reports by AF_XDP over a veth pair: the translator's own packets bypass the kernel, all
others pass it, malformed ones are counted, and nothing stays behind, however the process ends."""
import json
import signal
import socket
import struct
import subprocess
import sys

from account import account_of, refused_packets
from support import flows
from support.flows import held, needs_bpf, still_there, without_capabilities
from support.process import Part, case, check, reachable, run_cases, skip, wait_until, workdir
from support.store_server import StoreServer, usual
from wire import FAR, FAR6, NEAR, NEAR6, Wire

EXE = sys.argv[1]
PORT = 40040


class Translator(Part):
    def __init__(self, server, *options, interface='sl-near', ready=True):
        self.server = server
        super().__init__(EXE, 'translate', '--collector', f'unix:{D}/s', '--listen', f':{PORT}', '--insecure-listen', '--json', '--name', 't',
                         '--xdp', interface, *options)
        if ready:
            self.how = self.ready()['xdp']

    def told(self):
        return next((m for m in reversed(self.server.heard) if m['type'] == 'account'), {'packets': 0})

    def account(self):
        a = account_of(self)
        check(refused_packets(a) == 0, f'{refused_packets(a)} refused: {a}', self)
        return a


# ---- frames made by hand ----------------------------------------------------------------------------

def report(sequence):
    """A packet of docs/dta-wire.md: one key-write for the store 1."""
    return struct.pack('>BBBBHHIIQII', 0xd7, 2, 0, 1, 0, 60, 9, sequence, 0, 7, 1) + \
        struct.pack('>BBHBBHHH', 1, 0, 1, 2, 8, 8, 1, 0) + struct.pack('>QQ', sequence, sequence)


def checksum(data):
    data += b'\0' * (len(data) % 2)
    total = sum(struct.unpack(f'>{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def udp(source, target, payload, length=None, check_by=None, port=PORT):
    length = len(payload) + 8 if length is None else length
    head = struct.pack('>HHHH', 40000, port, length, 0)
    value = checksum(source + target + struct.pack('>HH', 17, len(payload) + 8) + head + payload) or 0xffff
    if check_by is not None:
        value = check_by(value)
    return head[:6] + struct.pack('>H', value) + payload


def four(above, options=b'', fragment=0, length=None, target=NEAR, break_sum=0, identity=1):
    head = 20 + len(options)
    length = head + len(above) if length is None else length
    h = struct.pack('>BBHHHBBH', 0x40 | head // 4, 0, length, identity, fragment, 64, 17, 0) + \
        socket.inet_aton(FAR) + socket.inet_aton(target) + options
    return h[:10] + struct.pack('>H', checksum(h) ^ break_sum) + h[12:] + above


def six(above, extension=b''):
    return struct.pack('>IHBB', 6 << 28, len(above) + len(extension), 0 if extension else 17, 64) + \
        socket.inet_pton(socket.AF_INET6, FAR6) + socket.inet_pton(socket.AF_INET6, NEAR6) + extension + above


def error(part):
    """Its only line besides warnings."""
    lines = [line for line in part.err if not line.startswith('WARN')]
    check(len(lines) == 1, lines)
    return lines[0]


@case
def strangers_and_hostile_frames_are_left_to_the_kernel_or_counted():
    a4, a6 = [socket.inet_pton(f, a) for f, pair in ((socket.AF_INET, (FAR, NEAR)), (socket.AF_INET6, (FAR6, NEAR6)))
              for a in pair][:2], [socket.inet_pton(socket.AF_INET6, a) for a in (FAR6, NEAR6)]
    wire, stores = Wire(), usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator(server)
    near, far = wire.macs
    n = iter(range(1000))
    r = lambda: report(next(n))
    big = udp(*a4, r())
    ether = lambda packet, to=near: to + far + (b'\x08\0' if packet[0] >> 4 == 4 else b'\x86\xdd') + packet
    short = [ether(four(udp(*a4, r())))]  # packets that take the short path
    short += [ether(four(udp(*a4, r(), check_by=lambda _: 0))), ether(six(udp(*a6, r()))) + b'\0' * 6]
    wrong = [ether(four(udp(*a4, r(), check_by=lambda s: s ^ 0x100))), ether(four(udp(*a4, r()), break_sum=1)),
             ether(four(udp(*a4, r(), length=69))), ether(four(udp(*a4, r(), length=7))),
             ether(four(udp(*a4, r()), length=89)), ether(four(udp(*a4, r()), length=27)),
             ether(six(udp(*a6, r(), check_by=lambda _: 0))), ether(six(udp(*a6, r(), check_by=lambda s: s ^ 1)))]
    kernel = [ether(four(udp(*a4, r()), options=b'\1\1\1\0')), ether(six(udp(*a6, r()), b'\x11\0\1\4\0\0\0\0')),
              ether(four(big[:32], fragment=0x2000, identity=5)), ether(four(big[32:], fragment=4, identity=5))]
    strangers = [near + far + b'\x81\0\0\5' + ether(four(udp(*a4, r())))[12:], ether(four(udp(*a4, r())), b'\2\0\0\0\0\7'),
                 ether(four(udp(*a4, r(), port=PORT + 1))), ether(four(udp(*a4, r()), target='10.77.0.9')),
                 near + far + b'\x08\6' + b'\0' * 46, ether(four(udp(*a4, b''))[:24]), near + far + b'\x08\0',
                 ether(b'\x55' + four(udp(*a4, r()))[1:]), ether(b'\x43' + four(udp(*a4, r()))[1:])]
    s = wire.socket(socket.AF_PACKET, socket.SOCK_RAW)
    s.bind(('sl-far', 0))
    for frame in strangers + wrong + kernel + short:
        s.send(frame)
    s.close()
    wait_until(lambda: t.told()['packets'] == 6, lambda: f'not 6 packets: {t.told()}', t)
    a = t.account()
    check((a['packets_taken'], a['xdp_packets'], a['xdp_wrong'], a['others'], a['socket_drops']) ==
          (6, 3 + len(wrong), len(wrong), len(wrong), 0), f'not as sent: {a}', t)
    server.close()
    wire.close()


# ---- what arrives -----------------------------------------------------------------------------------

def generate(wire, t, to, *options):
    g = Part(*wire.inside, EXE, 'generate', 'dta', '--to', to, '--json', '--show', '0', *options)
    check(g.wait() == 0, 'the generator failed', g, t)
    return json.loads(g.out[-1])


@case
def reports_of_both_families_arrive_once_by_either_way():
    wire = Wire()
    for mode in 'native', 'generic':
        server = StoreServer(f'{D}/s', usual())
        t = Translator(server, '--xdp-mode', mode)
        check(t.how == f'sl-near:{mode}', t.how, t)
        sent = 0
        for to in f'{NEAR}:{PORT}', f'[{NEAR6}]:{PORT}':
            sent += generate(wire, t, to, '--count', '3000', '--keys', '1000', '--loss', '.05', '--duplicate', '.05',
                             '--reorder', '.1', '--essential')['reports']
        # Datagrams that a sender gives in one call are one for a program behind the driver; for the other none are.
        s = wire.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_UDP, 103, 60)  # UDP_SEGMENT
        s.sendto(b''.join(map(report, range(10))), (NEAR, PORT))
        s.close()
        wait_until(lambda: t.told().get('loss', {}).get('arrived') == sent + 10,
                   lambda: f'not {sent} + 10: {t.told()}', t)
        a = t.account()
        check(a['loss']['arrived'] == a['engine']['stored'] + a['engine']['dropped']['superseded'] == sent + 10, f'not all of {sent} + 10: {a}', t)
        check(a['loss']['duplicates'] > 0 and a['loss']['recovered'] > 0, f'too kind a network: {a}', t)
        check(a['xdp_wrong'] == 0 and (a['xdp_packets'] == a['packets'] if mode == 'native' else a['xdp_packets'] > 0),
              f'not by the short way: {a}', t)
        server.close()
    wire.close()


@case
def each_worker_has_queues_and_each_reporter_one_of_them():
    wire, stores = Wire(), usual()
    server = StoreServer(f'{D}/s', stores)
    t = Translator(server, '--workers', '3', ready=False)
    check(t.wait() == 1 and 'but --xdp has 2' in error(t), f'3 workers on 2 queues: {t.err}', t)
    t = Translator(server, '--workers', '2')
    g = generate(wire, t, f'{NEAR}:{PORT}', '--count', '4000', '--keys', '1000', '--reporters', '8', '--essential')
    a = t.account()
    check(a['loss']['arrived'] == a['engine']['stored'] + a['engine']['dropped']['superseded'] == g['reports'],
          f'not all: {a} {g}', t)
    check(a['xdp_packets'] == a['packets'], f'not by the short way: {a}', t)
    server.close()
    wire.close()


# ---- how it begins and ends -------------------------------------------------------------------------

def programs():
    shown = subprocess.run(['ip', '-j', 'link', 'show', 'sl-near'], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(shown)[0].get('xdp')


def refused(server, words, interface, *options, **how):
    t = Translator(server, *options, interface=interface, ready=False, **how)
    code = t.wait()
    check(code == 1 and words in error(t) and interface.split(':')[0] in error(t),
          f'{interface}: exit {code}, and not "{words}"', t)


@case
def who_can_t_is_told_why_and_nothing_is_left_by_the_killed():
    wire, stores = Wire(), usual()
    server = StoreServer(f'{D}/s', stores)
    refused(server, 'no such interface', 'sl-nope')
    refused(server, 'only has queues 0 to 1', 'sl-near:2')
    refused(server, 'only has queues 0 to 1', 'sl-near:x')
    check(not programs(), 'a program is left by who was refused')
    t = Translator(server, interface='sl-near:1')
    check(programs(), 'there is no program', t)
    objects = held(t.pid)
    check({o[0] for o in objects} == {'prog', 'map', 'link'}, f'it holds {objects}', t)
    # Another translator with another address wants to use the same interface.
    other = Part(EXE, 'translate', '--collector', f'unix:{D}/s', '--listen', ':0', '--insecure-listen', '--xdp', 'sl-near:0')
    check(other.wait() == 1 and 'already has one' in error(other), 'two programs', other)
    t.stop(signal.SIGKILL)
    wait_until(lambda: not programs(), 'the program is gone', seconds=20)
    wait_until(lambda: not still_there(objects), lambda: str(still_there(objects)), seconds=20)
    t = Translator(server)  # nothing is left that would hinder it
    t.account()
    check(not programs(), 'the program is left')
    p = subprocess.run([reachable(EXE, 'translate'), 'translate', '--collector', f'unix:{D}/s', '--listen', ':0', '--insecure-listen',
                        '--xdp', 'sl-near'], preexec_fn=without_capabilities, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, timeout=300)
    check(p.returncode == 1 and p.stderr.count('\n') == 2 and 'CAP_NET_ADMIN' in p.stderr.splitlines()[1],
          f'an ordinary user: exit {p.returncode} {p.stderr}')
    server.close()
    wire.close()


needs_bpf()
try:
    socket.socket(44, socket.SOCK_RAW).close()  # AF_XDP
except OSError as e:
    skip(f'no AF_XDP: {e.strerror}')
flows.own_network()
D = workdir()
run_cases()
