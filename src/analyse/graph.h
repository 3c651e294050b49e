/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.h - the call graph between services, learned from traces. For each service and each service
 * that it calls, directly or indirectly, the graph has the share of its requests and of its
 * outgoing calls that reach the other service, and the number of times that one request does.
 * Independent of pods, clocks and files. Not thread-safe.
 */
#ifndef SL_ANALYSE_GRAPH_H
#define SL_ANALYSE_GRAPH_H

#include <stdint.h>

#define ANALYSE_SERVICES_MAX 65536u

struct analyse_graph;

/* A span of one trace. */
struct analyse_span {
	uint32_t service; /* number from analyse_graph_service() */
	/* index in the same trace; ANALYSE_SPAN_ROOT; or ANALYSE_SPAN_LOST if not in the trace */
	uint32_t parent;
};
#define ANALYSE_SPAN_ROOT UINT32_MAX
#define ANALYSE_SPAN_LOST (UINT32_MAX - 1)

/* A service and another one that its requests reach, directly or indirectly. */
struct analyse_path {
	uint32_t caller, callee;
	float client; /* share of the caller's outgoing calls that reach the callee */
	float server; /* share of the requests to the caller that reach the callee */
	float calls;  /* number of calls to the callee per such request; >= 1 */
};

struct analyse_graph *analyse_graph_new(void); /* returns NULL if memory is exhausted */
void analyse_graph_free(struct analyse_graph *g);
/*
 * Returns the number of a service, which is added if new; -ENOMEM; or -ENOSPC beyond
 * ANALYSE_SERVICES_MAX.
 */
int64_t analyse_graph_service(struct analyse_graph *g, const char *name);
/* Returns the name of a service; valid until the graph is freed. */
const char *analyse_graph_name(const struct analyse_graph *g, uint32_t service);
/*
 * Adds a trace. Leaves out cycles, and spans whose parents are lost. After -ENOMEM, part of the
 * trace may have been added.
 */
int analyse_graph_add(struct analyse_graph *g, const struct analyse_span *spans, uint32_t n);
/*
 * Returns all paths, sorted by callee and caller, valid until the graph changes; *n is 0 without
 * traces. Returns NULL with *n 0 if out of memory.
 */
const struct analyse_path *analyse_graph_paths(struct analyse_graph *g, uint32_t *n);
/* Returns a number that changes whenever the paths do. */
uint64_t analyse_graph_version(const struct analyse_graph *g);

#endif
