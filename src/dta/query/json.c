// SPDX-License-Identifier: Apache-2.0
#include "dta/query/json.h"

#include <errno.h>
#include <math.h>
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
	if (!strcmp(name, "epoch"))
		return base_parse_u64(value, 0, UINT64_MAX - 1, &a->epoch) ? -EINVAL : 0;
	if (!strcmp(name, "within"))
		return base_parse_u64(value, 1, INT64_MAX, &a->within) ? -EINVAL : 0;
	if (!strcmp(name, "from"))
		return base_parse_u64(value, 0, UINT64_MAX - 1, &a->from) ? -EINVAL : 0;
#define NUMBER(text_, field, least, most)                           \
	do                                                          \
		if (!strcmp(name, text_)) {                         \
			if (base_parse_u64(value, least, most, &v)) \
				return -EINVAL;                     \
			a->field = (__typeof__(a->field))v;         \
			return 0;                                   \
		}                                                   \
	while (0)
	NUMBER("copies", copies, 1, SL_STORE_COPIES_MAX);
	NUMBER("cells", cells, 0, 1);
	NUMBER("consensus", consensus, 1, SL_STORE_COPIES_MAX);
	NUMBER("list", list, 0, SL_STORE_LISTS_MAX - 1);
	NUMBER("lane", lane, 0, SL_STORE_LANES_MAX - 1);
	NUMBER("max", max, SL_STORE_BATCH_MAX, DTA_ASK_ITEMS_MAX);
	return -ENOENT;
}

/* ---- pieces ---- */

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

/* Numbers of JSON are signed here: what is larger is given as digits. */
static json_t *number(uint64_t v)
{
	return v <= INT64_MAX ? json_integer((json_int_t)v)
			      : json_sprintf("%llu", (unsigned long long)v);
}

static void set(json_t *j, const char *key, json_t *value)
{
	json_object_set_new(j, key, value);
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

/* The newest object that has something to say; of those that have nothing, one that has the epoch.
 */
#define OVER_OBJECTS(held, answer, ask_one)                                \
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

/* ---- by kind ---- */

/*
 * What an empty answer is worth: had the key been reported, and `within` others of its epoch after
 * it, it would have been found with this probability; `within` as it was asked for, or so many that
 * it is EMPTY_SURE.
 */
#define EMPTY_SURE 0.99

static void empty(json_t *j, const struct dta_held *held, const struct dta_ask *ask)
{
	const struct sl_store_config *c = held->view[0]->config;
	uint32_t copies = ask->copies && ask->copies < c->copies ? ask->copies : c->copies;
	uint64_t within = ask->within;

	if (!within)
		within = (uint64_t)dta_success_reach(c, copies, EMPTY_SURE);
	set(j, "within", number(within));
	set(j, "found_within_probability", json_real(dta_success_after(c, copies, (double)within)));
}

static void keywrite(json_t *j, const struct dta_held *held, const struct dta_ask *ask,
		     const struct dta_query *q)
{
	struct sl_keywrite_answer a = {.result = SL_QUERY_UNKNOWN};

	OVER_OBJECTS(held, a, dta_view_keywrite(v, q, &a));
	set(j, "result", json_string(dta_query_result_name(a.result)));
	if (a.result == SL_QUERY_FOUND)
		set(j, "value", dta_query_hex(a.value, a.bytes));
	if (a.result != SL_QUERY_UNKNOWN)
		set(j, "epoch", number(a.epoch));
	set(j, "agreed", number(a.agreed));
	set(j, "verified", number(a.verified));
	set(j, "occupied", number(a.occupied));
	set(j, "asked", number(a.asked));
	if (a.result == SL_QUERY_FOUND)
		set(j, "wrong_probability", json_real(a.error_probability));
	else if (a.result == SL_QUERY_EMPTY)
		empty(j, held, ask);
}

static void increment(json_t *j, const struct dta_held *held, const struct dta_query *q)
{
	struct sl_increment_answer a = {.result = SL_QUERY_UNKNOWN};

	OVER_OBJECTS(held, a, dta_view_increment(v, q, &a));
	set(j, "result", json_string(dta_query_result_name(a.result)));
	if (a.result == SL_QUERY_UNKNOWN)
		return;
	set(j, "value", number(a.value));
	set(j, "epoch", number(a.epoch));
	/* Never below the truth, and above it by no more than this with that probability. */
	set(j, "error", json_real(a.error));
	set(j, "error_probability", json_real(a.probability));
}

static void postcard(json_t *j, const struct dta_held *held, const struct dta_ask *ask,
		     const struct dta_query *q)
{
	struct sl_postcard_answer p = {.result = SL_QUERY_UNKNOWN};
	json_t *path = json_array();

	OVER_OBJECTS(held, p, dta_view_path(v, q, held->values, held->value_count, &p));
	set(j, "result", json_string(dta_query_result_name(p.result)));
	if (p.result != SL_QUERY_UNKNOWN)
		set(j, "epoch", number(p.epoch));
	for (uint32_t i = 0; p.result == SL_QUERY_FOUND && i < p.hops; i++)
		json_array_append_new(path, p.present >> i & 1 ? number(p.value[i]) : json_null());
	set(j, "path", path);
	set(j, "hops", number(p.result == SL_QUERY_FOUND ? p.hops : 0));
	set(j, "known_hops", number((uint64_t)__builtin_popcountll(p.present)));
	set(j, "agreed", number(p.agreed));
	if (p.result == SL_QUERY_FOUND)
		set(j, "wrong_probability", json_real(p.error_probability));
	else if (p.result == SL_QUERY_EMPTY)
		empty(j, held, ask);
}

static json_t *ring(const struct dta_store_view *v, const struct dta_ask *a, uint32_t lane)
{
	const struct sl_store_config *c = v->config;
	struct sl_query_append_reader r = {.list = a->list, .lane = lane, .block = a->from};
	json_t *items = json_array(), *j;
	uint8_t *buf = malloc((size_t)a->max * c->value_bytes);
	int n = 0;

	if (r.block == ~0ull)
		r.block = dta_append_oldest(v, a->list, lane);
	for (int i = 0; buf && i < 4; i++) { /* again behind what was overrun */
		n = dta_append_read(v, &r, buf, a->max > c->batch ? a->max : c->batch);
		if (n != -EOVERFLOW)
			break;
	}
	for (int i = 0; i < n; i++)
		json_array_append_new(
			items, dta_query_hex(buf + (size_t)i * c->value_bytes, c->value_bytes));
	free(buf);
	j = json_pack("{s:o,s:o,s:o,s:o}", "lane", number(lane), "next", number(r.block), "overrun",
		      number(r.overrun), "items", items);
	return j;
}

static void append(json_t *j, const struct dta_held *held, const struct dta_ask *a)
{
	const struct dta_store_view *v = held->view[0];
	json_t *rings = json_array();
	size_t items = 0;

	if (a->list >= v->config->lists || (a->lane != ~0u && a->lane >= v->config->lanes)) {
		set(j, "result", json_string("unknown"));
		set(j, "rings", rings);
		return;
	}
	for (uint32_t lane = 0; lane < v->config->lanes; lane++)
		if (a->lane == ~0u || a->lane == lane) {
			json_t *r = ring(v, a, lane);

			items += json_array_size(json_object_get(r, "items"));
			json_array_append_new(rings, r);
		}
	set(j, "result", json_string(items ? "found" : "empty"));
	set(j, "list", number(a->list));
	set(j, "rings", rings);
}

static void sketch(json_t *j, const struct dta_held *held, const struct dta_ask *a)
{
	struct dta_merged m = {.result = SL_QUERY_UNKNOWN};
	struct dta_sketch_estimate e;
	const struct sl_store_config *c = held->view[0]->config;
	uint64_t bytes = (uint64_t)c->rows * c->slots * sl_store_cell_bytes(c);
	void *cells = bytes <= DTA_QUERY_CELLS_MAX ? malloc(sl_pad8(bytes)) : NULL;
	int err;

	set(j, "sketch", json_string(dta_store_sketch_name(c->sketch)));
	if (cells)
		dta_view_sketch(held->view[0], a->epoch, cells, &m);
	set(j, "result", json_string(dta_query_result_name(m.result)));
	if (m.result == SL_QUERY_FOUND) {
		set(j, "epoch", number(m.epoch));
		set(j, "complete", json_boolean(m.complete));
		set(j, "reporters", number(m.ended));
		set(j, "expected", number(m.expected));
		set(j, "cells_merged", number(m.columns));
		if (a->cells && bytes <= DTA_ASK_CELLS_MAX) {
			set(j, "rows", number(c->rows));
			set(j, "columns", number(c->slots));
			set(j, "seed", number(c->seed));
			set(j, "map", dta_query_hex(m.map, sizeof(m.map)));
			set(j, "cells", dta_query_hex(cells, bytes));
		}
		err = dta_sketch_estimate(c, cells, a->key_bytes ? a->key : NULL, a->key_bytes, &e);
		if (!err) {
			set(j, "estimate", json_real(e.value));
			set(j, "error", json_real(e.error));
		} else if (a->key_bytes || c->sketch == SL_STORE_HLL) {
			set(j, "why_no_estimate",
			    json_string(
				    "what came is no sketch that docs/sketches.md describes, with this store's seed"));
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

	if (!ask->key_bytes && (c->kind == SL_STORE_KEYWRITE || c->kind == SL_STORE_INCREMENT ||
				c->kind == SL_STORE_POSTCARD)) {
		snprintf(error, error_bytes, "store '%s' is of kind %s: name a key",
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
		set(j, "key", dta_query_hex(ask->key, ask->key_bytes));
	switch (c->kind) {
	case SL_STORE_KEYWRITE:
		keywrite(j, held, ask, &q);
		break;
	case SL_STORE_APPEND:
		append(j, held, ask);
		break;
	case SL_STORE_INCREMENT:
		increment(j, held, &q);
		break;
	case SL_STORE_POSTCARD:
		postcard(j, held, ask, &q);
		break;
	default:
		sketch(j, held, ask);
	}
	return j;
}

/* ---- load ---- */

static json_t *success_json(const struct dta_success *s)
{
	return json_pack("{s:o,s:o,s:o,s:f,s:f,s:f,s:f}", "known", number(s->known), "asked",
			 number(s->asked), "found", number(s->found), "ratio",
			 (double)s->found / (double)s->asked, "low", s->low, "high", s->high,
			 "predicted", s->predicted);
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

			dta_view_load(v, epoch, 0, 4096, &l);
			if (!l.looked) { /* it has just gone */
				json_decref(predicted);
				continue;
			}
			for (uint32_t n = 0; n < v->config->copies; n++)
				json_array_append_new(predicted, json_real(l.predicted[n]));
			j = json_pack("{s:o,s:f,s:f,s:o}", "epoch", number(epoch), "load", l.load,
				      "occupied", (double)l.occupied / (double)l.looked,
				      "predicted_success", predicted);
			if (measured->epoch == epoch && !measured->why_not) {
				set(j, "measured", success_json(measured));
			} else if (!i && epoch == e.epoch) {
				set(j, "measured", json_null());
				set(j, "why_not_measured",
				    json_string(measured->epoch == epoch ? measured->why_not
									 : "not yet"));
			}
			json_array_append_new(all, j);
		}
	}
	return all;
}

/* ---- keys ---- */

struct found {
	uint8_t bytes, key[SL_STORE_KEY_MAX];
	uint64_t order, value;
};

static int by_key(const void *x, const void *y)
{
	const struct found *a = x, *b = y;
	int d = (int)a->bytes - b->bytes;

	d = d ? d : memcmp(a->key, b->key, a->bytes);
	return d ? d : (a->order > b->order) - (a->order < b->order);
}

static int by_value(const void *x, const void *y)
{
	const struct found *a = x, *b = y;

	return a->value != b->value ? (a->value < b->value ? 1 : -1) : by_key(x, y);
}

static int by_order(const void *x, const void *y)
{
	const struct found *a = x, *b = y;

	return (a->order > b->order) - (a->order < b->order);
}

#define KEYS_READ_MAX 1000000u

/* Of which epoch keys are wanted, and what was seen of it. */
struct of_epoch {
	uint64_t epoch, ends; /* ends: of all rings, the block behind the last one read */
	bool partly;	      /* keys of it are in the log no more, or there is no telling */
};

/*
 * Returns how many blocks of keys the ring has no more: overwritten before, or while it was read.
 * of: NULL for keys of all epochs.
 */
static uint64_t add_ring(const struct dta_store_view *v, uint32_t list, uint32_t lane,
			 struct found **keys, size_t *n, struct of_epoch *of)
{
	const uint32_t size = v->config->value_bytes, max = 1024;
	struct sl_query_append_reader r = {
		.list = list, .lane = lane, .block = dta_append_oldest(v, list, lane)};
	const uint64_t gone = r.block;
	const size_t first = *n;
	uint8_t *items = malloc((size_t)max * size);
	bool marked = false, wanted = !of;
	struct found *more;
	uint32_t epoch;
	int got;

	/* Of an epoch, once round: what comes meanwhile is counted as newer, and who is overtaken
	 * can't tell. */
	while (items && *n < KEYS_READ_MAX &&
	       (!of || (!r.overrun && r.block < gone + v->config->slots)) &&
	       ((got = dta_append_read(v, &r, items, max)) > 0 || got == -EOVERFLOW)) {
		if (got <= 0)
			continue;
		more = realloc(*keys, (*n + (size_t)got) * sizeof(**keys));
		if (!more)
			break;
		*keys = more;
		for (int i = 0; i < got; i++) {
			const uint8_t *item = items + (size_t)i * size;
			struct found *f = &(*keys)[*n];

			if (of && !item[0] && size >= SL_STORE_KEYLOG_MARK_BYTES) {
				memcpy(&epoch, item + 1, sizeof(epoch));
				marked = true;
				wanted = epoch == (uint32_t)of->epoch;
				if (!wanted)
					*n = first;
			}
			if (!wanted || item[0] < SL_STORE_KEY_MIN || item[0] > SL_STORE_KEY_MAX ||
			    item[0] >= size)
				continue; /* not of a key log */
			memset(f, 0, sizeof(*f));
			f->bytes = item[0];
			memcpy(f->key, item + 1, f->bytes);
			f->order = (*n)++;
		}
	}
	if (of) {
		of->ends += r.block;
		of->partly |= !items || r.overrun || (!marked && r.block) || *n >= KEYS_READ_MAX;
	}
	free(items);
	return gone + r.overrun;
}

/* Each key once, where it was logged last. Returns how many are left. */
static size_t distinct(struct found *keys, size_t n)
{
	size_t unique = 0;

	if (n)
		qsort(keys, n, sizeof(*keys), by_key);
	for (size_t i = 0; i < n; i++)
		if (i + 1 == n || keys[i].bytes != keys[i + 1].bytes ||
		    memcmp(keys[i].key, keys[i + 1].key, keys[i].bytes))
			keys[unique++] = keys[i];
	return unique;
}

/* Returns why not, or NULL. */
static const char *look_up(const struct dta_held *store, const struct found *keys, size_t n,
			   uint64_t newer, struct dta_success *out)
{
	const struct dta_store_view *v = store->view[0];
	const struct sl_store_config *c = v->config;
	const double z = 1.959963984540054; /* of the normal distribution, 95 % are within */
	enum sl_query_result result;
	double p, m, half;

	out->known = n;
	out->asked = n < DTA_SUCCESS_SAMPLE ? n : DTA_SUCCESS_SAMPLE;
	for (uint64_t i = 0; i < out->asked; i++) {
		const uint64_t at = (2 * i + 1) * n / (2 * out->asked);
		const struct dta_query q = {
			.key = keys[at].key, .key_bytes = keys[at].bytes, .epoch = out->epoch};
		struct sl_keywrite_answer a;
		struct sl_postcard_answer path;

		if (c->kind == SL_STORE_KEYWRITE) {
			dta_view_keywrite(v, &q, &a);
			result = a.result;
		} else {
			dta_view_path(v, &q, store->values, store->value_count, &path);
			result = path.result;
		}
		if (result == SL_QUERY_UNKNOWN)
			return "the epoch went while it was looked at";
		out->found += result == SL_QUERY_FOUND;
		out->predicted += dta_success_after(c, c->copies, (double)(n - 1 - at + newer)) /
				  (double)out->asked;
	}
	p = (double)out->found / (double)out->asked;
	m = (double)out->asked;
	half = z * sqrt(p * (1 - p) / m + z * z / (4 * m * m));
	out->low = fmax(0, (p + z * z / (2 * m) - half) / (1 + z * z / m));
	out->high = fmin(1, (p + z * z / (2 * m) + half) / (1 + z * z / m));
	return NULL;
}

void dta_query_success(const struct dta_held *store, const struct dta_held *log,
		       struct dta_success *out)
{
	const struct sl_store_config *c = store->view[0]->config;
	struct of_epoch of = {0};
	struct dta_store_epochs e;
	struct found *keys = NULL;
	uint64_t ends = 0;
	size_t n = 0;

	*out = (struct dta_success){0};
	if (!dta_store_epochs(store->view[0], &e)) {
		out->why_not = "there is no telling which epoch it is";
		return;
	}
	of.epoch = out->epoch = e.epoch;
	if (c->kind != SL_STORE_KEYWRITE && c->kind != SL_STORE_POSTCARD)
		out->why_not = "a store of this kind loses no keys";
	else if (!log || log->view[0]->config->kind != SL_STORE_APPEND)
		out->why_not = "the store has no key log";
	if (out->why_not)
		return;
	for (uint32_t lane = 0; lane < log->view[0]->config->lanes; lane++)
		add_ring(log->view[0], c->keylog_list, lane, &keys, &n, &of);
	n = distinct(keys, n);
	if (of.partly) {
		out->why_not = "the key log does not have all keys of the epoch: more items";
	} else if (!n) {
		out->why_not = "no keys yet";
	} else {
		qsort(keys, n, sizeof(*keys), by_order);
		/* Those that came while the log was read are newer than any that was. */
		for (uint32_t lane = 0; lane < log->view[0]->config->lanes; lane++)
			ends += dta_append_next(log->view[0], c->keylog_list, lane);
		ends = ends > of.ends ? ends - of.ends : 0;
		out->why_not = look_up(store, keys, n, ends * log->view[0]->config->batch, out);
	}
	if (out->why_not)
		*out = (struct dta_success){.epoch = out->epoch, .why_not = out->why_not};
	free(keys);
}

json_t *dta_query_keys_json(const struct dta_held *log, const struct dta_held *store, size_t max,
			    bool top)
{
	const struct dta_store_view *ring = log->view[0];
	const uint32_t list = store->view[0]->config->keylog_list;
	json_t *all = json_array(), *j;
	struct found *keys = NULL;
	size_t n = 0, unique;
	uint64_t gone = 0;

	for (uint32_t lane = 0; ring->config->kind == SL_STORE_APPEND && lane < ring->config->lanes;
	     lane++)
		gone += add_ring(ring, list, lane, &keys, &n, NULL);
	unique = distinct(keys, n);
	top = top && store->view[0]->config->kind == SL_STORE_INCREMENT;
	for (size_t i = 0; top && i < unique; i++) {
		struct sl_increment_answer a = {.result = SL_QUERY_UNKNOWN};
		const struct dta_query q = {
			.key = keys[i].key, .key_bytes = keys[i].bytes, .epoch = ~0ull};

		OVER_OBJECTS(store, a, dta_view_count(v, &q, &a));
		keys[i].value = a.result == SL_QUERY_FOUND ? a.value : 0;
	}
	if (unique)
		qsort(keys, unique, sizeof(*keys), top ? by_value : by_order);
	for (size_t i = !top && unique > max ? unique - max : 0;
	     i < unique && json_array_size(all) < max; i++) {
		j = json_pack("{s:o}", "key", dta_query_hex(keys[i].key, keys[i].bytes));
		if (top)
			set(j, "value", number(keys[i].value));
		json_array_append_new(all, j);
	}
	free(keys);
	return json_pack("{s:s,s:s,s:o,s:o,s:o,s:o}", "store", store->view[0]->name, "keylog",
			 ring->name, "list", number(list), "overwritten_blocks", number(gone),
			 "known", number(unique), "keys", all);
}
