// SPDX-License-Identifier: Apache-2.0
/*
 * test_trace_kept.c - whatever a publisher claims about its spans, kept traces and counts stay
 * consistent.
 */
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "base/base.h"
#include "collect/trace/internal.h"

/* Adds spans in the same form as span_new(): with their text in one piece. */
static void add(struct collect_tracer *t, struct collect_trace_kept *k, uint64_t id,
		uint64_t parent, const char *name)
{
	const size_t bytes = sizeof(struct collect_trace_span) + strlen(name) + 1;
	struct collect_trace_span *s = malloc(bytes);

	assert_non_null(s);
	*s = (struct collect_trace_span){
		.next = (struct collect_trace_span *)k->t.first,
		.instance = 7,
		.o.span_id = id,
		.o.parent_id = parent,
		.o.start_ns = 1000,
		.duration_ns = 9,
		.o.name = strcpy((char *)(s + 1), name),
		.service = "shop",
		.bytes = bytes,
	};
	k->t.first = s;
	k->t.spans++;
	k->untidy = true;
	k->bytes += bytes;
	t->stats.held_bytes += bytes;
	t->stats.spans_kept++;
}

/*
 * The same span twice, once as the root and once below another span: the publisher chooses which
 * one stays.
 */
static void a_root_whose_twin_is_none_is_root_no_more(void **state)
{
	struct collect_tracer *t = calloc(1, sizeof(*t));
	struct collect_trace_kept k = {.t = {.root = "", .service = ""}};

	(void)state;
	assert_non_null(t);
	add(t, &k, 1, 0, "the root");
	collect_trace_kept_tidy(t, &k);
	assert_string_equal(k.t.root, "the root");
	add(t, &k, 1, 5, "its twin");
	collect_trace_kept_tidy(t, &k);
	assert_int_equal(k.t.spans, 1);
	assert_int_equal(t->stats.held_bytes, k.t.first->bytes);
	if (!k.t.first->o.parent_id) { /* depends on qsort() */
		assert_ptr_equal(k.t.root, k.t.first->o.name);
	} else {
		assert_string_equal(k.t.root, "");
		assert_string_equal(k.t.service, "");
	}
	/* A root that arrives last is still a root. */
	add(t, &k, 2, 0, "another");
	collect_trace_kept_tidy(t, &k);
	assert_int_equal(strcmp(k.t.root, "another") && strcmp(k.t.root, "the root"), 0);
	assert_int_equal(k.t.spans, 2);
	while (k.t.first) {
		struct collect_trace_span *s = (struct collect_trace_span *)k.t.first;

		k.t.first = s->next;
		free(s);
	}
	free(t);
}

/* The two halves of each id are equal, so all hashes are 0. */
static void traces_of_one_hash_are_bounded(void **state)
{
	struct collect_tracer *t = calloc(1, sizeof(*t));

	(void)state;
	assert_non_null(t);
	t->o.memory = 1 << 30;
	t->o.linger_ns = 1000000000;
	assert_true(base_table_init(&t->by_id));
	pthread_mutex_init(&t->lock, NULL);
	for (uint64_t id = 1; id <= 1000; id++)
		collect_trace_keep(t, id, id, ACT_TRACE_ERROR, NULL);
	assert_in_range(t->stats.held, 1, 16);
	assert_int_equal(t->stats.held + t->stats.lost_memory, 1000);
	/* Others are kept. */
	collect_trace_keep(t, 1, 2, ACT_TRACE_ERROR, NULL);
	assert_non_null(collect_trace_kept_find(t, 1, 2));
	collect_trace_kept_free_all(t);
	base_table_free(&t->by_id);
	free(t);
}

/* Answers a READ of the head of the pod's only ring. */
static void take_head(struct collect_tracer *t, struct collect_trace_pod *p, uint64_t lines)
{
	struct collect_trace_request *r = calloc(1, sizeof(*r) + SL_LINE_SIZE);

	assert_non_null(r);
	r->pod = p;
	r->count = 1;
	r->bytes[SL_SPAN_HEAD_LINES] = lines;
	r->bytes[SL_SPAN_HEAD_SPANS] = lines / 4;
	r->bytes[SL_SPAN_HEAD_ROOTS] = lines / 8;
	r->bytes[SL_SPAN_HEAD_INDEX] = lines / 16;
	r->bytes[7] = sl_line_check(r->bytes);
	collect_trace_take_heads(t, r);
	free(r);
}

static void only_what_an_old_pod_still_holds_is_published(void **state)
{
	enum { LINES = SL_SPAN_RING_MIN, WRITTEN = 1000 * LINES };
	const struct collect_trace_ring busy = {.roots_busy = true, .index_busy = true};
	struct collect_tracer *t = calloc(1, sizeof(*t));
	struct collect_trace_ring ring = busy; /* requests nothing */
	struct region_info info = {.span_lines = LINES,
				   .start_ns = base_realtime_ns() - 3600000000000};
	struct collect_trace_tenant tenant = {0};
	struct collect_trace_pod p = {.tenant = &tenant, .ring = &ring, .rings = 1, .info = &info};

	(void)state;
	assert_non_null(t);
	take_head(t, &p, WRITTEN);
	assert_int_equal(t->stats.lines_published, LINES);
	assert_int_equal(t->stats.spans_published, LINES / 4);
	assert_int_equal(ring.roots, WRITTEN / 8 - SL_SPAN_ROOTS(LINES));
	assert_int_equal(ring.index, WRITTEN / 16 - SL_SPAN_INDEX(LINES));
	take_head(t, &p, WRITTEN + 3 * LINES);
	assert_int_equal(t->stats.lines_published, 4 * LINES);
	assert_int_equal(t->stats.spans_published, LINES);
	/* A new pod has no past, even if it was found after its ring was overrun. */
	t->stats = (struct collect_tracer_stats){0};
	ring = busy;
	info.start_ns = base_realtime_ns();
	take_head(t, &p, WRITTEN);
	assert_int_equal(t->stats.lines_published, WRITTEN);
	assert_int_equal(t->stats.spans_published, WRITTEN / 4);
	assert_int_equal(ring.roots, 0);
	free(t);
}

static void a_pod_raises_the_share_by_no_more_than_its_ring(void **state)
{
	enum { LINES = SL_SPAN_RING_MIN, AHEAD = 256 << 10 };
	const struct collect_trace_ring busy = {.roots_busy = true, .index_busy = true};
	struct collect_tracer *t = calloc(1, sizeof(*t));
	struct collect_trace_ring ring = busy;
	struct region_info info = {.span_lines = LINES, .start_ns = base_realtime_ns()};
	struct collect_trace_tenant tenant = {0};
	struct collect_trace_pod p = {.tenant = &tenant, .ring = &ring, .rings = 1, .info = &info};

	(void)state;
	assert_non_null(t);
	t->o.bytes = 0.5;
	for (uint64_t n = 1; n <= 3; n++) {
		const uint64_t most = AHEAD + n * LINES / 2 * SL_LINE_SIZE;

		take_head(t, &p, n * 1000 * LINES);
		assert_true(collect_trace_may_read_spans(t, &p, most));
		assert_false(collect_trace_may_read_spans(t, &p, most + 1));
	}
	assert_int_equal(t->stats.lines_published, 3000 * LINES);
	/* No pod can have written that much by the first READ. */
	ring = busy;
	take_head(t, &p, 1ull << 41);
	assert_true(p.bad);
	assert_int_equal(t->stats.lines_published, 3000 * LINES);
	free(t);
}

static uint64_t asked_of[3]; /* bytes by instance */

int __wrap_collect_collector_fetch(struct collect_collector *c, uint64_t instance, uint64_t offset,
				   uint32_t length, collect_fetch_fn *fn, void *arg);
int __wrap_collect_collector_fetch(struct collect_collector *c, uint64_t instance, uint64_t offset,
				   uint32_t length, collect_fetch_fn *fn, void *arg)
{
	struct collect_trace_part *part = arg;

	(void)c, (void)offset, (void)fn;
	asked_of[instance] += length;
	collect_trace_request_free(part->request); /* never answered */
	return 0;
}

/* Publishes as many lines as the ring has, and answers the READs that follow. */
static void publish_ring(struct collect_tracer *t, struct collect_trace_pod *p)
{
	struct collect_trace_ring *g = p->ring;

	take_head(t, p, g->head.lines + p->info->span_lines);
	g->roots = g->head.roots;
	g->index = g->head.index;
	g->roots_busy = g->index_busy = false;
}

/* The index of many small traces costs more than their share. */
static void roots_of_a_tenant_leave_others_their_share(void **state)
{
	enum { LINES = SL_SPAN_RING_MIN };
	struct collect_tracer *t = calloc(1, sizeof(*t));
	struct collect_trace_ring ring[2] = {{.roots = 0}};
	struct region_info info = {.span_lines = LINES, .start_ns = base_realtime_ns()};
	struct collect_trace_tenant tenant[2] = {{.refs = 1}, {.refs = 1}};
	struct collect_trace_pod p[2];

	(void)state;
	assert_non_null(t);
	assert_true(base_table_init(&t->tenants));
	t->o.bytes = 0.1;
	for (uint32_t i = 0; i < 2; i++) {
		p[i] = (struct collect_trace_pod){.refs = 1,
						  .instance = 1 + i,
						  .tenant = &tenant[i],
						  .ring = &ring[i],
						  .rings = 1,
						  .info = &info};
		base_table_add(&t->tenants, &tenant[i], i);
	}
	for (int i = 0; i < 1000; i++)
		publish_ring(t, &p[0]);
	asked_of[2] = 0;
	for (int i = 0; i < 100; i++)
		publish_ring(t, &p[1]);
	/* Its roots and its index are an eighth and a sixteenth of its lines. */
	assert_true(asked_of[2] >= 100ull * LINES * SL_LINE_SIZE / 11);
	base_table_free(&t->tenants);
	free(t);
}

static void pending_roots_of_a_tenant_leave_room(void **state)
{
	struct collect_tracer *t = calloc(1, sizeof(*t));
	struct collect_trace_request *r = calloc(1, sizeof(*r) + SL_LINE_SIZE);
	struct collect_trace_tenant tenant[2] = {{.refs = 1}, {.refs = 1}};
	struct collect_trace_ring ring[2] = {{.roots = 0}};
	struct collect_trace_pod p[2];

	(void)state;
	assert_non_null(t);
	assert_non_null(r);
	for (uint32_t i = 0; i < 2; i++) {
		p[i] = (struct collect_trace_pod){
			.refs = 1, .tenant = &tenant[i], .ring = &ring[i]};
		region_schema_init(&p[i].schema);
	}
	for (uint32_t n = 0; n <= TRACE_PENDING; n++) {
		r->pod = &p[n == TRACE_PENDING];
		r->number = r->pod->ring->roots;
		r->count = 1;
		memset(r->bytes, 0, SL_LINE_SIZE);
		r->bytes[SL_SPAN_ROOT_TAG] = SL_SPAN_TAG_ROOT(r->number);
		r->bytes[SL_SPAN_ROOT_TRACE_LO] = r->bytes[SL_SPAN_ROOT_SPAN] = 1;
		r->bytes[7] = sl_sealed_check(r->bytes);
		r->pod->ring->roots_tries = TRACE_TRIES; /* do not wait for missing names */
		collect_trace_take_roots(t, r);
	}
	assert_in_range(tenant[0].pendings, TRACE_PENDING / 4, TRACE_PENDING / 2);
	assert_int_equal(tenant[1].pendings, 1);
	assert_int_equal(t->stats.lost_memory, TRACE_PENDING - tenant[0].pendings);
	assert_int_equal(t->stats.lost_lies, 0);
	for (uint32_t i = 0; i < 2; i++)
		region_schema_free(&p[i].schema);
	free(r);
	free(t);
}

/* The first READ tears the first or the second line of a span. */
static void a_span_that_is_read_again_is_not_lost(void **state)
{
	struct collect_tracer *t = calloc(1, sizeof(*t));
	struct collect_trace_tenant tenant = {0};
	struct collect_trace_pod p = {.tenant = &tenant, .instance = 7};
	struct collect_trace_request *r = calloc(1, sizeof(*r) + 2 * SL_LINE_SIZE);
	uint64_t *line = r->bytes;

	(void)state;
	assert_non_null(t);
	region_schema_init(&p.schema);
	for (uint32_t torn = 0; torn < 2; torn++) {
		*r = (struct collect_trace_request){
			.pod = &p, .count = 2, .length = 2 * SL_LINE_SIZE};
		memset(line, 0, 2 * SL_LINE_SIZE);
		for (uint32_t i = 0; i < 2; i++)
			line[8 * i] = SL_SPAN_TAG(i, 2, i);
		line[1] = line[3] = 1; /* the ids of trace and span */
		for (uint32_t i = 0; i < 2; i++)
			line[8 * i + 7] = sl_sealed_check(&line[8 * i]);
		line[8 * torn + 4] ^= 1;
		collect_trace_take_spans(t, r);
		assert_true(r->again);
		line[8 * torn + 4] ^= 1;
		r->again = false;
		r->tries = TRACE_TRIES; /* do not wait for missing names */
		collect_trace_take_spans(t, r);
		assert_false(r->again);
	}
	assert_int_equal(t->stats.lost_overrun + t->stats.lost_unsettled + t->stats.lost_lies, 0);
	region_schema_free(&p.schema);
	free(r);
	free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(traces_of_one_hash_are_bounded),
		cmocka_unit_test(a_root_whose_twin_is_none_is_root_no_more),
		cmocka_unit_test(only_what_an_old_pod_still_holds_is_published),
		cmocka_unit_test(a_pod_raises_the_share_by_no_more_than_its_ring),
		cmocka_unit_test(roots_of_a_tenant_leave_others_their_share),
		cmocka_unit_test(pending_roots_of_a_tenant_leave_room),
		cmocka_unit_test(a_span_that_is_read_again_is_not_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
