/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.h - exports a store to standard output as CSV (RFC 4180, with one header) or JSON lines.
 * Works page by page (dta/query/export.h), so that memory use does not depend on the store's size.
 */
#ifndef SL_CLI_QUERY_EXPORT_H
#define SL_CLI_QUERY_EXPORT_H

#include "cli/query/ask.h"
#include "dta/store/stores.h"

struct cli_query_export {
	const struct base_command *self;
	bool json, slots;
	bool disagree; /* export only keys on which replicas disagree; the exit code is then 1 */
	/* file with one key per line: export the answers for these keys, or NULL */
	const char *keys;
	/* Queries keys, for the options keys and disagree. Returns NULL after printing an error. */
	json_t *(*ask)(char *const *keys, size_t n);
};

/* Exports from collectors that cli_query_meet() has prepared. Returns an exit code. */
int cli_query_export(const struct cli_query_export *x, struct cli_query_collectors *c,
		     const char *store);
/* Exports from a store's file: the epoch in the settings, or all epochs. Returns an exit code. */
int cli_query_export_object(const struct cli_query_export *x, const struct cli_query_settings *set,
			    const struct dta_store_object *object);

#endif
