// SPDX-License-Identifier: Apache-2.0
#include "collect/judge/edges.h"

#include <stdlib.h>
#include <string.h>

#include "act/explain.h"
#include "analyse/graph.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/table.h"
#include "region/flows.h"
#include "collect/tables/tables.h"

#define EDGES_MAX    4096u /* maximum number of edges; further edges are left out */
#define SERVICES_MAX 1024u
#define NEW	     0.1  /* weight of the latest value in the moving averages */
#define LEAST	     1e-3 /* requests per moment below which an edge is forgotten */
/* maximum number of calls to one service per request in a synthetic trace */
#define CALLS_MAX 4u

struct edges_service {
	struct base_node node;	    /* by namespace and name */
	double now, mean;	    /* requests received in this moment, and their moving average */
	double known;		    /* average number of requests from known services */
	double calls;		    /* average number of requests to known services */
	struct edges_edge *out;	    /* edges to the services that it calls, as of the last moment */
	const char *kube_namespace; /* points behind the name */
	char name[];
};

struct edges_edge {
	struct base_node node; /* by caller and callee */
	struct edges_service *caller, *callee;
	double now, mean;	 /* requests per moment */
	struct edges_edge *next; /* in caller->out */
};

struct edges_end {
	uint64_t key; /* hash of both addresses and ports */
	struct edges_service *service;
	double requests;
};

struct collect_edges {
	struct base_table services, edges;
	struct edges_end *initiated, *accepted;
	size_t n_initiated, n_accepted, initiated_room, accepted_room;
	uint64_t drawn; /* number of random numbers drawn so far */
};

struct collect_edges *collect_edges_new(void)
{
	struct collect_edges *e = calloc(1, sizeof(*e));

	if (e && base_table_init(&e->services) && base_table_init(&e->edges))
		return e;
	collect_edges_free(e);
	return NULL;
}

void collect_edges_free(struct collect_edges *e)
{
	if (!e)
		return;
	BASE_TABLE_EACH(&e->services, s)
		free(s);
	BASE_TABLE_EACH(&e->edges, d)
		free(d);
	base_table_free(&e->services);
	base_table_free(&e->edges);
	free(e->initiated);
	free(e->accepted);
	free(e);
}

/* ---- connections ---- */

/*
 * Returns the service of a workload, without the suffix that marks its connections, or NULL if it
 * has none, or there is no room for it.
 */
static struct edges_service *service_of(struct collect_edges *e, const struct region_info *workload)
{
	const char *name = workload ? region_label(workload, "service") : "";
	const char *space = workload ? region_label(workload, "namespace") : "";
	const size_t n = act_service_length(name);
	const uint64_t hash = base_hash_text(base_hash(0, name, n), space);
	struct edges_service *s = base_table_first(&e->services, hash);

	if (!n || *name == '(')
		return NULL;
	while (s && (strncmp(s->name, name, n) != 0 || s->name[n] ||
		     strcmp(s->kube_namespace, space) != 0))
		s = base_table_next(s);
	if (s || e->services.count == SERVICES_MAX ||
	    !(s = calloc(1, sizeof(*s) + n + 1 + strlen(space) + 1)))
		return s;
	memcpy(s->name, name, n);
	s->kube_namespace = strcpy(s->name + n + 1, space);
	base_table_add(&e->services, s, hash);
	return s;
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
	struct edges_end end = {.requests = collect_edges_requests(v)};

	/* The two states of an idle connection stay those of its last requests. */
	if (v->stale || v->now->flags & SL_FLOW_LISTENER || !(end.requests > 0) ||
	    now_ns - v->read_ns > COLLECT_FLOW_SILENT_NS)
		return;
	end.service = service_of(e, v->workload);
	if (!end.service)
		return;
	end.key = collect_edges_key(v);
	if (active && BASE_GROW(e->initiated, e->n_initiated, e->initiated_room))
		e->initiated[e->n_initiated++] = end;
	else if (!active && BASE_GROW(e->accepted, e->n_accepted, e->accepted_room))
		e->accepted[e->n_accepted++] = end;
}

/* ---- means ---- */

static void count_requests(struct collect_edges *e, struct edges_service *caller,
			   struct edges_service *callee, double requests)
{
	const struct edges_service *const ends[] = {caller, callee};
	const uint64_t hash = base_hash(0, ends, sizeof(ends));
	struct edges_edge *d = base_table_first(&e->edges, hash);

	while (d && (d->caller != caller || d->callee != callee))
		d = base_table_next(d);
	if (!d) {
		d = e->edges.count < EDGES_MAX ? calloc(1, sizeof(*d)) : NULL;
		if (!d)
			return;
		d->caller = caller;
		d->callee = callee;
		base_table_add(&e->edges, d, hash);
	}
	d->now += requests;
}

/*
 * Matches the two ends of each connection, and adds its requests to the edge between their
 * services. The accepting end says how many requests there were.
 */
static void match_ends(struct collect_edges *e)
{
	if (e->n_accepted)
		qsort(e->accepted, e->n_accepted, sizeof(*e->accepted), base_by_u64);
	for (size_t i = 0; i < e->n_accepted; i++)
		e->accepted[i].service->now += e->accepted[i].requests;
	for (size_t i = 0; i < e->n_initiated && e->n_accepted; i++) {
		const struct edges_end *end = &e->initiated[i];
		const struct edges_end *at = bsearch(end, e->accepted, e->n_accepted,
						     sizeof(*e->accepted), base_by_u64);

		if (at && at->service != end->service)
			count_requests(e, end->service, at->service, at->requests);
	}
	e->n_initiated = e->n_accepted = 0;
}

/*
 * Updates the averages. Forgets edges and services without requests, because a publisher may invent
 * any number of names.
 */
void collect_edges_settle(struct collect_edges *e)
{
	match_ends(e);
	BASE_TABLE_EACH(&e->services, n) {
		struct edges_service *s = (struct edges_service *)n;

		s->mean += NEW * (s->now - s->mean);
		s->now = s->known = s->calls = 0;
		s->out = NULL;
	}
	BASE_TABLE_EACH(&e->edges, n) {
		struct edges_edge *d = (struct edges_edge *)n;

		d->mean += NEW * (d->now - d->mean);
		d->now = 0;
		if (d->mean < LEAST) {
			base_table_remove(&e->edges, d);
			free(d);
			continue;
		}
		d->callee->known += d->mean;
		d->caller->calls += d->mean;
		d->next = d->caller->out;
		d->caller->out = d;
	}
	BASE_TABLE_EACH(&e->services, n) {
		struct edges_service *s = (struct edges_service *)n;

		if (s->mean >= LEAST || s->known > 0 || s->calls > 0)
			continue;
		base_table_remove(&e->services, s);
		free(s);
	}
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

/*
 * Draws a service that calls others, with a probability proportional to its arrivals. Returns NULL
 * if there is none.
 */
static const struct edges_service *draw_first(struct collect_edges *e)
{
	const struct edges_service *drawn = NULL;
	double sum = 0;

	/* Reservoir sampling: a service replaces the drawn one with probability arrivals / sum. */
	BASE_TABLE_EACH(&e->services, n) {
		const struct edges_service *s = (struct edges_service *)n;
		double arrivals = s->calls > 0 ? get_arrivals(s) : 0;

		sum += arrivals;
		if (arrivals > 0 && draw_uniform(e) * sum < arrivals)
			drawn = s;
	}
	return drawn;
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
	const struct edges_service *of[COLLECT_EDGES_SPANS] = {draw_first(e)};
	uint32_t n = 1;

	if (!of[0])
		return 0;
	span[0].parent = ANALYSE_SPAN_ROOT;
	for (uint32_t i = 0; i < n; i++) {
		const double requests = of[i]->mean > LEAST ? of[i]->mean : of[i]->calls;

		span[i].service = of[i]->name;
		span[i].owner = of[i]->kube_namespace;
		span[i].kernel = true;
		for (const struct edges_edge *d = of[i]->out; d; d = d->next)
			for (uint32_t more = draw_calls(e, d->mean / requests);
			     more && n < COLLECT_EDGES_SPANS; more--, n++) {
				of[n] = d->callee;
				span[n].parent = i;
			}
	}
	return n;
}
