// SPDX-License-Identifier: Apache-2.0
/* regex_none.c - replaces regex.c in builds without PCRE2. */
#include <errno.h>

#include "api/regex.h"
#include "base/base.h"

int api_regex_new(struct api_regex **r, const char *pattern, char *error, size_t error_bytes)
{
	*r = NULL;
	return base_fail(error, error_bytes, -EINVAL,
			 "\"%.80s\": this build has no regular expressions: rebuild with "
			 "-Dregex=enabled",
			 pattern);
}

int api_regex_matches(const struct api_regex *r, const char *value)
{
	(void)r, (void)value;
	return 0;
}

void api_regex_free(struct api_regex *r)
{
	(void)r;
}
