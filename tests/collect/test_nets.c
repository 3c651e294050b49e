// SPDX-License-Identifier: Apache-2.0
/*
 * test_nets.c - latency between hosts: each segment counts once and within its bound, or under a
 * cause of failure.
 */
#include <math.h>
#include <string.h>

#include <sidelight/nic.h>

#include "collect/read/collector_internal.h"
#include "collect/tables/internal.h"
#include "collect/tables/segment_ring.h"
#include "fixture.h"

#define SECOND	1000000000ull
#define RECORDS 64u
#define BEGIN	(1000 * SECOND)
#define AHEAD	(7 * SECOND) /* the clock of "two" is ahead by this */
#define THERE	20000u	     /* ns from "one" to "two" */
#define BACK	30000u

static const char *const agents[] = {"one", "two", "three"};

struct ring {
	struct mock_host *host;
	uint64_t *mem;
	size_t size;
	uint64_t head;
};

static void ring_make(struct ring *r, struct mock_host *host, uint64_t instance)
{
	struct sl_region_header *h;

	*r = (struct ring){.host = host, .size = 8192 + RECORDS * SL_NIC_SIZE};
	r->mem = aligned_alloc(4096, r->size);
	memset(r->mem, 0, r->size);
	h = (struct sl_region_header *)r->mem;
	memcpy(h->magic, SL_REGION_MAGIC, 8);
	h->version = SL_REGION_VERSION;
	h->header_size = SL_HEADER_SIZE;
	h->size = r->size;
	h->kind = SL_REGION_NIC;
	h->pid = 1;
	h->start_ns = 1;
	h->instance = instance;
	h->section_count = 2;
	h->section[0] = (struct sl_region_section){SL_SECTION_HOT, SL_LINE_SIZE, SL_HEADER_SIZE,
						   SL_LINE_SIZE};
	h->section[1] = (struct sl_region_section){SL_SECTION_NIC_RING, SL_NIC_SIZE, 8192,
						   RECORDS * SL_NIC_SIZE};
	h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
	mock_put_kind(host, 0, instance, r->mem, r->size, SL_STATE_LIVE, instance, SL_REGION_NIC);
}

static void seal_head(struct ring *r)
{
	uint64_t *hot = r->mem + SL_HEADER_SIZE / 8;

	hot[SL_NIC_HEAD] = r->head;
	hot[7] = sl_line_check(hot);
}

/* Adds a segment of a connection of "one", port 40000, with port 80 of "two". */
static void put_record(struct ring *r, bool out, bool there, uint64_t time_ns, uint32_t seq)
{
	uint64_t *w = r->mem + (8192 + r->head % RECORDS * SL_NIC_SIZE) / 8;
	uint8_t address[2][16] = {{[10] = 0xff, [11] = 0xff, 10, 0, 0, 1},
				  {[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}};

	memset(w, 0, SL_NIC_SIZE);
	w[SL_NIC_TAG] = w[SL_NIC_TAG_AGAIN] = r->head << 8 | (out ? SL_NIC_OUT : 0);
	w[SL_NIC_TIME_NS] = time_ns;
	w[SL_NIC_SEQ_END] = seq | (uint64_t)(seq + 100) << 32;
	w[SL_NIC_ACK] = 1;
	w[SL_NIC_PORTS] = there ? 40000 | 80u << 16 : 80 | 40000u << 16;
	memcpy(&w[SL_NIC_SOURCE], address[!there], 16);
	memcpy(&w[SL_NIC_DESTINATION], address[there], 16);
	w[SL_NIC_BYTES] = 100;
	w[7] = sl_folded_check(w);
	w[15] = sl_folded_check(w + 8);
	r->head++;
}

static void record(struct ring *r, bool out, bool there, uint64_t time_ns, uint32_t seq)
{
	pthread_mutex_lock(&r->host->lock);
	put_record(r, out, there, time_ns, seq);
	seal_head(r);
	pthread_mutex_unlock(&r->host->lock);
}

/* Exchanges a segment in each direction; number: counted from 0. */
static void exchange(struct ring r[2], uint32_t number, uint64_t at)
{
	record(&r[0], true, true, at, 1000 + 100 * number);
	record(&r[1], false, true, at + THERE + AHEAD, 1000 + 100 * number);
	record(&r[1], true, false, at + 50000 + AHEAD, 5000 + 100 * number);
	record(&r[0], false, false, at + 50000 + BACK, 5000 + 100 * number);
}

static const struct collect_tables_opts often = {.period_ns = 5 * MS};

static struct collect_collector *start_of(size_t hosts)
{
	struct collect_collector_opts o = {
		.agents = agents, .agent_count = hosts, .period_ns = 5 * MS};

	return start_tables(&o, &often);
}

#define NET(name, labels) self_value(c, "sidelight_net_" name, labels)
#define HOST(target)	  "target=\"" target "\""
#define FROM(target)	  "source_target=\"" target "\""

static void passes(struct ring *r, uint64_t n)
{
	uint64_t id = ((struct sl_region_header *)r->mem)->instance;
	uint64_t from = reads_of(r->host, id), until = base_now_ns() + 60 * SECOND;

	while (reads_of(r->host, id) < from + n && base_now_ns() < until)
		usleep(500);
}

struct look {
	struct collect_net_pair_view pair;
	struct collect_net_port_view port;
};

static void look_at(const struct collect_net_pair_view *v, void *arg)
{
	struct look *l = arg;

	l->pair = *v;
	if (v->ports)
		l->port = v->port[0];
}

static void matches_segments_between_hosts_once(void **state)
{
	struct mock_host *h[2] = {mock_host("one", 4), mock_host("two", 4)};
	struct collect_collector *c;
	struct ring r[2];
	struct look l = {0};
	uint32_t n = 0;

	(void)state;
	for (int i = 0; i < 2; i++)
		ring_make(&r[i], h[i], 5 + (uint64_t)i);
	seal_head(&r[0]);
	seal_head(&r[1]);
	c = start_of(2);
	passes(&r[0], 3);
	passes(&r[1], 3);
	assert_true(NET("segments_total", NULL) < 0); /* no pair yet */
	for (; n < 10; n++)
		exchange(r, n, BEGIN + n * 200 * MS);
	/* One segment never arrives. */
	record(&r[0], true, true, BEGIN + 1900 * MS, 90000);
	passes(&r[0], 20);
	passes(&r[1], 20);
	/* The earlier windows are over. */
	exchange(r, n++, BEGIN + 20 * SECOND);
	WITHIN(5000, NET("latency_seconds_count", FROM("one")) == 10);
	WITHIN(5000, NET("latency_seconds_count", FROM("two")) == 10);
	WITHIN(5000, NET("round_trip_seconds_count", NULL) == 10);
	WITHIN(5000, NET("unmatched_total", "cause=\"lost\"") == 1);
	assert_true(NET("unmatched_total", NULL) == 1);
	assert_true(NET("segments_total", "result=\"sent\"") == 2 * n + 1);
	assert_true(NET("round_trip_seconds_sum", NULL) == (double)(10 * (THERE + BACK)) / 1e9);
	assert_true(NET("negative_total", NULL) == 0);
	collect_collector_pair_latency(c, look_at, &l);
	assert_true(l.pair.ports == 1 && l.port.port == 80);
	/* Correct within its bound, and the bound is half of the round trip. */
	assert_true(llabs(l.pair.totals.theta - (int64_t)AHEAD) <= l.pair.totals.bound + 1);
	if (l.pair.totals.bound > (THERE + BACK) / 2 + 100)
		fail_msg("%lld ns", (long long)l.pair.totals.bound);
	assert_true(fabs(NET("clock_bound_seconds", NULL) - (double)l.pair.totals.bound * 1e-9) <
		    1e-12);
	collect_collector_free(c);
	free(r[0].mem);
	free(r[1].mem);
}

static void overrun_ring_reports_what_is_missing(void **state)
{
	struct mock_host *h[2] = {mock_host("one", 4), mock_host("two", 4)};
	struct collect_collector *c;
	struct ring r[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		ring_make(&r[i], h[i], 5 + (uint64_t)i);
		seal_head(&r[i]);
	}
	c = start_of(2);
	passes(&r[0], 3);
	passes(&r[1], 3);
	exchange(r, 0, BEGIN);
	WITHIN(5000, NET("segments_total", "result=\"sent\"") == 2);
	assert_true(NET("records_missed_total", NULL) == 0);
	/* Three wraps between two passes: overwritten records are counted exactly. */
	pthread_mutex_lock(&h[0]->lock);
	for (uint32_t i = 0; i < 3 * RECORDS; i++)
		put_record(&r[0], true, true, BEGIN + i + 1, 2000 + 100 * i);
	seal_head(&r[0]);
	pthread_mutex_unlock(&h[0]->lock);
	/* The others are taken by the same pass: no sum waits for records that are lost. */
	WITHIN(5000, NET("segments_total", "result=\"sent\"") == 2 + RECORDS);
	passes(&r[0], 2);
	assert_true(NET("records_missed_total", HOST("one")) == 2 * RECORDS);
	assert_true(NET("records_missed_total", HOST("two")) == 0);
	assert_true(NET("unmatched_total", "cause=\"missed\"") == 2 * RECORDS);
	/* A record that is being written delays those behind it, and then all of them arrive. */
	pthread_mutex_lock(&h[1]->lock);
	put_record(&r[1], true, false, BEGIN + SECOND + AHEAD, 80000);
	(r[1].mem + (8192 + (r[1].head - 1) % RECORDS * SL_NIC_SIZE) / 8)[7] ^= 1;
	put_record(&r[1], true, false, BEGIN + SECOND + AHEAD + 1, 80100);
	seal_head(&r[1]);
	pthread_mutex_unlock(&h[1]->lock);
	passes(&r[1], 10);
	assert_true(NET("segments_total", "result=\"sent\"") == 2 + RECORDS);
	pthread_mutex_lock(&h[1]->lock);
	(r[1].mem + (8192 + (r[1].head - 2) % RECORDS * SL_NIC_SIZE) / 8)[7] ^= 1;
	pthread_mutex_unlock(&h[1]->lock);
	WITHIN(5000, NET("segments_total", "result=\"sent\"") == 4 + RECORDS);
	assert_true(NET("records_missed_total", HOST("two")) == 0);
	collect_collector_free(c);
	free(r[0].mem);
	free(r[1].mem);
}

static void see_shared(const struct collect_net_host_view *v, void *arg)
{
	*(uint64_t *)arg += v->shared;
}

static uint64_t shared(struct collect_collector *c)
{
	uint64_t n = 0;

	collect_collector_net_hosts(c, see_shared, &n);
	return n;
}

static void assigns_no_address_claimed_by_two_hosts(void **state)
{
	struct mock_host *h[3] = {mock_host("one", 4), mock_host("two", 4), mock_host("three", 4)};
	struct collect_collector *c;
	struct ring r[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		ring_make(&r[i], h[i], 5 + (uint64_t)i);
		seal_head(&r[i]);
	}
	c = start_of(3);
	for (int i = 0; i < 3; i++)
		passes(&r[i], 3);
	exchange(r, 0, BEGIN);
	WITHIN(5000, NET("segments_total", "result=\"sent\"") == 2);
	/*
	 * Another host also receives segments for "two": it is unknown whose segments these are, so
	 * they are counted.
	 */
	record(&r[2], false, true, BEGIN, 1000);
	passes(&r[2], 10);
	exchange(r, 1, BEGIN + MS);
	WITHIN(5000, shared(c) >= 1);
	WITHIN(5000, NET("segments_total", "result=\"sent\",source=\"node-1\"," FROM("one")) == 1);
	collect_collector_free(c);
	for (int i = 0; i < 3; i++)
		free(r[i].mem);
}

/* A collector that does not run: the test passes its records. */
static struct collect_collector *idle_collector(size_t hosts)
{
	static const char *const none[] = {NULL};
	struct collect_collector_opts o = {.agents = none, .spare_hosts = hosts};
	struct collect_collector *c;
	char text[256];

	c = collect_collector_new(&o, text, sizeof(text));
	assert_non_null(c);
	for (size_t i = 0; i < hosts; i++) {
		snprintf(text, sizeof(text), "host-%zu", i);
		assert_int_equal(collect_collector_add_host(c, text), i);
	}
	assert_int_equal(collect_tables_attach(c, &often), 0);
	return c;
}

#define NOWHERE 999999u /* an address that no host has */

struct sums {
	uint64_t records, elsewhere;
	size_t pairs, of_host[2]; /* of_host: pairs with host 0, and others with host 1 */
};

static void add_records(const struct collect_net_host_view *v, void *arg)
{
	struct sums *s = arg;

	s->records += v->records;
	s->elsewhere += v->elsewhere;
}

static void add_pair(const struct collect_net_pair_view *v, void *arg)
{
	struct sums *s = arg;

	s->pairs++;
	for (int i = 0; i < 2; i++)
		s->of_host[i] += !strcmp(v->target[0], i ? "host-1" : "host-0");
}

static struct sums sums_of(struct collect_collector *c)
{
	struct sums s = {0};

	collect_collector_net_hosts(c, add_records, &s);
	collect_collector_pair_latency(c, add_pair, &s);
	return s;
}

/* Passes a record of a segment that the host sent at this second, and waits until it is counted. */
static void send_segment(struct collect_collector *c, size_t host, uint32_t from, uint32_t to,
			 uint64_t second)
{
	static uint64_t number[128];
	struct collect_tables *all = collect_collector_part(c, &collect_tables_part);
	const size_t bytes = sizeof(struct collect_segment_batch) +
			     sizeof(struct region_nic_record);
	struct collect_segment_batch *b = calloc(1, bytes);
	const uint64_t before = sums_of(c).records;

	assert_non_null(b);
	relaxed_add(c->memory, bytes);
	b->host = host;
	b->bytes = bytes;
	b->begun_ns = b->over_ns = second * SECOND;
	b->n = 1;
	b->record[0] = (struct region_nic_record){
		.number = number[host]++,
		.time_ns = second * SECOND,
		.flags = SL_NIC_OUT,
		.source = {[8] = 1},
		.destination = {[8] = 1},
	};
	b->to = number[host];
	memcpy(b->record[0].source, &from, sizeof(from));
	memcpy(b->record[0].destination, &to, sizeof(to));
	collect_pair_latency_push(all->pair_latency, b);
	WITHIN(3000, sums_of(c).records == before + 1);
}

static void unused_addresses_are_given_back(void **state)
{
	enum { ADDRESSES = 256 };
	struct collect_collector *c = idle_collector(4);

	(void)state;
	for (uint32_t i = 0; i < ADDRESSES; i++)
		send_segment(c, 0, 1000 + i, NOWHERE, 1000);
	send_segment(c, 0, 1000, NOWHERE, 1050);
	/* There is no place for another address. */
	send_segment(c, 0, 5000, NOWHERE, 1050);
	send_segment(c, 1, 1, 5000, 1050);
	assert_int_equal(sums_of(c).pairs, 0);
	/* Now there is, as most of them are unused. */
	send_segment(c, 0, 5001, NOWHERE, 1071);
	send_segment(c, 1, 1, 5001, 1071);
	assert_int_equal(sums_of(c).pairs, 1);
	send_segment(c, 2, 2, 1001, 1071);
	assert_int_equal(sums_of(c).pairs, 1);
	send_segment(c, 2, 2, 1000, 1071);
	assert_int_equal(sums_of(c).pairs, 2);
	/* An address that moves to another host leaves its place to the next one. */
	for (uint32_t i = 0; i < ADDRESSES; i++)
		send_segment(c, 0, 6000 + i, NOWHERE, 1072);
	send_segment(c, 2, 6000, NOWHERE, 1083);
	send_segment(c, 0, 7000, NOWHERE, 1083);
	send_segment(c, 1, 1, 6000, 1083);
	assert_int_equal(sums_of(c).pairs, 3);
	send_segment(c, 3, 3, 7000, 1083);
	assert_int_equal(sums_of(c).pairs, 4);
	collect_collector_free(c);
}

static void no_host_takes_all_pairs(void **state)
{
	enum { HOSTS = 80, PAIRS = COLLECT_NET_PAIRS };
	struct collect_collector *c = idle_collector(HOSTS);

	(void)state;
	for (uint32_t i = 0; i < HOSTS; i++)
		send_segment(c, i, i, NOWHERE, 1000);
	for (uint32_t i = 1; i <= PAIRS + 2; i++)
		send_segment(c, 0, 0, i, 1001);
	assert_int_equal(sums_of(c).of_host[0], PAIRS);
	assert_int_equal(collect_collector_net_refused(c), 2);
	/* Others have pairs, too, and keep them. */
	for (uint32_t i = 70; i < 78; i++)
		send_segment(c, i, i, i + 1, 1002);
	for (uint32_t i = 1; i <= PAIRS; i++)
		send_segment(c, 0, 0, i, 1003);
	assert_int_equal(sums_of(c).pairs, PAIRS);
	assert_int_equal(sums_of(c).of_host[0], PAIRS - 8);
	/* Pairs of hosts that are not read any more are given back. */
	for (uint32_t i = 1; i < HOSTS; i++)
		send_segment(c, i, i, NOWHERE, 1070);
	for (uint32_t i = 2; i <= 20; i++)
		send_segment(c, 1, 1, i, 1070);
	assert_int_equal(sums_of(c).of_host[1], 19);
	collect_collector_free(c);
}

static void drops_a_lying_ring_by_cause(void **state)
{
	struct collect_collector_opts o = {
		.agents = agents, .agent_count = 2, .period_ns = 5 * MS, .dropped_ns = 50 * MS};
	struct mock_host *h[2] = {mock_host("one", 4), mock_host("two", 4)};
	struct collect_collector *c;
	struct ring r[2], bad;

	(void)state;
	for (int i = 0; i < 2; i++) {
		ring_make(&r[i], h[i], 5 + (uint64_t)i);
		r[i].head = 10;
		seal_head(&r[i]);
	}
	c = start_tables(&o, &often);
	passes(&r[0], 3);
	passes(&r[1], 3);
	/*
	 * Its numbers decrease; this means that it is a new ring, of which only new records are
	 * read.
	 */
	pthread_mutex_lock(&h[0]->lock);
	r[0].head = 3;
	seal_head(&r[0]);
	pthread_mutex_unlock(&h[0]->lock);
	WITHIN(3000, faults(c, "hot") >= 1);
	passes(&r[0], 10);
	exchange(r, 0, BEGIN);
	WITHIN(5000, NET("segments_total", "result=\"sent\"") == 2);
	/* More bytes than a tag has room for. */
	pthread_mutex_lock(&h[0]->lock);
	r[0].head = 1ull << 60;
	seal_head(&r[0]);
	pthread_mutex_unlock(&h[0]->lock);
	WITHIN(3000, faults(c, "hot") >= 2);
	/* A ring whose length is no power of two. */
	ring_make(&bad, h[1], 9);
	((struct sl_region_header *)bad.mem)->section[1].length -= SL_NIC_SIZE;
	((struct sl_region_header *)bad.mem)->check =
		sl_fnv1a(SL_FNV_BASIS, bad.mem, offsetof(struct sl_region_header, check));
	mock_put_kind(h[1], 1, 9, bad.mem, bad.size, SL_STATE_LIVE, 9, SL_REGION_NIC);
	WITHIN(3000, faults(c, "section") >= 1);
	collect_collector_free(c);
	free(r[0].mem);
	free(r[1].mem);
	free(bad.mem);
}

static void a_ring_that_changes_harms_no_other(void **state)
{
	struct collect_collector_opts o = {
		.agents = agents, .agent_count = 2, .period_ns = MS, .dropped_ns = 20 * MS};
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	struct pod good;
	struct ring r;

	(void)state;
	honest_host(&good);
	ring_make(&r, h, 5);
	r.head = 10;
	seal_head(&r);
	c = start_tables(&o, &often);
	passes(&r, 3);
	WITHIN(3000, self_value(c, "good_total", NULL) == 43);
	mutate(h, r.mem, r.size, c);
	collect_collector_free(c);
	free(r.mem);
	make_free(&good.m);
}

const struct CMUnitTest nets_tests[] = {
	TEST(a_ring_that_changes_harms_no_other),
	TEST(matches_segments_between_hosts_once),
	TEST(overrun_ring_reports_what_is_missing),
	TEST(assigns_no_address_claimed_by_two_hosts),
	TEST(drops_a_lying_ring_by_cause),
	TEST(unused_addresses_are_given_back),
	TEST(no_host_takes_all_pairs),
	{0},
};
