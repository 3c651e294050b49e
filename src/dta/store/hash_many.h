/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash_many.h - hash.h of many keys at a time: the same words, bit for bit
 * (tests/dta/test_hash_many.c). Where the processor has AVX-512, eight keys of up to 16 bytes go
 * through one pipeline: 2.7 ns for the hash, slot and check word of a report that take 7 ns one by
 * one (AMD EPYC Zen 4). Elsewhere, and for longer keys, one by one.
 */
#ifndef SL_DTA_STORE_HASH_MANY_H
#define SL_DTA_STORE_HASH_MANY_H

#include <stdbool.h>

#include "dta/store/hash.h"

#define DTA_MANY 128u /* room of each array: places behind count are scratch */

/*
 * Of arrays that are filled by vectors and read at once: a vector that crosses lines of the cache
 * can't be handed from a store to a load, which then waits behind all writes to slots that are
 * under way.
 */
#define DTA_LINES _Alignas(64)

struct dta_hashes {
	DTA_LINES uint64_t lo[DTA_MANY];
	uint64_t hi[DTA_MANY];
};

static inline struct dta_hash dta_hash_of(const struct dta_hashes *h, uint32_t i)
{
	return (struct dta_hash){h->lo[i], h->hi[i]};
}

/* Of count keys (to DTA_MANY) of key_bytes (4 to 64), step bytes apart. */
void dta_hash_many(const uint8_t *keys, size_t key_bytes, size_t step, uint64_t seed,
		   uint32_t count, struct dta_hashes *out);
/* Their slots of copy n. */
void dta_slot_many(const struct dta_hashes *h, uint32_t n, uint64_t slots, uint32_t count,
		   uint64_t slot[DTA_MANY]);
/* Their check words over values of value_bytes (4 to 256), step bytes apart. */
void dta_check_many(const struct dta_hashes *h, const uint8_t *values, size_t value_bytes,
		    size_t step, uint32_t count, uint64_t check[DTA_MANY]);

/* Of Key-Write's reports that follow one another: key, value, key, value. */
struct dta_shape {
	uint32_t key_bytes, value_bytes, copies;
	uint64_t seed, slots;
};

/*
 * Asks for the slots of count (to DTA_MANY) reports and then writes them, one report after the
 * other. Slots of 16 bytes (values of 4 to 8), up to two copies, keys of up to 16 bytes, with
 * AVX-512; else false, and nothing is written.
 *
 * Everything stays in registers, and is computed twice, to ask and to write: writes reach the cache
 * in order, so that whatever the next reports put on the stack would wait there behind all slots
 * that are under way.
 */
bool dta_put_many(uint8_t *bank, const struct dta_shape *shape, const uint8_t *items,
		  uint32_t count);

#endif
