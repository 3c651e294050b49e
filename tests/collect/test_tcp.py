#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_tcp.py SIDELIGHT - what two agents' kernels tell of connections is what a collector exposes: to the
byte, once for each connection, by TCP_INFO, by iperf3's own count, and across an agent's death."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request

from support import flows
from support.flows import needs_bpf, receive, sent_again, tcp_info
from support.process import Part, fail, wait_until

EXE = sys.argv[1]
COUNT, PORT, IPERF = 100, 1500, 1501


class Scrape:
    """Series of one exposition."""

    def __init__(self, address):
        with urllib.request.urlopen(f'http://{address}/metrics', timeout=60) as r:
            self.text = r.read().decode()

    def sum(self, name, **labels):
        """The sum of those with these labels; None if there is none."""
        found = [float(line.rsplit(' ', 1)[1]) for line in self.text.split('\n')
                 if line.startswith(name + '{') and
                 all(f'{k}="{v}"' in line for k, v in labels.items())]
        return sum(found) if found else None


def api(address, path):
    with urllib.request.urlopen(f'http://{address}/api/v1/{path}', timeout=60) as r:
        return json.load(r)


def agent(folder, host, port):
    a = Part(EXE, 'agent', '--socket', f'{folder}/{host}.sock', '--host', host, '--no-rest', '--tcp',
             '--netns', f'/proc/{os.getpid()}/ns/net', '--port', port)
    a.ready()
    return a


def serve(listener, count):
    for _ in range(count):
        c = listener.accept()[0]
        while c.recv(65536):
            pass
        c.sendall(b'x' * 10)
        c.close()


def requests(port, count):
    """So many connections; returns the bytes that were sent."""
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


needs_bpf()
flows.own_network()
with tempfile.TemporaryDirectory() as folder:
    listener = socket.socket()
    listener.bind(('127.0.0.1', PORT))
    listener.listen(64)
    first, second = agent(folder, 'one', PORT), agent(folder, 'two', IPERF)
    collector = Part(EXE, 'collect', '--agent', f'{folder}/one.sock', '--agent', f'{folder}/two.sock',
                     '--listen', '127.0.0.1:0', '--tcp-period', '100ms', '--period', '50ms')
    address = collector.ready()['listen']
    wait_until(lambda: len([t for t in api(address, 'status')['tcp'] if t['passes']]) == 2, 'both tables are read',
               collector, seconds=30)

    # Many that come and go.
    server = threading.Thread(target=serve, args=(listener, COUNT))
    server.start()
    sent = requests(PORT, COUNT)
    server.join()

    def all_closed():
        s = Scrape(address)
        return s if s.sum('sidelight_tcp_connections_closed_total', host='one', port=PORT) == 2 * COUNT \
            else None
    s = wait_until(all_closed, lambda: Scrape(address).text, collector, seconds=30)
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
        # What the peer acknowledges includes the end of the stream, in TCP_INFO as well.
        if got is None or not value <= got <= value + (COUNT if 'bytes' in name else 0):
            fail(f'{name} of the {role} is {got}, not {value}', collector)
    if s.sum('sidelight_tcp_connections_opened_total', host='two'):
        fail('the other agent counted what is not its own', collector)
    for cause in ('end', 'unseen', 'journal_gap', 'final_values'):
        if s.sum('sidelight_collector_tcp_lost_total', cause=cause):
            fail(f'lost by {cause}', collector)

    # One that goes on, as TCP_INFO has it.
    client = socket.create_connection(('127.0.0.1', PORT))
    peer = listener.accept()[0]
    client.sendall(b'z' * 1000000)
    receive(peer, 1000000)

    def of_it():
        found = api(address, f'flows?host=one&state=open&port={client.getsockname()[1]}')['flows']
        return next((f for f in found if f['role'] == 'client'), None)

    def same():
        f, info = of_it(), tcp_info(client)
        return f and (f['bytes_sent'], f['bytes_acked'], f['segments_sent'], f['cwnd']) == \
            (info['bytes_sent'], info['bytes_acked'], info['segs_out'], info['snd_cwnd']) and f
    flow = wait_until(same, lambda: f'{of_it()} is not {tcp_info(client)}', collector, seconds=30)
    if not flow['why'] or flow['tcp_state'] != 'ESTABLISHED':
        fail(f'what holds it back is not said: {flow}', collector)

    # iperf3 counts for itself.
    if shutil.which('iperf3'):
        theirs = Part('iperf3', '-s', '-1', '-p', IPERF, '-B', '127.0.0.1', '-J')
        wait_until(lambda: subprocess.run(['ss', '-Hltn', f'sport = :{IPERF}'], capture_output=True,
                                      text=True, timeout=60).stdout, 'iperf3 listens', theirs)
        before_it = sent_again()
        # Not at full speed: the end would find bytes on the way.
        run = subprocess.run(['iperf3', '-c', '127.0.0.1', '-p', str(IPERF), '-n', '5M', '-b', '100M',
                              '-J'], capture_output=True, text=True, timeout=60)
        if run.returncode:
            fail(f'iperf3: {run.stdout} {run.stderr}')
        theirs.wait()
        end = json.loads(run.stdout)['end']
        wait_until(lambda: Scrape(address).sum('sidelight_tcp_connections_closed_total', host='two') == 4,
                   lambda: Scrape(address).text, collector, seconds=30)
        s = Scrape(address)
        data = end['sum_sent']['bytes']  # the server ends before it has looked at all of it
        got = s.sum('sidelight_tcp_received_bytes_total', host='two', role='server')
        # Beside the data a control connection: its parameters and results, a few KiB of JSON.
        if not data < got < data + 16384:
            fail(f'iperf3 sent {data} bytes, we saw {got}', collector)
        # iperf3 looks at its data connection, and not up to its end; the kernel counts all of them.
        again = s.sum('sidelight_tcp_retransmits_total', host='two')
        by_kernel = sent_again() - before_it
        least = end['sum_sent']['retransmits']
        if not least <= again <= by_kernel:
            fail(f'sent again by iperf3 {least}, by the kernel {by_kernel}, we saw {again}', collector)
    else:
        print('SKIP: no iperf3: its counts are held against nothing')

    # The agent dies: its series are stale, the other's are not; then they go on.
    before = Scrape(address).sum('sidelight_tcp_received_bytes_total', host='one', role='server')
    first.p.kill()
    wait_until(lambda: Scrape(address).sum('sidelight_tcp_connections', host='one') is None,
               'the series of a dead agent are stale', collector, seconds=30)
    told = api(address, 'status')['tcp']
    if any(t['host'] == 'one' and t['present'] and not t['stale'] for t in told):
        fail(f'its table is not stale: {told}', collector)
    if any(t['host'] == 'two' and t['stale'] for t in told):
        fail(f'the other agent goes on: {told}', collector)
    first = agent(folder, 'one', PORT)
    wait_until(lambda: Scrape(address).sum('sidelight_tcp_connections', host='one', role='client') == 1,
               lambda: Scrape(address).text, collector)
    server = threading.Thread(target=serve, args=(listener, 5))
    server.start()
    more = requests(PORT, 5)
    server.join()

    def goes_on():
        got = Scrape(address).sum('sidelight_tcp_received_bytes_total', host='one', role='server')
        return got is not None and before + more <= got <= before + more + 5
    wait_until(goes_on, lambda: f'{before} + {more}: ' + re.sub(
        r'(?m)^(?!sidelight_tcp_received_bytes_total).*\n', '', Scrape(address).text), collector, seconds=30)
    for part in (collector, first, second):
        if part.stop():
            fail(f'{part} failed', part)
print('ok')
