# SPDX-License-Identifier: Apache-2.0
"""tcp.exact: of the statistics that TCP_INFO knows, how many are what it says, for IPv4, IPv6 and mapped
addresses, both ends. The same comparison as tests/tcp makes, as a number."""
import json
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tests'))
from support import flows  # noqa: E402

flows.needs_bpf()
flows.own_network()
watch = flows.Flows('--new')
bad, known = [], 0
for kind in ({}, {'family': socket.AF_INET6, 'address': '::1'},
             {'family': socket.AF_INET6, 'address': '::', 'client_family': socket.AF_INET}):
    ends = flows.pair(**kind)
    for _ in range(50):
        ends[0].sendall(b'q' * 1000)
        flows.receive(ends[1], 1000)
        ends[1].sendall(b'a' * 3000)
        flows.receive(ends[0], 3000)
    for sock in ends:
        known += sum(theirs in flows.tcp_info(sock) for theirs in flows.SAME.values())
        until, wrong = time.monotonic() + 10, ['no such flow']
        while wrong and time.monotonic() < until:
            f = watch.of(*flows.name_of(sock))
            wrong = flows.differences(f, sock) if f else ['no such flow']
            time.sleep(0.05)
        bad += wrong
watch.end()
print(json.dumps({
    'name': 'tcp.exact', 'value': 100 * (known - len(bad)) / known, 'unit': '%', 'peer': 'TCP_INFO',
    'peer_value': None, 'ratio': None,
    'conditions': {'what': 'statistics equal to TCP_INFO, of those that it knows; 3 families, both ends',
                   'compared': known, 'different': bad, 'kernel': os.uname().release}}))
