// SPDX-License-Identifier: Apache-2.0
#include "collect/read/past.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/budget.h"
#include "base/grow.h"
#include "collect/read/collector_internal.h"

#define EVERY_NS 1000000000ll
/*
 * If a publisher started at most this long before it was first read, all its counts are new.
 */
#define FRESH_NS 2000000000ll

struct past_histogram {
	/* before: index of the histogram's first bucket in past_region.before */
	uint32_t column, before, buckets;
	const struct collect_def *def;
	uint64_t last;	   /* position + 1 of the histogram's newest record */
	double count, sum; /* in that record */
	/* when the totals became known or were reset; time of the newest record, or since_ns */
	int64_t since_ns, last_ns;
	bool known;
};

struct past_region {
	struct base_node node; /* node in the table by instance */
	uint64_t instance;
	int64_t next_ns, taken_ns; /* taken_ns: time of the last row */
	struct past_region *next;  /* if this region is gone, the one that went next */
	bool gone;
	uint64_t layout, life; /* life: number of the event that reports the publisher's start */
	uint32_t state;
	struct past_histogram *histogram;
	size_t histograms;
	uint64_t *before; /* buckets of all histograms as of the last record */
	size_t cells;
};

struct collect_past {
	struct collect_collector *c;
	pthread_mutex_t lock; /* protects all fields below; a worker only tries to lock it */
	struct base_table regions;
	struct past_region *gone, **gone_end; /* gone regions, oldest first */
	struct collect_buckets buckets;
	size_t cells, cells_max;	/* total cells of all regions' before arrays */
	struct collect_bucket *changed; /* changed buckets of one histogram */
	size_t changed_room;
	struct collect_life *life; /* ring of [COLLECT_LIVES_MAX] events */
	uint64_t lives;
	bool left; /* a live publisher's region has gone, and may return */
};

/* ---- lives ---- */

static void copy_text(char to[COLLECT_LIFE_TEXT], const char *from)
{
	snprintf(to, COLLECT_LIFE_TEXT, "%s", from);
}

static const char *version_label(const struct region_text_label *labels, uint32_t n)
{
	static const char *const keys[] = {"version", "service_version", "image", "image_tag"};

	for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++)
		for (uint32_t i = 0; i < n; i++)
			if (!strcmp(labels[i].key, keys[k]) && *labels[i].value)
				return labels[i].value;
	return NULL;
}

/*
 * Returns the version from the publisher's labels, or from an info such as
 * build_info{version="1.2"}.
 */
static const char *version_of(const struct collect_tap_row *row)
{
	const char *found = version_label(row->info->labels, row->info->label_count);

	for (uint32_t i = 0; i < row->columns && !found; i++) {
		const struct region_metric *m = collect_tap_metric(row, i);

		if (m->kind == SL_KIND_INFO && !m->removed)
			found = version_label(m->labels, m->label_count);
	}
	return found ? found : "";
}

static void add_life(struct collect_past *p, const struct collect_tap_row *row,
		     enum collect_life_kind kind, int64_t ns)
{
	struct collect_life *l = &p->life[p->lives++ % COLLECT_LIVES_MAX];

	*l = (struct collect_life){
		.ns = ns, .kind = kind, .instance = row->instance, .pid = row->info->pid};
	copy_text(l->service, region_label(row->info, "service"));
	copy_text(l->kube_namespace, region_label(row->info, "namespace"));
	copy_text(l->pod, region_label(row->info, "pod"));
	copy_text(l->version, version_of(row));
}

size_t collect_collector_lives(struct collect_collector *c, struct collect_life *out, size_t max)
{
	struct collect_past *p = c->past;
	size_t n;

	if (!p)
		return 0;
	pthread_mutex_lock(&p->lock);
	n = BASE_MIN((uint64_t)max, p->lives);
	n = BASE_MIN(n, COLLECT_LIVES_MAX);
	for (size_t i = 0; i < n; i++)
		out[i] = p->life[(p->lives - n + i) % COLLECT_LIVES_MAX];
	pthread_mutex_unlock(&p->lock);
	return n;
}

/* Returns the number of the event for the publisher's start, or p->lives if there is none. */
static uint64_t find_start(const struct collect_past *p, uint64_t instance)
{
	uint64_t i = p->lives - BASE_MIN(p->lives, (uint64_t)COLLECT_LIVES_MAX);

	for (; i < p->lives; i++) {
		const struct collect_life *l = &p->life[i % COLLECT_LIVES_MAX];

		if (l->instance == instance && l->kind == COLLECT_LIFE_START)
			break;
	}
	return i;
}

/*
 * Returns the present region or, if ended_ns is set, the last region of this instance that had
 * gone by then.
 */
static struct past_region *find_region(const struct collect_past *p, uint64_t instance,
				       int64_t ended_ns)
{
	struct past_region *r = base_table_first(&p->regions, instance);

	while (r && (r->instance != instance || r->gone != (ended_ns != 0) ||
		     (ended_ns && r->taken_ns > ended_ns)))
		r = base_table_next(r);
	return r;
}

static struct past_region *find_series(const struct collect_past *p,
				       const struct collect_series_ref *of)
{
	struct past_region *r = find_region(p, of->instance, of->ended_ns);

	/* After a region has gone, the index still shows it as present for a moment. */
	return r || of->ended_ns ? r : find_region(p, of->instance, INT64_MAX);
}

static void free_region(struct collect_past *p, struct past_region *r)
{
	p->cells -= r->cells;
	free(r->histogram);
	free(r->before);
	free(r);
}

/* Frees the oldest of the regions that are gone. */
static void forget_oldest(struct collect_past *p)
{
	struct past_region *r = p->gone;

	p->gone = r->next;
	if (!p->gone)
		p->gone_end = &p->gone;
	base_table_remove(&p->regions, r);
	free_region(p, r);
}

bool collect_collector_ended(struct collect_collector *c, uint64_t instance)
{
	struct past_region *r;
	bool ended;

	if (!c->past)
		return false;
	pthread_mutex_lock(&c->past->lock);
	r = find_region(c->past, instance, 0);
	ended = r && (r->state == SL_STATE_DEAD || r->state == SL_STATE_CLOSED);
	pthread_mutex_unlock(&c->past->lock);
	return ended;
}

/* ---- buckets ---- */

static struct past_histogram *find_column(const struct past_region *r, uint32_t metric)
{
	for (size_t i = 0; r && i < r->histograms; i++)
		if (r->histogram[i].column == metric)
			return &r->histogram[i];
	return NULL;
}

/*
 * Lists the histograms of a layout. Histograms that remain keep their state. Returns false if out
 * of memory.
 */
static bool make_histograms(struct collect_past *p, struct past_region *r,
			    const struct collect_tap_row *row, bool fresh)
{
	struct past_region to = {.layout = 0};
	size_t room = 0, cells = 0, n = 0;

	for (uint32_t i = 0; i < row->columns; i++) {
		const struct region_metric *m = collect_tap_metric(row, i);

		n += region_is_histogram(m) && !m->removed;
		cells += region_is_histogram(m) && !m->removed ? m->bucket_count : 0;
	}
	if (n && (!base_grow(&to.histogram, &room, n, sizeof(*to.histogram)) ||
		  !(to.before = calloc(cells, sizeof(*to.before))))) {
		free(to.histogram);
		return false;
	}
	for (uint32_t i = 0; i < row->columns; i++) {
		const struct region_metric *m = collect_tap_metric(row, i);
		const struct collect_def *def = row->shape->column[i].def;
		const struct past_histogram *old;
		struct past_histogram *h;

		if (!region_is_histogram(m) || m->removed)
			continue;
		while (p->gone && p->cells + to.cells + m->bucket_count > p->cells_max)
			forget_oldest(p);
		if (p->cells - r->cells + to.cells + m->bucket_count > p->cells_max) {
			relaxed_bump(p->c->refused_buckets, 1);
			continue;
		}
		h = &to.histogram[to.histograms++];
		old = find_column(r, i);
		if (old && (old->def != def || old->buckets != m->bucket_count))
			old = NULL;
		/* What was copied from elsewhere may have been counted long ago. */
		*h = old ? *old
			 : (struct past_histogram){.column = i,
						   .def = def,
						   .known = fresh && !row->info->origin &&
							    !(m->flags & SL_FLAG_MIRROR)};
		if (!old)
			h->since_ns = h->last_ns = row->ns;
		h->before = (uint32_t)to.cells;
		h->buckets = m->bucket_count;
		if (old)
			memcpy(to.before + to.cells, r->before + old->before,
			       m->bucket_count * sizeof(*to.before));
		to.cells += m->bucket_count;
	}
	p->cells += to.cells - r->cells;
	free(r->histogram);
	free(r->before);
	r->histogram = to.histogram;
	r->histograms = to.histograms;
	r->before = to.before;
	r->cells = to.cells;
	r->layout = row->layout;
	return true;
}

static void take_histogram(struct collect_past *p, struct past_region *r, struct past_histogram *h,
			   const struct collect_tap_row *row)
{
	const uint64_t *now = collect_tap_cells(row, h->column) + SL_HIST_BUCKETS;
	const double count = row->value[h->column], before_sum = h->sum;
	uint64_t *before = r->before + h->before;
	bool back = false;
	size_t n = 0;

	/* A histogram that did not settle is taken with the next row. */
	if (isnan(count) || (h->known && count == h->count))
		return;
	if (!base_grow(&p->changed, &p->changed_room, h->buckets, sizeof(*p->changed)))
		return;
	for (uint32_t i = 0; i < h->buckets; i++) {
		back |= now[i] < before[i];
		if (now[i] > before[i])
			p->changed[n++] = (struct collect_bucket){i, now[i] - before[i]};
	}
	memcpy(&h->sum, collect_tap_cells(row, h->column) + SL_HIST_SUM, sizeof(h->sum));
	if (h->known && !back)
		h->last = collect_buckets_add(&p->buckets, h->last, row->ns, before_sum, p->changed,
					      n);
	else
		h->since_ns = row->ns;
	h->last_ns = row->ns;
	memcpy(before, now, h->buckets * sizeof(*before));
	h->known = true;
	h->count = count;
}

/* ---- the tap ---- */

static bool wants_row(void *arg, const struct collect_tap_row *row)
{
	const struct past_region *r = *row->own;

	(void)arg;
	return row->info->kind != SL_REGION_FLOWS &&
	       (!r || r->state != row->state || row->ns >= r->next_ns ||
		row->ns < r->next_ns - EVERY_NS);
}

static struct past_region *make_region(struct collect_past *p, const struct collect_tap_row *row)
{
	struct past_region *r = calloc(1, sizeof(*r));
	const int64_t start = (int64_t)row->info->start_ns;

	if (!r)
		return NULL;
	r->instance = row->instance;
	r->state = SL_STATE_LIVE;
	if (!make_histograms(p, r, row, start > row->ns - FRESH_NS)) {
		free(r);
		return NULL;
	}
	base_table_add(&p->regions, r, row->instance);
	r->life = p->left ? find_start(p, row->instance) : p->lives;
	/* The clock may have been set since the publisher started. */
	if (r->life == p->lives)
		add_life(p, row, COLLECT_LIFE_START, start && start < row->ns ? start : row->ns);
	*row->own = r;
	return r;
}

static void on_row(void *arg, const struct collect_tap_row *row)
{
	struct collect_past *p = arg;
	struct past_region *r = *row->own;

	if (pthread_mutex_trylock(&p->lock))
		return;
	if (!r)
		r = make_region(p, row);
	if (r && r->layout != row->layout) {
		struct collect_life *l = &p->life[r->life % COLLECT_LIVES_MAX];

		/* A program may create its info metric some time after startup. */
		if (l->instance == row->instance && !*l->version)
			copy_text(l->version, version_of(row));
		if (!make_histograms(p, r, row, true))
			r = NULL;
	}
	if (r) {
		for (size_t i = 0; i < r->histograms; i++)
			take_histogram(p, r, &r->histogram[i], row);
		if (r->state != row->state && row->state != SL_STATE_LIVE)
			add_life(p, row,
				 row->state == SL_STATE_DEAD ? COLLECT_LIFE_DEATH
							     : COLLECT_LIFE_CLOSE,
				 row->ns);
		r->state = row->state;
		r->taken_ns = row->ns;
		/*
		 * All histograms are recorded at the same time, so that sums over pods cover the
		 * same second.
		 */
		r->next_ns = row->ns / EVERY_NS * EVERY_NS + EVERY_NS;
	}
	pthread_mutex_unlock(&p->lock);
}

/* The region stays until its memory is needed, which from now on includes that of the lists. */
static void on_gone(void *arg, uint64_t instance, void *own)
{
	struct collect_past *p = arg;
	struct past_region *r = own;
	const size_t lists = (sizeof(*r) + r->histograms * sizeof(*r->histogram)) /
			     sizeof(uint64_t);

	(void)instance;
	pthread_mutex_lock(&p->lock);
	p->left |= r->state == SL_STATE_LIVE;
	if (r->histograms) {
		r->gone = true;
		r->cells += lists;
		p->cells += lists;
		*p->gone_end = r;
		p->gone_end = &r->next;
	} else {
		base_table_remove(&p->regions, r);
		free_region(p, r);
	}
	while (p->gone && p->cells > p->cells_max)
		forget_oldest(p);
	pthread_mutex_unlock(&p->lock);
}

struct collect_past *collect_past_new(struct collect_collector *c, size_t bytes)
{
	struct collect_past *p = calloc(1, sizeof(*p));
	int err = -ENOMEM;

	if (!p) {
		errno = ENOMEM;
		return NULL;
	}
	p->c = c;
	p->gone_end = &p->gone;
	pthread_mutex_init(&p->lock, NULL);
	/* A quarter of the memory holds each histogram's buckets as of its last record. */
	p->cells_max = bytes / 4 / sizeof(uint64_t);
	p->life = calloc(COLLECT_LIVES_MAX, sizeof(*p->life));
	if (p->life && base_table_init(&p->regions))
		err = collect_buckets_init(&p->buckets, bytes - bytes / 4);
	if (!err)
		err = collect_collector_tap(c,
					    &(struct collect_tap){on_row, wants_row, on_gone, p});
	if (err) {
		collect_past_free(p);
		errno = -err;
		return NULL;
	}
	c->past = p;
	return p;
}

void collect_past_free(struct collect_past *p)
{
	if (!p)
		return;
	while (p->gone)
		forget_oldest(p);
	base_table_free(&p->regions);
	collect_buckets_free(&p->buckets);
	pthread_mutex_destroy(&p->lock);
	free(p->changed);
	free(p->life);
	free(p);
}

/* ---- reading ---- */

ssize_t collect_collector_observed(struct collect_collector *c, const struct collect_series_ref *of,
				   int64_t from_ns, int64_t to_ns,
				   bool (*fn)(void *arg, int64_t ns, const struct collect_bucket *v,
					      size_t n),
				   void *arg)
{
	struct collect_past *p = c->past;
	const struct past_histogram *h;
	struct collect_bucket *v = NULL;
	size_t room = 0, n;
	ssize_t calls = 0;
	bool more = true;
	uint64_t prev;
	int64_t ns;

	if (!p)
		return -ENOENT;
	pthread_mutex_lock(&p->lock);
	h = find_column(find_series(p, of), of->metric);
	for (uint64_t at = h ? h->last : 0;
	     more && collect_buckets_read(&p->buckets, at, &ns, &n, &prev) && ns > from_ns;
	     at = prev) {
		if (ns > to_ns)
			continue;
		more = base_grow(&v, &room, n, sizeof(*v));
		for (size_t i = 0; more && i < n; i++)
			v[i] = collect_buckets_get(&p->buckets, at, i);
		more = more && fn(arg, ns, v, n);
		calls++;
	}
	pthread_mutex_unlock(&p->lock);
	free(v);
	return h ? calls : -ENOENT;
}

/* Points of a total, which are written from the end of out[]. */
struct past_total {
	int64_t from_ns, to_ns;
	struct collect_point *out;
	size_t room;
	struct base_budget *budget;
};

static bool put_total(struct past_total *t, int64_t ns, double value)
{
	if (ns >= t->from_ns && ns <= t->to_ns)
		t->out[--t->room] = (struct collect_point){ns, value};
	return ns > t->from_ns && t->room && base_budget_spend(t->budget, 1);
}

/* Subtracts the record at `at`. */
static void subtract_record(const struct collect_past *p, uint64_t at, size_t n,
			    const struct collect_series_ref *of, uint64_t *count, double *sum)
{
	for (size_t i = 0; i < n; i++) {
		const struct collect_bucket b = collect_buckets_get(&p->buckets, at, i);

		*count -= b.index < of->buckets ? b.count : 0;
	}
	*sum = collect_buckets_sum(&p->buckets, at);
}

/*
 * The total at the time of each record, and in each second without one: rates need points at equal
 * distances.
 */
static void walk_totals(const struct collect_past *p, const struct past_region *r,
			const struct past_histogram *h, const struct collect_series_ref *of,
			struct past_total *t)
{
	const bool is_sum = of->part == COLLECT_PART_SUM;
	int64_t second = BASE_MIN(r->taken_ns, t->to_ns) / EVERY_NS, since = h->last_ns, ns;
	uint64_t at = h->last, prev, count = 0;
	double sum = h->sum;
	bool more = t->room;
	size_t n;

	for (uint32_t i = 0; i < of->buckets && i < h->buckets; i++)
		count += r->before[h->before + i];
	while (more) {
		const double value = is_sum ? sum : (double)count;

		for (; more && second > since / EVERY_NS; second--)
			more = put_total(t, second * EVERY_NS, value);
		more = more && put_total(t, since, value) && since > h->since_ns;
		if (!more || !collect_buckets_read(&p->buckets, at, &ns, &n, &prev))
			break;
		subtract_record(p, at, n, of, &count, &sum);
		second = BASE_MIN(second, since / EVERY_NS - 1);
		at = prev;
		if (collect_buckets_read(&p->buckets, at, &ns, &n, &prev))
			since = BASE_MAX(ns, h->since_ns);
		else if (!at)
			since = h->since_ns;
		else
			break; /* the start of the record is unknown */
	}
}

ssize_t collect_past_totals(struct collect_past *p, const struct collect_series_ref *of,
			    int64_t from_ns, int64_t to_ns, struct collect_point *out, size_t max,
			    struct base_budget *budget)
{
	struct past_total t = {from_ns, to_ns, out, max, budget};
	const struct past_histogram *h;
	const struct past_region *r;

	if (!p)
		return -ENOENT;
	pthread_mutex_lock(&p->lock);
	r = find_series(p, of);
	h = find_column(r, of->metric);
	if (h && h->known)
		walk_totals(p, r, h, of, &t);
	pthread_mutex_unlock(&p->lock);
	memmove(out, out + t.room, (max - t.room) * sizeof(*out));
	return h ? (ssize_t)(max - t.room) : -ENOENT;
}
