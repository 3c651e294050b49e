/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edges.h - which service calls which, from the kernel's connections, for hosts whose services keep
 * no traces. The end that one workload initiated and the end that another accepted are one
 * connection; a request is a segment with data in
 * each direction. Requests per edge are averaged, and traces
 * are made up that have these means, each call independent of the others: a graph of calls learns
 * from them as from traces. One thread.
 */
#ifndef SL_COLLECT_JUDGE_EDGES_H
#define SL_COLLECT_JUDGE_EDGES_H

#include "collect/read/collect.h"
#include "collect/tables/tables.h"

#define COLLECT_EDGES_SPANS 64u /* of a trace that is made up, at most */

struct collect_edges;

struct collect_edges *collect_edges_new(void); /* NULL: out of memory */
void collect_edges_free(struct collect_edges *e);
/*
 * One of the connections of a moment. What two hosts name alike is one service; without an owner,
 * or beyond the memory, it is left out.
 */
void collect_edges_flow(struct collect_edges *e, const struct collect_flow_view *v);
/* All of them were taken. */
void collect_edges_settle(struct collect_edges *e);

/*
 * The same for both ends of a connection. Loopback addresses are those of a host and a network
 * namespace.
 */
uint64_t collect_edges_key(const struct collect_flow_view *v);
/* Requests since the state before. */
double collect_edges_requests(const struct collect_flow_view *v);

struct collect_edges_span {
	const char *service;
	uint32_t parent; /* ANALYSE_SPAN_ROOT, or an earlier one */
};
/* Makes up a trace; its number of spans, 0: no service calls another. */
uint32_t collect_edges_trace(struct collect_edges *e,
			     struct collect_edges_span span[COLLECT_EDGES_SPANS]);

#endif
