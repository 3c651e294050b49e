#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exact.py SIDELIGHT - tcp.exact: the share of the statistics known to TCP_INFO that equal it, for IPv4, IPv6 and mapped
addresses, both ends. tests/tcp makes the same comparison."""
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
import bench  # noqa: E402
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
bench.say('tcp.exact', 100 * (known - len(bad)) / known, '%',
          f'{known} statistics compared with TCP_INFO, 3 families, both ends; different: {", ".join(bad) or "none"}')
