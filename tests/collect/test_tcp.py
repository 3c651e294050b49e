#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_tcp.py SIDELIGHT - a collector exposes the connections of two agents' kernels to the byte, each connection once,
equal to TCP_INFO and iperf3, and continuous across an agent's death."""
import json
import os
import re
import shutil
import socket
import subprocess
import threading

from support import flows
from support.flows import needs_bpf, receive, sent_again, tcp_info
from support.process import Missed, Part, case, check, fail, run_cases, wait_until, widen
from support.sidelight import Agent, Collector

COUNT, PORT, IPERF = 100, 1500, 1501


def agent(host, port, folder=None):
    return Agent('--hostname', host, '--tcp', '--netns', f'/proc/{os.getpid()}/ns/net', '--port', str(port), folder=folder)


def serve(listener, count):
    for _ in range(count):
        c = listener.accept()[0]
        while c.recv(65536):
            pass
        c.sendall(b'x' * 10)
        c.close()


def requests(port, count):
    """Makes count connections; returns the bytes that were sent."""
    total = 0
    for i in range(count):
        c = socket.create_connection(('127.0.0.1', port))
        c.sendall(b'q' * (i * 37 + 1))
        total += i * 37 + 1
        c.shutdown(socket.SHUT_WR)
        while c.recv(4096):
            pass
        c.close()
    return total


@case
def connections_that_come_and_go_are_counted_exactly():
    server = threading.Thread(target=serve, args=(listener, COUNT))
    server.start()
    sent = requests(PORT, COUNT)
    server.join()

    def all_closed():
        s = collector.scrape()
        return s if s.sum('sidelight_tcp_connections_closed_total', host='one', port=PORT) == 2 * COUNT \
            else None
    s = wait_until(all_closed, lambda: collector.scrape().text, collector, seconds=30)
    for name, role, value in (('connections_opened_total', 'server', COUNT),
                              ('connections_opened_total', 'client', COUNT),
                              ('received_bytes_total', 'server', sent),
                              ('received_bytes_total', 'client', 10 * COUNT),
                              ('sent_bytes_total', 'client', sent),
                              ('sent_bytes_total', 'server', 10 * COUNT),
                              ('handshake_seconds_count', 'client', COUNT),
                              ('connection_duration_seconds_count', 'server', COUNT),
                              ('connections', 'client', 0)):
        got = s.sum(f'sidelight_tcp_{name}', host='one', role=role, port=PORT)
        # The peer's acknowledgements include the end of the stream, in TCP_INFO as well.
        if got is None or not value <= got <= value + (COUNT if 'bytes' in name else 0):
            fail(f'{name} of the {role} is {got}, not {value}', collector)
    if s.sum('sidelight_tcp_connections_opened_total', host='two'):
        fail('the other agent counted what is not its own', collector)
    for cause in ('end', 'unseen', 'journal_gap', 'final_values'):
        if s.sum('sidelight_collector_tcp_lost_total', cause=cause):
            fail(f'lost by {cause}', collector)


@case
def an_open_connection_is_what_tcp_info_says():
    global client, peer  # it stays open, so that the next agent sees it, too
    client = socket.create_connection(('127.0.0.1', PORT))
    peer = listener.accept()[0]
    client.sendall(b'z' * 1000000)
    receive(peer, 1000000)

    def of_it():
        found = collector.api(f'flows?host=one&state=open&port={client.getsockname()[1]}')['flows']
        return next((f for f in found if f['role'] == 'client'), None)

    def same():
        f, info = of_it(), tcp_info(client)
        return f and (f['bytes_sent'], f['bytes_acked'], f['segments_sent'], f['cwnd']) == \
            (info['bytes_sent'], info['bytes_acked'], info['segs_out'], info['snd_cwnd']) and f
    flow = wait_until(same, lambda: f'{of_it()} is not {tcp_info(client)}', collector, seconds=30)
    if not flow['why'] or flow['tcp_state'] != 'ESTABLISHED':
        fail(f'what holds it back is not said: {flow}', collector)


def run_iperf3(slower):
    """Sends 5 MB; returns iperf3's report, and the counts of the second agent's kernel. Not at full speed, because bytes would
    still be on the way at the end."""
    def seen(name, **labels):
        return collector.scrape().sum(f'sidelight_tcp_{name}_total', host='two', **labels) or 0
    theirs = Part('iperf3', '-s', '-1', '-p', IPERF, '-B', '127.0.0.1', '-J')
    wait_until(lambda: subprocess.run(['ss', '-Hltn', f'sport = :{IPERF}'], capture_output=True,
                                  text=True, timeout=300).stdout, 'iperf3 listens', theirs)
    by_kernel, closed = sent_again(), seen('connections_closed')
    got, again = seen('received_bytes', role='server'), seen('retransmits')
    run = subprocess.run(['iperf3', '-c', '127.0.0.1', '-p', str(IPERF), '-n', '5M', '-b', f'{100 // slower}M',
                          '-J'], capture_output=True, text=True, timeout=300)
    if run.returncode:
        fail(f'iperf3: {run.stdout} {run.stderr}')
    theirs.wait()
    end = json.loads(run.stdout)['end']
    wait_until(lambda: seen('connections_closed') == closed + 4, lambda: collector.scrape().text, collector, seconds=30)
    got, again = seen('received_bytes', role='server') - got, seen('retransmits') - again
    # The server ends without waiting for the last bytes; those that it does not read in time are never sent.
    if end['sum_received']['bytes'] < got <= end['sum_sent']['bytes']:
        raise Missed(f'{end["sum_sent"]["bytes"] - got} bytes')
    return end, got, again, sent_again() - by_kernel


@case
def iperf3_counts_the_same():
    if not shutil.which('iperf3'):
        print('SKIP: no iperf3: its counts are held against nothing')
        return
    end, got, again, by_kernel = widen(run_iperf3, 1, 4, 16, 50)
    data = end['sum_sent']['bytes']
    # Beside the data a control connection: its parameters and results, a few KiB of JSON.
    if not data < got < data + 16384:
        fail(f'iperf3 sent {data} bytes, we saw {got}', collector)
    # iperf3 looks at its data connection, and not up to its end; the kernel counts all of them.
    least = end['sum_sent']['retransmits']
    if not least <= again <= by_kernel:
        fail(f'sent again by iperf3 {least}, by the kernel {by_kernel}, we saw {again}', collector)


@case
def a_dead_agent_leaves_stale_series_that_another_continues():
    global first
    before = collector.scrape().sum('sidelight_tcp_received_bytes_total', host='one', role='server')
    first.kill()
    wait_until(lambda: collector.scrape().sum('sidelight_tcp_connections', host='one') is None,
               'the series of a dead agent are stale', collector, seconds=30)
    told = collector.api('status')['tcp']
    if any(t['host'] == 'one' and t['present'] and not t['stale'] for t in told):
        fail(f'its table is not stale: {told}', collector)
    if any(t['host'] == 'two' and t['stale'] for t in told):
        fail(f'the other agent goes on: {told}', collector)
    first = agent('one', PORT, first.folder)
    wait_until(lambda: collector.scrape().sum('sidelight_tcp_connections', host='one', role='client') == 1,
               lambda: collector.scrape().text, collector)
    server = threading.Thread(target=serve, args=(listener, 5))
    server.start()
    more = requests(PORT, 5)
    server.join()

    def goes_on():
        got = collector.scrape().sum('sidelight_tcp_received_bytes_total', host='one', role='server')
        return got is not None and before + more <= got <= before + more + 5
    wait_until(goes_on, lambda: f'{before} + {more}: ' + re.sub(
        r'(?m)^(?!sidelight_tcp_received_bytes_total).*\n', '', collector.scrape().text), collector, seconds=30)


needs_bpf()
flows.own_network()
listener = socket.socket()
listener.bind(('127.0.0.1', PORT))
listener.listen(64)
first, second = agent('one', PORT), agent('two', IPERF)
collector = Collector([first, second], '--tcp-period', '100ms', '--period', '50ms')
wait_until(lambda: len([t for t in collector.api('status')['tcp'] if t['passes']]) == 2, 'both tables are read',
           collector, seconds=30)
run_cases()
for part in (collector, first, second):
    check(part.stop() == 0, 'it failed', part)
