#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_names.py SIDELIGHT COUNTER - containers of a real runtime, runc, with kubelet's files: the agent says
their names, and what publishes in them cannot say others."""
import ctypes
import json
import os
import re
import secrets
import shutil
import subprocess
import sys

from support.process import check, skip, wait_until, workdir
from support.sidelight import Agent, Collector

BUSYBOX, COUNTER = '/bin/busybox', os.path.abspath(sys.argv[2])
UID = '3f1e5c1e-8d2b-4c6a-9f0e-' + secrets.token_hex(6)
PODS, ROOT = f'sl-names-{os.getpid()}', workdir()
# (id, cgroup, the pod that it claims to be)
KUBE = (secrets.token_hex(32), f'/{PODS}/kubepods/besteffort/pod{UID}/%s')
LATE = (secrets.token_hex(32), f'/{PODS}/kubepods/besteffort/pod{UID}/%s')  # kubelet names it after it has published
UNKNOWN = (secrets.token_hex(32), f'/{PODS}/system.slice/docker-%s.scope')


def runc(*args):
    """Returns an error or nothing. Output goes to a file, because a pipe would stay open as long as the container runs."""
    with open(f'{ROOT}/said', 'w+') as said:
        code = subprocess.run(['runc', '--root', f'{ROOT}/runc', *args], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                              timeout=300).returncode
        said.seek(0)
        return (said.read().strip() or f'runc {args[0]}: exit {code}') if code else ''


def prepare():
    """Returns why the test can't run, or ''. All mounts vanish when this process ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x20000) or subprocess.run(['mount', '--make-rprivate', '/']).returncode:
        return 'no mounts of its own'
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'mode=755', 'none', '/var/log']).returncode:
        return 'no tmpfs on /var/log'
    os.makedirs(f'/var/log/pods/shop_cart-7d4b9c6f5-x2k4z_{UID}/app')
    os.makedirs('/var/log/containers')
    name_container(KUBE, 'app')
    return ''


def name_container(container, name):
    os.symlink('/nowhere', f'/var/log/containers/cart-7d4b9c6f5-x2k4z_shop_{name}-{container[0]}.log')


def run(container, socket):
    """A publisher that claims to be another pod."""
    bundle = f'{ROOT}/{container[0]}'
    os.makedirs(f'{bundle}/rootfs/proc')
    libraries = re.findall(r'(/\S+) \(0x', subprocess.run(['ldd', COUNTER], stdout=subprocess.PIPE, text=True, check=True).stdout)
    for file in BUSYBOX, COUNTER, *libraries:
        os.makedirs(f'{bundle}/rootfs{os.path.dirname(file)}', exist_ok=True)
        shutil.copy(file, f'{bundle}/rootfs{file}')
    subprocess.run(['runc', 'spec', '-b', bundle], check=True)
    with open(f'{bundle}/config.json') as f:
        spec = json.load(f)
    script = f'{BUSYBOX} sleep 600 | {COUNTER} {socket} 1'
    spec['process'].update(terminal=False, cwd='/', args=[BUSYBOX, 'sh', '-c', script])
    spec['process']['env'] += ['POD_NAME=victim', 'POD_NAMESPACE=kube-system']
    spec['linux']['cgroupsPath'] = container[1] % container[0]
    spec['mounts'] = [m for m in spec['mounts'] if m['destination'] == '/proc']
    folder = os.path.dirname(socket)
    spec['mounts'].append({'destination': folder, 'source': folder, 'type': 'bind', 'options': ['rbind', 'ro']})
    with open(f'{bundle}/config.json', 'w') as f:
        json.dump(spec, f)
    return runc('run', '-d', '-b', bundle, container[0])


def labels(collector, container):
    for key in collector.find('ticks_total'):
        found = dict(re.findall(r'([a-z_]+)="(.*?)"', key))
        if found.get('container_id') == container[0][:12]:
            return found
    return None


def removed(folder):
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


if os.geteuid():
    skip('needs root')
for tool in 'runc', BUSYBOX:
    if not shutil.which(tool):
        skip(f'{tool} is not installed')
problem = prepare()
if problem:
    skip(problem)
try:
    with Agent() as agent, Collector([agent], '--period', '20ms') as collector:
        for container in KUBE, LATE, UNKNOWN:
            problem = run(container, agent.socket)
            if problem:
                skip(f'runc can make no container here: {problem.splitlines()[-1]}')
        of = {c: wait_until(lambda: labels(collector, c), lambda: collector.find('ticks_total'), agent, collector)
              for c in (KUBE, LATE, UNKNOWN)}
        got = [{k: of[c].get(k) for k in ('pod', 'namespace', 'container', 'exported_pod', 'exported_namespace', 'pod_uid')}
               for c in of]
        check(got[0] == {'pod': 'cart-7d4b9c6f5-x2k4z', 'namespace': 'shop', 'container': 'app', 'exported_pod': 'victim',
                         'exported_namespace': 'kube-system', 'pod_uid': UID}, got[0])
        check(got[1] == {**got[0], 'container': None}, got[1])
        check((got[2]['container'], got[2]['pod'], got[2]['pod_uid']) == (None, 'victim', None), got[2])
        # The API knows a pod by that name, not by the one that it claims.
        found = {p: {m['pod'] for m in collector.api(f'metrics?pod={p}')['pods'].values()} for p in ('victim', got[0]['pod'])}
        check(found == {p: {p} for p in found}, found)
        name_container(LATE, 'sidecar')
        wait_until(lambda: (labels(collector, LATE) or {}).get('container') == 'sidecar', lambda: labels(collector, LATE),
                   agent, collector)
finally:
    for container in KUBE, LATE, UNKNOWN:
        runc('delete', '-f', container[0])
    for folder, _, _ in os.walk('/sys/fs/cgroup', topdown=False):
        if PODS in folder.split('/'):
            wait_until(lambda: removed(folder), lambda: f'{folder} is gone', seconds=20)
