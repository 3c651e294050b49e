/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.h - which service calls which, learned from traces: for each service and each service below
 * it, the share of its requests and of its outgoing calls that pass through the other, and how
 * often one request does. Knows no pods, clocks or files. Not thread-safe.
 */
#ifndef SL_ANALYSE_GRAPH_H
#define SL_ANALYSE_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#define ANALYSE_SERVICES_MAX 65536u

struct analyse_graph;

/* A span of one trace. */
struct analyse_span {
	uint32_t service; /* of analyse_graph_service() */
	uint32_t parent;  /* index in the same trace; ANALYSE_SPAN_ROOT, or _LOST: not in it */
};
#define ANALYSE_SPAN_ROOT UINT32_MAX
#define ANALYSE_SPAN_LOST (UINT32_MAX - 1)

/* A service and one that its requests reach, directly or through others. */
struct analyse_path {
	uint32_t caller, callee;
	float client; /* share of the caller's outgoing calls that pass through the callee */
	float server; /* share of the requests to the caller that do */
	float calls;  /* of the callee in one such request; >= 1 */
};

struct analyse_graph *analyse_graph_new(void); /* NULL: out of memory */
void analyse_graph_free(struct analyse_graph *g);
/* The number of a service, made if it is new. -ENOMEM, -ENOSPC beyond ANALYSE_SERVICES_MAX. */
int64_t analyse_graph_service(struct analyse_graph *g, const char *name);
/* Of a number of analyse_graph_service(); valid until the graph is freed. */
const char *analyse_graph_name(const struct analyse_graph *g, uint32_t service);
/*
 * Adds a trace. Cycles and spans whose parents are lost are left out. -ENOMEM: the trace is not
 * added, or only in part.
 */
int analyse_graph_add(struct analyse_graph *g, const struct analyse_span *spans, uint32_t n);
/*
 * All paths, by callee and caller. They stay valid until the graph changes; *n 0 without traces.
 * NULL with *n 0: out of memory.
 */
const struct analyse_path *analyse_graph_paths(struct analyse_graph *g, uint32_t *n);

#endif
