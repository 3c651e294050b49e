// SPDX-License-Identifier: Apache-2.0
/* promql_match.c - binary operators, with the matching of vectors by their labels */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/promql_internal.h"
#include "base/base.h"

/* Values */

static double arithmetic(enum api_promql_operator op, double a, double b)
{
	switch (op) {
	case API_PROMQL_ADD:
		return a + b;
	case API_PROMQL_SUB:
		return a - b;
	case API_PROMQL_MUL:
		return a * b;
	case API_PROMQL_DIV:
		return a / b;
	case API_PROMQL_MOD:
		return fmod(a, b);
	case API_PROMQL_ATAN2:
		return atan2(a, b);
	default:
		return pow(a, b);
	}
}

static bool compare_values(enum api_promql_operator op, double a, double b)
{
	switch (op) {
	case API_PROMQL_EQ:
		return a == b;
	case API_PROMQL_NE:
		return a != b;
	case API_PROMQL_LE:
		return a <= b;
	case API_PROMQL_GE:
		return a >= b;
	case API_PROMQL_LT:
		return a < b;
	default:
		return a > b;
	}
}

static bool is_comparison(const struct api_promql_node *n)
{
	return n->op >= API_PROMQL_EQ && n->op <= API_PROMQL_GT;
}

/* Prometheus 2 also keeps the name for atan2. */
static bool drops_name(const struct api_promql_node *n)
{
	return n->op != API_PROMQL_ATAN2 && (!is_comparison(n) || n->is_bool);
}

/* Sets *out to the result; comparisons set it to `kept`, and return false if they do not hold. */
static bool compute_value(const struct api_promql_node *n, double a, double b, double kept,
			  double *out)
{
	if (!is_comparison(n)) {
		*out = arithmetic(n->op, a, b);
		return true;
	}
	*out = n->is_bool ? compare_values(n->op, a, b) : kept;
	return n->is_bool || compare_values(n->op, a, b);
}

/* Applies an operator with a scalar on one or both sides. Results replace the vector's values. */
static int apply_scalar(struct api_promql_run *r, const struct api_promql_node *n, size_t steps,
			struct api_promql_result *v, const double *scalar, bool is_left)
{
	int err = 0;

	for (size_t i = 0; i < v->n && !err; i++) {
		struct api_promql_row *row = &v->row[i];

		err = api_promql_work(r, steps);
		for (size_t k = 0; k < steps; k++) {
			const double x = row->value[k];

			row->has[k] = row->has[k] &&
				      (is_left ? compute_value(n, scalar[k], x, x, &row->value[k])
					       : compute_value(n, x, scalar[k], x, &row->value[k]));
		}
		if (!err && drops_name(n) &&
		    !api_promql_labels_replace(
			    &row->of, api_promql_labels_keep(row->of, &api_promql_all, false)))
			err = -ENOMEM;
	}
	return err ? err : api_promql_rows_merge(r, v, steps, false);
}

/* Vectors */

/* A row of one side, with the labels by which it is matched. */
struct match_row {
	struct export_remote_series *key;
	struct api_promql_row *row;
	bool is_right;
};

static int by_key(const void *a, const void *b)
{
	const struct match_row *p = a, *q = b;
	const int order = api_series_order(p->key, q->key);

	return order ? order : (int)p->is_right - (int)q->is_right;
}

static bool has_same_key(const struct match_row *a, const struct match_row *b)
{
	return !api_series_order(a->key, b->key);
}

static int fail_match(struct api_promql_run *r, const char *why)
{
	return base_fail(r->error, r->error_bytes, -EDOM, "%s", why);
}

/* Moves a row from an operand to the result. */
static int take_row(struct api_promql_run *r, struct api_promql_result *out,
		    const struct api_promql_row *from, size_t steps)
{
	int err;
	struct api_promql_row *to = api_promql_row_add(r, out, export_remote_series_copy(from->of),
						       steps, &err);

	if (!to)
		return err;
	memcpy(to->value, from->value, steps * sizeof(*to->value));
	memcpy(to->has, from->has, steps * sizeof(*to->has));
	return 0;
}

/*
 * Sets any[k] if one of the rows has a value at step k. Returns false if several have one at the
 * same step.
 */
static bool find_values(const struct match_row *m, size_t n, size_t steps, bool *any)
{
	bool are_single = true;

	memset(any, 0, steps * sizeof(*any));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < steps; k++) {
			are_single &= !any[k] || !m[i].row->has[k];
			any[k] |= m[i].row->has[k];
		}
	return are_single;
}

static void drop_values(const struct match_row *m, size_t n, size_t steps, const bool *keep)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < steps; k++)
			m[i].row->has[k] &= keep[k];
}

/* As in Prometheus, there is nothing to match, and no error, where one side has no value at all. */
static void drop_unpaired_steps(const struct match_row *m, size_t left, size_t right, size_t steps,
				bool *any)
{
	find_values(m, left, steps, any);
	drop_values(m + left, right, steps, any);
	find_values(m + left, right, steps, any);
	drop_values(m, left, steps, any);
}

/* Evaluates "and", "or" and "unless". In m, the rows of the left operand come first. */
static int combine_sets(struct api_promql_run *r, const struct api_promql_node *n, size_t steps,
			const struct match_row *m, size_t left, size_t right, bool *any,
			struct api_promql_result *out)
{
	const bool is_or = n->op == API_PROMQL_OR;
	const size_t first = is_or ? left : 0, end = is_or ? left + right : left;
	int err = api_promql_work(r, (left + right) * steps);

	for (size_t i = 0; i < left && is_or && !err; i++)
		err = take_row(r, out, m[i].row, steps);
	find_values(is_or ? m : m + left, is_or ? left : right, steps, any);
	for (size_t i = first; i < end && !err; i++) {
		err = take_row(r, out, m[i].row, steps);
		for (size_t k = 0; k < steps && !err; k++)
			out->row[out->n - 1].has[k] &= any[k] == (n->op == API_PROMQL_AND);
	}
	return err;
}

/* Returns the labels of a matched pair, or NULL if out of memory. */
static struct export_remote_series *pair_labels(const struct api_promql_node *n,
						const struct export_remote_series *many,
						const struct export_remote_series *one)
{
	struct export_remote_series *of =
		drops_name(n) ? api_promql_labels_keep(many, &api_promql_all, false)
			      : export_remote_series_copy(many);

	if (of && n->many == API_PROMQL_ONE)
		api_promql_labels_replace(&of, api_promql_labels_keep(of, &n->by, true));
	for (size_t i = 0; of && n->many && i < n->include.n; i++) {
		const char *name = n->include.v[i];
		const struct api_label l = api_promql_label(one, name);

		api_promql_labels_replace(&of,
					  api_promql_labels_set(of, name, l.value, l.value_bytes));
	}
	return of;
}

/* Computes the values of a matched pair. used[k]: a left row had a partner at step k. */
static int match_pair(struct api_promql_run *r, const struct api_promql_node *n, size_t steps,
		      const struct api_promql_row *a, const struct api_promql_row *b, bool *used,
		      struct api_promql_result *out)
{
	const bool swap = n->many == API_PROMQL_RIGHT;
	int err;
	struct api_promql_row *to = api_promql_row_add(
		r, out, pair_labels(n, swap ? b->of : a->of, swap ? a->of : b->of), steps, &err);

	for (size_t k = 0; k < steps && !err; k++) {
		if (!a->has[k] || !b->has[k])
			continue;
		to->has[k] = compute_value(n, a->value[k], b->value[k], a->value[k], &to->value[k]);
		if (n->many == API_PROMQL_ONE && used[k] && to->has[k])
			return fail_match(r, "several series of the left side match one of the "
					     "right side: use group_left, or other labels");
		used[k] |= to->has[k];
	}
	return err;
}

static int combine_pairs(struct api_promql_run *r, const struct api_promql_node *n, size_t steps,
			 const struct match_row *m, size_t left, size_t right, bool *any,
			 struct api_promql_result *out)
{
	const bool swap = n->many == API_PROMQL_RIGHT;
	int err = api_promql_work(r, (left + 1) * (right + 1) * steps);

	/* At least one side must have a single series per set of labels to match by. */
	if (!err && !find_values(swap ? m : m + left, swap ? left : right, steps, any))
		err = fail_match(r, "several series of one side have the same labels to match by: "
				    "many-to-many matching is not allowed");
	memset(any, 0, steps * sizeof(*any));
	for (size_t i = 0; i < left && !err; i++)
		for (size_t k = left; k < left + right && !err; k++)
			err = match_pair(r, n, steps, m[i].row, m[k].row, any, out);
	return err;
}

static int match_vectors(struct api_promql_run *r, const struct api_promql_node *n, size_t steps,
			 struct api_promql_result *a, struct api_promql_result *b,
			 struct api_promql_result *out)
{
	const size_t rows = a->n + b->n;
	struct match_row *m = calloc(rows + 1, sizeof(*m));
	bool *any = malloc(steps * sizeof(*any));
	int err = m && any ? 0 : -ENOMEM;

	for (size_t i = 0; i < rows && !err; i++) {
		m[i].row = i < a->n ? &a->row[i] : &b->row[i - a->n];
		m[i].is_right = i >= a->n;
		m[i].key = api_promql_labels_keep(m[i].row->of, &n->by, false);
		err = m[i].key ? 0 : -ENOMEM;
	}
	if (!err && n->op > API_PROMQL_UNLESS)
		drop_unpaired_steps(m, a->n, b->n, steps, any);
	if (!err && rows)
		qsort(m, rows, sizeof(*m), by_key);
	for (size_t i = 0, left, end; i < rows && !err; i = end) {
		for (left = 0, end = i; end < rows && has_same_key(&m[i], &m[end]); end++)
			left += !m[end].is_right;
		err = (n->op <= API_PROMQL_UNLESS ? combine_sets : combine_pairs)(
			r, n, steps, &m[i], left, end - i - left, any, out);
	}
	for (size_t i = 0; m && i < rows; i++)
		free(m[i].key);
	free(m);
	free(any);
	if (err)
		return err;
	err = api_promql_rows_merge(r, out, steps, false);
	return err == -EEXIST ? fail_match(r, "several pairs of series have the same labels: "
					      "group by labels that distinguish them")
			      : err;
}

int api_promql_binary(struct api_promql_run *r, const struct api_promql_node *n, size_t steps,
		      struct api_promql_result *a, struct api_promql_result *b,
		      struct api_promql_result *out)
{
	const bool is_left = n->arg[0]->type == API_PROMQL_SCALAR;
	struct api_promql_result *v = is_left ? b : a;
	int err;

	if (!is_left && n->arg[1]->type != API_PROMQL_SCALAR)
		return match_vectors(r, n, steps, a, b, out);
	err = apply_scalar(r, n, steps, v, (is_left ? a : b)->row->value, is_left);
	*out = *v;
	*v = (struct api_promql_result){.n = 0};
	return err;
}
