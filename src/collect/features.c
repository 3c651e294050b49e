// SPDX-License-Identifier: Apache-2.0
#include "collect/features.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect/api_calc.h"

/* What a column gives: features from first on. */
struct sl_feature_source {
	uint32_t column, first, count;
	size_t window; /* histograms: their cells' place in either half of it */
};

static bool is_histogram(const struct sl_metric *m)
{
	return m->kind == SL_KIND_HISTOGRAM || m->kind == SL_KIND_HISTOGRAM_EXP;
}

static uint32_t features_of(const struct sl_metric *m)
{
	if (m->kind == SL_KIND_INFO || !m->cells)
		return 0;
	return is_histogram(m) ? 3 : m->kind == SL_KIND_STATESET ? m->state_count : 1;
}

/* The name with its labels; returns its length. out may be NULL. */
static size_t put_name(char *out, size_t room, const struct sl_metric *m, uint32_t i)
{
	static const char *const parts[] = {"_count", "_mean", "_p90"};
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

bool sl_features_fit(const struct sl_features *f, const struct sl_tap_row *row)
{
	return f->source && f->layout == row->layout && f->columns == row->columns;
}

void sl_features_free(struct sl_features *f)
{
	free(f->name);
	free(f->counter);
	free(f->value);
	free(f->source);
	free(f->window);
	free(f->text);
	*f = (struct sl_features){0};
}

/* How much of everything: the first of two looks at the layout. */
static void measure(struct sl_features *f, const struct sl_tap_row *row, size_t *text,
		    size_t *widest)
{
	*text = *widest = 0;
	for (uint32_t i = 0; i < row->columns; i++) {
		const struct sl_metric *m = sl_tap_metric(row, i);
		uint32_t n = features_of(m);

		for (uint32_t k = 0; k < n; k++)
			*text += put_name(NULL, 0, m, k) + 1;
		f->count += n;
		f->sources += n > 0;
		if (!is_histogram(m))
			continue;
		f->window_cells += m->cells;
		*widest = m->cells > *widest ? m->cells : *widest;
	}
}

int sl_features_make(struct sl_features *f, const struct sl_tap_row *row)
{
	size_t text, widest, window = 0;
	struct sl_feature_source *s;
	uint32_t at = 0;
	char *p;

	sl_features_free(f);
	measure(f, row, &text, &widest);
	f->name = calloc(f->count + 1, sizeof(*f->name));
	f->counter = calloc(f->count + 1, sizeof(*f->counter));
	f->value = calloc(f->count + 1, 3 * sizeof(*f->value));
	f->source = calloc(f->sources + 1, sizeof(*f->source));
	f->window = calloc(2 * f->window_cells + widest + 1, sizeof(*f->window));
	f->text = p = malloc(text + 1);
	if (!f->name || !f->counter || !f->value || !f->source || !f->window || !p) {
		sl_features_free(f);
		return -ENOMEM;
	}
	f->shown = f->value + f->count;
	f->last = f->shown + f->count;
	f->scratch = f->window + 2 * f->window_cells;
	s = f->source;
	for (uint32_t i = 0; i < row->columns; i++) {
		const struct sl_metric *m = sl_tap_metric(row, i);
		uint32_t n = features_of(m);

		if (!n)
			continue;
		*s++ = (struct sl_feature_source){i, at, n, window};
		window += is_histogram(m) ? m->cells : 0;
		for (uint32_t k = 0; k < n; k++) {
			f->name[at] = p;
			p += put_name(p, text + 1 - (size_t)(p - (char *)f->text), m, k) + 1;
			f->counter[at] = m->kind == SL_KIND_COUNTER ||
					 m->kind == SL_KIND_COUNTER_F64 || (is_histogram(m) && !k);
			f->last[at++] = NAN;
		}
	}
	f->layout = row->layout;
	f->columns = row->columns;
	return 0;
}

static double as_double(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, 8);
	return d;
}

/* Mean and 90th percentile of what came since the start of the window. */
static void distribution(const struct sl_features *f, const struct sl_metric *m,
			 const uint64_t *cell, const uint64_t *old, double *mean, double *p90)
{
	uint32_t n = m->cells - SL_HIST_BUCKETS;
	uint64_t *delta = f->scratch, sum = 0;

	*mean = *p90 = NAN;
	for (uint32_t i = 0; i < n; i++) {
		delta[i] = cell[SL_HIST_BUCKETS + i] - old[SL_HIST_BUCKETS + i];
		sum += delta[i];
	}
	if (!sum || sum > 1ull << 62) /* none; or it began anew */
		return;
	*mean = (as_double(cell[SL_HIST_SUM]) - as_double(old[SL_HIST_SUM])) / (double)sum;
	*p90 = m->kind == SL_KIND_HISTOGRAM
		       ? sl_quantile_classic(delta, m->bounds, m->bound_count, 0.9)
		       : sl_quantile_exponential(delta, n, m->scale, m->first_bucket,
						 m->zero_threshold, 0.9);
}

static void take_histogram(struct sl_features *f, const struct sl_feature_source *s,
			   const struct sl_tap_row *row, const struct sl_metric *m, bool slide)
{
	const uint64_t *cell = sl_tap_cells(row, s->column);
	uint64_t *old = f->window + s->window, *mid = old + f->window_cells;
	double *v = f->value + s->first;

	v[0] = row->value[s->column];
	v[1] = v[2] = NAN;
	if (isnan(v[0]))
		return; /* it did not settle: neither to be shown nor to be remembered */
	if (f->old_ns)
		distribution(f, m, cell, old, &v[1], &v[2]);
	if (slide) {
		memcpy(old, mid, m->cells * sizeof(*old));
		memcpy(mid, cell, m->cells * sizeof(*mid));
	}
}

void sl_features_take(struct sl_features *f, const struct sl_tap_row *row)
{
	bool slide = !f->mid_ns || row->ns - f->mid_ns >= SL_FEATURE_WINDOW_NS;
	double seconds = (double)(row->ns - f->last_ns) * 1e-9;

	for (uint32_t i = 0; i < f->sources; i++) {
		const struct sl_feature_source *s = &f->source[i];
		const struct sl_metric *m = sl_tap_metric(row, s->column);
		double v = row->value[s->column];

		if (is_histogram(m))
			take_histogram(f, s, row, m, slide);
		else if (m->kind == SL_KIND_STATESET)
			for (uint32_t k = 0; k < s->count; k++)
				f->value[s->first + k] = isnan(v) ? v
								  : (double)((uint64_t)v >> k & 1);
		else
			f->value[s->first] = v;
	}
	if (slide) {
		f->old_ns = f->mid_ns;
		f->mid_ns = row->ns;
	}
	for (uint32_t i = 0; i < f->count; i++) {
		double v = f->value[i];

		f->shown[i] = !f->counter[i] ? v : (v - f->last[i]) / seconds;
		if (!isnan(v))
			f->last[i] = v;
	}
	f->last_ns = row->ns;
}
