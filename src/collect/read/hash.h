/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - a chained hash table of structs whose first member is a struct collect_node. */
#ifndef SL_COLLECT_READ_HASH_H
#define SL_COLLECT_READ_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collect_node {
	struct collect_node *next;
	uint64_t hash;
};

struct collect_hash {
	struct collect_node **bucket;
	size_t buckets, count;
};

/* Returns false if out of memory. */
bool collect_hash_init(struct collect_hash *h);
/* Frees the table, but not its nodes. */
void collect_hash_free(struct collect_hash *h);
/*
 * collect_hash_first() returns the first node with this hash, collect_hash_next() the following
 * one; NULL: no more.
 */
void *collect_hash_first(const struct collect_hash *h, uint64_t hash);
void *collect_hash_next(const void *node);
/* Never fails: if the table cannot grow, its chains get longer. */
void collect_hash_add(struct collect_hash *h, void *node, uint64_t hash);
void collect_hash_remove(struct collect_hash *h, void *node);

#endif
