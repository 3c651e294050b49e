/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - objects of stores: their configuration, header and epoch line, validated before use.
 * The format is docs/dta-store.md. Independent of writers and queries.
 */
#ifndef SL_DTA_STORE_STORE_H
#define SL_DTA_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sidelight/store.h>

/* A mapped object. */
struct dta_store_view {
	/* a copy, because translators can write to the original */
	struct sl_store_config config[1];
	const uint64_t *epochs; /* the epoch line */
	const uint8_t *banks;
	uint64_t bank_stride, bytes;
	uint8_t *map;
	char name[64];
};

/*
 * Validates an untrusted mapping of `bytes` bytes: header, sections, configuration, sizes. Returns
 * 0, or -EINVAL with one line in error.
 */
int dta_store_view(void *map, uint64_t bytes, struct dta_store_view *out, char *error,
		   size_t error_bytes);
/* Like mmap() with MAP_SHARED, at an address aligned to huge pages. */
void *dta_store_map(int fd, uint64_t bytes, bool writable);
/*
 * Checks that every number of a configuration is within its bounds and that no size overflows.
 * Returns 0, or -EINVAL with one line in error.
 */
int dta_store_config_check(const struct sl_store_config *c, char *error, size_t error_bytes);
/* Returns the size of an object. */
uint64_t dta_store_object_bytes(const struct sl_store_config *c);
/*
 * Returns true if the name of a store, tenant or translator is valid: 1 to 63 characters of
 * [a-zA-Z0-9_.-].
 */
bool dta_name_fits(const char *name);
/*
 * Writes the header, the configuration with its check word, and the epoch line into a zeroed
 * mapping of the object's size.
 */
void dta_store_format(void *map, const struct sl_store_config *c, const char *name);

/*
 * Convert between kinds and "key-write", "append", "increment", "postcard", "sketch". An unknown
 * kind gives "unknown", an unknown name 0.
 */
const char *dta_store_kind_name(uint32_t kind);
uint32_t dta_store_kind_of(const char *name);
/* "count-min", "count-sketch" or "hyperloglog" */
const char *dta_store_sketch_name(uint32_t sketch);
uint32_t dta_store_sketch_of(const char *name);

/* Copies the epoch line. Returns false if it did not settle or is invalid. */
struct dta_store_epochs {
	uint64_t epoch, oldest, since_ns;
	uint32_t state; /* enum sl_region_state */
};
bool dta_store_epochs(const struct dta_store_view *v, struct dta_store_epochs *out);
/* Writes the epoch line; only the store server may call this. */
void dta_store_epochs_set(void *map, const struct dta_store_epochs *e);

/* Compares the values that a hop may report, for qsort() and bsearch(). */
int dta_store_by_value(const void *a, const void *b);

#define DTA_HELD_MAX 8u
/* A store's objects, newest first, kept mapped for a query. */
struct dta_held {
	size_t count;
	const struct dta_store_view *view[DTA_HELD_MAX];
	const uint32_t *values; /* postcard: the sorted values that a hop may report; or NULL */
	size_t value_count;
	const char *keylog; /* name of the key log, or "" */
	/* names of the key's and the value's fields (dta/query/layout.h), or NULL */
	const char *layout[2];
	/* start of epoch e (CLOCK_REALTIME) in [e % SL_STORE_BANKS_MAX], 0 if unknown; or NULL */
	const uint64_t *since_ns;
	/* row sum cache (query.h) for a caller with many keys, or NULL */
	struct dta_totals *totals;
	/* limit on what a query looks at (base/budget.h), or NULL */
	struct base_budget *budget;
	/* for the store server (hold.c): the next older one, and when it began */
	struct dta_held *next;
	uint64_t turn;
};

/* Returns the bank of an epoch. */
static inline const uint8_t *dta_store_bank(const struct dta_store_view *v, uint64_t epoch)
{
	return v->banks + epoch % v->config->banks * v->bank_stride;
}

#endif
