// SPDX-License-Identifier: Apache-2.0
/* pass.c - one pass over a region: the READs of its plan, their lines, and the values */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/read/link.h"
#include "collect/read/turn.h"
#include "collect/read/worker.h"

/* a region is dropped if its hot line does not settle for this long */
#define HOT_MAX_NS	5000000000u
#define FINAL_PASSES	20u	      /* maximum passes to read all lines of a dead region */
#define HELD_MAX_NS	5000000000u   /* maximum time for which a snapshot is held back */
#define ORIGIN_AHEAD_NS 60000000000ll /* how far the clock of another level may be ahead */
#define HELD_URGENT	8u	      /* passes outside the rounds while a snapshot is held back */

/* Returns how many lines a plan for this layout and hot line reads. */
static uint32_t lines_wanted(const struct collect_region *r)
{
	return r->snapshot ? BASE_MIN(r->snapshot->layout->lines, r->hot.lines_used) : 0;
}

static bool reserve_marks(struct collect_region *r, uint32_t lines)
{
	size_t words = lines / 64 + 1;
	uint64_t *to;

	if (words <= r->mark_words)
		return true;
	to = calloc(2 * words, sizeof(*to));
	if (!to)
		return false;
	relaxed_add(r->c->memory, 2 * (words - r->mark_words) * sizeof(*to));
	free(r->stale);
	r->stale = to;
	r->unseen = to + words;
	r->mark_words = words;
	r->any_stale = false;
	return true;
}

static void start_marks(struct collect_region *r)
{
	if (r->any_stale)
		memset(r->stale, 0, r->mark_words * sizeof(*r->stale));
	r->any_stale = false;
	if (!r->snapshot_new)
		return;
	r->snapshot_new = false;
	r->any_unseen = true;
	r->held = 0;
	if (r->mark_words) /* a region that has only spans has no bitmaps */
		memset(r->unseen, 0xff, r->mark_words * sizeof(*r->unseen));
}

static void mark_stale(struct collect_region *r, uint32_t line)
{
	r->stale[line / 64] |= 1ull << line % 64;
	r->any_stale = true;
}

/*
 * A line that was never read shows zeros, and its counters would seem to jump once it is read. So a
 * snapshot is first published when all its lines have been seen, or after HELD_MAX_NS.
 */
static bool hold_back(struct collect_region *r, uint64_t now_ns)
{
	uint64_t any = 0;

	if (!r->any_unseen)
		return false;
	for (size_t i = 0; i < r->mark_words; i++)
		any |= r->unseen[i] &= r->any_stale ? r->stale[i] : 0;
	/* Final values are not held back. */
	/*
	 * Exception: a line that was read before its cells changed metric must never be published.
	 */
	r->any_unseen = any && (r->renamed || (r->state == SL_STATE_LIVE &&
					       now_ns - r->snapshot_ns < HELD_MAX_NS));
	r->renamed = r->renamed && r->any_unseen;
	return r->any_unseen;
}

static bool plan_again(struct collect_region *r)
{
	uint32_t lines = lines_wanted(r), stripes = lines ? r->hot.stripes_used : 0;
	size_t bytes;

	if (r->plan.reads && lines == r->plan.lines && stripes == r->plan.stripes)
		return true;
	if (stripes &&
	    (region_values_resize(&r->values, lines, stripes) || !reserve_marks(r, lines)))
		return false;
	bytes = (size_t)r->values.lines * 64 * (r->values.stripes + (r->values.stripes > 1));
	relaxed_add(r->c->memory, bytes - r->values_bytes);
	r->values_bytes = bytes;
	return !collect_plan_make(&r->plan, r->info, lines, stripes);
}

bool collect_pass_start(struct collect_link *l, struct collect_region *r, bool slow)
{
	collect_turn_take(r);
	if (!plan_again(r)) {
		base_log_limited(BASE_ERROR, "collect",
				 "out of memory for a region instance=%016llx",
				 (unsigned long long)r->instance);
		return false;
	}
	r->pass = true;
	r->slow = slow;
	r->want_pass = false;
	r->failed = false;
	r->hot_seen = false;
	start_marks(r);
	r->missing = 0;
	r->pass_read = 0;
	l->passes += !slow;
	return true;
}

static void end_pass(struct collect_link *l, struct collect_region *r)
{
	r->pass = false;
	l->passes -= !r->slow;
}

static void fail_pass(struct collect_link *l, struct collect_region *r)
{
	r->failed = true;
	if (r->pass && !r->plan_ops)
		end_pass(l, r);
}

void collect_pass_abort(struct collect_link *l, struct collect_region *r)
{
	fail_pass(l, r);
	collect_schema_abort(r);
}

void collect_pass_cut_short(struct collect_link *l, struct collect_region *r)
{
	if (r->pass && r->pass_read < r->plan.reads)
		fail_pass(l, r);
}

static bool take_hot(struct collect_link *l, struct collect_region *r, const struct collect_op *op,
		     const uint64_t *line, uint64_t now_ns)
{
	struct region_hot hot;
	enum region_fault fault = region_hot_parse(line, r->info, &hot);

	if (fault == REGION_FAULT_UNSETTLED)
		return false;
	if (!fault)
		fault = region_hot_follows(&r->hot, &hot);
	if (fault) {
		collect_region_drop(l, r, fault, now_ns);
		return true;
	}
	r->hot = hot;
	r->hot_seen = true;
	r->hot_ns = op->posted_ns;
	if (hot.generation == r->schema_seen)
		r->layout_ns = op->posted_ns;
	relaxed_store(r->refused, hot.refused);
	relaxed_store(r->sharing, hot.threads_sharing);
	return true;
}

/*
 * Takes the bytes [low, high) of a READ of the plan. The range to read again is narrowed down to
 * the bytes between the first and the last unsettled line.
 */
static bool take_lines(struct collect_link *l, struct collect_region *r, struct collect_op *op,
		       struct fabric_read *read, uint64_t now_ns)
{
	const struct collect_plan_read *pr = &r->plan.read[op->index];
	uint64_t retry[COLLECT_PLAN_READ_MAX / SL_LINE_SIZE / 64 + 1];
	uint32_t low = UINT32_MAX, high = 0, missing = 0;
	const uint8_t *data = read->to;
	bool last = op->tries == LINK_TRIES - 1;

	for (uint32_t i = 0; i < pr->pieces; i++) {
		const struct collect_piece *p = &r->plan.piece[pr->piece + i];
		uint32_t from = BASE_MAX(p->at, op->low);
		uint32_t end = p->at + p->count * SL_LINE_SIZE, failed, n, first;
		const void *at = data + (from - op->low);

		end = BASE_MIN(end, op->high);
		if (from >= end)
			continue;
		n = (end - from) / SL_LINE_SIZE;
		relaxed_bump(l->worker->lines, n);
		if (p->stripe == COLLECT_PIECE_HOT) {
			failed = !take_hot(l, r, op, at, now_ns);
			retry[0] = failed;
			if (r->step == STEP_DROPPED)
				return true;
		} else {
			first = p->first + (from - p->at) / SL_LINE_SIZE;
			failed = region_values_update(&r->values, p->stripe, first, at, n, retry);
		}
		if (!failed)
			continue;
		missing += failed;
		for (uint32_t k = 0; k < n; k++) {
			if (!(retry[k / 64] >> k % 64 & 1))
				continue;
			if (last && p->stripe != COLLECT_PIECE_HOT)
				mark_stale(r, p->first + (from - p->at) / SL_LINE_SIZE + k);
			low = BASE_MIN(low, from + k * SL_LINE_SIZE);
			high = from + (k + 1) * SL_LINE_SIZE;
		}
	}
	if (!missing)
		return true;
	if (!collect_reads_narrow(op, read, low, high)) {
		r->missing += missing;
		return true;
	}
	if (r->slow)
		collect_turn_pay(r, high - low);
	return false;
}

static void show_values(struct collect_link *l, struct collect_region *r, const uint64_t *cell)
{
	struct collect_snapshot *b = r->snapshot;

	collect_snapshot_publish(b, cell, r->values_ns, l->worker, r->instance);
	relaxed_bump(l->worker->samples, b->layout->columns);
	if (b->seq == 2)
		collect_region_queue(r, EVENT_SNAPSHOT);
}

/*
 * Returns true if the lines were copied too long after the hot line that confirmed the layout: the
 * cells may belong to another metric by now. The clock is read after the last copy, because this
 * process may have been suspended in between.
 */
static bool lease_over(struct collect_link *l, struct collect_region *r)
{
	if (!r->info->created || base_now_ns() - r->layout_ns <= SL_LAYOUT_LEASE_NS)
		return false;
	relaxed_bump(l->worker->late_passes, 1);
	return true;
}

static void publish_values(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct collect_worker *w = l->worker;
	const struct collect_layout *layout;

	if (!r->snapshot)
		return;
	layout = r->snapshot->layout;
	region_values_flatten(&r->values, layout->special, layout->specials, layout->cells,
			      w->flat);
	if (l->c->taps)
		collect_tap_row(l, r, w->flat);
	if (hold_back(r, now_ns)) {
		/* Do not wait for the next round, unless a line seems never to settle. */
		r->want_pass = r->held++ < HELD_URGENT;
		if (r->want_pass)
			collect_table_urgent(l, r);
		return;
	}
	show_values(l, r, w->flat);
}

/*
 * Sets the time of the values. Returns false if they are those of an earlier pass, because the
 * publisher of a region with origin has not said since then that they are current.
 */
static bool take_time(struct collect_link *l, struct collect_region *r)
{
	const int64_t said = (int64_t)r->hot.changed_ns;
	const int64_t near = BASE_MIN(said, l->real_ns + ORIGIN_AHEAD_NS);

	if (r->origin && (!r->hot_seen || said == r->origin_ns))
		return false;
	r->origin_ns = said;
	r->values_ns = r->origin ? BASE_MAX(r->values_ns + 1, near) : l->real_ns;
	return true;
}

void collect_pass_publish(struct collect_link *l, struct collect_region *r, const uint64_t *cell,
			  uint64_t now_ns)
{
	r->values_ns = l->real_ns;
	if (l->c->taps)
		collect_tap_row(l, r, cell);
	show_values(l, r, cell);
	relaxed_bump(r->rounds, 1);
	relaxed_store(r->fresh_ns, now_ns);
	relaxed_store(r->last_read_ns, (uint64_t)l->real_ns);
}

/* Called when all READs of the pass have completed or failed. */
static void pass_done(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct collect_worker *w = l->worker;
	bool current;

	end_pass(l, r);
	if (r->failed || r->gone || r->step != STEP_BOUND)
		return;
	if (r->hot_seen) {
		r->hot_ok_ns = now_ns;
	} else if (now_ns - r->hot_ok_ns > HOT_MAX_NS * (uint64_t)collect_tenant_every(r->tenant)) {
		collect_region_drop(l, r, REGION_FAULT_UNSETTLED, now_ns);
		return;
	}
	if (r->missing) {
		relaxed_bump(r->unsettled, r->missing);
		relaxed_bump(w->unsettled, r->missing);
	}
	if (r->snapshot && lease_over(l, r)) {
		/* Another pass reads the hot line first; a new layout is made in the meantime. */
		r->want_pass = r->hot.generation == r->schema_seen;
		if (r->want_pass)
			collect_table_urgent(l, r);
		collect_schema_want(l, r, now_ns);
		return;
	}
	current = take_time(l, r);
	/* A new layout is shown with the values that there are. */
	if (current || (r->values_ns && r->snapshot && !r->snapshot->seq)) {
		r->values_ns += !current;
		publish_values(l, r, now_ns);
	}
	relaxed_bump(r->rounds, 1);
	if (r->hot_seen && current)
		relaxed_store(r->fresh_ns, now_ns);
	relaxed_store(r->last_read_ns, (uint64_t)l->real_ns);
	collect_schema_want(l, r, now_ns);
	collect_exemplars_read(l, r, now_ns);
	/* Reset only once the schema is valid, too, so that an invalid schema backs off. */
	if (r->snapshot && r->hot.generation == r->schema_seen)
		r->backoff_ns = 0;
	/* A dead region is final once all its lines have been read. */
	if (r->state == SL_STATE_LIVE)
		return;
	if (r->hot.generation == r->schema_seen && r->final_passes &&
	    ((r->hot_seen && !r->missing) || r->final_passes > FINAL_PASSES)) {
		collect_region_set_step(r, STEP_FINAL);
	} else if (r->final_passes++ <= FINAL_PASSES) {
		r->want_pass = true;
		collect_table_urgent(l, r);
	}
}

static bool take_read(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		      uint64_t now_ns)
{
	struct collect_region *r = op->region;

	return r->failed || r->gone || take_lines(l, r, op, read, now_ns);
}

static void fail_read(struct collect_link *l, struct collect_op *op, int status, uint64_t now_ns)
{
	op->region->failed = true;
	collect_region_read_failed(l, op, status, now_ns);
}

static void end_read(struct collect_link *l, struct collect_op *op, uint64_t now_ns)
{
	struct collect_region *r = op->region;

	r->plan_ops--;
	if (r->pass && !r->plan_ops && (r->pass_read >= r->plan.reads || r->failed))
		pass_done(l, r, now_ns);
}

static const struct collect_op_kind pass_read = {
	.take = take_read, .failed = fail_read, .over = end_read};

bool collect_pass_issue(struct collect_link *l, struct collect_region *r)
{
	const struct collect_plan *p = &r->plan;

	for (; r->pass_read < p->reads && !r->failed; r->pass_read++) {
		const struct collect_plan_read *read = &p->read[r->pass_read];
		struct collect_op *op = NULL;

		if (!r->slow || collect_turn_pay(r, read->length))
			op = collect_reads_new(l, &pass_read, r, &r->remote, read->offset,
					       read->length);
		if (!op)
			return false;
		op->index = r->pass_read;
		r->plan_ops++;
	}
	return true;
}
