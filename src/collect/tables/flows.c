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

#define LINES_PER_READ (TABLE_READ_MAX / SL_LINE_SIZE)
#define STUCK_MAX      10u /* passes until an unsettled journal line counts as lost */

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

static enum region_fault fill_table(struct collect_table_reader *reader, struct collect_tables *all,
				    const struct sl_region_header *copy, uint64_t length)
{
	struct collect_flow_table *t = (struct collect_flow_table *)reader;
	enum region_fault fault = region_flows_info_parse(copy, length, &t->info);

	if (fault)
		return fault;
	t->reader.hot_at = t->info.hot;
	/* two preparatory passes: the number of owners, then the owners */
	t->naming = t->info.cgroups ? 2 : 0;
	t->pages = (t->info.slots + FLOW_PAGE - 1) / FLOW_PAGE;
	t->page = calloc(t->pages, sizeof(*t->page));
	if (!t->page)
		return REGION_FAULT_MEMORY;
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
		if (relaxed_add(all->flow_slots, FLOW_PAGE) + FLOW_PAGE > all->o.flows ||
		    !(p = calloc(1, sizeof(*p)))) {
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

static void set_flows_of(struct collect_host_tables *h, struct collect_region *r)
{
	struct collect_region *old;

	if (r)
		collect_ref_get(&r->refs);
	pthread_mutex_lock(&h->lock);
	old = h->flows;
	h->flows = r;
	pthread_mutex_unlock(&h->lock);
	collect_region_put(old);
}

struct collect_region *collect_flows_of(struct collect_host_tables *h)
{
	struct collect_region *r;

	pthread_mutex_lock(&h->lock);
	r = h->flows;
	if (r)
		collect_ref_get(&r->refs);
	pthread_mutex_unlock(&h->lock);
	return r;
}

static void bind_table(struct collect_link *l, struct collect_region *r)
{
	set_flows_of(collect_tables_of(l), r);
}

static void lose_table(struct collect_link *l, struct collect_region *r)
{
	collect_flows_abandon(l, collect_flow_table_of(r));
	set_flows_of(collect_tables_of(l), NULL);
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
	uint64_t from = t->journal;

	t->hot = *hot;
	t->owner_slot = 0;
	t->owner_slots = collect_flow_owners_wanted(t, now_ns);
	t->slot = t->slots = t->events = 0;
	t->reason_lines = t->drop_lines = 0;
	t->pass++;
	t->last_pass_ns = t->pass_ns;
	t->pass_ns = now_ns;
	if (t->naming) {
		t->journal_requested = hot->journal;
		return;
	}
	t->slots = reserve_pages(collect_tables_of(l)->all, t, hot->used);
	relaxed_store(collect_tables_of(l)->flow_stats.slots, t->slots);
	collect_flow_drops_plan(t, now_ns);
	if (t->slots < hot->used)
		relaxed_store(collect_tables_of(l)->table_stats[TABLE_FLOWS].refused,
			      hot->used - t->slots);
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
	t->journal = t->journal_requested = from;
	t->journal_end = hot->journal;
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

static bool take_slots(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		       uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_flow_table *t = collect_flow_table_of(r);
	uint32_t first = (uint32_t)((read->offset - t->info.flows) / SL_FLOW_SIZE);
	struct collect_unsettled again = {0};

	if (!collect_table_usable(r))
		return true;
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	for (uint32_t i = 0; i < read->length / SL_FLOW_SIZE; i++) {
		const uint64_t *words = (const uint64_t *)read->to + (size_t)i * FLOW_WORDS;
		struct region_flow f;
		enum region_fault fault = region_flow_parse(words, &f);

		if (fault == REGION_FAULT_UNSETTLED) {
			collect_unsettled_add(&again, i * SL_FLOW_SIZE, SL_FLOW_SIZE, 1);
		} else if (fault) {
			collect_region_drop(l, r, fault, now_ns);
			return true;
		} else if (!collect_flow_take(l, t, first + i, words, &f, now_ns)) {
			t->reader.failed = true;
			return true;
		} else {
			t->dropped |= t->info.drops && f.flags & SL_FLOW_DROPPED;
		}
	}
	if (collect_table_again(op, read, &again))
		return false;
	relaxed_bump(collect_tables_of(l)->table_stats[TABLE_FLOWS].unsettled, again.count);
	relaxed_bump(r->unsettled, again.count);
	relaxed_bump(l->worker->unsettled, again.count);
	return true;
}

static bool take_owners(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_flow_table *t = collect_flow_table_of(r);
	uint32_t first = (uint32_t)((read->offset - t->info.cgroups) / SL_FLOW_CGROUP_SIZE);
	struct collect_unsettled again = {0};

	if (!collect_table_usable(r))
		return true;
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	for (uint32_t i = 0; i < read->length / SL_FLOW_CGROUP_SIZE; i++) {
		enum region_fault fault = collect_flow_owner_take(
			l, t, first + i,
			(const uint64_t *)read->to + (size_t)i * SL_FLOW_CGROUP_SIZE / 8);

		if (fault == REGION_FAULT_UNSETTLED) {
			collect_unsettled_add(&again, i * SL_FLOW_CGROUP_SIZE, SL_FLOW_CGROUP_SIZE,
					      1);
		} else if (fault) {
			collect_region_drop(l, r, fault, now_ns);
			return true;
		}
	}
	if (collect_table_again(op, read, &again))
		return false;
	relaxed_bump(collect_tables_of(l)->table_stats[TABLE_FLOWS].unsettled, again.count);
	t->owners_moved |= again.count > 0;
	return true;
}

static bool keep_event(struct collect_flow_table *t, const struct region_flow_record *e)
{
	if (!BASE_GROW(t->event, t->events, t->event_room))
		return false;
	t->event[t->events++] = *e;
	return true;
}

static bool take_journal(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
			 uint64_t now_ns)
{
	struct collect_region *r = op->region;
	struct collect_flow_table *t = collect_flow_table_of(r);
	uint64_t place = (read->offset - t->info.journal) / SL_LINE_SIZE, gaps = 0;
	/* The journal number expected at this place in this pass. */
	uint64_t number = t->journal + ((place - t->journal) & (t->info.journal_lines - 1));
	struct collect_unsettled again = {0};

	if (!collect_table_usable(r))
		return true;
	relaxed_bump(l->worker->lines, read->length / SL_LINE_SIZE);
	for (uint32_t i = 0; i < read->length / SL_LINE_SIZE; i++) {
		const uint64_t *line = (const uint64_t *)read->to + (size_t)i * 8;
		struct region_flow_record e;
		enum region_fault fault = region_flow_event_parse(line, number + i, &e);

		if (fault == REGION_FAULT_UNSETTLED) {
			collect_unsettled_add(&again, i * SL_LINE_SIZE, SL_LINE_SIZE, 1);
		} else if (fault == REGION_FAULT_CHECK) {
			gaps++; /* overwritten by a later line */
		} else if (fault) {
			collect_region_drop(l, r, fault, now_ns);
			return true;
		} else if (e.event == SL_FLOW_EVENT_CLOSE && !keep_event(t, &e)) {
			t->reader.failed = true;
			return true;
		}
	}
	if (collect_table_again(op, read, &again))
		return false;
	relaxed_bump(collect_tables_of(l)->flow_stats.gaps, gaps);
	number += again.low / SL_LINE_SIZE;
	if (again.count && t->stuck < STUCK_MAX)
		t->journal_end = BASE_MIN(number, t->journal_end);
	else
		relaxed_bump(collect_tables_of(l)->flow_stats.gaps, again.count);
	return true;
}

/* ---- READs ---- */

static const struct collect_op_kind slots_read = COLLECT_TABLE_READ(take_slots);
static const struct collect_op_kind owners_read = COLLECT_TABLE_READ(take_owners);
static const struct collect_op_kind journal_read = COLLECT_TABLE_READ(take_journal);

static bool is_requested(const struct collect_table_reader *reader)
{
	const struct collect_flow_table *t = (const struct collect_flow_table *)reader;

	return t->slot >= t->slots && t->owner_slot >= t->owner_slots &&
	       t->reason_line >= t->reason_lines && t->drop_line >= t->drop_lines &&
	       t->journal_requested == t->hot.journal;
}

/* Requests the owners before the flows they own. */
static void request_body(struct collect_link *l, struct collect_region *r)
{
	struct collect_flow_table *t = collect_flow_table_of(r);

	if (!collect_table_request_run(l, r, &owners_read, t->info.cgroups, SL_FLOW_CGROUP_SIZE,
				       &t->owner_slot, t->owner_slots) ||
	    !collect_flow_drops_request(l, r) ||
	    !collect_table_request_run(l, r, &slots_read, t->info.flows, SL_FLOW_SIZE, &t->slot,
				       t->slots))
		return;
	while (t->journal_requested < t->hot.journal) {
		uint64_t place = t->journal_requested & (t->info.journal_lines - 1);
		uint64_t n = BASE_MIN(t->hot.journal - t->journal_requested, LINES_PER_READ);

		n = BASE_MIN(n, t->info.journal_lines - place);
		if (!collect_table_request(l, r, &journal_read,
					   t->info.journal + place * SL_LINE_SIZE,
					   (uint32_t)n * SL_LINE_SIZE))
			return;
		t->journal_requested += n;
	}
}

const struct collect_table_type collect_flows_type = {
	.name = "flows",
	.size = sizeof(struct collect_flow_table),
	.fill = fill_table,
	.clear = clear_table,
	.found = bind_table,
	.gone = lose_table,
	.hot = take_hot,
	.request = request_body,
	.requested = is_requested,
	.done = end_pass,
	.reads_max = 16,
};
