/* SPDX-License-Identifier: Apache-2.0 */
/*
 * promql.h - a subset of PromQL that needs no query engine: a selector, optionally in a function
 * over a range, optionally in nested aggregations. Other expressions are refused with an error;
 * Prometheus can evaluate all of PromQL through remote read.
 */
#ifndef SL_API_PROMQL_H
#define SL_API_PROMQL_H

#include "api/selected.h"

#define API_PROMQL_AGGREGATES 4u
#define API_PROMQL_LABELS     16u    /* maximum number of labels in a grouping */
#define API_PROMQL_STEPS      11000u /* maximum number of steps in a range, as in Prometheus */
#define API_PROMQL_LOOKBACK   300000000000ll /* maximum age of a current value: 5 min */

enum api_promql_function {
	API_PROMQL_VALUE, /* no function: the last value */
	API_PROMQL_RATE,
	API_PROMQL_INCREASE,
	API_PROMQL_DELTA,
	API_PROMQL_IRATE,
	API_PROMQL_AVG,
	API_PROMQL_MIN,
	API_PROMQL_MAX,
	API_PROMQL_SUM,
	API_PROMQL_COUNT,
	API_PROMQL_LAST,
	API_PROMQL_FUNCTIONS
};

enum api_promql_operator {
	API_PROMQL_BY_SUM,
	API_PROMQL_BY_AVG,
	API_PROMQL_BY_MIN,
	API_PROMQL_BY_MAX,
	API_PROMQL_BY_COUNT,
	API_PROMQL_OPERATORS
};

struct api_promql {
	struct api_matchers matchers;
	int64_t range_ns; /* range of the selector; 0 means an instant selector */
	int64_t offset_ns;
	enum api_promql_function function;
	struct api_promql_aggregate { /* aggregations, innermost first */
		enum api_promql_operator op;
		bool without;
		size_t labels;
		char *label[API_PROMQL_LABELS];
	} aggregate[API_PROMQL_AGGREGATES];
	size_t aggregates;
};

/*
 * Parses an expression. q is initially zero; call api_promql_free() in any case. Returns 0, or
 * -EINVAL or -ENOMEM with a one-line error.
 */
int api_promql_parse(struct api_promql *q, const char *text, char *error, size_t error_bytes);
void api_promql_free(struct api_promql *q);
/* Parses a positive duration: "1h30m", "10ms", or seconds. Returns 0 or -EINVAL. */
int api_promql_duration(const char *text, int64_t *ns);

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
 * Evaluates an expression. Returns 0, an error of api_select() or of the budget, or -ERANGE if it
 * takes more memory or work than a request may use.
 */
int api_promql_evaluate(const struct api_promql *q, struct collect_collector *c,
			const struct api_promql_steps *steps, struct base_budget *budget,
			struct api_promql_result *out);
void api_promql_result_free(struct api_promql_result *r);

#endif
