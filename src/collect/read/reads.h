/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_READS_H
#define SL_COLLECT_READ_READS_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"

struct collect_fetch;
struct collect_link;
struct collect_op;
struct collect_region;

#define LINK_OPS   512u
#define LINK_TRIES 4u /* maximum READs of an unsettled line per round */

/* Callbacks of one kind of READ. NULL functions do nothing. */
struct collect_op_kind {
	/*
	 * Called with the bytes at read->to. Returns false to repeat the READ, after narrowing
	 * *read down if some of the bytes are good; this has no effect after LINK_TRIES READs.
	 */
	bool (*take)(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		     uint64_t now_ns);
	/*
	 * The READ failed, or its connection was lost; if the connection was lost, op->epoch
	 * differs from l->epoch.
	 */
	void (*failed)(struct collect_link *l, struct collect_op *op, int status, uint64_t now_ns);
	/*
	 * Called after take or failed: the READ is no longer in flight and op is about to be
	 * reused.
	 */
	void (*over)(struct collect_link *l, struct collect_op *op, uint64_t now_ns);
};

struct collect_op {
	const struct collect_op_kind *kind;
	struct collect_region *region; /* the region, or NULL */
	uint64_t posted_ns, epoch;
	/*
	 * meaning depends on the kind: an entry, a READ of the plan, or a byte offset in the schema
	 */
	uint32_t index;
	uint32_t low, high; /* the bytes that this try reads, as a range of the first try's bytes */
	/* the fetch to answer; owned by fetch.c until it is answered */
	struct collect_fetch *fetch;
	uint8_t tries;
};

int collect_reads_init(struct collect_link *l);
void collect_reads_free(struct collect_link *l);
/*
 * Prepares a READ with its landing memory for the next collect_reads_post(). Returns NULL if there
 * is no room now.
 */
struct collect_op *collect_reads_new(struct collect_link *l, const struct collect_op_kind *kind,
				     struct collect_region *r, const struct fabric_remote *remote,
				     uint64_t offset, uint32_t length);
/*
 * For `take`: narrows the next try to [low, high), a range of the first try's bytes, and returns
 * true; `take` then returns false. Returns false without a change if no try is left.
 */
bool collect_reads_narrow(struct collect_op *op, struct fabric_read *read, uint32_t low,
			  uint32_t high);
/* Posts as many new and repeated READs as the fabric accepts. Returns true if there were any. */
bool collect_reads_post(struct collect_link *l, uint64_t now_ns);
/* Takes completions. Returns true if there were any. */
bool collect_reads_poll(struct collect_link *l, uint64_t now_ns);
/* Fails the READs that the fabric never accepted, which would otherwise never complete. */
void collect_reads_cancel(struct collect_link *l, uint64_t now_ns);

#endif
