# SPDX-License-Identifier: Apache-2.0
"""10,000 connections opened and closed: both ends of each are seen once, with final values exact to
the byte, and every slot is freed."""
import socket
import sys
import threading

from support import flows
from support.flows import Flows, needs_bpf
from support.process import fail, wait_until

COUNT = int(float(sys.argv[2]) if len(sys.argv) > 2 else 10000)


def serve(listener):
    for _ in range(COUNT):
        c = listener.accept()[0]
        n = 0
        while True:
            got = c.recv(4096)
            if not got:
                break
            n += len(got)
        c.sendall(b'r' * (n * 2))
        c.close()


needs_bpf()
flows.own_network()
watch = Flows('--new', '--closed', '--flows', '65536')
listener = socket.socket()
listener.bind(('127.0.0.1', 1500))
listener.listen(64)
port = 1500
server = threading.Thread(target=serve, args=(listener,))
server.start()
sizes = {}
for i in range(COUNT):
    c = socket.socket()
    c.bind(('127.0.0.1', 2000 + i))  # each port once: nothing else tells one connection from another
    c.connect(('127.0.0.1', port))
    sizes[2000 + i] = size = i % 89 + 1
    c.sendall(b'q' * size)
    c.shutdown(socket.SHUT_WR)
    while c.recv(4096):
        pass
    c.close()
server.join()
listener.close()
def all_seen():
    """All except connections whose opening the kernel left out, and those that ended between two looks; both are counted."""
    watch.update()
    return watch.table and len(watch.seen) >= 2 * COUNT + 1 - watch.table['missed'] - watch.table['unseen']


wait_until(all_seen, lambda: f'{len(watch.seen)} of {2 * COUNT + 1}', watch.part)
seen, table = watch.end()
ends = {}
for f in seen.values():
    if 'listener' in f['flags']:
        continue
    key = (f['local_port'], f['remote_port'])
    if key in ends:
        fail(f'{key} is there twice')
    ends[key] = f
left_out = []
for p, size in sizes.items():
    for key, wrote, read in (((p, port), size, 2 * size), ((port, p), 2 * size, size)):
        f = ends.get(key)
        if not f:
            left_out.append(key)
            continue
        if (f['write_bytes'], f['read_bytes'], f['closed'], f['state']) != (wrote, read, True, 'CLOSE'):
            fail(f'{key}: not {wrote} and {read}: {f}')
        if not f['handshake_us'] or not f['rtt_count']:
            fail(f'{key} has no handshake: {f}')
if table['refused'] or table['open']:
    fail(f'{table}')
if len(left_out) > table['missed'] + table['unseen']:
    fail(f'{len(left_out)} were never seen: {left_out[:5]}')
if table['journal'] != 2 * (len(seen) + table['unseen']):
    fail(f'the journal has {table["journal"]} lines, not an opening and a closing for each')
print(f'ok   {COUNT} connections, both ends, to the byte; {table}')
