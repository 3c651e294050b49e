/* SPDX-License-Identifier: Apache-2.0 */
/*
 * promql.h - the supported part of PromQL: promql.c parses an expression into nodes,
 * promql_eval.c evaluates each node over all steps of a query. Whatever is not supported is refused
 * with an error that names it; docs/api.md lists it.
 */
#ifndef SL_API_PROMQL_H
#define SL_API_PROMQL_H

#include "api/selected.h"

#define API_PROMQL_NODES  1000u	 /* maximum number of nodes in an expression */
#define API_PROMQL_DEPTH  100u	 /* maximum depth of nesting */
#define API_PROMQL_ARGS	  16u	 /* maximum number of arguments of a function */
#define API_PROMQL_LABELS 16u	 /* maximum number of labels in a list */
#define API_PROMQL_STEPS  11000u /* maximum number of steps in a range, as in Prometheus */
/* maximum age of a sample that counts as current: 5 min */
#define API_PROMQL_LOOKBACK 300000000000ll

enum api_promql_type {
	API_PROMQL_SCALAR = 's',
	API_PROMQL_TEXT = 't',
	API_PROMQL_VECTOR = 'v',
	API_PROMQL_MATRIX = 'm',
};

enum api_promql_kind {
	API_PROMQL_NUMBER,
	API_PROMQL_STRING,
	API_PROMQL_SELECTOR, /* a vector, or with a range a matrix */
	API_PROMQL_SUBQUERY,
	API_PROMQL_CALL,
	API_PROMQL_AGGREGATE, /* arg[0] is the vector, arg[1] the parameter, if any */
	API_PROMQL_BINARY,
	API_PROMQL_NEGATIVE,
};

enum api_promql_operator {
	API_PROMQL_OR,
	API_PROMQL_AND,
	API_PROMQL_UNLESS,
	API_PROMQL_EQ, /* the first comparison */
	API_PROMQL_NE,
	API_PROMQL_LE,
	API_PROMQL_GE,
	API_PROMQL_LT,
	API_PROMQL_GT, /* the last comparison */
	API_PROMQL_ADD,
	API_PROMQL_SUB,
	API_PROMQL_MUL,
	API_PROMQL_DIV,
	API_PROMQL_MOD,
	API_PROMQL_ATAN2,
	API_PROMQL_POW,
	API_PROMQL_OPERATORS
};

enum api_promql_aggregation {
	API_PROMQL_BY_SUM,
	API_PROMQL_BY_AVG,
	API_PROMQL_BY_MIN,
	API_PROMQL_BY_MAX,
	API_PROMQL_BY_COUNT,
	API_PROMQL_BY_GROUP,
	API_PROMQL_BY_STDDEV,
	API_PROMQL_BY_STDVAR,
	API_PROMQL_BY_TOPK, /* the first one with a parameter */
	API_PROMQL_BY_BOTTOMK,
	API_PROMQL_BY_QUANTILE,
	API_PROMQL_BY_VALUES,
	API_PROMQL_AGGREGATIONS
};

/*
 * The labels of "by", "on" and "group_left"; or, if .without is set, those of "without" and
 * "ignoring". Zero means no label. By default, operators ignore no label.
 */
struct api_promql_labels {
	bool without;
	size_t n;
	char *v[API_PROMQL_LABELS];
};

struct api_promql_function;

struct api_promql_node {
	struct api_promql_node *next; /* the node that was created before this one */
	enum api_promql_kind kind;
	enum api_promql_type type;
	double number;
	char *text;
	struct api_matchers matchers;
	int64_t range_ns, step_ns, offset_ns; /* step_ns: 0 means the default */
	enum { API_PROMQL_NOW, API_PROMQL_TIME, API_PROMQL_START, API_PROMQL_END } at;
	int64_t at_ns;
	const struct api_promql_function *function;
	enum api_promql_operator op;
	enum api_promql_aggregation aggregation;
	bool is_bool;
	/* side of the operator with many series per match */
	enum { API_PROMQL_ONE, API_PROMQL_LEFT, API_PROMQL_RIGHT } many;
	struct api_promql_labels by, include;
	struct api_promql_node *arg[API_PROMQL_ARGS];
	size_t args;
};

struct api_promql {
	struct api_promql_node *root, *nodes;
	size_t n;
};

/*
 * Parses an expression. q is initially zero; call api_promql_free() in any case. Returns 0, or
 * -EINVAL or -ENOMEM with a one-line error.
 */
int api_promql_parse(struct api_promql *q, const char *text, char *error, size_t error_bytes);
void api_promql_free(struct api_promql *q);
/* Parses a positive duration: "1h30m", "10ms", or seconds. Returns 0 or -EINVAL. */
int api_promql_duration(const char *text, int64_t *ns);

/* Returns true for sort(); if down is set, for sort_desc(). */
bool api_promql_is_sort(const struct api_promql_function *f, bool down);

struct api_promql_steps { /* evaluation times start, start + step, ... up to end, in ns */
	int64_t start_ns, end_ns, step_ns;
	size_t n;
};

struct api_promql_result { /* initially zero */
	struct api_promql_row {
		struct export_remote_series *of; /* labels of the row in the result */
		double *value;			 /* values, [steps.n] */
		bool *has;			 /* true if the step has a value, [steps.n] */
	} * row;
	size_t n, room;
};

/*
 * Evaluates an expression that is neither a string nor a matrix; a scalar is one row without
 * labels. Returns 0, an error of api_select() or of the budget, -ERANGE if it needs more memory or
 * work than a request may use, -EEXIST if two series differ only in their names, or -EDOM with a
 * one-line error if vectors do not match.
 */
int api_promql_evaluate(const struct api_promql *q, struct collect_collector *c,
			const struct api_promql_steps *steps, struct base_budget *budget,
			struct api_promql_result *out, char *error, size_t error_bytes);
void api_promql_result_free(struct api_promql_result *r);

#endif
