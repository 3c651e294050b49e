# SPDX-License-Identifier: Apache-2.0
"""Strict readers of the three formats, written from their specifications, for the tests.

text          https://prometheus.io/docs/instrumenting/exposition_formats/ (version 0.0.4)
openmetrics   https://github.com/prometheus/OpenMetrics, specification 1.0: its ABNF, and the
              "MUST"s of its text that a reader can see
protobuf      io.prometheus.client.MetricFamily, delimited; by protoc and metrics.proto

Each returns {name of a sample: {labels as a sorted tuple: value}} and raises Invalid.
"""
import math
import os
import re
import subprocess

NAME = r'[a-zA-Z_:][a-zA-Z0-9_:]*'
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*'
# escaped-char: any but LF, DQUOTE, BS; or BS and n, DQUOTE or BS. (The ABNF's "BS normal-char" is
# for old writers; a new one has no need of it.)
VALUE = r'"((?:[^\n"\\]|\\[n"\\])*)"'
NUMBER = re.compile(r'[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|[+-]?(inf|infinity)|nan', re.I)
SAMPLE = re.compile(rf'({NAME})(?:\{{((?:{LABEL}={VALUE}(?:,(?!\}})|(?=\}})))*)\}})? (\S+)(?: (\S+))?')
ONE_LABEL = re.compile(rf'({LABEL})={VALUE}')


class Invalid(Exception):
    pass


def need(condition, *what):
    if not condition:
        raise Invalid(' '.join(str(w) for w in what))


def unescape(s):
    return re.sub(r'\\(.)', lambda m: '\n' if m[1] == 'n' else m[1], s)


def number(s):
    need(NUMBER.fullmatch(s), 'not a number:', s)
    if re.fullmatch(r'[+-]?[0-9]+', s) and s != '-0':
        return int(s)
    return float(s)


def sample(line):
    m = SAMPLE.fullmatch(line)
    need(m, 'not a sample:', line)
    labels = [(k, unescape(v)) for k, v in ONE_LABEL.findall(m[2] or '')]
    need(len(dict(labels)) == len(labels), 'a label comes twice:', line)
    # m[3] is the value of the last label
    return m[1], labels, number(m[4]), m[5]


# Labels that distinguish processes and hosts.
def lines_of(body):
    text = body.decode('utf-8')  # must be UTF-8
    need(not text or text.endswith('\n'), 'the last line has no end')
    need('\r' not in text, 'CR')
    lines = text.split('\n')[:-1]
    for line in lines:
        need(line, 'an empty line')
    return lines


def add(samples, name, labels, value, line):
    of_name = samples.setdefault(name, {})
    key = tuple(sorted(labels))
    need(key not in of_name, 'a sample comes twice:', line)
    of_name[key] = value


def text(body):
    """Prometheus text format 0.0.4, as sidelight writes it: every family has its TYPE."""
    samples, types, helps = {}, {}, {}
    family = kind = None
    for line in lines_of(body):
        m = re.fullmatch(rf'# (HELP|TYPE) ({NAME}) (.*)', line)
        if m:
            into = helps if m[1] == 'HELP' else types
            need(m[2] not in into, 'twice:', line)
            if m[1] == 'HELP':
                need(not re.search(r'\\(?![n\\])', m[3].replace('\\\\', '')), 'escape:', line)
            else:
                need(m[3] in ('counter', 'gauge', 'histogram'), line)
                family, kind = m[2], m[3]
            into[m[2]] = m[3]
            continue
        need(not line.startswith('#'), 'malformed comment:', line)
        name, labels, value, timestamp = sample(line)
        need(timestamp is None, 'timestamp:', line)
        suffixes = ('_bucket', '_sum', '_count') if kind == 'histogram' else ('',)
        need(family and name in [family + s for s in suffixes], 'not of', family, ':', line)
        add(samples, name, labels, value, line)
    for name in helps:
        need(name in types, 'HELP without TYPE:', name)
    return samples


SUFFIXES = {
    'counter': ('_total', '_created'),
    'gauge': ('',),
    'histogram': ('_bucket', '_sum', '_count', '_created'),
    'info': ('_info',),
    'stateset': ('',),
    'unknown': ('',),
}


class Family:
    def __init__(self, name):
        self.name, self.kind, self.unit, self.help = name, None, None, None
        self.samples = []


def openmetrics(body):
    lines = lines_of(body)
    need(lines and lines[-1] == '# EOF', 'does not end by # EOF')
    families, order, samples, current = {}, [], {}, None
    for line in lines[:-1]:
        need(line != '# EOF', 'something behind # EOF')
        if line.startswith('#'):
            m = re.fullmatch(rf'# (HELP|TYPE|UNIT) ({NAME})(?: (.*))', line)
            need(m, 'not a descriptor:', line)
            if current is None or current.name != m[2]:
                need(m[2] not in families, 'the family comes again:', line)
                current = families[m[2]] = Family(m[2])
                order.append(current)
            need(not current.samples, 'a descriptor behind the samples:', line)
            field = {'HELP': 'help', 'TYPE': 'kind', 'UNIT': 'unit'}[m[1]]
            need(getattr(current, field) is None, 'twice:', line)
            setattr(current, field, m[3])
            if m[1] == 'TYPE':
                need(m[3] in SUFFIXES, 'a type that sidelight does not write:', line)
            if m[1] == 'HELP':
                need(re.fullmatch(r'(?:[^\n"\\]|\\[n"\\])*', m[3]), 'escape:', line)
            continue
        need(current and current.kind, 'no TYPE before:', line)
        if current.kind == 'counter':  # an exemplar
            line = re.sub(r' # \{trace_id="[0-9a-f]{32}"\} \d+(\.\d+)? \d+\.\d+$', '', line)
        name, labels, value, timestamp = sample(line)
        need(timestamp is None, 'a timestamp:', line)
        suffix = name[len(current.name):]
        need(name.startswith(current.name) and suffix in SUFFIXES[current.kind],
             'not of', current.name, current.kind, ':', line)
        current.samples.append((suffix, labels, value, line))
        add(samples, name, labels, value, line)
    taken = set()
    for f in order:
        need(f.kind, 'no TYPE:', f.name)
        check_family(f)
        names = {f.name} | {f.name + s for s in SUFFIXES[f.kind]}
        need(not names & taken, 'clashing names:', names & taken)
        taken |= names
    return samples


def check_family(f):
    if f.unit:
        need(f.name.endswith('_' + f.unit), 'the unit does not end the name:', f.name, f.unit)
        need(f.kind not in ('info', 'stateset'), 'a unit on', f.kind, f.name)
    # a metric's samples stand together
    groups, last = {}, None
    for suffix, labels, value, line in f.samples:
        own = [(k, v) for k, v in labels if not (
            (f.kind == 'histogram' and suffix == '_bucket' and k == 'le') or
            (f.kind == 'stateset' and k == f.name.replace(':', '_')))]
        key = tuple(sorted(own))
        if key != last:
            need(key not in groups, 'the samples of a metric are scattered:', line)
        last = key
        groups.setdefault(key, []).append((suffix, dict(labels), value, line))
    for group in groups.values():
        CHECKS[f.kind](f, group)


def check_counter(f, group):
    need(len([s for s in group if s[0] == '_total']) == 1, 'a counter without _total:', group)
    for suffix, _, value, line in group:
        need(value >= 0 and not math.isnan(value), 'a counter must not be negative or NaN:', line)
        need(suffix != '_total' or line.split('{')[0].split(' ')[0].endswith('_total'), line)


def check_gauge(f, group):
    need(len(group) == 1, 'a gauge has one sample:', group)


def check_info(f, group):
    need(len(group) == 1 and group[0][2] == 1, 'an info is 1:', group)


def check_stateset(f, group):
    for _, labels, value, line in group:
        need(f.name.replace(':', '_') in labels, 'no label named as the family:', line)
        need(value in (0, 1), 'a state is 0 or 1:', line)


def check_histogram(f, group):
    buckets = [(labels.get('le'), value, line) for s, labels, value, line in group
               if s == '_bucket']
    rest = {s: value for s, _, value, _ in group if s != '_bucket'}
    need(len([s for s in group if s[0] != '_bucket']) == len(rest), 'twice:', group)
    need(buckets and buckets[-1][0] == '+Inf', 'no bucket +Inf at the end:', group)
    before, below = -math.inf, 0
    for le, count, line in buckets:
        need(le is not None, 'a bucket without le:', line)
        need(le == '+Inf' or re.search(r'[.e]', le), 'le is not in canonical form:', line)
        need(float(le) > before, 'le does not ascend:', line)
        need(isinstance(count, int) and count >= below, 'not cumulative:', line)
        before, below = float(le), count
    need(('_sum' in rest) == ('_count' in rest) and '_count' in rest, 'sum and count:', group)
    need(rest['_count'] == below, 'the count is not that of +Inf:', group)
    need(not math.isnan(rest['_sum']), 'the sum is NaN:', group)


CHECKS = {'counter': check_counter, 'gauge': check_gauge, 'info': check_info,
          'stateset': check_stateset, 'histogram': check_histogram, 'unknown': check_gauge}


# ---- protobuf ------------------------------------------------------------------------------------

def text_format(text):
    """protoc's text form of one message, as {field: [values]}; nested messages likewise."""
    token = re.compile(r'\s*(?:(\w+)\s*\{|(\w+):\s*("(?:[^"\\]|\\.)*"|\S+)|(\}))')
    top = {}
    stack, at = [top], 0
    text = text.rstrip()
    while at < len(text):
        m = token.match(text, at)
        need(m, 'protoc wrote', text[at:at + 80])
        at = m.end()
        if m[1]:
            inner = {}
            stack[-1].setdefault(m[1], []).append(inner)
            stack.append(inner)
        elif m[2]:
            value = m[3]
            if value.startswith('"'):
                raw = re.sub(rb'\\([0-7]{3}|.)', lambda e: bytes([int(e[1], 8)])
                             if len(e[1]) == 3 else {b'n': b'\n', b't': b'\t', b'r': b'\r'}
                             .get(e[1], e[1]), value[1:-1].encode())
                value = raw.decode('utf-8')
            stack[-1].setdefault(m[2], []).append(value)
        else:
            stack.pop()
    need(len(stack) == 1, 'braces')
    return top


def messages(body):
    at = 0
    while at < len(body):
        length = shift = 0
        while True:
            need(at < len(body), 'cut off in a length')
            b = body[at]
            at += 1
            length |= (b & 0x7f) << shift
            shift += 7
            if b < 0x80:
                break
        need(at + length <= len(body), 'cut off in a message')
        yield body[at:at + length]
        at += length


def decode(body):
    """MetricFamily messages, each as text_format() gives it."""
    here = os.path.dirname(os.path.abspath(__file__))
    for message in messages(body):
        p = subprocess.run(['protoc', '-I', here, '--decode=io.prometheus.client.MetricFamily',
                            'metrics.proto'], input=message, stdout=subprocess.PIPE, check=True)
        family = text_format(p.stdout.decode('utf-8'))
        for f in family:
            need(f in ('name', 'help', 'type', 'metric'), 'an unknown field:', f)
        yield family


def histogram_of(h):
    """A histogram message as {'count', 'sum', 'schema'..., 'buckets': {index: count}}."""
    out = {'count': int(h['sample_count'][0]), 'sum': float(h['sample_sum'][0])}
    if 'schema' not in h:
        out['classic'] = [(float(b['upper_bound'][0]), int(b['cumulative_count'][0]))
                          for b in h.get('bucket', [])]
        return out
    out['schema'] = int(h['schema'][0])
    out['zero_threshold'] = float(h['zero_threshold'][0])
    out['zero_count'] = int(h['zero_count'][0])
    out['buckets'] = {}
    deltas = [int(d) for d in h.get('positive_delta', [])]
    index = count = 0
    for span in h.get('positive_span', []):
        index += int(span['offset'][0])
        for _ in range(int(span['length'][0])):
            count += deltas.pop(0)
            need(count >= 0, 'a negative bucket')
            if count:
                out['buckets'][index] = count
            index += 1
    need(not deltas, 'deltas that are of no span')
    need(out['count'] == out['zero_count'] + sum(out['buckets'].values()), 'count')
    return out


def protobuf(body):
    """Counters and gauges as in text(); a histogram's value is histogram_of()."""
    samples = {}
    for family in decode(body):
        name, kind = family['name'][0], family.get('type', ['COUNTER'])[0]
        need(re.fullmatch(NAME, name), 'name:', name)
        for metric in family['metric']:
            labels = [(p['name'][0], p['value'][0]) for p in metric.get('label', [])]
            need(len(dict(labels)) == len(labels), 'a label comes twice:', labels)
            if kind == 'HISTOGRAM':
                value = histogram_of(metric['histogram'][0])
            else:
                value = float(metric[kind.lower()][0]['value'][0])
            add(samples, name, labels, value, name)
    return samples


SERIES = re.compile(rf'^({NAME})(?:\{{(.*)\}})? (\S+)(?: \S+)?$', re.M)


def series(text):
    """[(name, labels, value)] of an exposition in text that is known to be valid."""
    return [(m[1], dict(ONE_LABEL.findall(m[2] or '')), float(m[3])) for m in SERIES.finditer(text)]


def total(text, name, **labels):
    """The sum over all series of this name that carry these labels."""
    return sum(v for n, have, v in series(text)
               if n == name and all(have.get(k) == w for k, w in labels.items()))


IDENTITY = {'service', 'pod', 'process', 'namespace', 'container', 'host', 'unit', 'uid'}


def of_application(body):
    """({name: type}, {name: help}, {(sample, labels): value}) of text, without what tells processes apart."""
    types, helps, samples = {}, {}, {}
    for line in body.splitlines():
        if line.startswith('# '):
            _, what, name, rest = line.split(' ', 3)
            (types if what == 'TYPE' else helps)[name] = rest
        elif line:
            name, labels, value, _ = sample(line)
            samples[name, tuple(sorted((k, v) for k, v in labels if k not in IDENTITY))] = value
    return types, helps, samples


class Scrape:
    """One exposition in text."""

    def __init__(self, text):
        self.text = text

    def all(self, name, **labels):
        """[(name and labels, value as text)] of the series with these labels."""
        return [tuple(line.rsplit(' ', 1)) for line in self.text.split('\n') if line.startswith(name + '{') and
                all(f'{k}="{v}"' in line for k, v in labels.items())]

    def sum(self, name, **labels):
        """The sum of those with these labels; None if there is none."""
        found = [float(value) for _, value in self.all(name, **labels)]
        return sum(found) if found else None
