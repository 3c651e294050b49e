// SPDX-License-Identifier: Apache-2.0
/* ask.c - asks one or several collectors (query.h) */
#include "cli/common/common.h"
#include "cli/query/query.h"

#include <curl/curl.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dta/query/json.h"

#define TIMEOUT_MS 10000l

/* HTTP */

/* Returns a hint to append to the collector's error message. */
static const char *hint_for(long status, const char *token)
{
	if (status != 401)
		return "";
	return token ? ": its --admin-token-file contains another token: use --token-file"
		     : ": use --token-file, or run as the collector's user";
}

json_t *cli_query_send(struct cli_query_collectors *c, uint32_t member, const char *method,
		       const char *path, json_t *body)
{
	const char *at = c->member[member].at, *token = c->member[member].token, *said;
	struct cli_request r = {.at = at,
				.method = method,
				.path = path,
				.token = token,
				.config = c->set->config,
				.timeout_ms = TIMEOUT_MS};
	char *posted = body ? json_dumps(body, JSON_COMPACT) : NULL, why[256];
	json_t *j = NULL;
	long status;

	json_decref(body);
	r.body = posted;
	if (c->member[member].up) {
		j = cli_http(&r, &status, why, sizeof(why));
		said = json_string_value(json_object_get(j, "error"));
		c->member[member].up = status == 200 && j;
		if (!c->member[member].up)
			base_failure(&cli_cmd_query, "%s: %s%s", at,
				     !status	     ? why
				     : said	     ? said
				     : status == 404 ? "has no stores: was it started with --dta?"
						     : "sent a malformed response",
				     hint_for(status, token));
	}
	free(posted);
	if (c->member[member].up)
		return j;
	json_decref(j);
	return NULL;
}

json_t *cli_query_get(struct cli_query_collectors *c, uint32_t member, const char *path)
{
	return cli_query_send(c, member, NULL, path, NULL);
}

void cli_query_add_parameter(void *path, const char *key, const char *value)
{
	char *safe = curl_easy_escape(NULL, value, 0);
	size_t n = strlen(path);

	snprintf((char *)path + n, CLI_QUERY_PATH - n, "%c%s=%s", strchr(path, '?') ? '&' : '?',
		 key, safe ? safe : "");
	curl_free(safe);
}

/* Adds a parameter to a JSON object. All parameters but the policy are numbers. */
static void add_member(void *body, const char *key, const char *value)
{
	uint64_t number;

	json_object_set_new(body, key,
			    base_parse_u64(value, 0, INT64_MAX, &number)
				    ? json_string(value)
				    : json_integer(CLI_INT(number)));
}

void cli_query_parameters(const struct cli_query_settings *set,
			  void (*put)(void *context, const char *name, const char *value),
			  void *context)
{
	const struct {
		const char *name;
		bool given;
		uint64_t value;
	} numbers[] = {
		{"epoch", set->has_epoch, set->epoch_at},
		{"copies", set->copies, set->copies},
		{"consensus", set->consensus, set->consensus},
		{"list", true, set->list},
		{"lane", set->lane >= 0, (uint64_t)set->lane},
		{"from", set->has_from, set->from_at},
		{"max", set->max, set->max},
		{"within", set->within, set->within},
	};

	char text[24];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		snprintf(text, sizeof(text), "%" PRIu64, numbers[i].value);
		if (numbers[i].given)
			put(context, numbers[i].name, text);
	}
	if (set->policy)
		put(context, "policy", set->policy);
}

json_t *cli_query_ask_one(struct cli_query_collectors *c, uint32_t member, const char *store,
			  char *const *keys, size_t n)
{
	char path[CLI_QUERY_PATH] = "/api/v1/dta/query";
	json_t *j, *list, *body, *answers;

	if (n < 2) {
		cli_query_add_parameter(path, "store", store);
		if (n)
			cli_query_add_parameter(path, "key", keys[0]);
		cli_query_parameters(c->set, cli_query_add_parameter, path);
		if (c->n > 1 && !strcmp(c->kind, "sketch"))
			cli_query_add_parameter(path, "cells", "1");
		j = cli_query_get(c, member, path);
		return j ? json_pack("[o]", j) : NULL;
	}
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(keys[i]));
	body = json_pack("{s:s,s:o}", "store", store, "keys", list);
	cli_query_parameters(c->set, add_member, body);
	j = cli_query_send(c, member, NULL, path, body);
	answers = json_incref(json_object_get(j, "answers"));
	json_decref(j);
	if (j && json_array_size(answers) != n) {
		base_failure(&cli_cmd_query, "%s sent a malformed response", c->member[member].at);
		c->member[member].up = false;
		json_decref(answers);
		return NULL;
	}
	return answers;
}

/* Several collectors */

/* Records the name and the store of a collector. Returns false if it has no such store. */
static bool note_collector(struct cli_query_collectors *c, uint32_t member, const char *store,
			   const json_t *j)
{
	const json_t *s;
	size_t i;

	const json_int_t replicas = cli_json_integer(j, "replicas");

	snprintf(c->member[member].called, sizeof(c->member[member].called), "%s",
		 cli_json_text(j, "called"));
	json_decref(c->member[member].gaps);
	c->member[member].gaps = json_incref(json_object_get(j, "gaps"));
	if (replicas > c->replicas && replicas <= (json_int_t)DTA_HASH_RING_MEMBERS_MAX)
		c->replicas = (uint32_t)replicas;
	json_array_foreach(json_object_get(j, "stores"), i, s)
	{
		if (!store || !cli_json_is(s, "name", store))
			continue;
		snprintf(c->kind, sizeof(c->kind), "%s", cli_json_text(s, "kind"));
		c->tenant = (uint16_t)cli_json_integer(s, "tenant");
		c->store = (uint16_t)cli_json_integer(s, "number");
		return true;
	}
	return !store;
}

/* Builds the ring of the members with known names. */
static void build_ring(struct cli_query_collectors *c)
{
	const char *names[DTA_HASH_RING_MEMBERS_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		bool twice = false;

		for (uint32_t k = 0; k < n; k++)
			twice |= !strcmp(names[k], c->member[i].called);
		if (!c->member[i].up || !*c->member[i].called || twice)
			continue;
		c->of_ring[n] = i;
		names[n++] = c->member[i].called;
	}
	if (dta_hash_ring_init(&c->ring, names, n))
		c->ring = (struct dta_hash_ring){0};
}

bool cli_query_choose(struct cli_query_collectors *c, const char *store, bool optional)
{
	bool any = false;

	for (uint32_t i = 0; i < c->n; i++) {
		json_t *j = cli_query_get(c, i, "/api/v1/dta");

		c->member[i].up = j && note_collector(c, i, store, j);
		any |= c->member[i].up;
		if (j && !c->member[i].up && !optional)
			base_failure(&cli_cmd_query, "%s: no store '%.64s'", c->member[i].at,
				     store);
		json_decref(j);
	}
	build_ring(c);
	return any;
}

bool cli_query_meet(struct cli_query_collectors *c, const struct cli_query_settings *set,
		    const char *store)
{
	memset(c, 0, sizeof(*c));
	c->set = set;
	c->n = (uint32_t)set->collectors.n;
	for (uint32_t i = 0; i < c->n; i++) {
		c->member[i].at = set->collectors.v[i];
		c->member[i].token = set->token	   ? set->token
				     : set->config ? NULL
						   : cli_token_find(c->member[i].at);
		c->member[i].up = true;
	}
	return c->n == 1 || cli_query_choose(c, store, false);
}

/* Ranks results: found, then conflict, then empty. */
int cli_query_weight(const json_t *a)
{
	static const char *const of[] = {"unknown", "empty", "conflict", "found"};
	int w = 3;

	while (w > 0 && !cli_json_is(a, "result", of[w]))
		w--;
	return w;
}

/* Members on the ring come first, then members without a name. */
uint32_t cli_query_order_of(const struct cli_query_collectors *c, const char *key,
			    uint32_t asked[DTA_HASH_RING_MEMBERS_MAX])
{
	const struct dta_hash_ring *ring = &c->ring;
	uint64_t left = ring->members < 64 ? (1ull << ring->members) - 1 : ~0ull, done = 0, hash;
	const uint32_t list = htobe32(c->set->list);
	uint8_t bytes[SL_STORE_KEY_MAX];
	int length = key ? dta_query_key(key, bytes) : 0;
	uint32_t n = 0;

	if (!strcmp(c->kind, "append")) {
		memcpy(bytes, &list, sizeof(list));
		length = sizeof(list);
	}
	hash = dta_hash_ring_hash(c->tenant, c->store, bytes, length > 0 ? (size_t)length : 0);
	while (left) {
		uint32_t next = dta_hash_ring_find(ring, hash, left);

		left &= ~(1ull << next);
		asked[n++] = c->of_ring[next];
		done |= 1ull << c->of_ring[next];
	}
	for (uint32_t i = 0; i < c->n; i++)
		if (c->member[i].up && !(done >> i & 1))
			asked[n++] = i;
	return n;
}

/* Asks a member for the keys; the answer for keys[i] is stored in answers[of[i]]. */
static void ask_turn(struct cli_query_collectors *c, uint32_t member, const char *store,
		     char *const *keys, const size_t *of, size_t n, json_t *answers)
{
	json_t *got = cli_query_ask_one(c, member, store, keys, n), *a;
	size_t i;

	json_array_foreach(got, i, a)
	{
		const json_t *before = json_array_get(answers, of[i]);

		json_object_set_new(a, "collector", json_string(c->member[member].at));
		if (json_is_null(before) || cli_query_weight(a) > cli_query_weight(before))
			json_array_set(answers, of[i], a);
	}
	json_decref(got);
}

/* Asks the responsible member for each key, then the following members until one has the key. */
static json_t *ask_in_turn(struct cli_query_collectors *c, const char *store, char *const *keys,
			   size_t n)
{
	struct {
		uint32_t turns, asked[DTA_HASH_RING_MEMBERS_MAX];
	} *plan = calloc(n, sizeof(*plan));
	char **some = calloc(n, sizeof(*some));
	size_t *of = calloc(n, sizeof(*of));
	json_t *answers = json_array();

	for (size_t i = 0; plan && some && of && i < n; i++) {
		json_array_append_new(answers, json_null());
		plan[i].turns = cli_query_order_of(c, keys[i], plan[i].asked);
	}
	for (uint32_t turn = 0; json_array_size(answers) && turn < c->n; turn++)
		for (uint32_t m = 0; m < c->n; m++) {
			size_t k = 0;

			for (size_t i = 0; i < n && c->member[m].up; i++)
				if (turn < plan[i].turns && plan[i].asked[turn] == m &&
				    cli_query_weight(json_array_get(answers, i)) < 2) {
					of[k] = i;
					some[k++] = keys[i];
				}
			if (k)
				ask_turn(c, m, store, some, of, k, answers);
		}
	free(plan);
	free(some);
	free(of);
	for (size_t i = 0; i < n; i++)
		if (!json_is_object(json_array_get(answers, i))) { /* no member could answer */
			json_decref(answers);
			return NULL;
		}
	return answers;
}

static void add_counts(json_t *to, const json_t *from, const char *key)
{
	const json_t *x = json_object_get(to, key), *y = json_object_get(from, key);

	json_object_set_new(to, key,
			    json_is_real(x) || json_is_real(y)
				    ? json_real(json_number_value(x) + json_number_value(y))
				    : json_integer(json_integer_value(x) + json_integer_value(y)));
}

/*
 * Adds counters. No count is ever too low; each is too high by at most its error bound, with the
 * stated probability.
 */
static void add_up(json_t *to, const json_t *a)
{
	if (!cli_json_is(a, "result", "found"))
		return;
	if (!cli_json_is(to, "result", "found")) {
		json_object_update(to, (json_t *)(uintptr_t)a);
		return;
	}
	add_counts(to, a, "value");
	add_counts(to, a, "error");
	json_object_set_new(to, "error_probability",
			    json_real(cli_json_number(to, "error_probability") *
				      cli_json_number(a, "error_probability")));
}

static void one_of_many(const struct cli_query_collectors *c, const char *key, json_t *all,
			const json_t *a)
{
	json_t *ring;
	size_t k;

	if (!strcmp(c->kind, "increment")) {
		add_up(all, a);
	} else if (!strcmp(c->kind, "append")) {
		json_array_foreach(json_object_get(a, "rings"), k, ring)
			json_array_append(json_object_get(all, "rings"), ring);
		if (cli_query_weight(a) > cli_query_weight(all))
			json_object_set_new(all, "result", json_string(cli_json_text(a, "result")));
	} else {
		cli_query_add_sketch(all, a, key, cli_query_weight(a) > cli_query_weight(all));
	}
}

/* Adds up the answers of all members for keys[i]. Returns NULL if there are none. */
static json_t *join_answers(const struct cli_query_collectors *c, json_t *const *got, size_t i,
			    const char *key)
{
	json_t *all = NULL, *a, *ring;
	json_int_t asked = 0;
	size_t k;

	for (uint32_t m = 0; m < c->n; m++) {
		a = json_array_get(got[m], i);
		asked += a != NULL;
		json_array_foreach(json_object_get(a, "rings"), k, ring)
			json_object_set_new(ring, "collector", json_string(c->member[m].at));
		if (all && a)
			one_of_many(c, key, all, a);
		all = all ?: json_incref(a);
	}
	if (all)
		json_object_set_new(all, "collectors", json_integer(asked));
	return all;
}

static json_t *ask_all(struct cli_query_collectors *c, const char *store, char *const *keys,
		       size_t n)
{
	json_t *got[DTA_HASH_RING_MEMBERS_MAX] = {0}, *answers = json_array(), *a;

	for (uint32_t m = 0; m < c->n; m++)
		got[m] = cli_query_ask_one(c, m, store, keys, n);
	for (size_t i = 0; answers && i < (n ? n : 1); i++) {
		const char *key = n ? keys[i] : NULL;

		a = c->replicas > 1 ? cli_query_choose_answer(c, got, i, key)
				    : join_answers(c, got, i, key);
		if (a) {
			cli_query_end_sketch(a);
			json_array_append_new(answers, a);
		} else { /* no member has answered */
			json_decref(answers);
			answers = NULL;
		}
	}
	for (uint32_t m = 0; m < c->n; m++)
		json_decref(got[m]);
	return answers;
}

json_t *cli_query_ask(struct cli_query_collectors *c, const char *store, char *const *keys,
		      size_t n)
{
	if (c->n == 1)
		return cli_query_ask_one(c, 0, store, keys, n);
	if (c->replicas < 2 && (!strcmp(c->kind, "key-write") || !strcmp(c->kind, "postcard")))
		return ask_in_turn(c, store, keys, n);
	return ask_all(c, store, keys, n);
}

/* Rows and keys of several collectors */

static const char *const counts[] = {"value", "bytes", "packets"};

/* Returns the members of a row that identify what it counts, as text that the caller frees. */
static char *identity(const json_t *row)
{
	static const char *const others[] = {"value", "bytes", "packets", "from",
					     "to",    "path",  "crossed"};
	json_t *copy = json_copy((json_t *)(uintptr_t)row);
	char *text;

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		json_object_del(copy, others[i]);
	text = json_dumps(copy, JSON_SORT_KEYS | JSON_COMPACT);
	json_decref(copy);
	return text;
}

static void merge_row(json_t *to, const json_t *row, bool replicas)
{
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		const json_int_t a = cli_json_integer(to, counts[i]),
				 b = cli_json_integer(row, counts[i]);

		if (json_object_get(row, counts[i]))
			json_object_set_new(to, counts[i],
					    json_integer(replicas ? BASE_MAX(a, b) : a + b));
	}
	if (cli_json_number(row, "from") < cli_json_number(to, "from"))
		json_object_set(to, "from", json_object_get(row, "from"));
	if (cli_json_number(row, "to") > cli_json_number(to, "to"))
		json_object_set(to, "to", json_object_get(row, "to"));
	if (!replicas)
		json_array_extend(json_object_get(to, "crossed"), json_object_get(row, "crossed"));
	if (json_is_null(json_object_get(to, "path")))
		json_object_set(to, "path", json_object_get(row, "path"));
}

void cli_query_merge(json_t *rows, json_t *index, const json_t *more, bool replicas)
{
	json_t *row, *have;
	size_t i;

	json_array_foreach(more, i, row)
	{
		char *id = identity(row);

		have = json_object_get(index, id ?: "");
		if (have) {
			merge_row(have, row, replicas);
		} else {
			json_array_append(rows, row);
			json_object_set(index, id ?: "", row);
		}
		free(id);
	}
}

static int by_count(const void *x, const void *y)
{
	const json_t *a = *(json_t *const *)x, *b = *(json_t *const *)y;

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		const json_int_t m = cli_json_integer(a, counts[i]),
				 n = cli_json_integer(b, counts[i]);

		if (m != n)
			return m < n ? 1 : -1;
	}
	return 0;
}

json_t *cli_query_highest(const json_t *rows, size_t max)
{
	const size_t n = json_array_size(rows);
	json_t **sorted = calloc(n + 1, sizeof(*sorted)), *some = json_array();

	for (size_t i = 0; sorted && i < n; i++)
		sorted[i] = json_array_get(rows, i);
	if (sorted)
		qsort(sorted, n, sizeof(*sorted), by_count);
	for (size_t i = 0; sorted && i < n && i < max; i++)
		json_array_append(some, sorted[i]);
	free(sorted);
	return some;
}

/* Keeps `max` keys: those with the highest counts or, without `highest`, the last ones. */
static void cut_keys(json_t *all, size_t max, bool highest)
{
	const json_t *keys = json_object_get(all, "keys");
	const size_t n = json_array_size(keys);
	json_t *some = highest ? cli_query_highest(keys, max) : json_array();

	for (size_t i = n > max ? n - max : 0; !highest && i < n; i++)
		json_array_append(some, json_array_get(keys, i));
	json_object_set_new(all, "keys", some);
}

json_t *cli_query_keys(struct cli_query_collectors *c, const char *store, size_t max, bool top)
{
	char path[CLI_QUERY_PATH] = "/api/v1/dta/keys", most[24];
	json_t *all = NULL, *got, *index = json_object();

	/*
	 * A key that is large in total may not be among the largest of any collector: request many.
	 */
	snprintf(most, sizeof(most), "%zu", c->n > 1 && top ? 10000 : max);
	cli_query_add_parameter(path, "store", store);
	cli_query_add_parameter(path, "max", most);
	if (top)
		cli_query_add_parameter(path, "top", "1");
	for (uint32_t m = 0; m < c->n; m++) {
		got = cli_query_get(c, m, path);
		if (!got)
			continue;
		if (c->n == 1) {
			json_decref(index);
			return got;
		}
		if (!all)
			all = json_pack("{s:s,s:s,s:i,s:i,s:[]}", "store", store, "keylog",
					cli_json_text(got, "keylog"), "known", 0,
					"overwritten_blocks", 0, "keys");
		add_counts(all, got, "known");
		add_counts(all, got, "overwritten_blocks");
		cli_query_merge(json_object_get(all, "keys"), index, json_object_get(got, "keys"),
				c->replicas > 1);
		json_decref(got);
	}
	json_decref(index);
	if (all)
		cut_keys(all, max, top);
	return all;
}
