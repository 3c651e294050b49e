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

from support.http import get
from support.process import SCALE, Part, case, check, run_cases, skip, wait_until, workdir

SIDELIGHT = sys.argv[1]
D = workdir()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEAR, FAR, NEAR6, FAR6 = '10.77.0.1', '10.77.0.2', 'fd77::1', 'fd77::2'
random.seed(7)


class Collector(Part):
    """With the stores of the example."""

    def __init__(self, name='c'):
        with open(f'{ROOT}/examples/dta/devices.yaml') as f:
            text = f.read().replace('/tmp/sidelight-dta', f'{D}/{name}')
        with open(f'{D}/{name}.yaml', 'w') as f:
            f.write(text)
        super().__init__(SIDELIGHT, 'collect', '--dta', f'{D}/{name}.yaml', '--listen', '127.0.0.1:0')
        ready = self.ready()
        address = ready.get('listen') or ready.get('http')
        self.base = f'http://{address.removeprefix("http://")}'
        self.socket = f'unix:{D}/{name}/dta.sock'

    def status(self):
        return json.loads(get(f'{self.base}/api/v1/dta'))

    def devices(self):
        """What translators said of devices last."""
        return self.status()['account']['translators'].get('devices', {})

    def count(self, store, key):
        return json.loads(get(f'{self.base}/api/v1/dta/query?store={store}&key={key}')).get('value', 0)


class Translator(Part):
    def __init__(self, *collectors, inputs=('ipfix', 'netflow'), options=()):
        where = [w for c in collectors for w in ('--collector', c.socket)]
        super().__init__(SIDELIGHT, 'translate', *where, *(w for i in inputs for w in ('--input', f'{i}=127.0.0.1:0')),
                         '--json', '--name', 't', *options)
        self.ports = {kind: int(at.rsplit(':', 1)[1])
                      for kind, at in (w.split(':', 1) for w in self.ready()['input'].split(','))}

    def account(self):
        """Ends it. Whatever came, its account must close."""
        check(self.stop() == 0, 'it failed', self)
        a = json.loads(self.out[-1])
        engine = a['engine']
        made = sum(d['reports'] - d['unproven'] for d in a['devices'].values())
        check(a['reports'] == a['fresh'] == engine['in'] == made, f'reports: {a}', self)
        check(engine['in'] == engine['stored'] + engine['waiting'] + sum(engine['dropped'].values()), f'engine: {a}', self)
        return a


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
        self.targets = [('127.0.0.1', translator.ports[self.kind]), (self.address, free)]
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
        """Ends the probe, which exports what it still holds; softflowd reads the packets of a capture instead."""
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
        """What nfdump reads: {flow: [records, packets, bytes]} of TCP and UDP; and the number of all records."""
        self.capture.stop()
        p = subprocess.run(['nfdump', '-R', self.folder, '-o', 'json'], capture_output=True, text=True, timeout=60)
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
    c = Collector()
    t = Translator(c, options=('--map', f'{D}/map.yaml', '--workers', '2'))
    probes = [Probe(i, program, version, t) for i, (program, version) in
              enumerate((p, v) for p in ('softflowd', 'pmacctd') for v in (10, 9, 5))]
    dump = Part('tcpdump', '-i', 'sl-near', '-w', f'{D}/wire.pcap', '-Z', 'root', '-s', '100')
    wait_until(lambda: 'listening' in dump.logged(), 'tcpdump does not listen', dump)
    wire.traffic()
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
        # And the truth: 25 datagrams of 1,028 bytes.
        one = (FAR, NEAR, 30007, 40000, 17)
        check(flows.get(one, [0])[1:] == [25, 25 * 1028], f'{p.name}: {flows.get(one)}', p.probe)
    a = t.account()['devices']
    for kind in records:
        d = a[kind]
        print(kind, {k: v for k, v in d.items() if v})
        check(d['records'] == records[kind], f'{kind}: nfcapd has {records[kind]}, ours: {d}', t)
        check(d == devices[kind], f'{kind}: {d}, the collector was told {devices[kind]}', t)
        check(d['exporters'] >= (2 if kind == 'ipfix' else 4) and not any(d['refused'].values()), f'{kind}: {d}', t)
    c.stop()
    wire.child.stop(signal.SIGKILL)


run_cases()
