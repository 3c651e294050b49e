/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.h - exports everything in an epoch of a store, one page at a time. A page takes bounded
 * memory and time, and no state is kept between pages. May be called by any thread.
 */
#ifndef SL_DTA_QUERY_EXPORT_H
#define SL_DTA_QUERY_EXPORT_H

#include <jansson.h>

#include "dta/query/query.h"

struct dta_export {
	uint64_t epoch; /* ~0 means the current epoch */
	bool slots;	/* export raw units, even if the store has a key log */
	uint64_t at[4]; /* start of the page: zeros, or "next" of the previous page */
};

/* Parses "N.N.N.N", the start of a page. Returns 0 or -EINVAL. */
int dta_export_at(const char *text, uint64_t at[4]);

/*
 * Returns
 * {"store","kind","epoch","by":"key"|"slot"|"item"|"cell","fields":[...],"records":[{...}],"next":TEXT|null,"looked":N,"torn":N,"lost":N,"empty":N}.
 * By key: the answers for the keys of the log. Some keys occur more than once; keys without an
 * answer in the epoch are left out and counted in empty. torn: units left out because they changed
 * while being read; a check word can't be verified without the key. lost: blocks of a list or of
 * the key log that were overwritten or never arrived.
 *
 * A sketch has "cells" in hexadecimal instead of records, like its query with cells (json.h), all
 * from the same moment.
 *
 * log: the key log, or NULL. Returns NULL with one line in error if the epoch does not exist, or no
 * longer exists. If store->budget is used up, the page is incomplete and must not be used.
 */
json_t *dta_export_page(const struct dta_held *store, const struct dta_held *log,
			const struct dta_export *x, char *error, size_t error_bytes);

/*
 * Returns the fields of answers for keys. Returns NULL with one line in error if stores of this
 * kind have no keys.
 */
json_t *dta_export_fields(uint32_t kind, char *error, size_t error_bytes);

#endif
