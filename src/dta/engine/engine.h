/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - the translator's core: reports in, operations on memory out. Knows no socket and no
 * packet's header. One thread owns an engine; more cores are more engines, each with a lane of its
 * own.
 *
 * An engine never waits. Where an output is full it drives it and tries again up to a bound, and
 * then drops by cause: the report that came, never one that was taken before, as that one may have
 * been acknowledged. Those wait on, until their epoch ends.
 *
 * The immediate flag wakes the application once a block of reports, when they can be read, with
 * dta_engine_immediate(): key-write and append by their last WRITE (a partial batch is written);
 * increment by a WRITE of no bytes behind the additions; postcard and sketch when the path or the
 * epoch is written.
 *
 * Over a mapping (dta_output_shm and an object that has one) units are written without a call for
 * each.
 */
#ifndef SL_DTA_ENGINE_ENGINE_H
#define SL_DTA_ENGINE_ENGINE_H

#include "dta/engine/output.h"
#include "dta/wire/wire.h"

#include <sidelight/store.h>

struct dta_engine;

/* The number that an immediate report wakes the application with. */
static inline uint32_t dta_engine_immediate(uint16_t tenant, uint16_t store)
{
	return (uint32_t)tenant << 16 | store;
}

struct dta_engine_opts {
	uint64_t flush_ns; /* a partial append block is written after so long; 0: 1 ms */
	uint64_t path_ns;  /* a path with missing hops is written after so long; 0: 10 ms */
	uint32_t increment_entries; /* of the cache that adds increments of a key up; 0: 4096, none
				     * over a mapping, where it saves nothing; ~0: none */
	uint32_t path_entries;	    /* of the cache of paths; 0: 16384 */
	uint64_t
		sketch_ns; /* what came of a sketch's epoch is written after so long, too; 0: 1 s */
};

/* What became of reports. Account: in = stored + waiting + sum of dropped. */
enum dta_engine_drop {
	DTA_DROP_NO_STORE, /* tenant or store unknown, or of another kind */
	DTA_DROP_SHAPE,	   /* a length that is not the store's; copies beyond the store's; registers
			    * that    no HyperLogLog has */
	DTA_DROP_LIST,	   /* no such list, hop, row, column, or reporter of a sketch */
	DTA_DROP_RATE,	   /* over the tenant's rate */
	DTA_DROP_OUTPUT_FULL,
	DTA_DROP_OUTPUT_DOWN,
	DTA_DROP_OUTPUT_FAILED,
	DTA_DROP_LATE, /* a sketch's epoch that is over, or further ahead than the next one */
	DTA_DROP_DUPLICATE_HOP, /* a hop that its path had already; cells that its reporter has sent
				   already */
	DTA_DROPS
};
const char *dta_engine_drop_name(enum dta_engine_drop d);

struct dta_engine_stats {
	uint64_t in;	  /* reports given */
	uint64_t stored;  /* reports whose operations were given to the output */
	uint64_t waiting; /* in a block, a cache, a sketch that is not yet written */
	uint64_t merged; /* of those stored: increments that were added up into another's operation,
			  * cells that were merged. For information; part of stored */
	uint64_t dropped[DTA_DROPS];
	uint64_t units; /* slots of Key-Write and of Postcarding that were given to the output: one
			   a copy */
	uint64_t operations, paths, paths_partial, blocks, blocks_partial, evicted, immediates;
};

/* NULL with errno ENOMEM, EINVAL. Does not own the output. */
struct dta_engine *dta_engine_new(const struct dta_engine_opts *opts, struct dta_output *output);
/* Does not flush. NULL is nothing. */
void dta_engine_free(struct dta_engine *e);

/*
 * A store to write into; config is copied, object must stay until dta_engine_remove() or until
 * another replaced it. next: append: number of the next block of each list in this lane (lists of
 * them), or NULL for zeros. A store that is there already goes on with these, as when an epoch
 * rotates into another object. 0, -EINVAL a configuration that does not fit its object, -ENOMEM.
 */
int dta_engine_store(struct dta_engine *e, const struct sl_store_config *config,
		     const struct dta_object *object, uint32_t lane, uint64_t epoch,
		     const uint64_t *next);
/* Writes what waits for it, in its old epoch, and goes on in a new one. -ENOENT. */
int dta_engine_rotate(struct dta_engine *e, uint16_t tenant, uint16_t store, uint64_t epoch);
void dta_engine_remove(struct dta_engine *e, uint16_t tenant, uint16_t store);

/* Reports a second that a tenant may send, with a burst; 0: any. */
int dta_engine_limit(struct dta_engine *e, uint16_t tenant, uint64_t per_second, uint64_t burst);

/*
 * Takes a checked block of reports. reporter: for the completeness of sketches. Returns how many of
 * its reports were not dropped; a report that was dropped for the output's sake counts as not
 * taken, so that a caller who has the loss protocol may ask for it again.
 */
uint32_t dta_engine_block(struct dta_engine *e, uint16_t tenant, uint32_t reporter,
			  const struct dta_block *block, uint64_t now_ns);

/* Timers. Call it at least each flush_ns / 2, and after each batch of packets. Flushes the output.
 */
void dta_engine_tick(struct dta_engine *e, uint64_t now_ns);
/* Writes all that waits. */
void dta_engine_flush(struct dta_engine *e);

/*
 * When the oldest report came that waits for flush_ns or path_ns; UINT64_MAX: none does. What waits
 * for a sketch's epoch, up to a second, is not looked at.
 */
uint64_t dta_engine_oldest(const struct dta_engine *e);

void dta_engine_stats(const struct dta_engine *e, struct dta_engine_stats *out);
/* Of one store. -ENOENT. */
int dta_engine_store_stats(const struct dta_engine *e, uint16_t tenant, uint16_t store,
			   struct dta_engine_stats *out);

#endif
