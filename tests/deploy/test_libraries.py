#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_libraries.py BUILD SOURCE - each program links the libraries that the table of docs/packages.md names, and no other."""
import glob
import os
import re
import subprocess
import sys
import unittest

BUILD, SOURCE = sys.argv[1:3]
GLIBC = {'libc', 'libm', 'libresolv', 'ld-linux-x86-64', 'ld-linux-aarch64'}
# Libraries that not every machine needs: Kafka, HTTP requests, captures, compression, expressions, another TLS, directories.
NOT_IN_THE_AGENT = ('librdkafka', 'libcurl', 'libpcap', 'libsnappy', 'libpcre', 'libssl', 'libcrypto', 'libldap', 'libkrb5',
                    'libgssapi')


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def programs():
    return sorted(os.path.basename(p) for p in glob.glob(f'{BUILD}/sidelight*') if os.path.isfile(p))


def needed(program):
    """Libraries that the program itself names, but those of glibc."""
    found = re.findall(r'\(NEEDED\).*\[(.*?)\.so', output('readelf', '-d', f'{BUILD}/{program}'))
    return {re.sub(r'-0$', '', name) for name in found} - GLIBC


def loaded(program):
    return set(re.findall(r'^\s*(lib\S+?)\.so', output('ldd', f'{BUILD}/{program}'), re.M))


def table():
    """{program: (package, libraries)} of docs/packages.md."""
    with open(f'{SOURCE}/docs/packages.md') as f:
        rows = re.findall(r'^\| `(sidelight\S*)` \| `(sidelight\S*)` \| (.*) \|$', f.read(), re.M)
    return {program: (package, set(re.findall(r'lib[\w+-]+', libraries))) for program, package, libraries in rows}


class Libraries(unittest.TestCase):
    maxDiff = None

    def test_each_program_links_those_of_the_table(self):
        self.assertEqual({p: needed(p) for p in programs()}, {p: libraries for p, (_, libraries) in table().items()})

    def test_each_program_is_in_its_package(self):
        for program, (package, _) in table().items():
            with open(f'{SOURCE}/debian/{package}.install') as f:
                self.assertIn(program, {os.path.basename(line) for line in f.read().split()}, package)

    def test_the_agent_loads_nothing_that_only_others_need(self):
        self.assertEqual([name for name in loaded('sidelight-agent') if name.startswith(NOT_IN_THE_AGENT)], [])

    def test_no_program_has_two_libraries_for_tls(self):
        for program in programs():
            self.assertFalse({'libssl', 'libgnutls'} <= loaded(program), program)

    def test_a_node_installs_the_agent_alone(self):
        with open(f'{SOURCE}/debian/control') as f:
            agent, = re.findall(r'^Package: sidelight-agent\n.*?^Recommends:', f.read(), re.M | re.S)
        self.assertEqual(re.findall(r'sidelight[\w-]*', agent), ['sidelight-agent'])


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
