// SPDX-License-Identifier: Apache-2.0
#include "collect/send/sender_hist.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/read/exemplars.h"
#include "collect/read/index.h"
#include "base/number.h"

struct hist {
	uint32_t column;
	bool native, summary;
	/*
	 * The sum, followed by the native histogram, the classic buckets up to +Inf, the quantiles,
	 * or nothing.
	 */
	struct export_remote_series **series; /* a NULL element is not sent */
	uint32_t count;
};

struct collect_sender_hists {
	struct hist *hist;
	uint32_t n;
	uint32_t layout_columns;
	uint64_t *cell; /* room for the cells of the widest histogram */
	struct export_native native;
};

static bool has_label(const struct region_text_label *label, size_t n, const char *key)
{
	while (n)
		if (!strcmp(label[--n].key, key))
			return true;
	return false;
}

/* Applies the receiver's rules. Sets *out to NULL if they drop the series. */
static bool make_relabelled(const char *name, const char *suffix, struct collect_relabelled *l,
			    const struct collect_sender_form *form,
			    struct export_remote_series **out)
{
	char *whole = NULL;
	bool ok = true;
	int kept;

	*out = NULL;
	if (asprintf(&whole, "%s%s", name, suffix) < 0)
		return false;
	l->label[l->n++] = (struct region_text_label){"__name__", whole};
	kept = collect_relabel_apply(form->relabel, l);
	for (size_t i = 0; kept == 1 && i < l->n; i++) {
		const struct region_text_label of = l->label[i];

		if (strcmp(of.key, "__name__"))
			continue;
		l->label[i] = l->label[--l->n];
		*out = export_remote_series_new(of.value, "", l->label, l->n, form->utf8);
		ok = *out;
		break;
	}
	if (kept == -E2BIG && form->relabel_failed)
		relaxed_bump(*form->relabel_failed, 1);
	collect_relabelled_free(l);
	free(whole);
	return ok && kept != -ENOMEM;
}

bool collect_sender_series(const struct collect_region *r, const struct collect_column *c,
			   const char *suffix, const char *key, const char *value,
			   const struct collect_sender_form *form,
			   struct export_remote_series **out)
{
	const struct collect_def *d = c->def;
	struct export_remote_series *s;
	const struct collect_label_set *sets[] = {r->labels, d->labels};
	struct region_text_label
		label[2 * SL_LABELS_MAX + 8 + COLLECT_SENDER_LABELS + 1 + COLLECT_RELABEL_RULES];
	size_t n = 0, most = sizeof(label) / sizeof(*label) - 2 - COLLECT_RELABEL_RULES;

	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < sets[k]->count && n < most; i++)
			/* Receivers refuse a request with a duplicate label. */
			if (!key || strcmp(sets[k]->keys[i], key))
				label[n++] = (struct region_text_label){sets[k]->keys[i],
									sets[k]->values[i]};
	if (key)
		label[n++] = (struct region_text_label){key, value};
	for (uint32_t i = 0; i < form->labels && n <= most; i++)
		if (!has_label(label, n, form->label[i].key))
			label[n++] = form->label[i];
	if (form->relabel) {
		struct collect_relabelled l = {
			.label = label, .n = n, .room = sizeof(label) / sizeof(*label)};

		if (!make_relabelled(d->family->name, suffix, &l, form, out))
			return false;
		if (!*out)
			return true;
		s = *out;
	} else {
		s = *out = export_remote_series_new(d->family->name, suffix, label, n, form->utf8);
	}
	if (s && form->to) {
		bool known;

		s->meta = export_remote_write_meta(form->to, d->type, d->metric.help,
						   d->metric.unit);
		if (collect_counts(d->type)) /* samples of counts have a start time */
			s->created_ms =
				(int64_t)(collect_column_created(c, r->info, &known) / 1000000u);
	}
	return s;
}

void collect_sender_series_free(struct export_remote_series **series, uint32_t n)
{
	for (uint32_t i = 0; series && i < n; i++)
		free(series[i]);
	free(series);
}

static bool is_wanted(const struct collect_column *c)
{
	return !c->twin && !c->removed &&
	       (c->def->type == EXPORT_FAMILY_SUMMARY ||
		(region_is_histogram(&c->def->metric) && c->def->metric.cells > SL_HIST_BUCKETS));
}

static struct export_native_buckets buckets_of(const struct region_metric *m, const uint64_t *cell)
{
	return (struct export_native_buckets){
		.bucket = cell + SL_HIST_BUCKETS,
		.count = m->cells - SL_HIST_BUCKETS,
		.scale = m->scale,
		.first_bucket = m->first_bucket,
		.zero_threshold = m->zero_threshold,
		.sum = region_f64(cell[SL_HIST_SUM]),
	};
}

/* Makes series i of the histogram. Returns false if out of memory. */
static bool make_series(struct hist *h, const struct collect_region *r,
			const struct collect_column *c, uint32_t i,
			const struct collect_sender_form *form)
{
	struct export_remote_series **out = &h->series[i];
	const struct region_metric *m = &c->def->metric;
	char le[BASE_NUMBER_MAX + 1] = "+Inf";

	if (!i)
		return collect_sender_series(r, c, "_sum", NULL, NULL, form, out);
	if (h->native)
		return collect_sender_series(r, c, "", NULL, NULL, form, out);
	if (c->def->type == EXPORT_FAMILY_SUMMARY) {
		*base_print_bound(le, m->bounds[i - 1], false) = 0;
		return collect_sender_series(r, c, "", "quantile", le, form, out);
	}
	if (i <= m->bound_count)
		*base_print_bound(le, m->bounds[i - 1], false) = 0;
	return collect_sender_series(r, c, "_bucket", "le", le, form, out);
}

static bool make_hist(struct hist *h, const struct collect_region *r,
		      const struct collect_column *c, const struct collect_sender_form *form)
{
	const struct region_metric *m = &c->def->metric;
	struct export_native_buckets b = {.count = m->cells - SL_HIST_BUCKETS,
					  .scale = m->scale,
					  .first_bucket = m->first_bucket};
	bool classic = !region_is_exponential(m);
	uint32_t n = classic ? m->bound_count + 2 : 2;

	h->summary = m->kind == SL_KIND_SUMMARY;
	n -= h->summary; /* the sum and one series per quantile */
	h->native = !classic && form->native && export_native_fits(&b);
	if (!classic && !h->native)
		n = 1;
	h->series = calloc(n, sizeof(*h->series));
	if (!h->series)
		return false;
	for (; h->count < n; h->count++)
		if (!make_series(h, r, c, h->count, form))
			return false;
	return true;
}

struct collect_sender_hists *collect_sender_hists_new(const struct collect_region *r,
						      const struct collect_layout *l,
						      const struct collect_sender_form *form)
{
	struct collect_sender_hists *h = calloc(1, sizeof(*h));
	uint32_t n = 0, widest = 0;

	if (!h)
		return NULL;
	for (uint32_t i = 0; i < l->columns; i++)
		if (is_wanted(&l->column[i])) {
			widest = BASE_MAX(widest, l->column[i].def->metric.cells);
			n++;
		}
	h->layout_columns = l->columns;
	h->hist = calloc(n + 1, sizeof(*h->hist));
	h->cell = malloc((widest + 1) * sizeof(*h->cell));
	if (!h->hist || !h->cell)
		goto fail;
	for (uint32_t i = 0; i < l->columns; i++) {
		struct hist *x = &h->hist[h->n];

		if (!is_wanted(&l->column[i]))
			continue;
		x->column = i;
		h->n++;
		if (!make_hist(x, r, &l->column[i], form))
			goto fail;
	}
	return h;
fail:
	collect_sender_hists_free(h);
	return NULL;
}

static void put_point(struct export_remote_write *w, struct export_remote_series *s, int64_t ns,
		      double v)
{
	if (s)
		export_remote_write_points(w, s, &(struct export_remote_point){ns, v}, 1);
}

void collect_sender_hists_send(struct collect_sender_hists *h, struct export_remote_write *w,
			       const struct collect_region *r, const struct collect_snapshot *b,
			       int64_t ns)
{
	for (uint32_t i = 0; i < h->n && h->layout_columns == b->layout->columns; i++) {
		const struct hist *x = &h->hist[i];
		const struct collect_column *c = &b->layout->column[x->column];
		struct export_native_buckets now;
		uint64_t sum = 0;

		collect_snapshot_read(b, c->cell, c->def->metric.cells, h->cell);
		now = buckets_of(&c->def->metric, h->cell);
		put_point(w, x->series[0], ns, now.sum);
		for (uint32_t k = 1; x->summary && k < x->count; k++)
			put_point(w, x->series[k], ns,
				  region_f64(h->cell[SL_SUMMARY_QUANTILES + k - 1]));
		if (x->summary)
			continue;
		if (x->native && x->series[1] && export_native_make(&h->native, &now))
			export_remote_write_native(w, x->series[1], ns, &h->native);
		for (uint32_t k = 1; !x->native && k < x->count; k++) {
			sum += now.bucket[k - 1];
			put_point(w, x->series[k], ns, (double)sum);
		}
		if (x->count > 1)
			collect_sender_exemplars(w, r, c, x->series + 1, x->count - 1, ns);
	}
}

size_t collect_sender_hists_series(const struct collect_sender_hists *h,
				   struct export_remote_series **to)
{
	size_t n = 0;

	for (uint32_t i = 0; i < h->n; i++)
		for (uint32_t k = 0; k < h->hist[i].count; k++) {
			if (!h->hist[i].series[k])
				continue;
			if (to)
				to[n] = h->hist[i].series[k];
			n++;
		}
	return n;
}

void collect_sender_hists_free(struct collect_sender_hists *h)
{
	if (!h)
		return;
	for (uint32_t i = 0; i < h->n; i++)
		collect_sender_series_free(h->hist[i].series, h->hist[i].count);
	export_native_free(&h->native);
	free(h->hist);
	free(h->cell);
	free(h);
}

/* ---- exemplars ---- */

/* Time and position of an exemplar, for sorting, since exemplars are large. */
struct mark {
	uint64_t ns;
	uint32_t before;
};

void collect_sender_exemplars(struct export_remote_write *w, const struct collect_region *r,
			      const struct collect_column *column,
			      struct export_remote_series **series, uint32_t count, int64_t ns)
{
	const uint32_t first = region_is_histogram(&column->def->metric) ? SL_HIST_BUCKETS : 0;
	struct mark mark[COLLECT_SERIES_EXEMPLARS];
	struct region_exemplar e;
	uint32_t at = 0, n = 0;

	for (uint32_t before = 0;
	     n < COLLECT_SERIES_EXEMPLARS && collect_exemplars_next(r, column, &at, &e);
	     before = at)
		mark[n++] = (struct mark){e.ns, before};
	if (count == 1)
		qsort(mark, n, sizeof(*mark), base_by_u64);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t bucket;

		at = mark[i].before;
		if (!collect_exemplars_next(r, column, &at, &e))
			continue; /* the exemplar was replaced in the meantime */
		bucket = e.cell - first;
		if ((count == 1 || bucket < count) && series[count == 1 ? 0 : bucket])
			export_remote_write_exemplar(
				w, series[count == 1 ? 0 : bucket], ns,
				&(struct export_exemplar){.value = e.value,
							  .ns = e.ns,
							  .labels = e.labels,
							  .label_count = e.label_count});
	}
}
