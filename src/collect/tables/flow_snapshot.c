// SPDX-License-Identifier: Apache-2.0
/* flow_snapshot.c - copies a flow's states for other threads, while the worker may change them. */
#include "base/base.h"
#include "collect/tables/flows.h"

#define SNAPSHOT_TRIES 8

bool collect_flow_snapshot(const struct collect_flow_table *t, uint32_t slot,
			   struct region_flow *now, struct region_flow *before, int64_t *read_ns,
			   uint64_t *workload)
{
	const struct collect_flow_page *p;
	uint64_t words[FLOW_WORDS];
	uint32_t i = slot % FLOW_PAGE;

	if (slot >= t->info.slots)
		return false;
	/* Pairs with the release in reserve_pages(). */
	p = __atomic_load_n(&t->page[slot / FLOW_PAGE], __ATOMIC_ACQUIRE);
	if (!p || !relaxed_load(p->now[i][SL_FLOW_ID]))
		return false;
	for (int tries = 0; tries < SNAPSHOT_TRIES; tries++) {
		region_copy_words(words, p->now[i], FLOW_WORDS);
		*read_ns = relaxed_load(p->read_ns[i]);
		*workload = relaxed_load(p->workload[i]);
		if (region_flow_parse(words, now))
			continue;
		if (now->state == SL_STATE_FREE)
			return false;
		region_copy_words(words, p->before[i], FLOW_WORDS);
		if (region_flow_parse(words, before) || before->id != now->id)
			before->id = 0;
		return true;
	}
	return false;
}
