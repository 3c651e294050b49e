// SPDX-License-Identifier: Apache-2.0
/*
 * flow_drops.c - reads the numbers of segments that a host dropped, by reason and by flow. The
 * lines by reason are read every REASONS_NS; those by flow only while the flag of a flow shows that
 * it has such a line.
 */
#include "collect/tables/flows.h"

#define REASONS_NS 1000000000u
#define LINE_WORDS (SL_LINE_SIZE / 8)

void collect_flow_drops_plan(struct collect_flow_table *t, uint64_t now_ns)
{
	bool due = t->info.reasons && now_ns >= t->reasons_ns;

	collect_section_plan(&t->reader.section[FLOW_REASONS], 0, due ? t->info.drop_reasons : 0);
	collect_section_plan(&t->reader.section[FLOW_DROPS], 0, t->dropped ? t->slots : 0);
	t->dropped = false;
	if (due)
		t->reasons_ns = now_ns + REASONS_NS;
}

static void store_line(uint64_t *to, const uint64_t *line)
{
	for (uint32_t i = 0; i < LINE_WORDS; i++)
		relaxed_store(to[i], line[i]);
}

/* Skips a line that is being written; a later pass reads it again. */
static enum region_fault take_reason(struct collect_link *l, struct collect_region *r,
				     uint64_t number, const uint64_t *line, uint64_t now_ns,
				     struct collect_unsettled *u)
{
	struct region_drop_reason reason;

	(void)l, (void)now_ns, (void)u;
	if (!region_drop_reason_parse(line, (uint32_t)number, &reason))
		store_line(collect_flow_table_of(r)->reason[number], line);
	return REGION_FAULT_NONE;
}

static void sum_reasons(struct collect_link *l, struct collect_region *r,
			const struct collect_unsettled *u)
{
	const struct collect_flow_table *t = collect_flow_table_of(r);
	uint64_t sum = 0;

	(void)u;
	for (uint32_t i = 0; i < t->info.drop_reasons; i++)
		sum |= relaxed_load(t->reason[i][0]);
	relaxed_store(collect_tables_of(l)->flow_stats.dropped, sum);
}

static enum region_fault take_drops(struct collect_link *l, struct collect_region *r,
				    uint64_t number, const uint64_t *line, uint64_t now_ns,
				    struct collect_unsettled *u)
{
	struct collect_flow_page *p = collect_flow_table_of(r)->page[number / FLOW_PAGE];

	(void)l, (void)now_ns, (void)u;
	if (line[0] && line[LINE_WORDS - 1] == sl_folded_check(line))
		store_line(p->now[number % FLOW_PAGE] + FLOW_WORDS, line);
	return REGION_FAULT_NONE;
}

const struct collect_elements collect_flow_reasons = {.take = take_reason, .taken = sum_reasons};
const struct collect_elements collect_flow_drops = {.take = take_drops};
