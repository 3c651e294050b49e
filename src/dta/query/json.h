/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - questions in text form and answers as JSON, the same for the API, the command and the
 * page. Any thread.
 */
#ifndef SL_DTA_QUERY_JSON_H
#define SL_DTA_QUERY_JSON_H

#include <jansson.h>

#include "dta/query/query.h"

/* Parses a key in the form of text.h. Returns its length, 4 to 64, or -EINVAL. */
int dta_query_key(const char *text, uint8_t key[SL_STORE_KEY_MAX]);

const char *
dta_query_result_name(enum sl_query_result r); /* "found", "empty", "conflict", "unknown" */
bool dta_query_policy_of(const char *name,
			 enum sl_query_policy *out); /* "first", "plurality", "consensus" */

struct dta_ask {
	uint8_t key[SL_STORE_KEY_MAX];
	size_t key_bytes; /* 0: none */
	uint64_t epoch;	  /* ~0: the newest that has it */
	uint32_t copies, consensus;
	enum sl_query_policy policy;
	uint64_t within; /* for an empty answer: the number of newer keys; 0: chosen */
	bool cells;	 /* sketch: include its cells, up to DTA_ASK_CELLS_MAX */
	/* append */
	uint32_t list;
	uint32_t lane; /* ~0: all */
	uint64_t from; /* block; ~0: the oldest */
	uint32_t max;  /* items per lane */
};
#define DTA_ASK_ITEMS_MAX 4096u
#define DTA_ASK_CELLS_MAX (16u << 20) /* bytes */

/* Sets a field by its parameter's name. 0, -ENOENT: no such parameter, -EINVAL. */
int dta_ask_set(struct dta_ask *a, const char *name, const char *value);
void dta_ask_init(struct dta_ask *a);

/*
 * Asks a store: {"store","kind","result",...}. NULL with one line in error: the kind needs a key,
 * or out of memory.
 */
json_t *dta_query_json(const struct dta_held *held, const struct dta_ask *ask, char *error,
		       size_t error_bytes);

/* Bytes in hexadecimal. */
json_t *dta_query_hex(const void *bytes, size_t n);

/*
 * The distinct keys in the store's list of its key log (an append store), newest last, at most max.
 * top: the keys with the greatest counts first (increment). overwritten_blocks: blocks of keys that
 * the list lost. log and store may be the same.
 */
json_t *dta_query_keys_json(const struct dta_held *log, const struct dta_held *store, size_t max,
			    bool top);

/*
 * Measures how many keys of the newest epoch are found: looks up at most DTA_SUCCESS_SAMPLE
 * distinct keys of the key log, evenly spread over their ages. Reads the whole log, which is too
 * much for every scrape (see dta_store_server_load_json()).
 */
#define DTA_SUCCESS_SAMPLE 1024u
struct dta_success {
	uint64_t epoch;
	const char *why_not;	      /* why nothing was measured, with the rest 0; or NULL */
	uint64_t known, asked, found; /* distinct keys in the log; looked up; found */
	double low, high; /* 95 % interval of found / asked (E. B. Wilson, JASA 22 (1927)) */
	/* Mean over the sample of 1 - (1 - e^-u)^N, for each key's N copies and the u copies of
	 * newer keys per slot. */
	double predicted;
};
/* log: NULL if there is none; may be the same as store. */
void dta_query_success(const struct dta_held *store, const struct dta_held *log,
		       struct dta_success *out);

/*
 * The load of each epoch: [{"epoch","load","occupied","predicted_success":[..]}], with "measured":
 * {...} for the epoch that was measured; for the newest otherwise null and "why_not_measured".
 * NULL: a store of another kind.
 */
json_t *dta_query_load_json(const struct dta_held *held, const struct dta_success *measured);

/* ---- for json.c and keys.c ---- */

/* jansson's integers are signed: larger ones become strings. */
static inline json_t *dta_query_number(uint64_t v)
{
	return v <= INT64_MAX ? json_integer((json_int_t)v)
			      : json_sprintf("%llu", (unsigned long long)v);
}

static inline void dta_query_set(json_t *j, const char *key, json_t *value)
{
	json_object_set_new(j, key, value);
}

/* Asks objects from the newest until one has an answer; "empty" if at least one has the epoch. */
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
