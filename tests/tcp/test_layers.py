# SPDX-License-Identifier: Apache-2.0
"""'sidelight tcp layers' and 'tcp trace' report the same requests alike in every format, refuse
misuse, and leave nothing in the kernel."""
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

from support import flows
from support.flows import held, receive, still_there, without_capabilities
from support.process import SCALE, Part, case, fail, run_cases, wait_until

EXE = sys.argv[1]
REQUESTS, LENGTH, REPLY = 20, 100, 300
LAYERS = 'mac_in ip_in tcp_in app tcp_out ip_out mac_out'.split()


def ask(took=None, sleep=0):
    """Requests and responses over loopback; the port of the server, and the client's. took: the
    least and the most that the server took for each, ns, by its own clock."""
    client, server = flows.pair()
    for _ in range(REQUESTS):
        client.sendall(b'q' * LENGTH)
        before = time.monotonic_ns()
        receive(server, LENGTH)
        read = time.monotonic_ns()
        time.sleep(sleep)
        send = time.monotonic_ns()
        server.sendall(b'a' * REPLY)
        if took is not None:
            took.append((send - read, time.monotonic_ns() - before))
        receive(client, REPLY)
    ports = server.getsockname()[1], client.getsockname()[1]
    client.close()
    server.close()
    return ports


def trace(*args, **kw):
    """Returns the output of 'tcp trace' about ask(), and the ports."""
    part = Part(EXE, 'tcp', 'trace', *args)
    part.ready()
    ports = ask(**kw)
    wait_until(lambda: sum(str(ports[0]) in line for line in list(part.out)) >= REQUESTS, 'the requests', part,
               seconds=20)
    if part.stop():
        fail('it failed', part)
    return [line for line in part.out if str(ports[0]) in line], ports


@case
def a_request_is_the_sum_of_its_layers_in_json():
    lines, (server, client) = trace('--json')
    rows = [r for r in map(json.loads, lines) if (r.get('local_port'), r.get('remote_port')) == (server, client)]
    if len(rows) != REQUESTS:
        fail(f'{len(rows)} records of {REQUESTS} requests: {lines[:3]}')
    for i, r in enumerate(rows):
        if r['record'] != 'request' or r['role'] != 'server' or r['length'] != LENGTH or r['pipelined']:
            fail(f'{r}')
        if min(r[name] for name in LAYERS) < 0 or sum(r[name] for name in LAYERS) != r['total']:
            fail(f'its parts are not the whole: {r}')
        if i and (r['seq'] - rows[0]['seq']) % 2**32 != i * LENGTH or \
                (r['response_seq'] - rows[0]['response_seq']) % 2**32 != i * REPLY:
            fail(f'request {i}: {r}')


@case
def the_original_tools_lines():
    took = []
    lines, (server, client) = trace('--format', 'microbpf', '--segments', '-p', '1-65535', took=took,
                                    sleep=0.001)
    here, there = f'127.0.0.1:{server}', f'127.0.0.1:{client}'
    of = {}
    for line in lines:
        of.setdefault(line[0], []).append(line.split())
    mine = [w for w in of['5'] if w[1:4] == [here, '->', there]]
    app = [int(w[6]) for w in of['4'] if w[1:4] == [there, '->', here]]
    if len(mine) != REQUESTS or len(app) != REQUESTS:
        fail(f'{of}')
    for us, (least, most) in zip(app, took):
        if not least // 1000 <= us <= most // 1000:
            fail(f'application latency {us} us, and the server took {least} to {most} ns')
    for w in mine:  # whole microseconds: each part loses less than one
        total, parts = int(w[6]), [int(n) for n in w[7:]]
        if len(parts) != 7 or not 0 <= total - sum(parts) <= 7:
            fail(f'{w}')
    if len([w for w in of['1'] if w[1] == here and w[5] == there]) != REQUESTS or \
            len([w for w in of['2'] if w[1] == there and w[3] == here]) != REQUESTS:
        fail(f'segments: {of}')


@case
def csv_has_a_line_of_names():
    lines, (server, _) = trace('--csv')
    names = 'record,time_ns,role,local,remote,seq,length,response_seq,pipelined,' + \
        ','.join(f'{name}_ns' for name in LAYERS) + ',total_ns'
    for r in csv.DictReader(io.StringIO('\n'.join([names, *lines]))):
        if sum(int(r[f'{name}_ns']) for name in LAYERS) != int(r['total_ns']):
            fail(f'{r}')


@case
def every_way_to_add_up_counts_the_same_requests():
    for by in ('flow', 'remote', 'container'):
        part = Part(EXE, 'tcp', 'layers', '--json', '--by', by, '-i', '50ms')
        part.ready()
        server, _ = ask()
        count = REQUESTS
        if by != 'flow':  # another request from another port: unless rows are per flow, it is added to the same row
            ask()
            count *= 2

        def row():
            """Returns the last row that includes ask(); other programs may be at work here, too."""
            for line in reversed(list(part.out)):
                r = json.loads(line)
                if r['row'] == by and r['role'] == 'server' and r['complete'] >= count and \
                        (by != 'flow' or r['local_port'] == server) and \
                        (by != 'remote' or r['name'] == '127.0.0.1'):
                    return r
            return None
        r = wait_until(row, lambda: f'a row by {by}', part, seconds=20)
        if by == 'flow' and (r['requests'], r['complete'], r['unattributed']) != (REQUESTS, REQUESTS, 0):
            fail(f'{r}')
        for name in [*LAYERS, 'total']:
            h = r['layers'][name]
            if h['count'] != h['zero'] + h['over'] + sum(h['buckets'].values()) or h['count'] < REQUESTS:
                fail(f'{by}: {name}: {h}')
        objects = held(part.pid)
        if len(objects) < 10 or not still_there(objects):
            fail(f'it holds {objects}', part)
        part.stop(signal.SIGKILL)
        wait_until(lambda: not still_there(objects), 'all that it had loaded is gone', seconds=20)


@case
def what_stands_in_for_a_hook_measures_the_same_segments():
    every = ((), ('fentry', 'kprobe', 'cgroup_skb', 'netfilter'))
    if 'GUEST' in os.environ:  # each start takes seconds under emulation
        every = (('fentry',), ('fentry', 'kprobe')) if SCALE > 1 else (('fentry',),)
    for types in every:
        avoid = [a for t in types for a in ('--avoid', t)]
        probe = json.loads(subprocess.run([EXE, 'tcp', 'probe', '--json', *avoid], check=True, text=True,
                                          stdout=subprocess.PIPE).stdout)
        used = {b['boundary']: b['used'] for b in probe['boundaries']}
        if set(types) & set(used.values()):
            fail(f'{types} are in use: {used}')
        part = Part(EXE, 'tcp', 'layers', '--json', '--by', 'flow', '-i', '50ms', *avoid)
        part.ready()
        server, _ = ask()

        def row():
            for line in reversed(list(part.out)):
                r = json.loads(line)
                if r['row'] == 'flow' and r.get('local_port') == server and r['role'] == 'server' and \
                        r['segments_in'] >= REQUESTS and r['segments_out'] >= REQUESTS:
                    return r
            return None
        r = wait_until(row, lambda: f'segments without {types}', part, seconds=20)
        part.stop()
        for name, ends in flows.BETWEEN.items():
            want = 0 if 'none' in (used[e] for e in ends) else REQUESTS
            if r['layers'][name]['count'] != want:
                fail(f"{name}: {r['layers'][name]['count']}, not {want}, with {used}: {r}")
        print(f"     without {', '.join(types) or 'nothing'}: " + ', '.join(
            f"{e} {used[e]}" for e in ('mac-ip', 'ip-tcp', 'app-tcp', 'tcp-ip')), flush=True)


@case
def wrong_questions_get_one_line():
    def run(*args, code, **kw):
        p = subprocess.run([EXE, 'tcp', *args], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=300, **kw)
        if p.returncode != code or p.stderr.count('\n') != 1 or p.stdout:
            fail(f'{args}: {p.returncode}: {p.stdout}{p.stderr}')
        return p.stderr
    for args in (('layers', '--by', 'colour'), ('layers', 'x'), ('layers', '--json', '--csv'),
                 ('trace', '--format', 'xml'), ('trace', '--json', '--csv'), ('layers', '--avoid', 'magic'),
                 ('trace', '--interval', '1s', '-d', '10ms'), ('probe', '--avoid', 'none'), ('flows', '--avoid', 'x')):
        run(*args, code=2)
    for verb in ('layers', 'trace'):
        run(verb, '-p', 'http', '-d', '10ms', code=2)
        run(verb, '-d', '10ms', '-o', '/nowhere/at/all', code=1)
        if 'CAP_BPF' not in run(verb, '-d', '10ms', code=1, preexec_fn=without_capabilities):
            fail('which capability?')


flows.needs_layers()
run_cases()
