// SPDX-License-Identifier: Apache-2.0
#include "collect/read/buckets.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/*
 * A record: its number of words, the time, the previous record's position + 1, the sum before, then
 * one word per bucket.
 */
#define HEAD_WORDS 4u
/* A bucket is an index and a count in one word; a larger count takes several words. */
#define COUNT_BITS 40
#define COUNT_MAX  ((1ull << COUNT_BITS) - 1)
#define INDEX_MAX  ((1u << (64 - COUNT_BITS)) - 1)
#define RING_MIN   (64u << 10)

int collect_buckets_init(struct collect_buckets *b, size_t bytes)
{
	*b = (struct collect_buckets){.words = bytes / RING_MIN * (RING_MIN / 8)};
	if (!b->words)
		return -EINVAL;
	b->word = mmap(NULL, b->words * 8, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (b->word != MAP_FAILED)
		return 0;
	b->word = NULL;
	return -ENOMEM;
}

void collect_buckets_free(struct collect_buckets *b)
{
	if (b->word)
		munmap(b->word, b->words * 8);
	*b = (struct collect_buckets){.words = 0};
}

static void put_word(struct collect_buckets *b, uint64_t word)
{
	b->word[b->head++ % b->words] = word;
}

uint64_t collect_buckets_add(struct collect_buckets *b, uint64_t prev, int64_t ns, double sum,
			     const struct collect_bucket *v, size_t n)
{
	const uint64_t at = b->head;
	uint64_t words = HEAD_WORDS, bits;

	for (size_t i = 0; i < n; i++)
		words += v[i].index > INDEX_MAX ? 0 : v[i].count / COUNT_MAX + 1;
	if (words == HEAD_WORDS || words > b->words / 4)
		return prev;
	while (b->head + words - b->tail > b->words)
		b->tail += b->word[b->tail % b->words];
	put_word(b, words);
	put_word(b, (uint64_t)ns);
	put_word(b, prev);
	memcpy(&bits, &sum, sizeof(bits));
	put_word(b, bits);
	for (size_t i = 0; i < n; i++) {
		uint64_t left = v[i].count;

		for (; v[i].index <= INDEX_MAX && left >= COUNT_MAX; left -= COUNT_MAX)
			put_word(b, (uint64_t)v[i].index << COUNT_BITS | COUNT_MAX);
		if (v[i].index <= INDEX_MAX)
			put_word(b, (uint64_t)v[i].index << COUNT_BITS | left);
	}
	return at + 1;
}

bool collect_buckets_read(const struct collect_buckets *b, uint64_t at, int64_t *ns, size_t *n,
			  uint64_t *prev)
{
	if (!at || at - 1 < b->tail)
		return false;
	at--;
	*n = b->word[at % b->words] - HEAD_WORDS;
	*ns = (int64_t)b->word[(at + 1) % b->words];
	*prev = b->word[(at + 2) % b->words];
	return true;
}

double collect_buckets_sum(const struct collect_buckets *b, uint64_t at)
{
	double sum;

	memcpy(&sum, &b->word[(at + 2) % b->words], sizeof(sum));
	return sum;
}

struct collect_bucket collect_buckets_get(const struct collect_buckets *b, uint64_t at, size_t i)
{
	const uint64_t word = b->word[(at - 1 + HEAD_WORDS + i) % b->words];

	return (struct collect_bucket){(uint32_t)(word >> COUNT_BITS), word & COUNT_MAX};
}
