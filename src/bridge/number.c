// SPDX-License-Identifier: Apache-2.0
/* number.c - parses decimal numbers exactly and fast. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bridge/bridge.h"

#define DIGITS_MAX 1000 /* maximum length of a number passed to strtod() */

static const double tens[] = {1e0,  1e1,  1e2,	1e3,  1e4,  1e5,  1e6,	1e7,
			      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
			      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool multiply_exactly(uint64_t m, int e, double *out)
{
	if (!m) {
		*out = 0;
		return true;
	}
	if (m >> 53 || e < -22 || e > 22)
		return false;
	*out = e < 0 ? (double)m / tens[-e] : (double)m * tens[e];
	return true;
}

/* Skips leading zeros, because strtod() accepts any number of them. */
static bool parse_slowly(const char *from, const char *end, double *out)
{
	char copy[DIGITS_MAX + 1], *stop;

	while (end - from > 1 && *from == '0' && from[1] >= '0' && from[1] <= '9')
		from++;
	if (end - from > DIGITS_MAX)
		return false;
	memcpy(copy, from, (size_t)(end - from));
	copy[end - from] = 0;
	*out = strtod(copy, &stop);
	return !*stop;
}

static const char *parse_word(const char *p, const char *end, bool minus, double *out)
{
	static const struct {
		const char *name;
		double value;
	} words[] = {{"infinity", INFINITY}, {"inf", INFINITY}, {"nan", NAN}};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t n = strlen(words[i].name);

		if ((size_t)(end - p) >= n && !strncasecmp(p, words[i].name, n)) {
			*out = minus ? -words[i].value : words[i].value;
			return p + n;
		}
	}
	return NULL;
}

static const char *parse_exponent(const char *p, const char *end, int *e)
{
	bool minus = p < end && *p == '-';
	const char *start;
	int n = 0;

	p += p < end && (*p == '-' || *p == '+');
	for (start = p; p < end && *p >= '0' && *p <= '9'; p++)
		n = n < 100000 ? n * 10 + (*p - '0') : n;
	*e += minus ? -n : n;
	return p == start ? NULL : p;
}

const char *bridge_number(const char *p, const char *end, double *out)
{
	bool minus = p < end && *p == '-', point = false;
	int digits = 0, e = 0;
	uint64_t m = 0;
	const char *start;
	double v;

	p += p < end && (*p == '-' || *p == '+');
	start = p;
	for (; p < end; p++) {
		unsigned int d = (unsigned int)(unsigned char)*p - '0';

		if (d <= 9) {
			e -= point;
			digits++;
			/* If there are too many digits, this wraps around and is not used. */
			m = m * 10 + d;
		} else if (*p == '.' && !point) {
			point = true;
		} else {
			break;
		}
	}
	if (!digits)
		return p == start ? parse_word(p, end, minus, out) : NULL;
	if (p < end && (*p == 'e' || *p == 'E')) {
		p = parse_exponent(p + 1, end, &e);
		if (!p)
			return NULL;
	}
	if ((digits > 19 || !multiply_exactly(m, e, &v)) && !parse_slowly(start, p, &v))
		return NULL;
	*out = minus ? -v : v;
	return p;
}

/* Exact, unlike a double of seconds since 1970, which is accurate only to 240 ns. */
uint64_t bridge_seconds_ns(const char *p, const char *end)
{
	uint64_t digits = 0;
	int scale = 9, exponent = 0;
	bool point = false, minus;

	for (; p < end && ((*p >= '0' && *p <= '9') || (*p == '.' && !point)); p++) {
		if (*p == '.') {
			point = true;
		} else if (digits >= UINT64_MAX / 10 - 1) {
			scale += !point; /* further digits are ignored */
		} else {
			digits = digits * 10 + (uint64_t)(*p - '0');
			scale -= point;
		}
	}
	if (p + 1 < end && (*p == 'e' || *p == 'E')) {
		p++;
		minus = *p == '-';
		for (p += *p == '-' || *p == '+'; p < end && *p >= '0' && *p <= '9'; p++)
			exponent = exponent < 1000 ? exponent * 10 + (*p - '0') : exponent;
		scale += minus ? -exponent : exponent;
	}
	for (; scale > 0 && digits; scale--)
		if (__builtin_mul_overflow(digits, 10u, &digits))
			return 0;
	for (; scale < 0 && digits; scale++)
		digits /= 10;
	return digits;
}
