#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library as somebody else's build sees it: what it exports, pkg-config, C11, C++17, static,
and as part of a plugin that is closed again."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = sys.argv[1:3]
del sys.argv[1:3]
CC = os.environ.get('SL_TEST_CC', 'cc')
CXX = os.environ.get('SL_TEST_CXX', 'c++')
STRICT = ['-Wall', '-Wextra', '-Wpedantic', '-Werror', '-O2']

PROGRAM = r'''
#include <sidelight/sidelight.h>
#include <sidelight/attach.h>
#include <sidelight/query.h>
#include <sidelight/report.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
	struct sl_metric_opts o;
	struct sl_publisher_opts po;
	struct sl_publisher *p;
	struct sl_counter c;
	struct sl_histogram h;
	memset(&o, 0, sizeof(o));
	memset(&po, 0, sizeof(po));
	po.sz = sizeof(po);
	po.flags = SL_PUBLISHER_DETACHED;
	o.sz = sizeof(o);
	o.name = "c_total";
	p = sl_publisher_open(&po);
	c = sl_counter_create(p, &o);
	o.name = "h";
	h = sl_histogram_create(p, &o);
	sl_counter_inc(c);
	sl_counter_add(c, 41);
	sl_histogram_observe(h, 0.5);
	printf("%llu %llu %s\n", (unsigned long long)sl_counter_value(c),
	       (unsigned long long)sl_histogram_count(h), sl_version());
	sl_publisher_close(p);
	sl_reporter_close(0); /* and with it the code of MACs */
	if (sl_store_open("/nonexistent/store", 0, 0))
		return 1;
	return 0;
}
'''

PLUGIN = r'''
#include <sidelight/sidelight.h>
static struct sl_publisher *p;
static struct sl_counter c;
int plugin_open(void)
{
	struct sl_metric_opts o = {0};
	struct sl_publisher_opts po = {0};
	po.sz = sizeof(po);
	po.socket = "/nonexistent/agent.sock";
	o.sz = sizeof(o);
	o.name = "c_total";
	p = sl_publisher_open(&po);
	c = sl_counter_create(p, &o);
	return p ? 0 : 1;
}
void plugin_count(void) { sl_counter_inc(c); }
int plugin_value(void) { return (int)sl_counter_value(c); }
void plugin_close(void) { sl_publisher_close(p); }
'''

HOST = r'''
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static sem_t counted, closed;
static void (*count)(void);
static void *thread(void *arg)
{
	count();
	sem_post(&counted);
	sem_wait(&closed);
	return arg; /* ends after the plugin is gone: the library's destructor must be there */
}
int main(int argc, char **argv)
{
	sem_init(&counted, 0, 0);
	sem_init(&closed, 0, 0);
	for (int i = 0; i < 20; i++) {
		void *so = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		pthread_t t[4];
		int (*value)(void);
		pid_t pid;
		int status;
		if (!so) { fprintf(stderr, "%s\n", dlerror()); return 1; }
		if (((int (*)(void))dlsym(so, "plugin_open"))()) return 2;
		count = (void (*)(void))dlsym(so, "plugin_count");
		value = (int (*)(void))dlsym(so, "plugin_value");
		for (int k = 0; k < 4; k++) pthread_create(&t[k], NULL, thread, NULL);
		for (int k = 0; k < 4; k++) sem_wait(&counted);
		if (value() != 4) return 3;
		((void (*)(void))dlsym(so, "plugin_close"))();
		if (dlclose(so)) return 4;
		for (int k = 0; k < 4; k++) sem_post(&closed);
		for (int k = 0; k < 4; k++) pthread_join(t[k], NULL);
		pid = fork(); /* and so must its handlers of fork */
		if (!pid) _exit(0);
		waitpid(pid, &status, 0);
		if (status) return 5;
	}
	(void)argc;
	puts("ok");
	return 0;
}
'''


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120, **more)
    if done.returncode:
        raise AssertionError(f'{" ".join(map(str, command))}: {done.returncode}\n{done.stdout}')
    return done.stdout


class Link(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A prefix as make install would make it, of the library alone."""
        cls.dir = tempfile.mkdtemp(prefix='sl-link-')
        prefix = os.path.join(cls.dir, 'usr')
        lib = os.path.join(prefix, 'lib')
        os.makedirs(os.path.join(lib, 'pkgconfig'))
        shutil.copytree(os.path.join(SOURCE, 'include'), os.path.join(prefix, 'include'))
        for name in os.listdir(os.path.join(BUILD, 'lib')):
            if re.fullmatch(r'libsidelight\.(a|so[.0-9]*)', name):
                shutil.copy(os.path.join(BUILD, 'lib', name), lib, follow_symlinks=False)
        with open(os.path.join(BUILD, 'meson-private', 'sidelight.pc')) as f:
            pc = f.read()
        pc = re.sub(r'(?m)^prefix=.*', 'prefix=' + prefix, pc)
        pc = re.sub(r'(?m)^libdir=.*', 'libdir=${prefix}/lib', pc)
        with open(os.path.join(lib, 'pkgconfig', 'sidelight.pc'), 'w') as f:
            f.write(pc)
        cls.env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(lib, 'pkgconfig'),
                       LD_LIBRARY_PATH=lib, SIDELIGHT_SOCKET='/nonexistent/agent.sock')
        cls.lib = lib

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def file(self, name, text=''):
        path = os.path.join(self.dir, name)
        if text:
            with open(path, 'w') as f:
                f.write(text)
        return path

    def flags(self, *more):
        return run('pkg-config', '--cflags', '--libs', *more, 'sidelight', env=self.env).split()

    def test_exports_what_the_headers_declare_and_no_more(self):
        declared = set()
        for header in ('sidelight.h', 'span.h', 'report.h', 'query.h'):
            with open(os.path.join(SOURCE, 'include/sidelight', header)) as f:
                declared |= set(re.findall(r'\bSL_API\b[^;{]*?\b(sl_\w+)\s*\(', f.read()))
        declared.add('sl__thread')
        with open(os.path.join(SOURCE, 'lib/libsidelight.map')) as f:
            mapped = set(re.findall(r'\b(sl_\w+);', f.read()))
        exported = set()
        for line in run('nm', '-D', '--defined-only',
                        os.path.join(self.lib, 'libsidelight.so')).splitlines():
            name = line.split()[-1]
            if not name.startswith('SIDELIGHT_'):
                self.assertRegex(name, r'@@SIDELIGHT_0\.1$')
                exported.add(name.split('@')[0])
        self.assertEqual(declared, mapped)
        self.assertEqual(declared, exported)
        self.assertGreater(len(exported), 30)

    def test_c11_and_cxx17_shared_and_static_count(self):
        for compiler, standard, name in ((CC, '-std=c11', 'p.c'), (CXX, '-std=c++17', 'p.cc')):
            if not shutil.which(compiler):
                print(f'SKIP: no {compiler}')
                continue
            source = self.file(name, PROGRAM)
            for kind in ([], ['--static']):
                flags = self.flags(*kind)
                if kind:
                    flags = ['-Wl,-Bstatic' if f == '-lsidelight' else f for f in flags]
                    at = flags.index('-Wl,-Bstatic')
                    flags[at:at + 1] = ['-Wl,-Bstatic', '-lsidelight', '-Wl,-Bdynamic']
                exe = self.file('p.out')
                run(compiler, standard, *STRICT, source, '-o', exe, *flags)
                needed = run('readelf', '-d', exe)
                self.assertEqual('libsidelight.so.0' in needed, not kind)
                self.assertEqual(run(exe, env=self.env), '42 1 0.1.0\n')

    def test_examples_build_by_the_line_in_their_head(self):
        for name in ('shop', 'queue', 'ask'):
            run(CC, '-O2', '-Wall', '-Wextra', '-Werror', '-o', self.file(name),
                os.path.join(SOURCE, 'examples', name + '.c'), *self.flags(), '-pthread')
            self.assertIn('usage: ' + name, run(self.file(name), '--help', env=self.env))
        out = run(self.file('queue'), '--jobs', '50', '--rate', '1000', env=self.env)
        self.assertIn('ready ', out)

    def test_a_plugin_can_be_closed_while_its_threads_run(self):
        plugin = self.file('plugin.so')
        run(CC, '-O2', '-shared', '-fPIC', self.file('plugin.c', PLUGIN), '-o', plugin,
            *self.flags())
        host = self.file('host')
        run(CC, '-O2', '-w', self.file('host.c', HOST), '-o', host, '-pthread', '-ldl')
        self.assertEqual(run(host, plugin, env=self.env), 'ok\n')


if __name__ == '__main__':
    if not shutil.which('pkg-config') or not shutil.which(CC):
        print('SKIP: no pkg-config, or no compiler')
        sys.exit(77)
    unittest.main(verbosity=2)
