#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_fair.py BUILD [ATTACK]... - what 255 innocent pods get while one hostile user does its worst (all at once)."""
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'common'))
from bench import OTHERS, Stage, check, get, median, poll, quantile, say  # noqa: E402
from support.attacker import STRANGER, Attacker  # noqa: E402
from support.hostile import GAUGE, HostileRegion, colliding, record, schema  # noqa: E402
from support.protocol import Client, Refused, Region  # noqa: E402

import json  # noqa: E402

BUILD = sys.argv[1]
EXE = os.path.join(BUILD, 'sidelight')
PODS, SECONDS, PERIOD_MS, ATTACHES, TURNS = 255, 5, 10, 500, 5
INNOCENT = STRANGER - 1
held = []


def publish(socket, *regions):
    """As many as its share of memory has room for."""
    for r in regions:
        c = Client(socket)
        held.append(c)
        try:
            c.publish(r)
        except Refused:
            break
        held.append(r)


# ---- attacks: each returns what the attacker does ---------------------------------

def series(socket):
    """12 regions of 100,000 series each."""
    records = schema([f'm{i:06}_total' for i in range(100000)])

    def go():
        publish(socket, *(HostileRegion(records, 14286, 4, labels=(('pod', f'many-{i}'),)) for i in range(12)))
    return go


def generations(socket):
    """12 regions of 20,000 series, whose layouts change without end."""
    records = schema([f'm{i:06}_total' for i in range(20000)])

    def go():
        regions = [HostileRegion(records, 2858, 1, labels=(('pod', f'restless-{i}'),)) for i in range(12)]
        publish(socket, *regions)

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
        publish(socket, *(HostileRegion(last, 57000, 4, labels=(('pod', f'hole-{i}'),)) for i in range(24)))
    return go


def collisions(socket):
    """100,000 names of one hash bucket, and gauges with the names of the innocent pods' counters."""
    records = schema(colliding(100000))
    names = schema(['generated_updates'] + [f'generated_updates_{s}' for s in ('total', 'count', 'sum')], GAUGE)

    def go():
        publish(socket, *(HostileRegion(records, 14286, 1, labels=(('pod', f'bucket-{i}'),)) for i in range(4)),
                HostileRegion(names, 1))
    return go


def starts(socket):
    """24 regions of 160,000 metrics, which are published, die and are published again."""
    records = schema([f's{i:x}' for i in range(160000)])

    def again():
        while True:
            conns, regions = [], []
            for k in range(24):
                r = HostileRegion(records, 160000 // 7 + 1, 1, labels=(('pod', f'start-{k}'),))
                r.map.close()  # the agent cannot seal what is mapped for writing
                c = Client(socket)
                conns.append(c)
                regions.append(r)
                try:
                    c.publish(r)
                except Refused:
                    break
            time.sleep(3)
            for c in conns:
                c.close()
            del regions
            time.sleep(1.5)  # the agent forgets the dead after 1 s

    def go():
        threading.Thread(target=again, daemon=True).start()
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


def of_stranger(address):
    """Its own series of the collector, by name."""
    return {line.split('{')[0]: line.rsplit(' ', 1)[1] for line in get(address, '/metrics').splitlines()
            if line.startswith('sidelight_tenant') and f'uid="{STRANGER}"' in line}


def run(names):
    """Turns without and with the attacks, all at once: [(rounds/s, slowest, p99)] of both, and what the attacker got."""
    prefix = ['setpriv', f'--reuid={INNOCENT}', '--regid=65534', '--clear-groups']
    calm, attacked, found = [], [], {}
    with Stage(EXE, 0, agent=('--grace', '1s')) as s:
        os.chmod(s.folder, 0o755)
        pods = s.start(OTHERS, 'generate', 'metrics', '--socket', s.socket, '--pods', PODS, '--metrics', 64,
                       '--pods-per-process', 15, '--updates', '4000000000', '--rate', '10', first=prefix)
        pods.ready()
        _, address = s.collect('--period', f'{PERIOD_MS}ms')
        check(poll(lambda: len(innocent_rounds(address)[1]) == PODS, 60, 0.5), 'not all pods are read')
        go = [ATTACKS[n](s.socket) for n in names]
        os.sched_setaffinity(0, OTHERS)
        for turn in range(TURNS):
            time.sleep(2)
            calm.append(measure(s, address))
            with Attacker(lambda: [f() for f in go] and 'all'):
                if names != ['starts']:
                    time.sleep(8)  # its layouts are made
                attacked.append(measure(s, address))
                found = of_stranger(address)
            print(turn, *calm[-1], *attacked[-1], file=sys.stderr, flush=True)
            check(poll(lambda: not of_stranger(address), 60, 0.5), 'what is dead stays')
    return calm, attacked, found


def report(names, suffix=''):
    calm, attacked, found = run(names)
    undisturbed, disturbed = ([median(c) for c in zip(*turns)] for turns in (calm, attacked))
    each = f'median of {TURNS} turns; another user does at once: {", ".join(names)}'
    say(f'fair.rounds{suffix}', round(disturbed[0] / undisturbed[0], 3), 'of undisturbed',
        f'{PODS} pods of one user, read every {PERIOD_MS} ms, {each}; rounds/s of a pod (of the slowest): '
        f'{undisturbed[0]:.1f} ({undisturbed[1]:.1f}), attacked {disturbed[0]:.1f} ({disturbed[1]:.1f}); the attacker has '
        f'{found.get("sidelight_tenant_series")} series and is read every {found.get("sidelight_tenant_read_every")} rounds')
    say(f'fair.publish{suffix}', round(disturbed[2] / undisturbed[2], 2), 'of undisturbed',
        f'p99 of {ATTACHES} attaches, {each}; {undisturbed[2] * 1e3:.1f} ms, attacked {disturbed[2] * 1e3:.1f} ms')


ATTACKS = {f.__name__: f for f in (collisions, generations, series, holes, starts)}
if __name__ == '__main__':
    if os.geteuid() or subprocess.run(['setpriv', '--version'], capture_output=True).returncode:
        print('SKIP: needs root and setpriv (util-linux) to be three users')
        sys.exit(77)
    # All of it, the attacker too, before other work of this machine; by sched(7), "The autogroup feature".
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    try:
        with open('/proc/self/autogroup', 'w') as f:
            f.write('-20')
    except OSError:
        pass
    # What others have taken of the attacker's share would leave no room for regions that start.
    if sys.argv[2:]:
        report(sys.argv[2:])
    else:
        report([n for n in ATTACKS if n != 'starts'])
        report(['starts'], '.starts')
