/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - the translator's core: turns reports into operations on memory. It knows neither
 * sockets nor packet headers. Single-threaded; more cores run more engines, each with its own lane.
 *
 * An engine never waits. When the output is full, it drives the output and retries up to a bound,
 * then drops the new report and counts the cause. It never drops a report that it accepted earlier,
 * because that one may have been acknowledged; accepted reports wait until their epoch ends.
 *
 * The immediate flag wakes the application with dta_engine_immediate() once per block of reports,
 * as soon as they can be read. Key-write and append set it on their last WRITE (and write a partial
 * batch for that purpose). Increment, and postcard on mappings, send an empty WRITE after the
 * others. Otherwise postcard and sketch wake it when the path or epoch is written.
 *
 * On objects mapped with dta_output_shm() the engine writes units directly, without a call per
 * unit.
 */
#ifndef SL_DTA_ENGINE_ENGINE_H
#define SL_DTA_ENGINE_ENGINE_H

#include "dta/engine/output.h"
#include "dta/engine/rates.h"
#include "dta/wire/wire.h"

#include <sidelight/store.h>

struct dta_engine;

/* The number that a WRITE with immediate carries for a store. */
static inline uint32_t dta_engine_immediate(uint16_t tenant, uint16_t store)
{
	return (uint32_t)tenant << 16 | store;
}

struct dta_engine_opts {
	uint64_t flush_ns; /* age at which a partial append block is written; 0: 1 ms */
	uint64_t path_ns;  /* age at which an incomplete path is written; 0: 10 ms */
	/* size of the cache that sums increments per key; 0: 4096, or none on mappings; ~0: none */
	uint32_t increment_entries;
	uint32_t path_entries;	 /* size of the cache of paths; 0: 16384 */
	struct dta_rates *rates; /* rate limits shared with other engines; NULL: private limits */
	/* age at which cells of an unfinished sketch epoch are written; 0: 1 s */
	uint64_t sketch_ns;
};

/* Causes of dropped reports. Invariant: in = stored + waiting + sum of dropped. */
enum dta_engine_drop {
	DTA_DROP_NO_STORE, /* no such tenant or store, or a store of another kind */
	/* lengths or copies differ from the store's, or impossible HyperLogLog registers */
	DTA_DROP_SHAPE,
	DTA_DROP_LIST, /* no such list, hop, row, column or reporter of a sketch */
	DTA_DROP_RATE, /* above the tenant's rate */
	DTA_DROP_OUTPUT_FULL,
	DTA_DROP_OUTPUT_DOWN,
	DTA_DROP_OUTPUT_FAILED,
	DTA_DROP_LATE, /* the sketch's epoch has ended, or lies beyond the next one */
	/*
	 * replaced the value of a hop that was already present, or cells that the reporter had
	 * already sent
	 */
	DTA_DROP_DUPLICATE_HOP,
	/* the reporter has written the key again since; counted by the translator */
	DTA_DROP_SUPERSEDED,
	DTA_DROPS
};
const char *dta_engine_drop_name(enum dta_engine_drop d);

struct dta_engine_stats {
	uint64_t in;	  /* reports received */
	uint64_t stored;  /* reports whose operations the output accepted */
	uint64_t waiting; /* reports in a block, cache or sketch that is not written yet */
	/* stored reports that were summed or merged into operations of other reports */
	uint64_t merged;
	uint64_t dropped[DTA_DROPS];
	uint64_t units; /* slots of key-write and postcard handed to the output, one per copy */
	uint64_t operations, paths, paths_partial, blocks, blocks_partial, evicted, immediates;
};

/* Returns NULL with errno ENOMEM. The caller keeps ownership of the output. */
struct dta_engine *dta_engine_new(const struct dta_engine_opts *opts, struct dta_output *output);
/* Replaces the output. With NULL, as initially, operations fail with DTA_DROP_OUTPUT_DOWN. */
void dta_engine_output(struct dta_engine *e, struct dta_output *output);
/* Does not flush. NULL is ignored. */
void dta_engine_free(struct dta_engine *e);

/*
 * Adds or replaces a store. config is copied; object must live until dta_engine_remove() or a
 * replacement. next (append only): the number of the next block of each list in this lane, or NULL
 * for zeros. A replaced store continues in the new object, as when an epoch rotates. Returns 0,
 * -ENOMEM, or -EINVAL if the configuration does not fit the object.
 */
int dta_engine_store(struct dta_engine *e, const struct sl_store_config *config,
		     const struct dta_object *object, uint32_t lane, uint64_t epoch,
		     const uint64_t *next);
/* Writes waiting reports to the old epoch and continues in the new one. Returns 0 or -ENOENT. */
int dta_engine_rotate(struct dta_engine *e, uint16_t tenant, uint16_t store, uint64_t epoch);
void dta_engine_remove(struct dta_engine *e, uint16_t tenant, uint16_t store);

/* Limits a tenant's reports per second, with a burst; 0: unlimited. */
int dta_engine_limit(struct dta_engine *e, uint16_t tenant, uint64_t per_second, uint64_t burst);

/*
 * Processes a block that dta_parse() accepted. reporter is needed for the completeness of sketches.
 * Returns the number of reports that were not dropped. A report that the output refused counts as
 * dropped, so that the loss protocol can request it again.
 */
uint32_t dta_engine_block(struct dta_engine *e, uint16_t tenant, uint32_t reporter,
			  const struct dta_block *block, uint64_t now_ns);

/*
 * Prefetches the memory that a packet with a single key-write will write. The packet is not
 * validated yet and may be anything.
 */
void dta_engine_prefetch(const struct dta_engine *e, const uint8_t *packet, size_t bytes);

/*
 * Runs timers and flushes the output. Call it at least every flush_ns / 2 and after each batch of
 * packets.
 */
void dta_engine_tick(struct dta_engine *e, uint64_t now_ns);
/* Writes all waiting reports. */
void dta_engine_flush(struct dta_engine *e);

/*
 * Returns the arrival time of the oldest report that waits for flush_ns or path_ns; UINT64_MAX:
 * none. Excludes sketches, whose reports wait up to a second.
 */
uint64_t dta_engine_oldest(const struct dta_engine *e);

void dta_engine_stats(const struct dta_engine *e, struct dta_engine_stats *out);

#endif
