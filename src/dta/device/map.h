/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.h - which fields of a device's records become key, value, primitive and store of reports: a
 * file of rules (docs/dta-devices.md), compiled into lists of fields to write one behind the other.
 *
 * A mapping is immutable, and workers share it. A batch belongs to one worker and one kind of
 * input: it gathers reports per rule, so that stores get blocks of many.
 */
#ifndef SL_DTA_DEVICE_MAP_H
#define SL_DTA_DEVICE_MAP_H

#include "dta/device/device.h"
#include "dta/wire/wire.h"

#define DTA_MAP_RULES 64u
#define DTA_MAP_ITEMS 256u /* reports of a block at most */

struct dta_map;

/* The mapping without a file, as YAML. */
extern const char dta_map_default[];

/*
 * Reads a file, or a text that messages name path. NULL with "FILE:LINE: what" in error.
 */
struct dta_map *dta_map_read(const char *path, char *error, size_t error_bytes);
struct dta_map *dta_map_text(const char *path, const char *text, size_t bytes, char *error,
			     size_t error_bytes);
void dta_map_free(struct dta_map *m); /* NULL is ignored */
/* The tenant whose stores the reports are for. */
uint16_t dta_map_tenant(const struct dta_map *m);

struct dta_map_stats {
	uint64_t reports;   /* made */
	uint64_t unmapped;  /* records that no rule made a report of */
	uint64_t saturated; /* values beyond their size, written as the greatest that fits */
};

/* Takes a block; its items are valid until it returns. */
typedef void dta_map_fn(void *arg, const struct dta_block *block);

struct dta_map_batch;
/* The mapping must outlive it. NULL with errno ENOMEM. */
struct dta_map_batch *dta_map_batch_new(const struct dta_map *m, enum dta_device input,
					dta_map_fn *give, void *arg);
void dta_map_batch_free(struct dta_map_batch *b); /* does not flush; NULL is ignored */
/* Adds the reports of a record, and gives a block that is full. */
void dta_map_take(struct dta_map_batch *b, const struct dta_record *r);
/* Gives all that is gathered. */
void dta_map_flush(struct dta_map_batch *b);
const struct dta_map_stats *dta_map_stats(const struct dta_map_batch *b);

#endif
