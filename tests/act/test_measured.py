#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_measured.py SIDELIGHT POD - the latency of real requests by a service that publishes nothing, as its kernel
measures it, reaches the judge: its quantiles are features of the workload's connections, and are recorded, so that
'sidelight replay' gives the collector's verdicts to the bit."""
import csv
import glob
import os
import socket
import subprocess
import sys
import threading
import time

from support.flows import needs_bpf
from support.process import check, wait_until
from support.sidelight import EXE, Agent, Collector, Pod

# Even when stuck, the four clients make 40 requests per second: with fewer, most quantiles would be unknown.
PORT, QUICK, SLOW, STUCK = 1501, 0.004, 0.03, 0.1
LAYER = 'sidelight_tcp_layer_seconds_%s{layer="app";port="1501";role="server"}'
delay = QUICK
ended = False


def serve(listener, wait):
    with listener.accept()[0] as c:
        while c.recv(100):
            time.sleep(wait())
            c.sendall(b'answer')


def ask(port):
    with socket.create_connection(('127.0.0.1', port)) as c:
        while not ended:
            c.sendall(b'request')
            if c.recv(100) != b'answer':
                return


def features(recording, name):
    """The values of a feature of all workloads, where known, in order."""
    found = []
    for path in glob.glob(os.path.join(recording, 'metrics', '*')):
        with open(path) as f:
            rows = [r for r in csv.DictReader(f) if None not in r.values()]
        found += [float(r[name]) for r in rows if r.get(name)]
    return found


def main():
    global delay, ended
    needs_bpf()
    agent = Agent('--hostname', 'one', '--tcp', 'flows,layers', '--netns', f'/proc/{os.getpid()}/ns/net', '--port', str(PORT))
    recording = os.path.join(agent.folder, 'recording')
    pod = Pod(sys.argv[2], agent.socket, 'shop-0')
    with socket.create_server(('127.0.0.1', PORT)) as listener:
        threads = [threading.Thread(target=serve, args=(listener, lambda: delay), daemon=True) for _ in range(4)]
        threads += [threading.Thread(target=ask, args=(PORT,), daemon=True) for _ in range(4)]
        for t in threads:
            t.start()
        collector = Collector([agent], '--period', '20ms', '--analyse', '--analyse-step', '200ms', '--warm-up', '3s',
                              '--tcp-period', '200ms', '--false-alarms', '60', '--record', recording)
        wait_until(lambda: len(features(recording, LAYER % 'p99')) > 20, 'a tail of the quick requests', collector)
        quick = min(features(recording, LAYER % 'p95'))  # a busy machine delays some
        wait_until(lambda: any(p['verdict'] and not p['verdict']['learning'] for p in collector.api('pods')['pods']
                               if p['unit'] == '(host)'), 'the connections are known', collector)
        delay = SLOW
        wait_until(lambda: features(recording, LAYER % 'p95')[-1] > SLOW / 2, 'a slow P95', collector)
        # The host's connections are shown with the process that serves their port.
        delay = STUCK
        said = f' been slow at port {PORT}, where python3[{os.getpid()}] listens, ', f' in layer app on port {PORT} rose to '

        def is_explained(i):
            return i['kind'] == 'fault' and all(s in i['sentence'] for s in said)
        wait_until(lambda: any(is_explained(i) for i in collector.api('incidents')['incidents']),
                   lambda: [i['sentence'] for i in collector.api('incidents')['incidents']], collector)
        check(QUICK / 2 < quick < SLOW / 2, f'quick requests have a P95 of {quick} s')
        ended = True
        check(collector.stop() == 0, 'the collector failed', collector)
    pod.close()
    check(agent.stop() == 0, 'the agent failed', agent)
    with open(os.path.join(recording, 'verdicts.csv')) as f:
        live = f.read().splitlines()
    p = subprocess.run([EXE, 'replay', recording, '--verdicts', '-'], capture_output=True, text=True, timeout=300)
    check(p.returncode == 0, p.stderr)
    again = p.stdout.splitlines()
    for i, (a, b) in enumerate(zip(live, again)):
        check(a == b, f'verdict {i}: live {a}, replayed {b}')
    check(len(live) == len(again), f'{len(live)} live, {len(again)} replayed')
    check(any('(tcp)' in v for v in again), 'no verdict on connections')
    print(f'{len(live) - 1} verdicts are the same, P95 was {quick * 1e3:.1f} ms')


main()
