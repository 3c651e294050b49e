/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - the hash function for all tables whose keys may be chosen by an attacker. */
#ifndef SL_BASE_HASH_H
#define SL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * SipHash-1-3 (Aumasson and Bernstein, 2012) with a random key per process: keys chosen without
 * knowing it do not collide. A multiplicative hash (FNV-1a) cannot guarantee this, seeded or not:
 * the low bits of its state depend on the low bits of its input alone. XXH3 is not designed to
 * resist multicollisions that are independent of the seed. start: 0, or the hash of the preceding
 * data. Values differ between processes, so do not store them. Thread-safe.
 */
uint64_t base_hash(uint64_t start, const void *data, size_t bytes);

/* Hashes several texts in sequence, each as a unit; cheaper than one call per text. */
struct base_hash {
	uint64_t v[4];
};
void base_hash_begin(struct base_hash *h, uint64_t start);
void base_hash_add(struct base_hash *h, const void *data, size_t bytes);
uint64_t base_hash_end(struct base_hash *h);

static inline uint64_t base_hash_text(uint64_t start, const char *s)
{
	return base_hash(start, s, strlen(s));
}

static inline uint64_t base_hash_u64(uint64_t key)
{
	return base_hash(0, &key, sizeof(key));
}

#endif
