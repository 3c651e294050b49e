// SPDX-License-Identifier: Apache-2.0
/* map.c - the service map: services as nodes, and their connections and calls as edges. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "api/internal.h"
#include "base/base.h"
#include "base/grow.h"
#include "collect/services/latency.h"
#include "collect/services/services.h"
#include "collect/trace/trace.h"

#define OUTSIDE	   "outside"
#define TRACES_MAX 64u
#define SPANS_MAX  4096u /* maximum number of spans per trace */
#define CALLS_MAX  1024u
#define RECENT_NS  600000000000ll

struct map_call {
	struct collect_service_name from, to;
	struct collect_latency latency; /* latency of the callee's spans */
	bool shown;
};

struct map_calls {
	struct map_call *v;
	size_t n, room;
};

/* Calls, from the kept traces */

struct map_trace_id {
	uint64_t hi, lo;
};

struct map_span {
	uint64_t id, parent, instance, duration_ns;
};

struct map_trace_walk {
	int64_t now_ns;
	struct map_trace_id id[TRACES_MAX];
	size_t ids;
	struct map_span *span; /* spans of one trace, sorted by ID */
	size_t spans, room;
};

static bool take_id(const struct collect_trace *t, void *arg)
{
	struct map_trace_walk *w = arg;

	if (w->now_ns - (int64_t)t->start_ns < RECENT_NS)
		w->id[w->ids++] = (struct map_trace_id){t->trace_hi, t->trace_lo};
	return w->ids < TRACES_MAX;
}

/* Runs under the tracer's lock, so it only copies the spans. */
static void take_spans(const struct collect_trace *t, void *arg)
{
	struct map_trace_walk *w = arg;

	w->spans = 0;
	for (const struct collect_trace_span *s = t->first; s && w->spans < SPANS_MAX; s = s->next)
		if (BASE_GROW(w->span, w->spans, w->room))
			w->span[w->spans++] = (struct map_span){s->o.span_id, s->o.parent_id,
								s->instance, s->duration_ns};
}

static bool same_name(const struct collect_service_name *a, const struct collect_service_name *b)
{
	return !strcmp(a->service, b->service) && !strcmp(a->kube_namespace, b->kube_namespace);
}

/* Returns NULL if there is no such call. */
static struct map_call *find_call(const struct map_calls *c,
				  const struct collect_service_name *from,
				  const struct collect_service_name *to)
{
	for (size_t i = 0; i < c->n; i++)
		if (same_name(&c->v[i].from, from) && same_name(&c->v[i].to, to))
			return &c->v[i];
	return NULL;
}

static void count_call(struct map_calls *to, struct collect_services *s,
		       const struct map_span *caller, const struct map_span *callee)
{
	struct collect_service_name a, b;
	struct map_call *at;
	double seconds = (double)callee->duration_ns * 1e-9;

	/* Calls within a service are not on the map. */
	if (caller->instance == callee->instance ||
	    !collect_services_name(s, caller->instance, &a) ||
	    !collect_services_name(s, callee->instance, &b) || same_name(&a, &b))
		return;
	at = find_call(to, &a, &b);
	if (!at) {
		if (to->n == CALLS_MAX || !BASE_GROW(to->v, to->n, to->room))
			return;
		at = &to->v[to->n++];
		*at = (struct map_call){.from = a, .to = b};
	}
	collect_latency_spread(&at->latency, seconds, seconds, 1);
}

/*
 * Collects the calls between services in the newest traces. Some calls are missing if memory is
 * short.
 */
static void collect_calls(struct map_calls *to, struct collect_services *s,
			  struct collect_tracer *tracer, int64_t now_ns)
{
	struct map_trace_walk w = {.now_ns = now_ns};

	collect_tracer_list(tracer, take_id, &w);
	for (size_t i = 0; i < w.ids; i++) {
		if (!collect_tracer_get(tracer, w.id[i].hi, w.id[i].lo, take_spans, &w) || !w.spans)
			continue;
		qsort(w.span, w.spans, sizeof(*w.span), base_by_u64);
		for (size_t k = 0; k < w.spans; k++) {
			const struct map_span key = {.id = w.span[k].parent};
			const struct map_span *parent = bsearch(&key, w.span, w.spans,
								sizeof(*w.span), base_by_u64);

			if (key.id && parent)
				count_call(to, s, parent, &w.span[k]);
		}
	}
	free(w.span);
}

/* The map */

struct map_walk {
	struct api_list list;
	struct map_calls calls;
	bool outside; /* true if an edge has an end outside the known services */
	struct collect_service_name culprit;
};

static void node_json(const struct collect_service_view *v, void *arg)
{
	struct map_walk *w = arg;
	const bool now = v->anomaly && !v->anomaly->end_ns;
	char text[ACT_EXPLANATION_BYTES];

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
		 KV("sentence",
		    now ? act_explain(text, sizeof(text), v->anomaly) : v->attention_why),
		 KV_QUANTILE("requests_per_second", v->requests),
		 KV_QUANTILE("errors_per_second", v->errors), KV_QUANTILE("p99_seconds", v->p99),
		 KV("attention", v->attention));
	api_item_end(&w->list);
}

static void note_outside(const struct collect_service_edge *e, void *arg)
{
	struct map_walk *w = arg;

	w->outside |= !e->from || !e->to;
}

/*
 * Writes an edge. In e, NULL stands for an end outside the known services. call: the calls along
 * this edge, or NULL; calls_only: it is known only from traces, not from connections.
 */
static void put_edge(struct map_walk *w, const struct collect_service_edge *e,
		     const struct map_call *call, bool calls_only)
{
	struct base_json *j = w->list.j;

	if (!api_item(&w->list))
		return;
	base_put(j, KV("from", e->from ? e->from->service : OUTSIDE),
		 KV("from_namespace", e->from ? e->from->kube_namespace : ""),
		 KV("to", e->to ? e->to->service : OUTSIDE),
		 KV("to_namespace", e->to ? e->to->kube_namespace : ""),
		 KV_BOOL("from_outside", !e->from), KV_BOOL("to_outside", !e->to));
	base_json_kbegin(j, "sources", '[');
	if (!calls_only)
		base_json_string(j, "connections");
	if (call)
		base_json_string(j, "traces");
	base_json_end(j, ']');
	base_put(j, KV("connections", e->connections),
		 KV_QUANTILE("requests_per_second", e->requests),
		 KV_QUANTILE("bytes_per_second", e->bytes), KV_QUANTILE("rtt_seconds", e->rtt),
		 KV_QUANTILE("retransmits_per_second", e->retransmits),
		 KV_QUANTILE("errors_per_second", NAN),
		 KV_QUANTILE("p50_seconds",
			     call ? collect_latency_quantile(&call->latency, 0.5) : NAN),
		 KV_BOOL("culprit", e->to && *w->culprit.service && same_name(e->to, &w->culprit)));
	api_item_end(&w->list);
}

static void edge_json(const struct collect_service_edge *e, void *arg)
{
	struct map_walk *w = arg;
	struct map_call *call = e->from && e->to ? find_call(&w->calls, e->from, e->to) : NULL;

	if (call)
		call->shown = true;
	put_edge(w, e, call, false);
}

static void call_json(struct map_walk *w, const struct map_call *call)
{
	const struct collect_service_edge e = {.from = &call->from,
					       .to = &call->to,
					       .requests = NAN,
					       .bytes = NAN,
					       .retransmits = NAN,
					       .rtt = NAN};

	if (!call->shown)
		put_edge(w, &e, call, true);
}

void api_get_map(struct http_request *req, void *arg)
{
	const struct api_services *of = arg;
	struct collect_services_totals totals;
	uint64_t window;
	struct map_walk w = {.list = {.j = api_window_begin(req, &window), .limit = UINT64_MAX}};

	if (!w.list.j)
		return;
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
		collect_calls(&w.calls, of->services, of->tracer, (int64_t)base_realtime_ns());
	collect_services_edges(of->services, edge_json, &w);
	for (size_t i = 0; i < w.calls.n; i++)
		call_json(&w, &w.calls.v[i]);
	base_json_end(w.list.j, ']');
	base_put(w.list.j, KV("truncated", w.list.truncated));
	api_answer_end(req, w.list.j);
	free(w.calls.v);
}
