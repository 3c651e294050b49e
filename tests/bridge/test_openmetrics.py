#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_openmetrics.py PARSE_TEXT - the parser against cases that say what a parser must take and refuse: those of the
OpenMetrics project, if SL_OPENMETRICS_CASES is its folder tests/testdata/parsers, and some of ours."""
import json
import os
import subprocess
import sys
import tempfile

from support.process import check

PARSE = sys.argv[1]

# Of OpenMetrics 1.0; a body without "# EOF" gets it. What comes first is whether it is right.
CASES = [
    (True, ''),
    (True, '# TYPE a counter\na_total 1 # {} 1\n'),
    (True, '# TYPE a counter\na_total 1 1 # {x="y"} 1 1\n'),
    (True, '# TYPE a counter\na_total{x="1"} 1\na_created{x="1"} 1\na_total{x="2"} 1\n'),
    (False, '# TYPE a counter\na_total{x="1"} 1\na_total{x="2"} 1\na_created{x="1"} 1\n'),
    (False, '# TYPE a counter\na 1\n'),
    (False, '# TYPE a counter\na_total 1 # {x="' + 'y' * 128 + '"} 1\n'),
    (True, '# TYPE a counter\na_total 1 # {x="' + 'y' * 127 + '"} 1\n'),
    (True, '# TYPE a counter\na_total 1 # {x="' + '\u00e4' * 127 + '"} 1\n'),
    (False, '# TYPE a counter\na_total NaN\n'),
    (False, '# TYPE a counter\na_total -1\n'),
    (False, '# TYPE a gauge\na 1 # {x="y"} 1\n'),
    (True, '# TYPE a gauge\na NaN\n'),
    (True, '# TYPE a gauge\na +Inf\n'),
    (False, '# TYPE a gauge\na 1 \n'),
    (False, '# TYPE a gauge\na  1\n'),
    (False, '# TYPE a gauge\na{x="1",} 1\n'),
    (False, '# TYPE a gauge\na{x="1" ,y="2"} 1\n'),
    (False, '# TYPE a gauge\na{x="1",x="2"} 1\n'),
    (False, '# TYPE a gauge\na 0x1\n'),
    (False, '# TYPE a gauge\na 1_000\n'),
    (False, '# TYPE a gauge\na 1\r\n'),
    (False, '# TYPE a gauge\na 1 12.3.4\n'),
    (False, '# TYPE a gauge\na 1 NaN\n'),
    (True, '# TYPE a gauge\na 1 1\na 2 2\n'),
    (False, '# TYPE a gauge\na 1 2\na 2 1\n'),
    (False, '# TYPE a gauge\n# TYPE a gauge\na 1\n'),
    (False, '# TYPE a gauge\na 1\n# HELP a x\n'),
    (False, '# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\na 2\n'),
    (False, '# UNIT a seconds\na 1\n'),
    (True, '# UNIT a_seconds seconds\na_seconds 1\n'),
    (False, '# a comment\n'),
    (False, '#TYPE a gauge\na 1\n'),
    (False, '\na 1\n'),
    (True, '# TYPE a histogram\na_bucket{le="+Inf"} 1\n'),
    (False, '# TYPE a histogram\na_bucket{le="1"} 1\n'),
    (False, '# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\n'),
    (False, '# TYPE a histogram\na_bucket{le="2"} 1\na_bucket{le="1"} 1\na_bucket{le="+Inf"} 1\n'),
    (False, '# TYPE a histogram\na_bucket{le="+Inf"} 1\na_count 2\na_sum 1\n'),
    (False, '# TYPE a histogram\na_bucket{le="+Inf"} 1\na_sum 1\n'),
    (True, '# TYPE a gaugehistogram\na_bucket{le="-1"} 1\na_bucket{le="+Inf"} 1\na_gcount 1\na_gsum -1\n'),
    (False, '# TYPE a gaugehistogram\na_bucket{le="+Inf"} 1\na_gcount 1\na_sum 1\n'),
    (True, '# TYPE a summary\na{quantile="0.5"} NaN\na_count 1\na_sum 2\n'),
    (False, '# TYPE a summary\na{quantile="1.5"} 1\n'),
    (False, '# TYPE a summary\na 1\n'),
    (False, '# TYPE a info\na_info 2\n'),
    (False, '# TYPE a stateset\na{a="x"} 2\n'),
    (False, '# TYPE a stateset\na{b="x"} 1\n'),
    (False, '# TYPE a nonsense\na 1\n'),
    (False, '# TYPE a counter\na_total 1\n# TYPE a_total gauge\na_total 1\n'),
    (True, '# TYPE "a.b" gauge\n{"a.b","x.y"="1"} 1\n'),
    (False, '# TYPE a gauge\na 1\n# EOF\na 1\n'),
]


def taken(path):
    code = subprocess.run([PARSE, 'openmetrics', path], stdout=subprocess.DEVNULL, timeout=300).returncode
    check(code in (0, 1), path, code)
    return code == 0


with tempfile.TemporaryDirectory() as folder:
    for right, body in CASES:
        with open(f'{folder}/body', 'w', newline='') as f:
            f.write(body if '# EOF' in body else body + '# EOF\n')
        check(taken(f'{folder}/body') == right, 'wrongly', 'refused' if right else 'taken', repr(body))
print(f'{len(CASES)} cases of ours')

cases = os.environ.get('SL_OPENMETRICS_CASES')
if not cases:
    print('SKIP: the cases of the OpenMetrics project: SL_OPENMETRICS_CASES does not say where they are')
    sys.exit(0)
wrong = []
names = sorted(n for n in os.listdir(cases) if os.path.exists(f'{cases}/{n}/test.json'))
check(names, 'no cases in', cases)
for name in names:
    with open(f'{cases}/{name}/test.json') as f:
        case = json.load(f)
    if taken(f'{cases}/{name}/{case["file"]}') != case['shouldParse']:
        wrong.append(name)
check(not wrong, f'{len(wrong)} of {len(names)} differ:', wrong)
print(f'{len(names)} cases of the OpenMetrics project')
