// SPDX-License-Identifier: Apache-2.0
/*
 * sketch.c - Sketch-Merge: merges the cells that reporters send in an epoch by sum or maximum.
 * Writes whole rows once all known reporters have ended the epoch, and every sketch_ns before that.
 * Each write contains the sum so far and updates the completeness last.
 *
 * A bitmap per reporter records the cells it has sent, so that packets duplicated by the network
 * are not added twice.
 *
 * Epochs have 32 bits on the wire. Each reporter starts epochs by its own clock, so cells of the
 * next epoch wait until the store reaches it.
 */
#include "dta/engine/impl.h"

#include <errno.h>
#include <stdlib.h>

#define WRITE_BYTES 4096u

struct dta_sketch_reporter {
	uint64_t *seen; /* one bit per cell */
	uint32_t items; /* reports with new cells */
	uint32_t said;	/* reports that the reporter claims to have sent */
	bool ended;
};

struct dta_sketch_part { /* one epoch of a sketch */
	uint64_t epoch;
	uint8_t *cells; /* u64 or registers, as in the store */
	struct dta_sketch_reporter reporter[SL_STORE_REPORTERS_MAX];
	struct sl_store_complete complete;
	uint64_t waiting; /* reports that are not written yet */
	uint64_t merged;  /* waiting reports that carry cells */
	uint64_t since;	  /* arrival time of the oldest waiting report */
	uint64_t given;	  /* bytes of rows that were already written when the output became full */
	uint32_t begun;	  /* number of reporters that have sent anything */
	bool immediate, dirty;
	bool due; /* a reporter has ended the epoch since the last write */
};

struct sketch {
	/* next is NULL until a reporter sends cells of the next epoch */
	struct dta_sketch_part *now, *next;
	uint64_t cells, bytes; /* totals of all rows */
	uint8_t register_max;
};

static struct dta_sketch_part *part_new(const struct sketch *k, uint64_t epoch)
{
	struct dta_sketch_part *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->cells = calloc(1, (k->bytes + 7) & ~7ull);
	p->epoch = epoch;
	if (p->cells)
		return p;
	free(p);
	return NULL;
}

static void part_free(struct dta_sketch_part *p)
{
	if (!p)
		return;
	for (uint32_t i = 0; i < SL_STORE_REPORTERS_MAX; i++)
		free(p->reporter[i].seen);
	free(p->cells);
	free(p);
}

static int open_sketch(struct dta_engine *e, struct dta_engine_store *s, const uint64_t *next)
{
	struct sketch *k = calloc(1, sizeof(*k));

	(void)next;
	s->state = k;
	s->age_ns = e->opts.sketch_ns;
	if (!k)
		return -ENOMEM;
	k->cells = (uint64_t)s->c.rows * s->c.slots;
	k->bytes = k->cells * sl_store_cell_bytes(&s->c);
	/* A sketch of 2^p registers ranks hashes of 64 - p bits; the highest rank is 64 - p + 1. */
	k->register_max = 65;
	for (uint64_t n = s->c.slots; n > 1; n /= 2)
		k->register_max--;
	k->now = part_new(k, s->epoch);
	return k->now ? 0 : -ENOMEM;
}

/*
 * A reconnect announces the same store again. A write replaces the whole lane, so the sum must
 * include what was stored before. It is written again even if nothing waits, because the memory may
 * be new.
 */
static bool inherit_sketch(const struct dta_engine *e, struct dta_engine_store *s,
			   const struct dta_engine_store *previous)
{
	const struct sl_store_config *was = &previous->c;
	struct sketch *from = previous->state, *to = s->state;

	(void)e;
	if (previous->epoch != s->epoch || previous->lane != s->lane || was->rows != s->c.rows ||
	    was->slots != s->c.slots || was->sketch != s->c.sketch || was->seed != s->c.seed)
		return false;
	part_free(to->now);
	to->now = from->now;
	to->next = from->next;
	from->now = from->next = NULL;
	to->now->dirty = to->now->begun;
	to->now->given = 0;
	return true;
}

static void close_sketch(struct dta_engine_store *s)
{
	struct sketch *k = s->state;

	if (!k)
		return;
	part_free(k->now);
	part_free(k->next);
	free(k);
}

/*
 * Writes the sum so far. Returns 0 or the cause of failure. After a failure, the waiting reports
 * remain in the sum; they are stored with it later, or dropped at the end of the epoch.
 */
static int emit_rows(struct dta_engine *e, struct dta_engine_store *s)
{
	const struct sketch *k = s->state;
	const uint64_t lane = s->bank + s->lane * sl_store_lane_bytes(&s->c);
	struct dta_sketch_part *p = k->now;
	struct sl_store_complete *c = &p->complete;
	int cause = 0;

	if (!p->dirty)
		return 0;
	if (s->direct) {
		memcpy(s->object.map + lane + sizeof(*c), p->cells, k->bytes);
		p->given = k->bytes;
		dta_output_shm_account(e->output, 1, 0, k->bytes);
	}
	while (!cause && p->given < k->bytes) {
		uint64_t left = k->bytes - p->given, n = left < WRITE_BYTES ? left : WRITE_BYTES;

		cause = dta_engine_write(e, s, lane + sizeof(*c) + p->given, p->cells + p->given, n,
					 false);
		p->given += cause ? 0 : n;
	}
	if (!cause) {
		c->epoch = s->epoch;
		c->rows_check = dta_sketch_check(&s->c, s->lane, 1, p->cells, k->bytes);
		c->check = dta_sketch_check(&s->c, s->lane, 0, &c->epoch, sizeof(*c) - 8);
		cause = dta_engine_write(e, s, lane, c, sizeof(*c), p->immediate);
	}
	if (cause)
		return cause;
	s->stats.stored += p->waiting;
	s->stats.merged += p->merged;
	s->stats.waiting -= p->waiting;
	p->waiting = p->merged = p->given = 0;
	p->immediate = p->dirty = p->due = false;
	return 0;
}

/*
 * Returns the part for an epoch on the wire. Returns NULL if it is too late or too early, or with
 * errno set if out of memory.
 */
static struct dta_sketch_part *part_of(struct dta_engine_store *s, uint32_t epoch)
{
	struct sketch *k = s->state;
	const uint32_t ahead = epoch - (uint32_t)s->epoch;

	errno = 0;
	if (ahead == 0)
		return k->now;
	if (ahead == 1 && !k->next)
		k->next = part_new(k, s->epoch + 1);
	return ahead == 1 ? k->next : NULL;
}

static void count_report(struct dta_engine *e, struct dta_engine_store *s,
			 struct dta_sketch_part *p, uint32_t r, bool immediate)
{
	const struct dta_sketch_reporter *from = &p->reporter[r];
	struct sl_store_complete *c = &p->complete;
	uint64_t *map = &c->map[r / 64], bit = 1ull << r % 64;

	if (!p->dirty)
		p->since = e->now;
	p->dirty = true;
	p->given = 0; /* write the rows from the beginning again */
	p->immediate |= immediate;
	p->waiting++;
	s->stats.waiting++;
	if (!from->ended || from->items < from->said || *map & bit)
		return;
	*map |= bit;
	c->ended++;
	p->due = true;
}

/* Merges n cells. Returns false if none of them is new. */
static bool merge_cells(const struct dta_engine_store *s, struct dta_sketch_part *p,
			struct dta_sketch_reporter *from, uint64_t first, const uint8_t *value,
			uint32_t n)
{
	const uint64_t before = p->complete.columns;

	for (uint32_t i = 0; i < n; i++) {
		const uint64_t cell = first + i;
		uint64_t *seen = &from->seen[cell / 64], bit = 1ull << cell % 64;

		if (*seen & bit)
			continue;
		*seen |= bit;
		p->complete.columns++;
		if (s->c.sketch == SL_STORE_HLL) {
			if (value[i] > p->cells[cell])
				p->cells[cell] = value[i];
		} else {
			((uint64_t *)(void *)p->cells)[cell] += dta_get64(value + i * 8);
		}
	}
	return p->complete.columns != before;
}

/* Processes one report. Returns 0, or 1 + the drop cause. */
static uint32_t take_report(struct dta_engine *e, struct dta_engine_store *s, uint32_t r,
			    const struct dta_block *b, const uint8_t *item)
{
	const struct sketch *k = s->state;
	struct dta_sketch_part *p = part_of(s, dta_get32(item));
	const uint32_t cell_bytes = (uint32_t)sl_store_cell_bytes(&s->c);
	const bool immediate = b->flags & DTA_IMMEDIATE;
	struct dta_sketch_reporter *from;
	uint64_t row, column, n;

	if (!p)
		return 1 + (errno ? DTA_DROP_OUTPUT_FULL : DTA_DROP_LATE);
	from = &p->reporter[r];
	if (b->opcode == DTA_SKETCH_END) {
		if (from->ended)
			return 1 + DTA_DROP_DUPLICATE_HOP;
		p->begun += !from->items;
		from->ended = true;
		from->said = dta_get32(item + 4);
		count_report(e, s, p, r, immediate);
		return 0;
	}
	row = dta_get32(item + 4);
	column = dta_get32(item + 8);
	n = b->value_bytes / cell_bytes;
	if (row >= s->c.rows || column + n > s->c.slots)
		return 1 + DTA_DROP_LIST;
	for (uint32_t i = 0; s->c.sketch == SL_STORE_HLL && i < n; i++)
		if (item[12 + i] > k->register_max)
			return 1 + DTA_DROP_SHAPE;
	if (!from->seen)
		from->seen = calloc((k->cells + 63) / 64, 8);
	if (!from->seen)
		return 1 + DTA_DROP_OUTPUT_FULL;
	if (!merge_cells(s, p, from, row * s->c.slots + column, item + 12, (uint32_t)n))
		return 1 + DTA_DROP_DUPLICATE_HOP;
	p->begun += !from->items && !from->ended;
	from->items++;
	p->merged++;
	count_report(e, s, p, r, immediate);
	return 0;
}

static uint32_t block_sketch(struct dta_engine *e, struct dta_engine_store *s,
			     const struct dta_block *b)
{
	const struct sketch *k = s->state;
	const bool end = b->opcode == DTA_SKETCH_END;
	uint32_t taken = 0;

	if (b->key_bytes != (end ? 4 : 12) || (end && b->value_bytes != 4) || !b->value_bytes ||
	    (!end && b->value_bytes % sl_store_cell_bytes(&s->c)))
		return dta_engine_refuse(s, DTA_DROP_SHAPE, b->count);
	if (e->reporter >= SL_STORE_REPORTERS_MAX)
		return dta_engine_refuse(s, DTA_DROP_LIST, b->count);
	for (uint32_t i = 0; i < b->count; i++) {
		uint32_t why =
			take_report(e, s, e->reporter, b,
				    b->items + i * ((uint32_t)b->key_bytes + b->value_bytes));

		if (why)
			s->stats.dropped[why - 1]++;
		else
			taken++;
	}
	if (k->now->dirty && k->now->complete.ended >= s->c.reporters)
		emit_rows(e, s);
	return taken;
}

static int flush_sketch(struct dta_engine *e, struct dta_engine_store *s, uint64_t age)
{
	const struct dta_sketch_part *p = ((const struct sketch *)s->state)->now;
	/* All reporters that sent anything have ended the epoch; others may still begin. */
	const bool ended = p->due && p->complete.ended >= p->begun;

	return ended || e->now - p->since >= age ? emit_rows(e, s) : 0;
}

static void drop_part(struct dta_engine_store *s, struct dta_sketch_part *p, int cause)
{
	s->stats.dropped[cause] += p->waiting;
	s->stats.waiting -= p->waiting;
	p->waiting = p->merged = 0;
	p->dirty = false;
}

static void drop_sketch(struct dta_engine_store *s, int cause)
{
	const struct sketch *k = s->state;

	drop_part(s, k->now, cause);
	if (k->next)
		drop_part(s, k->next, DTA_DROP_LATE); /* the store never reached that epoch */
}

static void rotated_sketch(struct dta_engine_store *s, int cause)
{
	struct sketch *k = s->state;
	struct dta_sketch_part *old = k->now, *next = k->next;
	uint8_t *cells;

	drop_part(s, old, cause);
	if (next && next->epoch != s->epoch)
		drop_part(s, next, DTA_DROP_LATE);
	else if (next)
		k->now = next;
	k->next = NULL;
	if (k->now != old) {
		part_free(old);
		return;
	}
	part_free(next);
	/* Reuse the memory. */
	for (uint32_t i = 0; i < SL_STORE_REPORTERS_MAX; i++)
		free(old->reporter[i].seen);
	memset(old->cells, 0, k->bytes);
	cells = old->cells;
	memset(old, 0, sizeof(*old));
	old->cells = cells;
	old->epoch = s->epoch;
}

const struct dta_engine_kind dta_engine_sketch = {
	.open = open_sketch,
	.inherit = inherit_sketch,
	.close = close_sketch,
	.block = block_sketch,
	.flush = flush_sketch,
	.drop = drop_sketch,
	.rotated = rotated_sketch,
};
