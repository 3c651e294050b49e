/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex.h - regular expressions anchored at both ends, as in Prometheus. In a build without PCRE2
 * (regex_none.c), every pattern is refused. A compiled expression is not thread-safe.
 */
#ifndef SL_BASE_REGEX_H
#define SL_BASE_REGEX_H

#include <stddef.h>

struct base_regex;

/* Returns 0, -ENOMEM, or -EINVAL with one line in error. */
int base_regex_new(struct base_regex **r, const char *pattern, char *error, size_t error_bytes);
/* Returns 1 if the value matches, 0 if not, or -E2BIG if matching takes too many steps. */
int base_regex_matches(const struct base_regex *r, const char *value);
/*
 * Expands `to` for a matching value by the rules of Go's Regexp.Expand(), as Prometheus does: $1 or
 * ${1} stands for the text of the first group, $name or ${name} for that of a named one, and $$ for
 * a dollar. A name is as long as possible: $1_a is ${1_a}. A missing or unmatched group is empty; a
 * malformed reference stays. Sets *out to the result, which the caller frees, or to NULL if the
 * value does not match. Returns 0, -ENOMEM, or -EDOM if matching takes too many steps or the result
 * is too long.
 */
int base_regex_replace(const struct base_regex *r, const char *value, const char *to, char **out);
void base_regex_free(struct base_regex *r); /* r may be NULL */

#endif
