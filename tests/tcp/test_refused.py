# SPDX-License-Identifier: Apache-2.0
"""If a machine does not permit something, one line says what to do about it: it names each missing capability, missing BTF, or
lockdown. Other features still work, and nothing remains loaded."""
import json
import os
import subprocess
import sys

from support import flows
from support.flows import Flows, held, libc, needs_bpf, still_there
from support.http import request_at
from support.process import SCALE, fail, wait_until, workdir

EXE = sys.argv[1]
CASES = []
VERBS = ('probe', 'flows', 'layers', 'trace', 'cpu')
NET_ADMIN, SYS_ADMIN, PERFMON, BPF = 12, 21, 38, 39
LOCKDOWN = '/sys/kernel/security/lockdown'


def case(f):
    CASES.append(f)
    return f


def verb(name, *args):
    return [EXE, 'tcp', name, *args] + ([] if name == 'probe' else ['-d', '50ms'])


def refused(argv, *words, without=(), code=1, **kw):
    """One line on stderr with these words and none of the others, nothing on stdout, that exit code."""
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, **kw)
    if p.returncode != code or p.stdout or p.stderr.count('\n') != 1:
        fail(f'{argv[1:]}: {p.returncode}: {p.stdout[:300]}{p.stderr}')
    for w in words:
        if w not in p.stderr:
            fail(f'{argv[1:]}: no {w} in: {p.stderr}')
    for w in without:
        if w in p.stderr:
            fail(f'{argv[1:]}: {w} is not missing: {p.stderr}')


@case
def what_makes_no_sense_is_a_mistake_of_usage_in_one_line():
    """Exit 2, not 1: it was asked wrongly."""
    agent = (EXE, 'agent', '--socket', '/nonexistent/s', '--no-rest')
    for argv, words in (((EXE, 'tcp', 'nonsense'), ('flows', 'layers', 'net', 'cpu', 'probe', 'trace', 'why')),
                        ((*agent, '--tcp', 'flows,nonsense'), ("'nonsense'", 'flows', 'layers', 'cpu', 'net')),
                        ((*agent, '--tcp', 'flows', '-p', 'x'), ("'x'", 'port')),
                        ((*agent, '--tcp', 'flows', '--cidr', '10.0.0.0/40'), ('10.0.0.0/40', 'prefix')),
                        ((*agent, '--tcp', 'layers', '--cgroup', '/nosuch'), ('/nosuch', 'cgroup')),
                        ((*verb('flows'), '-p', 'x'), ("'x'", 'port')),
                        ((*verb('flows'), '--cgroup', '/nosuch'), ('/nosuch', 'cgroup')),
                        ((*verb('layers'), '--netns', '/nosuch'), ('/nosuch', 'namespace'))):
        refused(argv, *words, code=2)


def drop(*capabilities):
    """For preexec_fn: the program gets all that we have but these."""
    def before_exec():
        for c in capabilities:
            if libc.prctl(24, c, 0, 0, 0):  # PR_CAPBSET_DROP
                os._exit(99)
    return before_exec


@case
def each_capability_that_is_missing_is_named_alone():
    names = {NET_ADMIN: 'CAP_NET_ADMIN', PERFMON: 'CAP_PERFMON', BPF: 'CAP_BPF'}
    for c, name in names.items():
        others = [n for n in names.values() if n != name]
        for v in VERBS:  # CAP_SYS_ADMIN stands in for the two newer ones
            gone = (c,) if c == NET_ADMIN else (c, SYS_ADMIN)
            refused(verb(v), name, without=others, preexec_fn=drop(*gone))


@case
def the_three_are_enough_for_flows_and_the_scheduler():
    for v in ('flows', 'cpu'):
        p = subprocess.run(verb(v, '--json'), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           timeout=300, preexec_fn=drop(SYS_ADMIN))
        if p.returncode or not p.stdout:
            fail(f'{v}: {p.returncode}: {p.stderr}')


@case
def another_user_is_told_what_is_missing():
    for v in VERBS:
        refused(verb(v), 'CAP_BPF', 'CAP_PERFMON', 'CAP_NET_ADMIN', preexec_fn=flows.without_capabilities)


WITHOUT_BTF = ('unshare', '--mount', 'sh', '-c', 'mount --bind /dev/null /sys/kernel/btf/vmlinux && exec "$@"', '-')


@case
def a_kernel_without_btf_is_told_so():
    for v in VERBS:
        refused([*WITHOUT_BTF, *verb(v)], 'BTF', 'CONFIG_DEBUG_INFO_BTF')


@case
def an_agent_starts_without_the_tables_that_its_kernel_cannot_have():
    """Each table is left out with its reason; the agent runs, and knows no connections."""
    socket = f'{workdir()}/agent.sock'
    agent = flows.Part(*WITHOUT_BTF, EXE, 'agent', '--socket', socket, '--tcp', 'flows,layers,cpu,net')
    rest = agent.ready()['rest']
    status = json.loads(subprocess.run([EXE, 'agent', '--status', '--json', '--socket', socket], check=True,
                                       stdout=subprocess.PIPE).stdout)
    for table in ('flows', 'layers', 'cpu', 'net'):
        said = [line for line in agent.err if f'--tcp {table} is not available' in line]
        if len(said) != 1 or 'CONFIG_DEBUG_INFO_BTF' not in said[0]:
            fail(f'{table}: {agent.err}', agent)
    if any(r['by'] == 'kernel' for r in status['regions']):
        fail(f'{status["regions"]}', agent)
    code, answer = request_at(rest, 'POST', '/tcp/filter', b'{}', {'Content-Type': 'application/json'})
    if code != 409 or 'this kernel does not support' not in answer['error']:
        fail(f'a filter: {code} {answer}', agent)
    if request_at(rest, 'GET', '/tcp') != (200, {'tcp': None}):
        fail('GET /tcp', agent)
    if agent.stop() != 0:
        fail('the end', agent)


def lockdown():
    """"none", "integrity", "confidentiality", or None: not known."""
    try:
        with open(LOCKDOWN) as f:
            return next((w[1:-1] for w in f.read().split() if w[0] == '['), None)
    except OSError:
        return None


@case
def what_a_locked_down_kernel_still_allows_is_used():
    """If the kernel refuses hooks of functions, others are chosen, the reason is reported, and flows are counted."""
    probe = json.loads(subprocess.run([EXE, 'tcp', 'probe', '--json'], check=True, stdout=subprocess.PIPE).stdout)
    for b in probe['boundaries']:
        for i, c in enumerate(b['candidates']):
            if i < b['choice'] and c['works']:
                fail(f'{c} comes first: {b}')
            if not c['works'] and (not c['why'] or not c['failed']):
                fail(f'it is not said why: {b}')
        if b['choice'] > 0 and b['candidates'][b['choice']]['works'] is not True:
            fail(f'{b}')
    refused_ones = [c for b in probe['boundaries'] for c in b['candidates'] if c['type'] == 'fentry' and not c['works']]
    if not refused_ones:
        print('SKIP: this kernel refuses no function')
        return
    watch = Flows('--new')
    client, server = flows.pair()
    client.sendall(b'x' * 1000)
    flows.receive(server, 1000)
    flows.same_as_tcp_info(watch, client)
    watch.end()


@case
def what_was_killed_leaves_nothing_loaded():
    for v, args in (('flows', ('--json', '--calls')), ('layers', ('--json',)), ('trace', ('--json',))):
        part = flows.Part(EXE, 'tcp', v, *args)
        part.ready()
        objects = held(part.pid)
        if len(objects) < 10 or still_there(objects) != objects:
            fail(f'{v} holds {objects}', part)
        part.p.kill()
        part.wait()
        wait_until(lambda: not still_there(objects), lambda: f'all of {v} is unloaded', seconds=20)


def locked_down_for_reading():
    """Only where asked for: there is no way back. The programs read the kernel, which this forbids."""
    if lockdown() is None:
        subprocess.run(['mount', '-t', 'securityfs', 'none', '/sys/kernel/security'], stderr=subprocess.DEVNULL)
    if lockdown() is None:
        print('SKIP: this kernel can not be locked down')
        return
    with open(LOCKDOWN, 'w') as f:
        f.write('confidentiality')
    for v in ('flows', 'layers', 'trace')[:2 if SCALE == 1 else 3]:  # 'trace' starts as 'layers' does
        refused(verb(v), 'locked down', without=('CAP_',))


needs_bpf()
flows.own_network()
only = sys.argv[2:]
for c in [*CASES, locked_down_for_reading]:
    if c.__name__ in only or not only and c in CASES:
        c()
        print(f'ok   {c.__name__.replace("_", "-")}', flush=True)
