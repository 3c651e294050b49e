#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_export.py BUILD - runs expose.cc beside a collector of 100,000 series: 100 pods of 1,000 metrics."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
from bench import CPUS, Stage, check, get, poll, real_time  # noqa: E402

BUILD = sys.argv[1]
SERIES = 100_000
# Real-time priority for ours and the peer alike: neighbours are not what is measured.
with Stage(os.path.join(BUILD, 'sidelight'), 100, '--updates', '1000', '--hold', '10m', metrics=1000,
           per_process=10) as s:
    p = s.start(CPUS, 'collect', '--agent', s.socket, '--listen', '127.0.0.1:0', '--period', '1s', '--history', '0',
                first=real_time())
    address = p.ready()['listen']
    check(poll(lambda: get(address, '/metrics').count('\ngenerated_') >= SERIES, 60, 0.5),
          f'the collector has no {SERIES} series', p)
    code = subprocess.run([*real_time(), os.path.join(BUILD, 'bench/export/bench_expose'), '-c',
                             address.rsplit(':', 1)[1], *sys.argv[2:]]).returncode
sys.exit(1 if code < 0 else code)
