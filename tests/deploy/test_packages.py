#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each installed file is in one Debian package, and each line of a package's list names a file; RPM packages are the same ones."""
import fnmatch
import functools
import json
import os
import subprocess
import sys
import unittest

BUILD, SOURCE = sys.argv[1:3]
# Files that debian/rules installs in other places than meson.
MOVED = [('usr/lib/systemd/', 'lib/systemd/'), ('usr/lib/nodejs/', 'usr/lib/TRIPLET/nodejs/')]
# The names of RPM's packages, and the paths that differ from Debian's.
RPM = {'libs': 'libsidelight0', 'dta-libs': 'libsidelight-dta0', 'devel': 'libsidelight-dev',
       'python3-sidelight': 'python3-sidelight', 'nodejs-sidelight': 'node-sidelight',
       'golang-sidelight-devel': 'golang-sidelight-dev', 'rust-sidelight-devel': 'librust-sidelight-dev'}
RPM_MOVED = [('lib/systemd/', 'usr/lib/systemd/'), ('usr/lib/TRIPLET/nodejs/', 'usr/lib/node_modules/')]
USERS = [f'sidelight-{name}' for name in ('agent', 'collector', 'reporter', 'translator')]  # each makes the user sidelight
SETTINGS = {f'etc/sidelight/{name}.yaml' for name in ('agent', 'collect', 'translate', 'report')}


@functools.lru_cache
def introspect(what):
    return json.loads(subprocess.run(['meson', 'introspect', what, BUILD], check=True, capture_output=True, text=True).stdout)


def installed():
    """Returns the paths that 'meson install' would write, as they are in a package."""
    prefix = next(o['value'] for o in introspect('--buildoptions') if o['name'] == 'prefix')
    paths = []
    for built, path in introspect('--installed').items():
        path = 'usr' + path.removeprefix(prefix)
        if os.path.isdir(built):
            paths += [os.path.join(path, os.path.relpath(os.path.join(d, f), built)) for d, _, fs in os.walk(built) for f in fs]
        else:
            paths.append(path)
    return {moved(p, MOVED) for p in paths} | SETTINGS


def moved(path, rules):
    for old, new in rules:
        if path.startswith(old):
            return new + path[len(old):]
    return path


def lists():
    """Returns {package: [pattern]}, and the patterns of files that are in no package."""
    found = {}
    for name in os.listdir(f'{SOURCE}/debian'):
        if name.endswith('.install') or name == 'not-installed':
            with open(f'{SOURCE}/debian/{name}') as f:
                found[name.removesuffix('.install')] = f.read().split()
    return found


def rpm_lists():
    """Like lists(), from the spec file: {package: [pattern]} with Debian's names."""
    found, files = {}, None
    with open(f'{SOURCE}/deploy/sidelight.spec') as f:
        for line in f:
            words = line.replace('%{name}', 'sidelight').split()
            if line.startswith('%files'):
                name = words[-1] if len(words) > 1 else ''
                files = found.setdefault(RPM.get(name, f'sidelight-{name}'.rstrip('-')), [])
            elif files is not None and words and words[0] not in ('%license', '%doc', '%dir'):
                files.append(words[-1].lstrip('/'))
    return found


def rpm_path(path):
    """Converts a path in one of Debian's packages to the path in RPM's."""
    path = moved(path, RPM_MOVED)
    if os.path.basename(path).startswith('libsidelight') or '/pkgconfig/' in path:
        path = 'usr/lib64/' + path.split('/', 3)[3]  # usr/lib/TRIPLET/...
    return path


def matches(path, pattern):
    """Whether the pattern matches a file or its folder. As in a shell, * matches no slash."""
    path, pattern = path.split('/'), pattern.split('/')
    return len(pattern) <= len(path) and all(map(fnmatch.fnmatchcase, path, pattern))


class Packages(unittest.TestCase):
    def test_each_file_is_in_one(self):
        packages, files = lists(), installed()
        self.assertGreater(len(files), 150)
        self.assertGreater(len(packages), 8)
        for path in sorted(files):
            self.assertEqual(len([p for p, patterns in packages.items() if any(matches(path, x) for x in patterns)]), 1, path)

    def test_each_line_names_a_file(self):
        files = installed()
        for package, patterns in lists().items():
            for pattern in patterns:
                self.assertTrue(any(matches(path, pattern) for path in files), (package, pattern))

    def test_packages_for_rpm_have_the_same(self):
        lists_, rpm = lists(), rpm_lists()
        with open(f'{SOURCE}/debian/control') as f:
            self.assertEqual({line.split()[1] for line in f if line.startswith('Package:')}, set(rpm))
        used = set()
        for path in sorted(installed()):
            debian, = (p for p, patterns in lists_.items() if any(matches(path, x) for x in patterns))
            found = [(p, x) for p, patterns in rpm.items() for x in patterns if matches(rpm_path(path), x)]
            self.assertEqual([p for p, x in found], [debian] if debian != 'not-installed' else USERS, path)
            used.update(found)
        self.assertEqual({(p, x) for p, patterns in rpm.items() for x in patterns}, used)

    def test_the_spec_has_the_version_and_the_user(self):
        with open(f'{SOURCE}/deploy/sidelight.spec') as f:
            spec = f.read()
        version = introspect('--projectinfo')['version']
        self.assertIn(f'\nVersion: {version}\n', spec)
        with open(f'{SOURCE}/deploy/sidelight.sysusers') as f:
            user, = (line for line in f if line.startswith('u '))
        self.assertIn(user.strip(), spec)

    def test_the_symbols_are_those_of_the_libraries(self):
        for name, library in ('libsidelight0', 'lib/libsidelight.so'), ('libsidelight-dta0', 'lib/dta/libsidelight-dta.so'):
            if not os.path.exists(f'{BUILD}/{library}'):
                library = f'lib/{os.path.basename(library)}'
            out = subprocess.run(['nm', '-D', '--defined-only', f'{BUILD}/{library}'], check=True, capture_output=True, text=True)
            exported = {line.split()[-1].replace('@@', '@') for line in out.stdout.splitlines()}
            exported = {s if '@' in s else f'{s}@{s}' for s in exported}
            with open(f'{SOURCE}/debian/{name}.symbols') as f:
                listed = {line.split()[0] for line in f if line.startswith(' ')}
            self.assertEqual(exported, listed, name)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
