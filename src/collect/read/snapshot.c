// SPDX-License-Identifier: Apache-2.0
/*
 * snapshot.c - a sequence lock around the values of a region. The worker is the only writer and
 * never waits: the count is odd while it writes, and a reader that saw an odd or changed count
 * reads again. All words are accessed with relaxed atomics, so there is no data race as defined by
 * C, either.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "collect/read/collector_internal.h"
#include "collect/read/link.h"
#include "collect/read/ref.h"
#include "collect/read/worker.h"

/* Allocates memory for the rows of a chunk, from the tenant's share of the worker's memory. */
static void take_rows(struct collect_snapshot *b, const struct collect_region *r)
{
	size_t rows = COLLECT_COLUMN_ROWS * (b->layout->columns + (size_t)1) * 8;
	struct collect_turn *turn = &r->tenant->turn[r->link->queue];
	struct collect_worker *w = r->worker;

	if (rows <= collect_tenant_room(r->tenant, w->row_limit, relaxed_load(w->row_bytes),
					relaxed_load(turn->rows)))
		b->row_ns = malloc(rows);
	if (!b->row_ns) {
		relaxed_add(r->c->refused_history, 1);
		return;
	}
	b->row = (uint64_t *)(b->row_ns + COLLECT_COLUMN_ROWS);
	b->row_bytes = rows;
	b->worker = w;
	b->tenant = collect_tenant_ref(r->tenant);
	b->turn = turn;
	relaxed_add(w->row_bytes, rows);
	relaxed_add(turn->rows, rows);
}

struct collect_snapshot *collect_snapshot_new(struct collect_layout *layout,
					      const struct collect_region *r)
{
	size_t bytes = sizeof(struct collect_snapshot) + layout->cells * sizeof(uint64_t);
	struct collect_snapshot *b = calloc(1, bytes);

	if (!b)
		return NULL;
	collect_ref_get(&layout->refs);
	b->refs = 1;
	b->layout = layout;
	b->bytes = bytes;
	if (r->info->created) {
		b->since_ns = calloc(layout->columns + (size_t)1, sizeof(*b->since_ns));
		if (!b->since_ns) {
			collect_layout_put(layout);
			free(b);
			return NULL;
		}
		b->bytes += layout->columns * sizeof(*b->since_ns);
	}
	/*
	 * The first chunk has a random length: otherwise all regions would pack in the same round.
	 */
	b->target = 1 + (uint32_t)(base_hash_u64(r->instance) % COLLECT_COLUMN_ROWS);
	if (r->worker->ring.word && layout->columns)
		take_rows(b, r);
	relaxed_add(r->c->memory, b->bytes);
	return b;
}

void collect_snapshot_put(struct collect_snapshot *b, struct collect_collector *c)
{
	if (!b || !collect_ref_put(&b->refs))
		return;
	if (b->row_ns) {
		relaxed_sub(b->worker->row_bytes, b->row_bytes);
		relaxed_sub(b->turn->rows, b->row_bytes);
		collect_tenant_put(b->tenant);
	}
	relaxed_sub(c->memory, b->bytes);
	free(b->row_ns);
	free(b->since_ns);
	collect_layout_put(b->layout);
	free(b);
}

uint64_t collect_snapshot_flush(const struct collect_snapshot *b, struct collect_worker *w,
				uint64_t instance)
{
	if (!b->row_ns || !b->rows)
		return b->chunk;
	return collect_ring_append(&w->ring, instance, b->chunk, b->row_ns, b->row,
				   b->layout->columns, b->layout->f64, b->rows, b->layout->columns);
}

void collect_snapshot_publish(struct collect_snapshot *b, const uint64_t *cell, int64_t real_ns,
			      struct collect_worker *w, uint64_t instance)
{
	const struct collect_layout *l = b->layout;
	uint32_t rows = b->rows;
	uint64_t chunk = b->chunk, *row;

	/* Pack before the count becomes odd, because packing takes microseconds. */
	if (b->row_ns && rows >= b->target) {
		chunk = collect_snapshot_flush(b, w, instance);
		rows = 0;
		b->target = COLLECT_COLUMN_ROWS;
	}
	/*
	 * Pairs with collect_snapshot_retry(): a reader that sees any store below also sees the odd
	 * count.
	 */
	relaxed_store(b->seq, b->seq + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (uint32_t i = 0; i < l->cells; i++)
		relaxed_store(b->cell[i], cell[i]);
	if (b->row_ns) {
		row = b->row + (size_t)rows * l->columns;
		relaxed_store(b->row_ns[rows], real_ns);
		if (l->scalar)
			for (uint32_t i = 0; i < l->columns; i++)
				relaxed_store(row[i], cell[l->column[i].cell]);
		else
			for (uint32_t i = 0; i < l->columns; i++)
				relaxed_store(row[i], collect_column_word(&l->column[i], cell));
		rows++;
	}
	relaxed_store(b->chunk, chunk);
	relaxed_store(b->rows, rows);
	/* Pairs with the acquire in collect_snapshot_begin(): the even count is stored last. */
	__atomic_store_n(&b->seq, b->seq + 1, __ATOMIC_RELEASE);
}

uint64_t collect_snapshot_begin(const struct collect_snapshot *b)
{
	uint64_t seq;

	for (unsigned int i = 0; (seq = __atomic_load_n(&b->seq, __ATOMIC_ACQUIRE)) & 1; i++)
		if (i % 64 == 63)
			sched_yield(); /* the worker was preempted while writing */
	return seq;
}

bool collect_snapshot_retry(const struct collect_snapshot *b, uint64_t seq)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return relaxed_load(b->seq) != seq;
}

void collect_snapshot_read(const struct collect_snapshot *b, uint32_t first, uint32_t count,
			   uint64_t *out)
{
	uint64_t seq;

	do {
		seq = collect_snapshot_begin(b);
		for (uint32_t i = 0; i < count; i++)
			out[i] = relaxed_load(b->cell[first + i]);
	} while (collect_snapshot_retry(b, seq));
}
