# SPDX-License-Identifier: Apache-2.0
"""A container of a real runtime, runc, laid out as containerd does: a bundle in containerd's folder, its own cgroup
and network namespace. Its connections carry its name, also accepted ones and those from before the start."""
import errno
import json
import os
import secrets
import shutil
import subprocess
import sys
import urllib.request

from support import flows
from support.flows import libc, needs_bpf
from support.process import Part, fail, skip, wait_until, workdir

EXE = sys.argv[1]
BUSYBOX, PORT, NAME = '/bin/busybox', 7000, f'shop-{os.getpid()}'
ID = secrets.token_hex(32)
GROUP = f'sl-runc-{os.getpid()}'  # the folder above the container's
BUNDLE = f'/run/containerd/io.containerd.runtime.v2.task/default/{ID}'
# A server, and a connection to it that remains open.
INSIDE = f'{BUSYBOX} nc -ll -p {PORT} -e {BUSYBOX} cat & ' \
         f'until {BUSYBOX} nc 127.0.0.1 {PORT} -e {BUSYBOX} sleep 1000; do {BUSYBOX} sleep 0.1; done'


def runc(*args):
    """Returns an error or nothing. Output goes to a file, because a pipe would stay open as long as the container runs."""
    with open('/run/said', 'w') as said:
        code = subprocess.run(['runc', '--root', '/run/runc', *args], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                              timeout=300).returncode
    with open('/run/said') as said:
        return (said.read().strip() or f'runc {args[0]}: exit {code}') if code else ''


def start():
    """Why it can't, or nothing."""
    if libc.unshare(0x20000) or subprocess.run(['mount', '--make-rprivate', '/']).returncode or \
            subprocess.run(['mount', '-t', 'tmpfs', 'none', '/run']).returncode:  # gone with this process
        return 'no mounts of its own'
    os.makedirs(f'{BUNDLE}/rootfs/bin')
    os.mkdir(f'{BUNDLE}/rootfs/proc')
    shutil.copy(BUSYBOX, f'{BUNDLE}/rootfs/bin')
    subprocess.run(['runc', 'spec', '-b', BUNDLE], check=True)
    with open(f'{BUNDLE}/config.json') as f:
        spec = json.load(f)
    spec['process'].update(terminal=False, args=[BUSYBOX, 'sh', '-c', INSIDE])
    spec['linux']['cgroupsPath'] = f'/{GROUP}/nerdctl-{ID}.scope'
    spec['annotations'] = {'nerdctl/name': NAME}
    with open(f'{BUNDLE}/config.json', 'w') as f:
        json.dump(spec, f)
    return runc('run', '-d', '-b', BUNDLE, ID)


def end():
    if not os.path.isdir(BUNDLE):  # nothing was created, and /run belongs to the machine
        return
    runc('delete', '-f', ID)
    # Of each hierarchy. The container's own is left by runc where its processes took too long to go.
    for folder, _, _ in os.walk('/sys/fs/cgroup', topdown=False):
        if GROUP in folder.split('/'):
            wait_until(lambda: removed(folder), lambda: f'{folder} is gone', seconds=20)


def removed(folder):
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        pass
    except OSError as e:
        if e.errno != errno.EBUSY:
            raise
        return False
    return True


def said_by(*args):
    p = subprocess.run([EXE, 'tcp', *args], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    return [json.loads(line) for line in p.stdout.splitlines()]


def its_connections_bear_its_name():
    agent = f'{workdir()}/a'
    host = Part(EXE, 'agent', '--socket', agent, '--no-rest', '--tcp', 'flows', '-p', PORT)
    host.ready()
    if any('cgroup2 is not mounted' in line for line in host.err):
        host.stop()
        print('SKIP: names of cgroups: no cgroup2 can be mounted here')
        return
    collector = Part(EXE, 'collect', '--agent', agent, '--listen', '127.0.0.1:0', '--tcp-period', '200ms')
    at = collector.ready()['listen']
    problem = runc('exec', '-d', ID, BUSYBOX, 'nc', '127.0.0.1', str(PORT), '-e', BUSYBOX, 'sleep', '1000')
    if problem:
        fail(problem)

    def rows():
        with urllib.request.urlopen(f'http://{at}/api/v1/flows?port={PORT}', timeout=300) as answer:
            found = json.load(answer)['flows']
        # A listener, and both ends of the connection from before and of the one just made.
        return sorted((f['older'], f['container']) for f in found) == \
            [(False, NAME)] * 2 + [(True, NAME)] * 3 and found
    wait_until(rows, lambda: urllib.request.urlopen(f'http://{at}/api/v1/flows').read().decode()[-3000:],
               collector, seconds=30)
    collector.stop()
    host.stop()


def why_and_cpu_know_it_by_its_name():
    # A connection may be of another kind of address first; what counts is who is found.
    rows = [r for r in said_by('why', NAME, '--json', '-d', '200ms', '--top', '0') if 'limit' in r]
    if len(rows) != 5 or {r.get('container') for r in rows} != {NAME}:
        fail(f'{rows}')
    watch = Part(EXE, 'tcp', 'cpu', '--json', '--by', 'container', '--of', NAME, '-i', '100ms')
    watch.ready()
    runc('exec', ID, BUSYBOX, 'true')
    row = wait_until(lambda: watch.out and json.loads(watch.out[0]), 'a row of the container', watch, seconds=20)
    watch.stop()
    if row['container'] != NAME or row['container_id'] != ID or not row['run_ns']:
        fail(f'{row}')


needs_bpf()
missing = [tool for tool in ('runc', BUSYBOX) if not shutil.which(tool)]
if missing:
    skip(f'{", ".join(missing)} is not installed')
flows.own_network()
try:
    problem = start()
    if problem:
        skip(f'runc can make no container here: {problem.splitlines()[-1]}')
    for f in (its_connections_bear_its_name, why_and_cpu_know_it_by_its_name):
        f()
        print(f'ok   {f.__name__}', flush=True)
finally:
    end()
