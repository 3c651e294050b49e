// SPDX-License-Identifier: Apache-2.0
#include "api/selected.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/budget.h"
#include "base/grow.h"
#include "base/pb_read.h"

#define LABELS_MAX 128u

/* Labels */

bool api_series_label(const struct api_series *s, size_t *at, struct api_label *out)
{
	struct base_pb all = {s->of->labels + *at, s->of->labels + s->of->label_bytes, false};
	struct base_pb_field label, f;

	if (!base_pb_next(&all, &label))
		return false;
	*at = (size_t)(all.at - s->of->labels);
	*out = (struct api_label){.name = "", .value = ""};
	while (base_pb_next(&label.data, &f)) {
		const char *text = (const char *)f.data.at;
		const size_t n = (size_t)(f.data.end - f.data.at);

		if (f.number == 1) {
			out->name = text;
			out->name_bytes = n;
		} else {
			out->value = text;
			out->value_bytes = n;
		}
	}
	return true;
}

static int text_order(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	const int order = memcmp(a, b, BASE_MIN(a_bytes, b_bytes));

	return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

int api_series_order(const void *a, const void *b)
{
	struct api_label x, y;
	size_t p = 0, q = 0;

	for (;;) {
		const bool more = api_series_label(a, &p, &x), others = api_series_label(b, &q, &y);
		int order;

		if (!more || !others)
			return (int)more - (int)others;
		order = text_order(x.name, x.name_bytes, y.name, y.name_bytes);
		if (!order)
			order = text_order(x.value, x.value_bytes, y.value, y.value_bytes);
		if (order)
			return order;
	}
}

/* Selection */

static bool wants_family(void *arg, const char *name, const struct region_metric *m)
{
	struct api_selected *s = arg;

	(void)m;
	return api_matchers_name(s->matchers, name);
}

static bool is_counter(const struct region_metric *m)
{
	return m->kind == SL_KIND_COUNTER || m->kind == SL_KIND_COUNTER_F64 ||
	       m->kind == SL_KIND_SUMMARY || m->kind == SL_KIND_HISTOGRAM ||
	       m->kind == SL_KIND_HISTOGRAM_EXP;
}

static bool add_series(void *arg, const struct collect_series_view *v)
{
	struct api_selected *s = arg;
	struct region_text_label labels[LABELS_MAX];
	struct api_series *to;
	uint32_t n = 0;

	if (!base_budget_spend(s->budget, 0)) {
		s->err = s->budget->err;
		return false;
	}
	if (!api_matchers_labels(s->matchers, v))
		return !s->matchers->too_costly;
	if (s->n == API_SELECTED_MAX || s->bytes > API_SELECTED_BYTES) {
		s->err = -E2BIG;
		return false;
	}
	for (; n < v->labels && n < LABELS_MAX; n++)
		labels[n] = (struct region_text_label){v->keys[n], v->values[n]};
	if (!BASE_GROW(s->v, s->n, s->room)) {
		s->err = -ENOMEM;
		return false;
	}
	to = &s->v[s->n];
	*to = (struct api_series){.of = export_remote_series_new(v->name, "", labels, n, true),
				  .instance = v->instance,
				  .metric = v->metric,
				  .counts = is_counter(v->m)};
	if (!to->of) {
		s->err = -ENOMEM;
		return false;
	}
	s->bytes += to->of->label_bytes;
	s->n++;
	return true;
}

/* Removes duplicates, because clients refuse repeated series. The first of equal series stays. */
static void remove_duplicates(struct api_selected *s)
{
	size_t kept = 0;

	if (!s->n)
		return;
	qsort(s->v, s->n, sizeof(*s->v), api_series_order);
	for (size_t i = 1; i < s->n; i++)
		if (api_series_order(&s->v[kept], &s->v[i]))
			s->v[++kept] = s->v[i];
		else
			free(s->v[i].of);
	s->n = kept + 1;
}

int api_select(struct api_selected *s, struct collect_collector *c, struct api_matchers *m)
{
	const struct collect_series_walk walk = {wants_family, add_series, s};
	int err;

	s->matchers = m;
	s->known_ns = (int64_t)base_realtime_ns();
	err = collect_collector_series(c, &walk);
	s->matchers = NULL;
	remove_duplicates(s);
	if (m->too_costly)
		return -EDOM;
	return s->err ? s->err : err;
}

const char *api_select_failure(int err)
{
	switch (err) {
	case -E2BIG:
		return "too many series: narrow the selection";
	case -EDOM:
		return "a regular expression takes too many steps";
	case -ERANGE:
		return "the query needs too many points: narrow the selection or the time range";
	case -EEXIST:
		return "several series differ only by name: select a single name";
	default:
		return "out of memory";
	}
}

void api_selected_free(struct api_selected *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].of);
	free(s->v);
	*s = (struct api_selected){.n = 0};
}

/* Points */

static size_t last_of_each_ms(struct collect_point *p, size_t n)
{
	size_t kept = 0;

	for (size_t i = 1; i < n; i++) {
		if (p[i].ns / 1000000 != p[kept].ns / 1000000)
			kept++;
		p[kept] = p[i];
	}
	return n ? kept + 1 : 0;
}

size_t api_series_points(struct collect_collector *c, const struct api_selected *s,
			 const struct api_series *of, int64_t *from_ns, int64_t to_ns,
			 struct collect_point *out, size_t max)
{
	int64_t to = to_ns;
	ssize_t n;

	/*
	 * If not all points fit, the history returns only the newest. So halve the range, keeping
	 * the older half, until all points fit.
	 */
	for (;;) {
		n = collect_collector_history_known(c, of->instance, of->metric, s->known_ns,
						    *from_ns, to, out, max, s->budget);
		if (n < (ssize_t)max || to / 2 - *from_ns / 2 < 1000000)
			break;
		to = *from_ns / 2 + to / 2;
		/*
		 * End the range at the end of a millisecond, so that no millisecond is split
		 * between two calls.
		 */
		to = to / 1000000 * 1000000 + 999999;
	}
	*from_ns = to == INT64_MAX ? to : to + 1;
	return n > 0 ? last_of_each_ms(out, (size_t)n) : 0;
}
