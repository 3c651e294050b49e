// SPDX-License-Identifier: Apache-2.0
/*
 * link.c - one connection of a worker to a host: its rounds, and the recovery when the connection
 * is lost
 *
 * Nothing here blocks: collect_link_poll() drives the connection, takes completions and posts
 * READs. A round is the directory's hot line and one pass over each region; a pass is the READs of
 * the region's plan. A new region, or one whose layout changed, is set up outside the rounds
 * ("urgent").
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/read/link.h"
#include "collect/read/host.h"
#include "collect/read/turn.h"
#include "collect/read/worker.h"

#define DRIVE_NS 5000000u   /* time between two calls of fabric_drive() within a round */
#define STATS_NS 100000000u /* time between two copies of the fabric's counters */
/* do not wait longer than this for a region before reporting "settled" */
#define SETTLE_NS 2000000000u
#define OPEN_NS	  1000000000u /* time between two attempts to open a link */

int collect_link_open(struct collect_link *l, char *error, size_t error_bytes)
{
	l->fabric = fabric_open(l->host->target, &l->c->opts.fabric);
	if (!l->fabric)
		return base_fail(error, error_bytes, -errno, "%s",
				 *fabric_error() ? fabric_error() : strerror(errno));
	l->dir = calloc(1, sizeof(*l->dir));
	if (!l->dir || collect_reads_init(l) || !base_table_init(&l->by_instance))
		return -ENOMEM;
	relaxed_store(l->host->fabric, fabric_name(l->fabric));
	return 0;
}

/* Closes a link without regions, which may have been opened only in part. */
static void close_link(struct collect_link *l)
{
	collect_turns_free(l);
	base_table_free(&l->by_instance);
	fabric_close(l->fabric);
	l->fabric = NULL;
	collect_reads_free(l);
	free(l->dir);
	l->dir = NULL;
	relaxed_store(l->state, FABRIC_DOWN);
}

void collect_link_init(struct collect_link *l, struct collect_worker *w, struct collect_host *h,
		       unsigned int queue)
{
	*l = (struct collect_link){
		.c = w->c, .host = h, .worker = w, .queue = queue, .tried = !*h->target};
	pthread_mutex_init(&l->stats_lock, NULL);
	h->link[queue] = l;
}

/* Regions of an attached reader are read by the host's first link. */
static bool has_reader(const struct collect_link *l)
{
	return l->c->reader && !l->queue;
}

uint64_t collect_link_due_beside(const struct collect_link *l)
{
	return has_reader(l) ? l->c->reader->due(l) : UINT64_MAX;
}

static void poll_beside(struct collect_link *l, uint64_t now_ns)
{
	if (has_reader(l))
		l->c->reader->poll(l, now_ns);
}

void collect_link_free(struct collect_link *l)
{
	collect_fetch_free(l);
	if (has_reader(l))
		l->c->reader->end(l);
	collect_table_free(l);
	close_link(l);
	free(l->tenant);
	free(l->slot);
	pthread_mutex_destroy(&l->stats_lock);
}

void collect_link_start_round(struct collect_link *l, uint64_t now_ns)
{
	l->drive_ns = 0;
	if (l->state != FABRIC_UP || !relaxed_load(l->host->wanted))
		return;
	collect_directory_expire_orphans(l, now_ns);
	collect_table_sweep(l);
	collect_turns_begin(l, now_ns);
	l->active = true;
	l->cursor = 0;
	l->progress_ns = now_ns;
	/* In the second half of the lease, read the directory before using its entries. */
	l->gated = !l->dir_ok_ns || now_ns - l->dir_ok_ns > l->dir_lease_ns / 2;
	collect_directory_read(l, now_ns);
	if (!l->dir_known)
		l->cursor = UINT32_MAX; /* read nothing else in this round */
}

/* Returns false if there is no room for the region's READs now. */
static bool read_region(struct collect_link *l, struct collect_region *r)
{
	bool slow = r->pass ? r->slow : collect_turn_slow(r);
	bool due = !slow || collect_turn_due(r);

	if (!r->pass && !(due && collect_pass_start(l, r, slow)))
		return true;
	return collect_pass_issue(l, r) || slow;
}

static void advance_round(struct collect_link *l, uint64_t now_ns)
{
	if (!l->active || l->gated)
		return;
	if (l->cursor < l->regions && !collect_directory_lease_holds(l, now_ns)) {
		collect_pass_cut_short(l, l->region[l->cursor]);
		l->cursor = UINT32_MAX;
	}
	while (l->cursor < l->regions) {
		struct collect_region *r = l->region[l->cursor];

		if (r->step == STEP_BOUND && !r->gone && !collect_reads_beside(l->c, r->kind) &&
		    !read_region(l, r))
			return;
		/*
		 * This also handles regions that could not be put on the urgent list for lack of
		 * memory.
		 */
		if (!r->gone && !r->synthetic &&
		    (r->schema_step != SCHEMA_IDLE || r->step == STEP_MAP ||
		     (r->step == STEP_DROPPED && now_ns >= r->retry_ns)))
			collect_table_urgent(l, r);
		l->cursor++;
	}
}

static void finish_round(struct collect_link *l, uint64_t now_ns)
{
	if (!l->active || l->gated || l->cursor < l->regions || l->dir_busy || l->passes ||
	    l->entries_active)
		return;
	l->active = false;
	relaxed_bump(l->rounds, 1);
	/* Every region of the first directory has been read, or cannot be read. */
	if (l->dir_ok_ns && !l->dir_moved && (!l->urgents || now_ns - l->up_ns > SETTLE_NS))
		relaxed_store(l->settled, true);
}

static void lose_regions(struct collect_link *l, uint64_t now_ns)
{
	for (uint32_t i = 0; i < l->regions; i++) {
		struct collect_region *r = l->region[i];

		if (!r->gone && !r->synthetic && r->step != STEP_UNBOUND && r->step != STEP_GONE)
			collect_region_unbind(l, r, now_ns);
	}
	collect_directory_forget(l);
	l->active = false;
	l->gated = false;
}

static void snapshot_stats(struct collect_link *l, uint64_t now_ns)
{
	if (now_ns - l->stats_ns < STATS_NS || pthread_mutex_trylock(&l->stats_lock))
		return;
	fabric_stats(l->fabric, &l->stats);
	pthread_mutex_unlock(&l->stats_lock);
	l->stats_ns = now_ns;
}

/*
 * Logs once that a wanted host is unreachable, and once that it is reachable again. Only the first
 * queue logs.
 */
static void log_away(struct collect_link *l)
{
	const bool up = l->state == FABRIC_UP;
	struct fabric_stats stats;

	if (l->queue || l->state == FABRIC_CONNECTING || up != l->away ||
	    !relaxed_load(l->host->wanted))
		return;
	l->away = !up;
	fabric_stats(l->fabric, &stats);
	if (up)
		base_log_each(BASE_INFO, "collect", l->host->target,
			      "host is reachable again host=%s", l->host->target);
	else
		base_log_each(
			BASE_WARN, "collect", l->host->target,
			"host is unreachable, retrying host=%s error=\"%s\": check that its agent "
			"is running",
			l->host->target, stats.last_error);
}

static void drive_fabric(struct collect_link *l, uint64_t now_ns)
{
	enum fabric_state before = l->state;
	uint64_t epoch = l->epoch;
	enum fabric_state state = fabric_drive(l->fabric, now_ns, &epoch);

	l->drive_ns = now_ns + DRIVE_NS;
	if (epoch != l->epoch || (before == FABRIC_UP && state != FABRIC_UP)) {
		l->epoch = epoch;
		l->up_ns = now_ns;
		lose_regions(l, now_ns);
		collect_reads_cancel(l, now_ns);
	}
	if (state == FABRIC_UP && before != FABRIC_UP)
		l->up_ns = now_ns;
	relaxed_store(l->state, state);
	if (state == FABRIC_DOWN)
		relaxed_store(l->tried, true);
	log_away(l);
	snapshot_stats(l, now_ns);
}

/*
 * Returns true if the link is open. Opens the link of a host that is wanted for the first time, or
 * again.
 */
static bool is_open(struct collect_link *l, uint64_t now_ns)
{
	char error[256] = "out of memory";
	bool failed;

	if (l->fabric)
		return true;
	if (!__atomic_load_n(&l->host->wanted, __ATOMIC_ACQUIRE) || now_ns < l->open_ns)
		return false;
	failed = collect_link_open(l, error, sizeof(error));
	if (failed && !l->failed)
		base_logf(BASE_WARN, "collect",
			  "host cannot be read, will retry host=%s error=\"%s\"", l->host->target,
			  error);
	if (failed) {
		close_link(l);
		l->open_ns = now_ns + OPEN_NS;
	}
	l->failed = failed;
	return !failed;
}

static void forget_regions(struct collect_link *l)
{
	while (l->urgents)
		l->urgent[--l->urgents]->urgent = false;
	for (uint32_t i = 0; i < l->regions; i++) {
		struct collect_region *r = l->region[i];

		if (r->gone || r->synthetic) /* synthetic regions expire when they are idle */
			continue;
		r->left = true;
		collect_table_remove(l, r);
	}
	collect_table_sweep(l);
}

/*
 * Posts no more READs, and releases the regions once no READ is in flight. If the host stays
 * unwanted, forgets its regions, and closes the link when the last synthetic one has expired.
 */
static bool poll_unwanted(struct collect_link *l, uint64_t now_ns)
{
	bool any = collect_reads_poll(l, now_ns), left;

	if (!l->paused && !l->ops_live) {
		lose_regions(l, now_ns);
		collect_reads_cancel(l, now_ns);
		l->paused = true;
		l->paused_ns = now_ns;
	}
	left = l->paused && now_ns - l->paused_ns >= l->c->opts.unwanted_ns;
	if (left) {
		forget_regions(l);
		poll_beside(l, now_ns);
	}
	collect_fetch_poll(l, now_ns);
	if (left && !l->regions)
		close_link(l);
	return any;
}

bool collect_link_poll(struct collect_link *l, uint64_t now_ns)
{
	bool any;

	if (!is_open(l, now_ns)) {
		collect_fetch_poll(l, now_ns); /* for regions that are gone */
		return false;
	}
	if (now_ns >= l->drive_ns)
		drive_fabric(l, now_ns);
	if (!relaxed_load(l->host->wanted))
		return poll_unwanted(l, now_ns);
	l->paused = false;
	any = collect_reads_poll(l, now_ns);
	if (l->state == FABRIC_UP) {
		if (!l->dir_busy && (l->gated || !l->dir_ok_ns))
			collect_directory_read(l, now_ns);
		collect_directory_read_entries(l, now_ns);
		advance_round(l, now_ns);
		collect_region_setup(l, now_ns);
		poll_beside(l, now_ns);
		collect_fetch_poll(l, now_ns);
		any |= collect_reads_post(l, now_ns);
		finish_round(l, now_ns);
	} else {
		poll_beside(l, now_ns);
		collect_fetch_poll(l, now_ns);
	}
	if (any)
		l->progress_ns = now_ns;
	return any;
}
