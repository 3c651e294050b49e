// SPDX-License-Identifier: Apache-2.0
/*
 * link.c - one connection of a worker to a host: its rounds, and what is done when it is lost.
 *
 * Everything here happens in small steps that never wait: link_turn() looks after the connection,
 * takes completions and posts what comes next. A round is the directory's hot line and one pass
 * over each region; a pass is the READs of the region's plan. A region that appears, or whose
 * layout moved, is brought up beside the rounds ("urgent"), so that a long period does not delay it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/kernel/flows.h"
#include "collect/kernel/segment_ring.h"
#include "collect/kernel/slots.h"

#define DRIVE_NS  5000000u    /* between two looks at the connection within a round */
#define STATS_NS  100000000u  /* between two snapshots of the fabric's counters */
#define SETTLE_NS 2000000000u /* the start is over, whatever a region still wants */

int link_init(struct link *l, struct worker *w, struct host *h, unsigned int queue, char *error,
	      size_t error_bytes)
{
	*l = (struct link){.c = w->c, .host = h, .worker = w, .queue = queue};
	pthread_mutex_init(&l->stats_lock, NULL);
	l->fabric = sl_fabric_open(h->target, &w->c->opts.fabric);
	if (!l->fabric) {
		int err = -errno;

		snprintf(error, error_bytes, "%s",
			 *sl_fabric_error() ? sl_fabric_error() : strerror(-err));
		return err;
	}
	l->dir = calloc(1, sizeof(*l->dir));
	if (!l->dir || reads_init(l) || table_init(l))
		return -ENOMEM;
	h->link[queue] = l;
	h->fabric = sl_fabric_name(l->fabric);
	return 0;
}

void link_free(struct link *l)
{
	fetch_free(l);
	table_free(l);
	workloads_free(l);
	sl_fabric_close(l->fabric);
	reads_free(l);
	free(l->dir);
	free(l->slot);
	pthread_mutex_destroy(&l->stats_lock);
}

void link_start_round(struct link *l, uint64_t now_ns)
{
	l->drive_ns = 0;
	if (l->state != SL_FABRIC_UP)
		return;
	directory_expire_orphans(l, now_ns);
	table_sweep(l);
	l->active = true;
	l->cursor = 0;
	l->progress_ns = now_ns;
	/* Entries that were not confirmed for long are confirmed before they are used. */
	l->gated = !l->dir_ok_ns || now_ns - l->dir_ok_ns > l->dir_lease_ns / 2;
	directory_read(l, now_ns);
	if (!l->dir_known)
		l->cursor = UINT32_MAX; /* nothing else to do in this round */
}

static void advance_round(struct link *l, uint64_t now_ns)
{
	if (!l->active || l->gated)
		return;
	if (l->cursor < l->regions && !directory_lease_holds(l, now_ns)) {
		pass_cut_short(l, l->region[l->cursor]);
		l->cursor = UINT32_MAX;
	}
	while (l->cursor < l->regions) {
		struct region *r = l->region[l->cursor];

		if (r->step == STEP_BOUND && !r->gone && !is_table(r->kind)) {
			if ((r->pass || pass_start(l, r)) && !pass_issue(l, r))
				return;
		}
		/* Also what should be urgent, and there was no memory for the list. */
		if (!r->gone && !r->made &&
		    (r->schema_step != SCHEMA_IDLE || r->step == STEP_MAP ||
		     (r->step == STEP_DROPPED && now_ns >= r->retry_ns)))
			table_urgent(l, r);
		l->cursor++;
	}
}

static void finish_round(struct link *l, uint64_t now_ns)
{
	if (!l->active || l->gated || l->cursor < l->regions || l->dir_busy || l->passes ||
	    l->entries_active)
		return;
	l->active = false;
	BUMP(l->rounds, 1);
	/* All that was there at first was read, or does not let itself be read. */
	if (l->dir_ok_ns && !l->dir_moved && (!l->urgents || now_ns - l->up_ns > SETTLE_NS))
		SET(l->settled, true);
}

static void lost(struct link *l, uint64_t now_ns)
{
	for (uint32_t i = 0; i < l->regions; i++) {
		struct region *r = l->region[i];

		if (!r->gone && !r->made && r->step != STEP_UNBOUND && r->step != STEP_GONE)
			life_unbind(l, r, now_ns);
	}
	directory_forget(l);
	l->active = false;
	l->gated = false;
}

static void snapshot_stats(struct link *l, uint64_t now_ns)
{
	if (now_ns - l->stats_ns < STATS_NS || pthread_mutex_trylock(&l->stats_lock))
		return;
	sl_fabric_stats(l->fabric, &l->stats);
	pthread_mutex_unlock(&l->stats_lock);
	l->stats_ns = now_ns;
}

/* Says once that a host is not reached, and once that it is again. The first queue speaks for all. */
static void tell_away(struct link *l)
{
	const bool up = l->state == SL_FABRIC_UP;
	struct sl_fabric_stats stats;

	if (l->queue || l->state == SL_FABRIC_CONNECTING || up != l->away)
		return;
	l->away = !up;
	sl_fabric_stats(l->fabric, &stats);
	if (up)
		sl_log_limited(SL_INFO, "collect", "host is reached again host=%s",
			       l->host->target);
	else
		sl_log_limited(SL_WARN, "collect",
			       "host is not reached, and tried again; does its agent run? host=%s "
			       "error=\"%s\"",
			       l->host->target, stats.last_error);
}

static void drive(struct link *l, uint64_t now_ns)
{
	enum sl_fabric_state before = l->state;
	uint64_t epoch = l->epoch;
	enum sl_fabric_state state = sl_fabric_drive(l->fabric, now_ns, &epoch);

	l->drive_ns = now_ns + DRIVE_NS;
	if (epoch != l->epoch || (before == SL_FABRIC_UP && state != SL_FABRIC_UP)) {
		l->epoch = epoch;
		l->up_ns = now_ns;
		lost(l, now_ns);
		reads_cancel(l, now_ns);
	}
	if (state == SL_FABRIC_UP && before != SL_FABRIC_UP)
		l->up_ns = now_ns;
	SET(l->state, state);
	if (state == SL_FABRIC_DOWN)
		SET(l->tried, true);
	tell_away(l);
	snapshot_stats(l, now_ns);
}

bool link_turn(struct link *l, uint64_t now_ns)
{
	bool any;

	if (now_ns >= l->drive_ns)
		drive(l, now_ns);
	any = reads_poll(l, now_ns);
	if (l->state == SL_FABRIC_UP) {
		if (!l->dir_busy && (l->gated || !l->dir_ok_ns))
			directory_read(l, now_ns);
		directory_read_entries(l, now_ns);
		advance_round(l, now_ns);
		bring_up(l, now_ns);
		flows_turn(l, now_ns);
		slots_turn(l, now_ns);
		net_turn(l, now_ns);
		fetch_turn(l, now_ns);
		any |= reads_post(l, now_ns);
		finish_round(l, now_ns);
	} else {
		flows_turn(l, now_ns);
		slots_turn(l, now_ns);
		net_turn(l, now_ns);
		fetch_turn(l, now_ns);
	}
	if (any)
		l->progress_ns = now_ns;
	return any;
}
