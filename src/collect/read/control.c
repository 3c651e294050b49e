// SPDX-License-Identifier: Apache-2.0
/*
 * control.c - the control thread: drains the workers' queue, turns schemas into layouts, lists
 * regions and, at most ten times per second, makes a new index if something changed
 */
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/read/collector_internal.h"
#include "collect/read/ended.h"
#include "collect/read/index.h"
#include "collect/read/ref.h"
#include "collect/read/worker.h"

#define INDEX_NS 100000000u  /* minimum time between two indexes */
#define TRIM_NS	 1000000000u /* minimum time between two attempts to return memory to the system */
/*
 * CPU time for making layouts: a tenant may use 1 / LAYOUT_PART of the elapsed time, and saves up
 * at most the share of LAYOUT_SAVED_NS. Trusted tenants are exempt.
 */
#define LAYOUT_PART	8u
#define LAYOUT_SAVED_NS 8000000000u
#define DEPARTED	64 /* number of removed regions that makes malloc_trim() worthwhile */

void collect_control_wake(struct collect_collector *c)
{
	eventfd_write(c->wake_fd, 1); /* a full eventfd counter wakes the thread as well */
}

static bool list_region(struct collect_collector *c, struct collect_region *r)
{
	if (!BASE_GROW(c->region, c->regions, c->region_capacity))
		return false;
	collect_ref_get(&r->refs);
	r->listed = true;
	r->list_index = c->regions;
	c->region[c->regions++] = r;
	return true;
}

static void unlist_region(struct collect_collector *c, struct collect_region *r)
{
	struct collect_region *last = c->region[--c->regions];

	c->region[r->list_index] = last;
	last->list_index = r->list_index;
	r->listed = false;
	collect_region_put(r);
}

/* ---- layouts ---- */

/* Control owns the schema that the worker handed over until built is set. */
static void build_layout(struct collect_collector *c, struct collect_region *r)
{
	struct collect_built *built = &r->reply;
	struct collect_layout *layout;

	*built = (struct collect_built){.fault = REGION_FAULT_NONE};
	if (r->synthetic)
		layout = c->reader->layout(r);
	else
		layout = collect_layout_new(c, r, r->schema_bytes, r->schema_length,
					    r->schema_generation, &built->fault);
	free(r->schema_bytes);
	r->schema_bytes = NULL;
	if (layout) {
		built->snapshot = collect_snapshot_new(layout, r);
		collect_layout_put(layout);
	}
	if (built->snapshot) {
		collect_ref_get(&built->snapshot->refs);
		collect_snapshot_put(r->pending, c);
		r->pending = built->snapshot;
	}
	/*
	 * Pairs with the acquire in collect_schema_install(): the worker sees a complete snapshot.
	 */
	__atomic_store_n(&r->built, built, __ATOMIC_RELEASE);
}

/* Adds the schema to its tenant's queue. */
static void queue_build(struct collect_collector *c, struct collect_region *r)
{
	struct collect_tenant *t = r->tenant;
	uint64_t least = UINT64_MAX;

	if (!t->exempt && base_now_ns() <= t->layout_at_ns)
		collect_region_hold(r);
	collect_ref_get(&r->refs);
	r->build_next = NULL;
	*t->build_end = r;
	t->build_end = &r->build_next;
	if (t->waits)
		return;
	/*
	 * An idle tenant must not save up time: it starts level with the busy tenant that has spent
	 * the least.
	 */
	for (const struct collect_tenant *o = c->tenants; o; o = o->next)
		least = BASE_MIN(least, o->spent_ns);
	if (least != UINT64_MAX)
		t->spent_ns = BASE_MAX(t->spent_ns, least);
	t->waits = true;
	t->next = c->tenants;
	c->tenants = t;
}

/*
 * Makes one layout, for the tenant that has spent the least time on layouts among those with credit
 * left. Returns the time at which the next layout is due; UINT64_MAX means none waits.
 */
static uint64_t build_one(struct collect_collector *c, uint64_t now_ns)
{
	struct collect_tenant **best = NULL, *t;
	uint64_t due = UINT64_MAX, spent_ns;
	struct collect_region *r;

	for (struct collect_tenant **at = &c->tenants; *at; at = &(*at)->next) {
		if (!(*at)->exempt && now_ns <= (*at)->layout_at_ns)
			due = BASE_MIN(due, (*at)->layout_at_ns + 1);
		else if (!best || (*at)->spent_ns < (*best)->spent_ns)
			best = at;
	}
	if (!best)
		return due;
	t = *best;
	r = t->build;
	t->build = r->build_next;
	if (!t->build) {
		t->build_end = &t->build;
		t->waits = false;
		*best = t->next;
	}
	if (!r->ended)
		build_layout(c, r);
	spent_ns = base_now_ns() - now_ns;
	t->spent_ns += spent_ns;
	now_ns -= BASE_MIN(now_ns, LAYOUT_SAVED_NS);
	t->layout_at_ns = BASE_MAX(t->layout_at_ns, now_ns) + spent_ns * LAYOUT_PART;
	relaxed_bump(t->layout_ns, spent_ns);
	collect_region_put(r);
	return 0;
}

static void drop_builds(struct collect_collector *c)
{
	for (; c->tenants; c->tenants = c->tenants->next)
		for (struct collect_region *r = c->tenants->build, *next; r; r = next) {
			next = r->build_next;
			collect_region_put(r);
		}
}

/* ---- events ---- */

static void remove_region(struct collect_collector *c, struct collect_region *r)
{
	r->ended = true;
	/* If the publisher goes on, its values would count twice once its host is back. */
	if (c->opts.sum_processes && !r->left)
		collect_retire_region(c, r);
	collect_ended_add(c, r);
	collect_snapshot_put(r->shown, c);
	collect_snapshot_put(r->pending, c);
	r->shown = r->pending = NULL;
	relaxed_sub(c->series_count, r->series);
	relaxed_sub(r->tenant->series, r->series);
	r->series = 0;
	c->departed++;
	if (r->listed)
		unlist_region(c, r);
}

/*
 * The index must be made again. A tenant that caused the last index waits nine times as long as
 * making it took, so that the tenant costs a tenth of a core at most; other tenants do not wait for
 * it.
 */
static void mark_index(struct collect_collector *c, struct collect_tenant *t)
{
	relaxed_store(c->dirty, true);
	c->index_due_ns = BASE_MIN(c->index_due_ns, t->index_ns);
	if (!t->indexes && base_now_ns() < t->index_ns)
		relaxed_add(t->held_layouts, 1);
	t->indexes = true;
}

static void handle_events(struct collect_collector *c, struct collect_region *r)
{
	unsigned int events = __atomic_exchange_n(&r->events, 0, __ATOMIC_ACQ_REL);

	if (events & EVENT_NEW && !r->listed && !list_region(c, r))
		base_log_limited(BASE_ERROR, "collect",
				 "out of memory: a region is missing from "
				 "the list");
	/*
	 * Install the pending snapshot before build_layout() replaces it with an empty one. A
	 * pending snapshot without values stays: the event was for the previous snapshot.
	 */
	if (events & EVENT_SNAPSHOT && r->pending && relaxed_load(r->pending->seq) > 1) {
		collect_snapshot_put(r->shown, c);
		r->shown = r->pending;
		r->pending = NULL;
	}
	if (events & EVENT_SCHEMA)
		queue_build(c, r);
	if (events & EVENT_GONE)
		remove_region(c, r);
	if (events & ~(unsigned int)EVENT_SCHEMA)
		mark_index(c, r->tenant);
}

static void drain_queue(struct collect_collector *c)
{
	struct collect_region *r = __atomic_exchange_n(&c->queue, NULL, __ATOMIC_ACQUIRE),
			      *reversed = NULL;

	/* The stack has the newest region on top; handle the oldest first. */
	while (r) {
		struct collect_region *next = r->queue_next;

		r->queue_next = reversed;
		reversed = r;
		r = next;
	}
	while (reversed) {
		struct collect_region *next = reversed->queue_next;

		handle_events(c, reversed);
		collect_region_put(reversed);
		reversed = next;
	}
}

/*
 * Also called on startup, so that the collector's own series are exposed. Returns the earliest time
 * of the next index for any tenant.
 */
static uint64_t renew_index(struct collect_collector *c)
{
	uint64_t start = base_now_ns(), end;
	struct collect_index *x = collect_index_new(c), *old;

	end = base_now_ns();
	for (size_t i = 0; i < c->regions; i++) {
		struct collect_tenant *t = c->region[i]->tenant;

		if (t->indexes)
			t->index_ns = end + BASE_MAX(INDEX_NS, 9 * (end - start));
		t->indexes = false;
	}
	if (!x) {
		base_log_limited(BASE_ERROR, "collect", "out of memory: the index was not updated");
		return end + BASE_MAX(INDEX_NS, end - start);
	}
	c->index_due_ns = UINT64_MAX;
	pthread_mutex_lock(&c->index_lock);
	old = c->index;
	c->index = x;
	pthread_mutex_unlock(&c->index_lock);
	relaxed_store(c->index_builds, c->index_builds + 1);
	relaxed_store(c->dirty, false);
	collect_index_put(old);
	return end + BASE_MAX(INDEX_NS, end - start);
}

void *collect_control_main(void *arg)
{
	struct collect_collector *c = arg;
	uint64_t next_ns = 0, trim_ns = 0, build_ns, due;
	eventfd_t count;

	pthread_setname_np(pthread_self(), "control");
	relaxed_store(c->dirty, true);
	while (!relaxed_load(c->over)) {
		uint64_t now = base_now_ns();
		int wait = 1000;

		relaxed_bump(c->turns, 1);
		drain_queue(c);
		build_ns = build_one(c, now);
		now = base_now_ns();
		if (c->dirty && now >= BASE_MAX(next_ns, c->index_due_ns))
			next_ns = renew_index(c);
		if (now >= trim_ns) {
			for (unsigned int i = 0; i < c->workers; i++)
				if (c->worker[i].ring.word)
					collect_ring_trim(&c->worker[i].ring);
			collect_ended_expire(c);
			if (collect_retired_expire(c, now)) {
				relaxed_store(c->dirty, true);
				c->index_due_ns = BASE_MIN(c->index_due_ns, now);
			}
			if (c->departed >= DEPARTED && c->departed >= c->regions) {
				malloc_trim(0);
				c->departed = 0;
			}
			trim_ns = now + TRIM_NS;
		}
		due = BASE_MAX(next_ns, c->index_due_ns);
		if (c->dirty)
			wait = now < due ? (int)BASE_MIN((due - now) / 1000000u, 999u) + 1 : 1;
		if (build_ns < now + (uint64_t)wait * 1000000u)
			wait = build_ns > now ? (int)((build_ns - now) / 1000000u) + 1 : 0;
		if (poll(&(struct pollfd){.fd = c->wake_fd, .events = POLLIN}, 1, wait) > 0)
			eventfd_read(c->wake_fd, &count);
	}
	drain_queue(c);
	drop_builds(c);
	return NULL;
}
