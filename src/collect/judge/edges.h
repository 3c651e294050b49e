/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edges.h - derives a graph of service calls from the kernel's connections, for hosts whose
 * services keep no traces. The end initiated by one workload and the end accepted by another form
 * one connection; a segment with data in each direction counts as one request. Requests per edge
 * are averaged, and synthetic traces with these means are drawn, each call independently of the
 * others, so that a call graph can learn from them as from real traces. Not thread-safe.
 */
#ifndef SL_COLLECT_JUDGE_EDGES_H
#define SL_COLLECT_JUDGE_EDGES_H

#include "collect/read/collect.h"
#include "collect/tables/tables.h"

#define COLLECT_EDGES_SPANS 64u /* maximum spans of a synthetic trace */

struct collect_edges;

struct collect_edges *collect_edges_new(void); /* returns NULL if out of memory */
void collect_edges_free(struct collect_edges *e);
/*
 * Adds one of the connections that are open at one point in time, unless it is idle. Services of
 * the same name and namespace on two hosts are one service. A connection without an owner, or
 * beyond the memory limit, is left out.
 */
void collect_edges_flow(struct collect_edges *e, const struct collect_flow_view *v, int64_t now_ns);
/* Called when all connections of this point in time have been added. */
void collect_edges_settle(struct collect_edges *e);

/*
 * Returns the same key for both ends of a connection. Loopback addresses are specific to a host and
 * a network namespace.
 */
uint64_t collect_edges_key(const struct collect_flow_view *v);
/* Returns the number of requests since the previous state. */
double collect_edges_requests(const struct collect_flow_view *v);

struct collect_edges_span {
	const char *service, *owner; /* owner: as in act_pod_name */
	bool kernel;		     /* the name is from the kernel, not from a publisher */
	uint32_t parent;	     /* ANALYSE_SPAN_ROOT, or the index of an earlier span */
};
/* Draws a synthetic trace. Returns its number of spans; 0 if no service calls another. */
uint32_t collect_edges_trace(struct collect_edges *e,
			     struct collect_edges_span span[COLLECT_EDGES_SPANS]);

#endif
