// SPDX-License-Identifier: Apache-2.0
/* stats.c - the views of collect.h: hosts, regions, metrics, history, workers, totals */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/budget.h"
#include "collect/read/host.h"
#include "collect/read/index.h"
#include "collect/read/link.h"
#include "collect/read/past.h"
#include "collect/read/worker.h"

/* ---- hosts ---- */

#define ERROR_NS 60000000000ull

enum collect_host_condition collect_host_condition(const struct collect_host *h, uint64_t now_ns)
{
	uint64_t fresh = relaxed_load(h->fresh_ns);

	if (fresh && now_ns < fresh + h->c->opts.stale_ns)
		return COLLECT_HOST_UP;
	/* A host that was never read is connecting until every link has failed once. */
	for (unsigned int i = 0; !fresh && i < h->links; i++)
		if (!relaxed_load(h->link[i]->tried))
			return COLLECT_HOST_CONNECTING;
	return COLLECT_HOST_STALE;
}

static void add_stats(struct fabric_stats *to, const struct fabric_stats *from)
{
	const uint64_t *add = (const uint64_t *)from;
	uint64_t *sum = (uint64_t *)to;

	for (size_t i = 0; i < offsetof(struct fabric_stats, last_error) / sizeof(*sum); i++)
		sum[i] += add[i];
	if (from->last_error_ns > to->last_error_ns) {
		memcpy(to->last_error, from->last_error, sizeof(to->last_error));
		to->last_error_ns = from->last_error_ns;
	}
}

/*
 * While a host is up, an error no longer matters after a minute: perhaps it concerned a region that
 * is long gone. While it is not up, each attempt to reach it renews the error.
 */
static void forget_old_error(struct collect_host_view *v, uint64_t now_ns)
{
	if (v->condition != COLLECT_HOST_UP || now_ns < v->stats.last_error_ns + ERROR_NS)
		return;
	v->stats.last_error[0] = 0;
	v->stats.last_error_ns = 0;
}

void collect_collector_hosts(struct collect_collector *c,
			     void (*fn)(const struct collect_host_view *, void *), void *arg)
{
	uint64_t now = base_now_ns();

	for (size_t i = 0; i < c->hosts; i++) {
		struct collect_host *h = &c->host[i];
		struct collect_host_view v = {
			.target = collect_host_target(h),
			.fabric = relaxed_load(h->fabric),
			.hostname = collect_host_name(h),
			.condition = collect_host_condition(h, now),
			.last_read_ns = relaxed_load(h->last_read_ns),
		};

		for (unsigned int k = 0; k < h->links; k++) {
			struct collect_link *l = h->link[k];

			v.regions += (uint32_t)relaxed_load(l->region_count);
			pthread_mutex_lock(&l->stats_lock);
			add_stats(&v.stats, &l->stats);
			pthread_mutex_unlock(&l->stats_lock);
		}
		forget_old_error(&v, now);
		if (relaxed_load(h->wanted))
			fn(&v, arg);
	}
}

/* ---- regions ---- */

static struct collect_tenant_view tenant_view(const struct collect_tenant *t)
{
	if (!t->known)
		return (struct collect_tenant_view){.exempt = true,
						    .uid = "",
						    .container = "",
						    .pod = "",
						    .kube_namespace = "",
						    .every = 1};
	return (struct collect_tenant_view){
		.known = true,
		.trusted = t->who.trusted,
		.exempt = t->exempt,
		.key = t->who.key,
		.uid = t->uid,
		.container = t->container,
		.pod = t->pod,
		.kube_namespace = t->who.names.kube_namespace,
		.every = collect_tenant_every(t),
		.series = relaxed_load(t->series),
		.refused = relaxed_load(t->refused_series),
		.conflicts = relaxed_load(t->conflicts),
	};
}

/* Counts the tenant's regions, starting at number i, and how many of them have a layout. */
static void count_ready(const struct collect_index *x, size_t i, unsigned int *ready,
			unsigned int *all)
{
	const struct collect_tenant *t = x->region[i]->tenant;

	*ready = *all = 0;
	for (; i < x->regions && x->region[i]->tenant == t; i++) {
		*all += relaxed_load(x->region[i]->step) != STEP_GONE;
		*ready += x->snapshot[i] && relaxed_load(x->region[i]->step) != STEP_GONE;
	}
}

void collect_collector_regions(struct collect_collector *c,
			       void (*fn)(const struct collect_region_view *, void *), void *arg)
{
	struct collect_index *x = collect_index_get(c);
	uint64_t now = base_now_ns();
	unsigned int ready = 0, all = 0;
	char held[128];

	for (size_t i = 0; x && i < x->regions; i++) {
		const struct collect_region *r = x->region[i];
		const struct collect_snapshot *b = x->snapshot[i];
		enum region_fault fault = (enum region_fault)relaxed_load(r->fault);
		struct collect_region_view v = {
			.info = r->info,
			.tenant = tenant_view(r->tenant),
			.target = r->host->target,
			.hostname = collect_host_name(r->host),
			.state = relaxed_load(r->state),
			.changed_ns = relaxed_load(r->changed_ns),
			.metrics = b ? b->layout->columns : 0,
			.series = b ? b->layout->columns : 0,
			.unsettled = relaxed_load(r->unsettled),
			.refused = relaxed_load(r->refused),
			.rounds = relaxed_load(r->rounds),
			.last_read_ns = relaxed_load(r->last_read_ns),
			.fault = fault == REGION_FAULT_NONE ? "" : region_fault_name(fault),
			.held = "",
		};

		if (!i || r->tenant != x->region[i - 1]->tenant)
			count_ready(x, i, &ready, &all);
		if (relaxed_load(r->step) == STEP_GONE)
			continue;
		if (!b && relaxed_load(r->step) == STEP_BOUND && relaxed_load(r->held_layout)) {
			snprintf(held, sizeof(held),
				 "its layout waits because its tenant has used up its share of "
				 "CPU time: %u of %u regions of the tenant are ready",
				 ready, all);
			v.held = held;
		}
		v.stale = !collect_region_visible(r, now);
		fn(&v, arg);
	}
	collect_index_put(x);
}

/* ---- one region ---- */

/* Returns the snapshot of a region, which the index keeps alive, or NULL. */
static const struct collect_snapshot *find_snapshot(struct collect_index *x, uint64_t instance,
						    const struct collect_region **region)
{
	ssize_t i = x ? collect_index_find(x, instance) : -1;

	if (i < 0 || !x->snapshot[i])
		return NULL;
	*region = x->region[i];
	return x->snapshot[i];
}

static struct region_metric metric_at(const struct collect_layout *l, uint32_t column)
{
	struct region_metric m = l->column[column].def->metric;

	m.id = column;
	m.cell = l->column[column].cell;
	return m;
}

int collect_collector_metrics(struct collect_collector *c, uint64_t instance,
			      void (*fn)(const struct region_metric *, const uint64_t *value,
					 void *),
			      void *arg, uint64_t *fresh_ns)
{
	struct collect_index *x = collect_index_get(c);
	const struct collect_region *r;
	const struct collect_snapshot *b = find_snapshot(x, instance, &r);
	uint64_t *cell;
	int err = -ENOENT;

	if (!b)
		goto out;
	err = -ENOMEM;
	cell = malloc((b->layout->cells + (size_t)1) * sizeof(*cell));
	if (!cell)
		goto out;
	collect_snapshot_read(b, 0, b->layout->cells, cell);
	if (fresh_ns)
		*fresh_ns = relaxed_load(r->fresh_ns);
	for (uint32_t i = 0; i < b->layout->columns; i++) {
		struct region_metric m = metric_at(b->layout, i);

		if (b->layout->column[i].removed)
			continue;
		fn(&m, cell + m.cell, arg);
	}
	free(cell);
	err = 0;
out:
	collect_index_put(x);
	return err;
}

int collect_collector_metric(struct collect_collector *c, uint64_t instance, uint32_t metric,
			     void (*fn)(const struct region_metric *, const uint64_t *value,
					void *),
			     void *arg)
{
	struct collect_index *x = collect_index_get(c);
	const struct collect_region *r;
	const struct collect_snapshot *b = find_snapshot(x, instance, &r);
	const struct collect_ended *e = b || !x ? NULL : collect_index_ended(x, instance, 0);
	const struct collect_layout *l = b ? b->layout : e ? e->layout : NULL;
	uint64_t *value = NULL;
	struct region_metric m;
	int err = -ENOENT;

	if (!l || metric >= l->columns || l->column[metric].removed)
		goto out;
	m = metric_at(l, metric);
	err = -ENOMEM;
	value = b ? malloc((m.cells + (size_t)1) * sizeof(*value)) : NULL;
	if (b && !value)
		goto out;
	if (b)
		collect_snapshot_read(b, m.cell, m.cells, value);
	fn(&m, value, arg);
	free(value);
	err = 0;
out:
	collect_index_put(x);
	return err;
}

/* ---- history ---- */

/* Fills out[] from its end, newest points first. */
struct taker {
	struct collect_point *out;
	size_t room; /* free entries at the start of out[] */
	int64_t from_ns, to_ns;
	const struct region_metric *metric;
};

/*
 * Takes points, starting with the newest; the arguments have the oldest first. Returns true if
 * older points are wanted, too.
 */
static bool take_points(struct taker *t, const int64_t *ns, const uint64_t *v, unsigned int n)
{
	while (n--) {
		if (ns[n] < t->from_ns || !t->room)
			return false;
		if (ns[n] > t->to_ns)
			continue;
		t->out[--t->room] = (struct collect_point){ns[n],
							   collect_history_double(t->metric, v[n])};
	}
	return t->room > 0;
}

/* Copies the rows not yet packed and the position of the previous chunk, all from the same pass. */
static unsigned int open_rows(const struct collect_snapshot *b, uint32_t column, int64_t *ns,
			      uint64_t *v, uint64_t *chunk)
{
	const struct collect_layout *l = b->layout;
	uint64_t seq;
	uint32_t n;

	do {
		seq = collect_snapshot_begin(b);
		n = relaxed_load(b->rows);
		n = BASE_MIN(n, COLLECT_COLUMN_ROWS);
		for (uint32_t i = 0; i < n; i++) {
			ns[i] = relaxed_load(b->row_ns[i]);
			v[i] = relaxed_load(b->row[(size_t)i * l->columns + column]);
		}
		*chunk = relaxed_load(b->chunk);
	} while (collect_snapshot_retry(b, seq));
	return n;
}

/*
 * Cached chunks, newest first: a query for another metric of the same region finds each chunk at
 * the same index.
 */
#define CHUNKS 64u

struct collect_chunks {
	struct collect_chunk of[CHUNKS];
};

struct collect_chunks *collect_chunks_new(void)
{
	return calloc(1, sizeof(struct collect_chunks));
}

void collect_chunks_free(struct collect_chunks *ch)
{
	free(ch);
}

static int64_t oldest_ns(const struct collect_collector *c, int64_t from_ns)
{
	if (!c->opts.history_ns)
		return from_ns;
	return BASE_MAX((int64_t)base_realtime_ns() - (int64_t)c->opts.history_ns, from_ns);
}

/* Where the rows of a region are. */
struct history_rows {
	const struct collect_layout *layout;
	const int64_t *since_ns;
	const struct collect_snapshot *open; /* with the rows that are not packed yet, or NULL */
	const struct collect_ring *ring;
	uint64_t chunk;
};

/* Returns false if the region is not known. */
static bool find_rows(struct collect_index *x, const struct collect_series_ref *of,
		      struct history_rows *rows)
{
	const struct collect_region *r;
	const struct collect_snapshot *b;
	const struct collect_ended *e;

	b = of->ended_ns ? NULL : find_snapshot(x, of->instance, &r);
	if (b) {
		*rows = (struct history_rows){b->layout, b->since_ns, b->row_ns ? b : NULL,
					      &r->worker->ring, 0};
		return true;
	}
	e = x ? collect_index_ended(x, of->instance, of->ended_ns) : NULL;
	if (e)
		*rows = (struct history_rows){e->layout, e->since_ns, NULL, e->ring, e->chunk};
	return e;
}

static ssize_t read_history(struct collect_collector *c, struct collect_chunk *read,
			    unsigned int room, const struct collect_series_ref *of,
			    int64_t known_ns, int64_t from_ns, int64_t to_ns,
			    struct collect_point *out, size_t max, struct base_budget *budget)
{
	struct collect_index *x = collect_index_get(c);
	const uint64_t instance = of->instance;
	const uint32_t metric = of->metric;
	struct taker t = {
		.out = out, .room = max, .from_ns = oldest_ns(c, from_ns), .to_ns = to_ns};
	struct history_rows b = {.chunk = 0};
	int64_t ns[COLLECT_COLUMN_ROWS];
	uint64_t v[COLLECT_COLUMN_ROWS], chunk, prev;
	struct collect_chunk *in;
	unsigned int n, nth = 0;
	bool more;

	if (!find_rows(x, of, &b) || metric >= b.layout->columns ||
	    b.layout->column[metric].removed) {
		collect_index_put(x);
		return -ENOENT;
	}
	if (b.since_ns && b.since_ns[metric] > known_ns) {
		collect_index_put(x);
		return -ESTALE;
	}
	t.metric = &b.layout->column[metric].def->metric;
	if (b.since_ns)
		t.from_ns = BASE_MAX(t.from_ns, b.since_ns[metric]);
	if (max) {
		chunk = b.chunk;
		n = b.open ? open_rows(b.open, metric, ns, v, &chunk) : 0;
		more = take_points(&t, ns, v, n) && base_budget_spend(budget, n);
		for (; more && chunk; chunk = prev) {
			more = base_budget_spend(budget, 0);
			if (!more ||
			    collect_ring_skip(b.ring, instance, chunk, metric, to_ns, &prev))
				continue;
			in = &read[nth++ % room];
			n = collect_ring_read(b.ring, instance, chunk, metric, in, v, &prev);
			/* Skip a chunk without points of this column. */
			if (n && in->ns[n - 1] < t.from_ns)
				break;
			more = !n ||
			       (base_budget_spend(budget, n) && take_points(&t, in->ns, v, n));
		}
	}
	memmove(out, out + t.room, (max - t.room) * sizeof(*out));
	collect_index_put(x);
	return (ssize_t)(max - t.room);
}

ssize_t collect_collector_points(struct collect_collector *c, const struct collect_series_ref *of,
				 int64_t known_ns, int64_t from_ns, int64_t to_ns,
				 struct collect_point *out, size_t max, struct base_budget *budget)
{
	struct collect_chunk read;

	if (of->part)
		return collect_past_totals(c->past, of, oldest_ns(c, from_ns), to_ns, out, max,
					   budget);
	read.chunk = 0;
	return read_history(c, &read, 1, of, known_ns, from_ns, to_ns, out, max, budget);
}

ssize_t collect_collector_history_again(struct collect_collector *c, struct collect_chunks *ch,
					const struct collect_series_ref *of, int64_t from_ns,
					int64_t to_ns, struct collect_point *out, size_t max,
					struct base_budget *budget)
{
	return read_history(c, ch->of, CHUNKS, of, INT64_MAX, from_ns, to_ns, out, max, budget);
}

/* ---- workers and totals ---- */

void collect_collector_workers(struct collect_collector *c,
			       void (*fn)(const struct collect_worker_view *, void *), void *arg)
{
	for (unsigned int i = 0; i < c->workers; i++) {
		struct collect_worker *w = &c->worker[i];
		uint64_t start = relaxed_load(w->start_ns);
		struct collect_worker_view v = {
			.worker = w->number,
			.cpu = relaxed_load(w->cpu),
			.rounds = relaxed_load(w->rounds),
			.missed_deadlines = relaxed_load(w->missed),
			.reads = relaxed_load(w->reads),
			.bytes = relaxed_load(w->bytes),
			.lines = relaxed_load(w->lines),
			.unsettled = relaxed_load(w->unsettled),
			.samples = relaxed_load(w->samples),
			.busy_ns = relaxed_load(w->busy_ns),
			.elapsed_ns = start ? base_now_ns() - start : 0,
			.read_errors = relaxed_load(w->read_errors),
			.latency_sum_ns = relaxed_load(w->latency_sum_ns),
		};

		for (unsigned int k = 0; k < REGION_FAULT_COUNT; k++)
			v.errors[k] = relaxed_load(w->faults[k]);
		for (unsigned int k = 0; k < COLLECT_LATENCY_BUCKETS; k++)
			v.latency[k] = relaxed_load(w->latency[k]);
		for (unsigned int k = 0; k < w->links; k++)
			v.regions += (uint32_t)relaxed_load(w->link[k].region_count);
		fn(&v, arg);
	}
}

void collect_collector_totals(struct collect_collector *c, struct collect_collector_totals *out)
{
	struct collect_index *x = collect_index_get(c);
	uint64_t now = base_now_ns();

	*out = (struct collect_collector_totals){
		.expired = relaxed_load(c->expired),
		.refused = relaxed_load(c->refused_regions) + relaxed_load(c->refused_series),
		.conflicts = relaxed_load(c->conflicts_kind) + relaxed_load(c->conflicts_name) +
			     relaxed_load(c->conflicts_duplicate) + relaxed_load(c->conflicts_sum),
		.memory_bytes = relaxed_load(c->memory),
		.series = x ? x->series : 0,
	};
	for (size_t i = 0; x && i < x->regions; i++) {
		const struct collect_region *r = x->region[i];
		uint32_t state = relaxed_load(r->state), step = relaxed_load(r->step);

		if (step == STEP_GONE)
			continue;
		out->regions++;
		if (step == STEP_DROPPED)
			out->dropped++;
		else if (state == SL_STATE_LIVE)
			out->live++;
		else if (state == SL_STATE_DEAD)
			out->dead++;
		else if (state == SL_STATE_CLOSED)
			out->closed++;
	}
	collect_index_put(x);
	for (unsigned int i = 0; i < c->workers; i++) {
		out->history_bytes += collect_ring_bytes(&c->worker[i].ring) +
				      relaxed_load(c->worker[i].row_bytes);
		out->history_points += relaxed_load(c->worker[i].ring.points);
	}
	for (size_t i = 0; i < c->hosts; i++) {
		enum collect_host_condition condition = collect_host_condition(&c->host[i], now);

		if (!relaxed_load(c->host[i].wanted))
			continue;
		out->hosts++;
		out->hosts_up += condition == COLLECT_HOST_UP;
		out->hosts_stale += condition == COLLECT_HOST_STALE;
	}
}
