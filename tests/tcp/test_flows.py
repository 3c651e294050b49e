# SPDX-License-Identifier: Apache-2.0
"""Each statistic of a flow equals the kernel's own of that socket (TCP_INFO), and the applications'
counts: IPv4, IPv6 and mapped addresses, initiated and accepted, new and old connections."""
import functools
import json
import os
import socket
import subprocess
import sys

from support import flows
from support.flows import Flows, needs_bpf, pair, receive, same_as_tcp_info
from support.process import case, fail, run_cases, wait_until



@functools.cache
def new_flows():
    """One for the cases that look at new flows only: a start takes seconds under emulation."""
    return Flows('--new')


def talk(client, server, rounds, out, back):
    """Requests and responses; returns the bytes each way."""
    for _ in range(rounds):
        client.sendall(b'q' * out)
        receive(server, out)
        server.sendall(b'r' * back)
        receive(client, back)
    return rounds * out, rounds * back


def check(name, got, expected):
    if got != expected:
        fail(f'{name} is {got}, not {expected}')


def both_ends(watch, client, server, sent, back, older=False):
    for sock, wrote, read in ((client, sent, back), (server, back, sent)):
        f = same_as_tcp_info(watch, sock, write_bytes=wrote, read_bytes=read)
        check('older', 'older' in f['flags'], older)
        check('active', 'active' in f['flags'], sock is client and not older)
        if not older:
            if not f['rtt_count']:
                fail(f'no sample of the RTT: {f}')
            mean = f['rtt_sum_us'] / f['rtt_count']
            if not f['rtt_min_us'] <= mean:
                fail(f'the mean RTT is {mean}, below the smallest: {f}')


@case
def every_statistic_is_what_tcp_info_says_for_each_family():
    watch = new_flows()
    for family, to, mapped, printed in ((socket.AF_INET, None, False, 4),
                                        (socket.AF_INET6, None, False, 6),
                                        (socket.AF_INET6, socket.AF_INET, True, 4)):
        client, server = pair(family, '127.0.0.1' if family == socket.AF_INET else '::',
                              client_family=to)
        sent, back = talk(client, server, 50, 128, 3000)
        both_ends(watch, client, server, sent, back)
        f = watch.of(*flows.name_of(server))
        check('family', f['family'], printed)
        check('mapped', 'mapped' in f['flags'], mapped)
        check('pid', watch.of(*flows.name_of(client))['pid'], os.getpid())
        if to is None:
            ends = flows.name_of(client)
            client.close()
            server.close()
            f = wait_until(lambda: watch.of(*ends, closed=True), 'the flow closes', watch.part, seconds=20)
            check('final write_bytes', f['write_bytes'], sent)
            check('final read_bytes', f['read_bytes'], back)


@case
def bulk_data_that_fills_the_window_is_right_to_the_byte():
    """A reader that does not read: the window closes, the queue fills; then it reads on."""
    watch = new_flows()
    client, server = pair(sndbuf=1 << 20, rcvbuf=1 << 16)
    client.setblocking(False)
    sent = 0
    try:
        while True:
            sent += client.send(b'x' * 65536)
    except BlockingIOError:
        pass
    f = wait_until(lambda: (lambda f: f if f and f['queue'] and f['zero_in'] else None)(
        watch.of(*flows.name_of(client))), 'the window closes', watch.part, seconds=20)
    check('write_bytes', f['write_bytes'], sent)
    if f['queue_max'] < f['queue']:
        fail(f'the longest queue is shorter than this one: {f}')
    longest = f['queue']
    unread = wait_until(lambda: (lambda f: f if f and f['zero_out'] else None)(
        watch.of(*flows.name_of(server))), 'our window closes', watch.part, seconds=20)
    check('read_bytes', unread['read_bytes'], 0)
    receive(server, sent)
    both_ends(watch, client, server, sent, 0)
    f = watch.of(*flows.name_of(client))
    if not f['busy_us']:
        fail(f'it had data to send, which shows nowhere: {f}')
    if f['queue_max'] < longest:
        fail(f'the longest queue was {longest}: {f}')


@case
def an_idle_connection_grows_older():
    """Its duration grows even though its statistics are not published again."""
    watch = new_flows()
    client, server = pair()
    talk(client, server, 3, 100, 100)
    at_rest = same_as_tcp_info(watch, client)
    wait_until(lambda: (lambda f: f if f['duration_ns'] > at_rest['duration_ns'] + 10**9 else None)(
        watch.of(*flows.name_of(client))), 'the connection is a second older', watch.part)
    same_as_tcp_info(watch, client)
    server.close()
    client.close()


@case
def connections_made_before_the_start_are_marked_and_right():
    client, server = pair()
    sent, back = talk(client, server, 20, 100, 200)
    watch = Flows()
    for ends in (flows.name_of(client), flows.name_of(server)):
        f = wait_until(lambda: watch.of(*ends), 'old flows show up', watch.part, seconds=20)
        check('whose', (f['pid'], f['comm'], f['by_listener']),
              (os.getpid(), open('/proc/self/comm').read().strip(), False))
    more = talk(client, server, 20, 100, 200)
    both_ends(watch, client, server, sent + more[0], back + more[1], older=True)
    watch.end()
    watch = Flows('--new')
    client.sendall(b'x')
    receive(server, 1)
    new = pair()
    wait_until(lambda: watch.of(*flows.name_of(new[0])), 'a new flow shows up', watch.part, seconds=20)
    if watch.of(*flows.name_of(client)):
        fail('--new shows an old one')
    watch.end()


# unshare() of the PID namespace only affects processes forked afterwards; the first of them has PID 1.
ELSEWHERE = """
import ctypes, os, socket, subprocess
ctypes.CDLL(None).unshare(0x40000000)  # CLONE_NEWNET
subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
ctypes.CDLL(None).unshare(0x20000000)  # CLONE_NEWPID
out, to = os.pipe()
pid = os.fork()
if not pid:
    listener = socket.create_server(('127.0.0.1', 0))
    client = socket.create_connection(listener.getsockname())
    server = listener.accept()[0]
    os.write(to, b'%d %d' % (listener.getsockname()[1], os.getpid()))
    input()
else:
    print(pid, os.read(out, 100).decode(), flush=True)
    os.waitpid(pid, 0)
"""


@case
def containers_have_namespaces_of_their_own_whose_connections_are_found_too():
    elsewhere = subprocess.Popen([sys.executable, '-c', ELSEWHERE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pid, port, there = map(int, elsewhere.stdout.readline().split())
    check('its number there', there, 1)
    inode = os.stat(f'/proc/{elsewhere.pid}/ns/net').st_ino

    def found(watch):
        watch.update()
        there = [f for f in watch.seen.values() if f['netns'] == inode and port in (f['local_port'], f['remote_port'])]
        return sorted((f['state'], 'older' in f['flags'], f['pid']) for f in there) == \
            [('ESTABLISHED', True, pid), ('ESTABLISHED', True, pid), ('LISTEN', True, pid)]
    for args in (('-p', port), ('--netns', f'/proc/{pid}/ns/net'), ('--pid', pid)):
        watch = Flows(*args, netns=False)
        wait_until(lambda: found(watch), lambda: f'three flows of {inode}: {watch.seen}', watch.part, seconds=20)
        watch.end()
    elsewhere.communicate(b'\n', timeout=300)


@case
def what_reset_a_connection_is_known():
    watch = new_flows()
    client, server = pair()
    ends = flows.name_of(client), flows.name_of(server)
    # SO_LINGER of 0: a reset in place of a FIN
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
    client.close()
    f = wait_until(lambda: watch.of(*ends[1], closed=True), 'it is reset', watch.part, seconds=20)
    check('reset_in', 'reset_in' in f['flags'], True)
    f = wait_until(lambda: watch.of(*ends[0], closed=True), 'it resets', watch.part, seconds=20)
    check('reset_out', 'reset_out' in f['flags'], True)
    check('reset_in', 'reset_in' in f['flags'], False)


@case
def an_accept_queue_that_overflows_shows_at_its_listener():
    watch = new_flows()
    listener = socket.socket()
    listener.bind(('127.0.0.1', 0))
    listener.listen(1)
    port = listener.getsockname()[1]
    clients = []
    for _ in range(6):
        c = socket.socket()
        c.setblocking(False)
        c.connect_ex(('127.0.0.1', port))
        clients.append(c)
    f = wait_until(lambda: (lambda f: f if f and f['drops'] else None)(
        watch.of(('127.0.0.1', port), ('0.0.0.0', 0))), 'refusals show', watch.part, seconds=20)
    check('listener', 'listener' in f['flags'], True)
    # The kernel takes one more, and another one if two CPUs find room for theirs at once.
    check('backlog', (min(max(f['backlog'], 2), 3), f['backlog_max']), (f['backlog'], 1))


@case
def calls_are_counted_and_their_process_is_known():
    boundary = {b['boundary']: b for b in PROBE['boundaries']}['calls']
    if boundary['used'] == 'none':
        print('SKIP: calls: ' + boundary['candidates'][0].get('why', 'no tracepoint'))
        return
    watch = Flows('--new', '--calls')
    client, server = pair()
    talk(client, server, 25, 10, 10)
    f = wait_until(lambda: (lambda f: f if f and f['writes'] == 25 else None)(
        watch.of(*flows.name_of(server))), '25 writes', watch.part, seconds=20)
    check('reads', f['reads'], 25)
    check('pid', f['pid'], os.getpid())
    watch.end()


@case
def an_accepted_connection_is_its_listeners_until_it_reads():
    comm = open('/proc/self/comm').read().strip()
    watch = new_flows()
    for family, to, at in ((socket.AF_INET, None, '127.0.0.1'), (socket.AF_INET, None, '0.0.0.0'),
                           (socket.AF_INET6, None, '::'), (socket.AF_INET6, socket.AF_INET, '::')):
        listener = socket.socket(family)  # one that stays
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((at, 0))
        listener.listen()
        client = socket.socket(to or family)
        client.connect(('127.0.0.1' if client.family == socket.AF_INET else '::1', listener.getsockname()[1]))
        server = listener.accept()[0]
        f = wait_until(lambda: watch.of(*flows.name_of(server)), 'the accepted end', watch.part, seconds=20)
        check('whose', (f['pid'], f['comm'], f['by_listener']), (os.getpid(), comm, True))
        f = wait_until(lambda: watch.of(*flows.name_of(client)), 'the other end', watch.part, seconds=20)
        check('whose', (f['pid'], f['by_listener']), (os.getpid(), False))


@case
def what_did_nothing_is_not_shown_again_by_changed():
    watch = Flows('--new', '--changed')
    quiet, busy = pair(), pair()
    numbers = {}
    for ends in (quiet, busy):
        sent, back = talk(*ends, 3, 100, 200)
        for sock, wrote, read in zip(ends, (sent, back), (back, sent)):
            numbers[sock] = same_as_tcp_info(watch, sock, write_bytes=wrote, read_bytes=read)['id']
    total = [3]

    def calm():
        """In ten looks in a row the busy one was shown, and the quiet one at neither end."""
        talk(*busy, 1, 100, 200)
        total[0] += 1
        lines = list(watch.part.out)
        tables = [i for i, line in enumerate(lines) if line.startswith('{"table"')]
        rows = lines[tables[-11]:] if len(tables) > 10 else []
        shown = {json.loads(line).get('id') for line in rows}
        return shown >= {numbers[s] for s in busy} and not shown & {numbers[s] for s in quiet}
    wait_until(calm, 'only the busy one is shown', watch.part, seconds=30)
    same_as_tcp_info(watch, busy[0], write_bytes=100 * total[0], read_bytes=200 * total[0])
    talk(*quiet, 1, 100, 200)
    same_as_tcp_info(watch, quiet[0], write_bytes=400, read_bytes=800)
    ends = flows.name_of(quiet[0])
    for sock in quiet:
        sock.close()
    wait_until(lambda: watch.of(*ends, closed=True), 'its end is shown', watch.part, seconds=20)
    watch.end()


@case
def filters_leave_out_what_is_not_wanted():
    wanted, other = pair(), pair()
    port = wanted[1].getsockname()[1]
    for args in (('-p', port), ('--cidr', '127.0.0.0/8', '-p', f'{port}-{port}')):
        watch = Flows(*args)
        wait_until(lambda: watch.of(*flows.name_of(wanted[0])), 'the wanted flow', watch.part, seconds=20)
        seen, _ = watch.end()
        ports = {p for f in seen.values() for p in (f['local_port'], f['remote_port'])}
        if port not in ports or other[1].getsockname()[1] in ports:
            fail(f'{args}: {ports}')
    for args in (('--cidr', '192.0.2.0/24'), ('--cidr', '2001:db8::/32'), ('--cgroup', '999999999'), ('--pid', '1', '--new')):
        watch = Flows(*args)
        talk(*wanted, 3, 10, 10)
        more = pair()
        talk(*more, 3, 10, 10)
        seen, table = watch.end()
        check(f'flows of {args}', [f for f in seen.values() if f['local'] == '127.0.0.1'], [])
        check(f'refused by {args}', table['refused'], 0)
    watch = Flows('--pid', os.getpid(), '--new')
    mine = pair()
    talk(*mine, 3, 10, 10)
    for sock in mine:
        f = wait_until(lambda: watch.of(*flows.name_of(sock)), 'a flow of ours', watch.part, seconds=20)
        check('pid', f['pid'], os.getpid())
    watch.end()
    # One flow in four is sampled, and the same ones at both ends.
    watch = Flows('--new', '--sample', '2')
    many = [pair() for _ in range(120)]
    seen = wait_until(lambda: (watch.update(), watch.seen)[1], 'some flow', watch.part, seconds=20)
    seen, _ = watch.end()
    ends = {(f['local_port'], f['remote_port']) for f in seen.values() if f['remote_port']}
    check('sampled at one end only', {e for e in ends if e[::-1] not in ends}, set())
    if not 0 < len(ends) < 160:
        fail(f'{len(ends)} of 240 ends were sampled by one in four')
    del many


@case
def a_full_table_counts_what_it_refuses():
    watch = Flows('--new', '--flows', '64')
    # 150 open sockets need slots, but there are 64; a closed socket's slot is free again after its quarantine.
    many = []
    for _ in range(50):
        listener = socket.create_server(('127.0.0.1', 0))
        client = socket.create_connection(listener.getsockname())
        many += [listener, client, listener.accept()[0]]
    wait_until(lambda: (watch.update(), watch.table and watch.table['refused'] == 86)[1], 'all are accounted for',
               watch.part, seconds=20)
    seen, table = watch.end()
    check('flows', len(seen), 64)
    check('slots', table['slots'], 64)
    check('slots in use', table['open'], 64)
    check('refused', table['refused'], 86)
    del many


@case
def a_flow_that_leaves_between_two_looks_is_counted():
    watch = Flows('--new', '--quarantine', '1ms', '-i', '1s')
    for _ in range(20):
        for end in pair():
            end.close()

    def all_counted():
        watch.update()
        ended = sum(f['closed'] for f in watch.seen.values())
        return watch.table and watch.table['unseen'] and ended + watch.table['unseen'] == 3 * 20
    wait_until(all_counted, lambda: f'{len(watch.seen)} seen, {watch.table}', watch.part)
    _, table = watch.end()
    said = [e for e in watch.part.err if 'were replaced between two reads' in e]
    if len(said) != 1 or f'{table["unseen"]} connections' not in said[0]:
        fail(f'{table}: {said}')


@case
def no_permission_names_the_capability_that_is_missing():
    for verb in ('flows', 'probe'):
        p = subprocess.run([flows.EXE, 'tcp', verb], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, preexec_fn=flows.without_capabilities)
        if p.returncode != 1 or p.stdout or p.stderr.count('\n') != 1:
            fail(f'{verb}: {p.returncode} {p.stdout} {p.stderr}')
        for capability in ('CAP_BPF', 'CAP_PERFMON', 'CAP_NET_ADMIN'):
            if capability not in p.stderr:
                fail(f'{verb} does not name {capability}: {p.stderr}')


@case
def a_filter_that_is_none_is_refused_in_one_line():
    for args in (('-p', '0'), ('-p', '70000'), ('-p', '9-1'), ('--cidr', '10.0.0.0/33'),
                 ('--cidr', 'here'), ('--cgroup', '/no/such'), ('--netns', '/no/such'),
                 ('--sample', '21'), ('--json', '--csv')):
        p = subprocess.run([flows.EXE, 'tcp', 'flows', *args], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
        if p.returncode != 2 or p.stdout or p.stderr.count('\n') != 1:
            fail(f'{args}: {p.returncode} {p.stdout} {p.stderr}')


@case
def killed_while_attached_leaves_nothing_loaded():
    watch = Flows('--new', '--calls')
    held = flows.held(watch.part.pid)
    if {kind for kind, _ in held} != {'prog', 'map', 'link'}:
        fail(f'it holds {held}')
    if flows.still_there(held) != held:
        fail('what it holds is not there')
    watch.part.p.kill()
    watch.part.wait()
    wait_until(lambda: not flows.still_there(held), 'everything is unloaded', seconds=20)


@case
def csv_has_the_same_names_and_values():
    client, server = pair()
    p = subprocess.run([flows.EXE, 'tcp', 'flows', '--csv', '-d', '100ms', '-i', '100ms', '-p',
                        str(server.getsockname()[1])], stdout=subprocess.PIPE, text=True)
    head, *rows = [line.split(',') for line in p.stdout.splitlines()]
    check('columns', {len(r) for r in rows}, {len(head)})
    check('rows', len(rows), 2)
    check('ports', {r[head.index('local_port')] for r in rows},
          {str(s.getsockname()[1]) for s in (client, server)})


@case
def the_original_tools_lines_about_flows():
    watch = Flows('--new')
    client, server = pair()
    talk(client, server, 30, 2000, 100)
    f = same_as_tcp_info(watch, client)
    port = server.getsockname()[1]
    p = subprocess.run([flows.EXE, 'tcp', 'flows', '--format', 'microbpf', '-d', '100ms', '-i', '100ms', '-p', str(port)],
                       stdout=subprocess.PIPE, text=True)
    here, there = (f"{f[e]}:{f[e + '_port']}" for e in ('local', 'remote'))
    lines = [line.split() for line in p.stdout.splitlines()]
    check('lines', sorted(w[0] for w in lines), ['3', '3', '6', '6'])
    ack = next(w for w in lines if w[0] == '3' and w[1] == there)
    check('tcpack', ack[1:8], [there, '->', here, '-', '-', 'ESTABLISHED', '(-)'])
    same = ('srtt_us', 'cwnd', 'rcv_wnd', 'retrans', 'fast', 'timeouts', 'bytes_acked', 'bytes_received')
    check('tcpack', ack[8:16], [str(f[name]) for name in same])
    check('in flight', (ack[18], ack[20], len(ack)), ('0', '0', 21))
    sock = next(w for w in lines if w[0] == '6' and w[2] == str(f['local_port']))
    check('tcpsock', sock[1:], [f['local'], str(f['local_port']), f['remote'], str(port),
                                str(60000 // 1024), 'KB', str(3000 // 1024), 'KB'])
    watch.end()


PROBE = needs_bpf()
flows.own_network()
run_cases()
if new_flows.cache_info().currsize:
    new_flows().end()
