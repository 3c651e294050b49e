#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints boundaries.inc: the bucket boundaries 2^(i/256), 0 <= i < 256, as addends of a double.

A double x in [1, 2) is <= 2^(i/256) if and only if its 52 mantissa bits are <= those of the
largest double <= 2^(i/256), as 2^(i/256) is irrational for 0 < i < 256. That double is
floor(2^(52 + i/256)), computed in integers alone: the 256th root of 2^(52*256 + i) is eight square
roots, and floor(sqrt(floor(x))) = floor(sqrt(x)).

The first 9 bits of the mantissa are the slot of x. A slot is narrower than the narrowest bucket and
so contains at most one boundary. The number of the bucket goes to bits 44 and up, where the
exponent, in bits 52 and up, counts for 256 buckets. The addend of a slot therefore removes the slot
(bits 43 and up), adds the first bucket of the slot, and makes the 43 bits below carry into bit 44
if and only if they are above the boundary.
"""
from math import isqrt


def boundary(i):
    root = 1 << (52 * 256 + i)
    for _ in range(8):
        root = isqrt(root)
    return root - (1 << 52)


bounds = [boundary(i) for i in range(256)] + [1 << 52]
slots = []
for slot in range(512):
    first = slot << 43
    last = first + (1 << 43) - 1
    index = next(i for i in range(257) if first <= bounds[i])
    assert last <= bounds[min(index + 1, 256)]
    inside = min(bounds[index], last) - first
    slots.append((index << 44) + ((1 << 44) - 1 - inside) - first)
assert all(0 <= s < 1 << 64 for s in slots)

for i in range(0, 512, 4):
    print(" ".join("0x%014xull," % s for s in slots[i:i + 4]))
