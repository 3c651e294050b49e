// SPDX-License-Identifier: Apache-2.0
/* hash.c - SipHash-1-3 with a random key per process. */
#include "base/hash.h"

#include <errno.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/random.h>

static uint64_t key[2];
static pthread_once_t made = PTHREAD_ONCE_INIT;

/*
 * Waits at early boot until the kernel has entropy, about a second: a key made of clocks could be
 * guessed. If a sandbox forbids the call, the kernel's 16 random bytes for each execve() serve.
 */
static void make_key(void)
{
	ssize_t n;

	do
		n = getrandom(key, sizeof(key), 0);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(key))
		memcpy(key, (const void *)getauxval(AT_RANDOM), sizeof(key));
}

static uint64_t rotate_left(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

/* Always inlined: the state then stays in registers. */
static inline __attribute__((always_inline)) void sip_round(uint64_t v[4])
{
	v[0] += v[1], v[1] = rotate_left(v[1], 13) ^ v[0], v[0] = rotate_left(v[0], 32);
	v[2] += v[3], v[3] = rotate_left(v[3], 16) ^ v[2];
	v[0] += v[3], v[3] = rotate_left(v[3], 21) ^ v[0];
	v[2] += v[1], v[1] = rotate_left(v[1], 17) ^ v[2], v[2] = rotate_left(v[2], 32);
}

static inline __attribute__((always_inline)) void take_word(uint64_t v[4], uint64_t m)
{
	v[3] ^= m;
	sip_round(v);
	v[0] ^= m;
}

static inline __attribute__((always_inline)) void init_state(uint64_t v[4], uint64_t start)
{
	uint64_t k0, k1;

	pthread_once(&made, make_key);
	k0 = key[0] ^ start;
	k1 = key[1];
	v[0] = k0 ^ 0x736f6d6570736575ull;
	v[1] = k1 ^ 0x646f72616e646f6dull;
	v[2] = k0 ^ 0x6c7967656e657261ull;
	v[3] = k1 ^ 0x7465646279746573ull;
}

/* Hashes the whole words of data, and a last one with the remaining bytes and the length. */
static inline __attribute__((always_inline)) void hash_words(uint64_t v[4], const void *data,
							     size_t bytes)
{
	const uint8_t *p = data;
	uint64_t m;

	for (size_t left = bytes; left >= 8; left -= 8, p += 8) {
		memcpy(&m, p, 8);
		take_word(v, m);
	}
	m = (uint64_t)bytes << 56;
	if (bytes % 8)
		memcpy(&m, p, bytes % 8);
	take_word(v, m);
}

static inline __attribute__((always_inline)) uint64_t finish_hash(uint64_t v[4])
{
	v[2] ^= 0xff;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t base_hash(uint64_t start, const void *data, size_t bytes)
{
	uint64_t v[4];

	init_state(v, start);
	hash_words(v, data, bytes);
	return finish_hash(v);
}

void base_hash_begin(struct base_hash *h, uint64_t start)
{
	init_state(h->v, start);
}

void base_hash_add(struct base_hash *h, const void *data, size_t bytes)
{
	uint64_t v[4] = {h->v[0], h->v[1], h->v[2], h->v[3]};

	/* Hash the length first: otherwise different lists of texts could yield the same words. */
	take_word(v, bytes);
	hash_words(v, data, bytes);
	memcpy(h->v, v, sizeof(v));
}

uint64_t base_hash_end(struct base_hash *h)
{
	return finish_hash(h->v);
}
