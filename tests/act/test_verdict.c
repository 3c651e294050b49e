// SPDX-License-Identifier: Apache-2.0
/*
 * test_verdict.c - findings become anomalies with a beginning and an end; readers never block the
 * writer.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "act/verdict.h"

#define S 1000000000ll
#define T (1000 * S) /* where the tests' time begins */

static const struct act_pod_name cart = {
	.pod = "cart-0", .service = "cart", .kube_namespace = "shop", .host = "node-1"};

static void push(struct act_verdict_pod *p, int64_t ns, double score, const char *metric)
{
	struct act_finding f = {.ns = ns,
				.score = score,
				.threshold = 10,
				.anomalous = score > 10,
				.shadow_score = NAN,
				.blames = metric ? 1 : 0,
				.blame = {{.share = 0.75, .value = 42}}};

	snprintf(f.blame[0].metric, sizeof(f.blame[0].metric), "%s", metric ? metric : "");
	act_verdict_push(p, &f);
}

/* Pushes an anomalous finding on one metric, and returns whether an anomaly is in progress. */
static bool is_fault(struct act_verdicts *v, struct act_verdict_pod *p, int64_t ns,
		     enum act_measure measure, double before, double value, double load)
{
	struct act_pod_verdict is;
	struct act_finding f = {
		.ns = ns,
		.score = 11,
		.threshold = 10,
		.anomalous = true,
		.shadow_score = NAN,
		.load = load,
		.blames = 2,
		.blame = {{"a", 0.96, value, before, false, measure, 0, false},
			  /* a small share does not matter */
			  {"b", 0.04, 2, 1, false, ACT_MEASURE_OTHER, 0, false}},
	};

	act_verdict_push(p, &f);
	assert_true(act_verdicts_pod(v, 7, &is));
	push(p, ns + 100 * S, 1, NULL);
	return is.anomalous;
}

/* Faster than usual, or less CPU for as many requests, is no fault. */
static void an_improvement_is_no_anomaly(void **state)
{
	static const struct {
		enum act_measure measure;
		double before, value, load;
		bool fault;
	} is[] = {
		{ACT_MEASURE_LATENCY, 0.03, 0.01, 1, false},
		{ACT_MEASURE_LATENCY, 0.01, 0.03, 1, true},
		{ACT_MEASURE_ERRORS, 5, 0, 0, false},
		{ACT_MEASURE_CPU, 0.8, 0.2, 1, false},
		{ACT_MEASURE_CPU, 0.8, 0.2, 0.2, true}, /* it does less */
		{ACT_MEASURE_CPU, 0.8, 0.2, 0, true},	/* not known */
		{ACT_MEASURE_CPU, 0.2, 0.8, 1, true},
		{ACT_MEASURE_WAITING, 9, 1, 1.1, false},
		{ACT_MEASURE_LOAD, 100, 0, 0, true},
		{ACT_MEASURE_MEMORY, 2e9, 1e9, 1, true},
		{ACT_MEASURE_OTHER, 2, 1, 1, true},
		{ACT_MEASURE_LATENCY, 0.03, NAN, 1, true},
	};
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = 2 * S});
	struct act_verdict_pod *p = act_verdicts_add(v, 7, &cart);

	(void)state;
	for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++)
		if (is_fault(v, p, T + 1000 * (int64_t)i * S, is[i].measure, is[i].before,
			     is[i].value, is[i].load) != is[i].fault)
			fail_msg("case %zu", i);
	act_verdicts_free(v);
}

/* A worker that leaves all jobs of one kind to others has not stopped. */
static void a_kind_of_work_that_stops_is_not_all_work(void **state)
{
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = 2 * S});
	struct act_verdict_pod *p = act_verdicts_add(v, 7, &cart);
	struct act_finding f = {
		.ns = T,
		.score = 11,
		.threshold = 10,
		.anomalous = true,
		.shadow_score = NAN,
		.load = 0.7,
		.working = true,
		.blames = 1,
		.blame = {{"jobs{kind=\"report\"}", 1, 0, 4.5, true, ACT_MEASURE_LOAD, 0, false}},
	};
	struct act_pod_verdict is;

	(void)state;
	act_verdict_push(p, &f);
	assert_true(act_verdicts_pod(v, 7, &is));
	assert_int_equal(is.blame[0].measure, ACT_MEASURE_LOAD);
	f.ns += S;
	f.load = 0.05;
	f.working = false;
	act_verdict_push(p, &f);
	assert_true(act_verdicts_pod(v, 7, &is));
	assert_int_equal(is.blame[0].measure, ACT_MEASURE_STOPPED);
	act_verdicts_free(v);
}

struct seen {
	struct act_anomaly a[64];
	size_t n;
};

static void note(const struct act_anomaly *a, void *arg)
{
	struct seen *s = arg;

	assert_true(s->n < 64);
	s->a[s->n++] = *a;
}

static struct seen keep(struct act_verdicts *v, int64_t now)
{
	struct seen s = {.n = 0};

	act_verdicts_keep(v, now, note, &s);
	return s;
}

/* The event ids of the anomalies that begin at these times, at a collector of its own. */
static void find_ids(const int64_t *begin, size_t n, char id[][ACT_EVENT_ID_BYTES])
{
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = 2 * S});
	struct act_verdict_pod *p = act_verdicts_add(v, 7, &cart);

	for (size_t i = 0; i < n; i++) {
		struct seen s;

		push(p, begin[i], 11, "cart_a");
		s = keep(v, begin[i]);
		assert_int_equal(s.n, 1);
		act_anomaly_event_id(&s.a[0], id[i]);
		push(p, begin[i] + 5 * S, 1, NULL);
		s = keep(v, begin[i] + 5 * S);
		assert_true(s.n == 1 && s.a[0].end_ns);
		assert_int_equal(s.a[0].minute, strtoll(id[i] + 17, NULL, 10));
	}
	act_verdicts_free(v);
}

static void two_collectors_name_an_anomaly_alike(void **state)
{
	/* The third one begins in the same minute as the second. */
	const int64_t here[] = {6000 * S, 6300 * S, 6320 * S, 6400 * S};
	const int64_t there[] = {6001 * S, 6301 * S, 6324 * S, 6400 * S};
	char id[2][4][ACT_EVENT_ID_BYTES];

	(void)state;
	find_ids(here, 4, id[0]);
	find_ids(there, 4, id[1]);
	assert_string_equal(id[0][0], "0000000000000007-100");
	for (int i = 0; i < 4; i++) {
		assert_string_equal(id[0][i], id[1][i]);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(id[0][i], id[0][k]);
	}
}

/* A layer's quantiles need several requests, so other metrics of connections move first. */
static void a_slow_layer_describes_connections_best(void **state)
{
	static const char rtt[] = "sidelight_tcp_rtt_seconds_p90{port=\"80\",role=\"server\"}",
			  app[] = "sidelight_tcp_layer_seconds_p95{layer=\"app\",port=\"80\","
				  "role=\"server\"}";
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = 2 * S});
	struct act_verdict_pod *p = act_verdicts_add(v, 7, &cart);
	struct seen s;

	(void)state;
	push(p, T, 20, rtt);
	push(p, T + S, 15, app);
	push(p, T + 2 * S, 30, rtt);
	s = keep(v, T + 2 * S);
	assert_int_equal(s.n, 1);
	assert_string_equal(s.a[0].blame[0].metric, app);
	assert_true(s.a[0].peak == 30);
	act_verdicts_free(v);
}

static void a_swinging_score_makes_one_interval(void **state)
{
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = 2 * S});
	struct act_verdict_pod *p = act_verdicts_add(v, 7, &cart);
	struct act_pod_verdict now;
	struct act_anomaly a[4];
	struct seen s;

	(void)state;
	push(p, T, 1, NULL);
	assert_int_equal(keep(v, T).n, 0);
	push(p, T + S, 11, "cart_a");
	s = keep(v, T + S);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.a[0].end_ns, 0);
	assert_string_equal(s.a[0].name.service, "cart");
	assert_int_equal(keep(v, T + S).n, 0);
	push(p, T + 2 * S, 9, NULL);
	push(p, T + 3 * S, 20, "cart_b");
	push(p, T + 4 * S, 12, "cart_c");
	push(p, T + 6 * S, 3, NULL); /* 2 s after the last: still held */
	assert_true(act_verdicts_pod(v, 7, &now));
	assert_true(now.anomalous);
	assert_string_equal(now.blame[0].metric, "cart_c");
	s = keep(v, T + 6 * S);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.a[0].end_ns, 0);
	push(p, T + 6 * S + 1, 3, NULL);
	s = keep(v, T + 7 * S);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.a[0].id, 1);
	assert_int_equal(s.a[0].begin_ns, T + S);
	assert_int_equal(s.a[0].last_ns, T + 4 * S);
	assert_int_equal(s.a[0].end_ns, T + 6 * S + 1);
	assert_int_equal(s.a[0].findings, 3);
	assert_true(s.a[0].peak == 20 && !s.a[0].unread);
	assert_string_equal(s.a[0].blame[0].metric, "cart_b");
	assert_true(s.a[0].blame[0].share == 0.75 && s.a[0].blame[0].value == 42);
	assert_int_equal(keep(v, T + 8 * S).n, 0);

	push(p, T + 9 * S, 11, NULL);
	s = keep(v, T + 9 * S);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.a[0].id, 2);
	assert_int_equal(act_verdicts_anomalies(v, 0, a, 4), 2);
	assert_int_equal(a[0].id, 2);
	assert_int_equal(a[1].id, 1);
	assert_int_equal(act_verdicts_anomalies(v, 1, a, 4), 1);
	assert_false(act_verdicts_pod(v, 8, &now));
	act_verdicts_free(v);
}

/* Its connections are read once per second, less often than anomalies are otherwise held. */
static void a_pod_that_is_read_seldom_has_one_anomaly(void **state)
{
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = S / 2});
	struct act_verdict_pod *p = act_verdicts_add(v, 7, &cart);
	struct act_pod_verdict now;
	struct act_anomaly a[4];

	(void)state;
	for (int i = 0; i < 5; i++)
		push(p, T + i * S, 1, NULL);
	for (int i = 5; i < 13; i++)
		push(p, T + i * S + (i % 3) * S / 20, i == 8 ? 1 : 11, NULL); /* one row says no */
	keep(v, T + 13 * S);
	assert_int_equal(act_verdicts_anomalies(v, 0, a, 4), 1);
	assert_int_equal(a[0].findings, 7);
	/* It ends at the second row without a finding; silence ends it, too. */
	push(p, T + 13 * S, 1, NULL);
	assert_true(act_verdicts_pod(v, 7, &now) && now.anomalous);
	push(p, T + 14 * S, 1, NULL);
	assert_true(act_verdicts_pod(v, 7, &now) && !now.anomalous);
	push(p, T + 15 * S, 11, NULL);
	keep(v, T + 15 * S);
	push(p, T + 20 * S, 11, NULL);
	keep(v, T + 20 * S);
	assert_int_equal(act_verdicts_anomalies(v, 0, a, 4), 3);
	act_verdicts_free(v);
}

/* By an hour, while an anomaly goes on; by less than the hold, it makes no difference. */
static void a_clock_that_is_set_back_ends_what_went_on(void **state)
{
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = 2 * S});
	struct act_verdict_pod *p = act_verdicts_add(v, 7, &cart);
	const int64_t late = T + 3600 * S;
	struct act_pod_verdict now;
	struct seen s;

	(void)state;
	push(p, late, 11, NULL);
	push(p, late - S, 12, NULL);
	s = keep(v, late);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.a[0].begin_ns, late);
	assert_int_equal(s.a[0].last_ns, late);
	push(p, T, 3, NULL);
	assert_true(act_verdicts_pod(v, 7, &now));
	assert_false(now.anomalous);
	s = keep(v, T);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.a[0].end_ns, late);
	assert_false(s.a[0].unread);
	/* The pod is back, and now its next finding is an anomaly, too. */
	push(p, late, 11, NULL);
	assert_int_equal(keep(v, late).n, 1);
	push(p, T + S, 13, NULL);
	s = keep(v, T + S);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.a[0].id, 2);
	assert_int_equal(s.a[0].end_ns, late);
	assert_int_equal(s.a[1].id, 3);
	assert_int_equal(s.a[1].begin_ns, T + S);
	assert_int_equal(s.a[1].end_ns, 0);
	act_verdicts_free(v);
}

static void anomalies_between_reads_are_reported_or_counted(void **state)
{
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = S});
	struct act_verdict_pod *p = act_verdicts_add(v, 7, &cart);
	struct act_verdicts_stats stats;
	struct seen s;

	(void)state;
	push(p, T, 11, NULL);
	push(p, T + 2 * S, 1, NULL); /* over */
	s = keep(v, T + 2 * S);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.a[0].end_ns, 0);
	assert_int_equal(s.a[1].end_ns, T + 2 * S);
	push(p, T + 10 * S, 11, NULL);
	push(p, T + 20 * S, 11, NULL); /* after a gap: another one */
	push(p, T + 30 * S, 11, NULL);
	s = keep(v, T + 30 * S);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.a[0].begin_ns, T + 30 * S);
	act_verdicts_stats(v, &stats);
	assert_int_equal(stats.missed, 2);
	assert_int_equal(stats.anomalies, 2);
	assert_int_equal(stats.alarms, 4);
	assert_int_equal(stats.anomalous, 1);
	act_verdicts_free(v);
}

static void anomaly_of_an_unread_pod_ends_and_may_return(void **state)
{
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.unread_ns = 5 * S});
	struct act_verdict_pod *p = act_verdicts_add(v, 7, &cart);
	struct act_pod_verdict now;
	struct act_verdicts_stats stats;
	struct seen s;

	(void)state;
	push(p, T, 11, NULL);
	assert_int_equal(keep(v, T).n, 1);
	assert_int_equal(keep(v, T + 5 * S).n, 0);
	s = keep(v, T + 5 * S + 1);
	assert_int_equal(s.n, 1);
	assert_true(s.a[0].unread);
	assert_int_equal(s.a[0].end_ns, T + 5 * S + 1);
	assert_int_equal(keep(v, T + 7 * S).n, 0);
	push(p, T + 8 * S, 11, NULL);
	s = keep(v, T + 8 * S);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.a[0].id, 2);
	push(p, T + 9 * S, 12, NULL); /* not looked at before the end */
	act_verdict_gone(p);
	s = keep(v, T + 9 * S);
	assert_int_equal(s.n, 2);
	assert_true(s.a[0].peak == 12 && s.a[1].unread && s.a[1].end_ns);
	assert_false(act_verdicts_pod(v, 7, &now));
	act_verdicts_stats(v, &stats);
	assert_int_equal(stats.pods, 0);
	assert_int_equal(stats.findings, 3);
	act_verdicts_free(v);
}

static void memory_is_bounded_and_what_falls_out_is_counted(void **state)
{
	struct act_verdicts *v = act_verdicts_new(
		&(struct act_verdicts_opts){.max_pods = 2, .max_anomalies = 3, .hold_ns = S});
	struct act_verdict_pod *p = act_verdicts_add(v, 1, &cart);
	struct act_verdicts_stats stats;
	struct act_anomaly a[8];

	(void)state;
	assert_non_null(act_verdicts_add(v, 2, &cart));
	errno = 0;
	assert_null(act_verdicts_add(v, 3, &cart));
	assert_int_equal(errno, ENOSPC);
	for (int i = 0; i < 5; i++) {
		push(p, T + 10 * i * S, 11, "cart_a");
		keep(v, T + 10 * i * S);
	}
	assert_int_equal(act_verdicts_anomalies(v, 0, a, 8), 3);
	assert_int_equal(a[2].id, 3);
	act_verdicts_stats(v, &stats);
	assert_int_equal(stats.refused_pods, 1);
	assert_int_equal(stats.forgotten, 2);
	assert_int_equal(stats.anomalies, 5);
	act_verdicts_free(v);
}

static void a_forgotten_anomaly_is_still_reported_to_its_end(void **state)
{
	struct act_verdicts *v =
		act_verdicts_new(&(struct act_verdicts_opts){.max_anomalies = 1, .hold_ns = S});
	struct act_verdict_pod *p = act_verdicts_add(v, 1, &cart),
			       *q = act_verdicts_add(v, 2, &cart);
	uint8_t trace[ACT_TRACE_ID_BYTES] = {1};
	struct act_anomaly a;
	struct seen s;

	(void)state;
	push(p, T, 11, NULL);
	push(q, T, 11, NULL);
	keep(v, T);
	act_verdicts_traced(v, 1, T, trace); /* one of them is forgotten, no matter which */
	act_verdicts_traced(v, 2, T, trace);
	assert_int_equal(act_verdicts_anomalies(v, 0, &a, 1), 1);
	assert_true(a.has_trace && a.trace[0] == 1);
	s = keep(v, T);
	assert_int_equal(s.n, 2);
	assert_true(s.a[0].has_trace && s.a[1].has_trace);
	push(p, T + S, 30, "cart_a");
	push(q, T + S, 30, "cart_a");
	assert_int_equal(keep(v, T + S).n, 2);
	push(p, T + 5 * S, 1, NULL);
	push(q, T + 5 * S, 1, NULL);
	s = keep(v, T + 5 * S);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.a[0].instance + s.a[1].instance, 3);
	assert_int_equal(s.a[0].id + s.a[1].id, 3);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(s.a[i].begin_ns, T);
		assert_int_equal(s.a[i].last_ns, T + S);
		assert_int_equal(s.a[i].end_ns, T + 5 * S);
		assert_int_equal(s.a[i].findings, 2);
		assert_true(s.a[i].peak == 30 && s.a[i].has_trace);
	}
	assert_int_equal(act_verdicts_anomalies(v, 0, &a, 1), 1);
	assert_int_equal(a.end_ns, T + 5 * S);
	assert_int_equal(keep(v, T + 6 * S).n, 0);
	act_verdicts_free(v);
}

static void a_kept_trace_is_a_change_of_its_anomaly_once(void **state)
{
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = S});
	struct act_verdict_pod *p = act_verdicts_add(v, 1, &cart);
	uint8_t first[ACT_TRACE_ID_BYTES] = {1}, second[ACT_TRACE_ID_BYTES] = {2};
	struct act_pod_verdict now;
	struct seen s;

	(void)state;
	push(p, T, 11, NULL);
	assert_int_equal(keep(v, T).n, 1);
	act_verdicts_traced(v, 9, T, first); /* no such pod */
	act_verdicts_traced(v, 1, T + 5, first);
	s = keep(v, T + 1);
	assert_int_equal(s.n, 1);
	assert_true(s.a[0].has_trace && s.a[0].trace[0] == 1);
	act_verdicts_traced(v, 1, T + 6, second);
	assert_int_equal(keep(v, T + 2).n, 0);
	assert_true(act_verdicts_pod(v, 1, &now));
	assert_true(now.trace[0] == 2 && now.trace_ns == T + 6);
	push(p, T + 2 * S, 1, NULL);
	s = keep(v, T + 2 * S);
	assert_int_equal(s.n, 1);
	assert_true(s.a[0].end_ns && s.a[0].trace[0] == 1);
	act_verdicts_traced(v, 1, T + 3 * S, second);
	assert_int_equal(keep(v, T + 3 * S).n, 0);
	act_verdicts_free(v);
}

static void the_course_keeps_the_highest_score_of_each_step(void **state)
{
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.step_ns = S});
	struct act_verdict_pod *p = act_verdicts_add(v, 1, &cart);
	static float score[ACT_SCORES_KEPT], threshold[ACT_SCORES_KEPT];
	static int64_t ns[ACT_SCORES_KEPT];
	struct act_pod_verdict now;

	(void)state;
	for (int i = 0; i < 10; i++)
		push(p, T + i * S / 10, i == 4 ? 8 : 1, NULL);
	push(p, T + 3 * S, 2, NULL);
	assert_int_equal(act_verdicts_scores(v, 1, ns, score, threshold), 2);
	assert_true(score[0] == 8 && score[1] == 2 && threshold[1] == 10);
	assert_true(act_verdicts_pod(v, 1, &now) && now.recent == 2);
	push(p, T + 3 * S + S / 2, 1, NULL);
	assert_true(act_verdicts_pod(v, 1, &now) && now.score == 1 && now.recent == 2);
	assert_int_equal(ns[0], T);
	assert_int_equal(ns[1], T + 3 * S);
	for (int i = 4; i < 1000; i++)
		push(p, T + i * S, i, NULL);
	assert_int_equal(act_verdicts_scores(v, 1, ns, score, threshold), ACT_SCORES_KEPT);
	assert_int_equal(ns[ACT_SCORES_KEPT - 1], T + 999 * S);
	assert_true(score[0] == 400);
	assert_int_equal(act_verdicts_scores(v, 9, ns, score, threshold), 0);
	act_verdicts_free(v);
}

/* ---- together ---- */

#define PODS 8
#define ROWS 20000

struct shared {
	struct act_verdicts *v;
	bool stop;
	uint64_t begun, ended;
};

static void *writer(void *arg)
{
	struct shared *sh = arg;
	struct act_verdict_pod *p[PODS] = {NULL};
	static uint64_t first;
	uint64_t base = __atomic_fetch_add(&first, PODS, __ATOMIC_RELAXED) + 100;

	for (int i = 0; i < ROWS; i++)
		for (uint64_t k = 0; k < PODS; k++) {
			while (!p[k])
				p[k] = act_verdicts_add(sh->v, base + k, &cart);
			push(p[k], T + i * S / 10, i % 1000 < 50 ? 11 : 1, "m");
		}
	for (int k = 0; k < PODS; k++)
		act_verdict_gone(p[k]);
	return NULL;
}

static void count(const struct act_anomaly *a, void *arg)
{
	struct shared *sh = arg;

	sh->begun += !a->end_ns && a->findings == 1;
	sh->ended += a->end_ns != 0;
}

static void *keeper(void *arg)
{
	struct shared *sh = arg;

	while (!__atomic_load_n(&sh->stop, __ATOMIC_ACQUIRE))
		act_verdicts_keep(sh->v, T, count, sh);
	act_verdicts_keep(sh->v, T, count, sh);
	return NULL;
}

static void check_pod(const struct act_pod_verdict *p, void *arg)
{
	(void)arg;
	assert_string_equal(p->name.pod, "cart-0");
	assert_true(p->findings == 0 || p->score == 1 || p->score == 11);
}

static void *reader(void *arg)
{
	static float score[ACT_SCORES_KEPT], threshold[ACT_SCORES_KEPT];
	static int64_t ns[ACT_SCORES_KEPT];
	struct shared *sh = arg;
	struct act_anomaly a[16];

	while (!__atomic_load_n(&sh->stop, __ATOMIC_ACQUIRE)) {
		struct act_verdicts_stats s;

		act_verdicts_pods(sh->v, check_pod, NULL);
		act_verdicts_anomalies(sh->v, 0, a, 16);
		act_verdicts_scores(sh->v, 100, ns, score, threshold);
		act_verdicts_stats(sh->v, &s);
		assert_true(s.pods <= 2 * PODS);
	}
	return NULL;
}

static void writers_keeper_and_readers_together(void **state)
{
	struct shared sh = {.v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = S})};
	pthread_t w[2], k, r;
	struct act_verdicts_stats s;

	(void)state;
	pthread_create(&k, NULL, keeper, &sh);
	pthread_create(&r, NULL, reader, &sh);
	for (int i = 0; i < 2; i++)
		pthread_create(&w[i], NULL, writer, &sh);
	for (int i = 0; i < 2; i++)
		pthread_join(w[i], NULL);
	__atomic_store_n(&sh.stop, true, __ATOMIC_RELEASE);
	pthread_join(k, NULL);
	pthread_join(r, NULL);
	act_verdicts_stats(sh.v, &s);
	/* Findings that no reader saw in time were counted, so nothing is lost. */
	assert_int_equal(s.findings, 2 * PODS * ROWS);
	assert_int_equal(s.alarms, 2 * PODS * ROWS / 20);
	assert_int_equal(s.anomalies + s.missed, 2 * PODS * ROWS / 1000);
	assert_int_equal(sh.ended, s.anomalies);
	assert_int_equal(s.pods, 0);
	act_verdicts_free(sh.v);
}

static void the_worst_score_is_that_of_the_time_asked_for(void **state)
{
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = S});
	struct act_verdict_pod *p = act_verdicts_add(v, 1, &cart);
	struct act_finding learning = {.ns = T, .score = 90, .threshold = INFINITY};

	(void)state;
	assert_true(act_verdicts_worst(v, 1, 0).score == 0 &&
		    act_verdicts_worst(v, 2, 0).score == 0);
	act_verdict_push(p, &learning);
	assert_true(act_verdicts_worst(v, 1, 0).score == 0);
	/* High scores that are never an anomaly, as of a pod that is learning. */
	act_verdict_push(p, &(struct act_finding){.ns = T + S, .score = 90, .threshold = 10});
	assert_true(act_verdicts_worst(v, 1, 0).score == 0);
	push(p, T + 10 * S, 40, "cpu");
	push(p, T + 20 * S, 20, "cpu");
	push(p, T + 30 * S, 5, NULL);
	assert_true(fabs(act_verdicts_worst(v, 1, T + 5 * S).score - 4) < 1e-6);
	assert_true(fabs(act_verdicts_worst(v, 1, T + 15 * S).score - 2) < 1e-6);
	assert_true(fabs(act_verdicts_worst(v, 1, T + 25 * S).score - 0.5) < 1e-6);
	assert_true(act_verdicts_worst(v, 1, T + 35 * S).score == 0);
	/* Scores are found as far back as they are kept, and no further. */
	for (int i = 0; i < 2 * (int)ACT_SCORES_KEPT; i++)
		push(p, T + 40 * S + i * S, 1, NULL);
	assert_true(fabs(act_verdicts_worst(v, 1, 0).score - 0.1) < 1e-6);
	/* A suspicion needs no anomaly: several pods may compete for it. */
	assert_true(act_verdicts_worst(v, 1, 0).suspicion == 0);
	act_verdict_push(
		p, &(struct act_finding){.ns = T + 9000 * S, .suspicion = 0.6, .threshold = 1});
	assert_true(fabs(act_verdicts_worst(v, 1, T + 8999 * S).suspicion - 0.6) < 1e-6);
	assert_true(act_verdicts_worst(v, 1, T + 9005 * S).suspicion == 0);
	assert_true(act_verdicts_worst(v, 2, 0).suspicion == 0);
	act_verdict_gone(p);
	act_verdicts_free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_improvement_is_no_anomaly),
		cmocka_unit_test(the_worst_score_is_that_of_the_time_asked_for),
		cmocka_unit_test(a_slow_layer_describes_connections_best),
		cmocka_unit_test(a_swinging_score_makes_one_interval),
		cmocka_unit_test(two_collectors_name_an_anomaly_alike),
		cmocka_unit_test(a_pod_that_is_read_seldom_has_one_anomaly),
		cmocka_unit_test(a_clock_that_is_set_back_ends_what_went_on),
		cmocka_unit_test(anomalies_between_reads_are_reported_or_counted),
		cmocka_unit_test(anomaly_of_an_unread_pod_ends_and_may_return),
		cmocka_unit_test(memory_is_bounded_and_what_falls_out_is_counted),
		cmocka_unit_test(a_forgotten_anomaly_is_still_reported_to_its_end),
		cmocka_unit_test(a_kind_of_work_that_stops_is_not_all_work),
		cmocka_unit_test(a_kept_trace_is_a_change_of_its_anomaly_once),
		cmocka_unit_test(the_course_keeps_the_highest_score_of_each_step),
		cmocka_unit_test(writers_keeper_and_readers_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
