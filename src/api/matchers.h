/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matchers.h - Prometheus' selectors: label matchers, from a protobuf message or as text. Regular
 * expressions match a whole value, by PCRE2, which has all of RE2's syntax that selectors use; what
 * one may cost is bounded, because an expression comes from a client.
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
	bool too_costly; /* a regular expression ran into its bound: what was matched is not all */
	struct api_matcher {
		enum api_match type;
		char *name, *value;
		void *code, *data; /* of PCRE2 */
	} m[API_MATCHERS_MAX];
	void *context; /* of PCRE2 */
};

/* Initially zero. Copies name and value. 0, -ENOMEM, or -EINVAL with one line in error. */
int api_matchers_add(struct api_matchers *m, enum api_match type, const char *name,
		     size_t name_bytes, const char *value, size_t value_bytes, char *error,
		     size_t error_bytes);
/*
 * Reads a selector, as in name{a="b",c=~"d.*"}, and returns its end. NULL with one line in error.
 * Prometheus' rule that not all matchers may match the empty string holds here, too.
 */
const char *api_matchers_parse(struct api_matchers *m, const char *text, char *error,
			       size_t error_bytes);
void api_matchers_free(struct api_matchers *m); /* leaves it zero */

/* Whether the matchers of __name__ let this name pass; those of labels, this series. A label that a
 * series does not have is empty. One thread at a time. */
bool api_matchers_name(struct api_matchers *m, const char *name);
bool api_matchers_labels(struct api_matchers *m, const struct collect_series_view *s);

/* A string of bytes that have no NUL behind them; NULL: out of memory. */
char *api_copy_text(const char *s, size_t bytes);
/* Skips white space and comments of PromQL. */
const char *api_promql_space(const char *s);
/* The bytes of a metric's or label's name at s; 0: none. */
size_t api_promql_name(const char *s, bool colons);

#endif
