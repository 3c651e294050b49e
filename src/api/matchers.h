/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matchers.h - selectors of Prometheus: label matchers, from a protobuf message or text. Regular
 * expressions must match a whole value. PCRE2 evaluates them, because it supports all RE2 syntax
 * that selectors use. Their cost is bounded, because expressions come from clients.
 */
#ifndef SL_API_MATCHERS_H
#define SL_API_MATCHERS_H

#include <stdbool.h>
#include <stddef.h>

#include "collect/read/collect.h"

#define API_MATCHERS_MAX 16u

enum api_match { API_MATCH_EQUAL, API_MATCH_NOT_EQUAL, API_MATCH_RE, API_MATCH_NOT_RE };

struct api_matchers {
	size_t n;
	/* true if a regular expression exceeded its limit: the selection is incomplete */
	bool too_costly;
	struct api_matcher {
		enum api_match type;
		char *name, *value;
		struct base_regex *regex; /* NULL means equality */
	} m[API_MATCHERS_MAX];
};

/*
 * Adds a matcher. *m is initially zero. Copies name and value. Returns 0, -ENOMEM, or -EINVAL with
 * a one-line error.
 */
int api_matchers_add(struct api_matchers *m, enum api_match type, const char *name,
		     size_t name_bytes, const char *value, size_t value_bytes, char *error,
		     size_t error_bytes);
/*
 * Parses a selector such as name{a="b",c=~"d.*"}. Returns the end of the selector, or NULL with a
 * one-line error. As in Prometheus, at least one matcher must not match the empty string.
 */
const char *api_matchers_parse(struct api_matchers *m, const char *text, char *error,
			       size_t error_bytes);
void api_matchers_free(struct api_matchers *m); /* resets *m to zero */

/*
 * Return true if the matchers for __name__ accept the name, or those for labels accept the series.
 * A missing label counts as empty. Not thread-safe.
 */
bool api_matchers_name(struct api_matchers *m, const char *name);
bool api_matchers_labels(struct api_matchers *m, const struct collect_series_view *s);

/* Returns the value of a label, or "". */
const char *api_label_of(const struct collect_series_view *s, const char *key);

/* Returns a NUL-terminated copy of the bytes, or NULL if out of memory. */
char *api_copy_text(const char *s, size_t bytes);
/*
 * Decodes a quoted string of PromQL into *out, which the caller frees. Returns its end, or NULL.
 */
const char *api_promql_text(const char *s, char **out);
/* Skips white space and comments of PromQL. */
const char *api_promql_space(const char *s);
/* Returns the length of the metric or label name at s; 0 if there is no name. */
size_t api_promql_name(const char *s, bool colons);

#endif
