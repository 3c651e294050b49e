/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_TRACE_PODS_H
#define SL_COLLECT_TRACE_PODS_H

#include "collect/read/hash.h"
#include "collect/trace/fetch.h"

struct collect_trace_ring {
	struct region_span_head head;
	bool known;
	uint64_t roots;	     /* number of the next root line to take */
	uint64_t index;	     /* number of the index line to read again */
	uint32_t entry;	     /* entries of that line taken so far */
	uint32_t lines;	     /* lines of the last of these taken so far: it may grow */
	uint64_t lines_seen; /* head.lines when the index was last read */
	bool roots_busy, index_busy;
	uint8_t roots_tries, index_tries;
};

struct collect_trace_pod {
	struct collect_node node;
	struct collect_trace_pod *next;
	unsigned int refs; /* by requests and roots in progress, and by the list */
	uint64_t instance, mark;
	uint64_t key; /* of its service, for act/trace.h */
	struct region_info *info;
	const char *service, *pod; /* in info */
	double score, suspicion;   /* as decide.c last read them, ... */
	uint64_t score_tick;	   /* ... in this tick */
	bool gone, bad, heads_busy;
	uint32_t rings, rings_used;
	struct collect_trace_ring *ring;
	struct region_schema schema;
	uint64_t schema_used;
	bool schema_busy, schema_wanted;
};

void collect_trace_pod_put(struct collect_trace_pod *p);
/* NULL: not known. */
struct collect_trace_pod *collect_trace_pod_find(const struct collect_tracer *t, uint64_t instance);
/* Finds new pods and releases those that are gone. */
void collect_trace_pods_look(struct collect_tracer *t);
/* Requests the schema, which has missing names. */
void collect_trace_schema_ask(struct collect_tracer *t, struct collect_trace_pod *p);
/* NULL: not known yet, try again; "?" after some tries. Valid as long as the pod. */
const char *collect_trace_name(struct collect_tracer *t, struct collect_trace_pod *p, uint32_t id,
			       uint32_t tries);
collect_trace_take_fn collect_trace_take_hot;
collect_trace_take_fn collect_trace_take_schema;

#endif
