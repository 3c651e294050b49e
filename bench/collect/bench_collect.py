#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_collect.py BUILD [FIGURE]... - the collector over shared memory: rate, deadlines, memory, hostcpu, row, saturated."""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
import bench  # noqa: E402
from bench import FIRST, Stage, check, cpu_ns, get, median, poll, real_time, say, stolen_ms, switches  # noqa: E402

BUILD = sys.argv[1]
EXE = os.path.join(BUILD, 'sidelight')
PODS, METRICS = 256, 64
FASTEST = 64000  # updates per second of a pod: each counter 1,000 times per second


def updates(address, counters, seconds=2):
    """Updates per second and counter that the generator really makes, once the collector has read all pods."""
    def values():
        return [float(line.rsplit(' ', 1)[1]) for line in get(address, '/metrics').splitlines()
                if line.startswith('generated_updates_total')]
    if not poll(lambda: len(values()) == counters, 120, 1):
        check(False, f'{len(values())} of {counters} counters are read')
    first, start = sum(values()), time.monotonic()
    time.sleep(seconds)
    return (sum(values()) - first) / (time.monotonic() - start) / counters


# ---- rate and deadlines: one worker, 'collect --mode read_loop' ------------------------------------------------

class Attempt:
    """Some seconds of reading at a rate, without the first."""

    def __init__(self, s, hz, seconds=3):
        p = s.start([FIRST], 'collect', '--agent', s.socket, '--mode', 'read_loop', '--json', '--period',
                    f'{1e6 / hz:.3f}us', '--history', '256M', '--duration', f'{seconds + 2}s', '--cpus', FIRST,
                    first=real_time())
        marks = [self.mark(p, n) for n in (1, seconds + 1)]
        check(p.wait(60) == 0, 'the collector failed', p)
        lines = [json.loads(line) for line in p.out[1:seconds + 1]]
        total = {k: sum(line[k] for line in lines) for k in
                 ('rounds', 'missed_deadlines', 'samples', 'unsettled', 'busy_seconds', 'seconds')}
        check(total['samples'] >= PODS * METRICS * total['rounds'] * 0.99, f'values are missing: {total}', p)
        self.rounds, self.unsettled = total['rounds'], total['unsettled']
        self.hz = total['rounds'] / total['seconds']
        self.missed = total['missed_deadlines'] / (hz * total['seconds'])
        self.busy = total['busy_seconds'] / total['seconds']
        self.cpu_ns, self.stolen_ms, self.preempted = (b - a for a, b in zip(*marks))

    @staticmethod
    def mark(p, lines):
        """When this many lines of a second each have come."""
        check(poll(lambda: len(p.out) >= lines or p.p.poll() is not None, 60, 0.002) and p.p.poll() is None,
              'no rates', p)
        return cpu_ns(p.pid), stolen_ms(FIRST), switches(p.pid, 'nonvoluntary')

    def took(self):
        return (f'{100 * self.missed:.2f} % of deadlines missed, {100 * self.busy:.0f} % busy, {self.unsettled} lines '
                f'unsettled in {self.rounds} rounds, {self.stolen_ms:.0f} ms stolen from the CPU (/proc/stat), '
                f'{self.preempted} involuntary context switches')


def floor_hz():
    out = subprocess.run([os.path.join(BUILD, 'bench/collect/bench_collect_floor'), str(PODS), str(METRICS), '500', '3'],
                         check=True, stdout=subprocess.PIPE, text=True)
    return float(out.stdout)


def spin(seconds):
    """What each CPU of the pods gives to a busy process: CPU seconds per second, of all together."""
    busy = [bench.on([c], sys.executable, '-c', f"""import time
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    pass
print(time.process_time())""") for c in bench.OTHERS]
    for p in busy:
        check(p.wait() == 0, 'a busy process', p)
    return sum(float(p.out[0]) for p in busy) / seconds


def busy_stage(*generate):
    """The pods, updated FASTEST, or as much more slowly as leaves something of the machine to who reads them."""
    left, rate = spin(1), FASTEST
    while True:
        s = Stage(EXE, PODS, '--updates', '4000000000', '--rate', rate, *generate)
        time.sleep(1)
        with open(f'/proc/{s.pods.pid}/task/{s.pods.pid}/children') as f:
            pids = [int(pid) for pid in f.read().split()]
        began, before = time.monotonic(), sum(map(cpu_ns, pids))
        time.sleep(2)
        taken = (sum(map(cpu_ns, pids)) - before) / 1e9 / (time.monotonic() - began)
        print(f'{rate} updates per second and pod take {taken:.2f} of {left:.2f} CPUs', file=sys.stderr)
        if taken < 0.8 * left or rate <= FASTEST // 512:
            return s
        s.__exit__()
        rate //= 8


def conditions(s):
    p, address = s.collect('--period', '10ms')
    each = updates(address, PODS * METRICS)
    p.stop()
    return (f'{PODS} pods x {METRICS} counters, each updated {each:.0f} times per second, 2 stripes each, history on, '
            f'one core{" (SCHED_FIFO)" if real_time() else ""}')


def rate(hz=500, repeats=5):
    """Rounds per second of the core's own time: what the rate would be if nothing took the core away."""
    peer = bench.numpy_missing()
    if peer:
        bench.skip_peer(peer)
    with busy_stage() as s:
        attempts = [Attempt(s, hz) for _ in range(repeats)]
        how = conditions(s)
    attempts.sort(key=lambda a: a.rounds / a.cpu_ns)
    a = attempts[repeats // 2]
    theirs = bare = None
    if not peer:
        import microview
        theirs, bare = microview.collect_hz(PODS, METRICS), microview.collect_hz(PODS, METRICS, names=False)
    say('collect.shm.256x64', 1e9 * a.rounds / a.cpu_ns, 'Hz',
        f'{how}; rounds per second of CPU time of all threads, at {hz} Hz; median of {repeats} runs of 3 s: {a.took()}; '
        + (f'peer: pages of shared memory copied, unpacked metric by metric with their names, and kept, one core; by a view '
           f'of the values alone, nothing named or checked, {bare:.0f} Hz' if theirs else ''),
        'MicroView in Python' if theirs else None, theirs,
        f'as many lines copied and values written, at {hz} Hz, one core', floor_hz())


def deadlines():
    """The highest rate with less than 1 % of deadlines missed: from 500 Hz by quarters, upwards or downwards."""
    with busy_stage() as s:
        def holds(hz):
            tries = []
            for _ in range(3):  # a neighbour's burst does not decide
                tries.append(Attempt(s, hz))
                if tries[-1].missed < 0.01:
                    break
            return tries[-1].missed < 0.01, min(tries, key=lambda a: a.missed)

        hz = 500
        good, found = holds(hz)
        while not good and hz > 10:
            hz = int(hz / 1.25)
            good, found = holds(hz)
        best, above = (found, hz) if good else (None, hz), None
        while good and hz >= 500 and hz <= 16000:
            hz = int(hz * 1.25)
            good, above = holds(hz)
            best = (above, hz) if good else best
        how = conditions(s)
    won, at = best
    say('collect.shm.deadlines', won.hz if won else 0, 'Hz',
        f'{how}; highest of 500 Hz x 1.25^n, n of either sign, with less than 1 % of deadlines missed in one of three runs '
        f'of 3 s; ' + (f'at {at} Hz: {won.took()}' if won else f'none: at {at} Hz: {found.took()}') +
        (f'; at {hz} Hz: {above.took()}' if above and not good else ''))


# ---- memory and the host's CPU ----------------------------------------------------------------------------------

def own_memory(pid):
    """Resident bytes without the publishers' memory that is mapped."""
    with open(f'/proc/{pid}/status') as f:
        kb = {line.split(':')[0]: int(line.split()[1]) for line in f if line.startswith(('VmRSS', 'RssSh'))}
    return (kb['VmRSS'] - kb['RssShmem']) * 1024


def memory():
    def run(s, seconds, *args):
        p, address = s.collect('--period', '10ms', *args)
        time.sleep(seconds)
        used = own_memory(p.pid)
        each = s.pods and updates(address, PODS * METRICS // 2)
        p.stop()
        return used, each

    without, having = ['--history', '0'], ['--history', '512M', '--history-time', '10s']
    with Stage(EXE, 0) as s:
        empty = run(s, 2, *without), run(s, 2, *having)
    with busy_stage('--kinds', 'counter,gauge') as s:
        full = run(s, 4, *without), run(s, 16, *having)
    n = PODS * METRICS
    how = (f'{PODS} pods x {METRICS} counters and gauges, updated {full[1][1]:.0f} times per second, read at 100 Hz; '
           f'resident memory without what is mapped of the pods, less the same with no pods; ')
    say('collect.memory', round((full[1][0] - empty[1][0]) / n, 1), 'bytes per series', how + '10 s of history')
    say('collect.memory.nohistory', round((full[0][0] - empty[0][0]) / n, 1), 'bytes per series', how + 'no history')


def spent(pids):
    """(ticks, nanoseconds on a CPU, times woken) of all these processes."""
    ticks = 0
    for pid in pids:
        with open(f'/proc/{pid}/stat') as f:
            fields = f.read().rsplit(')', 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks, sum(map(cpu_ns, pids)), sum(switches(p, 'voluntary') for p in pids)


def spent_in(seconds, pids):
    before = spent(pids)
    time.sleep(seconds)
    return [b - a for a, b in zip(before, spent(pids))]


def hostcpu(seconds=30):
    with Stage(EXE, 16, '--updates', '0', '--hold', '10m', rest=True) as s:
        with open(f'/proc/{s.pods.pid}/task/{s.pods.pid}/children') as f:
            watched = [s.agent.pid, s.pods.pid] + [int(x) for x in f.read().split()]
        time.sleep(2)
        alone = spent_in(seconds, watched)
        p = s.start([FIRST], 'collect', '--agent', s.socket, '--mode', 'read_loop', '--json', '--period', '1ms',
                    '--duration', f'{seconds + 4}s', first=real_time())
        time.sleep(2)
        read = spent_in(seconds, watched)
        check(p.wait(60) == 0, 'the collector failed', p)
        t = json.loads(p.out[-1])['total']
        say('collect.hostcpu', read[0], 'ticks',
            f'agent and {len(watched) - 1} processes of 16 idle pods, {seconds} s, read '
            f'{t["rounds"] / t["seconds"]:.0f} times per second over shared memory; a tick is '
            f'{1000 // os.sysconf("SC_CLK_TCK")} ms; {read[1]} ns on a CPU, woken {read[2]} times; in {seconds} s without a '
            f'collector {alone[0]} ticks, {alone[1]} ns, woken {alone[2]} times')


# ---- analysis in the live collector -----------------------------------------------------------------------------

ROW_PODS, ROW_SECONDS, PAIRS = 64, 10, 3
NAMES = ('analysis_busy_seconds_total', 'analysis_rows_total', 'collector_missed_deadlines_total',
         'collector_rounds_total', 'collector_busy_seconds_total', 'analysis_pods{state="warming_up"}')


def self_metrics(address):
    found = dict(re.findall(r'^sidelight_(\S+?)(?:\{worker="0"\})? (\S+)$', get(address, '/metrics'), re.M))
    return {n: float(found.get(n, 0)) for n in NAMES}


def live_run(s, *options):
    """What the collector counts in ROW_SECONDS, past the warm-up: a row costs most when each is learned."""
    p, address = s.collect('--period', '10ms', '--cpus', FIRST, *options, first=real_time())

    def warm():
        now = self_metrics(address)
        return not options or (now[NAMES[1]] and not now[NAMES[5]])
    time.sleep(1)
    check(poll(warm, 120, 1), 'still warming up', p)
    before = self_metrics(address)
    time.sleep(ROW_SECONDS)
    after = self_metrics(address)
    check(not after[NAMES[5]], f'warming up again: {after}', p)
    p.stop()
    return {n: after[n] - before[n] for n in NAMES}


def live_row(name, what, kinds):
    plain, analysing = [], []
    with Stage(EXE, ROW_PODS, '--updates', '4000000000', '--rate', '6400', '--kinds', kinds) as s:
        for _ in range(PAIRS):
            plain.append(live_run(s))
            analysing.append(live_run(s, '--analyse', '--analyse-step', '100ms', '--warm-up', '5s'))
    rows = [1e6 * r['analysis_busy_seconds_total'] / r['analysis_rows_total'] for r in analysing]

    def missed(runs):  # a deadline is a round that began or one that was missed
        n = sum(r['collector_missed_deadlines_total'] for r in runs)
        return 100 * n / (n + sum(r['collector_rounds_total'] for r in runs))

    def busy(runs):
        return 100 * sum(r['collector_busy_seconds_total'] for r in runs) / (ROW_SECONDS * len(runs))
    say(name, round(median(rows), 1), 'us',
        f'{ROW_PODS} pods x {METRICS} {what}, read every 10 ms, each scored every 100 ms, after the warm-up; wall time '
        f'within analysis over rows (sidelight_analysis_busy_seconds), one core'
        f'{" (SCHED_FIFO)" if real_time() else ""}, median of {PAIRS} runs of {ROW_SECONDS} s ({min(rows):.1f} to '
        f'{max(rows):.1f}); deadlines missed: {missed(analysing):.2f} %, without --analyse, in turns with it, '
        f'{missed(plain):.2f} %; busy {busy(analysing):.1f} % and {busy(plain):.1f} %')


def row():
    live_row('analyse.live.row', 'counters', 'counter')
    live_row('analyse.live.row.mixed', 'counters, gauges and histograms', 'counter,gauge,histogram')


# ---- a host whose CPUs are all busy -------------------------------------------------------------------------------

def saturated(seconds=10):
    """Deadlines that a collector keeps on a host whose 256 pods update without pause on every CPU."""
    def run(s, *options):
        p = s.start(bench.CPUS, 'collect', '--agent', s.socket, '--mode', 'read_loop', '--json', '--period', '10ms',
                    '--history', '64M', '--duration', f'{seconds + 2}s', *options)
        check(poll(lambda: len(p.out) >= 1, 120, 0.002), 'no rates', p)
        before = cpu_ns(p.pid)
        check(poll(lambda: len(p.out) >= seconds + 1, 300, 0.002), 'no rates', p)
        used = (cpu_ns(p.pid) - before) / 1e9
        check(p.wait(60) == 0, 'the collector failed', p)
        lines = [json.loads(line) for line in p.out[1:seconds + 1]]
        total = {k: sum(line[k] for line in lines) for k in ('rounds', 'missed_deadlines', 'seconds')}
        missed = total['missed_deadlines'] / (total['rounds'] + total['missed_deadlines'])
        return 100 * missed, 100 * used / total['seconds']

    with Stage(EXE, PODS, '--updates', '4000000000', '--hold', '10m', '--rate', '100') as s:
        idle = run(s)
    with Stage(EXE, PODS, '--updates', '4000000000', '--wait', '60s', cpus=bench.CPUS) as s:
        auto, off = run(s), run(s, '--realtime', 'off')
    how = (f'period of 10 ms, {seconds} s, {PODS} pods x {METRICS} counters updated without pause on all {len(bench.CPUS)} CPUs, where '
           'the collector runs as well')
    say('collect.saturated', round(auto[0], 2), '%',
        f'deadlines missed, {how}; with --realtime off {off[0]:.1f} %, with idle CPUs {idle[0]:.2f} %')
    say('collect.saturated.cpu', round(auto[1] / idle[1], 2), 'of idle',
        f'CPU of the collector, {how}: {auto[1]:.1f} % of one, with --realtime off {off[1]:.1f} %, with idle CPUs {idle[1]:.1f} %')


FIGURES = {f.__name__: f for f in (rate, deadlines, memory, hostcpu, row, saturated)}
if __name__ == '__main__':
    for figure in sys.argv[2:] or FIGURES:
        FIGURES[figure]()
