#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--host beside node_exporter, with real cgroups, and while parts of it fail. test_host.py SIDELIGHT HOST_AT CASE"""
import ctypes
import os
import re
import shutil
import signal
import socket
import sys
import time

from scene import Scene, rdma_files, read
from support import http
from support.process import PATIENCE, Part, alive, case, check, poll, run_cases, skip, wait_until, workdir
from support.sidelight import Agent, Collector

# node_exporter's metrics about itself, and collectors that docs/host.md leaves out.
LEFT_OUT = ('node_exporter_', 'node_scrape_', 'node_textfile_', 'node_selinux_', 'promhttp_', 'node_hwmon_', 'node_dmi_',
            'node_cpu_core_throttles', 'node_cpu_package_throttles', 'node_power_supply_', 'node_edac_', 'node_md_',
            'node_systemd_', 'node_nfs', 'node_bonding', 'node_btrfs', 'node_xfs', 'node_zfs',
            'node_fibrechannel', 'node_nvme', 'node_rapl', 'node_tape', 'node_ipvs', 'node_bcache', 'node_cpu_info',
            'node_disk_device_mapper', 'node_disk_filesystem', 'node_disk_ata')
TICK = 0.01  # seconds; the kernel's times of processors have such steps


class Exporter(Part):
    def __init__(self, *options):
        exe = shutil.which('prometheus-node-exporter')
        if not exe:
            skip('no prometheus-node-exporter')
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.url = f'http://127.0.0.1:{s.getsockname()[1]}/metrics'
        super().__init__(exe, f'--web.listen-address={self.url[7:-8]}', '--web.disable-exporter-metrics', *options)
        wait_until(lambda: poll(self.answers, 1), 'node_exporter', self)

    def answers(self):
        try:
            return http.get(self.url)
        except OSError:
            return None

    def read(self):
        series, types, helps = read(http.get(self.url))

        def kept(d, name):
            return {k: v for k, v in d.items() if not name(k).startswith(LEFT_OUT)}
        return kept(series, lambda k: k[0]), kept(types, str), kept(helps, str)


def rounds(collector):
    return collector.total('sidelight_bridge_host_rounds_total')


def host(collector, names=('node_',)):
    """Returns the collector's values from a reading that began after this call."""
    before = rounds(collector)
    wait_until(lambda: rounds(collector) >= before + 3, 'rounds', collector)
    series, types, helps = read(collector.get('/metrics'))
    return {k: v for k, v in series.items() if k[0].startswith(names)}, types, helps


@case
def is_the_same_as_node_exporter():
    exporter = Exporter()
    with Agent('--host', '--host-interval', '10ms') as agent, Collector([agent], '--period', '10ms') as collector:
        # File systems are read after a second; other slow files after five, if something has changed in between.
        wait_until(lambda: collector.find('node_filesystem_size_bytes'), 'file systems', collector, agent)
        wrong, end = None, time.monotonic() + PATIENCE
        while wrong is None or wrong:
            first = exporter.read()[0]
            before = host(collector)[0]
            theirs, types, helps = exporter.read()
            after, own_types, own_helps = host(collector)
            again = exporter.read()[0]
            lasting = first.keys() & theirs.keys() & again.keys()
            now = {('missing', k) for k in lasting - after.keys()} | {
                ('more', k) for k in after.keys() & before.keys() - theirs.keys() - first.keys() - again.keys()}
            for k in lasting & before.keys() & after.keys():
                kind, v = types.get(k[0]), theirs[k]
                if first[k] == v == again[k] and v not in (before[k], after[k]):
                    now.add(('constant', k))
                # Values that only increase are compared with node_exporter's values before and after.
                grows = kind == 'counter' or k[0].startswith(('node_vmstat_', 'node_netstat_')) and \
                    not k[0].endswith('CurrEstab')
                if grows and not before[k] - TICK <= v <= after[k] + TICK:
                    now.add(('between', k))
            # A value that changed and changed back, or is read every five seconds, differs only in some attempts.
            wrong = now if wrong is None else wrong & now
            check(time.monotonic() < end, [(w, k, before.get(k), theirs.get(k), after.get(k)) for w, k in wrong])
        check(len(lasting) > 250, len(lasting))
        kinds = {k: own_types.get(k) for k in types}
        check(kinds == types, {k: (kinds[k], v) for k, v in types.items() if kinds[k] != v})
        texts = {k: own_helps.get(k) for k in helps}
        check(texts == helps, {k: (texts[k], v) for k, v in helps.items() if texts[k] != v})
        for name in 'errors', 'cgroups_left_out':
            check(collector.total(f'sidelight_bridge_host_{name}_total') == 0, name)
        check(collector.total('sidelight_bridge_refused_total') == 0, 'refused')
    exporter.stop()


@case
def rdma_is_the_same_as_node_exporter():
    files = rdma_files('mlx5_0', 1, '100 Gb/sec (4X EDR)') | rdma_files('mlx5_0', 2, '2.5 Gb/sec (1X SDR)') | rdma_files(
        'rocep1s0', 1, '200 Gb/sec (2X NDR)', state='1: DOWN', phys_state='3: Disabled')
    for name, text in ('symbol_error', 'N/A (no PMA)'), ('port_rcv_data', str(1 << 60)):
        files[f'/sys/class/infiniband/mlx5_0/ports/2/counters/{name}'] = text + '\n'
    with Scene(files) as s:
        exporter = Exporter(f'--path.sysfs={s.root}/sys', '--collector.disable-defaults', '--collector.infiniband')
        s.round()
        series, types, helps = exporter.read()
        check(len(series) > 90, series)

        def own():
            return read(s.collector.get('/metrics'))

        def differs():
            have = {k: v for k, v in own()[0].items() if k[0].startswith('node_infiniband')}
            return {k: (have.get(k), series.get(k)) for k in have.keys() | series.keys() if have.get(k) != series.get(k)}
        wait_until(lambda: not differs(), differs, s.collector)
        for theirs, ours in (types, own()[1]), (helps, own()[2]):
            check({k: ours.get(k) for k in theirs} == theirs, ours, theirs)
        exporter.stop()


# ---- cgroups ----

ID = '5' + 'a' * 63
V1 = ('memory', 'cpu', 'cpuacct', 'pids', 'blkio')


class Cgroup:
    """A cgroup as docker makes them, in each hierarchy; removed at the end."""

    def __init__(self, name):
        with open('/proc/self/mounts') as f:
            points = [line.split()[1:4] for line in f]
        v1 = [at for at, kind, options in points if kind == 'cgroup' and set(options.split(',')) & set(V1)]
        v2 = [at for at, kind, _ in points if kind == 'cgroup2']
        self.version = 1 if v1 else 2
        self.id = f'/docker/{name}'
        self.folders = []
        try:
            # A hierarchy may be mounted twice.
            for at in {os.stat(at).st_dev: at for at in reversed(v1 or v2)}.values():
                os.makedirs(at + self.id)
                self.folders.append(at + self.id)
        except OSError as e:
            self.remove()
            skip(f'no cgroups can be made: {e}')
        if not self.folders:
            skip('no cgroups are mounted')

    def enter(self):
        for at in self.folders:
            with open(f'{at}/cgroup.procs', 'w') as f:
                f.write(str(os.getpid()))

    def remove(self):
        for at in self.folders:
            poll(lambda: not self.busy(at), 10)
            os.rmdir(at)
            try:
                os.rmdir(os.path.dirname(at))
            except OSError:
                pass  # another's
        self.folders = []

    @staticmethod
    def busy(at):
        with open(f'{at}/cgroup.procs') as f:
            return f.read()


def child(run, cgroup):
    """A process in a cgroup."""
    pid = os.fork()
    if not pid:
        try:
            cgroup.enter()
            run()
        finally:
            os._exit(0)
    return pid


def ours(collector, name, cgroup):
    return collector.find(name, f'id="{cgroup.id}"')


@case
def cgroups_come_and_go():
    with Agent('--host', '--host-interval', '20ms') as agent, Collector([agent], '--period', '20ms') as collector:
        cgroup = Cgroup(ID)
        try:
            wait_until(lambda: ours(collector, 'container_last_seen', cgroup), 'it appears', collector, agent)
            key = next(iter(ours(collector, 'container_last_seen', cgroup)))
            check(f'container_id="{ID}"' in key and f'name="{ID}"' in key, key)
            pid = child(lambda: time.sleep(600), cgroup)
            wait_until(lambda: sum(ours(collector, 'container_processes', cgroup).values()) == 1, 'a process', collector, agent)
            check(ours(collector, 'container_cpu_usage_seconds_total', cgroup))
            if cgroup.version == 1:
                wait_until(lambda: sum(ours(collector, 'container_threads', cgroup).values()) == 1, 'a thread', collector)
                wait_until(lambda: sum(ours(collector, 'container_memory_usage_bytes', cgroup).values()) > 0, 'memory', collector)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        finally:
            cgroup.remove()
        wait_until(lambda: not [k for k in collector.series() if cgroup.id in k], 'it goes', collector, agent)
        check(collector.find('container_last_seen', 'id="/"'))
        cgroup = Cgroup(ID)
        try:
            wait_until(lambda: ours(collector, 'container_last_seen', cgroup), 'it is there again', collector, agent)
        finally:
            cgroup.remove()


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@case
def a_burst_of_50_ms_is_seen():
    with Agent('--host', '--host-interval', '10ms') as agent, Collector([agent], '--period', '10ms') as collector:
        cgroup = Cgroup(ID[:-1] + 'b')
        try:
            name = 'container_cpu_usage_seconds_total'
            wait_until(lambda: ours(collector, name, cgroup), 'it appears', collector, agent)
            before = sum(ours(collector, name, cgroup).values())
            os.waitpid(child(lambda: burn(0.05), cgroup), 0)
            wait_until(lambda: sum(ours(collector, name, cgroup).values()) >= before + .05, 'the burst', collector)
            pod = next(p for p in collector.api('pods')['pods'] if p['service'] == 'host')
            series = next(s for s in collector.api(f'metrics?instance={pod["instance"]}&limit=10000')['metrics']
                          if s['name'] == name and s['labels'].get('id') == cgroup.id)

            def values():
                return collector.api(f'history?series={series["id"]}&last=5m&points=10000')['series'][0]['v']
            wait_until(lambda: values() and max(values()) >= before + .05, values)
            # Usage did not jump, but grew in steps while the process ran.
            check(len({v for v in values() if before < v < before + .05}) >= 2, values)
        finally:
            cgroup.remove()


# ---- failures ----

def worker(agent):
    with os.popen(f'pgrep -P {agent.pid} -x sidelight-bridg') as f:
        return int((f.read().split() or ['0'])[0])


@case
def an_agent_that_is_killed_leaves_nothing():
    folder = workdir()
    agent = Agent('--host', folder=folder)
    with Collector([agent], '--period', '20ms') as collector:
        wait_until(lambda: collector.total('node_forks_total') > 0, 'the host', collector, agent)
        first = worker(agent)
        agent.kill()
        wait_until(lambda: not alive(first), 'its worker ends')
        with Agent('--host', folder=folder) as agent:
            def processes():
                return {re.search('process="(.*?)"', k)[1] for k in collector.find('node_forks_total')}
            wait_until(lambda: processes() - {str(first)}, 'the host again', collector, agent)


def in_namespace(folder, hung):
    """Mounts file systems that never answer, and one that does, for this process alone, which becomes the agent."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(result):
        if result:
            print(f'CANNOT {os.strerror(ctypes.get_errno())}', flush=True)
            sys.exit(1)
    call(libc.unshare(0x20000))  # CLONE_NEWNS
    call(libc.mount(b'none', b'/', None, 0x44000, None))  # MS_REC | MS_PRIVATE
    # What the agent takes for the machine's file systems.
    call(libc.mount(f'/proc/{os.getpid()}/mountinfo'.encode(), b'/proc/1/mountinfo', None, 0x1000, None))  # MS_BIND
    for i in range(hung):
        fd = os.open('/dev/fuse', os.O_RDWR)
        os.set_inheritable(fd, True)
        call(libc.mount(b'hung', f'{folder}/hung{i}'.encode(), b'fuse', 0, f'fd={fd},rootmode=40000,user_id=0,group_id=0'.encode()))
    call(libc.mount(b'good', f'{folder}/good'.encode(), b'tmpfs', 0, b'size=16m'))


def with_hung(folder, n):
    """An agent for which n file systems hang, and the last one answers."""
    if os.geteuid() or not os.path.exists('/dev/fuse'):
        skip('not root, or no /dev/fuse')
    for name in ('good', *(f'hung{i}' for i in range(n))):
        os.mkdir(f'{folder}/{name}')
    return Agent('--host', before=(sys.executable, __file__, '--namespace', folder, str(n)))


def device_errors(collector):
    return {re.search('mountpoint="(.*?)"', k)[1]: v for k, v in collector.find('node_filesystem_device_error').items()}


@case
def many_hung_mounts_delay_no_other():
    folder = workdir()
    with with_hung(folder, 10) as agent, Collector([agent], '--period', '20ms') as collector:
        def free():
            return collector.total('node_filesystem_free_bytes', f'mountpoint="{folder}/good"')

        def state():
            return device_errors(collector)
        wait_until(lambda: all(state().get(f'{folder}/hung{i}') == 1 for i in range(10)), state, collector, agent)
        check(state()[f'{folder}/good'] == 0, state, agent)
        check(0 < len([line for line in agent.err if 'does not respond' in line]) < 8, agent)
        before = free()
        with open(f'/proc/{agent.pid}/root{folder}/good/file', 'wb') as f:
            f.write(bytes(1 << 20))
        wait_until(lambda: free() == before - (1 << 20), lambda: (before, free()), collector, agent)


@case
def a_hung_file_system_delays_no_other():
    folder = workdir()
    with with_hung(folder, 1) as agent, Collector([agent], '--period', '20ms') as collector:
        def state():
            return device_errors(collector)
        wait_until(lambda: state().get(f'{folder}/hung0') == 1, state, collector, agent)
        check(any('does not respond' in line for line in agent.err), agent)
        check(not collector.find('node_filesystem_size_bytes', 'hung'))
        check(state().get('/') == 0, state)
        before = rounds(collector), collector.total('node_filesystem_free_bytes', 'mountpoint="/"')
        wait_until(lambda: rounds(collector) > before[0] + 70, 'rounds go on', collector)
        check(collector.total('node_filesystem_size_bytes', 'mountpoint="/"') > 0)
        last = worker(agent)
    wait_until(lambda: not os.path.exists(f'/proc/{last}'), 'it ends with the agent')


if sys.argv[1] == '--namespace':
    in_namespace(sys.argv[2], int(sys.argv[3]))
    os.execvp(sys.argv[4], sys.argv[4:])
run_cases(only=sys.argv[3:])
