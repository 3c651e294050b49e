/* SPDX-License-Identifier: Apache-2.0 */
/*
 * impl.h - what the engine's files share: engine.c (stores, rates, accounts) and one file per
 * primitive, behind struct dta_engine_kind.
 */
#ifndef SL_DTA_ENGINE_IMPL_H
#define SL_DTA_ENGINE_IMPL_H

#include <string.h>

#include "base/base.h"
#include "dta/engine/engine.h"
#include "dta/store/hash.h"
#include "dta/wire/endian.h"
#include "dta/store/store.h"

#define ENGINE_CHUNK 32u /* reports that are prefetched before the first is written */
#define ENGINE_TRIES 64	 /* attempts of an operation on a full output */
#define ENGINE_NONE  (~0u)

struct dta_engine_store {
	struct sl_store_config c;
	struct dta_object object;
	const struct dta_engine_kind *kind;
	void *state; /* the kind's */
	struct dta_engine_keylog *keylog;
	struct dta_engine_stats stats;
	uint64_t epoch;
	uint64_t bank;	 /* offset of the current bank in the object */
	uint64_t unit;	 /* bytes per slot, block or path */
	uint64_t age_ns; /* age at which what waits is written */
	uint32_t lane;
	bool direct; /* the engine writes to the mapping itself */
};

struct dta_engine {
	struct dta_engine_opts opts;
	struct dta_output *output;
	uint64_t now;	   /* as the caller passed it last */
	uint32_t reporter; /* of the block */
	bool stalled;	   /* the output was full for ENGINE_TRIES: not tried again in this call */
	struct dta_engine_store **table; /* open addressing by tenant and number; a power of two */
	uint32_t mask, stores;
	struct dta_rates *rates;      /* of the options, or own; NULL: no limits */
	struct dta_engine_stats gone; /* of removed stores, and of reports without one */
};

/*
 * A primitive. Functions that write return 0 or the cause (an output's enum dta_engine_drop, never
 * 0) why they stopped. All but open and block may be NULL.
 */
struct dta_engine_kind {
	int (*open)(struct dta_engine *e, struct dta_engine_store *s, const uint64_t *next);
	void (*close)(struct dta_engine_store *s);
	/* The opcode is checked. Counts all reports; returns how many were not dropped. */
	uint32_t (*block)(struct dta_engine *e, struct dta_engine_store *s,
			  const struct dta_block *b);
	/* Writes what has waited for age. NULL: nothing waits. */
	int (*flush)(struct dta_engine *e, struct dta_engine_store *s, uint64_t age);
	/* When the oldest report that flush_ns or path_ns holds back came; UINT64_MAX: none. */
	uint64_t (*oldest)(const struct dta_engine_store *s);
	/* Drops and counts what waits. */
	void (*drop)(struct dta_engine_store *s, int cause);
	/* NULL: drop() is called. s->epoch is the new one; cause: why flush() stopped. */
	void (*rotated)(struct dta_engine_store *s, int cause);
	bool no_epochs; /* what waits survives a rotation */
};
extern const struct dta_engine_kind dta_engine_keywrite, dta_engine_append, dta_engine_increment,
	dta_engine_postcard, dta_engine_sketch;

/* One operation on the output, retried while it is full. 0 or the cause. */
int dta_engine_write(struct dta_engine *e, struct dta_engine_store *s, uint64_t offset,
		     const void *data, uint64_t bytes, bool immediate);
int dta_engine_add(struct dta_engine *e, struct dta_engine_store *s, uint64_t offset,
		   uint64_t addend);
/* A WRITE of no bytes that wakes the application. */
int dta_engine_wake(struct dta_engine *e, struct dta_engine_store *s);

/*
 * Appends a value that is not a report, of at most the list's value size. False: the list is full.
 */
bool dta_engine_append_logged(struct dta_engine *e, struct dta_engine_store *log, uint32_t list,
			      const void *value, uint32_t bytes);
#define ENGINE_KEYLOG_PLACES 65536u
struct dta_engine_keylog {
	bool marked; /* the log has this epoch's mark */
	uint64_t seen[ENGINE_KEYLOG_PLACES];
};
/* Writes keys of a block that were not seen lately to the store's key log. */
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
 * Prefetches a line that is about to be written, for reading: on Zen 4 prefetchw blocks until it is
 * served (16 instead of 50 million reports/s), and a line that no other core holds is writable at
 * once.
 */
static inline void dta_engine_prefetch_line(const void *p)
{
	__builtin_prefetch(p, 0);
}

/*
 * Prefetches a unit that misses every cache into L2, from where the write takes it. L1 holds 24
 * outstanding misses, L2 more (202 instead of 125 million lines/s of 1 GiB, Zen 4). Keep it in a
 * loop of its own: a prefetch retires only when its address is translated, and a short loop
 * overlaps many translations.
 */
static inline void dta_engine_prefetch_far(const uint8_t *p, uint64_t bytes)
{
	__builtin_prefetch(p, 0, 2);
	/* A unit of 16 bytes never crosses a line. */
	for (uint64_t line = 64 - ((uintptr_t)p & 63); bytes > 16 && line < bytes; line += 64)
		__builtin_prefetch(p + line, 0, 2);
}

/* ---- queues of what waits, oldest first ---- */

struct dta_engine_link {
	uint64_t since;
	uint32_t prev, next;
};

struct dta_engine_queue {
	uint32_t head, tail;
	uint8_t *base;	 /* an array of structures that begin with a struct dta_engine_link */
	uint64_t stride; /* bytes */
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
