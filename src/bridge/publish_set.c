// SPDX-License-Identifier: Apache-2.0
/* publish_set.c - maps points to libsidelight's metrics, with one case per type. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "bridge/publish_internal.h"

#define CREATED_UNKNOWN 1u /* creation time below SL_CREATED_KNOWN_NS, which means unknown */

/* ---- exponential histograms ---- */

/* Rounds up, because the upper bound of a coarse bucket is not below that of the fine bucket. */
static int64_t divide_up(int64_t i, int shift)
{
	return -(-i >> shift);
}

/*
 * Returns the index of a bucket in an exponential histogram, in the order of sl_histogram_mirror().
 */
static size_t exponential_bucket(const struct bridge_publish_grid *g, double v)
{
	double at = v > 0 ? ceil(log2(v) * (1 << g->scale)) - g->first + 1 : 0;

	return at < 0 ? 0 : at > g->buckets ? g->buckets + 1 : (size_t)at;
}

bool bridge_publish_expand(const struct bridge_publish_grid *g, const struct bridge_point *t,
			   double *out)
{
	const struct bridge_exponential *e = t->exponential;
	double *zero = out + BRIDGE_BUCKETS, *above = zero + g->buckets + 1;

	if (e->scale < -10 || e->scale > 20 || t->value_count != BRIDGE_BUCKETS)
		return false;
	memset(out, 0, g->values * sizeof(*out));
	out[BRIDGE_SUM] = t->values[BRIDGE_SUM];
	out[BRIDGE_COUNT] = t->values[BRIDGE_COUNT];
	/* "Zero" means at most the threshold, so zeros go into the threshold's bucket. */
	zero[exponential_bucket(g, e->zero_threshold)] = (double)e->zero_count;
	for (size_t i = 0; i < e->bucket_count; i++) {
		int64_t at = e->first + (int64_t)i;

		at = e->scale < g->scale ? at * (1 << (g->scale - e->scale))
					 : divide_up(at, e->scale - g->scale);
		at -= g->first;
		*(at < 0	     ? zero
		  : at >= g->buckets ? above
				     : zero + 1 + at) += (double)e->buckets[i];
	}
	return true;
}

/* ---- families ---- */

/*
 * Copies the states to an array of strings for the library. Returns NULL if out of memory or
 * malformed.
 */
static char **states_of(const struct bridge_point *t)
{
	char **states = calloc(t->state_count + 1, sizeof(*states));

	for (size_t i = 0; states && i < t->state_count; i++)
		states[i] = bridge_text_copy(t->states[i]);
	return states;
}

static void states_free(char **states, size_t n)
{
	for (size_t i = 0; states && i < n; i++)
		free(states[i]);
	free(states);
}

static bool is_plain(const char *s)
{
	for (const char *c = s; *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' ||
		      *c == ':' || (c > s && *c >= '0' && *c <= '9')))
			return false;
	return true;
}

/* Returns the library's options for the announced family, without its states. */
static struct sl_metric_opts opts_of(const struct bridge_publisher *p, enum bridge_type type,
				     const struct bridge_point *t)
{
	struct sl_metric_opts o = SL_OPTS(sl_metric_opts, .name = p->name, .help = p->help,
					  .unit = *p->unit ? p->unit : NULL, .mirror = true);

	/* The labels follow later, and their names may contain any UTF-8. */
	o.utf8 = true;
	if (o.unit && !is_plain(o.unit))
		o.unit = NULL;
	o.created_ns = t->created_ns ?: t->delta ? base_realtime_ns() : CREATED_UNKNOWN;
	if (type == BRIDGE_SUMMARY) {
		o.quantiles = t->bounds;
		o.quantile_count = t->bound_count;
	} else if (t->exponential) {
		o.scale = p->grid.scale;
		o.use_scale = true;
		o.min = ldexp(1, -p->grid.octaves);
		o.max = ldexp(1, p->grid.octaves);
	} else {
		o.bounds = t->bounds;
		o.bound_count = t->bound_count;
	}
	return o;
}

bool bridge_publish_family_create(struct bridge_publisher *p, struct bridge_publish_family *f,
				  const struct bridge_point *t)
{
	struct sl_metric_opts o = opts_of(p, f->type, t);
	char **states;

	switch (f->type) {
	case BRIDGE_COUNTER:
		f->counter = sl_counter_f64_family_create(p->publisher, &o);
		break;
	case BRIDGE_GAUGE:
		f->gauge = sl_gauge_f64_family_create(p->publisher, &o);
		break;
	case BRIDGE_UNKNOWN:
		f->unknown = sl_unknown_family_create(p->publisher, &o);
		break;
	case BRIDGE_SUMMARY:
		f->summary = sl_summary_family_create(p->publisher, &o);
		break;
	case BRIDGE_HISTOGRAM:
		f->exponential = t->exponential;
		f->histogram = f->exponential
				       ? sl_histogram_family_create(p->publisher, &o)
				       : sl_histogram_family_create_classic(p->publisher, &o);
		break;
	case BRIDGE_GAUGE_HISTOGRAM:
		f->gauge_histogram = sl_gauge_histogram_family_create_classic(p->publisher, &o);
		break;
	case BRIDGE_STATESET:
		states = states_of(t);
		o.states = (const char *const *)states;
		o.state_count = t->state_count;
		/* The exposition uses the metric's name as a label name. */
		o.utf8 = false;
		f->stateset = sl_stateset_family_create(p->publisher, &o);
		states_free(states, t->state_count);
		break;
	case BRIDGE_INFO:
		f->name = strdup(p->name);
		f->help = strdup(p->help);
		return f->name && f->help;
	}
	/* In all handles, .bits is 0 if the family is refused. */
	return f->counter.bits;
}

/* ---- series ---- */

static struct sl_metric_opts info_of(const struct bridge_publish_family *f,
				     const struct sl_label *labels, size_t n)
{
	return SL_OPTS(sl_metric_opts, .name = f->name, .help = f->help, .labels = labels,
		       .label_count = n, .utf8 = true);
}

bool bridge_publish_series_create(struct bridge_publisher *p, const struct bridge_publish_family *f,
				  struct bridge_publish_series *s, const struct bridge_point *t)
{
	struct sl_label labels[SL_LABELS_MAX];
	size_t n = bridge_publish_labels(s->labels, s->label_bytes, labels);
	struct sl_metric_opts o = opts_of(p, f->type, t);
	bool valid = false;

	/* Same options as the family's, except for the creation time and the shape. */
	o.labels = labels;
	o.label_count = n;

	switch (f->type) {
	case BRIDGE_COUNTER:
		s->counter = sl_counter_f64_create(p->publisher, &o);
		valid = sl_counter_f64_valid(s->counter);
		break;
	case BRIDGE_GAUGE:
		s->gauge = sl_gauge_f64_with(f->gauge, labels, n);
		valid = sl_gauge_f64_valid(s->gauge);
		break;
	case BRIDGE_UNKNOWN:
		s->unknown = sl_unknown_with(f->unknown, labels, n);
		valid = sl_unknown_valid(s->unknown);
		break;
	case BRIDGE_SUMMARY:
		s->summary = sl_summary_create(p->publisher, &o);
		valid = sl_summary_valid(s->summary);
		break;
	case BRIDGE_HISTOGRAM:
		s->histogram = f->exponential ? sl_histogram_create(p->publisher, &o)
					      : sl_histogram_create_classic(p->publisher, &o);
		valid = sl_histogram_valid(s->histogram);
		break;
	case BRIDGE_GAUGE_HISTOGRAM:
		s->gauge_histogram = sl_gauge_histogram_create_classic(p->publisher, &o);
		valid = sl_gauge_histogram_valid(s->gauge_histogram);
		break;
	case BRIDGE_STATESET:
		/* All series of a family have its states. */
		if (s->shape == f->shape)
			s->stateset = sl_stateset_with(f->stateset, labels, n);
		valid = sl_stateset_valid(s->stateset);
		break;
	case BRIDGE_INFO:
		o = info_of(f, labels, n);
		valid = !sl_info_create(p->publisher, &o);
		break;
	}
	return valid;
}

void bridge_publish_remove(struct bridge_publisher *p, const struct bridge_publish_family *f,
			   const struct sl_label *labels, size_t n)
{
	struct sl_metric_opts o;

	switch (f->type) {
	case BRIDGE_COUNTER:
		sl_counter_f64_remove(f->counter, labels, n);
		break;
	case BRIDGE_GAUGE:
		sl_gauge_f64_remove(f->gauge, labels, n);
		break;
	case BRIDGE_UNKNOWN:
		sl_unknown_remove(f->unknown, labels, n);
		break;
	case BRIDGE_SUMMARY:
		sl_summary_remove(f->summary, labels, n);
		break;
	case BRIDGE_HISTOGRAM:
		sl_histogram_remove(f->histogram, labels, n);
		break;
	case BRIDGE_GAUGE_HISTOGRAM:
		sl_gauge_histogram_remove(f->gauge_histogram, labels, n);
		break;
	case BRIDGE_STATESET:
		sl_stateset_remove(f->stateset, labels, n);
		break;
	case BRIDGE_INFO:
		o = info_of(f, labels, n);
		sl_info_remove(p->publisher, &o);
		break;
	}
}

/* ---- values ---- */

static uint64_t count_of(double v)
{
	return v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0;
}

/* Converts cumulative buckets to counts per bucket. Returns NULL if out of memory. */
static const uint64_t *buckets_of(struct bridge_publisher *p, const double *cumulated, size_t n)
{
	uint64_t before = 0;

	if (!base_grow(&p->buckets, &p->bucket_room, n, sizeof(*p->buckets)))
		return NULL;
	for (size_t i = 0; i < n; i++) {
		uint64_t now = count_of(cumulated[i]);

		/* Text 0.0.4 may contain decreasing counts; such buckets become empty. */
		now = now > before ? now : before;
		p->buckets[i] = now - before;
		before = now;
	}
	return p->buckets;
}

static void set_histogram(struct bridge_publisher *p, const struct bridge_publish_series *s,
			  bool gauge, const double *values, size_t n)
{
	const uint64_t *b;

	if (n <= BRIDGE_BUCKETS)
		return;
	n -= BRIDGE_BUCKETS;
	b = buckets_of(p, values + BRIDGE_BUCKETS, n);
	if (!b)
		return;
	if (gauge)
		sl_gauge_histogram_set(s->gauge_histogram, b, n, values[BRIDGE_SUM]);
	else
		sl_histogram_mirror(s->histogram, b, n, values[BRIDGE_SUM]);
}

static void set_exponential(struct bridge_publisher *p, const struct bridge_publish_series *s,
			    const double *values)
{
	const size_t n = p->grid.buckets + 2;

	if (!base_grow(&p->buckets, &p->bucket_room, n, sizeof(*p->buckets)))
		return;
	for (size_t i = 0; i < n; i++)
		p->buckets[i] = count_of(values[BRIDGE_BUCKETS + i]);
	sl_histogram_mirror(s->histogram, p->buckets, n, values[BRIDGE_SUM]);
}

void bridge_publish_set(struct bridge_publisher *p, const struct bridge_publish_family *f,
			const struct bridge_publish_series *s, const double *values, size_t n)
{
	switch (f->type) {
	case BRIDGE_COUNTER:
		sl_counter_f64_mirror(s->counter, values[BRIDGE_VALUE]);
		break;
	case BRIDGE_GAUGE:
		sl_gauge_f64_set(s->gauge, values[BRIDGE_VALUE]);
		break;
	case BRIDGE_UNKNOWN:
		sl_unknown_set(s->unknown, values[BRIDGE_VALUE]);
		break;
	case BRIDGE_SUMMARY:
		sl_summary_mirror(s->summary, isnan(values[BRIDGE_SUM]) ? 0 : values[BRIDGE_SUM],
				  count_of(values[BRIDGE_COUNT]));
		sl_summary_set_quantiles(s->summary, values + BRIDGE_QUANTILES,
					 n - BRIDGE_QUANTILES);
		break;
	case BRIDGE_HISTOGRAM:
	case BRIDGE_GAUGE_HISTOGRAM:
		if (f->exponential)
			set_exponential(p, s, values);
		else
			set_histogram(p, s, f->type == BRIDGE_GAUGE_HISTOGRAM, values, n);
		break;
	case BRIDGE_STATESET:
		for (size_t i = 0; i < n; i++)
			sl_stateset_set(s->stateset, (unsigned int)i, values[i] != 0);
		break;
	case BRIDGE_INFO:
		break;
	}
}

/* ---- exemplars ---- */

static bool is_id(struct bridge_text key)
{
	return bridge_text_is(key, "trace_id") || bridge_text_is(key, "span_id");
}

/*
 * Returns the number of labels, or -1 if they are invalid or too long. only_ids: only the trace and
 * span IDs.
 */
static int exemplar_labels(const struct bridge_exemplar *e, struct sl_label *out,
			   char text[SL_EXEMPLAR_LABELS], bool only_ids)
{
	char *to = text, *end = text + SL_EXEMPLAR_LABELS;
	int n = 0;

	for (size_t i = 0; i < e->label_count; i++) {
		const struct bridge_label *l = &e->labels[i];

		if (only_ids && !is_id(l->key))
			continue;
		if (n > (int)SL_LABELS_MAX - 3 || l->key.n + l->value.n + 2 > (size_t)(end - to))
			return -1;
		out[n].key = to;
		to = bridge_publish_put(to, l->key);
		out[n++].value = to;
		to = to ? bridge_publish_put(to, l->value) : NULL;
		if (!to)
			return -1;
	}
	return n;
}

static uint64_t hash_of_exemplars(const struct bridge_point *t)
{
	uint64_t h = 0;

	for (size_t i = 0; i < t->exemplar_count; i++) {
		const struct bridge_exemplar *e = &t->exemplars[i];

		h = base_hash(h, &e->value, sizeof(e->value));
		h = base_hash(h, &e->time_ns, sizeof(e->time_ns));
		for (size_t k = 0; k < e->label_count; k++)
			h = base_hash(h, e->labels[k].value.s, e->labels[k].value.n);
	}
	return h;
}

void bridge_publish_exemplars(const struct bridge_publisher *p,
			      const struct bridge_publish_family *f,
			      struct bridge_publish_series *s, const struct bridge_point *t)
{
	struct sl_label labels[SL_LABELS_MAX];
	char text[SL_EXEMPLAR_LABELS];
	uint64_t hash;

	if (!t->exemplar_count || (f->type != BRIDGE_COUNTER && f->type != BRIDGE_HISTOGRAM))
		return;
	hash = hash_of_exemplars(t);
	if (hash == s->exemplars)
		return;
	s->exemplars = hash;
	for (size_t i = 0; i < t->exemplar_count; i++) {
		const struct bridge_exemplar *e = &t->exemplars[i];
		struct sl_exemplar x = SL_OPTS(sl_exemplar, .labels = labels,
					       .time_ns = e->time_ns);
		int n = exemplar_labels(e, labels, text, false);

		/* If the labels are too long, keep the link to the trace. */
		if (n < 0)
			n = exemplar_labels(e, labels, text, true);
		if (n <= 0 && e->label_count)
			continue;
		x.label_count = (size_t)n;
		if (f->type == BRIDGE_COUNTER)
			sl_counter_f64_mirror_exemplar(s->counter, e->value, &x);
		else
			sl_histogram_mirror_exemplar(
				s->histogram,
				f->exponential ? exponential_bucket(&p->grid, e->value)
					       : e->bucket - BRIDGE_BUCKETS,
				e->value, &x);
	}
}

size_t bridge_publish_record_bytes(const struct bridge_publisher *p, const struct bridge_point *t,
				   size_t label_bytes)
{
	size_t n = sizeof(struct sl_schema_record) + strlen(p->name) + strlen(p->help) +
		   strlen(p->unit) + label_bytes + t->bound_count * sizeof(double);

	for (size_t i = 0; i < t->state_count; i++)
		n += t->states[i].n + 1;
	/*
	 * Two stripes of cells, of which an eighth are check words, and one stripe of creation
	 * times.
	 */
	return n + (t->value_count * 2 + 1) * SL_LINE_SIZE / SL_LINE_CELLS;
}
