/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - parses text from the kernel in place. Accepts arbitrary bytes: never reads beyond the
 * end, and replaces a number that is too large with the largest one.
 */
#ifndef SL_SOURCE_HOST_TEXT_H
#define SL_SOURCE_HOST_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct host_text {
	const char *p, *end;
};

static inline struct host_text host_text(const char *s, size_t n)
{
	return (struct host_text){s, n ? s + n : s}; /* s may be NULL */
}

static inline struct host_text host_text_of(const char *s)
{
	return host_text(s, strlen(s));
}

static inline size_t host_length(struct host_text t)
{
	return (size_t)(t.end - t.p);
}

static inline bool host_is(struct host_text t, const char *s)
{
	size_t n = strlen(s);

	return host_length(t) == n && !memcmp(t.p, s, n);
}

static inline bool host_starts(struct host_text t, const char *s)
{
	size_t n = strlen(s);

	return host_length(t) >= n && !memcmp(t.p, s, n);
}

static inline bool host_ends(struct host_text t, const char *s)
{
	size_t n = strlen(s);

	return host_length(t) >= n && !memcmp(t.end - n, s, n);
}

/* Skips a prefix. Returns false if the text does not begin with it. */
static inline bool host_skip(struct host_text *t, const char *prefix)
{
	bool has = host_starts(*t, prefix);

	t->p += has ? strlen(prefix) : 0;
	return has;
}

/* Gets the next line, without its newline. Returns false at the end. */
static inline bool host_line(struct host_text *t, struct host_text *line)
{
	const char *end;

	if (t->p >= t->end)
		return false;
	end = memchr(t->p, '\n', host_length(*t));
	line->p = t->p;
	line->end = end ? end : t->end;
	t->p = end ? end + 1 : t->end;
	return true;
}

static inline void host_blanks(struct host_text *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t'))
		t->p++;
}

/* Returns the next word of a line; empty at the end. */
static inline struct host_text host_word(struct host_text *t)
{
	struct host_text w;

	host_blanks(t);
	w.p = t->p;
	while (t->p < t->end && *t->p != ' ' && *t->p != '\t')
		t->p++;
	w.end = t->p;
	return w;
}

/* Gets the text before c, and skips c. Returns false if c does not occur. */
static inline bool host_until(struct host_text *t, char c, struct host_text *before)
{
	const char *at = t->p < t->end ? memchr(t->p, c, host_length(*t)) : NULL;

	if (!at)
		return false;
	*before = (struct host_text){t->p, at};
	t->p = at + 1;
	return true;
}

/* True if a comma-separated list, such as the options of a mount, contains the word. */
static inline bool host_listed(struct host_text list, const char *word)
{
	struct host_text one;

	while (host_until(&list, ',', &one))
		if (host_is(one, word))
			return true;
	return host_is(list, word);
}

static inline bool host_among(struct host_text t, const char *const *words, size_t n)
{
	while (n && !host_is(t, words[n - 1]))
		n--;
	return n;
}

/* Skips blanks and parses digits. Returns false if there are none. */
static inline bool host_u64(struct host_text *t, uint64_t *out)
{
	uint64_t v = 0;
	const char *from;

	host_blanks(t);
	from = t->p;
	for (; t->p < t->end; t->p++) {
		unsigned int d = (unsigned char)*t->p - '0';

		if (d > 9)
			break;
		if (v > (UINT64_MAX - d) / 10)
			v = UINT64_MAX;
		else
			v = v * 10 + d;
	}
	*out = v;
	return t->p > from;
}

static inline bool host_hex(struct host_text *t, uint64_t *out)
{
	const char *from;

	*out = 0;
	host_blanks(t);
	from = t->p;
	for (; t->p < t->end; t->p++) {
		char c = *t->p;
		unsigned int d = c >= '0' && c <= '9'	? (unsigned int)(c - '0')
				 : c >= 'a' && c <= 'f' ? (unsigned int)(c - 'a') + 10
				 : c >= 'A' && c <= 'F' ? (unsigned int)(c - 'A') + 10
							: 16;

		if (d > 15)
			break;
		*out = *out << 4 | d;
	}
	return t->p > from;
}

/* Parses a number such as "-12" or "3.25". As exact as strtod() if the digits are below 2^53. */
static inline bool host_number(struct host_text *t, double *out)
{
	uint64_t whole, part = 0;
	bool negative;
	double scale = 1;

	host_blanks(t);
	negative = t->p < t->end && *t->p == '-';
	t->p += negative;
	if (!host_u64(t, &whole))
		return false;
	*out = (double)whole;
	if (t->p < t->end && *t->p == '.') {
		part = whole;
		for (t->p++; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++)
			if (part < 1ull << 49) {
				part = part * 10 + (uint64_t)(*t->p - '0');
				scale *= 10;
			}
		*out = (double)part / scale;
	}
	if (negative)
		*out = -*out;
	return true;
}

#endif
