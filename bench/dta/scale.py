#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the figures of one core become with a real adapter: the tables of docs/dta.md ("At 100 and 400
Gb/s"), as Markdown.

    scale.py               print both tables
    scale.py --check FILE  exit 1 unless FILE has every line of them

The first is arithmetic: bytes on the wire, and what an adapter can take. The second is a simulation of
10,000 reporters whose bursts meet in front of one translator. Nothing here was measured.
"""
import argparse
import heapq
import math
import random
import sys

# Bytes around a frame's payload: preamble 8, Ethernet 14, FCS 4, the gap between frames 12.
FRAME = 38
IPV4, UDP = 20, 8
ROCE = FRAME + IPV4 + UDP + 12 + 4      # base transport header, invariant CRC
WRITE, ADD = ROCE + 16, ROCE + 28       # RETH, AtomicETH
HEADER, BLOCK = 32, 12                  # our packet (docs/dta-wire.md)
MTU = 1500
# NVIDIA's manual of the ConnectX-6: 215 million messages per second. Newer adapters do more.
MESSAGES = 215e6


def pad(n, to=8):
    return -(-n // to) * to


# name, bytes of a report (key and value), payload of one operation, reports in it, operations a report
PRIMITIVES = [
    ('Key-Write, 13-byte key, 8-byte value, N=1', 21, 8 + 8, 1, 1, WRITE),
    ('the same, N=2', 21, 8 + 8, 1, 2, WRITE),
    ('Append, 8 bytes, batch 16', 12, 16 * 8 + 8, 16, 1, WRITE),
    ('Append, 4 bytes, batch 64', 8, 64 * 4 + 8, 64, 1, WRITE),
    ('Postcard, 13-byte key, 5 hops, N=1', 21, pad(8 + 8 + 4 + 4 * 5), 5, 1, WRITE),
    ('Key-Increment, 13-byte key, N=2', 21, 0, 1, 2, ADD),
]


def packed(size):
    """Reports of that size per packet of the MTU, and the bytes of the packet on the wire."""
    n = (MTU - IPV4 - UDP - HEADER - BLOCK) // size
    return n, FRAME + IPV4 + UDP + HEADER + BLOCK + n * size


def si(x):
    return f'{x / 1e9:.2f} G' if x >= 999.5e6 else f'{x / 1e6:.0f} M'


def arithmetic():
    rows = []
    for name, size, payload, reports, copies, around in PRIMITIVES:
        n, wire = packed(size)
        single = max(64 + 20, FRAME + IPV4 + UDP + HEADER + BLOCK + size)
        out = around + pad(payload, 4)
        for gbit in (100, 400):
            rate = gbit * 1e9 / 8
            limits = {
                'packets in': rate / wire * n,
                'link out': rate / out * reports / copies,
                'messages of the adapter': MESSAGES * reports / copies,
            }
            least = min(limits, key=limits.get)
            rows.append(f'| {name} | {gbit} | {si(rate / single)} | {si(limits["packets in"])} ({n}) | '
                        f'{si(limits["link out"])} | {si(limits["messages of the adapter"])} | '
                        f'**{si(limits[least])}**, {least} |')
    return ['| primitive | Gb/s | in: one per packet | in: packed (per packet) | out: link | out: adapter | reports/s |',
            '|---|---|---|---|---|---|---|'] + rows


def simulate(load, buffer_bytes, gbit=100, reporters=10000, seconds=0.15, essential=0.1, seed=1):
    """Packets of the MTU in bursts, from ports of 10 Gb/s, into one queue that is served at line rate.
    Essential ones that are lost come again 2, 4, 8 ... ms later, five times at most. Returns the share
    lost on the way, and the share of the essential that is lost for good."""
    rng = random.Random(seed)
    slot = 10e-6
    served = gbit * 1e9 / 8 * slot
    _, wire = packed(21)
    burst = 64                                        # packets: one flush of a reporter's tables
    a_slot = max(1, round(10e9 / 8 * slot / wire))    # packets of one port
    rate = load * served / (burst * wire)             # bursts a slot, of all reporters together
    # A reporter sends at most one burst at a time: what waits at its port does not come at once.
    ports = [0] * reporters
    active, again = set(), []
    queue = 0.0
    sent = lost = sent_essential = gone = 0

    def arrives(tries, now):
        nonlocal queue, lost, gone
        if queue + wire <= buffer_bytes:
            queue += wire
        elif tries < 0:
            lost += 1
        else:
            lost += tries == 0
            if tries == 5:
                gone += 1
            else:
                heapq.heappush(again, (now + (0.002 * 2 ** tries) / slot, tries + 1))

    for now in range(int(seconds / slot)):
        k = 0                                         # Knuth's way to a Poisson number
        limit, product = math.exp(-rate), rng.random()
        while product > limit:
            k, product = k + 1, product * rng.random()
        for _ in range(k):
            port = rng.randrange(reporters)
            ports[port] += burst
            active.add(port)
        queue = max(0.0, queue - served)
        while again and again[0][0] <= now:
            arrives(heapq.heappop(again)[1], now)
        for port in sorted(active):
            n = min(a_slot, ports[port])
            ports[port] -= n
            if not ports[port]:
                active.discard(port)
            for _ in range(n):
                sent += 1
                kept = rng.random() < essential
                sent_essential += kept
                arrives(0 if kept else -1, now)
    return lost / sent, gone / max(sent_essential, 1)


def simulation():
    rows = ['| load of the link | buffer of the switch | lost | essential, lost for good |',
            '|---|---|---|---|']
    for load in (0.7, 0.9, 1.1):
        for megabytes in (0.25, 1, 16):
            lost, gone = simulate(load, megabytes * 1e6)
            rows.append(f'| {load:.1f} | {megabytes} MB | {lost:.3%} | {gone:.3%} |')
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--check', metavar='FILE')
    args = parser.parse_args()
    lines = [*arithmetic(), '', *simulation()]
    if not args.check:
        print('\n'.join(lines))
        return 0
    with open(args.check) as f:
        there = set(f.read().splitlines())
    missing = [line for line in lines if line not in there]
    for line in missing:
        print(f'{args.check} has no line: {line}')
    return bool(missing)


if __name__ == '__main__':
    sys.exit(main())
