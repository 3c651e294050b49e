/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_json.h - questions as people ask them, and answers as JSON; one form for the API, the
 * command and the page. Any thread.
 */
#ifndef SL_DTA_QUERY_JSON_H
#define SL_DTA_QUERY_JSON_H

#include <jansson.h>

#include "dta/store_server/server.h"
#include "dta/query/query.h"

/* A key as text.h has it. Returns its bytes, 4 to 64, or -EINVAL. */
int dta_query_key(const char *text, uint8_t key[SL_STORE_KEY_MAX]);

const char *
dta_query_result_name(enum sl_query_result r); /* "found", "empty", "conflict", "unknown" */
bool dta_query_policy_of(const char *name,
			 enum sl_query_policy *out); /* "first", "plurality", "consensus" */

struct dta_ask {
	uint8_t key[SL_STORE_KEY_MAX];
	size_t key_bytes; /* 0: none given */
	uint64_t epoch;	  /* ~0: the newest that has it */
	uint32_t copies, consensus;
	enum sl_query_policy policy;
	uint64_t within; /* an empty answer says with which probability a key before so many others
			    was found; 0: -- */
	bool cells; /* sketch: with its cells, up to DTA_ASK_CELLS_MAX, for who merges them with
		       another collector's */
	/* append */
	uint32_t list;
	uint32_t lane; /* ~0: all */
	uint64_t from; /* block; ~0: the oldest there is */
	uint32_t max;  /* items of a lane */
};
#define DTA_ASK_ITEMS_MAX 4096u
#define DTA_ASK_CELLS_MAX (16u << 20) /* bytes */

/* One key-value text of a question, as a parameter or an option has it. 0, -ENOENT: no such one,
 * -EINVAL. */
int dta_ask_set(struct dta_ask *a, const char *name, const char *value);
void dta_ask_init(struct dta_ask *a);

/*
 * What the store says. {"store","kind","result",...}; NULL with a line in error: the question is
 * not one for this kind (a key is missing), or out of memory.
 */
json_t *dta_query_json(const struct dta_held *held, const struct dta_ask *ask, char *error,
		       size_t error_bytes);

/* Bytes in hexadecimal, as answers have them: a string of any length. */
json_t *dta_query_hex(const void *bytes, size_t n);

/*
 * Keys out of the store's list of its key log (an append store), newest last, each once: at most
 * max. top: with what the store says of each (increment: counts, the greatest first).
 * overwritten_blocks: of keys that the list has no more. log and store may be the same set of
 * objects held.
 */
json_t *dta_query_keys_json(const struct dta_held *log, const struct dta_held *store, size_t max,
			    bool top);

/*
 * How many keys of the newest epoch are found, beside what was to be expected: at most
 * DTA_SUCCESS_SAMPLE distinct keys of the key log, evenly spread over their ages, are asked for.
 * Reads the whole log: not for every scrape (dta_store_server_load_json()).
 */
#define DTA_SUCCESS_SAMPLE 1024u
struct dta_success {
	uint64_t epoch;
	const char *why_not; /* NULL, or why nothing was measured: the rest is 0 then */
	uint64_t known, asked,
		found; /* distinct keys of the epoch in the log; of those looked up; found */
	double low,
		high; /* found / asked is within these with 95 % (E. B. Wilson, JASA 22 (1927)) */
	/* The mean over the sample of 1 - (1 - e^-aN)^N; a: newer keys / slots, of each key its
	 * own. */
	double predicted;
};
/* log: NULL if there is none; it and store may be the same set of objects held. */
void dta_query_success(const struct dta_held *store, const struct dta_held *log,
		       struct dta_success *out);

/*
 * How full its epochs are: [{"epoch","load","occupied","predicted_success":[..]}], and of the one
 * that was measured "measured": {...}; of the newest null with "why_not_measured", if it is
 * another. NULL if the kind has no such thing.
 */
json_t *dta_query_load_json(const struct dta_held *held, const struct dta_success *measured);

#endif
