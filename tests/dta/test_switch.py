#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_switch.py SIDELIGHT [TEST]... - what a real switch (Open vSwitch) exports by sFlow, IPFIX and NetFlow arrives in
stores: equal to the switch's own counters and to nfcapd's flows without sampling, within the bound of chance with it."""
import json
import math
import os
import socket
import subprocess
import sys

from support.devices import Collector, Translator
from support.process import Part, case, check, run_cases, wait_until, workdir
from support.switch import ADDRESS, CHECKSUM, HEADER, Switch, key_of, needs_switch

SIDELIGHT = sys.argv[1]
D = workdir()
KINDS = ('sflow', 'ipfix', 'netflow')
# Per kind, of pairs of addresses and of flows: stores of packets and of bytes.
NUMBER = {(kind, key, what): 20 + 10 * k + 2 * (key == 'flow') + (what == 'bytes')
          for k, kind in enumerate(KINDS) for key in ('pair', 'flow') for what in ('packets', 'bytes')}


def name(*key):
    return '_'.join(key)


def write_files():
    with open(f'{D}/stores', 'w') as f:
        f.write('listen: /tmp/sidelight-dta/dta.sock\nstores:\n')
        for key, number in NUMBER.items():
            f.write(f'  - {{name: {name(*key)}, number: {number}, kind: increment, seed: 1, rows: 4, columns: 65536, copies: 4}}\n')
        f.write('  - {name: interfaces, number: 12, kind: key-write, seed: 1, slots: 4096, value: 32, copies: 2}\n')
    with open(f'{D}/map', 'w') as f:
        f.write('reports:\n')
        for (kind, key, what), number in NUMBER.items():
            fields = '5-tuple' if key == 'flow' else 'source, destination'
            f.write(f'  - {{kind: {"sample" if kind == "sflow" else "flow"}, input: {kind}, key: [{fields}], '
                    f'primitive: increment, store: {number}, copies: 4, add: {what}}}\n')
        f.write('  - {kind: counters, input: sflow, key: [exporter, interface], primitive: key-write, store: 12, copies: 2, '
                'value: [in-packets/8, in-bytes/8, out-packets/8, out-bytes/8]}\n')


def counts(c, kind, what, key):
    """(packets, bytes) of a key."""
    return tuple(c.count(name(kind, what, unit), key) for unit in ('packets', 'bytes'))


def pair(sender):
    return b''.join(socket.inet_aton(a) for a in (sender, *(a for a in ADDRESS if a != sender))).hex()


class Capture(Part):
    """nfcapd, which gets the same datagrams as the translator."""

    def __init__(self):
        self.folder = f'{D}/nfcapd'
        os.mkdir(self.folder)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind(('127.0.0.1', 0))
            self.port = s.getsockname()[1]
        super().__init__('nfcapd', '-w', self.folder, '-b', '127.0.0.1', '-p', self.port, '-t', '3600')
        wait_until(lambda: f':{self.port:04X} ' in open('/proc/net/udp').read(), 'nfcapd does not listen', self)

    def flows(self):
        """{flow: (packets, bytes)}"""
        self.stop()
        p = subprocess.run(['nfdump', '-R', self.folder, '-o', 'json'], capture_output=True, text=True, timeout=300)
        check(p.returncode == 0 and '[' in p.stdout, f'nfdump: {p.stderr} {p.stdout[:500]}', self)
        sums = {}
        for r in json.JSONDecoder().raw_decode(p.stdout[p.stdout.index('['):])[0]:
            if r.get('type') == 'FLOW' and r.get('proto') in (6, 17) and 'src4_addr' in r:
                key = (r['src4_addr'], r['dst4_addr'], r['src_port'], r['dst_port'], r['proto'])
                packets, size = sums.get(key, (0, 0))
                sums[key] = packets + r['in_packets'], size + r['in_bytes']
        return sums


def start(sampling, capture=None):
    switch = Switch(D)
    write_files()
    c = Collector(SIDELIGHT, f'{D}/stores', D)
    t = Translator(SIDELIGHT, c, KINDS, '--map', f'{D}/map')
    at = {kind: f'"127.0.0.1:{port}"' for kind, port in t.port.items()}
    if capture:
        at['netflow'] += f',"127.0.0.1:{capture.port}"'
    switch.export('sFlow', agent='lo', targets=at['sflow'], header=128, sampling=sampling, polling=1)
    switch.export('IPFIX', targets=at['ipfix'], sampling=sampling, obs_domain_id=7, obs_point_id=9, cache_active_timeout=1)
    switch.export('NetFlow', targets=f'[{at["netflow"]}]', active_timeout=1)
    return switch, c, t


# What each protocol calls the bytes of a packet: sFlow those of a frame with its checksum, IPFIX those of the IP packet. Open
# vSwitch's NetFlow has those of a frame without it, as its own counters do.
BYTES = {'sflow': CHECKSUM, 'ipfix': -HEADER, 'netflow': 0}
# Its IPFIX samples at the port where a packet comes in, and again where it leaves.
TIMES = {'sflow': 1, 'ipfix': 2, 'netflow': 1}


def expected(kind, packets, size):
    """Returns the total number of packets, and of bytes in packets whose frames have this size."""
    return TIMES[kind] * packets, TIMES[kind] * (size + BYTES[kind] * packets)


def settle(switch, c, t, *exact):
    """Waits until nothing changes any more, and the stores of these kinds equal the switch's counters. Returns both, by
    sender."""
    before = None

    def settled():
        nonlocal before
        now = (switch.passed(), {(kind, s): counts(c, kind, 'pair', pair(s)) for kind in KINDS for s in ADDRESS})
        same, before = now == before, now
        return same and all(now[1][kind, s] == expected(kind, *now[0][s]) for kind in exact for s in ADDRESS)
    wait_until(settled, lambda: f'the switch and the stores have {before}', t, every=2.5)
    return before


@case
def each_packet_of_a_switch_is_counted_once():
    needs_switch('nfcapd', 'nfdump', 'iperf3', 'nginx', 'curl')
    capture = Capture()
    switch, c, t = start(1, capture)
    switch.traffic()
    passed = sum(n for n, _ in settle(switch, c, t, *KINDS)[0].values())
    check(passed > 1500, f'only {passed} packets')
    # Interfaces: the counters of the switch's ports, by the ports' numbers.
    index = {n: socket.if_nametoindex(f'sl-port{n}') for n in (0, 1)}
    number = {n: switch.set('get', 'interface', f'sl-port{n}', 'ofport').strip() for n in (0, 1)}
    for n in (0, 1):
        key = (socket.inet_aton('127.0.0.1') + index[n].to_bytes(4, 'big')).hex()

        def ours():
            value = bytes.fromhex(c.ask('interfaces', key).get('value') or '')
            return tuple(int.from_bytes(value[i:i + 8], 'big') for i in range(0, len(value), 8))
        wait_until(lambda: ours() == switch.ports()[number[n]],
                   lambda: f'port {n}: {ours()}, the switch has {switch.ports()}', t, every=.2)
    # nfcapd reads this switch's NetFlow alone: of its IPFIX it takes the totals of all flows for each flow's own.
    flows = capture.flows()
    check(len(flows) > 45, f'nfcapd has {len(flows)} flows', capture)
    for flow, (packets, size) in flows.items():
        for kind in KINDS:
            ours, truth = counts(c, kind, 'flow', key_of(*flow)), expected(kind, packets, size)
            check(ours == truth, f'{kind}: {flow}: {ours}, nfcapd has {truth}', t)
    a = t.account()['devices']
    check(a['sflow']['lost'] == 0 and a['sflow']['exporters'] == 1, f'{a["sflow"]}', t)
    check(not any(n for cause, n in a['sflow']['refused'].items() if cause not in ('unsupported', 'no_packet')), f'{a["sflow"]}')
    c.stop()
    switch.close()
    return f'{passed} packets'


@case
def sampled_packets_estimate_all_within_chance():
    """One of N packets by chance: the estimate's standard deviation is sqrt(n (N - 1)) of n packets, and for bytes at most
    sqrt((N - 1) * largest * bytes). Five of them are passed once in 1.7 million."""
    needs_switch('iperf3', 'nginx', 'curl')
    rate = 16
    switch, c, t = start(rate)
    switch.traffic('24M')
    passed, ours = settle(switch, c, t, 'netflow')  # which is not sampled
    said = []
    for kind in ('sflow', 'ipfix'):
        for s in ADDRESS:
            packets, size = expected(kind, *passed[s])
            estimate = ours[kind, s]
            check(estimate[0] % rate == 0 and estimate[0] and estimate != (packets, size), f'{kind}: {estimate} is no estimate')
            bounds = (5 * math.sqrt(packets * (rate - 1)), 5 * math.sqrt((rate - 1) * 1518 * size))
            errors = (abs(estimate[0] - packets), abs(estimate[1] - size))
            check(errors[0] <= bounds[0] and errors[1] <= bounds[1], f'{kind} of {s}: {estimate} of {packets, size}', t)
            said.append(f'{kind} {estimate[0]} of {packets}')
    a = t.account()['devices']
    check(a['sflow']['lost'] == 0, f'{a["sflow"]}', t)
    c.stop()
    switch.close()
    return ', '.join(said)


run_cases()
