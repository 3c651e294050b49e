#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both libraries as the build of another project sees them: exports, dependencies, pkg-config, C11, C++17,
static, and as part of a plugin that is closed again."""
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
#include <sidelight/span.h>
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
	return 0;
}
'''

# Reports and queries alone; then along with metrics.
DTA = r'''
#include <sidelight/query.h>
#include <sidelight/report.h>
#ifdef BOTH
#include <sidelight/sidelight.h>
#endif
int main(void)
{
	static struct sl_reporter_opts o;
	struct sl_reporter *r;
	o.sz = sizeof(o);
	o.target = "127.0.0.1:9";
	r = sl_reporter_open(&o); /* and with it the code of MACs */
	if (!r || sl_store_open("/nonexistent/store", 0, 0))
		return 1;
	sl_reporter_close(r);
#ifdef BOTH
	return !sl_version();
#else
	return 0;
#endif
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
                          stderr=subprocess.STDOUT, text=True, timeout=300, **more)
    if done.returncode:
        raise AssertionError(f'{" ".join(map(str, command))}: {done.returncode}\n{done.stdout}')
    return done.stdout


class Link(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Installs a prefix as make install would, with the libraries only."""
        cls.dir = tempfile.mkdtemp(prefix='sl-link-')
        prefix = os.path.join(cls.dir, 'usr')
        lib = os.path.join(prefix, 'lib')
        os.makedirs(os.path.join(lib, 'pkgconfig'))
        shutil.copytree(os.path.join(SOURCE, 'include'), os.path.join(prefix, 'include'))
        for folder in (os.path.join(BUILD, 'lib'), os.path.join(BUILD, 'lib/dta')):
            for name in os.listdir(folder):
                if re.fullmatch(r'libsidelight(-dta)?\.(a|so[.0-9]*)', name):
                    shutil.copy(os.path.join(folder, name), lib, follow_symlinks=False)
        shutil.copytree(os.path.join(SOURCE, 'bindings/cpp/prometheus'),
                        os.path.join(prefix, 'include/sidelight-prometheus-cpp/prometheus'))
        for name in ('sidelight.pc', 'sidelight-dta.pc', 'sidelight-prometheus-cpp.pc'):
            with open(os.path.join(BUILD, 'meson-private', name)) as f:
                pc = f.read()
            pc = re.sub(r'(?m)^prefix=.*', 'prefix=' + prefix, pc)
            pc = re.sub(r'(?m)^libdir=.*', 'libdir=${prefix}/lib', pc)
            with open(os.path.join(lib, 'pkgconfig', name), 'w') as f:
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

    def flags(self, *packages, static=False):
        """The words of pkg-config; static: with our libraries taken from their archives."""
        words = run('pkg-config', '--cflags', '--libs', *['--static'] * static,
                    *packages or ['sidelight'], env=self.env).split()
        if not static:
            return words
        return [w for f in words for w in (['-Wl,-Bstatic', f, '-Wl,-Bdynamic']
                                           if f.startswith('-lsidelight') else [f])]

    @staticmethod
    def needed(path):
        return set(re.findall(r'\(NEEDED\).*\[(.*)\]', run('readelf', '-d', path)))

    def test_exports_what_the_headers_declare_and_no_more(self):
        for library, headers, private, version in (
                ('libsidelight', ('sidelight.h', 'span.h'), {'sl__thread'}, 'SIDELIGHT_0.1'),
                ('libsidelight-dta', ('report.h', 'query.h'), set(), 'SIDELIGHT_DTA_0.1')):
            declared = set(private)
            for header in headers:
                with open(os.path.join(SOURCE, 'include/sidelight', header)) as f:
                    declared |= set(re.findall(r'\bSL_API\b[^;{]*?\b(sl_\w+)\s*\(', f.read()))
            path = os.path.join(self.lib, library)
            exported = [line.split()[-1].split('@@') for line in
                        run('nm', '-D', '--defined-only', path + '.so').splitlines()
                        if ' A ' not in line]
            self.assertEqual({v for _, v in exported}, {version})
            self.assertEqual(declared, {name for name, _ in exported})
            # The archive defines the same names, so that none can clash with an application's.
            archived = {line.split()[-1] for line in
                        run('nm', '-g', '--defined-only', path + '.a').splitlines()
                        if len(line.split()) == 3}
            self.assertEqual(declared, archived)
            self.assertGreater(len(declared), 25)

    def test_who_only_counts_needs_libc_alone(self):
        self.assertEqual(self.needed(os.path.join(self.lib, 'libsidelight.so')), {'libc.so.6'})
        source, exe = self.file('alone.c', PROGRAM), self.file('alone')
        run(CC, '-std=c11', *STRICT, source, '-o', exe, *self.flags(static=True))
        self.assertEqual(self.needed(exe), {'libc.so.6'})
        # Neither library needs the other.
        self.assertEqual(self.needed(os.path.join(self.lib, 'libsidelight-dta.so')),
                         {'libc.so.6', 'libm.so.6', 'libnettle.so.8'})

    def test_c11_and_cxx17_shared_and_static_count(self):
        for compiler, standard, name in ((CC, '-std=c11', 'p.c'), (CXX, '-std=c++17', 'p.cc')):
            if not shutil.which(compiler):
                print(f'SKIP: no {compiler}')
                continue
            source, exe = self.file(name, PROGRAM), self.file('p.out')
            for static in (False, True):
                run(compiler, standard, *STRICT, source, '-o', exe, *self.flags(static=static))
                self.assertEqual('libsidelight.so.0' in self.needed(exe), not static)
                self.assertEqual(run(exe, env=self.env), '42 1 0.1.0\n')

    def test_c11_and_cxx17_shared_and_static_report_and_query(self):
        for compiler, standard, name in ((CC, '-std=c11', 'd.c'), (CXX, '-std=c++17', 'd.cc')):
            if not shutil.which(compiler):
                print(f'SKIP: no {compiler}')
                continue
            source, exe = self.file(name, DTA), self.file('d.out')
            for static in (False, True):
                for packages in (['sidelight-dta'], ['sidelight', 'sidelight-dta']):
                    both = ['-DBOTH'] if len(packages) == 2 else []
                    run(compiler, standard, *STRICT, *both, source, '-o', exe,
                        *self.flags(*packages, static=static))
                    ours = {n for n in self.needed(exe) if 'sidelight' in n}
                    self.assertEqual(ours, set() if static else
                                     {f'lib{p}.so.0' for p in packages})
                    run(exe, env=self.env)

    def test_the_cxx_interface_compiles_strictly_and_runs(self):
        found = [c for c in (CXX, 'g++', 'clang++') if shutil.which(c)]
        if not found:
            print('SKIP: no C++ compiler')
        for compiler in dict.fromkeys(found):
            for standard in ('-std=c++17', '-std=c++20'):
                exe = self.file('cxx')
                run(compiler, standard, *STRICT, '-fno-exceptions', '-fno-rtti',
                    os.path.join(SOURCE, 'tests/lib/cxx.cc'), '-o', exe, *self.flags(), '-pthread')
                self.assertEqual(run(exe, env=self.env), 'ok\n')

    def test_prometheus_cpps_interface_compiles_strictly_and_runs(self):
        folder = os.path.join(SOURCE, 'bindings/cpp/prometheus')
        each = ''.join(f'#include <prometheus/{h}>\n' for h in sorted(os.listdir(folder)) if h.endswith('.h'))
        others = self.file('headers.cc', each)
        if not shutil.which(CXX):
            print(f'SKIP: no {CXX}')
            return
        # Two files, as functions that are defined in headers come twice.
        run(CXX, '-std=c++11', *STRICT, '-O0', '-Wshadow', os.path.join(SOURCE, 'tests/cpp/server.cc'), others,
            '-o', self.file('server'), *self.flags('sidelight-prometheus-cpp'))
        self.assertIn('done\n', run(self.file('server'), '10', env=self.env))

    def test_the_snippets_of_the_readme_compile(self):
        with open(os.path.join(SOURCE, 'README.md')) as f:
            fences = re.findall(r'^```(c|cpp|c\+\+)\n(.*?)^```', f.read(), re.M | re.S)
        snippets = [(lang, code) for lang, code in fences if '<sidelight/' in code]
        self.assertTrue(snippets)
        for lang, code in snippets:
            lines = [line for line in code.splitlines() if line.strip() != '.' * 3]
            head = [line for line in lines if line.startswith('#include')]
            body = [line for line in lines if line not in head]
            text = '\n'.join(head + ['int main(void)', '{'] + body + ['}', ''])
            compiler, standard, name = (CC, '-std=c11', 'readme.c') if lang == 'c' else \
                (CXX, '-std=c++17', 'readme.cc')
            if not shutil.which(compiler):
                print(f'SKIP: no {compiler}')
                continue
            run(compiler, standard, *STRICT, self.file(name, text), '-o', self.file('readme'),
                *self.flags('sidelight', 'sidelight-dta'))

    def test_examples_build_by_the_line_in_their_head(self):
        for name in ('shop', 'queue', 'ask'):
            path = os.path.join(SOURCE, 'examples', name + '.c')
            with open(path) as f:
                line = re.search(r'\$\(pkg-config --cflags --libs (\S+)\)(.*)', f.read())
            run(CC, '-O2', '-Wall', '-Wextra', '-Werror', '-o', self.file(name), path,
                *self.flags(line[1]), *line[2].split())
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
