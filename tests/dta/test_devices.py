#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_devices.py SIDELIGHT [TEST]... - what devices send, through a translator into stores: flows of real probes are those
that nfcapd has of the same datagrams; what is hostile costs no memory and gets no answer."""
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from support.devices import Collector, Translator
from support.http import get
from support.process import KEEPS_FREED, SCALE, Part, case, check, run_cases, skip, wait_until, workdir

SIDELIGHT = sys.argv[1]
D = workdir()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STORES = f'{ROOT}/examples/dta/devices.yaml'
KINDS = ('int', 'ipfix', 'netflow', 'sflow')
NEAR, FAR, NEAR6, FAR6 = '10.77.0.1', '10.77.0.2', 'fd77::1', 'fd77::2'
random.seed(7)


def collector(name='c'):
    os.mkdir(f'{D}/{name}')
    return Collector(SIDELIGHT, STORES, f'{D}/{name}')


# ---- real probes ----

class Wire:
    """This process moves to a network namespace of its own; a child holds another one, behind a veth pair."""

    def __init__(self):
        if os.getuid() or ctypes.CDLL(None, use_errno=True).unshare(0x40000000):
            skip('network namespaces need root')
        self.child = Part('unshare', '-n', 'sleep', '600')
        ns = f'/proc/{self.child.pid}/ns/net'
        wait_until(lambda: os.readlink(ns) != os.readlink('/proc/self/ns/net'), 'no namespace', self.child)
        self.inside = ('nsenter', f'--net={ns}')
        for at, args in (((), 'link set lo up'),
                         ((), f'link add sl-near type veth peer name sl-far netns {self.child.pid}'),
                         ((), f'addr add {NEAR}/24 dev sl-near'), ((), f'addr add {NEAR6}/64 dev sl-near nodad'),
                         ((), 'link set sl-near up'), (self.inside, f'addr add {FAR}/24 dev sl-far'),
                         (self.inside, f'addr add {FAR6}/64 dev sl-far nodad'), (self.inside, 'link set sl-far up')):
            subprocess.run([*at, 'ip', *args.split()], check=True)

    def traffic(self):
        """TCP by iperf3; 40 flows of 25 UDP datagrams of 1,000 bytes, by each version of IP."""
        server = Part('iperf3', '-s', '-1', '-B', NEAR, '--forceflush')
        wait_until(lambda: 'listening' in server.stdout(), 'iperf3 does not listen', server)
        client = Part(*self.inside, 'iperf3', '-c', NEAR, '-n', '2M', '-P', '4')
        check(client.wait() == 0, 'iperf3 failed', client, server)
        server.wait()
        script = ('import socket, sys\n'
                  'for family, to in (socket.AF_INET, sys.argv[1]), (socket.AF_INET6, sys.argv[2]):\n'
                  '    for i in range(40):\n'
                  '        s = socket.socket(family, socket.SOCK_DGRAM)\n'
                  '        s.bind(("", 30000 + i))\n'
                  '        for _ in range(25):\n'
                  '            s.sendto(bytes(1000), (to, 40000))\n')
        sender = Part(*self.inside, sys.executable, '-c', script, NEAR, NEAR6)
        check(sender.wait() == 0, 'no datagrams', sender)


def written(capture):
    """How many of the script's datagrams a capture has."""
    p = subprocess.run(['tcpdump', '-n', '-r', capture, 'udp dst port 40000'], capture_output=True, text=True, timeout=300)
    return p.stdout.count('\n')


class Probe:
    """A probe at sl-near; each of its datagrams goes to the translator and to an nfcapd of its own, from one address."""

    def __init__(self, number, program, version, translator):
        self.name, self.version = f'{program}-{version}', version
        self.kind = 'ipfix' if version == 10 else 'netflow'
        self.address = f'127.0.0.{10 + number}'
        self.folder = f'{D}/{self.name}'
        self.datagrams = 0
        os.mkdir(self.folder)
        self.relay = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.relay.bind((self.address, 0))
        self.relay.settimeout(.1)
        port = self.relay.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind((self.address, 0))
            free = s.getsockname()[1]
        self.capture = Part('nfcapd', '-w', self.folder, '-b', self.address, '-p', free, '-t', '3600', '-I', self.name)
        wait_until(lambda: f'{free:04X}' in open('/proc/net/udp').read(), 'nfcapd does not listen', self.capture)
        self.targets = [('127.0.0.1', translator.port[self.kind]), (self.address, free)]
        self.ended = False
        self.thread = threading.Thread(target=self.pass_on, daemon=True)
        self.thread.start()
        self.to = f'{self.address}:{port}'
        self.probe = None
        if program == 'pmacctd':
            config = f'{D}/{self.name}.conf'
            with open(config, 'w') as f:
                f.write(f'daemonize: false\npcap_interface: sl-near\nplugins: nfprobe\nnfprobe_receiver: {self.to}\n'
                        f'nfprobe_version: {version}\naggregate: src_host, dst_host, src_port, dst_port, proto, tos\n'
                        'nfprobe_timeouts: tcp=1:tcp.rst=1:tcp.fin=1:udp=1:icmp=1:general=1:maxlife=2:expint=1\n')
            self.probe = Part('pmacctd', '-f', config)
            wait_until(lambda: 'Exporting flows' in self.probe.stdout() + self.probe.logged(), 'no probe', self.probe)

    def pass_on(self):
        while not self.ended:
            try:
                data = self.relay.recv(65536)
            except TimeoutError:
                continue
            for to in self.targets:
                self.relay.sendto(data, to)
            self.datagrams += 1

    def stop(self, capture):
        """Stops the probe, which then exports its remaining flows; softflowd reads the packets from a capture instead."""
        if self.probe:
            self.probe.stop(signal.SIGINT)
        else:
            self.probe = Part('softflowd', '-d', '-r', capture, '-n', self.to, '-v', self.version, '-p', f'{D}/{self.name}.pid',
                              '-c', 'none', '-t', 'maxlife=2')
            check(self.probe.wait() == 0, 'softflowd failed', self.probe)
        last = -1
        while last != self.datagrams or not last:
            last = self.datagrams
            time.sleep(.5)
        self.ended = True
        self.thread.join()
        self.relay.close()

    def captured(self):
        """Returns the flows in nfdump's output, {flow: [records, packets, bytes]} for TCP and UDP, and the number of all
        records."""
        self.capture.stop()
        p = subprocess.run(['nfdump', '-R', self.folder, '-o', 'json'], capture_output=True, text=True, timeout=300)
        check(p.returncode == 0 and '[' in p.stdout, f'nfdump: {p.stderr} {p.stdout[:500]} {os.listdir(self.folder)}', self.capture, self.probe)
        flows, n = {}, 0
        for r in json.JSONDecoder().raw_decode(p.stdout[p.stdout.index('['):])[0]:
            if r.get('type') != 'FLOW':
                continue
            n += 1
            if r['proto'] not in (6, 17):
                continue
            a, b = (r.get('src4_addr') or r.get('src6_addr')), (r.get('dst4_addr') or r.get('dst6_addr'))
            f = flows.setdefault((a, b, r['src_port'], r['dst_port'], r['proto']), [0, 0, 0])
            f[0] += 1
            f[1] += r['in_packets']
            f[2] += r['in_bytes']
        return flows, n

    def key(self, flow):
        a, b, *rest = flow
        v6 = ':' in a
        exporter = socket.inet_aton(self.address)
        packed = [socket.inet_pton(socket.AF_INET6 if v6 else socket.AF_INET, x) for x in (a, b)]
        return ((bytes(10) + b'\xff\xff' if v6 else b'') + exporter + b''.join(packed) + struct.pack('>HHB', *rest)).hex()


@case
def flows_are_those_that_nfcapd_has():
    for program in ('softflowd', 'pmacctd', 'nfcapd', 'nfdump', 'iperf3', 'tcpdump'):
        if not shutil.which(program):
            skip(f'{program} is not installed')
    wire = Wire()
    with open(f'{D}/map.yaml', 'w') as f:
        f.write('reports:\n'
                '  - {kind: flow, key: [exporter, 5-tuple], primitive: increment, store: 10, copies: 2, add: bytes}\n'
                '  - {kind: flow, key: [exporter, 5-tuple], primitive: increment, store: 11, copies: 2, add: packets}\n')
    c = collector()
    t = Translator(SIDELIGHT, c, ('ipfix', 'netflow'), '--map', f'{D}/map.yaml', '--workers', '2')
    probes = [Probe(i, program, version, t) for i, (program, version) in
              enumerate((p, v) for p in ('softflowd', 'pmacctd') for v in (10, 9, 5))]
    dump = Part('tcpdump', '-i', 'sl-near', '-w', f'{D}/wire.pcap', '-U', '-Z', 'root', '-s', '100')
    wait_until(lambda: 'listening' in dump.logged(), 'tcpdump does not listen', dump)
    wire.traffic()
    # When tcpdump is stopped, it drops packets that it has not read. The datagrams are the last ones.
    wait_until(lambda: written(f'{D}/wire.pcap') == 2 * 40 * 25, lambda: f'{written(f"{D}/wire.pcap")} datagrams', dump)
    dump.stop()
    for p in probes:
        p.stop(f'{D}/wire.pcap')
    sent = {kind: sum(p.datagrams for p in probes if p.kind == kind) for kind in ('ipfix', 'netflow')}
    wait_until(lambda: all(c.devices().get(k, {}).get('datagrams') == n for k, n in sent.items()),
               lambda: f'{sent} were sent: {c.devices()}', t)
    devices = c.devices()
    records = {'ipfix': 0, 'netflow': 0}
    for p in probes:
        flows, n = p.captured()
        records[p.kind] += n
        check(len(flows) >= 40, f'{p.name}: {len(flows)} flows', p.probe, p.capture)
        for flow, (_, packets, size) in flows.items():
            key = p.key(flow)
            ours = c.count('flow_packets', key), c.count('flow_bytes', key)
            check(ours == (packets, size), f'{p.name}: {flow}: {ours} is not {(packets, size)}', t)
        # Compare with the truth: 25 datagrams of 1,028 bytes.
        one = (FAR, NEAR, 30007, 40000, 17)
        check(flows.get(one, [0])[1:] == [25, 25 * 1028], f'{p.name}: {flows.get(one)}', p.probe)
    a = t.account()['devices']
    for kind in records:
        d = a[kind]
        print(kind, {k: v for k, v in d.items() if v})
        # softflowd's options have the name of its interface, which is a record, too.
        check(d['records'] == records[kind] + d['options'] and d['options'] == 1 and not d['unmapped'], f'{kind}: nfcapd has {records[kind]}, ours: {d}', t)
        check(d == devices[kind], f'{kind}: {d}, the collector was told {devices[kind]}', t)
        check(d['exporters'] >= (2 if kind == 'ipfix' else 4) and not any(d['refused'].values()), f'{kind}: {d}', t)
    c.stop()
    wire.child.stop(signal.SIGKILL)


# ---- IPFIX by hand ----

def message(sets, sequence=0, domain=1):
    return struct.pack('>HHIII', 10, 16 + len(sets), 1700000000, sequence, domain) + sets


def template():
    """Addresses, ports, protocol, packets and bytes."""
    fields = ((8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (2, 4), (1, 4))
    return struct.pack('>HHHH', 2, 8 + 4 * len(fields), 256, len(fields)) + b''.join(struct.pack('>HH', *f) for f in fields)


def flows(*flows_):
    """Of { number of the flow, packets, bytes }."""
    body = b''.join(struct.pack('>IIHHBII', 0x0a000000 | n, 0x0b000000, 1000, 443, 6, packets, size)
                    for n, packets, size in flows_)
    return struct.pack('>HH', 256, 4 + len(body)) + body


def flow_key(n):
    return struct.pack('>IIHHB', 0x0a000000 | n, 0x0b000000, 1000, 443, 6).hex()


def sender(address='127.0.0.1'):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((address, 0))
    s.setblocking(False)
    return s


def send(s, port, data):
    while True:
        try:
            return s.sendto(data, ('127.0.0.1', port))
        except BlockingIOError:
            time.sleep(.001)


@case
def an_exporter_stays_at_one_worker():
    """Templates come once; all data that follows is read, whichever worker it goes to."""
    c = collector()
    t = Translator(SIDELIGHT, c, ('ipfix',), '--workers', '4')
    exporters = [sender(f'127.0.0.{2 + i}') for i in range(64)]
    for i, s in enumerate(exporters):
        send(s, t.port['ipfix'], message(template(), domain=i))
    for k in range(20):
        for i, s in enumerate(exporters):
            send(s, t.port['ipfix'], message(flows((i, 1, 100), (1000 + i, 2, 50)), sequence=2 * k, domain=i))
    wait_until(lambda: c.devices().get('ipfix', {}).get('datagrams') == 64 * 21, lambda: f'{c.devices()}', t)
    for i in range(64):
        check(c.count('flow_bytes', flow_key(i)) == 2000 and c.count('flow_packets', flow_key(1000 + i)) == 40, f'flow {i}', t)
    text = get(f'{c.base}/metrics')
    for line in ('sidelight_dta_devices{input="ipfix",count="records"} 2560',
                 'sidelight_dta_devices{input="ipfix",count="refused_no_template"} 0'):
        check(line in text, f'no {line}: {[x for x in text.splitlines() if "dta_devices" in x]}', t)
    d = t.account()['devices']['ipfix']
    check(d['exporters'] == d['templates'] == 64 and d['records'] == 2560 and not d['lost'] and not any(d['refused'].values()),
          f'{d}', t)


@case
def records_go_to_the_collector_of_their_key():
    both = [collector('a'), collector('b')]
    t = Translator(SIDELIGHT, both[0], ('ipfix',), '--collector', both[1].socket)
    s = sender()
    send(s, t.port['ipfix'], message(template()))
    for k in range(50):
        send(s, t.port['ipfix'], message(flows(*((i, 1, i) for i in range(100))), sequence=100 * k))
    wait_until(lambda: sum(c.devices().get('ipfix', {}).get('datagrams', 0) for c in both) == 51,
               lambda: f'{[c.devices() for c in both]}', t)
    at = [sum(c.count('flow_packets', flow_key(i)) > 0 for i in range(100)) for c in both]
    check(sum(at) == 100 and min(at) > 10, f'flows at the collectors: {at}', t)
    for i in range(100):
        check(sum(c.count('flow_bytes', flow_key(i)) for c in both) == 50 * i, f'flow {i}', t)
    t.account()


@case
def a_tenant_with_macs_takes_nothing_of_devices():
    os.mkdir(f'{D}/c')
    with open(f'{D}/key', 'w') as f:
        f.write('00112233445566778899aabbccddeeff')
    os.chmod(f'{D}/key', 0o600)
    with open(f'{D}/stores.yaml', 'w') as f, open(STORES) as example:
        f.write(example.read() + f'tenants: [{{number: 0, key: {D}/key}}]\n')
    c = Collector(SIDELIGHT, f'{D}/stores.yaml', f'{D}/c')
    t = Translator(SIDELIGHT, c, ('ipfix',))
    s = sender()
    for _ in range(3):
        send(s, t.port['ipfix'], message(template() + flows((1, 1, 100))))
    made = lambda: c.devices().get('ipfix', {})
    wait_until(lambda: made().get('records') == 3 and made()['unproven'] == made()['reports'] > 0, lambda: f'{c.devices()}', t)
    check(c.count('flow_bytes', flow_key(1)) == 0, 'it was stored', t)
    check(t.account()['engine']['in'] == 0, 'reports came in', t)


@case
def wrong_inputs_and_maps_are_refused():
    with open(f'{D}/wrong.yaml', 'w') as f:
        f.write('reports:\n  - {kind: flow, primitive: append, store: 1, value: [bites]}\n')
    for args, code, words in ((('--input', 'gnmi'), 2, 'gnmi'), (('--map', f'{D}/wrong.yaml'), 2, '--input'),
                              (('--input', 'ipfix', '--map', f'{D}/wrong.yaml'), 1, f'{D}/wrong.yaml:2: '),
                              (('--input', 'ipfix', '--map', f'{D}/none.yaml'), 1, 'No such file'),
                              (('--input', 'ipfix=nowhere'), 1, 'nowhere')):
        p = subprocess.run([SIDELIGHT, 'translate', '--collector', f'unix:{D}/s', *args], capture_output=True, text=True,
                           timeout=300)
        check(p.returncode == code and words in p.stderr, f'{args}: exit {p.returncode}: {p.stderr}')
    p = subprocess.run([SIDELIGHT, 'translate', '--print-map'], capture_output=True, text=True, timeout=300)
    with open(f'{D}/default.yaml', 'w') as f:
        f.write(p.stdout)
    check(p.returncode == 0 and 'reports:' in p.stdout, p.stdout)
    t = Translator(SIDELIGHT, collector(), ('ipfix',), '--map', f'{D}/default.yaml')
    t.account()


@case
def captures_of_devices_are_read_offline():
    c = collector()
    with open(f'{D}/capture', 'wb') as f:
        f.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
        for port, data in ((4739, message(template())), (4739, message(flows((1, 2, 300)))), (9995, message(template())),
                           (9995, message(flows((1, 5, 700)))), (2055, bytes(40))):
            udp = struct.pack('>HHHH', 2000, port, 8 + len(data), 0) + data
            ip = struct.pack('>BBHHHBBH4s4s', 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, b'\xc0\0\2\1', b'\xc0\0\2\2')
            f.write(struct.pack('<IIII', 1700000000, 0, len(ip + udp), len(ip + udp)) + ip + udp)
    for inputs, packets, size in ((('ipfix',), 2, 300), (('ipfix=:9995', 'netflow'), 7, 1000)):
        t = Part(SIDELIGHT, 'translate', '--collector', c.socket, '--json', '--pcap', f'{D}/capture',
                 *(w for i in inputs for w in ('--input', i)))
        check(t.wait() == 0, 'it failed', t)
        a = json.loads(t.out[-1])['devices']
        check(a['ipfix']['records'] == 1 and a.get('netflow', {}).get('datagrams', 0) == len(inputs) - 1, f'{a}', t)
        wait_until(lambda: c.count('flow_packets', flow_key(1)) == packets, lambda: f'{c.count("flow_packets", flow_key(1))}', t)
        check(c.count('flow_bytes', flow_key(1)) == size, 'the bytes are wrong', t)
    t = Part(SIDELIGHT, 'translate', '--collector', c.socket, '--pcap', f'{D}/capture', '--input', 'sflow')
    check(t.wait() == 0 and 'datagrams to UDP port 2055, but none to port 6343' in t.logged(), 'another port is not named', t)
    for wrong in ('ipfix=nowhere', 'ipfix=:0'):
        t = Part(SIDELIGHT, 'translate', '--collector', c.socket, '--pcap', f'{D}/capture', '--input', wrong)
        check(t.wait() == 2, f'{wrong} is accepted', t)


# ---- hostile datagrams ----

def seeds():
    """The datagrams of the fuzzer's corpus, by kind of input."""
    found = {k: [] for k in KINDS}
    folder = f'{ROOT}/fuzz/corpus/dta_device'
    for name in sorted(os.listdir(folder)):
        with open(f'{folder}/{name}', 'rb') as f:
            data = f.read()
        if data[0] >= len(KINDS):
            continue  # a mapping
        at = 1
        while at + 3 <= len(data):
            n = int.from_bytes(data[at + 1:at + 3], 'big')
            found[KINDS[data[0]]].append(data[at + 3:at + 3 + n])
            at += 3 + n
    return found


def mutated(seed):
    b = bytearray(seed)
    for _ in range(random.randrange(1, 5)):
        what, at = random.randrange(4), random.randrange(len(b)) if b else 0
        if not b or what == 0:
            b = bytearray(random.randbytes(random.randrange(100)))
        elif what == 1:
            b[at] = random.choice((0, 1, 255, b[at] ^ 1 << random.randrange(8), random.randrange(256)))
        elif what == 2:
            del b[at:at + random.randrange(20)]
        else:
            b[at:at] = b[random.randrange(len(b)):][:random.randrange(60)]
    return bytes(b[:1400])


def resident(p):
    with open(f'/proc/{p.pid}/statm') as f:
        return int(f.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def unread(ports):
    """Bytes that wait in UDP sockets of these ports."""
    with open('/proc/net/udp') as f:
        rows = [line.split() for line in list(f)[1:]]
    return sum(int(row[4].split(':')[1], 16) for row in rows if int(row[1].split(':')[1], 16) in ports)


@case
def hostile_datagrams_cost_nothing():
    """50,000 (times the scale) random and mutated datagrams of each kind: each is counted, none is answered, memory stays,
    and an exporter that lives is read as before."""
    c = collector()
    t = Translator(SIDELIGHT, c, KINDS)
    strangers = [sender(f'127.0.{1 + i // 8}.{1 + i % 8}') for i in range(64)]
    live, count, memory = sender('127.0.0.200'), int(50_000 * SCALE), []
    send(live, t.port['ipfix'], message(template()))
    sent = {k: 0 for k in KINDS}
    sent['ipfix'] = 1
    for part in range(4):
        for kind, known in seeds().items():
            for i in range(count // 4):
                send(strangers[i % 64], t.port[kind], mutated(random.choice(known)) if known and i % 8 else
                     random.randbytes(random.randrange(200)))
            sent[kind] += count // 4
        send(live, t.port['ipfix'], message(flows((1, 1, 1000)), sequence=part))
        sent['ipfix'] += 1
        memory.append(resident(t))
    # The account is updated once per second; a counter also has the packets for which the socket had no room.
    wait_until(lambda: c.count('flow_packets', flow_key(1)) > 0, 'the live exporter is not read', t)
    wait_until(lambda: not unread(t.port.values()), 'datagrams are not read', t)
    a = t.account()
    answers = 0
    for s in strangers + [live]:
        try:
            answers += len(s.recv(65536))
        except (BlockingIOError, ConnectionRefusedError):
            pass
    check(answers == 0, f'{answers} bytes were answered', t)
    came = {k: a['devices'][k]['datagrams'] for k in KINDS}
    check(sum(came.values()) + a['socket_drops'] == sum(sent.values()), f'{sent} were sent, {came} came: {a}', t)
    # The pages of the key logs' filters, 2 MB per store, are touched one after the other.
    check(KEEPS_FREED or memory[-1] - memory[0] < 40 << 20, f'memory grows: {memory}', t)
    check(a['devices']['ipfix']['refused']['no_template'] and all(any(a['devices'][k]['refused'].values()) for k in KINDS),
          f'too kind: {a["devices"]}', t)
    return f'{sum(came.values()):,} datagrams, {a["socket_drops"]} dropped, {memory[-1] - memory[0]:,} bytes more'


run_cases()
