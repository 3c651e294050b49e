# SPDX-License-Identifier: Apache-2.0
"""A real switch: Open vSwitch with its datapath in user space, between two hosts that are network namespaces. This process
moves to a namespace of its own, where the switch is; nothing of it is left when the test ends."""
import ctypes
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

from support.process import Part, check, output, run, skip, wait_until

SCHEMA = '/usr/share/openvswitch/vswitch.ovsschema'
ADDRESS = ('10.9.0.1', '10.9.0.2')
HEADER = 14  # Ethernet's, without the checksum
CHECKSUM = 4


def needs_switch(*programs):
    for program in ('ovs-vswitchd', 'ovsdb-server', 'ovs-vsctl', 'ovs-ofctl', *programs):
        if not shutil.which(program):
            skip(f'{program} is not installed')
    if os.getuid():
        skip('network namespaces need root')
    if ctypes.CDLL(None, use_errno=True).unshare(0x40000000):
        skip('no network namespaces here')
    run('ip', 'link', 'set', 'lo', 'up')


def whole_packets(interface):
    """The kernel leaves checksums and segmentation to a driver, but a switch in user space passes packets on as they are."""
    with socket.socket() as s:
        for command in (0x17, 0x1f, 0x24):  # ETHTOOL_STXCSUM, STSO, SGSO
            value = ctypes.create_string_buffer(struct.pack('=II', command, 0))
            fcntl.ioctl(s, 0x8946, struct.pack('16sP', interface.encode(), ctypes.addressof(value)))


class Host:
    """One end of a pair; the other end, named port, is the switch's."""

    def __init__(self, number, port):
        self.address = ADDRESS[number]
        self.child = Part('unshare', '-n', 'sleep', '3600')
        ns = f'/proc/{self.child.pid}/ns/net'
        wait_until(lambda: os.readlink(ns) != os.readlink('/proc/self/ns/net'), 'no namespace', self.child)
        self.inside = ('nsenter', f'--net={ns}')
        run('ip', 'link', 'add', port, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', self.child.pid)
        run('ip', 'link', 'set', port, 'up')
        for args in (f'addr add {self.address}/24 dev eth0', 'link set eth0 up', 'link set lo up'):
            run(*self.inside, 'ip', *args.split())
        support = os.path.dirname(os.path.abspath(__file__))
        run(*self.inside, sys.executable, '-c', f'import sys; sys.path.insert(0, {os.path.dirname(support)!r})\n'
            'from support.switch import whole_packets\nwhole_packets("eth0")')

    def part(self, *argv):
        return Part(*self.inside, *argv)

    def run(self, *argv, **kw):
        return run(*self.inside, *argv, **kw)


class Switch:
    def __init__(self, folder):
        self.folder = tempfile.mkdtemp(prefix='ovs-', dir=folder)
        self.hosts = [Host(i, f'sl-port{i}') for i in (0, 1)]
        env = {f'OVS_{d}DIR': self.folder for d in ('RUN', 'LOG', 'DB')}
        self.db = f'unix:{self.folder}/db.sock'
        run('ovsdb-tool', 'create', f'{self.folder}/conf.db', SCHEMA)
        self.parts = [Part('ovsdb-server', f'{self.folder}/conf.db', f'--remote=p{self.db}', f'--unixctl={self.folder}/db.ctl',
                           env=env)]
        wait_until(lambda: os.path.exists(f'{self.folder}/db.sock'), 'no database', *self.parts)
        self.set('--no-wait', 'init')
        self.parts.append(Part('ovs-vswitchd', self.db, f'--unixctl={self.folder}/switch.ctl', '--disable-system', env=env))
        # A flow that is idle for a second is exported.
        self.set('set', 'Open_vSwitch', '.', 'other_config:max-idle=1000')
        self.set('add-br', 'br0', '--', 'set', 'bridge', 'br0', 'datapath_type=netdev')
        self.set('add-port', 'br0', 'sl-port0', '--', 'add-port', 'br0', 'sl-port1')
        self.flow('del-flows')
        self.flow('add-flow', 'priority=0,actions=NORMAL')
        for address in ADDRESS:
            self.flow('add-flow', f'priority=10,ip,nw_src={address},actions=NORMAL')

    def set(self, *args):
        return output('ovs-vsctl', f'--db={self.db}', '--timeout=60', *args)

    def flow(self, command, *args):
        return output('ovs-ofctl', command, f'unix:{self.folder}/br0.mgmt', *args)

    def export(self, table, **columns):
        """sFlow, netflow or ipfix of the bridge."""
        words = [f'{name}={value}' for name, value in columns.items()]
        self.set('--', '--id=@x', 'create', table, *words, '--', 'set', 'bridge', 'br0', f'{table.lower()}=@x')

    def passed(self):
        """{sender: (packets, bytes of frames)} of IPv4, as the switch's own table of flows counts them."""
        found = re.findall(r'n_packets=(\d+), n_bytes=(\d+),.*nw_src=([\d.]+)', self.flow('dump-flows'))
        return {sender: (int(packets), int(size)) for packets, size, sender in found}

    def ports(self):
        """{port: (packets in, bytes in, packets out, bytes out)}."""
        text = self.flow('dump-ports')
        found = re.findall(r'port\s+"?(\w+)"?: rx pkts=(\d+), bytes=(\d+).*?tx pkts=(\d+), bytes=(\d+)', text, re.DOTALL)
        return {port: tuple(map(int, counts)) for port, *counts in found}

    def traffic(self, amount='4M'):
        """TCP by iperf3, HTTP by nginx, and 40 flows of 25 UDP datagrams of 1,000 bytes with their echoes."""
        client, server = self.hosts
        listening = server.part('iperf3', '-s', '-1', '--forceflush')
        wait_until(lambda: 'listening' in listening.stdout(), 'iperf3 does not listen', listening)
        client.run('iperf3', '-c', server.address, '-n', amount, '-P', '2')
        listening.wait()
        with open(f'{self.folder}/nginx.conf', 'w') as f:
            f.write(f'daemon off; master_process off; pid {self.folder}/nginx.pid; error_log stderr;\nevents {{}}\n'
                    f'http {{ access_log off; client_body_temp_path {self.folder}/b; proxy_temp_path {self.folder}/p;\n'
                    f'fastcgi_temp_path {self.folder}/f; uwsgi_temp_path {self.folder}/u; scgi_temp_path {self.folder}/s;\n'
                    f'server {{ listen {server.address}:8080; root /usr/share/common-licenses; }} }}\n')
        web = server.part('nginx', '-c', f'{self.folder}/nginx.conf')
        url = f'http://{server.address}:8080/GPL-3'
        wait_until(lambda: client.run('curl', '-sS', '-o', '/dev/null', '--noproxy', '*', url, code=None).returncode == 0,
                   'nginx does not answer', web)
        for _ in range(5):
            client.run('curl', '-sS', '-o', '/dev/null', '--noproxy', '*', url)
        web.stop(signal.SIGQUIT)
        echo = server.part(sys.executable, '-uc', 'import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n'
                           f's.bind(("{server.address}", 40000))\nprint("bound")\nwhile True:\n    s.sendto(*s.recvfrom(2000))\n')
        wait_until(lambda: 'bound' in echo.stdout(), 'no echo', echo)
        client.run(sys.executable, '-c', 'import socket\nfor i in range(40):\n'
                   '    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n    s.settimeout(9)\n    s.bind(("", 30000 + i))\n'
                   f'    for _ in range(25):\n        s.sendto(bytes(1000), ("{server.address}", 40000))\n        s.recv(2000)\n')
        echo.stop(signal.SIGKILL)

    def close(self):
        for p in reversed(self.parts):
            check(p.stop() in (0, -signal.SIGTERM, 128 + signal.SIGTERM), 'the switch failed', p)
        for h in self.hosts:
            h.child.stop(signal.SIGKILL)


def key_of(*flow):
    """hex of a 5-tuple as a mapping's key has it."""
    a, b, *rest = flow
    return (b''.join(socket.inet_aton(x) for x in (a, b)) + struct.pack('>HHB', *rest)).hex()
