/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buckets.h - a history of histogram buckets, about one record per second. The records share a ring
 * of fixed size, where the newest overwrites the oldest. This file does not depend on regions or
 * metrics. The caller must serialize all calls.
 */
#ifndef SL_COLLECT_READ_BUCKETS_H
#define SL_COLLECT_READ_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collect_buckets {
	uint64_t *word;
	uint64_t words;
	/* positions count the words written so far; the index is position % words */
	uint64_t head, tail;
};

/* The count of one bucket in a record. */
struct collect_bucket {
	uint32_t index;
	uint64_t count;
};

/* Returns 0, -ENOMEM, or -EINVAL if bytes is too small. */
int collect_buckets_init(struct collect_buckets *b, size_t bytes);
void collect_buckets_free(struct collect_buckets *b);

/*
 * Adds a record of n buckets at ns; prev is the position + 1 of the same histogram's previous
 * record (0 means none), and sum the sum of the observations before this record. Returns the new
 * record's position + 1, or prev if n is 0 or the record is too large for the ring.
 */
uint64_t collect_buckets_add(struct collect_buckets *b, uint64_t prev, int64_t ns, double sum,
			     const struct collect_bucket *v, size_t n);
/*
 * Reads the record at position at - 1. Returns false if the record was overwritten or at is 0.
 * Otherwise sets *prev to the previous record and *n to the number of buckets;
 * collect_buckets_get(b, at, i) returns bucket i, and collect_buckets_sum(b, at) the sum.
 */
bool collect_buckets_read(const struct collect_buckets *b, uint64_t at, int64_t *ns, size_t *n,
			  uint64_t *prev);
double collect_buckets_sum(const struct collect_buckets *b, uint64_t at);
struct collect_bucket collect_buckets_get(const struct collect_buckets *b, uint64_t at, size_t i);

#endif
