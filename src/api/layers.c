// SPDX-License-Identifier: Apache-2.0
/*
 * layers.c - how long requests spend in each layer of the network stack: quantiles by workload,
 * role and port, both recent and since the collector's startup; and the time that hosts could not
 * attribute, by cause.
 */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "api/internal.h"
#include "collect/tables/tables.h"

#define ROWS_DEFAULT 100
#define ROWS_MAX     1000

struct api_layers_span {
	uint64_t count[7]; /* indexed by enum sl_slot_count */
	struct api_summary layer[SL_LAYERS];
};

struct api_layers_row {
	struct api_layers_span late, all;
	int64_t late_ns;
	bool stale;
	struct api_owner owner;
	char role[8], port[8];
};

struct api_layers_walk {
	const char *host, *role;
	struct collect_terms terms;
	struct api_layers_row *row;
	size_t rows, room;
	bool failed;
};

static void summarize_layers(const struct region_layer_view *v, struct api_layers_span *s)
{
	memcpy(s->count, v->count, sizeof(s->count));
	for (int i = 0; i < SL_LAYERS; i++)
		s->layer[i] = api_layer_summary(v->cell[i]);
}

static bool matches_filters(const struct api_layers_walk *w, const struct collect_layers_view *v)
{
	const struct region_info *who = v->workload;
	uint32_t found = collect_terms_in_text(&w->terms, v->hostname) |
			 collect_terms_in_text(&w->terms, v->port) |
			 collect_terms_in_labels(&w->terms, who->labels, who->label_count);

	return found == (1u << w->terms.count) - 1 &&
	       api_is_host(w->host, v->hostname, v->target) &&
	       (!w->role || !strcmp(w->role, v->role));
}

static void take_row(const struct collect_layers_view *v, void *arg)
{
	struct api_layers_walk *w = arg;
	struct api_layers_row *r;

	if (!matches_filters(w, v))
		return;
	if (!BASE_GROW(w->row, w->rows, w->room)) {
		w->failed = true;
		return;
	}
	r = &w->row[w->rows++];
	summarize_layers(v->late, &r->late);
	summarize_layers(v->all, &r->all);
	r->late_ns = v->late_ns;
	r->stale = v->stale;
	api_owner_set(&r->owner, v->hostname, v->target, v->workload);
	snprintf(r->role, sizeof(r->role), "%s", v->role);
	snprintf(r->port, sizeof(r->port), "%s", v->port);
}

/* Sorts by recent requests, then by all requests. */
static int busiest_first(const void *a, const void *b)
{
	const struct api_layers_row *x = a, *y = b;

	if (x->late.count[SL_COUNT_REQUESTS] != y->late.count[SL_COUNT_REQUESTS])
		return x->late.count[SL_COUNT_REQUESTS] > y->late.count[SL_COUNT_REQUESTS] ? -1 : 1;
	if (x->all.count[SL_COUNT_REQUESTS] != y->all.count[SL_COUNT_REQUESTS])
		return x->all.count[SL_COUNT_REQUESTS] > y->all.count[SL_COUNT_REQUESTS] ? -1 : 1;
	return (x->owner.instance > y->owner.instance) - (x->owner.instance < y->owner.instance);
}

static void span_json(struct base_json *j, const char *key, const struct api_layers_span *s)
{
	base_json_kbegin(j, key, '{');
	base_put(j, KV("requests", s->count[SL_COUNT_REQUESTS]),
		 KV("measured", s->count[SL_COUNT_COMPLETE]),
		 KV("incomplete", s->count[SL_COUNT_INCOMPLETE]),
		 KV("pipelined", s->count[SL_COUNT_PIPELINED]),
		 KV("unattributed", s->count[SL_COUNT_UNATTRIBUTED]));
	base_json_kbegin(j, "layers", '{');
	for (int i = 0; i < SL_LAYERS; i++) {
		base_json_kbegin(j, region_layer_name(i), '{');
		api_summary(j, &s->layer[i], true);
		base_json_end(j, '}');
	}
	base_json_end(j, '}');
	base_json_end(j, '}');
}

static void row_json(struct base_json *j, const struct api_layers_row *r)
{
	api_owner(j, &r->owner);
	base_put(j, KV("role", r->role), KV("port", r->port), KV("stale", r->stale),
		 KV("late_seconds", (double)r->late_ns * 1e-9));
	span_json(j, "late", &r->late);
	span_json(j, "all", &r->all);
}

static void losses_json(const struct collect_layer_losses_view *v, void *arg)
{
	struct api_list *l = arg;

	if (!api_host_item(l, v->hostname, v->target, v->present))
		return;
	base_put(l->j, KV("passes", v->passes));
	base_json_kbegin(l->j, "causes", '{');
	for (int i = 0; i < SL_CAUSES; i++)
		if (v->lost[i])
			base_put(l->j, KV(region_layer_cause_name(i), v->lost[i]));
	base_json_end(l->j, '}');
	api_item_end(l);
}

void api_get_layers(struct http_request *req, void *arg)
{
	static const char *const roles[] = {"server", "client", "unknown"};
	struct api_layers_walk w = {.host = api_param_text(req, "host")};
	struct api_list l = {.limit = ROWS_DEFAULT}, hosts = {.limit = UINT64_MAX};
	int role = -1;

	if (!api_param_choice(req, "role", roles, 3, &role) ||
	    !api_param_u64(req, "limit", 0, ROWS_MAX, &l.limit) || !api_param_terms(req, &w.terms))
		return;
	w.role = role < 0 ? NULL : roles[role];
	collect_collector_layers(arg, take_row, &w);
	if (w.failed)
		http_reply_error(req, 503, "out of memory");
	l.j = hosts.j = w.failed ? NULL : api_answer_begin(req);
	if (!l.j)
		goto out;
	if (w.rows)
		qsort(w.row, w.rows, sizeof(*w.row), busiest_first);
	base_json_kbegin(l.j, "workloads", '[');
	for (size_t i = 0; i < w.rows && api_item(&l); i++) {
		row_json(l.j, &w.row[i]);
		api_item_end(&l);
	}
	base_json_end(l.j, ']');
	base_put(l.j, KV("matching", w.rows), KV("truncated", l.truncated));
	API_EACH(l.j, "hosts", collect_collector_layer_losses, arg, losses_json, &hosts);
	api_answer_end(req, l.j);
out:
	free(w.row);
}
