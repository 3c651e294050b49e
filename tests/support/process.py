# SPDX-License-Identifier: Apache-2.0
"""Processes of a test, which are never left behind, however the test ends."""
import atexit
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref

SCALE = float(os.environ.get('SL_TEST_SCALE', '1'))
PATIENCE = 300  # seconds; only a hanging process takes that long, but on a busy machine others may take many
PR_SET_PDEATHSIG = 1
_children = []
_parts = weakref.WeakSet()


def workdir():
    """Returns a folder that is removed when the test ends. Its path is short, as the name of a unix socket may have 107
    characters."""
    d = tempfile.mkdtemp(prefix='sl-')
    atexit.register(shutil.rmtree, d, ignore_errors=True)
    return d


def reachable(program, command):
    """A copy of 'sidelight' that runs a command for any user: an ordinary one cannot enter a clone in /root."""
    d = workdir()
    os.chmod(d, 0o755)
    shutil.copy(f'{program}-{command}', d)
    return shutil.copy(program, d)


def skip(reason):
    print(f'SKIP: {reason}')
    sys.exit(77)


def fail(*what):
    """Raises AssertionError with what, callables being asked for it; of parts shows the last lines."""
    for p in what:
        if isinstance(p, Part):
            print(f'--- {p}: exit {p.p.poll()}')
            print('\n'.join(line[:300] for line in p.out[-30:] + p.err[-30:]))
    raise AssertionError(' '.join(str(w() if callable(w) else w) for w in what if not isinstance(w, Part)))


def check(condition, *what):
    if not condition:
        fail(*what)


def poll(condition, seconds=PATIENCE, every=0.02):
    """The first true value of condition(), or its last false one. Many tests wait side by side: a condition that takes long
    on a busy machine is looked at less often, so that waiting does not take the CPUs from what is waited for."""
    end = time.monotonic() + seconds
    while True:
        begun = time.monotonic()
        value = condition()
        now = time.monotonic()
        if value or now >= end:
            return value
        time.sleep(max(every, min(3 * (now - begun), 1)))


# Sanitizers keep freed memory for a while, so tests cannot judge how much memory a program uses.
KEEPS_FREED = 'ASAN_OPTIONS' in os.environ


def wait_until(condition, *what, seconds=0, every=0.02):
    """The first true value of condition(); fail(*what) if there is none within PATIENCE, or seconds if those are more."""
    seconds = max(seconds, PATIENCE)
    value = poll(condition, seconds, every)
    check(value, f'not within {seconds} s:', *what)
    return value


class Missed(Exception):
    """A time window closed before a slow machine acted or looked in it, so the attempt proves nothing."""


def widen(attempt, *factors):
    """attempt(factor) with the first of the factors by which a window is wide enough for this machine."""
    for factor in factors:
        try:
            return attempt(factor)
        except Missed as window:
            print(f'missed {window}, {factor} times as wide', flush=True)
    fail('a window was missed at its widest')


def alive(pid):
    """A process that has ended and waits for its parent is not."""
    try:
        with open(f'/proc/{pid}/stat') as f:
            return f.read().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores, and its children with it


class Part:
    """A process whose output is kept: .out, lines of stdout, which grows; .err, lines of stderr as of now."""

    def __init__(self, *argv, env=None, stdin=subprocess.DEVNULL, pass_fds=()):
        self.argv = [str(a) for a in argv]
        self.out, self._err = [], tempfile.TemporaryFile()
        self.p = subprocess.Popen(self.argv, stdin=stdin, stdout=subprocess.PIPE, stderr=self._err,
                                  text=True, errors='replace', env={**os.environ, **(env or {})},
                                  preexec_fn=_die_with_parent, pass_fds=pass_fds)
        _children.append(self.p)
        _parts.add(self)
        self.pid = self.p.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        with self.p.stdout:
            for line in self.p.stdout:
                self.out.append(line.rstrip('\n'))

    def logged(self):
        """All of stderr. To seek would move where the process writes."""
        size = os.fstat(self._err.fileno()).st_size
        return os.pread(self._err.fileno(), size, 0).decode(errors='replace')

    @property
    def err(self):
        return self.logged().splitlines()

    def stdout(self):
        return '\n'.join(self.out)

    def ready(self, seconds=PATIENCE):
        """Waits for the line 'ready ...' and returns its key=value pairs."""
        def said():
            return next((line for line in list(self.out) + self.err if line.startswith('ready')), None)
        line = poll(lambda: said() or self.p.poll() is not None, seconds, 0.01)
        if not isinstance(line, str):
            line = said()
        if not line:
            fail(f'{self} was not ready', self)
        return dict(w.split('=', 1) for w in line.split() if '=' in w)

    def wait(self, seconds=PATIENCE):
        """Its exit code, once it has ended."""
        try:
            code = self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            fail(f'{self} did not end within {seconds} s', self)
        self._reader.join(60)
        return code

    def stop(self, sig=signal.SIGTERM, seconds=PATIENCE):
        """Sends the signal; returns the exit code."""
        if self.p.poll() is None:
            self.p.send_signal(sig)
        return self.wait(seconds)

    def kill(self):
        return self.stop(signal.SIGKILL)

    def descriptors(self):
        return len(os.listdir(f'/proc/{self.pid}/fd'))

    def resident_bytes(self):
        with open(f'/proc/{self.pid}/statm') as f:
            return int(f.read().split()[1]) * os.sysconf('SC_PAGESIZE')

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        """The test fails if the part ended by itself, or if a sanitizer complained, which makes it exit with another code."""
        died, code = self.p.poll(), self.stop()
        if error:
            print(f'--- {self}: exit {code}\n{self.logged()[-4000:]}')
        else:
            check(died is None and code == 0, f'{self} ended with {code}', self)

    def __str__(self):
        return ' '.join(self.argv[:3])


def _show_sanitizers(kind, value, trace):
    """Prints the sanitizer reports of all processes, which usually explain the exception, and then the exception."""
    for p in list(_parts):
        found = re.search(r'^.*(Sanitizer:|runtime error:)(.*\n){0,40}', p.logged(), re.M)
        if found:
            print(f'--- {p}\n{found[0]}', flush=True)
    sys.__excepthook__(kind, value, trace)


sys.excepthook = _show_sanitizers


@atexit.register
def _end_children():
    for p in _children:
        if p.poll() is None:
            p.kill()
            p.wait()


def run(*argv, code=0, seconds=2 * PATIENCE, **kw):
    """The completed process, with its output as text; fails unless it exits with code (None: any)."""
    p = subprocess.run([str(a) for a in argv], **{'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE,
                       'stderr': subprocess.PIPE, 'timeout': seconds, 'text': True, 'errors': 'replace', **kw})
    check(code is None or p.returncode == code,
          lambda: f'{" ".join(map(str, argv))}: exit {p.returncode}, not {code}: {str(p.stdout)[-1000:]}{str(p.stderr)[-1000:]}')
    return p


def output(*argv, **kw):
    return run(*argv, **kw).stdout


_cases = {}


def case(f):
    """Declares a case of the test."""
    _cases[f.__name__] = f
    return f


def run_cases(*args, only=None):
    """Runs the cases that only, or the command line after the program, names; all if it names none."""
    names = sys.argv[2:] if only is None else only
    check(set(names) <= set(_cases), f'no such case: {names}')
    for name in names or _cases:
        begun = time.monotonic()
        said = _cases[name](*args)
        print(f'ok   {name.replace("_", "-")}{f": {said}" if said else ""} ({time.monotonic() - begun:.1f} s)', flush=True)
