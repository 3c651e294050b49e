# SPDX-License-Identifier: Apache-2.0
"""'sidelight agent --tcp' publishes the kernel's tables; 'sidelight dump --agent' reads them as any
consumer does, and no consumer can write to them."""
import atexit
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from support import flows
from support.flows import (differences, held, libc, loaders, name_of, needs_bpf, pair, receive, still_there,
                           without_capabilities)
from support.http import request_at
from support.process import Part, case, fail, reachable, run_cases, wait_until, workdir
from support.protocol import STATUS, Client, Region, consume

EXE = sys.argv[1]
MAGIC = 0x314d4c53  # "SLM1"


class Agent(Part):
    def __init__(self, *args):
        self.socket = f'{workdir()}/agent.sock'
        super().__init__(EXE, 'agent', '--socket', self.socket,
                         '--netns', f'/proc/{os.getpid()}/ns/net', *args)
        self.rest = self.ready()['rest']

    def dump(self, kind, *args):
        """Returns the region's own object, and the objects that follow."""
        def answered():
            p = subprocess.run([EXE, 'dump', '--agent', self.socket, '--kind', kind, '--json', *args],
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
            return 'did not answer' not in p.stderr and p
        p = wait_until(answered, 'the agent answers', self)  # dump waits two seconds, which may be too few on a busy machine
        if p.returncode:
            fail(f'dump --kind {kind}: {p.stderr}', self)
        rows = [json.loads(line) for line in p.stdout.splitlines()]
        if 'read' not in rows[-1] or rows[-1]['read']['unsettled']:
            fail(f'dump --kind {kind}: {rows[-1]}', self)
        return rows[0]['region'], rows[1:-1]

    def flow(self, sock):
        ends = name_of(sock)
        for f in self.dump('flows')[1]:
            if 'local' in f and (f['local'], f['local_port'], f['remote'], f['remote_port']) == \
                    (*ends[0], *ends[1]) and not f['closed']:
                return f
        return None

    def cgroups(self):
        return {r['cgroup']['id']: r['cgroup'] for r in self.dump('flows')[1] if 'local' not in r}

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        return request_at(self.rest, method, path, data, {'Content-Type': 'application/json'})

    def status(self):
        return json.loads(subprocess.run([EXE, 'agent', '--status', '--json', '--socket', self.socket],
                                         check=True, stdout=subprocess.PIPE).stdout)


def exchange(client, server, n=1):
    for _ in range(n):
        client.sendall(b'q' * 100)
        receive(server, 100)
        server.sendall(b'r' * 300)
        receive(client, 300)


@case
def flows_layers_and_tasks_are_read_through_the_agent_and_true():
    agent = Agent('--tcp', 'flows,layers,cpu', '--tcp-flows', '1000')
    client, server = pair()
    exchange(client, server, 50)
    bad = {}

    def agrees():
        for s, wrote, read in ((client, 5000, 15000), (server, 15000, 5000)):
            f = agent.flow(s)
            bad[s] = differences(f, s, write_bytes=wrote, read_bytes=read) if f else ['no flow']
        return not any(bad.values())
    wait_until(agrees, lambda: str(list(bad.values())), agent, seconds=30)
    dumped = {}

    def fifty():
        """Each request is timed once. The table of flows may have been published at another time."""
        dumped['region'], rows = agent.dump('layers')
        dumped['mine'], theirs = ([r['flow_layers'] for r in rows if 'flow_layers' in r and
                                   r['flow_layers']['local_port'] == s.getsockname()[1]] for s in (server, client))
        if len(dumped['mine']) != 1 or len(theirs) != 1 or dumped['region']['opened'] != 2:
            return False
        total = dumped['mine'][0]['layers']['app']
        return dumped['mine'][0]['count']['requests'] == total['count'] == sum(total['buckets']) == 50
    wait_until(fifty, lambda: str(dumped), agent, seconds=30)
    region, rows = agent.dump('tasks')
    if region['cpus'] != os.sysconf('SC_NPROCESSORS_CONF') or region['tasks_refused']:
        fail(f'{region}', agent)
    worker = subprocess.Popen(['sh', '-c', 'read x; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo; read x'],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    worker.stdin.write(b'\n')
    worker.stdin.flush()
    worker.stdout.readline()
    seen = {}

    def same():
        """The worker sleeps, so that its accounts do not change while they are read."""
        with open(f'/proc/{worker.pid}/schedstat') as f:
            truth = [int(v) for v in f.read().split()]
        seen['truth'] = truth
        seen['row'] = [r['task'] for r in agent.dump('tasks')[1]
                       if 'task' in r and r['task']['pid'] == worker.pid and not r['task']['ended']]
        return seen['row'] and [seen['row'][0][k] for k in ('run_ns', 'wait_ns', 'waits')] == truth
    wait_until(same, lambda: str(seen), agent, seconds=30)
    worker.stdin.close()
    worker.wait()
    tcp = agent.ask('GET', '/tcp')[1]['tcp']
    if [p['name'] for p in tcp['parts']] != ['flows', 'layers', 'cpu'] or not all(p['local'] for p in tcp['parts']):
        fail(f'{tcp}', agent)
    # The same by its id, as every region.
    p = subprocess.run([EXE, 'dump', '--socket', agent.socket, '--all', '--check'], text=True,
                       stdout=subprocess.PIPE)
    if p.returncode or p.stdout.count('kernel table') != 3:
        fail(p.stdout, agent)
    if agent.stop():
        fail('it did not end well', agent)


@case
def the_filter_is_changed_by_rest_and_the_agent_counts():
    agent = Agent('--tcp', '--tcp-flows', '64')
    listener = socket.create_server(('127.0.0.1', 0))
    port = listener.getsockname()[1]
    code, answer = agent.ask('PUT', '/tcp/filter', {'ports': [str(port)]})
    if code != 200 or answer != {'filter': {'ports': [str(port)]}}:
        fail(f'{code} {answer}', agent)
    other = pair()
    client = socket.create_connection(('127.0.0.1', port))
    wait_until(lambda: agent.flow(client), 'the wanted flow', agent, seconds=20)
    if agent.flow(other[0]):
        fail('a flow of another port is there', agent)
    for body, words in (({'ports': ['80x']}, "'80x' is not a valid port"), ({'cidrs': ['10.0.0.0/99']}, '10.0.0.0/99'),
                        ({'sample': 21}, 'sample'), ({'port': 1}, 'port'), ({'ports': 5}, 'ports'),
                        ({'cgroups': ['/none/such']}, '/none/such'), ([], 'object')):
        code, answer = agent.ask('POST', '/tcp/filter', body)
        if code != 400 or words not in answer['error']:
            fail(f'{body}: {code} {answer}', agent)
    if not agent.flow(client):
        fail('a filter that was refused changed something', agent)
    agent.ask('POST', '/tcp/filter', {})
    wait_until(lambda: agent.flow(other[0]), 'the flow that is wanted again', agent, seconds=20)
    # More than there is room for: counted, in the table as in the agent's own metrics.
    many = [socket.create_connection(('127.0.0.1', port)) for _ in range(60)]
    wait_until(lambda: agent.dump('flows')[0]['refused'], 'that it is full', agent, seconds=20)
    # Others connect meanwhile, and the agent reads the table only now and then. Its counter must be between the table's values
    # before and after.
    before = agent.dump('flows')[0]['refused']
    said = wait_until(lambda: max(agent.status()['counters']['tcp_refused'] - before + 1, 0),
                      lambda: f'{before}: {agent.status()["counters"]}', agent) + before - 1
    if said > agent.dump('flows')[0]['refused']:
        fail(f'{said} are more than there were', agent)
    del many
    tcp = agent.ask('GET', '/tcp')[1]['tcp']
    if not tcp['refused'] or not tcp['open']:
        fail(f'{tcp}', agent)


def hand_over(path, number):
    """The descriptor of a region, as a consumer is given it."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(consume(path))
    for kind, body in ((16, b''), (18, struct.pack('<Q', number))):
        s.send(struct.pack('<IHHII', MAGIC, kind, 0, len(body), 1) + body)
        _, fds, _, _ = socket.recv_fds(s, 4096, 1)
    return fds[0]


@case
def a_consumer_can_write_to_nothing():
    agent = Agent('--tcp')
    number = agent.dump('flows')[0]['id']
    fd = hand_over(agent.socket, number)
    if 'bpf-map' not in os.readlink(f'/proc/self/fd/{fd}'):
        fail('no map came', agent)
    for prot in (mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_WRITE):
        try:
            mmap.mmap(fd, 4096, mmap.MAP_SHARED, prot)
        except OSError:
            continue
        fail('it can be mapped for writing', agent)
    try:
        os.close(os.open(f'/proc/self/fd/{fd}', os.O_RDWR))
        fail('it can be opened for writing', agent)
    except OSError:
        pass
    # bpf(BPF_MAP_UPDATE_ELEM) and BPF_MAP_FREEZE by this descriptor.
    bpf = {'x86_64': 321, 'aarch64': 280}[os.uname().machine]
    import ctypes
    key, value = ctypes.create_string_buffer(4), ctypes.create_string_buffer(512)
    update = struct.pack('=IIQQQ', fd, 0, ctypes.addressof(key), ctypes.addressof(value), 0)
    for command, attr in ((2, update), (22, struct.pack('=I', fd).ljust(64, b'\0'))):
        if libc.syscall(bpf, command, attr, len(attr)) != -1:
            fail(f'bpf({command}) by the consumer\'s descriptor succeeded', agent)
    os.close(fd)


@case
def a_new_cgroup_is_named_beside_its_connections():
    root = f'{workdir()}/cgroup2'
    os.mkdir(root)
    if libc.unshare(0x20000) or subprocess.run(['mount', '--make-rprivate', '/']).returncode or \
            subprocess.run(['mount', '-t', 'cgroup2', 'none', root]).returncode:
        print('     (no cgroup2 can be mounted here: names are tried where one can)')
        return
    # Before the folder is removed with all that is in it: that would be the machine's cgroups.
    atexit.register(subprocess.run, ['umount', '-l', root])
    name = f'sl-test-agent-{os.getpid()}'
    folder, quiet = f'{root}/{name}.service', f'{root}/{name}-quiet.service'
    child = sleeper = None
    os.mkdir(folder)
    os.mkdir(quiet)
    try:
        agent = Agent('--tcp', 'flows,cpu')
        child = subprocess.Popen(
            [sys.executable, '-c', 'import os,sys,socket\n'
             f'open({folder!r} + "/cgroup.procs", "w").write(str(os.getpid()))\n'
             's = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname())\n'
             'print(c.getsockname()[1], flush=True); sys.stdin.read()'],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        port = int(child.stdout.readline())
        number = os.stat(folder).st_ino

        def there():
            rows = agent.dump('flows')[1]
            mine = [r for r in rows if r.get('local_port') == port]
            who = [r['cgroup'] for r in rows if 'local' not in r and r['cgroup']['id'] == number]
            return mine and mine[0]['cgroup'] == number and who and who[0]
        who = wait_until(there, lambda: str(agent.dump('flows')[1])[-800:], agent, seconds=30)
        if not who['path'].endswith(os.path.basename(folder)) or who['service'] != name or \
                who['state'] != 'live':
            fail(f'{who}', agent)
        # A cgroup with tasks but without connections has a name, too, because scheduler time is shown by cgroup.
        sleeper = subprocess.Popen([sys.executable, '-c', 'import os,sys\n'
                                    f'open({quiet!r} + "/cgroup.procs", "w").write(str(os.getpid()))\n'
                                    'sys.stdin.read()'], stdin=subprocess.PIPE)
        wait_until(lambda: agent.cgroups().get(os.stat(quiet).st_ino, {}).get('service') == f'{name}-quiet',
                   lambda: str(agent.cgroups()), agent, seconds=30)
    finally:
        for part in filter(None, (child, sleeper)):
            part.kill()
            part.wait()
        for f in folder, quiet:
            wait_until(lambda f=f: not open(f'{f}/cgroup.procs').read(), 'the cgroup is empty', seconds=20)
            os.rmdir(f)
    # Its data is kept; that it is gone is noticed when it is looked up again.
    gone = wait_until(lambda: agent.cgroups().get(number, {}).get('state') == 'closed' and agent.cgroups()[number],
                      lambda: str(agent.cgroups()), agent, seconds=40)
    if gone['service'] != name:
        fail(f'{gone}', agent)


@case
def killed_it_leaves_nothing_loaded_and_the_next_one_knows_whose_connections_there_are():
    agent = Agent('--tcp', 'flows,layers,cpu')
    ends = pair()
    objects = set().union(*(held(pid) for pid in loaders(agent.pid)))  # the loader's
    if len([o for o in objects if o[0] == 'prog']) < 10:
        fail(f'it holds {objects}', agent)
    agent.stop(signal.SIGKILL)
    wait_until(lambda: not still_there(objects), lambda: str(still_there(objects)), seconds=30)
    agent = Agent('--tcp')
    for f in (wait_until(lambda: agent.flow(end), 'a flow that was there', agent, seconds=20) for end in ends):
        if f['pid'] != os.getpid() or 'older' not in f['flags']:
            fail(f'{f}', agent)
    agent.stop()


@case
def a_killed_loader_is_replaced_and_its_tables_begin_anew():
    agent = Agent('--tcp', 'flows,cpu', '--tcp-flows', '64')
    client, server = pair()
    wait_until(lambda: agent.flow(client), 'a flow before the kill', agent, seconds=40)
    listener = socket.create_server(('127.0.0.1', 0))
    many = [socket.create_connection(listener.getsockname()) for _ in range(60)]
    refused = wait_until(lambda: agent.status()['counters']['tcp_refused'], 'that the table is full', agent, seconds=40)
    for s in listener, *many:  # the next loader finds none of them
        s.close()
    loader, = loaders(agent.pid)
    os.kill(loader, signal.SIGKILL)
    wait_until(lambda: any('exited: restarting it helper=tcp' in line for line in agent.err), 'it says so', agent)
    wait_until(lambda: len(loaders(agent.pid)) == 1 and loaders(agent.pid) != [loader], 'another loader', agent)

    def is_back():
        exchange(client, server, 1)
        try:
            return agent.flow(client)
        except AssertionError:  # there is no table until the loader has attached its programs
            return None
    wait_until(is_back, 'the flow again', agent, seconds=60)
    # Only the count in the table starts from 0 again.
    after = agent.status()['counters']['tcp_refused']
    if after < refused:
        fail(f'{refused} refused, then {after}', agent)
    if agent.stop():
        fail('it failed', agent)


@case
def a_refused_filter_of_a_new_loader_matches_nothing():
    other = f'{workdir()}/netns'
    if libc.unshare(0x20000) or subprocess.run(['mount', '--make-rprivate', '/']).returncode:
        print('     (no mount namespace of its own: tried where there is one)')
        return
    with open(other, 'w'):
        subprocess.run(['unshare', f'--net={other}', 'true'], check=True)
    atexit.register(subprocess.run, ['umount', '-l', other], stderr=subprocess.DEVNULL)
    agent = Agent('--tcp')
    client, server = pair()
    wait_until(lambda: agent.flow(client), 'a flow that matches --netns', agent, seconds=40)
    code, answer = agent.ask('PUT', '/tcp/filter', {'netns': other})
    if code != 200:
        fail(f'{code} {answer}', agent)

    def restarted():
        """Returns the flows that the next loader recorded, among them closed ones."""
        loader, = loaders(agent.pid)
        os.kill(loader, signal.SIGKILL)
        wait_until(lambda: loaders(agent.pid) not in ([], [loader]), 'another loader', agent)
        wait_until(lambda: agent.ask('GET', '/tcp')[1]['tcp']['parts'], 'its table', agent, seconds=60)
        exchange(client, server, 10)
        return [row for row in agent.dump('flows')[1] if 'local' in row]

    def refused():
        return (agent.ask('GET', '/tcp')[1]['tcp']['filters_refused'], agent.status()['counters']['tcp_filters_refused'],
                len([line for line in agent.err if 'refuses the filter set by REST' in line and other in line]))
    # Flows that match --netns only are not even recorded between the start of the loader and the filter.
    rows = restarted()
    if rows:
        fail(f'{rows}', agent)
    if refused() != (0, 0, 0):
        fail(f'{refused()}', agent)
    subprocess.run(['umount', other], check=True)
    os.unlink(other)
    rows = restarted()
    if rows:
        fail(f'{rows}', agent)
    wait_until(lambda: refused() == (1, 1, 1), lambda: str(refused()), agent, seconds=20)
    exchange(client, server, 10)
    if agent.flow(client):
        fail('a flow that matches --netns only', agent)
    agent.ask('PUT', '/tcp/filter', {})
    wait_until(lambda: agent.flow(client), 'the flow, which matches the next filter', agent, seconds=20)
    if agent.stop():
        fail('it failed', agent)


@case
def a_stopped_loader_delays_only_its_filters():
    agent = Agent('--tcp')
    loader, = loaders(agent.pid)
    answers = {}

    def put(port):
        try:
            answers[port] = agent.ask('PUT', '/tcp/filter', {'ports': [str(port)]})
        except OSError:  # the agent has ended
            pass
    os.kill(loader, signal.SIGSTOP)
    puts = [threading.Thread(target=put, args=(port,), daemon=True) for port in (1, 2)]
    for thread in puts:
        thread.start()
    time.sleep(0.5)  # until they wait
    begun = time.monotonic()
    Client(agent.socket).publish(Region())
    Client(consume(agent.socket)).ask(STATUS)
    took = time.monotonic() - begun
    if took > 1 or answers:
        fail(f'a publisher and a status request took {took:.1f} s: {answers}', agent)
    os.kill(loader, signal.SIGCONT)
    for thread in puts:
        thread.join(20)
    if sorted(answers) != [1, 2] or any(code != 200 for code, _ in answers.values()):
        fail(f'{answers}', agent)
    # A request does not outlast the loader or the agent.
    for end in (lambda: os.kill(loader, signal.SIGKILL)), (lambda: agent.p.send_signal(signal.SIGTERM)):
        wait_until(lambda: agent.ask('GET', '/tcp')[1]['tcp']['parts'], 'a loaded loader', agent, seconds=60)
        loader, = loaders(agent.pid)
        os.kill(loader, signal.SIGSTOP)
        thread = threading.Thread(target=put, args=(3,), daemon=True)
        thread.start()
        time.sleep(0.5)
        end()
        thread.join(10)
        if thread.is_alive() or answers.pop(3, (0,))[0] == 200:
            fail('a filter that was never set', agent)
    os.kill(loader, signal.SIGCONT)
    if agent.wait():
        fail('it failed', agent)


@case
def what_it_may_not_or_can_not_do_is_said_at_the_start():
    def refused(*args, code=1, words=(), **kw):
        p = subprocess.run([EXE, 'agent', '--socket', f'{workdir()}/a', '--no-rest', *args], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, **kw)
        lines = [line for line in p.stderr.splitlines() if line]
        if p.returncode != code or len(lines) != 1 or not all(w in lines[0] for w in words):
            fail(f'{args}: exit {p.returncode}: {p.stderr}')
    refused('--tcp', 'flow', code=2, words=("'flow'", 'flows, layers, cpu'))
    refused('--tcp', 'flows', '--port', '80x', code=2, words=("'80x'",))
    refused('--port', '80', code=2, words=('--tcp',))
    socket_folder = workdir()
    os.chmod(socket_folder, 0o777)
    p = subprocess.run([reachable(EXE, 'agent'), 'agent', '--socket', f'{socket_folder}/b', '--no-rest', '--tcp'], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                       preexec_fn=without_capabilities)
    if p.returncode != 1 or 'CAP_' not in p.stderr:
        fail(f'without capabilities: exit {p.returncode}: {p.stderr}')


needs_bpf()
flows.own_network()
run_cases()
