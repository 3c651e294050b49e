/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buckets.h - what histograms observed, bucket by bucket and about second by second: a ring of
 * records of fixed size in all, where the newest overwrites the oldest. It knows neither regions
 * nor metrics. Its callers lock.
 */
#ifndef SL_COLLECT_READ_BUCKETS_H
#define SL_COLLECT_READ_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collect_buckets {
	uint64_t *word;
	uint64_t words;
	uint64_t head, tail; /* positions: words since the start; the index is position % words */
};

/* One bucket's part of a record. */
struct collect_bucket {
	uint32_t index;
	uint64_t count;
};

/* 0, -ENOMEM, or -EINVAL for too few bytes. */
int collect_buckets_init(struct collect_buckets *b, size_t bytes);
void collect_buckets_free(struct collect_buckets *b);

/*
 * Adds a record of n buckets at ns, behind the one at prev, of the same histogram (0: none).
 * Returns its position + 1, or prev: n is 0, or too much for the ring.
 */
uint64_t collect_buckets_add(struct collect_buckets *b, uint64_t prev, int64_t ns,
			     const struct collect_bucket *v, size_t n);
/*
 * Reads the record at position at - 1. False: it is overwritten, or at is 0. Else *prev is the one
 * before, and bucket i of *n is collect_buckets_get(b, at, i).
 */
bool collect_buckets_read(const struct collect_buckets *b, uint64_t at, int64_t *ns, size_t *n,
			  uint64_t *prev);
struct collect_bucket collect_buckets_get(const struct collect_buckets *b, uint64_t at, size_t i);

#endif
