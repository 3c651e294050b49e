/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash_many.h - the functions of hash.h for many keys at a time, with identical results. AVX-512
 * hashes eight keys of up to 16 bytes in one pipeline: 2.7 ns per report for hash, slot and check
 * word instead of 7 ns (AMD EPYC Zen 4). Longer keys, and all keys on other processors, are hashed
 * one at a time.
 */
#ifndef SL_DTA_STORE_HASH_MANY_H
#define SL_DTA_STORE_HASH_MANY_H

#include <stdbool.h>

#include "dta/store/hash.h"

#define DTA_MANY 128u /* capacity of each array; entries beyond count are scratch */

/*
 * Alignment of arrays that vector code writes and scalar code reads soon afterwards. Store
 * forwarding fails for a vector that crosses cache lines, and the load then waits for all earlier
 * writes to slots.
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

/*
 * Hashes count keys (at most DTA_MANY) of key_bytes bytes each (4 to 64). The keys start step bytes
 * apart.
 */
void dta_hash_many(const uint8_t *keys, size_t key_bytes, size_t step, uint64_t seed,
		   uint32_t count, struct dta_hashes *out);
/* Computes the slots of copy n. */
void dta_slot_many(const struct dta_hashes *h, uint32_t n, uint64_t slots, uint32_t count,
		   uint64_t slot[DTA_MANY]);
/*
 * Computes the check words of values of value_bytes bytes each (4 to 256). The values start step
 * bytes apart.
 */
void dta_check_many(const struct dta_hashes *h, const uint8_t *values, size_t value_bytes,
		    size_t step, uint32_t count, uint64_t check[DTA_MANY]);

/* Layout of consecutive key-write reports: key, value, key, value. */
struct dta_shape {
	uint32_t key_bytes, value_bytes, copies;
	uint64_t seed, slots;
};

/*
 * Prefetches the slots of count reports (at most DTA_MANY), then writes them in order. Requires
 * AVX-512, keys of up to 16 bytes, values of 4 to 8 bytes and up to two copies; otherwise returns
 * false and writes nothing.
 *
 * Hashes stay in registers and are computed twice, once for prefetching and once for writing.
 * Stores reach the cache in order, so results saved on the stack would wait behind all outstanding
 * writes to slots.
 */
bool dta_put_many(uint8_t *bank, const struct dta_shape *shape, const uint8_t *items,
		  uint32_t count);

#endif
