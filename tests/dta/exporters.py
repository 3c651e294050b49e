# SPDX-License-Identifier: Apache-2.0
"""Datagrams in the layouts of real exporters, made from their vendors' public documentation with documentation addresses.
A layout is a list of fields (element, bytes, value); 'PEN/ID' is an enterprise's element, and a length of 0 a variable one."""
import ipaddress
import struct

SECONDS, UPTIME = 1764288000, 100000
A, B, A6, B6 = '192.0.2.10', '198.51.100.20', '2001:db8::10', '2001:db8:9::20'
MAC_A, MAC_B = 0x020000000001, 0x020000000002


# ---- templates ----

def encoded(field):
    """The bytes of a field's value."""
    _, size, value = field
    if isinstance(value, str):
        try:
            data = ipaddress.ip_address(value).packed
        except ValueError:
            data = value.encode()
        return bytes([len(data)]) + data if not size else data.ljust(size, b'\0')
    return bytes([4]) + value.to_bytes(4, 'big') if not size else value.to_bytes(size, 'big')


def described(field):
    pen, _, number = str(field[0]).rpartition('/')
    head = struct.pack('>HH', int(number) | (0x8000 if pen else 0), field[1] or 65535)
    return head + (struct.pack('>I', int(pen)) if pen else b'')


def set_of(number, body):
    body += bytes(-len(body) % 4)
    return struct.pack('>HH', number, 4 + len(body)) + body


def ipfix(number, sets, domain=7):
    return struct.pack('>HHIII', 10, 16 + len(sets), SECONDS, number, domain) + sets


def netflow9(number, sets, domain=7):
    return struct.pack('>HHIIII', 9, 1, UPTIME, SECONDS, number, domain) + sets


def template(kind, number, fields):
    return set_of(0 if kind == 'netflow' else 2, struct.pack('>HH', number, len(fields)) + b''.join(map(described, fields)))


def options(kind, number, scopes, fields):
    text = b''.join(map(described, scopes + fields))
    if kind == 'netflow':
        return set_of(1, struct.pack('>HHH', number, 4 * len(scopes), 4 * len(fields)) + text)
    return set_of(3, struct.pack('>HHH', number, len(scopes) + len(fields), len(scopes)) + text)


def data(number, fields):
    return set_of(number, b''.join(map(encoded, fields)))


def messages(kind, fields, options_=None):
    """A datagram with templates (and options, if there are any), and one with the flow."""
    message = netflow9 if kind == 'netflow' else ipfix
    first, units = template(kind, 256, fields), 0
    if options_:
        first += options(kind, 300, *options_) + data(300, options_[0] + options_[1])
        units = 1
    return [(2000, message(0, first)), (2000, message(1 if kind == 'netflow' else units, data(256, fields)))]


def tuple4(octets=(1, 4, 5000), packets=(2, 4, 10), protocol=6, ports=(1000, 443)):
    return [(8, 4, A), (12, 4, B), (7, 2, ports[0]), (11, 2, ports[1]), (4, 1, protocol), packets, octets]


def tuple6():
    return [(27, 16, A6), (28, 16, B6), (7, 2, 1000), (11, 2, 443), (4, 1, 6), (2, 4, 10), (1, 4, 5000)]


def flow(a=A, b=B, ports=(1000, 443), protocol=6, packets=10, size=5000, **more):
    return {'kind': 'flow', 'source': a, 'destination': b, 'source-port': ports[0], 'destination-port': ports[1],
            'protocol': protocol, 'packets': packets, 'bytes': size, **{k.replace('_', '-'): v for k, v in more.items()}}


FLOW6 = {'a': A6, 'b': B6}
UP = [(22, 4, UPTIME - 2000), (21, 4, UPTIME - 1000)]
UP_NS = {'start_ns': (SECONDS - 2) * 10**9, 'end_ns': (SECONDS - 1) * 10**9}
MS = [(152, 8, SECONDS * 1000 - 2000), (153, 8, SECONDS * 1000 - 1000)]
NAMES = {'kind': 'name'}


def templates():
    """(name, kind, fields, records, options)"""
    yield 'ios-original', 'netflow', UP + tuple4() + [(10, 2, 3), (14, 2, 4), (5, 1, 0xb8), (6, 1, 0x1b), (15, 4, '192.0.2.1'),
        (9, 1, 24), (13, 1, 16), (16, 2, 64500), (17, 2, 64501)], [flow(ingress=3, egress=4, tos=0xb8, dscp=46, tcp_flags=0x1b,
        next_hop='192.0.2.1', source_prefix=24, destination_prefix=16, source_as=64500, destination_as=64501, **UP_NS)], None
    yield 'ios-sampler-table', 'netflow', tuple4() + [(48, 1, 5)], [flow(packets=1000, size=500000, sampling=100)], (
        [(1, 4, 1)], [(48, 1, 5), (49, 1, 2), (50, 4, 100), (84, 16, 'one-in-100')])
    yield 'ios-interface-table', 'netflow', tuple4(), [{**NAMES, 'interface': 3, 'name': 'Gi0/0/1', 'description': 'uplink'},
        flow()], ([(1, 4, 1)], [(10, 4, 3), (82, 32, 'Gi0/0/1'), (83, 64, 'uplink')])
    yield 'ios-interface-scope', 'netflow', tuple4(), [{**NAMES, 'interface': 9, 'name': 'Te1/0/9'}, flow()], (
        [(2, 4, 9)], [(82, 32, 'Te1/0/9')])
    yield 'ios-xe-avc', 'ipfix', tuple4((1, 8, 5000), (2, 8, 10)) + MS + [(95, 4, 0x0d000050), (61, 1, 1), (10, 4, 3),
        (234, 4, 2)], [flow(application=0x0d000050, direction=1, ingress=3, ingress_vrf=2,
                            start_ns=(SECONDS - 2) * 10**9)], None
    yield 'ios-xe-application-table', 'ipfix', tuple4(), [{**NAMES, 'application': 0x0d000050, 'name': 'http',
        'description': 'World Wide Web'}, flow()], ([(144, 4, 6)], [(95, 4, 0x0d000050), (96, 24, 'http'), (94, 55, 'World Wide Web')])
    yield 'ios-xe-vrf-table', 'ipfix', tuple4(), [{**NAMES, 'ingress-vrf': 2, 'name': 'red'}, flow()], (
        [(144, 4, 6)], [(234, 4, 2), (236, 32, 'red')])
    yield 'ios-xe-layer-2', 'ipfix', tuple4() + [(56, 6, MAC_A), (80, 6, MAC_B), (243, 2, 100), (245, 2, 7), (256, 2, 0x800)], [
        flow(source_mac=MAC_A, destination_mac=MAC_B, vlan=100, customer_vlan=7)], None
    yield 'ios-xe-nat-log', 'netflow', [(323, 8, SECONDS * 1000), (8, 4, '10.0.0.5'), (225, 4, A), (12, 4, B), (226, 4, B),
        (7, 2, 1000), (227, 2, 4000), (11, 2, 443), (228, 2, 443), (234, 4, 0), (4, 1, 6), (230, 1, 1)], [
        {'kind': 'flow', 'source': '10.0.0.5', 'nat-source': A, 'nat-destination': B, 'nat-source-port': 4000,
         'nat-destination-port': 443, 'nat-event': 1, 'end-ns': SECONDS * 10**9, 'bytes': None}], None
    yield 'ios-xr-ipv4', 'netflow', tuple4() + UP + [(10, 4, 60), (14, 4, 61), (16, 4, 4200000001), (17, 4, 64501),
        (18, 4, '203.0.113.1'), (9, 1, 24), (13, 1, 22), (5, 1, 0), (6, 1, 2), (61, 1, 0), (89, 1, 0x40), (234, 4, 0x60000001),
        (235, 4, 0x60000000)], [flow(next_hop='203.0.113.1', source_as=4200000001, forwarding_status=0x40,
        ingress_vrf=0x60000001, egress_vrf=0x60000000, source_prefix=24, destination_prefix=22, direction=0)], None
    yield 'ios-xr-sampler', 'netflow', tuple4() + [(48, 2, 1)], [flow(packets=10000, size=5000000, sampling=1000)], (
        [(1, 4, 0)], [(48, 2, 1), (84, 32, 'fnf'), (49, 1, 2), (50, 4, 1000)])
    yield 'ios-xr-mpls', 'netflow', tuple4() + [(70, 3, 24001 << 4), (71, 3, 24002 << 4 | 1), (72, 3, 0), (46, 1, 5),
        (47, 4, '203.0.113.9')], [flow(mpls_label=24001, mpls_label_2=24002, mpls_label_3=0)], None
    yield 'ios-xr-ipv6', 'netflow', tuple6() + [(29, 1, 48), (30, 1, 32), (63, 16, '2001:db8::1'), (31, 4, 77)], [
        flow(**FLOW6, source_prefix=48, destination_prefix=32, next_hop='2001:db8::1', ip_version=6)], None
    yield 'nx-os-ipv4', 'netflow', UP + tuple4((1, 8, 5000), (2, 8, 10)) + [(10, 4, 0x1a001000), (14, 4, 0x1a002000), (5, 1, 4),
        (6, 1, 24)], [flow(ingress=0x1a001000, egress=0x1a002000, tcp_flags=24, dscp=1, **UP_NS)], None
    asa = [(148, 4, 1), (8, 4, '10.0.0.5'), (7, 2, 1000), (10, 2, 4), (12, 4, B), (11, 2, 443), (14, 2, 3), (4, 1, 6), (176, 1, 0),
           (177, 1, 0), (225, 4, A), (226, 4, B), (227, 2, 4000), (228, 2, 443)]
    asa_nat = {'nat_source': A, 'nat_source_port': 4000, 'nat_destination': B}
    yield 'asa-created', 'netflow', asa + [(233, 1, 1), (33002, 2, 0), (323, 8, SECONDS * 1000), (40000, 20, 'user')], [
        flow('10.0.0.5', packets=None, size=None, firewall_event=1, **asa_nat)], None
    yield 'asa-torn-down', 'netflow', asa + [(233, 1, 2), (152, 8, SECONDS * 1000), (231, 4, 5000), (232, 4, 700), (298, 4, 10),
        (299, 4, 3), (40000, 65, 'user')], [flow('10.0.0.5', ingress=4, egress=3, firewall_event=2, **asa_nat),
        flow(B, '10.0.0.5', (443, 1000), packets=3, size=700, ingress=3, egress=4)], None
    yield 'asa-denied', 'netflow', asa + [(233, 1, 3), (33002, 2, 1001)], [flow('10.0.0.5', packets=None, size=None,
        firewall_event=3)], None
    yield 'asa-older-translation', 'netflow', tuple4((85, 4, 5000), (86, 4, 10)) + [(40001, 4, '203.0.113.5'), (40002, 4, B),
        (40003, 2, 4000), (40004, 2, 443), (40005, 1, 2)], [flow(nat_source='203.0.113.5', nat_source_port=4000,
        firewall_event=2)], None
    yield 'asa-ipv6', 'netflow', [(27, 16, A6), (28, 16, B6), (7, 2, 1000), (11, 2, 443), (4, 1, 6), (231, 4, 5000), (232, 4, 0),
        (298, 4, 10), (299, 4, 0), (233, 1, 2)], [flow(**FLOW6)], None
    mx = [(5, 1, 0), (32, 2, 0), (10, 4, 501), (58, 2, 0), (9, 1, 24), (13, 1, 24), (16, 4, 64500), (17, 4, 64501),
          (15, 4, '192.0.2.1'), (6, 1, 0x1b), (14, 4, 502), (52, 1, 63), (53, 1, 64), (136, 1, 3), (61, 1, 255), (243, 2, 100),
          (245, 2, 0), (54, 4, 0)]
    yield 'juniper-mx-ipv4', 'ipfix', tuple4((1, 8, 5000), (2, 8, 10)) + mx + MS, [flow(packets=1000, size=500000, sampling=100,
        ingress=501, ttl=63, end_reason=3, vlan=100, next_hop='192.0.2.1')], (
        [(144, 4, 1)], [(160, 8, SECONDS * 1000), (130, 4, '192.0.2.9'), (34, 4, 100), (36, 2, 60), (37, 2, 60)])
    yield 'juniper-mx-ipv6', 'ipfix', tuple6() + [(62, 16, '2001:db8::1'), (139, 2, 0), (52, 1, 63), (29, 1, 64), (30, 1, 64)], [
        flow(**FLOW6, next_hop='2001:db8::1', icmp=0, ttl=63)], None
    yield 'juniper-mx-mpls-ipv4', 'ipfix', tuple4() + [(70, 3, 299776 << 4), (71, 3, 16 << 4 | 1), (72, 3, 0)], [
        flow(mpls_label=299776, mpls_label_2=16)], None
    yield 'juniper-mx-vpls', 'ipfix', [(56, 6, MAC_A), (80, 6, MAC_B), (256, 2, 0x806), (10, 4, 501), (14, 4, 502), (1, 8, 5000),
        (2, 8, 10)], [{'kind': 'flow', 'source-mac': MAC_A, 'bytes': 5000, 'source': None}], None
    yield 'juniper-srx', 'netflow', tuple4() + UP + [(10, 2, 70), (14, 2, 71), (15, 4, '192.0.2.1'), (34, 4, 0), (35, 1, 0)], [
        flow(ingress=70, sampling=1, **UP_NS)], None
    yield 'arista-ipfix', 'ipfix', tuple4((1, 8, 5000), (2, 8, 10)) + MS + [(61, 1, 0), (60, 1, 4), (5, 1, 0), (10, 4, 1),
        (14, 4, 2), (58, 2, 10), (56, 6, MAC_A), (80, 6, MAC_B), (136, 1, 2), (89, 1, 64)], [flow(vlan=10, source_mac=MAC_A,
        forwarding_status=64, end_reason=2)], None
    yield 'arista-hardware-totals', 'ipfix', tuple4((85, 8, 5000), (86, 8, 10)), [flow()], None
    sr = [(15, 4, '192.0.2.1'), (18, 4, '203.0.113.1'), (10, 4, 35), (14, 4, 36), (6, 1, 16), (61, 1, 0), (16, 4, 64500),
          (17, 4, 64501), (9, 1, 24), (13, 1, 24), (60, 1, 4), (136, 1, 1), (234, 4, 5), (235, 4, 6), (128, 4, 64496), (129, 4, 64497)]
    yield 'nokia-sr-os-ipfix', 'ipfix', tuple4((1, 8, 5000), (2, 8, 10)) + MS + sr, [flow(next_hop='192.0.2.1', next_as=64496,
        previous_as=64497, ingress_vrf=5, egress_vrf=6)], None
    yield 'nokia-sr-os-v9', 'netflow', tuple4((1, 8, 5000), (2, 8, 10)) + UP + sr[:10], [flow(**UP_NS)], None
    yield 'nokia-sr-os-mpls-ip', 'ipfix', [(70 + i, 3, (1000 + i) << 4 | (i == 3)) for i in range(6)] + tuple4(), [
        flow(mpls_label=1000, mpls_label_2=1001, mpls_label_3=1002)], None
    yield 'nokia-sr-os-l2-ip', 'ipfix', tuple4() + [(56, 6, MAC_A), (80, 6, MAC_B), (58, 2, 12), (59, 2, 13)], [flow(vlan=12,
        destination_mac=MAC_B)], None
    yield 'huawei-ne-v9', 'netflow', tuple4() + UP + [(34, 4, 1000), (35, 1, 2), (48, 1, 1), (10, 4, 11), (14, 4, 12),
        (15, 4, '192.0.2.1'), (16, 4, 64500), (17, 4, 64501), (61, 1, 0), (89, 1, 0)], [flow(packets=10000, size=5000000,
        sampling=1000, ingress=11)], None
    yield 'huawei-ce-vxlan', 'ipfix', tuple4() + [(351, 8, 0x01 << 56 | 5010)], [flow(tunnel_id=5010)], None
    yield 'h3c-comware', 'netflow', UP + tuple4() + [(88, 2, 0), (60, 1, 4), (56, 6, MAC_A), (57, 6, MAC_B), (48, 2, 0)], [
        flow(source_mac=MAC_A, destination_mac=MAC_B, **UP_NS)], None
    yield 'mikrotik-v9', 'netflow', UP + tuple4() + [(10, 4, 1), (14, 4, 2), (15, 4, '192.0.2.1'), (13, 1, 0), (9, 1, 24), (5, 1, 0),
        (6, 1, 2), (56, 6, MAC_A), (57, 6, MAC_B), (225, 4, '203.0.113.5'), (226, 4, B), (227, 2, 4000), (228, 2, 443)], [
        flow(nat_source='203.0.113.5', nat_source_port=4000, source_mac=MAC_A, destination_mac=MAC_B)], None
    yield 'mikrotik-ipfix', 'ipfix', tuple4() + [(60, 1, 4), (152, 8, SECONDS * 1000 - 2000), (153, 8, SECONDS * 1000),
        (184, 4, 1), (185, 4, 2), (186, 2, 100), (192, 1, 63), (206, 1, 0), (189, 1, 5), (205, 2, 500)], [flow(ttl=63)], None
    yield 'mikrotik-icmp', 'netflow', tuple4(protocol=1, ports=(0, 0)) + [(176, 1, 8), (177, 1, 0)], [flow(protocol=1,
        ports=(0, 0), icmp=0x800)], None
    yield 'ios-icmp', 'netflow', tuple4(protocol=1, ports=(0, 0x301)), [flow(protocol=1, ports=(0, 0), icmp=0x301)], None
    yield 'fortinet', 'netflow', tuple4((1, 8, 5000), (2, 8, 10)) + [(23, 8, 700), (24, 8, 3), *UP, (10, 2, 5), (14, 2, 6),
        (95, 9, 0x14 << 64 | 12356 << 32 | 16354), (65, 2, 0), (89, 1, 64), (225, 4, '203.0.113.5'), (226, 4, B), (227, 2, 4000),
        (228, 2, 443)], [flow(application=12356 << 32 | 16354, forwarding_status=64, nat_source='203.0.113.5')], None
    yield 'palo-alto', 'netflow', tuple4() + UP + [(5, 1, 0), (6, 1, 27), (10, 4, 1), (14, 4, 2), (32, 2, 0), (61, 1, 0),
        (148, 8, 99), (233, 1, 2), (225, 4, '203.0.113.5'), (226, 4, B), (227, 2, 4000), (228, 2, 443), (346, 4, 25461),
        (56701, 32, 'ssl'), (56702, 64, 'user')], [flow(name='ssl', firewall_event=2, nat_source='203.0.113.5')], None
    yield 'palo-alto-ipv6', 'netflow', tuple6() + UP + [(346, 4, 25461), (56701, 32, 'web-browsing')], [
        flow(**FLOW6, name='web-browsing')], None
    yield 'vmware-vds', 'ipfix', [(8, 4, A), (12, 4, B), (1, 8, 5000), (2, 8, 10), *MS, (7, 2, 1000), (11, 2, 443), (10, 4, 1),
        (14, 4, 2), (4, 1, 6), (6, 1, 16), (136, 1, 1), (61, 1, 0), (5, 1, 0), (192, 1, 64)], [flow(ttl=64, end_reason=1)], None
    yield 'vmware-nsx-tenant', 'ipfix', tuple4() + [('6876/880', 1, 17), ('6876/881', 4, '203.0.113.1'),
        ('6876/882', 4, '203.0.113.2'), ('6876/883', 2, 50000), ('6876/884', 2, 4789), (351, 8, 0x01 << 56 | 7001)], [
        flow(tunnel_id=7001)], None
    yield 'open-vswitch', 'ipfix', [(138, 4, 9), (61, 1, 0), (56, 6, MAC_A), (80, 6, MAC_B), (256, 2, 0x800), (240, 1, 14),
        (60, 1, 4), (192, 1, 64), (195, 1, 10), (196, 1, 0), (5, 1, 40), *tuple4((1, 8, 5000), (2, 8, 10)), (10, 4, 1), (14, 4, 2),
        (158, 4, 2000000), (159, 4, 1000000), (352, 8, 5140), (86, 8, 100), (85, 8, 50000), (136, 1, 2)], [
        flow(observation_point=9, dscp=10, tos=40, start_ns=(SECONDS - 2) * 10**9)], None
    yield 'softflowd-v9', 'netflow', UP + tuple4() + [(10, 4, 0), (14, 4, 0), (6, 1, 27), (60, 1, 4), (5, 1, 0)], [flow(**UP_NS,
        ip_version=4)], None
    yield 'softflowd-ipfix', 'ipfix', tuple4((1, 4, 5000), (2, 4, 10)) + [(10, 4, 0), (14, 4, 0), (6, 1, 27), (60, 1, 4),
        (136, 1, 1), *MS], [{**NAMES, 'interface': 0, 'name': 'eth0'},
        flow(end_reason=1)], ([(149, 4, 7)], [(160, 8, SECONDS * 1000 - UPTIME), (305, 4, 1), (306, 4, 0),
                                                                    (10, 4, 0), (82, 16, 'eth0')])
    yield 'pmacct-nfprobe', 'netflow', UP + tuple4((1, 8, 5000), (2, 8, 10)) + [(48, 1, 0), (61, 1, 0)], [flow(**UP_NS)], None
    yield 'pmacct-totals', 'ipfix', tuple4((85, 8, 5000), (86, 8, 10)) + [(234, 4, 3)], [flow(ingress_vrf=3)], None
    yield 'nprobe', 'netflow', tuple4() + UP + [(23, 4, 700), (24, 4, 3), (5, 1, 0), (16, 4, 64500), (17, 4, 64501), (58, 2, 5),
        (57590, 2, 7), (57591, 16, 'HTTP')], [flow(vlan=5)], None
    yield 'yaf-biflow', 'ipfix', tuple4((85, 8, 5000), (86, 8, 10)) + MS + [('29305/85', 8, 700), ('29305/86', 8, 3), (136, 1, 3),
        ('6871/14', 1, 2), ('6871/15', 1, 16), ('6871/33', 2, 443), ('6871/21', 4, 5), (58, 2, 100), ('29305/58', 2, 100)], [
        flow(application=443), flow(B, A, (443, 1000), packets=3, size=700, application=443)], None
    yield 'yaf-uniflow', 'ipfix', tuple4((85, 8, 5000), (86, 8, 10)) + [('29305/85', 8, 0), ('29305/86', 8, 0)], [flow()], None
    yield 'biflow-of-deltas', 'ipfix', tuple6() + [('29305/1', 8, 700), ('29305/2', 8, 3), ('29305/6', 1, 18), ('29305/5', 1, 184),
        ('29305/152', 8, SECONDS * 1000 - 500), (6, 1, 2)], [flow(**FLOW6, tcp_flags=2), flow(B6, A6, (443, 1000), packets=3,
        size=700, tcp_flags=18, dscp=46, start_ns=SECONDS * 10**9 - 500 * 10**6)], None
    yield 'variable-lengths', 'ipfix', [(8, 4, A), (12, 4, B), (82, 0, 'eth0'), (7, 2, 1000), (11, 2, 443), (180, 0, 0),
        (4, 1, 6), (1, 0, 5000), (2, 0, 10)], [flow(name='eth0')], None
    yield 'ports-of-tcp-and-udp', 'ipfix', [(8, 4, A), (12, 4, B), (4, 1, 6), (180, 2, 0), (181, 2, 0), (182, 2, 1000),
        (183, 2, 443), (2, 4, 10), (1, 4, 5000)], [flow()], None
    yield 'address-prefixes', 'netflow', [(44, 4, '192.0.2.0'), (45, 4, '198.51.100.0'), (9, 1, 24), (13, 1, 24), (2, 4, 10),
        (1, 4, 5000)], [{'kind': 'flow', 'source': '192.0.2.0', 'destination': '198.51.100.0', 'source-prefix': 24, 'bytes': 5000}], None


def contradicting():
    """Two exporters behind one address say different rates: the rate of a third one is not known."""
    grams = []
    for i, rate in enumerate((100, 200)):
        scope, fields = [(149, 4, 7)], [(34, 4, rate)]
        grams.append((3000 + i, ipfix(0, options('ipfix', 300, scope, fields) + data(300, scope + fields))))
    return grams + messages('ipfix', tuple4())


# ---- NetFlow 5 ----

def netflow5(sampling=0, protocol=6):
    head = struct.pack('>HHIIIIBBH', 5, 1, UPTIME, SECONDS, 0, 0, 1, 2, sampling)
    return [(2000, head + b''.join(ipaddress.ip_address(x).packed for x in (A, B, '192.0.2.1')) + struct.pack(
        '>HHIIIIHHBBBBHHBBH', 3, 4, 10, 5000, UPTIME - 2000, UPTIME - 1000, 1000, 443, 0, 0x1b, protocol, 0xb8, 64500, 64501, 24, 16, 0))]


# ---- sFlow ----

def ethernet(kind, above):
    return MAC_B.to_bytes(6, 'big') + MAC_A.to_bytes(6, 'big') + struct.pack('>H', kind) + above


def ip4(a, b, protocol, above):
    return struct.pack('>BBHHHBBH', 0x45, 0xb8, 20 + len(above), 7, 0, 64, protocol, 0) + \
        ipaddress.ip_address(a).packed + ipaddress.ip_address(b).packed + above


def ip6(a, b, protocol, above):
    return struct.pack('>IHBB', 6 << 28, len(above), protocol, 64) + ipaddress.ip_address(a).packed + \
        ipaddress.ip_address(b).packed + above


def udp(a, b, above=b''):
    return struct.pack('>HHHH', a, b, 8 + len(above), 0) + above


def tcp(a=1000, b=443):
    return struct.pack('>HHIIBBHHH', a, b, 1, 2, 5 << 4, 0x18, 1000, 0, 0)


INNER = ip4(A, B, 6, tcp())
OUTER = '203.0.113.1', '203.0.113.2'


def label(number, bottom=False):
    return struct.pack('>I', number << 12 | bottom << 8 | 64)


def record(form, body):
    return struct.pack('>II', form, len(body)) + body


def raw(protocol, header, length=None):
    padded = header + bytes(-len(header) % 4)
    return record(1, struct.pack('>IIII', protocol, length or len(header) + 4, 4, len(header)) + padded)


def sflow(*records, wide=False, rate=100):
    if wide:
        body = struct.pack('>IIIIIIIIIII', 1, 0, 3, rate, 1000, 0, 0, 3, 0, 4, len(records))
    else:
        body = struct.pack('>IIIIIIII', 1, 3, rate, 1000, 0, 3, 4, len(records))
    body += b''.join(records)
    return [(6343, struct.pack('>II4sIIII', 5, 1, ipaddress.ip_address('192.0.2.9').packed, 0, 1, UPTIME, 1) +
             struct.pack('>II', 3 if wide else 1, len(body)) + body)]


def sample(length, **more):
    return {**flow(packets=100, size=100 * length, sampling=100, ingress=3, egress=4, **more), 'kind': 'sample'}


def nothing(length, **more):
    return {'kind': 'sample', 'source': None, 'packets': 100, 'bytes': 100 * length, **more}


def sampled():
    """(name, datagrams, records, refused)"""
    tunnel = {'tunnel_source': OUTER[0], 'tunnel_destination': OUTER[1]}
    frame = ethernet(0x800, INNER)
    macs = {'source_mac': MAC_A, 'destination_mac': MAC_B}
    yield 'hp-procurve', sflow(raw(1, frame), record(1001, struct.pack('>IIII', 12, 0, 13, 0))), [sample(58, vlan=12, **macs)], {}
    yield 'dell-force10', sflow(raw(1, ethernet(0x8100, struct.pack('>HH', 100, 0x800) + INNER)), wide=True), [
        sample(62, vlan=100)], {}
    yield 'brocade-qinq', sflow(raw(1, ethernet(0x88a8, struct.pack('>HHHH', 100, 0x8100, 7, 0x800) + INNER))), [
        sample(66, vlan=100, customer_vlan=7)], {}
    gateway = struct.pack('>I4sIIIIIIIIII', 1, ipaddress.ip_address('192.0.2.1').packed, 64500, 64501, 64502, 1, 2, 3, 64503, 64504,
                          64505, 0) + struct.pack('>I', 100)
    yield 'juniper-mx-gateway', sflow(raw(1, frame), record(1003, gateway), record(1002, struct.pack(
        '>I4sII', 1, ipaddress.ip_address('192.0.2.1').packed, 24, 16))), [sample(58, source_as=64501, previous_as=64502,
        next_as=64503, destination_as=64505, next_hop='192.0.2.1', source_prefix=24, destination_prefix=16)], {}
    yield 'arista-mpls', sflow(raw(1, ethernet(0x8847, label(1000) + label(1001, True) + INNER))), [sample(66, mpls_label=1000,
        mpls_label_2=1001, **macs)], {}
    yield 'arista-pseudowire', sflow(raw(1, ethernet(0x8847, label(1000, True) + bytes(4) + frame))), [
        sample(80, mpls_label=1000)], {}
    yield 'arista-vxlan', sflow(raw(1, ethernet(0x800, ip4(*OUTER, 17, udp(50000, 4789, struct.pack('>II', 8 << 24, 5010 << 8) +
        frame))))), [sample(108, tunnel_id=5010, ttl=64, **tunnel)], {}
    yield 'nvidia-geneve', sflow(raw(1, ethernet(0x800, ip4(*OUTER, 17, udp(50000, 6081, struct.pack(
        '>BBHII', 1, 0, 0x6558, 77 << 8, 0) + frame))))), [sample(112, tunnel_id=77, **tunnel)], {}
    yield 'gre-with-key', sflow(raw(1, ethernet(0x800, ip4(*OUTER, 47, struct.pack('>HHI', 0x2000, 0x800, 42) + INNER)))), [
        sample(86, tunnel_id=42, **tunnel)], {}
    yield 'ip-in-ip', sflow(raw(11, ip4(*OUTER, 4, INNER))), [sample(64, **tunnel)], {}
    yield 'srv6', sflow(raw(12, ip6(A6, B6, 4, INNER))), [sample(84, tunnel_source=A6, tunnel_destination=B6)], {}
    yield 'tunnel-cut-in-the-inner-header', sflow(raw(1, ethernet(0x800, ip4(*OUTER, 17, udp(50000, 4789, struct.pack(
        '>II', 8 << 24, 5010 << 8) + frame)))[:60], 108)), [{**sample(108), 'source': OUTER[0], 'destination': OUTER[1],
        'source-port': 50000, 'destination-port': 4789, 'protocol': 17, 'tunnel-source': None}], {}
    yield 'ppp', sflow(raw(7, b'\xff\x03\x00\x21' + INNER)), [sample(48)], {}
    yield 'pos-of-cisco-hdlc', sflow(raw(14, b'\x0f\x00\x08\x00' + INNER)), [sample(48)], {}
    yield 'pppoe', sflow(raw(1, ethernet(0x8864, struct.pack('>BBHHH', 0x11, 0, 1, 42, 0x21) + INNER))), [sample(66)], {}
    yield 'summary-of-ipv4', sflow(record(3, struct.pack('>II4s4sIIII', 58, 6, *(ipaddress.ip_address(x).packed for x in (A, B)),
        1000, 443, 0x18, 0xb8))), [sample(58, tos=0xb8, dscp=46, tcp_flags=0x18)], {}
    nat = b''.join(struct.pack('>I4s', 1, ipaddress.ip_address(x).packed) for x in ('203.0.113.5', B))
    yield 'extended-nat', sflow(raw(1, frame), record(1007, nat), record(1020, struct.pack('>II', 4000, 443))), [
        sample(58, nat_source='203.0.113.5', nat_destination=B, nat_source_port=4000, nat_destination_port=443)], {}
    yield 'extended-vni', sflow(raw(1, frame), record(1030, struct.pack('>I', 5010))), [sample(58, tunnel_id=5010)], {}
    yield 'arp', sflow(raw(1, ethernet(0x806, bytes(28)))), [nothing(46, **{'source-mac': MAC_A})], {'no_packet': 1}
    yield 'frame-relay-header', sflow(raw(5, bytes(40))), [nothing(44)], {'no_packet': 1}
    yield 'structure-of-a-vendor', sflow(raw(1, frame), record(4413 << 12 | 1, bytes(8))), [sample(58)], {'unsupported': 1}


def cases():
    """(name, kind, [(port, datagram)], records, refused)"""
    for name, kind, fields, records, options_ in templates():
        yield name, kind, messages(kind, fields, options_), records, {}
    yield 'contradicting-rates', 'ipfix', contradicting(), [flow(sampling=1)], {}
    yield 'address-of-3-bytes', 'ipfix', messages('ipfix', [(8, 3, 1), *tuple4()[1:]]), [
        {'kind': 'flow', 'source': None, 'destination': B, 'bytes': 5000}], {'element': 1}
    v5 = flow(ingress=3, egress=4, tcp_flags=0x1b, dscp=46, tos=0xb8, source_as=64500, destination_as=64501, source_prefix=24,
              destination_prefix=16, next_hop='192.0.2.1', **UP_NS)
    yield 'ios-v5', 'netflow', netflow5(), [v5], {}
    yield 'juniper-v5-sampled', 'netflow', netflow5(1 << 14 | 1000), [{**v5, 'packets': 10000, 'bytes': 5000000}], {}
    for version in (1, 7, 8):
        yield f'ios-v{version}', 'netflow', [(2000, struct.pack('>HH', version, 1) + bytes(60))], [], {'version': 1}
    for name, datagrams, records, refused in sampled():
        yield name, 'sflow', datagrams, records, refused
