// SPDX-License-Identifier: Apache-2.0
/*
 * flows.c - a host's flow table: selects the slots, owners and journal lines that a pass reads, and
 * checks their bytes. Unsettled data is read again a few times; after that the last good values
 * stay, and the failure is counted. flow_count.c counts the data read.
 */
#include "collect/tables/flows.h"

#include <stdlib.h>

#include "base/base.h"
#include "base/grow.h"
#include "collect/read/link.h"
#include "collect/read/ref.h"
#include "collect/read/worker.h"

#define STUCK_MAX 10u /* passes until an unsettled journal line counts as lost */

/* ---- memory ---- */

static void clear_table(struct collect_table_reader *reader, struct collect_tables *all)
{
	struct collect_flow_table *t = (struct collect_flow_table *)reader;

	for (uint32_t i = 0; i < t->pages; i++) {
		if (!t->page[i])
			continue;
		relaxed_sub(all->c->memory, sizeof(*t->page[i]));
		relaxed_sub(all->flow_slots, FLOW_PAGE);
		free(t->page[i]);
	}
	collect_flow_owners_free(t, all->c);
	relaxed_sub(all->c->memory, t->pages * sizeof(*t->page));
	free(t->page);
	free(t->event);
	free(t->orphan);
}

static const struct collect_elements flow_slots, journal_lines;

static void set_sections(struct collect_flow_table *t)
{
	const struct region_flows_info *info = &t->info;
#define SECTION(elements, offset, size)                                              \
	{                                                                            \
		.of = &(elements), .at = (offset), .stride = (size), .bytes = (size) \
	}
	const struct collect_section sections[] = {
		[FLOW_OWNERS] = SECTION(collect_flow_owners, info->cgroups, SL_FLOW_CGROUP_SIZE),
		[FLOW_REASONS] = SECTION(collect_flow_reasons, info->reasons, SL_LINE_SIZE),
		[FLOW_DROPS] = SECTION(collect_flow_drops, info->drops, SL_LINE_SIZE),
		[FLOW_SLOTS] = SECTION(flow_slots, info->flows, SL_FLOW_SIZE),
		[FLOW_JOURNAL] = SECTION(journal_lines, info->journal, SL_LINE_SIZE),
	};
#undef SECTION

	memcpy(t->reader.section, sections, sizeof(sections));
	t->reader.section[FLOW_JOURNAL].ring = info->journal_lines;
}

static enum region_fault fill_table(struct collect_table_reader *reader, struct collect_tables *all,
				    const struct sl_region_header *copy, uint64_t length)
{
	struct collect_flow_table *t = (struct collect_flow_table *)reader;
	enum region_fault fault = region_flows_info_parse(copy, length, &t->info);

	if (fault)
		return fault;
	t->reader.hot_at = t->info.hot;
	set_sections(t);
	/* two preparatory passes: the number of owners, then the owners */
	t->naming = t->info.cgroups ? 2 : 0;
	t->pages = (t->info.slots + FLOW_PAGE - 1) / FLOW_PAGE;
	t->page = calloc(t->pages, sizeof(*t->page));
	if (!t->page || !base_table_init(&t->owner_by_id)) {
		free(t->page);
		return REGION_FAULT_MEMORY;
	}
	relaxed_add(all->c->memory, t->pages * sizeof(*t->page));
	return REGION_FAULT_NONE;
}

/*
 * Allocates pages for the slots within --tcp-flows and available memory; returns the number of
 * slots covered.
 */
static uint32_t reserve_pages(struct collect_tables *all, struct collect_flow_table *t,
			      uint32_t slots)
{
	for (uint32_t i = 0; i * FLOW_PAGE < slots; i++) {
		struct collect_flow_page *p = t->page[i];

		if (p)
			continue;
		if (!collect_tables_take(all, &all->flow_slots, all->o.flows,
					 (uint64_t)i * FLOW_PAGE, FLOW_PAGE))
			return i * FLOW_PAGE;
		p = calloc(1, sizeof(*p));
		if (!p) {
			relaxed_sub(all->flow_slots, FLOW_PAGE);
			return i * FLOW_PAGE;
		}
		relaxed_add(all->c->memory, sizeof(*p));
		/* Pairs with the acquire in collect_flow_snapshot(). */
		__atomic_store_n(&t->page[i], p, __ATOMIC_RELEASE);
	}
	return slots;
}

/* ---- the link's table ---- */

struct collect_region *collect_flows_of(struct collect_host_tables *h)
{
	struct collect_region *r;

	pthread_mutex_lock(&h->lock);
	r = h->table[TABLE_FLOWS].region;
	if (r)
		collect_ref_get(&r->refs);
	pthread_mutex_unlock(&h->lock);
	return r;
}

static void lose_table(struct collect_link *l, struct collect_region *r)
{
	collect_flows_abandon(l, collect_flow_table_of(r));
}

/* ---- a pass ---- */

static bool end_pass(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct collect_flow_table *t = collect_flow_table_of(r);

	if (t->naming) {
		t->naming--;
		t->reader.due_ns = now_ns;
		return false;
	}
	collect_flows_settle(l, t, now_ns);
	relaxed_store(t->open, t->hot.open);
	relaxed_store(t->slots_read, t->slots);
	collect_workloads_show(l, now_ns);
	return true;
}

static bool hot_follows(const struct region_flows_hot *before, const struct region_flows_hot *now)
{
	return now->round >= before->round && now->used >= before->used &&
	       now->journal >= before->journal;
}

/* Plans the pass: owners, slots, and the journal lines up to the position in the hot line. */
static void plan_body(struct collect_link *l, struct collect_flow_table *t,
		      const struct region_flows_hot *hot, uint64_t now_ns)
{
	struct collect_section *section = t->reader.section;
	uint64_t from = t->journal;

	t->hot = *hot;
	collect_section_plan(&section[FLOW_OWNERS], 0, collect_flow_owners_wanted(t, now_ns));
	t->slots = t->events = 0;
	t->pass++;
	t->last_pass_ns = t->pass_ns;
	t->pass_ns = now_ns;
	if (t->naming)
		return;
	t->slots = reserve_pages(collect_tables_of(l)->all, t, hot->used);
	relaxed_store(collect_tables_of(l)->flow_stats.slots, t->slots);
	collect_section_plan(&section[FLOW_SLOTS], 0, t->slots);
	collect_flow_drops_plan(t, now_ns);
	relaxed_store(collect_tables_of(l)->table_stats[TABLE_FLOWS].refused, hot->used - t->slots);
	/*
	 * Flows that ended before the first pass do not count, unless an earlier table of the host
	 * was read up to the start of this one.
	 */
	if (t->reader.first)
		from = t->reader.follows ? 0 : hot->journal;
	if (hot->journal - from > t->info.journal_lines) {
		relaxed_bump(collect_tables_of(l)->flow_stats.gaps,
			     hot->journal - from - t->info.journal_lines);
		from = hot->journal - t->info.journal_lines;
	}
	t->journal = from;
	t->journal_end = hot->journal;
	collect_section_plan(&section[FLOW_JOURNAL], from, hot->journal);
}

static enum region_fault take_hot(struct collect_link *l, struct collect_region *r,
				  const uint64_t *line, uint64_t now_ns)
{
	struct collect_flow_table *t = collect_flow_table_of(r);
	struct region_flows_hot hot;
	enum region_fault fault = region_flows_hot_parse(line, &t->info, &hot);

	if (!fault && !hot_follows(&t->hot, &hot))
		fault = REGION_FAULT_HOT;
	if (!fault)
		plan_body(l, t, &hot, now_ns);
	return fault;
}

/* ---- slots and journal ---- */

static enum region_fault take_slot(struct collect_link *l, struct collect_region *r, uint64_t slot,
				   const uint64_t *words, uint64_t now_ns,
				   struct collect_unsettled *u)
{
	struct collect_flow_table *t = collect_flow_table_of(r);
	struct region_flow f;
	enum region_fault fault = region_flow_parse(words, &f);

	(void)u;
	if (!fault && !collect_flow_take(l, t, (uint32_t)slot, words, &f, now_ns))
		fault = REGION_FAULT_MEMORY;
	t->dropped |= !fault && t->info.drops && f.flags & SL_FLOW_DROPPED;
	return fault;
}

static enum region_fault take_line(struct collect_link *l, struct collect_region *r,
				   uint64_t number, const uint64_t *line, uint64_t now_ns,
				   struct collect_unsettled *u)
{
	struct collect_flow_table *t = collect_flow_table_of(r);
	struct region_flow_record e;
	enum region_fault fault = region_flow_event_parse(line, number, &e);

	(void)l, (void)now_ns;
	if (fault == REGION_FAULT_CHECK) {
		u->skipped++; /* overwritten by a later line */
		return REGION_FAULT_NONE;
	}
	if (fault || e.event != SL_FLOW_EVENT_CLOSE)
		return fault;
	if (!BASE_GROW(t->event, t->events, t->event_room))
		return REGION_FAULT_MEMORY;
	t->event[t->events++] = e;
	return REGION_FAULT_NONE;
}

static void count_gaps(struct collect_link *l, struct collect_region *r,
		       const struct collect_unsettled *u)
{
	struct collect_flow_table *t = collect_flow_table_of(r);
	bool stuck = t->stuck >= STUCK_MAX;

	relaxed_bump(collect_tables_of(l)->flow_stats.gaps, u->skipped + (stuck ? u->count : 0));
	if (u->count && !stuck)
		t->journal_end = BASE_MIN(u->number, t->journal_end);
}

static const struct collect_elements flow_slots = {.take = take_slot,
						   .taken = collect_table_count_unsettled};
static const struct collect_elements journal_lines = {.take = take_line, .taken = count_gaps};

const struct collect_table_type collect_flows_type = {
	.name = "flows",
	.size = sizeof(struct collect_flow_table),
	.fill = fill_table,
	.clear = clear_table,
	.gone = lose_table,
	.hot = take_hot,
	.done = end_pass,
	.reads_max = 16,
};
