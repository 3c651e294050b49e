# SPDX-License-Identifier: Apache-2.0
"""The flows that 'sidelight tcp' prints, and TCP_INFO to compare them with; on this machine and in guests."""
import ctypes
import errno
import json
import os
import socket
import struct
import subprocess
import sys
import threading

from support.process import Part, fail, skip, wait_until

EXE = sys.argv[1] if len(sys.argv) > 1 else None
# All flows are printed each time; under emulation no reader keeps up with 20 per second.
INTERVAL = '250ms' if 'GUEST' in os.environ else '50ms'
libc = ctypes.CDLL(None, use_errno=True)

# include/uapi/linux/tcp.h, struct tcp_info: name and format. It has grown over time; members that a kernel does not fill in are
# left out.
TCP_INFO = [('state', 'B'), ('ca_state', 'B'), ('retransmits', 'B'), ('probes', 'B'),
            ('backoff', 'B'), ('options', 'B'), ('wscale', 'B'), ('app_limited', 'B')]
TCP_INFO += [(n, 'I') for n in (
    'rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent last_ack_sent '
    'last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss '
    'reordering rcv_rtt rcv_space total_retrans').split()]
TCP_INFO += [(n, 'Q') for n in 'pacing_rate max_pacing_rate bytes_acked bytes_received'.split()]
TCP_INFO += [(n, 'I') for n in 'segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out'.split()]
TCP_INFO += [(n, 'Q') for n in
             'delivery_rate busy_time rwnd_limited sndbuf_limited'.split()]
TCP_INFO += [('delivered', 'I'), ('delivered_ce', 'I'), ('bytes_sent', 'Q'), ('bytes_retrans', 'Q'),
             ('dsack_dups', 'I'), ('reord_seen', 'I'), ('rcv_ooopack', 'I'), ('snd_wnd', 'I'),
             ('rcv_wnd', 'I'), ('rehash', 'I'), ('total_rto', 'H'), ('total_rto_recoveries', 'H'),
             ('total_rto_time', 'I')]

# Ours and the kernel's name for the same.
SAME = {
    'flight': 'unacked', 'rcv_wnd': 'rcv_wnd', 'snd_wnd': 'snd_wnd', 'cwnd': 'snd_cwnd',
    'ssthresh': 'snd_ssthresh', 'mss': 'snd_mss', 'retrans': 'total_retrans',
    'bytes_sent': 'bytes_sent', 'bytes_acked': 'bytes_acked', 'bytes_received': 'bytes_received',
    'bytes_retrans': 'bytes_retrans', 'queue': 'notsent_bytes', 'srtt_us': 'rtt',
    'mdev_us': 'rttvar', 'rtt_min_us': 'min_rtt', 'rto_us': 'rto', 'dsack': 'dsack_dups',
    'ooo': 'rcv_ooopack', 'reorder': 'reord_seen', 'delivered': 'delivered',
    'delivered_ce': 'delivered_ce', 'segs_out': 'segs_out', 'segs_in': 'segs_in',
    'data_segs_out': 'data_segs_out', 'data_segs_in': 'data_segs_in', 'busy_us': 'busy_time',
    'rwnd_us': 'rwnd_limited', 'sndbuf_us': 'sndbuf_limited', 'timeouts': 'total_rto',
    'backoff': 'backoff', 'retransmits': 'retransmits', 'probes': 'probes', 'lost_out': 'lost', 'retrans_out': 'retrans',
}


def tcp_info(sock):
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
    at, info = 0, {}
    for name, fmt in TCP_INFO:
        size = struct.calcsize(fmt)
        at = (at + size - 1) // size * size
        if at + size > len(raw):
            break
        info[name] = struct.unpack_from('=' + fmt, raw, at)[0]
        at += size
    return info


def sent_again():
    """Segments that this network namespace's kernel has sent again."""
    with open('/proc/self/net/snmp') as f:
        names, values = (line.split() for line in f if line.startswith('Tcp:'))
    return int(values[names.index('RetransSegs')])


class Flows:
    """'sidelight tcp flows --json' in the background: the last of each flow."""

    def __init__(self, *args, netns=True):
        """netns: only flows of this process' network namespace."""
        own = ('--netns', f'/proc/{os.getpid()}/ns/net') if netns else ()
        # A machine that emulates another one may pause for seconds; ended flows must still be there afterwards.
        self.part = Part(EXE, 'tcp', 'flows', '--json', '-i', INTERVAL, '--quarantine', '60s', *own,
                         *args)
        self.part.ready()
        self.seen, self.table, self.at = {}, None, 0

    def update(self):
        lines = self.part.out
        end = len(lines)  # the end as of now, so that even a slow caller returns
        while self.at < end:
            row = json.loads(lines[self.at])
            self.at += 1
            if 'table' in row:
                self.table = row['table']
            else:
                self.seen[row['id']] = row

    def of(self, local, remote, closed=None):
        """The flow between two (address, port), or None."""
        self.update()
        for f in reversed(list(self.seen.values())):
            if (f['local'], f['local_port'], f['remote'], f['remote_port']) == (*local, *remote) and \
                    (closed is None or f['closed'] == closed):
                return f
        return None

    def end(self):
        """Stops it; returns every flow by its id, and the table's own counters."""
        code = self.part.stop()
        if code:
            fail(f'{self.part} ended with {code}', self.part)
        self.update()
        return self.seen, self.table


class Layers:
    """'sidelight tcp layers --json' in the background: the last rows, and the causes."""

    def __init__(self, *args):
        self.part = Part(EXE, 'tcp', 'layers', '--json', '-i', '500ms', '--netns',
                         f'/proc/{os.getpid()}/ns/net', *args)
        self.part.ready()

    def end(self):
        """Stops it; returns [row] and {cause: count}."""
        code = self.part.stop()
        if code:
            fail(f'{self.part} ended with {code}', self.part)
        last, rows = None, {}
        for r in map(json.loads, self.part.out):
            if r['row'] == 'causes':
                last = r['causes']
            else:
                rows[r['row'], r['name'], r['role']] = r
        return list(rows.values()), last


def name_of(sock):
    """(address, port) as it is printed, of both ends: mapped addresses as IPv4."""
    def plain(a):
        return (a[0][7:] if a[0].startswith('::ffff:') else a[0], a[1])
    return plain(sock.getsockname()), plain(sock.getpeername())


def differences(flow, sock, **known):
    """What the flow and TCP_INFO do not agree upon, as text; known: what the applications know, of which TCP_INFO says
    nothing, such as read_bytes: by it a row from between the arrival of data and their being read can't be told."""
    info, bad = tcp_info(sock), []
    for ours, theirs in SAME.items():
        if theirs in info and flow[ours] != info[theirs]:
            bad.append(f'{ours} is {flow[ours]}, TCP_INFO says {info[theirs]}')
    return bad + [f'{name} is {flow[name]}, not {value}' for name, value in known.items() if flow[name] != value]


def same_as_tcp_info(flows, sock, seconds=20, **known):
    """Waits until all statistics agree with TCP_INFO, and with `known`; returns the flow."""
    ends = name_of(sock)
    bad = ['there is no such flow']

    def agrees():
        nonlocal bad
        f = flows.of(*ends)
        bad = differences(f, sock, **known) if f else ['there is no such flow']
        return f if not bad else None
    return wait_until(agrees, lambda: f'{ends}: ' + '; '.join(bad), flows.part, seconds=seconds)


def pair(family=socket.AF_INET, address='127.0.0.1', client_family=None, sndbuf=None, rcvbuf=None):
    """A connection over loopback: (client, server)."""
    listener = socket.socket(family)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    if rcvbuf:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    listener.bind((address, 0))
    listener.listen()
    client = socket.socket(client_family or family)
    if sndbuf:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sndbuf)
    to = '::1' if client.family == socket.AF_INET6 else '127.0.0.1'
    client.connect((to, listener.getsockname()[1]))
    server = listener.accept()[0]
    listener.close()
    return client, server


def receive(sock, n):
    while n:
        got = len(sock.recv(min(n, 1 << 16)))
        if not got:
            fail('the connection ended early')
        n -= got


def transfer(sender, receiver, n):
    """n bytes, sent and read at the same time: without a reader sendall() may block for ever."""
    thread = threading.Thread(target=sender.sendall, args=(b'x' * n,))
    thread.start()
    receive(receiver, n)
    thread.join()


def loaders(pid):
    """The processes of an agent that hold its eBPF programs."""
    with open(f'/proc/{pid}/task/{pid}/children') as f:
        children = f.read().split()
    return [int(n) for n in children if open(f'/proc/{n}/comm').read() == 'sidelight-tcp\n']


def held(pid):
    """(kind, id) of the eBPF programs, maps and links that a process holds."""
    found = set()
    for fd in os.listdir(f'/proc/{pid}/fdinfo'):
        try:
            with open(f'/proc/{pid}/fdinfo/{fd}') as f:
                lines = f.readlines()
        except FileNotFoundError:  # closed meanwhile
            continue
        for line in lines:
            key, _, value = line.partition(':')
            if key in ('prog_id', 'map_id', 'link_id'):
                found.add((key[:-3], int(value)))
    return found


BPF = {'x86_64': 321, 'aarch64': 280}.get(os.uname().machine)  # the system call
GET_FD_BY_ID = {'prog': 13, 'map': 14, 'link': 30}  # include/uapi/linux/bpf.h


def still_there(objects):
    """Returns the objects that the kernel still has. Uses the system call, because each bpftool loads a program of its own."""
    there = set()
    for kind, n in objects:
        attributes = struct.pack('=QQ', n, 0)
        fd = libc.syscall(BPF, GET_FD_BY_ID[kind], attributes, len(attributes))
        if fd >= 0:
            os.close(fd)
            there.add((kind, n))
        elif ctypes.get_errno() != errno.ENOENT:
            fail(f'{kind} {n}: {os.strerror(ctypes.get_errno())}')
    return there


def own_network():
    """Enters a new network namespace, which holds the flows of this test only."""
    if libc.unshare(0x40000000):  # CLONE_NEWNET
        skip(f'no network namespace of its own: {os.strerror(ctypes.get_errno())}')
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)


def needs_bpf():
    """Returns the output of 'tcp probe'; skips where eBPF is not available. A guest passes it on, because probing takes seconds
    under emulation."""
    if 'SL_TCP_PROBED' in os.environ:
        with open(os.environ['SL_TCP_PROBED']) as f:
            return json.load(f)
    p = subprocess.run([EXE, 'tcp', 'probe', '--json'], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True)
    if p.returncode:
        skip(p.stderr.strip())
    return json.loads(p.stdout)


# The boundaries at both ends of a layer.
BETWEEN = {'mac_in': ('nic-in', 'mac-ip'), 'ip_in': ('mac-ip', 'ip-tcp'), 'tcp_in': ('ip-tcp', 'tcp-app'),
           'app': ('tcp-app', 'app-tcp'), 'tcp_out': ('app-tcp', 'tcp-ip'), 'ip_out': ('tcp-ip', 'ip-link'),
           'mac_out': ('ip-link', 'link-nic')}


def lost_layers():
    """Returns the layers that this machine cannot measure, and why."""
    lost = {b['boundary']: b['lost'] for b in needs_bpf()['boundaries'] if b['used'] == 'none'}
    return {layer: lost[end] for layer, ends in BETWEEN.items() for end in ends if end in lost}


def needs_layers():
    """Skips where a layer cannot be measured."""
    for layer, why in lost_layers().items():
        skip(f'{layer} is not measured here: {why}')


def without_capabilities():
    """For preexec_fn: an ordinary user."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

