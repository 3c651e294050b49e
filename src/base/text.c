// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/*
 * Well-formed sequences according to The Unicode Standard, table 3-7: no surrogates, no overlong
 * forms, nothing above U+10FFFF.
 */
size_t base_utf8_sequence(const char *s, size_t bytes)
{
	const unsigned char *p = (const unsigned char *)s;
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (bytes < n || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

bool base_utf8(const char *s, size_t bytes)
{
	for (size_t n; bytes; s += n, bytes -= n) {
		n = *s ? base_utf8_sequence(s, bytes) : 0;
		if (!n)
			return false;
	}
	return true;
}

size_t base_utf8_cut(const char *s, size_t bytes, size_t most)
{
	if (bytes <= most)
		return bytes;
	while (most && ((unsigned char)s[most] & 0xc0) == 0x80)
		most--;
	return most;
}

void base_harmless(char *s)
{
	bool utf8 = base_utf8(s, strlen(s));

	for (char *c = s; *c; c++) {
		unsigned char here = (unsigned char)c[0], next = (unsigned char)c[1];

		if (here < ' ' || here == 127 || (here >= 0x80 && !utf8))
			*c = '?';
		/* U+0080 to U+009F are the C1 controls */
		else if (here == 0xc2 && next < 0xa0)
			c[0] = c[1] = '?';
	}
}

void base_hex(char *to, const void *from, size_t bytes)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = from;

	for (size_t i = 0; i < bytes; i++) {
		*to++ = digits[p[i] >> 4];
		*to++ = digits[p[i] & 15];
	}
	*to = 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int base_unhex(void *to, const char *from, size_t bytes)
{
	uint8_t *out = to;

	if (strlen(from) != 2 * bytes)
		return -EINVAL;
	for (size_t i = 0; i < bytes; i++) {
		int high = hex_digit(from[2 * i]), low = hex_digit(from[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}
