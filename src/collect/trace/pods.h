/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_TRACE_PODS_H
#define SL_COLLECT_TRACE_PODS_H

#include "base/table.h"
#include "collect/trace/fetch.h"

struct collect_trace_ring {
	struct region_span_head head;
	bool known;
	uint64_t roots; /* number of the next root line to take */
	uint64_t index; /* number of entries of that line already processed */
	/* number of lines processed for the last of these entries, which may still grow */
	uint32_t entry;
	/* lines of the last of these entries taken so far; the entry may still grow */
	uint32_t lines;
	uint64_t lines_seen; /* head.lines when the index was last read */
	bool roots_busy, index_busy;
	uint8_t roots_tries, index_tries;
};

struct collect_trace_pod {
	struct base_node node;
	struct collect_trace_pod *next;
	unsigned int refs; /* references of the list, of requests and of pending roots */
	uint64_t instance, mark;
	uint64_t key; /* key of the pod's service for act/trace.h */
	struct region_info *info;
	const char *service, *pod; /* point into info */
	double score, suspicion;   /* score and suspicion as last read by decide.c */
	uint64_t score_tick;	   /* tick of that reading */
	bool gone, bad, heads_busy;
	uint32_t rings, rings_used;
	struct collect_trace_ring *ring;
	struct region_schema schema;
	uint64_t schema_used;
	bool schema_busy, schema_wanted;
};

void collect_trace_pod_put(struct collect_trace_pod *p);
/* Returns NULL if the pod is unknown. */
struct collect_trace_pod *collect_trace_pod_find(const struct collect_tracer *t, uint64_t instance);
/* Finds new pods and releases the pods that are gone. */
void collect_trace_pods_look(struct collect_tracer *t);
/* Requests the schema again because names are missing. */
void collect_trace_schema_ask(struct collect_tracer *t, struct collect_trace_pod *p);
/*
 * Returns the name with this id, NULL if it is not known yet (try again), or "?" after several
 * tries. The name is valid as long as the pod.
 */
const char *collect_trace_name(struct collect_tracer *t, struct collect_trace_pod *p, uint32_t id,
			       uint32_t tries);
collect_trace_take_fn collect_trace_take_hot;
collect_trace_take_fn collect_trace_take_schema;

#endif
