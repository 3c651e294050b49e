# SPDX-License-Identifier: Apache-2.0
"""The metrics of other programs, and of a collector that reads them, in a form in which the two can be compared."""
import re

OURS = ('service', 'pod', 'namespace', 'host', 'process', 'uid')
SAMPLE = re.compile(r'([^{ ]+)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def read(text, keep=lambda labels: True):
    """({(name, labels): value}, {family: type}, {family: help}) of text 0.0.4, without our labels and
    what the collector says of itself."""
    series, types, helps = {}, {}, {}
    for line in text.splitlines():
        words = line.split(' ', 3)
        if words[:2] == ['#', 'TYPE']:
            types[words[2]] = words[3]
        elif words[:2] == ['#', 'HELP']:
            helps[words[2]] = words[3]
        elif line and line[0] != '#':
            name, labels, value = SAMPLE.fullmatch(line).groups()
            labels = dict(LABEL.findall(labels or ''))
            if keep(labels) and not name.startswith('sidelight_'):
                labels = tuple(sorted((k, v) for k, v in labels.items() if k not in OURS))
                series[name, labels] = value
    return series, types, helps
