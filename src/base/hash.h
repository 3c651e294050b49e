/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - the hash of every table whose keys a stranger may choose. */
#ifndef SL_BASE_HASH_H
#define SL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * SipHash-1-3 (Aumasson and Bernstein, 2012) under a random key of this process: keys that are
 * chosen without knowing it do not collide. A multiplicative hash (FNV-1a) cannot promise that,
 * seeded or not: the low bits of its state depend on the low bits of its input alone. XXH3 is not
 * designed against multicollisions that hold for every seed. start: 0, or the hash of what comes
 * before. Values differ from process to process: nothing stores them. Any thread.
 */
uint64_t base_hash(uint64_t start, const void *data, size_t bytes);

/* The hash of several texts one after another, each as a whole: cheaper than one call for each. */
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

#endif
