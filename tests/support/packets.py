# SPDX-License-Identifier: Apache-2.0
"""Packets of network devices: INT, IPFIX and sFlow, of flows that are (source, destination, ports, protocol)."""
import socket
import struct
import time


def flow_text(flow):
    a, b, x, y, protocol = flow
    v6 = ':' in a
    return f'flow:[{a}]:{x},[{b}]:{y},{protocol}' if v6 else f'flow:{a}:{x},{b}:{y},{protocol}'


def flow_of(i):
    return f'192.0.2.{i % 200 + 1}', '198.51.100.7', 1024 + i, 443, 'tcp'


def ipv4(flow, above=b''):
    segment = struct.pack('>HHIIBBHHH', flow[2], flow[3], 1, 1, 5 << 4, 0x10, 100, 0, 0) + above
    return struct.pack('>BBHHHBBH4s4s', 0x45, 0x17 << 2 if above else 0, 20 + len(segment), 7, 0, 64, 6, 0,
                       socket.inet_aton(flow[0]), socket.inet_aton(flow[1])) + segment


def int_path(hops, flow):
    """INT-MD 1.0: node, interfaces, latency and queue of each hop, the last one first."""
    stack = b''.join(struct.pack('>IHHII', node, 1, 2, 100, 3 << 24 | 5) for node in reversed(hops))
    body = struct.pack('>BBBBHH', 1 << 4, 0, 4, 9, 0xf000, 0) + stack
    return ipv4(flow, struct.pack('>BBBB', 1, 0, 1 + len(body) // 4, 0) + body)


def int_report(node, number, packet, flags, metadata=b'', bits=0):
    body = struct.pack('>HHHH', bits, 0, 0, 0) + metadata + packet
    body += bytes(-len(body) % 4)
    one = struct.pack('>BBBB', 1 << 4 | 4, len(body) // 4, len(metadata) // 4, flags << 4) + body
    return struct.pack('>II', 2 << 28 | number, node) + one


def int_drop(node, number, flow, ingress, egress, reason):
    metadata = struct.pack('>HH', ingress, egress) + struct.pack('>BBH', 3, reason, 0)
    return int_report(node, number, ipv4(flow), 0b1000, metadata, 1 << 14 | 1)


def ipfix(flows, sequence=0):
    """A message with flows of (flow, ingress, egress, source AS, destination AS, bytes)."""
    fields = ((8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (10, 4), (14, 4), (16, 4), (17, 4), (2, 4), (1, 4))
    template = struct.pack('>HH', 256, len(fields)) + b''.join(struct.pack('>HH', *f) for f in fields)
    data = b''.join(socket.inet_aton(f[0]) + socket.inet_aton(f[1]) + struct.pack('>HHBIIIIII', f[2], f[3], 6, i, o, a, b, 1, n)
                    for f, i, o, a, b, n in flows)
    sets = struct.pack('>HH', 2, 4 + len(template)) + template + struct.pack('>HH', 256, 4 + len(data)) + data
    return struct.pack('>HHIII', 10, 16 + len(sets), int(time.time()), sequence, 1) + sets


def sflow_drop(flow, ingress, egress, reason):
    header = b'\x02' * 12 + b'\x08\x00' + ipv4(flow)
    raw = struct.pack('>IIII', 1, len(header), 0, len(header)) + header + bytes(-len(header) % 4)
    record = struct.pack('>II', 1, len(raw)) + raw
    sample = struct.pack('>IIIIIIII', 1, 0, egress, 0, ingress, egress, reason, 1) + record
    return struct.pack('>II4sIIII', 5, 1, socket.inet_aton('203.0.113.9'), 0, 1, 1000, 1) + struct.pack('>II', 5, len(sample)) + sample


def ipfix_names(names, sequence=0):
    """An exporter's options: the names of interfaces, by number."""
    template = struct.pack('>HHHHHHHH', 300, 2, 1, 10, 4, 82, 32, 0)
    data = b''.join(struct.pack('>I32s', n, name) for n, name in names.items())
    sets = struct.pack('>HH', 3, 4 + len(template)) + template + struct.pack('>HH', 300, 4 + len(data)) + data
    return struct.pack('>HHIII', 10, 16 + len(sets), int(time.time()), sequence, 1) + sets


def sflow_counters(index, octets):
    body = struct.pack('>IIQIIQIIIIIIQIIIIII', index, 6, 10**9, 1, 3, octets, 2, 0, 0, 3, 4, 0, octets + 1, 5, 0, 0, 6, 7, 0)
    sample = struct.pack('>III', 1, index, 1) + struct.pack('>II', 1, len(body)) + body
    return struct.pack('>II4sIIII', 5, 1, socket.inet_aton('203.0.113.9'), 0, 1, 1000, 1) + struct.pack('>II', 2, len(sample)) + sample
