#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an unprivileged user of the host does to the collector: test_attack.py SIDELIGHT COUNTER CASE"""
import os
import random
import re
import struct
import sys
import threading
import time

from support.attacker import STRANGER, Attacker
from support.hostile import GAUGE, HostileRegion, colliding, record, schema
from support.process import SCALE, case, check, run_cases, wait_until
from support.protocol import Client, fnv1a, line_check
from support.sidelight import Agent, Collector, counter

held = []  # kept open by the attacker
OF_STRANGER = f'uid="{STRANGER}"'


def public_agent(*options):
    agent = Agent(*options)
    os.chmod(agent.folder, 0o755)
    return agent


def publish(agent, *regions):
    for r in regions:
        c = Client(agent.socket)
        c.publish(r)
        held.extend((c, r))


def collector(agent, *options):
    return Collector([agent], '--period', '5ms', *options)


@case
def an_older_gauge_removes_no_counter():
    """Not even after a restart of the collector, which then sees the attacker first."""
    with public_agent() as agent:
        def attack():
            publish(agent, HostileRegion(schema(['ticks', 'ticks_total', 'http_requests'], GAUGE), 1))
        with Attacker(attack):
            p = counter(agent)
            for _ in range(2):
                with collector(agent) as c:
                    wait_until(lambda: c.total('ticks_total') > 0, 'the counter of root stands', c)
                    wait_until(lambda: c.find('http_requests', OF_STRANGER), 'the attacker is read, too', c)
                    check(not c.find('ticks_total', OF_STRANGER), 'the gauge is left out', c)
                    check(c.find('ticks', OF_STRANGER), 'a name that is no one else\'s is shown', c)
                    check(c.total('sidelight_tenant_conflicts', OF_STRANGER) == 1, 'and counted', c)
            p.stop()


@case
def equal_labels_do_not_stand_for_anothers():
    """A region with all labels of the victim, and its PID."""
    with public_agent() as agent:
        p = counter(agent)
        with collector(agent) as c:
            name = wait_until(lambda: next(iter(c.find('ticks_total')), None))
            check('uid=' not in name, name)

            def attack():
                r = HostileRegion(schema(['ticks_total']), 1, labels=(('service', 'counter'), ('uid', '0')))
                publish(agent, r)
            with Attacker(attack):
                wait_until(lambda: c.find('ticks_total', OF_STRANGER, 'exported_uid="0"'), 'the forgery has its uid', c)
                check(name in c.series(), f'{name} is gone', c)
                check(c.series()[name] > 0, 'the value of the victim stands', c)
        p.stop()


@case
def holes_cost_their_owner_alone():
    """Regions that consist of holes, but whose hot lines claim that all lines are in use."""
    with public_agent() as agent, collector(agent, '--history', '0') as c:
        def attack():
            last = record(0, 'last_total', cell=57000 * 7 - 1)
            publish(agent, *(HostileRegion(last, 57000, 4, labels=(('pod', str(i)),)) for i in range(8)))
        with Attacker(attack) as a:
            wait_until(lambda: len(c.find('last_total', OF_STRANGER)) == 8, 'they are read', c)
            rounds = c.total('sidelight_host_rounds_total')
            wait_until(lambda: c.total('sidelight_host_rounds_total') > rounds + 20)
            folder = f'/proc/{a.pid}/fd'
            sizes = [os.stat(f'{folder}/{fd}').st_blocks * 512 for fd in os.listdir(folder)
                     if 'hostile' in os.readlink(f'{folder}/{fd}')]
            check(sizes and max(sizes) < 65536, f'a READ allocated memory: {sizes}', c)
            with open(f'/proc/{c.pid}/status') as f:
                shared = next(int(line.split()[1]) for line in f if line.startswith('RssShmem'))
            check(shared < 4096, f'{shared} KB of them are resident', c)


@case
def one_user_does_not_take_all_series():
    with public_agent() as agent, collector(agent, '--max-series', '6400') as c:
        def attack():
            records = schema([f'm{i:04}_total' for i in range(1000)])
            publish(agent, *(HostileRegion(records, 143) for _ in range(8)))
        with Attacker(attack):
            wait_until(lambda: c.total('sidelight_tenant_refused_series_total', OF_STRANGER), 'its share is used up', c)
            # The attacker wants 8,000. Half of the capacity without the reserve and the agent's own series is at most 2,800.
            check(2000 < c.total('sidelight_tenant_series', OF_STRANGER) <= 2800, 'its share is a half', c)

            def innocent():
                publish(agent, HostileRegion(schema([f'n{i:04}_total' for i in range(500)]), 72))
            with Attacker(innocent, uid=STRANGER - 1):
                wait_until(lambda: len(c.find('n0499_total')) == 1, 'all series of the next', c)
                pods = {p['tenant']['uid']: p for p in c.api('pods')['pods']}
                check(pods[STRANGER - 1]['series'] == 500 and pods[STRANGER]['tenant']['refused'] > 0, f'{pods}', c)


@case
def colliding_names_delay_no_other():
    """100,000 names of one bucket, which took minutes; the test's own time-out is the bound."""
    names = colliding(100000)
    with public_agent() as agent, collector(agent) as c:
        records = schema(names)

        def attack():
            publish(agent, HostileRegion(records, len(names) // 7 + 1))
        with Attacker(attack):
            p = counter(agent)
            wait_until(lambda: c.total('ticks_total') > 0, 'a new pod is seen', c)
            wait_until(lambda: c.total('sidelight_tenant_series', OF_STRANGER) == len(names), 'all names', c)
            p.stop()


@case
def memory_that_changes_delays_no_other():
    """A region that its owner changes at random while it is read by shm, half of the time with right checks of its lines."""
    rng = random.Random(0 if SCALE <= 1 else None)
    odd = (0, 7, 63, 4096, 1 << 20, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1)
    with Agent() as agent, collector(agent) as c:
        region = HostileRegion(schema([f'm{i}_total' for i in range(40)]), 8, 2)
        publish(agent, region)
        p = counter(agent)
        wait_until(lambda: c.total('ticks_total') > 0 and c.find('m39_total'), 'both are seen', c)
        first, end = region.map[:], time.monotonic() + (600 if SCALE > 1 else 3)
        while time.monotonic() < end:
            rounds = c.total('sidelight_host_rounds_total')
            for step in range(2000):
                if step % 32 == 0:
                    region.map[:] = first
                at = rng.randrange(region.size if step & 1 else 8192) & ~7
                word, = struct.unpack_from('<Q', region.map, at)
                word = rng.choice((rng.choice(odd), word ^ 1 << rng.randrange(64), word + rng.randrange(-8, 8), rng.getrandbits(64)))
                struct.pack_into('<Q', region.map, at, word % 2**64)
                if rng.getrandbits(1):
                    line = at & ~63
                    struct.pack_into('<Q', region.map, line + 56, line_check(struct.unpack_from('<7Q', region.map, line)))
                    struct.pack_into('<Q', region.map, 4088, fnv1a(region.map[:4088]))
            wait_until(lambda: c.total('sidelight_host_rounds_total') > rounds, 'rounds go on', c, agent)
        region.map[:] = first
        ticks = c.total('ticks_total')
        wait_until(lambda: c.total('ticks_total') > ticks, 'the other goes on', c, agent)
        p.stop()


def slowest_rate(c, seconds, also=lambda: None):
    """Rounds per second in the slowest half second. also() is called in each."""
    def now():
        status = c.api('status')
        return status['totals']['rounds'], status['time']
    last, rates, end = now(), [], time.monotonic() + seconds
    while time.monotonic() < end or not rates:
        time.sleep(.5)
        new = now()
        also()
        rates.append((new[0] - last[0]) / (new[1] - last[1]))
        last = new
    return min(rates)


@case
def many_metrics_of_one_user_delay_no_other():
    """All of its regions come at once, and die. The rest of the machine may slow rounds down, too: three attempts."""
    records, rates, waits = schema([f'm{i:x}' for i in range(60000)]), [], []

    def attack():
        regions = [HostileRegion(records, 60000 // 7 + 1, labels=(('pod', str(i)),)) for i in range(24)]
        for r in regions:
            r.map.close()  # the agent cannot seal memory that is mapped for writing
        threading.Timer(1, publish, (agent, *regions)).start()
        return 'soon'

    def innocent():
        publish(agent, HostileRegion(schema(['good_total']), 1))
    with public_agent() as agent:
        while len(rates) < 3 and not any(slow > usual / 2 for usual, slow in rates):
            with collector(agent) as c:
                usual = slowest_rate(c, 2)
                with Attacker(attack):
                    slow = slowest_rate(c, 4, lambda: waits.extend(p['held'] for p in c.api('pods')['pods'] if p['held']))
                    with Attacker(innocent, uid=STRANGER - 1):
                        wait_until(lambda: c.find('good_total'), 'a new pod of another is seen', c)
                    check(any(re.search(r'share of CPU time: \d+ of \d+ regions', w) for w in waits), 'it is not said who waits', c)
                    check(c.total('sidelight_tenant_held_layouts_total', OF_STRANGER) >= 1, 'it is not counted', c)
                rates.append((usual, min(slow, slowest_rate(c, 2))))
        check(any(slow > usual / 2 for usual, slow in rates), f'rounds per second, usual and slowest: {rates}')


run_cases(only=sys.argv[3:])
