#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""'sidelight collect' as a process, beside agents and publishers: test_collect.py SIDELIGHT COUNTER CASE"""
import json
import os
import re
import signal
import subprocess
import sys
import time

from support.process import KEEPS_FREED, SCALE, Missed, case, run_cases, skip, wait_until, widen, workdir
from support.protocol import Client, Region
from support.sidelight import EXE, Agent, Collector, counter, generate, report


def collector(agents, *options, period='2ms'):
    return Collector(agents, '--period', period, '--region-series', *options)


def run(*args, timeout=300):
    return subprocess.run([EXE, 'collect', *args], capture_output=True, text=True, timeout=timeout)


@case
def kills_lose_no_increment():
    first = Agent()
    p = counter(first, 4)
    c = collector([first])
    wait_until(lambda: c.total('ticks_total') > 0)
    for _ in range(3):
        seen = c.total('ticks_total')
        c.kill()
        c = collector([first])
        wait_until(lambda: c.total('ticks_total') > seen)
    first.kill()
    time.sleep(0.3)
    with Agent(folder=first.folder), c:
        # Nothing else is restarted: the publisher attaches again, and the collector finds it.
        seen = wait_until(lambda: c.total('ticks_total'))
        wait_until(lambda: c.total('ticks_total') > seen)
        want = int(p.tell())
        wait_until(lambda: c.total('ticks_total') == want)
        print(f'{want} increments')
        p.say_goodbye()
        wait_until(lambda: c.total('sidelight_region_state', 'state="closed"', 'service="counter"'))
        assert c.total('ticks_total') == want
    first.stop()


@case
def exact_while_four_threads_count():
    with Agent() as agent, collector([agent], period='1ms') as c:
        g = generate(agent.socket, '--pods', '3', '--metrics', '20', '--threads', '4', '--updates',
                     '200000', '--hold', '20s')
        last = {}
        try:
            while True:
                now = c.find('generated_updates_total')
                for k, v in last.items():
                    assert now.get(k, v) >= v, (k, v, now[k])  # never back
                last.update(now)
                if len(now) == 60 and all(v == 800000 for v in now.values()):
                    break
                assert g.p.poll() is None
                time.sleep(0.01)
        finally:
            g.stop()


@case
def new_pods_and_metrics_need_no_restart():
    with Agent() as agent, collector([agent]) as c:
        assert not c.find('ticks_total')
        p = [counter(agent, 1) for _ in range(5)]
        wait_until(lambda: len(c.find('ticks_total')) == 5)
        g = generate(agent.socket, '--pods', '2', '--metrics', '10', '--updates', '10', '--hold', '30s')
        wait_until(lambda: c.total('sidelight_collector_regions', 'live') == 8)
        for q in p:
            q.kill()
        g.stop()


@case
def marks_a_dead_pod_and_expires_it_exactly():
    widen(expire, 1, 4, 16)


def expire(factor):
    grace = 3 * factor  # the last words are asked for within it
    with Agent('--grace', f'{grace}s', '--lease', f'{200 * factor}ms') as agent, collector([agent]) as c:
        p = counter(agent, 1)
        wait_until(lambda: c.find('ticks_total'))
        start = time.monotonic()
        p.kill()
        wait_until(lambda: c.total('sidelight_region_up', 'service="counter"') == 0, every=0.002)
        marked = time.monotonic() - start
        if not c.find('ticks_total'):
            assert time.monotonic() - start >= grace, 'no last words'
            raise Missed('the grace')
        wait_until(lambda: not c.find('ticks_total'), every=0.002)
        gone = time.monotonic() - start
        print(f'marked after {marked * 1000:.1f} ms, gone after {gone:.3f} s')
        assert marked < gone and grace - 0.01 < gone, (marked, gone)  # never early
        wait_until(lambda: c.total('sidelight_collector_expired_regions_total') == 1)


@case
def drops_hostile_regions_only():
    with Agent() as agent, collector([agent]) as c:
        good = counter(agent, 1)
        wait_until(lambda: c.find('ticks_total'))
        client, evil = Client(agent.socket), []
        for i in range(4):
            r = Region(labels=(('service', 'evil'), ('n', str(i))))
            client.publish(r)
            evil.append(r)
        wait_until(lambda: len(c.find('sidelight_region_up', 'service="evil"')) == 4)
        evil[0].line(4096, (2, 1 << 40, 1, 1, 1, 0, 0))        # schema beyond the region
        evil[1].line(4096, (2, 0, 1 << 40, 1, 1, 0, 0))        # lines beyond the stripe
        evil[2].map[12288:12288 + 512] = os.urandom(512)       # a schema of garbage
        evil[2].line(4096, (2, 512, 1, 1, 1, 0, 0))
        evil[3].map[4096:8192] = os.urandom(4096)              # a hot line that never settles
        wait_until(lambda: c.total('sidelight_collector_regions', 'dropped') == 4, seconds=120)
        rounds = c.total('sidelight_collector_rounds_total')
        before = c.total('ticks_total')
        wait_until(lambda: c.total('ticks_total') > before)
        wait_until(lambda: c.total('sidelight_collector_rounds_total') > rounds + 20)
        faults = c.total('sidelight_collector_region_faults_total')
        assert faults >= 4, faults
        good.kill()
        for r in evil:
            r.close()


@case
def stopped_agent_delays_no_other_host():
    agents = [Agent() for _ in range(4)]
    pods = [generate(a.socket, '--updates', '1000000', '--rate', '1000', '--metrics', '1') for a in agents]
    name = 'generated_updates_total'

    def rate(c, seconds):
        r, t = c.total('sidelight_collector_rounds_total'), time.monotonic()
        time.sleep(seconds)
        return (c.total('sidelight_collector_rounds_total') - r) / (time.monotonic() - t)
    agents[0].p.send_signal(signal.SIGSTOP)  # it was never reached before: it sends no welcome
    try:
        with collector(agents, period='5ms') as c:
            wait_until(lambda: len(c.find(name)) == 3)
            usual = rate(c, 1)
            agents[1].p.send_signal(signal.SIGSTOP)
            before = c.find(name)
            # A collector that waits for the stopped agent would need a time-out per round, instead of making a hundred rounds
            # per second.
            stopped = wait_until(lambda: (lambda r: r > usual * 0.1 and r)(rate(c, 2)), f'{usual} rounds/s', c)
            print(f'{usual:.0f} rounds/s of 200, {stopped:.0f} with a stopped agent')
            wait_until(lambda: all(v > before[k] for k, v in c.find(name).items() if k in before))
            assert c.total('sidelight_host_up') == 3
            agents[0].p.send_signal(signal.SIGCONT)
            wait_until(lambda: c.total('sidelight_host_up') == 4)
            wait_until(lambda: len(c.find(name)) == 4)
    finally:
        for a in agents:
            a.p.send_signal(signal.SIGCONT)
        for p in pods:
            p.stop()
        for a in agents:
            a.stop()


@case
def pod_churn_leaks_nothing():
    """1,000 pods, many times; the soak test raises the scale."""
    turns = max(int(10 * SCALE), 3)
    with Agent('--grace', '200ms', '--lease', '100ms', '--max-memory', '4G') as agent, \
            collector([agent], '--history', '8M', '--sum-processes', period='5ms') as c:
        def idle():
            return c.total('sidelight_collector_regions') == 1 and c.mappings() == 2

        def measured():
            return c.resident_bytes(), c.descriptors(), c.mappings(), *(c.total('sidelight_collector_memory_bytes', part)
                                                                        for part in ('state', 'history'))
        base = None
        for turn in range(turns + 2):
            g = generate(agent.socket, '--pods', '100', '--metrics', '8', '--updates', '10',
                         '--pods-per-process', '15', *(['--hold', '1h'] if turn == 1 else []))
            if turn == 1:
                # Sums outlive their pods, so each has to have been seen once: not so if it ended first.
                report(g)  # it has started
                wait_until(lambda: len(c.find('generated_updates_total')) == 800)
                g.p.terminate()
            assert g.wait(60) == 0
            if turn == 1:
                wait_until(idle, seconds=180)
                base = measured()
        wait_until(idle, seconds=180)
        after = ()

        def settled():
            """A connection may be about to close, the last index that knew the pods to be replaced. The names of
            ended pods may take an eighth of the history."""
            nonlocal after
            after = measured()
            return after[1] <= base[1] + 1 and after[2] == base[2] and after[3] < base[3] + 20000 + (1 << 20)
        try:
            wait_until(settled, seconds=180)
        except AssertionError:
            assert False, (base, after)
        print(f'{turns * 100} pods: rss {base[0] >> 10} -> {after[0] >> 10} KiB, descriptors '
              f'{base[1]} -> {after[1]}, memory of state {base[3]:.0f} -> {after[3]:.0f}')
        if not KEEPS_FREED:
            kept = sum(after[3:]) - sum(base[3:])  # names and history of ended pods: more of them while the machine is busy
            assert after[0] < base[0] + max(kept, 0) + (4 << 20), (base, after)


@case
def reads_a_pod_of_many_pages():
    with Agent() as agent, collector([agent]) as c:
        g = generate(agent.socket, '--pods', '2', '--metrics', '700', '--threads', '2', '--updates', '50',
                     '--hold', '30s')
        wait_until(lambda: sum(v == 100 for k, v in c.series().items()
                             if k.startswith('generate')) == 1400, seconds=180)
        g.stop()


@case
def limits_refuse_and_count():
    """--max-regions and --max-series bound what is read; what exceeds them is counted by its limit."""
    with Agent() as agent:
        g = generate(agent.socket, '--pods', '4', '--metrics', '20', '--updates', '10', '--hold', '30s')
        with collector([agent], '--max-regions', '2') as c:
            wait_until(lambda: c.total('sidelight_collector_refused_total', 'cause="max_regions"') >= 3)
        with collector([agent], '--max-series', '30') as c:
            wait_until(lambda: c.total('sidelight_collector_refused_total', 'cause="max_series"') >= 50)
        g.stop()


@case
def restarts_alone():
    with Agent() as agent:
        p = counter(agent, 1)
        for i in range(10):
            c = collector([agent])
            wait_until(lambda: c.total('ticks_total') > 0)
            c.kill() if i % 2 else c.stop()
        # Two at a time neither disturb each other.
        with collector([agent]) as a, collector([agent]) as b:
            wait_until(lambda: a.total('ticks_total') > 0 and b.total('ticks_total') > 0)
        p.kill()


@case
def history_continues_after_an_agent_restart():
    first = Agent()
    p = counter(first, 1)
    with collector([first], '--history', '4M') as c:
        wait_until(lambda: c.find('ticks_total'))
        wait_until(lambda: c.total('sidelight_collector_history_points') > 0)
        seen = c.total('sidelight_collector_history_points')
        first.kill()
        wait_until(lambda: 'host is unreachable' in c.logged())
        with Agent(folder=first.folder):
            wait_until(lambda: 'host is reachable again' in c.logged())
            wait_until(lambda: c.total('sidelight_host_up') == 1 and
                     c.total('sidelight_host_connects_total') >= 2)
            wait_until(lambda: c.total('sidelight_collector_history_points') > seen)
            v = c.total('ticks_total')
            wait_until(lambda: c.total('ticks_total') > v)
            # The agent's own region is another one; the counter's is the same.
            assert c.total('sidelight_collector_expired_regions_total') == 0
            assert len(c.find('ticks_total')) == 1
    p.kill()
    first.stop()


@case
def reading_wakes_no_process():
    """Reading costs the publishers and the agent nothing: they sleep meanwhile."""
    if os.environ.get('SL_TEST_TSAN'):
        skip("ThreadSanitizer's own thread wakes")

    def woken(pids):
        n = 0
        for pid in pids:
            for task in os.listdir(f'/proc/{pid}/task'):
                with open(f'/proc/{pid}/task/{task}/status') as f:
                    n += int(re.search(r'^voluntary_ctxt_switches:\s*(\d+)', f.read(), re.M)[1])
        return n

    with Agent(rest=True) as agent:
        g = generate(agent.socket, '--pods', '4', '--updates', '0', '--hold', '1h')
        with collector([agent], period='1ms') as c:
            wait_until(lambda: len(c.find('sidelight_region_up')) == 5)
            with open(f'/proc/{g.pid}/task/{g.pid}/children') as f:
                pids = [agent.pid, g.pid] + [int(x) for x in f.read().split()]
            assert len(pids) == 6
            for _ in range(10):  # earlier work may still have to end
                rounds, before = c.total('sidelight_collector_rounds_total'), woken(pids)
                time.sleep(1)
                if woken(pids) == before:
                    break
            else:
                assert False, 'still woken'
            assert c.total('sidelight_collector_rounds_total') > rounds
        assert g.stop() == 0


@case
def modes_print_what_they_promise():
    with Agent() as agent:
        p = counter(agent, 1)
        r = run('--agent', agent.socket, '--mode', 'setup')
        assert r.returncode == 0 and 'service=counter' in r.stdout, r
        j = json.loads(run('--agent', agent.socket, '--mode', 'setup', '--json').stdout)
        assert j['hosts'][0]['condition'] == 'up' and len(j['regions']) == 2, j
        csv = agent.folder + '/stats.csv'
        r = run('--agent', agent.socket, '--mode', 'read_loop', '--period', '1ms', '--workers', '2',
                '--queues', '2', '--duration', '2500ms', '--stats-csv', csv)
        lines = r.stdout.splitlines()
        assert r.returncode == 0 and re.match(r'[\d.]+ scrapes/s  \(0: ', lines[1]), r
        assert lines[-1].startswith('total: '), r
        rows = open(csv).read().splitlines()
        assert rows[0].startswith('worker,time_s,scrapes,rate_hz') and len(rows) == 3, rows
        assert [row.split(',')[0] for row in rows[1:]] == ['0', '1']
        r = run('--agent', agent.socket, '--mode', 'read_loop', '--period', '0', '--json',
                '--duration', '1200ms')
        last = json.loads(r.stdout.splitlines()[-1])['total']
        assert last['rounds'] > 100 and last['samples'] > 0, r
        config = agent.folder + '/collect.yaml'
        with open(config, 'w') as f:
            f.write(f'agent: [{agent.socket}]\nmode: setup\njson: true\n')
        assert json.loads(run('--config', config).stdout)['hosts'][0]['condition'] == 'up'
        p.kill()


@case
def reports_errors_in_one_line():
    def wrong(code, what, *args):
        r = run(*args)
        said = [line for line in r.stderr.splitlines() if 'waiting for hosts' not in line]  # a busy machine is slow to answer
        assert r.returncode == code and what in r.stderr and len(said) == 1, (args, r)
    with Agent() as agent, collector([agent]) as c:
        here = ['--agent', agent.socket]
        wrong(1, 'in use', *here, '--listen', c.address)
        wrong(2, 'period', *here, '--period', '1 parsec')
        wrong(2, 'agent')
        wrong(2, 'mode', *here, '--mode', 'sideways')
        wrong(2, 'listen', *here, '--listen', '127.0.0.1:99999')
        wrong(2, 'HOST', '--agent', '10.0.0.1:99999', '--mode', 'setup')
        wrong(2, 'HOST', '--agent', '', '--mode', 'setup')
        wrong(1, 'write failed', *here, '--mode', 'read_loop', '--duration', '100ms', '--realtime', 'off',
              '--stats-csv', '/dev/full')
        wrong(2, 'cpus', *here, '--cpus', '0-')
        wrong(2, 'workers', *here, '--workers', '0')
        wrong(2, '--workers', *here, '--queues', '2')
        wrong(2, '--dev', *here, '--dev', 'rxe0')
        wrong(2, 'bogus', *here, '--bogus')
        for option in ('--detector', '--shadow'):
            for more in ((), ('--mode', 'setup')):
                wrong(2, "unknown detector 'bogus'; available: combined, fd,", *here, '--analyse', option, 'bogus', *more)
        wrong(2, 'history', *here, '--history', '1K')
        wrong(1, 'stats', *here, '--mode', 'read_loop', '--realtime', 'off', '--stats-csv', '/nonexistent/stats.csv')
        r = run('--agent', '127.0.0.1:7475', '--dev', 'nosuch0', '--mode', 'setup', '--duration',
                '2s')
        assert r.returncode == 1 and ('nosuch0' in r.stderr + r.stdout), r
        r = run('--agent', agent.folder + '/nothing.sock', '--mode', 'setup', '--duration', '500ms')
        assert r.returncode == 1 and 'No such file' in r.stdout, r


@case
def waits_for_an_absent_agent():
    folder = workdir()
    with collector([folder + '/agent.sock']) as c:
        assert c.total('sidelight_host_up') == 0
        assert c.get('/-/healthy') == 'ok\n' and c.get('/-/ready') == 'ready\n'
        with Agent(folder=folder) as agent:
            p = counter(agent, 1)
            wait_until(lambda: c.find('ticks_total'))
            p.kill()
        # Gone for good: its series leave when they are stale, and the host is down.
        wait_until(lambda: c.total('sidelight_host_up') == 0 and not c.find('ticks_total'))


@case
def ready_counts_the_hosts_it_reached():
    folder = workdir()
    with collector([folder + '/agent.sock']) as c:
        def counts():
            return [re.search(r' agents=(\S+)', line)[1] for line in c.out if line.startswith('ready ')]
        assert counts() == ['0/1'], c.out
        with Agent(folder=folder):
            wait_until(lambda: counts() == ['0/1', '1/1'], 'a second line', c)
        wait_until(lambda: counts() == ['0/1', '1/1', '0/1'], 'a third line', c)
        assert all(line.startswith(c.out[0].rsplit(' ', 1)[0]) for line in c.out), c.out


@case
def keeps_running_when_its_output_reader_exits():
    folder = workdir()
    p = subprocess.Popen([EXE, 'collect', '--agent', folder + '/agent.sock', '--listen', f'unix:{folder}/http'],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline().startswith('ready ')
        p.stdout.close()
        with Agent(folder=folder):
            assert any('cannot write the line' in line for line in p.stderr), p.wait()
        p.stderr.close()
        p.terminate()
        assert p.wait() == 0
    finally:
        p.kill()
        p.wait()


@case
def setup_says_what_it_waits_for_and_ends():
    with Agent() as agent, Agent() as other:
        agent.p.send_signal(signal.SIGSTOP)
        try:
            # The agent never answers, so without a line of its own the wait would be silent.
            r = run('--agent', other.socket, '--agent', agent.socket, '--mode', 'setup', '--duration', '1s')
        finally:
            agent.p.send_signal(signal.SIGCONT)
        said = [line for line in r.stderr.splitlines() if 'waiting' in line]
        assert r.returncode == 1 and len(said) == 1, r
        assert agent.socket in said[0] and other.socket not in said[0] and 'reached=1/2' in said[0], r
        r = run('--agent', other.socket, '--mode', 'setup')
        assert r.returncode == 0 and not r.stderr, r


@case
def a_hosts_name_never_controls_the_terminal():
    with Agent('--hostname', 'db\033]0;owned\007\x9b2J') as agent:
        r = run('--agent', agent.socket, '--mode', 'setup')
        assert r.returncode == 0 and 'host db?]0;owned???2J (' in r.stdout, r
        assert re.fullmatch(r'[\n -~]*', r.stdout), r


run_cases(only=sys.argv[3:])
