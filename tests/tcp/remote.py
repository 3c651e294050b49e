# SPDX-License-Identifier: Apache-2.0
"""The two ends of tests/guest/kernel.sh: connections on one host, and on the other the tables of them that
'sidelight dump' READs over RDMA.

  remote.py EXE rest OUT            opens connections, prints their TCP_INFO, and holds them until they were read
  remote.py EXE churn OUT N         N connections, one after the other
  remote.py EXE compare OUT HOST DEVICE
  remote.py EXE follow OUT HOST DEVICE N"""
import json
import os
import socket
import subprocess
import sys
import threading
import time

from support.flows import SAME, name_of, receive, tcp_info
from support.process import fail, wait_until

EXE, VERB, OUT, *REST = sys.argv[1:]
PORT = 1500


def tell(name, what=''):
    with open(f'{OUT}/{name}.part', 'w') as f:
        f.write(what + '\n')
    os.rename(f'{OUT}/{name}.part', f'{OUT}/{name}')


def heard(name):
    return os.path.exists(f'{OUT}/{name}')


def statistics(sock):
    """Returns the statistics, without times since an event, which change all the time."""
    info = tcp_info(sock)
    return {theirs: info[theirs] for theirs in SAME.values() if theirs in info}


def rest():
    listener = socket.create_server(('127.0.0.1', 0))
    kept = []
    for i in range(40):
        client = socket.create_connection(listener.getsockname())
        server = listener.accept()[0]
        for _ in range(i % 5 + 1):
            client.sendall(b'q' * (i * 700 + 1))
            receive(server, i * 700 + 1)
            server.sendall(b'r' * (i + 1))
            receive(client, i + 1)
        kept += [client, server]
    settled = None
    while True:  # delayed acknowledgements are on their way for up to 40 ms and more
        now = [statistics(s) for s in kept]
        if now == settled:
            break
        settled = now
        time.sleep(1)
    tell('rest', json.dumps([[*name_of(s), info] for s, info in zip(kept, settled)]))
    wait_until(lambda: heard('rest-read'), 'the reader', seconds=120)
    if [statistics(s) for s in kept] != settled:
        fail('the connections were not at rest')


def size(i):
    return i % 89 + 1


def churn(count):
    def serve():
        for _ in range(count):
            c = listener.accept()[0]
            n = 0
            while got := c.recv(4096):
                n += len(got)
            c.sendall(b'r' * (n * 2))
            c.close()
    wait_until(lambda: heard('following'), 'the reader', seconds=120)
    listener = socket.create_server(('127.0.0.1', PORT))
    server = threading.Thread(target=serve)
    server.start()
    start = time.monotonic()
    for i in range(count):
        c = socket.socket()
        c.bind(('127.0.0.1', 2000 + i))
        c.connect(('127.0.0.1', PORT))
        c.sendall(b'q' * size(i))
        c.shutdown(socket.SHUT_WR)
        while c.recv(4096):
            pass
        c.close()
    server.join()
    tell('churned', f'{time.monotonic() - start}')


def dump(host, device):
    p = subprocess.run([EXE, 'dump', '--agent', host, '--dev', device, '--kind', 'flows', '--json'], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    if p.returncode:
        fail(p.stderr)
    rows = [json.loads(line) for line in p.stdout.splitlines()]
    return rows[0]['region'], [r for r in rows if 'local' in r], rows[-1]['read']


def compare(host, device):
    wait_until(lambda: heard('rest'), 'the connections', seconds=120)
    with open(f'{OUT}/rest') as f:
        truth = json.load(f)
    bad = []

    def agrees():
        flows = {(f['local'], f['local_port'], f['remote'], f['remote_port']): f for f in dump(host, device)[1]}
        bad.clear()
        for local, remote, info in truth:
            f = flows.get((*local, *remote))
            bad.extend([f'{local} {remote} is not there'] if not f else
                       [f'{local}: {ours} is {f[ours]}, TCP_INFO says {info[theirs]}'
                        for ours, theirs in SAME.items() if theirs in info and f[ours] != info[theirs]])
        return not bad
    wait_until(agrees, lambda: '; '.join(bad[:5]))
    tell('rest-read')
    print(f'= {len(truth)} ends of connections at rest, {len([n for n in SAME.values() if n in truth[0][2]])} '
          'statistics of each equal to TCP_INFO')


def follow(host, device, count):
    seen, dumps, last, gap = {}, 0, time.monotonic(), 0
    tell('following')
    more = 3
    while more:
        more -= heard('churned')
        region, flows, read = dump(host, device)
        dumps += 1
        now = time.monotonic()
        last, gap = now, max(gap, now - last)
        for f in flows:
            if f['closed'] and PORT in (f['local_port'], f['remote_port']) and 'listener' not in f['flags']:
                seen[f['local_port'], f['remote_port']] = f
        if read['unsettled'] or region['refused']:
            fail(f'{region} {read}')
    wrong = []
    for i in range(count):
        p, n = 2000 + i, size(i)
        for key, wrote, took in (((p, PORT), n, 2 * n), ((PORT, p), 2 * n, n)):
            f = seen.get(key)
            if not f or (f['write_bytes'], f['read_bytes'], f['state']) != (wrote, took, 'CLOSE'):
                wrong.append((key, f and (f['write_bytes'], f['read_bytes'], f['state'])))
    if wrong:
        fail(f'{len(wrong)} of {2 * count} were not seen with their last values: {wrong[:5]}; '
             f'{dumps} dumps, at most {gap:.1f} s apart, quarantine {region["quarantine_ns"] / 1e9} s')
    with open(f'{OUT}/churned') as f:
        print(f'= {count} connections in {float(f.read()):.0f} s: both ends seen closed with their last values, '
              f'in {dumps} dumps at most {gap:.1f} s apart')


{'rest': rest, 'churn': lambda n: churn(int(n)), 'compare': compare,
 'follow': lambda h, d, n: follow(h, d, int(n))}[VERB](*REST)
