/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex.h - regular expressions of selectors, anchored at both ends as in Prometheus. In a build
 * without PCRE2 (regex_none.c), they are refused.
 */
#ifndef SL_API_REGEX_H
#define SL_API_REGEX_H

#include <stddef.h>

struct api_regex;

/* Returns 0, -ENOMEM, or -EINVAL with one line in error. */
int api_regex_new(struct api_regex **r, const char *pattern, char *error, size_t error_bytes);
/* Returns 1 if the value matches, 0 if not, or -E2BIG if matching takes too many steps. */
int api_regex_matches(const struct api_regex *r, const char *value);
void api_regex_free(struct api_regex *r); /* r may be NULL */

#endif
