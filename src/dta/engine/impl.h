/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_impl.h - what the parts of the engine know of each other: engine.c (stores, rates,
 * accounts) and one file a primitive, behind struct dta_engine_kind.
 */
#ifndef SL_DTA_ENGINE_IMPL_H
#define SL_DTA_ENGINE_IMPL_H

#include <string.h>

#include "base/base.h"
#include "dta/engine/engine.h"
#include "dta/store/hash.h"
#include "dta/io/output_shm.h"
#include "dta/store/store.h"

#define ENGINE_CHUNK \
	32u /* reports whose lines of memory are asked for before the first is written */
#define ENGINE_TRIES 64 /* of an operation, driving a full output in between */
#define ENGINE_NONE  (~0u)

struct dta_engine_store {
	struct sl_store_config c;
	struct dta_object object;
	const struct dta_engine_kind *kind;
	void *state; /* the kind's */
	struct engine_keylog *keylog;
	struct dta_engine_stats stats;
	uint64_t epoch;
	uint64_t bank; /* offset in the object of what is written now */
	uint64_t unit; /* bytes of a slot, block or path */
	uint32_t lane;
	bool direct; /* written by the engine itself: a mapping, behind dta_output_shm() */
};

struct dta_engine {
	struct dta_engine_opts opts;
	struct dta_output *output;
	uint64_t now; /* as the caller said last */
	bool stalled; /* the output was full for ENGINE_TRIES: not tried again before the next call
		       */
	struct dta_engine_store **table; /* open addressing by tenant and number; a power of two */
	uint32_t mask, stores;
	struct engine_limit *limit;   /* one a tenant, once there is any */
	struct dta_engine_stats gone; /* of stores that are no more, and of reports without one */
};

/*
 * One a primitive. Functions that write return 0 or the cause (enum dta_engine_drop, of an output,
 * which are never 0) for which they could not go on.
 */
struct dta_engine_kind {
	int (*open)(struct dta_engine *e, struct dta_engine_store *s, const uint64_t *next);
	void (*close)(struct dta_engine_store *s);
	/* Checked: the opcode. Returns how many were not dropped, and counts all. */
	uint32_t (*block)(struct dta_engine *e, struct dta_engine_store *s, uint32_t reporter,
			  const struct dta_block *b);
	void (*tick)(struct dta_engine *e, struct dta_engine_store *s); /* or NULL: has no timers */
	int (*flush)(struct dta_engine *e, struct dta_engine_store *s); /* or NULL: nothing waits */
	/* Or NULL: when the oldest of what flush_ns or path_ns may hold back came; UINT64_MAX:
	 * nothing waits. */
	uint64_t (*oldest)(const struct dta_engine_store *s);
	/* Forgets what waits, and counts it as dropped. */
	void (*drop)(struct dta_engine_store *s, int cause);
	/* Or NULL: what waits is dropped. s->epoch is the new one; cause: why flush() could not
	 * write all. */
	void (*rotated)(struct dta_engine *e, struct dta_engine_store *s, int cause);
};
extern const struct dta_engine_kind dta_engine_keywrite, dta_engine_append, dta_engine_increment,
	dta_engine_postcard, dta_engine_sketch;

/* One operation through the output, tried and driven while it is full. 0 or the cause. */
int dta_engine_write(struct dta_engine *e, struct dta_engine_store *s, uint64_t offset,
		     const void *data, uint64_t bytes, bool immediate);
int dta_engine_add(struct dta_engine *e, struct dta_engine_store *s, uint64_t offset,
		   uint64_t addend);
/* A WRITE of no bytes that wakes the application. */
int dta_engine_wake(struct dta_engine *e, struct dta_engine_store *s);

/* Appends a value that is no report, of at most the list's bytes. False: the list is full. */
bool dta_engine_append_logged(struct dta_engine *e, struct dta_engine_store *log, uint32_t list,
			      const void *value, uint32_t bytes);
/* The keys of a block that this store has not seen lately, to its key log: list 0 of it. */
int dta_engine_keylog_open(struct dta_engine_store *s);
void dta_engine_keylog_block(struct dta_engine *e, struct dta_engine_store *s,
			     const struct dta_block *b);
void dta_engine_keylog_clear(struct dta_engine_store *s);
struct dta_engine_store *dta_engine_find(const struct dta_engine *e, uint16_t tenant,
					 uint16_t number);

/* What was dropped for a reason that is one for all reports of a block. */
static inline uint32_t dta_engine_refuse(struct dta_engine_store *s, enum dta_engine_drop why,
					 uint32_t count)
{
	s->stats.dropped[why] += count;
	return 0;
}

/*
 * Asks for a line of memory that is about to be written. For reading: on Zen 4 a prefetchw waits
 * until it is served (16 million reports a second instead of 50), and a line that no other core has
 * is writable at once.
 */
static inline void dta_engine_prefetch_line(const void *p)
{
	__builtin_prefetch(p, 0);
}

/*
 * Asks for a unit of a store that misses every cache: into the second level, from where a write
 * takes it. The first level has room for 24 misses at a time, the second for more (202 million
 * lines a second of 1 GiB instead of 125, Zen 4). In a loop of its own: a prefetch does not retire
 * before its address is translated, and only in a loop as short as that do many translations go on
 * at a time.
 */
static inline void dta_engine_prefetch_far(const uint8_t *p, uint64_t bytes)
{
	__builtin_prefetch(p, 0, 2);
	/* A unit of 16 bytes never crosses a line. */
	for (uint64_t line = 64 - ((uintptr_t)p & 63); bytes > 16 && line < bytes; line += 64)
		__builtin_prefetch(p + line, 0, 2);
}

static inline uint32_t dta_engine_be32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return __builtin_bswap32(v);
}

static inline uint64_t dta_engine_be64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return __builtin_bswap64(v);
}

/* ---- what waits, oldest first ---- */

struct dta_engine_link {
	uint64_t since;
	uint32_t prev, next;
};

struct dta_engine_queue {
	uint32_t head, tail;
	uint8_t *base;	 /* of an array whose members begin with a struct dta_engine_link */
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
