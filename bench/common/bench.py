# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks in Python share: lines of results, CPUs, and the parts of Sidelight as processes."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests'))
from support.process import Part, check, poll, workdir  # noqa: E402,F401

CPUS = sorted(os.sched_getaffinity(0))
# The collector under test has the first CPU, all else the others.
FIRST, OTHERS = CPUS[0], CPUS[1:] or CPUS


def say(name, value, unit, conditions, peer=None, peer_value=None, floor=None, floor_value=None,
        less_is_better=False):
    """Prints the line of a figure, and the line NAME.floor if there is a floor."""
    def better(other):
        if other is None or not value or not other:
            return None
        return other / value if less_is_better else value / other
    row = {'name': name, 'value': value, 'unit': unit, 'peer': peer, 'peer_value': peer_value,
           'ratio': better(peer_value)}
    if floor:
        row['ratio_to_floor'] = better(floor_value)
    print(json.dumps({**row, 'conditions': conditions}), flush=True)
    if floor:
        say(name + '.floor', floor_value, unit, floor)


def skip_peer(reason):
    """A figure without its peer is still a figure; bench/run shows why."""
    print(f'SKIP: a peer: {reason}', file=sys.stderr)


def numpy_missing():
    """None, or why the peers in numpy cannot run."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        return 'no numpy (Debian package python3-numpy)'


def real_time():
    """A prefix by which a command keeps its core, where that is allowed."""
    chrt = shutil.which('chrt')
    if chrt and not subprocess.run([chrt, '-f', '10', 'true'], capture_output=True).returncode:
        return [chrt, '-f', '10']
    return []


def on(cpus, *argv):
    """The command, pinned to these CPUs."""
    return Part('taskset', '-c', ','.join(map(str, cpus)), *argv)


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def median(values):
    return statistics.median(values)


def get(address, path, seconds=30):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f'http://{address}{path}', timeout=seconds) as r:
        return r.read().decode()


def tasks(pid):
    return [f'/proc/{pid}/task/{t}' for t in os.listdir(f'/proc/{pid}/task')]


def cpu_ns(pid):
    """CPU time of all threads."""
    spent = 0
    for task in tasks(pid):
        with open(task + '/schedstat') as f:
            spent += int(f.read().split()[0])
    return spent


def switches(pid, kind):
    """Context switches of all threads; kind: 'voluntary' or 'nonvoluntary'."""
    n = 0
    for task in tasks(pid):
        with open(task + '/status') as f:
            n += sum(int(line.split()[1]) for line in f if line.startswith(f'{kind}_ctxt_switches:'))
    return n


def stolen_ms(cpu):
    """What the hypervisor took from this CPU since it booted (proc_stat(5))."""
    with open('/proc/stat') as f:
        fields = next(line.split() for line in f if line.startswith(f'cpu{cpu} '))
    return int(fields[8]) * 1000 / os.sysconf('SC_CLK_TCK')


class Stage:
    """An agent, and pods that a generator updates; by default on all CPUs but the first."""

    def __init__(self, exe, pods, *generate, metrics=64, per_process=15, rest=False, agent=(), cpus=OTHERS):
        self.exe, self.folder = exe, workdir()
        self.socket = self.folder + '/agent.sock'
        self.running = []
        self.agent = self.start(cpus, 'agent', '--socket', self.socket,
                                *([] if rest else ['--no-rest']), *agent)
        self.agent.ready()
        self.pods = None
        if pods:
            self.pods = self.start(cpus, 'generate', 'metrics', '--socket', self.socket, '--pods', pods,
                                   '--metrics', metrics, '--pods-per-process', per_process, *generate)
            self.pods.ready()

    def start(self, cpus, *args, first=()):
        p = on(cpus, *first, self.exe, *args)
        self.running.append(p)
        return p

    def collect(self, *args, first=()):
        """A collector on the first CPU, and its address."""
        p = self.start([FIRST], 'collect', '--agent', self.socket, '--listen', '127.0.0.1:0', *args, first=first)
        return p, p.ready()['listen']

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in reversed(self.running):
            p.stop(seconds=20)
