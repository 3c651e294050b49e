/* SPDX-License-Identifier: Apache-2.0 */
/* promql_internal.h - what the files of the PromQL parser and evaluator share */
#ifndef SL_API_PROMQL_INTERNAL_H
#define SL_API_PROMQL_INTERNAL_H

#include "api/promql.h"
#include "base/budget.h"

/*
 * The points of one series in a range, oldest first; times in ms. now: the evaluation time, which
 * "offset" and "@" do not shift.
 */
struct api_promql_window {
	const struct collect_point *p;
	size_t n;
	double start, end, now;
	double param;			/* the function's scalar, or 0 */
	enum api_promql_aggregation by; /* for functions such as sum_over_time() */
};

/* Functions for which promql_eval.c has special code. */
enum api_promql_special {
	API_PROMQL_DOES_PLAIN,
	API_PROMQL_DOES_TIME,
	API_PROMQL_DOES_VECTOR,
	API_PROMQL_DOES_SCALAR,
	API_PROMQL_DOES_SORT,
	API_PROMQL_DOES_ABSENT,
	API_PROMQL_DOES_ABSENT_OVER_TIME,
	API_PROMQL_DOES_LABEL_REPLACE,
	API_PROMQL_DOES_LABEL_JOIN,
	API_PROMQL_DOES_QUANTILE,
};

struct api_promql_function {
	const char *name;
	/*
	 * types of the arguments (enum api_promql_type); optional ones are in upper case; * repeats
	 * the last one
	 */
	const char *types;
	enum api_promql_type returns;
	enum api_promql_special special;
	/*
	 * Computes a value of a window. It is called only if the window has at least `least`
	 * points, and at least one.
	 */
	double (*window)(const struct api_promql_window *w);
	uint32_t least;
	enum api_promql_aggregation by; /* for functions such as sum_over_time() */
	/* Computes a value of a vector; s: the function's scalars. */
	double (*math)(double v, const double *s);
	double (*math1)(double v);
	bool keeps_name;
};

/* Returns the function with this name, or NULL. */
const struct api_promql_function *api_promql_function(const char *name, size_t bytes);
/* Aggregates the values of n >= 1 points, which must be in order for a quantile. */
double api_promql_reduce(enum api_promql_aggregation by, double param,
			 const struct collect_point *p, size_t n);
int api_promql_order(const void *a, const void *b);

struct api_promql_run {
	struct collect_collector *c;
	struct base_budget *budget;
	const struct api_promql_steps *query; /* steps of the whole query, for "@ start()" */
	struct collect_point *point;
	size_t points, point_room;
	uint64_t work;
	size_t held; /* number of values in all rows */
	char *error;
	size_t error_bytes;
};

int api_promql_eval(struct api_promql_run *r, const struct api_promql_node *n,
		    const struct api_promql_steps *steps, struct api_promql_result *out);
/* Charges work on n points or values to the request. Returns 0, -ERANGE or the budget's error. */
int api_promql_work(struct api_promql_run *r, uint64_t n);

/* ---- rows ---- */

/*
 * Adds a row without values and takes ownership of its labels; of may be NULL, which means out of
 * memory. Returns NULL with *err set.
 */
struct api_promql_row *api_promql_row_add(struct api_promql_run *r, struct api_promql_result *to,
					  struct export_remote_series *of, size_t steps, int *err);
/* Removes the last row if it has no value. */
void api_promql_row_drop_empty(struct api_promql_run *r, struct api_promql_result *to,
			       size_t steps);
/*
 * Removes rows without a value, and merges rows with equal labels. Returns -EEXIST if two rows with
 * equal labels have a value at the same step or, with strict set, if there are such rows at all.
 */
int api_promql_rows_merge(struct api_promql_run *r, struct api_promql_result *to, size_t steps,
			  bool strict);
void api_promql_rows_free(struct api_promql_run *r, struct api_promql_result *to, size_t steps);
/* compares rows by their labels; for qsort() */
int api_promql_row_order(const void *a, const void *b);

/* ---- labels: each function returns new labels, or NULL if out of memory ---- */

struct export_remote_series *api_promql_labels_empty(void);
/* Keeps the labels that an aggregation keeps; "without" keeps the name only if keep_name is set. */
struct export_remote_series *api_promql_labels_keep(const struct export_remote_series *from,
						    const struct api_promql_labels *by,
						    bool keep_name);
/* Sets a label; an empty value removes it. */
struct export_remote_series *api_promql_labels_set(const struct export_remote_series *from,
						   const char *name, const char *value,
						   size_t value_bytes);
/* Frees *of, and replaces it by `with`. Returns false if `with` is NULL. */
bool api_promql_labels_replace(struct export_remote_series **of, struct export_remote_series *with);
/* Finds a label; a missing one is empty. */
struct api_label api_promql_label(const struct export_remote_series *of, const char *name);
extern const struct api_promql_labels api_promql_all; /* keeps all labels but the name */

/* ---- operators and aggregations ---- */

int api_promql_aggregate(struct api_promql_run *r, const struct api_promql_node *n,
			 const double *param, size_t steps, struct api_promql_result *v);
int api_promql_binary(struct api_promql_run *r, const struct api_promql_node *n, size_t steps,
		      struct api_promql_result *a, struct api_promql_result *b,
		      struct api_promql_result *out);
/* label_replace(), label_join() and histogram_quantile() */
int api_promql_relabel(struct api_promql_run *r, const struct api_promql_node *n, size_t steps,
		       struct api_promql_result *v);
int api_promql_histogram(struct api_promql_run *r, const double *q, size_t steps,
			 struct api_promql_result *v);

/* The parser: promql.c and promql_operand.c */

#define API_PROMQL_ANY 1 /* the lowest precedence of an operator */

/*
 * Functions that return a node or a bool return NULL or false after an error: .err is then set, and
 * .error unless it is -ENOMEM.
 */
struct api_promql_parser {
	struct api_promql *q;
	const char *at;
	size_t depth;
	int err;
	char *error;
	size_t error_bytes;
};

/* Fails with a message that says what was expected and what follows instead. Returns NULL. */
void *api_promql_fail_parse(struct api_promql_parser *p, const char *what);
/* Fails with a formatted message. Returns NULL. */
#define api_promql_refuse(p, ...) \
	((p)->err = base_fail((p)->error, (p)->error_bytes, -EINVAL, __VA_ARGS__), NULL)
/* Skips n bytes, and the space and comments after them. */
void api_promql_skip_bytes(struct api_promql_parser *p, size_t n);
bool api_promql_take_char(struct api_promql_parser *p, char c);
bool api_promql_expect_char(struct api_promql_parser *p, char c);
/* Keywords are case-insensitive. */
bool api_promql_is_word(const struct api_promql_parser *p, const char *word);
bool api_promql_take_word(struct api_promql_parser *p, const char *word);
struct api_promql_node *api_promql_new_node(struct api_promql_parser *p, enum api_promql_kind kind,
					    enum api_promql_type type);
bool api_promql_check_type(struct api_promql_parser *p, const struct api_promql_node *n,
			   enum api_promql_type type, const char *of);
/* Parses an expression whose operators have at least this precedence. */
struct api_promql_node *api_promql_parse_expression(struct api_promql_parser *p, int least);
/* Parses an operand with its modifiers. */
struct api_promql_node *api_promql_parse_modified(struct api_promql_parser *p);
/* Parses a list of labels in parentheses. */
bool api_promql_parse_labels(struct api_promql_parser *p, struct api_promql_labels *l);

#endif
