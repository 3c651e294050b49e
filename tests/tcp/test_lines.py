# SPDX-License-Identifier: Apache-2.0
"""Twelve services of a host and their clients, with their connections and scheduler times, take few lines of /metrics.

usage: test_lines.py SIDELIGHT"""
import os
import socket
import threading

from support import flows
from support.flows import needs_bpf
from support.process import check, wait_until
from support.sidelight import Agent, Collector

SERVICES, MESSAGES = 12, 200


def serve(listener):
    s = listener.accept()[0]
    while s.recv(100):
        s.sendall(b'y' * 100)


def count_lines(tables, most):
    agent = Agent('--hostname', 'one', '--tcp', tables, '--netns', f'/proc/{os.getpid()}/ns/net')
    layers = 'layers' in tables
    listeners = [socket.create_server(('127.0.0.1', 8000 + i)) for i in range(SERVICES)]
    for each in listeners:
        threading.Thread(target=serve, args=(each,), daemon=True).start()
    collector = Collector([agent], '--tcp-period', '100ms', '--period', '50ms')
    wait_until(lambda: 'sidelight_cpu_seconds_total' in collector.scrape().text, 'the tables are read', collector)
    clients = [socket.create_connection(each.getsockname()) for each in listeners]
    for _ in range(MESSAGES):
        for c in clients:
            c.sendall(b'x' * 100)
        for c in clients:
            c.recv(100, socket.MSG_WAITALL)

    def counted():
        s = collector.scrape()
        return s if s.sum('sidelight_tcp_connections', host='one') == 2 * SERVICES and \
            s.sum('sidelight_tcp_received_bytes_total', host='one') >= 2 * SERVICES * MESSAGES * 100 and \
            s.text.count('sidelight_tcp_requests_total{') >= layers * SERVICES else None
    s = wait_until(counted, lambda: collector.scrape().text, collector)
    lines = s.text.count('\n')
    print(f'ok   {SERVICES} services and their clients, {tables}: {lines} lines')
    check(lines < most, f'{lines} lines')
    check('sidelight_tcp_requests_total{' not in '\n'.join(x for x in s.text.splitlines() if 'role="client"' in x), 'requests of clients')
    for c in [*clients, *listeners]:
        c.close()
    collector.stop()
    agent.stop()


def main():
    needs_bpf()
    flows.own_network()
    count_lines('flows,cpu', 2000)
    count_lines('flows,layers,cpu', 3500)


main()
