#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_input.py BUILD [RUNS [KIND]...] - dta.input.*: records of what devices send, per second of the receiver's CPU time.

One sender (input_load.c) sends the same datagrams in turns to the translator and to its peer; what counts is what arrived,
per CPU second, in the kernel and outside. The peer of flows, nfcapd, decodes and appends the records to a file,
uncompressed. Ours decodes and appends a report with flow, counts and times of each record to a list in a collector's memory;
for .flows it makes two reports of each, bytes and packets by 5-tuple, and adds them to counters; .default is the default mapping
with the stores and key logs of examples/dta/devices.yaml: the same two counters, and bytes by exporter and interfaces.
The peer of samples, pmacct's sfacctd, adds them up in a table of its memory plugin, as ours does in counters. No collector of
INT is in Debian; ours writes each hop into its path and what it measured into a store. The other stores have no key logs. .floor is a
program that receives the datagrams and reads none, .decode the decoder alone, in one process (decode.c). No query is answered
meanwhile."""
import json
import os
import random
import shutil
import signal
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
from bench import CPUS, ROOT, check, cpu_ns, on, poll, say, skip_peer, workdir  # noqa: E402

BUILD = sys.argv[1]
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
SIDELIGHT = os.path.join(BUILD, 'sidelight')
D = workdir()
DATAGRAMS, RATE = 100_000, 25_000
FLOWS = 100_000
random.seed(1)

# (element, bytes): what an exporter of flows usually has.
IPFIX = [(8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (5, 1), (6, 2), (10, 4), (14, 4), (2, 8), (1, 8), (152, 8), (153, 8)]
V9 = [(8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (5, 1), (6, 1), (10, 4), (14, 4), (2, 4), (1, 4), (22, 4), (21, 4)]


def records(fields, count):
    """Of random flows, all fields but the addresses, ports and the protocol alike."""
    out = b''
    for _ in range(count):
        flow = random.randrange(FLOWS)
        values = {8: 0x0a000000 | flow, 12: 0xc6336401, 7: 1024 + flow % 60000, 11: 443, 4: 6, 5: 0, 6: 0x1b, 10: 3, 14: 4,
                  2: 10, 1: 5000, 152: 1700000000000, 153: 1700000001000, 22: 1000, 21: 2000}
        out += b''.join(values[f].to_bytes(size, 'big') for f, size in fields)
    return out


def templates(fields, set_id):
    body = struct.pack('>HH', 256, len(fields)) + b''.join(struct.pack('>HH', *f) for f in fields)
    return struct.pack('>HH', set_id, 4 + len(body)) + body


def data(fields, per):
    body = records(fields, per)
    body += bytes(-len(body) % 4)
    return struct.pack('>HH', 256, 4 + len(body)) + body


def ipfix():
    per = (1400 - 20) // sum(size for _, size in IPFIX)

    def message(sets):
        return struct.pack('>HHIII', 10, 16 + len(sets), 1700000000, 0, 1) + sets
    return 8, per, per, [message(templates(IPFIX, 2))] + [message(data(IPFIX, per)) for _ in range(4000)]


def netflow():
    per = (1400 - 24) // sum(size for _, size in V9)

    def message(sets, count):
        return struct.pack('>HHIIII', 9, count, 100000, 1700000000, 0, 1) + sets
    return 12, 1, per, [message(templates(V9, 0), 1)] + [message(data(V9, per), per) for _ in range(4000)]


def ipv4(flow, protocol, above):
    return struct.pack('>BBHHHBBHII', 0x45, 0, 20 + len(above), 0, 0, 64, protocol, 0, 0x0a000000 | flow, 0xc6336401) + above


def tcp(flow, more=0):
    return struct.pack('>HHIIBBHHH', 1024 + flow % 60000, 443, 1, 1, 5 << 4, 0x10, 100, 0, 0) + bytes(more)


def sflow():
    """Samples of 128 bytes of a frame; one port's, one of one packet."""
    per, numbers = 7, iter(range(1 << 32))

    def sample():
        header = bytes(12) + b'\x08\x00' + ipv4(flow := random.randrange(FLOWS), 6, tcp(flow, 74))
        return struct.pack('>10I', 1, 32 + 24 + len(header), next(numbers), 3, 1, 1000000, 0, 3, 4, 1) + \
            struct.pack('>6I', 1, 16 + len(header), 1, 1518, 4, len(header)) + header

    def datagram(n):
        return struct.pack('>7I', 5, 1, 0x7f000001, 0, 0, 1000, n) + b''.join(sample() for _ in range(n))
    return 16, 1, per, [datagram(0)] + [datagram(per) for _ in range(4000)]


def telemetry():
    """Reports 2.0 of a sink with INT-MD stacks of three switches before it: node, latency and queue."""
    reports, hops = 10, 3

    def report():
        flow = random.randrange(FLOWS)
        stack = b''.join(struct.pack('>III', node, 1000, 3 << 24 | 20) for node in range(hops, 0, -1))
        body = struct.pack('>IHHHH', 2 << 28 | 3 << 8 | 5, 0xb000, 0, 0, 0) + stack
        shim = struct.pack('>BBBB', 1 << 4 | 2 << 2, len(body) // 4, 0, 6)
        packet = ipv4(flow, 17, struct.pack('>HHHH', 5555, 5000, 8 + len(shim + body) + 20, 0) + shim + body + tcp(flow))
        main = struct.pack('>HHHHII', 0x3000, 0, 0, 0, 2000, 7 << 24 | 30)
        return struct.pack('>BBBB', 0x14, len(main + packet) // 4, 2, 0b0010 << 4) + main + packet

    def group(n):
        return struct.pack('>II', 2 << 28 | 5 << 22, 9) + b''.join(report() for _ in range(n))
    # The number of 22 bits ends at the third byte after the first; a byte of zeros follows.
    return 1, 256, reports * (hops + 1), [group(0)] + [group(reports) for _ in range(4000)]


def send(port, path):
    g = on(CPUS[-1:], os.path.join(BUILD, 'bench/dta/input_load'), '127.0.0.1', port, path, DATAGRAMS, RATE)
    check(g.wait() == 0, 'the sender failed', g)


def spent(part, begun):
    """CPU time once it rests."""
    last = 0
    while last != cpu_ns(part.pid) and cpu_ns(part.pid) - last > 2_000_000:
        last = cpu_ns(part.pid)
        time.sleep(.3)
    return cpu_ns(part.pid) - begun


STORES = f'''
listen: {D}/dta.sock
stores:
  - {{name: flow_bytes, number: 10, kind: increment, rows: 4, columns: 262144, copies: 2}}
  - {{name: flow_packets, number: 11, kind: increment, rows: 4, columns: 262144, copies: 2}}
  - {{name: paths, number: 13, kind: postcard, slots: 1000000, hops: 16, copies: 2}}
  - {{name: hops, number: 14, kind: key-write, slots: 4000000, value: 8, copies: 2}}
  - {{name: flows, number: 18, kind: append, lists: 1, items: 1000000, value: 45, lanes: 1}}
'''
APPEND = '''
reports:
  - {kind: flow, primitive: append, store: 18,
     value: [source/4, destination/4, source-port, destination-port, protocol, packets, bytes, start-ns, end-ns]}
'''


COUNT = '''
reports:
  - {kind: flow, key: [5-tuple], primitive: increment, store: 10, copies: 2, add: bytes}
  - {kind: flow, key: [5-tuple], primitive: increment, store: 11, copies: 2, add: packets}
  - {kind: sample, key: [5-tuple], primitive: increment, store: 10, copies: 2, add: bytes}
  - {kind: sample, key: [5-tuple], primitive: increment, store: 11, copies: 2, add: packets}
  - {kind: hop, key: [5-tuple], primitive: postcard, store: 13, copies: 2, hop: hop, hops: hops, data: switch}
  - {kind: hop, key: [5-tuple, switch], primitive: key-write, store: 14, copies: 2, value: [queue-depth, latency-ns]}
'''


def ours(kind, path, reports, *how):
    with open(f'{D}/stores.yaml', 'w') as f, open(f'{ROOT}/examples/dta/devices.yaml') as example:
        f.write(STORES if how else example.read().replace('/tmp/sidelight-dta', D))
    c = on(CPUS[-1:], SIDELIGHT, 'collect', '--dta', f'{D}/stores.yaml', '--listen', '127.0.0.1:0')
    c.ready()
    t = on(CPUS[:1], SIDELIGHT, 'translate', '--collector', f'unix:{D}/dta.sock', '--input', f'{kind}=127.0.0.1:0', '--json',
           *how)
    port = t.ready()['input'].rsplit(':', 1)[1]
    begun = cpu_ns(t.pid)
    send(port, path)
    cpu = spent(t, begun)
    check(t.stop() == 0, 'the translator failed', t)
    c.stop()
    a = json.loads(t.out[-1])
    d = a['devices'][kind]
    e = a['engine']  # a hop of a path that is known already is dropped
    check(d['reports'] == d['records'] * reports == e['stored'] + e['dropped']['duplicate_hop'] and
          not any(d['refused'].values()), f'{a}', t)
    return {'records': d['records'], 'rate': d['records'] * 1e9 / cpu, 'ns': cpu / d['records']}


def nfcapd(path):
    folder = f'{D}/flows'
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    port = 20000 + os.getpid() % 10000
    p = on(CPUS[:1], 'nfcapd', '-w', folder, '-b', '127.0.0.1', '-p', port, '-t', '3600', '-B', 16 << 20)
    check(poll(lambda: f'{port:04X}' in open('/proc/net/udp').read()), 'nfcapd does not listen', p)
    begun = cpu_ns(p.pid)
    send(port, path)
    cpu = spent(p, begun)
    p.stop()
    said = [line for line in p.stdout().splitlines() + p.err if 'Flows:' in line]
    n = sum(int(line.split('Flows:')[1].split(',')[0]) for line in said)
    check(n, 'nfcapd has no flows', p)
    return {'records': n, 'rate': n * 1e9 / cpu, 'ns': cpu / n}


def sfacctd(path):
    port, config = 20000 + os.getpid() % 10000, f'{D}/sfacctd.conf'
    with open(config, 'w') as f:
        f.write(f'daemonize: false\nsfacctd_ip: 127.0.0.1\nsfacctd_port: {port}\nsfacctd_pipe_size: {16 << 20}\n'
                f'plugins: memory\nimt_path: {D}/imt\naggregate: src_host, dst_host, src_port, dst_port, proto\n'
                f'imt_buckets: 131071\nimt_mem_pools_number: 0\nplugin_pipe_size: {64 << 20}\nplugin_buffer_size: 65536\n')
    p = on(CPUS[:1], 'sfacctd', '-f', config)
    check(poll(lambda: f'{port:04X}' in open('/proc/net/udp').read() and os.path.exists(f'{D}/imt')), 'sfacctd does not listen', p)

    def all_cpu():
        with open(f'/proc/{p.pid}/task/{p.pid}/children') as f:
            return sum(cpu_ns(int(child)) for child in f.read().split()) + cpu_ns(p.pid)
    begun, last = all_cpu(), 0
    send(port, path)
    while all_cpu() - last > 2_000_000:
        last = all_cpu()
        time.sleep(.3)
    cpu = all_cpu() - begun
    asked = on(CPUS[-1:], 'pmacct', '-s', '-O', 'json', '-p', f'{D}/imt')
    asked.wait()
    n = sum(json.loads(line)['packets'] for line in asked.out if line.startswith('{'))
    p.stop(signal.SIGINT)
    check(n, 'sfacctd has no samples', p, asked)
    return {'records': n, 'rate': n * 1e9 / cpu, 'ns': cpu / n}


def floor(path, per):
    """The same datagrams, received and not read: records per second."""
    p = on(CPUS[:1], os.path.join(BUILD, 'bench/dta/udp_table'), 'drop')
    port = p.ready()['listen'].rsplit(':', 1)[1]
    begun = cpu_ns(p.pid)
    send(port, path)
    cpu = spent(p, begun)
    check(p.stop() == 0, 'the floor failed', p)
    return {'rate': json.loads(p.out[-1])['packets'] * per * 1e9 / cpu}


COUNTED = ('--map', f'{D}/count.yaml')
FLOW_WAYS = (('', (1, '--map', f'{D}/append.yaml'), 'appended to a list in memory'),
             ('.flows', (2, *COUNTED), 'added to two counters of its flow'),
             ('.default', (3,), 'added to three counters with key logs'))
# KIND: (what is sent, peer, its Debian package, what the peer does, what ours does: suffix, reports and options, text).
KINDS = {
    'ipfix': (ipfix, nfcapd, 'nfdump', 'appends to a file', FLOW_WAYS),
    'netflow': (netflow, nfcapd, 'nfdump', 'appends to a file', FLOW_WAYS),
    'sflow': (sflow, sfacctd, 'pmacct', 'adds up in its memory plugin', (('', (2, *COUNTED), 'added to two counters of its flow'), ('.default', (3,), 'added to three counters with key logs'))),
    'int': (telemetry, None, '', '', (('', (2, *COUNTED), 'written into its path and into a store of measurements'),
                                      ('.default', (3,), 'the same, and a counter with a key log'))),
}


def best(runs):
    return max(runs, key=lambda r: r['rate'])


if len(CPUS) < 2:
    print('SKIP: two cores are needed, one of them for the sender', file=sys.stderr)
    sys.exit(77)
for kind in sys.argv[3:] or KINDS:
    make, peer, package, does, ways = KINDS[kind]
    at, step, per, datagrams = make()
    file = f'{D}/{kind}.bin'
    with open(file, 'wb') as f:
        f.write(struct.pack('>HH', at, step) + b''.join(struct.pack('>H', len(d)) + d for d in datagrams))
    with open(f'{D}/append.yaml', 'w') as f:
        f.write(APPEND)
    with open(f'{D}/count.yaml', 'w') as f:
        f.write(COUNT)
    runs, peers, floors = {suffix: [] for suffix, _, _ in ways}, [], []
    for _ in range(RUNS):
        for suffix, options, _ in ways:
            runs[suffix].append(ours(kind, file, *options))
        if peer and shutil.which(peer.__name__):
            peers.append(peer(file))
        floors.append(floor(file, per))
    if not peers:
        skip_peer(f'no {peer.__name__} (Debian package {package})' if peer else 'Debian has no collector of INT')
    p = best(peers) if peers else None
    said = f'the peer {does}, {p["records"]:,} records arrived, {p["ns"]:.0f} ns' if p else 'no peer'
    for suffix, _, what in ways:
        r = best(runs[suffix])
        say(f'dta.input.{kind}{suffix}', r['rate'], 'records/s',
            f'per second of CPU time, {per} records per datagram, {RATE:,} datagrams per second over loopback; '
            f'{r["records"]:,} records of {DATAGRAMS * per:,} arrived, {r["ns"]:.0f} ns CPU each; {what}; {said}; '
            f'the best of {RUNS} runs', peer and peer.__name__, p and p['rate'],
            None if suffix else 'the same datagrams received, and none read (udp_table drop)', best(floors)['rate'])
    alone = on(CPUS[:1], os.path.join(BUILD, 'bench/dta/decode'), kind, file)
    check(alone.wait() == 0, 'decode failed', alone)
    say(f'dta.input.{kind}.decode', 1e9 / json.loads(alone.out[-1])['ns'], 'records/s',
        'the decoder alone: no socket, mapping or store; CPU time of one thread, median of 7 rounds')
