#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_package.py FOLDER GO CASE - the tools of Go on the package. The environment says where Go finds and keeps things."""
import os
import shutil
import sys

from support.process import SCALE, check, output, run, skip, workdir

FOLDER, GO, CASE = sys.argv[1:4]
HERE = os.path.dirname(os.path.abspath(__file__))
DEBIAN = os.environ['GOPATH'].split(':')[1]
PACKAGES = ['sidelight'] + (['sidelight/mirror'] if os.path.isdir(f'{DEBIAN}/src/github.com/prometheus/client_golang') else [])


def with_env(**env):
    return {**os.environ, **env}


def is_formatted_and_vetted():
    """And the core builds alone, in GOPATH, as a module, and for arm64."""
    gofmt = shutil.which('gofmt') or os.path.join(os.path.dirname(os.path.realpath(GO)), 'gofmt')
    bench = os.path.join(HERE, '../../bench/bind/go.go')
    programs = [os.path.join(HERE, name) for name in sorted(os.listdir(HERE)) if name.endswith('.go')] + [bench]
    check(output(gofmt, '-l', FOLDER, *programs) == '', output(gofmt, '-d', FOLDER, *programs))
    run(GO, 'vet', *PACKAGES)
    if len(PACKAGES) > 1:
        for program in programs:
            # Debian has no version of OpenTelemetry's SDK with exporters of this kind: a stand-in has its types.
            run(GO, 'vet', program, env=with_env(GOPATH=f'{os.environ["GOPATH"]}:{HERE}/stand_in'))
    for machine in 'amd64', 'arm64':
        run(GO, 'build', 'sidelight', env=with_env(GOPATH=FOLDER, GOARCH=machine))
    run(GO, 'build', 'sidelight', env=with_env(GOPATH=workdir(), GO111MODULE='on'), cwd=f'{FOLDER}/src/sidelight')


def passes_its_unit_tests():
    print(output(GO, 'test', '-count=1', 'sidelight'))


def has_no_race_that_the_detector_finds():
    """Cells of regions are not in the memory that the detector looks at: sums and check words speak for them."""
    if SCALE <= 1:
        skip("builds Go's runtime with the detector: make soak")
    p = run(GO, 'test', '-race', '-count=1', 'sidelight', env=with_env(CGO_ENABLED='1'), code=None)
    if 'race_linux' in p.stderr and 'cannot find' in p.stderr or '-race is only supported' in p.stderr:
        skip(p.stderr.strip().split('\n')[-1])
    check(p.returncode == 0, p.stdout[-4000:], p.stderr[-4000:])
    print(p.stdout)


if not GO:
    skip('no Go: Debian package golang-go')
globals()[CASE]()
