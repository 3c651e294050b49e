#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_net.py SIDELIGHT - latency between two hosts, as a collector exposes it: two network namespaces that share a
clock, with an agent each. Every segment counts once, the offset of the clocks is within its bound, and the whole way of
a request is there from call to copy."""
import os
import socket
import sys

from support import flows
from support.exposition import series
from support.flows import needs_bpf
from support.process import Part, case, check, fail, run, run_cases, wait_until
from support.sidelight import Agent, Collector

PORT, REQUESTS, WORK = 1600, 300, 0.002
SEGMENTS = 2 * (REQUESTS + 2)  # in each direction: a segment per request, a SYN and a FIN
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


def agent(name, pid, folder=None):
    return Agent('--hostname', name, '--tcp', 'layers,net', '--tcp-dev', 'sl0', '--netns', f'/proc/{pid}/ns/net', folder=folder)


def ask():
    with socket.create_connection(('10.96.0.2', PORT)) as c:
        c.settimeout(300)
        for _ in range(REQUESTS):
            c.sendall(b'question')
            if c.recv(100) != b'answer':
                fail('no answer')
    return 2 * (REQUESTS + 2)


def net():
    return collector.api('net')


def told():
    """Waits for the segments with a latency, and for those with a known cause of having none."""
    pair = net()['pairs'][:1]
    if not pair:
        return 0, None
    port = [p for p in pair[0]['ports'] if p['port'] == PORT]
    known = sum(port[0][way]['total'] for way in ('there', 'back')) if port else 0
    return known + sum(n for cause, n in pair[0]['causes'].items() if cause != 'ack_unmatched'), pair[0]


@case
def every_segment_counts_once():
    wait_until(lambda: told()[0] >= SEGMENTS, lambda: f'{net()}', collector)
    n, pair = told()
    port = next(p for p in pair['ports'] if p['port'] == PORT)
    known = port['there']['total'] + port['back']['total']
    print(f"ok   {known} of {SEGMENTS} segments, bound {pair['clock'].get('bound', 0) * 1e6:.1f} us, both ways "
          f"{(port['both']['p50'] or 0) * 1e6:.1f} us; {pair['causes']}")
    # The kernel sometimes skips a call. A segment without latency then has a cause.
    if n != SEGMENTS or known < 0.95 * SEGMENTS or port['there']['negative_total'] or port['back']['negative_total']:
        fail(f'{n} segments: {pair}', collector)
    # Both hosts have the same clock.
    if not pair['clock']['known'] or abs(pair['clock']['offset']) > pair['clock']['bound']:
        fail(f'{pair["clock"]}', collector)
    if (pair['a']['host'], pair['b']['host']) != ('client', 'server'):
        fail(f'{pair}', collector)


@case
def the_whole_path_of_a_request_is_in_order():
    trips = wait_until(lambda: next(p for p in told()[1]['ports'] if p['port'] == PORT)['trips'],
                       lambda: f'{net()}', collector, seconds=30)
    parts = {p['part']: p for p in trips[0]['parts']}
    if len(trips) != 1 or trips[0]['client'] != 'a' or len(parts) != 15 or \
            list(parts)[3:5] != ['wire_there', 'server_mac_in'] or \
            any(not p['count'] for p in parts.values()) or not parts['server_app']['mean'] >= WORK or \
            not trips[0]['mean'] >= sum(p['mean'] for p in parts.values()) - 1e-9:
        fail(f'{trips}', collector)


@case
def prometheus_gets_the_same():
    def exposed():
        text = collector.get('/metrics')
        found = {}
        for name, labels, value in series(text):
            key = labels.get('source'), labels.get('port'), labels.get('result'), labels.get('host')
            if name.startswith('sidelight_net_'):
                found[name[14:], *key] = value
        return found
    e, p = exposed(), next(p for p in told()[1]['ports'] if p['port'] == PORT)
    for source, way in ('client', 'there'), ('server', 'back'):
        if e['latency_seconds_count', source, str(PORT), None, None] != p[way]['total'] or \
                e['negative_total', source, str(PORT), None, None] or \
                e['segments_total', source, None, 'sent', None] < REQUESTS:
            fail(f'{e}', collector)
    if e['round_trip_seconds_count', None, str(PORT), None, 'client'] != p['both']['total'] or \
            ('clock_bound_seconds', None, None, None, 'client') not in e:
        fail(f'{e}', collector)


@case
def a_dead_agent_leaves_a_stale_pair_that_another_continues():
    global first
    first.kill()
    wait_until(lambda: told()[1]['stale'], 'the pair is stale', collector, seconds=30)
    first = agent('server', server.pid, first.folder)
    wait_until(lambda: not told()[1]['stale'], 'the new ring is read', collector)
    before = next(p for p in told()[1]['ports'] if p['port'] == PORT)['there']['total']
    ask()

    def grown():
        p = next(p for p in told()[1]['ports'] if p['port'] == PORT)
        return p['there']['total'] >= before + 0.95 * (REQUESTS + 2)
    wait_until(grown, lambda: f'{net()}', collector)


needs_bpf()
flows.own_network()
server = Part('unshare', '--net', sys.executable, '-c', SERVER)
server.ready()
there = ('nsenter', f'--net=/proc/{server.pid}/ns/net')
run('ip', 'link', 'add', 'sl0', 'type', 'veth', 'peer', 'name', 'sl0', 'netns', server.pid)
for at, n in ((), 1), (there, 2):
    run(*at, 'ip', 'addr', 'add', f'10.96.0.{n}/24', 'dev', 'sl0')
    run(*at, 'ip', 'link', 'set', 'sl0', 'up')
client = agent('client', os.getpid())
first = agent('server', server.pid)
collector = Collector([client, first], '--tcp-period', '100ms', '--period', '50ms')
wait_until(lambda: len(net()['hosts']) == 2 and all(h['present'] for h in net()['hosts']),
           'both rings are read', collector, seconds=30)
ask()
run_cases()
for part in (collector, client, first):
    check(part.stop() == 0, 'it failed', part)
