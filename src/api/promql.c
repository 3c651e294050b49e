// SPDX-License-Identifier: Apache-2.0
/*
 * promql.c - parses the supported part of PromQL: recursive descent, with the precedence of
 * operators from a table. promql_operand.c parses what operators combine.
 */
#include "api/promql_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"

/* Text */

void *api_promql_fail_parse(struct api_promql_parser *p, const char *what)
{
	if (!*p->at)
		return api_promql_refuse(p, "%s, not the end", what);
	return api_promql_refuse(p, "%s, not \"%.20s\"", what, p->at);
}

void api_promql_skip_bytes(struct api_promql_parser *p, size_t n)
{
	p->at = api_promql_space(p->at + n);
}

bool api_promql_take_char(struct api_promql_parser *p, char c)
{
	if (*p->at != c)
		return false;
	api_promql_skip_bytes(p, 1);
	return true;
}

bool api_promql_is_word(const struct api_promql_parser *p, const char *word)
{
	const size_t n = strlen(word);

	return api_promql_name(p->at, true) == n && !strncasecmp(p->at, word, n);
}

bool api_promql_take_word(struct api_promql_parser *p, const char *word)
{
	if (!api_promql_is_word(p, word))
		return false;
	api_promql_skip_bytes(p, strlen(word));
	return true;
}

bool api_promql_expect_char(struct api_promql_parser *p, char c)
{
	const char what[] = {'e', 'x', 'p', 'e', 'c', 't', 'e', 'd', ' ', c, 0};

	return api_promql_take_char(p, c) || api_promql_fail_parse(p, what);
}

/* Nodes */

struct api_promql_node *api_promql_new_node(struct api_promql_parser *p, enum api_promql_kind kind,
					    enum api_promql_type type)
{
	struct api_promql_node *n;

	if (p->q->n == API_PROMQL_NODES)
		return api_promql_refuse(p, "the query has more than %u operands",
					 API_PROMQL_NODES);
	n = calloc(1, sizeof(*n));
	if (!n) {
		p->err = -ENOMEM;
		return NULL;
	}
	n->kind = kind;
	n->type = type;
	n->next = p->q->nodes;
	p->q->nodes = n;
	p->q->n++;
	return n;
}

static const char *type_name(enum api_promql_type type)
{
	return type == API_PROMQL_SCALAR   ? "a scalar"
	       : type == API_PROMQL_TEXT   ? "a string"
	       : type == API_PROMQL_VECTOR ? "an instant vector"
					   : "a range vector, as in x[5m]";
}

bool api_promql_check_type(struct api_promql_parser *p, const struct api_promql_node *n,
			   enum api_promql_type type, const char *of)
{
	return n->type == type || api_promql_refuse(p, "%s expects %s, not %s", of, type_name(type),
						    type_name(n->type));
}

/* Operators */

static const struct promql_operator {
	const char *text;
	int precedence;
} operators[] = {
	[API_PROMQL_OR] = {"or", 1},	     [API_PROMQL_AND] = {"and", 2},
	[API_PROMQL_UNLESS] = {"unless", 2}, [API_PROMQL_EQ] = {"==", 3},
	[API_PROMQL_NE] = {"!=", 3},	     [API_PROMQL_LE] = {"<=", 3},
	[API_PROMQL_GE] = {">=", 3},	     [API_PROMQL_LT] = {"<", 3},
	[API_PROMQL_GT] = {">", 3},	     [API_PROMQL_ADD] = {"+", 4},
	[API_PROMQL_SUB] = {"-", 4},	     [API_PROMQL_MUL] = {"*", 5},
	[API_PROMQL_DIV] = {"/", 5},	     [API_PROMQL_MOD] = {"%", 5},
	[API_PROMQL_ATAN2] = {"atan2", 5},   [API_PROMQL_POW] = {"^", 6},
};

static bool is_operator(const struct api_promql_parser *p, int i)
{
	const char *text = operators[i].text;

	return isalpha((unsigned char)*text) ? api_promql_is_word(p, text)
					     : !strncmp(p->at, text, strlen(text));
}

/* A minus binds less tightly than ^, and more tightly than all other operators. */
static struct api_promql_node *parse_unary(struct api_promql_parser *p)
{
	const bool is_minus = *p->at == '-';
	struct api_promql_node *n, *of;

	if (!api_promql_take_char(p, '-') && !api_promql_take_char(p, '+'))
		return api_promql_parse_modified(p);
	of = api_promql_parse_expression(p, operators[API_PROMQL_POW].precedence);
	if (!of || !is_minus)
		return of;
	if (of->type != API_PROMQL_SCALAR && !api_promql_check_type(p, of, API_PROMQL_VECTOR, "-"))
		return NULL;
	n = api_promql_new_node(p, API_PROMQL_NEGATIVE, of->type);
	if (n)
		n->arg[n->args++] = of;
	return n;
}

static bool parse_matching(struct api_promql_parser *p, struct api_promql_node *n)
{
	n->is_bool = api_promql_take_word(p, "bool");
	n->by.without = true;
	if (!api_promql_is_word(p, "on") && !api_promql_is_word(p, "ignoring"))
		return true;
	n->by.without = api_promql_is_word(p, "ignoring");
	api_promql_skip_bytes(p, n->by.without ? 8 : 2);
	if (!api_promql_parse_labels(p, &n->by))
		return false;
	n->many = api_promql_take_word(p, "group_left")	   ? API_PROMQL_LEFT
		  : api_promql_take_word(p, "group_right") ? API_PROMQL_RIGHT
							   : API_PROMQL_ONE;
	return !n->many || *p->at != '(' || api_promql_parse_labels(p, &n->include);
}

/* Checks the operands and modifiers of a binary operator. Returns n, or NULL after an error. */
static struct api_promql_node *check_operands(struct api_promql_parser *p,
					      struct api_promql_node *n)
{
	const bool is_compare = n->op >= API_PROMQL_EQ && n->op <= API_PROMQL_GT;
	const char *op = operators[n->op].text;
	size_t vectors = 0;

	for (size_t i = 0; i < 2; i++)
		if (n->arg[i]->type != API_PROMQL_SCALAR || n->op <= API_PROMQL_UNLESS) {
			if (!api_promql_check_type(p, n->arg[i], API_PROMQL_VECTOR, op))
				return NULL;
			vectors++;
		}
	n->type = vectors ? API_PROMQL_VECTOR : API_PROMQL_SCALAR;
	if (n->is_bool && !is_compare)
		return api_promql_refuse(p, "bool can only follow a comparison, not %s", op);
	if (is_compare && !n->is_bool && !vectors)
		return api_promql_refuse(p, "a comparison of scalars needs bool, as in 1 %s bool 2",
					 op);
	if (vectors < 2 && (n->by.n || !n->by.without || n->many))
		return api_promql_refuse(
			p, "on, ignoring and group_... need vectors on both sides of %s", op);
	if (n->many && n->op <= API_PROMQL_UNLESS)
		return api_promql_refuse(p, "group_... cannot be used with %s", op);
	return n;
}

static struct api_promql_node *parse_binary(struct api_promql_parser *p, int op,
					    struct api_promql_node *left)
{
	struct api_promql_node *n = api_promql_new_node(p, API_PROMQL_BINARY, API_PROMQL_VECTOR);

	if (!n)
		return NULL;
	n->op = (enum api_promql_operator)op;
	api_promql_skip_bytes(p, strlen(operators[op].text));
	n->arg[0] = left;
	n->args = 2;
	/* ^ is the only operator that is right-associative. */
	if (parse_matching(p, n))
		n->arg[1] = api_promql_parse_expression(p, operators[op].precedence +
								   (op != API_PROMQL_POW));
	return n->arg[1] ? check_operands(p, n) : NULL;
}

struct api_promql_node *api_promql_parse_expression(struct api_promql_parser *p, int least)
{
	struct api_promql_node *n;
	int op;

	if (++p->depth > API_PROMQL_DEPTH)
		return api_promql_fail_parse(p, "the query is nested too deeply");
	n = parse_unary(p);
	while (n) {
		for (op = 0; op < API_PROMQL_OPERATORS && !is_operator(p, op);)
			op++;
		if (op == API_PROMQL_OPERATORS || operators[op].precedence < least)
			break;
		n = parse_binary(p, op, n);
	}
	p->depth--;
	return n;
}

int api_promql_parse(struct api_promql *q, const char *text, char *error, size_t error_bytes)
{
	struct api_promql_parser p = {
		.q = q, .at = text, .error = error, .error_bytes = error_bytes};

	*error = 0;
	api_promql_skip_bytes(&p, 0);
	q->root = api_promql_parse_expression(&p, API_PROMQL_ANY);
	if (q->root && *p.at)
		api_promql_fail_parse(&p, "expected an operator or the end of the query");
	if (p.err && !*error)
		base_fail(error, error_bytes, p.err, "out of memory");
	return p.err;
}

static void free_labels(struct api_promql_labels *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
}

void api_promql_free(struct api_promql *q)
{
	struct api_promql_node *next;

	for (struct api_promql_node *n = q->nodes; n; n = next) {
		next = n->next;
		free(n->text);
		api_matchers_free(&n->matchers);
		free_labels(&n->by);
		free_labels(&n->include);
		free(n);
	}
	*q = (struct api_promql){.n = 0};
}
