// SPDX-License-Identifier: Apache-2.0
/* accept.c - parses headers that list what a client accepts, with weights (RFC 9110, 12.4.2) */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "http/http.h"

bool http_word_is(struct http_word w, const char *text)
{
	return w.bytes == strlen(text) && !strncasecmp(w.s, text, w.bytes);
}

/* Removes surrounding blanks and quotes. */
static struct http_word trim_word(const char *s, const char *end)
{
	while (s < end && strchr(" \t\"", *s))
		s++;
	while (s < end && strchr(" \t\"", end[-1]))
		end--;
	return (struct http_word){s, (size_t)(end - s)};
}

struct http_word http_accept_value(const struct http_accepted *a, const char *key)
{
	const char *end = a->parameters.s + a->parameters.bytes, *next;

	for (const char *s = a->parameters.s; s < end; s = next + 1) {
		const char *equals;

		next = memchr(s, ';', (size_t)(end - s)) ?: end;
		equals = memchr(s, '=', (size_t)(next - s));
		if (equals && http_word_is(trim_word(s, equals), key))
			return trim_word(equals + 1, next);
	}
	return (struct http_word){NULL, 0};
}

bool http_accept_next(const char **list, struct http_accepted *out)
{
	const char *s = *list, *end, *name_end;
	char number[8] = "";
	struct http_word q;

	if (!s || !*s)
		return false;
	end = s + strcspn(s, ",");
	name_end = memchr(s, ';', (size_t)(end - s)) ?: end;
	*out = (struct http_accepted){
		trim_word(s, name_end), {name_end, (size_t)(end - name_end)}, 1};
	q = http_accept_value(out, "q");
	if (q.s) {
		memcpy(number, q.s, BASE_MIN(q.bytes, sizeof(number) - 1));
		out->q = strtod(number, NULL);
	}
	*list = end + (*end == ',');
	return true;
}
