#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""'make install DESTDIR=...' gives a program, a library that pkg-config finds and C11 and C++17
programs link, shared and static, and manual pages for every command."""
import glob
import os
import re
import subprocess
import sys

from harness import check, workdir

build = sys.argv[1]
d = workdir()
root = f'{d}/root'


def run(*cmd, **env):
    p = subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, env={**os.environ, **env}, timeout=120)
    check(p.returncode == 0, f'{" ".join(cmd)}: exit {p.returncode}\n{p.stdout}')
    return p.stdout


def only(pattern):
    found = glob.glob(root + pattern, recursive=True)
    check(len(found) == 1, f'{pattern}: {found}')
    return found[0]


run('meson', 'install', '-C', build, '--no-rebuild', '--destdir', root)
sidelight = only('/**/bin/sidelight')
check(run(sidelight, '--version').startswith('sidelight '), 'the program does not run')
for command in re.findall(r'^  ([a-z]+) +\S', run(sidelight, '--help'), re.M):
    if command != 'help':
        only(f'/**/man1/sidelight-{command}.1')
unit = only('/**/sidelight-agent.service')
with open(unit) as f:
    check(f'ExecStart={sidelight.removeprefix(root)} agent' in f.read(), 'the unit starts another program')
run(f'{only("/**/libexec/sidelight")}/shop', '--help',
    LD_LIBRARY_PATH=os.path.dirname(only('/**/libsidelight.so')))

with open(f'{d}/t.c', 'w') as f:
    f.write('''#include <sidelight/sidelight.h>
int main(void)
{
	static struct sl_publisher_opts opts;
	static struct sl_metric_opts metric;
	struct sl_publisher *p;
	struct sl_counter c;
	uint64_t v;

	opts.sz = sizeof(opts);
	metric.sz = sizeof(metric);
	opts.flags = SL_PUBLISHER_DETACHED;
	metric.name = "x_total";
	p = sl_publisher_open(&opts);
	c = sl_counter_create(p, &metric);
	sl_counter_add(c, 41);
	sl_counter_inc(c);
	v = sl_counter_value(c);
	sl_publisher_close(p);
	return v == 42 ? 0 : 1;
}
''')
pc = {'PKG_CONFIG_PATH': os.path.dirname(only('/**/sidelight.pc')), 'PKG_CONFIG_SYSROOT_DIR': root}
shared = run('pkg-config', '--cflags', '--libs', 'sidelight', **pc).split()
static = run('pkg-config', '--cflags', '--libs', '--static', 'sidelight', **pc).split()
warn = ['-Wall', '-Wextra', '-Werror', '-pedantic']
for name, cmd in (('c11', ['cc', '-std=c11', f'{d}/t.c']),
                  ('c++17', ['c++', '-std=c++17', '-x', 'c++', f'{d}/t.c', '-x', 'none'])):
    run(*cmd, *warn, '-o', f'{d}/{name}', *shared)
    run(f'{d}/{name}', LD_LIBRARY_PATH=os.path.dirname(only('/**/libsidelight.so')))
    run(*cmd, *warn, '-static', '-o', f'{d}/{name}-static', *static)
    run(f'{d}/{name}-static')
