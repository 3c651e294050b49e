#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_flow_report.py SIDELIGHT [TEST]... - the kernel reports the flows of an interface: every packet and byte, to this
host and to another, into stores and out of queries; nothing stays behind, however the process ends."""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from support import flows
from support.flows import held, needs_bpf, still_there
from support.process import Part, case, fail, run_cases, wait_until, workdir
from support.reporter import Far, Listener, datagrams, key_of, reporter
from support.store_server import Store, StoreServer

EXE = sys.argv[1]
RESTRICTED = os.environ.get('SL_TEST_INSTRUMENTED') != '1'


class Relay:
    """Passes on packets of reports or, if told to, drops them, but no heartbeats. Counts reports and NACKs."""

    def __init__(self, to):
        self.near, self.far = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        self.near.bind(('0.0.0.0', 0))
        self.far.connect(to)
        self.near.settimeout(0.05)
        self.port = self.near.getsockname()[1]
        self.passed = self.lost = self.asked = self.beats = 0
        self.losing = self.end = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.end:
            try:
                b = self.near.recv(65536)
                reports = struct.unpack_from('>I', b, 28)[0]
                if reports and self.losing:
                    self.lost += reports
                else:
                    self.far.send(b)
                    self.passed += reports
                    self.beats += not reports
            except TimeoutError:
                pass
            try:
                while True:
                    self.asked += self.far.recv(65536, socket.MSG_DONTWAIT)[2] == 2
            except BlockingIOError:
                pass

    def stop(self):
        self.end = True
        self.thread.join()
        self.near.close()
        self.far.close()


@case
def to_this_host():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('0.0.0.0', 0))
    got = Listener(sock)
    p, target = reporter('lo', f':{sock.getsockname()[1]}', '--direction', 'in')
    if not target.startswith('169.254.'):
        fail(target, p)
    for wrong, words in ((('nope', ':40040'), 'nope'),
                         (('lo', '127.0.0.1:40040'), 'this host'), (('lo', 'x:y:z'), 'x:y:z')):
        q = subprocess.run([EXE, 'report', '--interface', wrong[0], '--target', wrong[1], '--store', '1'],
                           capture_output=True, text=True, timeout=300)
        if q.returncode != 1 or words not in q.stderr or q.stderr.count('\n') != 1:
            fail(f'{wrong}: exit {q.returncode} {q.stderr}', p)
    # The interface's own counters.
    wanted = {datagrams(socket.AF_INET, '127.0.0.1', 1000, 100): (1000, 142 * 1000),
              datagrams(socket.AF_INET6, '::1', 300, 50): (300, 112 * 300)}
    # A flow that becomes silent at once has been reported completely, and so has one that ends by FIN.
    listener = socket.create_server(('127.0.0.1', 0))
    c = socket.create_connection(listener.getsockname())
    s, _ = listener.accept()
    c.sendall(b'y' * 100000)
    n = 0
    while n < 100000:
        n += len(s.recv(65536))
    tcp = key_of(c, listener.getsockname(), 6)
    wait_until(lambda: all(got.last.get(k) == v for k, v in wanted.items()),
               lambda: str({k.hex(): (got.last.get(k), v) for k, v in wanted.items()}), p, seconds=20)
    wait_until(lambda: got.last.get(tcp, (0, 0))[1] >= 100000, lambda: str(got.last.get(tcp)), p, seconds=20)
    # More flows than fit into a packet, from every CPU.
    many = [datagrams(socket.AF_INET, '127.0.0.1', 3, 10) for _ in range(500)]
    wait_until(lambda: all(got.last.get(k) == (3, 3 * 52) for k in many),
               lambda: str(sum(got.last.get(k) == (3, 3 * 52) for k in many)), p, seconds=20)
    p.p.send_signal(signal.SIGTERM)
    p.wait()
    counts = json.loads(p.stdout()[p.stdout().index('{'):])
    if counts['no_room'] or counts['not_written'] or counts['no_flow'] or counts['reports'] != counts['sent_reports']:
        fail(f'{counts}')
    wait_until(lambda: got.reports == counts['reports'], lambda: f'{got.reports} of {counts["reports"]}', seconds=20)
    if not got.heartbeats or not set(got.heartbeats) <= {0} | {s + n for s, n in got.sequences}:
        fail(f'heartbeats {got.heartbeats}')
    # Every sequence number once.
    at = 0
    for sequence, n in sorted(got.sequences):
        if sequence != at:
            fail(f'sequence {sequence}, not {at}')
        at += n
    got.stop()
    # The kernel takes it away with the namespace of its other end, by a worker.
    wait_until(lambda: 'slr' not in subprocess.run(['ip', '-o', 'link'], capture_output=True, text=True).stdout,
               'its interface is gone', seconds=20)


@case
def several_at_one_interface():
    """Each reporter sees all packets and reports them to its own target; one that is killed does not disturb the others."""
    got, parts = [], []
    for _ in range(4):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(('0.0.0.0', 0))
        got.append(Listener(sock))
        parts.append(reporter('lo', f':{sock.getsockname()[1]}', '--direction', 'in'))
    if len({target for _, target in parts}) != 4:
        fail(f'{parts}')
    q = subprocess.run([EXE, 'report', '--interface', 'lo', '--target', ':40040', '--store', '1'], capture_output=True,
                       text=True, timeout=300)
    if q.returncode != 1 or 'already has 4 reporters' not in q.stderr or q.stderr.count('\n') != 1:
        fail(f'a fifth: exit {q.returncode} {q.stderr}')
    key = datagrams(socket.AF_INET, '127.0.0.1', 50, 100)
    wait_until(lambda: all(g.last.get(key) == (50, 50 * 142) for g in got),
               lambda: str([g.last.get(key) for g in got]), seconds=20)
    parts[1][0].p.kill()
    parts[1][0].p.wait()
    got[1].stop()
    key = datagrams(socket.AF_INET, '127.0.0.1', 60, 100)
    wait_until(lambda: all(g.last.get(key) == (60, 60 * 142) for g in got[:1] + got[2:]),
               lambda: str([g.last.get(key) for g in got]), seconds=20)
    for i in (0, 2, 3):
        parts[i][0].stop()
        got[i].stop()
    wait_until(lambda: 'slr' not in subprocess.run(['ip', '-o', 'link'], capture_output=True, text=True).stdout,
               'their interfaces are gone', seconds=20)


@case
def held_back_until_a_translator_listens():
    """A reporter that starts before its translator loses nothing: its later reports contain the earlier traffic."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(('0.0.0.0', 0))
        port = s.getsockname()[1]
    p, _ = reporter('lo', f':{port}', '--direction', 'in')
    wanted = {datagrams(socket.AF_INET, '127.0.0.1', n, 100): (n, n * 142) for n in 15 * [1, 77]}
    wait_until(lambda: any('waiting for a translator' in line for line in p.err), 'a word of it', p, seconds=20)
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('0.0.0.0', port))
    got = Listener(sock)
    wait_until(lambda: all(got.last.get(k) == v for k, v in wanted.items()),
               lambda: str(sum(got.last.get(k) == v for k, v in wanted.items())), p, seconds=20)
    p.p.send_signal(signal.SIGTERM)
    p.wait()
    counts = json.loads(p.stdout()[p.stdout().index('{'):])
    wait_until(lambda: got.reports == counts['reports'], lambda: f'{got.reports} of {counts}', seconds=20)
    if not counts['held_back'] or min(got.sequences)[0]:
        fail(f'{counts}, from {min(got.sequences)}')
    got.stop()


@case
def as_many_as_the_translator_gives_credit_for():
    """Reports that a translator cannot take are held back, and sent when it can."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('0.0.0.0', 0))
    got = Listener(sock, 0)
    p, _ = reporter('lo', f':{sock.getsockname()[1]}', '--direction', 'in')
    keys = []

    def behind():
        """Creates more flows than the reporter has credits for. When it learns of its lack of credits does not matter."""
        keys.extend(datagrams(socket.AF_INET, '127.0.0.1', 3, 10) for _ in range(100))
        return sum(k not in got.last for k in keys) >= 500
    wait_until(behind, 'no report was held back', p)
    got.credits = 0xffffffff
    # A port may have been had twice: then there are more packets of that flow.
    wait_until(lambda: all(got.last.get(k, (0, 0))[0] >= 3 for k in keys),
               lambda: str(sum(got.last.get(k, (0, 0))[0] >= 3 for k in keys)), p, seconds=20)
    p.p.send_signal(signal.SIGTERM)
    p.wait()
    counts = json.loads(p.stdout()[p.stdout().index('{'):])
    wait_until(lambda: got.reports == counts['reports'], lambda: f'{got.reports} of {counts}', seconds=20)
    if not counts['held_back'] or not counts['answers'] or counts['answers_refused']:
        fail(f'{counts}')
    got.stop()


@case
def what_the_table_drops_unsaid_is_counted():
    """More flows than fit into the table, while no report may be sent: each byte is reported, lost, or still there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(('0.0.0.0', 0))
        port = s.getsockname()[1]
    p, _ = reporter('lo', f':{port}', '--direction', 'in', '--flows', '512')
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
        to.bind(('127.0.0.1', 0))
        keys, open_ones = [], [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(900)]
        for s in open_ones:  # each has a port of its own as long as all are open
            s.bind(('127.0.0.1', 0))
            for _ in range(3):
                s.sendto(b'x' * 10, to.getsockname())
            keys.append(key_of(s, to.getsockname()))
        for s in open_ones:
            s.close()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('0.0.0.0', port))
    got = Listener(sock)
    wait_until(lambda: len(got.last) >= 100, lambda: f'{len(got.last)} flows', p, seconds=20)
    p.p.send_signal(signal.SIGTERM)
    p.wait()
    counts = json.loads(p.stdout()[p.stdout().index('{'):])
    wait_until(lambda: got.reports == counts['reports'], lambda: f'{got.reports} of {counts}', seconds=20)
    lost = sum(3 * 52 - got.last.get(k, (0, 0))[1] for k in keys)
    if not 900 - 512 <= counts['evicted'] < 900 or not lost or counts['evicted_bytes'] != lost or \
            counts['bytes'] != counts['said_bytes'] + counts['unsaid_bytes'] + counts['evicted_bytes']:
        fail(f'{lost} bytes lost: {counts}')
    got.stop()


@case
def a_sample_of_flows():
    """One flow in four, selected by its key: all its packets are counted, and none of other flows."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('0.0.0.0', 0))
    got = Listener(sock)
    p, _ = reporter('lo', f':{sock.getsockname()[1]}', '--direction', 'in', '--sample', '2')
    open_ones = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(400)]
    for s in open_ones:  # each has a port of its own as long as all are open
        s.bind(('127.0.0.1', 0))
        for _ in range(3):
            s.sendto(b'x', ('127.0.0.1', 9))
    for s in open_ones:
        s.close()

    def whole():
        return sum(v == (3, 3 * 43) for k, v in list(got.last.items()) if k[10:12] == struct.pack('>H', 9))
    # Of 400 binomial with 1/4, the standard deviation is 8.7.
    wait_until(lambda: 60 <= whole() <= 140, lambda: f'{whole()} flows', p, seconds=20)
    p.p.send_signal(signal.SIGTERM)
    p.wait()
    counts = json.loads(p.stdout()[p.stdout().index('{'):])
    wait_until(lambda: got.reports == counts['reports'], lambda: f'{got.reports} of {counts}', seconds=20)
    if counts['left_out'] < 3 * (400 - whole()) or whole() > 140:
        fail(f'{counts}, {whole()} flows')
    got.stop()


@case
def the_loss_of_the_last_packets_is_seen():
    """No packet but heartbeats follows the lost one; the translator notices all the same that its reports are missing."""
    folder = workdir()
    server = StoreServer(f'{folder}/s', [Store('key-write', 4, value=16, copies=3)])
    translator = Part(EXE, 'translate', '--collector', f'unix:{folder}/s', '--listen', '127.0.0.1:0', '--json')
    host, port = translator.ready()['listen'].rsplit(':', 1)
    relay = Relay((host, int(port)))
    p, _ = reporter('lo', f':{relay.port}', '--direction', 'in')
    datagrams(socket.AF_INET, '127.0.0.1', 10, 100)
    wait_until(lambda: relay.passed, 'no report came', p)
    relay.losing = True
    datagrams(socket.AF_INET, '127.0.0.1', 10, 100)
    wait_until(lambda: relay.lost and relay.asked, lambda: f'{relay.lost} lost, {relay.asked} asked for', p, translator)
    p.p.send_signal(signal.SIGTERM)
    p.wait()
    counts = json.loads(p.stdout()[p.stdout().index('{'):])
    wait_until(lambda: relay.passed + relay.lost == counts['reports'] and relay.beats >= 1,
               lambda: f'{relay.__dict__} of {counts}', translator)
    translator.stop()
    a = json.loads(translator.out[-1])
    if a['loss']['missing'] + a['loss']['lost'] != relay.lost or a['loss']['arrived'] != relay.passed or \
            relay.passed + relay.lost != counts['reports'] or not counts['heartbeats']:
        fail(f'{relay.lost} of {relay.passed + relay.lost} lost: {a["loss"]}, {counts}')
    relay.stop()
    server.close()


@case
def killed():
    p, _ = reporter('lo', ':40040')
    objects = held(p.pid)
    if sum(o[0] == 'prog' for o in objects) < 5:
        fail(f'it holds {objects}', p)
    p.p.kill()
    p.p.wait()
    wait_until(lambda: 'slr' not in subprocess.run(['ip', '-o', 'link'], capture_output=True, text=True).stdout,
               'its interface is gone', seconds=20)
    if [int(n) for n in os.uname().release.split('.')[:2]] >= [6, 6]:
        wait_until(lambda: not still_there(objects), lambda: str(still_there(objects)), seconds=20)
    p, _ = reporter('lo', ':40040')  # leftovers are no obstacle
    p.stop()


@case
def confined_once_it_reports():
    """It parses answers of a translator, so it drops the privileges it needed to attach. It still cleans up at the end."""
    old = [int(n) for n in os.uname().release.split('.')[:2]] < [6, 6]
    p, _ = reporter('lo', ':40040', '--report', 'drops=12,retransmissions=13,latency=14,queue=15')
    s = status(p.pid)
    for kind in 'CapEff', 'CapPrm', 'CapInh', 'CapAmb', 'CapBnd':
        if int(s[kind], 16) & ~(1 << 12 | 1 << 39 if old else 0):  # CAP_NET_ADMIN, CAP_BPF
            fail(f'{kind} {s[kind]}', p)
    if s['NoNewPrivs'] != '1' or (RESTRICTED and s['Seccomp'] != '2'):
        fail(f'NoNewPrivs {s["NoNewPrivs"]} Seccomp {s["Seccomp"]}', p)
    objects = held(p.pid)
    if p.stop():
        fail('an exit status', p)
    wait_until(lambda: not still_there(objects), lambda: str(still_there(objects)), seconds=20)
    wait_until(lambda: 'slr' not in subprocess.run(['ip', '-o', 'link'], capture_output=True, text=True).stdout,
               'its interface is gone', seconds=20)
    p, _ = reporter('lo', ':40040', '--unconfined')
    if status(p.pid)['CapEff'] != status('self')['CapEff']:
        fail(f'CapEff {status(p.pid)["CapEff"]}', p)
    p.stop()


def status(pid):
    with open(f'/proc/{pid}/status') as f:
        return {key: value.strip() for key, _, value in (line.partition(':') for line in f)}


def reporter_to(sock, *args):
    host, port = sock.getsockname()[:2]
    wanted = f'{host}:{port}' if sock.family == socket.AF_INET else f'[{host}]:{port}'
    p, target = reporter('sl-near', wanted, '--direction', 'out', *args)
    if target != wanted:
        fail(f'{target}, not {wanted}', p)
    return p


@case
def to_another_host():
    """Over a veth pair, to an address that lies in another network namespace."""
    with Far() as far:
        for sock in far.sockets:
            got = Listener(sock)
            p = reporter_to(sock)
            keys, open_ones = {}, []  # each has a port of its own as long as all are open
            # Flows of both address families, whichever of them the reports use; more flows than fit into one packet.
            for family, here, there in far.ADDRESSES:
                for _ in range(30):
                    s = socket.socket(family, socket.SOCK_DGRAM)
                    s.bind((here, 0))
                    for _ in range(20):
                        s.sendto(b'z' * 1400, (there, 9))  # long enough to lend their bodies
                    keys[key_of(s, (there, 9))] = (20, 20 * (1400 + (42 if family == socket.AF_INET else 62)))
                    open_ones.append(s)
            for s in open_ones:
                s.close()
            wait_until(lambda: all(got.last.get(k) == v for k, v in keys.items()),
                       lambda: f'{sum(got.last.get(k) == v for k, v in keys.items())} of {len(keys)} flows', p, seconds=20)
            # The reporter does not count its own packets.
            if any(k[-5:-3] == struct.pack('>H', 40041) for k in list(got.last)):
                fail('it reports its own reports', p)
            p.stop()
            got.stop()


@case
def to_another_host_from_an_address_of_another_interface():
    """A host may announce an address of another interface. The route, not the address, determines the outgoing interface."""
    own = '10.78.0.1', 'fd78::1'
    with Far() as far:
        for sock, source, bits, (family, here, there), more in zip(far.sockets, own, (32, 128), far.ADDRESSES, ([], ['nodad'])):
            for command in (['addr', 'add', f'{source}/{bits}', 'dev', 'lo', *more],
                            ['route', 'add', f'{there}/{bits}', 'dev', 'sl-near', 'src', source]):
                subprocess.run(['ip', *command], check=True)
            far.run('ip', 'route', 'add', f'{source}/{bits}', 'dev', 'sl-far')
            got = Listener(sock)
            p = reporter_to(sock)
            with socket.socket(family, socket.SOCK_DGRAM) as s:
                s.bind((here, 0))
                for _ in range(20):
                    s.sendto(b'z' * 1400, (there, 9))
                key = key_of(s, (there, 9))
            size = 1400 + (42 if family == socket.AF_INET else 62)
            wait_until(lambda: got.last.get(key) == (20, 20 * size), lambda: f'{got.last.get(key)}', p, seconds=20)
            p.stop()
            got.stop()
            subprocess.run(['ip', 'addr', 'del', f'{source}/{bits}', 'dev', 'lo'], check=True)


def end_of(p):
    """Ends a reporter, and returns its counters."""
    p.p.send_signal(signal.SIGTERM)
    if p.wait():
        fail('an exit status', p)
    return json.loads(p.stdout()[p.stdout().index('{'):])


def unlink():
    subprocess.run(['ip', 'link', 'del', 'sl-near'], check=True)


def said(p, words):
    return sum(words in line for line in p.err)


@case
def an_interface_that_is_created_again_is_reported():
    """The reports leave by the same interface. All is said once, however long it takes."""
    with Far() as far:
        for sock, (family, here, there) in zip(far.sockets, far.ADDRESSES):
            def flow():
                with socket.socket(family, socket.SOCK_DGRAM) as s:
                    s.bind((here, 0))
                    for _ in range(20):
                        s.sendto(b'z' * 1400, (there, 9))
                    return key_of(s, (there, 9))

            def drop(port):
                """Sends what nothing receives, and returns whether this has been reported."""
                with far.call(lambda: socket.socket(family, socket.SOCK_DGRAM)) as s:
                    s.sendto(b'x', (here, port))
                return any(store == 12 and k[-7:-5] == struct.pack('>H', port) for store, k in list(got.also))
            got = Listener(sock)
            p = reporter_to(sock, '--report', 'drops=12,queue=15')
            size = 1400 + (42 if family == socket.AF_INET else 62)
            for gone in range(3):
                queue = 15, struct.pack('>II', 9, socket.if_nametoindex('sl-near'))
                wait_until(lambda: queue in got.also, lambda: f'{gone}: no queue {queue} in {list(got.also)}', p, seconds=20)
                wait_until(lambda: drop(9000 + gone), lambda: f'{gone}: no drop', p, seconds=20)
                key = flow()
                wait_until(lambda: got.last.get(key) == (20, 20 * size), lambda: f'{gone}: {got.last.get(key)}', p, seconds=20)
                if gone == 2:
                    break
                unlink()
                wait_until(lambda: said(p, 'the interface is gone') == gone + 1 and said(p, 'no route') == gone + 1,
                           'a word of it', p, seconds=20)
                time.sleep(0.5)
                far.link()
                wait_until(lambda: said(p, 'the interface is back') == gone + 1 and said(p, 'a route to the translator again') == gone + 1,
                           'a word of its return', p, seconds=20)
            counts = end_of(p)
            if (counts['interface_gone'], counts['route_gone'], said(p, 'the interface is gone')) != (2, 2, 2):
                fail(f'{counts}', p)
            got.stop()


@case
def without_a_route_reports_are_held_back():
    """Another interface is observed. Whatever is reported while there is no route is in a counter, and in a later report."""
    with Far() as far:
        got = Listener(far.sockets[0])
        host, port = far.sockets[0].getsockname()
        p, _ = reporter('lo', f'{host}:{port}', '--direction', 'in')
        key = datagrams(socket.AF_INET, '127.0.0.1', 20, 100)
        wait_until(lambda: got.last.get(key) == (20, 20 * 142), lambda: f'{got.last.get(key)}', p, seconds=20)
        unlink()
        keys = [datagrams(socket.AF_INET, '127.0.0.1', 20, 100) for _ in range(200)]
        wait_until(lambda: said(p, 'no route') == 1, 'a word of it', p, seconds=20)
        keys += [datagrams(socket.AF_INET, '127.0.0.1', 20, 100) for _ in range(200)]
        time.sleep(1.5)  # a sweep finds them due
        before = got.reports
        far.link()
        late = set(keys[200:])
        wait_until(lambda: all(got.last.get(k) == (20, 20 * 142) for k in late),
                   lambda: f'{sum(got.last.get(k) == (20, 20 * 142) for k in late)} of {len(late)}', p, seconds=20)
        counts = end_of(p)
        if not counts['no_route'] or not counts['held_back'] or counts['interface_gone'] or counts['route_gone'] != 1 or \
                got.reports == before:
            fail(f'{counts}', p)
        got.stop()


@case
def so_many_flows_that_packets_are_written_again():
    """Packets are written into buffers that were used before; nothing of the old content remains in them."""
    with Far() as far:
        got = Listener(far.sockets[1])
        p = reporter_to(far.sockets[1])
        s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        s.bind(('fd77::1', 0))
        for base in range(1024, 1024 + 495 * 57, 495):
            for port in range(base, base + 495):
                s.sendto(b'z' * 1400, ('fd77::2', port))
            wait_until(lambda: len(got.last) >= base + 495 - 1024,
                       lambda: f'{len(got.last)} of {base + 495 - 1024} flows', p, seconds=20)
        s.close()
        p.stop()
        got.stop()


@case
def into_stores_and_out_of_queries():
    folder = workdir()
    with open(f'{folder}/stores.yaml', 'w') as f:
        f.write(f'''listen: {folder}/dta.sock
stores:
  - {{name: flows, number: 4, kind: key-write, seed: 1, slots: 10000, value: 16, copies: 3, keylog: seen}}
  - {{name: seen, number: 5, kind: append, lists: 1, items: 1000, value: 40, batch: 1, lanes: 1}}
''')
    collector = Part(EXE, 'collect', '--dta', f'{folder}/stores.yaml', '--listen', '127.0.0.1:0')
    address = collector.ready()['listen']
    p, target = reporter('lo', ':40040', '--direction', 'in')
    translator = Part(EXE, 'translate', '--collector', f'unix:{folder}/dta.sock', '--listen', target, '--insecure-listen')
    translator.ready()
    for family, host, count, size in ((socket.AF_INET, '127.0.0.1', 77, 142), (socket.AF_INET6, '::1', 55, 162)):
        key = datagrams(family, host, count, 100)

        def asked():
            q = subprocess.run([EXE, 'query', 'keywrite', '--collector', address, '--json', 'flows', key.hex()],
                               capture_output=True, text=True, timeout=300)
            return json.loads(q.stdout).get('value') if q.returncode == 0 else q.stderr or q.stdout
        wait_until(lambda: asked() == struct.pack('>QQ', count, count * size).hex(), asked, translator, seconds=20)
    for part in (p, translator, collector):
        part.stop()


@case
def signed_as_the_translator_requires():
    """Every packet is authenticated with a key, and so is every answer; with packets of all lengths, of both families."""
    folder = workdir()
    with open(f'{folder}/key', 'w') as f:
        f.write('000102030405060708090a0b0c0d0eff\n')
    os.chmod(f'{folder}/key', 0o600)
    with open(f'{folder}/other', 'w') as f:
        f.write(32 * '1')
    os.chmod(f'{folder}/other', 0o600)
    with open(f'{folder}/stores.yaml', 'w') as f:
        f.write(f'''listen: {folder}/dta.sock
tenants:
  - {{number: 3, name: third, key: {folder}/key, required: true}}
stores:
  - {{name: flows, tenant: 3, number: 4, kind: key-write, seed: 1, slots: 10000, value: 16, copies: 3}}
''')
    q = subprocess.run([EXE, 'report', '--interface', 'lo', '--target', ':40040', '--key-file', f'{folder}/stores.yaml'],
                       capture_output=True, text=True, timeout=300)
    if q.returncode != 1 or 'the key must have 32 hexadecimal digits' not in q.stderr or len(q.stderr.splitlines()) > 2:
        fail(f'exit {q.returncode} {q.stderr}')
    collector = Part(EXE, 'collect', '--dta', f'{folder}/stores.yaml', '--listen', '127.0.0.1:0')
    address = collector.ready()['listen']
    # The reporter names the translator by its address or also by its name; in the last case its key is another one.
    for key, meant, good in (('key', (), True), ('key', ('--translator', 'it'), True), ('key', ('--translator', 'no'), False),
                             ('other', (), False)):
        p, target = reporter('lo', ':40040', '--direction', 'in', '--tenant', '3', '--key-file', f'{folder}/{key}', *meant)
        translator = Part(EXE, 'translate', '--collector', f'unix:{folder}/dta.sock', '--listen', target, '--insecure-listen', '--json',
                          '--name', 'it')
        translator.ready()
        wanted = {}
        for flows_at_once in range(1, 27):
            for family, host, size in ((socket.AF_INET, '127.0.0.1', 52), (socket.AF_INET6, '::1', 72)):
                for _ in range(flows_at_once % 9 * 3):
                    wanted[datagrams(family, host, 1, 10)] = (1, size)
            time.sleep(0.02)  # so that packets of many lengths are sent; nothing depends on it

        def found():
            k = list(wanted)[-1]
            q = subprocess.run([EXE, 'query', 'keywrite', '--collector', address, '--json', 'flows', k.hex()],
                               capture_output=True, text=True, timeout=300)
            return q.returncode == 0 and json.loads(q.stdout).get('value')
        if good:
            wait_until(found, 'it is in the store', p, translator, seconds=20)
        p.p.send_signal(signal.SIGTERM)
        p.wait()
        translator.stop()
        counts, a = json.loads(p.stdout()[p.stdout().index('{'):]), json.loads(translator.out[-1])
        refused = {k: v for k, v in a['refused'].items() if v}
        if good:
            if refused or a['packets'] != counts['sent'] + counts['heartbeats'] or not counts['answers'] or \
                    counts['answers_refused'] or a['loss']['arrived'] != counts['sent_reports']:
                fail(f'{counts} {a}')
        elif set(refused) != {'elsewhere' if meant else 'mac'} or counts['answers'] or a['fresh']:
            fail(f'{counts} {a}')
    collector.stop()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('0.0.0.0', 0))
    got = Listener(sock, credits=0, proof=24)
    p, _ = reporter('lo', f':{sock.getsockname()[1]}', '--direction', 'in', '--key-file', f'{folder}/key')
    wait_until(lambda: datagrams(socket.AF_INET, '127.0.0.1', 1, 10) and got.answered, 'no answer was wanted', p)
    keys = [datagrams(socket.AF_INET, '127.0.0.1', 1, 10) for _ in range(50)]
    wait_until(lambda: all(k in got.last for k in keys), lambda: f'{len(got.last)}', p)
    p.p.send_signal(signal.SIGTERM)
    p.wait()
    got.stop()
    counts = json.loads(p.stdout()[p.stdout().index('{'):])
    if counts['answers'] or not counts['answers_refused'] or counts['held_back']:
        fail(f'answers without a MAC were believed: {counts}')


@case
def settings_of_the_unit_are_accepted():
    """Uses deploy/report.yaml with another interface."""
    settings = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../deploy/report.yaml')
    q = subprocess.run([EXE, 'report', '--config', settings, '--interface', 'lo', '--duration', '10ms'], capture_output=True,
                       text=True, timeout=300)
    if q.returncode:
        fail(f'exit {q.returncode} {q.stderr}')


@case
def a_missing_reporter_number_is_chosen_at_random():
    """A process ID could be that of a reporter on another host, or in another container."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('0.0.0.0', 0))
    sock.settimeout(60)
    with Part(EXE, 'report', '--interface', 'lo', '--target', f':{sock.getsockname()[1]}', '--direction', 'in') as p:
        p.ready()
        datagrams(socket.AF_INET, '127.0.0.1', 10, 100)
        number = struct.unpack_from('>I', sock.recv(65536), 8)[0]
        if number >> 31 != 1:
            fail(f'reporter {number}', p)
    sock.close()


needs_bpf()
flows.own_network()
run_cases()
