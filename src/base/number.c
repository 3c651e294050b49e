// SPDX-License-Identifier: Apache-2.0
/*
 * number.c - shortest decimals by R. Giulietti's Schubfach ("The Schubfach way to render doubles",
 * 2020), which uses three products with a 126-bit power of ten, without a loop or a fallback.
 */
#include "base/number.h"

#include <math.h>
#include <string.h>

static const char pairs[200] = "00010203040506070809"
			       "10111213141516171819"
			       "20212223242526272829"
			       "30313233343536373839"
			       "40414243444546474849"
			       "50515253545556575859"
			       "60616263646566676869"
			       "70717273747576777879"
			       "80818283848586878889"
			       "90919293949596979899";

static const uint64_t pow10_u64[20] = {
#include "tens.inc"
};

/* Returns the number of decimal digits of v, which is 1 for 0. */
static inline unsigned int digits_of(uint64_t v)
{
	/* 1233 / 4096 approximates log10(2); the guess is exact or one too high */
	unsigned int bits = 64 - (unsigned int)__builtin_clzll(v | 1);
	unsigned int guess = bits * 1233 >> 12;

	return guess + (v >= pow10_u64[guess]) + (v == 0);
}

static inline void put_digits(char *end, uint64_t v)
{
	while (v >= 100) {
		uint64_t q = v / 100;

		end -= 2;
		memcpy(end, pairs + 2 * (v - 100 * q), 2);
		v = q;
	}
	if (v >= 10)
		memcpy(end - 2, pairs + 2 * v, 2);
	else
		end[-1] = (char)('0' + v);
}

char *base_print_u64(char *p, uint64_t v)
{
	unsigned int n = digits_of(v);

	put_digits(p + n, v);
	return p + n;
}

char *base_print_i64(char *p, int64_t v)
{
	if (v >= 0)
		return base_print_u64(p, (uint64_t)v);
	*p++ = '-';
	return base_print_u64(p, -(uint64_t)v);
}

/* ---- shortest decimals ---- */

#define POW10_MIN -292

static const struct {
	uint64_t high, low;
} pow10_table[617] = {
#include "pow10.inc"
};

/*
 * floor(log10(2^e)), floor(log10(3/4 * 2^e)) and floor(log2(10^e)) are exact for every exponent of
 * a double.
 */
static inline int log10_of_pow2(int e)
{
	return (e * 1262611) >> 22;
}

static inline int log10_of_three_quarters_pow2(int e)
{
	return (e * 1262611 - 524031) >> 22;
}

static inline int log2_of_pow10(int e)
{
	return (e * 1741647) >> 19;
}

/*
 * Returns the upper 64 bits of g * c / 2^64; the lowest bit is also set if any lower bit is not 0.
 */
static inline uint64_t round_to_odd(uint64_t high, uint64_t low, uint64_t c)
{
	unsigned __int128 x = (unsigned __int128)low * c;
	unsigned __int128 y = (unsigned __int128)high * c + (uint64_t)(x >> 64);

	return (uint64_t)(y >> 64) | ((uint64_t)y > 1);
}

uint64_t base_shortest(double v, int *exponent)
{
	uint64_t bits, fraction, c, lower, upper, vb, s;
	int biased, q, k, h;
	bool closer, odd;

	memcpy(&bits, &v, 8);
	fraction = bits & ((1ull << 52) - 1);
	biased = (int)(bits >> 52) & 0x7ff;
	c = biased ? fraction | 1ull << 52 : fraction;
	q = (biased ? biased : 1) - 1075;
	odd = c & 1; /* the interval of an even significand includes its ends */
	/* doubles are closer together just below a power of 2 */
	closer = fraction == 0 && biased > 1;

	/*
	 * v = c * 2^q; decimals between (4c - 2) * 2^(q-2) and (4c + 2) * 2^(q-2) read back as v.
	 */
	k = closer ? log10_of_three_quarters_pow2(q) : log10_of_pow2(q);
	h = q + log2_of_pow10(-k) + 1;
	{
		uint64_t high = pow10_table[-k - POW10_MIN].high;
		uint64_t low = pow10_table[-k - POW10_MIN].low;

		lower = round_to_odd(high, low, (4 * c - 2 + closer) << h) + odd;
		vb = round_to_odd(high, low, (4 * c) << h);
		upper = round_to_odd(high, low, (4 * c + 2) << h) - odd;
	}
	s = vb / 4;
	if (s >= 10) { /* try with one digit fewer */
		uint64_t tens = s / 10;
		bool down = lower <= 40 * tens, up = 40 * tens + 40 <= upper;

		if (down != up) {
			*exponent = k + 1;
			return tens + up;
		}
	}
	{
		bool down = lower <= 4 * s, up = 4 * s + 4 <= upper;
		uint64_t middle = 4 * s + 2;

		*exponent = k;
		if (down != up)
			return s + up;
		return s + (vb > middle || (vb == middle && (s & 1)));
	}
}

/*
 * Writes v, with an exponent if the first digit's place is below 10^low or at least 10^high, like
 * printf's %g.
 */
static char *put_shortest(char *p, double v, int low, int high, bool point)
{
	char text[24];
	uint64_t digits;
	int e, n, first;

	if (signbit(v)) {
		*p++ = '-';
		v = -v;
	}
	digits = v == 0 ? 0 : base_shortest(v, &e);
	if (!digits)
		e = 0;
	while (digits && digits % 10 == 0) {
		digits /= 10;
		e++;
	}
	n = (int)digits_of(digits);
	put_digits(text + n, digits);
	first = e + n - 1;
	if (first < low || first >= high) { /* form d.ddde-07 */
		*p++ = text[0];
		if (n > 1) {
			*p++ = '.';
			memcpy(p, text + 1, (size_t)n - 1);
			p += n - 1;
		}
		*p++ = 'e';
		*p++ = first < 0 ? '-' : '+';
		first = first < 0 ? -first : first;
		if (first < 10)
			/* the exponent has at least two digits, as in printf and Go */
			*p++ = '0';
		return base_print_u64(p, (uint64_t)first);
	}
	if (e >= 0) { /* form ddd000 */
		memcpy(p, text, (size_t)n);
		memset(p + n, '0', (size_t)e);
		p += n + e;
		if (point) {
			*p++ = '.';
			*p++ = '0';
		}
	} else if (first >= 0) { /* form dd.ddd */
		memcpy(p, text, (size_t)first + 1);
		p[first + 1] = '.';
		memcpy(p + first + 2, text + first + 1, (size_t)(n - first - 1));
		p += n + 1;
	} else { /* form 0.00ddd */
		*p++ = '0';
		*p++ = '.';
		memset(p, '0', (size_t)(-first - 1));
		p += -first - 1;
		memcpy(p, text, (size_t)n);
		p += n;
	}
	return p;
}

static char *put_special(char *p, double v)
{
	memcpy(p, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf", 4);
	return p + (isnan(v) ? 3 : 4);
}

char *base_print_f64(char *p, double v)
{
	int64_t whole;

	if (!isfinite(v))
		return put_special(p, v);
	if (v > -0x1p53 && v < 0x1p53) {
		whole = (int64_t)v;
		if ((double)whole == v && (whole || !signbit(v)))
			return base_print_i64(p, whole);
	}
	return put_shortest(p, v, -5, 17, false);
}

char *base_print_bound(char *p, double v, bool point)
{
	if (!isfinite(v))
		return put_special(p, v);
	return put_shortest(p, v, -4, 6, point);
}
