#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_fair.py BUILD [ATTACK]... - what 255 innocent pods get while one hostile user does its worst."""
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
from bench import FIRST, OTHERS, Stage, check, get, median, poll, quantile, say  # noqa: E402
from support.attacker import STRANGER, Attacker  # noqa: E402
from support.hostile import GAUGE, HostileRegion, colliding, record, schema  # noqa: E402
from support.protocol import Client, Region  # noqa: E402

import json  # noqa: E402

BUILD = sys.argv[1]
EXE = os.path.join(BUILD, 'sidelight')
PODS, SECONDS, PERIOD_MS, ATTACHES = 255, 5, 10, 200
INNOCENT = STRANGER - 1
held = []


def publish(socket, *regions):
    for r in regions:
        c = Client(socket)
        c.publish(r)
        held.extend((c, r))


# ---- attacks: each returns what goes on until the attacker is stopped, or None ---------------------------------

def series(socket):
    """24 regions of 100,000 series each."""
    records = schema([f'm{i:06}_total' for i in range(100000)])

    def go():
        publish(socket, *(HostileRegion(records, 14286, 4, labels=(('pod', f'evil-{i}'),)) for i in range(24)))
    return go


def generations(socket):
    """24 regions of 20,000 series, whose layouts change without end."""
    records = schema([f'm{i:06}_total' for i in range(20000)])

    def go():
        publish(socket, *(HostileRegion(records, 2858, 1, labels=(('pod', f'evil-{i}'),)) for i in range(24)))
        regions = [r for r in held if isinstance(r, HostileRegion)]

        def change():
            while True:
                for r in regions:
                    r.change_layout()
                time.sleep(0.001)
        threading.Thread(target=change, daemon=True).start()
    return go


def holes(socket):
    """24 regions of 14 MB of holes, all of whose lines are in use."""
    last = record(0, 'last_total', cell=57000 * 7 - 1)

    def go():
        publish(socket, *(HostileRegion(last, 57000, 4, labels=(('pod', f'evil-{i}'),)) for i in range(24)))
    return go


def collisions(socket):
    """100,000 names of one hash bucket, and gauges with the names of the innocent pods' counters."""
    records = schema(colliding(100000))
    names = schema(['generated_updates'] + [f'generated_updates_{s}' for s in ('total', 'count', 'sum')], GAUGE)

    def go():
        publish(socket, *(HostileRegion(records, 14286, 1, labels=(('pod', f'evil-{i}'),)) for i in range(4)),
                HostileRegion(names, 1))
    return go


# ---- figures ----------------------------------------------------------------------------------------------------

def innocent_rounds(address):
    pods = json.loads(get(address, '/api/v1/pods?limit=10000&q=generate'))['pods']
    return time.monotonic(), {p['instance']: p['rounds'] for p in pods if p['service'] == 'generate'}


def rounds_per_second(address):
    """Of the innocent pods: the mean, and the slowest one's."""
    t, before = innocent_rounds(address)
    time.sleep(SECONDS)
    u, after = innocent_rounds(address)
    check(len(before) == len(after) == PODS, f'{len(before)} and {len(after)} pods')
    rates = [(after[i] - before[i]) / (u - t) for i in before]
    return sum(rates) / len(rates), min(rates)


def attaches(socket):
    """Seconds of a PUBLISH, each on a connection of its own."""
    took = []
    for _ in range(ATTACHES):
        r = Region()
        start = time.monotonic()
        c = Client(socket)
        c.publish(r)
        took.append(time.monotonic() - start)
        c.close()
        r.close()
        time.sleep(0.002)
    return took


def measure(s, address):
    return (*rounds_per_second(address), quantile(attaches(s.socket), 0.99))


def run(attack):
    prefix = ['setpriv', f'--reuid={INNOCENT}', '--regid=65534', '--clear-groups']
    with Stage(EXE, 0) as s:
        os.chmod(s.folder, 0o755)
        pods = s.start(OTHERS, 'generate', 'metrics', '--socket', s.socket, '--pods', PODS, '--metrics', 64,
                       '--pods-per-process', 15, '--updates', '4000000000', '--rate', '6400', first=prefix)
        pods.ready()
        _, address = s.collect('--period', f'{PERIOD_MS}ms')
        check(poll(lambda: len(innocent_rounds(address)[1]) == PODS, 60, 0.5), 'not all pods are read')
        time.sleep(2)
        calm = measure(s, address)
        go = attack(s.socket)
        with Attacker(go):
            time.sleep(8)  # its layouts are made
            attacked = measure(s, address)
            found = {line.split('{')[0]: line.rsplit(' ', 1)[1] for line in get(address, '/metrics').splitlines()
                     if line.startswith('sidelight_tenant') and f'uid="{STRANGER}"' in line}
    return calm, attacked, found


ATTACKS = {f.__name__: f for f in (series, generations, holes, collisions)}
if __name__ == '__main__':
    if os.geteuid() or subprocess.run(['setpriv', '--version'], capture_output=True).returncode:
        print('SKIP: needs root and setpriv (util-linux) to be three users')
        sys.exit(77)
    results = {}
    for name in sys.argv[2:] or ATTACKS:
        results[name] = run(ATTACKS[name])
        print(name, *results[name], file=sys.stderr, flush=True)
    worst = min(results, key=lambda n: results[n][1][0] / results[n][0][0])
    calm, attacked, _ = results[worst]
    say('fair.rounds', round(attacked[0] / calm[0], 3), 'of undisturbed',
        f'{PODS} pods of one user, read every {PERIOD_MS} ms; rounds/s of a pod, mean (slowest), undisturbed and '
        'attacked by another user: ' + '; '.join(
            f'{n}: {c[0]:.1f} ({c[1]:.1f}) and {a[0]:.1f} ({a[1]:.1f}), attacker read every '
            f'{f.get("sidelight_tenant_read_every", "?")} rounds' for n, (c, a, f) in results.items()))
    ratio = median([a[2] / c[2] for c, a, _ in results.values()])
    say('fair.publish', round(ratio, 2), 'of undisturbed',
        f'p99 of {ATTACHES} attaches; median of the attacks: ' + '; '.join(
            f'{n}: {c[2] * 1e3:.1f} and {a[2] * 1e3:.1f} ms' for n, (c, a, _) in results.items()))
