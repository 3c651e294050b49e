#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_edges.py SIDELIGHT - which service calls which is learned from real connections of two services that publish nothing: the
collector makes traces of them, which are in its recording, and 'sidelight replay' gives its verdicts to the bit."""
import atexit
import ctypes
import os
import subprocess
import sys

from support.flows import needs_bpf
from support.process import check, skip, wait_until
from support.sidelight import EXE, Agent, Collector, workdir

PORT = 1502
JOIN = 'import os,socket,sys,time\nopen(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))\n'
SERVE = JOIN + f'''
listener = socket.create_server(("127.0.0.1", {PORT}))
print("ready", flush=True)
c = listener.accept()[0]
while c.recv(100):
    c.sendall(b"answer")
'''
ASK = JOIN + f'''
c = socket.create_connection(("127.0.0.1", {PORT}))
print("ready", flush=True)
while True:
    c.sendall(b"request")
    c.recv(100)
    time.sleep(0.02)
'''


def service(code, folder):
    os.mkdir(folder)
    p = subprocess.Popen([sys.executable, '-c', code, folder], stdout=subprocess.PIPE, text=True)
    check(p.stdout.readline() == 'ready\n', 'no service')
    return p


def main():
    needs_bpf()
    root = f'{workdir()}/cgroup2'
    os.mkdir(root)
    if ctypes.CDLL(None).unshare(0x20000) or subprocess.run(['mount', '--make-rprivate', '/']).returncode or \
            subprocess.run(['mount', '-t', 'cgroup2', 'none', root]).returncode:
        skip('no cgroup2 can be mounted')
    # Runs before the folder is removed with its content, which would include the machine's cgroups.
    atexit.register(subprocess.run, ['umount', '-l', root])
    folders = [f'{root}/sl-test-{name}-{os.getpid()}.service' for name in ('callee', 'caller')]
    parts = []
    try:
        agent = Agent('--hostname', 'one', '--tcp', 'flows', '--netns', f'/proc/{os.getpid()}/ns/net', '--port', str(PORT))
        recording = os.path.join(agent.folder, 'recording')
        parts = [service(code, folder) for code, folder in zip((SERVE, ASK), folders)]
        collector = Collector([agent], '--period', '20ms', '--analyse', '--analyse-step', '200ms', '--warm-up', '3s',
                              '--record', recording)

        def edges():
            with open(os.path.join(recording, 'events.csv')) as f:
                return [line for line in f if all(os.path.basename(x)[:-8] in line for x in folders)]
        traces = wait_until(lambda: len(edges()) > 3 and edges(), lambda: subprocess.getoutput(f'cat {recording}/events.csv'),
                            collector)
        check(collector.stop() == 0, 'the collector failed', collector)
        check(agent.stop() == 0, 'the agent failed', agent)
    finally:
        for p in parts:
            p.kill()
            p.wait()
        for f in filter(os.path.isdir, folders):
            wait_until(lambda f=f: not open(f'{f}/cgroup.procs').read(), 'the cgroup is empty', seconds=20)
            os.rmdir(f)
    with open(os.path.join(recording, 'verdicts.csv')) as f:
        live = f.read()
    p = subprocess.run([EXE, 'replay', recording, '--verdicts', '-'], capture_output=True, text=True, timeout=300)
    check(p.returncode == 0 and p.stdout == live, f'replayed: {p.stderr}')
    print(traces[0].strip())


main()
