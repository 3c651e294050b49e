#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_incident.py SIDELIGHT CHAIN - front calls cart. A fault of cart is one incident, with cart as its cause, one alert and one end,
however often cart falls below its threshold meanwhile, whether front is unusual, too, and beside whatever their host does. Three times as many requests cause no alert.

On a machine that has no CPU to spare, more than the fault is unusual; so each may be tried TRIES times."""
import json
import os
import sys
import time

from support import http as client
from support.process import check, poll, wait_until, workdir
from support.receiver import Receiver
from support.sidelight import Agent, Collector, Pod

TRIES, FAULT_S, SURGE_S = 3, 12, 40
TOKEN = 'of-who-may-accept-what-is-new-0123456789'


class Alerts(Receiver):
    def of(self, incidents):
        """{labels: [ended]} of the alerts about these."""
        found = {}
        path = '/api/v2/alerts'
        for at, a in zip(self.times.get(path, []), self.got.get(path, [])):
            if a['labels']['incident'] in incidents:
                ended = a['endsAt'] <= time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(at))
                found.setdefault(json.dumps(a['labels'], sort_keys=True), []).append(ended)
        return found


class System:
    def __init__(self):
        self.receiver = Alerts()
        self.agent = Agent('--hostname', 'node-1', '--host')
        self.chain = Pod(sys.argv[2], self.agent.socket)
        self.chain.ready()
        token = f'{workdir()}/token'
        with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), 'w') as f:
            f.write(TOKEN + '\n')
        self.c = Collector([self.agent], '--period', '10ms', '--analyse', '--analyse-step', '200ms', '--warm-up', '10s',
                           '--false-alarms', '6', '--analyse-hold', '1m', '--trace-head', '0.05', '--alert', self.receiver.url + '/api/v2/alerts',
                           '--webhook', self.receiver.url + '/hook', '--admin-token-file', token)
        wait_until(lambda: all(self.verdict(s) and not self.verdict(s)['learning'] for s in ('cart', 'front')), 'both are known',
                   self.c, seconds=400)
        wait_until(lambda: self.c.api('traces?limit=1')['traces'], 'their calls are known', self.c)

    def verdict(self, name):
        return next((p['verdict'] for p in self.c.api(f'pods?q={name}-0')['pods'] if p.get('verdict')), None)

    def quiet(self):
        """Waits until all earlier incidents are over."""
        wait_until(lambda: all(i['end'] for i in self.incidents(0)), lambda: self.incidents(0)[:1], self.c, seconds=400)

    def incidents(self, since):
        """Returns the incidents of the two services since then."""
        return [i for i in self.c.api('incidents?limit=256')['incidents']
                if i['last'] >= since and {'cart', 'front'} & {m['service'] for m in i['members']}]

    def fault(self):
        """Returns why it is not one incident with one alert and one end, or ''."""
        self.quiet()
        since = time.time()
        self.chain.tell('fault')
        poll(lambda: time.time() > since + FAULT_S)
        self.chain.tell('usual')
        poll(lambda: all(i['end'] for i in self.incidents(since)), 120)
        found = self.incidents(since)
        ids = {i['id'] for i in found}
        poll(lambda: any(True in ended for ended in self.receiver.of(ids).values()), 30)
        alerts = self.receiver.of(ids)
        events = [e['event'] for e in self.receiver.got.get('/hook', []) if e['id'] in ids]
        said = f"{[(i['sentence'], [m['service'] for m in i['members']]) for i in found]}, {alerts}, {events}"
        print(said, flush=True)
        if len(found) != 1 or len(alerts) != 1 or events != ['incident.begin', 'incident.end']:
            return said
        one = found[0]
        check(one['kind'] == 'fault' and one['state'] == 'ended', one)
        check(sum(next(iter(alerts.values()))) == 1, 'one end', alerts)
        right = one['cause']['service'] == 'cart' and since - 1 <= one['begin'] <= since + 5 and one['end'] >= since + FAULT_S - 3
        return '' if right else said

    def surge(self):
        """Returns the incidents and alerts that three times as many requests cause, or '' if there are none but those of
        load."""
        self.quiet()
        since = time.time()
        self.chain.tell('surge')
        poll(lambda: time.time() > since + SURGE_S, SURGE_S + 1, every=0.5)
        poll(lambda: False, 4, every=1)  # an incident is reported after at most 3 s
        found = self.incidents(since)
        alerts = self.receiver.of({i['id'] for i in found})
        self.chain.tell('usual')
        said = f"{[(i['kind'], i['sentence']) for i in found]}, {alerts}"
        print('surge:', said, flush=True)
        return said if alerts or any(i['kind'] != 'load' for i in found) else ''


    def accept(self):
        """A user accepts a fault as normal: the incident ends while the fault lasts. A client without a token is refused."""
        self.quiet()
        since = time.time()
        self.chain.tell('fault')
        def is_open():
            return next((i for i in self.incidents(since) if not i['end']), None)
        one = wait_until(is_open, 'an incident', self.c)
        path = f'{self.c.url}/api/v1/incidents/{one["id"]}/accept'
        check(client.request(path, 'POST', b'')[0] in (401, 403), 'a stranger accepts', self.c)
        status, _, answer = client.request(path, 'POST', b'', {'Authorization': 'Bearer ' + TOKEN})
        check(status == 200 and json.loads(answer)['accepted'] > 0, f'{status} {answer}', self.c)
        wait_until(lambda: not is_open(), lambda: is_open(), self.c, seconds=30)
        self.chain.tell('usual')
        check(client.request(path.replace(one['id'], 'none'), 'POST', b'', {'Authorization': 'Bearer ' + TOKEN})[0] == 404, 'none')


def tried(what):
    said = []
    for _ in range(TRIES):
        said.append(what())
        if not said[-1]:
            return
    check(False, f'{what.__name__}, load {os.getloadavg()[0]:.0f}:', *said)


system = System()
tried(system.fault)
tried(system.surge)
system.accept()
