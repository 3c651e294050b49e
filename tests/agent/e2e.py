#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sidelight agent as a process: e2e.py SIDELIGHT COUNTER TEST"""
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from sl import *  # noqa: E402,F403

SCALE = float(os.environ.get('SL_TEST_SCALE', '1'))


def counter(agent, threads=1):
    p = subprocess.Popen([sys.argv[2], agent.socket, str(threads)], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True, bufsize=1)
    assert p.stdout.readline() == 'counting\n'
    return p


def the_entry(consumer, state=None):
    return wait_for(lambda: next((e for e in consumer.entries()
                                  if state is None or e['state'] == state), None))


def sees_publisher_death_at_once():
    with Agent() as agent:
        c = Consumer(agent.socket)
        took = []
        for _ in range(20):
            p = counter(agent)
            e = the_entry(c, LIVE)
            view = c.open(e['id'])
            wait_for(lambda: total(view).get('ticks_total'))
            view.close()
            start = time.monotonic()
            p.kill()
            wait_for(lambda: c.entry(e['instance'])['state'] == DEAD, every=0.0001)
            took.append(time.monotonic() - start)
            p.wait()
            view = c.open(e['id'])
            assert view.line(4096)[4] & 0xff == DEAD
            assert total(view)['ticks_total'] > 0  # verifies every line on the way
            view.close()
        took.sort()
        print(f'median {took[10] * 1000:.2f} ms, longest {took[-1] * 1000:.2f} ms')
        # Nothing else than the hang-up could tell it before --grace is over.
        assert took[10] < 1, took
        n = agent.status()['counters']
        assert n['dead'] == 20 and n['closed'] == 0, n


def tells_close_from_death():
    with Agent() as agent:
        c = Consumer(agent.socket)
        p = counter(agent, 2)
        e = the_entry(c, LIVE)
        p.stdin.write('\n')
        want = int(p.stdout.readline())
        p.stdin.write('\n')
        p.wait()
        wait_for(lambda: c.entry(e['instance'])['state'] == CLOSED)
        view = c.open(e['id'])
        assert view.line(4096)[4] & 0xff == CLOSED
        assert total(view)['ticks_total'] == want
        view.close()


def expires_the_dead_exactly_after_grace():
    grace, lease = 2, 0.2  # it is opened and read in that time
    with Agent('--grace', '2s', '--lease', '200ms') as agent:
        c, p, r = Consumer(agent.socket), Client(agent.socket), Region()
        r.line(8192, (1234, 0, 0, 0, 0, 0, 0), mixed=True)
        id, _ = p.publish(r)
        p.close()
        start = time.monotonic()
        wait_for(lambda: c.entry(r.instance)['state'] == DEAD)
        view = c.open(id)
        assert view.line(8192, mixed=True)[0] == 1234
        view.close()
        wait_for(lambda: c.entry(r.instance)['state'] == RETIRED)
        retired = time.monotonic() - start
        try:
            c.open(id)
            raise AssertionError('a retired region was opened')
        except Refused as e:
            assert e.error == 2, e
        wait_for(lambda: not c.entry(r.instance))
        freed = time.monotonic() - start
        print(f'retired after {retired:.3f} s, freed after {freed:.3f} s')
        # Not a moment early; how late, is up to the machine.
        assert grace <= retired <= freed and grace + 2 * lease <= freed
        assert agent.status()['use']['memory']['used'] == 0


def kills_lose_no_increment():
    """MicroView's defects 5 and 8: a restart on one side needed one on the other; counts lost."""
    agent = Agent()
    folder, own = agent.folder, agent.own_folder
    agent.own_folder = False
    p = counter(agent, 4)
    instance = None
    try:
        for i in range(5):
            c = Consumer(agent.socket)
            e = wait_for(lambda: next((e for e in c.entries() if e['state'] == LIVE), None))
            assert instance in (None, e['instance'])  # the same memory
            instance = e['instance']
            time.sleep(0.05)
            agent.kill()
            c.close()
            start = time.monotonic()
            agent = Agent(folder=folder)
        c = Consumer(agent.socket)
        e = the_entry(c, LIVE)
        print(f'attached again after {time.monotonic() - start:.2f} s')
        assert time.monotonic() - start < 60
        p.stdin.write('\n')
        want = int(p.stdout.readline())
        view = c.open(e['id'])
        got = total(view)['ticks_total']
        print(f'{want} increments')
        assert got == want, (got, want)
        p.stdin.write('\n')
        p.wait()
        wait_for(lambda: c.entry(instance)['state'] == CLOSED)
        assert total(view)['ticks_total'] == want
        view.close()
    finally:
        p.kill()
        p.wait()
        agent.stop()
        shutil.rmtree(folder)


def lost_connection_leaves_memory_readable():
    """The process lives and writes on: its lines must not be 'repaired' under it."""
    with Agent('--grace', '20s') as agent:
        c = Consumer(agent.socket)
        client, r = Client(agent.socket), Region()
        # A line in the middle of an update, by a process that lives.
        r.map[8192:8192 + 64] = struct.pack('<8Q', 5, 0, 0, 0, 0, 0, 0, 4 * K[0] & M)
        id, _ = client.publish(r)
        client.close()
        wait_for(lambda: c.entry(r.instance)['state'] == DEAD)
        assert r.map[8192 + 56:8192 + 64] == struct.pack('<Q', 4 * K[0] & M)
        again = Client(agent.socket)
        assert again.publish(r)[0] == id
        assert c.entry(r.instance)['state'] == LIVE
        assert agent.status()['counters']['lines_repaired'] == 0


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
            wait_for(lambda: (c.entry(4711) or {}).get('state') == DEAD)
        finally:
            os.kill(inner, signal.SIGKILL)
            os.close(tells)
            os.close(told)


def survives_hostile_clients():
    rnd = random.Random(1)
    with Agent('--max-regions', '64') as agent:
        before = agent.fds()
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
        wait_for(lambda: agent.fds() <= before + 5, 15, 0.05)
        n = agent.status()['counters']
        assert n['dropped']['malformed'] > 0 and n['refused']['malformed'] > 0, n
        assert len(agent.logged()) < 20000, 'a flood of packets is a flood of lines'


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
        wait_for(slow, 10, 0.2)


def survives_collector_restarts():
    with Agent() as agent:
        client, r = Client(agent.socket), Region()
        id, _ = client.publish(r)
        fds = agent.fds()
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
        wait_for(lambda: agent.fds() <= fds)
        assert agent.status()['use']['consumers'] == 0


def slow_close_of_a_descriptor_delays_no_client():
    """Any descriptor may come; those that are no memory are closed by a thread of their own."""
    with Agent() as agent:
        before = agent.fds()
        for i in range(300):
            s = Client(agent.socket)
            fd = os.open('/', os.O_RDONLY) if i % 2 else os.open('/dev/null', os.O_RDWR)

            def error():
                try:
                    s.ask(PUBLISH, struct.pack('<QQ', 1, 4096), [fd])
                except Refused as e:
                    return e.error
                raise AssertionError('admitted')

            # While 64 wait for the thread, which a busy machine may let wait, none is taken.
            told = []
            wait_for(lambda: told.append(error()) or told[-1] != 24)
            assert told[-1] == 22, told
            os.close(fd)
            s.close()
        wait_for(lambda: agent.fds() <= before)


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


def leaves_the_socket_of_a_live_agent_alone():
    with Agent() as agent:
        second = subprocess.run([Agent.exe, 'agent', '--socket', agent.socket, '--no-rest'],
                                capture_output=True, text=True, timeout=60)
        assert second.returncode == 1, second
        assert second.stdout == '' and second.stderr.count('\n') == 1, second
        assert 'another agent' in second.stderr
        Consumer(agent.socket).close()
    with tempfile.TemporaryDirectory() as d:
        path = d + '/file'
        with open(path, 'w') as f:
            f.write('precious')
        p = subprocess.run([Agent.exe, 'agent', '--socket', path, '--no-rest'],
                           capture_output=True, text=True, timeout=60)
        assert p.returncode == 1 and 'no socket' in p.stderr, p
        with open(path) as f:
            assert f.read() == 'precious'


def replaces_a_stale_socket_and_cleans_up():
    agent = Agent()
    agent.own_folder = False
    agent.kill()
    assert os.path.exists(agent.socket)
    agent = Agent(folder=agent.folder)
    for sig in (signal.SIGTERM, signal.SIGINT):
        agent.p.send_signal(sig)
        assert agent.p.wait(60) == 0
        assert not os.path.exists(agent.socket)
        agent = Agent(folder=agent.folder)
    # The directory that consumers still hold says that there is nobody any more.
    c = Consumer(agent.socket)
    assert agent.stop() == 0
    assert c.directory.line(4096)[4] == CLOSED
    shutil.rmtree(agent.folder)


def refuses_wrong_options_as_usage_errors():
    def fails(code, *args):
        p = subprocess.run([Agent.exe, 'agent', *args], capture_output=True, text=True, timeout=60,
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
                          ('--rdma-settle', '1s'), ('--rdma-address', '127.0.0.1')):
        assert f'{option} needs --rdma' in fails(2, option, value), option
    with tempfile.TemporaryDirectory() as d:
        fails(1, '--no-rest', '--socket', d + '/' + 'x' * 200)
        fails(1, '--status', '--socket', d + '/none')
        fails(1, '--no-rest', '--socket', d + '/s', '--host', b'h\xff')
        fails(1, '--no-rest', '--socket', d + '/s', '--host', 'h' * 2000)
        text = fails(1, '--no-rest', '--socket', d + '/s', '--rdma', 'no_such_device')
        assert 'no_such_device' in text or 'without RDMA' in text, text
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            s.listen()
            port = s.getsockname()[1]
            text = fails(1, '--socket', d + '/s', '--rest', f'127.0.0.1:{port}')
            assert str(port) in text, text
        assert not os.path.exists(d + '/s')


def warns_when_a_default_is_unavailable():
    with socket.socket() as s:
        try:
            s.bind(('127.0.0.1', 5000))
            s.listen()
        except OSError:
            pass  # somebody else has it: as good
        folder = tempfile.mkdtemp(prefix='sl-agent-')
        with open(folder + '/log', 'wb') as log:
            p = subprocess.Popen([Agent.exe, 'agent', '--socket', folder + '/s'],
                                 stdout=subprocess.PIPE, stderr=log, text=True)
        ready = p.stdout.readline()
        p.terminate()
        assert p.wait(60) == 0
        p.stdout.close()
        with open(folder + '/log') as log:
            text = log.read()
        assert ready.startswith('ready ') and 'rest=' not in ready, ready
        assert 'WARN' in text and '--rest' in text, text
        shutil.rmtree(folder)


def reads_settings_from_a_file():
    with tempfile.TemporaryDirectory() as d:
        with open(d + '/agent.yaml', 'w') as f:
            f.write('grace: 5s\nmax-regions: 7\nhost: filehost\nsocket-mode: "0600"\n')
        with Agent('--config', d + '/agent.yaml', '--max-regions', '9') as agent:
            s = agent.status()
            assert s['host'] == 'filehost' and s['grace_ns'] == 5 * 10**9
            assert s['use']['regions']['max'] == 9
            assert os.stat(agent.socket).st_mode & 0o777 == 0o600


def shows_its_status():
    with Agent() as agent:
        client = Client(agent.socket)
        r = Region(labels=(('pod', 'evil\x1b[2J'), ('service', 'shop')))
        client.publish(r)
        out = subprocess.run([Agent.exe, 'agent', '--status', '--socket', agent.socket],
                             capture_output=True, text=True, check=True).stdout
        assert 'shop' in out and 'live' in out, out
        assert '\x1b' not in out
        s = agent.status()
        assert any(x['labels'].get('service') == 'shop' for x in s['regions'])


def lets_another_user_read_nothing():
    if os.geteuid():
        print('SKIP: needs root to become another user')
        sys.exit(77)
    with Agent() as agent:
        os.chmod(agent.folder, 0o755)
        client, r = Client(agent.socket), Region()
        id, _ = client.publish(r)
        pid = os.fork()
        if not pid:
            try:
                os.setgid(65534)
                os.setuid(65534)
                for kind in (SUBSCRIBE, STATUS):
                    try:
                        Client(agent.socket).ask(kind)
                        os._exit(1)
                    except Refused as e:
                        if e.error != 1:
                            os._exit(2)
                own = Region()
                Client(agent.socket).publish(own)  # publishing is for everybody
                os._exit(0)
            except BaseException as e:
                print(e, file=sys.stderr)
                os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def pod_socket_accepts_publishers_only():
    with tempfile.TemporaryDirectory() as d:
        with Agent('--publish-socket', d + '/pub') as agent:
            c = Consumer(agent.socket)
            client, r = Client(d + '/pub'), Region()
            client.publish(r)
            assert c.entry(r.instance)['state'] == LIVE
            for kind in (SUBSCRIBE, STATUS):
                try:
                    Client(d + '/pub').ask(kind)
                    raise AssertionError('answered')
                except Refused as e:
                    assert e.error == 1, e


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
        wait_for(seen)
        view.close()


def descriptors_survive_in_systemd_store():
    """A stand-in for systemd: takes FDSTORE, and gives the descriptors to the next agent."""
    if 'HAVE_SYSTEMD=1' not in os.environ.get('SL_FEATURES', 'HAVE_SYSTEMD=1'):
        print('SKIP: built without libsystemd')
        sys.exit(77)
    folder = tempfile.mkdtemp(prefix='sl-agent-')
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(folder + '/notify')
    notify.settimeout(60)
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
    wait_for(lambda: len(c.entries()) == 2)
    by_pid = {r['pid']: r for r in agent.status()['regions']}
    want = int(by_pid[dead.pid]['instance'], 16)
    dead.kill()
    dead.wait()
    wait_for(lambda: c.entry(want)['state'] == DEAD)
    agent.kill()
    c.close()

    names, fds = list(store), [store[n] for n in store]
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        high = [os.dup2(fd, 200 + i) for i, fd in enumerate(fds)]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i, inheritable=True)
        log = os.open(folder + '/log', os.O_WRONLY | os.O_APPEND)
        os.dup2(log, 2)
        os.dup2(write, 1)
        os.environ.update(env, LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)),
                          LISTEN_FDNAMES=':'.join(names))
        os.execv(Agent.exe, [Agent.exe, 'agent', '--socket', agent.socket, '--no-rest',
                             '--grace', '500ms', '--lease', '50ms'])
    try:
        assert os.read(read, 4096).startswith(b'ready')
        c = Consumer(agent.socket)
        e = c.entry(want)
        with open(folder + '/log') as f:
            assert e and e['state'] == DEAD, (e, names, f.read())
        view = c.open(e['id'])
        assert total(view)['ticks_total'] > 0
        view.close()
        wait_for(lambda: [e for e in c.entries() if e['state'] == LIVE and e['instance'] != want])
        take(lambda: len(store) == 1)  # its grace is over: given back
        wait_for(lambda: not c.entry(want))
        s = agent.status()
        assert s['counters']['restored'] == 2 and s['counters']['reattached'] == 1, s['counters']
    finally:
        live.kill()
        live.wait()
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        agent.p.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


# ---- REST ----------------------------------------------------------------------------------------


def ask(agent, method, path, body=None, headers=None, host=None):
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    req = urllib.request.Request(f'http://{agent.rest}{path}', data=data, method=method)
    if data is not None:
        req.add_header('Content-Type', 'application/json')
    for k, v in (headers or {}).items():
        req.add_header(k, v)
    try:
        with urllib.request.urlopen(req, timeout=60) as r:
            return r.status, json.load(r)
    except urllib.error.HTTPError as e:
        with e:
            return e.code, json.load(e)


def rest_publishes_without_the_library():
    with Agent(rest=True) as agent:
        code, got = ask(agent, 'POST', '/metrics', {
            'microservice_id': 'cart', 'name': 'jobs_total', 'type': 'counter', 'value': 3,
            'labels': {'queue': 'a"b'}, 'help': 'Jobs', 'unit': ''})
        assert code == 201 and got['created'], (code, got)
        code, got = ask(agent, 'POST', '/metrics', {
            'microservice_id': 'cart', 'name': 'jobs_total', 'type': 'counter', 'add': 4,
            'labels': {'queue': 'a"b'}})
        assert code == 200 and got['value'] == 7 and not got['created'], (code, got)
        code, got = ask(agent, 'POST', '/metrics', {
            'microservice_id': 'cart', 'name': 'depth', 'type': 'gauge', 'value': -2.5})
        assert code == 201, got
        c = Consumer(agent.socket)
        view = c.open(next(e['id'] for e in c.entries()))
        assert view.line(8192, mixed=True)[:2] == tuple(
            (b ^ b >> 32) for b in struct.unpack('<2Q', struct.pack('<2d', 7, -2.5)))
        view.close()
        code, layout = ask(agent, 'GET', '/metrics')
        mine = next(r for r in layout['regions'] if r.get('microservice_id') == 'cart')
        assert mine['labels']['service'] == 'cart' and mine['state'] == 'live'
        assert [m['name'] for m in mine['metrics']] == ['jobs_total', 'depth']
        assert mine['metrics'][0]['labels'] == {'queue': 'a"b'}
        assert mine['metrics'][1]['offset'] == 8200
        code, got = ask(agent, 'GET', '/health')
        assert code == 200 and got['status'] == 'ok' and got['live'] == 1, got
        assert ask(agent, 'GET', '/rdma/qps') == (200, {'rdma': False, 'qps': []})
        assert ask(agent, 'GET', '/rdma/qp/17')[0] == 404
        for path in ('/rdma/qps/connect', '/rdma/qp/17/connect'):
            code, got = ask(agent, 'POST', path, {'qp_num': 5, 'gid': '::1'})
            assert code == 409 and '--rdma' in got['error'], (code, got)
        code, got = ask(agent, 'GET', '/rdma/mrs')
        assert code == 200 and len(got['mrs']) == 2 and got['directory']['length'], got
        code, got = ask(agent, 'POST', '/rdma/mrs/create',
                        {'microservice_id': 'big', 'metrics': 2000, 'labels': {'pod': 'p1'}})
        assert code == 201 and got['labels'] == {'service': 'big', 'pod': 'p1'}, got
        assert ask(agent, 'POST', '/rdma/mrs/create', {'microservice_id': 'big'})[0] == 200


def rest_reports_errors():
    good = {'microservice_id': 'm', 'name': 'x', 'type': 'gauge', 'value': 1}
    with Agent(rest=True) as agent:
        def wrong(code, say, body=None, method='POST', path='/metrics', headers=None, **change):
            if body is None:
                body = {k: v for k, v in {**good, **change}.items() if v is not None}
            got = ask(agent, method, path, body if method == 'POST' else None, headers)
            assert got[0] == code and say in got[1]['error'], (got, code, say)

        wrong(400, 'JSON', body=b'{"microservice_id": ')
        wrong(400, 'JSON', body=b'')
        wrong(400, 'JSON', body=b'{"a":1,"a":2}')
        wrong(400, 'JSON', body=b'\xff\xfe')
        wrong(400, 'JSON', body=b'[' * 30000)
        wrong(400, 'object', body=b'[]')
        wrong(400, '"name"', name=None)
        wrong(400, '"name"', name='')
        wrong(400, '"name"', name=7)
        wrong(400, '"name"', name='has space')
        wrong(400, '"name"', name='1x')
        wrong(400, '256 bytes', name='n' * 256)
        wrong(400, '"microservice_id"', microservice_id='s' * 256)
        wrong(400, '"microservice_id"', microservice_id=None)
        wrong(400, '"type"', type='summary')
        wrong(400, 'histogram', type='histogram')
        wrong(400, 'either', value=None)
        wrong(400, 'either', add=1)
        wrong(400, 'number', value='1')
        wrong(400, 'below 0', type='counter', value=-1)
        wrong(400, 'help', help='h' * 1024)
        wrong(400, 'unit', unit='m/s')
        wrong(400, 'labels', labels=[])
        wrong(400, 'label', labels={'a-b': 'c'})
        wrong(400, 'label', labels={'__name__': 'c'})
        wrong(400, 'label', labels={'a': 1})
        wrong(400, 'label', labels={'a': 'v' * 1024})
        wrong(400, 'labels', labels={f'l{i}': '' for i in range(33)})
        wrong(400, 'valeu', valeu=1)
        wrong(400, '"metrics" is not known', metrics=5)  # it belongs to another route
        wrong(400, '"value" is not known', path='/rdma/mrs/create',
              body={'microservice_id': 'q', 'value': 1})
        wrong(400, 'is not known', **{'x' + 40 * 'é': 1})  # cited, and cut within a character
        wrong(400, 'label key', labels={'é': 'v'})
        wrong(400, 'number', value=True)
        wrong(400, 'number', value=[1])
        wrong(400, 'JSON', body=b'{"microservice_id":"m","name":"x","type":"gauge","value":1e999}')
        wrong(400, 'JSON', body=b'{"microservice_id":"a\\u0000b","name":"x","type":"gauge","value":1}')
        wrong(400, 'metrics', path='/rdma/mrs/create', body={'microservice_id': 'q', 'metrics': 0})
        wrong(400, 'queue pair', path='/rdma/qp/first/connect', body={})
        wrong(403, 'web pages', headers={'Origin': 'http://evil.example'})
        wrong(403, 'Host', headers={'Host': 'evil.example:5000'})
        wrong(415, 'application/json', headers={'Content-Type': 'text/plain'})
        wrong(415, 'application/json', headers={'Content-Type': 'application/x-www-form-urlencoded'})
        wrong(404, '', path='/nothing')
        wrong(405, '', method='DELETE')
        wrong(405, '', method='GET', path='/rdma/mrs/create')
        wrong(413, '', body=b'{"help":"' + b'x' * 100000 + b'"}')
        assert ask(agent, 'POST', '/metrics', {**good, 'labels': {'k': 'v'}})[0] == 201
        wrong(409, 'another type', type='counter', labels={'k': 'v'})
        assert ask(agent, 'POST', '/metrics', {**good, 'name': 'big', 'value': 1.7e308})[0] == 201
        wrong(409, 'finite', name='big', value=None, add=1.7e308)
        assert ask(agent, 'POST', '/metrics', {**good, 'name': 'big', 'value': 1})[0] == 200
        for i in range(446):
            code, got = ask(agent, 'POST', '/metrics', {**good, 'name': f'n{i}'})
            assert code == 201, got
        wrong(507, 'no room', name='one_more')
        s = agent.status()['counters']
        assert s['rest_errors'] > 30 and s['rest_updates'] == 449, s


def rest_outside_loopback_needs_a_token():
    with tempfile.TemporaryDirectory() as d:
        token = d + '/token'
        with open(token, 'w') as f:
            f.write('short\n')
        p = subprocess.run([Agent.exe, 'agent', '--socket', d + '/s', '--rest', '127.0.0.1:0',
                            '--rest-token-file', token], capture_output=True, text=True)
        assert p.returncode == 1 and 'token' in p.stderr, p
        with open(token, 'w') as f:
            f.write('0123456789abcdef0123456789abcdef\n')
        os.chmod(token, 0o600)
        with Agent('--rest', '0.0.0.0:0', '--rest-token-file', token) as agent:
            agent.rest = '127.0.0.1:' + agent.rest.rsplit(':', 1)[1]
            assert ask(agent, 'GET', '/health')[0] == 200
            assert ask(agent, 'GET', '/metrics')[0] == 401
            assert ask(agent, 'GET', '/metrics', headers={'Authorization': 'Bearer x'})[0] == 401
            right = {'Authorization': 'Bearer 0123456789abcdef0123456789abcdef'}
            assert ask(agent, 'GET', '/metrics', headers=right)[0] == 200


def rest_pod_expires_when_idle_and_may_return():
    post = {'microservice_id': 'm', 'name': 'x', 'type': 'counter', 'add': 1}
    with Agent('--rest-idle', '1500ms', '--grace', '2s', '--lease', '50ms', rest=True) as agent:
        c = Consumer(agent.socket)
        ask(agent, 'POST', '/metrics', post)
        first = the_entry(c, LIVE)
        wait_for(lambda: c.entry(first['instance'])['state'] == CLOSED)
        assert ask(agent, 'POST', '/metrics', post)[1]['value'] == 2  # in time: the same region
        assert c.entry(first['instance'])['state'] == LIVE
        wait_for(lambda: not c.entries())
        assert ask(agent, 'POST', '/metrics', post)[1]['value'] == 1
        assert agent.status()['counters']['rest_expired'] == 2


def rest_concurrent_posts_lose_no_increment():
    with Agent(rest=True) as agent:
        def work(i):
            for n in range(100):
                code, got = ask(agent, 'POST', '/metrics', {
                    'microservice_id': f'm{n % 3}', 'name': 'x_total', 'type': 'counter', 'add': 1})
                assert code in (200, 201), got
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        values = [ask(agent, 'POST', '/metrics', {
            'microservice_id': f'm{n}', 'name': 'x_total', 'type': 'counter', 'add': 0})[1]['value']
            for n in range(3)]
        assert sum(values) == 400, values


# MicroView's defects, each by its number in the list.


def pages_and_pods_share_no_memory():
    with Agent(rest=True) as agent:
        seen = {}
        for pod in ('a', 'b'):
            for i in range(130):  # over two of MicroView's pages
                code, got = ask(agent, 'POST', '/metrics', {
                    'microservice_id': pod, 'name': f'm{i}', 'type': 'gauge',
                    'value': i + (1000 if pod == 'b' else 0)})
                assert code == 201
                place = (got['instance'], got['offset'])
                assert place not in seen, 'two metrics in one place'
                seen[place] = got['value']
        c = Consumer(agent.socket)
        for e in c.entries():
            view = c.open(e['id'])
            for (instance, offset), value in seen.items():
                if int(instance, 16) == e['instance']:
                    bits, = struct.unpack_from('<Q', view.map, offset)
                    got, = struct.unpack('<d', struct.pack('<Q', bits ^ bits >> 32))
                    assert got == value
            view.close()


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
            wait_for(lambda: not c.entries())


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


def memory_is_read_only_and_rest_is_local():
    with Agent(rest=True) as agent:
        assert agent.rest.startswith('127.0.0.1:')
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
    with Agent('--rest', ':0') as agent:  # no address is loopback, not everything
        assert agent.rest.startswith('127.0.0.1:')


def refuses_long_names_and_keeps_metadata():
    with Agent(rest=True) as agent:
        name = 'n' * 255
        post = {'microservice_id': 'm', 'name': name, 'type': 'gauge', 'value': 1, 'unit': 'bytes',
                'help': 'What it is', 'labels': {'a': 'ü'}}
        assert ask(agent, 'POST', '/metrics', post)[0] == 201
        code, got = ask(agent, 'POST', '/metrics', {**post, 'name': name + 'n'})
        assert code == 400 and '256' in got['error']
        m = next(r for r in ask(agent, 'GET', '/metrics')[1]['regions']
                 if r.get('microservice_id'))['metrics'][0]
        assert (m['name'], m['unit'], m['help'], m['labels']) == (name, 'bytes', 'What it is',
                                                                  {'a': 'ü'})


if __name__ == '__main__':
    run(globals())
