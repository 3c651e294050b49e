#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_input.py BUILD [RUNS [KIND]...] - dta.input.*: records of what devices send, per second of the receiver's CPU time.

One sender (input_load.c) sends the same datagrams in turns to the translator and to its peer, at a rate that both take
without loss; what counts is what arrived, per CPU second. Ours decodes, makes two reports of each record (bytes and
packets of its 5-tuple, as the default mapping has it) and adds them to stores of a collector in shared memory. The peer,
nfcapd, decodes and appends the records to a file, uncompressed. Neither answers a query meanwhile."""
import json
import os
import random
import shutil
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


# KIND: (datagrams, the input of the translator). A further kind has its own peer, or none.
KINDS = {'ipfix': ipfix, 'netflow': netflow}


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


def ours(kind, path):
    with open(f'{ROOT}/examples/dta/devices.yaml') as f:
        stores = f.read().replace('/tmp/sidelight-dta', D)
    with open(f'{D}/stores.yaml', 'w') as f:
        f.write(stores)
    c = on(CPUS[-1:], SIDELIGHT, 'collect', '--dta', f'{D}/stores.yaml', '--listen', '127.0.0.1:0')
    c.ready()
    t = on(CPUS[:1], SIDELIGHT, 'translate', '--collector', f'unix:{D}/dta.sock', '--input', f'{kind}=127.0.0.1:0', '--json')
    port = t.ready()['input'].rsplit(':', 1)[1]
    begun = cpu_ns(t.pid)
    send(port, path)
    cpu = spent(t, begun)
    check(t.stop() == 0, 'the translator failed', t)
    c.stop()
    a = json.loads(t.out[-1])
    d = a['devices'][kind]
    check(d['reports'] == 2 * d['records'] and not any(d['refused'].values()), f'{d}', t)
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


def best(runs):
    return max(runs, key=lambda r: r['rate'])


if len(CPUS) < 2:
    print('SKIP: two cores are needed, one of them for the sender', file=sys.stderr)
    sys.exit(77)
for kind in sys.argv[3:] or KINDS:
    at, step, per, datagrams = KINDS[kind]()
    file = f'{D}/{kind}.bin'
    with open(file, 'wb') as f:
        f.write(struct.pack('>HH', at, step) + b''.join(struct.pack('>H', len(d)) + d for d in datagrams))
    runs, peers = [], []
    for _ in range(RUNS):
        runs.append(ours(kind, file))
        if shutil.which('nfcapd'):
            peers.append(nfcapd(file))
    if not peers:
        skip_peer('no nfcapd (Debian package nfdump)')
    r, p = best(runs), best(peers) if peers else None
    say(f'dta.input.{kind}', r['rate'], 'records/s',
        f'per second of CPU time, {per} records per datagram, {RATE:,} datagrams per second over loopback; '
        f'{r["records"]:,} records arrived of {DATAGRAMS * per:,}, each decoded and added to two stores; translator '
        f'{r["ns"]:.0f} ns CPU per record; the peer decodes and appends to a file: '
        + (f'{p["records"]:,} records, {p["ns"]:.0f} ns' if p else 'missing') + f'; the best of {RUNS} runs',
        'nfcapd', p and p['rate'])
