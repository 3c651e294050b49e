// SPDX-License-Identifier: Apache-2.0
#include "analyse/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"
#include "base/table.h"

/* a span counts for at most this many of its nearest ancestors */
#define DEPTH_MAX 256u

struct graph_service {
	struct base_node node;	  /* by name */
	uint64_t requests, calls; /* requests to the service; calls from it to other services */
	uint32_t number;
	char name[];
};

struct graph_path {
	struct base_node node; /* by caller and callee */
	uint32_t caller, callee;
	/* how many of the caller's requests, and how many of its calls, reach the callee */
	uint64_t requests, calls;
	uint64_t entries; /* number of times that these requests enter the callee */
};

/* How many times a span that enters a service, or a span below it, enters another service. */
struct graph_reach {
	uint32_t entry, service, entries;
};

struct analyse_graph {
	struct graph_service **service; /* by number */
	struct base_table names, paths;
	struct graph_reach *reach; /* scratch space for the trace being added */
	struct analyse_path *made;
	uint32_t services, reaches, service_room, reach_room;
	uint64_t version, made_version; /* number of changes: so far, and included in .made */
};

struct analyse_graph *analyse_graph_new(void)
{
	struct analyse_graph *g = calloc(1, sizeof(*g));

	if (g && base_table_init(&g->names) && base_table_init(&g->paths))
		return g;
	analyse_graph_free(g);
	return NULL;
}

void analyse_graph_free(struct analyse_graph *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; i < g->services; i++)
		free(g->service[i]);
	BASE_TABLE_EACH(&g->paths, p)
		free(p);
	base_table_free(&g->names);
	base_table_free(&g->paths);
	free(g->service);
	free(g->reach);
	free(g->made);
	free(g);
}

int64_t analyse_graph_service(struct analyse_graph *g, const char *name)
{
	const size_t bytes = strlen(name) + 1;
	const uint64_t hash = base_hash_text(0, name);
	struct graph_service *s = base_table_first(&g->names, hash);

	while (s && strcmp(s->name, name) != 0)
		s = base_table_next(s);
	if (s)
		return s->number;
	if (g->services == ANALYSE_SERVICES_MAX)
		return -ENOSPC;
	if (!BASE_GROW(g->service, g->services, g->service_room) ||
	    !(s = malloc(sizeof(*s) + bytes)))
		return -ENOMEM;
	*s = (struct graph_service){.number = g->services};
	memcpy(s->name, name, bytes);
	base_table_add(&g->names, s, hash);
	g->service[g->services] = s;
	return g->services++;
}

const char *analyse_graph_name(const struct analyse_graph *g, uint32_t service)
{
	return g->service[service]->name;
}

/* Returns NULL if out of memory. */
static struct graph_path *path_of(struct analyse_graph *g, uint32_t caller, uint32_t callee)
{
	const uint64_t hash = base_hash_u64((uint64_t)caller << 32 | callee);
	struct graph_path *p = base_table_first(&g->paths, hash);

	while (p && (p->caller != caller || p->callee != callee))
		p = base_table_next(p);
	if (p || !(p = malloc(sizeof(*p))))
		return p;
	*p = (struct graph_path){.caller = caller, .callee = callee};
	base_table_add(&g->paths, p, hash);
	return p;
}

/* ---- a trace ---- */

/* True for a span that enters a service: its first span, or one below another service. */
static bool enters_service(const struct analyse_span *s, uint32_t n, uint32_t i)
{
	return s[i].parent == ANALYSE_SPAN_ROOT ||
	       (s[i].parent < n && s[s[i].parent].service != s[i].service);
}

/* Records that each ancestor of span i that enters a service reaches the service of span i. */
static int add_reach(struct analyse_graph *g, const struct analyse_span *s, uint32_t n, uint32_t i)
{
	uint32_t up = s[i].parent;

	for (uint32_t depth = 0; up < n && depth < DEPTH_MAX; depth++, up = s[up].parent) {
		if (!enters_service(s, n, up))
			continue;
		if (!BASE_GROW(g->reach, g->reaches, g->reach_room))
			return -ENOMEM;
		g->reach[g->reaches++] =
			(struct graph_reach){.entry = up, .service = s[i].service, .entries = 1};
	}
	return 0;
}

static int by_entry(const void *a, const void *b)
{
	const struct graph_reach *x = a, *y = b;

	if (x->entry != y->entry)
		return x->entry < y->entry ? -1 : 1;
	return x->service < y->service ? -1 : x->service > y->service;
}

/*
 * Counts one request from the entered service to a service that it reaches, and one from its
 * caller's service, which reaches it, too.
 */
static int count_reach(struct analyse_graph *g, const struct analyse_span *s, uint32_t n,
		       const struct graph_reach *r)
{
	uint32_t parent = s[r->entry].parent, service = s[r->entry].service;
	struct graph_path *p = path_of(g, service, r->service);

	if (!p)
		return -ENOMEM;
	p->requests++;
	p->entries += r->entries;
	if (parent >= n || r->service == service)
		return 0;
	p = path_of(g, s[parent].service, r->service);
	if (!p)
		return -ENOMEM;
	p->calls++;
	return 0;
}

/*
 * Counts a span that enters a service: as a request to it, and as a call by its parent's service.
 */
static int count_entry(struct analyse_graph *g, const struct analyse_span *s, uint32_t n,
		       uint32_t i)
{
	struct graph_path *p;

	g->service[s[i].service]->requests++;
	if (s[i].parent >= n)
		return 0;
	g->service[s[s[i].parent].service]->calls++;
	p = path_of(g, s[s[i].parent].service, s[i].service);
	if (!p)
		return -ENOMEM;
	p->calls++;
	return 0;
}

int analyse_graph_add(struct analyse_graph *g, const struct analyse_span *spans, uint32_t n)
{
	uint32_t kept = 0;
	int err = 0;

	g->version++;
	g->reaches = 0;
	for (uint32_t i = 0; i < n && !err; i++) {
		if (spans[i].service >= g->services)
			return -EINVAL;
		if (!enters_service(spans, n, i))
			continue;
		err = count_entry(g, spans, n, i);
		if (!err)
			err = add_reach(g, spans, n, i);
	}
	if (g->reaches)
		qsort(g->reach, g->reaches, sizeof(*g->reach), by_entry);
	for (uint32_t i = 0; i < g->reaches && !err; i++) {
		if (kept && !by_entry(&g->reach[kept - 1], &g->reach[i]))
			g->reach[kept - 1].entries++;
		else
			g->reach[kept++] = g->reach[i];
	}
	for (uint32_t i = 0; i < kept && !err; i++)
		err = count_reach(g, spans, n, &g->reach[i]);
	return err;
}

/* ---- paths ---- */

static int by_callee(const void *a, const void *b)
{
	const struct analyse_path *x = a, *y = b;

	if (x->callee != y->callee)
		return x->callee < y->callee ? -1 : 1;
	return x->caller < y->caller ? -1 : x->caller > y->caller;
}

static float share_of(uint64_t part, uint64_t of)
{
	return of ? (float)part / (float)of : 0;
}

const struct analyse_path *analyse_graph_paths(struct analyse_graph *g, uint32_t *n)
{
	struct analyse_path *made = g->made;
	uint32_t paths = 0;

	*n = (uint32_t)g->paths.count;
	if (g->made_version == g->version)
		return made;
	made = reallocarray(made, *n + 1, sizeof(*made));
	if (!made) {
		*n = 0;
		return NULL;
	}
	g->made = made;
	BASE_TABLE_EACH(&g->paths, at) {
		const struct graph_path *p = (struct graph_path *)at;
		const struct graph_service *s = g->service[p->caller];

		made[paths++] = (struct analyse_path){
			.caller = p->caller,
			.callee = p->callee,
			.client = share_of(p->calls, s->calls),
			.server = share_of(p->requests, s->requests),
			.calls = p->requests ? (float)p->entries / (float)p->requests : 1,
		};
	}
	if (paths)
		qsort(made, paths, sizeof(*made), by_callee);
	g->made_version = g->version;
	return made;
}

uint64_t analyse_graph_version(const struct analyse_graph *g)
{
	return g->version;
}
