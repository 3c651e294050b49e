// SPDX-License-Identifier: Apache-2.0
/* query.c - looks up key-write and increment keys, and computes the load of a bank */
#include "dta/store/hash_many.h"
#include "dta/query/internal.h"

#include <math.h>

int dta_query_choose(const uint32_t *agreed, uint32_t n, bool mixed, enum sl_query_policy policy,
		     uint32_t consensus, enum sl_query_result *result)
{
	uint32_t best = 0;
	bool tie = false;

	*result = SL_QUERY_EMPTY;
	if (!n)
		return -1;
	if (policy != SL_QUERY_FIRST) {
		for (uint32_t i = 1; mixed && i < n; i++) {
			tie = agreed[i] == agreed[best] || (tie && agreed[i] < agreed[best]);
			best = agreed[i] > agreed[best] ? i : best;
		}
		*result = SL_QUERY_CONFLICT;
		if (tie)
			return -1;
		if (policy == SL_QUERY_CONSENSUS && agreed[best] < consensus) {
			if (n == 1) /* no contradiction, but too few copies */
				*result = SL_QUERY_EMPTY;
			return -1;
		}
	}
	*result = SL_QUERY_FOUND;
	return (int)best;
}

/* unit: size of a unit in bytes; data: number of bytes after the check word, which covers them. */
static void read_copies(const struct dta_store_view *v, uint64_t epoch, struct dta_hash h,
			uint32_t copies, uint64_t unit, uint64_t data,
			struct dta_query_candidates *out)
{
	const uint8_t *bank = dta_store_bank(v, epoch);
	uint64_t at[SL_STORE_COPIES_MAX];
	uint32_t last = 0;

	out->n = out->asked = out->occupied = out->verified = 0;
	out->mixed = false;
	for (uint32_t i = 0; i < copies; i++) {
		uint64_t *u = out->unit[out->n];
		uint32_t j;

		at[out->asked] = dta_slot(h, i, v->config->slots);
		for (j = 0; j < out->asked && at[j] != at[out->asked]; j++)
			;
		if (j < out->asked) /* copies in the same slot count once */
			continue;
		dta_query_copy(u, bank + at[out->asked++] * unit, unit);
		out->occupied += u[0] != 0;
		if (!u[0] || u[0] != dta_check(h, u + 1, data))
			continue;
		out->verified++;
		for (j = 0; j < out->n && memcmp(out->unit[j] + 1, u + 1, data); j++)
			;
		out->mixed |= j < last;
		last = j;
		if (j == out->n)
			out->agreed[out->n++] = 0;
		out->agreed[j]++;
	}
}

/* ---- key-write ---- */

static void search_epoch(const struct dta_store_view *v, uint64_t epoch, struct dta_hash h,
			 uint32_t copies, const struct dta_query *q, struct sl_keywrite_answer *out)
{
	const struct sl_store_config *c = v->config;
	struct dta_query_candidates said;
	int best;

	read_copies(v, epoch, h, copies, sl_store_slot_bytes(c), c->value_bytes, &said);
	out->asked = said.asked;
	out->occupied = said.occupied;
	out->verified = said.verified;
	best = dta_query_choose(said.agreed, said.n, said.mixed, q->policy, q->consensus,
				&out->result);
	out->agreed = best < 0 ? 0 : said.agreed[best];
	if (best < 0)
		return;
	out->bytes = c->value_bytes;
	memcpy(out->value, said.unit[best] + 1, c->value_bytes);
}

void dta_view_keywrite(const struct dta_store_view *v, const struct dta_query *q,
		       struct sl_keywrite_answer *out)
{
	struct dta_query_search s;

	memset(out, 0, sizeof(*out));
	out->result = SL_QUERY_UNKNOWN;
	if (!dta_query_begin(v, q, SL_STORE_KEYWRITE, &s))
		return;
	for (uint64_t e = s.newest;; e--) {
		search_epoch(v, e, s.h, s.copies, q, out);
		out->epoch = e;
		out->error_probability = ldexp(s.copies, -64);
		if (dta_query_done(v, q, e, s.oldest, &out->result))
			break;
	}
	/* The key may have been found in an epoch that was retired during the search. */
	if (out->result != SL_QUERY_FOUND)
		out->bytes = 0;
}

/*
 * Hashes a batch and prefetches all its slots before reading them, so that cache misses overlap.
 * Further copies are read only for keys that are still missing.
 */
static size_t look_up_many(const struct dta_store_view *v, uint64_t epoch, uint32_t copies,
			   const uint8_t *keys, size_t key_bytes, uint32_t count, uint8_t *values,
			   uint8_t *found)
{
	const struct sl_store_config *c = v->config;
	const uint8_t *bank = dta_store_bank(v, epoch);
	const uint64_t unit = sl_store_slot_bytes(c);
	DTA_LINES uint64_t at[DTA_MANY];
	uint64_t slot[DTA_QUERY_UNIT_WORDS];
	uint32_t left[DTA_MANY], lefts = count;
	struct dta_hashes h;

	dta_hash_many(keys, key_bytes, key_bytes, c->seed, count, &h);
	for (uint32_t i = 0; i < count; i++) {
		left[i] = i;
		found[i] = SL_QUERY_EMPTY;
	}
	for (uint32_t n = 0; n < copies && lefts; n++) {
		const uint32_t asked = lefts;

		dta_slot_many(&h, n, c->slots, count, at);
		/* Prefetch into L2, which allows more outstanding misses than L1. */
		for (uint32_t k = 0; k < asked; k++)
			__builtin_prefetch(bank + at[left[k]] * unit, 0, 2);
		lefts = 0;
		for (uint32_t k = 0; k < asked; k++) {
			const uint32_t i = left[k];

			dta_query_copy(slot, bank + at[i] * unit, unit);
			if (!slot[0] ||
			    slot[0] != dta_check(dta_hash_of(&h, i), slot + 1, c->value_bytes)) {
				left[lefts++] = i;
				continue;
			}
			memcpy(values + i * c->value_bytes, slot + 1, c->value_bytes);
			found[i] = SL_QUERY_FOUND;
		}
	}
	return count - lefts;
}

size_t dta_view_keywrite_many(const struct dta_store_view *v, uint64_t epoch, uint32_t copies,
			      const void *keys, size_t key_bytes, size_t count, void *values,
			      uint8_t *found)
{
	const struct dta_query q = {
		.key = keys, .key_bytes = key_bytes, .epoch = epoch, .copies = copies};
	struct dta_query_search s;
	size_t hits = 0;

	memset(found, SL_QUERY_UNKNOWN, count);
	if (!count || !dta_query_begin(v, &q, SL_STORE_KEYWRITE, &s))
		return 0;
	for (size_t i = 0; i < count; i += DTA_MANY)
		hits += look_up_many(v, s.newest, s.copies, (const uint8_t *)keys + i * key_bytes,
				     key_bytes,
				     count - i < DTA_MANY ? (uint32_t)(count - i) : DTA_MANY,
				     (uint8_t *)values + i * v->config->value_bytes, found + i);
	/* Search older epochs one by one for keys that the newest epoch does not have. */
	for (size_t i = 0; epoch == ~0ull && s.oldest < s.newest && i < count; i++) {
		struct sl_keywrite_answer a;

		if (found[i] != SL_QUERY_EMPTY)
			continue;
		for (uint64_t e = s.newest; e-- > s.oldest && found[i] == SL_QUERY_EMPTY;) {
			dta_view_keywrite(v,
					  &(struct dta_query){
						  .key = (const uint8_t *)keys + i * key_bytes,
						  .key_bytes = key_bytes,
						  .epoch = e,
						  .copies = s.copies,
					  },
					  &a);
			if (a.result != SL_QUERY_FOUND)
				continue;
			memcpy((uint8_t *)values + i * v->config->value_bytes, a.value, a.bytes);
			found[i] = SL_QUERY_FOUND;
			hits++;
		}
	}
	if (!dta_query_valid(v, epoch == ~0ull ? s.oldest : epoch) && epoch != ~0ull) {
		memset(found, SL_QUERY_UNKNOWN, count);
		return 0;
	}
	return hits;
}

/* ---- increment ---- */

/* maximum number of cells summed per row; longer rows are sampled */
#define TOTAL_CELLS (1u << 20)

static double row_total(const uint8_t *row, uint64_t columns)
{
	uint64_t step = columns > TOTAL_CELLS ? columns / TOTAL_CELLS : 1, looked = 0;
	const uint64_t *cell = (const void *)row;
	double sum = 0;

	for (uint64_t i = 0; i < columns; i += step, looked++)
		sum += (double)__atomic_load_n(&cell[i], __ATOMIC_RELAXED);
	return sum * (double)columns / (double)looked;
}

static double total_of(struct dta_totals *t, const uint8_t *bank, uint64_t epoch, uint64_t columns)
{
	uint64_t i, known = !t ? 0 : t->used < DTA_TOTALS_MAX ? t->used : DTA_TOTALS_MAX;
	double total;

	for (i = 0; i < known; i++)
		if (t->at[i].bank == bank && t->at[i].epoch == epoch)
			return t->at[i].total;
	total = row_total(bank, columns);
	if (t) {
		i = t->used++ % DTA_TOTALS_MAX;
		t->at[i].bank = bank;
		t->at[i].epoch = epoch;
		t->at[i].total = total;
	}
	return total;
}

void dta_view_increment(const struct dta_store_view *v, const struct dta_query *q,
			struct sl_increment_answer *out)
{
	const struct sl_store_config *c = v->config;
	uint64_t newest, oldest;
	struct dta_hash h;
	uint32_t rows;

	*out = (struct sl_increment_answer){.result = SL_QUERY_UNKNOWN};
	if (c->kind != SL_STORE_INCREMENT || !dta_query_key_fits(q) ||
	    !dta_query_epochs(v, q->epoch, &newest, &oldest))
		return;
	/* Use only rows to which every report was added; other rows may be too low. */
	rows = q->copies && q->copies <= c->rows ? q->copies : c->copies ? c->copies : 1;
	h = dta_hash(q->key, q->key_bytes, c->seed);
	for (uint64_t e = newest;; e--) {
		const uint8_t *bank = dta_store_bank(v, e);

		out->value = ~0ull;
		for (uint32_t r = 0; r < rows; r++) {
			const void *at = bank +
					 sl_store_counter_offset(c, r, dta_slot(h, r, c->slots));
			uint64_t n = __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);

			out->value = n < out->value ? n : out->value;
		}
		out->epoch = e;
		out->result = out->value ? SL_QUERY_FOUND : SL_QUERY_EMPTY;
		if ((out->value || e == oldest) && !q->no_error) {
			/* G. Cormode, S. Muthukrishnan, J. Algorithms 55 (2005), theorem 1. */
			out->error = M_E / (double)c->slots *
				     total_of(q->totals, bank, e, c->slots);
			out->probability = 1 - exp(-(double)rows);
		}
		if (dta_query_done(v, q, e, oldest, &out->result))
			return;
	}
}

/* ---- success probability ---- */

/*
 * Each newer copy overwrites one of M random slots, so a copy survives U of them with probability
 * (1 - 1/M)^U, about e^(-U/M).
 */
double dta_success_behind(const struct sl_store_config *c, uint32_t copies, double units)
{
	return 1 - pow(1 - exp(-units / (double)c->slots), copies);
}

double dta_success_after(const struct sl_store_config *c, uint32_t copies, double newer)
{
	return dta_success_behind(c, copies, newer * copies);
}

double dta_success_reach(const struct sl_store_config *c, uint32_t copies, double probability)
{
	return -log1p(-pow(1 - probability, 1.0 / copies)) / copies * (double)c->slots;
}

/* ---- load ---- */

bool dta_store_count_occupied(const struct sl_store_config *c, const uint8_t *bank, uint64_t sample,
			      uint64_t *looked, uint64_t *occupied)
{
	const uint64_t unit = c->kind == SL_STORE_KEYWRITE ? sl_store_slot_bytes(c)
							   : sl_store_path_bytes(c);
	/* key-write: the check word; postcard: the words of all hops */
	const uint64_t words = c->kind == SL_STORE_KEYWRITE ? 1 : unit / 8;
	const uint64_t step = sample && sample < c->slots ? c->slots / sample : 1;

	*looked = *occupied = 0;
	if (c->kind != SL_STORE_KEYWRITE && c->kind != SL_STORE_POSTCARD)
		return false;
	for (uint64_t i = 0; i < c->slots; i += step) {
		const uint64_t *word = (const void *)(bank + i * unit);
		uint64_t any = 0;

		for (uint64_t w = 0; w < words; w++)
			any |= __atomic_load_n(&word[w], __ATOMIC_RELAXED);
		++*looked;
		*occupied += any != 0;
	}
	return true;
}

void dta_view_load(const struct dta_store_view *v, uint64_t epoch, uint64_t sample,
		   struct dta_store_load *out)
{
	const struct sl_store_config *c = v->config;
	uint64_t newest, oldest;
	double share;

	memset(out, 0, sizeof(*out));
	if (!dta_query_epochs(v, epoch, &newest, &oldest) ||
	    !dta_store_count_occupied(c, dta_store_bank(v, newest), sample, &out->looked,
				      &out->occupied))
		return;
	/*
	 * After K keys of N copies, a slot is empty with probability (1 - 1/M)^(NK), about e^-aN
	 * for a = K/M. A sample without an empty slot counts as half a slot empty, which gives a
	 * lower bound.
	 */
	share = (double)out->occupied / (double)out->looked;
	if (out->occupied == out->looked)
		share = 1 - 0.5 / (double)out->looked;
	out->load = -log1p(-share) / c->copies;
	for (uint32_t n = 1; n <= SL_STORE_COPIES_MAX; n++)
		out->predicted[n - 1] = dta_success_after(c, n, out->load * (double)c->slots);
}
