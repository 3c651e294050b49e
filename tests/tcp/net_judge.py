# SPDX-License-Identifier: Apache-2.0
"""Holds what 'sidelight tcp net' says of the segments between two guests against the truth: the clocks' offset by
memory that both share (clock_truth.c), with the programs' own stamps, and with those of tcpdump on both
ends. tcpdump stamps elsewhere in the stack: under emulation that alone may be a millisecond.

    net_judge.py SIDELIGHT CLOCK_TRUTH DIR [RESULTS]   files in DIR: NAME.0.rec, NAME.0.pcap, NAME.0.clock, ...
"""
import bisect
import collections
import json
import struct
import subprocess
import sys

EXE, TRUTH, DIR, RESULTS = (sys.argv[1:] + [None])[:4]


def fail(why):
    print(f'FAILED: {why}')
    sys.exit(1)


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


def judge(name):
    paths = {(end, kind): f'{DIR}/{name}.{end}.{kind}' for end in (0, 1)
             for kind in ('rec', 'pcap', 'clock')}
    out = subprocess.run([TRUTH, 'fit', f'{DIR}/clock.0', f'{DIR}/clock.1'], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    truth = [tuple(map(int, line.split())) for line in out.splitlines()]
    times = [t[0] for t in truth]
    epochs = []
    for end in (0, 1):
        with open(f'{DIR}/clock.{end}') as f:
            epochs.append(int(f.readline()))
    wire = [packets(paths[end, 'pcap'], epochs[end]) for end in (0, 1)]
    out = subprocess.run([EXE, 'tcp', 'net', '--json', '--segments', paths[0, 'rec'], paths[1, 'rec']],
                         check=True, text=True, stdout=subprocess.PIPE).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    totals = next(r for r in rows if r['row'] == 'totals')
    judged = within = strict = captured = 0
    bounds, errors, own, apart = [], [], [], []
    for s in rows:
        if s['row'] != 'segment' or not s['bytes']:
            continue
        back = s['way'] == 'back'
        key = s['from_port'], s['to_port'], s['seq'], s['bytes']
        left, came = wire[back].get(key, ()), wire[not back].get(key, ())
        if len(left) != 1 or len(came) != 1:
            continue  # sent again, or merged: the capture can't tell
        a, b = (came[0], left[0]) if back else (left[0], came[0])
        i = bisect.bisect_left(times, a)
        if not 0 < i < len(times) or times[i] - times[i - 1] > 20_000_000:
            continue
        w = (a - times[i - 1]) / (times[i] - times[i - 1])
        theta = truth[i - 1][1] + w * (truth[i][1] - truth[i - 1][1])
        unsure = max(truth[i - 1][2], truth[i][2])
        took = (theta - (b - a)) if back else (b - a - theta)
        apart.append(abs(s['latency_ns'] - took))
        captured += apart[-1] <= s['bound_ns']
        # The same by the stamps that were taken: what is left is the clocks' error.
        raw = s['in_ns'] - s['out_ns']
        error = abs(s['latency_ns'] - (raw + theta if back else raw - theta))
        judged += 1
        strict += error <= s['bound_ns']
        within += error <= s['bound_ns'] + unsure
        errors.append(error)
        bounds.append(s['bound_ns'])
        own.append(unsure)
    if judged < 400:
        fail(f'{name}: {judged} segments could be judged: {totals}')
    bounds.sort()
    errors.sort()
    own.sort()
    apart.sort()
    share = strict / judged
    conditions = (f'{name}: {judged} segments between two guests on one machine, qemu tcg; median error '
                  f'{errors[judged // 2] / 1000:.0f} us, worst {errors[-1] / 1000:.0f} us; stated bound: median '
                  f'{bounds[judged // 2] / 1000:.0f} us; truth: clocks by shared '
                  f'memory within {own[judged // 2] / 1000:.1f} us (median); by the stamps of tcpdump on both ends {captured / judged:.2%} are within '
                  f'it, median error {apart[judged // 2] / 1000:.0f} us; '
                  f'skew said {totals["clock"]["skew_low_ppm"]:.1f} to '
                  f'{totals["clock"]["skew_high_ppm"]:.1f} ppm')
    print(f'ok   {share:.4%} of the latencies within the stated bound; {conditions}', flush=True)
    print(f"     {totals}")
    if RESULTS:
        with open(RESULTS, 'a') as f:
            f.write(json.dumps({'name': 'tcp.clock' + ('' if name == 'plain' else '.' + name), 'value': share, 'unit': 'share within the bound',
                                'conditions': conditions}) + '\n')
    if within / judged < 0.99:
        fail(f'{name}: {within} of {judged}')


for what in ('plain', 'slow'):
    judge(what)
