// SPDX-License-Identifier: Apache-2.0
/* promql_rows.c - the rows of results, and their labels */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/promql_internal.h"
#include "base/base.h"
#include "base/grow.h"
#include "export/pb.h"

#define VALUES_MAX 8000000u /* maximum number of values in all rows: rows times steps */
#define NAME	   "__name__"

const struct api_promql_labels api_promql_all = {.without = true};

/* Labels */

static bool is_label(const struct api_label *l, const char *name)
{
	return l->name_bytes == strlen(name) && !memcmp(l->name, name, l->name_bytes);
}

static struct export_remote_series *new_labels(size_t room)
{
	struct export_remote_series *to = malloc(sizeof(*to) + room);

	if (to)
		*to = (struct export_remote_series){.last_ms = INT64_MIN};
	return to;
}

struct export_remote_series *api_promql_labels_empty(void)
{
	return new_labels(0);
}

struct export_remote_series *api_promql_labels_keep(const struct export_remote_series *from,
						    const struct api_promql_labels *by,
						    bool keep_name)
{
	struct export_remote_series *to = new_labels(from->label_bytes);
	struct api_label label;
	size_t at = 0, before = 0;

	for (; to && api_series_label(from, &at, &label); before = at) {
		bool is_named = !keep_name && by->without && is_label(&label, NAME);

		for (size_t i = 0; i < by->n && !is_named; i++)
			is_named = is_label(&label, by->v[i]);
		if (is_named == by->without)
			continue;
		memcpy(to->labels + to->label_bytes, from->labels + before, at - before);
		to->label_bytes += (uint32_t)(at - before);
	}
	return to;
}

static void put_label(struct export_remote_series *to, const char *name, size_t name_bytes,
		      const char *value, size_t value_bytes)
{
	uint8_t *body = export_pb_open(to->labels + to->label_bytes, 1, 2), *p;

	p = export_pb_bytes(body, 1, name, name_bytes);
	p = export_pb_bytes(p, 2, value, value_bytes);
	to->label_bytes = (uint32_t)(export_pb_close(body, p, 2) - to->labels);
}

struct export_remote_series *api_promql_labels_set(const struct export_remote_series *from,
						   const char *name, const char *value,
						   size_t value_bytes)
{
	const size_t name_bytes = strlen(name);
	struct export_remote_series *to =
		new_labels(from->label_bytes + name_bytes + value_bytes + 4 * EXPORT_PB_FIELD);
	bool is_put = !value_bytes;
	struct api_label label;
	size_t at = 0, before = 0;

	for (; to && api_series_label(from, &at, &label); before = at) {
		int order = memcmp(label.name, name, BASE_MIN(label.name_bytes, name_bytes));

		order = order ? order
			      : (label.name_bytes > name_bytes) - (label.name_bytes < name_bytes);
		if (order >= 0 && !is_put) {
			put_label(to, name, name_bytes, value, value_bytes);
			is_put = true;
		}
		if (!order)
			continue;
		memcpy(to->labels + to->label_bytes, from->labels + before, at - before);
		to->label_bytes += (uint32_t)(at - before);
	}
	if (to && !is_put)
		put_label(to, name, name_bytes, value, value_bytes);
	return to;
}

bool api_promql_labels_replace(struct export_remote_series **of, struct export_remote_series *with)
{
	free(*of);
	*of = with;
	return with;
}

struct api_label api_promql_label(const struct export_remote_series *of, const char *name)
{
	struct api_label label;

	for (size_t at = 0; api_series_label(of, &at, &label);)
		if (is_label(&label, name))
			return label;
	return (struct api_label){.name = "", .value = ""};
}

/* Rows */

int api_promql_work(struct api_promql_run *r, uint64_t n)
{
	const uint64_t most = 100000000;

	r->work += n;
	if (r->work > most)
		return -ERANGE;
	return base_budget_spend(r->budget, 0) ? 0 : r->budget->err;
}

static void free_values(struct api_promql_row *row)
{
	free(row->of);
	free(row->value);
	free(row->has);
}

static void free_row(struct api_promql_run *r, struct api_promql_row *row, size_t steps)
{
	free_values(row);
	r->held -= steps;
}

struct api_promql_row *api_promql_row_add(struct api_promql_run *r, struct api_promql_result *to,
					  struct export_remote_series *of, size_t steps, int *err)
{
	struct api_promql_row row = {.of = of};

	*err = api_promql_work(r, 1);
	if (!*err && r->held + steps > VALUES_MAX)
		*err = -ERANGE;
	if (!*err && of) {
		row.value = calloc(steps, sizeof(*row.value));
		row.has = calloc(steps, sizeof(*row.has));
	}
	if (!*err && (!row.value || !row.has || !BASE_GROW(to->row, to->n, to->room)))
		*err = -ENOMEM;
	if (*err) {
		free_values(&row);
		return NULL;
	}
	r->held += steps;
	to->row[to->n] = row;
	return &to->row[to->n++];
}

void api_promql_rows_free(struct api_promql_run *r, struct api_promql_result *to, size_t steps)
{
	r->held -= to->n * steps;
	api_promql_result_free(to);
}

void api_promql_result_free(struct api_promql_result *r)
{
	for (size_t i = 0; i < r->n; i++)
		free_values(&r->row[i]);
	free(r->row);
	*r = (struct api_promql_result){.n = 0};
}

void api_promql_row_drop_empty(struct api_promql_run *r, struct api_promql_result *to, size_t steps)
{
	if (!memchr(to->row[to->n - 1].has, true, steps))
		free_row(r, &to->row[--to->n], steps);
}

int api_promql_row_order(const void *a, const void *b)
{
	const struct api_promql_row *x = a, *y = b;

	return api_series_order(x->of, y->of);
}

/* Copies the values of a row into another. Returns -EEXIST if both have a value for a step. */
static int merge_row(struct api_promql_row *to, const struct api_promql_row *from, size_t steps)
{
	for (size_t i = 0; i < steps; i++) {
		if (!from->has[i])
			continue;
		if (to->has[i])
			return -EEXIST;
		to->has[i] = true;
		to->value[i] = from->value[i];
	}
	return 0;
}

int api_promql_rows_merge(struct api_promql_run *r, struct api_promql_result *to, size_t steps,
			  bool strict)
{
	size_t kept = 0;
	int err = 0;

	for (size_t i = 0; i < to->n; i++)
		if (memchr(to->row[i].has, true, steps))
			to->row[kept++] = to->row[i];
		else
			free_row(r, &to->row[i], steps);
	to->n = kept;
	kept = 0;
	if (to->n)
		qsort(to->row, to->n, sizeof(*to->row), api_promql_row_order);
	for (size_t i = 0; i < to->n; i++) {
		if (err || !kept || api_promql_row_order(&to->row[kept - 1], &to->row[i])) {
			to->row[kept++] = to->row[i];
			continue;
		}
		err = strict ? -EEXIST : merge_row(&to->row[kept - 1], &to->row[i], steps);
		free_row(r, &to->row[i], steps);
	}
	to->n = kept;
	return err;
}
