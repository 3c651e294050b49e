#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_e2e.py BUILD [RUNS [veth]] - dta.e2e.* and dta.baseline: key-write reports through a UDP socket on loopback,
and by AF_XDP over a veth pair.

The generator has one core, the translator (or the peer) the other; the collector that owns the stores sleeps. Arrivals
are counted, not sends. The best of RUNS counts, as other load on the machine can only slow a run down. Over the veth pair
the kernel generates the frames (xdp_load.c), as no sender with sockets is fast enough; if everything sent arrived, the
sender is the limit. "veth": only the figures over the veth pair, and those they are compared with."""
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
from bench import CPUS, Part, check, cpu_ns, on, poll, say, workdir  # noqa: E402

BUILD = sys.argv[1]
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
VETH_ONLY = sys.argv[3:] == ['veth']
SIDELIGHT = os.path.join(BUILD, 'sidelight')
D = workdir()
# 2^21 keys of 8 bytes with values of 8, one copy, in 2^22 slots: 64 MiB of store.
KEYS, SLOTS = 1 << 21, 1 << 22
PACKED = 87  # reports that an Ethernet frame of 1,500 bytes has room for
STORES = f'''
listen: {D}/sock
stores:
  - {{name: flows, number: 1, kind: key-write, slots: {SLOTS}, value: 8, copies: 1, epochs: 1}}
'''


def generate(address, count, pack, *more):
    g = on(CPUS[-1:], SIDELIGHT, 'generate', 'dta', '--to', address, '--json', '--show', '0', '--count', count,
           '--keys', KEYS, '--copies', '1', '--pack', pack, *more)
    check(g.wait() == 0, 'the generator failed', g)
    return json.loads(g.out[-1])


def start_ours(listen, *how, cpus=CPUS[:1]):
    """A collector that owns the stores, and a translator at that address."""
    with open(f'{D}/stores.yaml', 'w') as f:
        f.write(STORES)
    c = on(CPUS[-1:], SIDELIGHT, 'collect', '--dta', f'{D}/stores.yaml', '--listen', '127.0.0.1:0')
    c.address = next(v for k, v in c.ready().items() if k in ('http', 'listen'))
    t = on(cpus, SIDELIGHT, 'translate', '--collector', f'unix:{D}/sock', '--listen', listen, '--json', *how)
    return c, t, t.ready()['listen']


def stop_ours(c, t):
    """What the translator counted, without the reports that touched every page of the store."""
    check(t.stop() == 0, 'the translator failed', t)
    c.stop()
    return json.loads(t.out[-1])['engine']['stored'] - KEYS


def ours(count, pack):
    c, t, address = start_ours('127.0.0.1:0')
    generate(address, KEYS, 64, '--essential')  # all arrive, and touch every page of the store
    idle, warm = cpu_ns(c.pid), cpu_ns(t.pid)
    seconds = generate(address, count, pack)['seconds']
    spent, busy = cpu_ns(c.pid) - idle, cpu_ns(t.pid) - warm
    reports = stop_ours(c, t)
    return {'reports': reports, 'rate': reports / pack / seconds, 'collector_ns': spent / reports,
            'translator_ns': busy / reports}


class Veth:
    """sl-near in this process' network namespace, which is a new one; sl-far in that of a child."""

    def __init__(self):
        if ctypes.CDLL(None).unshare(0x40000000):
            raise OSError('no network namespace of its own')
        self.child = Part('unshare', '-n', 'sleep', '3600')
        self.ns = f'/proc/{self.child.pid}/ns/net'
        check(poll(lambda: os.readlink(self.ns) != os.readlink('/proc/self/ns/net')), 'no namespace', self.child)
        self.inside = ('nsenter', f'--net={self.ns}')
        for at, args in (((), 'link set lo up'), ((), f'link add sl-near type veth peer name sl-far netns {self.child.pid}'),
                         ((), 'addr add 10.77.0.1/24 dev sl-near'), ((), 'link set sl-near up'),
                         (self.inside, 'addr add 10.77.0.2/24 dev sl-far'), (self.inside, 'link set sl-far up')):
            subprocess.run([*at, 'ip', *args.split()], check=True)
        with socket.socket() as s:
            self.mac = fcntl.ioctl(s, 0x8927, b'sl-near'.ljust(40, b'\0'))[18:24].hex(':')  # SIOCGIFHWADDR
            # GRO: the receiving end of a pair then has NAPI without a program, too.
            value = ctypes.create_string_buffer(struct.pack('II', 0x2c, 1))  # ETHTOOL_SGRO
            fcntl.ioctl(s, 0x8946, struct.pack('16sP16x', b'sl-near', ctypes.addressof(value)))

    def close(self):
        self.child.stop(signal.SIGKILL)


def over_veth(veth, count, pack, *how):
    """What arrives of `count` packets of `pack` reports; how: --xdp, or nothing for the UDP socket."""
    c, t, _ = start_ours('10.77.0.1:40040', '--allow-from', '10.77.0.0/24', *how)
    g = Part(*veth.inside, SIDELIGHT, 'generate', 'dta', '--to', '10.77.0.1:40040', '--count', KEYS, '--keys', KEYS,
             '--copies', '1', '--pack', '16', '--essential', '--show', '0')
    check(g.wait() == 0, 'the generator failed', g)
    warm = cpu_ns(t.pid)
    g = Part(*veth.inside, 'taskset', '-c', CPUS[-1], os.path.join(BUILD, 'bench/dta/xdp_load'), 'sl-far', veth.mac,
             '10.77.0.2', '10.77.0.1', '40040', count, KEYS, pack)
    check(g.wait() == 0, 'the generator failed', g)
    busy = cpu_ns(t.pid) - warm
    packets = stop_ours(c, t) / pack
    seconds = json.loads(g.out[-1])['seconds']
    return {'pack': pack, 'packets': packets, 'rate': packets / seconds, 'sent': count, 'sent_rate': count / seconds,
            'busy': busy / max(packets, 1)}


def workers(n, count):
    """CPU time of n workers per packet, on all CPUs, at a rate that loses nothing; and what queries then answer."""
    c, t, address = start_ours('127.0.0.1:0', '--workers', n, cpus=CPUS)
    generate(address, KEYS, 64, '--essential')
    warm = cpu_ns(t.pid)
    generate(address, count, 1, '--essential', '--reporters', 32, '--reporter', 100, '--rate', 400_000, '--expect', f'{D}/want')
    busy = cpu_ns(t.pid) - warm
    with open(f'{D}/want') as f:
        want = dict(line.split()[1:] for line, _ in zip(f, range(1000)))
    said = subprocess.run([SIDELIGHT, 'query', 'keywrite', 'flows', *want, '--collector', c.address, '--json'],
                          stdout=subprocess.PIPE, text=True).stdout
    found = [a for a in map(json.loads, said.splitlines()) if a['result'] == 'found']
    stored = stop_ours(c, t)
    check(stored == count, f'{stored} of {count} stored', t)
    check(found and all(want[a['key']] == a['value'] for a in found), 'an answer is wrong')
    return {'rate': 1e9 * count / busy, 'found': len(found)}


def over_workers():
    """
    Twice what a worker of two does per second of CPU time, beside one alone: what two cores would do. The generator needs
    a core, too, so that the wall clock of two cores says nothing.
    """
    one, two = (best([workers(n, 2_000_000) for _ in range(RUNS)]) for n in (1, 2))
    say('dta.e2e.scale', 2 * two['rate'] / one['rate'], 'times one worker',
        f'two workers on two cores: {two["rate"]:,.0f} packets per second of CPU time, one {one["rate"]:,.0f}; 32 reporters, '
        f'essential, 400,000 packets/s; of 1,000 keys {two["found"]} and {one["found"]} are found, with the values sent; the best '
        f'of {RUNS} runs')


def peer(kind, count, pack):
    """udp_table.c: packets that arrived per second, and nanoseconds of CPU per report."""
    c = on(CPUS[:1], os.path.join(BUILD, 'bench/dta/udp_table'), kind)
    seconds = generate(c.ready()['listen'], count, pack)['seconds']
    check(c.stop() == 0, 'the peer failed', c)
    got = json.loads(c.out[-1])
    return {'rate': got['packets'] / seconds, 'ns': 1e9 * got['cpu_seconds'] / max(got['reports'], 1)}


def best(runs):
    return max(runs, key=lambda r: r['rate'])


def over_loopback():
    """Prints the figures of the UDP socket; returns the rate of dta.e2e.single."""
    rates = {}
    for name, count, pack, what in (('dta.e2e.single', 5_000_000, 1, 'packets'),
                                    ('dta.e2e.packed', 80_000_000, PACKED, 'reports')):
        if pack > 1 and VETH_ONLY:
            break
        runs = [ours(count, pack) for _ in range(RUNS)]
        tables = [peer('table', count, pack) for _ in range(RUNS)]
        floor = best([peer('drop', count, pack) for _ in range(RUNS)])
        r, rates[name] = best(runs), best(runs)['rate']
        say(name, r['rate'] * pack, f'{what}/s',
            f'{pack} report(s) per packet; {r["reports"]:,} of {count:,} sent arrived; translator '
            f'{r["translator_ns"]:.1f} ns CPU per report; the best of {RUNS} runs',
            'UDP and a hash table', best(tables)['rate'] * pack, 'as many packets received and dropped',
            floor['rate'] * pack)
        if pack > 1 or VETH_ONLY:
            continue
        least = min(r['collector_ns'] for r in runs)
        for suffix, label, of in (('', 'UDP and a hash table', tables),
                                  ('.log', 'UDP and a log', [peer('log', count, pack) for _ in range(RUNS)])):
            say('dta.baseline' + suffix, least, 'ns/report',
                'CPU of the collector; ours sleeps but for the account, once per second', label,
                min(p['ns'] for p in of), less_is_better=True)
    return rates['dta.e2e.single']


def over_xdp(single):
    if not os.path.exists(os.path.join(BUILD, 'bench/dta/xdp_load')):
        print('SKIP: dta.e2e.afxdp: this build has no AF_XDP', file=sys.stderr)
        return
    try:
        pair = Veth()
    except (OSError, subprocess.CalledProcessError) as e:
        print(f'SKIP: dta.e2e.afxdp: {e}', file=sys.stderr)
        return
    arrived = ('{pack} report(s) per packet, over veth; {packets:,.0f} of {sent:,} packets arrived, sent at {sent_rate:,.0f} '
               'per second; translator {busy:.0f} ns CPU per packet')
    socket_name = 'UDP socket, same veth and sender'
    for pack, count in ((1, 10_000_000), (PACKED, 2_000_000)):
        xdp, udp = (best([over_veth(pair, count, pack, *how) for _ in range(RUNS)])
                    for how in (('--xdp', 'sl-near', '--xdp-mode', 'native'), ()))
        both = arrived.format(**xdp) + '; the socket: ' + arrived.format(**udp)
        if pack > 1:
            say('dta.e2e.afxdp.packed', xdp['rate'] * pack, 'reports/s', both, socket_name, udp['rate'] * pack)
            continue
        say('dta.e2e.afxdp', xdp['rate'], 'packets/s', arrived.format(**xdp), 'dta.e2e.single', single)
        say('dta.e2e.afxdp.cpu', xdp['busy'], 'ns/packet', "CPU time of the translator's process", socket_name, udp['busy'],
            less_is_better=True)
        say('dta.e2e.afxdp.core', 1e9 / xdp['busy'], 'packets/s',
            "packets per second of the translator's own CPU time; what the kernel does outside of it is in neither",
            socket_name, 1e9 / udp['busy'])
        say('dta.e2e.afxdp.veth', xdp['rate'], 'packets/s', both, socket_name, udp['rate'])
    pair.close()


if len(CPUS) < 2:
    print('SKIP: two cores are needed, one of them for the generator', file=sys.stderr)
    sys.exit(77)
if not VETH_ONLY:
    over_workers()
over_xdp(over_loopback())
