#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of a real Slurm (munged, slurmctld and slurmd on this machine) are named by --host. test_slurm.py SIDELIGHT
With cgroups of version 1, or of version 2 in a guest (tests/guest/slurm.sh)."""
import os
import shutil
import socket

from support.process import Part, check, skip, wait_until, workdir
from support.sidelight import Agent, Collector

PROGRAMS = ('munged', 'slurmctld', 'slurmd', 'srun', 'scancel')
D, HOST = workdir(), socket.gethostname()
CONF = {'SLURM_CONF': f'{D}/slurm.conf'}
V2 = os.path.exists('/sys/fs/cgroup/cgroup.controllers')
JOBS = '/sys/fs/cgroup' if V2 else '/sys/fs/cgroup/freezer'
USER = '65534'  # an ordinary one


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def configure():
    with open(f'{D}/key', 'wb') as f:
        f.write(os.urandom(1024))
    os.chmod(f'{D}/key', 0o600)
    with open(f'{D}/slurm.conf', 'w') as f:
        f.write(f'''ClusterName=test
SlurmctldHost={HOST}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
AuthType=auth/munge
AuthInfo=socket={D}/munge.sock
SlurmUser=root
StateSaveLocation={D}/state
SlurmdSpoolDir={D}/spool
SlurmctldPidFile={D}/slurmctld.pid
SlurmdPidFile={D}/slurmd.pid
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
MpiDefault=none
KillWait=1
NodeName={HOST} NodeAddr=127.0.0.1 CPUs={os.cpu_count()}
PartitionName=all Nodes=ALL Default=YES
''')
    with open(f'{D}/cgroup.conf', 'w') as f:
        f.write('CgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\n')
        if V2:
            f.write('CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nCgroupAutomount=yes\n')


def remove_cgroups():
    """Removes the cgroups that slurmd leaves behind."""
    for folder, _, _ in os.walk('/sys/fs/cgroup', topdown=False):
        if folder.endswith((f'/slurm_{HOST}', f'/slurm_{HOST}/uid_{USER}', f'/slurm_{HOST}/system')):
            os.rmdir(folder)


def main():
    os.environ['PATH'] += ':/usr/sbin:/sbin'
    missing = [p for p in PROGRAMS if not shutil.which(p)]
    if missing:
        skip(f'no {", ".join(missing)}: Debian packages slurmctld, slurmd, slurm-client and munge')
    if os.geteuid():
        skip('slurmd needs root')
    if not os.path.isdir(JOBS) or not os.access(JOBS, os.W_OK):
        skip("slurmd's plugin for cgroups of version 1 needs a writable freezer")
    if V2 and os.path.exists('/run/systemd/system'):
        skip('for cgroups of version 2, slurmd asks systemd: a guest without systemd tests it')
    for folder in D, os.path.dirname(D):  # USER reads the configuration and connects to munged
        os.chmod(folder, os.stat(folder).st_mode | 0o011)
    configure()
    munged = Part('munged', '--foreground', '--force', f'--key-file={D}/key', f'--socket={D}/munge.sock', f'--pid-file={D}/munged.pid',
                  f'--seed-file={D}/seed', f'--log-file={D}/munged.log')
    wait_until(lambda: os.path.exists(f'{D}/munge.sock'), 'munged', munged)
    controller, daemon = Part('slurmctld', '-D', env=CONF), Part('slurmd', '-D', env=CONF)
    try:
        with Agent('--host', '--host-interval', '20ms') as agent, Collector([agent], '--period', '20ms') as c:
            job = Part('setpriv', '--reuid', USER, '--regid', USER, '--clear-groups', 'srun', '-n', '2', '--overcommit', '--job-name',
                       'weather', '--chdir', '/', 'sleep', '600', env=CONF)

            def shown(name):
                return c.find('container_cpu_usage_seconds_total', f'name="{name}"')
            wait_until(lambda: all(shown(n) for n in ('1', '1.0', '1.0.0', '1.0.1')), 'the job, its step and its tasks', c, job, daemon, controller)
            task, = shown('1.0.1')
            path = '_slurmstepd.scope/job_1/step_0/user/task_1' if V2 else f'/uid_{USER}/job_1/step_0/task_1'
            check(f'{path}"' in task and f'user="{USER}"' in task, task)
            listed = c.api('jobs')['jobs']
            check([(j['job'], j['user'], j['state'], j['nodes'], j['ranks']) for j in listed] == [('1', USER, 'running', [HOST], 0)], listed)
            wait_until(lambda: all(v > 0 for v in c.find('container_memory_usage_bytes', 'name="1.0.1"').values()), 'its memory', c)
            one, = c.api('jobs/1')['nodes']
            check(one['memory_bytes'] > 0 and one['cpu_seconds'] >= 0 and one['ranks'] == 0, one)
            check(Part('scancel', '1', env=CONF).wait() == 0, 'scancel')
            job.wait()
            wait_until(lambda: not shown('1'), 'its end', c, daemon)
    finally:
        Part('scancel', '1', env=CONF).wait()
        wait_until(lambda: not any('job_1' in f for f, _, _ in os.walk(JOBS)), 'slurmd removes what is of the job')
        for part in (daemon, controller, munged):
            part.p.terminate()
            part.wait()
        remove_cgroups()


main()
