// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/edges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "analyse/graph.h"
#include "base/grow.h"
#include "base/hash.h"
#include "region/flows.h"
#include "collect/tables/tables.h"

#define EDGES_MAX    4096u /* maximum number of edges; further edges are left out */
#define SERVICES_MAX 1024u
#define NEW	     0.1  /* weight of the latest value in the moving averages */
#define LEAST	     1e-3 /* requests per moment below which an edge is forgotten */
/* maximum number of calls to one service per request in a synthetic trace */
#define CALLS_MAX 4u

struct edges_end {
	uint64_t key; /* hash of both addresses and ports */
	uint32_t service;
	float requests;
};

struct edges_edge {
	uint32_t caller, callee;
	double now, mean; /* requests per moment */
};

struct edges_service {
	double now, mean; /* requests received by the service */
	double known;	  /* mean of requests from known services, and of the service's own calls */
	double calls;
};

struct collect_edges {
	struct analyse_graph *names;
	struct edges_service *service;
	struct edges_edge *edge; /* sorted between moments */
	struct edges_end *initiated, *accepted;
	size_t services, service_room, edges, edge_room;
	size_t n_initiated, n_accepted, initiated_room, accepted_room;
	bool full;	/* a service was left out in this moment */
	uint64_t drawn; /* number of random numbers drawn so far */
};

struct collect_edges *collect_edges_new(void)
{
	struct collect_edges *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->names = analyse_graph_new();
	if (e->names)
		return e;
	free(e);
	return NULL;
}

void collect_edges_free(struct collect_edges *e)
{
	if (!e)
		return;
	analyse_graph_free(e->names);
	free(e->service);
	free(e->edge);
	free(e->initiated);
	free(e->accepted);
	free(e);
}

/* ---- connections ---- */

/*
 * Returns the service of a workload, without the suffix that marks its connections, or -1 if it has
 * none.
 */
static int64_t service_of(struct collect_edges *e, const struct region_info *workload)
{
	const char *name = workload ? region_label(workload, "service") : "";
	size_t n = act_service_length(name);
	char service[SL_HEADER_LABELS_MAX + 1];
	int64_t number;

	if (!n || n >= sizeof(service) || *name == '(')
		return -1;
	memcpy(service, name, n);
	service[n] = '\0';
	number = analyse_graph_service(e->names, service);
	e->full |= number == -ENOSPC || number >= SERVICES_MAX;
	if (number < 0 || number >= SERVICES_MAX)
		return -1;
	while (e->services <= (size_t)number) {
		if (!BASE_GROW(e->service, e->services, e->service_room))
			return -1;
		e->service[e->services++] = (struct edges_service){0};
	}
	return number;
}

uint64_t collect_edges_key(const struct collect_flow_view *v)
{
	const struct region_flow *f = v->now;
	uint64_t start = 0;

	if (region_is_loopback(f->local))
		start = base_hash(base_hash_text(0, v->target), &f->netns, sizeof(f->netns));
	return region_flow_end_hash(start, f) & ~1ull;
}

static uint32_t get_growth(uint32_t before, uint32_t now)
{
	return now > before ? now - before : 0;
}

/*
 * Returns the number of requests since the previous state or, if there is none, since the
 * connection started. Counts segments with data in the direction that has fewer: a long response
 * takes many segments, a short request only one.
 */
double collect_edges_requests(const struct collect_flow_view *v)
{
	const struct region_flow *f = v->now, *b = v->before;
	uint32_t in = get_growth(b ? b->data_segs_in : 0, f->data_segs_in);
	uint32_t out = get_growth(b ? b->data_segs_out : 0, f->data_segs_out);

	return in < out ? in : out;
}

void collect_edges_flow(struct collect_edges *e, const struct collect_flow_view *v, int64_t now_ns)
{
	bool active = v->now->flags & SL_FLOW_ACTIVE;
	struct edges_end end = {.requests = (float)collect_edges_requests(v)};
	int64_t service;

	/* The two states of an idle connection stay those of its last requests. */
	if (v->stale || v->now->flags & SL_FLOW_LISTENER || !(end.requests > 0) ||
	    now_ns - v->read_ns > COLLECT_FLOW_SILENT_NS)
		return;
	service = service_of(e, v->workload);
	if (service < 0)
		return;
	end.service = (uint32_t)service;
	end.key = collect_edges_key(v);
	if (active && BASE_GROW(e->initiated, e->n_initiated, e->initiated_room))
		e->initiated[e->n_initiated++] = end;
	else if (!active && BASE_GROW(e->accepted, e->n_accepted, e->accepted_room))
		e->accepted[e->n_accepted++] = end;
}

/* ---- means ---- */

static int by_ends(const void *a, const void *b)
{
	const struct edges_edge *x = a, *y = b;

	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	return (x->callee > y->callee) - (x->callee < y->callee);
}

/*
 * Adds to the edge of this pair. Only the first `known` edges are sorted and searched. The other
 * edges need no search, because a pair is new at most once per moment.
 */
static void count_requests(struct collect_edges *e, size_t known, uint32_t caller, uint32_t callee,
			   double requests)
{
	struct edges_edge edge = {.caller = caller, .callee = callee, .now = requests}, *at = NULL;

	if (known)
		at = bsearch(&edge, e->edge, known, sizeof(*e->edge), by_ends);
	if (at)
		at->now += requests;
	else if (e->edges < EDGES_MAX && BASE_GROW(e->edge, e->edges, e->edge_room))
		e->edge[e->edges++] = edge;
}

/*
 * Keeps the initiating ends whose other end is known, and replaces their addresses with caller and
 * callee. The server's count of requests is used.
 */
static void match_ends(struct collect_edges *e)
{
	size_t kept = 0;

	for (size_t i = 0; i < e->n_initiated && e->n_accepted; i++) {
		const struct edges_end *end = &e->initiated[i];
		const struct edges_end *at = bsearch(end, e->accepted, e->n_accepted,
						     sizeof(*e->accepted), base_by_u64);

		if (at && at->service != end->service)
			e->initiated[kept++] = (struct edges_end){
				.key = (uint64_t)end->service << 32 | at->service,
				.requests = at->requests,
			};
	}
	e->n_initiated = kept;
	if (kept)
		qsort(e->initiated, kept, sizeof(*e->initiated), base_by_u64);
}

/*
 * Makes room for names by removing services that no longer serve or call, because a publisher may
 * invent any number of names. The remaining services, and thus the edges, keep their order.
 */
static void forget_unused(struct collect_edges *e)
{
	struct analyse_graph *names = analyse_graph_new();
	uint32_t to[SERVICES_MAX];
	size_t kept = 0;

	for (size_t i = 0; names && i < e->services; i++) {
		const struct edges_service *s = &e->service[i];

		to[i] = UINT32_MAX;
		if (s->mean < LEAST && !(s->known > 0) && !(s->calls > 0))
			continue;
		if (analyse_graph_service(names, analyse_graph_name(e->names, (uint32_t)i)) < 0) {
			analyse_graph_free(names);
			names = NULL;
		}
		to[i] = (uint32_t)kept++;
	}
	if (!names)
		return; /* try again in the next moment */
	for (size_t i = 0; i < e->services; i++)
		if (to[i] != UINT32_MAX)
			e->service[to[i]] = e->service[i];
	for (size_t i = 0; i < e->edges; i++) {
		e->edge[i].caller = to[e->edge[i].caller];
		e->edge[i].callee = to[e->edge[i].callee];
	}
	analyse_graph_free(e->names);
	e->names = names;
	e->services = kept;
	e->full = false;
}

void collect_edges_settle(struct collect_edges *e)
{
	size_t kept = 0, known = e->edges;

	if (e->n_accepted)
		qsort(e->accepted, e->n_accepted, sizeof(*e->accepted), base_by_u64);
	for (size_t i = 0; i < e->n_accepted; i++)
		e->service[e->accepted[i].service].now += (double)e->accepted[i].requests;
	match_ends(e);
	for (size_t i = 0, of; i < e->n_initiated; i += of) {
		double requests = (double)e->initiated[i].requests;

		for (of = 1; i + of < e->n_initiated &&
			     !base_by_u64(&e->initiated[i], &e->initiated[i + of]);
		     of++)
			requests += (double)e->initiated[i + of].requests;
		count_requests(e, known, (uint32_t)(e->initiated[i].key >> 32),
			       (uint32_t)e->initiated[i].key, requests);
	}
	if (e->edges > known)
		qsort(e->edge, e->edges, sizeof(*e->edge), by_ends);
	e->n_initiated = e->n_accepted = 0;
	for (size_t i = 0; i < e->services; i++) {
		struct edges_service *s = &e->service[i];

		s->mean += NEW * (s->now - s->mean);
		s->now = s->known = s->calls = 0;
	}
	for (size_t i = 0; i < e->edges; i++) {
		struct edges_edge *d = &e->edge[i];

		d->mean += NEW * (d->now - d->mean);
		d->now = 0;
		if (d->mean < LEAST)
			continue;
		e->service[d->callee].known += d->mean;
		e->service[d->caller].calls += d->mean;
		e->edge[kept++] = *d;
	}
	e->edges = kept;
	if (e->full)
		forget_unused(e);
}

/* ---- traces ---- */

static double draw_uniform(struct collect_edges *e)
{
	uint64_t n = e->drawn++;

	return (double)(base_hash(0, &n, sizeof(n)) >> 11) * 0x1p-53;
}

/* Returns the requests per moment that no known service sent; for a pure client, its calls. */
static double get_arrivals(const struct edges_service *s)
{
	double served = s->mean > s->known ? s->mean - s->known : 0;

	return s->mean > LEAST ? served : s->calls;
}

/* Draws a service that calls others, weighted by its arrivals, or -1 if there is none. */
static int64_t draw_first(struct collect_edges *e)
{
	double sum = 0, at;
	int64_t last = -1;

	for (size_t i = 0; i < e->services; i++)
		sum += e->service[i].calls > 0 ? get_arrivals(&e->service[i]) : 0;
	at = draw_uniform(e) * sum;
	for (size_t i = 0; i < e->services; i++) {
		if (!(e->service[i].calls > 0 && get_arrivals(&e->service[i]) > 0))
			continue;
		last = (int64_t)i;
		at -= get_arrivals(&e->service[i]);
		if (at < 0)
			break;
	}
	return last;
}

/* Draws the number of calls per request from a distribution with this mean. */
static uint32_t draw_calls(struct collect_edges *e, double mean)
{
	double most = mean < CALLS_MAX ? mean : CALLS_MAX;
	uint32_t n = (uint32_t)most;

	return n + (draw_uniform(e) < most - n);
}

uint32_t collect_edges_trace(struct collect_edges *e,
			     struct collect_edges_span span[COLLECT_EDGES_SPANS])
{
	uint32_t of[COLLECT_EDGES_SPANS], n = 1;
	int64_t root = draw_first(e);

	if (root < 0)
		return 0;
	of[0] = (uint32_t)root;
	span[0].parent = ANALYSE_SPAN_ROOT;
	for (uint32_t i = 0; i < n; i++) {
		const struct edges_service *s = &e->service[of[i]];
		double requests = s->mean > LEAST ? s->mean : s->calls;

		span[i].service = analyse_graph_name(e->names, of[i]);
		for (size_t k = 0; k < e->edges; k++) {
			uint32_t more = e->edge[k].caller == of[i]
						? draw_calls(e, e->edge[k].mean / requests)
						: 0;

			for (; more && n < COLLECT_EDGES_SPANS; more--, n++) {
				of[n] = e->edge[k].callee;
				span[n].parent = i;
			}
		}
	}
	return n;
}
