// SPDX-License-Identifier: Apache-2.0
/* map.c - the service map: services as nodes, and their connections and calls as edges. */
#include <math.h>
#include <string.h>

#include "api/internal.h"
#include "api/map.h"
#include "base/base.h"

#define OUTSIDE "outside"

struct api_map_walk {
	struct api_list list;
	struct api_map_calls calls;
	bool outside; /* true if an edge has an end outside the known services */
	struct collect_service_name culprit;
};

static void node_json(const struct collect_service_view *v, void *arg)
{
	struct api_map_walk *w = arg;
	const bool now = v->anomaly && !v->anomaly->end_ns;

	if (v->culprit) {
		snprintf(w->culprit.service, sizeof(w->culprit.service), "%s", v->service);
		snprintf(w->culprit.kube_namespace, sizeof(w->culprit.kube_namespace), "%s",
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

/* Writes the two ends of an edge. NULL stands for an end outside the known services. */
static void ends_json(struct base_json *j, const struct collect_service_name *from,
		      const struct collect_service_name *to)
{
	base_put(j, KV("from", from ? from->service : OUTSIDE),
		 KV("from_namespace", from ? from->kube_namespace : ""),
		 KV("to", to ? to->service : OUTSIDE),
		 KV("to_namespace", to ? to->kube_namespace : ""), KV_BOOL("from_outside", !from),
		 KV_BOOL("to_outside", !to));
}

static void rest_json(const struct api_map_walk *w, const struct api_map_call *call,
		      const struct collect_service_name *to)
{
	const bool known = to && *w->culprit.service;

	base_put(
		w->list.j, KV_QUANTILE("errors_per_second", NAN),
		KV_QUANTILE("p50_seconds",
			    call ? collect_latency_quantile(&call->latency, 0.5) : NAN),
		KV_BOOL("culprit", known && !strcmp(to->service, w->culprit.service) &&
					   !strcmp(to->kube_namespace, w->culprit.kube_namespace)));
}

static void edge_json(const struct collect_service_edge *e, void *arg)
{
	struct api_map_walk *w = arg;
	struct base_json *j = w->list.j;
	struct api_map_call *call = e->from && e->to ? api_map_find(&w->calls, e->from, e->to)
						     : NULL;

	if (call)
		call->shown = true;
	if (!api_item(&w->list))
		return;
	ends_json(j, e->from, e->to);
	base_json_kbegin(j, "sources", '[');
	base_json_string(j, "connections");
	if (call)
		base_json_string(j, "traces");
	base_json_end(j, ']');
	base_put(j, KV("connections", e->connections),
		 KV_QUANTILE("requests_per_second", e->requests), KV("bytes_per_second", e->bytes),
		 KV_QUANTILE("rtt_seconds", e->rtt), KV("retransmits_per_second", e->retransmits));
	rest_json(w, call, e->to);
	api_item_end(&w->list);
}

/* Writes an edge that is known only from traces, not from connections. */
static void call_json(struct api_map_walk *w, const struct api_map_call *call)
{
	struct base_json *j = w->list.j;

	if (call->shown || !api_item(&w->list))
		return;
	ends_json(j, &call->from, &call->to);
	base_json_kbegin(j, "sources", '[');
	base_json_string(j, "traces");
	base_json_end(j, ']');
	base_put(j, KV("connections", 0u), KV_QUANTILE("requests_per_second", NAN),
		 KV_QUANTILE("bytes_per_second", NAN), KV_QUANTILE("rtt_seconds", NAN),
		 KV_QUANTILE("retransmits_per_second", NAN));
	rest_json(w, call, &call->to);
	api_item_end(&w->list);
}

void api_get_map(struct http_request *req, void *arg)
{
	const struct api_services *of = arg;
	struct api_map_walk w = {.list.limit = UINT64_MAX};
	struct collect_services_totals totals;
	uint64_t window;
	struct api_answer *a = api_window_begin(req, &window);

	if (!a)
		return;
	w.list.j = &a->json;
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
	if (of->tracer)
		api_map_traces(&w.calls, of->services, of->tracer, (int64_t)base_realtime_ns());
	collect_services_edges(of->services, edge_json, &w);
	for (size_t i = 0; i < w.calls.n; i++)
		call_json(&w, &w.calls.v[i]);
	base_json_end(w.list.j, ']');
	base_put(w.list.j, KV("truncated", w.list.truncated));
	api_answer_end(req, a);
	api_map_calls_free(&w.calls);
}
