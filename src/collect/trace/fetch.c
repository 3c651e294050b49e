// SPDX-License-Identifier: Apache-2.0
/* fetch.c - the tracer's requests for parts of regions, answered by workers */
#include <stdlib.h>
#include <string.h>

#include "collect/trace/internal.h"

void collect_trace_request_free(struct collect_trace_request *r)
{
	if (r->kept)
		r->kept->outstanding--;
	if (r->take == collect_trace_take_spans) {
		r->t->asked -= r->length;
		r->pod->tenant->asked -= r->length;
	}
	collect_trace_pod_put(r->pod);
	free(r);
}

/* Called on a worker. */
static void take_answer(void *arg, int status, const void *bytes, uint32_t length, int64_t ns)
{
	struct collect_trace_part *part = arg;
	struct collect_trace_request *r = part->request;
	struct collect_tracer *t = r->t;

	(void)ns;
	if (status)
		__atomic_store_n(&r->status, status, __ATOMIC_RELAXED);
	else
		memcpy((uint8_t *)r->bytes + part->at, bytes, length);
	/* Release and acquire: the last part to arrive hands over the bytes copied by all parts. */
	if (__atomic_sub_fetch(&r->parts_left, 1, __ATOMIC_ACQ_REL))
		return;
	pthread_mutex_lock(&t->queue_lock);
	r->next = t->queue;
	t->queue = r;
	pthread_cond_signal(&t->queue_filled);
	pthread_mutex_unlock(&t->queue_lock);
}

struct collect_trace_request *collect_trace_request_new(struct collect_tracer *t,
							struct collect_trace_pod *p,
							collect_trace_take_fn *take,
							uint32_t length)
{
	struct collect_trace_request *r = malloc(sizeof(*r) + length);

	if (!r) {
		t->stats.lost_memory++;
		return NULL;
	}
	*r = (struct collect_trace_request){.t = t, .pod = p, .take = take, .length = length};
	p->refs++;
	return r;
}

/*
 * Requests length bytes at offset of the region; they are stored at position `at` of the request.
 */
static void ask_part(struct collect_trace_request *r, unsigned int part, uint64_t offset,
		     uint32_t at, uint32_t length)
{
	int error;

	r->part[part] = (struct collect_trace_part){r, at};
	error = collect_collector_fetch(r->t->c, r->pod->instance, offset, length, take_answer,
					&r->part[part]);
	if (error)
		take_answer(&r->part[part], error, NULL, length, 0);
}

void collect_trace_ask(struct collect_trace_request *r, uint64_t offset)
{
	r->status = 0;
	r->parts_left = 1;
	ask_part(r, 0, offset, 0, r->length);
}

void collect_trace_ask_lines(struct collect_trace_request *r)
{
	const struct region_info *info = r->pod->info;
	uint32_t first = info->span_lines - (uint32_t)(r->number % info->span_lines);
	uint64_t second = region_span_line_at(info, r->ring, r->number + first);

	if (first >= r->count) {
		collect_trace_ask(r, region_span_line_at(info, r->ring, r->number));
		return;
	}
	r->status = 0;
	r->parts_left = 2;
	ask_part(r, 0, region_span_line_at(info, r->ring, r->number), 0, first * SL_LINE_SIZE);
	ask_part(r, 1, second, first * SL_LINE_SIZE, (r->count - first) * SL_LINE_SIZE);
}
