#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_net.py SIDELIGHT - latency between two hosts, as a collector exposes it: two network namespaces whose clock is
one, an agent for each. Every segment counts once, the clocks are as far apart as is said, and a request's whole way is
there from call to copy."""
import json
import os
import socket
import sys
import tempfile

from support import flows
from support.exposition import series
from support.flows import needs_bpf
from support.http import get
from support.process import Part, fail, run, wait_until

EXE = sys.argv[1]
PORT, REQUESTS, WORK = 1600, 300, 0.002
SEGMENTS = 2 * (REQUESTS + 2)  # each way one of each request, SYN and FIN
SERVER = f'''
import socket, time
s = socket.socket()
s.bind(('', {PORT}))
s.listen(8)
print('ready', flush=True)
while True:
    c = s.accept()[0]
    while c.recv(100):
        time.sleep({WORK})
        c.sendall(b'answer')
    c.close()
'''


def agent(folder, name, pid, *more):
    a = Part(EXE, 'agent', '--socket', f'{folder}/{name}.sock', '--host', name, '--no-rest', '--tcp', 'layers,net',
             '--tcp-dev', 'sl0', '--netns', f'/proc/{pid}/ns/net', *more)
    a.ready()
    return a


def ask():
    with socket.create_connection(('10.96.0.2', PORT)) as c:
        c.settimeout(60)
        for _ in range(REQUESTS):
            c.sendall(b'question')
            if c.recv(100) != b'answer':
                fail('no answer')
    return 2 * (REQUESTS + 2)


needs_bpf()
flows.own_network()
with tempfile.TemporaryDirectory() as folder:
    server = Part('unshare', '--net', sys.executable, '-c', SERVER)
    server.ready()
    there = ('nsenter', f'--net=/proc/{server.pid}/ns/net')
    run('ip', 'link', 'add', 'sl0', 'type', 'veth', 'peer', 'name', 'sl0', 'netns', server.pid)
    for at, n in ((), 1), (there, 2):
        run(*at, 'ip', 'addr', 'add', f'10.96.0.{n}/24', 'dev', 'sl0')
        run(*at, 'ip', 'link', 'set', 'sl0', 'up')
    client = agent(folder, 'client', os.getpid())
    first = agent(folder, 'server', server.pid)
    collector = Part(EXE, 'collect', '--agent', f'{folder}/client.sock', '--agent', f'{folder}/server.sock',
                     '--listen', '127.0.0.1:0', '--tcp-period', '100ms', '--period', '50ms')
    address = collector.ready()['listen']

    def net():
        return json.loads(get(f'http://{address}/api/v1/net'))
    wait_until(lambda: len(net()['hosts']) == 2 and all(h['present'] for h in net()['hosts']),
               'both rings are read', collector, seconds=30)

    def told():
        """Those with a latency, and those of which it is said why they have none."""
        pair = net()['pairs'][:1]
        if not pair:
            return 0, None
        port = [p for p in pair[0]['ports'] if p['port'] == PORT]
        known = sum(port[0][way]['total'] for way in ('there', 'back')) if port else 0
        return known + sum(n for cause, n in pair[0]['causes'].items() if cause != 'ack_unmatched'), pair[0]
    ask()
    wait_until(lambda: told()[0] >= SEGMENTS, lambda: f'{net()}', collector)
    n, pair = told()
    port = next(p for p in pair['ports'] if p['port'] == PORT)
    known = port['there']['total'] + port['back']['total']
    print(f"ok   {known} of {SEGMENTS} segments, bound {pair['clock'].get('bound', 0) * 1e6:.1f} us, both ways "
          f"{(port['both']['p50'] or 0) * 1e6:.1f} us; {pair['causes']}")
    # The kernel leaves out a call now and then: what has no latency then has a cause.
    if n != SEGMENTS or known < 0.95 * SEGMENTS or port['there']['negative_total'] or port['back']['negative_total']:
        fail(f'{n} segments: {pair}', collector)
    # Both have one clock.
    if not pair['clock']['known'] or abs(pair['clock']['offset']) > pair['clock']['bound']:
        fail(f'{pair["clock"]}', collector)
    if (pair['a']['host'], pair['b']['host']) != ('client', 'server'):
        fail(f'{pair}', collector)

    # One view of the whole way: in the order of time, and the server's own time is what it is known to be at least.
    trips = wait_until(lambda: next(p for p in told()[1]['ports'] if p['port'] == PORT)['trips'],
                       lambda: f'{net()}', collector, seconds=30)
    parts = {p['part']: p for p in trips[0]['parts']}
    if len(trips) != 1 or trips[0]['client'] != 'a' or len(parts) != 15 or \
            list(parts)[3:5] != ['wire_there', 'server_mac_in'] or \
            any(not p['count'] for p in parts.values()) or not parts['server_app']['mean'] >= WORK or \
            not trips[0]['mean'] >= sum(p['mean'] for p in parts.values()) - 1e-9:
        fail(f'{trips}', collector)

    # Prometheus has the same.
    def exposed():
        text = get(f'http://{address}/metrics')
        found = {}
        for name, labels, value in series(text):
            key = labels.get('source'), labels.get('port'), labels.get('result'), labels.get('host')
            if name.startswith('sidelight_net_'):
                found[name[14:], *key] = value
        return found
    e, p = exposed(), next(p for p in told()[1]['ports'] if p['port'] == PORT)
    for source, way in ('client', 'there'), ('server', 'back'):
        if e['latency_nanoseconds_count', source, str(PORT), None, None] != p[way]['total'] or \
                e['negative_total', source, str(PORT), None, None] or \
                e['segments_total', source, None, 'sent', None] < REQUESTS:
            fail(f'{e}', collector)
    if e['round_trip_nanoseconds_count', None, str(PORT), None, 'client'] != p['both']['total'] or \
            ('clock_bound_seconds', None, None, None, 'client') not in e:
        fail(f'{e}', collector)

    # An agent dies: the pair is stale; another one: on it goes, and the sums with it.
    first.p.kill()
    first.p.wait(60)
    wait_until(lambda: told()[1]['stale'], 'the pair is stale', collector, seconds=30)
    second = agent(folder, 'server', server.pid)
    wait_until(lambda: not told()[1]['stale'], 'the new ring is read', collector)
    before = next(p for p in told()[1]['ports'] if p['port'] == PORT)['there']['total']
    ask()

    def grown():
        p = next(p for p in told()[1]['ports'] if p['port'] == PORT)
        return p['there']['total'] >= before + 0.95 * (REQUESTS + 2)
    wait_until(grown, lambda: f'{net()}', collector)
    for part in (collector, client, second):
        if part.stop():
            fail(f'{part} failed', part)
print('ok')
