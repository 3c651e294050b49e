#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_mpi.py SIDELIGHT CASE MPI MPIRUN LIBRARY PROGRAM [MODULE] - ranks of a real MPI with the library for it preloaded. MPI: openmpi, mpich."""
import os
import re
import shutil
import signal
import sys
import threading
import time

from support.http import get_json
from support.mpi import mpirun as run_ranks
from support.process import SCALE, check, output, skip, wait_until, workdir
from support.sidelight import Agent, Collector

CASE, MPI, MPIRUN, LIBRARY, PROGRAM = sys.argv[2:7]
RANKS = 4
SLURM = {'SLURM_JOB_ID': '4711', 'SLURM_STEP_ID': '0', 'SLURMD_NODENAME': 'n7', 'SLURM_JOB_NAME': 'weather', 'SLURM_JOB_USER': 'alice'}


def mpirun(ranks, *argv, preload=True, **env):
    return run_ranks(MPI, MPIRUN, LIBRARY if preload else None, ranks, *argv, **env)


def touch(path):
    with open(path, 'w'):
        return path


def expected(rank):
    """Calls, bytes by direction, and bytes of collectives of calls.c. A rank polls by MPI_Test and MPI_Waitsome as often as it needs."""
    even, doubles, ints = rank % 2 == 0, 8, 4
    both = (10 * 1000 * doubles + 3 * 100 * ints + 5 * ints + 2 * 11 * ints + 13 * ints + 40 * ints + 4 * 2 * ints +
            4 * 500 * 3 * ints)
    calls = {'Isend': 10 + 2 + 40 + 2000, 'Irecv': 10 + 2 + 1 + 40 + 4 + 1 + 2000, 'Waitall': 10 + 1 + 2000, 'Waitany': 4, 'Wait': 2,
             'Sendrecv': 3, 'Sendrecv_replace': 1, 'Send': 1 + 1 + 4 + 1 + 5 * even + (rank == 0),
             'Allreduce': 21, 'Bcast': 1, 'Reduce': 1, 'Gather': 2, 'Gatherv': 1, 'Scatter': 1, 'Allgather': 1, 'Allgatherv': 1,
             'Alltoall': 1, 'Alltoallv': 1, 'Reduce_scatter': 1, 'Scan': 1, 'Iallreduce': 1, 'Barrier': 2}
    if not even:
        calls['Recv'] = 5 + (rank == 1)
    collective = (21 * 3 * ints + 50 * doubles + 4 * doubles + 2 * 2 * ints + (rank + 1) * ints +
                  6 * ints * (RANKS if rank == 3 else 1) + 5 * ints + (rank + 1) * ints + RANKS * 2 * ints + RANKS * ints +
                  10 * ints + doubles + doubles)
    sent = both + 5 * 7 * even + ints * (rank == 0)
    received = both + 5 * 7 * (not even) + ints * (rank == 1)
    return {f'MPI_{k}': v for k, v in calls.items()}, sent, received, collective


BLOCKING = 35  # collectives


def label(series, key):
    return series.split(f'{key}="')[1].split('"')[0]


def show(c, rank):
    """Returns the published values of a rank, in the form of expected()."""
    pod = f'pod="rank-{rank}"'
    calls = {label(k, 'call'): int(v) for k, v in c.find('mpi_calls_total', pod).items()}
    return ({k: v for k, v in calls.items() if k not in ('MPI_Test', 'MPI_Waitsome')}, *(
        c.total(name, pod, *more) for name, more in (
            ('mpi_bytes_total', ['direction="sent"']), ('mpi_bytes_total', ['direction="received"']), ('mpi_collective_bytes_total', []))))


def counts_calls_and_bytes_exactly(*program):
    agent = Agent('--hostname', 'node-1')
    c = Collector([agent], '--period', '10ms')
    end = f'{workdir()}/end'
    job = mpirun(RANKS, *(program or [PROGRAM]), end, SIDELIGHT_SOCKET=agent.socket, **SLURM)
    wait_until(lambda: job.out.count('counted') == RANKS or job.p.poll() is not None, 'the ranks have counted', job)
    for rank in range(RANKS):
        wait_until(lambda: show(c, rank) == expected(rank), lambda: f'rank {rank}: {show(c, rank)}, not {expected(rank)}', job, c,
                   seconds=0)
        pod = f'pod="rank-{rank}"'
        for name in ('mpi_calls_total', 'mpi_seconds_total', 'mpi_step_seconds_count'):
            for series in c.find(name, pod):
                want = {'rank': str(rank), 'job': '4711', 'step': '0', 'node': 'n7', 'user': 'alice', 'service': 'weather'}
                check({k: label(series, k) for k in want} == want, series)
        check(c.total('mpi_collective_seconds_count', pod) == BLOCKING, 'observations of collectives', c)
        check(c.total('mpi_step_seconds_count', pod) == BLOCKING - 1, 'observations of steps', c)
        seconds = c.find('mpi_seconds_total', pod)
        check({label(k, 'call') for k in seconds} == {label(k, 'call') for k in c.find('mpi_calls_total', pod)}, seconds)
        check(all(v > 0 for v in seconds.values()), seconds)
    # Rank 0 works for a second while rank 1 waits for its message, and the others wait for both in a barrier.
    check(c.total('mpi_step_seconds_sum', 'pod="rank-0"') >= 1, 'own work', c)
    check(c.total('mpi_seconds_total', 'pod="rank-1"', 'call="MPI_Recv"') > 0.5, 'waiting for a message', c)
    check(c.total('mpi_collective_seconds_sum', 'pod="rank-2"') > 0.5, 'waiting in a barrier', c)
    for rank in range(1, RANKS):
        check(c.total('mpi_step_seconds_sum', f'pod="rank-{rank}"') < c.total('mpi_step_seconds_sum', 'pod="rank-0"'), rank)
    touch(end)
    check(job.wait() == 0, 'mpirun', job)
    check(c.stop() == 0 and agent.stop() == 0, 'ended')


def counts_where_mpi_is_loaded_later():
    """A program that is linked with MPI, as a module of one that is not."""
    counts_calls_and_bytes_exactly(PROGRAM, sys.argv[7])


def runs_the_same_without_an_agent():
    said = []
    for preload in (False, True):
        job = mpirun(RANKS, PROGRAM, preload=preload, SIDELIGHT_SOCKET=f'{workdir()}/none.sock')
        check(job.wait() == 0, 'mpirun', job)
        said.append((sorted(job.out), job.err))
    check(said[0] == said[1] and len(said[0][0]) == 2 * RANKS and not any('not refused' in line for line in said[0][0]), said)


def jobs_are_listed_with_their_ranks():
    """Two jobs, of which one ends: it remains in the list after its pods are gone."""
    agent = Agent('--hostname', 'node-1', '--grace', '1s')
    c = Collector([agent], '--period', '10ms')
    ends = f'{workdir()}/end-1', f'{workdir()}/end-2'
    begun = time.time()
    none = c.api('jobs')
    check(none['jobs'] == [] and none['matching'] == 0, none)
    jobs = [mpirun(RANKS, PROGRAM, ends[0], f'{ends[0]}-slow', 0, SIDELIGHT_SOCKET=agent.socket, **SLURM),
            mpirun(2, PROGRAM, ends[1], f'{ends[1]}-slow', 0, SIDELIGHT_SOCKET=agent.socket, SLURM_JOB_ID='4712', SLURMD_NODENAME='n8',
                   SIDELIGHT_SERVICE='tide')]

    def listed(**params):
        return {j['job']: j for j in c.api('jobs?' + '&'.join(f'{k}={v}' for k, v in params.items()))['jobs']}

    def one(job):
        return c.api(f'jobs/{job}')
    wait_until(lambda: {k: j['ranks'] for k, j in listed().items()} == {'4711': RANKS, '4712': 2}, 'both jobs', c, *jobs)
    first, second = (listed()[k] for k in ('4711', '4712'))
    check({k: first[k] for k in ('name', 'user', 'state', 'end', 'nodes', 'node_count', 'ranks_running', 'slow')} == {
        'name': 'weather', 'user': 'alice', 'state': 'running', 'end': None, 'nodes': ['n7'], 'node_count': 1, 'ranks_running': RANKS,
        'slow': None}, first)
    check(begun - 1 < first['begin'] < time.time(), first)
    check((second['name'], second['user'], second['nodes']) == ('tide', str(os.geteuid()), ['n8']), second)
    check(set(listed(user='alice')) == {'4711'} and set(listed(state='ended')) == set() and set(listed(limit=1)) <= {'4711', '4712'}, 'filters')

    def is_complete():
        return all(r['steps'] > 20 and r['step_seconds'] and r['cpu_seconds'] for r in one('4711')['ranks'])
    wait_until(is_complete, lambda: one('4711'), c, *jobs)
    a = one('4711')
    check([(r['rank'], r['step'], r['node'], r['pod'], r['state']) for r in a['ranks']] == [
        (str(i), '0', 'n7', f'rank-{i}', 'live') for i in range(RANKS)], a)
    check(set(a['job']) == set(first) and a['job']['job'] == '4711' and not a['truncated'], a)
    for r in a['ranks']:
        # Steps sleep for 20 ms; on a busy machine they may take any longer time.
        check(0.02 <= r['step_seconds'] and 0.02 <= r['step_seconds_mean'] and r['pid'] and r['memory_peak_bytes'] > 1 << 20, r)
        check(0 < r['waiting_seconds'] <= r['mpi_seconds'] and r['sent_bytes'] > 0 and r['received_bytes'] > 0 and not r['incident'], r)
    node, = a['nodes']
    check(node['node'] == 'n7' and node['host'] == 'node-1' and node['ranks'] == RANKS and node['network'] is None, node)
    check(abs(node['cpu_seconds'] - sum(r['cpu_seconds'] for r in a['ranks'])) < 1e-6, node)
    check(len(one('4712')['ranks']) == 2, one('4712'))
    asked = {path: get_json(f'{c.url}/api/v1/{path}')[0] for path in ('jobs/47', 'jobs/4711.0', 'jobs?state=gone')}
    check(list(asked.values()) == [404, 404, 400], asked)
    touch(ends[0])
    check(jobs[0].wait() == 0, 'mpirun', jobs[0])
    wait_until(lambda: set(listed(state='ended')) == {'4711'}, 'it has ended', c)
    last = one('4711')
    wait_until(lambda: not [p for p in c.api('pods')['pods'] if p['service'] == 'weather'], 'its pods are gone', c)
    gone = one('4711')
    ended = listed(state='ended')['4711']
    check(ended['end'] and ended['begin'] < ended['end'] and ended['ranks'] == RANKS and not ended['ranks_running'], ended)
    check({r['state'] for r in gone['ranks']} == {'ended'}, gone)
    check([(r['rank'], r['steps'], r['mpi_seconds'], r['sent_bytes']) for r in gone['ranks']] ==
          [(r['rank'], r['steps'], r['mpi_seconds'], r['sent_bytes']) for r in last['ranks']], gone, last)
    check(listed(state='running').keys() == {'4712'}, listed)
    touch(ends[1])
    check(jobs[1].wait() == 0, 'mpirun', jobs[1])
    check(c.stop() == 0 and agent.stop() == 0, 'ended')


def names_the_slow_rank_and_no_other():
    """Eight ranks take equal steps. Then one of them works four times as long, and recovers; and another one is stopped most of
    the time. Each time, the cause is named."""
    if MPI == 'mpich' and SCALE <= 1:
        skip('takes 90 s, and Open MPI has run: make soak')
    agent = Agent('--hostname', 'node-1')
    c = Collector([agent], '--period', '10ms', '--analyse', '--analyse-step', '200ms')
    end, slow = f'{workdir()}/end', f'{workdir()}/slow'
    job = mpirun(8, PROGRAM, end, slow, 5, SIDELIGHT_SOCKET=agent.socket, **SLURM)

    def ranks():
        return {p['pod']: p for p in c.api('pods')['pods']}

    def anomalous():
        return {name: p['verdict'] for name, p in ranks().items() if p.get('verdict', {}).get('anomalous')}

    def is_named(rank, why, seconds=5):
        """The incident names this rank. On a busy machine the steps of others are longer, too, so they may be anomalous."""
        begin = time.monotonic()
        wait_until(lambda: rank in anomalous(), f'{rank} is found', c)
        print(f'{rank}: found after {time.monotonic() - begin:.1f} s')
        named = set()
        while time.monotonic() < begin + seconds or not named:
            check(time.monotonic() < begin + 60, 'no incident', c)
            named |= {i['sentence'].split()[0] for i in c.api('incidents')['incidents'] if not i['end']}
            time.sleep(0.2)
        check(named == {rank}, f'{rank} is named, and no other', named)
        # The two answers are from different moments, and the figures in the sentence may change in between.
        def answers():
            incident, job = next(i for i in c.api('incidents')['incidents'] if not i['end']), c.api('jobs/4711')
            return (job['job']['slow'] or {}).get('sentence') == incident['sentence'] and (incident, job)
        incident, job = wait_until(answers, 'the job has the sentence of the incident', c)
        said = incident['sentence']
        check(said.startswith(f'{rank} on node-1 has been slow') and re.search('mpi_step_seconds (rose|is) ', said) and 'other ranks wait for it' in said, said)
        print(said)
        check(why in said, said)
        slow, own = job['job']['slow'], [r for r in job['ranks'] if r['incident']]
        check((slow['incident'], slow['sentence'], slow['end'], f'rank-{slow["rank"]}') == (incident['id'], said, None, rank), slow, said)
        check(rank in [r['pod'] for r in own], own)
        wait_until(lambda: max(c.api('jobs/4711')['ranks'], key=lambda r: r['step_seconds'] or 0)['pod'] == rank, 'the longest steps', c)

    def recovers():
        wait_until(lambda: not anomalous() and all(i['end'] for i in c.api('incidents')['incidents']), 'the end', c)
    wait_until(lambda: len(c.find('mpi_step_seconds_count')) == 8, 'all ranks are published', job, c)
    # A rank that is younger than 50 s is not compared with its siblings (docs/analytics.md).
    time.sleep(60)
    check(not anomalous(), 'equal ranks are odd', anomalous, c)
    touch(slow)
    is_named('rank-5', '. It computes for longer: ')
    os.unlink(slow)
    recovers()
    pid, over = ranks()['rank-2']['pid'], threading.Event()

    def stop_in_bursts():
        while not over.wait(0.02):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.08)
            os.kill(pid, signal.SIGCONT)
    bursts = threading.Thread(target=stop_in_bursts)
    bursts.start()
    try:
        is_named('rank-2', '. It does not run for ')
    finally:
        over.set()
        bursts.join()
    recovers()
    touch(end)
    check(job.wait() == 0, 'mpirun', job)
    check(c.stop() == 0 and agent.stop() == 0, 'ended')


def names_the_rank_that_loses_packets():
    """Ranks connected by TCP, in a network namespace, in which packets from one of them are often lost."""
    if os.geteuid() or not shutil.which('nft'):
        skip('needs root and nft (package nftables)')
    agent = Agent('--hostname', 'node-1')
    c = Collector([agent], '--period', '10ms', '--analyse', '--analyse-step', '200ms')
    end = f'{workdir()}/end'
    job = mpirun(8, PROGRAM, end, f'{workdir()}/slow', 5, SIDELIGHT_SOCKET=agent.socket,
                 before=('unshare', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh'),
                 btl=('self,tcp', '--mca', 'btl_tcp_if_include', 'lo'), **SLURM)

    def inside(*argv):
        return output('nsenter', '--net', f'--target={job.pid}', *argv)

    def named():
        return {i['sentence'].split(' on ')[0] for i in c.api('incidents')['incidents'] if not i['end']}
    wait_until(lambda: len(c.find('mpi_retransmitted_segments_total')) == 8, 'all ranks have connections', job, c)
    time.sleep(40)
    check(not named(), 'ranks without losses are named', c)
    pid = next(p['pid'] for p in c.api('pods')['pods'] if p['pod'] == 'rank-5')
    ports = re.findall(rf'127\.0\.0\.1:(\d+) +\S+ +users:.*pid={pid},', inside('ss', '-tnpH', 'state', 'established'))
    inside('nft', 'add table ip lossy; add chain ip lossy in { type filter hook input priority 0; }; '
           f'add rule ip lossy in tcp sport {{ {", ".join(ports)} }} numgen random mod 100 < 8 drop')
    begin = time.monotonic()
    # Its neighbours retransmit what it does not acknowledge, and their retransmissions may be detected first.
    wait_until(lambda: named() == {'rank-5'}, 'the rank is named', c)
    print(f'found after {time.monotonic() - begin:.1f} s')
    while time.monotonic() < begin + 15:
        check(named() == {'rank-5'}, named, c)
        time.sleep(0.2)
    said = c.api('jobs/4711')['job']['slow']['sentence']
    print(said)
    check('has lost packets on its connections since' in said and 'mpi_retransmitted_segments_total rose to' in said, said)
    inside('nft', 'delete table ip lossy')
    wait_until(lambda: not named(), 'the end', c)
    touch(end)
    check(job.wait() == 0, 'mpirun', job)
    check(c.stop() == 0 and agent.stop() == 0, 'ended')


globals()[CASE]()
