// SPDX-License-Identifier: Apache-2.0
/*
 * flow_drops.c - reads the numbers of segments that a host dropped, by reason and by flow. The
 * lines by reason are read every REASONS_NS; those by flow only while the flag of a flow shows that
 * it has such a line.
 */

#include "collect/read/worker.h"
#include "collect/tables/flows.h"

#define REASONS_NS 1000000000u
#define LINE_WORDS (SL_LINE_SIZE / 8)

void collect_flow_drops_plan(struct collect_flow_table *t, uint64_t now_ns)
{
	bool due = t->info.reasons && now_ns >= t->reasons_ns;

	t->reason_line = t->drop_line = 0;
	t->reason_lines = due ? t->info.drop_reasons : 0;
	t->drop_lines = t->dropped ? t->slots : 0;
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
static bool take_reasons(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			 uint64_t now_ns)
{
	struct collect_flow_table *t = collect_flow_table_of(op->region);
	uint32_t first = (uint32_t)((read->offset - t->info.reasons) / SL_LINE_SIZE);
	struct region_drop_reason reason;
	uint64_t sum = 0;

	(void)now_ns;
	if (!collect_table_usable(op->region))
		return true;
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	for (uint32_t i = 0; i < read->length / SL_LINE_SIZE; i++) {
		const uint64_t *line = (const uint64_t *)read->to + (size_t)i * LINE_WORDS;

		if (!region_drop_reason_parse(line, first + i, &reason))
			store_line(t->reason[first + i], line);
		sum |= relaxed_load(t->reason[first + i][0]);
	}
	relaxed_store(collect_tables_of(l)->flow_stats.dropped, sum);
	return true;
}

static bool take_drops(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		       uint64_t now_ns)
{
	struct collect_flow_table *t = collect_flow_table_of(op->region);
	uint32_t first = (uint32_t)((read->offset - t->info.drops) / SL_LINE_SIZE);

	(void)now_ns;
	if (!collect_table_usable(op->region))
		return true;
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	for (uint32_t i = 0; i < read->length / SL_LINE_SIZE; i++) {
		const uint64_t *line = (const uint64_t *)read->to + (size_t)i * LINE_WORDS;
		struct collect_flow_page *p = t->page[(first + i) / FLOW_PAGE];

		if (line[0] && line[LINE_WORDS - 1] == sl_folded_check(line))
			store_line(p->now[(first + i) % FLOW_PAGE] + FLOW_WORDS, line);
	}
	return true;
}

static const struct collect_op_kind reasons_read = COLLECT_TABLE_READ(take_reasons);
static const struct collect_op_kind drops_read = COLLECT_TABLE_READ(take_drops);

bool collect_flow_drops_request(struct collect_link *l, struct collect_region *r)
{
	struct collect_flow_table *t = collect_flow_table_of(r);

	return collect_table_request_run(l, r, &reasons_read, t->info.reasons, SL_LINE_SIZE,
					 &t->reason_line, t->reason_lines) &&
	       collect_table_request_run(l, r, &drops_read, t->info.drops, SL_LINE_SIZE,
					 &t->drop_line, t->drop_lines);
}
