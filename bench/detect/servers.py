#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""servers.py SIDELIGHT RIVALS DIR [DETECTOR...] - how well anomalies of real servers are found.

DIR has the format of ASD (the Application Server Dataset of InterFusion, KDD 2021): server-N-train.csv.xz without anomalies,
server-N-test.csv.xz with the last column `anomalous`, a row every five minutes, and server-N-causes.txt with the labelled segments as
`first-last:metrics` (rows from 0, metrics from 1). Each server is alone, without a call graph. A segment is found if one of its rows is
above the threshold, which a share of the rows outside of all segments exceeds; no other row counts as found. The first metric to blame
is that of the segment's highest score, and is right if the segment has it. `area` judges rows, not segments: average precision, the
mean over the servers."""
import csv
import glob
import json
import lzma
import os
import re
import statistics
import subprocess
import sys
import tempfile

import recording
from days import RIVALS, threshold_at

EXE, OTHERS, DIR = sys.argv[1:4]
DETECTORS = sys.argv[4:] or ('combined', *RIVALS)
BEGIN, ROW = 1600000020, 300


def rows_of(path):
    with lzma.open(path, 'rt') as f:
        return list(csv.reader(f))[1:]


def verdicts(folder, train, test, detector):
    """[(score, first blamed metric)] of the rows of the test."""
    columns = [f'm{i}' for i in range(len(train[0]))]
    os.makedirs(f'{folder}/metrics', exist_ok=True)
    with open(f'{folder}/traces.csv', 'w') as f:
        f.write('trace_id,start_unix_ns,end_unix_ns,root_operation,root_pod,spans,pods\n')
    with open(f'{folder}/metrics/server.csv', 'w') as f:
        f.write('TimeStamp,' + ','.join(columns) + '\n')
        for i, row in enumerate(train + test):
            f.write(f'{BEGIN + i * ROW},' + ','.join(row[:len(columns)]) + '\n')
    first, made = BEGIN + len(train) * ROW, f'{folder}/recording'
    recording.convert(folder, made, None, say=lambda text: None)
    command = [OTHERS] if detector in RIVALS else [EXE, 'replay']
    subprocess.run([*command, made, '--detector', detector, '--train', f'{BEGIN}:{first - ROW}', '--score',
                    f'{first}:{first + len(test) * ROW}', '--verdicts', f'{folder}/out.csv'], check=True, stderr=subprocess.DEVNULL)
    found = [(0.0, '')] * len(test)
    with open(f'{folder}/out.csv') as f:
        for r in csv.DictReader(f):
            found[(int(float(r['unix_s'])) - first) // ROW] = float(r['score']), r['blame1']
    return found


def area(found, test):
    """The area under the curve of precision and recall of the rows, as their average precision; ties count against it."""
    ranked = sorted(((score, row[-1] == '0') for (score, _), row in zip(found, test)), reverse=True)
    hits = [i for i, (_, normal) in enumerate(ranked, 1) if not normal]
    return statistics.mean(k / i for k, i in enumerate(hits, 1))


def judge(train, test, segments, detector):
    """{what: [hit of each segment]}, and the area of the server."""
    with tempfile.TemporaryDirectory(prefix='sl-servers-') as folder:
        found = verdicts(folder, train, test, detector)
    negatives = sorted(score for (score, _), row in zip(found, test) if row[-1] == '0')
    hits = {'blame': [max(found[a:b + 1])[1] in [f'm{m - 1}' for m in blamed] for a, b, blamed in segments]}
    for percent in (1, 2, 5):
        least = threshold_at(negatives, percent)
        hits[percent] = [any(score > least for score, _ in found[a:b + 1]) for a, b, _ in segments]
    hits['area'] = [area(found, test)]
    return hits


for detector in DETECTORS:
    hits = {}
    for path in sorted(glob.glob(f'{DIR}/server-*-causes.txt')):
        with open(path) as f:
            lines = [list(map(int, re.findall(r'\d+', line))) for line in f]
        segments = [(n[0], n[1], n[2:]) for n in lines]
        base = path.removesuffix('causes.txt')
        for what, h in judge(rows_of(base + 'train.csv.xz'), rows_of(base + 'test.csv.xz'), segments, detector).items():
            hits.setdefault(what, []).extend(h)
    for what, h in hits.items():
        print(json.dumps({'name': f'servers.{detector}.{what}', 'unit': 'share', 'value': round(statistics.mean(h), 3),
                          'conditions': f'{len(h)} servers' if what == 'area' else f'{len(h)} labelled segments'}), flush=True)
