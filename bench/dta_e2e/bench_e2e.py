#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_e2e.py BUILDDIR [RUNS] - dta.e2e.single, dta.e2e.packed, dta.baseline: key-write reports through a UDP socket
on loopback. The generator has one core, the translator (or the collector that it is held against) the other;
the collector that owns the stores sleeps. What arrived is counted, not what was sent. The best of some runs, as
neighbours only ever take away."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tests', 'e2e'))
from harness import Part, check, workdir  # noqa: E402

BUILD = sys.argv[1]
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
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
                                ('dta.e2e.packed', 80_000_000, 88, 'reports')):
    runs = [ours(count, pack) for _ in range(RUNS)]
    peers = [peer('table', count, pack) for _ in range(RUNS)]
    best = max(runs, key=lambda r: r[what] / r['seconds'])
    other = max(peers, key=lambda r: r[what] / r['seconds'])
    row(name, best[what] / best['seconds'], f'{what}/s', 'udp+hash table', other[what] / other['seconds'],
        f'{pack} report(s) a packet; {best["reports"]:,} of {best["sent"]:,} sent arrived; translator '
        f'{1e9 * best["translator"] / best["reports"]:.1f} ns CPU a report')
    if pack > 1:
        continue
    for kind, label in (('table', 'udp+hash table'), ('log', 'udp+log')):
        theirs = min((peer(kind, count, pack) for _ in range(RUNS)),
                     key=lambda p: p['cpu_seconds'] / max(p['reports'], 1))
        least = min(runs, key=lambda r: r['collector'])
        row('dta.baseline' + ('' if kind == 'table' else '.log'),
            1e9 * least['collector'] / least['reports'], 'ns/report', label,
            1e9 * theirs['cpu_seconds'] / theirs['reports'],
            'CPU of the collector; ours sleeps but for the account, once a second', False)
