#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Values in files of the kernel are published unchanged, and malformed files do no harm. test_files.py SIDELIGHT HOST_AT
CASE"""
import os
import random
import resource
import shutil
import sys

from scene import Scene, labelled, rdma_files
from support.process import case, check, run_cases, skip, wait_until

STAT = '''cpu  20 0 0 0 0 0 0 0 0 0
cpu0 1234 20 30 4000 50 6 7 8 9 10
cpu1 1 2 3 4000 5 6 7 8 9 10
intr 4321 0 0 1
ctxt 77
btime 1700000000
processes 88
procs_running 3
procs_blocked 2
'''
DISKS = '''   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11
   8       0 sda 10 20 30 40 50 60 70 80 9 1000 110 12 13 14 15 16 17
   8       1 sda1 1 1 1 1 1 1 1 1 1 1 1
 259       0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11
 259       1 nvme0n1p1 1 2 3 4 5 6 7 8 9 10 11
'''
NET = '''Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0
  eth0:123456789012 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
'''


@case
def files_of_proc_are_published_as_they_are():
    files = {
        '/proc/stat': STAT, '/proc/diskstats': DISKS, '/proc/net/dev': NET,
        '/proc/schedstat': 'version 15\ntimestamp 1\ncpu0 0 0 0 0 0 0 2500000000 500000000 17\ndomain0 03 0\n',
        '/proc/meminfo': 'MemTotal:       1000 kB\nActive(anon):      2 kB\nHugePages_Total:       3\n',
        '/proc/vmstat': 'nr_free_pages 1\npgpgin 2\npgfault 3\npgmajfault 4\noom_kill 5\npgsteal 6\npswpout 7\n',
        '/proc/loadavg': '0.25 1.50 12.07 3/456 789\n',
        '/proc/pressure/cpu': 'some avg10=1.00 avg60=2.00 avg300=3.00 total=3301680\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n',
        '/proc/pressure/io': 'some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=4\n',
        '/proc/net/snmp': 'Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: RtoAlgorithm MaxConn InSegs CurrEstab InErrs\nTcp: 1 -1 7 8 9\n',
        '/proc/net/netstat': 'TcpExt: SyncookiesSent TCPTimeouts TW ListenDrops\nTcpExt: 1 2 3 4\nIpExt: InNoRoutes InOctets\nIpExt: 1 2\n',
        '/proc/net/snmp6': 'Ip6InOctets 5\nIcmp6OutMsgs 6\nIcmp6OutType133 7\nUdp6InDatagrams 8\nUdpLite6InErrors 9\n',
        '/proc/net/sockstat': 'sockets: used 12\nTCP: inuse 1 mem 2\n', '/proc/net/sockstat6': 'TCP6: inuse 3\n',
        '/proc/net/softnet_stat': '000000ff 00000001 00000002\n0000000a 00000000 00000000\n',
        '/proc/net/arp': 'IP address HW type Flags HW address Mask Device\n192.0.2.1 0x1 0x2 02:fc:00:00:00:05 * eth0\n'
                         '192.0.2.2 0x1 0x2 02:fc:00:00:00:06 * eth1\n192.0.2.3 0x1 0x2 02:fc:00:00:00:07 * eth0\n',
        '/proc/net/udp': '  sl  local_address rem_address   st tx_queue rx_queue tr\n'
                         '  1: 0100007F:0035 00000000:0000 07 00000010:000000FF 00:00000000\n'
                         '  2: 0100007F:0036 00000000:0000 07 00000001:00000001 00:00000000\n',
        '/proc/sys/fs/file-nr': '3121\t0\t2466170\n', '/proc/sys/kernel/random/entropy_avail': '256\n',
        '/proc/sys/kernel/random/poolsize': '4096\n',
        '/proc/sys/net/netfilter/nf_conntrack_count': '5\n', '/proc/sys/net/netfilter/nf_conntrack_max': '262144\n',
        '/proc/net/stat/nf_conntrack': 'entries clashres found\n' + ' '.join('%08x' % i for i in range(17)) + '\n' +
                                       ' '.join('%08x' % (i * 16) for i in range(17)) + '\n',
        '/etc/os-release': 'NAME="An \\"OS\\""\nID=an\nVERSION_ID=\'12.5\'\nID_LIKE="b c"\n',
        '/sys/class/net/eth0/mtu': '1500\n', '/sys/class/net/eth0/speed': '1000\n', '/sys/class/net/eth0/operstate': 'up\n',
        '/sys/class/net/eth0/flags': '0x1003\n', '/sys/class/net/eth0/address': '02:fc:00:00:00:01\n',
        '/sys/class/thermal/thermal_zone3/temp': '-4500\n', '/sys/class/thermal/thermal_zone3/type': 'x86_pkg_temp\n',
        '/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq': '2400000\n',
        '/run/udev/data/b8:0': 'S:disk/by-id/x\nE:ID_MODEL=Disk_9\nE:ID_WWN=0x50\n',
    }
    with Scene(files) as s:
        check(s.round() == (0, 0, 0), s.said)
        check(s.round() == (0, 0, 0), s.said)
        page = os.sysconf('SC_PAGESIZE')
        for prefix, want in {
            'node_cpu_seconds': {f'node_cpu_seconds_total{{cpu="{c}",mode="{m}"}}': v / 100 for c, row in (
                (0, (1234, 20, 30, 4000, 50, 6, 7, 8)), (1, (1, 2, 3, 4000, 5, 6, 7, 8))) for m, v in zip(
                    ('user', 'nice', 'system', 'idle', 'iowait', 'irq', 'softirq', 'steal'), row)},
            'node_cpu_guest': {f'node_cpu_guest_seconds_total{{cpu="{c}",mode="{m}"}}': v
                               for c in (0, 1) for m, v in (('user', .09), ('nice', .1))},
            'node_schedstat': {'node_schedstat_running_seconds_total{cpu="0"}': 2.5,
                               'node_schedstat_waiting_seconds_total{cpu="0"}': .5,
                               'node_schedstat_timeslices_total{cpu="0"}': 17},
            'node_memory': {'node_memory_MemTotal_bytes': 1024000, 'node_memory_Active_anon_bytes': 2048,
                            'node_memory_HugePages_Total': 3},
            'node_vmstat': {'node_vmstat_pgpgin': 2, 'node_vmstat_pgfault': 3, 'node_vmstat_pgmajfault': 4,
                            'node_vmstat_oom_kill': 5, 'node_vmstat_pswpout': 7},
            'node_load': {'node_load1': .25, 'node_load5': 1.5, 'node_load15': 12.07},
            'node_pressure': {'node_pressure_cpu_waiting_seconds_total': 3301680 / 1000 / 1000,
                              'node_pressure_io_waiting_seconds_total': 5e-6,
                              'node_pressure_io_stalled_seconds_total': 4e-6},
            'node_netstat': {'node_netstat_Ip_Forwarding': 1, 'node_netstat_Tcp_InSegs': 7, 'node_netstat_Tcp_CurrEstab': 8,
                             'node_netstat_Tcp_InErrs': 9, 'node_netstat_TcpExt_SyncookiesSent': 1,
                             'node_netstat_TcpExt_TCPTimeouts': 2, 'node_netstat_TcpExt_ListenDrops': 4,
                             'node_netstat_IpExt_InOctets': 2, 'node_netstat_Ip6_InOctets': 5,
                             'node_netstat_Icmp6_OutMsgs': 6, 'node_netstat_Udp6_InDatagrams': 8,
                             'node_netstat_UdpLite6_InErrors': 9},
            'node_sockstat': {'node_sockstat_sockets_used': 12, 'node_sockstat_TCP_inuse': 1, 'node_sockstat_TCP_mem': 2,
                              'node_sockstat_TCP_mem_bytes': 2 * page, 'node_sockstat_TCP6_inuse': 3},
            'node_softnet_p': {'node_softnet_processed_total{cpu="0"}': 255, 'node_softnet_processed_total{cpu="1"}': 10},
            'node_arp': {'node_arp_entries{device="eth0"}': 2, 'node_arp_entries{device="eth1"}': 1},
            'node_udp': {'node_udp_queues{ip="v4",queue="tx"}': 17, 'node_udp_queues{ip="v4",queue="rx"}': 256},
            'node_filefd': {'node_filefd_allocated': 3121, 'node_filefd_maximum': 2466170},
            'node_entropy': {'node_entropy_available_bits': 256, 'node_entropy_pool_size_bits': 4096},
            'node_nf_conntrack_e': {'node_nf_conntrack_entries': 5, 'node_nf_conntrack_entries_limit': 262144},
            'node_nf_conntrack_stat_s': {'node_nf_conntrack_stat_search_restart': 16 * 17},
            'node_os': {'node_os_info{build_id="",id="an",id_like="b c",image_id="",image_version="",name="An \\"OS\\"",'
                        'pretty_name="",variant="",variant_id="",version="",version_codename="",version_id="12.5"}': 1,
                        'node_os_version{id="an",id_like="b c",name="An \\"OS\\""}': 12.5},
            'node_network_receive_bytes': {'node_network_receive_bytes_total{device="eth0"}': 123456789012},
            'node_network_transmit_comp': {'node_network_transmit_compressed_total{device="eth0"}': 16},
            'node_network_mtu': {'node_network_mtu_bytes{device="eth0"}': 1500},
            'node_network_speed': {'node_network_speed_bytes{device="eth0"}': 125000000},
            'node_network_flags': {'node_network_flags{device="eth0"}': 4099},
            'node_network_up': {'node_network_up{device="eth0"}': 1},
            'node_network_info': {'node_network_info{address="02:fc:00:00:00:01",broadcast="",device="eth0",duplex="",'
                                  'ifalias="",operstate="up"}': 1},
            'node_disk_read_bytes': {'node_disk_read_bytes_total{device="sda"}': 15360,
                                     'node_disk_read_bytes_total{device="nvme0n1"}': 1536},
            'node_disk_io_time_s': {'node_disk_io_time_seconds_total{device="sda"}': 1,
                                    'node_disk_io_time_seconds_total{device="nvme0n1"}': .01},
            'node_disk_flush_requests_time': {'node_disk_flush_requests_time_seconds_total{device="sda"}': 17 * .001},
            'node_disk_info': {f'node_disk_info{{device="{d}",major="{a}",minor="0",model="{m}",path="",revision="",serial="",'
                               f'wwn="{w}"}}': 1 for d, a, m, w in (('sda', 8, 'Disk_9', '0x50'), ('nvme0n1', 259, '', ''))},
            'node_thermal': {'node_thermal_zone_temp{type="x86_pkg_temp",zone="3"}': -4.5},
            'node_cpu_scaling': {'node_cpu_scaling_frequency_hertz{cpu="1"}': 2.4e9},
            'node_boot': {'node_boot_time_seconds': 1700000000}, 'node_intr': {'node_intr_total': 4321},
            'node_procs': {'node_procs_running': 3, 'node_procs_blocked': 2}, 'node_forks': {'node_forks_total': 88},
            'container_': {},
        }.items():
            s.expect(want, prefix)


@case
def devices_and_processors_come_and_go():
    with Scene({'/proc/stat': STAT, '/proc/net/dev': NET, '/proc/diskstats': DISKS}) as s:
        def expect(*times):
            s.expect({f'node_cpu_guest_seconds_total{{cpu="{i}",mode="user"}}': v for i, v in enumerate(times)} | {
                f'node_cpu_guest_seconds_total{{cpu="{i}",mode="nice"}}': .1 for i in range(len(times))}, 'node_cpu_guest')

        s.round()
        expect(.09, .09)
        # If a time goes back slightly, the counter keeps its value; if idle time goes back by more than three seconds, it
        # starts again.
        s.put({'/proc/stat': STAT.replace('30 4000 50 6 7 8 9 10', '30 4000 50 6 7 8 5 10').replace(
            '3 4000 5 6 7 8 9 10', '3 100 5 6 7 8 5 10')})
        s.round()
        expect(.09, .05)
        s.put({'/proc/stat': STAT.replace('cpu1', 'xyz'), '/proc/net/dev': NET.replace('eth0', 'eth1'),
               '/proc/diskstats': ''.join(DISKS.splitlines(True)[3:])})
        s.round()
        expect(.09)
        s.expect({'node_network_receive_bytes_total{device="eth1"}': 123456789012}, 'node_network_receive_bytes')
        s.expect({'node_disk_read_bytes_total{device="nvme0n1"}': 1536}, 'node_disk_read_bytes')
        s.put({'/proc/stat': STAT})
        s.round()
        expect(.09, .09)


ID = 'f' * 63 + '1'
POD = '11112222-3333-4444-5555-666677778888'
PATHS = {
    '': {'id': '/'},
    '/system.slice': {'id': '/system.slice'},
    '/system.slice/ssh.service': {'id': '/system.slice/ssh.service'},
    f'/system.slice/docker-{ID}.scope': {'name': ID, 'container_id': ID},
    f'/docker/{ID[:-1]}2': {'name': ID[:-1] + '2', 'container_id': ID[:-1] + '2'},
    f'/machine.slice/libpod-{ID[:-1]}3.scope': {'name': ID[:-1] + '3', 'container_id': ID[:-1] + '3'},
    f'/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace("-", "_")}.slice': {'pod_uid': POD},
    f'/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace("-", "_")}.slice/cri-containerd-{ID[:-1]}4.scope':
        {'pod_uid': POD, 'name': ID[:-1] + '4', 'container_id': ID[:-1] + '4'},
    f'/kubepods/besteffort/pod{POD[:-1]}9/crio-{ID[:-1]}5':
        {'pod_uid': POD[:-1] + '9', 'name': ID[:-1] + '5', 'container_id': ID[:-1] + '5'},
    '/kubepods.slice': {}, '/kubepods.slice/kubepods-burstable.slice': {}, '/machine.slice': {},
    f'/kubepods/besteffort/pod{POD[:-1]}9': {'pod_uid': POD[:-1] + '9'},
    '/lxc/web': {'name': 'web'},
    # Versions 1 and 2; in version 2, the processes show whose job it is.
    '/slurm/uid_1000/job_7': {'name': '7', 'user': '1000'},
    '/slurm/uid_1000/job_7/step_0': {'name': '7.0', 'user': '1000'},
    '/system.slice/slurmstepd.scope': {},
    '/system.slice/slurmstepd.scope/job_8': {'name': '8', 'user': str(os.geteuid())},
}
# Folders of no interest, or within a container.
OTHER = ['/docker', '/init', f'/docker/{ID[:-1]}2/system.slice', f'/docker/{ID[:-1]}2/{ID[:-1]}6']


def series(path, **more):
    labels = {'id': path or '/', **PATHS.get(path, {}), **more}
    return '{' + ','.join(f'{k}="{v}"' for k, v in sorted(labels.items())) + '}'


def mounts(*lines):
    return ''.join(f'x {at} {kind} rw,{options} 0 0\n' for at, kind, options in lines)


@case
def rdma_ports_and_counters_come_and_go():
    at = '/sys/class/infiniband/mlx5_0'
    with Scene(rdma_files('mlx5_0', 1, '100 Gb/sec (4X EDR)') | rdma_files('mlx5_0', 2, '25 Gb/sec (1X EDR)')) as s:
        def own():
            return (labelled(s.collector, 'sidelight_rdma_link_width', 'port'),
                    labelled(s.collector, 'sidelight_rdma_port_info', 'port', 'link_layer', 'speed').keys(),
                    labelled(s.collector, 'sidelight_rdma_hw_counter_total', 'port', 'counter'))

        def expect(width, info, counters):
            wait_until(lambda: own() == (width, info, counters), own, s.collector)

        first = {('1', 'out_of_sequence'): 5}
        second = {('2', 'out_of_sequence'): 5}
        more = {('', 'device_wide'): 7, ('1', 'cnpSent'): 4, ('1', 'x' * 64): 3}
        s.round()
        expect({'1': 4, '2': 1}, {('1', 'InfiniBand', 'EDR'), ('2', 'InfiniBand', 'EDR')}, first | second)
        # Malformed names and numbers; a counter of the device; a link that became narrower.
        s.put({f'{at}/hw_counters/device_wide': '7\n', f'{at}/ports/1/rate': '25 Gb/sec (1X HDR)\n',
               **{f'{at}/ports/1/hw_counters/{n}': t for n, t in (
                   ('a.b', '1'), ('a-b', '1'), ('cnpSent', '4'), ('x' * 65, '1'), ('x' * 64, '3'), ('words', 'many'), ('minus', '-1'),
                   ('trailing', '1x'), ('empty', ''), ('long', '9' * 100), ('binary', b'\0\xff'))},
               f'{at}/ports/odd/state': '4: ACTIVE\n', f'{at}/ports/2/rate': 'fast\n'})
        check(s.round() == (0, 0, 0), s.said)
        expect({'1': 1}, {('1', 'InfiniBand', 'HDR'), ('2', 'InfiniBand', '')}, first | second | more)
        # The number of counters of a port is limited; no driver has more.
        s.put({f'{at}/ports/2/hw_counters/c{i}': '1\n' for i in range(400)})
        s.round()
        wait_until(lambda: 200 < len(s.collector.find('sidelight_rdma_hw_counter_total', 'port="2"')) <= 256, 'bound', s.collector)
        shutil.rmtree(s.root + at + '/ports/2')
        s.round()
        expect({'1': 1}, {('1', 'InfiniBand', 'HDR')}, first | more)
        shutil.rmtree(s.root + at)
        s.round()
        expect({}, set(), {})
        s.expect({}, 'node_infiniband')
        s.put(rdma_files('mlx5_0', 1, '100 Gb/sec (4X EDR)'))
        s.round()
        expect({'1': 4}, {('1', 'InfiniBand', 'EDR')}, first)


@case
def containers_of_version_2_are_published():
    docker = f'/system.slice/docker-{ID}.scope'
    files = {
        '/proc/self/mounts': mounts(('/cg', 'cgroup2', 'nsdelegate')), '/proc/diskstats': DISKS, '/proc/1/status': '',
        '/cg/cgroup.controllers': 'cpuset cpu io memory pids\n',
        **{f'/cg{p}/cgroup.procs': '1\n' for p in [*PATHS, *OTHER]},
        **{f'/cg{docker}/{n}': t for n, t in {
            'cpu.stat': 'usage_usec 2500000\nuser_usec 1500000\nsystem_usec 1000000\nnr_periods 7\nnr_throttled 3\nthrottled_usec 250000\n',
            'memory.current': '10485760\n', 'memory.peak': '20971520\n', 'memory.swap.current': '4096\n',
            'memory.stat': 'anon 1000\nfile 5000\nfile_mapped 300\ninactive_file 485760\npgfault 44\npgmajfault 4\n',
            'memory.events': 'low 0\nhigh 0\nmax 5\noom 2\noom_kill 1\n', 'memory.max': '104857600\n', 'memory.high': 'max\n',
            'memory.swap.max': 'max\n', 'io.stat': '8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n9:7 rbytes=1 wbytes=0 rios=1 wios=0\n',
            'pids.current': '12\n', 'pids.max': '100\n', 'cgroup.procs': '1\n2\n3\n', 'cpu.max': '50000 100000\n',
            'cpu.weight': '100\n', 'cpu.pressure': 'some avg10=0 avg60=0 avg300=0 total=1500000\nfull avg10=0 avg60=0 avg300=0 total=500000\n',
            'memory.pressure': 'some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=6\n',
        }.items()}}
    with Scene(files) as s:
        check(s.round() == (0, 0, 0), s.said)
        s.expect({'container_processes' + series(p): 3 if p == docker else 1 for p in PATHS}, 'container_processes')
        labels = series(docker)
        want = {f'container_{n}{labels}': v for n, v in {
            'cpu_user_seconds_total': 1.5, 'cpu_system_seconds_total': 1, 'cpu_cfs_periods_total': 7,
            'cpu_cfs_throttled_periods_total': 3, 'cpu_cfs_throttled_seconds_total': .25, 'memory_usage_bytes': 10485760,
            'memory_working_set_bytes': 10000000, 'memory_rss': 1000, 'memory_cache': 5000, 'memory_mapped_file': 300,
            'memory_swap': 4096, 'memory_max_usage_bytes': 20971520, 'oom_events_total': 1, 'threads': 12, 'threads_max': 100,
            'spec_cpu_period': 100000, 'spec_cpu_quota': 50000, 'spec_cpu_shares': 2597, 'spec_memory_limit_bytes': 104857600,
            'spec_memory_reservation_limit_bytes': 0, 'spec_memory_swap_limit_bytes': 0,
            'pressure_cpu_waiting_seconds_total': 1.5, 'pressure_cpu_stalled_seconds_total': .5,
            'pressure_memory_waiting_seconds_total': 7e-6, 'pressure_memory_stalled_seconds_total': 6e-6}.items()}
        want['container_cpu_usage_seconds_total' + series(docker, cpu='total')] = 2.5
        for kind, v in ('pgfault', 44), ('pgmajfault', 4):
            for scope in 'container', 'hierarchy':
                want['container_memory_failures_total' + series(docker, failure_type=kind, scope=scope)] = v
        for device, values in ('/dev/sda', (4096, 8192, 1, 2)), ('9:7', (1, 0, 1, 0)):
            for n, v in zip(('reads_bytes', 'writes_bytes', 'reads', 'writes'), values):
                want[f'container_fs_{n}_total' + series(docker, device=device)] = v
        s.expect(want, 'container_', of=want.__contains__)
        shutil.rmtree(f'{s.root}/cg{docker}')
        s.round()
        s.expect({'container_processes' + series(p): 1 for p in PATHS if p != docker}, 'container_processes')
        wait_until(lambda: not [k for k in s.series('container_') if docker in k], 'its other series go as well', s.collector)


@case
def containers_of_version_1_are_published():
    path = f'/docker/{ID[:-1]}2'
    at = {c: f'/cg/{c}' for c in ('memory', 'blkio', 'pids')} | {c: '/cg/cpu,cpuacct' for c in ('cpu', 'cpuacct')}
    files = {
        '/proc/self/mounts': mounts(('/cg/cpu,cpuacct', 'cgroup', 'cpu,cpuacct'), ('/cg/memory', 'cgroup', 'memory'),
                                    ('/cg/blkio', 'cgroup', 'blkio'), ('/cg/pids', 'cgroup', 'pids'),
                                    ('/cg/unified', 'cgroup2', 'nsdelegate')), '/proc/diskstats': DISKS,
        f'/cg/unified{path}/io.pressure': 'some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n',
        '/cg/unified/cgroup.controllers': '\n',
        **{f'{at[c]}{path}/{n}': t for c, n, t in (
            ('cpuacct', 'cpuacct.usage', '2500000000\n'), ('cpuacct', 'cpuacct.stat', 'user 150\nsystem 100\n'),
            ('cpu', 'cpu.stat', 'nr_periods 7\nnr_throttled 3\nthrottled_time 250000000\n'),
            ('cpu', 'cpu.cfs_quota_us', '-1\n'), ('cpu', 'cpu.cfs_period_us', '100000\n'), ('cpu', 'cpu.shares', '1024\n'),
            ('memory', 'memory.usage_in_bytes', '10485760\n'), ('memory', 'memory.limit_in_bytes', '9223372036854771712\n'),
            ('memory', 'memory.failcnt', '6\n'), ('memory', 'memory.oom_control', 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n'),
            ('memory', 'memory.stat', 'rss 1\npgfault 5\npgmajfault 1\ntotal_rss 1000\ntotal_cache 2000\ntotal_inactive_file 485760\n'
                       'total_pgfault 55\ntotal_pgmajfault 2\n'),
            ('blkio', 'blkio.throttle.io_service_bytes_recursive', '8:0 Read 4096\n8:0 Write 8192\n8:0 Total 12288\nTotal 12288\n'),
            ('blkio', 'blkio.throttle.io_serviced_recursive', '8:0 Read 1\n8:0 Write 2\nTotal 3\n'),
            ('pids', 'pids.current', '12\n'), ('pids', 'pids.max', 'max\n'), ('memory', 'cgroup.procs', '1\n2\n'))}}
    with Scene(files) as s:
        check(s.round() == (0, 0, 0), s.said)
        want = {f'container_{n}{series(path)}': v for n, v in {
            'cpu_user_seconds_total': 1.5, 'cpu_system_seconds_total': 1, 'memory_usage_bytes': 10485760,
            'memory_working_set_bytes': 10000000, 'memory_rss': 1000, 'memory_cache': 2000, 'memory_failcnt': 6,
            'oom_events_total': 2, 'threads': 12, 'threads_max': 0, 'processes': 2, 'spec_cpu_period': 100000,
            'spec_cpu_shares': 1024, 'spec_memory_limit_bytes': 0, 'pressure_io_waiting_seconds_total': 7e-6}.items()}
        want['container_cpu_usage_seconds_total' + series(path, cpu='total')] = 2.5
        for kind, scope, v in (('pgfault', 'container', 5), ('pgfault', 'hierarchy', 55), ('pgmajfault', 'container', 1),
                               ('pgmajfault', 'hierarchy', 2)):
            want['container_memory_failures_total' + series(path, failure_type=kind, scope=scope)] = v
        for n, v in ('reads_bytes', 4096), ('writes_bytes', 8192), ('reads', 1), ('writes', 2):
            want[f'container_fs_{n}_total' + series(path, device='/dev/sda')] = v
        changing = ('container_last', 'container_start')
        s.expect(want, 'container_', of=lambda k: path in k and not k.startswith(changing))
        # If there is a quota, throttling is published.
        s.put({f'{at["cpu"]}{path}/cpu.cfs_quota_us': '20000\n'})
        s.round()
        s.expect({'container_cpu_cfs_periods_total' + series(path): 7}, 'container_cpu_cfs_periods')
        s.expect({'container_spec_cpu_quota' + series(path): 20000}, 'container_spec_cpu_quota')


@case
def many_cgroups_take_no_room_from_the_hosts_own():
    n = 5000 * int(os.environ.get('SL_TEST_SCALE', '1'))
    user = '/user.slice/user-1000.slice/user@1000.service'
    with Scene({'/proc/self/mounts': mounts(('/cg', 'cgroup2', '')), '/cg/cgroup.controllers': 'cpu\n',
                '/cg/z/z/z/z/z/z.service/cpu.stat': 'usage_usec 1\n'}, 200) as s:
        for i in range(n):
            os.makedirs(f'{s.root}/cg{user}/a{i}.service')
        # Names that are no text, and two that are the same when they are made text.
        odd = [b'\xff\xfe.slice', b'a\nb"\\.slice', b'same\x01.slice', b'same\x02.slice', b'n' * 240 + b'.slice']
        for name in odd:
            os.makedirs(f'{s.root}/cg/'.encode() + name)
        left = s.round()[2]
        def seen():
            return list(s.series('container_last_seen'))
        # A quarter of the room is for users, and this one has more; all of the host's own are there, but one of those
        # that are the same: the root, four odd ones, the service and two slices.
        wait_until(lambda: len(seen()) == 50 + 8, seen)
        have = seen()
        check('container_last_seen{id="/z/z/z/z/z/z.service"}' in have, have[:5])
        check(sum('same?' in k for k in have) == 1, have[:9])
        check(left > 1000, left)
        check(s.said[:2] == [0, 0], s.said)
        again = s.round()[2]
        check(again > left, again)


@case
def ids_are_those_that_root_chose():
    """A user who may create a cgroup could name it like another user's container, and like a pod."""
    if os.geteuid():
        skip('needs root to make folders of another user')
    pod = f'kubepods/pod{POD}'
    own = '/system.slice/own.service'
    wide = '/system.slice/wide.slice'
    user = '/user.slice/user-1000.slice/user@1000.service'
    there = [f'{at}/{name}' for at in (own, wide, user) for name in (f'docker-{ID}.scope', pod, f'{pod}/{ID}')]
    root = f'/system.slice/docker-{ID}.scope'
    with Scene({'/proc/self/mounts': mounts(('/cg', 'cgroup2', '')), '/cg/cgroup.controllers': 'cpu\n'}) as s:
        s.put({f'/cg{p}/cgroup.procs': '1\n' for p in [root, *there]})
        os.chown(f'{s.root}/cg{own}', 1000, 0)
        os.chmod(f'{s.root}/cg{wide}', 0o777)
        # Slurm gives the directory of a step to the job's user, who can only name tasks of this step.
        step = '/slurm/uid_1000/job_9/step_0'
        named = {'/slurm/uid_1000/job_9': '9', step: '9.0', f'{step}/task_0': '9.0.0'}
        below = [f'{step}/docker-{ID}.scope', f'{step}/task_1/docker-{ID}.scope', f'{user}/slurm/uid_0/job_8/step_0/task_0']
        s.put({f'/cg{p}/cgroup.procs': '1\n' for p in [*named, *below]})
        os.chown(f'{s.root}/cg{step}', 1000, 0)
        os.chown(f'{s.root}/cg{step}/task_1', 1000, 0)
        s.round()
        s.expect({'container_processes' + series(p): 1 for p in [root, *there]}
                 | {'container_processes' + series(p, name=name, user='1000'): 1 for p, name in named.items()}
                 | {'container_processes' + series(p): 1 for p in below}, 'container_processes')


@case
def without_descriptors_nothing_vanishes():
    paths = ['/system.slice', '/system.slice/ssh.service']
    with Scene({'/proc/self/mounts': mounts(('/cg', 'cgroup2', '')), '/cg/cgroup.controllers': 'cpu\n',
                f'/cg{paths[1]}/cpu.max': '50000 100000\n', f'/cg{paths[1]}/cpu.stat': 'nr_periods 7\n',
                **{f'/cg{p}/cgroup.procs': '1\n' for p in paths}}) as s:
        want = {'container_processes' + series(p): 1 for p in paths}
        before = s.round()[0]
        s.expect(want, 'container_processes')
        limits = resource.prlimit(s.pod.p.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(s.pod.p.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        s.round()
        # Existing cgroups are still read, because their files are open.
        s.put({f'/cg{paths[1]}/cpu.stat': 'nr_periods 9\n', **{f'/cg{p}/cgroup.procs': '1\n2\n' for p in paths}})
        during = s.round()[0]
        check(during > before, s.said)
        want = {k: 2 for k in want}
        s.expect(want, 'container_processes')
        # The quota cannot be read, but it still applies.
        s.expect({'container_cpu_cfs_periods_total' + series(paths[1]): 9}, 'container_cpu_cfs_periods')
        resource.prlimit(s.pod.p.pid, resource.RLIMIT_NOFILE, limits)
        shutil.rmtree(f'{s.root}/cg{paths[1]}')
        s.round()
        del want['container_processes' + series(paths[1])]
        s.expect(want, 'container_processes')


@case
def late_files_of_a_cgroup_are_read():
    """A controller is enabled while the cgroup exists. Meanwhile there is no descriptor for its files."""
    path = '/system.slice/ssh.service'
    with Scene({'/proc/self/mounts': mounts(('/cg', 'cgroup2', '')), '/cg/cgroup.controllers': 'cpu memory\n',
                f'/cg{path}/cgroup.procs': '1\n'}) as s:
        check(s.round() == (0, 0, 0), s.said)
        s.expect({'container_processes' + series(path): 1}, 'container_processes')
        limits = resource.prlimit(s.pod.p.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(s.pod.p.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        s.put({f'/cg{path}/memory.current': '4096\n', f'/cg{path}/memory.stat': 'anon 1000\n'})
        check(s.round()[0] > 0, s.said)
        s.expect({}, 'container_memory_usage_bytes', 'container_memory_rss')
        resource.prlimit(s.pod.p.pid, resource.RLIMIT_NOFILE, limits)
        for value in 4096, 8192:
            s.put({f'/cg{path}/memory.current': f'{value}\n'})
            s.round()
            s.expect({'container_memory_usage_bytes' + series(path): value, 'container_memory_rss' + series(path): 1000},
                     'container_memory_usage_bytes', 'container_memory_rss')


@case
def only_file_systems_that_it_sees_are_published():
    """/home is covered here, /srv is not mounted, and /data is mounted at another place."""
    with Scene({'/proc/1/mountinfo': '20 1 8:1 / / rw,noatime shared:1 - ext4 /dev/a rw\n'
                                     '21 20 8:2 / /home rw - ext4 /dev/b rw\n'
                                     '22 20 8:3 / /srv rw - ext4 /dev/c rw\n'
                                     '23 20 8:4 / /data rw master:1 - ext4 /dev/d ro,errors=continue\n',
                '/proc/self/mountinfo': '30 30 8:1 / / ro - ext4 /dev/a rw\n'
                                        '31 30 8:2 / /home ro - ext4 /dev/b rw\n'
                                        '32 31 0:9 / /home ro - tmpfs tmpfs ro\n'
                                        '33 30 8:4 /folder /proc rw - ext4 /dev/d ro\n'}) as s:
        def series(name, *values):
            return {f'node_filesystem_{name}{{device="{d}",fstype="ext4",mountpoint="{at}"}}': v
                    for (d, at), v in zip((('/dev/a', '/'), ('/dev/d', '/data')), values)}

        def own(name):
            s.round()
            return s.series('node_filesystem_' + name)
        # A separate thread queries them.
        for name, *values in ('readonly', 0, 1), ('device_error', 0, 0), ('size_bytes', *(
                v.f_blocks * v.f_bsize for v in map(os.statvfs, ('/', '/proc')))):
            wait_until(lambda: own(name) == series(name, *values), lambda: own(name), s.collector, s.pod)


@case
def truncated_and_odd_files_do_no_harm():
    rng = random.Random(int(os.environ.get('SL_TEST_SEED', '7')))
    whole = {'/proc/stat': STAT, '/proc/net/dev': NET, '/proc/diskstats': DISKS,
             '/proc/net/snmp': 'Tcp: InSegs CurrEstab\nTcp: 7 8\n', '/proc/meminfo': 'MemTotal: 5 kB\n',
             **rdma_files('mlx5_0', 1, '100 Gb/sec (4X EDR)'),
             '/cg/a.slice/memory.stat': 'anon 5\nfile 6\n', '/cg/a.slice/io.stat': '8:0 rbytes=4096 wbytes=8192\n',
             '/cg/a.slice/cpu.stat': 'usage_usec 5\n', '/cg/a.slice/memory.current': '7\n'}
    with Scene({**whole, '/proc/self/mounts': mounts(('/cg', 'cgroup2', '')), '/cg/cgroup.controllers': 'cpu\n'}) as s:
        s.round()
        for _ in range(100):
            files = {}
            for path, text in whole.items():
                b = bytearray(text.encode()[:rng.randrange(len(text) + 1)])
                for _ in range(rng.randrange(4) if b else 0):
                    b[rng.randrange(len(b))] = rng.randrange(256)
                files[path] = bytes(b) * rng.choice((1, 1, 1, 300))
            files[rng.choice(list(files))] = b'9' * rng.choice((0, 5000, 70000, 5 << 20))
            s.put(files)
            s.pod.tell('round')
        s.put(whole)
        s.round()
        s.expect({'node_network_receive_bytes_total{device="eth0"}': 123456789012}, 'node_network_receive_bytes')
        s.expect({'node_memory_MemTotal_bytes': 5120}, 'node_memory_MemTotal_b')
        s.expect({'node_netstat_Tcp_InSegs': 7, 'node_netstat_Tcp_CurrEstab': 8}, 'node_netstat_Tcp_InSegs',
                 'node_netstat_Tcp_CurrEstab')
        s.expect({'container_memory_rss{id="/a.slice"}': 5}, 'container_memory_rss')
        s.expect({f'node_infiniband_{n}{{device="mlx5_0",port="1"}}': v for n, v in (
            ('state_id', 4), ('physical_state_id', 5), ('rate_bytes_per_second', 12.5e9))}, *(
                f'node_infiniband_{n}' for n in ('state', 'physical', 'rate')))


run_cases(only=sys.argv[3:])
