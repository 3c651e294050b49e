// SPDX-License-Identifier: Apache-2.0
/*
 * segment_ring.c - a host's TCP segment ring: reads the records written since the last pass. A pass
 * ends at a record that is being written; an overwritten record shows as a missing number.
 */
#include "collect/tables/segment_ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/tables/table_reader.h"
#include "region/nic.h"

/* a ring of 65,536 records can then take 650,000 segments per second */
#define PERIOD_MAX_NS	 100000000u
#define RECORDS_PER_PASS 32768u

/* Stored in place of a record's number. */
#define MISSED UINT64_MAX

struct segment_ring {
	struct collect_table_reader reader;
	struct region_nic_info info;
	bool fresh;    /* nothing of this ring was read yet: start at the head */
	uint64_t next; /* number of the record to be read next */
	uint64_t head;
	/*
	 * number of records that this pass reads, and of those before the first one that was still
	 * being written
	 */
	uint32_t want, upto;
	struct collect_segment_batch *batch;
};

static struct segment_ring *ring_of(const struct collect_region *r)
{
	return (struct segment_ring *)collect_table_reader_of(r);
}

static void batch_drop(struct segment_ring *t, struct collect_collector *c)
{
	if (t->batch)
		relaxed_sub(c->memory, t->batch->bytes);
	free(t->batch);
	t->batch = NULL;
}

static struct collect_segment_batch *batch_new(struct collect_link *l, const struct segment_ring *t,
					       uint32_t room)
{
	size_t bytes = sizeof(struct collect_segment_batch) +
		       room * sizeof(struct region_nic_record);
	struct collect_segment_batch *b = malloc(bytes);

	if (!b)
		return NULL;
	memset(b, 0, sizeof(*b));
	b->bytes = bytes;
	b->host = (size_t)(l->host - l->c->host);
	b->begun_ns = t->reader.begun_ns;
	memcpy(b->boot_id, t->info.boot_id, sizeof(b->boot_id));
	relaxed_add(l->c->memory, bytes);
	return b;
}

static void clear_ring(struct collect_table_reader *reader, struct collect_tables *all)
{
	batch_drop((struct segment_ring *)reader, all->c);
}

static const struct collect_elements nic_records;

static enum region_fault fill_ring(struct collect_table_reader *reader, struct collect_tables *all,
				   const struct sl_region_header *copy, uint64_t length)
{
	struct segment_ring *t = (struct segment_ring *)reader;
	enum region_fault fault = region_nic_info_parse(copy, length, &t->info);

	(void)all;
	t->fresh = true;
	reader->hot_at = t->info.hot;
	reader->section[0] = (struct collect_section){.of = &nic_records,
						      .at = t->info.ring,
						      .stride = SL_NIC_SIZE,
						      .bytes = SL_NIC_SIZE,
						      .ring = t->info.records};
	return fault;
}

static void lose_ring(struct collect_link *l, struct collect_region *r)
{
	struct collect_segment_batch *b = batch_new(l, ring_of(r), 0);

	if (!b)
		return; /* out of memory: give up; the host will become stale */
	b->gone = true;
	collect_pair_latency_push(collect_tables_of(l)->all->pair_latency, b);
}

/* ---- a pass ---- */

static bool end_pass(struct collect_link *l, struct collect_region *r, uint64_t now_ns)
{
	struct segment_ring *t = ring_of(r);
	struct collect_segment_batch *b = t->batch;

	for (uint32_t i = 0; i < t->upto; i++)
		if (b->record[i].number != MISSED)
			b->record[b->n++] = b->record[i];
	b->to = t->next = t->next + t->upto;
	b->over_ns = now_ns;
	b->anew = t->fresh;
	t->fresh = false;
	t->batch = NULL;
	if (t->upto == t->want && t->next < t->head)
		t->reader.due_ns = now_ns; /* read the remaining records immediately */
	collect_pair_latency_push(collect_tables_of(l)->all->pair_latency, b);
	return true;
}

static enum region_fault plan_body(struct collect_link *l, struct segment_ring *t,
				   const struct region_nic_hot *hot)
{
	if (t->fresh)
		t->next = hot->head; /* skip records older than this reader */
	if (hot->head - t->next > t->info.records)
		t->next = hot->head - t->info.records;
	t->head = hot->head;
	t->want = t->upto = (uint32_t)BASE_MIN(hot->head - t->next, RECORDS_PER_PASS);
	collect_section_plan(&t->reader.section[0], t->next, t->next + t->want);
	batch_drop(t, l->c);
	t->batch = batch_new(l, t, t->want);
	if (!t->batch)
		return REGION_FAULT_MEMORY;
	t->batch->headless = hot->headless;
	return REGION_FAULT_NONE;
}

static enum region_fault take_hot(struct collect_link *l, struct collect_region *r,
				  const uint64_t *line, uint64_t now_ns)
{
	struct segment_ring *t = ring_of(r);
	struct region_nic_hot hot;
	enum region_fault fault = region_nic_hot_parse(line, &hot);

	(void)now_ns;
	if (fault)
		return fault;
	t->fresh |= t->reader.dropped; /* after a drop, treat the ring as a new one */
	t->reader.dropped = false;
	if (!t->fresh && hot.head < t->next)
		return REGION_FAULT_HOT;
	return plan_body(l, t, &hot);
}

static enum region_fault take_record(struct collect_link *l, struct collect_region *r,
				     uint64_t number, const uint64_t *words, uint64_t now_ns,
				     struct collect_unsettled *u)
{
	struct segment_ring *t = ring_of(r);
	uint32_t at = (uint32_t)(number - t->next);
	struct region_nic_record *to = &t->batch->record[at];
	enum region_fault fault = region_nic_record_parse(words, number, to);

	(void)l, (void)now_ns, (void)u;
	if (region_nic_comes(fault, to, number, t->head, &t->info))
		t->upto = BASE_MIN(t->upto, at);
	else if (fault)
		to->number = MISSED;
	return REGION_FAULT_NONE;
}

static const struct collect_elements nic_records = {.take = take_record};

const struct collect_table_type collect_segments_type = {
	.name = "segments",
	.size = sizeof(struct segment_ring),
	.fill = fill_ring,
	.clear = clear_ring,
	.gone = lose_ring,
	.hot = take_hot,
	.done = end_pass,
	.period_max_ns = PERIOD_MAX_NS,
	.reads_max = 8,
};
