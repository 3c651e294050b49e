// SPDX-License-Identifier: Apache-2.0
/*
 * schema.c - reads a region's schema in pieces when the hot line says that the layout changed,
 * hands it to control and installs the snapshot that control makes. The cells of the section
 * created, which say which records exist, are read first: a record that exists when its cell is
 * read is not replaced for SL_REPLACE_NS.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/read/link.h"
#include "collect/read/turn.h"
#include "collect/read/worker.h"

#define SCHEMA_MIN_NS 5000000u	  /* initial time between two readings of a region's schema */
#define SCHEMA_MAX_NS 1000000000u /* maximum time, reached if the layout keeps changing */
#define SCHEMA_TRIES  5u
#define SCHEMA_PIECE  65536u
#define PIECE_READ_NS 100000u /* assumed cost of posting the READ of a piece, which may copy it */

/*
 * Returns true if some of the region's series were refused, and there is room now for all of them
 * or for a useful number.
 */
static bool has_room(const struct collect_collector *c, const struct collect_region *r)
{
	uint32_t refused = r->snapshot ? r->snapshot->layout->refused : 0;
	uint64_t useful = c->opts.max_series / 64 + 1;

	return refused && collect_series_room(c, r->tenant) >= BASE_MIN((uint64_t)refused, useful);
}

void collect_schema_want(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	bool room = has_room(l->c, r);

	if (r->schema_step != SCHEMA_IDLE || now_ns < r->schema_at_ns ||
	    (r->hot.generation == r->schema_seen && !room))
		return;
	r->schema_step = SCHEMA_WANTED;
	collect_table_urgent(l, r);
}

static void schema_done(struct collect_link *l, struct collect_region *r)
{
	if (r->schema_failed) {
		r->schema_step = SCHEMA_IDLE;
		r->schema_seen = 0;
		return;
	}
	r->schema_step = SCHEMA_BUILDING;
	collect_table_urgent(l, r);
	collect_region_queue(r, EVENT_SCHEMA);
}

/* Returns the length of the piece at byte `at`, which lies in created or in the schema. */
static uint32_t piece_bytes(const struct collect_region *r, uint32_t at)
{
	uint32_t end = at < r->created_bytes ? r->created_bytes : r->schema_length;

	return BASE_MIN(end - at, SCHEMA_PIECE);
}

/*
 * Takes the lines [low, high) of a piece that verify. Returns false if the other lines must be read
 * again.
 */
static bool take_created(struct collect_region *r, struct collect_op *op, struct fabric_read *read)
{
	uint32_t low = UINT32_MAX, high = 0, from = op->low;

	for (uint32_t at = from; at < op->high; at += SL_LINE_SIZE) {
		const uint64_t *line = (const uint64_t *)((const uint8_t *)read->to + (at - from));

		if (line[7] == sl_mixed_check(line)) {
			memcpy(r->schema_bytes + op->index + at, line, SL_LINE_SIZE);
		} else {
			low = BASE_MIN(low, at);
			high = at + SL_LINE_SIZE;
		}
	}
	if (low == UINT32_MAX)
		return true;
	r->schema_failed = !collect_reads_narrow(op, read, low, high);
	return r->schema_failed;
}

static bool take_piece(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		       uint64_t now_ns)
{
	struct collect_region *r = op->region;
	uint64_t start = base_now_ns();
	bool taken = true;

	(void)l;
	if (r->schema_failed)
		return true;
	if (op->index < r->created_bytes)
		taken = take_created(r, op, read);
	else
		memcpy(r->schema_bytes + op->index, read->to, read->length);
	/*
	 * Page faults take most of this time, because the schema's memory is used for the first
	 * time.
	 */
	collect_turn_spend(r, base_now_ns() - start, now_ns);
	return taken;
}

static void fail_piece(struct collect_link *l, struct collect_op *op, int status, uint64_t now_ns)
{
	(void)l, (void)status, (void)now_ns;
	op->region->schema_failed = true;
}

static void end_piece(struct collect_link *l, struct collect_op *op, uint64_t now_ns)
{
	struct collect_region *r = op->region;

	(void)now_ns;
	r->schema_got += piece_bytes(r, op->index);
	if (r->schema_step == SCHEMA_READING && r->schema_got == r->schema_posted &&
	    (r->schema_posted == r->schema_length || r->schema_failed))
		schema_done(l, r);
}

static const struct collect_op_kind schema_piece = {
	.take = take_piece, .failed = fail_piece, .over = end_piece};

void collect_schema_abort(struct collect_region *r)
{
	r->schema_failed = true;
	if (r->schema_step == SCHEMA_WANTED ||
	    (r->schema_step == SCHEMA_READING && r->schema_got == r->schema_posted)) {
		r->schema_step = SCHEMA_IDLE;
		r->schema_seen = 0;
	}
}

void collect_schema_read(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	if (r->schema_step == SCHEMA_WANTED) {
		uint64_t created = region_created_lines(r->info, r->hot.schema_used) * SL_LINE_SIZE;
		uint64_t length = created + r->hot.schema_used;
		uint8_t *bytes;

		if (length > UINT32_MAX)
			return; /* only a schema of 4 GiB could be this long */
		/* No READ and no layout uses the bytes: control has returned its result. */
		bytes = realloc(r->schema_bytes, length ? length : 1);
		if (!bytes)
			return;
		r->schema_bytes = bytes;
		r->schema_length = (uint32_t)length;
		r->created_bytes = (uint32_t)created;
		r->schema_generation = r->hot.generation;
		r->schema_hot_ns = r->hot_ns;
		r->schema_posted = r->schema_got = 0;
		r->schema_failed = false;
		relaxed_store(r->held_layout, false);
		r->schema_step = SCHEMA_READING;
		/* The pause grows while the layout keeps changing. */
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
		uint32_t at = r->schema_posted, n = piece_bytes(r, at);
		uint64_t offset = at < r->created_bytes ? r->info->created + at
							: r->info->schema + at - r->created_bytes;
		struct collect_op *op;

		/* A record must be copied later than its cell. */
		if (at >= r->created_bytes && r->schema_got < r->created_bytes)
			return;
		if (!collect_turn_schema(r, now_ns)) {
			collect_region_hold(r);
			return;
		}
		/*
		 * Not charged to the tenant's part of the rounds, because passes would use up all
		 * of it.
		 */
		op = collect_reads_new(l, &schema_piece, r, &r->remote, offset, n);
		if (!op)
			return;
		collect_turn_spend(r, (uint64_t)PIECE_READ_NS * n / SCHEMA_PIECE, now_ns);
		op->index = r->schema_posted;
		r->schema_posted += n;
	}
}

/*
 * Records, for the history, the time since which each column has had its current metric. Returns
 * true if a column now has another metric, or none.
 */
static bool compare_columns(struct collect_snapshot *now, const struct collect_snapshot *before)
{
	uint32_t n = before ? BASE_MIN(before->layout->columns, now->layout->columns) : 0;
	int64_t real_ns = (int64_t)base_realtime_ns();
	bool renamed = false;

	for (uint32_t i = 0; now->since_ns && i < n; i++) {
		const struct collect_column *a = &before->layout->column[i],
					    *b = &now->layout->column[i];
		bool same = a->def == b->def && a->removed == b->removed;

		now->since_ns[i] = !same ? real_ns : before->since_ns ? before->since_ns[i] : 0;
		renamed |= !same;
	}
	return renamed;
}

void collect_schema_install(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct collect_built *built = __atomic_exchange_n(&r->built, NULL, __ATOMIC_ACQUIRE);
	struct collect_worker *w = l->worker;
	struct collect_snapshot *b;

	if (!built)
		return;
	b = built->snapshot;
	r->schema_step = SCHEMA_IDLE;
	if (!b) {
		enum region_fault fault = built->fault;

		if (r->step != STEP_BOUND)
			return;
		if (fault == REGION_FAULT_NONE || fault == REGION_FAULT_MEMORY)
			r->schema_at_ns = now_ns + SCHEMA_MAX_NS; /* out of memory */
		else if (fault == REGION_FAULT_CHECK && ++r->schema_tries < SCHEMA_TRIES)
			r->schema_at_ns = now_ns + SCHEMA_MIN_NS;
		else
			collect_region_drop(l, r, fault, now_ns);
		return;
	}
	if (!base_grow(&w->flat, &w->flat_cells, b->layout->cells, sizeof(*w->flat))) {
		collect_snapshot_put(b, r->c);
		return;
	}
	/* The schema names cells beyond the lines that the hot line says are in use. */
	if (b->layout->lines > r->hot.lines_used) {
		collect_snapshot_put(b, r->c);
		collect_region_drop(l, r, REGION_FAULT_CELLS, now_ns);
		return;
	}
	r->schema_seen = b->layout->generation;
	r->layout_ns = r->schema_hot_ns;
	r->renamed = compare_columns(b, r->snapshot) ||
		     (r->renamed && (r->snapshot_new || r->any_unseen));
	if (r->snapshot) {
		b->chunk = collect_snapshot_flush(r->snapshot, w, r->instance);
		collect_snapshot_put(r->snapshot, r->c);
	}
	r->snapshot = b;
	r->snapshot_new = true;
	r->snapshot_ns = now_ns;
	r->schema_tries = 0;
	r->want_pass = true;
	if (r->step == STEP_FINAL)
		relaxed_store(r->step, STEP_BOUND);
}
