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
#define LINK_TRIES 4u /* READs of a line that does not settle, per round */

/* What a kind of READ does with its result. NULL functions do nothing. */
struct collect_op_kind {
	/*
	 * The bytes are at read->to. Returns false to have them read again, after narrowing *read
	 * down if part of them is good; without effect after LINK_TRIES READs.
	 */
	bool (*take)(struct collect_link *l, struct collect_op *op, struct fabric_read *read,
		     uint64_t now_ns);
	/* The READ failed, or its connection was lost: then op->epoch is not l->epoch. */
	void (*failed)(struct collect_link *l, struct collect_op *op, int status, uint64_t now_ns);
	/* After either: the READ is no longer in flight and op is about to be reused. */
	void (*over)(struct collect_link *l, struct collect_op *op, const struct fabric_read *read,
		     uint64_t now_ns);
};

struct collect_op {
	const struct collect_op_kind *kind;
	struct collect_region *region; /* or NULL */
	uint64_t posted_ns, epoch;
	uint32_t index;	    /* the kind's: an entry, a READ of the plan, a byte of the schema */
	uint32_t low, high; /* of a pass: bytes of the plan's READ that this one reads */
	struct collect_fetch *fetch; /* fetch.c's, until it is answered */
	uint8_t tries;
};

int collect_reads_init(struct collect_link *l);
void collect_reads_free(struct collect_link *l);
/* A READ to be posted by the next collect_reads_post(), with its landing; NULL: no room now. */
struct collect_op *collect_reads_new(struct collect_link *l, const struct collect_op_kind *kind,
				     struct collect_region *r, const struct fabric_remote *remote,
				     uint64_t offset, uint32_t length);
/* Posts new and repeated READs as far as the fabric takes them. True if it took any. */
bool collect_reads_post(struct collect_link *l, uint64_t now_ns);
/* Takes completions. True if there was any. */
bool collect_reads_poll(struct collect_link *l, uint64_t now_ns);
/* Fails the READs that the fabric never took, which would not complete by themselves. */
void collect_reads_cancel(struct collect_link *l, uint64_t now_ns);

#endif
