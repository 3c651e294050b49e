// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "api/regex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pcre2.h>

#include "base/base.h"

#define PATTERN_MAX 4096u
#define STEPS_MAX   100000u /* maximum number of backtracking steps per value */
#define HEAP_MAX_KB 1024u

struct api_regex {
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *limits;
};

static int compile_pattern(struct api_regex *r, const char *pattern, char *error,
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

int api_regex_new(struct api_regex **out, const char *pattern, char *error, size_t error_bytes)
{
	struct api_regex *r = calloc(1, sizeof(*r));
	int err = r ? compile_pattern(r, pattern, error, error_bytes) : -ENOMEM;

	if (!err) {
		r->data = pcre2_match_data_create(1, NULL);
		r->limits = pcre2_match_context_create(NULL);
		err = r->data && r->limits ? 0 : -ENOMEM;
	}
	if (err) {
		api_regex_free(r);
		return err;
	}
	pcre2_set_match_limit(r->limits, STEPS_MAX);
	pcre2_set_heap_limit(r->limits, HEAP_MAX_KB);
	*out = r;
	return 0;
}

int api_regex_matches(const struct api_regex *r, const char *value)
{
	int n = pcre2_match(r->code, (PCRE2_SPTR)value, strlen(value), 0, 0, r->data, r->limits);

	return n >= 0 ? 1 : n == PCRE2_ERROR_NOMATCH ? 0 : -E2BIG;
}

void api_regex_free(struct api_regex *r)
{
	if (!r)
		return;
	pcre2_code_free(r->code);
	pcre2_match_data_free(r->data);
	pcre2_match_context_free(r->limits);
	free(r);
}
