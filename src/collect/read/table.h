/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_TABLE_H
#define SL_COLLECT_READ_TABLE_H

#include <stdint.h>

struct collect_link;
struct collect_region;

void collect_table_free(struct collect_link *l);
struct collect_region *collect_table_find(struct collect_link *l, uint64_t instance);
/* NULL: out of memory, or max_regions reached. */
struct collect_region *collect_table_add(struct collect_link *l, uint64_t instance);
/* Removes r from the table now; it is freed when no READ of it is in flight. */
void collect_table_remove(struct collect_link *l, struct collect_region *r);
/* Frees removed regions. Only between rounds, when no position in region[] is held. */
void collect_table_sweep(struct collect_link *l);
/* Has collect_region_setup() look after r until it has nothing to wait for. */
void collect_table_urgent(struct collect_link *l, struct collect_region *r);

#endif
