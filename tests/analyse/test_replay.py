#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sidelight replay over synthetic days, of which bench/detect/recording.py makes recordings: its output, and clear errors
for malformed input."""
import csv
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'bench', 'detect'))
import recording  # noqa: E402

EXE = sys.argv[1]
STEP, PODS, ROWS = 60, 6, 700
T0 = 1700000000
TRAIN = f'{T0 + 300 * STEP}:{T0 + ROWS * STEP}'
SCORE = f'{T0}:{T0 + 299 * STEP + STEP // 2}'
FAULTS = [(100, 2), (150, 4), (200, 0)]  # row, pod
NAMES = ['cpu', 'memory', 'requests', 'latency', 'errors', 'threads']
folder = tempfile.mkdtemp(prefix='sl-replay-')


def expect(good, what):
    if not good:
        print('FAILED:', what)
        shutil.rmtree(folder, ignore_errors=True)
        sys.exit(1)


def make(name, change=None):
    """A day of PODS pods; change(pod, lines) may spoil a file."""
    rnd = random.Random(7)
    day = os.path.join(folder, name)
    os.makedirs(os.path.join(day, 'metrics'))
    for p in range(PODS):
        lines = ['TimeStamp,' + ','.join(NAMES)]
        for r in range(ROWS):
            row = [50 + 5 * rnd.gauss(0, 1), 4e8 + 1e6 * rnd.gauss(0, 1), 20 + 3 * rnd.gauss(0, 1),
                   0.1 + 0.01 * rnd.gauss(0, 1), float(rnd.random() < 0.1), 8]
            if any(at <= r < at + 3 and pod == p for at, pod in FAULTS):
                row[0] += 300
                row[3] += 2
            lines.append(f'{T0 + r * STEP + rnd.randrange(2)},' + ','.join(map(repr, row)))
        if change:
            lines = change(p, lines)
        with open(os.path.join(day, 'metrics', f'pod{p}.csv'), 'w') as f:
            f.write('\n'.join(lines) + '\n')
    # The truth is there, and unreadable as a file: opening it fails.
    os.mkdir(os.path.join(day, 'faults.csv'))
    return day


def replay(day, *args, code=0, spans=None):
    """Converts the day to a recording and replays it. The result's said has the warnings of the conversion."""
    rec, said = day + '.recording', []
    shutil.rmtree(rec, ignore_errors=True)
    if os.path.exists(day):
        recording.convert(day, rec, spans, say=said.append)
    p = subprocess.run([EXE, 'replay', rec, *args], capture_output=True, text=True, timeout=300)
    expect(p.returncode == code, f'{args}: exit {p.returncode}, not {code}: {p.stderr}')
    p.said = '\n'.join(said)
    return p


def verdicts(day, *args, **more):
    p = replay(day, '--train', TRAIN, '--score', SCORE, '--verdicts', '-', *args, **more)
    lines = p.stdout.splitlines()
    expect(lines[0] == 'unix_s,pod,score,anomalous,blame1,blame2,blame3,suspicion,blame', lines[0])
    return list(csv.DictReader(lines)), p


def faults_are_flagged_and_blamed(day):
    for detector in ('combined', 'threshold', 'autoencoder'):
        rows, _ = verdicts(day, '--detector', detector)
        expect(len(rows) == PODS * 300, f'{len(rows)} rows')
        for at, pod in FAULTS:
            window = [r for r in rows if 0 <= int(r['unix_s']) - T0 - at * STEP < 3 * STEP]
            # Across pods, scores of the others are rough.
            if detector != 'combined':
                window = [r for r in window if r['pod'] == f'pod{pod}']
            worst = max(window, key=lambda r: float(r['score']))
            expect(worst['pod'] == f'pod{pod}' and worst['anomalous'] == '1', f'{detector}: {worst}')
            expect(worst['blame1'] in ('cpu', 'latency'), f'{detector}: {worst}')
        quiet = [r for r in rows if not any(
            0 <= int(r['unix_s']) - T0 - at * STEP < 10 * STEP for at, _ in FAULTS)]
        share = sum(r['anomalous'] == '1' for r in quiet) / len(quiet)
        # One per pod and hour is one row in 60; each pod's threshold comes from 400 rows.
        expect(share < 0.06, f'{detector}: {share:.3f} of the quiet rows')


def equal_options_give_equal_bytes(day):
    for detector in ('combined', 'autoencoder', 'fd'):
        a = verdicts(day, '--detector', detector, '--seed', '3')[1].stdout
        expect(a == verdicts(day, '--detector', detector, '--seed', '3')[1].stdout, detector)


def ranges_may_be_several(day):
    half = T0 + 500 * STEP
    p = replay(day, '--train', f'{T0 + 300 * STEP}:{half}', '--train', f'{half + 1}:', '--score',
               SCORE, '--verdicts', '-')
    expect(len(p.stdout.splitlines()) == PODS * 300 + 1, 'rows')


def a_shadow_and_drift_are_reported(day):
    plain = verdicts(day)[1].stdout
    p = verdicts(day, '--shadow', 'threshold')[1]
    expect(p.stdout == plain, 'a shadow must not act')
    said = [x for x in p.stderr.splitlines() if 'its shadow threshold' in x]
    expect(len(said) == 1 and 'of 1800 rows, combined flagged' in said[0] and
           ', and both flagged 0' not in said[0], p.stderr)
    expect('drift' not in p.stderr, p.stderr)

    def restless(pod, lines):
        """One pod's noise doubles for two hours: this rarely causes an alarm, but is a change."""
        if pod == 4:
            for i in range(120, 240):
                v = lines[i].split(',')
                v[1:5] = [repr(m + 2.5 * (float(x) - m))
                          for x, m in zip(v[1:5], (50, 4e8, 20, 0.1))]
                lines[i] = ','.join(v)
        return lines

    p = verdicts(make('drift', restless), '--frozen')[1]
    expect('drift: 1 of 6 pods' in p.stderr and 'first pod4' in p.stderr, p.stderr)


def spoil(p, lines):
    if p == 0:
        lines[10] = 'garbage'
        lines[11] += ',1'
        lines[12] = lines[12].replace(',', ',x', 1)
        lines[13] = lines[13].split(',')[0] + ',,,,,,'
    if p == 1:
        lines = lines[:1]
    if p == 2:
        lines[20], lines[21] = lines[21], lines[20]
        del lines[30:35]
    if p == 3:
        lines = ['']
    return lines


def what_is_wrong_is_counted_and_said():
    day = make('spoilt', spoil)
    rows, p = verdicts(day)
    for what in ('2 files without values', '2 rows malformed', '1 values malformed',
                 '6 values missing', '1 rows whose time went backwards'):
        expect(what in p.said, f'{what}: {p.said}')
    expect({r['pod'] for r in rows} == {'pod0', 'pod2', 'pod4', 'pod5'}, 'pods')


def a_broken_clock_is_repaired_and_said():
    def jump(p, lines):
        if p == 3:
            for i in range(1, len(lines)):
                t, rest = lines[i].split(',', 1)
                lines[i] = f'{int(t) + 200000000 - (i % 50 == 0) * 90000},{rest}'
        return lines

    day = make('clock', jump)
    rows, p = verdicts(day)
    expect('pod3: its clock is broken' in p.said and '1 clocks repaired' in p.said, p.said)
    expect(sum(r['pod'] == 'pod3' for r in rows) == 300, 'rows of pod3')


def a_pod_without_rows_to_train_is_said(day):
    def late(p, lines):
        return lines[:250] if p == 5 else lines

    short = make('short', late)
    rows, p = verdicts(short)
    expect('pod5: the ranges of --train contain no row' in p.stderr, p.stderr)
    first = [r for r in rows if r['pod'] == 'pod5'][:70]
    expect(all(r['score'] == '0' and r['anomalous'] == '0' for r in first), 'it knows nothing yet')
    p = replay(day, '--train', '1:2', '--verdicts', '-', code=1)
    expect('--train: the ranges contain no row of any pod' in p.stderr, p.stderr)


def bad_options_are_said_in_one_line(day):
    for args in (('--train', 'x:y', '--verdicts', '-'), ('--train', '5:4', '--verdicts', '-'),
                 ('--verdicts', '-', '--detector', 'magic'), (), ('--verdicts', '-', 'two'),
                 ('--verdicts', '-', '--score', '1:2', '--score', '3:4'), ('--verdicts', '-', '--trace-evidence'),
                 ('--save-model', '-')):
        p = replay(day, *args, code=2)
        expect(len(p.stderr.splitlines()) == 1, p.stderr)
    p = replay(os.path.join(folder, 'none'), '--verdicts', '-', code=1)
    expect(len(p.stderr.splitlines()) == 1, p.stderr)
    p = replay(day, '--verdicts', '/dev/full', code=1)
    expect('/dev/full' in p.stderr, p.stderr)


def rows_of_a_tenth_of_a_second_and_counters_are_read():
    """A counter that only ever grows is no anomaly; that its rate doubles is one, of its name."""
    day = os.path.join(folder, 'fast')
    os.makedirs(os.path.join(day, 'metrics'))
    rnd = random.Random(3)
    for pod in range(2):
        count = 0
        with open(os.path.join(day, 'metrics', f'p{pod}.csv'), 'w') as f:
            f.write('TimeStamp,cpu,requests_total{code="200"},flat\n')
            for i in range(6000):
                count += 10 + rnd.randrange(5) + (30 if pod == 1 and 5500 <= i < 5530 else 0)
                f.write(f'{T0 + i / 10:.3f},{50 + rnd.gauss(0, 1):.3f},{count},1\n')
    p = replay(day, '--train', f'{T0}:{T0 + 400}', '--score', f'{T0 + 401}:', '--verdicts', '-',
               '--false-alarms', '60')
    rows = list(csv.DictReader(p.stdout.splitlines()))
    expect(rows[2]['unix_s'] == f'{T0 + 401}.100000' and len(rows) == 2 * 1990, f'{len(rows)} rows')
    worst = max(rows, key=lambda r: float(r['score']))
    at = float(worst['unix_s']) - T0
    expect(worst['pod'] == 'p1' and 550 <= at < 554 and worst['anomalous'] == '1' and
           worst['blame1'] == 'requests_total{code="200"}', worst)


def added(before, after, rows):
    """The verdicts for which more speaks after than before, in the seven rows from each of these."""
    return [(a, b) for a, b in zip(before, after) if any(0 <= int(a['unix_s']) - T0 - row * STEP < 7 * STEP for row in rows) and
            (b['anomalous'] > a['anomalous'] or float(b['score']) > 1.05 * float(a['score']) + 0.05)]


def join(path, to):
    """The spans as files of several minutes that follow each other: each with its header, in any order, some spans in two of
    them, lines that end as on Windows, and pods by the names that an orchestrator gives."""
    with open(path) as f:
        header, *lines = f.read().splitlines()
    lines = [line.replace(',pod3,', ',pod3-7d9f8b6c5d-x2x9z,') for line in lines]
    lines = random.Random(3).sample(lines, len(lines))
    with open(to, 'w') as f:
        for at in range(0, len(lines), 270):
            f.write('\r\n'.join([header, *lines[at:at + 270], *lines[at:at + 1]]) + '\r\n')


def spans_are_evidence_only_if_asked_for(day):
    """pod0 calls pod1 and pod3, both of which call pod5. At rows 60 and 220 the network of pod3 is slow, which metrics do
    not show. There are spans only around these rows, and around row 260, where all is as usual."""
    def write(path, times=True, slow=(60, 220)):
        rnd, n = random.Random(9), 0
        with open(path, 'w') as f:
            f.write('TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration\n')
            for row in (*range(56, 62), *range(216, 222), *range(256, 262)):
                for i in range(30):
                    t = (T0 + (row - 1) * STEP + i) * 10**9
                    lines = []

                    def span(parent, pod, operation, begin, ms):
                        nonlocal n
                        n += 1
                        ms *= rnd.uniform(0.8, 1.2)
                        when = f'{begin},{begin + int(ms * 1e6)}' if times else 'x,y'
                        lines.append(f't{row}-{i},s{n},{parent},pod{pod},{operation},{when},{ms * 1000:.0f}')
                        return f's{n}'
                    root = span('root', 0, 'GET /a,b', t, 100)
                    for k, pod in enumerate((1, 3)):
                        late = 80 if pod == 3 and row in slow else 0
                        call = span(root, 0, f'pod{pod}/get', t + k * 40000000, 20 + late)
                        serve = span(call, pod, 'get', t + k * 40000000 + 1000000, 16)
                        db = span(serve, pod, 'db', t + k * 40000000 + 2000000, 8 + late)
                        span(db, 5, 'db', t + k * 40000000 + 3000000, 5)
                    f.write('\n'.join(rnd.sample(lines, len(lines))) + '\n')

    path = os.path.join(folder, 'spans.csv')
    write(path)
    plain = verdicts(day, spans=path)[1].stdout
    rows, p = verdicts(day, '--trace-evidence', spans=path)
    expect(p.stdout != plain, 'spans are no evidence')
    for at in (60, 220):
        now = [r for r in rows if 0 <= int(r['unix_s']) - T0 - at * STEP < STEP]
        worst = max(now, key=lambda r: float(r['score']))
        expect(worst['pod'] == 'pod3' and worst['anomalous'] == '1', f'{at}: {now}')
    # Metrics alone have false alarms of their own at these rows: spans of usual times add none, and no score.
    expect(not added(verdicts(day, spans=path)[0], rows, (256,)), 'that there are spans is no evidence')
    write(path, slow=())
    usual = added(verdicts(day, spans=path)[0], verdicts(day, '--trace-evidence', spans=path)[0], (56, 216, 256))
    expect(not usual, f'usual times are no evidence: {usual}')
    write(path)
    expect(p.stdout == verdicts(day, '--trace-evidence', spans=path)[1].stdout, 'equal bytes')
    joined = os.path.join(folder, 'joined.csv')
    join(path, joined)
    q = verdicts(day, '--trace-evidence', spans=joined)[1]
    expect(p.stdout == q.stdout and '18 spans there twice' in q.said, f'files of several minutes: {q.said}')
    write(path, times=False)
    expect(plain == verdicts(day, spans=path)[1].stdout, 'the call graph needs no times')
    p = replay(day, '--score', SCORE, '--verdicts', '-', '--trace-evidence', code=1, spans=path)
    expect('no span in the recording has times' in p.stderr and '4860 spans without times' in p.said, p.stderr + p.said)


def model(*args, code=0):
    p = subprocess.run([EXE, 'model', *args], capture_output=True, text=True, timeout=300)
    expect(p.returncode == code, f'model {args}: exit {p.returncode}, not {code}: {p.stderr}')
    return p


def without_train_it_says_so_once(day):
    said = [x for x in replay(day, '--score', ':', '--verdicts', '-').stderr.splitlines() if 'no traces' not in x]
    expect(len(said) == 1 and f'without --train, {PODS} of {PODS} pods' in said[0], said)
    said = said[0]
    for p in range(PODS):
        expect(f'pod{p}' not in said, said)
    model = os.path.join(folder, 'known')
    replay(day, '--train', TRAIN, '--save-model', model)
    said = replay(day, '--model', model, '--score', ':', '--verdicts', '-').stderr
    expect('--train' not in said, said)
    said = replay(day, '--frozen', '--verdicts', '-', code=2).stderr
    expect('--frozen requires --train or --model' in said, said)


def what_was_learned_can_be_kept_and_merged(day):
    at = [os.path.join(folder, f'model{i}') for i in range(5)]
    half = T0 + 500 * STEP
    for detector in ('combined', 'fd', 'threshold'):
        whole = verdicts(day, '--detector', detector)[1].stdout
        p = replay(day, '--train', TRAIN, '--save-model', at[0], '--detector', detector)
        expect(p.stdout == '', p.stdout)
        p = replay(day, '--model', at[0], '--score', SCORE, '--verdicts', '-', '--detector', detector)
        # Identical to the last digit: saving a model rounds nothing.
        expect(p.stdout == whole, f'{detector}: the break shows')
    # Two hosts saw half of the data each. Together they know the faults as well as one that saw everything.
    replay(day, '--train', f'{T0 + 300 * STEP}:{half}', '--save-model', at[1])
    replay(day, '--train', f'{half + 1}:{T0 + ROWS * STEP}', '--save-model', at[2])
    p = model('--merge', at[3], at[1], at[2])
    expect('6 models, 6 of them merged' in p.stderr, p.stderr)
    steps = [{m['name']: m['steps'] for m in json.loads(model('--json', a).stdout)} for a in at[1:4]]
    expect(len(steps[2]) == PODS and all(steps[2][n] == steps[0][n] + steps[1][n] for n in steps[2]),
           steps)
    p = replay(day, '--model', at[3], '--score', SCORE, '--verdicts', '-')
    rows = list(csv.DictReader(p.stdout.splitlines()))
    for i, pod in FAULTS:
        window = [r for r in rows if 0 <= int(r['unix_s']) - T0 - i * STEP < 3 * STEP]
        worst = max(window, key=lambda r: float(r['score']))
        expect(worst['pod'] == f'pod{pod}' and worst['anomalous'] == '1', worst)
    # Models that differ cannot be merged, and a model of other metrics cannot be used.
    p = model('--merge', at[4], at[1], at[0], code=1)
    expect(p.stderr.count('differ from earlier files') == PODS, p.stderr)
    p = replay(day, '--model', at[0], '--score', SCORE, '--verdicts', '-')
    expect(p.stderr.count('cannot be used') == PODS and '6 of 6 pods have no model' in p.stderr, p.stderr)
    with open(at[1], 'rb') as f:
        good = f.read()
    for bad, why in ((good[:-5], 'truncated'), (b'', 'truncated'), (good + b'x', 'truncated'),
                     (b'SLMODLS9' + good[8:], 'this version of model files')):
        with open(at[4], 'wb') as f:
            f.write(bad)
        for p in (replay(day, '--model', at[4], '--verdicts', '-', code=1), model(at[4], code=1)):
            expect(why in p.stderr and len(p.stderr.splitlines()) == 1, p.stderr)
    with open(at[4], 'wb') as f:  # a bit of one model: the others are good
        f.write(good[:200] + bytes([good[200] ^ 1]) + good[201:])
    expect('damaged' in model(at[4]).stdout, 'a damaged model is not shown')
    p = replay(day, '--model', at[4], '--score', SCORE, '--verdicts', '-')
    expect('1 of 6 pods have no model' in p.stderr, p.stderr)
    replay(day, '--model', os.path.join(folder, 'none'), '--verdicts', '-', code=1)


def without_ranges_it_judges_as_a_collector_does(day):
    p = replay(day, '--verdicts', '-')
    rows = list(csv.DictReader(p.stdout.splitlines()))
    expect(len(rows) == PODS * ROWS and f'{PODS * ROWS} rows' in p.stderr, p.stderr)
    # A collector warms up first, and then finds them.
    flagged = {r['pod'] for r in rows if r['anomalous'] == '1' and 0 <= float(r['unix_s']) - T0 - 150 * STEP < 3 * STEP}
    expect('pod4' in flagged, flagged)


def what_a_person_accepted_is_accepted_again():
    """A level that lasts, and that a user of the collector declared normal 50 rows later."""
    def higher(pod, lines):
        if pod == 3:
            for r in range(400, ROWS):
                fields = lines[r + 1].split(',')
                fields[2] = repr(2 * float(fields[2]))
                lines[r + 1] = ','.join(fields)
        return lines
    rec = make('level', higher) + '.recording'
    recording.convert(rec[:-len('.recording')], rec, say=str)

    def flagged():
        p = subprocess.run([EXE, 'replay', rec, '--verdicts', '-'], capture_output=True, text=True, timeout=300)
        expect(p.returncode == 0, p.stderr)
        return [(float(r['unix_s']) - T0) // STEP for r in csv.DictReader(p.stdout.splitlines())
                if r['pod'] == 'pod3' and r['anomalous'] == '1']
    before = flagged()
    expect(sum(450 <= row < 650 for row in before) > 190, before)
    with open(os.path.join(rec, 'events.csv'), 'a') as f:
        f.write(f'accept,{T0 // STEP + 450},{4:016x}\n')
    after = flagged()
    expect([r for r in after if r < 450] == [r for r in before if r < 450] and
           sum(451 <= row < 650 for row in after) < 5, after)


def main():
    rows_of_a_tenth_of_a_second_and_counters_are_read()
    day = make('day')
    faults_are_flagged_and_blamed(day)
    equal_options_give_equal_bytes(day)
    ranges_may_be_several(day)
    a_shadow_and_drift_are_reported(day)
    what_is_wrong_is_counted_and_said()
    a_broken_clock_is_repaired_and_said()
    a_pod_without_rows_to_train_is_said(day)
    bad_options_are_said_in_one_line(day)
    spans_are_evidence_only_if_asked_for(day)
    without_train_it_says_so_once(day)
    without_ranges_it_judges_as_a_collector_does(day)
    what_a_person_accepted_is_accepted_again()
    what_was_learned_can_be_kept_and_merged(day)


try:
    main()
finally:
    shutil.rmtree(folder, ignore_errors=True)
