# SPDX-License-Identifier: Apache-2.0
"""'sidelight tcp' at a terminal, here a pseudo terminal: the output fits it, keys work as documented, and the terminal
is restored. Also its messages when there is nothing to show, or nowhere to write."""
import json
import re
import signal
import socket
import sys
import time

from support import flows
from support.flows import needs_bpf, pair
from support.process import case, fail, run, run_cases, wait_until
from support.screen import Screen

EXE = sys.argv[1]


@case
def the_screen_fits_its_terminal_and_obeys_its_keys(port):
    for verb, orders, column, needed in (
            ('flows', ('activity', 'sent', 'received'), 'REMOTE', 'COMMAND'),
            ('layers', ('requests', 'segments', 'app'), 'tcp_in', 'total'),
            ('cpu', ('both', 'cpu', 'wait'), 'TID', 'WAIT%')):
        filtered = ('-p', port) if verb != 'cpu' else ()
        s = Screen(24, 80, EXE, 'tcp', verb, '-i', '100ms', *filtered)
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
def keys_help_filter_scroll_and_pause(port):
    more = [pair() for _ in range(20)]
    ports = sorted(s.getsockname()[1] for ends in more for s in ends)

    def shown(frame):
        """The local ports of the rows."""
        return [int(m[1]) for m in (re.match(r'127\.0\.0\.1:(\d+) ', line) for line in frame) if m]
    s = Screen(24, 80, EXE, 'tcp', 'flows', '-i', '100ms', '--netns', '/proc/self/ns/net')

    def after(key, condition, what):
        """Waits for a frame drawn after the key that meets the condition. During a pause, only keys cause frames."""
        seen = len(s.frames())
        s.key(key)
        wait_until(lambda: any(condition(f) for f in s.frames()[seen:]), lambda: f'{what}: {s.raw[-3000:]}')
    frame = s.wait(lambda f: len(shown(f)) == 20, 'the first rows')
    if 'COMMAND' not in frame[2] or not any('python' in line for line in frame):
        fail(f'no command at 80 columns: {frame}')
    first = shown(frame)
    after(b'\033[6~', lambda f: len(shown(f)) == 20 and not set(shown(f)) & set(first[:10]) and 'COMMAND' in f[2], 'other rows')
    after(b'\033[H', lambda f: shown(f)[:2] == first[:2], 'the first rows again')
    after(b'?', lambda f: any(line.startswith('p or space') for line in f) and not shown(f), 'the help')
    after(b'x', lambda f: len(shown(f)) == 20, 'the rows again')
    after(b'/:%d\r' % ports[0], lambda f: len(shown(f)) == 2 and f'filter :{ports[0]}' in f[0] and 'COMMAND' in f[2], 'two rows')
    after(b'\033', lambda f: len(shown(f)) == 20, 'no filter')
    after(b' ', lambda f: 'PAUSED' in f[0], 'a pause')
    for ends in more:
        for end in ends:
            end.close()
    time.sleep(.5)  # several intervals
    after(b'h', lambda f: not shown(f), 'the help in a pause')
    after(b'x', lambda f: len(shown(f)) == 20 and 'PAUSED' in f[0], 'the same rows in the pause')
    after(b'p', lambda f: 'PAUSED' not in f[0] and ' 2 open' in f' {f[1]}', 'new values')
    s.key(b'q')
    s.end()


@case
def what_starts_in_another_order_says_so(port):
    s = Screen(24, 80, EXE, 'tcp', 'flows', '-i', '100ms', '--sort', 'rtt', '-p', port)
    s.wait(lambda f: 'by rtt;' in f[0], 'sorted by rtt')
    s.p.send_signal(signal.SIGTERM)
    s.end()


@case
def json_on_a_terminal_is_plain_lines(port):
    s = Screen(24, 80, EXE, 'tcp', 'flows', '--json', '-i', '100ms', '-d', '300ms', '-p', port)
    wait_until(lambda: '"table"' in s.text() and s.p.poll() is not None, lambda: s.raw[-3000:])
    s.end()
    if b'\033' in s.raw:
        fail(s.raw[:1000])


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
    with socket.socket() as unused:  # other tests try to connect to port 1
        unused.bind(('127.0.0.1', 0))
        port = str(unused.getsockname()[1])
    for verb, *args in (('flows', '--json'), ('layers',), ('trace', '--csv')):
        said = tcp(verb, '-d', '50ms', '-p', port, *args, code=0).stderr
        if 'filter' not in said:
            fail(f'{verb} {args}: nothing passes the filter, and it says {said}')
    said = tcp('cpu', '-d', '50ms', '--of', 'nobody', code=0).stderr
    if 'no matching task' not in said:
        fail(f'cpu: {said}')


@case
def what_finds_no_room_is_said(_):
    many = [pair() for _ in range(40)]
    said = {verb: tcp(verb, '-d', '100ms', '--flows', '64', *args, code=code).stderr
            for verb, args, code in (('flows', ('--csv',), 0), ('why', ('no-such-service',), 1))}
    for verb, text in said.items():
        if not re.search(r'\d+ connections did not fit into the table of 64: see --flows', text):
            fail(f'{verb}: {text}')
    for s in (s for ends in many for s in ends):
        s.close()


@case
def an_output_that_takes_nothing_more_is_an_error_with_its_name(port):
    with open('/dev/full', 'w') as full:
        for verb, args, kw, name in (('flows', ('-i', '100ms', '-o', '/dev/full'), {}, '/dev/full'),
                                     ('cpu', ('-i', '100ms'), {'stdout': full}, 'standard output'),
                                     ('trace', ('-o', '/dev/full'), {}, '/dev/full')):
            said = tcp(verb, '--json', '-d', '300ms', *args, code=1, **kw).stderr
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
