// SPDX-License-Identifier: Apache-2.0
/* map.c - who talks to whom: services as nodes, and an edge for all that one asks of another. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "base/base.h"
#include "base/grow.h"
#include "collect/services/services.h"

#define OUTSIDE "outside"

struct api_map_walk {
	struct api_list list;
	bool outside; /* an edge has an end there */
	char culprit[128], culprit_namespace[128];
};

static void node_json(const struct collect_service_view *v, void *arg)
{
	struct api_map_walk *w = arg;
	const bool now = v->anomaly && !v->anomaly->end_ns;

	if (v->culprit) {
		snprintf(w->culprit, sizeof(w->culprit), "%s", v->service);
		snprintf(w->culprit_namespace, sizeof(w->culprit_namespace), "%s",
			 v->kube_namespace);
	}
	if (!api_item(&w->list))
		return;
	base_put(w->list.j, KV("service", v->service), KV("namespace", v->kube_namespace),
		 KV_BOOL("outside", false), KV("pods", v->pods), KV("anomaly", now),
		 KV("culprit", v->culprit),
		 KV("sentence", now ? v->anomaly->explanation : v->attention_why),
		 KV_QUANTILE("requests_per_second", v->requests),
		 KV_QUANTILE("errors_per_second", v->errors), KV_QUANTILE("p99_seconds", v->p99),
		 KV("attention", v->attention));
	api_item_end(&w->list);
}

static void note_outside(const struct collect_service_edge *e, void *arg)
{
	struct api_map_walk *w = arg;

	w->outside |= !e->from || !e->to;
}

static bool is_culprit(const struct api_map_walk *w, const char *service, const char *space)
{
	return service && *w->culprit && !strcmp(service, w->culprit) &&
	       !strcmp(space, w->culprit_namespace);
}

static void edge_json(const struct collect_service_edge *e, void *arg)
{
	struct api_map_walk *w = arg;
	struct base_json *j = w->list.j;

	if (!api_item(&w->list))
		return;
	base_put(j, KV("from", e->from ? e->from : OUTSIDE),
		 KV("from_namespace", e->from ? e->from_namespace : ""),
		 KV("to", e->to ? e->to : OUTSIDE),
		 KV("to_namespace", e->to ? e->to_namespace : ""));
	base_put(j, KV_BOOL("from_outside", !e->from), KV_BOOL("to_outside", !e->to));
	base_json_kbegin(j, "sources", '[');
	base_json_string(j, "connections");
	base_json_end(j, ']');
	base_put(j, KV("connections", e->connections),
		 KV_QUANTILE("requests_per_second", e->requests), KV("bytes_per_second", e->bytes),
		 KV_QUANTILE("rtt_seconds", e->rtt), KV("retransmits_per_second", e->retransmits),
		 KV_QUANTILE("errors_per_second", NAN), KV_QUANTILE("p50_seconds", NAN),
		 KV_BOOL("culprit", is_culprit(w, e->to, e->to_namespace)));
	api_item_end(&w->list);
}

void api_get_map(struct http_request *req, void *arg)
{
	const struct api_services *of = arg;
	struct api_map_walk w = {.list.limit = UINT64_MAX};
	struct collect_services_totals totals;
	struct api_answer *a;
	uint64_t window = 10;

	if (!api_params_once(req) ||
	    !api_param_u64(req, "window", 1, COLLECT_SERVICES_WINDOW, &window))
		return;
	a = api_answer_begin(req);
	if (!a)
		return;
	w.list.j = &a->json;
	base_put(w.list.j, KV("window_seconds", window));
	base_json_kbegin(w.list.j, "nodes", '[');
	collect_services_each(of->services, (unsigned int)window, node_json, &w, &totals);
	collect_services_edges(of->services, note_outside, &w);
	if (w.outside && api_item(&w.list)) {
		base_put(w.list.j, KV("service", OUTSIDE), KV("namespace", ""),
			 KV_BOOL("outside", true), KV("pods", 0u), KV_BOOL("anomaly", false),
			 KV_BOOL("culprit", false), KV("sentence", ""));
		api_item_end(&w.list);
	}
	base_json_end(w.list.j, ']');
	base_json_kbegin(w.list.j, "edges", '[');
	collect_services_edges(of->services, edge_json, &w);
	base_json_end(w.list.j, ']');
	base_put(w.list.j, KV("truncated", w.list.truncated));
	api_answer_end(req, a);
}
