// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/regex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pcre2.h>

#include "base/base.h"

#define PATTERN_MAX  4096u
#define STEPS_MAX    100000u /* maximum number of backtracking steps per value */
#define HEAP_MAX_KB  1024u
#define REPLACED_MAX 4096u /* maximum size of the result of a replacement */

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
		r->data = pcre2_match_data_create(1, NULL);
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

int base_regex_replace(const struct base_regex *r, const char *value, const char *to, char **out)
{
	PCRE2_UCHAR text[REPLACED_MAX];
	PCRE2_SIZE bytes = sizeof(text);
	/* A missing or unmatched group expands to an empty string. */
	const uint32_t options = PCRE2_SUBSTITUTE_UNSET_EMPTY | PCRE2_SUBSTITUTE_UNKNOWN_UNSET;
	const int n = pcre2_substitute(r->code, (PCRE2_SPTR)value, strlen(value), 0, options, NULL,
				       r->limits, (PCRE2_SPTR)to, strlen(to), text, &bytes);

	*out = NULL;
	if (n <= 0)
		return n ? -EDOM : 0;
	*out = strndup((const char *)text, bytes);
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
