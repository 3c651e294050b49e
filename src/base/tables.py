#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tables.py pow10 | tens | roots - constants as C initialisers, by exact arithmetic.

pow10   10^k for -292 <= k <= 324 as 128-bit significands: g(k) = ceil(10^k * 2^(127 -
        floor(log2(10^k)))), so that 2^127 <= g(k) < 2^128; see R. Giulietti, "The Schubfach way to
        render doubles" (2020), section 9.8.3.
tens    10^k for 0 <= k < 20.
roots   2^(i/256) for 0 <= i < 256, correctly rounded: the bounds within an octave at scale 8. libm's
        exp2() may be off by one bit, and differently on other machines, but "le" is a string.
"""
import decimal
import sys


def pow10():
    for k in range(-292, 325):
        numerator, denominator = (10**k, 1) if k >= 0 else (1, 10**-k)
        shift = 127 - (numerator.bit_length() - denominator.bit_length())
        while True:
            n = numerator << max(shift, 0)
            d = denominator << max(-shift, 0)
            g = -(-n // d)
            if n // d >= 1 << 128:
                shift -= 1
            elif n // d < 1 << 127:
                shift += 1
            else:
                break
        assert 1 << 127 <= g < 1 << 128
        print("{0x%016x, 0x%016x}," % (g >> 64, g & (1 << 64) - 1))


def tens():
    for k in range(20):
        print("%dull," % 10**k)


def roots():
    decimal.getcontext().prec = 60
    for i in range(256):
        print("%s," % float(decimal.Decimal(2) ** (decimal.Decimal(i) / 256)).hex())


{'pow10': pow10, 'tens': tens, 'roots': roots}[sys.argv[1]]()
