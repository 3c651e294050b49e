#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""manage.py PROGRAM FLAGS VERB FILE - 'sidelight manage' (sidelight-manage(1)): parts of Sidelight on this
machine and on others, from one file. FLAGS: letters j (--json), k (--keep), u (--up), or '-'.

Everything is done by shell scripts that a host's own sh reads from its standard input: here by running
sh, elsewhere by ssh. A host needs sh, /proc and the program.

The state of a part lies on its host, in the file's directory: NAME.pid (process and its start time, so
that a reused number is not taken for the part), NAME.out, NAME.err. Any later call finds it there.

The file is trusted, and what a host answers is not: it may have been taken over. An answer is bounded, is
shown without control characters (shown()), and a value of a line "ready" becomes an argument or a variable
of the environment, never a part of a script (File.value())."""
import base64
import difflib
import json
import os
import re
import selectors
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import time

try:
    import yaml
except ImportError:
    sys.exit('sidelight manage: no PyYAML; install python3-yaml')

FILE_MAX = 256 << 10  # bytes of a file that is copied to a host
YAML_MAX = 1 << 20
OUTPUT_MAX = 1 << 20
LOOK = 20.0  # seconds for a script that waits for nothing
SHOWN_MAX = 500  # characters of a line that a host answers
NAME = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}')
VALUE = re.compile(r'[A-Za-z0-9_./:@%+,=\[\]][A-Za-z0-9_./:@%+,=\[\]-]{0,254}')  # of a line "ready"
VARIABLE = re.compile(r'\$\{([^{}]*)\}')
ENDED, UP_ALREADY, NOT_READY, NOT_OURS = 3, 4, 5, 6  # exit codes of START


class Wrong(Exception):
    """The command or the file is wrong."""


def shown(text):
    """Text from a host, for a terminal: truncated, and without control characters and other invisible ones."""
    return ''.join(c if c.isprintable() or c == '\t' else '?' for c in text[:SHOWN_MAX]) + '...' * (len(text) > SHOWN_MAX)


lost = False  # some output could not be written


def say(text, to=None):
    """Goes on if the reader of the output has exited, because the parts must still be stopped."""
    global lost
    to = to or sys.stdout
    try:
        print(text, file=to, flush=True)
    except OSError:
        lost = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), to.fileno())


def complain(text):
    say(f'sidelight manage: {shown(text)}', sys.stderr)
    return 1


# ---- the file ----

class Document:
    """One YAML document. Complaints name the file and the line. An empty node is None."""

    def __init__(self, path):
        self.path = path
        try:  # do not wait if it is a pipe
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as e:
            self.wrong(None, f"can't be opened: {e.strerror}")
        with open(fd, 'rb') as f:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                self.wrong(None, 'is not a regular file')
            text = f.read(YAML_MAX + 1)
        if len(text) > YAML_MAX:
            self.wrong(None, 'is larger than 1 MiB')
        try:
            for event in yaml.parse(text, yaml.SafeLoader):
                if isinstance(event, yaml.AliasEvent):  # a kilobyte of aliases may expand to a billion nodes
                    self.wrong(event, 'aliases (*name) are not supported')
            self.root = self.value(yaml.compose(text, yaml.SafeLoader))
        except yaml.MarkedYAMLError as e:
            mark = e.problem_mark or e.context_mark
            raise Wrong(f'{path}:{mark.line + 1 if mark else 0}: not YAML: {e.problem}') from e
        except (yaml.YAMLError, RecursionError) as e:
            self.wrong(None, f"is not valid YAML: {e}")
        if self.root is None:
            self.wrong(None, 'says nothing')

    def wrong(self, node, text):
        raise Wrong(f'{self.path}:{node.start_mark.line + 1}: {text}' if node else f'{self.path}: {text}')

    @staticmethod
    def value(node):
        plain = isinstance(node, yaml.ScalarNode) and not node.style
        return None if plain and node.value in ('', '~', 'null') else node

    def text(self, node, what):
        if not isinstance(node, yaml.ScalarNode):
            self.wrong(node, f'{what}: expected a single value, found a {node.id}')
        if '\0' in node.value:
            self.wrong(node, f'{what}: contains a NUL character')
        return node.value

    def pairs(self, node, keys=None):
        """Returns a mapping as {key: (node of the key, value)}. keys: the allowed keys; None: any."""
        if not isinstance(node, yaml.MappingNode):
            self.wrong(node, f"expected 'key: value' lines, found a {node.id}")
        found = {}
        for k, v in node.value:
            key = self.text(k, 'a key')
            if keys and key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                self.wrong(k, f"unknown key '{key}'" + (f"; did you mean '{near[0]}'?" if near else ''))
            if key in found:
                self.wrong(k, f"'{key}' is given twice")
            found[key] = (k, self.value(v))
        return found

    def elements(self, node):
        return [] if node is None else node.value if isinstance(node, yaml.SequenceNode) else [node]


class Mapping:
    """Reads the keys of a mapping, by type."""

    def __init__(self, doc, node, keys):
        self.doc, self.node, self.found = doc, node, doc.pairs(node, keys)

    def get(self, key, needed=False):
        value = self.found.get(key, (None, None))[1]
        if needed and value is None:
            self.doc.wrong(self.node, f"'{key}' is missing")
        return value

    def text(self, key, default=None, needed=False):
        node = self.get(key, needed)
        return default if node is None else self.doc.text(node, key)

    def name(self, key='name'):
        return check_name(self.doc, self.get(key, True), key)

    def words(self, key, least=1, needed=False):
        node = self.get(key, needed)
        words = [self.doc.text(n, key) for n in self.doc.elements(node)]
        if not least <= len(words) <= 1024:
            self.doc.wrong(node, f'{key}: expected a list of {least} to 1024 words')
        return words

    def duration(self, key, default):
        text = self.text(key)
        units = {'ns': 1e-9, 'us': 1e-6, 'ms': 1e-3, 's': 1, 'm': 60, 'h': 3600, 'd': 86400}
        m = re.fullmatch(r'([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h|d)|0()', text or '', re.A)
        if text is None:
            return default
        if not m or float(m[1] or 0) * units[m[2] or 's'] > 1e9:
            self.doc.wrong(self.get(key), f"{key}: expected a duration such as 1ms or 30s, not '{text:.64}'")
        return float(m[1] or 0) * units[m[2] or 's']

    def number(self, key, default, least, most):
        text = self.text(key, str(default))
        if not re.fullmatch('[0-9]{1,9}', text, re.A) or not least <= int(text) <= most:
            self.doc.wrong(self.get(key), f"{key}: expected a number from {least} to {most}, not '{text:.64}'")
        return int(text)


def check_name(doc, node, what):
    """Checks a name, which is used in names of files and in scripts."""
    name = doc.text(node, what)
    if not NAME.fullmatch(name):
        doc.wrong(node, f"{what}: expected up to 63 letters, digits, '-', '_', '.', not '{name:.64}'")
    return name


class Host:
    def __init__(self, name, ssh, program):
        self.name, self.ssh, self.program = name, ssh, program


class Part:
    def __init__(self, file, m):
        self.name, self.host = m.name(), file.host(m)
        self.run = m.words('run', needed=True)
        self.ready_within, self.stop_within = m.duration('ready', 30.0), m.duration('stop', 10.0)
        self.ready = None  # its line "ready KEY=VALUE ...", once it has printed it
        self.started = False  # by this call
        self.state, self.pid = 'unreachable', None


class Step:
    def __init__(self, file, m):
        self.name, self.host = m.text('name', needed=True), file.host(m)
        self.run, self.shell = m.get('run') and m.words('run'), m.text('shell')
        if bool(self.run) == bool(self.shell):
            m.doc.wrong(m.node, "a step has either 'run' or 'shell'")
        self.within = m.duration('within', 60.0)
        self.exits, self.times = m.number('exits', 0, 0, 255), m.number('times', 1, 1, 1000)
        self.prints = m.text('prints')
        if self.prints is not None and matches(self.prints, '') is None:
            m.doc.wrong(m.get('prints'), 'prints: is no regular expression')


def matches(pattern, text):
    """Returns whether a line matches the POSIX extended regular expression; None if that is malformed."""
    p = subprocess.run(['grep', '-aEqe', pattern], input=text.encode(), stderr=subprocess.DEVNULL,
                       env={**os.environ, 'LC_ALL': 'C'}, check=False)
    return None if p.returncode > 1 else not p.returncode


class File:
    def __init__(self, path, program):
        doc = Document(path)
        m = Mapping(doc, doc.root, ('name', 'directory', 'files', 'hosts', 'parts', 'test', 'bench'))
        self.path, self.folder, self.out = path, os.path.dirname(path) or '.', sys.stdout
        self.name = m.name()
        self.directory = m.text('directory', f'/tmp/sidelight-{self.name}')
        if not self.directory.startswith('/') or self.directory == '/':
            doc.wrong(m.get('directory'), 'directory: expected an absolute path other than /')
        self.files = m.words('files', 0)
        for name in self.files:
            if not name or '/' in name or name.startswith('.'):
                doc.wrong(m.get('files'), f"files: expected names of files beside this one, not '{name:.64}'")
        self.hosts = {'local': Host('local', None, program)}
        self.read_hosts(doc, m.get('hosts'))
        self.parts = []
        for part in self.list(m, 'parts', Part, ('name', 'host', 'run', 'ready', 'stop'), 1):
            if any(p.name == part.name for p in self.parts):
                doc.wrong(part.node, f"part '{part.name}' is there already")
            self.parts.append(part)
        keys = ('name', 'host', 'run', 'shell', 'within', 'exits', 'prints', 'times')
        self.steps = {what: list(self.list(m, what, Step, keys, 0)) for what in ('test', 'bench')}

    def read_hosts(self, doc, node):
        pairs = doc.pairs(node) if node else {}
        if len(pairs) > 1024:
            doc.wrong(node, 'hosts: more than 1024')
        for name, (where, value) in pairs.items():
            check_name(doc, where, "a host's name")
            if name in self.hosts:
                doc.wrong(where, f"host '{name}' is there already")
            if value is None:
                doc.wrong(where, f"host '{name}': has no settings")
            m = Mapping(doc, value, ('ssh', 'program'))
            self.hosts[name] = host = Host(name, m.words('ssh', needed=True), m.text('program', 'sidelight'))
            if not host.ssh[-1] or host.ssh[-1].startswith('-'):
                doc.wrong(m.get('ssh'), "ssh: expected the destination as the last word, not an option")
            if not host.program or host.program.startswith('-'):
                doc.wrong(m.get('program'), 'program: expected a name or a path, not an option')

    def list(self, m, key, kind, keys, least):
        nodes = m.doc.elements(m.get(key, needed=least > 0))
        if not least <= len(nodes) <= 4096:
            m.doc.wrong(m.get(key), f'{key}: expected {least} to 4096')
        for node in nodes:
            made = kind(self, Mapping(m.doc, node, keys))
            made.node = node
            yield made

    def host(self, m):
        name = m.text('host', 'local')
        if name not in self.hosts:
            m.doc.wrong(m.get('host'), f"there is no host '{name:.64}' under hosts")
        return self.hosts[name]

    def value(self, name):
        """Returns the value of PART.KEY. Refuses values that could be taken for an option, and characters with a meaning to a
        shell."""
        part, _, key = name.partition('.')
        part = next((p for p in self.parts if p.name == part), None)
        for said in (part and part.ready or '').split(' ')[1:]:
            if said.startswith(key + '='):
                value = said[len(key) + 1:]
                if VALUE.fullmatch(value):
                    return value
                raise KeyError(f"${{{name}}} is refused: host '{part.host.name}' answered '{value:.64}'")
        raise KeyError(f"nothing is known of '${{{name}}}': no part that is up says so in its line 'ready'")

    def filled(self, word):
        """Returns the word with ${directory} and ${PART.KEY} replaced."""
        return VARIABLE.sub(lambda m: self.directory if m[1] == 'directory' else
                            self.value(m[1]) if '.' in m[1] else m[0], word)

    def shell(self, text):
        """Returns the script, with a variable of the environment for each ${PART.KEY}, and these variables."""
        names = sorted({m[1] for m in VARIABLE.finditer(text) if '.' in m[1]})
        variables = {f'SIDELIGHT_{i}': name for i, name in enumerate(names)}
        for variable, name in variables.items():
            text = text.replace(f'${{{name}}}', f'${{{variable}}}')
        return text, {variable: self.value(name) for variable, name in variables.items()}


# ---- scripts ----

class Result:
    """Result of a script. why: the reason if it could not be run, was killed or took too long."""
    code, out, err, cut, seconds, why = -1, '', '', False, 0.0, ''

    def reason(self, host):
        last = self.err.rstrip('\n').rpartition('\n')[2]
        return self.why or (last if last or not host.ssh or self.code != 255 else 'ssh has failed')


stopped = False
wakeup = None


def catch_signals():
    """A signal to stop interrupts the script that runs; SIGHUP does not if it is ignored, as by nohup."""
    global wakeup

    def stop(*_):
        global stopped
        stopped = True
    wakeup, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)


def gather(process, end, interruptible):
    """Reads both outputs, up to OUTPUT_MAX bytes each. Returns [bytes, bytes], cut, why."""
    taken, cut = [b'', b''], False
    with selectors.DefaultSelector() as s:
        for i, pipe in enumerate((process.stdout, process.stderr)):
            s.register(pipe, selectors.EVENT_READ, i)
        if interruptible:
            s.register(wakeup, selectors.EVENT_READ, 2)
        while len(s.get_map()) > interruptible:
            left = end - time.monotonic()
            if left <= 0:
                return taken, cut, 'it took too long'
            for key, _ in s.select(left):
                if key.data == 2:
                    return taken, cut, 'interrupted'
                more = os.read(key.fd, 65536)
                if not more:
                    s.unregister(key.fileobj)
                room = OUTPUT_MAX - len(taken[key.data])
                cut |= len(more) > room
                taken[key.data] += more[:room]
    return taken, cut, ''


def script(host, text, timeout, interruptible=True):
    # Prompts cannot be answered, and an unreachable host must not delay the others. A host that was taken over gets neither
    # keys nor the operator's display.
    ssh = ['ssh', '-T', '-a', '-x', '-o', 'BatchMode=yes', '-o', 'ConnectTimeout=10']
    args = [*ssh, *host.ssh[:-1], '--', host.ssh[-1], 'sh', '-s'] if host.ssh else ['sh', '-s']
    r, began = Result(), time.monotonic()
    with tempfile.TemporaryFile() as f:
        f.write(text.encode(errors='surrogateescape'))
        f.seek(0)
        try:
            p = subprocess.Popen(args, stdin=f, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)
        except OSError as e:
            r.why = f"{args[0]} can't be run: {e.strerror}"
            return r
        with p:
            taken, r.cut, r.why = gather(p, began + timeout, interruptible)
            if r.why:
                os.killpg(p.pid, signal.SIGKILL)
            code = p.wait()
    r.out, r.err = (t.decode(errors='replace') for t in taken)
    if not r.why and code < 0:
        r.why = f'killed by signal {-code}'
    r.code = -1 if r.why else code
    r.seconds = time.monotonic() - began
    return r


def assign(**values):
    return ''.join(f'{name}={shlex.quote(value)}\n' for name, value in values.items())


# $D is the directory. alive NAME succeeds if that part runs, and sets $p to its process ID. The start time, which detects a
# reused ID, is the 20th word after the command's name in /proc/PID/stat; the name may contain blanks. clock sets $u to the time
# since the host's boot, in 1/100 s. To count sleeps instead would take longer on a busy host.
PRELUDE = r'''
of() { sed 's/.*) //' /proc/$1/stat 2>/dev/null; }
same() { [ $# -ge 21 ] && [ "$2" != Z ] && [ "${21}" = "$1" ]; }
alive() { p= t=; [ -f "$D/$1.pid" ] && read -r p t <"$D/$1.pid" && [ -n "$t" ] && same "$t" $(of "$p"); }
clock() { read -r u _ </proc/uptime; u=${u%.*}${u#*.}; }
'''
OURS = '[ -O "$D" ] && [ ! -L "$D" ] && cd "$D" || exit 0\n'
ENTER = f'''umask 077
mkdir -p "$D" || exit {NOT_OURS}
[ -O "$D" ] && [ ! -L "$D" ] || {{ echo "$D belongs to another user" >&2; exit {NOT_OURS}; }}
cd "$D" || exit {NOT_OURS}
alive "$N" && exit {UP_ALREADY}
rm -f "$N.pid" "$N.out" "$N.err"
'''
START = f'''setsid -- "$@" </dev/null >"$N.out" 2>"$N.err" &
p=$!
started() {{ shift 19; echo "$1"; }}
s=$(of $p) && echo "$p $(started $s)" >"$N.pid"
clock; end=$((u + WITHIN))
until grep -q '^ready' "$N.out"; do
  alive "$N" || {{ rm -f "$N.pid"; wait $p; echo "exit $?" >&2; tail -n 3 "$N.err" >&2; exit {ENDED}; }}
  clock
  [ $u -le $end ] || {{ kill -KILL $p; rm -f "$N.pid"; tail -n 3 "$N.err" >&2; exit {NOT_READY}; }}
  sleep 0.05
done
grep -m 1 '^ready' "$N.out"
'''
STOP = '''if alive "$N"; then
  echo stopped; kill -TERM $p; clock; end=$((u + WITHIN))
  while alive "$N"; do
    clock; [ $u -le $end ] || { echo killed; kill -KILL $p; }
    sleep 0.05
  done
elif [ -f "$N.pid" ]; then echo 'was dead'
fi
rm -f "$N.pid"
'''
LOOK_AT = '''if alive "$N"; then echo "$N up $p $(grep -m 1 '^ready' "$N.out")"
elif [ -f "$N.pid" ]; then echo "$N dead 0"; fi
'''


def hundredths(seconds):
    return str(int(seconds * 100))


def copies(file):
    """Returns script lines that copy the files of the key "files" into the directory."""
    lines = ''
    for name in file.files:
        with open(os.path.join(file.folder, name), 'rb') as f:
            data = f.read(FILE_MAX + 1)
        if len(data) > FILE_MAX:
            raise KeyError(f'{name}: is larger than 256 KiB')
        lines += f"base64 -d >{shlex.quote(name)} <<'END' || exit 1\n{base64.encodebytes(data).decode()}END\n"
    return lines


# ---- parts ----

def start(file, part):
    try:
        command = shlex.join([part.host.program, *map(file.filled, part.run)])
        text = assign(D=file.directory, N=part.name, WITHIN=hundredths(part.ready_within)) + PRELUDE + ENTER + \
            copies(file) + f'set -- {command}\n' + START
    except (KeyError, OSError) as e:
        complain(f'{part.name}: {e.args[0] if isinstance(e, KeyError) else e}')
        return False
    part.started = True
    r = script(part.host, text, part.ready_within + LOOK)
    if r.code == 0:
        part.ready = r.out.split('\n')[0]
        say(f'{part.name:16} {part.host.name:12} {shown(part.ready)}  ({r.seconds:.1f} s)', file.out)
        return True
    part.started = r.code != UP_ALREADY
    why = r.reason(part.host)
    complain(f'{part.name}: ' + {
        UP_ALREADY: f"is up already on {part.host.name}; see 'sidelight manage status'",
        ENDED: f'ended before it was ready: {why}',
        NOT_READY: f'was not ready in time, and was killed: {why}',
    }.get(r.code, f'could not be started on {part.host.name}: {why}'))
    return False


def stop(file, part):
    text = assign(D=file.directory, N=part.name, WITHIN=hundredths(part.stop_within)) + PRELUDE + OURS + STOP
    r = script(part.host, text, part.stop_within + LOOK, False)
    if r.code:
        return complain(f'{part.name}: could not be stopped on {part.host.name}: {r.reason(part.host)}')
    if r.out:
        say(f'{part.name:16} {part.host.name:12} {shown(r.out.splitlines()[-1])}', file.out)
    if 'killed' in r.out:
        complain(f'{part.name}: did not end on SIGTERM, and was killed')
    return 0


def used(file):
    return [h for h in file.hosts.values() if any(p.host is h for p in file.parts)]


def clean(file, host):
    """Removes what the parts left in a host's directory, and the directory if it is then empty."""
    names = [f'{p.name}.{end}' for p in file.parts if p.host is host for end in ('out', 'err')] + file.files
    text = assign(D=file.directory) + OURS + f'rm -f -- {shlex.join(names)}\ncd /; rmdir "$D" 2>/dev/null || :\n'
    r = script(host, text, LOOK, False)
    return r.code and complain(f'{host.name}: output of the parts could not be removed: {r.reason(host)}')


def up(file):
    for i, part in enumerate(file.parts):
        if start(file, part):
            continue
        for p in reversed(file.parts[:i + 1]):  # start all or nothing, but leave parts that ran before
            if p.started:
                stop(file, p)
        return 1
    return 0


def down(file, keep):
    code = max([bool(stop(file, p)) for p in reversed(file.parts)])
    if not keep and not code:
        code = max([bool(clean(file, h)) for h in used(file)])
    return int(code)


def look(file):
    """Fills in state, pid and ready line of all parts; returns how many are up."""
    for host in used(file):
        here = {p.name: p for p in file.parts if p.host is host}
        r = script(host, assign(D=file.directory) + PRELUDE + OURS +
                   ''.join(assign(N=name) + LOOK_AT for name in here), LOOK, False)
        for p in here.values():
            p.state, p.pid, p.ready = 'unreachable' if r.code else 'down', None, None
        if r.code:
            complain(f'{host.name}: {r.reason(host)}')
            continue
        for line in r.out.split('\n'):
            name, state, pid, ready = (line.split(' ', 3) + [''] * 3)[:4]
            if name in here and state in ('up', 'dead') and re.fullmatch('[0-9]{1,10}', pid, re.A):
                p = here[name]
                p.state = state
                p.pid, p.ready = (int(pid), ready or None) if state == 'up' else (None, None)
    return sum(p.state == 'up' for p in file.parts)


def status(file, as_json):
    n = look(file)
    if as_json:
        say(json.dumps([{'part': p.name, 'host': p.host.name, 'state': p.state, 'pid': p.pid, 'ready': p.ready}
                        for p in file.parts], indent=1))
    else:
        say(f'{"PART":16} {"HOST":12} {"STATE":11} {"PID":>8}  SAYS')
        for p in file.parts:
            say(f'{p.name:16} {p.host.name:12} {p.state:11} {p.pid or "":>8}  {shown(p.ready or "")}')
    return int(n < len(file.parts))


# ---- steps ----

def run_once(file, step):
    """Returns the result, and why the step failed, or ''."""
    try:
        if step.run:
            command, variables = [step.host.program, *map(file.filled, step.run)], {}
        else:
            text, variables = file.shell(step.shell)
            command = ['sh', '-c', text]
    except KeyError as e:
        return Result(), e.args[0]
    variables.update(SIDELIGHT=step.host.program, directory=file.directory)
    # The script comes by standard input, so a step reads /dev/null.
    r = script(step.host, assign(**variables) + f'export {" ".join(variables)}\n'
               f'cd "$directory" || exit 1\nexec {shlex.join(command)} </dev/null\n', step.within)
    why = r.why
    if not why and r.code != step.exits:
        why = f'exit {r.code}, not {step.exits}'
    elif not why and step.prints is not None and not matches(step.prints, r.out):
        why = f"printed no line like '{step.prints:.100}'" + (' in its first MiB' if r.cut else '')
    return r, why


def last_of(out):
    """Returns the last line. If it is JSON that can be printed again (neither NaN nor nested too deeply), returns its value."""
    line = out.rstrip('\n').rpartition('\n')[2]
    try:
        value = json.loads(line)
        json.dumps([[[[value]]]], indent=1, allow_nan=False)
        return value
    except (ValueError, RecursionError):
        return line


def run_step(file, step, listed, figures):
    """Runs a step, and prints its result or adds it to listed. Returns True if it passed."""
    seconds, printed, why = [], [], ''
    while len(seconds) < step.times and not why:
        r, why = run_once(file, step)
        seconds.append(r.seconds)
        printed.append(last_of(r.out))
    mean = sum(seconds) / len(seconds)
    if listed is not None:
        listed.append({'step': step.name, 'host': step.host.name, 'passed': not why, 'runs': len(seconds),
                       'seconds': mean, **({'why': why} if why else {}), **({'printed': printed} if figures else {})})
        return not why
    if why:
        say(f'FAILED {step.name}: {shown(why)}')
    elif step.times > 1:
        say(f'ok     {step.name} ({len(seconds)} times, {min(seconds):.2f} to {max(seconds):.2f} s, mean {mean:.2f})')
    else:
        say(f'ok     {step.name} ({seconds[0]:.1f} s)')
    for text in (r.out, r.err) if why else (r.out,) if figures else ():
        for line in text.splitlines()[-20:]:
            say(f'    | {shown(line)}')
    return not why


def run_steps(file, what, as_json):
    steps, listed, n = file.steps[what], [] if as_json else None, len(file.parts)
    if not steps:
        return complain(f"{file.path}: has no steps under '{what}'")
    if look(file) < n:
        there = sum(p.state == 'up' for p in file.parts)
        return complain(f"{there} of {n} parts are up; see 'sidelight manage up'")
    passed = ran = 0
    for step in steps:
        if stopped:
            break
        ran += 1
        passed += run_step(file, step, listed, what == 'bench')
    died = n - look(file)  # a part that died while it was tested has not passed
    ok = passed == len(steps) and not died
    if as_json:
        say(json.dumps({what: listed, 'passed': passed, 'failed': ran - passed, 'not_run': len(steps) - ran,
                        'parts_died': died, 'ok': ok}, indent=1))
    else:
        if died:
            say(f'FAILED parts: {died} of {n} are no longer up')
        say(f'{what}: {passed} passed, {ran - passed} failed{", interrupted" if ran < len(steps) else ""}')
    return int(not ok)


def main(program, flags, *operands):
    if len(operands) != 2:
        raise Wrong('expected up, down, status, test or bench, and a file')
    verb, path = operands
    if verb not in ('up', 'down', 'status', 'test', 'bench'):
        raise Wrong(f"'{verb}' is not one of up, down, status, test, bench")
    file, as_json, keep = File(path, program), 'j' in flags, 'k' in flags
    catch_signals()
    if verb == 'up':
        return up(file)
    if verb == 'down':
        return down(file, keep)
    if verb == 'status':
        return status(file, as_json)
    if 'u' not in flags:
        return run_steps(file, verb, as_json)
    if as_json:  # standard output has a single document
        file.out = sys.stderr
    code = up(file)
    if not code:
        code = run_steps(file, verb, as_json)
        code = down(file, keep=code != 0) or code
    return code


if __name__ == '__main__':
    if sys.stdout:
        sys.stdout.reconfigure(errors='replace')  # the locale may lack characters of a name
    try:
        result = main(*sys.argv[1:])
    except Wrong as e:
        complain(str(e))
        result = 2
    sys.exit(result or int(lost))
