// SPDX-License-Identifier: Apache-2.0
#include "base/table.h"

#include <stdlib.h>

#define FIRST_BUCKETS 256u

bool base_table_init(struct base_table *h)
{
	*h = (struct base_table){.buckets = FIRST_BUCKETS};
	h->bucket = calloc(h->buckets, sizeof(*h->bucket));
	return h->bucket;
}

void base_table_free(struct base_table *h)
{
	free(h->bucket);
	h->bucket = NULL;
}

static void *find_same(struct base_node *n, uint64_t hash)
{
	while (n && n->hash != hash)
		n = n->next;
	return n;
}

void *base_table_first(const struct base_table *h, uint64_t hash)
{
	return find_same(h->bucket[hash % h->buckets], hash);
}

void *base_table_next(const void *node)
{
	const struct base_node *n = node;

	return find_same(n->next, n->hash);
}

static void put_node(struct base_table *h, struct base_node *n)
{
	struct base_node **at = &h->bucket[n->hash % h->buckets];

	n->next = *at;
	*at = n;
}

static void grow_table(struct base_table *h)
{
	struct base_table to = {.buckets = h->buckets * 4, .count = h->count};

	to.bucket = calloc(to.buckets, sizeof(*to.bucket));
	if (!to.bucket)
		return;
	for (size_t i = 0; i < h->buckets; i++)
		for (struct base_node *n = h->bucket[i], *next; n; n = next) {
			next = n->next;
			put_node(&to, n);
		}
	free(h->bucket);
	*h = to;
}

void base_table_add(struct base_table *h, void *node, uint64_t hash)
{
	struct base_node *n = node;

	if (h->count++ >= h->buckets)
		grow_table(h);
	n->hash = hash;
	put_node(h, n);
}

void base_table_remove(struct base_table *h, void *node)
{
	const struct base_node *n = node;
	struct base_node **at = &h->bucket[n->hash % h->buckets];

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	h->count--;
}
