#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_in_kernel.py SIDELIGHT - the translator in the kernel, over veth pairs: what reaches the collector's memory by its
frames is what user space writes, byte for byte; what it does not take goes by user space; the account closes."""
import json
import socket
import sys
from random import Random

from account import account_of
from responder import Responder
from support import flows
from support.flows import needs_bpf
from support.process import Part, case, check, run_cases, skip, wait_until, workdir
from support.store_server import CONTROL, Store, StoreServer
from wire import NEAR, Wire

EXE = sys.argv[1]
PORT, MEMORY_IP = 40040, '10.78.0.2'


def stores():
    return [Store('key-write', 1, slots=1 << 14, value=8, copies=2, seed=0x1234567890abcdef),
            Store('append', 2, slots=4096, value=8, batch=1, lists=4, lanes=4, seed=9),
            Store('increment', 3, slots=1 << 12, rows=2, seed=77, banks=2)]


class Server(StoreServer):
    """A store server whose memory is a responder's. Each connection has a lane."""

    def __init__(self, path, stores, responder):
        self.responder = responder
        self.lanes, self.accounts = {}, {}
        super().__init__(path, stores)

    def name_stores(self, c, name='t', output='raw'):
        lane = self.lanes.setdefault(name, len(self.lanes))
        self.say(c, {'type': 'welcome', 'version': CONTROL, 'instance': 7, 'lane': lane, 'port': 0})
        for i, s in enumerate(self.stores):
            self.say(c, {'type': 'object', 'number': i, 'bytes': s.bytes, 'addr': self.address(i), 'rkey': 0x1000 + i})
            m = {'type': 'store', 'tenant': s.tenant, 'store': s.number, 'name': s.kind, 'object': i,
                 'epoch': s.epoch, 'config': s.config.hex()}
            if s.kind == 'append':
                m['next'] = s.next_blocks(lane)
            self.say(c, m)
        self.say(c, {'type': 'ready'})

    @staticmethod
    def address(i):
        return 0x7f0000000000 + (i << 32)

    def _serve(self, c):
        try:
            with c.makefile('r') as lines:
                for line in lines:
                    m = json.loads(line)
                    self.heard.append(m)
                    if m['type'] == 'hello':
                        name = m['name']
                        self.name_stores(c, name)
                    elif m['type'] == 'account':
                        self.accounts[name] = m
                    elif m['type'] == 'queue':
                        self.say(c, self.responder.queue(m))
        except OSError:
            pass


class Network:
    def __init__(self):
        self.wire = Wire()
        macs = self.wire.pair('sl-out', 'sl-memory', [('10.78.0.1', 24)], [], queues=1)
        self.wire.merge('sl-memory')
        self.stores = stores()
        s = self.wire.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800))
        s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        s.bind(('sl-memory', 0x800))
        memory = {0x1000 + i: (Server.address(i), s.map) for i, s in enumerate(self.stores)}
        self.responder = Responder(s, macs[1], MEMORY_IP, memory, atomics=255)
        self.server = Server(f'{D}/s', self.stores, self.responder)

    def close(self):
        self.responder.close()
        self.server.close()
        self.wire.close()


class Translator(Part):
    def __init__(self, *options):
        super().__init__(EXE, 'translate', '--collector', f'unix:{D}/s', '--listen', f':{PORT}', '--json', '--name', 't',
                         '--xdp', 'sl-near', '--output', 'raw', '--raw-interface', 'sl-out', '--in-kernel', *options)
        self.ready()

    def account(self):
        return account_of(self)


def generate(network, *options, inside=True):
    g = Part(*(network.wire.inside if inside else ()), EXE, 'generate', 'dta', '--json', '--show', '0', '--copies', '1',
             *options)
    check(g.wait() == 0, 'the generator failed', g)
    return json.loads(g.out[-1])


def by_user_space(network, runs):
    """The stores as a translator without any network writes them."""
    other = stores()
    for s in other:  # the kernel's frames are in lanes of their own
        s.lane = 0
    server = StoreServer(f'{D}/other', other)
    t = Part(EXE, 'translate', '--collector', f'unix:{D}/other', '--listen', '127.0.0.1:0', '--name', 'o')
    at = t.ready()['listen']
    for options in runs:
        generate(network, '--to', at, *options, inside=False)
    check(t.stop() == 0, 'the translator failed', t)
    server.close()
    return other


def settled(network, t, reports, lost=False):
    """Waits until this many reports are stored, and all operations complete."""
    def told(*path):
        total = 0
        for a in list(network.server.accounts.values()):
            for name in path:
                a = a[name]
            total += a
        return total
    wait_until(lambda: told('engine', 'stored') == reports and told('output', 'completed') +
               (told('output', 'failed') if lost else 0) == told('output', 'writes') + told('output', 'adds'),
               lambda: f'{told("engine", "stored")} of {reports} stored: {network.responder.wrong[:2]} {network.server.accounts}', t)


@case
def frames_of_the_kernel_are_those_of_user_space():
    network = Network()
    t = Translator()
    count, total = 1000, 0
    kinds = [('--kinds', 'increment', '--key-bytes', n, '--seed', n) for n in (4, 8, 13, 16, 37)]
    kinds += [('--kinds', 'keywrite', '--key-bytes', n, '--seed', n) for n in (4, 8, 13, 16, 37)]
    kinds += [('--kinds', 'append', '--lists', '4')]
    for i, options in enumerate(kinds):
        kinds[i] = options = ('--count', count, '--keys', '300', '--rate', '5000', '--reporter', i + 1, *options)
        generate(network, '--to', f'{NEAR}:{PORT}', *options)
        total += count
    settled(network, t, total)
    a = t.account()
    check(not network.responder.wrong, network.responder.wrong[:2])
    # A responder that is slow on a busy machine has all the FETCH_ADDs that it may have in flight.
    check(a['loss']['arrived'] == total and (a['kernel_frames'] == total or a['kernel_passed_full']) and
          a['kernel_frames'] > total / 2, f'not by the kernel: {a}', t)
    check(a['output']['failed'] == a['output']['unconfirmed'] == 0, f'not settled: {a}', t)
    other = by_user_space(network, kinds)
    for mine, theirs in zip(network.stores, other):
        if mine.kind != 'append':
            check(mine.bank() == theirs.bank(), f'{mine.kind} differs')
    mine, theirs = network.stores[1], other[1]
    for number in range(4):  # with lanes of their own, the kernel's queues have the second and third
        have = [b for lane in range(4) for _, b in sorted(mine.blocks(number, lane).items())]
        check(len(have) == count / 4 and have == [b for _, b in sorted(theirs.blocks(number).items())],
              f'list {number}: {len(have)} items')
    network.close()


@case
def what_the_kernel_cannot_goes_by_user_space_once():
    """Several reports or copies, lengths it does not know, essential reports, losses: the same reporters, mixed."""
    network = Network()
    t = Translator()
    to = ('--to', f'{NEAR}:{PORT}', '--kinds', 'increment', '--count', 1500, '--keys', 100, '--rate', '20000')
    sums = 0
    for options in (('--pack', '3'), ('--copies', '2'), ('--key-bytes', '9'), ('--essential',),
                    ('--loss', '.02', '--duplicate', '.05', '--reorder', '.1'), ('--reporters', '7')):
        sent = generate(network, *to, '--reporter', 10 * sums + 1, *options)
        sums += 1
    a = t.account()
    check(not network.responder.wrong, network.responder.wrong[:2])
    check(a['loss']['expected'] == a['loss']['arrived'] + a['loss']['lost'] + a['loss']['missing'], a)
    check(a['loss']['arrived'] == a['engine']['stored'], f'not once: {a}', t)
    check(0 < a['kernel_frames'] < a['loss']['arrived'], f'not by both: {a}', t)
    check(a['output']['failed'] == a['output']['unconfirmed'] == 0, f'not settled: {a}', t)
    network.close()


@case
def lost_frames_cost_themselves_and_stop_nothing():
    """Frames are lost, and answers, and at last a frame that none follows: only a question tells."""
    network = Network()
    t = Translator()
    random = Random(5)
    r = network.responder
    r.lose = lambda: random.random() < .01
    r.lose_answer = lambda: random.random() < .3
    for run, kind in enumerate(('keywrite', 'increment', 'append')):
        generate(network, '--to', f'{NEAR}:{PORT}', '--kinds', kind, '--count', 1000, '--keys', 100, '--lists', '4',
                 '--rate', '5000', '--reporter', run + 1)
    r.lose = lambda: True
    generate(network, '--to', f'{NEAR}:{PORT}', '--kinds', 'keywrite', '--count', 5, '--reporter', 9)
    before = r.frames
    wait_until(lambda: r.frames > before, 'no question', t)
    r.lose = r.lose_answer = lambda: False
    settled(network, t, 3005, lost=True)
    a = t.account()
    check(not r.wrong, r.wrong[:2])
    taken = sum(len(q.taken) for q in r.pairs.values())
    output = a['output']
    check(a['loss']['arrived'] == 3005 and output['failed'] > 0 and output['resyncs'] > 0 and output['naks'] > 0,
          f'nothing was lost: {a}', t)
    check(output['disconnects'] == 0 and output['unconfirmed'] == 0, f'it gave up: {a}', t)
    check(taken == output['completed'], f'{taken} operations were executed, and {output["completed"]} are complete: {a}', t)
    network.close()


@case
def a_rotation_moves_the_kernel_a_key_ends_it():
    network = Network()
    t = Translator()
    server, store = network.server, network.stores[2]
    def report(reporter):
        generate(network, '--to', f'{NEAR}:{PORT}', '--kinds', 'increment', '--count', 500, '--keys', 50, '--rate', '5000',
                 '--reporter', reporter)
    report(1)
    settled(network, t, 500)
    first = store.column_sums()
    for c in server.said:
        server.say(c, {'type': 'rotate', 'tenant': 0, 'store': 3, 'epoch': 1})
    wait_until(lambda: sum(m['type'] == 'rotated' for m in server.heard) == 3, 'not confirmed by each', t)
    report(2)
    settled(network, t, 1000)
    check(store.column_sums() == first and sum(store.column_sums(1)) > 0, 'the old bank changed, or the new one did not', t)
    for c in server.said:
        server.say(c, {'type': 'tenant', 'tenant': 0, 'rate': 0, 'burst': 0, 'keys': [], 'required': True})
    def refused():
        """A packet after the other, until none is taken any more."""
        report(next(numbers))
        return server.accounts['t']['refused']['mac']
    numbers = iter(range(3, 100))
    wait_until(refused, 'nothing was refused', t)
    before = sum(store.column_sums(1))
    report(200)
    code = t.stop()
    a = json.loads(t.out[-1])
    check(code == 0 and a['kernel_passed_store'] >= 500 and a['refused']['mac'] >= 500 and sum(store.column_sums(1)) == before,
          f'the kernel took what needs a key: {a}', t)
    check(not network.responder.wrong, network.responder.wrong[:2])
    network.close()


needs_bpf()
try:
    socket.socket(44, socket.SOCK_RAW).close()  # AF_XDP
except OSError as e:
    skip(f'no AF_XDP: {e.strerror}')
flows.own_network()
D = workdir()
run_cases()
