#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""'make install DESTDIR=...' gives a program, a library that pkg-config finds and C11 and C++17
programs link, shared and static, and manual pages for every command."""
import glob
import os
import re
import shutil
import subprocess
import sys

from support.process import check, workdir

build = sys.argv[1]
d = workdir()
root = f'{d}/root'


def run(*cmd, **env):
    p = subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, env={**os.environ, **env}, timeout=300)
    check(p.returncode == 0, f'{" ".join(cmd)}: exit {p.returncode}\n{p.stdout}')
    return p.stdout


def only(pattern):
    found = glob.glob(root + pattern, recursive=True)
    check(len(found) == 1, f'{pattern}: {found}')
    return found[0]


run('meson', 'install', '-C', build, '--no-rebuild', '--destdir', root)
sidelight = only('/**/bin/sidelight')
check(run(sidelight, '--version').startswith('sidelight '), 'the program does not run')
with open(only('/**/man1/sidelight.1')) as f:
    manual = f.read()
for command in re.findall(r'^  ([a-z]+) +\S', run(sidelight, '--help'), re.M):
    check(f'.It Cm {command}\n' in manual, f'sidelight(1) leaves {command} out')
    if command != 'help':
        only(f'/**/man1/sidelight-{command}.1')
unit = only('/**/sidelight-agent.service')
with open(unit) as f:
    agent = only('/**/libexec/sidelight/sidelight-agent')
    check(f'ExecStart={agent.removeprefix(root)} --config' in f.read(), 'the unit starts another program')

# systemd takes the units as they are, but for the place of the program.
units, settings_of = [], {}
for name in ('agent', 'collect', 'translate', 'report'):
    with open(only(f'/**/sidelight-{name}.service')) as f:
        text = re.sub(r'^ExecStart=(?=/)', f'ExecStart={root}', f.read(), flags=re.M)
    units.append(f'{d}/sidelight-{name}.service')
    settings_of[name] = text.splitlines()
    with open(units[-1], 'w') as f:
        f.write(text)
# The units permit what the programs do.
for name, setting in (('agent', 'ProtectHome=read-only'),  # --host measures the file system of /home
                      ('collect', 'SystemCallFilter=bpf'),  # reads the kernel tables of an agent on this host
                      ('collect', 'StateDirectory=sidelight'), ('translate', 'StateDirectory=sidelight-translate')):
    check(setting in settings_of[name], f'sidelight-{name}.service lacks {setting}')
for name in ('agent', 'agent-consume', 'collect'):
    units.append(shutil.copy(only(f'/**/sidelight-{name}.socket'), d))
os.mkdir(f'{d}/sidelight-agent.service.d')
shutil.copy(only('/**/examples/sidelight-agent-tcp.conf'), f'{d}/sidelight-agent.service.d/tcp.conf')
if shutil.which('systemd-analyze'):
    p = subprocess.run(['systemd-analyze', 'verify', '--man=no', *units], text=True, timeout=300,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if 'initialize manager' in p.stdout:
        print(f'SKIP: systemd-analyze cannot run here: {p.stdout.strip()}')
    else:
        said = [line for line in p.stdout.split('\n') if 'sidelight' in line]
        check(not said, '\n'.join(said))
        # No unit is more exposed than it needs to be: systemd's own measure, 0 to 10.
        for unit, most in (('agent', 3.0), ('collect', 3.0), ('translate', 3.0), ('report', 4.0)):
            p = subprocess.run(['systemd-analyze', 'security', '--offline=yes', f'--threshold={10 * most:.0f}',
                                f'{d}/sidelight-{unit}.service'], text=True, timeout=300, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            check(p.returncode == 0, f'{unit}: {p.stdout[-300:]}')
else:
    print('SKIP: no systemd-analyze to look at the units')

# Each socket in the example settings is in a folder that the unit of its listener creates.
for name, listener in (('agent', 'agent'), ('collect', 'agent'), ('translate', 'collect')):
    with open(only(f'/**/examples/{name}.yaml')) as f:
        sockets = re.findall(r'/run/\S+\.sock', f.read())
    made = [f'/run/{word}' for line in settings_of[listener] if line.startswith('RuntimeDirectory=') for word in line.split('=')[1].split()]
    check(sockets and all(os.path.dirname(s) in made for s in sockets), f'{name}.yaml: {sockets}, but {listener} has {made}')

# The examples of settings are accepted, also with all that is commented out.
translate = (['--collector', 'unix:/nowhere/dta.sock', '--secret', f'{d}/nowhere'], 'No such file')
for name, args, why in (('agent', ['--status'], 'No such file'), ('collect', ['--mode', 'setup', '--duration', '10ms'], 'No such file'),
                        ('translate', *translate), ('report', ['--interface', 'nowhere'], 'nowhere')):
    with open(only(f'/**/examples/{name}.yaml')) as f:
        text = f.read().replace('/run/sidelight/', f'{d}/')
    for settings in (text, re.sub(r'^# ([a-z-]+: [^ ]+( +#.*)?)$', r'\1', text, flags=re.M)):
        with open(f'{d}/{name}.yaml', 'w') as f:
            f.write(settings)
        p = subprocess.run([sidelight, name, '--config', f'{d}/{name}.yaml', *args], text=True,
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
        check(p.returncode == 1 and why in p.stdout + p.stderr,
              f'{name}.yaml: exit {p.returncode} {p.stdout} {p.stderr}')

# Each package is in the place that its README names, for the default prefix.
prefix = os.path.dirname(os.path.dirname(sidelight.removeprefix(root)))
for language, a_file in (('go', 'sidelight/exemplar.go'), ('node', 'sidelight/index.js'), ('python', 'sidelight/__init__.py'),
                         ('rust', 'rust/Cargo.toml')):
    if not glob.glob(f'{root}/**/{a_file}', recursive=True):
        print(f'SKIP: the package for {language} is not built here')
        continue
    with open(os.path.join(os.path.dirname(__file__), f'../../bindings/{language}/README.md')) as f:
        named = re.findall(r'/usr/local(/[\w./-]*\w)', f.read())
    check(named, f'the README for {language} names no place')
    for place in named:
        check(os.path.exists(root + prefix + place), f'the README for {language} names {place}')

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

# Reports and queries are another library, which applications that only count do not need.
with open(f'{d}/dta.c', 'w') as f:
    f.write('''#include <sidelight/query.h>
#include <sidelight/report.h>
int main(void)
{
	sl_reporter_close(0);
	return sl_store_open("/nonexistent/store", 0, 0) != 0;
}
''')
dta = run('pkg-config', '--cflags', '--libs', 'sidelight-dta', **pc).split()
run('cc', '-std=c11', f'{d}/dta.c', *warn, '-o', f'{d}/dta', *dta)
run(f'{d}/dta', LD_LIBRARY_PATH=os.path.dirname(only('/**/libsidelight-dta.so')))
