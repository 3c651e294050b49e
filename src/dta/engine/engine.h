/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - the translator's core: turns reports into operations on memory. Knows neither sockets
 * nor packet headers. Single-threaded; more cores run more engines, each with its own lane.
 *
 * An engine never waits. It drives a full output and retries up to a bound, then drops the new
 * report by cause; never one that was taken before, as that may have been acknowledged. Those wait
 * until their epoch ends.
 *
 * The immediate flag wakes the application once per block of reports, when they can be read, with
 * dta_engine_immediate(): key-write and append by their last WRITE (writing a partial batch),
 * increment, and postcard on mappings, by a WRITE of no bytes after the others; else postcard and
 * sketch when the path or epoch is written.
 *
 * On mapped objects with dta_output_shm() units are written directly, without a call per unit.
 */
#ifndef SL_DTA_ENGINE_ENGINE_H
#define SL_DTA_ENGINE_ENGINE_H

#include "dta/engine/output.h"
#include "dta/engine/rates.h"
#include "dta/wire/wire.h"

#include <sidelight/store.h>

struct dta_engine;

/* The immediate number of a store. */
static inline uint32_t dta_engine_immediate(uint16_t tenant, uint16_t store)
{
	return (uint32_t)tenant << 16 | store;
}

struct dta_engine_opts {
	uint64_t flush_ns;	    /* age at which a partial append block is written; 0: 1 ms */
	uint64_t path_ns;	    /* age at which an incomplete path is written; 0: 10 ms */
	uint32_t increment_entries; /* of the cache that sums increments per key; 0: 4096, none on
				       mappings; ~0: none */
	uint32_t path_entries;	    /* of the cache of paths; 0: 16384 */
	struct dta_rates *rates;    /* shared with other engines; NULL: limits of its own */
	uint64_t sketch_ns; /* age at which a sketch's cells are written before its epoch ends; 0: 1
			       s */
};

/* Why reports were dropped. Account: in = stored + waiting + sum of dropped. */
enum dta_engine_drop {
	DTA_DROP_NO_STORE, /* no such tenant or store, or of another kind */
	DTA_DROP_SHAPE,	   /* lengths or copies other than the store's; impossible HyperLogLog
			      registers */
	DTA_DROP_LIST,	   /* no such list, hop, row, column, or reporter of a sketch */
	DTA_DROP_RATE,	   /* beyond the tenant's rate */
	DTA_DROP_OUTPUT_FULL,
	DTA_DROP_OUTPUT_DOWN,
	DTA_DROP_OUTPUT_FAILED,
	DTA_DROP_LATE,		/* a sketch's epoch that has ended, or is beyond the next one */
	DTA_DROP_DUPLICATE_HOP, /* a hop that its waiting path has, whose value it replaces, or
				   cells that the reporter has sent */
	DTA_DROP_SUPERSEDED, /* its reporter has written the key again since: by the translator */
	DTA_DROPS
};
const char *dta_engine_drop_name(enum dta_engine_drop d);

struct dta_engine_stats {
	uint64_t in;	  /* reports received */
	uint64_t stored;  /* reports whose operations the output took */
	uint64_t waiting; /* in a block, cache or sketch that is not written yet */
	uint64_t merged;  /* stored ones that were summed or merged into others' operations */
	uint64_t dropped[DTA_DROPS];
	uint64_t units; /* slots of key-write and postcard given to the output, one per copy */
	uint64_t operations, paths, paths_partial, blocks, blocks_partial, evicted, immediates;
};

/* NULL with errno ENOMEM. The output stays the caller's. */
struct dta_engine *dta_engine_new(const struct dta_engine_opts *opts, struct dta_output *output);
/* Replaces the output; NULL, as at the start: operations fail as DTA_DROP_OUTPUT_DOWN. */
void dta_engine_output(struct dta_engine *e, struct dta_output *output);
/* Does not flush. NULL is ignored. */
void dta_engine_free(struct dta_engine *e);

/*
 * Adds or replaces a store. config is copied; object must live until dta_engine_remove() or a
 * replacement. next: append: the next block of each list in this lane, or NULL for zeros. An
 * existing store continues in the new object, as when an epoch rotates. 0, -EINVAL: the
 * configuration does not fit the object, -ENOMEM.
 */
int dta_engine_store(struct dta_engine *e, const struct sl_store_config *config,
		     const struct dta_object *object, uint32_t lane, uint64_t epoch,
		     const uint64_t *next);
/* Writes what waits to the old epoch and continues in the new one. -ENOENT. */
int dta_engine_rotate(struct dta_engine *e, uint16_t tenant, uint16_t store, uint64_t epoch);
void dta_engine_remove(struct dta_engine *e, uint16_t tenant, uint16_t store);

/* Limits a tenant's reports per second, with a burst; 0: unlimited. */
int dta_engine_limit(struct dta_engine *e, uint16_t tenant, uint64_t per_second, uint64_t burst);

/*
 * Takes a block that dta_parse() checked. reporter: for the completeness of sketches. Returns how
 * many reports were not dropped; one that the output could not take counts as dropped, so that the
 * loss protocol may request it again.
 */
uint32_t dta_engine_block(struct dta_engine *e, uint16_t tenant, uint32_t reporter,
			  const struct dta_block *block, uint64_t now_ns);

/*
 * Prefetches what a packet of a single key-write will write. The packet is not checked yet, and
 * need not be one.
 */
void dta_engine_prefetch(const struct dta_engine *e, const uint8_t *packet, size_t bytes);

/*
 * Runs timers and flushes the output. Call it at least every flush_ns / 2 and after each batch of
 * packets.
 */
void dta_engine_tick(struct dta_engine *e, uint64_t now_ns);
/* Writes everything that waits. */
void dta_engine_flush(struct dta_engine *e);

/*
 * The arrival time of the oldest report that waits for flush_ns or path_ns; UINT64_MAX: none.
 * Sketches, which wait up to a second, are not included.
 */
uint64_t dta_engine_oldest(const struct dta_engine *e);

void dta_engine_stats(const struct dta_engine *e, struct dta_engine_stats *out);

#endif
