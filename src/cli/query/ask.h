/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h - asks one collector or several. Translators spread keys over collectors
 * (dta/translate/hash_ring.h): a key is asked of its own collector first, then of those that took
 * it over while that one was away. Counters, lists and sketches may lie in all: all are asked, and
 * the answers joined. An unreachable collector is reported on stderr, and skipped while another
 * answers.
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
	char *token;	    /* --token-file; NULL: that left for this user */
	const char *config; /* --http-config; or NULL */
};

/* Those to ask. cli_query_meet() asks each of several for its name and store. */
struct cli_query_collectors {
	const struct cli_query_settings *set;
	struct {
		const char *at;	  /* HOST:PORT */
		char called[160]; /* its name for translators; "": none yet */
		bool up;
		char *token;  /* NULL: none */
		json_t *gaps; /* when it was away while a replica took its reports; or NULL */
	} member[DTA_HASH_RING_MEMBERS_MAX];
	uint32_t n;
	/* of the store, with several collectors */
	char kind[16];
	uint16_t tenant, store;
	uint32_t replicas; /* collectors that have each key, 1 to 64 */
};

/* Calls put for each parameter that is set. */
void cli_query_parameters(const struct cli_query_settings *set,
			  void (*put)(void *context, const char *name, const char *value),
			  void *context);
/* False after a line on stderr: no collector that has the store is reachable. store NULL: any. */
bool cli_query_meet(struct cli_query_collectors *c, const struct cli_query_settings *set,
		    const char *store);
/* An array of answers of GET /api/v1/dta/query, one per key; NULL after a line on stderr. */
json_t *cli_query_ask(struct cli_query_collectors *c, const char *store, char *const *keys,
		      size_t n);
/* The same of one collector alone. */
json_t *cli_query_ask_one(struct cli_query_collectors *c, uint32_t member, const char *store,
			  char *const *keys, size_t n);
/* The answer of GET /api/v1/dta/keys, over all; NULL after a line on stderr. */
json_t *cli_query_keys(struct cli_query_collectors *c, const char *store, size_t max, bool top);
/* GET of a path from one collector. NULL after a line on stderr. */
json_t *cli_query_get(struct cli_query_collectors *c, uint32_t member, const char *path);
/* A command: a method, a path and a body, which it takes over, or NULL. False after a line on
 * stderr. */
bool cli_query_order(struct cli_query_collectors *c, uint32_t member, const char *method,
		     const char *path, json_t *body);

/* Rank of a result: unknown, empty, conflict, found. */
int cli_query_weight(const json_t *answer);
/* The members to ask for a key (NULL: of a sketch or list) in the order of the ring. Returns how
 * many. */
uint32_t cli_query_order_of(const struct cli_query_collectors *c, const char *key,
			    uint32_t asked[DTA_HASH_RING_MEMBERS_MAX]);

/* ---- replicas.c ---- */

/*
 * As cli_query_ask() of collectors that have the same keys: one answer per key, with "replicas":
 * {"wanted","asked","agree","missing":[...],"differ":[...],"may_be_old"}, and the "gaps" of the one
 * that answers.
 */
json_t *cli_query_ask_replicas(struct cli_query_collectors *c, const char *store, char *const *keys,
			       size_t n);

/* ---- sketch.c ---- */

/*
 * Adds another collector's answer to all, both with cells: sketches of one epoch are merged, else
 * the newer wins. If cells cannot be merged (too many, other seed or size), the one with more
 * reporters wins. key: as asked, or NULL. says_more: a wins unless both found one.
 */
void cli_query_add_sketch(json_t *all, const json_t *a, const char *key, bool says_more);
/* Removes the members that only merging needs. */
void cli_query_end_sketch(json_t *all);

#endif
