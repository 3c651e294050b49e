// SPDX-License-Identifier: Apache-2.0
#include "dta/query/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/text.h"
#include "dta/wire/text.h"

int dta_query_key(const char *s, uint8_t key[SL_STORE_KEY_MAX])
{
	int n = dta_text(s, key, SL_STORE_KEY_MAX);

	return n < (int)SL_STORE_KEY_MIN ? -EINVAL : n;
}

const char *dta_query_result_name(enum sl_query_result r)
{
	static const char *const names[] = {"found", "empty", "conflict", "unknown"};

	return (unsigned int)r < 4 ? names[r] : "unknown";
}

bool dta_query_policy_of(const char *name, enum sl_query_policy *out)
{
	static const char *const names[] = {"first", "plurality", "consensus"};

	for (int i = 0; i < 3; i++)
		if (!strcmp(name, names[i])) {
			*out = (enum sl_query_policy)i;
			return true;
		}
	return false;
}

void dta_ask_init(struct dta_ask *a)
{
	*a = (struct dta_ask){
		.epoch = ~0ull, .consensus = 2, .lane = ~0u, .from = ~0ull, .max = 100};
}

int dta_ask_set(struct dta_ask *a, const char *name, const char *value)
{
	uint64_t v;
	int n;

	if (!strcmp(name, "key")) {
		n = dta_query_key(value, a->key);
		a->key_bytes = n > 0 ? (size_t)n : 0;
		return n > 0 ? 0 : -EINVAL;
	}
	if (!strcmp(name, "policy"))
		return dta_query_policy_of(value, &a->policy) ? 0 : -EINVAL;
#define NUMBER(text_, field, least, most)                           \
	do                                                          \
		if (!strcmp(name, text_)) {                         \
			if (base_parse_u64(value, least, most, &v)) \
				return -EINVAL;                     \
			a->field = (__typeof__(a->field))v;         \
			return 0;                                   \
		}                                                   \
	while (0)
	NUMBER("epoch", epoch, 0, UINT64_MAX - 1);
	NUMBER("within", within, 1, INT64_MAX);
	NUMBER("from", from, 0, UINT64_MAX - 1);
	NUMBER("copies", copies, 1, SL_STORE_COPIES_MAX);
	NUMBER("cells", cells, 0, 1);
	NUMBER("consensus", consensus, 1, SL_STORE_COPIES_MAX);
	NUMBER("list", list, 0, SL_STORE_LISTS_MAX - 1);
	NUMBER("lane", lane, 0, SL_STORE_LANES_MAX - 1);
	NUMBER("max", max, SL_STORE_BATCH_MAX, DTA_ASK_ITEMS_MAX);
	return -ENOENT;
}

/* ---- helpers ---- */

json_t *dta_query_hex(const void *bytes, size_t n)
{
	char *text = malloc(2 * n + 1);
	json_t *j;

	if (text)
		base_hex(text, bytes, n);
	j = text ? json_stringn_nocheck(text, 2 * n) : NULL;
	free(text);
	return j;
}

static struct dta_query query_of(const struct dta_ask *a)
{
	return (struct dta_query){.key = a->key,
				  .key_bytes = a->key_bytes,
				  .epoch = a->epoch,
				  .copies = a->copies,
				  .policy = a->policy,
				  .consensus = a->consensus};
}

/* ---- one function per kind ---- */

/*
 * States what an empty answer means: a reported key followed by `within` other keys in its epoch
 * would have been found with this probability. If `within` is not given, the answer uses the number
 * of keys for which the probability is EMPTY_SURE.
 */
#define EMPTY_SURE 0.99

static void add_empty_meaning(json_t *j, const struct dta_held *held, const struct dta_ask *ask)
{
	const struct sl_store_config *c = held->view[0]->config;
	uint32_t copies = ask->copies && ask->copies < c->copies ? ask->copies : c->copies;
	uint64_t within = ask->within;

	if (!within)
		within = (uint64_t)dta_success_reach(c, copies, EMPTY_SURE);
	dta_query_set(j, "within", dta_query_number(within));
	dta_query_set(j, "found_within_probability",
		      json_real(dta_success_after(c, copies, (double)within)));
}

static void answer_keywrite(json_t *j, const struct dta_held *held, const struct dta_ask *ask,
			    const struct dta_query *q)
{
	struct sl_keywrite_answer a = {.result = SL_QUERY_UNKNOWN};

	DTA_QUERY_OBJECTS(held, a, dta_view_keywrite(v, q, &a));
	dta_query_set(j, "result", json_string(dta_query_result_name(a.result)));
	if (a.result == SL_QUERY_FOUND)
		dta_query_set(j, "value", dta_query_hex(a.value, a.bytes));
	if (a.result != SL_QUERY_UNKNOWN)
		dta_query_set(j, "epoch", dta_query_number(a.epoch));
	dta_query_set(j, "agreed", dta_query_number(a.agreed));
	dta_query_set(j, "verified", dta_query_number(a.verified));
	dta_query_set(j, "occupied", dta_query_number(a.occupied));
	dta_query_set(j, "asked", dta_query_number(a.asked));
	if (a.result == SL_QUERY_FOUND)
		dta_query_set(j, "wrong_probability", json_real(a.error_probability));
	else if (a.result == SL_QUERY_EMPTY)
		add_empty_meaning(j, held, ask);
}

static void answer_increment(json_t *j, const struct dta_held *held, const struct dta_query *q)
{
	struct sl_increment_answer a = {.result = SL_QUERY_UNKNOWN};

	DTA_QUERY_OBJECTS(held, a, dta_view_increment(v, q, &a));
	dta_query_set(j, "result", json_string(dta_query_result_name(a.result)));
	if (a.result == SL_QUERY_UNKNOWN)
		return;
	dta_query_set(j, "value", dta_query_number(a.value));
	dta_query_set(j, "epoch", dta_query_number(a.epoch));
	/* with this probability, the value exceeds the true count by at most error */
	dta_query_set(j, "error", json_real(a.error));
	dta_query_set(j, "error_probability", json_real(a.probability));
}

static void answer_postcard(json_t *j, const struct dta_held *held, const struct dta_ask *ask,
			    const struct dta_query *q)
{
	struct sl_postcard_answer p = {.result = SL_QUERY_UNKNOWN};
	json_t *path = json_array();

	DTA_QUERY_OBJECTS(held, p, dta_view_path(v, q, held->values, held->value_count, &p));
	dta_query_set(j, "result", json_string(dta_query_result_name(p.result)));
	if (p.result != SL_QUERY_UNKNOWN)
		dta_query_set(j, "epoch", dta_query_number(p.epoch));
	for (uint32_t i = 0; p.result == SL_QUERY_FOUND && i < p.hops; i++)
		json_array_append_new(path, p.present >> i & 1 ? dta_query_number(p.value[i])
							       : json_null());
	dta_query_set(j, "path", path);
	dta_query_set(j, "hops", dta_query_number(p.result == SL_QUERY_FOUND ? p.hops : 0));
	dta_query_set(j, "known_hops", dta_query_number((uint64_t)__builtin_popcountll(p.present)));
	dta_query_set(j, "agreed", dta_query_number(p.agreed));
	if (p.result == SL_QUERY_FOUND)
		dta_query_set(j, "wrong_probability", json_real(p.error_probability));
	else if (p.result == SL_QUERY_EMPTY)
		add_empty_meaning(j, held, ask);
}

/* Adds an object's items from the reader's block on, at most max. Returns their number. */
static uint32_t read_items(const struct dta_store_view *v, struct sl_query_append_reader *r,
			   uint32_t max, json_t *items)
{
	const uint32_t bytes = v->config->value_bytes;
	uint8_t *buf = malloc((size_t)max * bytes);
	int n = 0;

	for (int i = 0; buf && i < 4; i++) { /* retry after an overrun */
		n = dta_append_read(v, r, buf, max);
		if (n != -EOVERFLOW)
			break;
	}
	for (int i = 0; i < n; i++)
		json_array_append_new(items, dta_query_hex(buf + (size_t)i * bytes, bytes));
	free(buf);
	return n > 0 ? (uint32_t)n : 0;
}

/*
 * Reads a lane from position a->from on, or from its oldest item if there is no such position any
 * more. After the end of an object from before a resize, continues in the next object.
 */
static json_t *ring_json(const struct dta_held *held, const struct dta_ask *a, uint32_t lane)
{
	struct sl_query_append_reader r = {.list = a->list, .lane = lane};
	json_t *items = json_array();
	uint32_t room = a->max;
	size_t i = dta_append_seek(held, a->from, &r);

	for (;;) {
		const bool ended = dta_append_ended(held, i, a->list, lane);

		room -= read_items(held->view[i], &r, room, items);
		if (!ended || room < held->view[i]->config->batch)
			break;
		r.block = dta_append_oldest(held->view[--i], a->list, lane, held->budget);
	}
	return json_pack("{s:o,s:o,s:o,s:o}", "lane", dta_query_number(lane), "next",
			 dta_query_number(dta_append_position(held->view[i], r.block)), "overrun",
			 dta_query_number(r.overrun), "items", items);
}

static void answer_append(json_t *j, const struct dta_held *held, const struct dta_ask *a)
{
	const struct dta_store_view *v = held->view[0];
	json_t *rings = json_array();
	size_t items = 0;

	if (a->list >= v->config->lists || (a->lane != ~0u && a->lane >= v->config->lanes)) {
		dta_query_set(j, "result", json_string("unknown"));
		dta_query_set(j, "rings", rings);
		return;
	}
	for (uint32_t lane = 0; lane < v->config->lanes; lane++)
		if (a->lane == ~0u || a->lane == lane) {
			json_t *r = ring_json(held, a, lane);

			items += json_array_size(json_object_get(r, "items"));
			json_array_append_new(rings, r);
		}
	dta_query_set(j, "result", json_string(items ? "found" : "empty"));
	dta_query_set(j, "list", dta_query_number(a->list));
	dta_query_set(j, "rings", rings);
}

static uint64_t sketch_bytes(const struct sl_store_config *c)
{
	return (uint64_t)c->rows * c->slots * sl_store_cell_bytes(c);
}

/* Merges the lanes of an object into *cells, which it allocates. Returns its configuration. */
static const struct sl_store_config *merge_lanes(const struct dta_store_view *v, uint64_t epoch,
						 struct base_budget *budget, void **cells,
						 struct dta_merged *out)
{
	const uint64_t bytes = sketch_bytes(v->config);

	free(*cells);
	*cells = bytes <= DTA_QUERY_CELLS_MAX ? malloc(sl_pad8(bytes)) : NULL;
	*out = (struct dta_merged){.result = SL_QUERY_UNKNOWN};
	if (*cells)
		dta_view_sketch(v, epoch, budget, *cells, out);
	return v->config;
}

static void answer_sketch(json_t *j, const struct dta_held *held, const struct dta_ask *a)
{
	struct dta_merged m = {.result = SL_QUERY_UNKNOWN};
	struct dta_sketch_estimate e;
	const struct sl_store_config *c = held->view[0]->config;
	uint64_t bytes;
	void *cells = NULL;
	int err;

	dta_query_set(j, "sketch", json_string(dta_store_sketch_name(c->sketch)));
	DTA_QUERY_OBJECTS(held, m, c = merge_lanes(v, a->epoch, held->budget, &cells, &m));
	bytes = sketch_bytes(c);
	dta_query_set(j, "result", json_string(dta_query_result_name(m.result)));
	if (m.result == SL_QUERY_FOUND) {
		dta_query_set(j, "epoch", dta_query_number(m.epoch));
		dta_query_set(j, "complete", json_boolean(m.complete));
		dta_query_set(j, "reporters", dta_query_number(m.ended));
		dta_query_set(j, "expected", dta_query_number(m.expected));
		dta_query_set(j, "cells_merged", dta_query_number(m.columns));
		if (a->cells && bytes <= DTA_ASK_CELLS_MAX) {
			dta_query_set(j, "rows", dta_query_number(c->rows));
			dta_query_set(j, "columns", dta_query_number(c->slots));
			dta_query_set(j, "seed", dta_query_number(c->seed));
			dta_query_set(j, "map", dta_query_hex(m.map, sizeof(m.map)));
			dta_query_set(j, "cells", dta_query_hex(cells, bytes));
		}
		err = dta_sketch_estimate(c, cells, a->key_bytes ? a->key : NULL, a->key_bytes, &e);
		if (!err) {
			dta_query_set(j, "estimate", json_real(e.value));
			dta_query_set(j, "error", json_real(e.error));
		} else if (a->key_bytes || c->sketch == SL_STORE_HLL) {
			dta_query_set(
				j, "why_no_estimate",
				json_string(
					"the cells do not form a valid sketch with this store's seed (see docs/sketches.md)"));
		}
	}
	free(cells);
}

json_t *dta_query_json(const struct dta_held *held, const struct dta_ask *ask, char *error,
		       size_t error_bytes)
{
	const struct sl_store_config *c = held->view[0]->config;
	struct dta_query q = query_of(ask);
	json_t *j;

	q.totals = held->totals;
	if (!ask->key_bytes && (c->kind == SL_STORE_KEYWRITE || c->kind == SL_STORE_INCREMENT ||
				c->kind == SL_STORE_POSTCARD)) {
		snprintf(error, error_bytes, "store '%s' is of kind %s: a key is required",
			 held->view[0]->name, dta_store_kind_name(c->kind));
		return NULL;
	}
	j = json_pack("{s:s,s:s}", "store", held->view[0]->name, "kind",
		      dta_store_kind_name(c->kind));
	if (!j) {
		snprintf(error, error_bytes, "out of memory");
		return NULL;
	}
	if (ask->key_bytes)
		dta_query_set(j, "key", dta_query_hex(ask->key, ask->key_bytes));
	switch (c->kind) {
	case SL_STORE_KEYWRITE:
		answer_keywrite(j, held, ask, &q);
		break;
	case SL_STORE_APPEND:
		answer_append(j, held, ask);
		break;
	case SL_STORE_INCREMENT:
		answer_increment(j, held, &q);
		break;
	case SL_STORE_POSTCARD:
		answer_postcard(j, held, ask, &q);
		break;
	default:
		answer_sketch(j, held, ask);
	}
	return j;
}

/* ---- load ---- */

static json_t *success_json(const struct dta_success *s)
{
	return json_pack("{s:o,s:o,s:o,s:f,s:f,s:f,s:f}", "known", dta_query_number(s->known),
			 "asked", dta_query_number(s->asked), "found", dta_query_number(s->found),
			 "ratio", (double)s->found / (double)s->asked, "low", s->low, "high",
			 s->high, "predicted", s->predicted);
}

json_t *dta_query_load_json(const struct dta_held *held, const struct dta_success *measured)
{
	json_t *all;

	if (held->view[0]->config->kind != SL_STORE_KEYWRITE &&
	    held->view[0]->config->kind != SL_STORE_POSTCARD)
		return NULL;
	all = json_array();
	for (size_t i = 0; i < held->count; i++) {
		const struct dta_store_view *v = held->view[i];
		struct dta_store_epochs e;

		if (!dta_store_epochs(v, &e))
			continue;
		for (uint64_t epoch = e.epoch + 1; epoch-- > e.oldest;) {
			json_t *predicted = json_array();
			struct dta_store_load l;
			json_t *j;

			dta_view_load(v, epoch, 4096, &l);
			if (!l.looked) { /* the bank has just been zeroed */
				json_decref(predicted);
				continue;
			}
			for (uint32_t n = 0; n < v->config->copies; n++)
				json_array_append_new(predicted, json_real(l.predicted[n]));
			j = json_pack("{s:o,s:f,s:f,s:o}", "epoch", dta_query_number(epoch), "load",
				      l.load, "occupied", (double)l.occupied / (double)l.looked,
				      "predicted_success", predicted);
			if (measured->epoch == epoch && !measured->why_not) {
				dta_query_set(j, "measured", success_json(measured));
			} else if (!i && epoch == e.epoch) {
				dta_query_set(j, "measured", json_null());
				dta_query_set(j, "why_not_measured",
					      json_string(measured->epoch == epoch
								  ? measured->why_not
								  : "not yet"));
			}
			json_array_append_new(all, j);
		}
	}
	return all;
}
