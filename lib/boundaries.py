#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes boundaries.h: the bucket boundaries 2^(i/256), 0 <= i < 256, as mantissas.

A double x in [1, 2) is <= 2^(i/256) if and only if its 52 mantissa bits are <= those of the
largest double that is <= 2^(i/256), since 2^(i/256) is irrational for 0 < i < 256. That double
is floor(2^(52 + i/256)), computed here in integers alone: the 256th root of 2^(52*256 + i) is
eight square roots, and floor(sqrt(floor(x))) = floor(sqrt(x)).
"""
from math import isqrt


def boundary(i):
    root = 1 << (52 * 256 + i)
    for _ in range(8):
        root = isqrt(root)
    return root - (1 << 52)


bounds = [boundary(i) for i in range(256)] + [1 << 52]
# Slots of 2^-9 are narrower than the narrowest bucket: a slot has at most one boundary inside.
slots = []
for slot in range(512):
    first = slot << 43
    index = next(i for i in range(257) if first <= bounds[i])
    last = first + (1 << 43) - 1
    assert last <= bounds[min(index + 1, 256)]
    slots.append(index)

print("/* SPDX-License-Identifier: Apache-2.0 */")
print("/* Made by boundaries.py, which says what this is. */")
print("static const uint64_t boundaries[257] = {")
for i in range(0, 257, 4):
    print("\t" + " ".join("0x%013xull," % b for b in bounds[i:i + 4]))
print("};\n\nstatic const uint16_t first_of_slot[512] = {")
for i in range(0, 512, 16):
    print("\t" + " ".join("%d," % b for b in slots[i:i + 16]))
print("};")
