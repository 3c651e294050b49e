/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_reader.h - reads a kernel table of a host at its own pace outside the rounds: first the hot
 * line, then the body that the hot line announces. The reader manages the pace, READs in flight,
 * retries and losses; struct collect_table_type holds the differences between flows.c, slots.c and
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

#define TABLE_READ_MAX 65536u /* maximum bytes of one READ of a body */

struct collect_table_reader;

struct collect_table_type {
	const char *name;
	size_t size; /* bytes of the table structure, which begins with the reader */
	/*
	 * Fills in a zeroed table for a region with a valid header. On failure, frees everything it
	 * allocated; REGION_FAULT_MEMORY means try again later.
	 */
	enum region_fault (*fill)(struct collect_table_reader *t, struct collect_tables *all,
				  const struct sl_region_header *copy, uint64_t length);
	/* Frees the memory that the table points to. */
	void (*clear)(struct collect_table_reader *t, struct collect_tables *all);
	/*
	 * Called when the region becomes the link's table, and when it ceases to be. gone may be
	 * NULL.
	 */
	void (*found)(struct collect_link *l, struct collect_region *r);
	void (*gone)(struct collect_link *l, struct collect_region *r);
	/*
	 * Takes the hot line and plans the body. Returns REGION_FAULT_UNSETTLED to have the line
	 * read again and REGION_FAULT_MEMORY to give the pass up; any other fault drops the region.
	 */
	enum region_fault (*hot)(struct collect_link *l, struct collect_region *r,
				 const uint64_t *line, uint64_t now_ns);
	/* Requests the body through collect_table_request(), until there is no more room. */
	void (*request)(struct collect_link *l, struct collect_region *r);
	/* Returns true if the whole body has been requested. */
	bool (*requested)(const struct collect_table_reader *t);
	/*
	 * Called when all READs of a pass succeeded. Returns false if the pass only prepared the
	 * next one.
	 */
	bool (*done)(struct collect_link *l, struct collect_region *r, uint64_t now_ns);
	/* maximum period; 0 means collect_tables_opts.period_ns is the period */
	uint64_t period_max_ns;
	/* maximum READs in flight, since most of the landing memory is for the rounds */
	uint32_t reads_max;
};

extern const struct collect_table_type collect_flows_type, collect_layers_type, collect_tasks_type,
	collect_segments_type;

/* The first member of each table; collect_region.beside points to it. */
struct collect_table_reader {
	const struct collect_table_type *type;
	enum { READER_IDLE, READER_HOT, READER_BODY } phase;
	bool failed;	    /* a READ of this pass failed, or its bytes were not valid */
	bool hot_requested; /* the hot line was requested in this pass */
	bool first;	    /* no pass is complete yet */
	bool dropped;	    /* the region was dropped because of its hot line */
	bool follows;	    /* an earlier table of this host has been read */
	uint32_t reads;	    /* number of READs in flight */
	uint64_t hot_at;    /* offset of the hot line */
	uint64_t due_ns, begun_ns, hot_ok_ns;
};

/* Returns the table for regions of this kind, or -1. */
static inline int collect_table_of(uint32_t region_kind)
{
	return region_kind == SL_REGION_FLOWS	 ? TABLE_FLOWS
	       : region_kind == SL_REGION_LAYERS ? TABLE_LAYERS
	       : region_kind == SL_REGION_TASKS	 ? TABLE_TASKS
	       : region_kind == SL_REGION_NIC	 ? TABLE_SEGMENTS
						 : -1;
}

/* Returns NULL if the region has no table yet. */
static inline struct collect_table_reader *collect_table_reader_of(const struct collect_region *r)
{
	return r->beside;
}

/*
 * Called once the region's header is valid: the region becomes the link's table of its kind, unless
 * the link has one already.
 */
void collect_tables_found(struct collect_link *l, struct collect_region *r,
			  const struct sl_region_header *copy, uint64_t now_ns);
/* Called when the region is removed. */
void collect_tables_gone(struct collect_link *l, struct collect_region *r);
void collect_tables_poll(struct collect_link *l, uint64_t now_ns);
/* Returns when collect_tables_poll() is next due; UINT64_MAX means never. */
uint64_t collect_tables_due(const struct collect_link *l);
void collect_table_reader_free(struct collect_region *r);

/* ---- for the table types ---- */

/* Returns true if the link's table of that kind is bound. */
bool collect_table_bound(const struct collect_link *l, enum collect_table table);
/*
 * Returns true if the bytes of a READ may be used: the region is still bound and the pass has not
 * failed.
 */
bool collect_table_usable(const struct collect_region *r);
/*
 * Requests part of the body; kind is one of the table type's kinds of READ. Returns NULL if there
 * is no room now.
 */
struct collect_op *collect_table_request(struct collect_link *l, struct collect_region *r,
					 const struct collect_op_kind *kind, uint64_t offset,
					 uint32_t length);
/*
 * Requests the elements from *next to end, of stride bytes each. Returns false if there is no room
 * now.
 */
bool collect_table_request_run(struct collect_link *l, struct collect_region *r,
			       const struct collect_op_kind *kind, uint64_t offset, uint32_t stride,
			       uint32_t *next, uint32_t end);
/*
 * Defines a kind of READ for a table's body; take_fn is the table type's function that takes the
 * bytes read.
 */
#define COLLECT_TABLE_READ(take_fn)                                     \
	{                                                               \
		.take = (take_fn), .failed = collect_table_read_failed, \
		.over = collect_table_read_over                         \
	}
void collect_table_read_failed(struct collect_link *l, struct collect_op *op, int status,
			       uint64_t now_ns);
void collect_table_read_over(struct collect_link *l, struct collect_op *op,
			     const struct fabric_read *read, uint64_t now_ns);

/* The unsettled part of a READ; only this part is read again. */
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

/*
 * Narrows the READ down to the unsettled part. Returns false if all lines settled, or no retry is
 * left.
 */
bool collect_table_again(const struct collect_op *op, struct fabric_read *read,
			 const struct collect_unsettled *u);

#endif
