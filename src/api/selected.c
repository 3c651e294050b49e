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

bool api_series_label(const struct export_remote_series *s, size_t *at, struct api_label *out)
{
	struct base_pb all = {s->labels + *at, s->labels + s->label_bytes, false};
	struct base_pb_field label, f;

	if (!base_pb_next(&all, &label))
		return false;
	*at = (size_t)(all.at - s->labels);
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

int api_series_order(const struct export_remote_series *a, const struct export_remote_series *b)
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
				  .ref = v->of,
				  .found_ns = v->found_ns,
				  .read_ns = v->read_ns};
	if (!to->of) {
		s->err = -ENOMEM;
		return false;
	}
	s->bytes += to->of->label_bytes;
	s->n++;
	return true;
}

static int by_labels_and_age(const void *a, const void *b)
{
	const struct api_series *x = a, *y = b;

	return api_series_order(x->of, y->of)
		       ?: (x->found_ns > y->found_ns) - (x->found_ns < y->found_ns);
}

static void free_series(struct api_series *s)
{
	for (struct api_series *b = s->before, *before; b; b = before) {
		before = b->before;
		free(b);
	}
	free(s->of);
}

/*
 * Clients refuse repeated series. A region that was found after the previous one with the same
 * labels had ended continues its series; otherwise the first of equal series stays.
 */
static void join_equal(struct api_selected *s)
{
	size_t kept = 0;

	if (!s->n)
		return;
	qsort(s->v, s->n, sizeof(*s->v), by_labels_and_age);
	for (size_t i = 1; i < s->n; i++) {
		struct api_series *to = &s->v[kept], *from = &s->v[i], *before;

		if (api_series_order(to->of, from->of)) {
			s->v[++kept] = *from;
			continue;
		}
		before = to->ref.ended_ns && to->read_ns < from->found_ns ? malloc(sizeof(*before))
									  : NULL;
		if (before) {
			*before = *to;
			to->ref = from->ref;
			to->found_ns = from->found_ns;
			to->read_ns = from->read_ns;
			to->before = before;
		}
		free(from->of);
	}
	s->n = kept + 1;
}

int api_select(struct api_selected *s, struct collect_collector *c, struct api_matchers *m)
{
	const struct collect_series_walk walk = {
		.family = wants_family,
		.series = add_series,
		.arg = s,
		.since_ns = BASE_MAX(s->from_ns, 1),
		.parts = s->few_buckets ? COLLECT_PARTS_FEW : COLLECT_PARTS_ALL,
	};
	int err;

	s->matchers = m;
	s->known_ns = (int64_t)base_realtime_ns();
	err = collect_collector_series(c, &walk);
	s->matchers = NULL;
	join_equal(s);
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
		return "a regular expression is too expensive to evaluate";
	case -ERANGE:
		return "the query needs too many points: narrow the selection or the time range";
	case -EEXIST:
		return "several series of the result have the same labels: select a single name, "
		       "or keep labels that distinguish them";
	default:
		return "out of memory";
	}
}

void api_selected_free(struct api_selected *s)
{
	for (size_t i = 0; i < s->n; i++)
		free_series(&s->v[i]);
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

bool api_is_stale(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits == EXPORT_STALE_NAN;
}

size_t api_drop_stale(struct collect_point *p, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (!api_is_stale(p[i].value))
			p[kept++] = p[i];
	return kept;
}

/*
 * Reads the newest max points of a range, oldest first, from all regions of the series. Where no
 * other region has continued it, a marker says that it ended.
 */
static size_t read_points(struct collect_collector *c, const struct api_selected *s,
			  const struct api_series *of, int64_t from_ns, int64_t to_ns,
			  struct collect_point *out, size_t max)
{
	int64_t next_ns = INT64_MAX; /* when the next region was found */
	size_t room = max;	     /* free entries at the start of out */
	double stale;

	memcpy(&stale, &(uint64_t){EXPORT_STALE_NAN}, sizeof(stale));
	for (; of && room && from_ns < next_ns; of = of->before) {
		const int64_t end = of->ref.ended_ns;
		ssize_t n;

		if (end && end >= from_ns && end <= to_ns && end < next_ns)
			out[--room] = (struct collect_point){end, stale};
		n = collect_collector_points(c, &of->ref, s->known_ns,
					     of->before ? BASE_MAX(from_ns, of->found_ns) : from_ns,
					     to_ns, out, room, s->budget);
		if (n > 0) {
			memmove(out + room - n, out, (size_t)n * sizeof(*out));
			room -= (size_t)n;
		}
		next_ns = of->found_ns;
	}
	memmove(out, out + room, (max - room) * sizeof(*out));
	return max - room;
}

size_t api_series_points(struct collect_collector *c, const struct api_selected *s,
			 const struct api_series *of, int64_t *from_ns, int64_t to_ns,
			 struct collect_point *out, size_t max)
{
	int64_t to = to_ns;
	size_t n;

	/*
	 * If not all points fit, the history returns only the newest. So halve the range, keeping
	 * the older half, until all points fit.
	 */
	for (;;) {
		n = read_points(c, s, of, *from_ns, to, out, max);
		if (n < max || to / 2 - *from_ns / 2 < 1000000)
			break;
		to = *from_ns / 2 + to / 2;
		/*
		 * End the range at the end of a millisecond, so that no millisecond is split
		 * between two calls.
		 */
		to = to / 1000000 * 1000000 + 999999;
	}
	*from_ns = to == INT64_MAX ? to : to + 1;
	return last_of_each_ms(out, n);
}

size_t api_series_last(struct collect_collector *c, const struct api_selected *s,
		       const struct api_series *of, int64_t from_ns, int64_t to_ns,
		       struct collect_point *out)
{
	return read_points(c, s, of, from_ns, to_ns, out, 1);
}
