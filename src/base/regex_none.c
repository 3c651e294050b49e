// SPDX-License-Identifier: Apache-2.0
/* regex_none.c - replaces regex.c in builds without PCRE2. */
#include <errno.h>

#include "base/base.h"
#include "base/regex.h"

int base_regex_new(struct base_regex **r, const char *pattern, char *error, size_t error_bytes)
{
	*r = NULL;
	return base_fail(
		error, error_bytes, -EINVAL,
		"\"%.80s\": this build has no support for regular expressions: rebuild with "
		"-Dregex=enabled",
		pattern);
}

int base_regex_matches(const struct base_regex *r, const char *value)
{
	(void)r, (void)value;
	return 0;
}

int base_regex_replace(const struct base_regex *r, const char *value, const char *to, char **out)
{
	(void)r, (void)value, (void)to;
	*out = NULL;
	return 0;
}

void base_regex_free(struct base_regex *r)
{
	(void)r;
}
