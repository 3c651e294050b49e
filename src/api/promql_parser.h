/* SPDX-License-Identifier: Apache-2.0 */
/* promql_parser.h - what the two files of the PromQL parser share */
#ifndef SL_API_PROMQL_PARSER_H
#define SL_API_PROMQL_PARSER_H

#include "api/promql.h"

#define API_PROMQL_ANY 1 /* the lowest precedence of an operator */

struct api_promql_parser {
	struct api_promql *q;
	const char *at;
	size_t depth;
	char *error;
	size_t error_bytes;
};

/* Fails with a message that says what was expected and what follows instead. */
int api_promql_fail_parse(const struct api_promql_parser *p, const char *what);
/* Skips n bytes, and the space and comments after them. */
void api_promql_skip_bytes(struct api_promql_parser *p, size_t n);
bool api_promql_take_char(struct api_promql_parser *p, char c);
int api_promql_expect_char(struct api_promql_parser *p, char c);
/* Keywords are case-insensitive. */
bool api_promql_is_word(const struct api_promql_parser *p, const char *word);
bool api_promql_take_word(struct api_promql_parser *p, const char *word);
/* Returns NULL with *err set. */
struct api_promql_node *api_promql_new_node(struct api_promql_parser *p, enum api_promql_kind kind,
					    enum api_promql_type type, int *err);
int api_promql_check_type(const struct api_promql_parser *p, const struct api_promql_node *n,
			  enum api_promql_type type, const char *of);
/* Parses an expression whose operators have at least this precedence. */
int api_promql_parse_expression(struct api_promql_parser *p, int least,
				struct api_promql_node **out);
/* Parses an operand with its modifiers. */
int api_promql_parse_modified(struct api_promql_parser *p, struct api_promql_node **out);
/* Parses a list of labels in parentheses. */
int api_promql_parse_labels(struct api_promql_parser *p, struct api_promql_labels *l);

#endif
