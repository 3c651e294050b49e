// SPDX-License-Identifier: Apache-2.0
/*
 * escape.c - escapes UTF-8 names for clients that do not accept them, using the two schemes of
 * prometheus/common, model/metric.go: "underscores" and, where that would be ambiguous, "values".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "export/render.h"

static bool is_plain(const char *s, bool first, bool colons)
{
	return (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_' ||
	       (colons && *s == ':') || (!first && *s >= '0' && *s <= '9');
}

bool export_is_plain(const char *s, bool colons)
{
	for (const char *c = s; *c; c++)
		if (!is_plain(c, c == s, colons))
			return false;
	return *s;
}

/* Returns the character at *s and advances *s. In invalid UTF-8 each byte counts as a character. */
static uint32_t next_character(const char **s)
{
	const unsigned char *c = (const unsigned char *)*s;
	const size_t n = base_utf8_sequence(*s, 4);
	uint32_t v = n > 1 ? *c & (0x7fu >> n) : *c;

	for (size_t i = 1; i < n; i++)
		v = v << 6 | (c[i] & 0x3f);
	*s += n ?: 1;
	return v;
}

char *export_underscores(char *to, const char *s, bool colons)
{
	for (const char *start = s; *s;) {
		bool plain = is_plain(s, s == start, colons);
		char c = *s;

		next_character(&s);
		*to++ = plain ? c : '_';
	}
	*to = 0;
	return to;
}

char *export_hex_name(char *to, const char *s)
{
	to = stpcpy(to, "U__");
	for (const char *start = s; *s;) {
		bool plain = is_plain(s, s == start, true);
		char c = *s;
		uint32_t v = next_character(&s);

		if (plain && c == '_')
			to = stpcpy(to, "__");
		else if (plain)
			*to++ = c;
		else
			to += sprintf(to, "_%x_", v);
	}
	*to = 0;
	return to;
}

/* Returns true if another label, or the metric itself (`reserved`), uses the key of label i. */
static bool is_another(const char *const *keys, size_t n, size_t i, const char *reserved)
{
	for (size_t j = 0; j < n; j++)
		if (j != i && !strcmp(keys[j], keys[i]))
			return true;
	return !strcmp(keys[i], reserved);
}

char *export_distinct_keys(const char **keys, size_t n, const char *reserved, size_t taken,
			   bool utf8)
{
	size_t bytes = 1;
	char *text, *to;

	/* Making the keys unique adds at most one underscore per other key. */
	for (size_t i = 0; i < n; i++)
		bytes += sizeof("exported_") + EXPORT_ESCAPED(strlen(keys[i])) + n;
	text = to = malloc(bytes);
	for (size_t i = 0; text && i < n; i++) {
		const char *key = keys[i];
		char *at = to;

		if (i != taken && (utf8 || export_is_plain(key, false)))
			continue;
		keys[i] = at;
		if (i == taken) {
			to = stpcpy(stpcpy(at, "exported_"), key);
		} else {
			to = export_underscores(at, key, false);
			if (is_another(keys, n, i, reserved))
				to = export_hex_name(at, key);
		}
		for (; is_another(keys, n, i, reserved); *to = '\0')
			*to++ = '_';
		to++;
	}
	return text;
}
