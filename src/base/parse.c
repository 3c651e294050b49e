/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.c - parses durations, sizes, numbers and addresses. Parsing is strict: no sign, no blanks,
 * nothing after the value, no locale.
 */
#include "base/base.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Reads digits and advances *s. Returns -EINVAL without a digit, -ERANGE if there are too many. */
static int parse_digits(const char **s, uint64_t *out)
{
	const char *p = *s;
	uint64_t v = 0;
	int err = 0;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			/*
			 * go on, because a message about a syntax error further on is more helpful
			 */
			err = -ERANGE;
	*s = p;
	*out = v;
	return err;
}

int base_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	uint64_t v;
	int err = parse_digits(&s, &v);

	if (err == -EINVAL || *s)
		return -EINVAL;
	if (err || v < min || v > max)
		return -ERANGE;
	*out = v;
	return 0;
}

static const struct {
	const char *name;
	uint64_t ns;
} units[] = {{"d", 86400000000000}, {"h", 3600000000000}, {"m", 60000000000}, {"s", 1000000000},
	     {"ms", 1000000},	    {"us", 1000},	  {"ns", 1}};

void base_print_duration(char *out, size_t bytes, uint64_t ns)
{
	size_t i = 1; /* skip days */

	while (ns % units[i].ns)
		i++;
	snprintf(out, bytes, "%" PRIu64 "%s", ns / units[i].ns, ns ? units[i].name : "");
}

int base_parse_duration(const char *s, uint64_t *ns)
{
	uint64_t whole, fraction = 0, scale = 1;
	unsigned __int128 v;
	int err = parse_digits(&s, &whole);

	if (err == -EINVAL)
		return -EINVAL;
	if (*s == '.') {
		if (s[1] < '0' || s[1] > '9')
			return -EINVAL;
		for (s++; *s >= '0' && *s <= '9'; s++) {
			if (scale >= 1000000000000000) /* beyond the resolution of any unit */
				continue;
			fraction = fraction * 10 + (uint64_t)(*s - '0');
			scale *= 10;
		}
	}
	if (!*s && !err && !whole && !fraction) { /* zero needs no unit */
		*ns = 0;
		return 0;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(s, units[i].name))
			continue;
		if (err)
			return err;
		v = (unsigned __int128)whole * units[i].ns +
		    (unsigned __int128)fraction * units[i].ns / scale;
		if (v > INT64_MAX)
			return -ERANGE;
		*ns = (uint64_t)v;
		return 0;
	}
	return -EINVAL;
}

int base_parse_size(const char *s, uint64_t *bytes)
{
	static const char letters[] = "KMGT";
	uint64_t v;
	unsigned shift = 0;
	int err = parse_digits(&s, &v);

	if (err == -EINVAL)
		return -EINVAL;
	if (*s) {
		const char *l = strchr(letters, *s == 'k' ? 'K' : *s);

		if (!l)
			return -EINVAL;
		shift = 10 * (unsigned)(l - letters + 1);
		s++;
		if (!strcmp(s, "iB") || !strcmp(s, "B"))
			s += strlen(s);
		if (*s)
			return -EINVAL;
	}
	if (err || v > UINT64_MAX >> shift)
		return -ERANGE;
	*bytes = v << shift;
	return 0;
}

int base_parse_address(const char *s, char *host, size_t host_bytes, uint16_t *port)
{
	const char *colon = strrchr(s, ':');
	uint64_t number;
	size_t n;
	int err;

	if (!colon)
		return -EINVAL;
	n = (size_t)(colon - s);
	if (*s == '[') {
		if (n < 3 || s[n - 1] != ']')
			return -EINVAL;
		s++;
		n -= 2;
	} else if (memchr(s, ':', n)) {
		return -EINVAL; /* a bare IPv6 address is ambiguous */
	}
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] <= ' ' || s[i] == '[' || s[i] == ']' || s[i] == '/')
			return -EINVAL;
	err = base_parse_u64(colon + 1, 0, UINT16_MAX, &number);
	if (err)
		return err;
	if (n >= host_bytes)
		return -ERANGE;
	memcpy(host, s, n);
	host[n] = 0;
	*port = (uint16_t)number;
	return 0;
}
