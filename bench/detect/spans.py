# SPDX-License-Identifier: Apache-2.0
"""Spans of a whole recorded day, made of the one minute of them that its archive holds: at the time of each trace of
traces.csv a trace of that minute is drawn, and what a fault does to its times is added. The metrics stay as recorded.

- A slow network adds DELAY to each call to and from the pod.
- A busy processor makes the pod's own times SLOWER times as long.
- Other faults change nothing."""
import collections
import csv
import os
import random

DELAY = 100_000_000  # ns
SLOWER = 3
LASTS = 180  # s
Span = collections.namedtuple('Span', 'id parent pod operation begin end')


def read(path):
    traces = collections.defaultdict(list)
    with open(path) as f:
        for r in csv.DictReader(f):
            traces[r['TraceID']].append(Span(r['SpanID'], r['ParentID'], r['PodName'], r['OperationName'],
                                             int(r['StartTimeUnixNano']), int(r['EndTimeUnixNano'])))
    return list(traces.values())


def own_time(span, children):
    covered, at = 0, span.begin
    for begin, end in sorted((c.begin, c.end) for c in children):
        begin, end = max(begin, at), min(end, span.end)
        if end > begin:
            covered, at = covered + end - begin, end
    return span.end - span.begin - covered


def strike(trace, pod, kind):
    """The trace with a fault of the pod. What begins after a child has ended waits for it."""
    children = collections.defaultdict(list)
    for s in trace:
        children[s.parent].append(s)
    ids, made = {s.id for s in trace}, []

    def walk(span, later):
        """How much longer it takes."""
        below = sorted(children[span.id], key=lambda s: s.begin)
        own = (SLOWER - 1) * own_time(span, below) if kind.startswith('cpu') and span.pod == pod and all(
            c.pod == pod for c in below) else 0
        longer, done = own, []
        for c in below:
            shift = max((x for end, x in done if end <= c.begin), default=0)
            if kind == 'network_delay' and c.pod != span.pod and pod in (c.pod, span.pod):
                shift += DELAY
            shift += walk(c, later + shift)
            done.append((c.end, shift))
            longer = max(longer, shift + own)
        made.append(span._replace(begin=span.begin + later, end=span.end + later + longer))
        return longer

    for s in trace:
        if s.parent not in ids:
            walk(s, 0)
    return made


def make(folder, faults, path):
    """Writes the spans of the day in `folder` to `path`. The same each time."""
    rng, traces = random.Random(1), read(os.path.join(folder, 'spans_sample.csv'))
    with open(os.path.join(folder, 'traces.csv')) as f, open(path, 'w') as out:
        out.write('TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration\n')
        for n, row in enumerate(csv.DictReader(f)):
            start, trace = int(row['start_unix_ns']), rng.choice(traces)
            first = min(s.begin for s in trace)
            for at, pod, kind in faults:
                if at <= start / 1e9 <= at + LASTS:
                    trace = strike(trace, pod, kind)
            for s in trace:
                begin, end = s.begin - first + start, s.end - first + start
                out.write(f'{n},{n}-{s.id},{s.parent if s.parent == "root" else f"{n}-{s.parent}"},{s.pod},{s.operation},'
                          f'{begin},{end},{(end - begin) // 1000}\n')
