/* SPDX-License-Identifier: Apache-2.0 */
/*
 * impl.h - internals shared by engine.c (stores, accounts) and the primitives' files, each of which
 * implements a struct dta_engine_kind.
 */
#ifndef SL_DTA_ENGINE_IMPL_H
#define SL_DTA_ENGINE_IMPL_H

#include <string.h>

#include "base/base.h"
#include "base/table.h"
#include "dta/engine/engine.h"
#include "dta/store/hash.h"
#include "dta/wire/endian.h"
#include "dta/store/store.h"

#define ENGINE_TRIES 64 /* attempts per operation while the output is full */
#define ENGINE_NONE  (~0u)

struct dta_engine_store {
	struct base_node node; /* hash of the tenant and the store number */
	struct dta_engine_store *next;
	struct sl_store_config c;
	struct dta_object object;
	const struct dta_engine_kind *kind;
	void *state; /* private data of the primitive */
	struct dta_engine_keylog *keylog;
	struct dta_engine_stats stats;
	uint64_t epoch;
	uint64_t bank;	 /* offset of the current bank in the object */
	uint64_t unit;	 /* bytes per slot, block or path */
	uint64_t age_ns; /* age at which waiting reports are written */
	uint32_t lane;
	bool direct; /* the engine writes to the mapping without using the output */
};

struct dta_engine {
	struct dta_engine_opts opts;
	struct dta_output *output;
	uint64_t now;	   /* time passed in the caller's last call */
	uint32_t reporter; /* reporter of the current block */
	/* the output was still full after ENGINE_TRIES attempts; no more retries in this call */
	bool stalled;
	struct dta_engine_store *stores; /* all stores, in any order */
	struct base_table table;	 /* the same stores, by tenant and number */
	/* counts for removed stores and for reports to unknown stores */
	struct dta_engine_stats gone;
};

/*
 * The functions of a primitive. Functions that write return 0, or the reason why they stopped (the
 * output's enum dta_engine_drop, never 0). All except open and block may be NULL.
 */
struct dta_engine_kind {
	int (*open)(struct dta_engine *e, struct dta_engine_store *s, const uint64_t *next);
	/*
	 * Takes over the reports that wait for the store's previous object, and the sum of a
	 * sketch. Returns false if this is not possible; the reports are then written to the
	 * previous object.
	 */
	bool (*inherit)(const struct dta_engine *e, struct dta_engine_store *s,
			const struct dta_engine_store *previous);
	void (*close)(struct dta_engine_store *s);
	/* The caller has checked the opcode. Counts all reports; returns the number not dropped. */
	uint32_t (*block)(struct dta_engine *e, struct dta_engine_store *s,
			  const struct dta_block *b);
	/*
	 * Writes reports that have waited for age. NULL means that this primitive never delays
	 * reports.
	 */
	int (*flush)(struct dta_engine *e, struct dta_engine_store *s, uint64_t age);
	/*
	 * Returns the arrival time of the oldest report delayed by flush_ns or path_ns; UINT64_MAX
	 * if there is none.
	 */
	uint64_t (*oldest)(const struct dta_engine_store *s);
	/* Drops and counts waiting reports. */
	void (*drop)(struct dta_engine_store *s, int cause);
	/* Called after s->epoch changed; if NULL, drop() is called. cause: why flush() stopped. */
	void (*rotated)(struct dta_engine_store *s, int cause);
	bool no_epochs; /* waiting reports survive a rotation */
};
extern const struct dta_engine_kind dta_engine_keywrite, dta_engine_append, dta_engine_increment,
	dta_engine_postcard, dta_engine_sketch;

/* Performs one operation, retrying while the output is full. Returns 0 or the cause. */
int dta_engine_write(struct dta_engine *e, struct dta_engine_store *s, uint64_t offset,
		     const void *data, uint64_t bytes, bool immediate);
int dta_engine_add(struct dta_engine *e, struct dta_engine_store *s, uint64_t offset,
		   uint64_t addend);
/* Wakes the application with an empty WRITE. */
int dta_engine_wake(struct dta_engine *e, struct dta_engine_store *s);

/*
 * Appends a logged key, which must not exceed the list's value size. Returns false if the list is
 * full.
 */
bool dta_engine_append_logged(struct dta_engine *e, struct dta_engine_store *log, uint32_t list,
			      const void *value, uint32_t bytes);
#define ENGINE_KEYLOG_LINES 32768u
#define ENGINE_KEYLOG_WAYS  8u /* hashes per line; with 8 bytes each, they fill a cache line */
struct dta_engine_keylog {
	uint64_t until_mark; /* number of keys to log before the next mark of the epoch */
	/* one line more, so that the lines can begin at a multiple of 64 bytes */
	uint64_t seen[(ENGINE_KEYLOG_LINES + 1) * ENGINE_KEYLOG_WAYS];
};
/* Logs the keys in a block that were not seen recently. */
void dta_engine_keylog_block(struct dta_engine *e, struct dta_engine_store *s,
			     const struct dta_block *b);
struct dta_engine_store *dta_engine_find(const struct dta_engine *e, uint16_t tenant,
					 uint16_t number);

/* Drops a whole block. */
static inline uint32_t dta_engine_refuse(struct dta_engine_store *s, enum dta_engine_drop why,
					 uint32_t count)
{
	s->stats.dropped[why] += count;
	return 0;
}

/*
 * Prefetches a line for reading although it is about to be written. On Zen 4, prefetchw blocks
 * until the line arrives (16 instead of 50 million reports/s); a line that no other core holds is
 * writable immediately.
 */
static inline void dta_engine_prefetch_line(const void *p)
{
	__builtin_prefetch(p, 0);
}

/*
 * Prefetches a unit that is in no cache into L2. L1 allows 24 outstanding misses, L2 allows more
 * (202 instead of 125 million lines/s over 1 GiB on Zen 4). Call it in a separate loop: a prefetch
 * retires only after its address is translated, and a short loop overlaps many translations.
 */
static inline void dta_engine_prefetch_far(const uint8_t *p, uint64_t bytes)
{
	__builtin_prefetch(p, 0, 2);
	/* A 16-byte unit never crosses a line. */
	for (uint64_t line = 64 - ((uintptr_t)p & 63); bytes > 16 && line < bytes; line += 64)
		__builtin_prefetch(p + line, 0, 2);
}

/* ---- queues of waiting entries, oldest first ---- */

struct dta_engine_link {
	uint64_t since;
	uint32_t prev, next;
};

struct dta_engine_queue {
	uint32_t head, tail;
	uint8_t *base;	 /* an array of structures whose first member is a struct dta_engine_link */
	uint64_t stride; /* size of a structure in bytes */
};

static inline struct dta_engine_link *dta_engine_link(const struct dta_engine_queue *q, uint32_t i)
{
	return (struct dta_engine_link *)(void *)(q->base + i * q->stride);
}

static inline void dta_engine_queue_put(struct dta_engine_queue *q, uint32_t i, uint64_t now)
{
	*dta_engine_link(q, i) = (struct dta_engine_link){now, q->tail, ENGINE_NONE};
	if (q->tail == ENGINE_NONE)
		q->head = i;
	else
		dta_engine_link(q, q->tail)->next = i;
	q->tail = i;
}

static inline void dta_engine_queue_take(struct dta_engine_queue *q, uint32_t i)
{
	const struct dta_engine_link *l = dta_engine_link(q, i);

	if (l->prev == ENGINE_NONE)
		q->head = l->next;
	else
		dta_engine_link(q, l->prev)->next = l->next;
	if (l->next == ENGINE_NONE)
		q->tail = l->prev;
	else
		dta_engine_link(q, l->next)->prev = l->prev;
}

static inline uint64_t dta_engine_queue_oldest(const struct dta_engine_queue *q)
{
	return q->head == ENGINE_NONE ? UINT64_MAX : dta_engine_link(q, q->head)->since;
}

static inline bool dta_engine_queue_due(const struct dta_engine_queue *q, uint64_t now,
					uint64_t after)
{
	return q->head != ENGINE_NONE && now - dta_engine_link(q, q->head)->since >= after;
}

#endif
