// SPDX-License-Identifier: Apache-2.0
#include "collect/analysis/sender_hist.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/number.h"

struct hist {
	uint32_t column;
	struct export_remote_series *sum, *native; /* native: NULL if buckets are used */
	struct export_remote_series **bucket;
	uint32_t buckets; /* series: bounds and +Inf; 0: none */
};

struct collect_sender_hists {
	struct hist *hist;
	uint32_t n;
	uint32_t layout_columns;
	uint64_t *cell; /* of the widest */
	struct export_native native;
};

struct export_remote_series *collect_sender_series(const struct collect_region *r,
						   const struct collect_def *d, const char *suffix,
						   const char *key, const char *value)
{
	const struct collect_label_set *sets[] = {r->labels, d->labels};
	struct region_text_label label[2 * SL_LABELS_MAX + 8];
	size_t n = 0, most = sizeof(label) / sizeof(*label) - 1;

	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < sets[k]->count && n < most; i++)
			/* Receivers refuse a request with a duplicate label. */
			if (!key || strcmp(sets[k]->keys[i], key))
				label[n++] = (struct region_text_label){sets[k]->keys[i],
									sets[k]->values[i]};
	if (key)
		label[n++] = (struct region_text_label){key, value};
	return export_remote_series_new(d->family->name, suffix, label, n);
}

void collect_sender_series_follow(struct export_remote_series *to,
				  const struct export_remote_series *from)
{
	if (from && from->label_bytes == to->label_bytes &&
	    !memcmp(from->labels, to->labels, to->label_bytes))
		to->last_ms = from->last_ms;
}

static bool is_wanted(const struct collect_column *c)
{
	return c->def->type == EXPORT_FAMILY_HISTOGRAM && !c->twin &&
	       c->def->metric.cells > SL_HIST_BUCKETS;
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

static bool make_buckets(struct hist *h, const struct collect_region *r,
			 const struct collect_def *d, const struct hist *old)
{
	const struct region_metric *m = &d->metric;
	uint32_t n = m->bound_count + 1;

	h->bucket = calloc(n, sizeof(struct export_remote_series *));
	if (!h->bucket)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		char le[EXPORT_NUMBER_MAX + 1] = "+Inf";

		if (i < m->bound_count)
			*export_print_bound(le, m->bounds[i], false) = 0;
		h->bucket[i] = collect_sender_series(r, d, "_bucket", "le", le);
		if (!h->bucket[i])
			return false;
		h->buckets++;
		if (old && i < old->buckets)
			collect_sender_series_follow(h->bucket[i], old->bucket[i]);
	}
	return true;
}

static bool make(struct hist *h, const struct collect_region *r, const struct collect_def *d,
		 const struct hist *old, bool native)
{
	const struct region_metric *m = &d->metric;
	struct export_native_buckets b = {.count = m->cells - SL_HIST_BUCKETS,
					  .scale = m->scale,
					  .first_bucket = m->first_bucket};

	h->sum = collect_sender_series(r, d, "_sum", NULL, NULL);
	if (!h->sum)
		return false;
	if (old)
		collect_sender_series_follow(h->sum, old->sum);
	if (m->kind == SL_KIND_HISTOGRAM)
		return make_buckets(h, r, d, old);
	if (!native || !export_native_fits(&b))
		return true;
	h->native = collect_sender_series(r, d, "", NULL, NULL);
	if (h->native && old && old->native)
		collect_sender_series_follow(h->native, old->native);
	return h->native;
}

struct collect_sender_hists *collect_sender_hists_new(const struct collect_region *r,
						      const struct collect_layout *l,
						      const struct collect_sender_hists *old,
						      bool native)
{
	struct collect_sender_hists *h = calloc(1, sizeof(*h));
	uint32_t n = 0, widest = 0;

	if (!h)
		return NULL;
	for (uint32_t i = 0; i < l->columns; i++)
		if (is_wanted(&l->column[i])) {
			uint32_t cells = l->column[i].def->metric.cells;

			widest = cells > widest ? cells : widest;
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
		if (!make(x, r, l->column[i].def,
			  old && h->n <= old->n ? &old->hist[h->n - 1] : NULL, native))
			goto fail;
	}
	return h;
fail:
	collect_sender_hists_free(h);
	return NULL;
}

static void point(struct export_remote_write *w, struct export_remote_series *s, int64_t ns,
		  double v)
{
	export_remote_write_points(w, s, &(struct export_remote_point){ns, v}, 1);
}

void collect_sender_hists_send(struct collect_sender_hists *h, struct export_remote_write *w,
			       const struct collect_snapshot *b, int64_t ns)
{
	for (uint32_t i = 0; i < h->n && h->layout_columns == b->layout->columns; i++) {
		const struct hist *x = &h->hist[i];
		const struct collect_column *c = &b->layout->column[x->column];
		struct export_native_buckets now;
		uint64_t sum = 0;

		collect_snapshot_read(b, c->cell, c->def->metric.cells, h->cell);
		now = buckets_of(&c->def->metric, h->cell);
		point(w, x->sum, ns, now.sum);
		if (x->native && export_native_make(&h->native, &now))
			export_remote_write_native(w, x->native, ns, &h->native);
		for (uint32_t k = 0; k < x->buckets; k++) {
			sum += now.bucket[k];
			point(w, x->bucket[k], ns, (double)sum);
		}
	}
}

void collect_sender_hists_end(struct collect_sender_hists *h, struct export_remote_write *w,
			      int64_t ns)
{
	for (uint32_t i = 0; h && i < h->n; i++) {
		export_remote_write_end(w, h->hist[i].sum, ns);
		if (h->hist[i].native)
			export_remote_write_end(w, h->hist[i].native, ns);
		for (uint32_t k = 0; k < h->hist[i].buckets; k++)
			export_remote_write_end(w, h->hist[i].bucket[k], ns);
	}
}

void collect_sender_hists_free(struct collect_sender_hists *h)
{
	if (!h)
		return;
	for (uint32_t i = 0; i < h->n; i++) {
		for (uint32_t k = 0; k < h->hist[i].buckets; k++)
			free(h->hist[i].bucket[k]);
		free(h->hist[i].bucket);
		free(h->hist[i].native);
		free(h->hist[i].sum);
	}
	export_native_free(&h->native);
	free(h->hist);
	free(h->cell);
	free(h);
}
