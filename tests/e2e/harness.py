# SPDX-License-Identifier: Apache-2.0
"""What the tests with real processes share: start parts and wait for their ready lines, read the
exposition, and leave nothing behind however the test ends. Standard library only."""
import atexit
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

SCALE = float(os.environ.get('SL_TEST_SCALE', '1'))
# In a guest (tests/guest) the same tests run over RDMA: the agent's device, and its address there.
RDMA = os.environ.get('SL_TEST_RDMA')
RDMA_ADDRESS = os.environ.get('ADDRESS')
_children = []


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores, and its children with it


class Part:
    """A process of ours whose lines are read in the background."""

    def __init__(self, *argv, env=None):
        self.argv = [str(a) for a in argv]
        self.out, self.err = [], []
        self.p = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, errors='replace',
                                  env={**os.environ, **(env or {})}, preexec_fn=_die_with_parent)
        _children.append(self.p)
        self.pid = self.p.pid
        self.readers = [threading.Thread(target=self._read, args=a, daemon=True)
                        for a in ((self.p.stdout, self.out), (self.p.stderr, self.err))]
        for r in self.readers:
            r.start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.append(line.rstrip('\n'))

    def ready(self, seconds=120):
        """Waits for the line 'ready ...' and returns its key=value pairs."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in self.out + self.err:
                if line.startswith('ready'):
                    return dict(w.split('=', 1) for w in line.split() if '=' in w)
            if self.p.poll() is not None:
                break
            time.sleep(0.01)
        fail(f'{self} was not ready', self)

    def wait(self, seconds=120):
        try:
            code = self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            fail(f'{self} did not end within {seconds} s', self)
        for r in self.readers:
            r.join(60)
        return code

    def stop(self, sig=signal.SIGTERM, seconds=60):
        """Sends the signal; returns the exit code."""
        if self.p.poll() is None:
            self.p.send_signal(sig)
        return self.wait(seconds)

    def stdout(self):
        return '\n'.join(self.out)

    def __str__(self):
        return ' '.join(self.argv[:3])


def fail(why, *parts):
    print(f'FAILED: {why}')
    for p in parts:
        print(f'--- {p}: exit {p.p.poll()}')
        print('\n'.join(line[:300] for line in p.out[-30:] + p.err[-30:]))
    sys.stdout.flush()
    sys.exit(1)


def check(condition, why, *parts):
    if not condition:
        fail(why, *parts)


def skip(reason):
    print(f'SKIP: {reason}')
    sys.exit(77)


def workdir():
    """A short path, as the names of unix sockets have room for 107 characters."""
    d = tempfile.mkdtemp(prefix='e2e-')
    atexit.register(shutil.rmtree, d, ignore_errors=True)
    return d


@atexit.register
def _cleanup():
    for p in _children:
        if p.poll() is None:
            p.kill()
            p.wait()


def until(condition, seconds=60, every=0.05):
    """The first true value of condition(), or its last false one."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() >= end:
            return value
        time.sleep(every)


def get(url, accept=None, seconds=60):
    request = urllib.request.Request(url, headers={'Accept': accept} if accept else {})
    # No proxy, whatever the environment says: these are addresses of this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=seconds) as answer:
        return answer.read().decode()


LINE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \S+)?$')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


def series(text):
    """[(name, labels, value)] of an exposition in text."""
    found = []
    for line in text.split('\n'):
        m = LINE.match(line)
        if m:
            found.append((m.group(1), dict(LABEL.findall(m.group(2) or '')), float(m.group(3))))
    return found


def total(text, name, **labels):
    """The sum over all series of this name that carry these labels."""
    return sum(v for n, have, v in series(text)
               if n == name and all(have.get(k) == w for k, w in labels.items()))


def agent(sidelight, directory, *options):
    if RDMA:
        options = ('--rdma', RDMA, *options)
    p = Part(sidelight, 'agent', '--socket', f'{directory}/agent.sock', '--no-rest', *options)
    p.ready()
    return p


def collector(sidelight, directory, *options):
    """Returns the part and the URL of its exposition."""
    p = Part(sidelight, 'collect', '--agent', RDMA_ADDRESS if RDMA else f'{directory}/agent.sock',
             '--listen', '127.0.0.1:0', *options)
    ready = p.ready()
    address = ready.get('listen') or ready.get('address') or ready.get('http')
    check(address, 'the ready line names no address', p)
    return p, f'http://{address.removeprefix("http://")}/metrics'


def generate(sidelight, directory, *options):
    return Part(sidelight, 'generate', 'metrics', '--socket', f'{directory}/agent.sock', '--json',
                *options)


def report(part, seconds=120):
    """The report of a generator, which may still be holding its pods."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not part.out:
        if part.p.poll() is not None:
            part.wait()
            break
        time.sleep(0.01)
    check(part.out, f'{part} gave no report', part)
    return json.loads(part.out[0])
