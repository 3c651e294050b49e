# SPDX-License-Identifier: Apache-2.0
"""Segments that the kernel drops: they are counted by the kernel's reason, for the host and for their flow, and `tcp why`
names it. The wire says how many there were.

usage: test_drops.py SIDELIGHT"""
import json
import os
import socket
import sys

from support.flows import Flows, libc, needs_bpf
from support.process import Part, check, skip, wait_until
from wire import Wire

EXE = sys.argv[1]
COPIES = 5


def exchange(client, server, n):
    """n messages from the far end, one at a time."""
    for _ in range(n):
        server.sendall(b'x' * 100)
        got = b''
        while len(got) < 100:
            got += client.recv(100)
        client.sendall(b'y')
        server.recv(1)


def dropped_of(client):
    """The flow of this end, and how many of its segments were dropped, by reason."""
    f = FLOWS.of(client.getsockname(), client.getpeername())
    return f, f['drop_reasons'] if f else {}


def total(reason):
    FLOWS.update()
    return (FLOWS.table or {}).get('drops', {}).get(reason, 0)


def nothing_is_dropped_on_a_clean_wire(wire):
    client, server = wire.pair()
    exchange(client, server, 200)
    wait_until(lambda: (dropped_of(client)[0] or {}).get('bytes_received') == 20000, 'the flow is complete')
    f, drops = dropped_of(client)
    check(not drops and 'dropped' not in f['flags'], f'{drops} {f["flags"]}')
    client.close()
    server.close()


def copies_are_dropped_and_named(wire):
    """Each segment to this end arrives twice."""
    client, server = wire.pair()
    exchange(client, server, 1)
    wire.set(lambda far, p: [p.raw, p.raw] if not far and p.length else None)
    exchange(client, server, COPIES)
    wire.set()
    wait_until(lambda: sum(dropped_of(client)[1].values()) >= COPIES, 'the copies are counted')
    f, drops = dropped_of(client)
    check(sum(drops.values()) == COPIES and all(name.startswith('TCP_') for name in drops), f'{COPIES} copies: {drops}')
    check('dropped' in f['flags'], f['flags'])
    check(all(total(name) >= n for name, n in drops.items()), f'{drops}, but in all {FLOWS.table["drops"]}')
    client.close()
    server.close()


def why_names_the_reason(wire):
    """It names segments that fit into no window, but not duplicates, which are no loss."""
    client, server = wire.pair()
    port = client.getsockname()[1]
    exchange(client, server, 1)
    why = Why(port)
    wire.set(lambda far, p: [p.elsewhere(2**30), p.raw, p.raw] if not far and p.length else None)
    while why.part.p.poll() is None:
        exchange(client, server, 1)
    wire.set()
    said = next(s for s in why.said() if s.get('local_port') == port)
    n = int(said['numbers'].get('dropped-here', {'value': 0})['value'])
    check(n and f'here dropped {n} segment' in said['sentence'] and ': TCP_' in said['sentence'], said)
    check('REASON_' not in said['sentence'] and 'TCP_OLD_' not in said['sentence'], said['sentence'])
    sequence = [name for name in dropped_of(client)[1] if 'SEQUENCE' in name and 'OLD' not in name]
    check(sequence and sequence[0] in said['sentence'], f'{dropped_of(client)[1]} {said["sentence"]}')
    client.close()
    server.close()


def a_wrong_checksum_is_counted_once(wire):
    """It is also counted for the flow, if the kernel knows the socket when it drops the segment, which depends on the
    kernel."""
    client, server = wire.pair()
    exchange(client, server, 1)
    before, broken = total('TCP_CSUM'), []

    def corrupt(far, p):
        if far or not p.length or broken:
            return None
        broken.append(1)
        return [p.raw[:-1] + b'z']
    wire.set(corrupt)
    exchange(client, server, 1)
    wire.set()
    wait_until(lambda: total('TCP_CSUM') == before + 1, 'the wrong checksum is counted')
    check(dropped_of(client)[1] in ({}, {'TCP_CSUM': 1}), dropped_of(client)[1])
    client.close()
    server.close()


def a_port_without_a_listener_drops(_):
    before = total('NO_SOCKET')
    with socket.create_server(('127.0.0.1', 0)) as listener:
        port = listener.getsockname()[1]
    with socket.socket() as s:
        check(s.connect_ex(('127.0.0.1', port)), 'it was connected')
    wait_until(lambda: total('NO_SOCKET') > before, 'a segment without a socket is counted')


class Why:
    """`tcp why` in the background."""

    def __init__(self, port):
        self.part = Part(EXE, 'tcp', 'why', '--json', '--top', '0', '-d', '2s', f':{port}')

    def said(self):
        check(not self.part.wait(), 'tcp why failed')
        return [json.loads(line) for line in self.part.out]


def main():
    global FLOWS
    if os.geteuid():
        skip('not root')
    needs_bpf()
    check(not libc.unshare(0x40000000), 'no network namespace')
    wire = Wire()
    FLOWS = Flows()
    for test in (nothing_is_dropped_on_a_clean_wire, copies_are_dropped_and_named, why_names_the_reason,
                 a_wrong_checksum_is_counted_once, a_port_without_a_listener_drops):
        test(wire)
        print(f'ok   {test.__name__}', flush=True)
    FLOWS.end()
    wire.end()


main()
