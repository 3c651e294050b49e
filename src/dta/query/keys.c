// SPDX-License-Identifier: Apache-2.0
/* keys.c - keys in a key log: lists them, and measures how many of them a store still finds */
#include "base/budget.h"
#include "base/grow.h"
#include "dta/query/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_keys(const struct dta_logged_key *a, const struct dta_logged_key *b)
{
	const int d = (int)a->bytes - b->bytes;

	return d ? d : memcmp(a->key, b->key, a->bytes);
}

static int by_key(const void *x, const void *y)
{
	return compare_keys(x, y) ?: base_by_u64(x, y);
}

static int by_value(const void *x, const void *y)
{
	const struct dta_logged_key *a = x, *b = y;

	return a->value != b->value ? (a->value < b->value ? 1 : -1) : by_key(x, y);
}

#define KEYS_READ_MAX 1000000u /* keys per query; their memory has about 100 MB */
#define OVERRUNS_MAX  16u

/* The epoch whose keys are being collected. */
struct of_epoch {
	uint64_t epoch, ends; /* ends: sum over all rings of the block after the last one read */
	bool partly;	      /* the log lost keys of the epoch, or may have */
};

/*
 * Adds the keys of one ring that belong to an epoch, or to any epoch if of is NULL. Returns the
 * number of blocks lost before or during reading, or left unread because there are too many keys.
 */
static uint64_t add_ring(const struct dta_store_view *v, uint32_t list, uint32_t lane,
			 struct dta_logged_key **keys, size_t *n, struct of_epoch *of,
			 struct base_budget *budget)
{
	const uint32_t size = v->config->value_bytes, max = 1024;
	struct sl_query_append_reader r = {
		.list = list, .lane = lane, .block = dta_append_oldest(v, list, lane, budget)};
	const uint64_t gone = r.block;
	uint64_t unread = 0;
	/*
	 * Limits the number of iterations, so that the loop ends even if the writers are as fast as
	 * this reader. Each iteration reads a block or detects an overrun.
	 */
	uint64_t turns = v->config->slots + OVERRUNS_MAX;
	const size_t first = *n;
	uint8_t *items = malloc((size_t)max * size);
	/* known_start: no key of the wanted epoch is missing before the first one read */
	bool marked = false, wanted = !of, known_start = false;
	size_t room = *n;
	uint32_t epoch = 0;
	int got;

	/*
	 * For a single epoch, stop after one turn of the ring, because keys logged meanwhile count
	 * as newer, or at an overrun, because the result is then incomplete.
	 */
	while (items && *n < KEYS_READ_MAX && turns-- && base_budget_spend(budget, 0) &&
	       (!of || (!r.overrun && r.block < gone + v->config->slots)) &&
	       ((got = dta_append_read(v, &r, items, max)) > 0 || got == -EOVERFLOW)) {
		if (got <= 0)
			continue;
		if (!base_budget_spend(budget, (uint64_t)got) ||
		    !base_grow(keys, &room, *n + (size_t)got, sizeof(**keys)))
			break;
		for (int i = 0; i < got; i++) {
			const uint8_t *item = items + (size_t)i * size;
			struct dta_logged_key *f = &(*keys)[*n];

			if (!item[0] && size >= SL_STORE_KEYLOG_MARK_BYTES) {
				memcpy(&epoch, item + 1, sizeof(epoch));
				marked = true;
				wanted = !of || epoch == (uint32_t)of->epoch;
				/* Marks are repeated, so the first one may be within the epoch. */
				known_start |= !gone || !wanted;
				if (!wanted)
					*n = first;
			}
			if (!wanted || item[0] < SL_STORE_KEY_MIN || item[0] > SL_STORE_KEY_MAX ||
			    item[0] >= size)
				continue; /* not an entry of a key log */
			memset(f, 0, sizeof(*f));
			f->bytes = item[0];
			f->marked = marked;
			f->epoch = epoch;
			memcpy(f->key, item + 1, f->bytes);
			if (f->bytes + 2u <= size)
				f->copies = item[1 + f->bytes];
			f->order = (*n)++;
		}
	}
	if (*n >= KEYS_READ_MAX)
		unread = dta_append_next(v, list, lane, budget) - r.block;
	if (of) {
		of->ends += r.block;
		of->partly |= !items || r.overrun || (!known_start && r.block) ||
			      *n >= KEYS_READ_MAX;
	}
	free(items);
	return gone + r.overrun + unread;
}

/*
 * Adds the keys of a list from all objects of the log. The newest object is read first, because it
 * has the newest keys and there may be too many of them. Returns the number of missing blocks.
 */
static uint64_t add_list(const struct dta_held *log, uint32_t list, struct dta_logged_key **keys,
			 size_t *n, struct of_epoch *of, struct base_budget *budget)
{
	uint64_t missing = 0;

	for (size_t i = 0; i < log->count; i++) {
		const struct dta_store_view *ring = log->view[i];
		const size_t before = *n;

		for (uint32_t lane = 0;
		     ring->config->kind == SL_STORE_APPEND && lane < ring->config->lanes; lane++)
			missing += add_ring(ring, list, lane, keys, n, of, budget);
		for (size_t k = before; k < *n; k++)
			(*keys)[k].order += (uint64_t)(log->count - i) << 32;
	}
	return missing;
}

/* Keeps each key once, at its last position. Returns the number of remaining keys. */
static size_t keep_distinct(struct dta_logged_key *keys, size_t n)
{
	size_t unique = 0;

	if (n)
		qsort(keys, n, sizeof(*keys), by_key);
	for (size_t i = 0; i < n; i++)
		if (i + 1 == n || compare_keys(&keys[i], &keys[i + 1]))
			keys[unique++] = keys[i];
	return unique;
}

/* Returns the report's number of copies if logged; otherwise the store's. */
static uint32_t copies_of(const struct sl_store_config *c, const struct dta_logged_key *f)
{
	return f->copies && f->copies < c->copies ? f->copies : c->copies;
}

/* Looks up a sample of the keys. Returns the reason for failure, or NULL. */
static const char *look_up(const struct dta_held *store, const struct dta_logged_key *keys,
			   size_t n, uint64_t newer, struct dta_success *out)
{
	const struct dta_store_view *v = store->view[0];
	const struct sl_store_config *c = v->config;
	const double z = 1.959963984540054; /* 97.5 % quantile of the normal distribution */
	enum sl_query_result result;
	double p, m, half, units = 0;
	size_t counted = 0;

	out->known = n;
	out->asked = n < DTA_SUCCESS_SAMPLE ? n : DTA_SUCCESS_SAMPLE;
	/*
	 * Keys that are not read yet are the newest; they are assumed to have the average number of
	 * copies.
	 */
	for (size_t i = 0; i < n; i++)
		units += copies_of(c, &keys[i]);
	units += units / (double)n * (double)newer;
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
			return "the epoch ended during the measurement";
		out->found += result == SL_QUERY_FOUND;
		while (counted <= at)
			units -= copies_of(c, &keys[counted++]);
		out->predicted += dta_success_behind(c, copies_of(c, &keys[at]), units) /
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
	struct dta_logged_key *keys = NULL;
	uint64_t ends = 0;
	size_t n = 0;

	*out = (struct dta_success){0};
	if (!dta_store_epochs(store->view[0], &e)) {
		out->why_not = "the current epoch is not known";
		return;
	}
	of.epoch = out->epoch = e.epoch;
	if (c->kind != SL_STORE_KEYWRITE && c->kind != SL_STORE_POSTCARD)
		out->why_not = "a store of this kind does not lose keys";
	else if (!log || log->view[0]->config->kind != SL_STORE_APPEND)
		out->why_not = "the store has no key log";
	if (out->why_not)
		return;
	add_list(log, c->keylog_list, &keys, &n, &of, NULL);
	n = keep_distinct(keys, n);
	if (of.partly) {
		out->why_not = "the key log does not hold all keys of the epoch: raise its number "
			       "of items";
	} else if (!n) {
		out->why_not = "the key log has no keys yet";
	} else {
		qsort(keys, n, sizeof(*keys), base_by_u64);
		/* Keys logged during the read are newer than all keys that were read. */
		for (size_t i = 0; i < log->count; i++)
			for (uint32_t lane = 0; lane < log->view[i]->config->lanes; lane++)
				ends += dta_append_next(log->view[i], c->keylog_list, lane, NULL);
		ends = ends > of.ends ? ends - of.ends : 0;
		out->why_not = look_up(store, keys, n, ends * log->view[0]->config->batch, out);
	}
	if (out->why_not)
		*out = (struct dta_success){.epoch = out->epoch, .why_not = out->why_not};
	free(keys);
}

static int by_epoch(const void *x, const void *y)
{
	const struct dta_logged_key *a = x, *b = y;

	return compare_keys(a, b) ?: (a->epoch > b->epoch) - (a->epoch < b->epoch);
}

struct dta_logged_key *dta_query_logged(const struct dta_held *log, const struct dta_held *store,
					size_t *n, uint64_t *overwritten)
{
	struct dta_logged_key *keys = NULL;
	size_t all = 0;

	*n = 0;
	*overwritten += add_list(log, store->view[0]->config->keylog_list, &keys, &all, NULL,
				 store->budget);
	if (all)
		qsort(keys, all, sizeof(*keys), by_epoch);
	/* Skip keys before the first mark, because the log no longer shows their epoch. */
	for (size_t i = 0; i < all; i++)
		if (keys[i].marked && (!*n || by_epoch(&keys[*n - 1], &keys[i])))
			keys[(*n)++] = keys[i];
	return keys;
}

json_t *dta_query_keys_json(const struct dta_held *log, const struct dta_held *store, size_t max,
			    bool top)
{
	const uint32_t list = store->view[0]->config->keylog_list;
	json_t *all = json_array(), *j;
	struct dta_logged_key *keys = NULL;
	size_t n = 0, unique;
	const uint64_t missing = add_list(log, list, &keys, &n, NULL, store->budget);

	unique = keep_distinct(keys, n);
	top = top && store->view[0]->config->kind == SL_STORE_INCREMENT;
	for (size_t i = 0; top && i < unique && base_budget_spend(store->budget, 1); i++) {
		struct sl_increment_answer a = {.result = SL_QUERY_UNKNOWN};
		const struct dta_query q = {.key = keys[i].key,
					    .key_bytes = keys[i].bytes,
					    .epoch = ~0ull,
					    .no_error = true};

		DTA_QUERY_OBJECTS(store, a, dta_view_increment(v, &q, &a));
		keys[i].value = a.result == SL_QUERY_FOUND ? a.value : 0;
	}
	if (unique)
		qsort(keys, unique, sizeof(*keys), top ? by_value : base_by_u64);
	for (size_t i = !top && unique > max ? unique - max : 0;
	     i < unique && json_array_size(all) < max; i++) {
		j = json_pack("{s:o}", "key", dta_query_hex(keys[i].key, keys[i].bytes));
		if (top)
			dta_query_set(j, "value", dta_query_number(keys[i].value));
		json_array_append_new(all, j);
	}
	free(keys);
	return json_pack("{s:s,s:s,s:o,s:o,s:o,s:o}", "store", store->view[0]->name, "keylog",
			 log->view[0]->name, "list", dta_query_number(list), "overwritten_blocks",
			 dta_query_number(missing), "known", dta_query_number(unique), "keys", all);
}
