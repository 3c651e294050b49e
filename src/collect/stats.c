// SPDX-License-Identifier: Apache-2.0
/* stats.c - the collector seen from outside: hosts, regions, metrics, history, workers, totals. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/link/link.h"

/* ---- hosts ------------------------------------------------------------------------------------------- */

enum sl_host_condition host_condition(const struct host *h, uint64_t now_ns)
{
	uint64_t fresh = GET(h->fresh_ns);

	if (fresh && now_ns < fresh + h->c->opts.stale_ns)
		return SL_HOST_UP;
	/* Before it was ever read it is being connected, until that has failed once. */
	for (unsigned int i = 0; !fresh && i < h->links; i++)
		if (!GET(h->link[i]->tried))
			return SL_HOST_CONNECTING;
	return SL_HOST_STALE;
}

static void add_stats(struct sl_fabric_stats *to, const struct sl_fabric_stats *from)
{
	to->reads += from->reads;
	to->bytes += from->bytes;
	to->work_requests += from->work_requests;
	to->doorbells += from->doorbells;
	to->errors_timeout += from->errors_timeout;
	to->errors_access += from->errors_access;
	to->errors_other += from->errors_other;
	to->wrong_id += from->wrong_id;
	to->connects += from->connects;
	to->disconnects += from->disconnects;
	if (!to->last_error[0])
		memcpy(to->last_error, from->last_error, sizeof(to->last_error));
}

void sl_collector_hosts(struct sl_collector *c, void (*fn)(const struct sl_host_view *, void *),
			void *arg)
{
	uint64_t now = sl_now_ns();

	for (size_t i = 0; i < c->hosts; i++) {
		struct host *h = &c->host[i];
		struct sl_host_view v = {
			.target = h->target,
			.fabric = h->fabric,
			.hostname = host_name(h),
			.condition = host_condition(h, now),
			.last_read_ns = GET(h->last_read_ns),
		};

		for (unsigned int k = 0; k < h->links; k++) {
			struct link *l = h->link[k];

			v.regions += (uint32_t)GET(l->region_count);
			pthread_mutex_lock(&l->stats_lock);
			add_stats(&v.stats, &l->stats);
			pthread_mutex_unlock(&l->stats_lock);
		}
		fn(&v, arg);
	}
}

/* ---- regions ------------------------------------------------------------------------------------------- */

void sl_collector_regions(struct sl_collector *c, void (*fn)(const struct sl_region_view *, void *),
			  void *arg)
{
	struct index *x = index_get(c);
	uint64_t now = sl_now_ns();

	for (size_t i = 0; x && i < x->regions; i++) {
		const struct region *r = x->region[i];
		const struct board *b = x->board[i];
		enum sl_fault fault = (enum sl_fault)GET(r->fault);
		struct sl_region_view v = {
			.info = r->info,
			.target = r->host->target,
			.hostname = host_name(r->host),
			.state = GET(r->state),
			.changed_ns = GET(r->changed_ns),
			.metrics = b ? b->layout->columns : 0,
			.series = b ? b->layout->columns : 0,
			.unsettled = GET(r->unsettled),
			.refused = GET(r->refused),
			.rounds = GET(r->rounds),
			.last_read_ns = GET(r->last_read_ns),
			.fault = fault == SL_FAULT_NONE ? "" : sl_fault_name(fault),
		};

		if (GET(r->step) == STEP_GONE)
			continue;
		v.stale = !region_visible(r, now);
		fn(&v, arg);
	}
	index_put(x);
}

/* ---- one region ------------------------------------------------------------------------------------------ */

/* The board of a region, with the index that keeps it. NULL if there is none. */
static const struct board *find_board(struct index *x, uint64_t instance,
				      const struct region **region)
{
	ssize_t i = x ? index_find(x, instance) : -1;

	if (i < 0 || !x->board[i])
		return NULL;
	*region = x->region[i];
	return x->board[i];
}

int sl_collector_metrics(struct sl_collector *c, uint64_t instance,
			 void (*fn)(const struct sl_metric *, const uint64_t *value, void *),
			 void *arg)
{
	struct index *x = index_get(c);
	const struct region *r;
	const struct board *b = find_board(x, instance, &r);
	uint64_t *cell;
	int err = -ENOENT;

	if (!b)
		goto out;
	err = -ENOMEM;
	cell = malloc((b->layout->cells + (size_t)1) * sizeof(*cell));
	if (!cell)
		goto out;
	board_read(b, 0, b->layout->cells, cell);
	for (uint32_t i = 0; i < b->layout->columns; i++) {
		struct sl_metric m = b->layout->column[i].def->metric;

		m.id = i;
		m.cell = b->layout->column[i].cell;
		fn(&m, cell + m.cell, arg);
	}
	free(cell);
	err = 0;
out:
	index_put(x);
	return err;
}

/* ---- history ------------------------------------------------------------------------------------------------ */

/* Points are filled in from the end of out[]: the newest ones are known first. */
struct taker {
	struct sl_point *out;
	size_t room; /* free at the start of out[] */
	int64_t from_ns, to_ns;
	const struct sl_metric *metric;
};

/* Takes points, oldest first, from their end. True while older ones may be wanted. */
static bool take(struct taker *t, const int64_t *ns, const uint64_t *v, unsigned int n)
{
	while (n--) {
		if (ns[n] < t->from_ns || !t->room)
			return false;
		if (ns[n] > t->to_ns)
			continue;
		t->out[--t->room] = (struct sl_point){ns[n], history_double(t->metric, v[n])};
	}
	return t->room > 0;
}

/* The rows that were not packed yet, and the chunk before them, as they were together. */
static unsigned int open_rows(const struct board *b, uint32_t column, int64_t *ns, uint64_t *v,
			      uint64_t *chunk)
{
	const struct layout *l = b->layout;
	uint64_t seq;
	uint32_t n;

	do {
		seq = board_begin(b);
		n = GET(b->rows);
		n = n < SL_COLUMN_ROWS ? n : SL_COLUMN_ROWS;
		for (uint32_t i = 0; i < n; i++) {
			ns[i] = GET(b->row_ns[i]);
			v[i] = GET(b->row[(size_t)i * l->columns + column]);
		}
		*chunk = GET(b->chunk);
	} while (board_retry(b, seq));
	return n;
}

ssize_t sl_collector_history_between(struct sl_collector *c, uint64_t instance, uint32_t metric,
				     int64_t from_ns, int64_t to_ns, struct sl_point *out,
				     size_t max)
{
	struct index *x = index_get(c);
	const struct region *r;
	const struct board *b = find_board(x, instance, &r);
	struct taker t = {.out = out, .room = max, .from_ns = from_ns, .to_ns = to_ns};
	int64_t ns[SL_COLUMN_ROWS];
	uint64_t v[SL_COLUMN_ROWS], chunk, prev;
	unsigned int n;
	bool more;

	if (!b || metric >= b->layout->columns) {
		index_put(x);
		return -ENOENT;
	}
	t.metric = &b->layout->column[metric].def->metric;
	if (c->opts.history_ns) {
		int64_t oldest = (int64_t)sl_realtime_ns() - (int64_t)c->opts.history_ns;

		t.from_ns = oldest > from_ns ? oldest : from_ns;
	}
	if (b->row_ns && max) {
		n = open_rows(b, metric, ns, v, &chunk);
		for (more = take(&t, ns, v, n); more && chunk; chunk = prev) {
			if (sl_ring_after(&r->worker->ring, instance, chunk, to_ns, &prev))
				continue;
			n = sl_ring_read(&r->worker->ring, instance, chunk, metric, ns, v, &prev);
			/* Chunks of other columns come in between. */
			if (n && ns[n - 1] < t.from_ns)
				break;
			more = !n || take(&t, ns, v, n);
		}
	}
	memmove(out, out + t.room, (max - t.room) * sizeof(*out));
	index_put(x);
	return (ssize_t)(max - t.room);
}

ssize_t sl_collector_history(struct sl_collector *c, uint64_t instance, uint32_t metric,
			     int64_t from_ns, struct sl_point *out, size_t max)
{
	return sl_collector_history_between(c, instance, metric, from_ns, INT64_MAX, out, max);
}

/* ---- workers and totals ----------------------------------------------------------------------------------------- */

void sl_collector_workers(struct sl_collector *c, void (*fn)(const struct sl_worker_view *, void *),
			  void *arg)
{
	for (unsigned int i = 0; i < c->workers; i++) {
		struct worker *w = &c->worker[i];
		uint64_t start = GET(w->start_ns);
		struct sl_worker_view v = {
			.worker = w->number,
			.cpu = GET(w->cpu),
			.rounds = GET(w->rounds),
			.missed_deadlines = GET(w->missed),
			.reads = GET(w->reads),
			.bytes = GET(w->bytes),
			.lines = GET(w->lines),
			.unsettled = GET(w->unsettled),
			.samples = GET(w->samples),
			.busy_ns = GET(w->busy_ns),
			.elapsed_ns = start ? sl_now_ns() - start : 0,
			.read_errors = GET(w->read_errors),
			.latency_sum_ns = GET(w->latency_sum_ns),
		};

		for (unsigned int k = 0; k < SL_FAULT_COUNT; k++)
			v.errors[k] = GET(w->faults[k]);
		for (unsigned int k = 0; k < SL_LATENCY_BUCKETS; k++)
			v.latency[k] = GET(w->latency[k]);
		for (unsigned int k = 0; k < w->links; k++)
			v.regions += (uint32_t)GET(w->link[k].region_count);
		fn(&v, arg);
	}
}

void sl_collector_totals(struct sl_collector *c, struct sl_collector_totals *out)
{
	struct index *x = index_get(c);
	uint64_t now = sl_now_ns();

	*out = (struct sl_collector_totals){
		.expired = GET(c->expired),
		.refused = GET(c->refused_regions) + GET(c->refused_series),
		.conflicts = GET(c->conflicts_kind) + GET(c->conflicts_name) +
			     GET(c->conflicts_duplicate) + GET(c->conflicts_sum),
		.memory_bytes = GET(c->memory),
		.hosts = c->hosts,
		.series = x ? x->series : 0,
	};
	for (size_t i = 0; x && i < x->regions; i++) {
		const struct region *r = x->region[i];
		uint32_t state = GET(r->state), step = GET(r->step);

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
	index_put(x);
	for (unsigned int i = 0; i < c->workers; i++) {
		out->history_bytes += sl_ring_bytes(&c->worker[i].ring) +
				      GET(c->worker[i].row_bytes);
		out->history_points += GET(c->worker[i].ring.points);
	}
	for (size_t i = 0; i < c->hosts; i++) {
		enum sl_host_condition condition = host_condition(&c->host[i], now);

		out->hosts_up += condition == SL_HOST_UP;
		out->hosts_stale += condition == SL_HOST_STALE;
	}
}
