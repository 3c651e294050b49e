// SPDX-License-Identifier: Apache-2.0
/* flow_snapshot.c - copies a flow's states for other threads, while the worker may change them. */
#include <string.h>

#include "collect/tables/flows.h"

#define SNAPSHOT_TRIES 8

enum region_fault collect_flow_parse(const uint64_t words[FLOW_SEEN_WORDS], struct region_flow *f)
{
	enum region_fault fault = region_flow_parse(words, f);

	/* Until its line has been read, a flow shows no dropped segments. */
	if (!fault && f->flags & SL_FLOW_DROPPED)
		region_flow_drops_parse(words + FLOW_WORDS, f);
	return fault;
}

/* Replaces the placeholder names of drop reasons with the host's names. */
static void name_drop_reasons(const struct collect_flow_table *t, struct region_flow *f)
{
	struct region_drop_reason reason;
	uint64_t line[(SL_LINE_SIZE / 8)];

	for (uint32_t i = 0; i < SL_DROPS_PER_FLOW; i++) {
		struct region_flow_drop *d = &f->drop[i];

		if (!d->segments || d->reason >= SL_DROP_REASONS)
			continue;
		region_copy_words(line, t->reason[d->reason], (SL_LINE_SIZE / 8));
		if (!region_drop_reason_parse(line, d->reason, &reason))
			memcpy(d->name, reason.name, sizeof(d->name));
	}
}

bool collect_flow_snapshot(const struct collect_flow_table *t, uint32_t slot,
			   struct region_flow *now, struct region_flow *before, int64_t *read_ns,
			   uint64_t *workload)
{
	const struct collect_flow_page *p;
	uint64_t words[FLOW_SEEN_WORDS];
	uint32_t i = slot % FLOW_PAGE;

	if (slot >= t->info.slots)
		return false;
	/* Pairs with the release in reserve_pages(). */
	p = __atomic_load_n(&t->page[slot / FLOW_PAGE], __ATOMIC_ACQUIRE);
	if (!p || !relaxed_load(p->now[i][SL_FLOW_ID]))
		return false;
	for (int tries = 0; tries < SNAPSHOT_TRIES; tries++) {
		region_copy_words(words, p->now[i], FLOW_SEEN_WORDS);
		*read_ns = relaxed_load(p->read_ns[i]);
		*workload = relaxed_load(p->workload[i]);
		if (collect_flow_parse(words, now))
			continue;
		if (now->state == SL_STATE_FREE)
			return false;
		region_copy_words(words, p->before[i], FLOW_SEEN_WORDS);
		if (collect_flow_parse(words, before) || before->id != now->id)
			before->id = 0;
		before->changed_ns += relaxed_load(p->idle_ns[i]);
		name_drop_reasons(t, now);
		return true;
	}
	return false;
}
