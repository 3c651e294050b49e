# SPDX-License-Identifier: Apache-2.0
"""The last value that a reporter wrote to a key stays, for 10,000 keys (times the scale): two translators of two workers
each, a network that loses, doubles and reorders, and cuts off one translator after the other."""
import json
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time

from support.process import SCALE, Part, check, wait_until, workdir

SIDELIGHT = sys.argv[1]
D = workdir()
KEYS, ROUNDS, LOSS, SLOTS_A_KEY = int(10_000 * SCALE), 4, .05, 16
STORES = f'''
listen: {D}/dta.sock
directory: {D}
stores:
  - {{name: flows, number: 1, kind: key-write, seed: 1, slots: {SLOTS_A_KEY * KEYS}, value: 8, copies: 2}}
'''


class Network(threading.Thread):
    """Passes packets from the reporter to each translator, and back. Packets held for a translator that is cut off are lost."""

    def __init__(self, translators):
        super().__init__(daemon=True)
        self.random, self.ends, self.cut, self.heard, self.done = random.Random(7), [], -1, 0, False
        self.count = {'forwarded': 0, 'lost': 0, 'doubled': 0, 'held up': 0}
        self.ports = selectors.DefaultSelector()
        for i, t in enumerate(translators):
            near, far = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
            near.bind(('127.0.0.1', 0))
            host, port = t.address.rsplit(':', 1)
            far.connect((host, int(port)))
            for s in near, far:
                s.setblocking(False)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
                self.ports.register(s, selectors.EVENT_READ, i)
            self.ends.append({'near': near, 'far': far, 'reporter': None, 'held': []})
        self.address = ','.join(f'127.0.0.1:{e["near"].getsockname()[1]}' for e in self.ends)

    def give(self, send):
        try:
            send()
            self.count['forwarded'] += 1
        except OSError:
            self.count['lost'] += 1

    def forward(self, end, packet):
        self.give(lambda: end['far'].send(packet))

    def take(self, i, s):
        end = self.ends[i]
        try:
            packet, sender = s.recvfrom(65536)
        except OSError:
            return
        if s is end['near']:
            end['reporter'], self.heard = sender, i
        if i == self.cut or self.random.random() < LOSS:
            self.count['lost'] += 1
        elif s is end['far']:
            self.give(lambda: end['near'].sendto(packet, end['reporter']))
        elif self.random.random() < .03 and len(end['held']) < 8:
            self.count['held up'] += 1
            end['held'].append(packet)
        else:
            self.forward(end, packet)
            if self.random.random() < .02:
                self.count['doubled'] += 1
                self.forward(end, packet)
            if end['held'] and self.random.random() < .2:
                self.forward(end, end['held'].pop(0))

    def run(self):
        while not self.done:
            ready = self.ports.select(.02)
            for port, _ in ready:
                self.take(port.data, port.fileobj)
            for i, end in enumerate(self.ends):
                if i == self.cut:
                    end['held'].clear()
                elif not ready and end['held']:
                    self.forward(end, end['held'].pop(0))


def lines(number):
    """Yields lines in which each key is reported once, in an order of this round, and one key in eight once more."""
    order = list(range(KEYS))
    rng = random.Random(number)
    rng.shuffle(order)
    for at in range(0, KEYS, 1000):
        some = order[at:at + 1000]
        yield ''.join(f'keywrite {k:016x} {k:08x}{value(k):08x}\n' for k in some + rng.sample(some, len(some) // 8))


newest = [0] * KEYS


def value(k):
    newest[k] += 1
    return newest[k]


with open(f'{D}/stores.yaml', 'w') as f:
    f.write(STORES)
c = Part(SIDELIGHT, 'collect', '--dta', f'{D}/stores.yaml', '--listen', '127.0.0.1:0')
at = c.ready()['listen'].removeprefix('http://')
translators = []
for name in 't1', 't2':
    t = Part(SIDELIGHT, 'translate', '--collector', f'unix:{D}/dta.sock', '--listen', '127.0.0.1:0', '--json', '--name', name,
             '--workers', '2')
    t.address = t.ready()['listen']
    translators.append(t)
network = Network(translators)
network.start()
began = time.monotonic()
reporter = subprocess.Popen([SIDELIGHT, 'report', '--target', network.address, '--store', '1', '--copies', '2', '--essential',
                             '--backup-packets', '1024', '--wait', '600s', '--timeout', '120s', '--json'],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
try:
    for number in range(ROUNDS):
        for i, part in enumerate(lines(number)):
            # In the middle of a round, the translator in use is cut off.
            if i == KEYS // 2000:
                network.cut = network.heard
            reporter.stdin.write(part.encode())
            reporter.stdin.flush()
        wait_until(lambda: network.heard != network.cut, 'the other translator is not used', *translators)
        network.cut = -1
    said = json.loads(reporter.communicate(timeout=900 * max(1, SCALE))[0])
finally:
    reporter.kill()
    reporter.wait()
network.done = True
network.join()
sent = sum(newest)
check(reporter.returncode == 0 and said['sent'] == sent and said['dropped_ring'] == 0, f'{sent} reports: {said}', *translators)
check(said['failovers'] >= ROUNDS - 1, f'the reporter did not change its translator: {said}')
accounts = []
for t in translators:
    check(t.stop(signal.SIGINT) == 0, 'a translator failed', t)
    a = json.loads(t.out[-1])
    check(a['fresh'] == a['engine']['in'] == a['engine']['stored'] + sum(a['engine']['dropped'].values()), f'{a}', t)
    accounts.append(a)
superseded = sum(a['engine']['dropped']['superseded'] for a in accounts)
check(c.stop(signal.SIGTERM) == 0, 'the collector failed', c)

# Check every slot, not only the answers of queries: no copy of a key has an older value.
store, = (f for f in os.listdir(D) if f.endswith('.store'))
export = subprocess.Popen([SIDELIGHT, 'query', '--all', '--file', f'{D}/{store}'], stdout=subprocess.PIPE, text=True)
columns = export.stdout.readline().strip().split(',')
there, old, slots = set(), 0, 0
for line in export.stdout:
    k, n = divmod(int(line.strip().split(',')[columns.index('value')], 16), 1 << 32)
    there.add(k)
    slots += 1
    old += n != newest[k]
check(export.wait() == 0, f'query: {export.returncode}')
print(f'= {KEYS} keys, {sent} reports in {time.monotonic() - began:.0f} s: {old} of {slots} slots old, {len(there)} keys there, '
      f'{said["failovers"]} changes of translator, {superseded} superseded, network {network.count}')
check(old == 0, f'{old} of {slots} slots have an old value')
check(superseded > 0, f'{accounts}')
# With 16 slots a key, both copies of 1 % of keys are written over: (1 - e^(-2/16))^2.
check(len(there) > .97 * KEYS, f'{len(there)} of {KEYS} keys')
