// SPDX-License-Identifier: Apache-2.0
/* export.c - pages of all records in an epoch of a store (export.h) */
#include "dta/query/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/base.h"
#include "base/budget.h"
#include "dta/query/internal.h"
#include "dta/query/json.h"

#define PAGE_RECORDS 4096u
#define PAGE_LOOKED  (1u << 18) /* units per page, including empty ones */
#define TRIES	     4		/* attempts to read a unit that keeps changing */

/* A page under construction. */
struct export_page {
	const struct dta_held *store, *log;
	const struct dta_store_view *v;
	uint64_t epoch, at[4], looked, torn, lost, empty;
	json_t *records;
	bool end;
};

int dta_export_at(const char *text, uint64_t at[4])
{
	uint64_t v[4];
	char more;

	if (strlen(text) > 83 || strspn(text, "0123456789.") != strlen(text) ||
	    sscanf(text, "%" SCNu64 ".%" SCNu64 ".%" SCNu64 ".%" SCNu64 "%c", &v[0], &v[1], &v[2],
		   &v[3], &more) != 4)
		return -EINVAL;
	memcpy(at, v, sizeof(v));
	return 0;
}

static void add_record(struct export_page *p, json_t *row)
{
	if (row)
		json_array_append_new(p->records, row);
}

/* Also true if the budget is used up; the caller checks for that and does not use the page. */
static bool is_full(const struct export_page *p)
{
	return json_array_size(p->records) >= PAGE_RECORDS || p->looked >= PAGE_LOOKED ||
	       !base_budget_spend(p->store->budget, 1);
}

/* ---- raw units: at[0] is the next one ---- */

static void add_slot(struct export_page *p, uint64_t slot, const uint64_t *unit)
{
	const struct sl_store_config *c = p->v->config;

	if (c->kind == SL_STORE_KEYWRITE) {
		add_record(p, json_pack("{s:o,s:o,s:o,s:o}", "epoch", dta_query_number(p->epoch),
					"slot", dta_query_number(slot), "check",
					json_sprintf("%016" PRIx64, unit[0]), "value",
					dta_query_hex(unit + 1, c->value_bytes)));
		return;
	}
	for (uint32_t hop = 0; hop < c->hops; hop++)
		if (unit[hop])
			add_record(p, json_pack("{s:o,s:o,s:o,s:o,s:o}", "epoch",
						dta_query_number(p->epoch), "slot",
						dta_query_number(slot), "hop",
						dta_query_number(hop), "code",
						json_sprintf("%08" PRIx32,
							     (uint32_t)(unit[hop] >> 32)),
						"value", dta_query_number((uint32_t)unit[hop])));
}

static void export_slots(struct export_page *p)
{
	const struct sl_store_config *c = p->v->config;
	const uint8_t *bank = dta_store_bank(p->v, p->epoch);
	const bool counts = c->kind == SL_STORE_INCREMENT;
	const uint64_t n = counts ? c->rows * c->slots : c->slots;
	const uint64_t bytes = counts			      ? 8
			       : c->kind == SL_STORE_KEYWRITE ? sl_store_slot_bytes(c)
							      : sl_store_path_bytes(c);
	uint64_t unit[DTA_QUERY_SETTLE_WORDS];

	for (; p->at[0] < n && !is_full(p); p->at[0]++, p->looked++) {
		const uint64_t i = p->at[0];

		if (!counts) {
			const enum dta_query_settled is = dta_query_settle(unit, bank + i * bytes,
									   bytes);

			p->torn += is == DTA_QUERY_UNIT_TORN;
			if (is == DTA_QUERY_UNIT_SETTLED)
				add_slot(p, i, unit);
			continue;
		}
		dta_query_copy(unit, bank + i * 8, 8); /* a single word is never torn */
		if (*unit)
			add_record(p, json_pack("{s:o,s:o,s:o,s:o}", "epoch",
						dta_query_number(p->epoch), "row",
						dta_query_number(i / c->slots), "column",
						dta_query_number(i % c->slots), "value",
						dta_query_number(*unit)));
	}
	p->end = p->at[0] >= n;
}

/* ---- rings: at = { list, ring, block, end block } ---- */

/*
 * A list has a ring per lane in each object, and those from before a resize come first. Returns the
 * object of the position's ring, or NULL after the last ring.
 */
static const struct dta_store_view *object_of(const struct export_page *p,
					      const struct dta_held *held)
{
	const uint64_t i = p->at[1] / held->view[0]->config->lanes;

	return i < held->count ? held->view[held->count - 1 - i] : NULL;
}

/*
 * Reads the next block of a ring into items. Returns the number of items, 0 if the block is lost,
 * or -1 at the end of the ring.
 */
static int next_block(struct export_page *p, const struct dta_held *held, uint8_t *items,
		      uint64_t *block)
{
	const struct dta_store_view *ring = object_of(p, held);
	struct sl_query_append_reader r = {.list = (uint32_t)p->at[0],
					   .lane = (uint32_t)(p->at[1] % ring->config->lanes)};
	int n;

	if (!p->at[3]) {
		p->at[3] = dta_append_next(ring, r.list, r.lane, p->store->budget);
		p->at[2] = p->at[3] > ring->config->slots ? p->at[3] - ring->config->slots : 0;
		p->looked += ring->config->slots / 64 + 1; /* the call examined every tail */
		p->lost += p->at[2];
	}
	if (p->at[2] >= p->at[3])
		return -1;
	*block = r.block = p->at[2]++;
	p->looked++;
	n = dta_append_read(ring, &r, items, ring->config->batch);
	p->torn += n == 0 && r.torn;
	p->lost += n < 0 || (!n && !r.torn);
	return n > 0 ? n : 0;
}

static void next_ring(struct export_page *p, const struct dta_held *held, uint32_t lists)
{
	p->at[2] = p->at[3] = 0;
	p->at[1]++;
	if (!object_of(p, held)) {
		p->at[1] = 0;
		p->at[0]++;
	}
	p->end = p->at[0] >= lists;
}

static void export_items(struct export_page *p)
{
	const struct sl_store_config *c = p->v->config;
	uint8_t buf[SL_STORE_BATCH_MAX * SL_STORE_VALUE_MAX];
	uint64_t block = 0;

	p->end = p->at[0] >= c->lists || !object_of(p, p->store);
	while (!p->end && !is_full(p)) {
		const uint64_t lane = p->at[1] % c->lanes;
		int n = next_block(p, p->store, buf, &block);

		for (int i = 0; i < n && base_budget_spend(p->store->budget, 1); i++)
			add_record(p, json_pack("{s:o,s:o,s:o,s:i,s:o}", "list",
						dta_query_number(p->at[0]), "lane",
						dta_query_number(lane), "block",
						dta_query_number(block), "item", i, "value",
						dta_query_hex(buf + (size_t)i * c->value_bytes,
							      c->value_bytes)));
		if (n < 0)
			next_ring(p, p->store, c->lists);
	}
}

/* ---- keys of the log ---- */

static void add_key(struct export_page *p, const uint8_t *entry, struct dta_totals *totals)
{
	struct dta_held held = {.count = 1,
				.view = {p->v},
				.values = p->store->values,
				.value_count = p->store->value_count,
				.totals = totals};
	struct dta_ask ask;
	const char *result;
	char error[160];
	json_t *a;

	dta_ask_init(&ask);
	ask.epoch = p->epoch;
	ask.key_bytes = entry[0];
	memcpy(ask.key, entry + 1, entry[0]);
	a = dta_query_json(&held, &ask, error, sizeof(error));
	result = json_string_value(json_object_get(a, "result"));
	if (result && (!strcmp(result, "found") || !strcmp(result, "conflict")) &&
	    (p->v->config->kind != SL_STORE_INCREMENT ||
	     json_integer_value(json_object_get(a, "value")) ||
	     json_is_string(json_object_get(a, "value")))) {
		add_record(p, a);
		return;
	}
	p->empty++;
	json_decref(a);
}

static void export_keys(struct export_page *p)
{
	const struct sl_store_config *log = p->log->view[0]->config;
	const uint32_t size = log->value_bytes, list = p->v->config->keylog_list;
	uint8_t buf[SL_STORE_BATCH_MAX * SL_STORE_VALUE_MAX];
	struct dta_totals totals = {0};
	uint64_t block;

	p->at[0] = list;
	p->end = list >= log->lists || !object_of(p, p->log);
	while (!p->end && !is_full(p)) {
		int n = next_block(p, p->log, buf, &block);

		for (int i = 0; i < n; i++) {
			const uint8_t *entry = buf + (size_t)i * size;

			/* Skip marks of epochs and entries of other formats. */
			if (entry[0] >= SL_STORE_KEY_MIN && entry[0] <= SL_STORE_KEY_MAX &&
			    entry[0] < size && base_budget_spend(p->store->budget, 1))
				add_key(p, entry, &totals);
		}
		if (n < 0)
			next_ring(p, p->log, list + 1);
	}
}

/* ---- pages ---- */

static const struct dta_store_view *view_of(const struct dta_held *store, uint64_t *epoch)
{
	uint64_t newest, oldest;

	for (size_t i = 0; i < store->count; i++)
		if (dta_query_epochs(store->view[i], *epoch, &newest, &oldest)) {
			*epoch = newest;
			return store->view[i];
		}
	return NULL;
}

static json_t *fields_of(uint32_t kind, const char *by)
{
	static const char *const of[] = {
		[SL_STORE_KEYWRITE] = "key result value agreed verified occupied asked "
				      "wrong_probability",
		[SL_STORE_INCREMENT] = "key result value error error_probability",
		[SL_STORE_POSTCARD] = "key result hops known_hops path agreed wrong_probability",
		[SL_STORE_APPEND] = "list lane block item value",
		[SL_STORE_SKETCH] = "row column value",
	};
	static const char *const slot[] = {
		[SL_STORE_KEYWRITE] = "slot check value",
		[SL_STORE_INCREMENT] = "row column value",
		[SL_STORE_POSTCARD] = "slot hop code value",
	};
	const char *names = *by == 's' ? slot[kind] : of[kind];
	json_t *all = json_array();

	json_array_append_new(all, json_string("store"));
	if (kind != SL_STORE_APPEND) /* lists of an append store have no epochs */
		json_array_append_new(all, json_string("epoch"));
	while (*names) {
		size_t n = strcspn(names, " ");

		json_array_append_new(all, json_stringn(names, n));
		names += n + (names[n] == ' ');
	}
	return all;
}

json_t *dta_export_fields(uint32_t kind, char *error, size_t error_bytes)
{
	if (kind == SL_STORE_KEYWRITE || kind == SL_STORE_INCREMENT || kind == SL_STORE_POSTCARD)
		return fields_of(kind, "key");
	snprintf(error, error_bytes, "a store of kind %s has no keys", dta_store_kind_name(kind));
	return NULL;
}

static json_t *export_sketch(const struct dta_held *store, uint64_t epoch, char *error,
			     size_t error_bytes)
{
	const struct sl_store_config *c = store->view[0]->config;
	struct dta_ask ask;
	json_t *j;

	dta_ask_init(&ask);
	ask.epoch = epoch;
	ask.cells = true;
	j = dta_query_json(store, &ask, error, error_bytes);
	if (j && !json_object_get(j, "cells")) {
		snprintf(error, error_bytes,
			 (uint64_t)c->rows * c->slots * sl_store_cell_bytes(c) > DTA_ASK_CELLS_MAX
				 ? "the sketch has more than 16 MiB of cells"
				 : "the sketch holds no data for that epoch");
		json_decref(j);
		return NULL;
	}
	return j;
}

json_t *dta_export_page(const struct dta_held *store, const struct dta_held *log,
			const struct dta_export *x, char *error, size_t error_bytes)
{
	const uint32_t kind = store->view[0]->config->kind;
	const bool by_key = log && !x->slots && log->view[0]->config->kind == SL_STORE_APPEND;
	const char *by = kind == SL_STORE_SKETCH   ? "cell"
			 : kind == SL_STORE_APPEND ? "item"
			 : by_key		   ? "key"
						   : "slot";
	struct export_page p = {.store = store, .log = log, .epoch = x->epoch};
	char next[84];
	json_t *j;

	if (kind == SL_STORE_SKETCH) {
		j = export_sketch(store, x->epoch, error, error_bytes);
		if (j)
			json_object_update_new(j, json_pack("{s:s,s:o,s:n,s:i,s:i,s:i,s:i}", "by",
							    by, "fields", fields_of(kind, by),
							    "next", "looked", 0, "torn", 0, "lost",
							    0, "empty", 0));
		return j;
	}
	memcpy(p.at, x->at, sizeof(p.at));
	if (kind == SL_STORE_APPEND)
		p.v = store->view[0];
	else
		p.v = view_of(store, &p.epoch);
	if (!p.v) {
		snprintf(error, error_bytes, "store '%s' has no such epoch, or it has expired",
			 store->view[0]->name);
		return NULL;
	}
	p.records = json_array();
	if (kind == SL_STORE_APPEND)
		export_items(&p);
	else if (by_key)
		export_keys(&p);
	else
		export_slots(&p);
	if (kind != SL_STORE_APPEND && !dta_query_valid(p.v, p.epoch)) {
		snprintf(error, error_bytes, "epoch %" PRIu64 " ended during the export", p.epoch);
		json_decref(p.records);
		return NULL;
	}
	snprintf(next, sizeof(next), "%" PRIu64 ".%" PRIu64 ".%" PRIu64 ".%" PRIu64, p.at[0],
		 p.at[1], p.at[2], p.at[3]);
	return json_pack("{s:s,s:s,s:o*,s:s,s:o,s:o,s:s?,s:o,s:o,s:o,s:o}", "store", p.v->name,
			 "kind", dta_store_kind_name(kind), "epoch",
			 kind == SL_STORE_APPEND ? NULL : dta_query_number(p.epoch), "by", by,
			 "fields", fields_of(kind, by), "records", p.records, "next",
			 p.end ? NULL : next, "looked", dta_query_number(p.looked), "torn",
			 dta_query_number(p.torn), "lost", dta_query_number(p.lost), "empty",
			 dta_query_number(p.empty));
}
