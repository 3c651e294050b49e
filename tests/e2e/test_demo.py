#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""'sidelight demo' shows a page and live values, survives the death of its parts, and leaves no
process and no file behind, also after SIGKILL."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from support.exposition import series, total
from support.http import get
from support.process import Part, alive, check, skip, wait_until, workdir

sidelight, examples = sys.argv[1], sys.argv[2]
d = workdir()
if not shutil.which('wrk'):
    skip('wrk is not installed')


def descendants(pid):
    found, queue = [], [pid]
    while queue:
        parent = queue.pop()
        try:
            with open(f'/proc/{parent}/task/{parent}/children') as f:
                children = [int(c) for c in f.read().split()]
        except OSError:
            continue
        found += children
        queue += children
    return found


def name_of(pid):
    try:
        with open(f'/proc/{pid}/comm') as f:
            return f.read().strip()
    except OSError:
        return ''


def those_alive(pids):
    return [pid for pid in pids if alive(pid)]


def start(*options, tmp=None):
    tmp = tmp or tempfile.mkdtemp(dir=d)
    return Part(sidelight, 'demo', '--examples', examples, *options, env={'TMPDIR': tmp}), tmp


def stall(demo, end):
    """Stops the collector for half of the time."""
    while not end.is_set():
        for pid in descendants(demo.pid):
            try:
                with open(f'/proc/{pid}/cmdline') as f:
                    if not f.read().split('\0')[0].endswith('/sidelight-collect'):
                        continue
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.03)
                os.kill(pid, signal.SIGCONT)
            except OSError:
                pass
        time.sleep(0.03)


def works_and_leaves_nothing_behind():
    # Both ports are in use, so the demo takes others.
    taken = [socket.create_server(('127.0.0.1', 0)) for _ in range(2)]
    used = [s.getsockname()[1] for s in taken]
    demo, tmp = start('--listen', f'127.0.0.1:{used[0]}', '--shop-listen', f'127.0.0.1:{used[1]}',
                      '--period', '5ms')
    ready = demo.ready(60)
    for port in used:
        check(f':{port}' not in ready['metrics'] + ready['shop'], 'a port in use was taken', demo)
        check(f'127.0.0.1:{port} is in use' in demo.stdout(), 'the user was not told', demo)
    check('<html' in get(ready['page']).lower(), 'no page', demo)
    check(get(ready['metrics']).startswith('#'), 'no exposition', demo)

    def served():
        return total(get(ready['metrics']), 'http_requests_total', route='/products', code='200')

    before = wait_until(served, 'the load does not reach the shop', demo)
    wait_until(lambda: served() > before, 'the load does not move the shop', demo)
    check('http_requests_total{' in demo.stdout(), 'no sample line was shown', demo)
    if 'flows of loopback, by the kernel itself' in demo.stdout():
        wait_until(lambda: total(get(ready['metrics']), 'sidelight_dta_reports', outcome='stored') > 0, 'no report is stored', demo)

    # A service is killed: the demo reports it, the load waits, and a new service starts.
    load = [pid for pid in descendants(demo.pid) if name_of(pid) == 'wrk']
    os.kill(int(ready['shop_pid']), signal.SIGKILL)
    wait_until(lambda: any('shop (pid' in e and 'killed by signal 9' in e for e in demo.err),
               'the death of the shop is not told', demo)
    wait_until(lambda: any(o.startswith('the load is paused') for o in demo.out), 'the load did not wait', demo)
    check(not those_alive(load), f'the load goes on against a dead shop: {those_alive(load)}', demo)
    check(total(get(ready['metrics']), 'http_requests_total', route='/products') > 0,
          'the last words of the shop are gone', demo)
    wait_until(lambda: any(o.startswith('shop runs again') for o in demo.out), 'the shop was not started again', demo)
    wait_until(lambda: len({labels['process'] for name, labels, _ in series(get(ready['metrics']))
                             if name == 'http_requests_total'}) == 2, 'old and new shop are not both seen', demo)
    before = served()
    wait_until(lambda: served() > before, 'the load did not come back', demo)
    parts = descendants(demo.pid)
    check(len(parts) >= 6, f'agent, collector, shop, queue with workers: {parts}', demo)
    check(demo.stop(signal.SIGINT) == 0, 'Ctrl-C is a clean end', demo)
    check(not those_alive(parts), f'left running: {those_alive(parts)}', demo)
    check(not os.listdir(tmp), f'left in TMPDIR: {os.listdir(tmp)}', demo)

    # It ends after --duration, although the reader of its output has exited.
    tmp = tempfile.mkdtemp(dir=d)
    r, w = os.pipe()
    os.close(r)
    code = subprocess.run([sidelight, 'demo', '--examples', examples, '--listen', '127.0.0.1:0', '--shop-listen',
                           '127.0.0.1:0', '--duration', '500ms', '--load', '0'], stdout=w,
                          stdin=subprocess.DEVNULL, env={**os.environ, 'TMPDIR': tmp}, timeout=300).returncode
    os.close(w)
    check(code >= 0 and not os.listdir(tmp), f'a bounded demo: {code}, left {os.listdir(tmp)}')

    # A part is restarted even if its death cannot be reported.
    demo = Part('sh', '-c', 'exec "$0" "$@" 2>/dev/full', sidelight, 'demo', '--examples', examples, '--listen', '127.0.0.1:0',
                '--shop-listen', '127.0.0.1:0', '--period', '10ms', '--load', '0', env={'TMPDIR': tmp})
    os.kill(int(demo.ready(60)['shop_pid']), signal.SIGKILL)
    wait_until(lambda: any(o.startswith('shop runs again') for o in demo.out), 'the shop was not started again', demo)
    check(demo.stop() == 0 and not os.listdir(tmp), 'a clean end', demo)

    p = subprocess.run([sidelight, 'demo', '--examples', examples, '--listen', 'a..b:80'], capture_output=True, text=True, timeout=300)
    check(p.returncode == 2 and p.stderr == "sidelight demo: --listen: 'a..b:80' is not ADDR:PORT\n", f'{p}')


def killed_leaves_nothing_for_long():
    # When the demo is killed, its parts end, too, and the next demo cleans up. It removes only what dead demos have left:
    # nothing of a running one, and no folder that no demo has locked.
    anywhere = ('--listen', '127.0.0.1:0', '--shop-listen', '127.0.0.1:0', '--period', '10ms')
    killed, tmp = start(*anywhere)
    killed.ready(60)
    parts = descendants(killed.pid)
    killed.stop(signal.SIGKILL)
    wait_until(lambda: not those_alive(parts), lambda: f'parts outlive a killed demo: {those_alive(parts)}', killed)
    dead = os.listdir(tmp)
    check(len(dead) == 1, f'a killed demo cannot clear up: {dead}', killed)
    os.mkdir(os.path.join(tmp, 'sidelight-demo-foreign'))
    runs, _ = start(*anywhere, '--load', '0', tmp=tmp)
    runs.ready(60)
    mine = set(os.listdir(tmp)) - {'sidelight-demo-foreign'}
    check(len(mine) == 1 and mine.isdisjoint(dead) and dead[0] in runs.stdout(),
          f'the next demo left {os.listdir(tmp)}', runs)
    third, _ = start(*anywhere, '--load', '0', '--duration', '300ms', tmp=tmp)
    check(third.wait() == 0, 'another demo beside it', third)
    check(set(os.listdir(tmp)) == mine | {'sidelight-demo-foreign'},
          f'it took the folder of one that runs: {os.listdir(tmp)}', runs, third)
    check(runs.stop(signal.SIGHUP) == 0, 'a closed terminal is a clean end', runs)
    check(os.listdir(tmp) == ['sidelight-demo-foreign'], f'left: {os.listdir(tmp)}', runs)


def reads_as_often_as_the_machine_can():
    # The demo reads with a period that the machine keeps up with. This machine keeps up with none.
    demo, tmp = start('--listen', '127.0.0.1:0', '--shop-listen', '127.0.0.1:0', '--load', '0')
    end = threading.Event()
    thread = threading.Thread(target=stall, args=(demo, end))
    thread.start()
    try:
        demo.ready(60)
    finally:
        end.set()
        thread.join()
    for ms in (1, 2, 5, 10):
        check(re.search(rf'^period {ms} ms: [1-9][0-9.]* % of the deadlines', demo.stdout(), re.M),
              f'a period of {ms} ms was not judged', demo)
    best = re.search(r'too busy for any of these periods; (\d+) ms came closest', demo.stdout())
    check(best and f'reads it every {best[1]} ms' in demo.stdout(), 'the best was not taken', demo)
    check(demo.stop() == 0 and not os.listdir(tmp), 'a clean end', demo)


def shows_a_switch():
    # Flows and ports of a real switch are in the collector's stores; with the demo, all of it goes.
    demo, tmp = start('--listen', '127.0.0.1:0', '--shop-listen', '127.0.0.1:0', '--load', '0', '--period', '10ms', '--switch')
    ready = demo.ready(120)
    refused = re.search(r'switch +not shown: (.*)', demo.stdout())
    if refused:
        demo.stop()
        skip(refused[1])
    at = ready['page'].removeprefix('http://').rstrip('/')

    def ask(*words):
        return subprocess.run([sidelight, 'query', *words, '-c', at], capture_output=True, text=True, timeout=300).stdout
    wait_until(lambda: len(ask('keys', 'interfaces').split()) >= 2, lambda: f'no ports: {ask("keys", "interfaces")}', demo,
               seconds=120)
    wait_until(lambda: '10.9.0.2:8080' in ask('keys', 'flow_bytes', '--flows'), lambda: ask('keys', 'flow_bytes', '--flows'), demo,
               seconds=120)
    parts = descendants(demo.pid)
    check(any(name_of(pid) == 'ovs-vswitchd' for pid in parts), f'{[name_of(p) for p in parts]}', demo)
    check(demo.stop(signal.SIGINT) == 0, 'Ctrl-C is a clean end', demo)
    check(not those_alive(parts), f'left running: {[name_of(p) for p in those_alive(parts)]}', demo)
    check(not os.listdir(tmp), f'left in TMPDIR: {os.listdir(tmp)}', demo)


{f.__name__: f for f in (works_and_leaves_nothing_behind, killed_leaves_nothing_for_long,
                           reads_as_often_as_the_machine_can, shows_a_switch)}[sys.argv[3]]()
