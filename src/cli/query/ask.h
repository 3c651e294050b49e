/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli_query_ask.h - questions of 'sidelight query' to one collector or several. Translators spread
 * keys over collectors (dta/translate/hash_ring.h): whose key it is is asked first, then who comes
 * next, as keys went there while it was away. What is counted, listed or logged may lie in all of
 * them: all are asked, and their answers taken together. Who can't be reached is said on stderr,
 * and left out while there is another.
 */
#ifndef SL_CLI_QUERY_ASK_H
#define SL_CLI_QUERY_ASK_H

#include <jansson.h>

#include "base/base.h"
#include "dta/translate/hash_ring.h"
#include "dta/store/store.h"

struct cli_query_settings {
	struct base_strings collectors;
	const char *policy;
	uint32_t copies, consensus, list, max;
	int32_t lane; /* -1: all */
	uint64_t epoch_at, from_at, within;
	bool has_epoch, has_from;
};

/*
 * Who is asked. Filled in by cli_query_meet(), which asks each of several who it is and what its
 * store is; of one alone it asks nothing.
 */
struct cli_query_collectors {
	const struct cli_query_settings *set;
	struct {
		const char *at;	  /* HOST:PORT */
		char called[160]; /* by translators; "": by nobody yet */
		bool up;
	} member[DTA_HASH_RING_MEMBERS_MAX];
	uint32_t n;
	/* of the store, if there are several */
	char kind[16];
	uint16_t tenant, store;
};

/* One line on stderr; returns BASE_EXIT_FAILURE. */
int cli_query_failed(const char *what, const char *why);
/* False after a line on stderr: nobody can be reached, or has such a store. store NULL: no matter
 * which. */
bool cli_query_meet(struct cli_query_collectors *c, const struct cli_query_settings *set,
		    const char *store);
/* An array of answers as of GET /api/v1/dta/query, one a key, in their order; NULL after a line on
 * stderr. */
json_t *cli_query_ask(struct cli_query_collectors *c, const char *store, char *const *keys,
		      size_t n);
/* The same of one collector alone. */
json_t *cli_query_ask_one(struct cli_query_collectors *c, uint32_t member, const char *store,
			  char *const *keys, size_t n);
/* As of GET /api/v1/dta/keys, of all; NULL after a line on stderr. */
json_t *cli_query_keys(struct cli_query_collectors *c, const char *store, size_t max, bool top);
/* GET of one collector: a path. NULL after a line on stderr. */
json_t *cli_query_get(struct cli_query_collectors *c, uint32_t member, const char *path);

#endif
