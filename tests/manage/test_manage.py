#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_manage.py SIDELIGHT - 'sidelight manage' starts, shows, tests and stops the parts of one file, here and over
ssh, and reports parts that die, lie or belong to another file."""
import ctypes
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
from support.process import fail, poll, workdir

EXE = os.path.abspath(sys.argv[1])


def manage(*args, code=0, env=None):
    p = subprocess.run([EXE, 'manage', *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=300, env=env)
    if p.returncode != code:
        fail(f'manage {args}: exit {p.returncode}, not {code}:\n{p.stdout}{p.stderr}')
    return p.stdout, p.stderr


def states(path, code):
    return {p['part']: p for p in json.loads(manage('--json', 'status', path, code=code)[0])}


def file(text, folder=None):
    folder = folder or workdir()
    path = f'{folder}/parts.yaml'
    with open(path, 'w') as f:
        f.write(text.replace('DIR', f'{folder}/run'))
    return path, f'{folder}/run'


PAIR = '''
name: pair
directory: DIR
files: [settings.yaml]
parts:
  - {name: agent, run: [agent, --no-rest, --socket, "${directory}/a b'c.sock"]}
  - {name: collector, run: [collect, --agent, "${directory}/a b'c.sock", --listen, "127.0.0.1:0", --config, settings.yaml]}
test:
  - name: pods publish
    run: [generate, metrics, --socket, "${directory}/a b'c.sock", --pods, 2, --metrics, 3, --updates, 10]
  - {name: it answers, shell: 'for i in 1 2 3; do [ "${i}" != 4 ] && curl -sf http://${collector.listen}/-/healthy; done'}
'''


def here():
    path, folder = file(PAIR)
    with open(os.path.dirname(path) + '/settings.yaml', 'w') as f:
        f.write('period: 20ms\n')
    if {s['state'] for s in states(path, 1).values()} != {'down'}:
        fail('something is up before it was started')
    out, _ = manage('up', path)
    if out.count('ready ') != 2:
        fail(out)
    seen = states(path, 0)
    if any(s['state'] != 'up' or not s['ready'].startswith('ready ') for s in seen.values()):
        fail(f'{seen}')
    if 'up already' not in manage('up', path, code=1)[1] or states(path, 0) != seen:
        fail('started twice')
    out, _ = manage('test', path)
    if not out.endswith('test: 2 passed, 0 failed\n'):
        fail(out)
    # A step that fails, one that takes too long, one with unexpected output, and a bench figure.
    with open(path) as f:
        text = f.read()
    with open(path, 'w') as f:
        f.write(text + '''
  - {name: wrong code, shell: exit 3}
  - {name: right code, shell: exit 3, exits: 3}
  - {name: slow, shell: sleep 60, within: 300ms}
  - {name: other words, shell: echo yes, prints: ^no$}
  - {name: of an absent part, run: [version, "${absent.key}"]}
bench:
  - {name: figure, shell: 'echo "{\\"value\\": 7}"', times: 3}
''')
    judged = json.loads(manage('--json', 'test', path, code=1)[0])
    if (judged['passed'], judged['failed'], judged['ok']) != (3, 4, False):
        fail(f'{judged}')
    why = {s['step']: s.get('why', '') for s in judged['test']}
    for name, words in (('wrong code', 'exit 3, not 0'), ('slow', 'too long'), ('other words', "'^no$'"),
                        ('of an absent part', 'absent.key'), ('right code', '')):
        if words not in why[name] or bool(words) != bool(why[name]):
            fail(f'{name}: {why[name]!r}')
    figures = json.loads(manage('--json', 'bench', path)[0])['bench']
    if figures[0]['printed'] != [{'value': 7}] * 3:
        fail(f'{figures}')
    # Killed: seen, and no test is run on the rest.
    os.kill(seen['collector']['pid'], signal.SIGKILL)
    if not poll(lambda: states(path, 1)['collector']['state'] == 'dead'):
        fail(f'{states(path, 1)}')
    if '1 of 2 parts are up' not in manage('test', path, code=1)[1]:
        fail('tested half of it')
    # Another process has its number by now, and is left alone.
    other = subprocess.Popen(['sleep', '60'])
    with open(f'{folder}/collector.pid', 'w') as f:
        f.write(f'{other.pid} 12345\n')
    if states(path, 1)['collector']['state'] != 'dead':
        fail('another process was taken for ours')
    manage('down', path)
    if other.poll() is not None:
        fail('another process was stopped')
    other.kill()
    other.wait()
    if os.path.exists(folder) or os.path.exists(f'/proc/{seen["agent"]["pid"]}/exe'):
        fail('something was left')
    if manage('down', path)[0]:
        fail('stopped twice')
    # Around a test: a passed test leaves nothing, a failed one leaves its output.
    manage('--up', '--json', 'test', path, code=1)
    if sorted(os.listdir(folder)) != ['agent.err', 'agent.out', 'collector.err', 'collector.out', 'settings.yaml']:
        fail(f'{os.listdir(folder)}')


def the_reader_of_the_output_has_gone():
    """The reader has exited, as after '| head -1'. All parts are stopped nevertheless."""
    path, folder = file(PAIR)
    with open(os.path.dirname(path) + '/settings.yaml', 'w') as f:
        f.write('period: 20ms\n')
    manage('up', path)
    for words in (('down',), ('--up', 'test')):
        r, w = os.pipe()
        os.close(r)
        code = subprocess.run([EXE, 'manage', *words, path], stdin=subprocess.DEVNULL, stdout=w, stderr=w, timeout=300).returncode
        os.close(w)
        if code != 1 or os.path.exists(folder):
            fail(f'{words}: exit {code}, {states(path, 1)}')


def what_does_not_come_up():
    path, folder = file('''
name: half
directory: DIR
parts:
  - {name: agent, run: [agent, --no-rest, --socket, "${directory}/a.sock"]}
  - {name: lost, run: [collect, --agent, "${directory}/a.sock", --listen, nonsense]}
''')
    _, err = manage('up', path, code=1)
    if 'lost: ended before it was ready' not in err or 'nonsense' not in err:
        fail(err)
    if {s['state'] for s in states(path, 1).values()} != {'down'}:
        fail('the first part was left running')
    if 'nonsense' not in open(f'{folder}/lost.err').read():
        fail('what it said is not kept')
    manage('down', path)
    if os.path.exists(folder):
        fail('something was left')
    if os.geteuid() == 0:
        os.mkdir(folder)
        os.chown(folder, 65534, 65534)
        if 'belongs to another user' not in manage('up', path, code=1)[1]:
            fail("it writes into another user's directory")


def bad_files():
    head = 'name: x\nparts: [{name: a, run: [agent]}]\n'
    for text, words in (('', 'says nothing'), ('[]', "expected 'key: value'"), ('name: x\n', "'parts' is missing"),
                        ('name: x\nparts: []\n', "'parts' is missing|parts: expected"),
                        ('name: ../x\nparts: [{name: a, run: [b]}]\n', ':1: name:'),
                        (head + 'hots: {}\n', ":3: unknown key 'hots'; did you mean 'hosts'?"),
                        (head + 'directory: run\n', ':3: directory:'), (head + 'directory: /\n', ':3: directory:'),
                        (head + 'files: [../x]\n', ':3: files:'),
                        (head + 'hosts: {b: {}}\n', ":3: 'ssh' is missing"),
                        (head + 'hosts: {local: {ssh: x}}\n', "'local' is there already"),
                        (head + 'test: [{name: t}]\n', ":3: a step has either 'run' or 'shell'"),
                        (head + 'test: [{name: t, shell: a, prints: "("}]\n', 'no regular expression'),
                        (head + 'test: [{name: t, shell: a, within: 5}]\n', 'within: expected a duration'),
                        ('name: x\nparts:\n- {name: a, run: [b]}\n- {name: a, run: [b]}\n', ":4: part 'a' is there already"),
                        ('name: x\nparts: [{name: a, host: b, run: [c]}]\n', "no host 'b'"),
                        ('name: x\nparts: [{name: a, run: [[b]]}]\n', 'run: expected a single value'),
                        ('a: &a [1]\nb: *a\n', 'aliases')):
        path, _ = file(text)
        out, err = manage('up', path, code=2)
        if out or err.count('\n') != 1 or not any(w in err for w in words.split('|')):
            fail(f'{text!r}: {err}')
    for args, words in ((('up',), 'expected up, down'), (('uo', 'x'), "'uo' is not one of"),
                        (('up', '/nonexistent'), "can't be opened"), (('up', '/dev/zero'), 'is not a regular file')):
        if words not in manage(*args, code=2)[1]:
            fail(f'{args}')


def a_busy_host_gives_no_part_more_time():
    """On this host, each check of a part takes a second. One part is never ready, the other one ignores SIGTERM."""
    folder, sleep = workdir(), shutil.which('sleep')
    for name, line in (('ssh', 'exec sh -s'), ('sleep', f'exec {sleep} 1'), ('mute', f'exec {sleep} 300'),
                       ('deaf', f"trap '' TERM; echo ready; exec {sleep} 300")):
        with open(f'{folder}/{name}', 'w') as f:
            f.write(f'#!/bin/sh\n{line}\n')
        os.chmod(f'{folder}/{name}', 0o755)
    path, _ = file(f'''
name: busy
directory: DIR
hosts:
  one: {{program: {folder}/deaf, ssh: one}}
  other: {{program: {folder}/mute, ssh: other}}
parts:
  - {{name: deaf, host: one, run: [x], stop: 2s}}
  - {{name: mute, host: other, run: [x], ready: 2s}}
''')
    _, err = manage('up', path, code=1, env={**os.environ, 'PATH': f'{folder}:{os.environ["PATH"]}'})
    if 'mute: was not ready in time, and was killed' not in err or 'deaf: did not end on SIGTERM, and was killed' not in err:
        fail(err)


class SshServer:
    """A real ssh server on loopback that accepts one key. It finds a user's keys in the user's home folder, for which a mount
    namespace of its own substitutes another folder."""

    def __init__(self, folder):
        self.folder, self.home = folder, pwd.getpwuid(0).pw_dir
        os.makedirs(f'{folder}/home/.ssh', mode=0o700)
        subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', f'{folder}/key'], check=True)
        shutil.copy(f'{folder}/key.pub', f'{folder}/home/.ssh/authorized_keys')
        subprocess.run(['dropbearkey', '-t', 'ed25519', '-f', f'{folder}/host'], check=True, capture_output=True)
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.port = s.getsockname()[1]

    def __enter__(self):
        """supported: the machine allows it a mount namespace."""
        with open(f'{self.folder}/dropbear.log', 'w') as log:
            self.process = subprocess.Popen(
                ['dropbear', '-F', '-E', '-s', '-p', f'127.0.0.1:{self.port}', '-r', f'{self.folder}/host',
                 '-P', f'{self.folder}/dropbear.pid'], stderr=log, preexec_fn=self._own_home)
        poll(self._listens_or_ended)
        self.supported = self.process.poll() != 99
        if self.supported and self.process.poll() is not None:
            fail(f'dropbear: {open(self.folder + "/dropbear.log").read()}')
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def _own_home(self):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x20000) or libc.mount(b'none', b'/', None, 0x4000 | 1 << 18, None) or \
                libc.mount(f'{self.folder}/home'.encode(), self.home.encode(), None, 4096, None):
            os._exit(99)

    def _listens_or_ended(self):
        if self.process.poll() is not None:
            return True
        with socket.socket() as s:
            return s.connect_ex(('127.0.0.1', self.port)) == 0

    def client(self):
        return f'''[-F, /dev/null, -p, {self.port}, -i, {self.folder}/key, -o, StrictHostKeyChecking=no,
             -o, UserKnownHostsFile=/dev/null, -o, LogLevel=ERROR, root@127.0.0.1]'''


def far_parts(path, run):
    """Parts on another host come up, are tested, die and go."""
    manage('up', path)
    seen = states(path, 0)
    if manage('test', path)[0].splitlines()[-1] != 'test: 2 passed, 0 failed':
        fail('test over ssh')
    # It does not depend on the connection.
    os.kill(seen['agent']['pid'], signal.SIGKILL)
    if not poll(lambda: states(path, 1)['agent']['state'] == 'dead'):
        fail('a dead part of another host is not seen')
    manage('down', path)
    if sorted(os.listdir(run)) != ['a.sock', 'a.sock.consume']:  # it had no time to remove them
        fail(f'left: {os.listdir(run)}')


def mute_part(path):
    """A part that is never ready is killed, and the parts started before it are stopped."""
    with open(path) as f:
        text = f.read()
    with open(path, 'w') as f:
        f.write(text.replace('test:', '  - {name: mute, host: other, run: [60], ready: 500ms}\ntest:'))
    if 'mute: was not ready in time, and was killed' not in manage('up', path, code=1)[1]:
        fail('waits for ever')
    if {s['state'] for s in states(path, 1).values()} != {'down'}:
        fail('what was started before a failure was left')
    manage('down', path)


def over_ssh():
    missing = [p for p in ('dropbear', 'dropbearkey', 'ssh', 'ssh-keygen') if not shutil.which(p)]
    if missing or os.geteuid():
        print(f'SKIP: over ssh: {", ".join(missing) + " missing" if missing else "needs root for a home of its own"}')
        return
    folder = workdir()
    # The program may lie in the home that is hidden from the server's sessions.
    program = shutil.copy(EXE, folder)
    for name in ('agent', 'collect', 'generate'):
        shutil.copy(f'{EXE}-{name}', folder)
    with SshServer(folder) as server:
        if not server.supported:
            print('SKIP: over ssh: no mount namespace of its own here')
            return
        ssh = server.client()
        path, run = file(f'''
name: far
directory: DIR
hosts:
  tor: {{program: {program}, ssh: {ssh}}}
  other: {{program: /bin/sleep, ssh: {ssh}}}
parts:
  - {{name: agent, host: tor, run: [agent, --no-rest, --socket, "${{directory}}/a.sock"]}}
  - {{name: collector, run: [collect, --agent, "${{agent.socket}}", --listen, "127.0.0.1:0"]}}
test:
  - {{name: there, host: tor, run: [generate, metrics, --socket, "${{agent.socket}}", --pods, 1, --updates, 1]}}
  - {{name: and here, shell: 'curl -sf http://${{collector.listen}}/-/healthy'}}
''')
        far_parts(path, run)
        mute_part(path)
    # The host is gone.
    shown, err = manage('status', path, code=1)
    if 'unreachable' not in shown or 'tor: ' not in err:
        fail(f'{shown} {err}')
    if 'could not be stopped on tor' not in manage('down', path, code=1)[1]:
        fail('down of a host that is gone')


def the_example_of_reports():
    """Runs examples/dta unchanged except for its directory, as a test that runs at the same time uses one, too."""
    folder = workdir()
    example = os.path.join(os.path.dirname(os.path.dirname(HERE)), 'examples', 'dta')
    for name in ('local.yaml', 'stores.yaml'):
        with open(f'{example}/{name}') as f, open(f'{folder}/{name}', 'w') as g:
            g.write(f.read().replace('/tmp/sidelight-dta', f'{folder}/run'))
    out, _ = manage('--up', 'test', f'{folder}/local.yaml')
    if not out.count('\nok ') >= 7 or ', 0 failed' not in out or os.path.exists(f'{folder}/run'):
        fail(out)


for f in (bad_files, here, the_reader_of_the_output_has_gone, what_does_not_come_up, a_busy_host_gives_no_part_more_time,
          over_ssh, the_example_of_reports):
    begun = time.monotonic()
    f()
    print(f'ok   {f.__name__} ({time.monotonic() - begun:.1f} s)', flush=True)
