/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - stores as their owner has them: declared in YAML, made in memory or in files, rotated,
 * resized, and handed to translators over the control channel (control.h). One thread owns a set;
 * queries of other threads go through dta_stores_hold().
 *
 * YAML (docs/dta-store.md):
 *
 *   listen: /run/sidelight/dta.sock   # or HOST:PORT for translators of another host; a list is
 *                                     fine
 *   directory: /var/lib/sidelight     # optional: stores live in files and survive a restart
 *   hugepages: auto                   # auto, always, never
 *   tenants:
 *     - {number: 0, name: default, key: FILE, rate: 1000000}
 *   stores:
 *     - {name: flows, tenant: 0, number: 1, kind: key-write, slots: 1000000, value: 8, copies: 4,
 *       epochs: 2,
 *        epoch: 60s, keylog: keys}
 *     - {name: events, number: 2, kind: append, lists: 16, items: 1000000, value: 8, batch: 16,
 *       lanes: 4}
 *     - {name: bytes, number: 3, kind: increment, rows: 4, columns: 65536}
 *     - {name: paths, number: 4, kind: postcard, slots: 100000, hops: 5, copies: 2, values: FILE}
 *     - {name: sizes, number: 5, kind: sketch, sketch: count-min, rows: 4, columns: 1024,
 *       reporters: 10}
 */
#ifndef SL_DTA_STORE_STORE_H
#define SL_DTA_STORE_STORE_H

#include <stdbool.h>

#include "dta/engine/output.h"

#include <sidelight/store.h>

struct dta_stores;

/* An object as it is mapped, whoever made it. */
struct dta_store_view {
	struct sl_store_config config[1]; /* a copy: translators can write where the original is */
	const uint64_t *epochs;		  /* the epoch line */
	const uint8_t *banks;
	uint64_t bank_stride, bytes;
	uint8_t *map;
	char name[64];
};

/*
 * Checks all of it (hostile until then): header, sections, configuration, sizes. 0, or -EINVAL with
 * one line in error: what is wrong. bytes: of the mapping.
 */
int dta_store_view(void *map, uint64_t bytes, struct dta_store_view *out, char *error,
		   size_t error_bytes);
/* Maps an object so that huge pages can be mapped as such: from one's border on. As mmap(),
 * MAP_SHARED. */
void *dta_store_map(int fd, uint64_t bytes, bool writable);
/* A configuration alone: every number in its bounds, sizes without overflow. -EINVAL with a line.
 */
int dta_store_config_check(const struct sl_store_config *c, char *error, size_t error_bytes);
/* Bytes of an object of this configuration. */
uint64_t dta_store_object_bytes(const struct sl_store_config *c);
/*
 * Fills a mapping of that many zeros: header, configuration with its check, epoch line. instance:
 * random, not 0. name: 1 to 63 of [a-zA-Z0-9_.-].
 */
void dta_store_format(void *map, const struct sl_store_config *c, const char *name);

/* "key-write", "append", "increment", "postcard", "sketch", or "unknown"; and back, 0 if it is
 * none. */
const char *dta_store_kind_name(uint32_t kind);
uint32_t dta_store_kind_of(const char *name);
const char *dta_store_sketch_name(uint32_t sketch); /* "count-min", "count-sketch", "hyperloglog" */
uint32_t dta_store_sketch_of(const char *name);

/* A whole copy of the epoch line. False: it did not settle, or says what can't be. */
struct dta_store_epochs {
	uint64_t epoch, oldest, since_ns;
	uint32_t state; /* enum sl_region_state */
};
bool dta_store_epochs(const struct dta_store_view *v, struct dta_store_epochs *out);
/* Stores the epoch line; the owner alone. */
void dta_store_epochs_set(void *map, const struct dta_store_epochs *e);

/* The bank of an epoch, wherever that is now. */
static inline const uint8_t *dta_store_bank(const struct dta_store_view *v, uint64_t epoch)
{
	return v->banks + epoch % v->config->banks * v->bank_stride;
}

#endif
