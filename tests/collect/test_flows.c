// SPDX-License-Identifier: Apache-2.0
/* test_flows.c - tables of connections: each flow is counted once, whatever happens to its slot. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "../region/make_flows.h"
#include "fixture.h"
#include "collect/tables/tables.h"

#define SECOND 1000000000ull

static const struct collect_collector_opts fast = {.period_ns = 5 * MS};
static const struct collect_tables_opts often = {.period_ns = 10 * MS};

static struct region_flow flow(uint64_t id, uint16_t port)
{
	return (struct region_flow){
		.id = id,
		.open_ns = 100 * SECOND,
		.changed_ns = 100 * SECOND,
		.state = SL_STATE_LIVE,
		.tcp_state = 1,
		.family = 4,
		.local_port = port,
		.remote_port = (uint16_t)(40000 + id % 1000),
		.handshake_us = 100,
		.cgroup = 7,
	};
}

static void put_flows(struct mock_host *h, uint32_t index, uint64_t id, struct make_flows *m)
{
	mock_put_flows(h, index, id, m->mem, m->size, SL_STATE_LIVE, m->header->instance);
}

/* Changes the table once; a reader sees the complete change or, torn, nothing. */
static void change(struct mock_host *h, struct make_flows *m, uint32_t slot,
		   const struct region_flow *f)
{
	pthread_mutex_lock(&h->lock);
	if (f)
		make_flow(m, slot, f);
	else
		make_flow_free(m, slot);
	pthread_mutex_unlock(&h->lock);
}

static void publish(struct mock_host *h, struct make_flows *m, uint32_t used, uint64_t ns)
{
	pthread_mutex_lock(&h->lock);
	make_flows_publish(m, used, ns);
	pthread_mutex_unlock(&h->lock);
}

static void end(struct mock_host *h, struct make_flows *m, uint32_t slot, struct region_flow *f)
{
	f->state = SL_STATE_CLOSED;
	f->tcp_state = 7;
	f->closed_ns = f->changed_ns += SECOND;
	pthread_mutex_lock(&h->lock);
	make_flow(m, slot, f);
	make_flow_event(m, SL_FLOW_EVENT_CLOSE, slot, f);
	pthread_mutex_unlock(&h->lock);
}

#define VALUE(name, labels) self_value(c, "sidelight_tcp_" name, labels)
#define PASSES()	    self_value(c, "sidelight_collector_tcp_passes_total", NULL)
#define LOST(cause)	    self_value(c, "sidelight_collector_tcp_lost_total", "cause=\"" cause "\"")

static void count_an_old_flow(struct collect_collector *c, struct mock_host *h,
			      struct make_flows *m, struct region_flow old)
{
	old.bytes_sent = 1500;
	old.retrans = 3;
	old.re_fast = 2;
	old.re_rto = 1;
	old.rtt_count = 10;
	old.rtt_sum_us = 20000;
	old.busy_us = 500000;
	old.rwnd_us = 100000;
	old.sndbuf_us = 150000;
	old.drops = 5; /* segments, and not connections that a listener dropped */
	old.changed_ns += SECOND;
	change(h, m, 0, &old);
	WITHIN(3000, VALUE("sent_bytes_total", "port=\"80\"") == 500);
	assert_true(VALUE("retransmits_total", "port=\"80\"") == 3);
	assert_true(VALUE("retransmit_causes_total", "cause=\"fast\",port=\"80\"") == 2);
	assert_true(VALUE("retransmit_causes_total", "cause=\"timeout\",port=\"80\"") == 1);
	assert_true(VALUE("rtt_seconds_count", "port=\"80\"") == 10);
	assert_true(VALUE("rtt_seconds_sum", "port=\"80\"") == 0.02);
	assert_true(VALUE("rtt_seconds_bucket", "port=\"80\",role=\"server\",le=\"0.0625\"") == 10);
	/* Bounds below the first observation are left out. */
	assert_true(VALUE("rtt_seconds_bucket",
			  "port=\"80\",role=\"server\",le=\"0.0009765625\"") == -1);
	assert_true(VALUE("listen_drops_total", "port=\"80\"") == 0);
	assert_true(VALUE("limited_seconds_total", "limit=\"application\",port=\"80\"") == 0.5);
	assert_true(VALUE("limited_seconds_total", "limit=\"receive_window\",port=\"80\"") == 0.1);
	assert_true(VALUE("limited_seconds_total", "limit=\"send_buffer\",port=\"80\"") == 0.15);
	assert_true(VALUE("limited_seconds_total", "limit=\"congestion_window\",port=\"80\"") ==
		    0.25);
}

static void count_a_new_flow(struct collect_collector *c, struct mock_host *h, struct make_flows *m,
			     struct region_flow *f)
{
	struct region_flow listener = flow(3, 443);
	double passes;

	listener.flags = SL_FLOW_LISTENER;
	listener.remote_port = 0;
	/* A new one is counted from zero; a listener is not a connection. */
	f->open_ns = f->changed_ns = 300 * SECOND;
	f->bytes_received = 70;
	change(h, m, 1, f);
	change(h, m, 2, &listener);
	publish(h, m, 3, 300 * SECOND);
	WITHIN(3000, VALUE("received_bytes_total", "port=\"443\"") == 70);
	assert_true(VALUE("connections_opened_total", "port=\"443\"") == 1);
	assert_true(VALUE("handshake_seconds_count", "port=\"443\"") == 1);
	assert_true(VALUE("connections", "port=\"443\"") == 1);
	listener.drops = 3; /* stray segments, while the accept queue has room */
	change(h, m, 2, &listener);
	passes = PASSES();
	WITHIN(3000, PASSES() > passes + 1);
	assert_true(VALUE("listen_drops_total", "port=\"443\"") == 0);
	listener.drops = 7;
	listener.backlog = listener.backlog_max = 2;
	change(h, m, 2, &listener);
	WITHIN(3000, VALUE("listen_drops_total", "port=\"443\"") == 4);
}

static void counts_flows_exactly_once(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct region_flow old = flow(1, 80), f = flow(2, 443);
	struct collect_collector *c;
	struct make_flows m;

	(void)state;
	make_flows(&m, 8, 64, 9);
	old.bytes_sent = 1000;
	make_flow(&m, 0, &old);
	make_flows_publish(&m, 1, 200 * SECOND);
	put_flows(h, 0, 1, &m);
	c = start_tables(&o, &often);
	/* The counts of connections that existed before are not added. */
	WITHIN(3000, VALUE("connections", "port=\"80\"") == 1);
	assert_true(VALUE("sent_bytes_total", "port=\"80\"") == 0);
	assert_true(VALUE("connections_opened_total", "port=\"80\"") == 0);
	count_an_old_flow(c, h, &m, old);
	count_a_new_flow(c, h, &m, &f);
	/* Its last values are counted once, although they stay in the slot. */
	f.bytes_received = 99;
	f.flags = SL_FLOW_RESET_IN;
	end(h, &m, 1, &f);
	publish(h, &m, 3, 301 * SECOND);
	WITHIN(3000, VALUE("connections_closed_total", "port=\"443\"") == 1);
	assert_true(VALUE("received_bytes_total", "port=\"443\"") == 99);
	assert_true(VALUE("resets_total", "direction=\"in\",port=\"443\"") == 1);
	assert_true(VALUE("connection_duration_seconds_sum", "port=\"443\"") == 1);
	assert_true(VALUE("connections", "port=\"443\"") == 0);
	/* Another connection in the same slot takes nothing away. */
	change(h, &m, 1, NULL);
	f = flow(4, 443);
	f.generation = 1;
	f.bytes_received = 1;
	change(h, &m, 1, &f);
	WITHIN(3000, VALUE("received_bytes_total", "port=\"443\"") == 100);
	assert_true(VALUE("connections_closed_total", "port=\"443\"") == 1);
	assert_true(VALUE("connections_opened_total", "port=\"443\"") == 2);
	assert_true(LOST("journal_gap") == 0 && LOST("unseen") == 0 && LOST("end") == 0);
	collect_collector_free(c);
	make_flows_free(&m);
}

/* A connection that was never established is a failure, and no connection. */
static void failed_connections_are_only_failures(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct region_flow f = flow(1, 80), g = flow(2, 80);
	struct collect_collector *c;
	struct make_flows m;

	(void)state;
	make_flows(&m, 8, 16, 9);
	make_flows_publish(&m, 0, 1 * SECOND);
	put_flows(h, 0, 1, &m);
	c = start_tables(&o, &often);
	WITHIN(3000, self_value(c, "sidelight_collector_tcp_passes_total", NULL) > 1);
	/* In SYN_SENT, so it was opened here, even if the table did not see that. */
	f.last_state = g.last_state = 2;
	f.local_port = g.local_port = 33000;
	f.remote_port = g.remote_port = 80;
	f.error = ECONNREFUSED;
	f.retrans = f.re_syn = 1;
	change(h, &m, 0, &f);
	end(h, &m, 0, &f);
	publish(h, &m, 1, 2 * SECOND);
	WITHIN(3000, VALUE("failures_total", "cause=\"refused\",port=\"80\",role=\"client\"") == 1);
	/* A connection that is only in the journal. */
	pthread_mutex_lock(&h->lock);
	g.tcp_state = 7;
	make_flow_event(&m, SL_FLOW_EVENT_CLOSE, 0, &g);
	pthread_mutex_unlock(&h->lock);
	publish(h, &m, 1, 3 * SECOND);
	f = flow(3, 81);
	change(h, &m, 1, &f);
	publish(h, &m, 2, 4 * SECOND);
	WITHIN(3000, VALUE("connections", "port=\"81\"") == 1);
	assert_true(VALUE("connections_opened_total", NULL) == 1);
	assert_true(VALUE("connections_closed_total", NULL) == 0);
	assert_true(VALUE("connections", NULL) == 1);
	assert_true(VALUE("retransmits_total", "port=\"80\"") == 1 && LOST("unseen") == 0);
	collect_collector_free(c);
	make_flows_free(&m);
}

static void counts_flows_only_in_the_journal(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct region_flow f = flow(1, 80), g = flow(2, 80), l = flow(100, 80);
	struct collect_collector *c;
	struct make_flows m;

	(void)state;
	make_flows(&m, 8, 16, 9);
	make_flows_publish(&m, 0, 1 * SECOND);
	put_flows(h, 0, 1, &m);
	c = start_tables(&o, &often);
	WITHIN(3000, self_value(c, "sidelight_collector_tcp_passes_total", NULL) > 1);
	f.bytes_acked = 10;
	change(h, &m, 0, &f);
	publish(h, &m, 1, 2 * SECOND);
	WITHIN(3000, VALUE("acked_bytes_total", "port=\"80\"") == 10);
	/* Its slot is reused by another connection, which also ended before the next pass. */
	pthread_mutex_lock(&h->lock);
	f.bytes_acked = 30;
	f.closed_ns = 3 * SECOND;
	make_flow_event(&m, SL_FLOW_EVENT_CLOSE, 0, &f);
	g.bytes_acked = 500;
	g.bytes_received = 7;
	g.closed_ns = 4 * SECOND;
	make_flow_event(&m, SL_FLOW_EVENT_CLOSE, 0, &g);
	make_flow_free(&m, 0);
	make_flows_publish(&m, 1, 4 * SECOND);
	pthread_mutex_unlock(&h->lock);
	WITHIN(3000, VALUE("acked_bytes_total", "port=\"80\"") == 30);
	assert_true(VALUE("connections", "port=\"80\"") == 0);
	assert_true(LOST("final_values") == 1);
	WITHIN(3000, LOST("unseen") == 1);
	WITHIN(3000, VALUE("acked_bytes_total", "unit=\"(other)\"") == 500);
	assert_true(VALUE("received_bytes_total", "unit=\"(other)\"") == 7);
	assert_true(VALUE("connections_closed_total", NULL) == 2);
	/*
	 * More entries than the journal holds: overwritten ones are missed and counted as missed.
	 */
	pthread_mutex_lock(&h->lock);
	for (int i = 0; i < 20; i++) {
		l.id++;
		l.closed_ns = 5 * SECOND;
		l.bytes_acked = 1;
		make_flow_event(&m, SL_FLOW_EVENT_CLOSE, 0, &l);
	}
	make_flows_publish(&m, 1, 5 * SECOND);
	pthread_mutex_unlock(&h->lock);
	WITHIN(3000, LOST("unseen") == 17);
	assert_true(LOST("journal_gap") == 4);
	WITHIN(3000, VALUE("acked_bytes_total", "unit=\"(other)\"") == 516);
	collect_collector_free(c);
	make_flows_free(&m);
}

static void drops_a_lying_flow_table_by_cause(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 8);
	struct region_flow f = flow(1, 80);
	struct collect_collector *c;
	struct make_flows m;
	double before;
	struct pod p;

	(void)state;
	o.dropped_ns = 50 * MS;
	pod_make(&p, 5, LABELS("pod\0p"));
	set(h, &p, 0, counter(&p, "a_total", NULL, NULL), 3);
	put(h, 0, 1, &p, SL_STATE_LIVE);
	make_flows(&m, 8, 16, 9);
	make_flow(&m, 0, &f);
	make_flows_publish(&m, 1, 1);
	put_flows(h, 1, 2, &m);
	c = start_tables(&o, &often);
	WITHIN(3000, VALUE("connections", "port=\"80\"") == 1);
	/* It claims more slots than it has, and then the correct number. */
	publish(h, &m, 9, 2);
	WITHIN(3000, faults(c, "hot") >= 1); /* after another look, it is one more */
	publish(h, &m, 1, 2);
	f.bytes_sent = 5;
	change(h, &m, 0, &f);
	WITHIN(5000, VALUE("sent_bytes_total", "port=\"80\"") == 5);
	/* A slot that verifies, but has impossible contents. */
	f.family = 5;
	before = faults(c, "hot");
	change(h, &m, 0, &f);
	WITHIN(3000, faults(c, "hot") > before);
	/* An entry of one kind and a header of the other. */
	put(h, 2, 3, &p, SL_STATE_FREE);
	mock_put_flows(h, 3, 4, p.m.mem, p.m.size, SL_STATE_LIVE, 6);
	WITHIN(3000, faults(c, "section") >= 1);
	assert_true(mentions(c, "a_total{"));
	/* A journal whose number decreases. */
	f.family = 4;
	change(h, &m, 0, &f);
	collect_collector_free(c);
	make_free(&p.m);
	make_flows_free(&m);
}

static void workloads_beyond_the_bound_are_lumped(void **state)
{
	const struct collect_tables_opts tables = {
		.groups = 10, .flows = 128, .period_ns = 10 * MS};
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	struct make_flows m, small;
	struct region_flow f;

	(void)state;
	make_flows(&m, 256, 16, 9);
	for (uint32_t i = 0; i < 200; i++) {
		f = flow(i + 1, (uint16_t)(1000 + i));
		f.open_ns = 2 * SECOND; /* not open before */
		f.bytes_sent = 1;
		make_flow(&m, i, &f);
	}
	make_flows_publish(&m, 200, SECOND);
	put_flows(h, 0, 1, &m);
	c = start_tables(&o, &tables);
	WITHIN(3000, VALUE("sent_bytes_total", NULL) == 128);
	assert_true(VALUE("sent_bytes_total", "port=\"1009\"") == 1);
	assert_true(VALUE("sent_bytes_total", "port=\"1010\"") == -1);
	assert_true(VALUE("sent_bytes_total", "port=\"other\"") == 118);
	assert_true(LOST("groups") == 118);
	assert_true(self_value(c, "sidelight_collector_tcp_slots_refused", NULL) == 72);
	/* One of them ends: it counts as left out. */
	f = flow(151, 1150);
	end(h, &m, 150, &f);
	publish(h, &m, 200, 3 * SECOND);
	WITHIN(3000, LOST("no_slot") == 1);
	assert_true(VALUE("sent_bytes_total", NULL) == 128);
	/* A smaller table has room. */
	mock_restart(h);
	make_flows(&small, 256, 16, 10);
	f = flow(1, 80);
	make_flow(&small, 0, &f);
	make_flows_publish(&small, 1, SECOND);
	put_flows(h, 0, 2, &small);
	WITHIN(5000, self_value(c, "sidelight_collector_tcp_slots_refused", NULL) == 0);
	collect_collector_free(c);
	make_flows_free(&m);
	make_flows_free(&small);
}

static void no_host_takes_all_flows_and_workloads(void **state)
{
	static const char *const both[] = {"one", "two"};
	const struct collect_tables_opts tables = {
		.groups = 16, .flows = 256, .period_ns = 10 * MS};
	struct collect_collector_opts o = fast;
	struct mock_host *h[2] = {mock_host("one", 4), mock_host("two", 4)};
	struct collect_collector *c;
	struct make_flows many, few;
	struct region_flow f;

	(void)state;
	o.agents = both;
	o.agent_count = 2;
	make_flows(&many, 512, 16, 9);
	for (uint32_t i = 0; i < 300; i++) {
		f = flow(i + 1, (uint16_t)(1000 + i));
		f.open_ns = 2 * SECOND; /* not open before */
		f.bytes_sent = 1;
		make_flow(&many, i, &f);
	}
	make_flows_publish(&many, 300, SECOND);
	put_flows(h[0], 0, 1, &many);
	c = start_tables(&o, &tables);
	WITHIN(3000, VALUE("sent_bytes_total", NULL) == 192);
	assert_true(LOST("groups") == 192 - 12);
	make_flows(&few, 512, 16, 10);
	for (uint32_t i = 0; i < 100; i++) {
		f = flow(i + 1, (uint16_t)(5000 + i % 2));
		f.open_ns = 2 * SECOND;
		f.bytes_sent = 1;
		make_flow(&few, i, &f);
	}
	make_flows_publish(&few, 100, SECOND);
	put_flows(h[1], 0, 1, &few);
	/* The other host has half of the last quarter, which is a page of slots. */
	WITHIN(3000, VALUE("sent_bytes_total", NULL) == 192 + 64);
	assert_true(VALUE("sent_bytes_total", "port=\"5000\"") == 32);
	assert_true(VALUE("sent_bytes_total", "port=\"5001\"") == 32);
	/* What a table held is given back. */
	mock_put_flows(h[0], 0, 1, many.mem, many.size, SL_STATE_RETIRED, 9);
	WITHIN(3000, VALUE("sent_bytes_total", NULL) == 192 + 100);
	collect_collector_free(c);
	make_flows_free(&many);
	make_flows_free(&few);
}

/* Puts connections to 20 remote ports into the slots: the higher the port, the more bytes. */
static void put_ports(struct make_flows *m, uint64_t factor)
{
	for (uint32_t i = 0; i < 20; i++) {
		struct region_flow f = flow(i + 1, (uint16_t)(33000 + i));

		f.flags = SL_FLOW_ACTIVE;
		f.remote_port = (uint16_t)(100 + i);
		f.bytes_received = 1000 * (i + 1) * factor;
		f.changed_ns += factor;
		make_flow(m, i, &f);
	}
}

/* Returns whether exactly these ports have names: the busiest 16 of 100 to 119. */
static bool names_are(struct collect_collector *c, uint16_t without_first, uint16_t without_last)
{
	char labels[64];

	for (uint16_t port = 100; port < 120; port++) {
		bool named = port < without_first || port > without_last;

		snprintf(labels, sizeof(labels), "port=\"%u\",role=\"client\"", port);
		if ((VALUE("connections", labels) == 1) != named)
			return false;
	}
	return VALUE("connections", "port=\"other\"") == 4 && VALUE("connections", NULL) == 20;
}

static void the_busiest_ports_have_names(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct collect_collector *c;
	struct region_flow f;
	struct make_flows m;

	(void)state;
	make_flows(&m, 64, 16, 9);
	put_ports(&m, 1);
	make_flows_publish(&m, 20, 200 * SECOND);
	put_flows(h, 0, 1, &m);
	/* The ports in the first slots are the idlest. The same have names after a restart. */
	for (int i = 0; i < 2; i++) {
		c = start_tables(&o, &often);
		WITHIN(3000, names_are(c, 100, 103));
		if (!i)
			collect_collector_free(c);
	}
	/* A port that becomes the busiest for long takes the name of the idlest one. */
	f = flow(1, 33000);
	f.flags = SL_FLOW_ACTIVE;
	f.remote_port = 100;
	f.bytes_received = 1000;
	for (uint64_t end = base_now_ns() + 60 * SECOND;
	     base_now_ns() < end && !names_are(c, 101, 104);) {
		f.bytes_received += 1000000;
		f.changed_ns += MS;
		change(h, &m, 0, &f);
		usleep(2000);
	}
	assert_true(names_are(c, 101, 104));
	/* From then on it counts under its own name. */
	f.bytes_received += 1000000;
	f.changed_ns += MS;
	change(h, &m, 0, &f);
	WITHIN(3000, VALUE("received_bytes_total", "port=\"100\"") >= 1000000);
	collect_collector_free(c);
	make_flows_free(&m);
}

static void note_instance(const struct collect_flow_view *v, void *arg)
{
	if (v->workload)
		*(uint64_t *)arg = v->workload->instance;
}

static void collectors_name_a_workload_alike(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct region_flow f = flow(1, 80);
	struct collect_collector *c;
	struct make_flows m;
	uint64_t instance = 0;

	(void)state;
	make_flows(&m, 8, 16, 9);
	make_flow(&m, 0, &f);
	make_flows_publish(&m, 1, SECOND);
	put_flows(h, 0, 1, &m);
	c = start_tables(&o, &often);
	WITHIN(3000, (collect_collector_flows(c, note_instance, &instance), instance));
	/* The same number in every process, because receivers recognise alerts by it. */
	assert_int_equal(instance, 0x906906120f281a0f);
	collect_collector_free(c);
	make_flows_free(&m);
}

static void note_sentence(const struct collect_flow_view *v, void *arg)
{
	struct region_why y;

	collect_flow_why(v, v->read_ns, &y);
	snprintf(arg, REGION_WHY_SENTENCE, "%s", y.sentence);
}

static bool says(struct collect_collector *c, const char *text)
{
	char sentence[REGION_WHY_SENTENCE] = "";

	collect_collector_flows(c, note_sentence, sentence);
	return strstr(sentence, text);
}

static void dropped_segments_have_their_reason(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct region_flow f = flow(1, 80);
	struct collect_collector *c;
	struct make_flows m;

	(void)state;
	make_flows(&m, 8, 16, 9);
	make_flow(&m, 0, &f);
	make_flows_publish(&m, 1, SECOND);
	put_flows(h, 0, 1, &m);
	c = start_tables(&o, &often);
	WITHIN(3000, says(c, "."));
	assert_false(says(c, "dropped"));
	f.flags = SL_FLOW_DROPPED;
	pthread_mutex_lock(&h->lock);
	make_flow_drops(&m, 0, f.generation, 5, "SOCKET_RCVBUFF", 3);
	make_flow(&m, 0, &f);
	pthread_mutex_unlock(&h->lock);
	WITHIN(5000, VALUE("drops_total", "reason=\"SOCKET_RCVBUFF\"") == 3);
	WITHIN(3000, says(c, "The receive buffer here dropped 3 segments: SOCKET_RCVBUFF."));
	collect_collector_free(c);
	make_flows_free(&m);
}

static void note_interval(const struct collect_flow_view *v, void *arg)
{
	uint64_t *interval = arg;

	*interval = v->before ? v->now->changed_ns - v->before->changed_ns : 0;
}

static bool covers(struct collect_collector *c, uint64_t ns)
{
	uint64_t interval = 0;

	collect_collector_flows(c, note_interval, &interval);
	return interval == ns;
}

static void an_interval_begins_with_the_activity(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct region_flow f = flow(1, 80);
	struct collect_collector *c;
	struct make_flows m;

	(void)state;
	make_flows(&m, 8, 16, 9);
	make_flow(&m, 0, &f);
	make_flows_publish(&m, 1, 100 * SECOND);
	put_flows(h, 0, 1, &m);
	c = start_tables(&o, &often);
	WITHIN(3000, VALUE("connections", "port=\"80\"") == 1);
	f.changed_ns += 600 * SECOND; /* idle until now */
	f.bytes_acked = 100000000;
	change(h, &m, 0, &f);
	publish(h, &m, 1, f.changed_ns);
	WITHIN(3000, covers(c, SECOND));
	f.changed_ns += 600 * SECOND; /* waited for the peer, with data in flight */
	f.busy_us += 600000000;
	change(h, &m, 0, &f);
	publish(h, &m, 1, f.changed_ns);
	WITHIN(3000, covers(c, 600 * SECOND));
	collect_collector_free(c);
	make_flows_free(&m);
}

/* The limits of all connections, by host and slot. */
struct limits {
	enum region_why_limit of[2][4];
};

static void note_limit(const struct collect_flow_view *v, void *arg)
{
	struct limits *l = arg;
	struct region_why y;

	collect_flow_why(v, v->read_ns, &y);
	l->of[strcmp(v->target, "one") != 0][v->slot] = y.limit;
}

/*
 * Puts end 0 or 1 of a connection into a slot. The bytes that a dead end sends are not
 * acknowledged.
 */
static void put_end(struct make_flows *m, uint32_t slot, uint8_t address, int end, bool dead)
{
	struct region_flow f = flow(slot + 1, end ? 80 : 40000);

	f.remote_port = end ? 40000 : 80;
	f.open_ns = f.changed_ns - 10 * SECOND;
	memcpy(f.local, (uint8_t[16]){[10] = 0xff, [11] = 0xff, [12] = address, [15] = 1}, 16);
	memcpy(f.remote, f.local, 16);
	(end ? f.local : f.remote)[14] = 1;
	f.mss = 1000;
	f.flight = dead ? 5 : 0;
	f.timeouts = f.backoff = dead ? 3 : 0;
	make_flow(m, slot, &f);
}

static bool agree(struct collect_collector *c, const struct limits *right)
{
	struct limits l = {0};

	collect_collector_flows(c, note_limit, &l);
	return !memcmp(&l, right, sizeof(l));
}

static void both_ends_of_a_connection_have_one_answer(void **state)
{
	static const char *const hosts[] = {"one", "two"};
	const struct limits right = {
		.of = {{REGION_WHY_UNANSWERED, REGION_WHY_UNANSWERED, REGION_WHY_NOTHING_ARRIVES,
			REGION_WHY_UNANSWERED},
		       {REGION_WHY_NOTHING_ARRIVES, REGION_WHY_IDLE, REGION_WHY_IDLE}}};
	struct collect_collector_opts o = fast;
	struct mock_host *h[2];
	struct collect_collector *c;
	struct make_flows m[2];

	(void)state;
	o.agents = hosts;
	o.agent_count = 2;
	for (int i = 0; i < 2; i++) {
		h[i] = mock_host(hosts[i], 4);
		make_flows(&m[i], 8, 16, (uint64_t)(9 + i));
	}
	/* A connection between the hosts. */
	put_end(&m[0], 0, 10, 0, true);
	put_end(&m[1], 0, 10, 1, false);
	/* Both ends are on host one; host two has a container with the same address. */
	put_end(&m[0], 1, 11, 0, true);
	put_end(&m[0], 2, 11, 1, false);
	put_end(&m[1], 1, 11, 1, false);
	/* Loopback of different hosts: not one connection. */
	put_end(&m[0], 3, 127, 0, true);
	put_end(&m[1], 2, 127, 1, false);
	for (int i = 0; i < 2; i++) {
		make_flows_publish(&m[i], 4, 200 * SECOND);
		put_flows(h[i], 0, 1, &m[i]);
	}
	c = start_tables(&o, &often);
	WITHIN(3000, agree(c, &right));
	collect_collector_free(c);
	for (int i = 0; i < 2; i++)
		make_flows_free(&m[i]);
}

static void flow_sums_outlive_the_agent(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct region_flow f = flow(1, 80);
	struct collect_collector *c;
	struct make_flows m, n;

	(void)state;
	o.stale_ns = 100 * MS;
	make_flows(&m, 8, 16, 9);
	make_flows_publish(&m, 0, SECOND);
	put_flows(h, 0, 1, &m);
	c = start_tables(&o, &often);
	WITHIN(3000, self_value(c, "sidelight_collector_tcp_passes_total", NULL) > 0);
	f.bytes_sent = 100;
	change(h, &m, 0, &f);
	publish(h, &m, 1, SECOND);
	WITHIN(3000, VALUE("sent_bytes_total", "port=\"80\"") == 100);
	/* The table is gone: its counts become stale and are not counted again. */
	mock_set(h, false);
	WITHIN(3000, !mentions(c, "sidelight_tcp_sent_bytes_total"));
	/* Another agent with its own table: connections opened since then count completely. */
	make_flows(&n, 8, 16, 10);
	f = flow(1, 80);
	f.bytes_sent = 7;
	make_flow(&n, 0, &f);
	f = flow(2, 80);
	f.flags = SL_FLOW_OLDER;
	f.bytes_sent = 1000;
	make_flow(&n, 1, &f);
	make_flows_publish(&n, 2, 200 * SECOND);
	mock_restart(h);
	put_flows(h, 0, 1, &n);
	mock_set(h, true);
	WITHIN(5000, VALUE("sent_bytes_total", "port=\"80\"") == 107);
	assert_true(VALUE("connections", "port=\"80\"") == 2);
	assert_true(VALUE("connections_opened_total", "port=\"80\"") == 2);
	assert_true(LOST("end") == 1);
	collect_collector_free(c);
	make_flows_free(&m);
	make_flows_free(&n);
}

static void old_flows_of_a_returning_host_do_not_count(void **state)
{
	static const char *const none[] = {NULL};
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct region_flow f = flow(1, 80);
	struct collect_collector *c;
	struct make_flows m;

	(void)state;
	o.agents = none;
	o.spare_hosts = 1;
	o.stale_ns = 100 * MS;
	o.unwanted_ns = 50 * MS;
	make_flows(&m, 8, 16, 9);
	f.bytes_sent = 1000;
	make_flow(&m, 0, &f);
	make_flows_publish(&m, 1, 200 * SECOND);
	put_flows(h, 0, 1, &m);
	c = start_tables(&o, &often);
	assert_int_equal(collect_collector_add_host(c, "one"), 0);
	for (int i = 1; i <= 2; i++) {
		collect_collector_want_host(c, 0, true);
		WITHIN(3000, VALUE("connections", "port=\"80\"") == 1);
		f.bytes_sent += 100;
		f.changed_ns += SECOND;
		change(h, &m, 0, &f);
		WITHIN(3000, VALUE("sent_bytes_total", "port=\"80\"") == 100 * i);
		collect_collector_want_host(c, 0, false);
		WITHIN(3000, LOST("end") == i);
		WITHIN(3000, !mentions(c, "sidelight_tcp_sent_bytes_total"));
	}
	collect_collector_free(c);
	make_flows_free(&m);
}

static void flows_belong_to_owners_named_late(void **state)
{
	static const char *const cart[SL_CGROUP_TEXTS] = {"shop", "cart-0", "app", "cart", "/k/1"};
	static const char *const path[SL_CGROUP_TEXTS] = {NULL, NULL, NULL, NULL, "/user.slice"};
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct region_flow f = flow(1, 80), late = flow(2, 81), never = flow(3, 82);
	struct collect_collector *c;
	struct make_flows m;

	(void)state;
	make_flows_named(&m, 8, 16, 8, 9);
	make_flows_name(&m, 1, 7, cart);
	make_flow(&m, 0, &f);
	make_flows_publish(&m, 1, 200 * SECOND);
	put_flows(h, 0, 1, &m);
	c = start_tables(&o, &often);
	/* Named from the start, with the labels of its pod. */
#define CART "namespace=\"shop\",pod=\"cart-0\",container=\"app\",service=\"cart\",host="
	WITHIN(3000, VALUE("connections", CART) == 1);
	assert_false(mentions(c, "(unknown)"));
	/* Bytes counted before the name was known still belong to their owner. */
	late.open_ns = late.changed_ns = 300 * SECOND;
	late.cgroup = 70;
	late.bytes_sent = 100;
	change(h, &m, 1, &late);
	publish(h, &m, 2, 300 * SECOND);
	usleep(50000);
	assert_true(VALUE("sent_bytes_total", "port=\"81\"") == -1);
	pthread_mutex_lock(&h->lock);
	make_flows_name(&m, 2, 70, path);
	pthread_mutex_unlock(&h->lock);
	WITHIN(3000, VALUE("sent_bytes_total", "unit=\"/user.slice\"") == 100);
	/* A flow without a name gets an owner when it ends. */
	never.open_ns = never.changed_ns = 300 * SECOND;
	never.cgroup = 71;
	never.bytes_sent = 5;
	change(h, &m, 2, &never);
	publish(h, &m, 3, 300 * SECOND);
	usleep(20000);
	end(h, &m, 2, &never);
	publish(h, &m, 3, 301 * SECOND);
	WITHIN(3000, VALUE("sent_bytes_total", "unit=\"(unknown)\"") == 5);
	assert_true(VALUE("connections_closed_total", "port=\"82\"") == 1);
	collect_collector_free(c);
	make_flows_free(&m);
}

/* ---- churn ---- */

#define SLOTS 300u

struct looker {
	struct collect_collector *c;
	bool stop;
	uint64_t seen, wrong;
};

static void take_passes(const struct collect_flow_table_view *v, void *arg)
{
	*(uint64_t *)arg = v->passes;
}

/* A slot is reused only after a complete pass that began after the end of its flow. */
static void quarantine(struct collect_collector *c)
{
	uint64_t before = 0, now = 0, until = base_now_ns() + 60 * SECOND;

	collect_collector_flow_tables(c, take_passes, &before);
	while (now < before + 2 && base_now_ns() < until) {
		usleep(200);
		collect_collector_flow_tables(c, take_passes, &now);
	}
}

/* Writes a slot of the owners for the number-th time. */
static void own(struct mock_host *h, struct make_flows *m, uint32_t slot, uint32_t number,
		uint64_t id, uint64_t state, const char *path)
{
	const char *const name[SL_CGROUP_TEXTS] = {[SL_CGROUP_PATH] = path};

	pthread_mutex_lock(&h->lock);
	make_flows_name(m, slot, id, name);
	m->cgroup[slot][SL_FLOW_CGROUP_STATE] = state;
	region_flow_cgroup_seal(m->cgroup[slot], 1, number);
	pthread_mutex_unlock(&h->lock);
}

static void a_slot_passes_to_another_owner(void **state)
{
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	struct region_flow f[3] = {flow(1, 80), flow(2, 81), flow(3, 82)};
	struct collect_collector *c;
	struct make_flows m;

	(void)state;
	make_flows_named(&m, 8, 16, 8, 9);
	make_flows_publish(&m, 0, 200 * SECOND);
	put_flows(h, 0, 1, &m);
	own(h, &m, 1, 1, 70, SL_STATE_FREE, "");
	c = start_tables(&o, &often);
	quarantine(c);
	for (uint32_t i = 0; i < 3; i++) {
		f[i].open_ns = f[i].changed_ns = 300 * SECOND;
		f[i].cgroup = i == 1 ? 71 : 70;
		f[i].bytes_sent = 10 + i;
	}
	/* The ID of a slot that was free is found once the slot is live. */
	own(h, &m, 1, 2, 70, SL_STATE_LIVE, "/first");
	change(h, &m, 0, &f[0]);
	publish(h, &m, 1, 300 * SECOND);
	WITHIN(3000, VALUE("sent_bytes_total", "unit=\"/first\"") == 10);
	/* Then another cgroup gets it, and new flows of the first one have no owner. */
	own(h, &m, 1, 3, 71, SL_STATE_LIVE, "/second");
	change(h, &m, 1, &f[1]);
	publish(h, &m, 2, 301 * SECOND);
	WITHIN(3000, VALUE("sent_bytes_total", "unit=\"/second\"") == 11);
	change(h, &m, 2, &f[2]);
	publish(h, &m, 3, 302 * SECOND);
	end(h, &m, 2, &f[2]);
	publish(h, &m, 3, 303 * SECOND);
	WITHIN(3000, VALUE("sent_bytes_total", "unit=\"(unknown)\"") == 12);
	collect_collector_free(c);
	make_flows_free(&m);
}

/* Readers of a flow see one snapshot, even while the worker writes the next one. */
static void look_at_flow(const struct collect_flow_view *v, void *arg)
{
	struct looker *l = arg;

	l->seen++;
	l->wrong += v->now->bytes_acked != v->now->bytes_sent || v->now->family != 4 ||
		    (v->before && v->before->id != v->now->id);
}

static void *look(void *arg)
{
	struct looker *l = arg;

	while (!GET(l->stop)) {
		collect_collector_flows(l->c, look_at_flow, l);
		usleep(500);
	}
	return NULL;
}

static void flow_sums_survive_churn_and_tears(void **state)
{
	const struct collect_tables_opts tables = {.period_ns = 2 * MS, .groups = 2000};
	struct collect_collector_opts o = fast;
	struct mock_host *h = mock_host("one", 4);
	static struct region_flow f[SLOTS];
	static int ended[SLOTS];
	uint64_t sent = 0, opened = 0, closed = 0, id = 0;
	struct rng rng = {5};
	struct looker looker = {0};
	struct collect_collector *c;
	pthread_t thread;
	struct make_flows m;

	(void)state;
	make_flows(&m, SLOTS, 4096, 9);
	make_flows_publish(&m, 0, 1);
	put_flows(h, 0, 1, &m);
	h->tear = 5;
	h->shuffle = true;
	c = start_tables(&o, &tables);
	WITHIN(5000, self_value(c, "sidelight_collector_tcp_passes_total", NULL) > 0);
	looker.c = c;
	assert_int_equal(pthread_create(&thread, NULL, look, &looker), 0);
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 40; i++) {
			uint32_t s = (uint32_t)rng_below(&rng, SLOTS);
			uint64_t n = rng_below(&rng, 1000);

			if (f[s].state == SL_STATE_CLOSED && ended[s] < round) {
				change(h, &m, s, NULL);
				f[s] = (struct region_flow){.generation = f[s].generation + 1};
			} else if (f[s].state == SL_STATE_FREE) {
				uint32_t generation = f[s].generation;

				f[s] = flow(++id, (uint16_t)(80 + rng_below(&rng, 5)));
				f[s].generation = generation;
				opened++;
			}
			if (f[s].state != SL_STATE_LIVE)
				continue;
			f[s].bytes_acked = f[s].bytes_sent += n;
			f[s].changed_ns += MS;
			sent += n;
			if (rng_below(&rng, 4)) {
				change(h, &m, s, &f[s]);
			} else {
				end(h, &m, s, &f[s]);
				ended[s] = round;
				closed++;
			}
		}
		publish(h, &m, SLOTS, 2 + (uint64_t)round);
		quarantine(c);
	}
	__atomic_store_n(&looker.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_true(looker.seen && !looker.wrong);
	/* acked: includes connections whose end only the journal recorded. */
	WITHIN(5000, VALUE("acked_bytes_total", NULL) == (double)sent);
	assert_true(VALUE("connections_opened_total", NULL) == (double)opened);
	assert_true(VALUE("connections_closed_total", NULL) == (double)closed);
	assert_true(VALUE("connections", NULL) == (double)(opened - closed));
	assert_true(LOST("journal_gap") == 0);
	assert_true(LOST("end") == 0);
	collect_collector_free(c);
	make_flows_free(&m);
}

static void a_flow_table_that_changes_harms_no_other(void **state)
{
	static const char *const hosts[] = {"one", "two"}, *const cart[SL_CGROUP_TEXTS] = {
								   "shop", "cart-0", "app", "cart",
								   "/k/1"};
	struct collect_collector_opts o = {
		.agents = hosts, .agent_count = 2, .period_ns = MS, .dropped_ns = 20 * MS};
	struct mock_host *h = mock_host("one", 8);
	struct collect_collector *c;
	struct make_flows m;
	struct pod good;

	(void)state;
	honest_host(&good);
	make_flows_named(&m, 16, 32, 8, 9);
	make_flows_name(&m, 1, 7, cart);
	for (uint32_t i = 0; i < 8; i++) {
		struct region_flow f = flow(1 + i, (uint16_t)(80 + i));

		make_flow(&m, i, &f);
		make_flow_event(&m, SL_FLOW_EVENT_OPEN, i, &f);
	}
	make_flows_publish(&m, 8, 1);
	put_flows(h, 1, 2, &m);
	c = start_tables(&o, &often);
	WITHIN(3000, VALUE("connections", "port=\"80\"") == 1);
	WITHIN(3000, self_value(c, "good_total", NULL) == 43);
	mutate(h, m.mem, m.size, c);
	collect_collector_free(c);
	make_flows_free(&m);
	make_free(&good.m);
}

const struct CMUnitTest flows_tests[] = {
	TEST(a_flow_table_that_changes_harms_no_other),
	TEST(counts_flows_exactly_once),
	TEST(counts_flows_only_in_the_journal),
	TEST(failed_connections_are_only_failures),
	TEST(drops_a_lying_flow_table_by_cause),
	TEST(workloads_beyond_the_bound_are_lumped),
	TEST(no_host_takes_all_flows_and_workloads),
	TEST(the_busiest_ports_have_names),
	TEST(collectors_name_a_workload_alike),
	TEST(dropped_segments_have_their_reason),
	TEST(an_interval_begins_with_the_activity),
	TEST(both_ends_of_a_connection_have_one_answer),
	TEST(flow_sums_outlive_the_agent),
	TEST(old_flows_of_a_returning_host_do_not_count),
	TEST(flows_belong_to_owners_named_late),
	TEST(a_slot_passes_to_another_owner),
	TEST(flow_sums_survive_churn_and_tears),
	{0},
};
