// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "api/map.h"
#include "base/grow.h"

#define TRACES_MAX 64u
#define SPANS_MAX  4096u /* maximum number of spans per trace */
#define CALLS_MAX  1024u
#define RECENT_NS  600000000000ll

struct map_trace_id {
	uint64_t hi, lo;
};

struct map_span {
	uint64_t id, parent, instance, duration_ns;
};

struct map_walk {
	int64_t now_ns;
	struct map_trace_id id[TRACES_MAX];
	size_t ids;
	struct map_span *span; /* spans of one trace, sorted by ID */
	size_t spans, room;
};

static bool take_id(const struct collect_trace *t, void *arg)
{
	struct map_walk *w = arg;

	if (w->now_ns - (int64_t)t->start_ns < RECENT_NS)
		w->id[w->ids++] = (struct map_trace_id){t->trace_hi, t->trace_lo};
	return w->ids < TRACES_MAX;
}

/* Runs under the tracer's lock, so it only copies the spans. */
static void take_spans(const struct collect_trace *t, void *arg)
{
	struct map_walk *w = arg;

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

struct api_map_call *api_map_find(const struct api_map_calls *c,
				  const struct collect_service_name *from,
				  const struct collect_service_name *to)
{
	for (size_t i = 0; i < c->n; i++)
		if (same_name(&c->v[i].from, from) && same_name(&c->v[i].to, to))
			return &c->v[i];
	return NULL;
}

static void count_call(struct api_map_calls *to, struct collect_services *s,
		       const struct map_span *caller, const struct map_span *callee)
{
	struct collect_service_name a, b;
	struct api_map_call *at;
	double seconds = (double)callee->duration_ns * 1e-9;

	/* Calls within a service are not on the map. */
	if (caller->instance == callee->instance ||
	    !collect_services_name(s, caller->instance, &a) ||
	    !collect_services_name(s, callee->instance, &b) || same_name(&a, &b))
		return;
	at = api_map_find(to, &a, &b);
	if (!at) {
		if (to->n == CALLS_MAX || !BASE_GROW(to->v, to->n, to->room))
			return;
		at = &to->v[to->n++];
		*at = (struct api_map_call){.from = a, .to = b};
	}
	collect_latency_spread(&at->latency, seconds, seconds, 1);
}

void api_map_traces(struct api_map_calls *to, struct collect_services *s,
		    struct collect_tracer *tracer, int64_t now_ns)
{
	struct map_walk w = {.now_ns = now_ns};

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

void api_map_calls_free(struct api_map_calls *c)
{
	free(c->v);
}
