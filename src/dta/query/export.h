/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.h - everything in an epoch of a store, a page at a time: a page takes bounded memory and
 * time, and no state stays between two. Any thread.
 */
#ifndef SL_DTA_QUERY_EXPORT_H
#define SL_DTA_QUERY_EXPORT_H

#include <jansson.h>

#include "dta/query/query.h"

struct dta_export {
	uint64_t epoch; /* ~0: the current one */
	bool slots;	/* units as they lie in memory, also of a store with a key log */
	uint64_t at[4]; /* where the page begins: zeros, or "next" of the page before */
};

/* "N.N.N.N": where a page begins. 0, -EINVAL. */
int dta_export_at(const char *text, uint64_t at[4]);

/*
 * {"store","kind","epoch","by":"key"|"slot"|"item"|"cell","fields":[...],"records":[{...}],"next":
 * TEXT|null,"looked":N,"torn":N,"lost":N,"empty":N}. by key: the answers for the keys of the log,
 * some of them more than once, without those that the epoch does not have (empty). torn: units that
 * changed while they were read, and are left out; without its key no check word can be tested.
 * lost: blocks of a list, or of the key log, that were overwritten or never arrived.
 *
 * A sketch has "cells" in hexadecimal in place of records, as its query with cells (json.h): all of
 * them are of one moment.
 *
 * log: the key log, or NULL. NULL with one line in error: the epoch is not there, or no longer.
 */
json_t *dta_export_page(const struct dta_held *store, const struct dta_held *log,
			const struct dta_export *x, char *error, size_t error_bytes);

/* The fields of answers for keys. NULL with one line in error: a store of this kind has no keys. */
json_t *dta_export_fields(uint32_t kind, char *error, size_t error_bytes);

#endif
