// SPDX-License-Identifier: Apache-2.0
/*
 * link.c - one connection of a worker to a host: it finds the regions through the directory, and
 * reads them.
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
#include "collect/internal.h"

#define POLL_BATCH	   64u
#define TRIES		   4u	      /* READs of a line that does not settle, in one round */
#define DRIVE_NS	   5000000u   /* between two looks at the connection within a round */
#define STATS_NS	   100000000u /* between two snapshots of the fabric's counters */
#define DIRECTORY_RETRY_NS 1000000u  /* after a directory's hot line that did not settle, or lied */
#define RETRY_MIN_NS	   50000000u /* bring-up that failed for no fault of the region */
#define DROPPED_MIN_NS	   5000000000u	 /* a hostile region is looked at again */
#define DROPPED_MAX_NS	   300000000000u /* ... ever more seldom */
#define SCHEMA_MIN_NS	   5000000u	 /* between two readings of a region's schema */
#define SCHEMA_MAX_NS	   1000000000u	 /* ... if its layout never rests */
#define AGAIN_NS	   1000000000u	 /* entries that there was no room for are tried again */
#define SCHEMA_TRIES	   5u
#define SCHEMA_PIECE	   65536u
#define HOT_MAX_NS	   5000000000u /* a hot line that does not settle for so long never will */
#define ORPHAN_NS	   10000000000u /* a region that did not come back after an agent's restart */
#define FINAL_PASSES	   20u		/* tries to read all of a dead region */
#define SETTLE_NS	   2000000000u /* the start is over, whatever a region still wants */
#define MAPS_A_TURN	   4u
#define HEADER_READ	   (SL_HEADER_SIZE + SL_LINE_SIZE)

/* ---- making and freeing -------------------------------------------------------------------------- */

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
	l->landing = sl_fabric_buffer(l->fabric, &l->landing_bytes);
	l->read = calloc(LINK_OPS, sizeof(*l->read));
	l->op = calloc(LINK_OPS, sizeof(*l->op));
	l->dir = calloc(1, sizeof(*l->dir));
	l->buckets = 256;
	l->bucket = calloc(l->buckets, sizeof(*l->bucket));
	if (!l->read || !l->op || !l->dir || !l->bucket)
		return -ENOMEM;
	h->link[queue] = l;
	h->fabric = sl_fabric_name(l->fabric);
	return 0;
}

void link_free(struct link *l)
{
	for (uint32_t i = 0; i < l->regions; i++) {
		if (l->region[i]->mapped)
			sl_fabric_unmap(l->fabric, &l->region[i]->remote);
		region_put(l->region[i]);
	}
	sl_fabric_close(l->fabric);
	free(l->read);
	free(l->op);
	free(l->dir);
	free(l->slot);
	free(l->region);
	free(l->bucket);
	free(l->urgent);
	pthread_mutex_destroy(&l->stats_lock);
}

/* ---- the table of regions ------------------------------------------------------------------------- */

static struct region **place_of(struct link *l, uint64_t instance)
{
	uint64_t h = (instance ^ l->c->seed) * SL_LINE_K1;

	return &l->bucket[(h ^ h >> 32) % l->buckets];
}

static struct region *find(struct link *l, uint64_t instance)
{
	for (struct region *r = *place_of(l, instance); r; r = r->hash_next)
		if (r->instance == instance)
			return r;
	return NULL;
}

static void unhash(struct link *l, struct region *r)
{
	struct region **at = place_of(l, r->instance);

	while (*at != r)
		at = &(*at)->hash_next;
	*at = r->hash_next;
}

static void grow_buckets(struct link *l)
{
	uint32_t n = l->buckets * 4;
	struct region **to = calloc(n, sizeof(*to));

	if (!to)
		return;
	free(l->bucket);
	l->bucket = to;
	l->buckets = n;
	for (uint32_t i = 0; i < l->regions; i++) {
		struct region *r = l->region[i], **at;

		if (r->gone)
			continue;
		at = place_of(l, r->instance);
		r->hash_next = *at;
		*at = r;
	}
}

static bool reserve(struct region ***v, uint32_t used, uint32_t *capacity)
{
	uint32_t n = *capacity ? *capacity * 2 : 64;
	struct region **to;

	if (used < *capacity)
		return true;
	to = realloc(*v, n * sizeof(*to));
	if (!to)
		return false;
	*v = to;
	*capacity = n;
	return true;
}

static void set_urgent(struct link *l, struct region *r)
{
	if (r->urgent || !reserve(&l->urgent, l->urgents, &l->urgent_capacity))
		return;
	r->urgent = true;
	l->urgent[l->urgents++] = r;
}

static struct region *add_region(struct link *l, uint64_t instance)
{
	struct sl_collector *c = l->c;
	struct region *r;

	if (ADD(c->region_count, 1) >= c->opts.max_regions) {
		SUB(c->region_count, 1);
		return NULL;
	}
	r = reserve(&l->region, l->regions, &l->region_capacity)
		    ? region_new(l, instance, ADD(c->age, 1))
		    : NULL;
	if (!r) {
		SUB(c->region_count, 1);
		return NULL;
	}
	if (l->regions >= l->buckets)
		grow_buckets(l);
	l->region[l->regions++] = r;
	r->hash_next = *place_of(l, instance);
	*place_of(l, instance) = r;
	SET(l->region_count, l->region_count + 1);
	return r;
}

static void end_pass(struct link *l, struct region *r);

static void unmap(struct link *l, struct region *r)
{
	if (r->mapped)
		sl_fabric_unmap(l->fabric, &r->remote);
	r->mapped = false;
}

/* It leaves the table now, and the memory when nothing of it is on the way any more. */
static void remove_region(struct link *l, struct region *r)
{
	if (r->gone)
		return;
	r->gone = true;
	end_pass(l, r);
	SET(r->step, STEP_GONE);
	unhash(l, r);
	host_release(l->host, l, r->instance);
	SET(l->region_count, l->region_count - 1);
	SUB(l->c->region_count, 1);
	region_mail(r, MAIL_GONE);
}

/* Between rounds: nobody holds a position in the array. */
static void sweep(struct link *l)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->regions; i++) {
		struct region *r = l->region[i];

		if (!r->gone || r->ops || r->urgent) {
			l->region[n++] = r;
			continue;
		}
		unmap(l, r);
		region_put(r);
	}
	l->regions = n;
}

/* ---- the life of a region ------------------------------------------------------------------------- */

static void set_condition(struct region *r, enum step step)
{
	if (r->step == (uint32_t)step)
		return;
	SET(r->step, step);
	if (r->info)
		region_mail(r, MAIL_CHANGED);
}

/* Whatever is on the way comes from memory that is not ours any more, or not believed. */
static void end_pass(struct link *l, struct region *r)
{
	r->failed = true;
	r->schema_failed = true;
	if (r->pass && !r->plan_ops) {
		r->pass = false;
		l->passes--;
	}
	if (r->schema_step == SCHEMA_WANTED ||
	    (r->schema_step == SCHEMA_READING && r->schema_got == r->schema_posted)) {
		r->schema_step = SCHEMA_IDLE;
		r->schema_seen = 0;
	}
}

static void unbind(struct link *l, struct region *r, uint64_t now_ns)
{
	unmap(l, r);
	r->entry_id = 0;
	r->since_ns = now_ns;
	end_pass(l, r);
	set_condition(r, STEP_UNBOUND);
}

static void again_later(struct link *l, struct region *r, uint64_t now_ns)
{
	unmap(l, r);
	end_pass(l, r);
	set_condition(r, STEP_MAP);
	r->backoff_ns = r->backoff_ns ? r->backoff_ns * 2 : RETRY_MIN_NS;
	if (r->backoff_ns > DROPPED_MIN_NS)
		r->backoff_ns = DROPPED_MIN_NS;
	r->retry_ns = now_ns + r->backoff_ns;
	set_urgent(l, r);
}

/* It lied. Its series go, the others stay, and it is looked at again some time. */
static void drop(struct link *l, struct region *r, enum sl_fault fault, uint64_t now_ns)
{
	bool first = !r->info;

	BUMP(l->worker->faults[fault], 1);
	SET(r->fault, fault);
	unmap(l, r);
	r->backoff_ns = r->backoff_ns < DROPPED_MIN_NS ? DROPPED_MIN_NS : r->backoff_ns * 2;
	if (r->backoff_ns > DROPPED_MAX_NS)
		r->backoff_ns = DROPPED_MAX_NS;
	r->retry_ns = now_ns + r->backoff_ns;
	sl_log_limited(SL_WARN, "collect",
		       "region dropped host=%s instance=%016llx fault=%s: "
		       "its publisher writes what format 1 does not allow",
		       l->host->target, (unsigned long long)r->instance, sl_fault_name(fault));
	if (first && region_anonymous(r))
		first = false; /* no memory for a face: nobody will see it */
	r->anonymous = r->anonymous || first;
	SET(r->step, STEP_DROPPED);
	if (r->info)
		region_mail(r, first ? MAIL_NEW | MAIL_CHANGED : MAIL_CHANGED);
	ADD(l->c->dropped, 1);
	end_pass(l, r);
}

static void bind(struct link *l, struct region *r, const struct sl_entry *e, uint32_t index)
{
	r->entry = index;
	r->entry_id = e->id;
	r->remote = (struct sl_remote){
		.id = e->id, .addr = e->addr, .length = e->length, .rkey = e->rkey};
	r->mapped = false;
	r->final_passes = 0;
	r->retry_ns = 0;
	set_condition(r, STEP_MAP);
	set_urgent(l, r);
}

static void set_state(struct link *l, struct region *r, const struct sl_entry *e)
{
	if (r->state != e->state || r->changed_ns != e->changed_ns) {
		SET(r->state, e->state);
		SET(r->changed_ns, e->changed_ns);
		if (r->info)
			region_mail(r, MAIL_CHANGED);
	}
	if (e->state == SL_STATE_LIVE && r->step == STEP_FINAL)
		set_condition(r, STEP_BOUND);
	if (e->state != SL_STATE_LIVE && r->step == STEP_BOUND) {
		r->want_pass = true; /* its last words, now */
		set_urgent(l, r);
	}
}

/* ---- the directory ---------------------------------------------------------------------------------- */

/* False if it is to be tried again later. */
static bool apply_entry(struct link *l, uint32_t index, const struct sl_entry *e, uint64_t now_ns)
{
	struct slot *slot = &l->slot[index];
	struct region *r = slot->region;
	bool readable = e->kind == SL_REGION_METRICS && e->instance && e->id &&
			(e->state == SL_STATE_LIVE || e->state == SL_STATE_DEAD ||
			 e->state == SL_STATE_CLOSED);

	if (r && (r->gone || r->entry_id != slot->id))
		r = slot->region = NULL; /* it went to another entry */
	if (r && (!readable || e->id != slot->id)) {
		slot->region = NULL;
		if (readable && e->instance == r->instance) {
			unbind(l, r, now_ns);
		} else {
			ADD(l->c->expired, 1);
			remove_region(l, r);
		}
		r = NULL;
	}
	if (!readable)
		return true;
	if (r) {
		/* The agent may have registered it anew, together with its neighbours: the old
		 * key is good for two leases from then on. */
		r->remote.addr = e->addr;
		r->remote.rkey = e->rkey;
		set_state(l, r, e);
		return true;
	}
	if (!host_claim(l->host, l, e->instance))
		return true;
	r = find(l, e->instance);
	if (r && r->step == STEP_UNBOUND && r->ops) {
		l->again_ns = now_ns +
			      DIRECTORY_RETRY_NS; /* READs of where it was are on the way */
		return false;
	}
	if (r && r->step != STEP_UNBOUND) {
		/* A live publisher takes its place back from its own last words; otherwise two
		 * entries claim one instance, and the first one is believed. */
		if (r->state == SL_STATE_LIVE || e->state != SL_STATE_LIVE) {
			if (!slot->refused)
				BUMP(l->duplicates, 1);
			slot->refused = true;
			return false;
		}
		unbind(l, r, now_ns);
		if (r->ops) {
			l->again_ns = now_ns + DIRECTORY_RETRY_NS;
			return false;
		}
	}
	if (!r) {
		r = add_region(l, e->instance);
		if (!r) {
			if (!slot->refused)
				ADD(l->c->refused_regions, 1);
			slot->refused = true;
			return false;
		}
	}
	slot->region = r;
	slot->id = e->id;
	slot->refused = false;
	bind(l, r, e, index);
	set_state(l, r, e);
	return true;
}

static bool reserve_slots(struct link *l, uint32_t n)
{
	struct slot *to;

	if (n <= l->slots)
		return true;
	to = realloc(l->slot, n * sizeof(*to));
	if (!to)
		return false;
	memset(to + l->slots, 0, (n - l->slots) * sizeof(*to));
	l->slot = to;
	l->slots = n;
	return true;
}

static void forget_directory(struct link *l)
{
	l->dir_known = l->dir_busy = l->dir_moved = l->entries_active = false;
	l->dir_generation = l->dir_wanted = 0;
	l->again_ns = 0;
	l->dir_ok_ns = 0;
	l->dir_used = 0;
	if (l->slot)
		memset(l->slot, 0, l->slots * sizeof(*l->slot));
}

/* Regions that the new agent does not know: their publishers ended while there was none. */
static void expire_orphans(struct link *l, uint64_t now_ns)
{
	if (now_ns < l->orphans_ns)
		return;
	l->orphans_ns = now_ns + ORPHAN_NS / 10;
	for (uint32_t i = 0; i < l->regions; i++) {
		struct region *r = l->region[i];

		if (r->gone || r->step != STEP_UNBOUND || now_ns - r->since_ns < ORPHAN_NS ||
		    now_ns - l->up_ns < ORPHAN_NS)
			continue;
		ADD(l->c->expired, 1);
		remove_region(l, r);
	}
}

static void directory_hot(struct link *l, const struct sl_directory_hot *hot, uint64_t now_ns)
{
	l->dir_ok_ns = now_ns;
	l->dir_lease_ns = hot->lease_ns;
	SET(l->host->fresh_ns, now_ns);
	SET(l->host->last_read_ns, sl_realtime_ns());
	l->dir_used = hot->entries_used < l->dir->max_entries ? hot->entries_used
							      : l->dir->max_entries;
	l->dir_wanted = hot->generation;
	if (hot->generation != l->dir_generation || (l->again_ns && now_ns >= l->again_ns))
		l->dir_moved = true;
}

/* All entries were looked at; those that did not settle are looked at again in the next round. */
static void entries_done(struct link *l, uint64_t now_ns)
{
	l->entries_active = false;
	if (!l->entries_unsettled)
		l->dir_generation = l->entries_generation;
	l->dir_moved = l->dir_generation != l->dir_wanted;
	/* A directory that moves in every round must not take all the time there is. */
	l->entries_at_ns = now_ns + 4 * (now_ns - l->entries_start_ns);
}

/* ---- READs -------------------------------------------------------------------------------------------- */

/* A READ to be posted, landing included; NULL if there is no room now. */
static struct op *new_op(struct link *l, enum op_kind kind, struct region *r,
			 const struct sl_remote *remote, uint64_t offset, uint32_t length)
{
	struct op *op;

	if (!l->ops_live && l->op_posted == l->op_head) {
		l->op_head = l->op_posted = 0;
		l->landing_used = 0;
	}
	if (l->op_head == LINK_OPS || l->landing_used + length > l->landing_bytes)
		return NULL;
	op = &l->op[l->op_head];
	*op = (struct op){.region = r, .kind = kind, .epoch = l->epoch, .high = length};
	l->read[l->op_head] = (struct sl_read){
		.remote = remote,
		.offset = offset,
		.length = length,
		.to = l->landing + l->landing_used,
		.tag = l->op_head,
	};
	l->landing_used += (length + SL_LINE_SIZE - 1) / SL_LINE_SIZE * SL_LINE_SIZE;
	l->op_head++;
	l->ops_live++;
	if (r)
		r->ops++;
	return op;
}

static void finish_op(struct link *l, struct op *op)
{
	l->ops_live--;
	if (op->region) {
		op->region->ops--;
		op->region->plan_ops -= op->kind == OP_PLAN;
	}
}

static bool post_again(struct link *l, struct op *op)
{
	if (op->tries >= TRIES - 1 || op->epoch != l->epoch)
		return false;
	op->tries++;
	l->repost[l->reposts++] = (uint32_t)(op - l->op);
	return true;
}

static void post(struct link *l, uint64_t now_ns)
{
	int n;

	while (l->reposts) {
		uint32_t i = l->repost[l->reposts - 1];

		l->op[i].posted_ns = now_ns;
		if (sl_fabric_post(l->fabric, &l->read[i], 1) != 1)
			break;
		l->reposts--;
	}
	if (l->op_posted == l->op_head)
		return;
	for (uint32_t i = l->op_posted; i < l->op_head; i++)
		l->op[i].posted_ns = now_ns;
	n = sl_fabric_post(l->fabric, &l->read[l->op_posted], l->op_head - l->op_posted);
	if (n > 0)
		l->op_posted += (uint32_t)n;
}

/* ---- passes ------------------------------------------------------------------------------------------- */

/* Lines that a plan for this layout and hot line reads. */
static uint32_t lines_wanted(const struct region *r)
{
	uint32_t lines = r->board ? r->board->layout->lines : 0;

	return lines < r->hot.lines_used ? lines : r->hot.lines_used;
}

static bool replan(struct region *r)
{
	uint32_t lines = lines_wanted(r), stripes = lines ? r->hot.stripes_used : 0;
	size_t bytes;

	if (r->plan.reads && lines == r->plan.lines && stripes == r->plan.stripes)
		return true;
	if (stripes && sl_values_resize(&r->values, lines, stripes))
		return false;
	bytes = (size_t)r->values.lines * 64 * (r->values.stripes + (r->values.stripes > 1));
	ADD(r->c->memory, bytes - r->values_bytes);
	r->values_bytes = bytes;
	return !sl_plan_make(&r->plan, r->info, lines, stripes);
}

/* False if out of memory. */
static bool start_pass(struct link *l, struct region *r)
{
	if (!replan(r)) {
		sl_log_limited(SL_ERROR, "collect", "out of memory for a region instance=%016llx",
			       (unsigned long long)r->instance);
		return false;
	}
	r->pass = true;
	r->want_pass = false;
	r->failed = false;
	r->hot_seen = false;
	r->missing = 0;
	r->pass_read = 0;
	l->passes++;
	return true;
}

/* Posts what there is room for. True if all of the pass is on its way. */
static bool issue_pass(struct link *l, struct region *r)
{
	const struct sl_plan *p = &r->plan;

	for (; r->pass_read < p->reads && !r->failed; r->pass_read++) {
		const struct sl_plan_read *read = &p->read[r->pass_read];
		struct op *op = new_op(l, OP_PLAN, r, &r->remote, read->offset, read->length);

		if (!op)
			return false;
		op->index = r->pass_read;
		r->plan_ops++;
	}
	return true;
}

static void publish(struct link *l, struct region *r, int64_t real_ns)
{
	struct worker *w = l->worker;
	struct board *b = r->board;

	if (!b)
		return;
	region_flatten(r, b->layout, w->flat);
	board_publish(b, w->flat, real_ns, w, r->instance);
	BUMP(w->samples, b->layout->columns);
	if (b->seq == 2)
		region_mail(r, MAIL_BOARD);
}

static void want_schema(struct link *l, struct region *r, uint64_t now_ns)
{
	if (r->schema_step != SCHEMA_IDLE || r->hot.generation == r->schema_seen ||
	    now_ns < r->schema_at_ns)
		return;
	r->schema_step = SCHEMA_WANTED;
	set_urgent(l, r);
}

/* Everything of the pass has come, or has failed. */
static void pass_done(struct link *l, struct region *r, uint64_t now_ns, int64_t real_ns)
{
	struct worker *w = l->worker;

	r->pass = false;
	l->passes--;
	if (r->failed || r->gone || r->step != STEP_BOUND)
		return;
	if (r->hot_seen) {
		r->hot_ok_ns = now_ns;
	} else if (now_ns - r->hot_ok_ns > HOT_MAX_NS) {
		drop(l, r, SL_FAULT_UNSETTLED, now_ns);
		return;
	}
	if (r->missing) {
		BUMP(r->unsettled, r->missing);
		BUMP(w->unsettled, r->missing);
	}
	publish(l, r, real_ns);
	BUMP(r->rounds, 1);
	if (r->hot_seen)
		SET(r->fresh_ns, now_ns);
	SET(r->last_read_ns, (uint64_t)real_ns);
	want_schema(l, r, now_ns);
	/* Dead: once all of it was read it can't change any more. */
	r->backoff_ns = 0;
	if (r->state == SL_STATE_LIVE)
		return;
	if (r->hot.generation == r->schema_seen && r->final_passes &&
	    ((r->hot_seen && !r->missing) || r->final_passes > FINAL_PASSES)) {
		set_condition(r, STEP_FINAL);
	} else if (r->final_passes++ <= FINAL_PASSES) {
		r->want_pass = true;
		set_urgent(l, r);
	}
}

/* ---- what comes back ------------------------------------------------------------------------------- */

static bool take_hot(struct link *l, struct region *r, const uint64_t *line, uint64_t now_ns)
{
	struct sl_hot hot;
	enum sl_fault fault = sl_hot_parse(line, r->info, &hot);

	if (fault == SL_FAULT_UNSETTLED)
		return false;
	/* Nothing in a hot line ever goes back. */
	if (!fault &&
	    (hot.generation < r->hot.generation || hot.lines_used < r->hot.lines_used ||
	     hot.schema_used < r->hot.schema_used || hot.stripes_used < r->hot.stripes_used))
		fault = SL_FAULT_HOT;
	if (fault) {
		drop(l, r, fault, now_ns);
		return true;
	}
	r->hot = hot;
	r->hot_seen = true;
	SET(r->refused, hot.refused);
	SET(r->sharing, hot.threads_sharing);
	return true;
}

/*
 * Takes the bytes [low, high) of a READ of the plan. What has to be read again is narrowed down to
 * the bytes between the first and the last line that did not settle.
 */
static bool take_plan(struct link *l, struct region *r, struct op *op, const struct sl_read *read,
		      uint64_t now_ns)
{
	const struct sl_plan_read *pr = &r->plan.read[op->index];
	uint64_t retry[SL_PLAN_READ_MAX / SL_LINE_SIZE / 64 + 1];
	uint32_t low = UINT32_MAX, high = 0, missing = 0;
	const uint8_t *data = read->to;

	for (uint32_t i = 0; i < pr->pieces; i++) {
		const struct sl_piece *p = &r->plan.piece[pr->piece + i];
		uint32_t from = p->at > op->low ? p->at : op->low;
		uint32_t end = p->at + p->count * SL_LINE_SIZE, failed, n, first;
		const void *at = data + (from - op->low);

		end = end < op->high ? end : op->high;
		if (from >= end)
			continue;
		n = (end - from) / SL_LINE_SIZE;
		BUMP(l->worker->lines, n);
		if (p->stripe == SL_PIECE_HOT) {
			failed = !take_hot(l, r, at, now_ns);
			retry[0] = failed;
			if (r->step == STEP_DROPPED)
				return true;
		} else {
			first = p->first + (from - p->at) / SL_LINE_SIZE;
			failed = sl_values_update(&r->values, p->stripe, first, at, n, retry);
		}
		if (!failed)
			continue;
		missing += failed;
		for (uint32_t k = 0; k < n; k++) {
			if (!(retry[k / 64] >> k % 64 & 1))
				continue;
			low = low < from + k * SL_LINE_SIZE ? low : from + k * SL_LINE_SIZE;
			high = from + (k + 1) * SL_LINE_SIZE;
		}
	}
	if (!missing)
		return true;
	if (op->tries < TRIES - 1 && !r->failed) {
		struct sl_read *next = &l->read[op - l->op];

		next->offset = pr->offset + low;
		next->length = high - low;
		next->to = (uint8_t *)read->to + (low - op->low);
		op->low = low;
		op->high = high;
		return false;
	}
	r->missing += missing;
	return true;
}

static bool take_entries(struct link *l, struct op *op, const struct sl_read *read, uint64_t now_ns)
{
	const uint64_t(*line)[8] = read->to;
	uint32_t n = read->length / SL_LINE_SIZE, unsettled = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct slot *slot = &l->slot[op->index + i];
		struct sl_entry e;

		if (!memcmp(slot->line, line[i], SL_LINE_SIZE))
			continue;
		if (sl_entry_parse(line[i], &e)) {
			unsettled++;
			continue;
		}
		if (apply_entry(l, op->index + i, &e, now_ns))
			memcpy(slot->line, line[i], SL_LINE_SIZE);
		else if (!l->again_ns)
			l->again_ns = now_ns + AGAIN_NS;
	}
	if (unsettled && op->tries < TRIES - 1)
		return false;
	l->entries_unsettled += unsettled;
	return true;
}

static void take_directory_header(struct link *l, const struct sl_read *read, uint64_t now_ns)
{
	const char *name = "";
	enum sl_fault fault = sl_region_info_parse(read->to, read->remote->length, l->dir);

	if (!fault && l->dir->kind != SL_REGION_DIRECTORY)
		fault = SL_FAULT_SECTION;
	if (fault) {
		BUMP(l->worker->faults[fault], 1);
		sl_log_limited(SL_WARN, "collect", "directory not believed host=%s fault=%s",
			       l->host->target, sl_fault_name(fault));
		l->dir_retry_ns = now_ns + 1000000000u;
		return;
	}
	for (uint32_t i = 0; i < l->dir->label_count; i++)
		if (!strcmp(l->dir->labels[i].key, "host"))
			name = l->dir->labels[i].value;
	host_set_name(l->host, name);
	l->dir_known = true;
}

static void take_header(struct link *l, struct region *r, const struct sl_read *read,
			uint64_t now_ns)
{
	bool first = !r->info;
	enum sl_fault fault;

	if (r->step != STEP_HEADER)
		return;
	fault = region_identify(r, read->to, host_name(l->host));
	if (fault == SL_FAULT_COUNT || fault == SL_FAULT_MEMORY) {
		/* The memory of another region: the directory will say so soon. */
		if (fault == SL_FAULT_COUNT)
			BUMP(l->worker->wrong_instance, 1);
		again_later(l, r, now_ns);
		return;
	}
	if (fault) {
		drop(l, r, fault, now_ns);
		return;
	}
	SET(r->fault, SL_FAULT_NONE);
	SET(r->step, STEP_BOUND);
	r->hot_ok_ns = now_ns;
	if (first)
		memset(&r->hot, 0, sizeof(r->hot));
	region_mail(r, first ? MAIL_NEW | MAIL_CHANGED : MAIL_CHANGED);
	r->want_pass = true;
	set_urgent(l, r);
}

static void schema_done(struct link *l, struct region *r)
{
	if (r->schema_failed) {
		r->schema_step = SCHEMA_IDLE;
		r->schema_seen = 0;
		return;
	}
	r->schema_step = SCHEMA_BUILDING;
	set_urgent(l, r);
	region_mail(r, MAIL_SCHEMA);
}

static void failed_read(struct link *l, struct op *op, const struct sl_read *read, uint64_t now_ns)
{
	struct region *r = op->region;

	BUMP(l->worker->read_errors, 1);
	switch (op->kind) {
	case OP_DIR_HEADER:
		l->dir_retry_ns = now_ns + 100000000u;
		break;
	case OP_ENTRIES:
		l->entries_unsettled++;
		break;
	case OP_SCHEMA:
		r->schema_failed = true;
		break;
	case OP_HEADER:
		if (op->epoch == l->epoch && r->step == STEP_HEADER)
			again_later(l, r, now_ns);
		break;
	case OP_PLAN:
		r->failed = true;
		/* The memory is not there any more, or it moved: ask for it anew. */
		if (op->epoch == l->epoch && r->step == STEP_BOUND &&
		    (read->status == -EACCES || read->status == -ERANGE))
			again_later(l, r, now_ns);
		break;
	}
}

static void complete(struct link *l, struct sl_read *read, uint64_t now_ns, int64_t real_ns)
{
	struct op *op = &l->op[read->tag];
	struct region *r = op->region;
	struct worker *w = l->worker;
	struct sl_directory_hot hot;
	enum sl_fault fault;
	bool again = false;
	uint64_t took;

	if (read->status || op->epoch != l->epoch) {
		failed_read(l, op, read, now_ns);
	} else {
		took = now_ns > op->posted_ns ? now_ns - op->posted_ns : 0;
		BUMP(w->reads, 1);
		BUMP(w->bytes, read->length);
		BUMP(w->latency[latency_bucket(took)], 1);
		BUMP(w->latency_sum_ns, took);
		switch (op->kind) {
		case OP_DIR_HEADER:
			take_directory_header(l, read, now_ns);
			break;
		case OP_DIR_HOT:
			fault = sl_directory_hot_parse(read->to, l->dir, &hot);
			if (!fault)
				directory_hot(l, &hot, now_ns);
			else
				again = post_again(l, op);
			if (fault && !again) {
				BUMP(w->faults[fault], 1);
				l->dir_retry_ns = now_ns + DIRECTORY_RETRY_NS;
			}
			break;
		case OP_ENTRIES:
			again = !take_entries(l, op, read, now_ns) && post_again(l, op);
			break;
		case OP_HEADER:
			if (!r->gone)
				take_header(l, r, read, now_ns);
			break;
		case OP_SCHEMA:
			if (!r->schema_failed)
				memcpy(r->schema_bytes + op->index, read->to, read->length);
			break;
		case OP_PLAN:
			if (!r->failed && !r->gone)
				again = !take_plan(l, r, op, read, now_ns) && post_again(l, op);
			break;
		}
	}
	if (again)
		return;
	finish_op(l, op);
	switch (op->kind) {
	case OP_DIR_HEADER:
	case OP_DIR_HOT:
		l->dir_busy = false;
		l->gated = false;
		break;
	case OP_ENTRIES:
		l->entries_out--;
		if (l->entries_active && !l->entries_out && l->entries_next >= l->entries_end)
			entries_done(l, now_ns);
		break;
	case OP_SCHEMA:
		r->schema_got += read->length;
		if (r->schema_step == SCHEMA_READING && r->schema_got == r->schema_posted &&
		    (r->schema_posted == r->schema_length || r->schema_failed))
			schema_done(l, r);
		break;
	case OP_PLAN:
		if (r->pass && !r->plan_ops && (r->pass_read >= r->plan.reads || r->failed))
			pass_done(l, r, now_ns, real_ns);
		break;
	default:
		break;
	}
}

/* ---- bringing regions up ------------------------------------------------------------------------------ */

static void install(struct link *l, struct region *r, uint64_t now_ns)
{
	struct built *built = __atomic_exchange_n(&r->built, NULL, __ATOMIC_ACQUIRE);
	struct worker *w = l->worker;
	struct board *b;

	if (!built)
		return;
	b = built->board;
	r->schema_step = SCHEMA_IDLE;
	if (!b) {
		enum sl_fault fault = built->fault;

		if (r->step != STEP_BOUND)
			return;
		if (fault == SL_FAULT_NONE || fault == SL_FAULT_MEMORY)
			r->schema_at_ns = now_ns + SCHEMA_MAX_NS; /* when there is memory */
		else if (fault == SL_FAULT_CHECK && ++r->schema_tries < SCHEMA_TRIES)
			r->schema_at_ns = now_ns + SCHEMA_MIN_NS;
		else
			drop(l, r, fault, now_ns);
		return;
	}
	if (b->layout->cells > w->flat_cells) {
		uint64_t *flat = realloc(w->flat, b->layout->cells * sizeof(*flat));

		if (!flat) {
			board_put(b, r->c);
			return;
		}
		w->flat = flat;
		w->flat_cells = b->layout->cells;
	}
	/* Cells that no hot line has ever granted. */
	if (b->layout->lines > r->hot.lines_used) {
		board_put(b, r->c);
		drop(l, r, SL_FAULT_CELLS, now_ns);
		return;
	}
	r->schema_seen = b->layout->generation;
	if (r->board) {
		b->chunk = board_flush(r->board, w, r->instance);
		board_put(r->board, r->c);
	}
	r->board = b;
	r->schema_tries = 0;
	r->want_pass = true;
	if (r->step == STEP_FINAL)
		SET(r->step, STEP_BOUND);
}

static void read_schema(struct link *l, struct region *r, uint64_t now_ns)
{
	if (r->schema_step == SCHEMA_WANTED) {
		uint8_t *bytes;

		/* Nothing that uses the bytes is on the way: control has handed its layout back. */
		bytes = realloc(r->schema_bytes, r->hot.schema_used ? r->hot.schema_used : 1);
		if (!bytes)
			return;
		r->schema_bytes = bytes;
		r->schema_length = (uint32_t)r->hot.schema_used;
		r->schema_generation = r->hot.generation;
		r->schema_posted = r->schema_got = 0;
		r->schema_failed = false;
		r->schema_step = SCHEMA_READING;
		/* A layout that never rests is read ever more seldom. */
		if (now_ns - r->schema_at_ns > SCHEMA_MAX_NS)
			r->schema_pause_ns = SCHEMA_MIN_NS;
		else if (r->schema_pause_ns < SCHEMA_MAX_NS)
			r->schema_pause_ns += r->schema_pause_ns / 4 + 1;
		r->schema_at_ns = now_ns + r->schema_pause_ns;
		if (!r->schema_length) {
			schema_done(l, r);
			return;
		}
	}
	while (r->schema_step == SCHEMA_READING && !r->schema_failed &&
	       r->schema_posted < r->schema_length) {
		uint32_t left = r->schema_length - r->schema_posted;
		uint32_t n = left < SCHEMA_PIECE ? left : SCHEMA_PIECE;
		struct op *op = new_op(l, OP_SCHEMA, r, &r->remote,
				       r->info->schema + r->schema_posted, n);

		if (!op)
			return;
		op->index = r->schema_posted;
		r->schema_posted += n;
	}
}

/* The header was never believed: what is known of the region is not worth keeping. */
static void renew(struct link *l, struct region *old)
{
	struct slot *slot = &l->slot[old->entry];
	struct region *r;

	if (slot->region != old)
		return;
	remove_region(l, old);
	slot->region = NULL;
	memset(slot->line, 0, sizeof(slot->line));
	if (!host_claim(l->host, l, old->instance))
		return;
	r = add_region(l, old->instance);
	if (!r) {
		l->again_ns = 1;
		return;
	}
	slot->region = r;
	r->entry = old->entry;
	r->entry_id = old->entry_id;
	r->remote = old->remote;
	r->backoff_ns = old->backoff_ns;
	r->state = old->state;
	r->changed_ns = old->changed_ns;
	SET(r->step, STEP_MAP);
	set_urgent(l, r);
}

/*
 * One region that is not just read: mapped, its header and schema fetched, its first values. True
 * while there is something to wait for.
 */
static bool urgent_step(struct link *l, struct region *r, uint64_t now_ns, unsigned int *maps)
{
	struct op *op;
	int err;

	if (r->gone)
		return false;
	switch ((enum step)r->step) {
	case STEP_DROPPED:
		if (now_ns < r->retry_ns)
			return false;
		if (r->ops)
			return true;
		if (r->anonymous) {
			renew(l, r);
			return false;
		}
		if (r->schema_step == SCHEMA_BUILDING) {
			struct built *built = __atomic_exchange_n(&r->built, NULL,
								  __ATOMIC_ACQUIRE);

			if (!built)
				return true;
			board_put(built->board, r->c);
			r->schema_step = SCHEMA_IDLE;
		}
		r->hot = (struct sl_hot){0};
		r->schema_seen = 0;
		SET(r->step, STEP_MAP);
		return true;
	case STEP_MAP:
		if (now_ns < r->retry_ns || r->ops || !*maps)
			return true;
		if (!r->mapped) {
			(*maps)--;
			err = sl_fabric_map(l->fabric, &r->remote);
			if (err) {
				BUMP(l->worker->map_errors, 1);
				again_later(l, r, now_ns);
				return true;
			}
			r->mapped = true;
		}
		op = r->remote.length < HEADER_READ
			     ? NULL
			     : new_op(l, OP_HEADER, r, &r->remote, 0, SL_HEADER_SIZE);
		if (r->remote.length < HEADER_READ)
			drop(l, r, SL_FAULT_SIZE, now_ns);
		else if (op)
			SET(r->step, STEP_HEADER);
		return true;
	case STEP_HEADER:
		return true;
	case STEP_FINAL:
	case STEP_BOUND:
		break;
	case STEP_UNBOUND:
	case STEP_GONE:
		return r->schema_step == SCHEMA_BUILDING &&
		       !__atomic_load_n(&r->built, __ATOMIC_RELAXED);
	}
	if (r->schema_step == SCHEMA_BUILDING) {
		if (!__atomic_load_n(&r->built, __ATOMIC_RELAXED))
			return true;
		if (!r->pass)
			install(l, r, now_ns);
		if (r->step != STEP_BOUND)
			return false;
	}
	if (r->schema_step == SCHEMA_WANTED || r->schema_step == SCHEMA_READING)
		read_schema(l, r, now_ns);
	/* Its first values, those of a new layout, last words: not only in the next round. */
	if (r->pass)
		issue_pass(l, r);
	else if (r->want_pass && start_pass(l, r))
		issue_pass(l, r);
	return r->want_pass || r->pass || r->schema_step != SCHEMA_IDLE;
}

static bool lease_holds(const struct link *l, uint64_t now_ns)
{
	return l->dir_ok_ns && now_ns - l->dir_ok_ns < l->dir_lease_ns;
}

static void read_directory(struct link *l, uint64_t now_ns)
{
	const struct sl_remote *dir = sl_fabric_directory(l->fabric);

	if (!dir || l->dir_busy || now_ns < l->dir_retry_ns)
		return;
	l->dir_busy = l->dir_known ? new_op(l, OP_DIR_HOT, NULL, dir, l->dir->hot, SL_LINE_SIZE)
				   : new_op(l, OP_DIR_HEADER, NULL, dir, 0, SL_HEADER_SIZE);
}

static void bring_up(struct link *l, uint64_t now_ns)
{
	unsigned int maps = MAPS_A_TURN;
	uint32_t n = 0, count = l->urgents;

	if (!count)
		return;
	if (!lease_holds(l, now_ns)) {
		read_directory(l, now_ns);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct region *r = l->urgent[i];

		/* It may be set urgent again while it is looked at, which is no second place. */
		if (urgent_step(l, r, now_ns, &maps))
			l->urgent[n++] = r;
		else
			r->urgent = false;
	}
	/* Behind count: those that became urgent meanwhile. */
	memmove(l->urgent + n, l->urgent + count, (l->urgents - count) * sizeof(*l->urgent));
	l->urgents -= count - n;
}

/* ---- rounds -------------------------------------------------------------------------------------------- */

static void read_entries(struct link *l, uint64_t now_ns)
{
	const struct sl_remote *dir = sl_fabric_directory(l->fabric);

	if (!dir)
		return;
	if (!l->entries_active) {
		if (!l->dir_moved || l->entries_out || now_ns < l->entries_at_ns ||
		    !reserve_slots(l, l->dir_used))
			return;
		l->entries_active = true;
		l->entries_next = 0;
		l->entries_end = l->dir_used; /* it may grow meanwhile */
		l->entries_unsettled = 0;
		l->entries_generation = l->dir_wanted;
		l->again_ns = 0;
		l->entries_start_ns = now_ns;
		if (!l->entries_end)
			entries_done(l, now_ns);
	}
	while (l->entries_active && l->entries_next < l->entries_end) {
		uint32_t n = l->entries_end - l->entries_next;
		struct op *op;

		n = n < ENTRIES_A_READ ? n : ENTRIES_A_READ;
		op = new_op(l, OP_ENTRIES, NULL, dir,
			    l->dir->entries + (uint64_t)l->entries_next * SL_LINE_SIZE,
			    n * SL_LINE_SIZE);
		if (!op)
			return;
		op->index = l->entries_next;
		l->entries_next += n;
		l->entries_out++;
	}
}

void link_start_round(struct link *l, uint64_t now_ns)
{
	l->drive_ns = 0;
	if (l->state != SL_FABRIC_UP)
		return;
	expire_orphans(l, now_ns);
	sweep(l);
	l->active = true;
	l->cursor = 0;
	l->progress_ns = now_ns;
	/* Entries that were not confirmed for long are confirmed before they are used. */
	l->gated = !l->dir_ok_ns || now_ns - l->dir_ok_ns > l->dir_lease_ns / 2;
	read_directory(l, now_ns);
	if (!l->dir_known)
		l->cursor = UINT32_MAX; /* nothing else to do in this round */
}

/* A pass that was half posted is not continued: the round would wait for the rest for ever. */
static void cut_short(struct link *l, struct region *r)
{
	if (!r->pass || r->pass_read >= r->plan.reads)
		return;
	r->failed = true;
	if (!r->plan_ops) {
		r->pass = false;
		l->passes--;
	}
}

static void advance_round(struct link *l, uint64_t now_ns)
{
	if (!l->active || l->gated)
		return;
	if (l->cursor < l->regions && !lease_holds(l, now_ns)) {
		cut_short(l, l->region[l->cursor]);
		l->cursor = UINT32_MAX;
	}
	while (l->cursor < l->regions) {
		struct region *r = l->region[l->cursor];

		if (r->step == STEP_BOUND && !r->gone) {
			if ((r->pass || start_pass(l, r)) && !issue_pass(l, r))
				return;
		} else if (r->step == STEP_DROPPED && now_ns >= r->retry_ns && !r->gone) {
			set_urgent(l, r);
		}
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

/* ---- the connection --------------------------------------------------------------------------------------- */

static void lost(struct link *l, uint64_t now_ns)
{
	for (uint32_t i = 0; i < l->regions; i++) {
		struct region *r = l->region[i];

		if (!r->gone && r->step != STEP_UNBOUND && r->step != STEP_GONE)
			unbind(l, r, now_ns);
	}
	forget_directory(l);
	l->active = false;
	l->gated = false;
}

/* READs that were never taken by the fabric won't complete by themselves. */
static void cancel_unposted(struct link *l, uint64_t now_ns)
{
	int64_t real = (int64_t)sl_realtime_ns();

	while (l->reposts) {
		struct sl_read *read = &l->read[l->repost[--l->reposts]];

		read->status = -ENOTCONN;
		complete(l, read, now_ns, real);
	}
	while (l->op_posted < l->op_head) {
		struct sl_read *read = &l->read[l->op_posted++];

		read->status = -ENOTCONN;
		complete(l, read, now_ns, real);
	}
}

static void snapshot_stats(struct link *l, uint64_t now_ns)
{
	if (now_ns - l->stats_ns < STATS_NS || pthread_mutex_trylock(&l->stats_lock))
		return;
	sl_fabric_stats(l->fabric, &l->stats);
	pthread_mutex_unlock(&l->stats_lock);
	l->stats_ns = now_ns;
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
		cancel_unposted(l, now_ns);
	}
	if (state == SL_FABRIC_UP && before != SL_FABRIC_UP)
		l->up_ns = now_ns;
	SET(l->state, state);
	if (state == SL_FABRIC_DOWN)
		SET(l->tried, true);
	snapshot_stats(l, now_ns);
}

bool link_turn(struct link *l, uint64_t now_ns)
{
	struct sl_read *done[POLL_BATCH];
	uint32_t before;
	int64_t real;
	int n;

	if (now_ns >= l->drive_ns)
		drive(l, now_ns);
	n = sl_fabric_poll(l->fabric, done, POLL_BATCH, now_ns, l->c->opts.read_timeout_ns);
	if (n > 0) {
		real = (int64_t)sl_realtime_ns();
		for (int i = 0; i < n; i++)
			complete(l, done[i], now_ns, real);
	}
	if (l->state == SL_FABRIC_UP) {
		before = l->op_posted + l->reposts;
		if (!l->dir_busy && (l->gated || !l->dir_ok_ns))
			read_directory(l, now_ns);
		read_entries(l, now_ns);
		advance_round(l, now_ns);
		bring_up(l, now_ns);
		post(l, now_ns);
		if (l->op_posted + l->reposts != before)
			n = 1;
		finish_round(l, now_ns);
	}
	if (n > 0)
		l->progress_ns = now_ns;
	return n > 0;
}
