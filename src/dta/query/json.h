/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - queries in text form and answers as JSON, shared by the API, the command and the page.
 * May be called by any thread.
 */
#ifndef SL_DTA_QUERY_JSON_H
#define SL_DTA_QUERY_JSON_H

#include <jansson.h>

#include "dta/query/query.h"

/* Parses a key in the form of text.h. Returns its length, 4 to 64, or -EINVAL. */
int dta_query_key(const char *text, uint8_t key[SL_STORE_KEY_MAX]);

const char *
/* returns "found", "empty", "conflict" or "unknown" */
dta_query_result_name(enum sl_query_result r);
bool dta_query_policy_of(const char *name,
			 /* parses "first", "plurality" or "consensus" */
			 enum sl_query_policy *out);

struct dta_ask {
	uint8_t key[SL_STORE_KEY_MAX];
	size_t key_bytes; /* 0 means no key */
	uint64_t epoch;	  /* ~0 means the newest epoch with an answer */
	uint32_t copies, consensus;
	enum sl_query_policy policy;
	uint64_t within; /* number of newer keys for judging an empty answer; 0 means compute it */
	bool cells;	 /* include the cells of a sketch, up to DTA_ASK_CELLS_MAX */
	/* for queries of append stores: */
	uint32_t list;
	uint32_t lane; /* ~0 means all lanes */
	uint64_t from; /* first position, as in "next" of an answer; ~0 means the oldest */
	uint32_t max;  /* maximum number of items per lane */
};
#define DTA_ASK_ITEMS_MAX 4096u
#define DTA_ASK_CELLS_MAX (16u << 20) /* maximum size of a sketch's cells in bytes */

/*
 * Sets a field by its parameter's name. Returns 0, -EINVAL, or -ENOENT if there is no such
 * parameter.
 */
int dta_ask_set(struct dta_ask *a, const char *name, const char *value);
void dta_ask_init(struct dta_ask *a);

/*
 * Queries a store: {"store","kind","result",...}. Returns NULL with one line in error if the kind
 * needs a key, or if out of memory. If held->budget is used up, the answer must not be used.
 */
json_t *dta_query_json(const struct dta_held *held, const struct dta_ask *ask, char *error,
		       size_t error_bytes);

/* Formats bytes in hexadecimal. */
json_t *dta_query_hex(const void *bytes, size_t n);

/*
 * Returns at most max distinct keys of the store from its list in the key log (an append store),
 * newest last. top: returns the keys with the greatest counts first (increment).
 * overwritten_blocks: number of overwritten blocks of the list. log and store may be the same. If
 * store->budget is used up, the list is incomplete and must not be used.
 */
json_t *dta_query_keys_json(const struct dta_held *log, const struct dta_held *store, size_t max,
			    bool top);

/*
 * Measures what share of the keys of the newest epoch can be found: looks up at most
 * DTA_SUCCESS_SAMPLE distinct keys of the key log, evenly spread over their ages. Reads the whole
 * log, which is too expensive for every scrape (see dta_store_server_load_json()).
 */
#define DTA_SUCCESS_SAMPLE 1024u
struct dta_success {
	uint64_t epoch;
	const char *why_not; /* reason why nothing was measured, with all other fields 0; or NULL */
	/* numbers of distinct keys in the log, keys looked up, and keys found */
	uint64_t known, asked, found;
	/* 95 % confidence interval of found / asked (E. B. Wilson, JASA 22 (1927)) */
	double low, high;
	/*
	 * Mean over the sample of 1 - (1 - e^-u)^N, where N is the number of the key's copies and u
	 * the number of newer keys' copies per slot.
	 */
	double predicted;
};
/* log: NULL if there is none; may be the same as store. */
void dta_query_success(const struct dta_held *store, const struct dta_held *log,
		       struct dta_success *out);

/*
 * Returns the load of each epoch: [{"epoch","load","occupied","predicted_success":[..]}], with
 * "measured": {...} in the measured epoch; otherwise the newest has null and "why_not_measured".
 * Returns NULL for a store of another kind.
 */
json_t *dta_query_load_json(const struct dta_held *held, const struct dta_success *measured);

/* A key of a key log. */
struct dta_logged_key {
	uint64_t order; /* must be first: see base_by_u64() */
	/* copies: 0 if the report did not state the number */
	uint8_t bytes, copies, key[SL_STORE_KEY_MAX];
	bool marked;	/* epoch is known */
	uint32_t epoch; /* low half of the number of the epoch in which it was logged */
	uint64_t value;
};
/*
 * Returns the distinct pairs of key and epoch in the key log of a store, sorted by key and then by
 * epoch, in memory that the caller frees. Adds to *overwritten the number of the log's blocks that
 * were overwritten, or not read because they are beyond 1,000,000 keys. If store->budget is used
 * up, the list is incomplete.
 */
struct dta_logged_key *dta_query_logged(const struct dta_held *log, const struct dta_held *store,
					size_t *n, uint64_t *overwritten);

/* ---- for json.c and keys.c ---- */

/* jansson's integers are signed; larger numbers become strings. */
static inline json_t *dta_query_number(uint64_t v)
{
	return v <= INT64_MAX ? json_integer((json_int_t)v)
			      : json_sprintf("%llu", (unsigned long long)v);
}

static inline void dta_query_set(json_t *j, const char *key, json_t *value)
{
	json_object_set_new(j, key, value);
}

/*
 * Queries objects, newest first, until one has an answer. The result is "empty" if at least one
 * object has the epoch.
 */
#define DTA_QUERY_OBJECTS(held, answer, ask_one)                           \
	do {                                                               \
		bool empty_ = false;                                       \
		for (size_t i_ = 0; i_ < (held)->count; i_++) {            \
			const struct dta_store_view *v = (held)->view[i_]; \
			ask_one;                                           \
			if ((answer).result != SL_QUERY_EMPTY &&           \
			    (answer).result != SL_QUERY_UNKNOWN)           \
				break;                                     \
			empty_ |= (answer).result == SL_QUERY_EMPTY;       \
		}                                                          \
		if ((answer).result == SL_QUERY_UNKNOWN && empty_)         \
			(answer).result = SL_QUERY_EMPTY;                  \
	} while (0)

#endif
