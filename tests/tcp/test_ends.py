# SPDX-License-Identifier: Apache-2.0
"""How connections end, and why others are not established: `tcp closed` and `tcp flows` say it as it was.

usage: test_ends.py SIDELIGHT

In a network namespace of its own. Nothing answers at 10.97.0.2: its route is a TUN device without a reader."""
import errno
import fcntl
import os
import re
import socket
import struct
import sys

from support.flows import Flows, libc, needs_bpf, pair
from support.process import Part, check, poll, run, skip, wait_until

EXE = sys.argv[1]
SILENT = '10.97.0.2'
TCP = socket.IPPROTO_TCP


def make_namespace():
    check(not libc.unshare(0x40000000), 'no network namespace')
    try:
        tun = os.open('/dev/net/tun', os.O_RDWR)
    except OSError:
        skip('no /dev/net/tun')
    fcntl.ioctl(tun, 0x400454ca, struct.pack('16sH', b'silent', 0x1001))  # TUNSETIFF; IFF_TUN | IFF_NO_PI
    run('sh', '-c', 'PATH=$PATH:/usr/sbin:/sbin; ip link set lo up; ip addr add 10.97.0.1/24 dev silent; ip link set silent up; '
        'echo 3 > /proc/sys/net/ipv4/tcp_retries2')
    return tun


def refused(expect):
    with socket.socket() as s, socket.create_server(('127.0.0.1', 0)) as listener:
        port = listener.getsockname()[1]
        listener.close()
        s.settimeout(60)
        check(s.connect_ex(('127.0.0.1', port)) == errno.ECONNREFUSED, 'it was not refused')
    expect(f'127.0.0.1:{port}', 'refused')


def unanswered(expect):
    with socket.socket() as s:
        s.setsockopt(TCP, socket.TCP_SYNCNT, 1)
        s.settimeout(60)
        check(s.connect_ex((SILENT, 80)) == errno.ETIMEDOUT, 'it was answered')
    expect(f'{SILENT}:80', 'unanswered')
    # The application loses patience first, after one more SYN.
    with socket.socket() as s:
        s.setblocking(False)
        s.connect_ex((SILENT, 81))
        wait_until(lambda: s.getsockopt(TCP, socket.TCP_INFO, 8)[2] > 0, 'no second SYN')  # tcpi_retransmits
    expect(f'{SILENT}:81', 'unanswered')


def abandoned(expect):
    with socket.socket() as s:
        s.setblocking(False)
        s.connect_ex((SILENT, 82))
    expect(f'{SILENT}:82', 'not-established')


def closed(expect):
    client, server = pair()
    ends = ['%s:%u' % s.getsockname() for s in (client, server)]
    client.sendall(bytes(1234))
    server.recv(4000)
    client.close()
    server.recv(1)
    server.close()
    expect(ends[1], 'closed-here', 1234, 0)
    expect(ends[0], 'closed-by-peer', 0, 1234)


def reset(expect):
    client, server = pair()
    ends = ['%s:%u' % s.getsockname() for s in (client, server)]
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    client.close()
    server.close()
    expect(ends[1], 'reset-here')
    expect(ends[0], 'reset-by-peer')


def like_ss(flows, s):
    """While nothing is acknowledged, the figures are those of `ss -tin`."""
    local, remote = s.getsockname(), s.getpeername()

    def same():
        f = flows.of(local, remote)
        text = run('ss', '-Htin', 'sport', '=', f':{local[1]}').stdout
        again = re.search(r' retrans:(\d+)/(\d+)', text)
        if not f or not again or f['retransmits'] < 2:
            return False
        ss = {k: int(m[1]) if (m := re.search(rf' {k}:(\d+)', text)) else 0 for k in ('backoff', 'lost', 'notsent', 'unacked')}
        ours = f['backoff'], f['lost_out'], f['queue'], f['flight'], f['retrans_out'], f['retrans']
        return ours == (*ss.values(), int(again[1]), int(again[2]))
    wait_until(same, lambda: f"not as in ss: {flows.of(local, remote)} {run('ss', '-tin').stdout}")


def timed_out(expect, flows):
    plain, patient, quiet = pair(), pair(), pair()
    patient[0].setsockopt(TCP, socket.TCP_USER_TIMEOUT, 1500)
    for option, value in ((socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 2)):
        quiet[0].setsockopt(TCP, option, value)
    quiet[0].setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    peers = ['%s:%u' % s[1].getsockname() for s in (plain, patient, quiet)]
    run('sh', '-c', 'PATH=$PATH:/usr/sbin:/sbin; ip link set lo down')
    plain[0].send(bytes(100))
    patient[0].send(bytes(100))
    like_ss(flows, plain[0])
    for s in (plain, patient, quiet):
        poll(lambda: s[0].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ETIMEDOUT)
    expect(peers[0], 'retransmission-timeout')
    expect(peers[1], 'user-timeout')
    expect(peers[2], 'keepalive')


def main():
    if os.geteuid():
        skip('not root')
    needs_bpf()
    tun = make_namespace()
    lines = Part(EXE, 'tcp', 'closed', '-i', '100ms', '--netns', f'/proc/{os.getpid()}/ns/net')
    lines.ready()
    flows = Flows()

    def expect(remote, end, sent=None, received=None):
        """Returns the only line about the connection to remote, which ended this way."""
        def of_remote():
            return [w for w in (line.split() for line in lines.out[1:]) if w[4] == remote]
        found = wait_until(of_remote, lambda: f'{remote} did not end: {lines.stdout()}')
        check(len(found) == 1 and found[0][8] == end and int(found[0][1]) == os.getpid(), f'{remote} is not {end}: {found}')
        check(sent is None or found[0][5:7] == [str(sent), str(received)], f'other numbers of bytes: {found}')
        address, port = remote.split(':')
        flows.update()
        wait_until(lambda: (flows.update(), [f for f in flows.seen.values() if (f['remote'], str(f['remote_port']), f['end']) ==
                                             (address, port, end)])[1], lambda: f'tcp flows does not say {end} of {remote}')

    refused(expect)
    unanswered(expect)
    abandoned(expect)
    closed(expect)
    reset(expect)
    timed_out(expect, flows)
    flows.end()
    check(not lines.stop(), 'tcp closed failed', lines)
    print(lines.stdout())
    os.close(tun)


main()
