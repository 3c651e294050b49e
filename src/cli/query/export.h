/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.h - a store as CSV (RFC 4180, one header) or JSON lines, on standard output: page by page
 * (dta/query/export.h), so that memory is bounded whatever a store holds.
 */
#ifndef SL_CLI_QUERY_EXPORT_H
#define SL_CLI_QUERY_EXPORT_H

#include "cli/query/ask.h"
#include "dta/store/stores.h"

struct cli_query_export {
	const struct base_command *self;
	bool json, slots;
	bool disagree;	  /* only the keys on which replicas disagree; then the exit code is 1 */
	const char *keys; /* a file of keys, one per line: the answers for these; or NULL */
	/* With keys, or disagree, the answers; NULL after a line on stderr. */
	json_t *(*ask)(char *const *keys, size_t n);
};

/* Of collectors that were met. An exit code. */
int cli_query_export(const struct cli_query_export *x, struct cli_query_collectors *c,
		     const char *store);
/* Of a store's file: the epoch of the settings, or all that it has. */
int cli_query_export_object(const struct cli_query_export *x, const struct cli_query_settings *set,
			    const struct dta_store_object *object);

#endif
