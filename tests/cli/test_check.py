#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""'make check' counts every skip, also of one part of a program, with its reason: in a small
project of the test, scripts/check builds and runs tests that pass, fail and skip in each way."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

scripts = sys.argv[1]

PROGRAM = r'''
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void runs(void **state) { (void)state; }
static void fails(void **state) { (void)state; fail(); }
static void says_why(void **state) { (void)state; puts("SKIP: no moon"); skip(); }
static void returns(void **state) { (void)state; print_message("SKIP: no sun\n"); }
static void says_nothing(void **state) { (void)state; skip(); }
static void leaves(void **state) { (void)state; puts("SKIP: no stars"); fflush(stdout); exit(77); }

int main(int argc, char **argv)
{
	const struct CMUnitTest mixed[] = {cmocka_unit_test(runs), cmocka_unit_test(says_why),
					   cmocka_unit_test(returns)};
	const struct CMUnitTest none[] = {cmocka_unit_test(says_why)};
	const struct CMUnitTest silent[] = {cmocka_unit_test(runs), cmocka_unit_test(says_nothing)};
	const struct CMUnitTest broken[] = {cmocka_unit_test(says_why), cmocka_unit_test(fails)};
	const struct CMUnitTest whole[] = {cmocka_unit_test(leaves)};

	if (argc < 2 || !strcmp(argv[1], "mixed"))
		return cmocka_run_group_tests(mixed, NULL, NULL);
	if (!strcmp(argv[1], "none"))
		return cmocka_run_group_tests(none, NULL, NULL);
	if (!strcmp(argv[1], "silent"))
		return cmocka_run_group_tests(silent, NULL, NULL);
	if (!strcmp(argv[1], "whole"))
		return cmocka_run_group_tests(whole, NULL, NULL);
	return cmocka_run_group_tests(broken, NULL, NULL);
}
'''
MESON = '''
project('small', 'c', meson_version: '>=1.0')
subdir('scripts')
p = executable('p', 'p.c', dependencies: dependency('cmocka'))
foreach n : ['mixed', 'none', 'silent', 'broken', 'whole']
  test(n, p, args: [n], suite: ['unit'])
endforeach
sh = find_program('sh')
test('script', sh, args: ['-c', 'echo "[0] SKIP: one: no wind"; echo "SKIP: no rain"'],
  suite: ['e2e'])
test('absent', sh, args: ['-c', 'echo "SKIP: no sea"; exit 77'], suite: ['e2e'])
test('mute', sh, args: ['-c', 'exit 77'], suite: ['e2e'])
test('leaves_a_process', sh, args: ['-c', 'setsid sleep 300 & exit 0'], suite: ['e2e'])
test('leaves_a_file', sh, args: ['-c', 'touch $TMPDIR/file'], suite: ['e2e'])
test('late', sh, args: ['-c', 'sleep 300'], suite: ['e2e'], timeout: 1)
test('talks', sh, args: ['-c', 'yes'], suite: ['e2e'])
test('crashes', sh, args: ['-c', 'kill -SEGV $$'], suite: ['e2e'], is_parallel: false)
'''
# A few failures are run again: 'mended' passes every time then, 'relapses' fails once more, 'broken' every time.
FEW = '''
project('small', 'c', meson_version: '>=1.0')
subdir('scripts')
sh = find_program('sh')
test('fine', sh, args: ['-c', 'true'], suite: ['e2e'])
count = 'echo >>@0@/$0; n=$(wc -l <@0@/$0); '.format(meson.current_build_dir())
test('mended', sh, args: ['-c', count + 'test $n != 1 || { echo FAILED: the first time; exit 1; }', 'mended'], suite: ['e2e'])
test('relapses', sh, args: ['-c', count + 'test $n != 1 -a $n != 12', 'relapses'], suite: ['e2e'])
test('broken', sh, args: ['-c', 'exit 1'], suite: ['e2e'])
'''
OPTIONS = "option('bench', type: 'boolean')\n"  # which scripts/check sets
WANTED = {
    ('mixed', 'pass', ''), ('mixed/says_why', 'skip', 'no moon'), ('mixed/returns', 'skip', 'no sun'),
    ('none/says_why', 'skip', 'no moon'),
    ('silent', 'pass', ''), ('silent/says_nothing', 'fail', ''),
    ('broken', 'fail', ''), ('broken/says_why', 'skip', 'no moon'),
    ('whole/leaves', 'skip', 'no stars'),
    ('script', 'pass', ''), ('script', 'skip', 'one: no wind'), ('script', 'skip', 'no rain'),
    ('absent', 'skip', 'no sea'),
    ('mute', 'fail', ''),
    ('leaves_a_process', 'fail', ''), ('leaves_a_file', 'fail', ''),
    ('late', 'fail', ''), ('talks', 'fail', ''), ('crashes', 'fail', ''),
}
LEFT = {'leaves_a_process': r'left running: \d+ \(sleep 300\)', 'leaves_a_file': 'left in TMPDIR: file'}


def check(meson):
    """Returns the process that checked a project with these tests, and its results."""
    d = tempfile.mkdtemp(prefix='check-')
    try:
        mine = os.path.join(shutil.copytree(scripts, os.path.join(d, 'scripts')), 'check')
        for name, text in (('p.c', PROGRAM), ('meson.build', meson), ('meson_options.txt', OPTIONS)):
            with open(os.path.join(d, name), 'w') as f:
                f.write(text)
        # The meson that runs this test has settings of its own in the environment.
        env = {k: v for k, v in os.environ.items() if not k.startswith('MESON_')}
        p = subprocess.run([mine, '--only', 'native'], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env)
        with open(os.path.join(d, 'build-check', 'results.json')) as f:
            return p, json.load(f)
    finally:
        shutil.rmtree(d)


p, all_results = check(MESON)
found = {(r['name'], r['result'], r['reason']) for r in all_results if r['step'] == 'native'}
logs = {r['name']: r['log'] for r in all_results}
text = '\n'.join('  | ' + line for line in (p.stdout + p.stderr).splitlines())
for what, difference in (('missing', WANTED - found), ('too much', found - WANTED)):
    if difference:
        print(f'FAILED: {what}: {sorted(difference)}\n{text}')
        sys.exit(1)
passed, failed, skipped = (sum(w[1] == r for w in WANTED) for r in ('pass', 'fail', 'skip'))
for name, said in LEFT.items():
    if not re.search(said, logs[name]):
        print(f'FAILED: {name} is not told of what it left: {logs[name]}\n{text}')
        sys.exit(1)
passed += 1  # the build
last = p.stdout.rstrip().split('\n')[-1]
if p.returncode != 1 or last != f'{passed} passed, {failed} failed, {skipped} skipped':
    print(f'FAILED: exit {p.returncode}, "{last}"\n{text}')
    sys.exit(1)
# The last lines name all failures, whatever else is printed.
names = [name for name, result, _ in WANTED if result == 'fail']
end = p.stdout.rstrip().split('\n')[-3 - len(names):-3]
if sorted(m.group(1) for m in (re.match(r'FAILED \w+: (\S+): ', e) for e in end) if m) != \
        sorted(names):
    print(f'FAILED: the failures are not named at the end: {end}\n{text}')
    sys.exit(1)
for name, result, reason in WANTED:
    if result == 'skip' and not re.search(rf'^SKIPPED native: {name}: {reason}', p.stdout, re.M):
        print(f'FAILED: the reason of {name} is not shown\n{text}')
        sys.exit(1)

p, _ = check(FEW)
end = p.stdout.rstrip().split('\n')
if p.returncode != 1 or end[-1] != '3 passed, 2 failed, 0 skipped' or \
        end[-2] not in ('2 unsteady: native mended, native relapses', '2 unsteady: native relapses, native mended') or \
        not re.match(r'UNSTEADY, passed alone native: mended: .*the first time', end[-6]) or \
        {e.split(': ')[0] + e.split(': ')[1] for e in end[-5:-3]} != {'UNSTEADY, FAILED nativerelapses', 'FAILED nativebroken'}:
    print(f'FAILED: few failures: exit {p.returncode}: {end}')
    sys.exit(1)
