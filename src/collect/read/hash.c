// SPDX-License-Identifier: Apache-2.0
#include "collect/read/hash.h"

#include <stdlib.h>

#define FIRST_BUCKETS 256u

bool collect_hash_init(struct collect_hash *h)
{
	*h = (struct collect_hash){.buckets = FIRST_BUCKETS};
	h->bucket = calloc(h->buckets, sizeof(*h->bucket));
	return h->bucket;
}

void collect_hash_free(struct collect_hash *h)
{
	free(h->bucket);
	h->bucket = NULL;
}

static void *next_same(struct collect_node *n, uint64_t hash)
{
	while (n && n->hash != hash)
		n = n->next;
	return n;
}

void *collect_hash_first(const struct collect_hash *h, uint64_t hash)
{
	return next_same(h->bucket[hash % h->buckets], hash);
}

void *collect_hash_next(const void *node)
{
	const struct collect_node *n = node;

	return next_same(n->next, n->hash);
}

static void put_node(struct collect_hash *h, struct collect_node *n)
{
	struct collect_node **at = &h->bucket[n->hash % h->buckets];

	n->next = *at;
	*at = n;
}

static void grow_table(struct collect_hash *h)
{
	struct collect_hash to = {.buckets = h->buckets * 4, .count = h->count};

	to.bucket = calloc(to.buckets, sizeof(*to.bucket));
	if (!to.bucket)
		return;
	for (size_t i = 0; i < h->buckets; i++)
		for (struct collect_node *n = h->bucket[i], *next; n; n = next) {
			next = n->next;
			put_node(&to, n);
		}
	free(h->bucket);
	*h = to;
}

void collect_hash_add(struct collect_hash *h, void *node, uint64_t hash)
{
	struct collect_node *n = node;

	if (h->count++ >= h->buckets)
		grow_table(h);
	n->hash = hash;
	put_node(h, n);
}

void collect_hash_remove(struct collect_hash *h, void *node)
{
	const struct collect_node *n = node;
	struct collect_node **at = &h->bucket[n->hash % h->buckets];

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	h->count--;
}
