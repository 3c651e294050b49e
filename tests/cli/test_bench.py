#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""'bench/run' goes on after a step that fails or prints a line that is no row, and has a row for the failure."""
import importlib.machinery
import io
import json
import os
import sys

from support.process import check, workdir

sys.dont_write_bytecode = True
run = importlib.machinery.SourceFileLoader('run', os.path.join(sys.argv[1], 'bench', 'run')).load_module()
run.BUILD = workdir()
ROW = '{"name": "one", "value": 2, "unit": "ns"}'
run.STEPS = {
    'talks': (['sh', '-c', f"""echo '{{"error": "no name"}}'; echo 7; echo '{ROW}'"""], []),
    'fails': (['sh', '-c', 'exit 3'], []),
    'last': (['echo', ROW.replace('one', 'two')], []),
}
out = io.StringIO()
rows, failed = run.run_all(list(run.STEPS), out)
check([r['name'] for r in rows] == ['one', 'bench.step.fails', 'two', 'bench.run'], rows)
check([json.loads(line) for line in out.getvalue().splitlines()] == rows, out.getvalue())
check(failed == {'fails': 'exit status 3'}, failed)
check('FAILED: exit status 3' in run.table(rows, {}), run.table(rows, {}))
