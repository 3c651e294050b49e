#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_e2e.py BUILDDIR [RUNS [veth]] - dta.e2e.single, dta.e2e.packed, dta.baseline: key-write reports through a UDP socket
on loopback. The generator has one core, the translator (or the collector that it is held against) the other;
the collector that owns the stores sleeps. What arrived is counted, not what was sent. The best of some runs, as
neighbours only ever take away.

dta.e2e.afxdp: the same by AF_XDP over a veth pair, from frames that the kernel makes (xdp_load.c), as no sender
with sockets is as fast; and by a UDP socket over the same pair from the same sender. What was sent a second is said:
where all of it arrived, the sender is the limit. `veth`: these, and the single ones that they are held against."""
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tests'))
from support.process import Part, check, wait_until, workdir  # noqa: E402

BUILD = sys.argv[1]
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
VETH_ONLY = sys.argv[3:] == ['veth']
SIDELIGHT = os.path.join(BUILD, 'sidelight')
CPUS = sorted(os.sched_getaffinity(0))
D = workdir()
# 2^21 keys of 8 bytes with values of 8, one copy, in 2^22 slots: 64 MiB of store.
KEYS, SLOTS = 1 << 21, 1 << 22
STORES = f'''
listen: {D}/sock
stores:
  - {{name: flows, number: 1, kind: key-write, slots: {SLOTS}, value: 8, copies: 1, epochs: 1}}
'''


def on(cpu, *argv):
    return Part('taskset', '-c', str(cpu), *argv)


def cpu_seconds(pid):
    spent = 0
    for task in os.listdir(f'/proc/{pid}/task'):
        with open(f'/proc/{pid}/task/{task}/schedstat') as f:
            spent += int(f.read().split()[0])
    return spent / 1e9


def generate(address, count, pack, *more):
    g = on(CPUS[-1], SIDELIGHT, 'generate', 'dta', '--to', address, '--json', '--show', '0', '--count', count,
           '--keys', KEYS, '--copies', '1', '--pack', pack, *more)
    check(g.wait() == 0, 'the generator failed', g)
    return json.loads(g.out[-1])


def ours(count, pack):
    with open(f'{D}/stores.yaml', 'w') as f:
        f.write(STORES)
    c = on(CPUS[-1], SIDELIGHT, 'collect', '--dta', f'{D}/stores.yaml', '--listen', '127.0.0.1:0')
    c.ready()
    t = on(CPUS[0], SIDELIGHT, 'translate', '--collector', f'unix:{D}/sock', '--listen', '127.0.0.1:0', '--json')
    address = t.ready()['listen']
    generate(address, KEYS, 64, '--essential')  # all arrive: every page of the store has been touched
    idle, warm = cpu_seconds(c.pid), cpu_seconds(t.pid)
    g = generate(address, count, pack)
    spent = cpu_seconds(c.pid) - idle
    busy = cpu_seconds(t.pid) - warm
    check(t.stop() == 0, 'the translator failed', t)
    a = json.loads(t.out[-1])
    c.stop()
    reports = a['engine']['stored'] - KEYS
    return {'packets': reports / pack, 'reports': reports, 'seconds': g['seconds'],
            'collector': spent, 'translator': busy, 'sent': g['reports'],
            'same': a['reports'] == a['fresh'] == a['engine']['in']}


class Veth:
    """sl-near in this process' network namespace, which is a new one; sl-far in that of a child."""

    def __init__(self):
        if ctypes.CDLL(None).unshare(0x40000000):
            raise OSError('no network namespace of its own')
        self.child = Part('unshare', '-n', 'sleep', '3600')
        self.ns = f'/proc/{self.child.pid}/ns/net'
        wait_until(lambda: os.readlink(self.ns) != os.readlink('/proc/self/ns/net'), 'no namespace', self.child)
        self.inside = ('nsenter', f'--net={self.ns}')
        for at, args in (((), 'link set lo up'), ((), f'link add sl-near type veth peer name sl-far netns {self.child.pid}'),
                         ((), 'addr add 10.77.0.1/24 dev sl-near'), ((), 'link set sl-near up'),
                         (self.inside, 'addr add 10.77.0.2/24 dev sl-far'), (self.inside, 'link set sl-far up')):
            subprocess.run([*at, 'ip', *args.split()], check=True)
        with socket.socket() as s:
            self.mac = fcntl.ioctl(s, 0x8927, b'sl-near'.ljust(40, b'\0'))[18:24].hex(':')  # SIOCGIFHWADDR
            # GRO: then the receiving end of a pair has NAPI also without a program.
            value = ctypes.create_string_buffer(struct.pack('II', 0x2c, 1))  # ETHTOOL_SGRO
            fcntl.ioctl(s, 0x8946, struct.pack('16sP16x', b'sl-near', ctypes.addressof(value)))

    def close(self):
        self.child.stop(signal.SIGKILL)


def over_veth(veth, count, pack, *how):
    """What arrives of `count` packets of `pack` reports; how: --xdp, or nothing for the UDP socket."""
    with open(f'{D}/stores.yaml', 'w') as f:
        f.write(STORES)
    c = on(CPUS[-1], SIDELIGHT, 'collect', '--dta', f'{D}/stores.yaml', '--listen', '127.0.0.1:0')
    c.ready()
    t = on(CPUS[0], SIDELIGHT, 'translate', '--collector', f'unix:{D}/sock', '--listen', '10.77.0.1:40040', '--json',
           *how)
    t.ready()
    g = Part(*veth.inside, SIDELIGHT, 'generate', 'dta', '--to', '10.77.0.1:40040', '--count', KEYS, '--keys', KEYS,
             '--copies', '1', '--pack', '16', '--essential', '--show', '0')
    check(g.wait() == 0, 'the generator failed', g)  # every page of the store has been touched
    warm = cpu_seconds(t.pid)
    g = Part(*veth.inside, 'taskset', '-c', str(CPUS[-1]), os.path.join(BUILD, 'bench', 'dta_e2e', 'xdp_load'), 'sl-far',
             veth.mac, '10.77.0.2', '10.77.0.1', '40040', count, KEYS, pack)
    check(g.wait() == 0, 'the generator failed', g)
    busy = cpu_seconds(t.pid) - warm
    check(t.stop() == 0, 'the translator failed', t)
    c.stop()
    packets = (json.loads(t.out[-1])['engine']['stored'] - KEYS) / pack
    seconds = json.loads(g.out[-1])['seconds']
    return {'packets': packets, 'rate': packets / seconds, 'sent': count, 'sent_rate': count / seconds,
            'busy': 1e9 * busy / max(packets, 1)}


def peer(kind, count, pack):
    c = on(CPUS[0], os.path.join(BUILD, 'bench', 'dta_e2e', 'udp_table'), kind)
    g = generate(c.ready()['listen'], count, pack)
    check(c.stop() == 0, 'the peer failed', c)
    return {**json.loads(c.out[-1]), 'seconds': g['seconds']}


def row(name, value, unit, peer_name, peer_value, note, more_is_better=True):
    ratio = (value / peer_value if more_is_better else peer_value / value) if value and peer_value else None
    print(json.dumps({'name': name, 'value': value, 'unit': unit, 'peer': peer_name, 'peer_value': peer_value,
                      'ratio': ratio, 'conditions': note}), flush=True)


if len(CPUS) < 2:
    print('SKIP: two cores are needed, one for the generator', file=sys.stderr)
    sys.exit(77)
for name, count, pack, what in (('dta.e2e.single', 5_000_000, 1, 'packets'),
                                ('dta.e2e.packed', 80_000_000, 88, 'reports'))[:1 if VETH_ONLY else 2]:
    runs = [ours(count, pack) for _ in range(RUNS)]
    peers = [peer('table', count, pack) for _ in range(RUNS)]
    best = max(runs, key=lambda r: r[what] / r['seconds'])
    other = max(peers, key=lambda r: r[what] / r['seconds'])
    row(name, best[what] / best['seconds'], f'{what}/s', 'udp+hash table', other[what] / other['seconds'],
        f'{pack} report(s) a packet; {best["reports"]:,} of {best["sent"]:,} sent arrived; translator '
        f'{1e9 * best["translator"] / best["reports"]:.1f} ns CPU a report')
    if pack == 1:
        single = best['packets'] / best['seconds']
    if pack > 1 or VETH_ONLY:
        continue
    for kind, label in (('table', 'udp+hash table'), ('log', 'udp+log')):
        theirs = min((peer(kind, count, pack) for _ in range(RUNS)),
                     key=lambda p: p['cpu_seconds'] / max(p['reports'], 1))
        least = min(runs, key=lambda r: r['collector'])
        row('dta.baseline' + ('' if kind == 'table' else '.log'),
            1e9 * least['collector'] / least['reports'], 'ns/report', label,
            1e9 * theirs['cpu_seconds'] / theirs['reports'],
            'CPU of the collector; ours sleeps but for the account, once a second', False)
if not os.path.exists(os.path.join(BUILD, 'bench', 'dta_e2e', 'xdp_load')):
    print('SKIP: dta.e2e.afxdp: this build has no AF_XDP', file=sys.stderr)
    sys.exit(0)
try:
    pair = Veth()
except (OSError, subprocess.CalledProcessError) as e:
    print(f'SKIP: dta.e2e.afxdp: {e}', file=sys.stderr)
    sys.exit(0)
XDP = ('--xdp', 'sl-near', '--xdp-mode', 'native')
arrived = ('{pack} report(s) a packet, over veth; {packets:,.0f} of {sent:,} packets arrived, sent at {sent_rate:,.0f} a '
           'second; translator {busy:.0f} ns CPU a packet')
for pack, count in ((1, 10_000_000), (88, 2_000_000)):
    best, other = (max((over_veth(pair, count, pack, *how) for _ in range(RUNS)), key=lambda r: r['rate'])
                   for how in (XDP, ()))
    if pack == 1:
        row('dta.e2e.afxdp', best['rate'], 'packets/s', 'dta.e2e.single', single, arrived.format(pack=pack, **best))
    if pack == 1:  # whoever sends: what a core of the translator would take, beside the socket's on the same load
        row('dta.e2e.afxdp.core', 1e9 / best['busy'], 'packets/s', 'UDP socket, same veth and sender', 1e9 / other['busy'],
            "packets per second of the translator's own CPU time; what the kernel does outside of it is in neither")
    name, unit = ('dta.e2e.afxdp.veth', 'packets/s') if pack == 1 else ('dta.e2e.afxdp.packed', 'reports/s')
    row(name, best['rate'] * pack, unit, 'UDP socket over the same veth, from the same sender', other['rate'] * pack,
        arrived.format(pack=pack, **best) + '; the socket: ' + arrived.format(pack=pack, **other))
pair.close()
