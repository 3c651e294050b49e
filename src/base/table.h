/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - a chained hash table of structs whose first member is a struct base_node. Hash keys
 * that a stranger may choose with base_hash(), so that chains stay short. Not thread-safe.
 */
#ifndef SL_BASE_TABLE_H
#define SL_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct base_node {
	struct base_node *next;
	uint64_t hash;
};

struct base_table {
	struct base_node **bucket;
	size_t buckets, count;
};

/* Returns false if out of memory. */
bool base_table_init(struct base_table *h);
/* Frees the table, but not its nodes. */
void base_table_free(struct base_table *h);
/*
 * base_table_first() returns the newest node with this hash, and base_table_next() the next older
 * one; both return NULL if there are no more.
 */
void *base_table_first(const struct base_table *h, uint64_t hash);
void *base_table_next(const void *node);
/* Never fails. If there is no memory for a larger table, the chains become longer. */
void base_table_add(struct base_table *h, void *node, uint64_t hash);
void base_table_remove(struct base_table *h, void *node);

/*
 * Loops over all nodes, in no particular order. The body may remove the node `at`, but no other
 * node.
 */
#define BASE_TABLE_EACH(t, at)                                               \
	for (size_t at##_i = 0; at##_i < (t)->buckets; at##_i++)             \
		for (struct base_node *at = (t)->bucket[at##_i], *at##_next; \
		     at && (at##_next = at->next, true); at = at##_next)

#endif
