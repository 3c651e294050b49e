// SPDX-License-Identifier: Apache-2.0
/*
 * dta.c - DTA stores over HTTP: /api/v1/dta and below. arg is the store server; the collector's
 * rounds are not involved.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/internal.h"
#include "base/base.h"
#include "base/budget.h"
#include "base/json_read.h"
#include "dta/query/export.h"
#include "dta/query/json.h"
#include "dta/query/layout.h"
#include "dta/query/seen.h"
#include "dta/store_server/server.h"

#define KEYS_MAX 1000u /* maximum number of keys per POST */

static void reply_json(struct http_request *req, json_t *j)
{
	if (j)
		http_reply_json(req, 200, j);
	else
		http_reply_error(req, 503, "out of memory");
}

static json_t *body_json(struct http_request *req)
{
	size_t bytes;
	const char *text = http_body(req, &bytes);

	return base_json_read(text, bytes, NULL);
}

static void get_status(struct http_request *req, void *arg)
{
	static const char *const counts[] = {
		[DTA_SEEN_FLOWS] = "flows", [DTA_SEEN_DROPS] = "drops", [DTA_SEEN_AS] = "as"};
	json_t *all = dta_store_server_json(arg), *store;
	size_t i;

	json_array_foreach(json_object_get(all, "stores"), i, store)
	{
		const char *name = json_string_value(json_object_get(store, "name"));
		json_t *load = dta_store_server_load_json(arg, name);
		struct dta_held held;

		if (load)
			json_object_set_new(store, "load", load);
		if (!dta_store_server_hold(arg, name, &held))
			continue;
		json_object_set_new(store, "counts", json_string(counts[dta_seen_kind(&held)]));
		dta_store_server_release(arg, &held);
	}
	reply_json(req, all);
}

/* Holds a store. Returns false after a 404 response. */
static bool hold_store(struct http_request *req, struct dta_store_server *o, const char *name,
		       struct dta_held *held)
{
	if (dta_store_server_hold(o, name, held))
		return true;
	http_reply_error(req, 404, "no store '%.64s'", name);
	return false;
}

struct api_dta_parameters {
	struct dta_ask ask;
	const char *store;
	char wrong[160];
};

static bool set_parameter(void *arg, const char *key, const char *value)
{
	struct api_dta_parameters *p = arg;
	int err;

	if (!strcmp(key, "store")) {
		p->store = value;
		return true;
	}
	err = dta_ask_set(&p->ask, key, value);
	if (err == -ENOENT)
		snprintf(p->wrong, sizeof(p->wrong), "unknown parameter '%.40s'", key);
	else if (err)
		snprintf(p->wrong, sizeof(p->wrong), "%.40s: invalid value '%.64s'", key, value);
	return !err;
}

/* Finds the store of a request. Returns false after an error response. */
static bool check_parameters(struct http_request *req, struct api_dta_parameters *p,
			     struct dta_store_server *o, struct dta_held *held)
{
	if (!p->wrong[0] && !p->store)
		snprintf(p->wrong, sizeof(p->wrong), "missing parameter store");
	if (p->wrong[0]) {
		http_reply_error(req, 400, "%s", p->wrong);
		return false;
	}
	if (!hold_store(req, o, p->store, held))
		return false;
	held->budget = http_budget(req);
	return true;
}

static void get_query(struct http_request *req, void *arg)
{
	struct api_dta_parameters p = {0};
	struct dta_held held;
	char error[160];
	json_t *j;

	dta_ask_init(&p.ask);
	http_query_each(req, set_parameter, &p);
	if (!check_parameters(req, &p, arg, &held))
		return;
	j = dta_query_json(&held, &p.ask, error, sizeof(error));
	dta_layout_answer(j, &held);
	dta_store_server_release(arg, &held);
	if (http_over_budget(req))
		json_decref(j);
	else if (j)
		http_reply_json(req, 200, j);
	else
		http_reply_error(req, 400, "%s", error);
}

/* Returns the number of samples that the answer for a key is charged for. */
static uint64_t cost_of(const struct sl_store_config *c)
{
	/* Each answer merges the lanes again. */
	return c->kind == SL_STORE_SKETCH ? (uint64_t)c->rows * c->slots * c->lanes : 1;
}

/*
 * Queries a store for several keys. The body is {"store": NAME, "keys": [KEY, ...]}, plus any
 * parameters that a GET query accepts, which then apply to all keys. The response is {"answers":
 * [...]}, in the order of the keys.
 */
static void post_query(struct http_request *req, void *arg)
{
	json_t *body = body_json(req), *keys = json_object_get(body, "keys");
	json_t *value, *answers, *one;
	struct api_dta_parameters p = {0};
	struct dta_totals totals = {0};
	struct dta_held held;
	const char *key, *text;
	char error[160], digits[24];
	size_t i;

	dta_ask_init(&p.ask);
	if (!json_is_array(keys) || json_array_size(keys) > KEYS_MAX)
		snprintf(p.wrong, sizeof(p.wrong), "keys must be an array of at most %u keys",
			 KEYS_MAX);
	json_object_foreach(body, key, value)
	{
		text = json_string_value(value);
		if (json_is_integer(value)) {
			snprintf(digits, sizeof(digits), "%lld",
				 (long long)json_integer_value(value));
			text = digits;
		}
		/* The store name must be a string; other values may be numbers. */
		if (!strcmp(key, "keys") || p.wrong[0] ||
		    (!strcmp(key, "store") && !json_is_string(value)))
			continue;
		if (!text)
			snprintf(p.wrong, sizeof(p.wrong), "%.40s must be a string or a number",
				 key);
		else
			set_parameter(&p, key, text);
	}
	if (!check_parameters(req, &p, arg, &held)) {
		json_decref(body);
		return;
	}
	held.totals = &totals;
	answers = json_array();
	error[0] = 0;
	/* A list's items are the same for all keys. */
	if (held.view[0]->config->kind == SL_STORE_APPEND && json_array_size(keys) > 1) {
		snprintf(error, sizeof(error),
			 "store '%s' is of kind append: it can be asked for a single key",
			 held.view[0]->name);
		json_array_clear(keys);
	}
	p.ask.cells = false; /* cells are too large to return for many keys */
	json_array_foreach(keys, i, value)
	{
		text = json_string_value(value);
		if (!text || dta_ask_set(&p.ask, "key", text)) {
			snprintf(error, sizeof(error), "keys: invalid key '%.64s'",
				 text ? text : "");
			break;
		}
		one = base_budget_spend(http_budget(req), cost_of(held.view[0]->config))
			      ? dta_query_json(&held, &p.ask, error, sizeof(error))
			      : NULL;
		if (!one)
			break;
		dta_layout_answer(one, &held);
		json_array_append_new(answers, one);
	}
	dta_store_server_release(arg, &held);
	if (http_over_budget(req)) {
		json_decref(answers);
	} else if (error[0]) {
		json_decref(answers);
		http_reply_error(req, 400, "%s", error);
	} else {
		http_reply_json(req, 200, json_pack("{s:o}", "answers", answers));
	}
	json_decref(body);
}

/* Returns the keys in a store's key log: ?store=NAME&max=N&top=1 */
static void get_keys(struct http_request *req, void *arg)
{
	const char *name = http_query(req, "store"), *top = http_query(req, "top");
	const char *max = http_query(req, "max");
	struct dta_held store, log;
	unsigned long n = 100;
	json_t *j;

	if (max && sscanf(max, "%lu", &n) != 1)
		n = 0;
	if (!name || !n || n > 10000) {
		http_reply_error(req, 400, "expected store=NAME and max from 1 to 10000");
		return;
	}
	if (!hold_store(req, arg, name, &store))
		return;
	if (!*store.keylog || !dta_store_server_hold(arg, store.keylog, &log)) {
		dta_store_server_release(arg, &store);
		http_reply_error(req, 400, "store '%.64s' has no key log", name);
		return;
	}
	store.budget = http_budget(req);
	j = dta_query_keys_json(&log, &store, n, top && strcmp(top, "0"));
	dta_store_server_release(arg, &log);
	dta_store_server_release(arg, &store);
	if (http_over_budget(req))
		json_decref(j);
	else
		reply_json(req, j);
}

/* Replaces the columns of keys and values with those of the store's layout. */
static void add_fields(json_t *page, const struct dta_held *held)
{
	json_t *record;
	size_t i;

	if (!held->layout[0] && !held->layout[1])
		return;
	json_object_set_new(page, "fields",
			    dta_layout_columns(json_object_get(page, "fields"), held));
	json_array_foreach(json_object_get(page, "records"), i, record)
		dta_layout_add(record, held);
}

/* Returns all entries of an epoch, in pages: ?store=NAME&epoch=N&slots=1&at=NEXT */
static void get_export(struct http_request *req, void *arg)
{
	const char *name = http_query(req, "store"), *epoch = http_query(req, "epoch");
	const char *at = http_query(req, "at"), *slots = http_query(req, "slots");
	struct dta_export x = {.epoch = ~0ull, .slots = slots && strcmp(slots, "0")};
	struct dta_held store, log;
	bool logged;
	char error[160];
	json_t *j;

	if (!name || (at && dta_export_at(at, x.at)) ||
	    (epoch && base_parse_u64(epoch, 0, UINT64_MAX - 1, &x.epoch))) {
		http_reply_error(
			req, 400,
			"expected store=NAME, epoch=NUMBER, and at=POSITION as returned with the "
			"previous page");
		return;
	}
	if (!hold_store(req, arg, name, &store))
		return;
	store.budget = http_budget(req);
	logged = *store.keylog && dta_store_server_hold(arg, store.keylog, &log);
	j = dta_export_page(&store, logged ? &log : NULL, &x, error, sizeof(error));
	add_fields(j, &store);
	if (logged)
		dta_store_server_release(arg, &log);
	dta_store_server_release(arg, &store);
	if (http_over_budget(req))
		json_decref(j);
	else if (j)
		http_reply_json(req, 200, j);
	else
		http_reply_error(req, 410, "%s", error);
}

static void get_reporters(struct http_request *req, void *arg)
{
	reply_json(req, dta_store_server_reporters(arg));
}

static void get_exporters(struct http_request *req, void *arg)
{
	reply_json(req, dta_store_server_exporters(arg));
}

static void answer_order(struct http_request *req, int err, const char *error)
{
	static const struct {
		int err, status;
	} table[] = {{-ENOENT, 404}, {-EINVAL, 400}, {-EACCES, 400},
		     {-EBUSY, 409},  {-ENOSPC, 507}, {0, 503}};
	size_t i = 0;

	if (!err) {
		http_reply_json(req, 200, json_pack("{s:b}", "done", 1));
		return;
	}
	while (table[i].err && table[i].err != err)
		i++;
	http_reply_error(req, table[i].status, "%s", error);
}

/*
 * Resizes a store. Body: {"slots": N}, the columns of increment and sketch stores, or the blocks of
 * append stores.
 */
static void put_store(struct http_request *req, void *arg)
{
	char error[256] = "slots: a number";
	json_t *body = body_json(req);
	json_t *slots = json_object_get(body, "slots");
	int err = -EINVAL;

	if (json_object_size(body) == 1 && json_is_integer(slots) && json_integer_value(slots) > 0)
		err = dta_store_server_resize(arg, http_variable(req),
					      (uint64_t)json_integer_value(slots), error,
					      sizeof(error));
	json_decref(body);
	answer_order(req, err, error);
}

static void post_rotate(struct http_request *req, void *arg)
{
	int err = dta_store_server_rotate(arg, http_variable(req));

	answer_order(req, err, err == -ENOENT ? "no such store" : "this store has only one epoch");
}

static void post_reload(struct http_request *req, void *arg)
{
	char error[512] = "";

	answer_order(req, dta_store_server_reload(arg, error, sizeof(error)), error);
}

int api_dta(struct http *http, struct dta_store_server *o)
{
	static const struct {
		const char *method, *path;
		enum http_role needs;
		http_handler handler;
		bool costly;
	} routes[] = {
		{"GET", "/api/v1/dta", HTTP_READER, get_status, false},
		{"GET", "/api/v1/dta/query", HTTP_READER, get_query, true},
		{"POST", "/api/v1/dta/query", HTTP_READER, post_query, true},
		{"GET", "/api/v1/dta/keys", HTTP_READER, get_keys, true},
		{"GET", "/api/v1/dta/export", HTTP_READER, get_export, true},
		{"GET", "/api/v1/dta/paths", HTTP_READER, api_get_dta_paths, true},
		{"GET", "/api/v1/dta/drops", HTTP_READER, api_get_dta_drops, true},
		{"GET", "/api/v1/dta/top", HTTP_READER, api_get_dta_top, true},
		{"GET", "/api/v1/dta/exporters", HTTP_READER, get_exporters, false},
		{"GET", "/api/v1/dta/reporters", HTTP_READER, get_reporters, false},
		{"PUT", "/api/v1/dta/stores/{}", HTTP_ADMIN, put_store, false},
		{"POST", "/api/v1/dta/stores/{}/rotate", HTTP_ACTOR, post_rotate, false},
		{"POST", "/api/v1/dta/reload", HTTP_ADMIN, post_reload, false},
	};
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(routes) / sizeof(*routes); i++)
		err = (routes[i].costly ? http_route_costly
					: http_route)(http, routes[i].method, routes[i].path,
						      routes[i].needs, routes[i].handler, o);
	if (!err)
		api_status_dta();
	return err;
}
