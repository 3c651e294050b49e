# SPDX-License-Identifier: Apache-2.0
"""The parts of Sidelight as processes. sys.argv[1] of a test is the program."""
import json
import os
import re
import subprocess
import sys

from support import http
from support.exposition import Scrape
from support.process import Part, check, wait_until, workdir

EXE = sys.argv[1] if len(sys.argv) > 1 else None
# In a guest (tests/guest) the same tests run over RDMA: the agent's device, and its address there.
RDMA = os.environ.get('SL_TEST_RDMA')
RDMA_ADDRESS = os.environ.get('ADDRESS')


class Agent(Part):
    """'sidelight agent' with its socket in a folder of its own, or in that of an agent before it.
    before: words of a command that runs it."""

    def __init__(self, *options, folder=None, rest=False, env=None, before=()):
        self.folder = folder or workdir()
        self.socket = f'{self.folder}/agent.sock'
        if '--rest' not in options:
            options += ('--rest', f'unix:{self.folder}/rest.sock') if rest else ('--no-rest',)
        if RDMA:
            options = ('--rdma', RDMA, *options)
        super().__init__(*before, EXE, 'agent', '--socket', self.socket, *options, env=env)
        self.rest = self.ready().get('rest')

    def ask(self, method, path, body=None, headers=None):
        """Returns (status, JSON) of an answer over REST. body: bytes, or an object for JSON."""
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        kind = {} if data is None else {'Content-Type': 'application/json'}
        return http.request_at(self.rest, method, path, data, {**kind, **(headers or {})})

    def status(self):
        return json.loads(subprocess.run(
            [EXE, 'agent', '--status', '--json', '--socket', self.socket], stdout=subprocess.PIPE,
            check=True, timeout=300).stdout)


class Collector(Part):
    """'sidelight collect' of these agents: parts, or addresses. how: with TLS, an authority, a user, a password."""

    def __init__(self, agents, *options, listen='127.0.0.1:0', env=None, before=(), how=None, exe=None):
        agents = [(RDMA_ADDRESS if RDMA else a.socket) if isinstance(a, Agent) else a for a in agents]
        super().__init__(*before, exe or EXE, 'collect', *(w for a in agents for w in ('--agent', a)), '--listen', listen,
                         *options, env=env)
        self.how = how
        self.address = self.ready()['listen'].removeprefix('http://')
        self.url = f'http{"s" if how else ""}://{self.address}'

    def get(self, path):
        return http.get_tls(self.url + path, *self.how) if self.how else http.get(self.url + path)

    def api(self, path):
        return json.loads(self.get('/api/v1/' + path))

    def scrape(self):
        return Scrape(self.get('/metrics'))

    def series(self):
        """Returns {'name{labels}': value} of the exposition."""
        out = {}
        for line in self.get('/metrics').splitlines():
            if line and line[0] != '#':
                name, value = line.rsplit(' ', 1)
                check(name not in out, name)
                out[name] = float(value)
        return out

    def find(self, name, *parts):
        """The series of this name that contain the parts, such as 'state="live"'."""
        return {k: v for k, v in self.series().items()
                if re.split('[{ ]', k)[0] == name and all(p in k for p in parts)}

    def total(self, name, *parts):
        return sum(self.find(name, *parts).values())

    def await_total(self, name, want, *parts):
        wait_until(lambda: self.total(name, *parts) == want,
                   lambda: f'{name} is {self.total(name, *parts)}, not {want}', self)

    def mappings(self):
        """Returns the size of the memory that agents share with it."""
        with open(f'/proc/{self.pid}/maps') as f:
            return sum('memfd:' in line for line in f)


class Pod(Part):
    """A publisher that obeys commands, one per line, and answers each."""

    def __init__(self, *argv, env=None):
        super().__init__(*argv, stdin=subprocess.PIPE, env=env)

    def tell(self, *words):
        answers = len(self.out)
        self.p.stdin.write(' '.join(map(str, words)) + '\n')
        self.p.stdin.flush()
        wait_until(lambda: len(self.out) > answers, f'an answer to {words}', self, every=0.0005)
        return self.out[answers]

    def ask(self, *words):
        """The same of one that answers by JSON."""
        return json.loads(self.tell(*words))

    def close(self):
        """Ends its input, by which it closes in order."""
        self.p.stdin.close()
        return self.wait()


class Counter(Pod):
    """The program sys.argv[2]: threads that count until they are told; tell() answers their sum."""

    def say_goodbye(self):
        """Closes in order."""
        self.p.stdin.write('\n')
        self.p.stdin.flush()
        return self.wait()


def counter(agent, threads=1):
    p = Counter(sys.argv[2], agent.socket, threads)
    wait_until(lambda: p.out == ['counting'], 'the counter counts', p, every=0.0005)
    return p


def generate(socket, *options):
    return Part(EXE, 'generate', 'metrics', '--socket', socket, '--json', *options)


def report(part, seconds=120):
    """The report of a generator, which may still be holding its pods."""
    wait_until(lambda: part.out or part.p.poll() is not None, 'a report', part, seconds=seconds)
    if not part.out:
        part.wait()
    check(part.out, f'{part} gave no report', part)
    return json.loads(part.out[0])
