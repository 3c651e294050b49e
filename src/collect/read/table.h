/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_TABLE_H
#define SL_COLLECT_READ_TABLE_H

#include <stdint.h>

struct collect_link;
struct collect_region;

void collect_table_free(struct collect_link *l);
struct collect_region *collect_table_find(struct collect_link *l, uint64_t instance);
/* Returns NULL if out of memory or max_regions is reached. */
struct collect_region *collect_table_add(struct collect_link *l, uint64_t instance);
/* Removes r from the table at once; r is freed when none of its READs is in flight. */
void collect_table_remove(struct collect_link *l, struct collect_region *r);
/* Frees removed regions. Call only between rounds, when no position in region[] is held. */
void collect_table_sweep(struct collect_link *l);
/* Lets collect_region_setup() handle r until there is nothing left to wait for. */
void collect_table_urgent(struct collect_link *l, struct collect_region *r);

#endif
