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
	/* Called when the region ceases to be the link's table. May be NULL. */
	void (*gone)(struct collect_link *l, struct collect_region *r);
	/*
	 * Takes the hot line and plans the body (collect_section_plan()). Returns
	 * REGION_FAULT_UNSETTLED to have the line read again and REGION_FAULT_MEMORY to abandon the
	 * pass; any other fault drops the region.
	 */
	enum region_fault (*hot)(struct collect_link *l, struct collect_region *r,
				 const uint64_t *line, uint64_t now_ns);
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

/* The elements of one READ that did not settle. */
struct collect_unsettled {
	uint32_t low,
		high;	/* the bytes of the READ with unsettled lines; only these are read again */
	uint32_t count; /* number of unsettled lines */
	uint32_t skipped; /* number of elements overwritten before they were read */
	uint64_t number;  /* the first element with an unsettled line */
};

/* The functions that take elements of one kind. */
struct collect_elements {
	/*
	 * Takes an element. Returns REGION_FAULT_UNSETTLED, or adds to u->count, to have the
	 * element read again, and REGION_FAULT_MEMORY to abandon the pass; any other fault drops
	 * the region.
	 */
	enum region_fault (*take)(struct collect_link *l, struct collect_region *r, uint64_t number,
				  const uint64_t *words, uint64_t now_ns,
				  struct collect_unsettled *u);
	/* Called when a READ will not be repeated; u: elements that never settled. May be NULL. */
	void (*taken)(struct collect_link *l, struct collect_region *r,
		      const struct collect_unsettled *u);
	bool alone; /* read one at a time, because take() must not see a settled element twice */
};

/* An array of the body. A pass reads the elements from first to end. */
struct collect_section {
	const struct collect_elements *of;
	uint64_t at;		/* offset of the array */
	uint32_t stride, bytes; /* distance between elements, and the bytes to read of each */
	uint64_t ring;		/* size of the array if it is a ring, a power of two; otherwise 0 */
	uint64_t first, next, end; /* next: the next element to request */
};
#define TABLE_SECTIONS 5u /* maximum number of sections of a table */

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
	struct collect_section section[TABLE_SECTIONS]; /* read in this order */
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
/* Makes this pass read the elements from first to end. */
static inline void collect_section_plan(struct collect_section *s, uint64_t first, uint64_t end)
{
	s->first = s->next = first;
	s->end = end;
}
/* A collect_elements.taken that counts unsettled lines for the table and for the region. */
void collect_table_count_unsettled(struct collect_link *l, struct collect_region *r,
				   const struct collect_unsettled *u);

#endif
