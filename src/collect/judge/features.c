// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/features.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/role.h"
#include "collect/read/calc.h"
#include "collect/tables/workload_layout.h"
#include "collect/read/attach.h"

/* Features of a histogram: P50 and P99 only for layers, P95 only for the application layer. */
enum { COUNT, MEAN, P90, P50, P99, P95 };

/*
 * The column of a metric, and the range of its features. For histograms, also offsets into
 * window[].
 */
struct collect_feature_source {
	uint32_t column, first, count;
	size_t marks;	  /* offset of the cells copied at the marks */
	uint32_t settled; /* bit i: the cells had settled at mark i */
	/* for layers: offsets of the cells at the start and in the middle of the longer window */
	size_t old, mid;
	int64_t old_ns, mid_ns; /* when these cells were copied */
};

/* Gauge histograms have no rate: their counts go up and down. */
static bool is_histogram(const struct region_metric *m)
{
	return m->kind == SL_KIND_HISTOGRAM || m->kind == SL_KIND_HISTOGRAM_EXP;
}

/*
 * Returns true for a layer histogram, which has quantile features: buckets of half an octave, few
 * observations in quiet times.
 */
static bool is_layer(const struct region_metric *m)
{
	return m->kind == SL_KIND_HISTOGRAM_EXP && (!strcmp(m->name, WORKLOAD_LAYERS_METRIC) ||
						    !strcmp(m->name, WORKLOAD_REQUEST_METRIC));
}

/* Returns true for the application layer, whose quantiles the fleet stage uses (measured.h). */
static bool is_application(const struct region_metric *m)
{
	return is_layer(m) && !strcmp(region_label_in(m->labels, m->label_count, "layer"), "app");
}

static uint32_t features_of(const struct region_metric *m)
{
	/* The layers of all ports are judged by port. */
	if (m->kind == SL_KIND_INFO || !m->cells || !strcmp(m->name, WORKLOAD_STACK_METRIC))
		return 0;
	return is_application(m)	     ? P95 + 1
	       : is_layer(m)		     ? P99 + 1
	       : is_histogram(m)	     ? P90 + 1
	       : m->kind == SL_KIND_STATESET ? m->state_count
					     : 1;
}

/* Writes the name with its labels; returns the length. out may be NULL. */
static size_t put_name(char *out, size_t room, const struct region_metric *m, uint32_t i)
{
	static const char *const parts[] = {"_count", "_mean", "_p90", "_p50", "_p99", "_p95"};
	size_t n = 0;

#define PUT(...) n += (size_t)snprintf(out ? out + n : NULL, out ? room - n : 0, __VA_ARGS__)
	PUT("%s%s", m->name, is_histogram(m) ? parts[i] : "");
	if (m->label_count || m->kind == SL_KIND_STATESET)
		PUT("{");
	for (uint32_t k = 0; k < m->label_count; k++)
		PUT("%s%s=\"%s\"", k ? "," : "", m->labels[k].key, m->labels[k].value);
	if (m->kind == SL_KIND_STATESET)
		PUT("%sstate=\"%s\"", m->label_count ? "," : "", m->states[i]);
	if (m->label_count || m->kind == SL_KIND_STATESET)
		PUT("}");
#undef PUT
	return n;
}

bool collect_features_fit(const struct collect_features *f, const struct collect_tap_row *row)
{
	return f->source && f->layout == row->layout && f->columns == row->columns;
}

void collect_features_free(struct collect_features *f)
{
	free(f->name);
	free(f->counter);
	free(f->value);
	free(f->source);
	free(f->window);
	free(f->text);
	*f = (struct collect_features){0};
}

/* Counts the features and memory of a layout before they are allocated. */
static void measure_layout(struct collect_features *f, const struct collect_tap_row *row,
			   size_t *text, size_t *widest)
{
	*text = *widest = 0;
	for (uint32_t i = 0; i < row->columns; i++) {
		const struct region_metric *m = collect_tap_metric(row, i);
		uint32_t n = features_of(m);

		for (uint32_t k = 0; k < n; k++)
			*text += put_name(NULL, 0, m, k) + 1;
		f->count += n;
		f->sources += n > 0;
		if (!is_histogram(m))
			continue;
		f->window_cells += (COLLECT_FEATURE_MARKS + 2 * is_layer(m)) * (size_t)m->cells;
		*widest = m->cells > *widest ? m->cells : *widest;
	}
}

static bool is_of_port(const struct region_metric *m)
{
	char name[256];

	if (is_histogram(m) || put_name(NULL, 0, m, 0) >= sizeof(name))
		return false;
	put_name(name, sizeof(name), m, 0);
	return analyse_role_port(name, region_is_counter(m)) != ANALYSE_PORT_NONE;
}

/* Where the next source and its features belong. */
struct made_end {
	uint32_t source, feature;
	size_t window, room; /* room: bytes left at text */
	char *text;
};

static void add_source(struct collect_features *f, const struct collect_tap_row *row, uint32_t i,
		       struct made_end *end)
{
	const struct region_metric *m = collect_tap_metric(row, i);
	struct collect_feature_source *s = &f->source[end->source];
	uint32_t n = features_of(m);

	if (!n)
		return;
	end->source++;
	*s = (struct collect_feature_source){
		.column = i, .first = end->feature, .count = n, .marks = end->window};
	end->window += is_histogram(m) ? COLLECT_FEATURE_MARKS * (size_t)m->cells : 0;
	s->old = end->window;
	s->mid = end->window + m->cells;
	end->window += is_layer(m) ? 2 * (size_t)m->cells : 0;
	for (uint32_t k = 0; k < n; k++) {
		size_t used = put_name(end->text, end->room + 1, m, k) + 1;

		f->name[end->feature] = end->text;
		f->counter[end->feature++] = region_is_counter(m) || m->kind == SL_KIND_SUMMARY ||
					     (is_histogram(m) && !k);
		end->text += used;
		end->room -= used;
	}
}

int collect_features_make(struct collect_features *f, const struct collect_tap_row *row)
{
	struct made_end end = {0};
	size_t widest;

	collect_features_free(f);
	measure_layout(f, row, &end.room, &widest);
	f->name = calloc(f->count + 1, sizeof(*f->name));
	f->counter = calloc(f->count + 1, sizeof(*f->counter));
	f->value = calloc(f->count + 1, sizeof(*f->value));
	f->source = calloc(f->sources + 1, sizeof(*f->source));
	f->window = calloc(f->window_cells + widest + 1, sizeof(*f->window));
	f->text = end.text = malloc(end.room + 1);
	if (!f->name || !f->counter || !f->value || !f->source || !f->window || !f->text) {
		collect_features_free(f);
		return -ENOMEM;
	}
	f->scratch = f->window + f->window_cells;
	/* A large host has more series than are judged, so those of its ports come first. */
	for (uint32_t i = 0; i < row->columns; i++)
		if (is_of_port(collect_tap_metric(row, i)))
			add_source(f, row, i, &end);
	for (uint32_t i = 0; i < row->columns; i++)
		if (!is_of_port(collect_tap_metric(row, i)))
			add_source(f, row, i, &end);
	f->layout = row->layout;
	f->columns = row->columns;
	return 0;
}

/*
 * Stores the observations since old, by bucket, in f->scratch. Returns their number; 0 after a
 * restart.
 */
static uint64_t count_since(const struct collect_features *f, const struct region_metric *m,
			    const uint64_t *cell, const uint64_t *old)
{
	uint64_t sum = 0;

	for (uint32_t i = SL_HIST_BUCKETS; i < m->cells; i++)
		sum += f->scratch[i - SL_HIST_BUCKETS] = cell[i] - old[i];
	return sum > 1ull << 62 ? 0 : sum;
}

/* Returns the source's cells at mark i. */
static uint64_t *at_mark(const struct collect_features *f, const struct collect_feature_source *s,
			 const struct region_metric *m, uint32_t i)
{
	return f->window + s->marks + i % COLLECT_FEATURE_MARKS * (size_t)m->cells;
}

/*
 * Computes the mean and 90th percentile since mark `from`, which is UINT32_MAX if no mark is old
 * enough. They are unknown if the cells had not settled at the mark.
 */
static void take_brief(const struct collect_features *f, const struct collect_feature_source *s,
		       const struct region_metric *m, const uint64_t *cell, uint32_t from)
{
	const bool known = from != UINT32_MAX && s->settled >> from & 1;
	const uint64_t *old = at_mark(f, s, m, from);
	uint64_t n = known ? count_since(f, m, cell, old) : 0;
	double *v = f->value + s->first;

	if (!n)
		return;
	v[MEAN] = (region_f64(cell[SL_HIST_SUM]) - region_f64(old[SL_HIST_SUM])) / (double)n;
	v[P90] = collect_quantile(m, f->scratch, 0.9);
	if (s->count > P95)
		v[P95] = collect_quantile(m, f->scratch, 0.95);
}

/* Returns true if the window is over, was never started, or the clock was set back. */
static bool is_over(int64_t since_ns, int64_t ns, int64_t window_ns)
{
	return !since_ns || ns - since_ns >= window_ns || ns < since_ns;
}

/* Computes the median and 99th percentile of the longer window. */
static void take_longer(struct collect_features *f, struct collect_feature_source *s,
			const struct region_metric *m, const uint64_t *cell, int64_t ns, bool slide)
{
	uint64_t *old = f->window + s->old, *mid = f->window + s->mid, n;
	double *v = f->value + s->first;

	n = s->old_ns ? count_since(f, m, cell, old) : 0;
	if (n >= 2 * COLLECT_FEATURE_Q_BEYOND)
		v[P50] = collect_quantile(m, f->scratch, 0.5);
	if (n >= COLLECT_FEATURE_Q_EVENTS)
		v[P99] = collect_quantile(m, f->scratch, 0.99);
	if (slide && (is_over(s->mid_ns, ns, COLLECT_FEATURE_Q_NS) ||
		      count_since(f, m, cell, mid) >= COLLECT_FEATURE_Q_EVENTS)) {
		memcpy(old, mid, m->cells * sizeof(*old));
		memcpy(mid, cell, m->cells * sizeof(*mid));
		s->old_ns = s->mid_ns;
		s->mid_ns = ns;
	}
}

static void take_histogram(struct collect_features *f, struct collect_feature_source *s,
			   const struct collect_tap_row *row, const struct region_metric *m,
			   uint32_t from, bool slide)
{
	const uint64_t *cell = collect_tap_cells(row, s->column);
	const uint32_t next = (f->mark + 1) % COLLECT_FEATURE_MARKS;
	double *v = f->value + s->first;

	v[COUNT] = row->value[s->column];
	for (uint32_t i = MEAN; i < s->count; i++)
		v[i] = NAN;
	if (isnan(v[COUNT])) { /* not settled: neither shown nor remembered */
		s->settled &= ~((uint32_t)slide << next);
		return;
	}
	take_brief(f, s, m, cell, from);
	if (slide) {
		memcpy(at_mark(f, s, m, next), cell, m->cells * sizeof(*cell));
		s->settled |= 1u << next;
	}
	if (is_layer(m))
		take_longer(f, s, m, cell, row->ns, slide);
}

/* Returns the latest mark that is at least a window old; UINT32_MAX means none. */
static uint32_t window_begin(struct collect_features *f, int64_t ns)
{
	if (ns < f->mark_ns[f->mark]) /* the clock was set back */
		memset(f->mark_ns, 0, sizeof(f->mark_ns));
	for (uint32_t back = 0; back < COLLECT_FEATURE_MARKS; back++) {
		uint32_t i = (f->mark + COLLECT_FEATURE_MARKS - back) % COLLECT_FEATURE_MARKS;

		if (f->mark_ns[i] && ns - f->mark_ns[i] >= COLLECT_FEATURE_WINDOW_NS)
			return i;
	}
	return UINT32_MAX;
}

void collect_features_take(struct collect_features *f, const struct collect_tap_row *row)
{
	uint32_t from = window_begin(f, row->ns);
	bool slide = is_over(f->mark_ns[f->mark], row->ns, COLLECT_FEATURE_PART_NS);

	for (uint32_t i = 0; i < f->sources; i++) {
		struct collect_feature_source *s = &f->source[i];
		const struct region_metric *m = collect_tap_metric(row, s->column);
		double v = row->value[s->column];

		if (is_histogram(m))
			take_histogram(f, s, row, m, from, slide);
		else if (m->kind == SL_KIND_STATESET)
			for (uint32_t k = 0; k < s->count; k++)
				f->value[s->first + k] = isnan(v) ? v
								  : (double)((uint64_t)v >> k & 1);
		else
			f->value[s->first] = v;
	}
	if (slide) {
		f->mark = (f->mark + 1) % COLLECT_FEATURE_MARKS;
		f->mark_ns[f->mark] = row->ns;
	}
}
