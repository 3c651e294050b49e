#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""demo.py PROGRAM --OPTION=VALUE... - 'sidelight demo' (sidelight-demo(1)): an agent, a collector, two example services
and a load generator, until Ctrl-C. All options are given; cmd_demo.c has checked them.

Each part is a child in its own process group, so that Ctrl-C reaches only this process, which stops the parts in
order; if this process dies, they die, too. Their files are in one temporary folder. It is removed at the end, or by
the next demo if this process was killed."""
import ctypes
import fcntl
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

PREFIX = 'sidelight-demo-'
READY_S = 20  # time for a part to become ready
STOP_S = 5  # time for a part to stop before SIGKILL
RESTART_S = 5  # time for which a dead service is shown as dead before its restart
QUICK_DEATHS = 3  # give up after this many deaths soon after a start
LATE_SHARE = 0.005  # accepted share of missed deadlines; the page says "late" above 0.01
CONNECTIONS = 4  # number of connections of the load generator
FAULT_WAIT_S = 60  # how long to wait for an anomaly after the end of a fault
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
PR_SET_PDEATHSIG = 1

# Packets and bytes of each flow so far. An epoch lasts ten minutes, and two are kept.
STORES = '''
  - {name: flows, number: 1, kind: key-write, slots: 65536, value: 16, copies: 2, epochs: 2, epoch: 10m, keylog: flow-keys}
  - {name: flow-keys, number: 2, kind: append, lists: 1, items: 16384, value: 40, batch: 1, lanes: 4}
'''
# The stores of the default mapping for sFlow (docs/dta-devices.md): bytes and packets of flows, counters of ports.
SWITCH_STORES = '''
  - {name: flow_bytes, number: 10, kind: increment, rows: 2, columns: 65536, copies: 2, keylog: flow_keys}
  - {name: flow_packets, number: 11, kind: increment, rows: 2, columns: 65536, copies: 2}
  - {name: interfaces, number: 12, kind: key-write, slots: 4096, value: 64, copies: 2, keylog: interface_keys}
  - {name: flow_keys, number: 16, kind: append, lists: 1, items: 16384, value: 38, batch: 1, lanes: 4}
  - {name: interface_keys, number: 17, kind: append, lists: 1, items: 4096, value: 21, batch: 1, lanes: 4}
'''
SWITCH_NEEDS = ('ovs-vswitchd', 'ovsdb-server', 'ovsdb-tool', 'ovs-vsctl', 'setpriv', 'unshare', 'nsenter', 'ip', 'curl')

# The shop's mix of requests. delay() limits the rate, because wrk has no such option.
LOAD = '''
local n = 0
function delay() return %d end
function request()
  n = n + 1
  local k = n %% 50
  if k == 49 then return wrk.format('GET', '/no-such-page') end
  if k %% 10 == 3 then
    return wrk.format('POST', '/orders', nil, 'product=' .. (n / 10 %% 4 - n / 10 %% 1))
  end
  if k %% 5 == 1 then return wrk.format('GET', '/products/' .. (n %% 4)) end
  return wrk.format('GET', '/products')
end
'''
libc = ctypes.CDLL(None)


class Failed(Exception):
    """The demo cannot start or continue; code: its exit status."""

    def __init__(self, text, code=1):
        super().__init__(text)
        self.code = code


def say(text, to=None):
    """The reader of the output may have gone; the parts must be restarted and stopped nevertheless."""
    to = to or sys.stdout
    try:
        print(text, file=to, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), to.fileno())


def complain(text):
    say(f'sidelight demo: {text}', sys.stderr)


def seconds_of(duration):
    number, unit = re.fullmatch(r'([0-9]+)([a-z]*)', duration).groups()
    return int(number) * {'': 1, 'ns': 1e-9, 'us': 1e-6, 'ms': 1e-3, 's': 1, 'm': 60, 'h': 3600}[unit]


# ---- the end, and requests ----

stopping = False


def stopped(seconds):
    """Waits for this many seconds. Returns True if a signal asks for the end."""
    global stopping
    if not stopping:
        stopping = signal.sigtimedwait(SIGNALS, seconds) is not None
    return stopping


opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(url, body=None):
    """Returns the answer as text; None without an answer, or if the status is not 200."""
    try:
        with opener.open(url, body, timeout=3) as answer:
            return answer.read().decode() if answer.status == 200 else None
    except (OSError, ValueError):
        return None


def fetch(url):
    try:
        return json.loads(request(url) or '{}')
    except ValueError:
        return {}


def free_address(option, wish):
    """Returns the address, or one with another port if it is in use."""
    host, _, port = wish.rpartition(':')
    host = host.strip('[]') or '127.0.0.1'
    if ':' not in wish or not re.fullmatch('[0-9]{1,5}', port) or int(port) > 65535:
        raise Failed(f"--{option}: '{wish}' is not ADDR:PORT", 2)
    port = int(port)
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Below Linux's ephemeral ports, because a connection could occupy one of those first.
        for number in [port] * (port != 0) + random.sample(range(10000, 32000), 1000):
            with socket.socket(family, kind) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    s.bind((address[0], number, *address[2:]))
                    s.listen(1)  # with SO_REUSEADDR, only listen() detects another listener
                except OSError as e:
                    if e.errno != 98:  # EADDRINUSE
                        raise
                    if number == port:
                        say(f'{wish} is in use; taking a free port')
                    continue
            return f'[{host}]:{number}' if ':' in host else f'{host}:{number}'
    except UnicodeError as e:  # not a host name, such as a..b
        raise Failed(f"--{option}: '{wish}' is not ADDR:PORT", 2) from e
    except OSError as e:
        raise Failed(f'--{option}: {wish}: {e.strerror}') from e
    raise Failed(f'--{option}: {wish}: no port is free')


# ---- the folder: a locked file in it shows that the demo is running, and the kernel releases it ----

def lock_of_dead(path):
    """Locks the folder of a dead demo of this user. Returns None if it is not one."""
    try:
        if os.lstat(path).st_uid != os.geteuid():
            return None
        fd = os.open(f'{path}/lock', os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd
    except OSError:
        os.close(fd)
        return None


def remove_dead(tmp):
    for name in os.listdir(tmp):
        path = os.path.join(tmp, name)
        lock = lock_of_dead(path) if name.startswith(PREFIX) and not os.path.islink(path) else None
        if lock is not None:
            shutil.rmtree(path, ignore_errors=True)
            say(f'removed {path}, left behind by a killed demo')
            os.close(lock)


def make_folder():
    tmp = os.environ.get('TMPDIR') or '/tmp'
    try:
        remove_dead(tmp)
        path = tempfile.mkdtemp(prefix=PREFIX, dir=tmp)
        # Locked before it gets its final name, so that no other demo considers this one dead.
        lock = os.open(f'{path}/lock.new', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(f'{path}/lock.new', f'{path}/lock')
        return path
    except OSError as e:
        raise Failed(f'{e.filename or tmp}: {e.strerror}') from e


# ---- the parts ----

def become_child(parent):
    def prepare():
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells ignore SIGINT in background jobs
        if os.getppid() != parent:
            os._exit(127)
    return prepare


class Part:
    def __init__(self, folder, name, *command, late=False, needs=None, env=None):
        self.name, self.command, self.log = name, command, f'{folder}/{name}.log'
        self.late = late  # optional; it waits for the choice of the period
        self.needs = needs  # the part that must be ready before this one starts again
        self.env = {**os.environ, **(env or {})}
        self.process, self.started, self.restart, self.quick_deaths, self.wanted = None, 0, None, 0, True

    @property
    def pid(self):
        return self.process.pid if self.process else 0

    def lines(self):
        try:
            with open(self.log, errors='replace') as f:
                return f.read().splitlines()
        except OSError:
            return []

    def ready(self):
        """Returns the line "ready" as a dictionary, or None."""
        for line in self.lines():
            if line.startswith('ready'):
                return dict(word.split('=', 1) for word in line.split()[1:] if '=' in word)
        return None

    def spawn(self):
        try:
            with open(self.log, 'w') as out:
                self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.env,
                                                preexec_fn=become_child(os.getpid()))
        except OSError as e:
            raise Failed(f"can't run {self.command[0]}: {e.strerror}") from e
        self.started, self.restart = time.monotonic(), None

    def reap(self):
        """Returns the exit status once after the process ended, otherwise None."""
        code = self.process.poll() if self.process else None
        if code is not None:
            try:
                os.killpg(self.pid, signal.SIGKILL)  # the rest of its process group
            except OSError:
                pass
            self.process = None
        return code

    def start(self):
        """Starts it and waits until it is ready."""
        self.spawn()
        while self.ready() is None:
            pid, code = self.pid, self.reap()
            if code is not None:
                self.show_tail()
                raise Failed(f'{self.name} (pid {pid}) {described(code)} before it was ready')
            if time.monotonic() > self.started + READY_S:
                self.show_tail()
                raise Failed(f'{self.name} is not ready after {READY_S} s')
            if stopped(0.02):
                return

    def stop(self):
        if not self.process:
            return
        self.process.terminate()  # wrk exits on SIGTERM; the queue stops its workers itself
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            complain(f'{self.name} did not stop within {STOP_S} s; killed')
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
        self.reap()

    def show_tail(self):
        for line in self.lines()[-20:]:
            say(f'  {self.name}: {line}', sys.stderr)


def described(code):
    if code < 0:
        return f'was killed by signal {-code} ({signal.strsignal(-code)})'
    return f'ended with exit code {code}'


# ---- the demo ----

class Demo:
    def __init__(self, program, set):
        self.program, self.set, self.absent = program, set, {}
        self.listen = free_address('listen', set['listen'])
        self.shop_listen = free_address('shop-listen', set['shop-listen'])
        self.shop_url = f'http://{self.shop_listen}'
        self.examples = self.find_examples()
        self.load = int(set['load'])
        self.period = set['period'] if seconds_of(set['period']) else '1ms'
        self.fault = Fault(self, set['fault']) if 'fault' in set else None
        if self.load and not shutil.which('wrk'):
            raise Failed('wrk, the load generator, is not installed: apt-get install wrk, or use --load 0')
        self.folder, self.part, self.collect_options = None, {}, []

    def find_examples(self):
        """Next to the program in the build folder, or where they are installed."""
        given, beside = self.set.get('examples'), os.path.dirname(self.program)
        folders = [given] if given else [f'{beside}/examples', f'{beside}/../libexec/sidelight']
        for folder in folders:
            if os.access(f'{folder}/shop', os.X_OK):
                return folder
        raise Failed(f'the example services are not in {folders[0]}; give their folder with --examples')

    def add(self, name, *command, **options):
        self.part[name] = Part(self.folder, name, *command, **options)

    def set_parts(self):
        """Creates the parts, in the order of their start; they stop in reverse order."""
        self.folder = make_folder()
        agent_socket = f'{self.folder}/agent.sock'
        if len(agent_socket) > 107:
            raise Failed('the path of TMPDIR is too long for a Unix socket')
        env = {'SIDELIGHT_SOCKET': agent_socket}
        self.add('agent', self.program, 'agent', '--socket', agent_socket, '--no-rest', *self.tcp_options())
        self.add('collect')
        self.add_reports()
        self.set_period(self.period)
        self.add('shop', f'{self.examples}/shop', '--listen', self.shop_listen, '--faults', env={**env, 'POD_NAME': 'shop-0'})
        self.add('queue', f'{self.examples}/queue', '--rate', '50', env={**env, 'POD_NAME': 'queue-0'})
        if self.load:
            with open(f'{self.folder}/load.lua', 'w') as f:
                f.write(LOAD % max(CONNECTIONS * 1000 // self.load, 1))
            self.add('wrk', 'wrk', '-t1', f'-c{CONNECTIONS}', '-d20s', '-s', f'{self.folder}/load.lua', self.shop_url, needs='shop')

    def tcp_options(self):
        """Makes the agent publish the shop's connections if the kernel allows."""
        p = subprocess.run([self.program, 'tcp', 'probe', '--json'], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if p.returncode:
            self.absent['connections'] = p.stderr.strip().partition(': ')[2]
            return []
        return ['--tcp', 'flows,layers', '--port', self.shop_listen.rpartition(':')[2]]

    def add_reports(self):
        """Lets the kernel report loopback flows into the collector's stores, and a switch its own."""
        report = [self.program, 'report', '--interface', 'lo', '--target', ':40040', '--direction', 'in', '--store', '1',
                  '--copies', '2']
        target, with_switch = self.try_reporter(report), self.set['switch'] == 'yes' and self.switch_can()
        if not target and not with_switch:
            return
        dta = f'{self.folder}/dta.sock'
        with open(f'{self.folder}/stores.yaml', 'w') as f:
            f.write(f'# Written by sidelight demo.\nlisten: {dta}\nstores:{STORES}{SWITCH_STORES if with_switch else ""}')
        self.collect_options = ['--dta', f'{self.folder}/stores.yaml']
        if target:
            self.add('report', *report, late=True)
            self.add('translate', self.program, 'translate', '--collector', f'unix:{dta}', '--listen', target, '--name', 'demo',
                     '--allow-from', '169.254.0.0/16', late=True, needs='report')  # the addresses of report's own interfaces
        if with_switch:
            os.mkdir(f'{self.folder}/switch')
            self.add('switch', 'sh', f'{self.examples}/switch.sh', 'sflow', 'lab', f'{self.folder}/switch', dta, late=True,
                     env={'SIDELIGHT': self.program})

    def try_reporter(self, command):
        """Returns the address at which the translator listens for reports of the kernel; None if the kernel cannot report."""
        p = Part(self.folder, 'report', *command)
        p.show_tail = lambda: None
        try:
            p.start()
            return (p.ready() or {}).get('target')
        except Failed as e:
            self.absent['reports'] = next((line for line in reversed(p.lines()) if line), str(e)).partition(': ')[2]
            return None
        finally:
            p.stop()

    def switch_can(self):
        missing = [program for program in SWITCH_NEEDS if not shutil.which(program)]
        if missing:
            self.absent['switch'] = f'{missing[0]} is not installed (apt-get install openvswitch-switch curl)'
        elif os.geteuid():
            self.absent['switch'] = 'network namespaces need root'
        elif not os.access(f'{self.examples}/switch.sh', os.R_OK):
            self.absent['switch'] = f'{self.examples}/switch.sh cannot be read'
        return 'switch' not in self.absent

    def set_period(self, period):
        self.period = period
        self.part['collect'].command = (
            self.program, 'collect', '--agent', f'{self.folder}/agent.sock', '--listen', self.listen, '--period', period, '--analyse',
            # Where learning takes a minute, what lasts for five is normal, such as a machine that does something else.
            '--warm-up', self.set['warm-up'], '--analyse-hold', '5m', '--verdict-ttl', '10s', *self.collect_options)

    def start_all(self, late):
        for p in self.part.values():
            if not p.wanted or p.late != late:
                continue
            try:
                p.spawn() if p.name == 'wrk' else p.start()
            except Failed:
                if not late:
                    raise
                self.leave_out(p, 'a part did not start')
            if stopped(0):
                break

    def leave_out(self, gone, why):
        """Gives up a late part that is optional: the switch, or the reporter of loopback traffic with its translator."""
        what = 'switch' if gone.name == 'switch' else 'reports'
        for p in reversed(self.part.values()):
            if p.late and (p.name == 'switch') == (what == 'switch'):
                p.stop()
                p.wanted = False
        self.absent[what] = why

    def stop_all(self):
        for p in reversed(self.part.values()):
            p.stop()

    # ---- the read period ----

    def rounds(self):
        totals = fetch(f'http://{self.listen}/api/v1/status').get('totals', {})
        return totals.get('rounds'), totals.get('missed_deadlines')

    def choose_period(self):
        """Returns the shortest period that holds for a second with everything running, otherwise the one with the fewest missed
        deadlines: the best rate depends on the load of the machine."""
        best, least = None, 2
        for period in ('1ms', '2ms', '5ms', '10ms'):
            if best:
                self.try_period(period)
            if stopped(0.5):
                return
            before = self.rounds()
            if stopped(1):
                return
            after = self.rounds()
            if None in before + after:
                return  # look_after() reports the failure
            begun, late = after[0] - before[0], after[1] - before[1]
            share = late / (begun + late + 1)
            kept = share <= LATE_SHARE or late <= 1
            say(f'period {period[:-2]} ms: {share * 100:.1f} % of the deadlines of a second were missed'
                f'{": this machine keeps up" if kept else ""}')
            if kept:
                return
            if share < least:
                best, least = period, share
        say(f'this machine is too busy for any of these periods; {best[:-2]} ms came closest')
        self.try_period(best)

    def try_period(self, period):
        self.set_period(period)
        self.part['collect'].stop()
        self.part['collect'].start()

    # ---- messages ----

    def samples(self, name):
        """Returns the lines of /metrics of this name with a value other than 0."""
        return [line for line in (request(f'http://{self.listen}/metrics') or '').splitlines()
                if line.startswith(name) and not line.endswith(' 0')]

    def print_banner(self):
        page, url, shop = f'http://{self.listen}/', self.shop_url, self.part['shop']

        def shown(what, text):
            return f'not shown: {self.absent[what]}' if what in self.absent else text
        lines = ['', 'Sidelight is at work. The two services count in their own memory; the collector',
                 f'reads it every {seconds_of(self.period) * 1000:g} ms, and neither the services nor the agent do anything for it.', '',
                 f'  live page     {page}',
                 f'  exposition    {page}metrics',
                 f'  the shop      {url}   (pid {shop.pid}{", under load" if self.load else ""})',
                 f'  the queue     prefork workers   (pid {self.part["queue"].pid})',
                 f'  agent         pid {self.part["agent"].pid}, socket {self.folder}/agent.sock',
                 f'  collector     pid {self.part["collect"].pid}',
                 f'  connections   {shown("connections", f"the shop{chr(39)}s, from the kernel: {page}#tab=flows")}',
                 f'  reports       {shown("reports", f"flows of loopback, by the kernel itself: {page}#tab=reports")}']
        if self.set['switch'] == 'yes':
            lines.append(f'  switch        {shown("switch", f"flows and ports of Open vSwitch, by sFlow: {page}#tab=reports")}')
        lines += ['', 'Some of its lines now:']
        for name in 'http_requests_total{', 'shop_revenue_euros_total{', 'queue_jobs_done_total{', 'shop_stock{':
            lines += [f'  {line}' for line in self.samples(name)[:2]]
        lines += ['', 'What to try, from another terminal:',
                  f'  kill -9 {shop.pid:<7} the shop dies; its last values stay, marked dead, then expire',
                  f'  kill -9 {self.part["agent"].pid:<7} the agent dies; no count is lost, the services attach again',
                  f'  curl -s {url}/products',
                  f"  curl -s -X POST '{url}/fault?kind=slow&seconds=10'",
                  '                  or cpu, errors, leak: the page shows the incident, errors at once,',
                  f'                  the others after a warm-up of {self.set["warm-up"]}, and the shop logs more, in {shop.log}',
                  f'  {self.program} generate metrics --socket {self.folder}/agent.sock --pods 50 --hold 30s',
                  'Ctrl-C stops everything and leaves nothing behind.', '',
                  # Scripts wait for this line.
                  f'ready page={page} metrics={page}metrics shop={url} shop_pid={shop.pid} agent_pid={self.part["agent"].pid} '
                  f'shop_log={shop.log}']
        say('\n'.join(lines))

    # ---- while it runs ----

    def look_after(self):
        """Reports and restarts dead parts."""
        for p in self.part.values():
            if p.wanted and not p.process and p.restart is not None and time.monotonic() >= p.restart and self.may_start(p):
                p.spawn()
                if p.name != 'wrk':
                    say(f'{p.name} runs again, pid {p.pid}')
            pid, code = p.pid, p.reap()
            if code is None:
                continue
            if p.name == 'wrk' and not code:
                p.restart, p.quick_deaths = time.monotonic(), 0
                continue
            complain(f'{p.name} (pid {pid}) {described(code)}')
            if p.name == 'shop':
                self.pause_load()
            if code > 0:
                p.show_tail()
            p.quick_deaths = 1 if time.monotonic() - p.started > 5 else p.quick_deaths + 1
            if p.quick_deaths >= QUICK_DEATHS and p.late:
                complain(f'{p.name} keeps dying; the demo goes on without it')
                self.leave_out(p, 'it kept dying')
                continue
            if p.quick_deaths >= QUICK_DEATHS:
                raise Failed(f'{p.name} keeps dying; giving up')
            wait = 2 if p.name in ('agent', 'collect') else RESTART_S
            p.restart = time.monotonic() + wait
            say(f'{p.name} starts again in {wait} s' +
                ('; until then the page shows it as dead, with its last values' if p.name in ('shop', 'queue') else ''))

    def may_start(self, p):
        needed = self.part.get(p.needs)
        return not needed or (needed.process and needed.ready() is not None)

    def pause_load(self):
        """Otherwise wrk would open some 10,000 connections per second to a dead shop, each causing a report."""
        load = self.part.get('wrk')
        if load and load.process:
            load.stop()
            load.restart = time.monotonic()
            say('the load is paused until the shop runs again')

    def run(self):
        duration, given = seconds_of(self.set['duration']), bool(seconds_of(self.set['period']))
        try:
            self.set_parts()
            self.start_all(late=False)
            if not given:
                self.choose_period()
            self.start_all(late=True)
            # The banner shows some values: give the first ones time to arrive.
            if not stopped(1.5 if given else 0.3):
                for _ in range(100):
                    if not self.load or self.samples('http_requests_total{') or stopped(0.1):
                        break
                self.print_banner()
            began = time.monotonic()
            while not stopped(0.05 if self.fault else 0.2) and not (duration and time.monotonic() - began >= duration):
                self.look_after()
                if self.fault:
                    self.fault.poll()
            say('\nstopping')
        finally:
            self.stop_all()
            if self.folder:
                shutil.rmtree(self.folder, ignore_errors=True)


class Fault:
    """Breaks the shop once its behaviour is learned, and prints what the analysis finds."""
    KINDS = ('cpu', 'slow', 'errors', 'leak')
    LOOK_S = 0.1

    def __init__(self, demo, wish):
        kind, at, seconds = wish.partition('@')
        if kind not in self.KINDS or (at and not re.fullmatch('[1-9][0-9]{0,3}', seconds)) or int(seconds or 10) > 3600:
            raise Failed(f"--fault '{wish}' is not KIND[@SECONDS], KIND being one of {', '.join(self.KINDS)}", 2)
        self.demo, self.kind, self.seconds = demo, kind, int(seconds or 10)
        self.step, self.next, self.at = self.learn, 0, 0
        self.above = 0  # anomalies up to this ID are older than the fault

    def api(self, path):
        return fetch(f'http://{self.demo.listen}/api/v1/{path}')

    def poll(self):
        if self.step and time.monotonic() >= self.next:
            self.next = time.monotonic() + self.LOOK_S
            self.step()

    def anomaly(self):
        """Returns the newest anomaly of the shop."""
        return next((a for a in self.api('anomalies?limit=100').get('anomalies', [])
                     if a.get('pod') == 'shop-0' and a['id'] > self.above), None)

    def learn(self):
        """Learning takes three times as long as the warm-up for pods with one row per second."""
        pods = self.api('pods?q=shop-0').get('pods') or [{}]
        if (pods[0].get('verdict') or {}).get('learning') is not False:
            return
        older = self.anomaly()
        self.above = older['id'] if older else 0
        if request(f'{self.demo.shop_url}/fault?kind={self.kind}&seconds={self.seconds}', b'') is None:
            complain('the shop refused the fault')
            return
        self.step, self.at = self.find, time.monotonic()
        say(f'fault {self.kind}: injected into the shop for {self.seconds} s')

    def find(self):
        a, since = self.anomaly(), time.monotonic() - self.at
        if a:
            blame = ' '.join(f'{b["metric"]} ({b["share"] * 100:.0f} %)' for b in a.get('blame', []))
            say(f'fault {self.kind}: found {since:.2f} s later, peak {a["peak"]:.1f}, to blame: {blame}')
            self.step = self.end
        elif since > self.seconds + FAULT_WAIT_S:
            say(f'fault {self.kind}: not detected')
            self.step = None

    def end(self):
        a = self.anomaly()
        if a and a.get('end') is not None:
            say(f'fault {self.kind}: the shop is back to normal')
            self.step = None


def main(program, *options):
    # The signals are blocked, and stopped() takes them. nohup ignores SIGHUP.
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        SIGNALS.discard(signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        Demo(program, dict(option[2:].split('=', 1) for option in options)).run()
    except Failed as e:
        complain(str(e))
        return e.code
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
