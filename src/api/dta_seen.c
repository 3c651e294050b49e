// SPDX-License-Identifier: Apache-2.0
/* dta_seen.c - /api/v1/dta/paths, /api/v1/dta/drops and /api/v1/dta/top */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "dta/query/json.h"
#include "dta/query/seen.h"
#include "dta/store_server/server.h"

#define ROWS_MAX    1000u
#define PATH_STORES 8u

/* Postcard stores whose key is a 5-tuple: they know the order of the hops. */
struct api_dta_paths {
	struct dta_held held[PATH_STORES];
	size_t n;
};

/* Reads a time in seconds since 1970. Returns false after a 400 response. */
static bool read_time(struct http_request *req, const char *name, uint64_t *ns)
{
	const char *text = api_param_text(req, name);
	char *end = NULL;
	double seconds;

	if (!text)
		return true;
	seconds = strtod(text, &end);
	if (*end || !isfinite(seconds) || seconds < 0 || seconds > 1e10) {
		http_reply_error(req, 400, "%s=%.40s: expected seconds since 1970", name, text);
		return false;
	}
	*ns = (uint64_t)(seconds * 1e9);
	return true;
}

/* Reads the parameters that all three requests have: the time range and the limit. */
static bool read_common(struct http_request *req, struct dta_seen *s, struct dta_seen_ask *a)
{
	uint64_t max = 100;

	s->to_ns = UINT64_MAX;
	s->budget = http_budget(req);
	if (!api_params_once(req) || !read_time(req, "from", &s->from_ns) ||
	    !read_time(req, "to", &s->to_ns) || !api_param_u64(req, "max", 1, ROWS_MAX, &max))
		return false;
	a->max = (uint32_t)max;
	return true;
}

/* Reads a place from the parameters "device" and "interface". */
static bool read_place(struct http_request *req, struct dta_seen_ask *a)
{
	const char *device = api_param_text(req, "device");
	struct dta_seen_place *p = &a->place[0];
	uint64_t interface = 0;

	if (device && !dta_seen_place(device, p)) {
		http_reply_error(req, 400, "device=%.64s: expected an address or a switch's number",
				 device);
		return false;
	}
	p->any = !device;
	if (!api_param_u64(req, "interface", 0, UINT32_MAX, &interface))
		return false;
	if (api_param_text(req, "interface")) {
		p->has_interface = true;
		p->interface = (uint32_t)interface;
	}
	a->places = device || p->has_interface;
	return true;
}

/* Reads "through": a place, or two places separated by a comma. */
static bool read_through(struct http_request *req, struct dta_seen_ask *a)
{
	const char *text = api_param_text(req, "through");
	char copy[160], *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", text ?: "");
	while (text && (word = strsep(&rest, ",")))
		if (a->places == 2 || !dta_seen_place(word, &a->place[a->places++])) {
			http_reply_error(
				req, 400,
				"expected through=DEVICE[/INTERFACE][,DEVICE[/INTERFACE]], where a "
				"device is an address or a switch's number");
			return false;
		}
	return true;
}

/* Adds the rows of all stores of this kind. Returns the number of stores. */
static size_t take_stores(struct dta_seen *s, struct dta_store_server *o, enum dta_seen_kind kind)
{
	struct dta_held store, log;
	const char *name;
	size_t n = 0;

	for (size_t i = 0; (name = dta_store_server_name(o, i)); i++) {
		if (!dta_store_server_hold(o, name, &store))
			continue;
		store.budget = s->budget;
		if (dta_seen_kind(&store) == kind && dta_store_server_hold(o, store.keylog, &log)) {
			dta_seen_take(s, &store, &log);
			dta_store_server_release(o, &log);
			n++;
		}
		dta_store_server_release(o, &store);
	}
	return n;
}

static void hold_paths(struct dta_store_server *o, struct api_dta_paths *p)
{
	const char *name;

	for (size_t i = 0; p->n < PATH_STORES && (name = dta_store_server_name(o, i)); i++) {
		struct dta_held *held = &p->held[p->n];

		if (!dta_store_server_hold(o, name, held))
			continue;
		if (held->view[0]->config->kind == SL_STORE_POSTCARD && held->layout[0] &&
		    !strcmp(held->layout[0], "5-tuple"))
			p->n++;
		else
			dta_store_server_release(o, held);
	}
}

/* Sends the response, and frees the rows. */
static void reply_rows(struct http_request *req, struct dta_seen *s, size_t stores, json_t *rows,
		       uint64_t more)
{
	json_t *j = NULL;

	if (http_over_budget(req)) /* an error has been sent */
		j = NULL;
	else if (s->no_memory)
		http_reply_error(req, 503, "out of memory");
	else if (!stores)
		http_reply_error(req, 404,
				 "no store has the required fields: see "
				 "examples/dta/devices.yaml");
	else
		j = json_pack("{s:f,s:f,s:o,s:o,s:O}", "from", (double)s->began_ns * 1e-9, "to",
			      (double)s->ended_ns * 1e-9, "more", dta_query_number(more),
			      "overwritten_blocks", dta_query_number(s->overwritten), "rows", rows);
	if (j)
		http_reply_json(req, 200, j);
	json_decref(rows);
	free(s->row);
}

void api_get_dta_paths(struct http_request *req, void *arg)
{
	struct api_dta_paths paths = {.n = 0};
	struct dta_seen_ask a = {.paths = paths.held};
	struct dta_seen s = {.rows = 0};
	uint64_t more;
	json_t *rows;
	size_t n;

	if (!read_common(req, &s, &a) || !read_through(req, &a))
		return;
	n = take_stores(&s, arg, DTA_SEEN_FLOWS);
	hold_paths(arg, &paths);
	a.path_stores = paths.n;
	rows = dta_seen_paths(&s, &a, &more);
	while (paths.n--)
		dta_store_server_release(arg, &paths.held[paths.n]);
	reply_rows(req, &s, n, rows, more);
}

void api_get_dta_drops(struct http_request *req, void *arg)
{
	struct dta_seen_ask a = {.max = 0};
	struct dta_seen s = {.rows = 0};
	uint64_t more, reason = 0;
	json_t *rows;
	size_t n;

	if (!read_common(req, &s, &a) || !read_place(req, &a) ||
	    !api_param_u64(req, "reason", 0, UINT32_MAX, &reason))
		return;
	a.has_reason = api_param_text(req, "reason");
	a.reason = (uint32_t)reason;
	n = take_stores(&s, arg, DTA_SEEN_DROPS);
	rows = dta_seen_drops(&s, &a, &more);
	reply_rows(req, &s, n, rows, more);
}

void api_get_dta_top(struct http_request *req, void *arg)
{
	static const char *const by[] = {"address", "prefix", "as", "interface", "application"};
	struct dta_seen_ask a = {.max = 0};
	struct dta_seen s = {.rows = 0};
	uint64_t more, v4 = 24, v6 = 48;
	int key = DTA_SEEN_BY_ADDRESS;
	json_t *rows;
	size_t n;

	if (!read_common(req, &s, &a) || !read_place(req, &a) ||
	    !api_param_choice(req, "by", by, sizeof(by) / sizeof(*by), &key) ||
	    !api_param_u64(req, "prefix", 0, 32, &v4) ||
	    !api_param_u64(req, "prefix6", 0, 128, &v6))
		return;
	a.by = (uint32_t)key;
	a.prefix[0] = (uint32_t)v4;
	a.prefix[1] = (uint32_t)v6;
	n = take_stores(&s, arg, a.by == DTA_SEEN_BY_AS ? DTA_SEEN_AS : DTA_SEEN_FLOWS);
	rows = dta_seen_top(&s, &a, &more);
	reply_rows(req, &s, n, rows, more);
}
