# SPDX-License-Identifier: Apache-2.0
"""Holds the results of 'sidelight tcp net' about segments between two guests against the truth: the offset of the
clocks by memory that both share (clock_truth.c), and captures on both ends.

The latency of a segment lies between two stamps. Its truth is the same two stamps less the offset of the clocks. Each stamp
must lie where the capture on that host has the segment: tcpdump's taps are behind it on the way in, and before it on
the way out. So the capture tells which segment it was, and that the stamp is of its passing; the time between stamp and
tap, up to a millisecond under emulation, is reported beside it.

    net_judge.py SIDELIGHT DIR NAME LEAST [RESULTS]

files in DIR: clock (lines of 'clock_truth ask'), epoch.0, epoch.1; NAME.0.pcap, NAME.1.pcap; and NAME.json, the live
output of 'tcp net --json --segments', or NAME.0.rec and NAME.1.rec. At least LEAST segments must be judged."""
import bisect
import collections
import json
import os
import struct
import subprocess
import sys

from support.process import fail

EXE, DIR, NAME, LEAST, RESULTS = (sys.argv[1:] + [None])[:5]


def line(name):
    with open(f'{DIR}/{name}') as f:
        return f.read()


def packets(path, epoch):
    """(from port, to port, seq, bytes) -> times, CLOCK_MONOTONIC ns."""
    with open(path, 'rb') as f:
        data = f.read()
    if data[:4] != b'\x4d\x3c\xb2\xa1':
        fail(f'{path}: not in nanoseconds')
    at, found = 24, collections.defaultdict(list)
    while at + 16 <= len(data):
        s, ns, caplen, _ = struct.unpack_from('<IIII', data, at)
        p = data[at + 16:at + 16 + caplen]
        at += 16 + caplen
        head = 14 + (p[14] & 15) * 4
        source, to, seq = struct.unpack_from('>HHI', p, head)
        size = struct.unpack_from('>H', p, 16)[0] - (p[14] & 15) * 4 - (p[head + 12] >> 4) * 4
        if size > 0:
            found[source, to, seq, size].append(s * 10**9 + ns - epoch)
    return found


class Truth:
    """theta = clock 1 - clock 0, between two measurements, and the bound of its error: from the measurements' own bounds, and
    from the deviation of adjacent ones from a straight line, because the rate changes."""

    def __init__(self, asked):
        self.asked = sorted(asked)
        self.times = [at for at, _, _ in self.asked]
        self.off = [0] * len(self.asked)
        for i in range(1, len(self.asked) - 1):
            (a, low, _), (at, theta, _), (b, high, _) = self.asked[i - 1:i + 2]
            self.off[i] = abs(low + (high - low) * (at - a) / (b - a) - theta)

    def at(self, x):
        """Returns (theta, bound of its error), or None if nothing was measured around that time."""
        i = bisect.bisect_left(self.times, x)
        if not 2 <= i < len(self.times) - 1 or self.times[i] - self.times[i - 1] > GAP_NS:
            return None
        (a, theta, one), (b, end, other) = self.asked[i - 1:i + 1]
        return theta + (end - theta) * (x - a) / (b - a), max(one, other) + max(self.off[i - 1:i + 1])

    def skew_ppm(self):
        (a, theta, _), (b, end, _) = self.asked[0], self.asked[-1]
        return (end - theta) / (b - a) * 1e6


wire = [packets(f'{DIR}/{NAME}.{end}.pcap', int(line(f'epoch.{end}'))) for end in (0, 1)]
if os.path.exists(f'{DIR}/{NAME}.json'):
    out = line(f'{NAME}.json')
else:
    out = subprocess.run([EXE, 'tcp', 'net', '--json', '--segments', f'{DIR}/{NAME}.0.rec', f'{DIR}/{NAME}.1.rec'],
                         check=True, text=True, stdout=subprocess.PIPE).stdout
rows = [json.loads(row) for row in out.splitlines()]
totals = [r for r in rows if r['row'] == 'totals'][-1]
stated = sorted(s['bound_ns'] for s in rows if s['row'] == 'segment')
if not stated:
    fail(f'no segment: {totals}')
# If a measurement was interrupted, as on a busy machine, it proves nothing. With wide bounds, more may be missing.
WIDE = stated[len(stated) // 2] >= 1_000_000
GOOD_NS, GAP_NS = (stated[len(stated) // 2] // 8, 3_000_000_000) if WIDE else (20_000, 500_000_000)
truth = Truth([row for row in (tuple(map(int, r.split())) for r in line('clock').splitlines()) if row[2] <= GOOD_NS])
bounds, errors, unsure, taps, stray, untold = [], [], [], [], 0, 0
for s in rows:
    if s['row'] != 'segment' or not s['bytes']:
        continue
    back = s['way'] == 'back'
    key = s['from_port'], s['to_port'], s['seq'], s['bytes']
    left, came = wire[back].get(key, ()), wire[not back].get(key, ())
    if len(left) != 1 or len(came) != 1:
        continue  # sent again, or merged: the capture can't tell
    known = truth.at(s['in_ns'] if back else s['out_ns'])
    if not known:
        untold += 1
        continue
    theta = known[0]
    stray += not left[0] <= s['out_ns'] or not s['in_ns'] <= came[0]
    ahead = s['in_ns'] - s['out_ns']
    took = ahead + theta if back else ahead - theta
    errors.append(abs(s['latency_ns'] - took))
    bounds.append(s['bound_ns'])
    unsure.append(known[1])
    taps.append(s['out_ns'] - left[0] + came[0] - s['in_ns'])
judged = len(errors)
if judged < int(LEAST) <= judged + untold:
    print(f'SKIP: {NAME}: the CPUs of both guests hardly ever ran at the same time: of {judged + untold} segments only '
          f'{judged} passed when it was known how far the clocks are apart')
    sys.exit(0)
if judged < int(LEAST):
    fail(f'{judged} segments could be judged: {totals}')
strict = sum(e <= b for e, b in zip(errors, bounds))
within = sum(e <= b + u for e, b, u in zip(errors, bounds, unsure))
by_tap = sum(e + tap <= b for e, b, tap in zip(errors, bounds, taps))


def quantile(values, q):
    return sorted(values)[min(int(len(values) * q), len(values) - 1)] / 1000


def median(values):
    return quantile(values, 0.5)


clock = totals['clock']
conditions = (f'{NAME}: {judged} segments between two guests, qemu tcg; median error {median(errors):.0f} us, worst '
              f'{max(errors) / 1000:.0f} us; stated bound: median {median(bounds):.0f} us, 95 % up to '
              f'{quantile(bounds, 0.95):.0f} us; truth: the other clock, '
              f'asked {len(truth.asked)} times by shared memory, within {median(unsure):.1f} us (median), and '
              f"captures on both ends, whose taps are {median(taps):.0f} us further apart (median); with these "
              f'as part of the error {by_tap / judged:.2%} are within; skew {truth.skew_ppm():.1f} ppm, said '
              f'{clock["skew_low_ppm"]:.1f} to {clock["skew_high_ppm"]:.1f}')
print(f'= {strict / judged:.2%} of the latencies within the stated bound; {conditions}', flush=True)
print(f'     {totals}')
if RESULTS:
    with open(RESULTS, 'a') as f:
        f.write(json.dumps({'name': 'tcp.clock' + ('' if NAME == 'plain' else '.' + NAME), 'value': strict / judged,
                            'unit': 'share within the bound', 'conditions': conditions}) + '\n')
if stray:
    fail(f'{stray} of {judged} stamps are not where the captures have the segment')
if within / judged < 0.99:
    fail(f'{within} of {judged} within the bound')
