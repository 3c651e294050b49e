#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_int_reports.py SIDELIGHT - INT's telemetry reports by the default mapping: paths, queues, latencies and drops are in
stores. No switch with INT runs here, and no dissector knows its reports: the packets are made below, from the text of the
specifications alone (Telemetry Report 1.0 and 2.0, INT 1.0 and 2.1), by nothing that the program has."""
import json
import os
import random
import socket
import struct
import sys

from support.devices import Collector, Translator
from support.process import check, wait_until, workdir
from support.switch import key_of

SIDELIGHT = sys.argv[1]
D = workdir()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
random.seed(18)
SINK = 900


def ipv4(a, b, protocol, above, dscp=0, number=7, ttl=64):
    return struct.pack('>BBHHHBBH4s4s', 0x45, dscp << 2, 20 + len(above), number, 0, ttl, protocol, 0, socket.inet_aton(a),
                       socket.inet_aton(b)) + above


def udp(a, b, above):
    return struct.pack('>HHHH', a, b, 8 + len(above), 0) + above


def tcp(a, b, above=b''):
    return struct.pack('>HHIIBBHHH', a, b, 1, 1, 5 << 4, 0x10, 100, 0, 0) + above


def transport(flow, above=b''):
    return (tcp if flow[4] == 6 else udp)(flow[2], flow[3], above)


def md(hops, flow):
    """INT-MD 2.1: node, latency and queue of each hop, the last one first, before the packet's own transport header."""
    bits = 1 << 15 | 1 << 13 | 1 << 12
    stack = b''.join(struct.pack('>III', node, latency, 3 << 24 | depth) for node, latency, depth in reversed(hops))
    body = struct.pack('>IHHHH', 2 << 28 | 3 << 8 | 16 - len(hops), bits, 0, 0, 0) + stack
    shim = struct.pack('>BBBB', 1 << 4 | 2 << 2, len(body) // 4, 0, flow[4])
    return ipv4(flow[0], flow[1], 17, udp(55555, 5000, shim + body + transport(flow)))


def md_1(hops, flow):
    """INT-MD 1.0, behind the transport header and told by its DSCP; the shim counts itself."""
    stack = b''.join(struct.pack('>III', node, latency, 3 << 24 | depth) for node, latency, depth in reversed(hops))
    body = struct.pack('>BBBBHH', 1 << 4, 0, 3, 9, 0xb000, 0) + stack
    shim = struct.pack('>BBBB', 1, 0, 1 + len(body) // 4, 8 << 2)
    return ipv4(flow[0], flow[1], flow[4], transport(flow, shim + body), dscp=0x17)


def mx(flow, number, ttl):
    """INT-MX 2.1: the packet carries only the instructions, before its own transport header."""
    body = struct.pack('>IHHHH', 2 << 28, 1 << 13 | 1 << 12, 0, 0, 0)
    shim = struct.pack('>BBBB', 3 << 4 | 2 << 2, len(body) // 4, 0, flow[4])
    return ipv4(flow[0], flow[1], 17, udp(55555, 5000, shim + body + transport(flow)), number=number, ttl=ttl)


def report(inner, packet, bits=0, metadata=b'', flags=0):
    """An individual report of version 2.0; inner: 0 none, 4 IPv4."""
    body = struct.pack('>HHHH', bits, 0, 0, 0) + metadata + packet
    body += bytes(-len(body) % 4)
    return struct.pack('>BBBB', 1 << 4 | inner, len(body) // 4, len(metadata) // 4, flags << 4) + body


def group(node, number, *reports):
    return struct.pack('>II', 2 << 28 | 5 << 22 | number, node) + b''.join(reports)


def report_1(node, number, packet):
    word = 1 << 28 | 4 << 24 | 0 << 21 | 1 << 6 | 3
    return struct.pack('>IIII', word, node, number, 12345) + b'\x02' * 12 + b'\x08\x00' + packet


def hop():
    return random.randrange(1, 600), random.randrange(100000), random.randrange(1 << 20)


c = Collector(SIDELIGHT, f'{ROOT}/examples/dta/devices.yaml', D)
t = Translator(SIDELIGHT, c, ['int'], '--workers', '3')
# A switch may send each packet from another port: its numbers must not be spread over the workers.
outs = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(16)]
for s in outs:
    s.connect(('127.0.0.1', t.port['int']))
paths, drops, number, sent = {}, {}, 0, 0
for i in range(300):
    flow = (f'10.1.{i // 200}.{i % 200 + 1}', '10.2.0.1', 1024 + i, 443, 6 if i % 2 else 17)
    hops = [hop() for _ in range(random.randrange(1, 8))]
    while len({h[0] for h in hops}) < len(hops):
        hops = [hop() for _ in hops]
    if i % 3 == 2:  # version 1.0, whose sink has no metadata, but is part of the path
        outs[sent % 16].send(report_1(SINK + 1, i // 3, md_1(hops, flow)))
        hops.append((SINK + 1, None, None))
    else:
        own = hop()[1:]
        told = report(4, md(hops, flow), 1 << 13 | 1 << 12, struct.pack('>II', own[0], 7 << 24 | own[1]), flags=0b0010)
        hops.append((SINK, *own))
        reason = random.randrange(1, 90)
        lost = report(4, ipv4(*flow[:2], flow[4], transport(flow)), 1, struct.pack('>BBH', 3, reason, 0), flags=0b1000)
        drops[reason] = drops.get(reason, 0) + 1
        outs[sent % 16].send(group(SINK, number, told, lost))
        number += 1
    paths[flow] = hops
    sent += 1
    if i % 50 == 0:
        wait_until(lambda: c.devices().get('int', {}).get('datagrams', 0) >= sent, 'it takes nothing', t)
wait_until(lambda: c.devices().get('int', {}).get('datagrams') == sent, lambda: f'{sent} were sent: {c.devices()}', t)
# INT-XD and INT-MX: each switch reports a packet by itself, and another worker may hear it; the reports of 20 packets come in
# any order. They must come within 10 ms, which a busy machine may miss, so packets are sent until all paths are whole.
switches = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(7)]
for i, s in enumerate(switches):
    s.bind((f'127.0.0.{10 + i}', 0))
    s.connect(('127.0.0.1', t.port['int']))
alone = {}
for i in range(20):
    flow = (f'10.3.0.{i + 1}', '10.2.0.1', 1024, 443, 6)
    # Numbers of these switches are no others', whose sequence numbers they would disturb.
    alone[flow] = [(1000 + 10 * i + k, *hop()[1:]) for k in range(3 + i % 4)]
tries, told_alone = 0, 0


def send_alone():
    global tries, sent, told_alone
    tries += 1
    told = [(flow, 64 - k, *switch) for flow, hops in alone.items() for k, switch in enumerate(hops)]
    random.shuffle(told)
    for flow, ttl, node, latency, depth in told:
        packet = (mx(flow, 100 + tries, ttl) if flow[0][-1] in '02468' else
                  ipv4(*flow[:2], flow[4], transport(flow), number=100 + tries, ttl=ttl))
        switches[64 - ttl].send(group(node, tries, report(4, packet, 1 << 13 | 1 << 12, struct.pack(
            '>II', latency, 7 << 24 | depth), flags=0b0010)))
        sent, told_alone = sent + 1, told_alone + 1
    wait_until(lambda: c.devices()['int']['datagrams'] == sent, lambda: f'{sent} were sent: {c.devices()}', t)
    return all(c.ask('paths', key_of(*flow)).get('path') == [h[0] for h in hops] for flow, hops in alone.items())


wait_until(send_alone, 'no paths of single reports', lambda: {f: c.ask('paths', key_of(*f)) for f in alone}, t)
paths.update(alone)
for flow, hops in paths.items():
    told = wait_until(lambda: (a := c.ask('paths', key_of(*flow))).get('known_hops') == len(hops) and a, 'no path of', flow,
                      lambda: c.ask('paths', key_of(*flow)), t)
    check(told['path'] == [h[0] for h in hops], f'{flow}: {told}, it passed {hops}')
    for node, latency, depth in hops:
        if latency is None:
            continue
        key, value = key_of(*flow) + node.to_bytes(4, 'big').hex(), struct.pack('>II', depth, latency).hex()
        wait_until(lambda: c.ask('hops', key).get('value') == value, flow, 'at', node, lambda: c.ask('hops', key), value)
for reason, n in drops.items():
    key = (socket.inet_aton('127.0.0.1') + struct.pack('>H', reason)).hex()
    wait_until(lambda: c.count('drops', key) == n, lambda: f'{c.count("drops", key)} drops for {reason}, not {n}')
# Two numbers are missing, and the next reports are taken nevertheless.
outs[5].send(group(SINK, number + 2))
wait_until(lambda: c.devices()['int']['lost'] == 2, lambda: c.devices(), t)
a = t.account()['devices']['int']
check(a['records'] == sum(map(len, paths.values())) - sum(map(len, alone.values())) + told_alone + sum(drops.values()) and not any(a['refused'].values()), f'{a}')
c.stop()
print(f'ok: {len(paths)} paths of {sum(map(len, paths.values()))} hops, {sum(drops.values())} drops: {json.dumps(a)}')
