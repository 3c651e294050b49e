/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - maps 64-bit keys to indices: open addressing, at most half full. */
#ifndef SL_ANALYSE_TABLE_H
#define SL_ANALYSE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct analyse_table {
	uint64_t *key;	 /* never 0 */
	uint32_t *index; /* index for the key at the same position */
	uint32_t room, used;
};

#define ANALYSE_TABLE_NONE UINT32_MAX

/* Returns ANALYSE_TABLE_NONE if the key is not found. */
uint32_t analyse_table_find(const struct analyse_table *t, uint64_t key);
/* Adds a key that is not yet present. Returns false if memory is exhausted. */
bool analyse_table_add(struct analyse_table *t, uint64_t key, uint32_t index);
void analyse_table_free(struct analyse_table *t);

#endif
