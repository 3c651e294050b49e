/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - objects of stores: their configuration, header and epoch line, checked before use. The
 * format is docs/dta-store.md. Knows neither writers nor queries.
 */
#ifndef SL_DTA_STORE_STORE_H
#define SL_DTA_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sidelight/store.h>

struct dta_stores;

/* A mapped object. */
struct dta_store_view {
	struct sl_store_config config[1]; /* a copy, as translators can write to the original */
	const uint64_t *epochs;		  /* the epoch line */
	const uint8_t *banks;
	uint64_t bank_stride, bytes;
	uint8_t *map;
	char name[64];
};

/*
 * Checks a mapping of `bytes` bytes, untrusted until then: header, sections, configuration, sizes.
 * 0, or -EINVAL with one line in error.
 */
int dta_store_view(void *map, uint64_t bytes, struct dta_store_view *out, char *error,
		   size_t error_bytes);
/* As mmap() with MAP_SHARED, at an address aligned to huge pages. */
void *dta_store_map(int fd, uint64_t bytes, bool writable);
/*
 * Checks a configuration: every number in its bounds, sizes without overflow. 0, or -EINVAL with
 * one line in error.
 */
int dta_store_config_check(const struct sl_store_config *c, char *error, size_t error_bytes);
/* The size of an object. */
uint64_t dta_store_object_bytes(const struct sl_store_config *c);
/* 1 to 63 of [a-zA-Z0-9_.-]: a name of a store, tenant or translator. */
bool dta_name_fits(const char *name);
/*
 * Writes header, configuration with its check, and epoch line into a zeroed mapping of that size.
 */
void dta_store_format(void *map, const struct sl_store_config *c, const char *name);

/* "key-write", "append", "increment", "postcard", "sketch", or "unknown"; and back, or 0. */
const char *dta_store_kind_name(uint32_t kind);
uint32_t dta_store_kind_of(const char *name);
const char *dta_store_sketch_name(uint32_t sketch); /* "count-min", "count-sketch", "hyperloglog" */
uint32_t dta_store_sketch_of(const char *name);

/* Copies the epoch line. False: it did not settle, or is invalid. */
struct dta_store_epochs {
	uint64_t epoch, oldest, since_ns;
	uint32_t state; /* enum sl_region_state */
};
bool dta_store_epochs(const struct dta_store_view *v, struct dta_store_epochs *out);
/* Writes the epoch line; only the store server may. */
void dta_store_epochs_set(void *map, const struct dta_store_epochs *e);

#define DTA_HELD_MAX 8u
/* A store's objects, newest first, kept mapped for a query. */
struct dta_held {
	size_t count;
	const struct dta_store_view *view[DTA_HELD_MAX];
	const uint32_t *values; /* postcard: what a hop may report, sorted; or NULL */
	size_t value_count;
	const char *keylog;	   /* name of the key log, or "" */
	struct dta_totals *totals; /* query.h: of the caller that asks for many keys, or NULL */
};

/* The bank of an epoch. */
static inline const uint8_t *dta_store_bank(const struct dta_store_view *v, uint64_t epoch)
{
	return v->banks + epoch % v->config->banks * v->bank_stride;
}

#endif
