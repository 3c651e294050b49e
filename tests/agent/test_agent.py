#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""'sidelight agent' as a process: test_agent.py SIDELIGHT COUNTER CASE"""
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time

from support.process import SCALE, Missed, Part, case, run_cases, skip, wait_until, widen, workdir
from support.protocol import (CLOSED, DEAD, K, LIVE, M, MAGIC, OPEN, PUBLISH, RETIRED, STATUS, SUBSCRIBE,
                              Client, Consumer, Refused, Region, consume, the_entry, total)
from support.sidelight import EXE, Agent, counter


@case
def sees_publisher_death_at_once():
    with Agent() as agent:
        c = Consumer(agent.socket)
        took = []
        for _ in range(20):
            p = counter(agent)
            e = the_entry(c, LIVE)
            view = c.open(e['id'])
            wait_until(lambda: total(view).get('ticks_total'))
            view.close()
            start = time.monotonic()
            p.kill()
            wait_until(lambda: c.entry(e['instance'])['state'] == DEAD, every=0.0001)
            took.append(time.monotonic() - start)
            p.wait()
            view = c.open(e['id'])
            assert view.line(4096)[4] & 0xff == DEAD
            assert total(view)['ticks_total'] > 0  # verifies every line on the way
            view.close()
        took.sort()
        print(f'median {took[10] * 1000:.2f} ms, longest {took[-1] * 1000:.2f} ms')
        # Only the hang-up can tell the agent of the death before --grace is over.
        assert took[10] < 1, took
        n = agent.status()['counters']
        assert n['dead'] == 20 and n['closed'] == 0, n


@case
def tells_close_from_death():
    with Agent() as agent:
        c = Consumer(agent.socket)
        p = counter(agent, 2)
        e = the_entry(c, LIVE)
        want = int(p.tell())
        p.say_goodbye()
        wait_until(lambda: c.entry(e['instance'])['state'] == CLOSED)
        view = c.open(e['id'])
        assert view.line(4096)[4] & 0xff == CLOSED
        assert total(view)['ticks_total'] == want
        view.close()


@case
def expires_the_dead_exactly_after_grace():
    widen(expire, 1, 4, 16)


def expire(factor):
    grace, lease = 2 * factor, 0.2 * factor  # the region is opened and read, and seen to be retired, in that time
    with Agent('--grace', f'{grace}s', '--lease', f'{lease * 1000:.0f}ms') as agent:
        c, p, r = Consumer(agent.socket), Client(agent.socket), Region()
        r.line(8192, (1234, 0, 0, 0, 0, 0, 0), mixed=True)
        id, _ = p.publish(r)
        p.close()
        start = time.monotonic()
        wait_until(lambda: (c.entry(r.instance) or {}).get('state') in (None, DEAD, RETIRED))
        try:
            view = c.open(id)
        except Refused:
            if time.monotonic() - start < grace:
                raise
            raise Missed('the grace')
        assert view.line(8192, mixed=True)[0] == 1234
        view.close()
        wait_until(lambda: (c.entry(r.instance) or {}).get('state') in (None, RETIRED))
        if not c.entry(r.instance):
            raise Missed('the leases')
        retired = time.monotonic() - start
        try:
            c.open(id)
            raise AssertionError('a retired region was opened')
        except Refused as e:
            assert e.error == 2, e
        wait_until(lambda: not c.entry(r.instance))
        freed = time.monotonic() - start
        print(f'retired after {retired:.3f} s, freed after {freed:.3f} s')
        # Not a moment early; how late, is up to the machine.
        assert grace <= retired <= freed and grace + 2 * lease <= freed
        assert agent.status()['use']['memory']['used'] == 0


@case
def kills_lose_no_increment():
    """A restart of one side needs none of the other (MicroView, defects 5 and 8)."""
    agent = Agent()
    p = counter(agent, 4)
    instance = None
    try:
        for i in range(5):
            c = Consumer(agent.socket)
            e = wait_until(lambda: next((e for e in c.entries() if e['state'] == LIVE), None))
            assert instance in (None, e['instance'])  # the same memory
            instance = e['instance']
            time.sleep(0.05)
            agent.kill()
            c.close()
            start = time.monotonic()
            agent = Agent(folder=agent.folder)
        c = Consumer(agent.socket)
        e = the_entry(c, LIVE)
        print(f'attached again after {time.monotonic() - start:.2f} s')
        assert time.monotonic() - start < 60
        want = int(p.tell())
        view = c.open(e['id'])
        got = total(view)['ticks_total']
        print(f'{want} increments')
        assert got == want, (got, want)
        p.say_goodbye()
        wait_until(lambda: c.entry(instance)['state'] == CLOSED)
        assert total(view)['ticks_total'] == want
        view.close()
    finally:
        p.kill()
        agent.stop()


@case
def lost_connection_leaves_memory_readable():
    """The process lives and writes on: its lines must not be 'repaired' under it."""
    with Agent('--grace', '20s') as agent:
        c = Consumer(agent.socket)
        client, r = Client(agent.socket), Region()
        # A line in the middle of an update, by a process that lives.
        r.map[8192:8192 + 64] = struct.pack('<8Q', 5, 0, 0, 0, 0, 0, 0, 4 * K[0] & M)
        id, _ = client.publish(r)
        client.close()
        wait_until(lambda: c.entry(r.instance)['state'] == DEAD)
        assert r.map[8192 + 56:8192 + 64] == struct.pack('<Q', 4 * K[0] & M)
        again = Client(agent.socket)
        assert again.publish(r)[0] == id
        assert c.entry(r.instance)['state'] == LIVE
        assert agent.status()['counters']['lines_repaired'] == 0


@case
def sees_death_despite_inherited_socket():
    with Agent() as agent:
        c = Consumer(agent.socket)
        tells, told = os.pipe()
        pid = os.fork()
        if not pid:
            client, r = Client(agent.socket), Region(4711)
            client.publish(r)
            inner = os.fork()
            if not inner:
                time.sleep(300)
                os._exit(0)
            os.write(told, b'%d' % inner)
            os._exit(0)
        os.waitpid(pid, 0)
        inner = int(os.read(tells, 20))
        try:
            wait_until(lambda: (c.entry(4711) or {}).get('state') == DEAD)
        finally:
            os.kill(inner, signal.SIGKILL)
            os.close(tells)
            os.close(told)


@case
def survives_hostile_clients():
    rnd = random.Random(1)
    with Agent('--max-regions', '64') as agent:
        before = agent.descriptors()
        good, r = Client(agent.socket), Region()
        good.publish(r)
        c = Consumer(agent.socket)
        deadline = time.monotonic() + 4 * SCALE
        sent = worst = 0
        held = []
        while time.monotonic() < deadline:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.setblocking(False)
            try:
                s.connect(agent.socket)
                kind = rnd.randrange(6)
                for _ in range(rnd.randrange(1, 50)):
                    if kind == 0:
                        s.send(rnd.randbytes(rnd.randrange(1, 5000)))
                    elif kind == 1:  # a question whose answer is never taken
                        s.send(struct.pack('<IHHII', MAGIC, SUBSCRIBE, 0, 0, 1))
                    elif kind == 2:
                        fds = [os.dup(0) for _ in range(rnd.randrange(1, 200))]
                        try:
                            socket.send_fds(s, [b'x' * 16], fds)
                        finally:
                            for fd in fds:
                                os.close(fd)
                    elif kind == 3:
                        s.send(struct.pack('<IHHII', MAGIC, rnd.randrange(40), 0, 0, 1))
                    elif kind == 4:
                        fd = os.memfd_create('junk')
                        try:
                            os.write(fd, rnd.randbytes(8192))
                            socket.send_fds(s, [struct.pack('<IHHIIQQ', MAGIC, PUBLISH, 0, 16, 1,
                                                            1, 8192)], [fd])
                        finally:
                            os.close(fd)
                    else:
                        s.send(struct.pack('<IHHIIQ', MAGIC, OPEN, 0, 8, 1, rnd.randrange(9)))
                    sent += 1
            except OSError:
                pass
            if rnd.randrange(3):
                s.close()
            else:
                held.append(s)
            if len(held) > 100:
                held.pop(0).close()
            start = time.monotonic()
            c.open(next(e['id'] for e in c.entries())).close()
            worst = max(worst, time.monotonic() - start)
        print(f'{sent} packets; an honest consumer waited {worst * 1000:.1f} ms at most')
        assert worst < 20
        for s in held:
            s.close()
        assert c.entry(r.instance)['state'] == LIVE
        wait_until(lambda: agent.descriptors() <= before + 5, seconds=90, every=0.05)
        n = agent.status()['counters']
        assert n['dropped']['malformed'] > 0 and n['refused']['malformed'] > 0, n
        assert len(agent.logged()) < 20000, 'a flood of packets is a flood of lines'


# Runs a command whose standard error is a pipe without a reader.
UNREAD = '''import os, signal, sys
r, w = os.pipe()
os.dup2(w, 2)
os.close(r)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])'''


@case
def keeps_running_when_its_log_reader_exits():
    with Agent(before=(sys.executable, '-c', UNREAD)) as agent:
        c = Client(agent.socket)
        c.s.send(b'x')  # the agent logs that it refuses this
        wait_until(lambda: agent.status()['counters']['dropped']['malformed'] == 1)


@case
def drops_a_client_that_reads_no_answers():
    with Agent() as agent:
        c = Consumer(agent.socket)
        client, r = Client(agent.socket), Region()
        id, _ = client.publish(r)
        c.s.settimeout(0.2)

        def slow():
            try:  # until both queues are full: again, if only the agent's was, as it got no CPU
                while True:
                    c.send(OPEN, struct.pack('<Q', id))
            except (TimeoutError, OSError):
                return agent.status()['counters']['dropped']['slow']
        slow()
        fresh = Consumer(agent.socket)
        assert fresh.entry(r.instance)['state'] == LIVE
        wait_until(slow, seconds=60, every=0.2)


@case
def survives_collector_restarts():
    with Agent() as agent:
        client, r = Client(agent.socket), Region()
        id, _ = client.publish(r)
        fds = agent.descriptors()
        for i in range(100):
            pid = os.fork()
            if not pid:  # killed in the middle of it
                c = Consumer(agent.socket)
                c.open(id)
                c.send(OPEN, struct.pack('<Q', id))
                os.kill(os.getpid(), signal.SIGKILL)
            os.waitpid(pid, 0)
        c = Consumer(agent.socket)
        assert c.entry(r.instance)['state'] == LIVE
        assert c.open(id).instance == r.instance
        c.close()
        wait_until(lambda: agent.descriptors() <= fds)
        assert agent.status()['use']['consumers'] == 0


@case
def slow_close_of_a_descriptor_delays_no_client():
    """Any descriptor may come; those that are no memory are closed by a thread of their own."""
    with Agent() as agent:
        before = agent.descriptors()
        for i in range(300):
            s = Client(agent.socket)
            fd = os.open('/', os.O_RDONLY) if i % 2 else os.open('/dev/null', os.O_RDWR)

            def error():
                try:
                    s.ask(PUBLISH, struct.pack('<QQ', 1, 4096), [fd])
                except Refused as e:
                    return e.error
                raise AssertionError('admitted')

            # At most 64 descriptors wait for that thread. While the queue is full, as it may be on a busy machine, the agent
            # refuses further ones with EMFILE (24).
            told = []
            wait_until(lambda: told.append(error()) or told[-1] != 24)
            assert told[-1] == 22, told
            os.close(fd)
            s.close()
        wait_until(lambda: agent.descriptors() <= before)


@case
def keeps_and_reports_its_bounds():
    with Agent('--max-regions', '2', '--max-region-size', '16K', '--max-memory', '1M') as agent:
        keep = []
        for i in range(2):
            client, r = Client(agent.socket), Region()
            client.publish(r)
            keep.append((client, r))
        client, r = Client(agent.socket), Region()
        try:
            client.publish(r)
            raise AssertionError('a third region was admitted')
        except Refused as e:
            assert e.error == 28 and '--max-regions' in e.reason, e
        assert '--max-regions' in agent.logged()
        assert agent.status()['counters']['refused']['regions'] == 1


@case
def leaves_the_socket_of_a_live_agent_alone():
    with Agent() as agent:
        second = subprocess.run([EXE, 'agent', '--socket', agent.socket, '--no-rest'],
                                capture_output=True, text=True, timeout=300)
        assert second.returncode == 1, second
        assert second.stdout == '' and second.stderr.count('\n') == 1, second
        assert 'another agent' in second.stderr
        Consumer(agent.socket).close()
    d = workdir()
    path = d + '/file'
    with open(path, 'w') as f:
        f.write('precious')
    p = subprocess.run([EXE, 'agent', '--socket', path, '--no-rest'],
                       capture_output=True, text=True, timeout=300)
    assert p.returncode == 1 and 'not a socket' in p.stderr, p
    with open(path) as f:
        assert f.read() == 'precious'


@case
def replaces_a_stale_socket_and_cleans_up():
    agent = Agent()
    agent.kill()
    assert os.path.exists(agent.socket)
    agent = Agent(folder=agent.folder)
    for sig in (signal.SIGTERM, signal.SIGINT):
        assert agent.stop(sig) == 0
        assert not os.path.exists(agent.socket)
        agent = Agent(folder=agent.folder)
    # The directory, which consumers still have mapped, says that the agent is gone.
    c = Consumer(agent.socket)
    assert agent.stop() == 0
    assert c.directory.line(4096)[4] == CLOSED


@case
def refuses_wrong_options_as_usage_errors():
    def fails(code, *args):
        p = subprocess.run([EXE, 'agent', *args], capture_output=True, text=True, timeout=300,
                           errors='replace')
        assert p.returncode == code, (args, p)
        assert p.stdout == '' and p.stderr.strip(), (args, p)
        return p.stderr

    fails(2, '--nonsense')
    fails(2, '--max-regions', '0')
    fails(2, '--grace', 'soon')
    fails(2, '--socket-mode', '999')
    fails(2, 'operand')
    fails(2, '--json')
    fails(2, '--rest', '0.0.0.0:0')  # no token
    fails(2, '--rest', 'nonsense')
    fails(2, '--rest', ':1', '--no-rest')
    fails(2, '--consumer-uid', 'root')
    for option, value in (('--queues', '8'), ('--gid', '1'), ('--rdma-port', '7'), ('--ib-port', '2'),
                          ('--rdma-settle', '1s'), ('--rdma-address', '127.0.0.1'),
                          ('--rdma-secret', '/dev/null'), ('--rdma-key-lifetime', '1m')):
        assert f'{option} needs --rdma' in fails(2, option, value), option
    d = workdir()
    fails(1, '--no-rest', '--socket', d + '/' + 'x' * 200)
    fails(1, '--status', '--socket', d + '/none')
    fails(1, '--no-rest', '--socket', d + '/s', '--hostname', b'h\xff')
    fails(1, '--no-rest', '--socket', d + '/s', '--hostname', 'h' * 2000)
    text = fails(1, '--no-rest', '--socket', d + '/s', '--rdma', 'no_such_device')
    assert 'no_such_device' in text or 'without RDMA' in text, text
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        s.listen()
        port = s.getsockname()[1]
        with open(d + '/token', 'w') as f:
            f.write('0123456789abcdef')
        text = fails(1, '--socket', d + '/s', '--rest', f'127.0.0.1:{port}', '--rest-token-file', d + '/token')
        assert str(port) in text, text
    assert not os.path.exists(d + '/s')


@case
def warns_when_a_default_is_unavailable():
    d = workdir()
    with open(d + '/rest.sock', 'w'):
        pass  # a file that is no socket is left alone
    agent = Part(EXE, 'agent', '--socket', d + '/s')
    ready = agent.ready()
    assert agent.stop() == 0
    assert 'rest' not in ready, ready
    text = agent.logged()
    assert 'WARN' in text and '--rest' in text, text
    assert os.path.exists(d + '/rest.sock')
    agent = Part(EXE, 'agent', '--socket', d + '/t/s')
    assert agent.ready()['rest'] == f'unix:{d}/t/rest.sock'
    assert agent.stop() == 0 and not os.path.exists(d + '/t/rest.sock')


@case
def reads_settings_from_a_file():
    d = workdir()
    with open(d + '/agent.yaml', 'w') as f:
        f.write('grace: 5s\nmax-regions: 7\nhostname: filehost\nsocket-mode: "0600"\n')
    with Agent('--config', d + '/agent.yaml', '--max-regions', '9') as agent:
        s = agent.status()
        assert s['host'] == 'filehost' and s['grace_ns'] == 5 * 10**9
        assert s['use']['regions']['max'] == 9
        assert os.stat(agent.socket).st_mode & 0o777 == 0o600


@case
def shows_its_status():
    with Agent() as agent:
        client = Client(agent.socket)
        r = Region(labels=(('pod', 'evil\x1b[2J'), ('service', 'shop')))
        client.publish(r)
        out = subprocess.run([EXE, 'agent', '--status', '--socket', agent.socket],
                             capture_output=True, text=True, check=True).stdout
        assert 'shop' in out and 'live' in out, out
        assert '\x1b' not in out
        s = agent.status()
        assert any(x['labels'].get('service') == 'shop' for x in s['regions'])


@case
def lets_another_user_read_nothing():
    if os.geteuid():
        skip('needs root to become another user')
    with Agent('--consume-mode', '0666') as agent:  # although the mode of the socket admits other users
        os.chmod(agent.folder, 0o755)
        client, r = Client(agent.socket), Region()
        id, _ = client.publish(r)
        pid = os.fork()
        if not pid:
            try:
                os.setgid(65534)
                os.setuid(65534)
                for path, kind in ((agent.socket, SUBSCRIBE), (agent.socket, STATUS),
                                   (consume(agent.socket), SUBSCRIBE), (consume(agent.socket), STATUS)):
                    try:
                        Client(path).ask(kind)
                        os._exit(1)
                    except Refused as e:
                        if e.error != 1:
                            os._exit(2)
                own = Region()
                Client(agent.socket).publish(own)  # any user may publish
                os._exit(0)
            except BaseException as e:
                print(e, file=sys.stderr)
                os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@case
def sockets_of_pods_accept_publishers_only():
    d = workdir()
    with Agent('--publish-socket', d + '/pub', '--consume-socket', d + '/consume') as agent:
        c = Consumer(d + '/consume')
        assert os.stat(d + '/consume').st_mode & 0o777 == 0o600
        for path in (agent.socket, d + '/pub'):
            client, r = Client(path), Region()
            client.publish(r)
            assert c.entry(r.instance)['state'] == LIVE
            for kind in (SUBSCRIBE, STATUS):
                try:
                    Client(path).ask(kind)
                    raise AssertionError('answered')
                except Refused as e:
                    assert e.error == 1 and d + '/consume' in e.reason, e
        out = subprocess.run([EXE, 'agent', '--status', '--socket', d + '/consume'], check=True,
                             capture_output=True, text=True).stdout
        assert 'live' in out, out


@case
def consumers_find_their_socket():
    """A client that names the publishers' socket, as --agent did before there were two, uses the consumers' socket instead."""
    with Agent() as agent:
        assert agent.status()['consume_socket'] == agent.socket + '.consume'
        client, r = Client(agent.socket), Region()
        client.publish(r)
        out = subprocess.run([EXE, 'dump', '--socket', agent.socket], check=True,
                             capture_output=True, text=True).stdout
        assert f'{r.instance:016x}' in out, out
        p = subprocess.run([EXE, 'dump', agent.socket], capture_output=True, text=True)
        assert p.returncode == 1 and p.stderr == f'sidelight dump: {agent.socket}: is a socket; use --socket PATH\n', p.stderr
    assert not os.listdir(agent.folder), 'a socket is left behind'


@case
def publishes_itself():
    with Agent() as agent:
        c = Consumer(agent.socket)
        own = next(e for e in c.entries(True) if e['slot'] == 0)
        view = c.open(own['id'])
        client, r = Client(agent.socket), Region()
        client.publish(r)
        client.close()

        def seen():
            t = total(view)
            return t['sidelight_agent_admitted_total'] == 1 and t['sidelight_agent_dead_total'] == 1
        wait_until(seen)
        view.close()


@case
def descriptors_survive_in_systemd_store():
    """A stand-in for systemd: takes FDSTORE, and gives the descriptors to the next agent."""
    if 'HAVE_SYSTEMD=1' not in os.environ.get('SL_FEATURES', 'HAVE_SYSTEMD=1'):
        skip('built without libsystemd')
    folder = workdir()
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(folder + '/notify')
    notify.settimeout(300)
    env = {'NOTIFY_SOCKET': folder + '/notify'}
    store = {}

    def take(until):
        while not until():
            text, fds, _, _ = socket.recv_fds(notify, 4096, 4)
            lines = dict(x.split('=', 1) for x in text.decode().splitlines() if '=' in x)
            if 'FDSTORE' in lines:
                store[lines['FDNAME']] = fds[0]
            elif 'FDSTOREREMOVE' in lines:
                os.close(store.pop(lines['FDNAME']))

    agent = Agent(folder=folder, env=env)
    live, dead = counter(agent), counter(agent)
    take(lambda: len(store) == 2)
    c = Consumer(agent.socket)
    wait_until(lambda: len(c.entries()) == 2)
    by_pid = {r['pid']: r for r in agent.status()['regions']}
    want = int(by_pid[dead.pid]['instance'], 16)
    dead.kill()
    wait_until(lambda: c.entry(want)['state'] == DEAD)
    agent.kill()
    c.close()

    names, fds = list(store), [store[n] for n in store]
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        high = [os.dup2(fd, 200 + i) for i, fd in enumerate(fds)]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i, inheritable=True)
        log = os.open(folder + '/log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 2)
        os.dup2(write, 1)
        os.environ.update(env, LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)),
                          LISTEN_FDNAMES=':'.join(names))
        os.execv(EXE, [EXE, 'agent', '--socket', agent.socket, '--no-rest',
                             '--grace', '8s', '--lease', '50ms'])
    try:
        assert os.read(read, 4096).startswith(b'ready')
        c = Consumer(agent.socket)
        e = c.entry(want)
        with open(folder + '/log') as f:
            assert e and e['state'] == DEAD, (e, names, f.read())
        view = c.open(e['id'])
        assert total(view)['ticks_total'] > 0
        view.close()
        wait_until(lambda: [e for e in c.entries() if e['state'] == LIVE and e['instance'] != want])
        take(lambda: len(store) == 1)  # its grace is over: given back
        wait_until(lambda: not c.entry(want))
        s = agent.status()
        assert s['counters']['restored'] == 2 and s['counters']['reattached'] == 1, s['counters']
    finally:
        live.kill()
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


@case
def shows_late_metrics_and_pods_until_they_go():
    with Agent('--grace', '50ms', '--lease', '20ms') as agent:
        c = Consumer(agent.socket)
        before = c.directory.line(4096)[0]
        for i in range(30):  # more than ten pages, one after the other, in one slot
            client, r = Client(agent.socket), Region()
            client.publish(r)
            e = c.entry(r.instance)
            assert e and e['state'] == LIVE and e['slot'] == 1, e
            now = c.directory.line(4096)[0]
            assert now > before
            before = now
            client.close()
            r.close()
            wait_until(lambda: not c.entries())


@case
def serves_more_pods_than_a_send_queue_holds():
    with Agent() as agent:
        c = Consumer(agent.socket)
        keep = []
        for _ in range(300):
            client, r = Client(agent.socket), Region()
            client.publish(r)
            keep.append((client, r))
        entries = c.entries()
        assert len(entries) == 300 and len({e['id'] for e in entries}) == 300
        for e in entries:
            c.send(OPEN, struct.pack('<Q', e['id']))  # all at once
            kind, payload, fd = c.receive()
            os.close(fd)


@case
def memory_is_read_only_and_rest_is_local():
    with Agent(rest=True) as agent:
        assert agent.rest.startswith('unix:')
        client, r = Client(agent.socket), Region()
        id, _ = client.publish(r)
        c = Consumer(agent.socket)
        _, _, fd = c.ask(OPEN, struct.pack('<Q', id))
        try:
            os.pwrite(fd, b'x', 8192)
            raise AssertionError('a consumer wrote')
        except OSError:
            pass
        assert not os.fstat(fd).st_mode & 0o222
        os.close(fd)
    token = workdir() + '/token'
    with open(token, 'w') as f:
        f.write('0123456789abcdef')
    with Agent('--rest', ':0', '--rest-token-file', token) as agent:  # no address is loopback, not everything
        assert agent.rest.startswith('127.0.0.1:')


run_cases(only=sys.argv[3:])
