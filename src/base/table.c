// SPDX-License-Identifier: Apache-2.0
#include "base/table.h"

#include <stdlib.h>

#define FIRST_BUCKETS 256u /* a power of two, as is the factor by which tables grow */

bool base_table_init(struct base_table *h)
{
	*h = (struct base_table){.bucket = calloc(FIRST_BUCKETS, sizeof(*h->bucket))};
	h->buckets = h->bucket ? FIRST_BUCKETS : 0;
	return h->bucket;
}

void base_table_free(struct base_table *h)
{
	free(h->bucket);
	*h = (struct base_table){0};
}

static void *find_same(struct base_node *n, uint64_t hash)
{
	while (n && n->hash != hash)
		n = n->next;
	return n;
}

void *base_table_first(const struct base_table *h, uint64_t hash)
{
	return find_same(h->bucket[hash & (h->buckets - 1)], hash);
}

void *base_table_next(const void *node)
{
	const struct base_node *n = node;

	return find_same(n->next, n->hash);
}

/*
 * Keeps the order within chains, so that the newest of several nodes with the same hash stays
 * first.
 */
static void grow_table(struct base_table *h)
{
	struct base_table to = {.buckets = h->buckets * 4, .count = h->count};

	to.bucket = calloc(to.buckets, sizeof(*to.bucket));
	if (!to.bucket)
		return;
	BASE_TABLE_EACH(h, n) {
		struct base_node **at = &to.bucket[n->hash & (to.buckets - 1)];

		while (*at)
			at = &(*at)->next;
		n->next = NULL;
		*at = n;
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
	n->next = h->bucket[hash & (h->buckets - 1)];
	h->bucket[hash & (h->buckets - 1)] = n;
}

void base_table_remove(struct base_table *h, void *node)
{
	const struct base_node *n = node;
	struct base_node **at = &h->bucket[n->hash & (h->buckets - 1)];

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	h->count--;
}
