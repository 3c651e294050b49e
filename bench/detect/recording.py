#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""recording.py DIR OUT [SPANS] - turns metrics of pods in CSV into a recording that sidelight replay reads.

DIR has the layout of the Nezha data set (G. Yu et al., FSE 2023): metrics/POD.csv with a header "TimeStamp,NAME,..." and
about a row per minute; times are Unix seconds, perhaps with decimals. SPANS, by default DIR/spans_sample.csv if it is
there, has spans: TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration with a header,
in any order; the parent of a root span is "root". Files of several minutes may follow each other, with their headers and
with spans that two of them have.

One file of the data set has a broken clock: a text replacement damaged its times. Rows of all pods were written together:
if the times of a file go backwards or have none in common with the others, and it has as many rows as most others, each
row takes the others' time of that row. Each repair and each line left out is reported on standard error."""
import collections
import math
import os
import re
import sys

ROOT, LOST = 2**32 - 1, 2**32 - 2  # parents of struct analyse_span
WARM_UP = 60                       # steps
Span = collections.namedtuple('Span', 'trace id parent pod operation times')


def say(text):
    print('recording: ' + text, file=sys.stderr)


def service_of(pod):
    """The workload that names a pod: "shop" of "shop-7d9fb8c6-x2x9z" and of "shop-0"."""
    for _ in range(2):
        base, _, last = pod.rpartition('-')
        # Kubernetes makes names of digits and consonants.
        if not base or not re.fullmatch('[0-9b-df-hj-np-tv-z]+', last, re.ASCII):
            break
        pod = base
    return pod


def escape(name):
    return re.sub('[,;:%\x00-\x1f]', lambda m: f'%{ord(m[0]):02x}', name)


def nanoseconds(text):
    """None: no time."""
    m = re.fullmatch(r'(\d+)(?:\.(\d*))?', text, re.ASCII)
    return int(m[1]) * 10**9 + int((m[2] or '').ljust(9, '0')[:9]) if m and int(m[1]) < 9 * 10**9 else None


def is_number(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


class Pod:
    def __init__(self, path, losses):
        self.name = os.path.basename(path)[:-4]
        with open(path) as f:
            self.head, *lines = f.read().split('\n')
        fields = self.head.count(',') + 1
        self.times, self.rows = [], []
        for line in lines if fields > 1 else ():
            text, *values = line.split(',')
            at = nanoseconds(text)
            if not line:
                continue
            if len(values) != fields - 1 or at is None:
                losses['rows malformed'] += 1
                continue
            for i, v in enumerate(values):
                if not v or v.lower() == 'nan':
                    losses['values missing'] += 1
                elif not is_number(v):
                    losses['values malformed'] += 1
                else:
                    continue
                values[i] = ''
            self.times.append(at)
            self.rows.append(values)

    def ascends(self):
        return all(a < b for a, b in zip(self.times, self.times[1:]))

    def drop_backwards(self, losses):
        kept = []
        for at, row in zip(self.times, self.rows):
            if kept and at <= kept[-1][0]:
                losses['rows whose time went backwards'] += 1
            else:
                kept.append((at, row))
        self.times, self.rows = [k[0] for k in kept], [k[1] for k in kept]


def repair_clocks(pods, losses, say):
    for p in pods:
        others = [q for q in pods if q is not p and q.rows and q.ascends()]
        meets = any(p.rows and p.times[0] <= q.times[-1] and p.times[-1] >= q.times[0] for q in others)
        alike = [q for q in others if len(q.rows) == len(p.rows)]
        if p.rows and not (p.ascends() and meets) and alike and 2 * len(alike) >= len(pods):
            p.times = list(alike[0].times)
            losses['clocks repaired'] += 1
            say(f'{p.name}: its clock is broken; its rows take the times of {alike[0].name}')


def read_spans(path, losses):
    """{trace: {id: Span}}; of spans with one id the first counts."""
    traces = collections.defaultdict(dict)
    with open(path) as f:
        for n, line in enumerate(f):
            fields = line.rstrip('\r\n').split(',')
            if fields[:2] == ['TraceID', 'SpanID']:
                continue
            if not n:
                sys.exit(f'recording: {path}: no header TraceID,SpanID,...')
            if len(fields) < 4 or not all((fields[0], fields[1], fields[3])):
                losses['spans malformed'] += len(fields) > 1
                continue
            trace, span, parent, pod = fields[:4]
            times = fields[-3:-1] if len(fields) >= 8 else ()
            good = len(times) == 2 and all(t.isdecimal() for t in times) and 0 < int(times[0]) <= int(times[1])
            losses['spans without times'] += not good
            if span in traces[trace]:
                losses['spans there twice'] += 1
                continue
            # The operation may have commas.
            traces[trace][span] = Span(trace, span, parent, pod, ','.join(fields[4:-3]),
                                       (int(times[0]), int(times[1])) if good else None)
    return traces


def write_traces(out, traces, pods, every):
    """In the order of their ends. A pod without rows that is the only one of its service means that one."""
    by_service = collections.defaultdict(list)
    for p in pods:
        by_service[service_of(p.name)].append(p.name)
    names = {p.name for p in pods}

    def pod_of(name):
        meant = by_service[service_of(name)]
        return meant[0] if name not in names and len(meant) == 1 else name

    def end(spans):
        return max((s.times[1] for s in spans.values() if s.times), default=0)
    for spans in sorted(traces.values(), key=end):
        place = {span: i for i, span in enumerate(spans)}
        said = []
        for s in spans.values():
            parent = ROOT if s.parent in ('', 'root') else place.get(s.parent, LOST)
            text = f'{escape(service_of(s.pod))}:{parent}'
            if s.times:
                text += f':{escape(pod_of(s.pod))}:{escape(s.operation)}:{s.times[0]}:{s.times[1]}'
            said.append(text)
        out.write(f'trace,{end(spans) // every},{";".join(said)}\n')


def convert(folder, to, spans=None, say=say):
    """Returns the nanoseconds of a step."""
    losses = collections.Counter()
    metrics = os.path.join(folder, 'metrics')
    pods = [Pod(os.path.join(metrics, f), losses) for f in sorted(os.listdir(metrics), key=lambda f: f[:-4].encode())
            if f.endswith('.csv')]
    repair_clocks(pods, losses, say)
    for p in pods:
        p.drop_backwards(losses)
        if not p.rows:
            losses['files without values'] += 1
    pods = [p for p in pods if p.rows]
    if not pods:
        sys.exit(f'recording: {folder}: no pod has values in metrics/*.csv')
    steps = [b - a for p in pods for a, b in zip(p.times, p.times[1:])]
    step = max(10**9, sorted(steps)[len(steps) // 2] if steps else 60 * 10**9)
    os.makedirs(os.path.join(to, 'metrics'))
    for p in pods:
        with open(os.path.join(to, 'metrics', p.name + '.csv'), 'w') as f:
            f.write(p.head + '\n')
            f.writelines(f'{t // 10**9}.{t % 10**9:09},{",".join(row)}\n' for t, row in zip(p.times, p.rows))
    with open(os.path.join(to, 'events.csv'), 'w') as f:
        f.write(f'start,combined,,1,{WARM_UP * step},{step},{step}\n')
        for n, p in enumerate(pods):
            name = escape(p.name)
            f.write(f'layout,{p.times[0] // step},{p.times[0]},{n + 1:016x},{len(p.rows[0])},{name}.csv,{name},'
                    f'{escape(service_of(p.name))},{name}\n')
        spans = spans or os.path.join(folder, 'spans_sample.csv')
        if os.path.exists(spans):
            write_traces(f, read_spans(spans, losses), pods, step)
    for what, n in losses.items():
        if n:
            say(f'{n} {what}')
    return step


if __name__ == '__main__':
    if not 3 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    convert(*sys.argv[1:])
