# SPDX-License-Identifier: Apache-2.0
"""Key-Write success over translators of 1, 2 and 4 workers: within 1 % of the formula at N = 1..4 and loads 0.1 to 1.0.
The mean over all keys of a store does not depend on their order, which workers change."""
import math
import subprocess
import sys

from support.process import SCALE, Part, case, check, run_cases, workdir

SIDELIGHT = sys.argv[1]
D = workdir()
SLOTS = int(20000 * SCALE)
LOADS = .1, .5, 1


def formula(n, a):
    """The mean of 1 - (1 - e^-bn)^n over b from 0 to a, by Simpson's rule."""
    steps = 200

    def at(b):
        return 1 - (1 - math.exp(-b * n)) ** n
    return sum((1 if i in (0, steps) else 4 if i % 2 else 2) * at(a * i / steps) for i in range(steps + 1)) / (3 * steps)


def found(store, keys):
    n = 0
    for at in range(0, len(keys), 1000):
        said = subprocess.run([SIDELIGHT, 'query', '--file', f'{D}/{store}.0.0.store', 'keywrite', *keys[at:at + 1000]],
                              stdout=subprocess.PIPE, timeout=300).stdout
        n += len(keys[at:at + 1000]) - said.count(b': empty')
    return n


@case
def success_is_as_the_formula_says():
    stores = [(workers, n) for workers in (1, 2, 4) for n in (1, 2, 3, 4)]
    with open(f'{D}/s.yaml', 'w') as f:
        f.write(f'listen: {D}/dta.sock\ndirectory: {D}\nstores:\n')
        for i, (workers, n) in enumerate(stores):
            f.write(f'  - {{name: s{workers}x{n}, number: {i + 1}, kind: key-write, slots: {SLOTS}, value: 4, copies: {n}, '
                    f'seed: {i + 1}}}\n')
    c = Part(SIDELIGHT, 'collect', '--dta', f'{D}/s.yaml', '--listen', '127.0.0.1:0')
    c.ready()
    t = None
    for i, (workers, n) in enumerate(stores):
        if n == 1:
            check(not t or t.stop() == 0, 'the translator failed', t)
            t = Part(SIDELIGHT, 'translate', '--collector', f'unix:{D}/dta.sock', '--listen', '127.0.0.1:0', '--workers',
                     str(workers), '--json')
            address = t.ready()['listen']
        keys, before = [], 0
        for stage, load in enumerate(LOADS):
            count = int(SLOTS * load) - len(keys)
            # Eight reporters take turns, each from a port of its own: the kernel gives every worker some. Keys of each
            # stage have a length of their own, so that they are others.
            g = Part(SIDELIGHT, 'generate', 'dta', '--to', address, '--json', '--show', '0', '--expect', f'{D}/x', '--store',
                     str(i + 1), '--count', str(count), '--keys', str(count), '--key-bytes', str(8 + stage), '--value-bytes', '4',
                     '--copies', str(n), '--pack', '16', '--essential', '--reporters', '8', '--wait', '60s')
            check(g.wait() == 0, 'the generator failed', g, t)
            with open(f'{D}/x') as f:
                keys += [line.split()[1] for line in f if line.startswith('keywrite')]
            check(len(keys) == int(SLOTS * load), f'{len(keys)} keys', g)
            got, said = found(f's{workers}x{n}', keys) / len(keys), formula(n, load)
            check(abs(got - said) < .01, f'{workers} workers, N={n}, load {load}: {got:.4f} found, {said:.4f} by the formula')
    check(t.stop() == 0 and c.stop() == 0, 'a part failed', t, c)


run_cases()
