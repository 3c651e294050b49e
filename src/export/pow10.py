#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the powers of ten of number.c: 10^k for -292 <= k <= 324 as 128-bit significands.

g(k) = ceil(10^k * 2^(127 - floor(log2(10^k)))), so that 2^127 <= g(k) < 2^128; see R. Giulietti,
"The Schubfach way to render doubles" (2020), section 9.8.3. Exact integer arithmetic.
"""

for k in range(-292, 325):
    numerator, denominator = (10**k, 1) if k >= 0 else (1, 10**-k)
    shift = 127 - (numerator.bit_length() - denominator.bit_length())
    while True:
        n, d = (numerator << shift, denominator) if shift >= 0 else (numerator, denominator << -shift)
        g = -(-n // d)
        if n // d >= 1 << 128:
            shift -= 1
        elif n // d < 1 << 127:
            shift += 1
        else:
            break
    assert 1 << 127 <= g < 1 << 128
    print("{ 0x%016x, 0x%016x }," % (g >> 64, g & (1 << 64) - 1))
