/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_reader.h - reads a kernel table of a host at its own pace beside the rounds: first the hot
 * line, then the body that it announces. It keeps the pace, the READs in flight, their retries and
 * the losses; struct collect_table_type has what differs between flows.c, slots.c and
 * segment_ring.c.
 *
 * Everything here runs on the link's worker.
 */
#ifndef SL_COLLECT_TABLES_TABLE_READER_H
#define SL_COLLECT_TABLES_TABLE_READER_H

#include <sidelight/flow.h>
#include <sidelight/nic.h>
#include <sidelight/task.h>

#include "collect/tables/internal.h"

#define TABLE_READ_MAX 65536u /* bytes of one READ of a body */

struct collect_table_reader;

struct collect_table_type {
	const char *name;
	size_t size; /* of the table, which begins with the reader */
	/*
	 * Fills a zeroed table of a region whose header was believed. After a fault nothing that
	 * it allocated is left; REGION_FAULT_MEMORY: try later.
	 */
	enum region_fault (*fill)(struct collect_table_reader *t, struct collect_tables *all,
				  const struct sl_region_header *copy, uint64_t length);
	/* Frees what the table points to. */
	void (*clear)(struct collect_table_reader *t, struct collect_tables *all);
	/* The region became the link's table, or stops being it. gone may be NULL. */
	void (*found)(struct collect_link *l, struct collect_region *r);
	void (*gone)(struct collect_link *l, struct collect_region *r);
	/*
	 * Takes the hot line and plans the body. REGION_FAULT_UNSETTLED: to be read again;
	 * REGION_FAULT_MEMORY: gives the pass up; any other fault drops the region.
	 */
	enum region_fault (*hot)(struct collect_link *l, struct collect_region *r,
				 const uint64_t *line, uint64_t now_ns);
	/* Requests the body by collect_table_request(), until that has no room. */
	void (*request)(struct collect_link *l, struct collect_region *r);
	/* The whole body was requested. */
	bool (*requested)(const struct collect_table_reader *t);
	/* All READs of a pass succeeded. False: the pass only prepared the next one. */
	bool (*done)(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
	uint64_t period_max_ns; /* 0: collect_tables_opts.period_ns is the period */
	uint32_t reads_max;	/* in flight: most of the landing memory is for the rounds */
};

extern const struct collect_table_type collect_flows_type, collect_layers_type, collect_tasks_type,
	collect_segments_type;

/* The first member of each table: collect_region.beside. */
struct collect_table_reader {
	const struct collect_table_type *type;
	enum { READER_IDLE, READER_HOT, READER_BODY } phase;
	bool failed;	    /* a READ of this pass failed, or its bytes were not good */
	bool hot_requested; /* in this pass */
	bool first;	    /* no pass is complete yet */
	bool dropped;	    /* the region was dropped because of a hot line */
	bool follows;	    /* another table of this host was read before */
	uint32_t reads;	    /* in flight */
	uint64_t hot_at;    /* offset of the hot line */
	uint64_t due_ns, begun_ns, hot_ok_ns;
};

/* The table that regions of this kind are, or -1. */
static inline int collect_table_of(uint32_t region_kind)
{
	return region_kind == SL_REGION_FLOWS	 ? TABLE_FLOWS
	       : region_kind == SL_REGION_LAYERS ? TABLE_LAYERS
	       : region_kind == SL_REGION_TASKS	 ? TABLE_TASKS
	       : region_kind == SL_REGION_NIC	 ? TABLE_SEGMENTS
						 : -1;
}

/* NULL: the region has no table yet. */
static inline struct collect_table_reader *collect_table_reader_of(const struct collect_region *r)
{
	return r->beside;
}

/* The region's header is believed: it becomes the link's table of its kind, unless there is one. */
void collect_tables_found(struct collect_link *l, struct collect_region *r,
			  const struct sl_region_header *copy, uint64_t now_ns);
/* The region is removed. */
void collect_tables_gone(struct collect_link *l, struct collect_region *r);
void collect_tables_poll(struct collect_link *l, uint64_t now_ns);
/* When collect_tables_poll() has something to do next; UINT64_MAX: never. */
uint64_t collect_tables_due(const struct collect_link *l);
void collect_table_reader_free(struct collect_region *r);

/* ---- for the types ---- */

/* The link's table of that kind is bound. */
bool collect_table_bound(const struct collect_link *l, enum collect_table table);
/* The bytes of a READ may be used: the region is still bound and the pass has not failed. */
bool collect_table_usable(const struct collect_region *r);
/* Requests part of the body; take is one of the type's. NULL: no room now. */
struct collect_op *collect_table_request(struct collect_link *l, struct collect_region *r,
					 const struct collect_op_kind *kind, uint64_t offset,
					 uint32_t length);
/* Requests the elements from *next to end, of stride bytes each. False: no room now. */
bool collect_table_request_run(struct collect_link *l, struct collect_region *r,
			       const struct collect_op_kind *kind, uint64_t offset, uint32_t stride,
			       uint32_t *next, uint32_t end);
/* A kind of READ of a body: .take is the type's. */
#define COLLECT_TABLE_READ(take_fn)                                     \
	{                                                               \
		.take = (take_fn), .failed = collect_table_read_failed, \
		.over = collect_table_read_over                         \
	}
void collect_table_read_failed(struct collect_link *l, struct collect_op *op, int status,
			       uint64_t now_ns);
void collect_table_read_over(struct collect_link *l, struct collect_op *op,
			     const struct fabric_read *read, uint64_t now_ns);

/* The part of a READ that did not settle: it alone is read again. */
struct collect_unsettled {
	uint32_t low, high, count;
};

static inline void collect_unsettled_add(struct collect_unsettled *u, uint32_t at, uint32_t bytes,
					 uint32_t count)
{
	if (!u->count)
		u->low = at;
	u->high = at + bytes;
	u->count += count;
}

/* Narrows the READ down to that part. False: all settled, or no try is left. */
bool collect_table_again(const struct collect_op *op, struct fabric_read *read,
			 const struct collect_unsettled *u);

#endif
