#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_exporters_peers.py READER - nfdump and tshark read the same datagrams (exporters.py) as the decoders: each field that
both show is equal. Where a peer is known to read otherwise, DIFFERENT says why."""
import ipaddress
import json
import os
import shutil
import socket
import struct
import subprocess
import sys

import exporters
from support.process import Part, check, skip, wait_until, workdir

READER = sys.argv[1]
D = workdir()
NF_FIELDS = {'src4_addr': 'source', 'src6_addr': 'source', 'dst4_addr': 'destination', 'dst6_addr': 'destination',
             'src_port': 'source-port', 'dst_port': 'destination-port', 'proto': 'protocol', 'in_packets': 'packets',
             'in_bytes': 'bytes', 'src_tos': 'tos', 'input_snmp': 'ingress', 'output_snmp': 'egress', 'src_mask': 'source-prefix',
             'dst_mask': 'destination-prefix', 'src_as': 'source-as', 'dst_as': 'destination-as', 'fwd_status': 'forwarding-status',
             'direction': 'direction', 'ip4_next_hop': 'next-hop', 'ip6_next_hop': 'next-hop', 'src4_xlt_ip': 'nat-source',
             'src_xlt_port': 'nat-source-port', 'in_src_mac': 'source-mac', 'src_vlan': 'vlan'}
TS_FIELDS = {'srcaddr': 'source', 'srcaddrv6': 'source', 'dstaddr': 'destination', 'dstaddrv6': 'destination',
             'srcport': 'source-port', 'dstport': 'destination-port', 'protocol': 'protocol', 'octets': 'bytes',
             'packets': 'packets', 'inputint': 'ingress', 'outputint': 'egress', 'tos': 'tos', 'tcpflags': 'tcp-flags',
             'srcas': 'source-as', 'dstas': 'destination-as', 'srcmask': 'source-prefix', 'dstmask': 'destination-prefix',
             'nexthop': 'next-hop', 'direction': 'direction', 'vlanid': 'vlan', 'srcmac': 'source-mac', 'dstmac': 'destination-mac',
             'flow_end_reason': 'end-reason', 'ttl_min': 'ttl', 'forwarding_status': None}
DIFFERENT = {
    ('nfdump', 'ios-sampler-table'): 'nfcapd 1.7.1 does not scale by this sampler',
    ('nfdump', 'ios-xr-sampler'): 'nfcapd 1.7.1 does not scale by this sampler',
    ('nfdump', 'huawei-ne-v9'): 'nfcapd 1.7.1 does not read a rate (34) in records',
    ('nfdump', 'open-vswitch'): 'nfcapd reads the totals (85, 86) instead of the deltas',
    ('nfdump', 'variable-lengths'): 'nfcapd does not read numbers of variable length',
    ('nfdump', 'ios-icmp'): 'the type and code of ICMP are the destination port',
    ('nfdump', 'contradicting-rates'): 'nfcapd takes the last rate of the address',
    ('tshark', 'ios-icmp'): 'the type and code of ICMP are the destination port',
    ('tshark', 'juniper-mx-ipv4'): 'vlanId (58) is 0, and dot1qVlanId (243) is not',
    ('tshark', 'brocade-qinq'): 'vlan.id is the inner tag; the outer one is ieee8021ad.id',
}


def cases():
    """(number, name, kind, datagrams, our records)"""
    for number, (name, kind, datagrams, _, _) in enumerate(exporters.cases(), 1):
        text = ''.join(f'{port} {data.hex()}\n' for port, data in datagrams)
        p = subprocess.run([READER, kind], input=text, text=True, capture_output=True, timeout=60, check=True)
        yield number, name, kind, datagrams, [r for r in map(json.loads, p.stdout.splitlines()) if r.get('kind') in ('flow', 'sample')]


def value_of(text):
    """A number, a MAC address as a number, or an address."""
    text = str(text)
    for convert in (lambda x: int(x, 0), lambda x: int(x.replace(':', ''), 16) if x.count(':') == 5 else int(''),
                    lambda x: str(ipaddress.ip_address(x))):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


class Judge:
    def __init__(self, peer):
        self.peer, self.wrong, self.equal, self.excused = peer, [], 0, 0

    def field(self, name, field, theirs, ours):
        theirs = value_of(theirs)
        if ours is None or theirs == ours:
            self.equal += ours is not None
        elif (self.peer, name) in DIFFERENT:
            self.excused += 1
        else:
            self.wrong.append(f'{name}: {field}: {self.peer} {theirs}, ours {ours}')

    def end(self):
        check(not self.wrong, '\n'.join(self.wrong))
        check(self.equal > 100, f'{self.peer} shows only {self.equal} fields')
        print(f'{self.peer}: {self.equal} fields are equal, {self.excused} differ for known reasons')


def unscaled(r, field):
    return r[field] // r['sampling'] if field in ('packets', 'bytes') and r.get(field) else r.get(field)


def nfdump(all_):
    os.mkdir(f'{D}/nf')
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    capture = Part('nfcapd', '-w', f'{D}/nf', '-b', '127.0.0.1', '-p', port, '-t', '3600')
    wait_until(lambda: f'0100007F:{port:04X}' in open('/proc/net/udp').read(), 'nfcapd does not listen', capture)

    def unread():
        with open('/proc/net/udp') as f:
            return next(int(x.split()[4].split(':')[1], 16) for x in f if f'0100007F:{port:04X}' in x)
    for number, _, kind, datagrams, _ in all_:
        sockets = {}
        for from_, data in datagrams if kind != 'sflow' else ():
            if from_ not in sockets:
                sockets[from_] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sockets[from_].bind((f'127.0.2.{number}', 0))
            sockets[from_].sendto(data, ('127.0.0.1', port))
            wait_until(lambda: not unread(), 'nfcapd reads nothing', capture)
        for s in sockets.values():
            s.close()
    capture.stop()
    p = subprocess.run(['nfdump', '-R', f'{D}/nf', '-o', 'json'], capture_output=True, text=True, timeout=300)
    flows = json.JSONDecoder().raw_decode(p.stdout[p.stdout.index('['):])[0]
    judge = Judge('nfdump')
    for number, name, kind, _, records in all_:
        theirs = [f for f in flows if f.get('ip4_router') == f'127.0.2.{number}']
        if len(theirs) != 1 or not records:
            continue
        for field, ours in NF_FIELDS.items():
            # The peer shows 0 for fields that it does not have.
            if theirs[0].get(field) not in (None, 0, '0.0.0.0', '::', '00:00:00:00:00:00') or field in ('in_packets', 'in_bytes'):
                judge.field(name, field, theirs[0][field], records[0].get(ours))
    judge.end()


def tshark(all_):
    frames, port = [], {'netflow': 2055, 'ipfix': 4739, 'sflow': 6343}
    for number, name, kind, datagrams, records in all_:
        for from_, data in datagrams:
            udp = struct.pack('>HHHH', from_, port[kind], 8 + len(data), 0) + data
            frames.append((name, kind, records, struct.pack('>BBHHHBBH4s4s', 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0,
                                                            socket.inet_aton(f'192.0.2.{number}'), socket.inet_aton('192.0.2.254')) + udp))
    with open(f'{D}/all.pcap', 'wb') as f:
        f.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, 101))
        for _, _, _, frame in frames:
            f.write(struct.pack('<IIII', exporters.SECONDS, 0, len(frame), len(frame)) + frame)
    packet = ('ip.src', 'ip.dst', 'ipv6.src', 'ipv6.dst', 'tcp.srcport', 'tcp.dstport', 'vlan.id', 'mpls.label', 'vxlan.vni',
              'geneve.vni', 'gre.key')
    fields = [*(f'cflow.{f}' for f in TS_FIELDS), *packet]
    p = subprocess.run(['tshark', '-r', f'{D}/all.pcap', '-T', 'fields', '-E', 'separator=|', '-d', 'udp.port==2055,cflow', '-d',
                        'udp.port==4739,cflow', *(x for f in fields for x in ('-e', f))], capture_output=True, text=True, timeout=300)
    judge = Judge('tshark')
    for (name, kind, records, _), line in zip(frames, p.stdout.splitlines(), strict=True):
        theirs = {f: x.split(',') for f, x in zip(fields, line.split('|'), strict=True) if x}
        if len(records) != 1:
            continue
        r = records[0]
        if kind == 'sflow':
            # The last occurrence is that of the innermost packet, the first of a tag or label the outermost one.
            for field, ours, at in (('tcp.srcport', 'source-port', -1), ('tcp.dstport', 'destination-port', -1), ('vlan.id', 'vlan', 0),
                                    ('mpls.label', 'mpls-label', 0), ('vxlan.vni', 'tunnel-id', -1), ('geneve.vni', 'tunnel-id', -1),
                                    ('gre.key', 'tunnel-id', -1)):
                if field in theirs:
                    judge.field(name, field, theirs[field][at], r.get(ours))
            if r.get('source') and 'tcp.srcport' in theirs:
                judge.field(name, 'ip.src', theirs['ip.src'][-1], r['source'])
                judge.field(name, 'ip.dst', theirs['ip.dst'][-1], r['destination'])
            continue
        for field, ours in TS_FIELDS.items():
            if len(theirs.get(f'cflow.{field}', ())) == 1 and ours:
                judge.field(name, field, theirs[f'cflow.{field}'][0], unscaled(r, ours))
    judge.end()


for program in ('nfcapd', 'nfdump', 'tshark'):
    if not shutil.which(program):
        skip(f'{program} is not installed')
ALL = list(cases())
nfdump(ALL)
tshark(ALL)
