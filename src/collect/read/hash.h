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

/* False: out of memory. */
bool collect_hash_init(struct collect_hash *h);
/* Frees the table, not what it holds. */
void collect_hash_free(struct collect_hash *h);
/* The first, and after it the next with this hash; NULL: no more. */
void *collect_hash_first(const struct collect_hash *h, uint64_t hash);
void *collect_hash_next(const void *node);
/* Never fails: without memory to grow, chains get longer. */
void collect_hash_add(struct collect_hash *h, void *node, uint64_t hash);
void collect_hash_remove(struct collect_hash *h, void *node);

#endif
