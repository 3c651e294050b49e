// SPDX-License-Identifier: Apache-2.0
/* text_point.c - creates points from the samples in a family that have the same labels. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sidelight/region.h>

#include "base/grow.h"
#include "bridge/text_internal.h"

/* ---- groups ---- */

static bool same_labels(const struct bridge_text_parser *p, const struct bridge_text_sample *a,
			const struct bridge_text_sample *b)
{
	return a->hash == b->hash && bridge_labels_equal(p->labels + a->labels, a->label_count,
							 p->labels + b->labels, b->label_count);
}

/*
 * OpenMetrics: either all samples in a group have timestamps or none do, and timestamps do not
 * decrease.
 */
static int check_order(struct bridge_text_parser *p, const struct bridge_text_sample *before,
		       const struct bridge_text_sample *s)
{
	if (isnan(before->time) != isnan(s->time))
		return TEXT_BAD(p, "only some samples of a metric have a timestamp");
	if (before->time > s->time)
		return TEXT_BAD(p, "timestamps go backwards");
	return 0;
}

/*
 * Appends a sample to the group with the same labels. *group: the first sample of the previous
 * sample's group; set to that of this sample's group.
 */
static int join_group(struct bridge_text_parser *p, struct bridge_text_sample *s,
		      struct bridge_text_sample **group)
{
	const bool strict = p->format == BRIDGE_OPENMETRICS && p->family.type != BRIDGE_INFO;
	struct bridge_text_index *x = &p->groups;
	struct bridge_text_sample *first = *group;
	size_t at;

	p->line = s->line;
	if (first && same_labels(p, s, first)) {
		if (strict && check_order(p, first->last, s))
			return -EINVAL;
	} else {
		for (at = s->hash & (x->size - 1); x->at[at] != NONE; at = TEXT_INDEX_NEXT(x, at))
			if (same_labels(p, s, &p->samples[x->at[at]]))
				break;
		first = x->at[at] == NONE ? NULL : &p->samples[x->at[at]];
		if (first && strict)
			return TEXT_BAD(p, "the samples of a metric are not consecutive");
		x->at[at] = (uint32_t)((first ?: s) - p->samples);
		*group = first ?: s;
	}
	if (first)
		first->last->next = s;
	(*group)->last = s;
	return 0;
}

/* ---- points ---- */

/* A histogram or summary. */
struct point {
	const struct bridge_text_sample *sum, *count; /* NULL means that there is none */
	uint32_t buckets; /* number of buckets or quantiles in the parser's array */
	bool negative;	  /* there are bounds below 0 */
};

/* Makes room for n more values, initialised to NaN. */
static int add_values(struct bridge_text_parser *p, size_t n)
{
	if (p->counts.points >= p->limits.points || n > p->limits.values - p->flat_count)
		return bridge_fail(p->error, -E2BIG, p->line, "more than %zu series or %zu values",
				   p->limits.points, p->limits.values);
	if (!base_grow(&p->flat, &p->flat_room, p->flat_count + n + 1, sizeof(*p->flat)))
		return TEXT_NO_MEMORY(p);
	for (size_t i = 0; i < n; i++)
		p->flat[p->flat_count + i] = NAN;
	p->flat_count += n;
	p->counts.points++;
	p->counts.values += n;
	return 0;
}

/* Stores the value of a sample, for this body and for later bodies with the same shape. */
static void put_value(struct bridge_text_parser *p, const struct bridge_text_sample *s, size_t slot,
		      enum bridge_text_check check)
{
	p->flat[slot] = s->value;
	if (s->shape == NONE)
		return;
	p->shape[s->shape].slot = (uint32_t)slot;
	p->shape[s->shape].check = (uint8_t)check;
}

/* The number must be the same in the next body; otherwise the shape is different. */
static int keep_constant(struct bridge_text_parser *p, const struct bridge_text_sample *s)
{
	if (s->shape == NONE)
		return 0;
	if (!BASE_GROW(p->constants, p->constant_count, p->constant_room))
		return TEXT_NO_MEMORY(p);
	p->shape[s->shape].slot = (uint32_t)p->constant_count;
	p->shape[s->shape].check = CHECK_SAME;
	p->constants[p->constant_count++] = s->value;
	return 0;
}

static int add_exemplar(struct bridge_text_parser *p, uint32_t i, uint32_t bucket)
{
	if (i == NONE)
		return 0;
	if (!BASE_GROW(p->exemplars_of, p->exemplar_of_count, p->exemplar_of_room))
		return TEXT_NO_MEMORY(p);
	p->exemplars_of[p->exemplar_of_count++] = (struct bridge_text_exemplar_of){i, bucket};
	return 0;
}

static int announce_family(struct bridge_text_parser *p)
{
	if (p->announced)
		return 0;
	if (!BASE_GROW(p->families, p->family_count, p->family_room))
		return TEXT_NO_MEMORY(p);
	p->families[p->family_count++] = p->family;
	p->announced = true;
	return 0;
}

/* The time of a point is the timestamp of the group's last sample that has one. */
static bool is_timely(const struct bridge_text_parser *p, const struct bridge_text_sample *first)
{
	double time = NAN;

	for (const struct bridge_text_sample *s = p->timed ? first : NULL; s; s = s->next)
		if (!isnan(s->time))
			time = s->time;
	return bridge_timely(&p->window, time);
}

/* Returns a new point whose ranges start at the current ends of the arrays. */
static struct bridge_text_point begin_point(const struct bridge_text_parser *p)
{
	return (struct bridge_text_point){.values = (uint32_t)p->flat_count,
					  .bounds = (uint32_t)p->bound_count,
					  .states = (uint32_t)p->state_count,
					  .exemplars = (uint32_t)p->exemplar_of_count};
}

/* Adds a point with everything that was appended to the arrays since begin_point(). */
static int add_point(struct bridge_text_parser *p, const struct bridge_text_sample *first,
		     struct bridge_text_point *out)
{
	int err;

	if (!is_timely(p, first)) {
		p->counts.untimely++;
		p->no_shape = true; /* a later body may include the point */
		return 0;
	}
	err = announce_family(p);
	if (err)
		return err;
	if (!BASE_GROW(p->points, p->point_count, p->point_room))
		return TEXT_NO_MEMORY(p);
	out->family = (uint32_t)p->family_count - 1;
	out->labels = first->labels;
	out->label_count = first->label_count;
	out->value_count = (uint32_t)p->flat_count - out->values;
	out->bound_count = (uint32_t)p->bound_count - out->bounds;
	out->state_count = (uint32_t)p->state_count - out->states;
	out->exemplar_count = (uint32_t)p->exemplar_of_count - out->exemplars;
	p->points[p->point_count++] = *out;
	return 0;
}

/*
 * Whether the next sample starts another point, because samples with the same timestamp form one
 * point.
 */
static bool is_last_of_time(const struct bridge_text_sample *s)
{
	return s->next && s->next->time > s->time;
}

static int simple_point(struct bridge_text_parser *p, const struct bridge_text_sample *first)
{
	struct bridge_text_point out = begin_point(p);
	const bool info = p->family.type == BRIDGE_INFO;
	const struct bridge_text_sample *value = NULL;
	int err = 0;

	for (const struct bridge_text_sample *s = first; s && !err; s = s->next) {
		if (s->role == ROLE_CREATED) {
			out.created_ns = s->created_ns;
			err = keep_constant(p, s);
			continue;
		}
		/* If there are several values, the last one counts. */
		if (value || info)
			err = keep_constant(p, info ? s : value);
		value = s;
	}
	if (!value || err)
		return err; /* there is only a creation time */
	p->line = value->line;
	err = add_values(p, !info);
	if (err)
		return err;
	if (!info)
		put_value(p, value, out.values,
			  value->role == ROLE_TOTAL && p->format == BRIDGE_OPENMETRICS
				  ? CHECK_POSITIVE
				  : CHECK_NONE);
	err = add_exemplar(p, value->exemplar, 0);
	return err ?: add_point(p, first, &out);
}

static int by_bound(const void *a, const void *b)
{
	const struct bridge_text_bucket *x = a, *y = b;

	if (x->bound != y->bound)
		return x->bound < y->bound ? -1 : 1;
	return (x->sample > y->sample) - (x->sample < y->sample);
}

/* Sorts the buckets by bound and removes duplicates. */
static int sort_buckets(struct bridge_text_parser *p, struct point *t)
{
	struct bridge_text_bucket *b = p->buckets;
	uint32_t n = 0;
	bool sorted = true;

	for (uint32_t i = 1; i < t->buckets && sorted; i++)
		sorted = b[i - 1].bound < b[i].bound;
	if (sorted)
		return 0;
	if (p->format == BRIDGE_OPENMETRICS && p->family.type != BRIDGE_SUMMARY)
		for (uint32_t i = 1; i < t->buckets; i++)
			if (b[i - 1].bound > b[i].bound)
				return TEXT_BAD(p, "the buckets are out of order");
	qsort(b, t->buckets, sizeof(*b), by_bound);
	for (uint32_t i = 0; i < t->buckets; i++)
		if (n && b[n - 1].bound == b[i].bound)
			b[n - 1] = b[i];
		else
			b[n++] = b[i];
	t->buckets = n;
	return 0;
}

static double bucket_value(const struct bridge_text_parser *p, uint32_t i)
{
	return p->buckets[i].sample->value;
}

static bool has_top(const struct bridge_text_parser *p, const struct point *t)
{
	return t->buckets && p->buckets[t->buckets - 1].bound == INFINITY;
}

/* Checks a histogram against the OpenMetrics rules. */
static int check_histogram(struct bridge_text_parser *p, const struct point *t)
{
	const bool gauge = p->family.type == BRIDGE_GAUGE_HISTOGRAM;

	if (!has_top(p, t))
		return TEXT_BAD(p, "the histogram has no +Inf bucket");
	for (uint32_t i = 1; i < t->buckets; i++)
		if (bucket_value(p, i) < bucket_value(p, i - 1))
			return TEXT_BAD(p, "a bucket is smaller than the previous one");
	if (!t->sum != !t->count)
		return TEXT_BAD(p, "the histogram has only one of sum and count");
	if (t->count && t->count->value != bucket_value(p, t->buckets - 1))
		return TEXT_BAD(p, "the count differs from the +Inf bucket");
	if (t->negative && t->sum && !gauge)
		return TEXT_BAD(p, "a sum is not allowed if observations may be negative");
	if (gauge && t->sum && t->sum->value < 0 && !t->negative)
		return TEXT_BAD(p, "the sum of positive observations is negative");
	return 0;
}

/* Stores the values. In OpenMetrics, the count of a histogram must equal the +Inf bucket. */
static int put_values(struct bridge_text_parser *p, const struct point *t)
{
	const bool open = p->format == BRIDGE_OPENMETRICS;
	const bool summary = p->family.type == BRIDGE_SUMMARY, top = summary || has_top(p, t);
	size_t slot = p->flat_count, n = t->buckets + !top;
	int err = add_values(p, BRIDGE_BUCKETS + n);

	for (uint32_t i = 0; i < t->buckets && !err; i++) {
		const struct bridge_text_sample *s = p->buckets[i].sample;

		/* A quantile may be NaN, so its value is not checked. */
		put_value(p, s, slot + BRIDGE_BUCKETS + i,
			  summary ? CHECK_NONE
			  : i	  ? CHECK_RISING
				  : CHECK_POSITIVE);
		err = add_exemplar(p, s->exemplar, BRIDGE_BUCKETS + i);
	}
	if (err)
		return err;
	if (t->sum)
		put_value(p, t->sum, slot + BRIDGE_SUM,
			  open && p->family.type != BRIDGE_GAUGE_HISTOGRAM ? CHECK_POSITIVE
									   : CHECK_NONE);
	if (t->count)
		put_value(p, t->count, slot + BRIDGE_COUNT, CHECK_POSITIVE);
	if (!top) { /* text 0.0.4 may lack the +Inf bucket */
		p->flat[slot + BRIDGE_BUCKETS + n - 1] = t->count ? t->count->value
							 : t->buckets
								 ? bucket_value(p, t->buckets - 1)
								 : 0;
		p->no_shape = true;
	} else if (t->count && open && !summary) {
		if (!BASE_GROW(p->equal, p->equal_count, p->equal_room))
			return TEXT_NO_MEMORY(p);
		p->equal[p->equal_count][0] = (uint32_t)(slot + BRIDGE_COUNT);
		p->equal[p->equal_count++][1] = (uint32_t)(slot + BRIDGE_BUCKETS + n - 1);
	}
	return 0;
}

/*
 * Creates a histogram or summary point from the samples with one timestamp. last: this point
 * counts.
 */
static int bucket_point(struct bridge_text_parser *p, const struct bridge_text_sample *first,
			const struct bridge_text_sample *from, bool last)
{
	struct point t = {0};
	struct bridge_text_point out = begin_point(p);
	const bool summary = p->family.type == BRIDGE_SUMMARY;
	size_t most = summary ? SL_QUANTILES_MAX : SL_BUCKETS_MAX;
	int err = 0;

	for (const struct bridge_text_sample *s = from; s; s = s->next) {
		p->line = s->line;
		if (s->role == ROLE_SUM || s->role == ROLE_COUNT) {
			*(s->role == ROLE_SUM ? &t.sum : &t.count) = s;
		} else if (s->role == ROLE_CREATED) {
			out.created_ns = s->created_ns;
			err = keep_constant(p, s);
			if (err)
				return err;
		} else {
			if (t.buckets > most)
				return bridge_fail(p->error, -E2BIG, p->line,
						   "more than %zu buckets or quantiles", most);
			if (!BASE_GROW(p->buckets, t.buckets, p->bucket_room))
				return TEXT_NO_MEMORY(p);
			p->buckets[t.buckets++] = (struct bridge_text_bucket){s->bound, s};
			t.negative |= s->bound < 0;
		}
		if (is_last_of_time(s))
			break;
	}
	err = sort_buckets(p, &t);
	if (!err && !summary && p->format == BRIDGE_OPENMETRICS)
		err = check_histogram(p, &t);
	if (err || !last || (!t.buckets && !t.sum && !t.count))
		return err;
	err = put_values(p, &t);
	if (!err &&
	    !base_grow(&p->bounds, &p->bound_room, p->bound_count + t.buckets, sizeof(*p->bounds)))
		err = TEXT_NO_MEMORY(p);
	if (err)
		return err;
	for (uint32_t i = 0; i < t.buckets; i++)
		if (summary || p->buckets[i].bound != INFINITY)
			p->bounds[p->bound_count++] = p->buckets[i].bound;
	return add_point(p, first, &out);
}

/* Checks all points in a group, which differ in their timestamps; only the last one counts. */
static int bucket_points(struct bridge_text_parser *p, const struct bridge_text_sample *first)
{
	const struct bridge_text_sample *from = first, *s = first;
	int err = 0;

	while (!err && s) {
		while (s->next && !is_last_of_time(s))
			s = s->next;
		err = bucket_point(p, first, from, !s->next);
		from = s = s->next;
	}
	return err;
}

static int state_point(struct bridge_text_parser *p, const struct bridge_text_sample *first)
{
	struct bridge_text_point out = begin_point(p);
	int err;

	for (const struct bridge_text_sample *s = first; s; s = s->next) {
		uint32_t at = 0, known = (uint32_t)p->state_count - out.states;

		p->line = s->line;
		while (at < known && !bridge_text_equal(p->states[out.states + at], s->state))
			at++;
		if (at >= SL_STATES_MAX)
			return bridge_fail(p->error, -E2BIG, p->line, "more than %u states",
					   SL_STATES_MAX);
		if (at < known) {
			p->flat[out.values + at] = s->value;
			continue;
		}
		p->counts.points -= known > 0; /* all states belong to one point */
		err = add_values(p, 1);
		if (!err && !BASE_GROW(p->states, p->state_count, p->state_room))
			err = TEXT_NO_MEMORY(p);
		if (err)
			return err;
		p->states[p->state_count++] = s->state;
		put_value(p, s, out.values + at, CHECK_STATE);
	}
	return add_point(p, first, &out);
}

static int make_point(struct bridge_text_parser *p, const struct bridge_text_sample *first)
{
	/* There is no default, so that the compiler rejects this if a type is missing. */
	switch (p->family.type) {
	case BRIDGE_UNKNOWN:
	case BRIDGE_GAUGE:
	case BRIDGE_COUNTER:
	case BRIDGE_INFO:
		return simple_point(p, first);
	case BRIDGE_STATESET:
		return state_point(p, first);
	case BRIDGE_SUMMARY:
	case BRIDGE_HISTOGRAM:
	case BRIDGE_GAUGE_HISTOGRAM:
		break;
	}
	return bucket_points(p, first);
}

int bridge_text_points(struct bridge_text_parser *p)
{
	struct bridge_text_sample *s, *end = p->samples + p->sample_count, *group = NULL;
	uint32_t line = p->line;
	int err = bridge_text_index_make(&p->groups, p->sample_count) ? 0 : TEXT_NO_MEMORY(p);

	for (s = p->samples; s < end && !err; s++)
		err = join_group(p, s, &group);
	for (s = p->samples; s < end && !err; s++)
		err = s->last ? make_point(p, s) : 0;
	p->line = line;
	return err;
}
