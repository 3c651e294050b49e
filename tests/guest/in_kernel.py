# SPDX-License-Identifier: Apache-2.0
"""in_kernel.py merge INTERFACE: GRO there, so that it takes the frames of XDP. in_kernel.py check COUNT ACCOUNT EXPECTED...:
the collector on this host has what the generators recorded (--expect), and all of it came by the translator in the kernel."""
import ctypes
import fcntl
import json
import socket
import struct
import subprocess
import sys


def merge(interface):
    value = ctypes.create_string_buffer(struct.pack('II', 0x2c, 1))  # ETHTOOL_SGRO
    with socket.socket() as s:
        fcntl.ioctl(s, 0x8946, struct.pack('16sP16x', interface.encode(), ctypes.addressof(value)))


def ask(kind, store, *rest):
    for _ in range(6):
        out = subprocess.run(['sidelight', 'query', kind, store, *rest, '--json'], stdout=subprocess.PIPE, text=True)
        if out.stdout:
            return [json.loads(line) for line in out.stdout.splitlines()]
    sys.exit(f'FAIL: query {kind} {store}: no answer')


def compare(count, account, *files):
    want = {'keywrite': [], 'append': [], 'increment': []}
    for name in files:
        with open(name) as f:
            for kind, *rest in map(str.split, f):
                want[kind].append(rest)
    with open(account) as f:
        a = json.loads(f.read().splitlines()[-1])
    engine, output, loss = a['engine'], a['output'], a['loss']
    print('=', {k: v for k, v in {**a, **engine, **output, **loss}.items() if v and not isinstance(v, dict)})
    assert a['kernel_frames'] == 3 * count == engine['stored'] == loss['arrived'] == a['reports'], 'not by the kernel'
    assert output['completed'] == 3 * count and not output['failed'] + output['unconfirmed'], 'not all complete'
    keys = [key for key, _ in want['keywrite']]
    said = [s for i in range(0, len(keys), 1000) for s in ask('keywrite', 'flows', *keys[i:i + 1000])]
    wrong = [(w, s) for w, s in zip(want['keywrite'], said) if s['result'] != 'empty' and s['value'] != w[1]]
    gone = sum(s['result'] == 'empty' for s in said)
    assert len(said) == count and not wrong and gone <= 4, f'key-write: {wrong[:1]}, {gone} overwritten'
    keys = [key for key, _ in want['increment']]
    said = [s for i in range(0, len(keys), 1000) for s in ask('increment', 'bytes', *keys[i:i + 1000])]
    more = [int(s['value']) - int(w[1]) for w, s in zip(want['increment'], said)]
    assert len(more) == count and min(more) == 0 and sum(m > 0 for m in more) <= 8, f'increment: {sorted(more)[-9:]}'
    items = [int(i, 16) for answer in ask('append', 'events', '--max', '4096') for r in answer['rings'] for i in r['items']]
    assert items == list(range(count)), f'append: {len(items)} items'
    print('= key-writes', len(said) - gone, 'of', count, 'stand; items', len(items), 'in order; sum of counts exact for',
          sum(m == 0 for m in more), 'keys of', count)


if sys.argv[1] == 'merge':
    merge(sys.argv[2])
else:
    compare(int(sys.argv[2]), *sys.argv[3:])
