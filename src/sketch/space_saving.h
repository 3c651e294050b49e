/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space_saving.h - Space-Saving: the most frequent keys and their counts, in m counters
 * (docs/sketches.md). For N counts, the true count t of each reported key with count c and error e
 * satisfies c - e <= t <= c and e <= N / m. A key that is not reported was counted at most
 * sketch_space_saving_floor() <= N / m times. A sketch is not thread-safe. Memory, at most m * (52
 * + key) bytes, is allocated at creation.
 */
#ifndef SL_SKETCH_SPACE_SAVING_H
#define SL_SKETCH_SPACE_SAVING_H

#include <stdint.h>

#define SKETCH_SPACE_SAVING_MAX	    262144u
#define SKETCH_SPACE_SAVING_KEY_MAX 64u

struct sketch_space_saving;

struct sketch_space_saving_item {
	const void *key; /* key_bytes long; valid until the sketch changes */
	uint64_t count;
	uint64_t error;
};

/*
 * Creates a sketch with m counters (1..SKETCH_SPACE_SAVING_MAX) for keys of key_bytes bytes each
 * (1..SKETCH_SPACE_SAVING_KEY_MAX). Returns NULL with errno EINVAL or ENOMEM.
 */
struct sketch_space_saving *sketch_space_saving_new(uint32_t m, uint32_t key_bytes, uint64_t seed);
void sketch_space_saving_free(struct sketch_space_saving *s);

/*
 * Adds n to the key's count. Returns -EOVERFLOW, without changing anything, if the total would
 * exceed 2^64 - 1.
 */
int sketch_space_saving_add(struct sketch_space_saving *s, const void *key, uint64_t n);

uint64_t sketch_space_saving_total(const struct sketch_space_saving *s);
/* Returns an upper bound on the count of every key that is not reported. */
uint64_t sketch_space_saving_floor(const struct sketch_space_saving *s);

/*
 * Returns the number of items stored: up to k, by descending count, then by key in memcmp() order.
 * Intended for small k, because each insertion may move up to k items.
 */
uint32_t sketch_space_saving_top(const struct sketch_space_saving *s,
				 struct sketch_space_saving_item *out, uint32_t k);

#endif
