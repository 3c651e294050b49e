/* SPDX-License-Identifier: Apache-2.0 */
/* json_internal.h - between json.c (answers by kind) and keys.c (key logs) */
#ifndef SL_DTA_QUERY_JSON_INTERNAL_H
#define SL_DTA_QUERY_JSON_INTERNAL_H

#include "dta/query/json.h"

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
