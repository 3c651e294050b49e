#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The binary interface of the libraries is still the one recorded in tests/lib/abi, except for additions: test_abi.py
LIBRARY... (or --update LIBRARY..., if a change is intended: a new soname, or a field that --sz covers)."""
import glob
import lzma
import os
import platform
import re
import shutil
import subprocess
import sys

from support.process import check, skip, workdir

ROOT = os.path.dirname(os.path.abspath(__file__)) + '/../..'
WRITE = ['abidw', '--headers-dir', f'{ROOT}/include/sidelight', '--drop-private-types', '--exported-interfaces-only', '--no-elf-needed',
         '--no-corpus-path', '--no-comp-dir-path', '--no-show-locs']

if not shutil.which('abidiff'):
    skip('no abidiff: install the package abigail-tools')
if platform.machine() != 'x86_64':
    skip('the baseline is of x86-64')
d = workdir()
# Programs see no member of a struct that the headers only declare.
with open(f'{d}/opaque', 'w') as f:
    for header in glob.glob(f'{ROOT}/include/sidelight/*.h'):
        with open(header) as h:
            text = h.read()
        for name in re.findall(r'^struct (\w+);', text, re.M):
            f.write(f'[suppress_type]\ntype_kind = struct\nname = {name}\n')
update = sys.argv[1] == '--update'
for library in sys.argv[1 + update:]:
    baseline = f'{ROOT}/tests/lib/abi/{os.path.basename(library).split(".so")[0]}.so.abi.xz'  # without its version
    if '.debug_info' not in subprocess.run(['readelf', '-SW', library], capture_output=True, text=True, check=True).stdout:
        skip('built without debugging information')
    now = subprocess.run([*WRITE, library], capture_output=True, check=True, timeout=300).stdout
    check(b"function-decl name='sl_" in now, f'abidw finds no function in {library}')
    if update:
        with lzma.open(baseline, 'wb') as f:
            f.write(now)
        continue
    for name, text in ('before', lzma.open(baseline).read()), ('now', now):
        with open(f'{d}/{name}.abi', 'wb') as f:
            f.write(text)
    p = subprocess.run(['abidiff', '--no-added-syms', '--suppressions', f'{d}/opaque', f'{d}/before.abi', f'{d}/now.abi'], capture_output=True, text=True, timeout=300)
    check(p.returncode == 0, f'{library}: programs that link it would break, or test_abi.py --update says that it is meant:\n'
                             f'{p.stdout}{p.stderr}')
