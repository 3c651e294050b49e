/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - the translator's core: turns reports into operations on memory. It knows nothing about
 * sockets or packet headers. Single-threaded; more cores run more engines, each with its own lane.
 *
 * An engine never waits. When the output is full, it drives the output and retries up to a bound,
 * then drops the new report and counts the cause. It never drops a report that it accepted earlier,
 * because an accepted report may have been acknowledged. Accepted reports wait until their epoch
 * ends.
 *
 * The immediate flag wakes the application once per block of reports, with dta_engine_immediate(),
 * as soon as the reports can be read. Key-write and append set it on their last WRITE (and write a
 * partial batch for that purpose). Increment, and postcard on mappings, send an empty WRITE after
 * the others. Otherwise postcard and sketch wake it when the path or epoch is written.
 *
 * If objects are mapped with dta_output_shm(), the engine writes units directly, without a call per
 * unit.
 */
#ifndef SL_DTA_ENGINE_ENGINE_H
#define SL_DTA_ENGINE_ENGINE_H

#include "dta/engine/output.h"
#include "dta/wire/wire.h"

#include <sidelight/store.h>

struct dta_engine;

/* Returns the number that a WRITE with immediate carries for a store. */
static inline uint32_t dta_engine_immediate(uint16_t tenant, uint16_t store)
{
	return (uint32_t)tenant << 16 | store;
}

struct dta_engine_opts {
	uint64_t flush_ns; /* age at which a partial append block is written; 0 means 1 ms */
	uint64_t path_ns;  /* age at which an incomplete path is written; 0 means 10 ms */
	/*
	 * size of the cache that sums increments per key; 0 means 4096, or no cache for mappings;
	 * ~0 means no cache
	 */
	uint32_t increment_entries;
	uint32_t path_entries; /* size of the path cache; 0 means 16384 */
	/* age at which the cells of an unfinished sketch epoch are written; 0 means 1 s */
	uint64_t sketch_ns;
};

/* Causes of dropped reports. Invariant: in = stored + waiting + sum of dropped. */
enum dta_engine_drop {
	DTA_DROP_NO_STORE, /* no such tenant or store, or a store of another kind */
	/* lengths or copies that differ from the store's, or impossible HyperLogLog registers */
	DTA_DROP_SHAPE,
	DTA_DROP_LIST, /* no such list, hop, row or column, or no such reporter of a sketch */
	DTA_DROP_RATE, /* above the tenant's rate; counted by the translator */
	DTA_DROP_OUTPUT_FULL,
	DTA_DROP_OUTPUT_DOWN,
	DTA_DROP_OUTPUT_FAILED,
	DTA_DROP_LATE, /* the sketch's epoch has ended, or is later than the next epoch */
	/*
	 * replaced the value of a hop that was already present, or repeated cells that the reporter
	 * had already sent
	 */
	DTA_DROP_DUPLICATE_HOP,
	/* the reporter has since written the key again; counted by the translator */
	DTA_DROP_SUPERSEDED,
	DTA_DROPS
};
const char *dta_engine_drop_name(enum dta_engine_drop d);

struct dta_engine_stats {
	uint64_t in;	  /* reports received */
	uint64_t stored;  /* reports whose operations the output accepted */
	uint64_t waiting; /* reports in a block, cache or sketch that has not been written yet */
	/* stored reports that were summed or merged into operations of other reports */
	uint64_t merged;
	uint64_t dropped[DTA_DROPS];
	uint64_t units; /* key-write and postcard slots handed to the output, one per copy */
	uint64_t operations, paths, paths_partial, blocks, blocks_partial, evicted, immediates;
};

/* Returns NULL with errno ENOMEM. The caller keeps ownership of the output. */
struct dta_engine *dta_engine_new(const struct dta_engine_opts *opts, struct dta_output *output);
/* Replaces the output. With NULL, the initial value, operations fail with DTA_DROP_OUTPUT_DOWN. */
void dta_engine_output(struct dta_engine *e, struct dta_output *output);
/* Does not flush. NULL is ignored. */
void dta_engine_free(struct dta_engine *e);

/*
 * Adds or replaces a store. config is copied; object must live until dta_engine_remove() or a
 * replacement. next (append only): each list's next block number in this lane; NULL means all
 * zeros. A replaced store continues in the new object, as it does when an epoch rotates. Returns 0,
 * -ENOMEM, or -EINVAL if the configuration does not fit the object.
 */
int dta_engine_store(struct dta_engine *e, const struct sl_store_config *config,
		     const struct dta_object *object, uint32_t lane, uint64_t epoch,
		     const uint64_t *next);
/* Writes waiting reports to the old epoch and continues in the new epoch. Returns 0 or -ENOENT. */
int dta_engine_rotate(struct dta_engine *e, uint16_t tenant, uint16_t store, uint64_t epoch);
void dta_engine_remove(struct dta_engine *e, uint16_t tenant, uint16_t store);

/*
 * Processes a block that dta_parse() accepted. reporter is needed to track the completeness of
 * sketches. Returns the number of reports that were not dropped. A report that the output refused
 * counts as dropped, so that the loss protocol can request it again.
 */
uint32_t dta_engine_block(struct dta_engine *e, uint16_t tenant, uint32_t reporter,
			  const struct dta_block *block, uint64_t now_ns);

/*
 * Prefetches the memory that a packet with a single key-write will modify. The packet has not been
 * validated and may contain anything.
 */
void dta_engine_prefetch(const struct dta_engine *e, const uint8_t *packet, size_t bytes);

/*
 * Runs timers and flushes the output. Call it after each batch of packets, and at least every
 * flush_ns / 2.
 */
void dta_engine_tick(struct dta_engine *e, uint64_t now_ns);
/* Writes all waiting reports. */
void dta_engine_flush(struct dta_engine *e);

/*
 * Returns the arrival time of the oldest report waiting for flush_ns or path_ns; UINT64_MAX if
 * there is none. Sketches are excluded, because their reports wait for up to a second.
 */
uint64_t dta_engine_oldest(const struct dta_engine *e);
/* Drops the reports that dta_engine_oldest() considers as DTA_DROP_OUTPUT_DOWN. */
void dta_engine_drop_delayed(struct dta_engine *e);

void dta_engine_stats(const struct dta_engine *e, struct dta_engine_stats *out);

#endif
