# SPDX-License-Identifier: Apache-2.0
"""'sidelight tcp cpu' and 'tcp why' report the truth, refuse misuse, and leave nothing in the kernel."""
import csv
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from support import flows
from support.flows import held, needs_bpf, pair, still_there, without_capabilities
from support.process import Part, case, fail, run, run_cases, wait_until

EXE = sys.argv[1]
OURS = '--netns', f'/proc/{os.getpid()}/ns/net'


def tcp(*args, **kw):
    return run(EXE, 'tcp', *args, seconds=60, **kw)


class Worker:
    """A process that calls itself something, and works when it gets a line."""

    def __init__(self, name=b'worker'):
        self.p = subprocess.Popen(
            [sys.executable, '-c', 'import sys,ctypes\n'
             f'ctypes.CDLL(None).prctl(15, {name!r})\n'
             'print(flush=True)\n'
             'for line in sys.stdin:\n'
             '    sum(range(1000000))\n'
             '    print(flush=True)\n'],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.p.stdout.readline()

    def work(self):
        self.p.stdin.write('\n')
        self.p.stdin.flush()
        self.p.stdout.readline()

    def schedstat(self):
        """Returns run, wait and waits of the process while it sleeps."""
        def asleep():
            with open(f'/proc/{self.p.pid}/stat', errors='replace') as f:
                if f.read().rpartition(') ')[2][0] != 'S':
                    return None
            with open(f'/proc/{self.p.pid}/schedstat') as f:
                return f.read().split()
        return [int(v) for v in wait_until(lambda: asleep() if asleep() == asleep() else None, 'the worker sleeps',
                                           seconds=20)]

    def end(self):
        self.p.stdin.close()
        self.p.wait()


@case
def a_task_is_shown_with_its_schedstat_and_a_safe_name():
    name = b'\x1b[2J"x,\xff'
    watch = Part(EXE, 'tcp', 'cpu', '--json', '--total', '-i', '50ms')
    watch.ready()
    w = Worker(name)
    w.work()
    want = w.schedstat()

    def row():
        found = None
        for line in list(watch.out):
            r = json.loads(line)
            found = r if r['tid'] == w.p.pid else found
        return found and [found['run_ns'], found['wait_ns'], found['waits']] == want and found
    r = wait_until(row, lambda: f'a row that says {want}', watch, seconds=20)
    if r['pid'] != w.p.pid or r['older'] or r['ended'] or not r['command'] or \
            sum(r['wait_buckets']) + r['unplaced'] != r['waits']:
        fail(f'{r}')
    w.end()
    wait_until(lambda: any(json.loads(line)['tid'] == w.p.pid and json.loads(line)['ended']
                       for line in list(watch.out)), 'the end is seen', watch, seconds=20)
    objects = held(watch.pid)
    if len(objects) < 10 or not still_there(objects):
        fail(f'it holds {objects}', watch)
    watch.stop(signal.SIGKILL)
    wait_until(lambda: not still_there(objects), 'all that it had loaded is gone', seconds=20)


@case
def the_screen_and_csv_show_the_same_of_one_process():
    w = Worker(b'\x1b[2J"x,')
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            w.work()
    t = threading.Thread(target=busy)
    t.start()
    args = ('cpu', '--pid', str(w.p.pid), '-d', '300ms', '-i', '300ms')
    text = tcp(*args).stdout
    rows = list(csv.DictReader(io.StringIO(tcp(*args, '--csv').stdout)))
    stop.set()
    t.join()
    if '\x1b' in text or '?[2J"x,' not in text or str(w.p.pid) not in text:
        fail(f'the screen: {text!r}')
    if not rows or rows[0]['command'] != '?[2J"x,' or int(rows[0]['run_ns']) <= 0:
        fail(f'CSV: {rows}')
    w.end()


@case
def who_is_kept_waiting_is_shown_to_wait():
    # Four that always want the same CPU: each runs or waits all the time, and waits while the others run.
    rivals = [Worker(b'rival') for _ in range(4)]
    cpu = min(os.sched_getaffinity(0))
    for w in rivals:
        os.sched_setaffinity(w.p.pid, {cpu})
        w.p.stdin.write('\n' * 5000)  # more work than it can do during the test
        w.p.stdin.flush()
    # A turn that began before or ends after is in one number or in none: where many wait, a longer look is needed.
    for look in ('400ms', '1s', '4s', '16s'):
        text = tcp('cpu', '--pid', str(rivals[0].p.pid), '-d', look, '-i', look).stdout
        rows = [line.split() for line in text.splitlines()]
        cells = next((r for r in rows if 'rival' in r), None)
        row = cells and dict(zip(next(r for r in rows if 'WAIT%' in r), cells))
        wait, runs = (float(row[c]) for c in ('WAIT%', 'CPU%')) if row else (0, 0)
        if 50 <= wait <= 120 and 80 <= wait + runs <= 120:
            break
    else:
        fail(f'a rival waits three quarters of the time: {text}')
    for w in rivals:
        w.p.kill()
        w.p.wait()
        w.p.stdin.close()
        w.p.stdout.close()


@case
def containers_are_shown_and_a_full_table_is_said():
    mine = [json.loads(line) for line in
            tcp('cpu', '--by', 'container', '--json', '-d', '200ms').stdout.splitlines()]
    if not mine or any('pid' in r or 'ended_tasks' not in r for r in mine):
        fail(f'{mine}')
    if tcp('cpu', '--of', 'no-such-name', '-d', '100ms', '--json').stdout:
        fail('a name that does not exist was found')
    watch = Part(EXE, 'tcp', 'cpu', '--tasks', '1', '-i', '50ms')
    watch.ready()
    wait_until(lambda: subprocess.run(['true']) and
           any('tasks_refused=' in line for line in watch.err), 'that it is full', watch, seconds=20)
    if watch.stop():
        fail('it failed', watch)


@case
def wrong_questions_get_one_line():
    for args in (('cpu', '--by', 'colour'), ('cpu', '--hierarchy', 'nope'), ('cpu', 'x'),
                 ('cpu', '--json', '--csv'), ('cpu', '--by', 'container', '--pid', '1', '-d', '10ms'),
                 ('why',), ('why', ''), ('why', 'a', 'b'), ('why', '--duration', '1us', 'x')):
        p = tcp(*args, code=2)
        if p.stderr.count('\n') != 1 or p.stdout:
            fail(f'{args}: {p.stdout}{p.stderr}')
    for who in ('[2001:db8::1]:9', 'a:b'):
        p = tcp('why', '-d', '100ms', who, code=1)
        if p.stderr.count('\n') != 1 or 'no connection of' not in p.stderr:
            fail(f'{who}: {p.stderr}')
    for args in (('cpu', '-d', '100ms'), ('why', ':80')):
        p = tcp(*args, code=1, preexec_fn=without_capabilities)
        if 'CAP_BPF' not in p.stderr:
            fail(f'{args}: {p.stderr}')
    tcp('cpu', '-d', '100ms', '-o', '/nowhere/at/all', code=1)


@case
def why_a_flow_is_slow_is_one_sentence():
    client, server = pair()
    client.setblocking(False)
    try:
        while True:
            client.send(b'x' * 65536)
    except BlockingIOError:
        pass
    port = server.getsockname()[1]
    seen = [json.loads(line) for line in tcp('why', *OURS, '--json', '-d', '300ms', f':{port}').stdout.splitlines()]
    summary, rows = seen[-1]['summary'], {r['local_port']: r for r in seen[:-1]}
    sender, receiver = rows[client.getsockname()[1]], rows[port]
    if summary != {'connections': 2, 'listeners': 0, 'limits': {'peer-not-reading': 1, 'not-reading': 1}}:
        fail(f'{seen}')
    if sender['limit'] != 'peer-not-reading' or sender['numbers']['peer-window']['value'] != 0 or \
            sender['share'] < 0.5:
        fail(f'{sender}')
    if receiver['limit'] != 'not-reading' or receiver['numbers']['unread']['value'] < 65536:
        fail(f'{receiver}')
    text = tcp('why', *OURS, '-d', '100ms', '%s:%d' % client.getsockname()).stdout
    if 'does not read' not in text or 'peer-window' not in text or '2 connections' not in text:
        fail(text)
    with socket.create_server(('127.0.0.1', 0)) as listener:
        where = ':%d' % listener.getsockname()[1]
        text = tcp('why', *OURS, '-d', '100ms', where).stdout
        with socket.create_connection(listener.getsockname()), listener.accept()[0]:
            both = tcp('why', *OURS, '-d', '100ms', where).stdout
    if not re.match(r'2 connections, 1 listeners: .*1 accepting', both):
        fail(both)
    if not re.search(r'accept-queue-bound +\d+ connections\n', text) or re.search(' \n', text):
        fail(text)
    client.close()
    server.close()


@case
def a_container_in_a_hierarchy_of_version_1_is_found_by_its_process():
    memory = '/sys/fs/cgroup/memory'
    if not os.path.exists(f'{memory}/tasks'):
        print('SKIP: no hierarchy of version 1')
        return
    ident = '0123456789ab' + f'{os.getpid():052x}'
    inner = 'fedcba987654' + ident[12:]  # folders that a container may name itself
    folders = [f'{memory}/docker', f'{memory}/docker/{ident}', f'{memory}/docker/{ident}/docker',
               f'{memory}/docker/{ident}/docker/{inner}']
    made = [f for f in folders if not os.path.exists(f)]
    for f in made:
        os.mkdir(f)
    with open('/proc/self/cgroup') as f:
        home = memory + next(line.split(':', 2)[2].strip() for line in f if ':memory:' in line)

    def move(folder):
        with open(f'{folder}/cgroup.procs', 'w') as f:
            f.write(str(os.getpid()))
    try:
        client, server = pair()
        stop = threading.Event()

        def talk():
            while not stop.is_set():
                client.sendall(b'x')
                server.sendall(server.recv(1))
                client.recv(1)
                time.sleep(0.01)
        t = threading.Thread(target=talk)
        t.start()
        try:
            answers = []
            for folder, of in ((folders[1], ident), (folders[3], inner)):
                move(folder)
                out = tcp('why', *OURS, '--json', '-d', '500ms', of[:16]).stdout
                answers.append([json.loads(line) for line in out.splitlines()][:-1])
        finally:
            stop.set()
            t.join()
        ports = {p.getsockname()[1] for p in (client, server)}
        for rows, of, claimed in zip(answers, (ident, inner), (None, True)):
            if {r['local_port'] for r in rows} != ports or \
                    any((r.get('container_id'), r.get('claimed')) != (of, claimed) for r in rows):
                fail(f'{rows}')
    finally:
        move(home)
        for f in reversed(made):
            os.rmdir(f)


needs_bpf()
flows.own_network()  # a port is another's, too, in another
run_cases()
