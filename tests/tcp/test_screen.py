# SPDX-License-Identifier: Apache-2.0
"""'sidelight tcp' at a terminal, here a pseudo terminal: the output fits it, keys work as documented, and the terminal
is restored. Also its messages when there is nothing to show, or nowhere to write."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from support import flows
from support.flows import needs_bpf, pair
from support.process import case, fail, run, run_cases, wait_until

EXE = sys.argv[1]


class Screen:
    def __init__(self, rows, columns, *args):
        self.ours, theirs = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.raw = b''
        self.p = subprocess.Popen([EXE, 'tcp', *args], stdin=theirs, stdout=theirs, stderr=theirs,
                                  start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
        self.size = rows, columns

    def frames(self):
        """Complete ones, as lines; what follows a home up to the next."""
        while select.select([self.ours], [], [], 0)[0]:
            try:
                got = os.read(self.ours, 1 << 16)
            except OSError:  # the other end is closed
                got = b''
            if not got:
                break
            self.raw += got
        found = []
        for frame in self.raw.decode().split('\033[H')[1:]:
            if '\033[J' in frame:  # the rest of the screen is cleared: it is complete
                text = re.sub(r'\033\[[0-9]*[KJ]', '', frame.split('\033[J')[0])
                found.append(text.replace('\r\n', '\n').rstrip('\n').split('\n'))
        return [f for f in found if f != ['']]

    def wait(self, condition, what):
        """A frame of which that is true, and which fits."""
        def there():
            return next((f for f in reversed(self.frames()) if condition(f)), None)
        frame = wait_until(there, lambda: f'{what}: {self.raw[-3000:]}', seconds=30)
        rows, columns = self.size
        if len(frame) >= rows or max(len(line) for line in frame) > columns:
            fail(f'does not fit {rows} x {columns}: {frame}')
        return frame

    def key(self, c):
        os.write(self.ours, c)

    def end(self):
        try:
            code = self.p.wait(30)
        except subprocess.TimeoutExpired:
            self.p.kill()
            fail(f'it goes on: {self.raw[-1000:]}')
        if code:
            fail(f'ended with {code}: {self.raw[-1000:]}')
        if termios.tcgetattr(self.theirs) != self.before:
            fail('the terminal is not what it was')
        os.close(self.theirs)
        os.close(self.ours)


@case
def the_screen_fits_its_terminal_and_obeys_its_keys(port):
    for verb, orders, column, needed in (
            ('flows', ('activity', 'sent', 'received'), 'REMOTE', 'RECV/s'),
            ('layers', ('requests', 'segments', 'app'), 'tcp_in', 'total'),
            ('cpu', ('both', 'cpu', 'wait'), 'TID', 'WAIT%')):
        filtered = ('-p', port) if verb != 'cpu' else ()
        s = Screen(24, 80, verb, '-i', '100ms', *filtered)
        frame = s.wait(lambda f: len(f) > 3 and column in ' '.join(f), f'a frame of {verb}')
        if needed not in ' '.join(frame) or f'by {orders[0]};' not in frame[0]:
            fail(f'{verb} shows no {needed} at 80 columns: {frame}')
        if verb == 'flows' and not any(re.match(rf'127\.0\.0\.1:{port} +127\.0\.0\.1:\d+ +ESTAB ', line)
                                       for line in frame):
            fail(f'no such connection: {frame}')
        s.key(b'>')
        s.wait(lambda f: f'by {orders[1]};' in f[0], f'{verb} sorted by {orders[1]}')
        s.key(b'>')
        s.wait(lambda f: f'by {orders[2]};' in f[0], f'{verb} sorted by {orders[2]}')
        s.key(b'<')
        s.wait(lambda f: f'by {orders[1]};' in f[0], f'{verb} sorted by {orders[1]} again')
        if verb == 'flows':
            s.resize(6, 60)
            s.wait(lambda f: len(f) == 5 and max(map(len, f)) <= 60, 'a smaller frame')
            s.resize(40, 140)
            s.wait(lambda f: 'COMMAND' in ' '.join(f), 'a frame with all columns')
            s.key(b'\x03')  # Ctrl-C, which the terminal makes a signal of
        else:
            s.key(b'xq')
        s.end()


@case
def what_starts_in_another_order_says_so(port):
    s = Screen(24, 80, 'flows', '-i', '100ms', '--sort', 'rtt', '-p', port)
    s.wait(lambda f: 'by rtt;' in f[0], 'sorted by rtt')
    s.p.send_signal(signal.SIGTERM)
    s.end()


def tcp(*args, **kw):
    return run(EXE, 'tcp', *args, seconds=60, **kw)


@case
def the_first_output_has_no_rates_of_older_connections(port):
    rates = {}
    p = tcp('flows', '-i', '200ms', '-d', '700ms', '-p', port, code=0)
    for line in p.stdout.splitlines():
        if 'ESTAB' in line:
            local, remote, _, sent, received, _, retransmits = line.split()[:7]
            rates.setdefault((local, remote), []).append((sent, received, retransmits))
    for seen in rates.values():
        if seen[0] != ('-',) * 3 or set(seen[1:]) != {('0',) * 3}:
            fail(f'{seen}: {p.stdout}')
    if len(rates) != 2:
        fail(p.stdout)


@case
def an_empty_table_is_no_answer(_):
    for verb, *args in (('flows', '--json'), ('layers',), ('trace', '--csv')):
        said = tcp(verb, '-d', '50ms', '-p', '1', *args, code=0).stderr
        if 'filter' not in said:
            fail(f'{verb} {args}: nothing passes the filter, and it says {said}')
    said = tcp('cpu', '-d', '50ms', '--of', 'nobody', code=0).stderr
    if 'no such task' not in said:
        fail(f'cpu: {said}')


@case
def what_finds_no_room_is_said(_):
    many = [pair() for _ in range(40)]
    said = tcp('flows', '-d', '50ms', '--flows', '64', '--csv', code=0).stderr
    if not re.search(r'\d+ connections found no room among 64: see --flows', said):
        fail(said)
    for s in (s for ends in many for s in ends):
        s.close()


@case
def an_output_that_takes_nothing_more_is_an_error_with_its_name(port):
    with open('/dev/full', 'w') as full:
        for verb, args, kw, name in (('flows', ('-o', '/dev/full'), {}, '/dev/full'),
                                     ('cpu', (), {'stdout': full}, 'standard output'),
                                     ('trace', ('-o', '/dev/full'), {}, '/dev/full')):
            said = tcp(verb, '--json', '-d', '300ms', '-i', '100ms', *args, code=1, **kw).stderr
            if f'{name}: No space left on device' not in said:
                fail(f'{verb}: {said}')


@case
def each_row_says_when_it_was_looked_at(port):
    before = time.time_ns()
    lines = tcp('flows', '--json', '-d', '100ms', '-i', '50ms', '-p', port, code=0).stdout.splitlines()
    names, *rows = tcp('flows', '--csv', '-d', '50ms', '-p', port, code=0).stdout.splitlines()
    times = [r.get('time_ns') or r['table']['time_ns'] for r in map(json.loads, lines)]
    times.append(int(dict(zip(names.split(','), rows[0].split(',')))['time_ns']))
    if times != sorted(times) or not before <= times[0] <= times[-1] <= time.time_ns():
        fail(f'{before}: {times}')


needs_bpf()
flows.own_network()
client, server = pair()
run_cases(str(server.getsockname()[1]))
