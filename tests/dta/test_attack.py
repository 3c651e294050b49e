# SPDX-License-Identifier: Apache-2.0
"""Attacks on reports, stores and the control channel. Each was carried out on an earlier version, which it broke."""
import array
import ctypes
import hmac
import itertools
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading

from support.http import get, request
from support.process import Part, case, check, run_cases, wait_until, workdir
from support.store_server import CONTROL, Store, StoreServer

SIDELIGHT = sys.argv[1]
D = workdir()
KEY = '00112233445566778899aabbccddeeff'
OTHER = 'ffeeddccbbaa99887766554433221100'


def put(name, text, mode=0o600):
    with open(f'{D}/{name}', 'w') as f:
        f.write(text)
    os.chmod(f'{D}/{name}', mode)
    return f'{D}/{name}'


# ---- packets ----

def appends(number, tenant):
    return Store('append', number, tenant=tenant, slots=1024, value=8, batch=16, lists=4, lanes=64)


def items(store):
    """The items of all lists of all lanes."""
    return [int.from_bytes(i, 'big') for lane in range(store.lanes) for k in range(store.lists)
            for block in store.blocks(k, lane).values() for i in block]


class Server(StoreServer):
    """A store server of several translators, each with a lane of its own, and tenants with keys."""

    def __init__(self, name, stores, keys):
        self.keys, self.next = keys, 0
        super().__init__(f'{D}/{name}', stores, before=self.admit)

    def admit(self, c):
        self.lane, self.next = self.next, self.next + 1
        for tenant, key in self.keys.items():
            # Sends the tenant after the welcome, because the welcome clears the known tenants.
            self.said_tenant = {'type': 'tenant', 'tenant': tenant, 'rate': 0, 'burst': 0, 'required': True,
                                'keys': [{'key': key}]}
        self.name_stores(c)

    def say(self, c, message, fd=None):
        super().say(c, message, fd)
        if isinstance(message, dict) and message['type'] == 'welcome':
            for tenant, key in self.keys.items():
                super().say(c, {'type': 'tenant', 'tenant': tenant, 'rate': 0, 'burst': 0, 'required': True,
                                'keys': [{'key': key}]})


class Translator(Part):
    def __init__(self, server, *options, listen=('127.0.0.1:0',), name='t'):
        where = [w for at in listen for w in ('--listen', at)]
        super().__init__(SIDELIGHT, 'translate', '--collector', f'unix:{server.path}', *where, '--json', '--name', name,
                         *options)
        self.ports = [int(at.rsplit(':', 1)[1]) for at in self.ready()['listen'].split(',')]

    def account(self):
        check(self.stop() == 0, 'the translator failed', self)
        return json.loads(self.out[-1])


def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('127.0.0.1', 0))
    s.settimeout(300)
    return s


def recorded(s, *options):
    """A packet of a reporter that means the address of this socket, made as reporters make it."""
    r = Part(SIDELIGHT, 'report', '--target', f'127.0.0.1:{s.getsockname()[1]}', '--store', '2', *options)
    check(r.wait() == 0, 'the reporter failed', r)
    while not (packet := s.recv(65536))[3]:
        pass  # the heartbeat of the one before, when it ended
    return packet


@case
def a_recorded_packet_is_stored_once():
    key = put('key', KEY)
    s = udp()
    packet = recorded(s, '--tenant', '7', '--reporter', '5', '--key-file', key, 'append', '1', 'u64:9')
    address = s.getsockname()
    s.close()  # the translator listens there now
    stores, others = [appends(2, 7)], [appends(2, 7)]
    server, second = Server('s', stores, {7: KEY}), Server('s2', others, {7: KEY})
    t = Translator(server, '--workers', '4', listen=(f'127.0.0.1:{address[1]}', '127.0.0.1:0'))
    t2 = Translator(second, '--workers', '2', name='t2')
    sources = [udp() for _ in range(64)]  # the kernel spreads them over all workers
    for port in t.ports + t2.ports:
        for one in sources:
            one.sendto(packet, ('127.0.0.1', port))
    wait_until(lambda: items(stores[0]), 'the first is stored', t)
    a, b = t.account(), t2.account()
    # A translator that ends drops packets on their way from one worker to another, and counts them.
    check(a['packets'] + a['handover_drops'] == 128 and b['packets'] + b['handover_drops'] == 64, f'not all came: {a} {b}', t)
    check(len(items(stores[0])) == 1, f'stored {len(items(stores[0]))} times: {a}', t)
    check(not items(others[0]), f'a second translator stored it {len(items(others[0]))} times: {b}', t2)
    check(1 + a['loss']['duplicates'] + a['refused']['elsewhere'] == a['packets'], f'{a}', t)
    check(a['refused']['elsewhere'] + a['handover_drops'] >= 64 and b['refused']['elsewhere'] == b['packets'], f'{a} {b}', t2)
    server.close()
    second.close()


@case
def a_reporter_may_move_between_workers():
    """Its window stays with one worker, which sends the answers."""
    key = put('key', KEY)
    stores = [appends(2, 7)]
    server = Server('s', stores, {7: KEY})
    t = Translator(server, '--workers', '4', name='named')
    proxy = udp()
    r = Part(SIDELIGHT, 'generate', 'dta', '--to', f'127.0.0.1:{proxy.getsockname()[1]}', '--translator', 'named',
             '--kinds', 'append', '--count', '2000', '--lists', '4', '--tenant', '7', '--key', key, '--essential', '--show', '0',
             '--rate', '50000', '--json', '--wait', '60s')
    sources, sent, back = [udp() for _ in range(16)], 0, {}

    def answers(one):
        one.settimeout(None)
        while True:
            try:
                answer = one.recv(65536)
            except OSError:
                return
            back.setdefault('to') and proxy.sendto(answer, back['to'])
    for one in sources:
        threading.Thread(target=answers, args=(one,), daemon=True).start()
    proxy.settimeout(.05)
    while r.p.poll() is None:
        try:
            packet, back['to'] = proxy.recvfrom(65536)
        except TimeoutError:
            continue
        sources[sent % 16].sendto(packet, ('127.0.0.1', t.ports[0]))
        sent += 1
    check(r.wait() == 0, 'the generator failed', r, t)
    a = t.account()
    check(a['loss']['arrived'] == a['engine']['stored'] == len(items(stores[0])) == 2000, f'{a}: {len(items(stores[0]))} items', t)
    check(a['loss']['reporters'] == 1, f'more than one window: {a}', t)
    server.close()


@case
def a_translator_is_meant_by_each_of_its_addresses():
    """With a socket that is bound to any address, a packet's destination address identifies the translator; a name is valid for
    all addresses."""
    key = put('key', KEY)
    stores = [appends(2, 7)]
    server = Server('s', stores, {7: KEY})
    for i, (listen, hosts) in enumerate(((':0', ('127.0.0.1', '127.0.0.9', '[::1]')), ('0.0.0.0:0', ('127.0.0.8',)))):
        t = Translator(server, '--insecure-listen', listen=(listen,), name=f'any{i}')
        took = 0

        def report(host, *options, number=[100]):
            number[0] += 1
            r = Part(SIDELIGHT, 'report', '--target', f'{host}:{t.ports[0]}', '--tenant', '7', '--store', '2', '--key-file',
                     key, *options, 'append', '1', f'u64:{number[0]}')
            check(r.wait() == 0, 'the reporter failed', r)
            return number[0]
        for host in hosts:
            n = report(host)
            wait_until(lambda: n in items(stores[0]), lambda: f'it is not meant by {host}: {items(stores[0])} {t.account()}', t, seconds=20)
            n = report(host, '--translator', f'any{i}')
            wait_until(lambda: n in items(stores[0]), f'it is not meant by its name at {host}', t)
            report(host, '--translator', 'other')
            took += 2
        a = t.account()
        # Each sent a packet, and a heartbeat at its end.
        check(a['packets_taken'] == 2 * took and a['refused']['elsewhere'] == took, f'{a}', t)
    server.close()


def plain(reporter, store=2, tenant=0):
    body = struct.pack('>BBHBBHHH', 2, 0, 1, 0, 4, 8, store, 0) + struct.pack('>IQ', reporter % 4, reporter)
    return struct.pack('>BBBBHHIIQII', 0xd7, VERSION, 0, 1, tenant, 32 + len(body), reporter, 0, 0, 9, 1) + body


@case
def strangers_refuse_no_known_reporter():
    key = put('key', KEY)
    mine, open_ = appends(2, 7), appends(2, 0)
    server = Server('s', [mine, open_, appends(2, 8)], {7: KEY, 8: OTHER})
    t = Translator(server)
    address = ('127.0.0.1', t.ports[0])

    def known(reporter, but):
        r = Part(SIDELIGHT, 'report', '--target', f'127.0.0.1:{address[1]}', '--tenant', '7', '--store', '2', '--reporter', reporter,
                 '--key-file', key, '--essential', '--timeout', '10s', 'append', '1', f'u64:{reporter}')
        check(r.wait() == 0 and int(reporter) in items(mine), f'a reporter with a key was refused for {but}', r, t)
    s = udp()
    for i in range(68000):
        s.sendto(plain(1000 + i), address)
    known('5', 'those without')
    # An address of its own is not held against another, which has no key either.
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other.bind(('127.0.0.2', 0))
    other.sendto(plain(7), address)
    wait_until(lambda: 7 in items(open_), 'a reporter of another address was refused', t, seconds=10)
    # Enough addresses to fill the table of reporters without a key, which is separate from that of the others.
    for i in range(20000):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forged:
            forged.bind((f'127.{1 + i // 62500}.{i // 250 % 250}.{1 + i % 250}', 0))
            forged.sendto(plain(9), address)
    known('6', 'forged addresses')
    # One tenant's key makes as many reporters as it likes, and refuses none of another tenant.
    g = Part(SIDELIGHT, 'generate', 'dta', '--to', f'127.0.0.1:{address[1]}', '--kinds', 'append', '--count', '30000',
             '--pack', '1', '--reporters', '20000', '--lists', '4', '--tenant', '8', '--key', put('key8', OTHER), '--show', '0', '--json')
    check(g.wait() == 0, 'the generator failed', g)
    known('7', 'those of another tenant')
    a = t.account()
    check(a['refused_reporter'] > 30000, f'{a}', t)
    server.close()


@case
def a_key_is_of_one_tenant():
    """A tenant's reports are accepted neither with another tenant's key, nor without a key, nor in an earlier format, nor for a
    store of another tenant."""
    keys = put('key7', KEY), put('key8', OTHER)
    mine, theirs = appends(2, 7), appends(2, 8)
    server = Server('s', [mine, theirs, appends(3, 8)], {7: KEY, 8: OTHER})
    s = udp()
    stolen = [recorded(s, '--tenant', tenant, '--reporter', '5', '--key-file', key, 'append', '1', 'u64:9')
              for tenant, key in (('7', keys[1]), ('8', keys[0]))]
    honest = recorded(s, '--tenant', '7', '--reporter', '6', '--key-file', keys[0], 'append', '1', 'u64:1')
    elsewhere = recorded(s, '--tenant', '7', '--reporter', '7', '--key-file', keys[0], '--store', '3', 'append', '1', 'u64:2')
    address = s.getsockname()
    s.close()
    t = Translator(server, listen=(f'127.0.0.1:{address[1]}',))
    bare = bytes([*honest[:2], honest[2] & ~1, *honest[3:-24]])  # the proof is left out, and not announced
    moved = honest[:4] + struct.pack('>H', 8) + honest[6:]
    sent = {'mac': (*stolen, bare, moved, honest[:-1] + bytes([honest[-1] ^ 1])),
            'version': (honest[:1] + b'\1' + honest[2:], bare[:1] + b'\1' + bare[2:]),
            'flags': (honest[:2] + bytes([honest[2] | 0x80]) + honest[3:],), 'truncated': (honest[:-8],)}
    s = udp()
    for packets in sent.values():
        for packet in packets:
            s.sendto(packet, address)
    s.sendto(elsewhere, address)
    s.sendto(honest, address)
    wait_until(lambda: items(mine), 'the right key opens nothing', t)
    a = t.account()
    check({cause: n for cause, n in a['refused'].items() if n} == {cause: len(p) for cause, p in sent.items()}, f'{a}', t)
    check(items(mine) == [1] and not items(theirs) and not items(server.stores[2]), f'{a}', t)
    server.close()


# ---- the control channel ----

def psk(secret):
    return hmac.new(secret, b'sidelight dta control 3', 'sha256').hexdigest()


@case
def the_known_get_in_beside_half_open_connections():
    """The known one is of another TLS, OpenSSL's, so that nothing is spoken that only we understand."""
    secret = b'sixteen bytes at least'
    c = Collector('c', tcp=', 127.0.0.1:0', more=f'secret: {put("secret", secret.decode())}')
    port = int(next(w for w in c.status()['listen'] if w.startswith('127.')).rsplit(':', 1)[1])
    strangers = []

    def crowd(n):
        for _ in range(n):
            s = socket.socket()
            s.connect(('127.0.0.1', port))
            strangers.append(s)

    def talk(key, *more):
        return subprocess.Popen(['openssl', 's_client', '-quiet', '-tls1_3', '-psk_identity', 'sidelight-dta', '-psk', key,
                                 '-connect', f'127.0.0.1:{port}', *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)
    crowd(200)
    hello = json.dumps({'type': 'hello', 'version': CONTROL, 'name': 'known', 'output': 'raw', 'called': 'x'}).encode() + b'\n'
    known = talk(psk(secret), '-bind', '127.0.0.2:0')
    crowd(40)
    known.stdin.write(hello)
    known.stdin.flush()
    crowd(160)  # more than fit into the listener's queue
    answer = known.stdout.readline()  # an admitted client is told why it cannot be used here
    check(b'no RDMA' in answer, f'{answer}', c)
    known.communicate()
    refused = c.status()['refused_by_cause']
    check(refused['proof'] == 0 and refused['crowded'] > 0, f'{refused}', c)
    for s in strangers:
        s.close()
    # Refused: another secret, no secret, and an earlier version of the channel, which has no TLS.
    other = talk(psk(b'another one, as long'))
    check(b'alert' in other.communicate(hello, timeout=300)[1], 'another secret is not refused', c)
    old = socket.create_connection(('127.0.0.1', port))
    old.sendall(hello)
    check(b'uses TLS' in old.makefile('rb').readline(), 'an earlier version is not told', c)
    refused = c.status()['refused_by_cause']
    check(refused['proof'] == 2, f'{refused}', c)
    check(sum('different secret' in line for line in c.err) == 1, 'it is not said once', c)
    check(c.stop() == 0, 'the collector failed', c)


@case
def no_secret_no_keys_of_a_translator():
    secret, other = put('secret', 'sixteen bytes at least'), put('other', 'another one, as long')
    store = Store('key-write', 1, slots=64, value=8, copies=1)

    def lie(how):
        heard = []
        listener = socket.socket()
        listener.bind(('127.0.0.1', 0))
        listener.listen(8)

        def serve():
            while True:
                c, _ = listener.accept()
                try:
                    if how == 'mirror':  # echoes all input
                        while data := c.recv(4096):
                            heard.append(data)
                            c.sendall(data)
                        continue
                    if how == 'plain':
                        c.sendall(b''.join(json.dumps(m).encode() + b'\n' for m in (
                            {'type': 'welcome', 'version': CONTROL, 'instance': 7, 'lane': 0, 'port': 1},
                            {'type': 'tenant', 'tenant': 7, 'keys': [], 'required': False},
                            {'type': 'object', 'number': 0, 'bytes': store.bytes, 'addr': 0, 'rkey': 0},
                            {'type': 'store', 'tenant': 0, 'store': 1, 'name': 'x', 'object': 0, 'epoch': 0,
                             'config': store.config.hex()}, {'type': 'ready'})))
                    while data := c.recv(4096):
                        heard.append(data)
                except OSError:
                    pass
        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1], heard

    def translate(port, name, secret):
        return Part(SIDELIGHT, 'translate', '--collector', f'127.0.0.1:{port}', '--output', 'raw',
                    '--raw-file', f'{D}/{name}.pcap', '--secret', secret, '--listen', '127.0.0.1:0', '--json')
    c = Collector('c', tcp=', 127.0.0.1:0', more=f'secret: {other}')
    honest = int(next(w for w in c.status()['listen'] if w.startswith('127.')).rsplit(':', 1)[1])
    for how, said in (('plain', 'does not use TLS'), ('mirror', 'could not authenticate'), ('another', 'could not authenticate')):
        port, heard = (honest, []) if how == 'another' else lie(how)
        t = translate(port, how, secret)
        wait_until(lambda: any(said in line for line in t.err) or any('writing' in line for line in t.err),
                   'it says nothing of it', t)
        check(not any('writing' in line for line in t.err), 'it writes to a collector that proved nothing', t)
        check(not any(b'hello' in data for data in heard), f'it said {heard}', t)
        check(all(said in line for line in t.err if 'collector is not available' in line), 'something else is said, too', t)
        t.kill()
    wait_until(lambda: c.status()['refused_by_cause']['proof'] > 0, 'the proof is not counted', c)
    check(any('a translator has a different secret' in line for line in c.err), 'the collector says nothing of it', c)
    check(c.stop() == 0, 'the collector failed', c)


STORES = '''
listen: [{socket}{tcp}]
{more}
stores:{stores}
  - {{name: flows, number: 1, kind: key-write, slots: 200000, value: 8, copies: 2, seed: 1}}
  - {{name: events, number: 2, kind: append, lists: 4, items: 32768, value: 8, batch: 16, lanes: 4}}
'''


class Collector(Part):
    def __init__(self, name, tcp='', more='', stores=''):
        file = put(f'{name}.yaml', STORES.format(socket=f'{D}/{name}.dir/dta.sock', tcp=tcp, more=more,
                                                 stores=stores.rstrip()))
        super().__init__(SIDELIGHT, 'collect', '--dta', file, '--listen', '127.0.0.1:0')
        ready = self.ready()
        address = ready.get('listen') or ready.get('http')
        self.url = f'http://{address.removeprefix("http://")}/api/v1/dta'
        self.socket = f'{D}/{name}.dir/dta.sock'

    def status(self):
        return json.loads(get(self.url))

    def flow(self, key):
        return json.loads(get(f'{self.url}/query?store=flows&key={key}'))['result']


@case
def strangers_fill_no_memory_of_the_collector():
    c = Collector('c', tcp=', 127.0.0.1:0', more=f'secret: {put("secret", "sixteen bytes at least")}')
    port = int(next(w for w in c.status()['listen'] if w.startswith('127.')).rsplit(':', 1)[1])
    before = c.resident_bytes()
    strangers, most = [], 0
    plain = b'{"type":"hello","name":"' + b'x' * 1000000
    record = b'\x16\x03\x03\x40\x00'  # of 16 KiB, in a hello that claims 16 MiB
    tls = record + b'\x01\xff\xff\xff' + bytes(0x4000 - 4) + (record + bytes(0x4000)) * 60
    for i in range(300):
        line = tls if i % 2 else plain
        s = socket.socket()
        s.settimeout(.2)
        try:
            s.connect(('127.0.0.1', port))
            for at in range(0, len(line), 100000):
                s.sendall(line[at:at + 100000])
        except OSError:
            pass  # closed, or not read: as it should be
        strangers.append(s)
        most = max(most, c.resident_bytes() - before)
    check(most < 32 << 20, f'{most >> 20} MiB are held for strangers', c)
    # Meanwhile, a known translator is admitted.
    m = Hostile(c.socket)
    m.close()
    refused = c.status()['refused_by_cause']
    check(refused['long'] >= 100 and refused['proof'] >= 100, f'{refused}', c)
    for s in strangers:
        s.close()
    check(c.stop() == 0, 'the collector failed', c)


@case
def keys_of_reporters_are_exchanged_under_load():
    """Reporters with the old and the new key report throughout; then the old one opens nothing, and no other ever did."""
    old, new, other = put('old', KEY), put('new', OTHER), put('other', OTHER[::-1])

    def tenants(*keys):
        items = ', '.join('{reporter: %s, key: %s%s}' % k for k in (*keys, ('9', other, '')))
        return f'tenants: [{{number: 0, keys: [{items}]}}]'

    def reload(*keys):
        before = c.status()['reloads']
        put('c.yaml', STORES.format(socket=c.socket, tcp='', more=tenants(*keys), stores=''))
        c.p.send_signal(signal.SIGHUP)
        wait_until(lambda: c.status()['reloads'] == before + 1, 'it is not reloaded', c)
    first = ('5-8', old, '')
    c = Collector('c', more=tenants(first))
    t = Part(SIDELIGHT, 'translate', '--collector', f'unix:{c.socket}', '--listen', '127.0.0.1:0', '--name', 't', '--json')
    address = t.ready()['listen']

    def generate(reporter, key, *more):
        return Part(SIDELIGHT, 'generate', 'dta', '--to', address, '--reporter', reporter, '--key', key, '--essential', '--json',
                    '--show', '0', '--wait', '60s', *more)
    # Until the keys have come, the tenant needs none.
    wait_until(lambda: any('writing' in line for line in t.err), 'it does not write', t)
    load = [generate('5', old, '--count', '6000', '--rate', '3000')]
    reload(first, ('5-8', new, ', until: 2099-12-31T23:59:59Z'))
    load.append(generate('6', new, '--count', '3000', '--rate', '3000'))
    for _ in range(3):
        reload(('5-8', new, ''), first)
        reload(first, ('5-8', new, ''))
    for g in load:
        check(g.wait() == 0, 'a reporter is not answered with its key', g, t)
        said = json.loads(g.out[-1])
        check(not said['bad_answers'] and not said['unsettled'], f'{said}', g, t)
    # Revoked by its removal, by its time, and never one of this reporter.
    opens = lambda reporter, key: generate(reporter, key, '--count', '1', '--wait', '1s').wait() == 0
    reload(('5-8', new, ''), ('5-8', old, ', until: 2001-01-01T00:00:00Z'))
    check(opens('7', new) and not opens('7', old), 'a key that is over opens', t)
    reload(('5-8', new, ''))
    check(not opens('8', old) and not opens('9', new) and not opens('5', other), 'another key opens', t)
    check(opens('8', new) and opens('9', other), 'the right key does not open', t)
    check(t.stop() == 0, 'the translator failed', t)
    a = json.loads(t.out[-1])
    check(a['engine']['stored'] == 9003, f'{a}', t)
    # Unacknowledged reports are sent again: each of the four refused ones at least once.
    check(a['refused']['mac'] >= 4 and not a['loss']['collisions'], f'{a}', t)
    check(sum(a['refused'].values()) == a['refused']['mac'] and not a['refused_reporter'], f'{a}', t)
    check(c.stop() == 0, 'the collector failed', c)


class Hostile:
    """An admitted translator in this process, with the descriptors of the memory that it may write."""

    def __init__(self, path, name='hostile'):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(300)
        self.s.connect(path)
        self.s.sendall(json.dumps({'type': 'hello', 'version': CONTROL, 'name': name, 'output': 'shm',
                                   }).encode() + b'\n')
        self.fds, self.messages, rest = [], [], b''
        while not any(m['type'] == 'ready' for m in self.messages):
            data, fds, _, _ = socket.recv_fds(self.s, 65536, 16)
            check(data, f'closed: {rest} {self.messages}')
            self.fds += fds
            *lines, rest = (rest + data).split(b'\n')
            self.messages += map(json.loads, lines)

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.s.close()


def try_(f, *args):
    try:
        f(*args)
    except OSError:
        pass  # sealed


def punch(fd, offset, bytes_):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate(fd, 3, ctypes.c_long(offset), ctypes.c_long(bytes_))  # KEEP_SIZE | PUNCH_HOLE


def takes_away(name, more):
    """Whatever a translator does to the memory it was given, the collector lives, answers and reports it."""
    c = Collector(name, more=more)
    t = Part(SIDELIGHT, 'translate', '--collector', f'unix:{c.socket}', '--listen', '127.0.0.1:0', '--name', 'honest')
    address = t.ready()['listen']
    known = iter(range(1, 100))

    def works():
        key = f'{next(known):016x}'
        r = Part(SIDELIGHT, 'report', '--target', address, '--store', '1', '--copies', '2', '--essential', '--timeout', '20s',
                 'keywrite', key, 'u64:7')
        check(r.wait() == 0, 'the reporter failed', r, t, c)
        wait_until(lambda: c.flow(key) == 'found', 'what was reported is not found', c, t)
    works()
    h = Hostile(c.socket)
    sizes = [os.fstat(fd).st_size for fd in h.fds]
    check(len(sizes) == 2, f'{h.messages}')
    garbage = os.urandom(8192)

    def rewrite(fd, offset=0):
        with mmap.mmap(fd, 8192) as m:
            m[offset:8192] = garbage[offset:]
    for what in (lambda fd, size: try_(os.ftruncate, fd, 0),
                 lambda fd, size: try_(os.ftruncate, fd, size // 2),
                 lambda fd, size: try_(os.ftruncate, fd, 8192),
                 lambda fd, size: rewrite(fd),
                 lambda fd, size: rewrite(fd, 4096),
                 lambda fd, size: punch(fd, 0, size),
                 lambda fd, size: try_(os.ftruncate, fd, size + 1)):
        for fd, size in zip(h.fds, sizes):
            what(fd, size)
        for key in ('0000000000000001', '00000000000000ff'):
            c.flow(key)
        get(f'{c.url}/query?store=events&list=0&lane=0&max=100&from=0')
        c.status()
        get(c.url.replace('/api/v1/dta', '/metrics'))
        works()
    mended = c.status()['mended']
    check(mended > 0, f'{c.status()}', c)
    check(any('repaired' in line for line in c.err), 'the log says nothing', c)
    h.close()
    check(t.stop() == 0, 'the honest translator failed', t)
    check(c.stop() == 0, 'the collector failed', c)
    return name, more


@case
def a_translator_cannot_take_a_store_away():
    takes_away('memory', '')
    name, more = takes_away('files', f'directory: {D}')
    # The files are whole: a successor opens them.
    c = Collector(name, more=more)
    check(c.stop() == 0, 'the collector failed', c)


ALL_KINDS = '''
  - {name: keys, number: 3, kind: append, lists: 3, items: 4096, value: 9, batch: 1, lanes: 2}
  - {name: logged, number: 4, kind: key-write, seed: 1, slots: 4096, value: 8, copies: 2, epochs: 2, keylog: keys}
  - {name: bytes, number: 5, kind: increment, seed: 1, rows: 4, columns: 4096, keylog: keys}
  - {name: paths, number: 6, kind: postcard, slots: 4096, hops: 5, copies: 2, keylog: keys}
  - {name: sizes, number: 7, kind: sketch, sketch: count-min, rows: 4, columns: 256, reporters: 3, lanes: 2}
'''


@case
def queries_survive_memory_that_changes_under_them():
    c = Collector('all', stores=ALL_KINDS)
    h = Hostile(c.socket)
    maps = [mmap.mmap(fd, os.fstat(fd).st_size) for fd in h.fds]
    check(len(maps) == 7, f'{h.messages}', c)
    ended, source = threading.Event(), os.urandom(1 << 20)
    words = [b'\0' * 8, b'\xff' * 8, struct.pack('<Q', 1 << 63), struct.pack('<Q', 1 << 40 | 1 << 32)]

    def write():
        for i in itertools.count():
            if ended.is_set():
                return
            m = maps[i % len(maps)]
            at = (i * 2654435761 + int.from_bytes(source[i % 65536:i % 65536 + 4], 'little')) % (len(m) - 8) & ~7
            where = at if i % 3 else at % 8192  # often in header, configuration and epoch line
            n = (8, 64, 4096)[i % 3 if i % 64 == 0 else 0]
            new = words[i % 4] if i % 2 else source[i % 65536:i % 65536 + n]
            m[where:where + len(new)] = new[:len(m) - where]
    threads = [threading.Thread(target=write, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    answers = {}
    for i in range(20):
        for ask in ('query?store=flows&key=0000000000000001', 'query?store=events&list=3&max=64', 'query?store=events&list=0&from=7',
                    'query?store=logged&key=01020304', 'query?store=bytes&key=01020304', 'query?store=paths&key=01020304',
                    'query?store=sizes&key=01020304', 'query?store=sizes&key=01020304&cells=1', 'keys?store=logged',
                    'keys?store=bytes&top=1', 'keys?store=paths', ''):
            status, _, _ = request(f'{c.url}/{ask}' if ask else c.url)
            answers[status] = answers.get(status, 0) + 1
        get(c.url.replace('/api/v1/dta', '/metrics'))
        if i % 10 == 9:
            Hostile(c.socket, 'next').close()  # a new translator learns the positions in the rings
    ended.set()
    for thread in threads:
        thread.join()
    check(set(answers) == {200}, f'{answers}', c)
    check(c.status()['mended'] > 0, f'{c.status()}', c)
    h.close()
    check(c.stop() == 0, 'the collector failed', c)


@case
def a_secret_that_others_can_read_is_named():
    key, secret = put('key', KEY, 0o644), put('secret', 'sixteen bytes at least', 0o604)
    own = put('own', KEY, 0o640)
    c = Collector('w', more=f'secret: {secret}\ntenants: [{{number: 7, key: {key}}}, {{number: 8, key: {own}}}]')

    def warned(p, path, mode):
        wait_until(lambda: any(line.startswith('WARN') and path in line and mode in line for line in p.err),
                   f'nothing is said of {path} of {mode}', p)
    warned(c, key, '0644')
    warned(c, secret, '0604')
    check(not any(own in line for line in c.err), 'a group may read its key', c)
    t = Part(SIDELIGHT, 'translate', '--collector', f'unix:{c.socket}', '--listen', '127.0.0.1:0', '--secret', secret)
    warned(t, secret, '0604')
    t.stop()
    r = Part(SIDELIGHT, 'report', '--target', '127.0.0.1:9', '--key-file', key, 'keywrite', 'u64:1', 'u64:2')
    r.wait()
    warned(r, key, '0644')
    g = Part(SIDELIGHT, 'generate', 'dta', '--to', '127.0.0.1:9', '--key', key, '--count', '1', '--show', '0')
    g.wait()
    warned(g, key, '0644')
    c.stop()


VERSION = 2
run_cases()
