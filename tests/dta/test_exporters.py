#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_exporters.py READER - datagrams as devices send them become the records that their fields say, or are refused with
a cause. devices/NAME.hex has a datagram per line ('@N' before it: the N-th source port), devices/NAME.json the records;
exporters.py makes more of them, by device."""
import json
import os
import re
import subprocess
import sys

import exporters

READER = sys.argv[1]
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'devices')


def read(kind, datagrams):
    """The records of [(port, bytes)], and how many were refused by cause."""
    p = subprocess.run([READER, kind], input=''.join(f'{port} {data.hex()}\n' for port, data in datagrams), text=True,
                       capture_output=True, timeout=60, check=True)
    *records, end = map(json.loads, p.stdout.splitlines())
    return records, {cause: n for cause, n in end['refused'].items() if n}


def from_files():
    for name in sorted(f[:-4] for f in os.listdir(HERE) if f.endswith('.hex')):
        datagrams = []
        with open(f'{HERE}/{name}.hex') as f:
            for line in f:
                m = re.match(r'(?:@(\d+) )?([^#\n]+)', line)
                if m:
                    datagrams.append((2000 + int(m[1] or 0), bytes.fromhex(m[2])))
        with open(f'{HERE}/{name}.json') as f:
            case = json.load(f)
        yield name, case['input'], datagrams, case['records'], case.get('refused', {})


def main():
    wrong, n = [], 0
    for name, kind, datagrams, expected, refused in [*from_files(), *exporters.cases()]:
        n += 1
        records, causes = read(kind, datagrams)
        got = [{f: r.get(f) for f in e} for e, r in zip(expected, records)]
        if len(records) != len(expected) or got != expected or causes != refused:
            wrong.append(name)
            print(f'{name} ({kind}):', *(f'  want {e}' for e in expected), f'  want refused {refused}',
                  *(f'  got  {r}' for r in records), f'  got refused {causes}', sep='\n')
    if wrong:
        sys.exit(f'{len(wrong)} of {n} are wrong: {" ".join(wrong)}')
    print(f'ok: {n} cases')


main()
