# SPDX-License-Identifier: Apache-2.0
"""Once it says that it is ready, each part has the privileges that docs/security.md names, and no thread has more."""
import json
import os
import resource
import subprocess
import sys

from support.front import children, helper, spawners
from support.process import Part, alive, case, check, fail, poll, run_cases, skip, wait_until, workdir
from support.sidelight import Agent, Collector

EXE = sys.argv[1]
CAPABILITIES = {'NET_ADMIN': 12, 'NET_RAW': 13, 'IPC_LOCK': 14, 'SYS_PTRACE': 19, 'SYS_NICE': 23, 'SYS_RESOURCE': 24, 'SYS_ADMIN': 21,
                'DAC_READ_SEARCH': 2, 'PERFMON': 38, 'BPF': 39}
RESTRICTED = os.environ.get('SL_TEST_INSTRUMENTED') != '1'


def mask(*names):
    return sum(1 << CAPABILITIES[n] for n in names)


def confined(pid, *allowed):
    """All threads of a process have at most these capabilities."""
    threads = os.listdir(f'/proc/{pid}/task')
    for t in threads:
        with open(f'/proc/{pid}/task/{t}/status') as f:
            s = dict(line.split(':', 1) for line in f.read().splitlines() if ':' in line)
        for kind in 'CapEff', 'CapPrm', 'CapInh', 'CapAmb':
            if int(s[kind], 16) & ~mask(*allowed):
                fail(f'{pid} thread {t} has {kind} {s[kind].strip()}, not {allowed}')
        if os.geteuid() == 0 and int(s['CapBnd'], 16) & ~mask(*allowed):
            fail(f'{pid} thread {t} may gain {s["CapBnd"]}')
        if s['NoNewPrivs'].strip() != '1' or (RESTRICTED and s['Seccomp'].strip() != '2'):
            fail(f'{pid} thread {t}: NoNewPrivs {s["NoNewPrivs"]} Seccomp {s["Seccomp"]}')
    return len(threads)


def real_time():
    """What workers need for their priority: a resource limit or, if that cannot be raised, a capability."""
    with open('/proc/self/status') as f:
        own = int(next(line for line in f if line.startswith('CapEff')).split()[1], 16)
    raised = resource.getrlimit(resource.RLIMIT_RTPRIO)[1] or own & mask('SYS_RESOURCE')
    return () if raised else ('SYS_NICE',)


@case
def agent_and_collector():
    with Agent(rest=True) as agent, Collector([agent]) as collector:
        confined(agent.pid)
        check(confined(collector.pid, *real_time()) > 3, 'its threads')
        wait_until(lambda: collector.total('sidelight_agent_regions'), 'it reads', collector)
        confined(collector.pid, *real_time())
    with Agent() as agent, Collector([agent], '--realtime', 'off') as collector:
        confined(collector.pid)


@case
def files_that_may_not_be_read_are_told():
    """With 40 secrets in separate folders, 32 files may be read: the settings file and 31 secrets. With all in one folder, all
    may be read."""
    settings = f'{workdir()}/client.yml'
    for names, told in (([f'{i}/key' for i in range(40)], True), ([f'key{i}' for i in range(40)], False)):
        with open(settings, 'w') as f:
            json.dump({'http_headers': {'X-Key': {'files': names}}}, f)
        with Agent() as agent, Collector([agent], '--analyse', '--alert', 'http://127.0.0.1:1/', '--alert-config', settings) as c:
            check(('cannot allow all files of the settings left_out=9: ' in c.logged()) == told, f'{names[0]}', c)


@case
def translator():
    path = f'{workdir()}/none'
    with Part(EXE, 'translate', '--collector', f'unix:{path}', '--listen', '127.0.0.1:0', '--workers', '2') as part:
        # The part is ready when a collector answers, and must be confined before.
        check(poll(lambda: os.listdir(f'/proc/{part.pid}/task')[2:] and seccomp(part.pid), 30), 'confined', part)
        confined(part.pid, 'IPC_LOCK')


def seccomp(pid):
    with open(f'/proc/{pid}/status') as f:
        return not RESTRICTED or 'Seccomp:\t2' in f.read()


@case
def unconfined_keeps_them():
    with Agent('--unconfined') as agent:
        with open(f'/proc/{agent.pid}/status') as f, open('/proc/self/status') as own:
            theirs, ours = (next(line for line in g if line.startswith('CapEff')) for g in (f, own))
        check(theirs == ours, f'{theirs} {ours}')


@case
def tables_of_the_kernel_are_made_by_a_process_of_their_own():
    p = subprocess.run([EXE, 'tcp', 'probe', '--json'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode:
        print(f'SKIP: {p.stderr.strip()}')
        return
    used = {b['boundary']: b['used'] for b in json.loads(p.stdout)['boundaries']}
    with Agent('--tcp', 'flows,layers,cpu,net') as agent:
        confined(agent.pid)
        loader = helper(agent, 'sidelight-tcp')
        check(len(spawners(agent)) == 2 and len(children(agent.pid)) == 3, children(agent.pid))
        lasting = ('DAC_READ_SEARCH',)
        if used['tcp-ip'] == 'netfilter':  # a hook for each new network namespace
            lasting += ('SYS_ADMIN', 'SYS_PTRACE', 'NET_ADMIN', 'PERFMON', 'BPF')
        confined(loader, *lasting)
        # Neither process can load another program: the agent has no descriptor of one, and the loader's only socket is the one
        # to the agent.
        links = [os.readlink(f'/proc/{agent.pid}/fd/{n}') for n in os.listdir(f'/proc/{agent.pid}/fd')]
        check(not [link for link in links if 'bpf-prog' in link or 'bpf_link' in link], links)
        sockets = [link for link in (os.readlink(f'/proc/{loader}/fd/{n}')
                                     for n in os.listdir(f'/proc/{loader}/fd')) if 'socket' in link]
        check(len(sockets) == 1, sockets)
    check(not alive(loader), 'the loader ended with the agent')


if os.environ.get('SL_TEST_TSAN'):
    skip('the thread of ThreadSanitizer is not confined')
run_cases()
