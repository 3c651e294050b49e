// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/regex.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <pcre2.h>

#include "base/base.h"

#define PATTERN_MAX	 4096u
#define STEPS_MAX	 100000u /* maximum number of backtracking steps per value */
#define HEAP_MAX_KB	 1024u
#define REPLACED_MAX	 4096u /* maximum size of the result of a replacement */
#define GROUP_NAME_MAX	 32u   /* maximum length of a group's name, a limit of PCRE2 */
#define GROUP_DIGITS_MAX 5u    /* maximum length of a group's number, which is at most 65535 */

struct base_regex {
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *limits;
};

static int compile_pattern(struct base_regex *r, const char *pattern, char *error,
			   size_t error_bytes)
{
	pcre2_compile_context *limits = pcre2_compile_context_create(NULL);
	PCRE2_UCHAR why[128] = "";
	PCRE2_SIZE at;
	int code = 0;

	if (!limits)
		return -ENOMEM;
	pcre2_set_max_pattern_length(limits, PATTERN_MAX);
	r->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
				PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_MATCH_INVALID_UTF |
					PCRE2_NEVER_BACKSLASH_C,
				&code, &at, limits);
	pcre2_compile_context_free(limits);
	if (r->code)
		return 0;
	pcre2_get_error_message(code, why, sizeof(why));
	return base_fail(error, error_bytes, -EINVAL, "regular expression \"%.80s\": %s", pattern,
			 (char *)why);
}

int base_regex_new(struct base_regex **out, const char *pattern, char *error, size_t error_bytes)
{
	struct base_regex *r = calloc(1, sizeof(*r));
	int err = r ? compile_pattern(r, pattern, error, error_bytes) : -ENOMEM;

	if (!err) {
		r->data = pcre2_match_data_create_from_pattern(r->code, NULL);
		r->limits = pcre2_match_context_create(NULL);
		err = r->data && r->limits ? 0 : -ENOMEM;
	}
	if (err) {
		base_regex_free(r);
		return err;
	}
	pcre2_set_match_limit(r->limits, STEPS_MAX);
	pcre2_set_heap_limit(r->limits, HEAP_MAX_KB);
	*out = r;
	return 0;
}

int base_regex_matches(const struct base_regex *r, const char *value)
{
	int n = pcre2_match(r->code, (PCRE2_SPTR)value, strlen(value), 0, 0, r->data, r->limits);

	return n >= 0 ? 1 : n == PCRE2_ERROR_NOMATCH ? 0 : -E2BIG;
}

/*
 * Parses a reference to a group after its "$": a name of ASCII letters, digits and underscores, as
 * long as possible or in braces. Returns its end, or NULL if it is malformed.
 */
static const char *read_reference(const char *s, const char **name, size_t *bytes)
{
	const bool has_brace = *s == '{';

	*name = s += has_brace;
	while (isalnum((unsigned char)*s) || *s == '_')
		s++;
	*bytes = (size_t)(s - *name);
	return *bytes && (!has_brace || *s == '}') ? s + has_brace : NULL;
}

/*
 * Copies the text of a group of the last match, and a zero. *size is the size of the buffer, and
 * then that of the text: 0 if the group is missing or unmatched. Returns 0, or -EDOM if the text is
 * too long.
 */
static int copy_group(const struct base_regex *r, const char *name, size_t bytes, PCRE2_UCHAR *to,
		      PCRE2_SIZE *size)
{
	PCRE2_UCHAR text[GROUP_NAME_MAX + 1] = "";
	const bool is_number = strspn(name, "0123456789") >= bytes;
	int err = PCRE2_ERROR_NOSUBSTRING;

	if (bytes <= GROUP_NAME_MAX)
		memcpy(text, name, bytes);
	/* A number with leading zeros is a name, and no group has such a name. */
	if (!is_number)
		err = pcre2_substring_copy_byname(r->data, text, to, size);
	else if (bytes <= GROUP_DIGITS_MAX && (*name != '0' || bytes == 1))
		err = pcre2_substring_copy_bynumber(r->data, (uint32_t)atoi((char *)text), to,
						    size);
	if (err)
		*size = 0;
	return err == PCRE2_ERROR_NOMEMORY ? -EDOM : 0;
}

int base_regex_replace(const struct base_regex *r, const char *value, const char *to, char **out)
{
	const int matches = base_regex_matches(r, value);
	PCRE2_UCHAR text[REPLACED_MAX];
	PCRE2_SIZE n = 0, added;

	*out = NULL;
	if (matches <= 0)
		return matches ? -EDOM : 0;
	for (; *to; n += added) {
		const char *name, *end;
		size_t bytes;

		added = sizeof(text) - n;
		end = *to == '$' ? read_reference(to + 1, &name, &bytes) : NULL;
		if (end) {
			if (copy_group(r, name, bytes, text + n, &added))
				return -EDOM;
			to = end;
		} else if (added > 1) {
			text[n] = (PCRE2_UCHAR)*to;
			added = 1;
			to += to[0] == '$' && to[1] == '$' ? 2 : 1;
		} else {
			return -EDOM;
		}
	}
	*out = strndup((const char *)text, n);
	return *out ? 0 : -ENOMEM;
}

void base_regex_free(struct base_regex *r)
{
	if (!r)
		return;
	pcre2_code_free(r->code);
	pcre2_match_data_free(r->data);
	pcre2_match_context_free(r->limits);
	free(r);
}
