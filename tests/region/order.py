#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A bounded model checker for the orders that sidelight-region(5) relies on.

Each thread is a list of loads, stores and fences. The model is weaker than Arm's: a thread executes its operations in any
order, but that accesses to one word stay in program order (coherence), and a fence keeps its side: 'release' lets no
earlier access pass to a later store, 'acquire' no earlier load to a later access. Memory is one copy (Arm is multi-copy
atomic). All executions are enumerated; a program's promise must hold in each of them. Then each fence is taken away in turn,
and the promise must break: a fence that nothing needs is a fault of the model or of the code.

The programs are those of the code, and each fence is looked up there, so that one that goes missing in the code is found, too:
it is named by a file, a function's first line and the fence's text.
"""
import itertools
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
K = (0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f)  # odd, as sl_line_k
MASK = (1 << 64) - 1


def fence_in_code(path, function, fence):
    """Whether the function still has its fence."""
    text = open(os.path.join(ROOT, path)).read()
    body = re.search(r'^[^\n]*\b' + function + r'\([^;{]*\)\n\{.*?^\}', text, re.M | re.S)
    return bool(body) and fence in body[0]


def ordered(a, b, between):
    """Whether operation b, later in the program than a, may not be executed before it."""
    if 'fence' in (a[0], b[0]):
        return False
    if a[1] == b[1]:
        return True
    for f in between:
        if f[0] == 'fence' and (f[1] == 'release' and b[0] == 'store' or f[1] == 'acquire' and a[0] == 'load'):
            return True
    return False


def orders(program):
    """The orders in which a thread may execute its accesses."""
    n = [i for i, op in enumerate(program) if op[0] != 'fence']
    before = {j: {i for i in n if i < j and ordered(program[i], program[j], program[i + 1:j])} for j in n}

    def extend(done):
        if len(done) == len(n):
            yield [program[i] for i in done]
        for j in n:
            if j not in done and before[j] <= set(done):
                yield from extend(done + (j,))
    return list(extend(()))


def executions(threads):
    """Values that the loads of each execution saw: {name: value}."""
    seen = set()
    for chosen in itertools.product(*(orders(t) for t in threads)):
        stack = [((0,) * len(chosen), (), ())]
        reached = set()
        while stack:
            at, memory, loads = stack.pop()
            if (at, memory, loads) in reached:
                continue
            reached.add((at, memory, loads))
            if all(i == len(t) for i, t in zip(at, chosen)):
                seen.add(loads)
            for t, program in enumerate(chosen):
                if at[t] == len(program):
                    continue
                op = program[at[t]]
                now, got = dict(memory), dict(loads)
                if op[0] == 'store':
                    now[op[1]] = op[2]
                else:
                    got[op[2]] = now.get(op[1], 0)
                stack.append((at[:t] + (at[t] + 1,) + at[t + 1:], tuple(sorted(now.items())),
                              tuple(sorted(got.items()))))
    return [dict(s) for s in seen]


def store(word, value):
    return ('store', word, value)


def load(word, name=None):
    return ('load', word, name or word)


def fence(kind, path, function, text):
    return ('fence', kind, (path, function, text))


def line_check(a, b):
    return (a * K[0] + b * K[1]) & MASK


# ---- the programs ---------------------------------------------------------------------------------------

# A line of counters: no fence at all. Cell a goes 0, 1, 2 and b 0, 1, each with its part of the check.
COUNTERS = ([store('a', 1), store('check', line_check(1, 0)), store('b', 1), store('check', line_check(1, 1)),
             store('a', 2), store('check', line_check(2, 1))],
            [load('check'), load('a'), load('b')])


def counters_hold(s):
    """A line that verifies has cells that were together its contents, wherever the copy was torn."""
    return s['check'] != line_check(s['a'], s['b']) or (s['a'], s['b']) in ((0, 0), (1, 0), (1, 1), (2, 1))


# A new metric: two words of its record, then the hot line that covers it (lib/region.c); the reader's READ of the schema
# follows that of the hot line.
PUBLISH = ([store('record', 1), store('record2', 1),
            fence('release', 'lib/region.c', 'sl__hot_change', 'atomic_thread_fence(memory_order_release);'),
            store('used', 1), store('hot', line_check(1, 0))],
           [load('used'), load('hot'),
            fence('acquire', 'src/fabric/shm.c', 'copy_ordered', '__atomic_thread_fence(__ATOMIC_ACQUIRE);'),
            load('record'), load('record2')])


def publish_holds(s):
    covered = s['used'] and s['hot'] == line_check(s['used'], 0)
    return not covered or s['record'] and s['record2']


# A span: its line, then the ring's head (lib/span.c).
SPAN = ([store('line', 1), store('line_check', 1),
         fence('release', 'lib/span.c', 'write_own', 'atomic_thread_fence(memory_order_release);'),
         store('head', 1), store('head_check', line_check(1, 0))],
        [load('head'), load('head_check'),
         fence('acquire', 'src/fabric/shm.c', 'copy_ordered', '__atomic_thread_fence(__ATOMIC_ACQUIRE);'),
         load('line'), load('line_check')])


def span_holds(s):
    covered = s['head'] and s['head_check'] == line_check(s['head'], 0)
    return not covered or s['line'] and s['line_check']


# A snapshot of the collector: a sequence count that is odd meanwhile. The last store is a release, the first load an acquire.
SNAPSHOT = ([store('seq', 1),
             fence('release', 'src/collect/read/snapshot.c', 'collect_snapshot_publish', '__atomic_thread_fence(__ATOMIC_RELEASE);'),
             store('x', 1), store('y', 1),
             fence('release', 'src/collect/read/snapshot.c', 'collect_snapshot_publish',
                   '__atomic_store_n(&b->seq, b->seq + 1, __ATOMIC_RELEASE);'),
             store('seq', 2)],
            [load('seq', 'begin'),
             fence('acquire', 'src/collect/read/snapshot.c', 'collect_snapshot_begin',
                   '__atomic_load_n(&b->seq, __ATOMIC_ACQUIRE)'),
             load('x'), load('y'),
             fence('acquire', 'src/collect/read/snapshot.c', 'collect_snapshot_retry', '__atomic_thread_fence(__ATOMIC_ACQUIRE);'),
             load('seq', 'end')])


def snapshot_holds(s):
    whole = s['begin'] % 2 == 0 and s['begin'] == s['end']
    return not whole or (s['x'], s['y']) == (s['begin'] // 2,) * 2


PROGRAMS = {'counters': (COUNTERS, counters_hold), 'publish': (PUBLISH, publish_holds), 'span': (SPAN, span_holds),
            'snapshot': (SNAPSHOT, snapshot_holds)}


def main():
    failed = 0

    def say(ok, text):
        nonlocal failed
        failed += not ok
        print(('ok   ' if ok else 'FAIL ') + text)

    for name, (threads, holds) in PROGRAMS.items():
        seen = executions(threads)
        bad = [s for s in seen if not holds(s)]
        say(not bad, f'{name}: {len(seen)} outcomes' + (f', of which wrong: {bad[0]}' if bad else ''))
        for t, program in enumerate(threads):
            for i, op in enumerate(program):
                if op[0] != 'fence':
                    continue
                say(fence_in_code(*op[2]), f'{name}: {op[2][0]} has the {op[1]} of {op[2][1]}()')
                without = list(threads)
                without[t] = program[:i] + program[i + 1:]
                say(any(not holds(s) for s in executions(without)), f'{name}: breaks without it')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
