/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space_saving.h - Space-Saving: which keys came most often, and how often, in m counters.
 *
 * A. Metwally, D. Agrawal, A. El Abbadi, "Efficient computation of frequent and top-k elements in
 * data streams", ICDT 2005. For N counts in all, and each key that is reported with count c and
 * error e, its true count t holds
 *
 *	c - e <= t <= c,   e <= N / m;
 *
 * a key that is not reported came at most sl_space_saving_floor() <= N / m times, so every key
 * above N / m is there.
 *
 * Counters are in a hash table and, in place of the paper's list of buckets, in a binary heap: an
 * update is O(log m) at worst and takes any weight, and mostly O(1), as a counter that rises is
 * mostly near the leaves already.
 *
 * Merge as in P. K. Agarwal et al., "Mergeable summaries", PODS 2012: the bounds hold for both
 * streams together.
 *
 * Not safe for concurrent use of one sketch. Memory is fixed at creation: at most
 * m * (52 + key) bytes.
 */
#ifndef SL_SKETCH_SPACE_SAVING_H
#define SL_SKETCH_SPACE_SAVING_H

#include <stddef.h>
#include <stdint.h>

#define SL_SPACE_SAVING_MAX 262144u
#define SL_SPACE_SAVING_KEY_MAX 64u

struct sl_space_saving;

struct sl_space_saving_item {
	const void *key; /* key_bytes of them, until the sketch changes */
	uint64_t count;
	uint64_t error;
};

/*
 * m counters (1..SL_SPACE_SAVING_MAX) for keys of key_bytes (1..SL_SPACE_SAVING_KEY_MAX) each.
 * NULL: errno EINVAL, ENOMEM.
 */
struct sl_space_saving *sl_space_saving_new(uint32_t m, uint32_t key_bytes, uint64_t seed);
void sl_space_saving_free(struct sl_space_saving *s);
void sl_space_saving_clear(struct sl_space_saving *s);

/* Counts the key n times. -EOVERFLOW, and nothing changed, if the sum would pass 2^64 - 1. */
int sl_space_saving_add(struct sl_space_saving *s, const void *key, uint64_t n);

uint64_t sl_space_saving_total(const struct sl_space_saving *s);
/* No key that isn't reported came more often. */
uint64_t sl_space_saving_floor(const struct sl_space_saving *s);

/*
 * Up to k items, the most frequent first (equal counts by key, as memcmp() has it). Returns how many.
 */
uint32_t sl_space_saving_top(const struct sl_space_saving *s, struct sl_space_saving_item *out,
			     uint32_t k);
/* The key's item; -ENOENT if it is not among them. */
int sl_space_saving_find(const struct sl_space_saving *s, const void *key,
			 struct sl_space_saving_item *out);

/* -EINVAL unless both have the same m and key_bytes; -EOVERFLOW; -ENOMEM, and nothing changed. */
int sl_space_saving_merge(struct sl_space_saving *into, const struct sl_space_saving *from);

/* As sl_fd_save() and sl_fd_load() in fd.h. */
size_t sl_space_saving_save_bytes(const struct sl_space_saving *s);
int64_t sl_space_saving_save(const struct sl_space_saving *s, void *buf, size_t bytes);
int sl_space_saving_load(struct sl_space_saving **out, const void *buf, size_t bytes);

#endif
