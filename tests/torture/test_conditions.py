#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_conditions.py SIDELIGHT APP FAIL CASE... - parts in bad conditions: one of them stands still, the disk is full,
descriptors or memory run out, the clock is set. Each loses at most what it says, and works again when the condition is over."""
import http.server
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from support import flows
from support.attacker import nested
from support.front import children, name
from support.process import SCALE, Part, alive, case, check, run_cases, skip, wait_until, workdir
from support.protocol import MAGIC, PUBLISH, Client, Region
from support.sidelight import Agent, Collector, Pod
from support.sockets import opened

SIDELIGHT, APP, FAIL, *CASES = sys.argv[1:]
STILL = 30 if SCALE > 1 else 3  # seconds
REPORTS = 200


class Quick(Agent):
    """An agent that soon forgets the dead."""

    def __init__(self, *options, **more):
        super().__init__('--grace', '200ms', '--lease', '100ms', *options, **more)


class App(Pod):
    """app.c, which counts 2,000 of each of its metrics."""

    def __init__(self, agent, *before):
        super().__init__(*before, APP, agent.socket)
        wait_until(lambda: self.out, 'it counts', self)

    def exact(self):
        """Returns whether every metric was created and has the right value."""
        return self.tell('?') == 'exact 0'

    def end(self):
        check(self.exact(), 'counts are lost', self)
        check(self.close() == 0, 'it ends', self)


def shown(c):
    """The values of one counter of app.c."""
    return list(c.find('torture_7_total').values())


class Still:
    """A part stands still as long as this lasts."""

    def __init__(self, part):
        self.part = part

    def __enter__(self):
        os.kill(self.part.pid, signal.SIGSTOP)

    def __exit__(self, *_):
        os.kill(self.part.pid, signal.SIGCONT)


def meanwhile(work):
    """Does it again and again for STILL seconds."""
    end = time.monotonic() + STILL
    while time.monotonic() < end:
        work()
        time.sleep(0.2)


# ---- a part stands still ---------------------------------------------------------------------------------------------

@case
def a_stopped_agent_costs_no_count():
    """Publishers go on counting and the collector goes on reading; publishers that start meanwhile are admitted afterwards."""
    with Quick() as a, Collector([a], '--period', '10ms') as c:
        early = App(a)
        wait_until(lambda: shown(c) == [2000], 'it is read', c)
        with Still(a):
            late = App(a)  # whose start does not wait for the agent

            def work():
                check(early.exact() and late.exact(), 'counts are lost', early, late)
                check(shown(c) == [2000], f'it is not read: {shown(c)}', c)
            meanwhile(work)
        wait_until(lambda: shown(c) == [2000, 2000], 'the late one is read', c, a, late)
        early.end()
        late.end()


@case
def a_stopped_collector_delays_no_other():
    """The agent and another collector go on; it has everything afterwards."""
    with Quick() as a, Collector([a]) as still, Collector([a]) as other:
        early = App(a)
        wait_until(lambda: shown(still) == shown(other) == [2000], 'it is read', still, other)
        with Still(still):
            late = App(a)
            early.end()

            def work():
                check(a.status()['use']['live'] >= 1, 'the agent answers', a)
                check(late.exact(), 'counts are lost', late)
                other.scrape()
            meanwhile(work)
            wait_until(lambda: shown(other) == [2000] and a.status()['counters']['freed'] == 6, 'the others go on',
                       other, a)
        wait_until(lambda: shown(still) == [2000], 'it reads what is there', still, a)
        late.end()


@case
def a_stopped_publisher_stays_alive():
    """A publisher that was stopped with SIGSTOP counts as alive: its values are shown, and others are read and admitted on
    time."""
    with Quick() as a, Collector([a]) as c:
        still = App(a)
        wait_until(lambda: shown(c) == [2000], 'it is read', c)
        with Still(still):
            other = App(a)

            def work():
                check(other.exact() and a.status()['counters']['dead'] == 0, 'it is taken for dead', a, other)
                check(2000 in shown(c), f'its values are {shown(c)}', c)
            meanwhile(work)
            wait_until(lambda: shown(c) == [2000, 2000], 'the other is read', c)
        still.end()
        other.end()


def below(pid):
    """All its descendants."""
    return [p for c in children(pid) for p in (c, *below(c))]


@case
def a_stopped_helper_delays_no_other():
    """Stops each helper of an agent and a collector, one after the other. Counts, rounds and another collector go on;
    afterwards HTTP and REST answer."""
    seconds = STILL / (1 if SCALE > 1 else 3)
    folder = workdir()
    with Quick('--statsd', f'unix:{folder}/statsd', rest=True) as a, Collector([a]) as c, Collector([a], '--period', '10ms') as other:
        app = App(a)
        wait_until(lambda: shown(c) == shown(other) == [2000], 'it is read', c, other)
        helpers = [(pid, name(pid)) for part in (a, c) for pid in below(part.pid)]
        check(len(helpers) >= 6, helpers)
        for pid, what in helpers:
            os.kill(pid, signal.SIGSTOP)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                check(app.exact() and shown(other) == [2000], f'{what} stands still: counts are lost', app, other)
                check(a.status()['use']['live'] >= 1, f'{what} stands still: the agent answers', a)
                time.sleep(0.2)
            rounds = other.total('sidelight_host_rounds_total')
            wait_until(lambda: other.total('sidelight_host_rounds_total') > rounds, f'{what} stands still: rounds go on', other)
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass  # it was killed because it did not answer

            def whole():
                try:
                    return shown(c) == [2000] and a.ask('GET', '/')[0]
                except OSError:
                    return False
            wait_until(whole, f'{what} goes on: HTTP and REST answer', c, a)
        app.end()
    return f'{len(helpers)} processes'


class Stores(Part):
    """A collector with stores for reports."""

    def __init__(self, folder=None, directory='', before=(), env=None):
        self.folder, self.directory = folder or workdir(), directory
        self.file = f'{self.folder}/stores.yaml'
        self.declare(20000)
        super().__init__(*before, SIDELIGHT, 'collect', '--dta', self.file, '--listen', '127.0.0.1:0', env=env)


    def declare(self, slots):
        with open(self.file, 'w') as f:
            f.write(f'''
listen: {self.folder}/dta.sock
{self.directory and f'directory: {self.directory}'}
stores:
  - {{name: flows, number: 1, kind: key-write, slots: {slots}, value: 8, copies: 2}}
''')


class Translator(Part):
    def __init__(self, stores, *options, before=(), name='t', env=None):
        super().__init__(*before, SIDELIGHT, 'translate', '--collector', f'unix:{stores.folder}/dta.sock', '--listen',
                         '127.0.0.1:0', '--json', '--name', name, *options, env=env)
        self.address = self.ready()['listen']

    def stored(self):
        check(self.stop() == 0, 'it ends', self)
        return json.loads(self.out[-1])['engine']['stored']


reporters = itertools.count(1)


def reporter(t):
    """Sends REPORTS reports, again and again until each is acknowledged."""
    return Part(SIDELIGHT, 'generate', 'dta', '--to', t.address, '--json', '--show', '0', '--kinds', 'keywrite',
                '--count', REPORTS, '--keys', REPORTS, '--essential', '--wait', f'{STILL + 60}s',
                '--reporter', next(reporters))


@case
def a_stopped_translator_loses_no_report():
    with Stores() as s:
        s.ready()
        t = Translator(s)
        check(reporter(t).wait() == 0, 'reports are taken', t)
        with Still(t):
            r = reporter(t)
            time.sleep(STILL)
        check(r.wait() == 0, 'reports are taken afterwards', r, t)
        check(t.stored() == 2 * REPORTS, 'a report is lost or twice', t)


@case
def a_stopped_store_server_loses_no_report():
    """Writing is one-sided: its process takes no part."""
    with Stores() as s:
        s.ready()
        t = Translator(s)
        with Still(s):
            check(reporter(t).wait() == 0, 'reports are taken', t)
            time.sleep(STILL)
        check(reporter(t).wait() == 0, 'reports are taken afterwards', t)
        check(t.stored() == 2 * REPORTS, 'a report is lost or twice', t)


# ---- the disk is full ------------------------------------------------------------------------------------------------

def on_small_disk(folder, kib):
    """The words before a command that has a disk of its own of this size at folder."""
    script = f'mount -t tmpfs -o size={kib}k none {folder} && exec "$@"'
    words = ['unshare', '-m' if not os.geteuid() else '-Urm', 'sh', '-c', script, 'sh']
    if subprocess.run([*words, 'true'], stderr=subprocess.DEVNULL).returncode:
        skip('no mount namespace of its own')
    return words


class Disk:
    """The disk of such a process, as seen from here."""

    def __init__(self, part, folder):
        self.path = f'/proc/{part.pid}/root{folder}'

    def fill(self):
        """Leaves no byte."""
        with open(f'{self.path}/filler', 'ab', buffering=0) as f:
            for size in (65536, 4096):
                try:
                    while f.write(bytes(size)) == size:
                        pass
                except OSError:
                    pass

    def free(self):
        os.unlink(f'{self.path}/filler')


@case
def a_full_disk_stops_only_the_files():
    """Models and rows are lost, with a counter and a line; samples are not. With room again, models are saved."""
    folder = f'{workdir()}/disk'
    os.mkdir(folder)
    with Quick() as a:
        app = App(a)
        c = Collector([a], '--analyse', '--warm-up', '1s', '--model', f'{folder}/model', '--model-every', '1s',
                      '--record', f'{folder}/rows', '--otlp-sent', f'{folder}/sent', '--otlp', 'http://127.0.0.1:9/',
                      '--stats-csv', f'{folder}/stats', before=on_small_disk(folder, 16384))
        disk = Disk(c, folder)
        model = f'{disk.path}/model'

        def lost(cause):
            return c.total('sidelight_analysis_lost_total', f'"{cause}"')
        wait_until(lambda: os.path.exists(model), 'models are saved', c)
        disk.fill()
        wait_until(lambda: lost('saved_models') and lost('recorded_rows'), 'losses are counted', c)
        for what in ('model', 'record'):
            wait_until(lambda: any(what in line for line in c.err), f'the line on {what}', c)
        check(shown(c) == [2000], 'it is shown', c)
        saved = os.stat(model).st_mtime_ns
        disk.free()
        wait_until(lambda: os.stat(model).st_mtime_ns > saved, 'models are saved again', c)
        failed = lost('saved_models')
        saved = os.stat(model).st_mtime_ns
        wait_until(lambda: os.stat(model).st_mtime_ns > saved, 'and again', c)
        check(lost('saved_models') == failed, 'it is counted as lost', c)
        app.end()
        check(c.stop() == 1 and 'rows were not recorded' in c.err[-1], 'it ends, and says what is not whole', c)


@case
def a_limit_of_file_size_stops_only_the_files():
    """RLIMIT_FSIZE kills processes that do not ignore its signal."""
    folder = workdir()
    with Quick() as a:
        app = App(a)
        c = Collector([a], '--analyse', '--warm-up', '1s', '--period', '2ms', '--record', f'{folder}/rows',
                      before=['sh', '-c', 'ulimit -f 64 && exec "$@"', 'sh'])
        wait_until(lambda: c.total('sidelight_analysis_lost_total', '"recorded_rows"') or c.p.poll() is not None,
                   'rows are lost', c)
        check(c.p.poll() is None and shown(c) == [2000], f'it serves: {c.p.poll()}', c)
        app.end()
        check(c.stop() == 1 and 'rows were not recorded' in c.err[-1], 'it ends, and says what is not whole', c)


@case
def stores_on_a_full_disk_are_refused_not_torn():
    """A larger store that finds no room is refused with a line; the store at hand takes reports."""
    folder = f'{workdir()}/disk'
    os.mkdir(folder)
    with Stores(directory=folder, before=on_small_disk(folder, 8192)) as s:
        s.ready()
        disk = Disk(s, folder)
        t = Translator(s)
        check(reporter(t).wait() == 0, 'reports are taken', t)
        disk.fill()
        s.declare(40000)
        os.kill(s.pid, signal.SIGHUP)
        wait_until(lambda: any('No space left' in line for line in s.err), 'the line', s)
        check(reporter(t).wait() == 0, 'reports are taken', t)
        disk.free()
        before = set(os.listdir(disk.path))
        os.kill(s.pid, signal.SIGHUP)
        wait_until(lambda: set(os.listdir(disk.path)) - before, 'it is made when there is room', s)
        check(reporter(t).wait() == 0, 'reports are taken', t)
        check(t.stored() == 3 * REPORTS, 'a report is lost', t)


@case
def a_full_disk_for_the_log_stops_nothing():
    """Log lines are lost, but not the data that they are about."""
    folder = f'{workdir()}/disk'
    os.mkdir(folder)
    with Quick() as a:
        app = App(a)
        c = Collector([a, f'{folder}/none.sock'], before=[*on_small_disk(folder, 1024), 'sh', '-c', f'exec "$@" 2>{folder}/log', 'sh'])
        disk = Disk(c, folder)
        wait_until(lambda: os.path.getsize(f'{disk.path}/log'), 'a line', c)
        disk.fill()
        late = App(a)
        wait_until(lambda: shown(c) == [2000, 2000], 'both are shown', c)
        disk.free()
        app.end()
        late.end()
        check(c.stop() == 0, 'it ends', c)


@case
def a_queue_that_finds_no_room_is_refused():
    """Room for the whole queue is taken at the start, so that a disk that fills up later takes none of it."""
    folder = f'{workdir()}/disk'
    os.mkdir(folder)
    p = Part(*on_small_disk(folder, 1024), SIDELIGHT, 'collect', '--agent', '/none', '--listen', '127.0.0.1:0', '--remote-write',
             'http://127.0.0.1:9/', '--remote-queue', f'{folder}/queue')
    check(p.wait() == 1 and any('No space left' in line for line in p.err), 'it says what it lacks', p)


# ---- memory ----------------------------------------------------------------------------------------------------------

@case
def a_full_dev_shm_stops_nothing():
    """Regions are memfds: they need no room in /dev/shm."""
    words = [*on_small_disk('/dev/shm', 4), 'sh', '-c', 'head -c 4096 /dev/zero >/dev/shm/filler; exec "$@"', 'sh']
    with Quick(before=words) as a, Collector([a], before=words) as c:
        app = App(a, *words)
        wait_until(lambda: shown(c) == [2000], 'it is read', c, a, app)
        app.end()


class Cgroup:
    """A cgroup with a limit of memory, of either version; skips where there can be none."""

    def __init__(self, limit):
        v2 = os.path.exists('/sys/fs/cgroup/cgroup.controllers')
        self.path = f'/sys/fs/cgroup/{"" if v2 else "memory/"}sidelight-test-{os.getpid()}'
        limits = {'memory.max': limit, 'memory.swap.max': 0} if v2 else {'memory.limit_in_bytes': limit}
        try:
            os.mkdir(self.path)
            for file, value in limits.items():
                if file != 'memory.swap.max' or os.path.exists(f'{self.path}/{file}'):
                    with open(f'{self.path}/{file}', 'w') as f:
                        f.write(str(value))
        except OSError as error:
            self.__exit__()
            skip(f'no cgroup with a limit of memory: {error.strerror}')

    def words(self):
        """Before a command that runs in it."""
        return ['sh', '-c', f'echo $$ >{self.path}/cgroup.procs && exec "$@"', 'sh']

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if os.path.isdir(self.path):
            wait_until(lambda: not open(f'{self.path}/cgroup.procs').read(), 'it is empty')
            os.rmdir(self.path)


@case
def a_collector_out_of_memory_costs_no_count():
    """The kernel kills one of its processes. The others end or recover; the hosts notice nothing."""
    with Cgroup(48 << 20) as limited, Quick() as a, Collector([a]) as other:
        app = App(a)
        c = Collector([a], '--period', '1ms', before=limited.words())
        helpers = below(c.pid)
        load = Part(SIDELIGHT, 'generate', 'metrics', '--socket', a.socket, '--json', '--pods', '100', '--metrics', '1000',
                    '--updates', '0', '--hold', '300s')
        wait_until(lambda: c.p.poll() is not None, 'it is killed', c, other)
        check(c.p.returncode == -signal.SIGKILL, 'by the kernel', c)
        wait_until(lambda: not any(alive(p) for p in helpers), 'its helpers end with it', c)
        check(app.exact() and shown(other) == [2000], 'counts are lost', app, other)
        load.kill()
        with Collector([a]) as again:
            wait_until(lambda: shown(again) == [2000], 'another one reads all', again)
        app.end()


# ---- descriptors run out ---------------------------------------------------------------------------------------------

def with_descriptors(n):
    """The words before a command that gets n."""
    return ['sh', '-c', f'ulimit -n {n} && exec "$@"', 'sh']


@case
def an_agent_out_of_descriptors_recovers():
    with Quick(before=with_descriptors(40)) as a:
        clients = []
        for _ in range(60):
            c = Client(a.socket)
            clients.append(c)
        wait_until(lambda: any('descriptor' in line for line in a.err), 'the line', a)
        for c in clients:
            c.close()
        app = App(a)
        wait_until(lambda: a.status()['use']['live'] == 2, 'a pod is admitted', a)
        check(a.status()['counters']['dropped']['crowd'], 'it is counted', a)
        app.end()


@case
def a_collector_out_of_descriptors_recovers():
    with Quick() as a, Collector([a], before=with_descriptors(60)) as c:
        apps = [App(a) for _ in range(3)]
        wait_until(lambda: shown(c) == [2000] * 3, 'they are read', c)
        host, port = c.address.rsplit(':', 1)
        sockets = [socket.create_connection((host, int(port))) for _ in range(100)]
        regions = [Region() for _ in range(60)]
        publishers = [Client(a.socket) for _ in regions]
        for p, r in zip(publishers, regions):
            p.publish(r)
        time.sleep(1)
        for s in sockets:
            s.close()
        for p, r in zip(publishers, regions):
            p.close()
            r.close()

        def whole():
            try:
                return shown(c) == [2000] * 3
            except OSError:
                return False
        wait_until(whole, 'it serves again', c)
        late = App(a)
        wait_until(lambda: shown(c) == [2000] * 4, 'it reads a new pod', c)
        check(any('descriptor' in line or 'open files' in line for line in c.err), 'the line', c)
        for app in (*apps, late):
            app.end()


@case
def a_publisher_without_descriptors_runs():
    """The application runs; the library logs why nothing is published."""
    with Quick() as a:
        for n in range(3, 12):
            app = Pod(*with_descriptors(n), APP, a.socket)
            wait_until(lambda: app.out or app.p.poll() is not None, 'it runs', app)
            if app.p.poll() is not None and not app.out and app.p.returncode == 127:
                continue  # too few descriptors for the dynamic linker
            check(app.tell('?').startswith('exact'), 'counts are lost', app)
            check(app.close() == 0, 'it ends', app)


@case
def too_few_descriptors_at_the_start_are_said():
    """Each part becomes ready or says what it lacks, whether it then ends or tries again."""
    ready = {}
    with Stores() as s, Quick() as a:
        s.ready()
        for name, *words in (['agent', '--socket', f'{a.folder}/few.sock', '--rest',
                              f'unix:{a.folder}/few.rest'],
                             ['collect', '--agent', a.socket, '--listen', '127.0.0.1:0', '--analyse', '--realtime', 'off',
                              '--remote-write', 'http://127.0.0.1:9/'],
                             ['translate', '--collector', f'unix:{s.folder}/dta.sock', '--listen', '127.0.0.1:0']):
            for n in range(5, 40, 3):
                p = Part(*with_descriptors(n), SIDELIGHT, name, *words)
                wait_until(lambda: p.out or p.err or p.p.poll() is not None, f'{name} with {n} is ready or says', p)
                if p.out:
                    ready.setdefault(name, n)
                if p.p.poll() is None:
                    p.p.terminate()
                code = p.wait()
                check(code in (0, 1, 127) and (not code or p.err), f'{name} with {n} ends with {code}', p)
    check(len(ready) == 3, f'ready: {ready}')
    return ready


# ---- the clock is set ------------------------------------------------------------------------------------------------

class Receiver:
    """A receiver of remote write that counts requests."""

    def __enter__(self):
        class Take(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers['Content-Length']))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Take)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f'http://127.0.0.1:{self.server.server_address[1]}/'

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Clock:
    """Sets the clock of parts that get its environment. A suspended machine sees the same: CLOCK_MONOTONIC stands still,
    CLOCK_REALTIME and CLOCK_BOOTTIME do not."""

    def __init__(self):
        path = f'{workdir()}/clock'
        self.told = os.open(path, os.O_WRONLY | os.O_CREAT)
        self.set(0)
        self.env = {'LD_PRELOAD': FAIL, 'FAIL_CLOCK': path}

    def set(self, seconds):
        os.pwrite(self.told, struct.pack('<q', seconds), 0)


@case
def a_clock_that_is_set_costs_no_report():
    """Sets the clock of a translator and a store server; the reports contain no times."""
    clock = Clock()
    with Stores(env=clock.env) as s:
        s.ready()
        t = Translator(s, env=clock.env)
        for times, seconds in enumerate((0, -3600, 86400, 0), 1):
            clock.set(seconds)
            check(reporter(t).wait() == 0, f'reports are taken at {seconds}', t, s)
        check(t.stored() == times * REPORTS, 'a report is lost or twice', t)


@case
def a_clock_that_is_set_delays_no_stop():
    """Closing a descriptor hangs, and the clock is set back by an hour once the agent has read it to wait for a second."""
    clock = Clock()
    clock.set(3600)  # the kernel's clock, by which threads wait, is an hour behind
    a = Quick(env=clock.env)
    hangs, peers = nested()
    link = f'socket:[{os.fstat(hangs.fileno()).st_ino}]'
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(a.socket)
        socket.send_fds(s, [struct.pack('<IHHIIQQ', MAGIC, PUBLISH, 0, 16, 1, 1, 16384)], [hangs.fileno()])
        hangs.close()
        wait_until(lambda: a.status()['counters']['descriptors_set_aside'] and link not in opened(a.pid), 'close() hangs', a)
        check(a.stop(seconds=60) == 0, 'it ends', a)
    del peers


@case
def a_clock_that_is_set_is_survived_and_said():
    """Remote write reports how long it withholds samples; counts, pods and deaths do not depend on the clock."""
    clock = Clock()
    set_to, env = clock.set, clock.env
    with Receiver() as to, Quick(env=env) as a:
        app = App(a)
        with Collector([a], '--remote-write', to, '--sample-every', '0', '--analyse', env=env) as c:
            samples = lambda: c.total('sidelight_sampling_samples_total')
            withheld = lambda: c.total('sidelight_sampling_withheld_seconds')
            lost = lambda cause: c.total('sidelight_sampling_lost_seconds_total', f'"{cause}"')

            def sends(what):
                before = samples()
                wait_until(lambda: samples() > before and not withheld(), f'samples are sent {what}', c)

            def works():
                """Deaths are detected and new pods appear, whatever the clock shows."""
                pod = App(a)
                wait_until(lambda: shown(c) == [2000] * 2, 'a new pod is shown', c, a)
                pod.kill()
                wait_until(lambda: shown(c) == [2000], 'the dead pod goes', c, a)
                check(app.exact(), 'counts are lost', app)
            sends('at first')
            set_to(-3600)
            wait_until(lambda: withheld() > 3000, 'it says what it withholds', c)
            check(sum('the clock jumped back' in line for line in c.err) == 1, 'one line', c)
            works()
            wait_until(lambda: lost('clock_went_back') > 0, 'the loss is counted', c)
            set_to(0)
            sends('when the clock has caught up')
            wait_until(lambda: any('the clock has caught up' in line for line in c.err), 'it is said', c)
            set_to(86400)
            sends('when the clock jumped forward')
            works()
            wait_until(lambda: any('the clock jumped forward' in line for line in c.err), 'it is said', c)
            check(not lost('receiver_behind'), 'the receiver is blamed', c)
        app.end()


@case
def a_clock_that_is_set_moves_a_traces_times():
    """The kernel's times of requests are those of CLOCK_MONOTONIC, the printed ones those of the clock as it is set now."""
    flows.needs_layers()
    clock = Clock()
    client, server = flows.pair()
    port = server.getsockname()[1]
    with Part(SIDELIGHT, 'tcp', 'trace', '--json', '-p', str(port), env=clock.env) as p:
        p.ready()

        def off():
            """Returns by how many seconds the time of a request is ahead of this process's clock."""
            before, seen = time.time(), len(p.out)
            client.sendall(b'question')
            server.recv(8)
            server.sendall(b'answer')
            client.recv(6)
            wait_until(lambda: len(p.out) > seen, 'the request', p)
            return json.loads(p.out[-1])['time_ns'] * 1e-9 - before
        for seconds in (0, 86400, -3600):
            clock.set(seconds)
            wait_until(lambda: abs(off() - seconds) < 600, f'a time that is off by {seconds} s', p)
    client.close()
    server.close()


@case
def a_machine_that_slept_forgets_no_host():
    """
    A collector and a publisher live where CLOCK_BOOTTIME is a day ahead of CLOCK_MONOTONIC, as after a suspend, and the agent
    does not: neither leases nor expiry nor the identity of a process may count by it.
    """
    slept = ('unshare', '--time', '--boottime', '86400')
    if subprocess.run((*slept, 'true'), capture_output=True).returncode:
        skip('no time namespaces')
    with Quick() as a:
        app = App(a, *slept)
        with Collector([a], before=slept) as c:
            wait_until(lambda: shown(c) == [2000], 'it is read', c, a)
            for before in ((), slept):
                pod = App(a, *before)
                wait_until(lambda: shown(c) == [2000] * 2, 'a new pod is shown', c, a)
                pod.kill()
                wait_until(lambda: shown(c) == [2000], 'the dead pod goes', c, a)
            times = {os.stat(f'/proc/{p.pid}/ns/time').st_ino for p in (a, app, c)}
            check(len(times) == 3, f'the time namespaces are {times}')
        app.end()


if __name__ == '__main__':
    run_cases(only=CASES)
