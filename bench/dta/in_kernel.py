# SPDX-License-Identifier: Apache-2.0
"""in_kernel.py - the translator in the kernel over a veth pair, beside AF_XDP: packets per second of a core. What receives
runs in a thread of the kernel's own, whose CPU time is known (threaded NAPI), on the first CPU; what sends, and what takes
the frames and drops them (xdp_sink.c), has the other."""
import ctypes
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
from bench import CPUS, Part, check, cpu_ns, on, poll  # noqa: E402
from support.store_server import CONTROL, Store, StoreServer  # noqa: E402

FIRST_QPN = 0x100  # xdp_sink.h


class Threads:
    """The threads of NAPI of this network namespace's interfaces. They need a sysfs of the namespace, and so a mount."""

    def __init__(self, folder):
        self.folder = folder + '/sys'
        os.mkdir(self.folder)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x20000) or libc.mount(b'none', b'/', None, 0x44000, None) or \
                libc.mount(b'sysfs', self.folder.encode(), b'sysfs', 0, None):
            raise OSError(ctypes.get_errno(), 'no sysfs of its own')

    def give(self, interface, cpu):
        """Returns the thread's pid."""
        with open(f'{self.folder}/class/net/{interface}/threaded', 'w') as f:
            f.write('1')
        found = poll(lambda: [p for p in os.listdir('/proc') if p.isdigit() and self._name(p).startswith(f'napi/{interface}')])
        check(found, f'{interface} has no thread')
        subprocess.run(['taskset', '-pc', str(cpu), found[0]], check=True, stdout=subprocess.DEVNULL)
        os.setpriority(os.PRIO_PROCESS, int(found[0]), os.getpriority(os.PRIO_PROCESS, 0))
        return int(found[0])

    @staticmethod
    def _name(pid):
        try:
            with open(f'/proc/{pid}/comm') as f:
                return f.read().strip()
        except OSError:
            return ''


class Server(StoreServer):
    """A collector without memory: its queue pairs are those of xdp_sink.c."""

    def __init__(self, path, stores, mac, ip):
        self.mac, self.gid, self.peers = mac, '00' * 10 + 'ffff' + bytes(map(int, ip.split('.'))).hex(), []
        super().__init__(path, stores)

    def name_stores(self, c):
        self.say(c, {'type': 'welcome', 'version': CONTROL, 'instance': 7, 'lane': 0, 'port': 0})
        for i, s in enumerate(self.stores):
            self.say(c, {'type': 'object', 'number': i, 'bytes': s.bytes, 'addr': 1 << 40, 'rkey': 1})
            self.say(c, {'type': 'store', 'tenant': 0, 'store': s.number, 'name': s.kind, 'object': i, 'epoch': 0,
                         'config': s.config.hex()})
        self.say(c, {'type': 'ready'})

    def _serve(self, c):
        try:
            with c.makefile('r') as lines:
                for line in lines:
                    m = json.loads(line)
                    if m['type'] == 'hello':
                        self.name_stores(c)
                    elif m['type'] == 'queue':
                        self.peers.append(m)
                        self.say(c, {'type': 'queue', 'qpn': FIRST_QPN + len(self.peers) - 1, 'psn': 1, 'gid': self.gid,
                                     'mac': self.mac.replace(':', ''), 'mtu': 1024, 'atomics': 16})
        except OSError:
            pass


def mac_of(interface):
    shown = subprocess.run(['ip', '-j', 'link', 'show', interface], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(shown)[0]['address']


def out_pair():
    for args in ('link add sl-out type veth peer name sl-sink', 'addr add 10.78.0.1/24 dev sl-out', 'link set sl-out up',
                 'link set sl-sink up'):
        subprocess.run(['ip', *args.split()], check=True)


def run(build, folder, veth, threads, count, keys, slots, every):
    """The account of a translator in the kernel; {'packets', 'rate', 'core_ns': CPU time per packet translated}."""
    ip = '10.78.0.2'
    server = Server(f'{folder}/raw', [Store('key-write', 1, slots=slots, value=8, copies=1)], mac_of('sl-sink'), ip)
    t = on(CPUS[:1], f'{build}/sidelight', 'translate', '--collector', f'unix:{folder}/raw', '--listen', '10.77.0.1:40040',
           '--json', '--xdp', 'sl-near', '--xdp-mode', 'native', '--output', 'raw', '--raw-interface', 'sl-out', '--in-kernel')
    t.ready()
    sink = subprocess.Popen(['taskset', '-c', str(CPUS[-1]), f'{build}/bench/dta/xdp_sink', 'sl-sink', ip, mac_of('sl-out'),
                             '10.78.0.1', *(str(p['qpn']) for p in server.peers)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    check(sink.stdout.readline() == 'ready\n', 'the sink failed')
    receiver = threads.give('sl-near', CPUS[0])
    threads.give('sl-sink', CPUS[-1])
    before, process = cpu_ns(receiver), cpu_ns(t.pid)
    g = Part(*veth.inside, 'taskset', '-c', CPUS[-1], f'{build}/bench/dta/xdp_load', 'sl-far', veth.mac, '10.77.0.2',
             '10.77.0.1', '40040', count, keys, 1, every)
    check(g.wait() == 0, 'the generator failed', g)
    core, process = cpu_ns(receiver) - before, cpu_ns(t.pid) - process
    seconds = json.loads(g.out[-1])['seconds']
    check(t.stop() == 0, 'the translator failed', t)
    sink.stdin.close()
    took = json.loads(sink.stdout.read())
    sink.wait()
    server.close()
    a = json.loads(t.out[-1])
    frames = a['kernel_frames']
    check(took['frames'] and frames, f'nothing arrived: {took} {a}', t)
    return {'packets': frames, 'rate': frames / seconds, 'sent': count, 'arrived': took['frames'], 'gaps': took['gaps'],
            'core_ns': core / frames, 'process_ns': process / frames, 'account': a}
