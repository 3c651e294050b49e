# SPDX-License-Identifier: Apache-2.0
"""If cgroup2 is not mounted, 'sidelight tcp layers' mounts it for itself. If that is not permitted, it says so once, and leaves
out everything that needs it."""
import ctypes
import json
import struct
import subprocess
import sys

from support import flows
from support.flows import libc, receive
from support.process import Part, case, fail, run_cases, skip, wait_until

EXE = sys.argv[1]
REQUESTS = 20
NEWNS, NO_NEW_PRIVS, SET_SECCOMP, FILTER, FSOPEN, EPERM = 0x20000, 38, 22, 2, 430, 1


def mounts():
    with open('/proc/self/mounts') as f:
        return f.read()


def unmount():
    """In a mount namespace of this test."""
    if libc.unshare(NEWNS) or subprocess.run(['mount', '--make-rprivate', '/']).returncode:
        skip('no mount namespace of its own')
    for line in mounts().splitlines():
        where, kind = line.split()[1:3]
        if kind == 'cgroup2' and libc.umount2(where.encode(), 2):
            skip(f'{where} cannot be unmounted')


def layers():
    """A row of 'tcp layers' that measured requests, and the lines on stderr."""
    part = Part(EXE, 'tcp', 'layers', '--json', '--by', 'container', '-i', '50ms', '--avoid', 'fentry', '--avoid',
                'kprobe')
    part.ready()
    client, server = flows.pair()
    for _ in range(REQUESTS):
        client.sendall(b'q')
        receive(server, 1)
        server.sendall(b'a')
        receive(client, 1)

    def row():
        rows = [r for r in map(json.loads, list(part.out)) if r['row'] == 'container' and r['role'] == 'server']
        return next((r for r in reversed(rows) if r['segments_in'] >= REQUESTS), None)
    r = wait_until(row, 'the requests', part, seconds=20)
    said = [line for line in part.err if not line.startswith('ready')]
    if part.stop():
        fail('it failed', part)
    client.close()
    server.close()
    return r, said


@case
def a_hierarchy_that_is_not_mounted_is_mounted_privately():
    before = mounts()
    if 'cgroup2' in before:
        fail(f'still there: {before}')
    r, said = layers()
    if r['layers']['ip_in']['count'] < REQUESTS or not r.get('path') or said:
        fail(f'{r} {said}')
    if mounts() != before:
        fail(f'left behind: {mounts()}')


@case
def where_it_cannot_be_mounted_that_is_said_once():
    # fsopen() fails with EPERM, as it does without CAP_SYS_ADMIN.
    code = b''.join(struct.pack('HBBI', *i) for i in ((0x20, 0, 0, 0), (0x15, 0, 1, FSOPEN),
                                                      (0x6, 0, 0, 0x50000 | EPERM), (0x6, 0, 0, 0x7fff0000)))
    program = ctypes.create_string_buffer(code)
    libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(SET_SECCOMP, FILTER, struct.pack('HxxxxxxQ', 4, ctypes.addressof(program)), 0, 0):
        skip('no seccomp')
    r, said = layers()
    if len(said) != 1 or 'cgroup2 is not mounted' not in said[0]:
        fail(f'{said}')
    if r['layers']['ip_in']['count'] or 'p50_ns' in r['layers']['ip_in']:
        fail(f'{r}')


flows.needs_bpf()
flows.own_network()
unmount()
run_cases()
