#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_files.py SIDELIGHT ROOT - every file that Sidelight makes has a row in the table of docs/security.md, and the mode
that the row states. The programs run with umask 0, in a folder in which a stranger planted links."""
import glob
import os
import re
import resource
import signal
import stat
import sys

sys.argv[1] = os.path.abspath(sys.argv[1])  # parts run in other folders

from support.front import children, name
from support.process import Part, alive, case, check, run_cases, skip, wait_until, workdir
from support.sidelight import Agent, Collector

EXE, ROOT = sys.argv[1:3]
MAKING = re.compile(r'O_CREAT|\bfopen\([^;]*"[wa][a-z]*"|json_dump_file\(|\bmkdir\(|mkdtemp\(|mkstemp\(|mkfifo\(|symlink\('
                    r'|base_create_file\(|base_open_locked\(|base_listen_unix\(|AF_UNIX.*\bbind\(', re.S)
ANYBODY = ['sh', '-c', 'umask 0 && exec "$@"', 'sh']


def table():
    """Rows of the table of files: (pattern, mode, link, sources)."""
    with open(f'{ROOT}/docs/security.md') as f:
        part = f.read().split('\n## Files that Sidelight makes\n')[1].split('\n## ')[0]
    rows = [[cell.strip() for cell in line.strip('|').split('|')] for line in part.splitlines() if line.startswith('| `')]
    check(len(rows) > 10, rows)
    return [(re.findall('`([^`]+)`', names), mode, re.findall('`([^`]+)`', made)) for names, _, mode, _, made in rows]


def row_of(path):
    """The mode that the table states for the file."""
    base = os.path.basename(path)
    for names, mode, _ in table():
        for pattern in names:
            # A word in capitals matches any text.
            if re.fullmatch('[^/]+'.join(re.escape(p) for p in re.split('[A-Z]{2,}', pattern)), base):
                return int(mode, 8)
    return None


@case
def all_that_is_made_in_the_code_is_in_the_table():
    """A source file that makes files has a row, and a row names sources that make files."""
    said = {path for _, _, made in table() for path in made}
    found = set()
    for path in (p for which in ('src/**/*.c', 'lib/**/*.c', 'src/**/*.py') for p in glob.glob(f'{ROOT}/{which}', recursive=True)):
        with open(path) as f:
            if MAKING.search(re.sub(r'/\*.*?\*/', '', f.read(), flags=re.S)):
                found.add(os.path.relpath(path, ROOT))
    found -= {'src/base/file.c', 'src/base/unix.c', 'src/base/confine_calls.c'}  # these create files on behalf of others
    check(found == said, f'without a row: {found - said}; a row for nothing: {said - found}')


class Everything:
    """Agent, collector and translator with each option that makes a file, in one folder."""

    def __init__(self, before=ANYBODY, folder=None, **how):
        self.folder = folder or workdir()
        self.how = {'before': before, **how}

    def at(self, file):
        return f'{self.folder}/{file}'

    def write(self, file, text):
        with open(self.at(file), 'w') as f:
            f.write(text)
        os.chmod(self.at(file), 0o600)
        return self.at(file)

    def __enter__(self):
        stores = self.write('stores.yaml', f'''
listen: {self.at("dta.sock")}
directory: {self.folder}
stores:
  - {{name: events, number: 2, kind: append, lists: 2, items: 4096, value: 8, batch: 1, lanes: 1}}
''')
        self.agent = Agent('--statsd', f'unix:{self.at("statsd.sock")}', '--otlp', f'unix:{self.at("otlp.sock")}',
                           '--publish-socket', self.at('publish.sock'), folder=self.folder, rest=True, **self.how)
        self.collector = Collector(
            [self.agent], '--period', '50ms', '--analyse', '--warm-up', '1s', '--model', self.at('model'), '--model-every', '1s',
            '--record', self.at('rows'), '--stats-csv', self.at('stats.csv'), '--remote-write', 'http://127.0.0.1:9/',
            '--remote-queue', self.at('queue'), '--otlp', 'http://127.0.0.1:9/', '--otlp-sent', self.at('sent'),
            '--dta', stores, listen=f'unix:{self.at("http.sock")}', **self.how)
        self.translator = Part(*self.how['before'], EXE, 'translate', '--collector', f'unix:{self.at("dta.sock")}',
                               '--collector', f'unix:{self.at("none.sock")}', '--replicas', '2', '--listen', '127.0.0.1:0',
                               '--gaps', self.at('gaps'))
        self.parts = [self.translator, self.collector, self.agent]
        return self

    def made(self):
        """{path: state} of all files except those of the test."""
        found = {}
        for folder, folders, files in os.walk(self.folder):
            for f in folders + files:
                path = os.path.join(folder, f)
                if f != 'stores.yaml':
                    try:
                        found[os.path.relpath(path, self.folder)] = os.lstat(path)
                    except FileNotFoundError:
                        pass
        return found

    def all_made(self):
        wait_until(lambda: {'model', 'gaps', 'queue', 'sent', 'stats.csv', 'rows/metrics', 'dta.sock', 'http.sock',
                            'statsd.sock', 'otlp.sock', 'rest.sock', 'agent.sock', 'publish.sock'} <= set(self.made()),
                   lambda: f'all is made: {sorted(self.made())}', *self.parts)
        return self.made()

    def __exit__(self, *error):
        for part in self.parts:
            if part.p.poll() is None:
                part.stop()


@case
def each_has_the_rights_of_its_row():
    with Everything() as e:
        for path, state in e.all_made().items():
            mode = row_of(path)
            check(mode is not None, f'{path} is not in the table', *e.parts)
            check(stat.S_IMODE(state.st_mode) == mode, f'{path}: {stat.S_IMODE(state.st_mode):#o}, not {mode:#o}')
            check(state.st_uid == os.geteuid(), f'{path} is of {state.st_uid}')


def refused(file, *words):
    """With a link in place of this file, the command says so and ends. The target of the link stays unchanged."""
    folder, victim = workdir(), f'{workdir()}/victim'
    os.mkdir(victim) if file.endswith('metrics') else open(victim, 'w').close()
    os.chmod(victim, 0o700)
    before = os.stat(victim)
    os.makedirs(os.path.dirname(f'{folder}/{file}'), exist_ok=True)
    os.symlink(victim, f'{folder}/{file}')
    with open(f'{folder}/stores.yaml', 'w') as f:
        f.write(f'listen: {folder}/dta.sock\ndirectory: {folder}\nstores:\n'
                '  - {name: flows, number: 1, kind: key-write, slots: 2000, value: 8, copies: 2}\n')
    p = Part(EXE, *(str(w).replace('HERE', folder) for w in words))
    wait_until(lambda: p.p.poll() is not None or p.out, f'{file} is refused', p)
    if p.p.poll() is None:
        p.kill()
    check(p.p.returncode == 1 and any(folder in line for line in p.err), f'{file} is refused with a line', p)
    after = os.stat(victim)
    check(os.path.islink(f'{folder}/{file}') and not os.path.isdir(victim) or not os.listdir(victim), f'{file}: it was followed')
    check((before.st_size, before.st_mtime_ns, before.st_mode) == (after.st_size, after.st_mtime_ns, after.st_mode),
          f'{file}: what the link leads to was changed')


@case
def a_planted_link_is_not_followed():
    agent = ('agent', '--no-rest', '--socket', 'HERE/agent.sock')
    collect = ('collect', '--agent', 'HERE/agent.sock', '--listen', '127.0.0.1:0')
    refused('agent.sock', *agent)
    refused('agent.sock.lock', *agent)
    refused('agent.sock.consume.lock', *agent)
    refused('rest.sock', 'agent', '--socket', 'HERE/agent.sock', '--rest', 'unix:HERE/rest.sock')
    refused('http.sock', *collect[:3], '--listen', 'unix:HERE/http.sock')
    refused('dta.sock', *collect, '--dta', 'HERE/stores.yaml')
    refused('queue', *collect, '--remote-write', 'http://127.0.0.1:9/', '--remote-queue', 'HERE/queue')
    refused('sent', *collect, '--otlp', 'http://127.0.0.1:9/', '--otlp-sent', 'HERE/sent')
    for file in 'events.csv', 'verdicts.csv', 'metrics':
        refused(f'rows/{file}', *collect, '--analyse', '--record', 'HERE/rows')
    refused('gaps', 'translate', '--collector', 'unix:HERE/a', '--collector', 'unix:HERE/b', '--replicas', '2', '--listen',
            '127.0.0.1:0', '--gaps', 'HERE/gaps')


@case
def a_file_of_another_user_is_refused():
    """The owner of a file could truncate it while it is read, or read its contents."""
    if os.geteuid():
        skip('no second user')
    for option, *words in (('--remote-queue', 'collect', '--agent', '/nowhere', '--listen', '127.0.0.1:0', '--remote-write',
                            'http://127.0.0.1:9/'),
                           ('--otlp-sent', 'collect', '--agent', '/nowhere', '--listen', '127.0.0.1:0', '--otlp',
                            'http://127.0.0.1:9/'),
                           ('--gaps', 'translate', '--collector', 'unix:/nowhere/a', '--collector', 'unix:/nowhere/b',
                            '--replicas', '2', '--listen', '127.0.0.1:0')):
        path = f'{workdir()}/file'
        open(path, 'w').close()
        os.chown(path, 65534, 65534)
        p = Part(EXE, *words, option, path)
        wait_until(lambda: p.p.poll() is not None or p.out or os.path.getsize(path), f'{option} is refused', p)
        if p.p.poll() is None:
            p.kill()
        check(p.p.returncode == 1 and path in p.logged() and 'another user' in p.logged(), f'{option} is refused', p)
        check(not os.path.getsize(path), f'{option} was used')


def tree(pid):
    """The process and its descendants."""
    return [pid, *(p for c in children(pid) for p in tree(c))]


@case
def a_crash_leaves_no_file():
    """A crash leaves neither a core file, which would contain secrets and tenants' data, nor a file of a library."""
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
    before = ['sh', '-c', 'cd "$0" && umask 0 && exec "$@"']
    folder = workdir()
    with Everything(before=[*before, folder]) as e:
        e.all_made()
        for part in e.parts:
            check(os.readlink(f'/proc/{part.pid}/cwd') == folder, 'its folder')
            # Descendants first, because they end with their parent; and it would end by itself without the process that starts them.
            pids = tree(part.pid)
            os.kill(part.pid, signal.SIGSTOP)
            for pid in reversed(pids):
                what = name(pid)
                os.kill(pid, signal.SIGABRT)
                if pid == part.pid:  # the others are not stopped, and may have gone already
                    os.kill(pid, signal.SIGCONT)
                wait_until(lambda: not alive(pid), f'{what} ends', part)
            check(part.wait() == -signal.SIGABRT, f'the signal is what ends {what}: {part.p.returncode}', part)
        check(not os.listdir(folder), f'left: {os.listdir(folder)}')


if __name__ == '__main__':
    run_cases(only=sys.argv[3:])
