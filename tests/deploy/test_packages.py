#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each installed file is in one Debian package, and each line of a package's list names a file."""
import fnmatch
import json
import os
import subprocess
import sys
import unittest

BUILD, SOURCE = sys.argv[1:3]
# What debian/rules installs elsewhere than meson does.
MOVED = [('usr/lib/systemd/', 'lib/systemd/'), ('usr/lib/nodejs/', 'usr/lib/TRIPLET/nodejs/')]
SETTINGS = {f'etc/sidelight/{name}.yaml' for name in ('agent', 'collect', 'translate', 'report')}


def introspect(what):
    return json.loads(subprocess.run(['meson', 'introspect', what, BUILD], check=True, capture_output=True, text=True).stdout)


def installed():
    """Paths as in a package, of what 'meson install' would write."""
    prefix = next(o['value'] for o in introspect('--buildoptions') if o['name'] == 'prefix')
    paths = []
    for built, path in introspect('--installed').items():
        path = 'usr' + path.removeprefix(prefix)
        if os.path.isdir(built):
            paths += [os.path.join(path, os.path.relpath(os.path.join(d, f), built)) for d, _, fs in os.walk(built) for f in fs]
        else:
            paths.append(path)
    for at, (old, new) in ((p, m) for p in range(len(paths)) for m in MOVED):
        if paths[at].startswith(old):
            paths[at] = new + paths[at][len(old):]
    return set(paths) | SETTINGS


def lists():
    """{package: [pattern]}, and the patterns of what no package has."""
    found = {}
    for name in os.listdir(f'{SOURCE}/debian'):
        if name.endswith('.install') or name == 'not-installed':
            with open(f'{SOURCE}/debian/{name}') as f:
                found[name.removesuffix('.install')] = f.read().split()
    return found


def matches(path, pattern):
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, pattern + '/*')


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
