// SPDX-License-Identifier: Apache-2.0
/* append.c - reads the rings of an append store */
#include "dta/query/internal.h"

#include <errno.h>
#include <time.h>

#include "base/base.h"
#include "base/budget.h"

#define LAPS	    0xffffffu /* lap numbers wrap to 1 after this many; lap 0 means never written */
#define BLOCK_WORDS (SL_STORE_BATCH_MAX * SL_STORE_VALUE_MAX / 8 + 1)
#define TRIES	    64 /* attempts to copy a block before the next call retries */

struct append_list {
	const struct sl_store_config *c;
	const uint8_t *at;
	uint64_t unit; /* bytes per block */
	uint32_t list, lane;
};

static bool ring_of(const struct dta_store_view *v, uint32_t list, uint32_t lane,
		    struct append_list *r)
{
	const struct sl_store_config *c = v->config;

	if (c->kind != SL_STORE_APPEND || list >= c->lists || lane >= c->lanes)
		return false;
	*r = (struct append_list){c, v->banks + sl_store_ring_offset(c, list, lane),
				  sl_store_block_bytes(c), list, lane};
	return true;
}

static uint32_t lap_of(const struct append_list *r, uint64_t block)
{
	return (uint32_t)(block / r->c->slots % LAPS) + 1;
}

/* Returns the lap in the tail of slot s; 0 means never written. */
static uint32_t lap_at(const struct append_list *r, uint64_t s)
{
	const void *tail = r->at + (s + 1) * r->unit - 8;

	return (uint32_t)(__atomic_load_n((const uint64_t *)tail, __ATOMIC_ACQUIRE) >> 40);
}

/*
 * Returns the signed distance between two laps, which are less than half the cycle apart. A slot
 * that was never written is older than any other.
 */
static int64_t laps_ahead(uint32_t lap, uint32_t than)
{
	int64_t d = ((int64_t)lap - than + LAPS) % LAPS;

	if (!lap)
		return -1;
	return d <= LAPS / 2 ? d : d - LAPS;
}

/*
 * Returns the number of items in the block, or 0 if the slot's content does not verify as this
 * block. words: BLOCK_WORDS.
 */
static uint32_t verify_block(const struct append_list *r, uint64_t block, uint64_t *words)
{
	uint64_t data = r->unit - 8, tail;
	uint32_t count;

	dta_query_copy(words, r->at + block % r->c->slots * r->unit, r->unit);
	tail = words[data / 8];
	count = tail >> 32 & 0xff;
	if (!count || count > r->c->batch ||
	    tail != dta_tail(r->c, r->list, r->lane, block, words, data, count))
		return 0;
	return count;
}

/*
 * Reconstructs a block's number (lap - 1 + turn * LAPS) * slots + slot. The tail does not contain
 * the turn, the number of times that the laps of a small ring have wrapped.
 */
#define TURNS 64

static bool is_block(const struct append_list *r, uint64_t slot, uint32_t lap, uint64_t turn,
		     uint64_t *block)
{
	uint64_t words[BLOCK_WORDS];

	*block = (lap - 1 + turn * LAPS) * r->c->slots + slot;
	return verify_block(r, *block, words);
}

/* Returns the turn, or -1. */
static int64_t turn_of(const struct append_list *r, uint64_t slot, uint64_t *block)
{
	const uint32_t lap = lap_at(r, slot);

	for (uint64_t k = 0; lap && k < TURNS; k++)
		for (int try = 0; try < (k ? 1 : 4); try++)
			if (is_block(r, slot, lap, k, block))
				return (int64_t)k;
	return -1;
}

#define NEAR	   256u /* slots behind the newest whose WRITEs may not have arrived whole */
#define TAILS	   4096u
#define LINE_BYTES 64u

/* Asks the budget before each TAILS tails, 64 of which count as one line. */
static bool spend_tails(const struct append_list *r, uint64_t looked, struct base_budget *budget)
{
	const uint64_t left = r->c->slots - looked;

	return looked % TAILS || base_budget_spend(budget, BASE_MIN(left, TAILS) / 64 + 1);
}

/*
 * Finds the next block if the newest tail is not that of a valid block. A translator may have
 * written anything, so at most two turns are tried per slot, except near the newest tail: with a
 * wrong block in each slot, this takes about as long as to read the ring twice.
 */
static uint64_t next_of_valid(const struct append_list *r, uint64_t newest,
			      struct base_budget *budget)
{
	const uint64_t lines = 1 + r->unit / LINE_BYTES;
	uint32_t lap, valid = 0;
	uint64_t next = 0, b;
	int64_t turn = 0;

	for (uint64_t i = 0; i < r->c->slots; i++) {
		const uint64_t s = (newest + r->c->slots - i) % r->c->slots;

		lap = lap_at(r, s);
		if (!spend_tails(r, i, budget))
			break;
		/* An older tail cannot be that of a newer block. */
		if (!lap || (valid && laps_ahead(lap, valid) < 0))
			continue;
		if (!base_budget_spend(budget, i < NEAR && !valid ? TURNS * lines : 2 * lines))
			break;
		if (i < NEAR && !valid) {
			const int64_t k = turn_of(r, s, &b);

			if (k < 0)
				continue;
			turn = k;
		} else if (!is_block(r, s, lap, (uint64_t)turn, &b) &&
			   !is_block(r, s, lap, (uint64_t)turn + 1, &b)) {
			continue;
		}
		if (b + 1 > next) {
			next = b + 1;
			valid = lap;
		}
	}
	return next;
}

uint64_t dta_append_next(const struct dta_store_view *v, uint32_t list, uint32_t lane,
			 struct base_budget *budget)
{
	struct append_list r;
	uint64_t best = 0, b;
	bool any = false;

	if (!ring_of(v, list, lane, &r))
		return 0;
	/* Any slot may have lost its WRITE. Compare the tails to find the newest block. */
	for (uint64_t s = 0; s < r.c->slots; s++) {
		uint32_t lap = lap_at(&r, s);

		if (!spend_tails(&r, s, budget))
			break;
		if (lap && (!any || laps_ahead(lap, lap_at(&r, best)) >= 0)) {
			best = s;
			any = true;
		}
	}
	if (!any)
		return 0;
	return turn_of(&r, best, &b) >= 0 ? b + 1 : next_of_valid(&r, best, budget);
}

uint64_t dta_append_oldest(const struct dta_store_view *v, uint32_t list, uint32_t lane,
			   struct base_budget *budget)
{
	uint64_t next = dta_append_next(v, list, lane, budget);

	return next > v->config->slots ? next - v->config->slots : 0;
}

/* Whether the slot of block x holds block x or a later lap. */
static bool has_reached(const struct append_list *r, uint64_t x)
{
	return laps_ahead(lap_at(r, x % r->c->slots), lap_of(r, x)) >= 0;
}

/*
 * Returns the oldest block in the ring after an overrun. Searches the tails by bisection, starting
 * from a block that was seen.
 */
static uint64_t find_oldest(const struct append_list *r, uint64_t seen)
{
	uint64_t next;

	BASE_LOWER_BOUND(next, seen + 1, seen + r->c->slots, has_reached(r, next));
	return next > r->c->slots ? next - r->c->slots : 0;
}

int dta_append_read(const struct dta_store_view *v, struct sl_query_append_reader *reader,
		    void *items, uint32_t max)
{
	uint64_t words[BLOCK_WORDS], to;
	uint32_t got = 0, count;
	struct append_list r;

	if (!ring_of(v, reader->list, reader->lane, &r) || max < r.c->batch || max > INT32_MAX)
		return -EINVAL;
	while (max - got >= r.c->batch) {
		int64_t ahead;
		int tries = 0;

		do {
			count = verify_block(&r, reader->block, words);
			ahead = count ? 0
				      : laps_ahead(lap_at(&r, reader->block % r.c->slots),
						   lap_of(&r, reader->block));
			reader->torn += !count && !ahead;
		} while (!count && !ahead && ++tries < TRIES);
		if (count) {
			memcpy((uint8_t *)items + (size_t)got * r.c->value_bytes, words,
			       (size_t)count * r.c->value_bytes);
			got += count;
			reader->items += count;
			reader->block++;
			continue;
		}
		if (ahead <= 0 || got) /* first return the items read so far */
			break;
		to = find_oldest(&r, reader->block + (uint64_t)ahead * r.c->slots);
		reader->overrun += to - reader->block;
		reader->block = to;
		return -EOVERFLOW;
	}
	return (int)got;
}

size_t dta_append_seek(const struct dta_held *held, uint64_t position,
		       struct sl_query_append_reader *r)
{
	const uint64_t epoch = position >> DTA_BLOCK_BITS;
	size_t i = held->count - 1;

	while (i && position != ~0ull && held->view[i]->config->first_epoch < epoch)
		i--;
	if (position != ~0ull && held->view[i]->config->first_epoch == epoch)
		r->block = position & ((1ull << DTA_BLOCK_BITS) - 1);
	else
		r->block = dta_append_oldest(held->view[i], r->list, r->lane, held->budget);
	return i;
}

bool dta_append_ended(const struct dta_held *held, size_t i, uint32_t list, uint32_t lane)
{
	uint8_t items[SL_STORE_BATCH_MAX * SL_STORE_VALUE_MAX];

	while (i--) {
		struct sl_query_append_reader first = {.list = list, .lane = lane};

		if (dta_append_read(held->view[i], &first, items, held->view[i]->config->batch))
			return true;
	}
	return false;
}

int dta_append_wait(const struct dta_store_view *v, struct sl_query_append_reader *r, void *items,
		    uint32_t max, uint64_t timeout_ns)
{
	uint64_t start = base_now_ns(), pause = 20000;
	int n;

	/* One-sided writes wake no reader, so poll, doubling the interval up to 5 ms. */
	while (!(n = dta_append_read(v, r, items, max)) && base_now_ns() - start < timeout_ns) {
		nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
		pause = pause < 2500000 ? 2 * pause : 5000000;
	}
	return n;
}
