/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_TRACE_FETCH_H
#define SL_COLLECT_TRACE_FETCH_H

#include "collect/trace/trace.h"

struct collect_trace_kept;
struct collect_trace_pod;
struct collect_trace_request;

typedef void collect_trace_take_fn(struct collect_tracer *t, struct collect_trace_request *r);

struct collect_trace_part {
	struct collect_trace_request *request;
	uint32_t at; /* position in request->bytes */
};

struct collect_trace_request {
	struct collect_trace_request *next;
	struct collect_tracer *t;
	struct collect_trace_pod *pod;
	/* trace that the spans belong to; NULL means find the trace of an error */
	struct collect_trace_kept *kept;
	collect_trace_take_fn *take; /* handles the answer; may set `again` to repeat the request */
	bool again;		     /* repeat the request in the next period */
	uint32_t ring, count, tries;
	uint64_t number, end;
	uint64_t done[4]; /* bitmap of the span lines (at most 255) that are done */
	int status;
	unsigned int parts_left;
	struct collect_trace_part part[2];
	uint32_t length;
	uint64_t bytes[];
};

/* Returns NULL if out of memory, which is counted. */
struct collect_trace_request *collect_trace_request_new(struct collect_tracer *t,
							struct collect_trace_pod *p,
							collect_trace_take_fn *take,
							uint32_t length);
void collect_trace_request_free(struct collect_trace_request *r);
/* Requests r->length bytes at offset of the region. The answer is queued in the tracer. */
void collect_trace_ask(struct collect_trace_request *r, uint64_t offset);
/* Requests lines of a span ring, which may wrap around. */
void collect_trace_ask_lines(struct collect_trace_request *r);

#endif
