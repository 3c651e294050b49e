/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.h - a mapping: rules (docs/dta-devices.md) that derive the key, value, primitive and store of
 * reports from a device's records, compiled into lists of fields to write in order.
 *
 * A mapping is immutable and shared by the workers. A batch belongs to one worker and one kind of
 * input; it collects reports per rule, so that stores get large blocks.
 */
#ifndef SL_DTA_DEVICE_MAP_H
#define SL_DTA_DEVICE_MAP_H

#include <sidelight/store.h>

#include "dta/device/device.h"
#include "dta/wire/wire.h"

#define DTA_MAP_RULES 64u
#define DTA_MAP_ITEMS 256u /* maximum number of reports per block */
/* size of the largest block, which is larger than a packet */
#define DTA_MAP_BLOCK_MAX (DTA_MAP_ITEMS * (SL_STORE_KEY_MAX + SL_STORE_VALUE_MAX))

struct dta_map;

/* The default mapping, as YAML. */
extern const char dta_map_default[];

/*
 * Reads a mapping from a file, or from a text, for which messages use path as the file name.
 * Returns NULL with "FILE:LINE: message" in error.
 */
struct dta_map *dta_map_read(const char *path, char *error, size_t error_bytes);
struct dta_map *dta_map_text(const char *path, const char *text, size_t bytes, char *error,
			     size_t error_bytes);
void dta_map_free(struct dta_map *m); /* NULL is ignored */
/* Returns the tenant that owns the stores these reports go to. */
uint16_t dta_map_tenant(const struct dta_map *m);

struct dta_map_stats {
	uint64_t reports; /* reports produced */
	/*
	 * records for which no rule produced a report; names are not counted, because few mappings
	 * use them
	 */
	uint64_t unmapped;
	/* values too large for their field, written as the field's maximum */
	uint64_t saturated;
};

/* Receives a block, whose items are valid until the function returns. */
typedef void dta_map_fn(void *arg, const struct dta_block *block);

struct dta_map_batch;
/* The mapping must outlive the batch. Returns NULL with errno ENOMEM. */
struct dta_map_batch *dta_map_batch_new(const struct dta_map *m, enum dta_device input,
					dta_map_fn *give, void *arg);
void dta_map_batch_free(struct dta_map_batch *b); /* does not flush; NULL is ignored */
/* Adds the reports made from a record and emits each full block. */
void dta_map_take(struct dta_map_batch *b, const struct dta_record *r);
/* Emits all pending blocks. */
void dta_map_flush(struct dta_map_batch *b);
const struct dta_map_stats *dta_map_stats(const struct dta_map_batch *b);

#endif
