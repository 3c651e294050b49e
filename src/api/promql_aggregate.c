// SPDX-License-Identifier: Apache-2.0
/* promql_aggregate.c - aggregations of rows, and the functions that change labels */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/promql_internal.h"
#include "base/base.h"
#include "base/hash.h"
#include "base/regex.h"
#include "base/table.h"

/* A row and the labels of its group. */
struct group_row {
	struct export_remote_series *key;
	struct api_promql_row *row;
	double bound; /* for histogram_quantile(): the label "le" */
};

static int by_group(const void *a, const void *b)
{
	const struct group_row *x = a, *y = b;

	return api_series_order(x->key, y->key);
}

struct promql_bucket {
	double bound, count;
};

struct promql_group {
	const struct api_promql_node *node; /* NULL means histogram_quantile() */
	const struct group_row *v;
	size_t n, steps;
	const double *param;
	/* scratch space, one entry per row: values, or buckets for histogram_quantile() */
	struct collect_point *value;
	struct promql_bucket *bucket;
	struct api_promql_result *out;
};

static int check_name(struct api_promql_run *r, const char *name)
{
	if (*name && api_promql_name(name, false) == strlen(name))
		return 0;
	return base_fail(r->error, r->error_bytes, -EDOM, "\"%.80s\" is not a valid label name",
			 name);
}

/* Values of one step */

/* Copies the values of a step. Returns their number. */
static size_t gather_values(const struct promql_group *g, size_t step)
{
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++)
		if (g->v[i].row->has[step]) {
			const double v = g->v[i].row->value[step];

			g->bucket[n] = (struct promql_bucket){g->v[i].bound, v};
			g->value[n++].value = v;
		}
	return n;
}

/* histogram_quantile() of classic buckets */

static int by_bound(const void *a, const void *b)
{
	const struct promql_bucket *x = a, *y = b;

	return (x->bound > y->bound) - (x->bound < y->bound);
}

static double interpolate_bucket(double q, struct promql_bucket *b, size_t n)
{
	size_t kept = 0, i = 0;
	double rank, most, low = 0, before = 0;

	if (isnan(q))
		return NAN;
	if (q < 0 || q > 1)
		return q < 0 ? -INFINITY : INFINITY;
	qsort(b, n, sizeof(*b), by_bound);
	if (!isinf(b[n - 1].bound))
		return NAN;
	for (size_t k = 1; k < n; k++)
		if (b[k].bound == b[kept].bound)
			b[kept].count += b[k].count;
		else
			b[++kept] = b[k];
	n = kept + 1;
	/*
	 * Cumulative counts may decrease if the buckets were not read at the same time. NaN is no
	 * decrease.
	 */
	most = b[0].count;
	for (size_t k = 1; k < n; k++)
		if (b[k].count < most)
			b[k].count = most;
		else if (b[k].count > most)
			most = b[k].count;
	rank = q * b[n - 1].count;
	if (n < 2 || b[n - 1].count == 0)
		return NAN;
	while (i < n - 1 && !(b[i].count >= rank))
		i++;
	if (i == n - 1)
		return b[n - 2].bound;
	if (!i && b[0].bound <= 0)
		return b[0].bound;
	if (i) {
		low = b[i - 1].bound;
		before = b[i - 1].count;
	}
	return low + (b[i].bound - low) * ((rank - before) / (b[i].count - before));
}

/* Reads the label "le". Returns false if it is missing or malformed. */
static bool read_bound(const struct api_promql_row *row, double *out)
{
	const struct api_label l = api_promql_label(row->of, "le");
	char text[64], *end;

	if (!l.value_bytes || l.value_bytes >= sizeof(text))
		return false;
	*(char *)mempcpy(text, l.value, l.value_bytes) = 0;
	*out = strtod(text, &end);
	return !*end && !isnan(*out);
}

/* Groups */

static int reduce_group(struct api_promql_run *r, struct promql_group *g)
{
	int err;
	struct api_promql_row *to =
		api_promql_row_add(r, g->out, export_remote_series_copy(g->v->key), g->steps, &err);

	for (size_t k = 0; k < g->steps && !err; k++) {
		const size_t n = gather_values(g, k);
		const double param = g->param ? g->param[k] : 0;

		to->has[k] = n;
		if (n && g->node && g->node->aggregation == API_PROMQL_BY_QUANTILE)
			qsort(g->value, n, sizeof(*g->value), api_promql_order);
		if (n)
			to->value[k] = g->node ? api_promql_reduce(g->node->aggregation, param,
								   g->value, n)
					       : interpolate_bucket(param, g->bucket, n);
	}
	return err;
}

struct promql_ranked {
	double value; /* larger ranks higher */
	size_t row;
};

static int by_rank(const void *a, const void *b)
{
	const struct promql_ranked *x = a, *y = b;

	/* NaN ranks last. */
	if (isnan(x->value) || isnan(y->value))
		return isnan(x->value) - isnan(y->value) ?: (x->row > y->row) - (x->row < y->row);
	return (x->value < y->value) - (x->value > y->value)
		       ?: (x->row > y->row) - (x->row < y->row);
}

/* topk and bottomk: keeps the highest or lowest values of each step, and removes the others. */
static int rank_group(struct api_promql_run *r, struct promql_group *g)
{
	const double sign = g->node->aggregation == API_PROMQL_BY_TOPK ? 1 : -1;
	struct promql_ranked *v = malloc(g->n * sizeof(*v));
	int err = v ? api_promql_work(r, g->n * g->steps) : -ENOMEM;

	for (size_t k = 0; k < g->steps && !err; k++) {
		const double most = g->param[k];
		size_t n = 0;

		for (size_t i = 0; i < g->n; i++)
			if (g->v[i].row->has[k])
				v[n++] = (struct promql_ranked){sign * g->v[i].row->value[k], i};
		if (n)
			qsort(v, n, sizeof(*v), by_rank);
		for (size_t i = 0; i < n; i++)
			if (!((double)i + 1 <= most))
				g->v[v[i].row].row->has[k] = false;
	}
	free(v);
	return err;
}

/* Prints a number without an exponent, as Go's FormatFloat(v, 'f', -1, 64) does. */
static size_t print_value(char *to, size_t room, double v)
{
	if (!isfinite(v))
		return (size_t)snprintf(to, room, "%s", isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
	for (int digits = 0; digits < 330; digits++) {
		const int n = snprintf(to, room, "%.*f", digits, v);

		if (strtod(to, NULL) == v)
			return (size_t)n;
	}
	return strlen(to);
}

/* The row of a value, in a table by the hash of the value's bits. */
struct value_row {
	struct base_node node;
	uint64_t bits; /* all NaN are the same */
	size_t row;
};

/* Finds the row of a value; adds it if there is none. Returns NULL with *err set. */
static struct api_promql_row *find_row(struct api_promql_run *r, struct promql_group *g,
				       struct base_table *rows, double value, int *err)
{
	struct export_remote_series *of;
	struct api_promql_row *to;
	struct value_row *at;
	uint64_t bits, hash;
	char text[800];

	value = isnan(value) ? (double)NAN : value;
	memcpy(&bits, &value, sizeof(bits));
	hash = base_hash_u64(bits);
	for (at = base_table_first(rows, hash); at; at = base_table_next(at))
		if (at->bits == bits)
			return &g->out->row[at->row];
	at = malloc(sizeof(*at));
	of = at ? api_promql_labels_set(g->v->key, g->node->arg[1]->text, text,
					print_value(text, sizeof(text), value))
		: NULL;
	to = api_promql_row_add(r, g->out, of, g->steps, err);
	if (!to) {
		free(at);
		return NULL;
	}
	at->bits = bits;
	at->row = g->out->n - 1;
	base_table_add(rows, at, hash);
	return to;
}

/* count_values: one row for each distinct value of the group. */
static int count_group(struct api_promql_run *r, struct promql_group *g)
{
	struct base_table rows;
	int err = base_table_init(&rows) ? 0 : -ENOMEM;

	for (size_t k = 0; k < g->steps && !err; k++) {
		const size_t n = gather_values(g, k);

		err = api_promql_work(r, n);
		qsort(g->value, n, sizeof(*g->value), api_promql_order);
		for (size_t i = 0, end; i < n && !err; i = end) {
			struct api_promql_row *to;

			for (end = i + 1;
			     end < n && !api_promql_order(&g->value[i], &g->value[end]);)
				end++;
			to = find_row(r, g, &rows, g->value[i].value, &err);
			if (to) {
				to->has[k] = true;
				to->value[k] = (double)(end - i);
			}
		}
	}
	BASE_TABLE_EACH(&rows, at)
		free(at);
	base_table_free(&rows);
	return err;
}

/*
 * Returns the labels of a row's group. The label added by count_values replaces a label of the same
 * name.
 */
static struct export_remote_series *group_labels(const struct api_promql_node *n,
						 const struct export_remote_series *of)
{
	static char le[] = "le";
	static const struct api_promql_labels other = {.without = true, .n = 1, .v = {le}};
	struct export_remote_series *key = api_promql_labels_keep(of, n ? &n->by : &other, false);

	if (key && n && n->aggregation == API_PROMQL_BY_VALUES)
		api_promql_labels_replace(&key, api_promql_labels_set(key, n->arg[1]->text, "", 0));
	return key;
}

/* node: NULL means histogram_quantile(), which ignores rows without a bound. */
static int reduce_rows(struct api_promql_run *r, const struct api_promql_node *node,
		       const double *param, size_t steps, struct api_promql_result *v)
{
	const enum api_promql_aggregation by = node ? node->aggregation : API_PROMQL_BY_QUANTILE;
	const bool in_place = by == API_PROMQL_BY_TOPK || by == API_PROMQL_BY_BOTTOMK;
	struct group_row *all = calloc(v->n + 1, sizeof(*all));
	struct api_promql_result out = {.n = 0};
	struct promql_group g = {.node = node,
				 .steps = steps,
				 .param = param,
				 .value = calloc(v->n + 1, sizeof(*g.value)),
				 .bucket = calloc(v->n + 1, sizeof(*g.bucket)),
				 .out = &out};
	int err = all && g.value && g.bucket ? api_promql_work(r, v->n * steps) : -ENOMEM;
	size_t n = 0;

	for (size_t i = 0; i < v->n && !err; i++) {
		all[n].row = &v->row[i];
		if (!node && !read_bound(all[n].row, &all[n].bound))
			continue;
		all[n].key = group_labels(node, v->row[i].of);
		err = all[n++].key ? 0 : -ENOMEM;
	}
	if (!err && n)
		qsort(all, n, sizeof(*all), by_group);
	for (size_t i = 0, end; i < n && !err; i = end) {
		for (end = i + 1; end < n && !by_group(&all[i], &all[end]);)
			end++;
		g.v = &all[i];
		g.n = end - i;
		err = in_place			   ? rank_group(r, &g)
		      : by == API_PROMQL_BY_VALUES ? count_group(r, &g)
						   : reduce_group(r, &g);
	}
	for (size_t i = 0; all && i < n; i++)
		free(all[i].key);
	free(all);
	free(g.value);
	free(g.bucket);
	if (!in_place) {
		api_promql_rows_free(r, v, steps);
		*v = out;
	}
	return err ? err : api_promql_rows_merge(r, v, steps, false);
}

int api_promql_aggregate(struct api_promql_run *r, const struct api_promql_node *n,
			 const double *param, size_t steps, struct api_promql_result *v)
{
	const int err = n->aggregation == API_PROMQL_BY_VALUES ? check_name(r, n->arg[1]->text) : 0;

	return err ? err : reduce_rows(r, n, param, steps, v);
}

int api_promql_histogram(struct api_promql_run *r, const double *q, size_t steps,
			 struct api_promql_result *v)
{
	return reduce_rows(r, NULL, q, steps, v);
}

/* label_replace() and label_join() */

static char *join_labels(const struct api_promql_node *n, const struct export_remote_series *of)
{
	const char *between = n->arg[2]->text;
	size_t bytes = 1;
	char *text, *at;

	for (size_t i = 3; i < n->args; i++)
		bytes += api_promql_label(of, n->arg[i]->text).value_bytes + strlen(between);
	text = at = malloc(bytes);
	if (!text)
		return NULL;
	for (size_t i = 3; i < n->args; i++) {
		const struct api_label l = api_promql_label(of, n->arg[i]->text);

		at = i > 3 ? stpcpy(at, between) : at;
		at = mempcpy(at, l.value, l.value_bytes);
	}
	*at = 0;
	return text;
}

/*
 * Sets *text to the new value, or to NULL if the label stays. Returns 0, -ENOMEM, or -EDOM if the
 * expression takes too many steps.
 */
static int new_value(const struct api_promql_node *n, const struct base_regex *regex,
		     const struct export_remote_series *of, char **text)
{
	struct api_label l;
	char *source;
	int err;

	if (!regex) {
		*text = join_labels(n, of);
		return *text ? 0 : -ENOMEM;
	}
	l = api_promql_label(of, n->arg[3]->text);
	source = api_copy_text(l.value, l.value_bytes);
	err = source ? base_regex_replace(regex, source, n->arg[2]->text, text) : -ENOMEM;
	free(source);
	return err;
}

int api_promql_relabel(struct api_promql_run *r, const struct api_promql_node *n, size_t steps,
		       struct api_promql_result *v)
{
	const char *name = n->arg[1]->text;
	const bool is_replace = n->function->special == API_PROMQL_DOES_LABEL_REPLACE;
	struct base_regex *regex = NULL;
	int err;

	err = check_name(r, name);
	if (err)
		return err;
	if (is_replace)
		err = base_regex_new(&regex, n->arg[4]->text, r->error, r->error_bytes);
	if (err == -EINVAL)
		err = -EDOM; /* r->error has the reason */
	for (size_t i = 0; i < v->n && !err; i++) {
		struct export_remote_series **of = &v->row[i].of;
		char *text = NULL;

		err = new_value(n, regex, *of, &text);
		if (!err && text)
			err = api_promql_labels_replace(
				      of, api_promql_labels_set(*of, name, text, strlen(text)))
				      ? api_promql_work(r, 1)
				      : -ENOMEM;
		free(text);
	}
	base_regex_free(regex);
	return err ? err : api_promql_rows_merge(r, v, steps, false);
}
