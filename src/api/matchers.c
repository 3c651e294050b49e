// SPDX-License-Identifier: Apache-2.0
#include "api/selected.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/regex.h"

char *api_copy_text(const char *s, size_t bytes)
{
	char *copy = malloc(bytes + 1);

	if (!copy)
		return NULL;
	memcpy(copy, s, bytes);
	copy[bytes] = 0;
	return copy;
}

/* Matchers */

static bool matcher_passes(struct api_matchers *ms, const struct api_matcher *m, const char *value)
{
	int n;

	switch (m->type) {
	case API_MATCH_EQUAL:
		return !strcmp(value, m->value);
	case API_MATCH_NOT_EQUAL:
		return strcmp(value, m->value);
	default:
		n = base_regex_matches(m->regex, value);
		ms->too_costly |= n < 0;
		return (n > 0) == (m->type == API_MATCH_RE);
	}
}

int api_matchers_add(struct api_matchers *ms, enum api_match type, const char *name,
		     size_t name_bytes, const char *value, size_t value_bytes, char *error,
		     size_t error_bytes)
{
	struct api_matcher *m = &ms->m[ms->n];

	if (ms->n == API_MATCHERS_MAX)
		return base_fail(error, error_bytes, -EINVAL, "more than %u matchers",
				 API_MATCHERS_MAX);
	if (memchr(name, 0, name_bytes) || memchr(value, 0, value_bytes))
		return base_fail(error, error_bytes, -EINVAL, "a matcher contains a NUL character");
	ms->n++;
	*m = (struct api_matcher){.type = type,
				  .name = api_copy_text(name, name_bytes),
				  .value = api_copy_text(value, value_bytes)};
	if (!m->name || !m->value)
		return -ENOMEM;
	return type == API_MATCH_RE || type == API_MATCH_NOT_RE
		       ? base_regex_new(&m->regex, m->value, error, error_bytes)
		       : 0;
}

void api_matchers_free(struct api_matchers *ms)
{
	for (size_t i = 0; i < ms->n; i++) {
		free(ms->m[i].name);
		free(ms->m[i].value);
		base_regex_free(ms->m[i].regex);
	}
	*ms = (struct api_matchers){.n = 0};
}

bool api_matchers_name(struct api_matchers *ms, const char *name)
{
	for (size_t i = 0; i < ms->n; i++)
		if (!strcmp(ms->m[i].name, "__name__") && !matcher_passes(ms, &ms->m[i], name))
			return false;
	return true;
}

const char *api_label_of(const struct collect_series_view *s, const char *key)
{
	for (uint32_t i = 0; i < s->labels; i++)
		if (!strcmp(s->keys[i], key))
			return s->values[i];
	return "";
}

bool api_matchers_labels(struct api_matchers *ms, const struct collect_series_view *s)
{
	for (size_t i = 0; i < ms->n; i++)
		if (strcmp(ms->m[i].name, "__name__") &&
		    !matcher_passes(ms, &ms->m[i], api_label_of(s, ms->m[i].name)))
			return false;
	return true;
}

/* Text */

const char *api_promql_space(const char *s)
{
	for (;; s++) {
		if (*s == '#')
			s += strcspn(s, "\n");
		if (!*s || !isspace((unsigned char)*s))
			return s;
	}
}

size_t api_promql_name(const char *s, bool colons)
{
	size_t n = 0;

	while (isalpha((unsigned char)s[n]) || s[n] == '_' || (colons && s[n] == ':') ||
	       (n && isdigit((unsigned char)s[n])))
		n++;
	return n;
}

static size_t put_utf8(char *out, unsigned int c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	out[0] = (char)(0xe0 | c >> 12);
	out[1] = (char)(0x80 | (c >> 6 & 0x3f));
	out[2] = (char)(0x80 | (c & 0x3f));
	return 3;
}

/*
 * Decodes the character after a backslash. PromQL strings use Go's syntax. Returns NULL if invalid.
 */
static const char *read_escape(const char *s, char *out, size_t *n)
{
	static const char letters[] = "abfnrtv\\'\"", bytes[] = "\a\b\f\n\r\t\v\\'\"";
	const char *at = *s ? strchr(letters, *s) : NULL;
	const size_t digits = *s == 'x' ? 2 : *s == 'u' ? 4 : 0;
	char number[5] = "", *end;
	unsigned long c;

	if (at) {
		out[(*n)++] = bytes[at - letters];
		return s + 1;
	}
	if (!digits || strnlen(s + 1, digits) < digits)
		return NULL;
	memcpy(number, s + 1, digits);
	c = strtoul(number, &end, 16);
	if (*end || !c || !isxdigit((unsigned char)*number))
		return NULL;
	if (digits == 2)
		out[(*n)++] = (char)c;
	else
		*n += put_utf8(out + *n, (unsigned int)c);
	return s + 1 + digits;
}

/*
 * Decodes a quoted string into out, which must be large enough. Returns the end of the string, or
 * NULL.
 */
static const char *read_string(const char *s, char *out, size_t *n)
{
	const char quote = *s++;

	*n = 0;
	if (quote != '"' && quote != '\'' && quote != '`')
		return NULL;
	while (s && *s && *s != quote) {
		if (*s != '\\' || quote == '`')
			out[(*n)++] = *s++;
		else
			s = read_escape(s + 1, out, n);
	}
	return s && *s ? s + 1 : NULL;
}

const char *api_promql_text(const char *s, char **out)
{
	/* The decoded string is never longer. */
	size_t n = 0;

	*out = malloc(strlen(s) + 1);
	s = *out ? read_string(s, *out, &n) : NULL;
	if (*out)
		(*out)[n] = 0;
	return s;
}

static const char *read_operator(const char *s, enum api_match *type)
{
	static const char *const text[] = {[API_MATCH_RE] = "=~",
					   [API_MATCH_NOT_RE] = "!~",
					   [API_MATCH_NOT_EQUAL] = "!=",
					   [API_MATCH_EQUAL] = "="};

	/* "=" is a prefix of other operators, so it comes last. */
	for (int i = API_MATCH_NOT_RE; i >= 0; i--)
		if (!strncmp(s, text[i], strlen(text[i]))) {
			*type = (enum api_match)i;
			return s + strlen(text[i]);
		}
	return NULL;
}

/* Parses one matcher inside braces. Returns its end, or NULL. */
static const char *read_matcher(struct api_matchers *ms, const char *s, char *room, char *error,
				size_t error_bytes)
{
	size_t bytes = api_promql_name(s, false), n = bytes;
	const char *name = s;
	enum api_match type;
	char *value = room;

	if (bytes) {
		s += bytes;
	} else if (*s == '"') {
		/*
		 * Prometheus 3 allows quoted UTF-8 names; a name without a value is the metric's
		 * name.
		 */
		s = read_string(s, room, &n);
		name = room;
		value = room + n;
		if (s && strchr(",}", *api_promql_space(s)))
			return api_matchers_add(ms, API_MATCH_EQUAL, "__name__", 8, name, n, error,
						error_bytes)
				       ? NULL
				       : s;
	}
	s = s && n ? read_operator(api_promql_space(s), &type) : NULL;
	s = s ? read_string(api_promql_space(s), value, &bytes) : NULL;
	if (!s) {
		base_fail(error, error_bytes, 0,
			  "expected a matcher such as LABEL=\"VALUE\" (or !=, =~, !~)");
		return NULL;
	}
	return api_matchers_add(ms, type, name, n, value, bytes, error, error_bytes) ? NULL : s;
}

static const char *read_matchers(struct api_matchers *ms, const char *s, char *room, char *error,
				 size_t error_bytes)
{
	for (s = api_promql_space(s + 1); *s != '}'; s = api_promql_space(s)) {
		s = read_matcher(ms, s, room, error, error_bytes);
		if (!s)
			return NULL;
		s = api_promql_space(s);
		if (*s == ',')
			s++;
		else if (*s != '}')
			return base_fail(error, error_bytes, 0, "expected , or } after a matcher"),
			       NULL;
	}
	return s + 1;
}

/*
 * Returns true if some matcher rejects the empty string, so that the selector cannot match
 * everything.
 */
static bool has_selective(struct api_matchers *ms)
{
	for (size_t i = 0; i < ms->n; i++)
		if (!matcher_passes(ms, &ms->m[i], ""))
			return true;
	return false;
}

const char *api_matchers_parse(struct api_matchers *ms, const char *text, char *error,
			       size_t error_bytes)
{
	const char *s = api_promql_space(text);
	const size_t n = api_promql_name(s, true);
	/* Decoded strings are never longer. */
	char *room = malloc(3 * strlen(text) + 1);

	*error = 0;
	if (!room ||
	    (n && api_matchers_add(ms, API_MATCH_EQUAL, "__name__", 8, s, n, error, error_bytes)))
		goto fail;
	s = api_promql_space(s + n);
	if (*s == '{')
		s = read_matchers(ms, s, room, error, error_bytes);
	if (s && !has_selective(ms)) {
		base_fail(error, error_bytes, 0,
			  "a selector must contain a name, or a matcher that does not match the "
			  "empty string");
		s = NULL;
	}
	if (!s)
		goto fail;
	free(room);
	return s;
fail:
	if (!*error)
		base_fail(error, error_bytes, 0, "out of memory");
	free(room);
	return NULL;
}
