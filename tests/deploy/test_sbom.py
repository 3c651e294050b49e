#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of a package agrees with the package: test_sbom.py SBOM"""
import json
import os
import shutil
import sys

from support.process import check, output, run, skip, workdir

if not shutil.which('dpkg-deb'):
    skip('no dpkg-deb')
d = workdir()
os.makedirs(f'{d}/p/DEBIAN', 0o755)
with open(f'{d}/p/DEBIAN/control', 'w') as f:
    f.write('Package: sidelight-agent\nVersion: 0.1.0-1\nArchitecture: amd64\nMaintainer: x <x@example.com>\n'
            'Pre-Depends: init-system-helpers (>= 1.54~)\nDepends: libc6 (>= 2.34), libjansson4 (>= 2.14),\n'
            ' libibverbs1 (>= 28.0) | libibverbs1-other, python3:any, sidelight (= 0.1.0-1)\nDescription: x\n')
run('dpkg-deb', '--root-owner-group', '--build', f'{d}/p', f'{d}/p.deb')
made = output(sys.argv[1], f'{d}/p.deb')
check(made == output(sys.argv[1], f'{d}/p.deb'), 'it is not the same again')
sbom = json.loads(made)
own, *others = sbom['packages']
check(own['name'] == 'sidelight-agent' and own['versionInfo'] == '0.1.0-1' and
      own['externalRefs'][0]['referenceLocator'] == 'pkg:deb/sidelight/sidelight-agent@0.1.0-1?arch=amd64', own)
check({o['name']: o.get('versionInfo') for o in others} == {
    'init-system-helpers': '>= 1.54~', 'libc6': '>= 2.34', 'libjansson4': '>= 2.14', 'libibverbs1': '>= 28.0', 'python3': None,
    'sidelight': '= 0.1.0-1'}, others)
links = {(r['spdxElementId'], r['relationshipType'], r['relatedSpdxElement']) for r in sbom['relationships']}
check(links == {('SPDXRef-DOCUMENT', 'DESCRIBES', own['SPDXID'])} | {(own['SPDXID'], 'DEPENDS_ON', o['SPDXID']) for o in others}, links)
