// SPDX-License-Identifier: Apache-2.0
/* test_incident.c - anomalies that share a cause are one incident, and others are not. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/test.h"
#include "act/explain.h"
#include "act/incident.h"
#include "base/hash.h"

#define S 1000000000ll
#define T (1763694391 * S)

static struct act_incidents *incidents;
static uint64_t last_id;
static struct {
	unsigned int began, changed, again, ended;
	struct act_incident last;
} news;

static void note(const struct act_incident *i, unsigned int what, void *arg)
{
	(void)arg;
	news.began += !!(what & ACT_NEWS_BEGAN);
	news.changed += !!(what & ACT_NEWS_CHANGED);
	news.again += !!(what & ACT_NEWS_AGAIN);
	news.ended += !!(what & ACT_NEWS_ENDED);
	news.last = *i;
}

static int setup(void **state)
{
	(void)state;
	memset(&news, 0, sizeof(news));
	last_id = 0;
	incidents = act_incidents_new(&(struct act_incidents_opts){
		.settle_ns = 5 * S, .confirm_ns = S, .again_ns = 60 * S});
	return incidents ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	act_incidents_free(incidents);
	return 0;
}

static void start_with_places(size_t max_open)
{
	act_incidents_free(incidents);
	incidents = act_incidents_new(&(struct act_incidents_opts){
		.settle_ns = 5 * S, .confirm_ns = S, .max_open = max_open});
	assert_non_null(incidents);
}

/* An anomaly of a service's pod that began at `from` s. */
static struct act_anomaly begin(const char *service, double from, double peak)
{
	struct act_anomaly a = {
		.id = ++last_id,
		.instance = base_hash(0, service, act_service_length(service)) ^
			    (service[strlen(service) - 1] == ')'),
		.begin_ns = T + (int64_t)(from * 1e9),
		.last_ns = T + (int64_t)(from * 1e9),
		.minute = T / (60 * S),
		.findings = 1,
		.peak = peak,
		.threshold = 1,
		.blames = 1,
		.blame = {{.metric = "latency_seconds_p90",
			   .share = 0.9,
			   .value = 0.2,
			   .before = 0.02,
			   .measure = ACT_MEASURE_LATENCY}},
	};

	snprintf(a.name.service, sizeof(a.name.service), "%s", service);
	snprintf(a.name.pod, sizeof(a.name.pod), "%s-0", service);
	strcpy(a.name.host, "node-1");
	return a;
}

static void poll_at(double at)
{
	act_incidents_poll(incidents, T + (int64_t)(at * 1e9), note, NULL);
}

static void take_at(struct act_anomaly *a, double at)
{
	a->last_ns = T + (int64_t)(at * 1e9);
	act_incidents_take(incidents, a, a->last_ns);
	poll_at(at);
}

static void end_at(struct act_anomaly *a, double at)
{
	a->end_ns = T + (int64_t)(at * 1e9);
	act_incidents_take(incidents, a, a->end_ns);
	poll_at(at);
}

static void call_of(const char *caller, const char *callee, const char *owner, bool kernel)
{
	const struct act_call_end from = {caller, owner, kernel}, to = {callee, owner, kernel};

	act_incidents_call(incidents, &from, &to, T);
}

static void call(const char *caller, const char *callee)
{
	call_of(caller, callee, "", false);
}

static void take_change(const struct act_anomaly *a, void *arg)
{
	(void)arg;
	act_incidents_take(incidents, a, a->end_ns ? a->end_ns : a->last_ns);
}

static struct act_incident listed[16];

static bool copy_incident(const struct act_incident *i, void *arg)
{
	size_t *n = arg;

	listed[(*n)++] = *i;
	return *n < 16;
}

static size_t list(void)
{
	size_t n = 0;

	act_incidents_each(incidents, 0, copy_incident, &n);
	return n;
}

static void a_fault_and_its_callers_are_one(void **state)
{
	struct act_anomaly front = begin("front", 0, 2), cart = begin("cart", 0.2, 5), other;

	(void)state;
	call("front", "cart");
	take_at(&front, 0);
	take_at(&cart, 0.2);
	assert_int_equal(list(), 1);
	assert_int_equal(listed[0].members, 2);
	assert_string_equal(listed[0].cause.name.service, "cart");
	assert_int_equal(listed[0].begin_ns, T);
	other = begin("mail", 0.5, 9); /* it is not called */
	take_at(&other, 0.5);
	assert_int_equal(list(), 2);
	assert_string_equal(listed[0].cause.name.service, "mail");
	assert_int_equal(listed[0].members, 1);
	assert_int_equal(listed[1].members, 2);
}

/* Through members: front calls cart, and cart calls db. */
static void a_chain_is_one_and_two_chains_are_two(void **state)
{
	struct act_anomaly a[] = {begin("db", 0, 5), begin("cart", 0.1, 3), begin("front", 0.2, 2),
				  begin("web", 0.3, 2), begin("search", 0.4, 4)};

	(void)state;
	call("front", "cart");
	call("cart", "db");
	call("web", "search");
	for (size_t i = 0; i < sizeof(a) / sizeof(*a); i++)
		take_at(&a[i], 0.1 * (double)i);
	assert_int_equal(list(), 2);
	assert_int_equal(listed[1].members, 3);
	assert_string_equal(listed[1].cause.name.service, "db");
	assert_int_equal(listed[0].members, 2);
	assert_string_equal(listed[0].cause.name.service, "search");
}

/* Two callers are seen before the service that both call. */
static void an_anomaly_between_two_incidents_makes_them_one(void **state)
{
	struct act_anomaly a = begin("front", 0, 2), b = begin("api", 0.1, 2), c;

	(void)state;
	call("front", "cart");
	call("api", "cart");
	take_at(&a, 0);
	take_at(&b, 0.1);
	assert_int_equal(list(), 2);
	c = begin("cart", 0.3, 6);
	take_at(&c, 0.3);
	assert_int_equal(list(), 1);
	assert_int_equal(listed[0].members, 3);
	assert_int_equal(listed[0].number, 1);
	poll_at(2);
	assert_int_equal(news.began, 1);
	assert_int_equal(news.ended, 0);
	assert_string_equal(news.last.told_cause.service, "cart");
}

/* Receivers of both have been told: that of the younger hears of its end. */
static void two_incidents_that_were_told_join(void **state)
{
	struct act_anomaly a = begin("front", 0, 2), b = begin("api", 0.1, 2), c;

	(void)state;
	call("front", "cart");
	call("api", "cart");
	take_at(&a, 0);
	take_at(&b, 0.1);
	poll_at(3);
	assert_int_equal(news.began, 2);
	c = begin("cart", 4, 6);
	take_at(&c, 4);
	assert_int_equal(news.ended, 1);
	assert_int_equal(list(), 2);
	assert_int_equal(listed[0].joined, 1);
	assert_true(listed[0].end_ns != 0);
	assert_int_equal(listed[1].members, 3);
	end_at(&a, 6), end_at(&b, 6), end_at(&c, 6);
	poll_at(20);
	assert_int_equal(news.ended, 2);
}

static void it_ends_once_when_all_have_settled(void **state)
{
	struct act_anomaly a = begin("cart", 0, 5), b = begin("cart", 12, 3);

	(void)state;
	b.instance++; /* another pod of the service */
	take_at(&a, 8);
	end_at(&a, 8.5);
	poll_at(12.5);
	assert_int_equal(news.ended, 0);
	take_at(&b, 12.9); /* it began 4 s after the other was last seen */
	assert_int_equal(list(), 1);
	assert_int_equal(listed[0].members, 2);
	end_at(&b, 13.5);
	poll_at(17.8);
	assert_int_equal(news.ended, 0);
	assert_int_equal(listed[0].end_ns, 0);
	poll_at(18);
	assert_int_equal(news.ended, 1);
	assert_int_equal(news.began, 1);
	assert_int_equal(news.last.begin_ns, T);
	assert_int_equal(news.last.end_ns, T + 129 * S / 10);
	poll_at(100);
	assert_int_equal(news.ended, 1);
	/* The next one is another. */
	a = begin("cart", 60, 5);
	take_at(&a, 60);
	assert_int_equal(list(), 2);
}

/* An anomaly that began before the end of an incident, but was found after it. */
static void what_touches_an_ended_one_goes_on_with_it(void **state)
{
	struct act_anomaly a = begin("cart", 0, 5), b = begin("cart", 6, 5);
	char id[ACT_EVENT_ID_BYTES];

	(void)state;
	take_at(&a, 2);
	end_at(&a, 2.5);
	poll_at(7.1);
	assert_int_equal(news.ended, 1);
	take_at(&b, 7.2);
	poll_at(9);
	assert_int_equal(list(), 1);
	assert_int_equal(listed[0].end_ns, 0);
	assert_int_equal(news.began, 2);
	/* A pod is one member, with all of its anomalies. */
	assert_int_equal(listed[0].members, 1);
	assert_int_equal(listed[0].member[0].anomalies, 2);
	assert_int_equal(listed[0].member[0].begin_ns, T);
	assert_int_equal(listed[0].member[0].end_ns, 0);
	assert_true(act_incidents_id(incidents, &a, id) && act_incidents_id(incidents, &b, id));
}

static void the_cause_may_change_but_not_what_identifies_it(void **state)
{
	struct act_anomaly front = begin("front", 0, 3), cart;
	char id[ACT_EVENT_ID_BYTES];

	(void)state;
	call("front", "cart");
	take_at(&front, 0);
	poll_at(1.5);
	assert_int_equal(news.began, 1);
	strcpy(id, news.last.id);
	cart = begin("cart", 2, 2);
	cart.suspicion = 1.5; /* its callers' evidence comes before a higher score */
	take_at(&cart, 2);
	assert_int_equal(news.changed, 1);
	assert_string_equal(news.last.cause.name.service, "cart");
	assert_string_equal(news.last.told_cause.service, "front");
	assert_string_equal(news.last.id, id);
	front.peak = 9;
	take_at(&front, 3);
	assert_int_equal(news.changed, 1);
	front.has_trace = true;
	take_at(&front, 4);
	assert_int_equal(news.changed, 2);
	assert_true(news.last.has_trace);
	take_at(&front, 63);
	assert_int_equal(news.again, 0);
	poll_at(64.1);
	assert_int_equal(news.again, 1);
}

/* A fault of a service shows in its host and in connections, whichever is seen first. */
static void hosts_and_connections_join_and_are_no_glue(void **state)
{
	struct act_anomaly host = begin("host", 0, 6), own = begin("(host) (tcp)", 0.1, 6),
			   cart = begin("cart", 0.2, 5), tcp = begin("cart (tcp)", 0.3, 8),
			   mails = begin("mail (tcp)", 0.35, 4), mail = begin("mail", 0.4, 4),
			   far = begin("host", 0.5, 4);

	(void)state;
	take_at(&host, 0);
	take_at(&own, 0.1);
	take_at(&cart, 0.2);
	take_at(&tcp, 0.3);
	assert_int_equal(list(), 1);
	assert_int_equal(listed[0].members, 4);
	assert_string_equal(listed[0].cause.name.service, "cart");
	/* An unconnected service of the same host has a fault of its own. */
	take_at(&mails, 0.35);
	assert_int_equal(list(), 1);
	take_at(&mail, 0.4);
	assert_int_equal(list(), 2);
	far.instance++;
	strcpy(far.name.host, "node-2");
	take_at(&far, 0.5);
	assert_int_equal(list(), 3);
}

/* The host is the cause: all its pods suffer from it. */
static void a_host_that_is_the_cause_takes_its_pods(void **state)
{
	struct act_anomaly host = begin("host", 0, 60), cart = begin("cart", 0.2, 5),
			   mail = begin("mail", 0.4, 4);

	(void)state;
	take_at(&host, 0);
	take_at(&cart, 0.2);
	take_at(&mail, 0.4);
	assert_int_equal(list(), 1);
	assert_string_equal(listed[0].cause.name.service, "host");
	assert_int_equal(listed[0].members, 3);
}

/*
 * The host is anomalous for longer than cart, but not because of mail, whose anomaly begins later.
 */
static void a_host_holds_no_incident_open(void **state)
{
	struct act_anomaly cart = begin("cart", 0, 5), host = begin("host", 0.5, 4), mail;

	(void)state;
	take_at(&cart, 0);
	take_at(&host, 0.5);
	take_at(&cart, 9.5);
	end_at(&cart, 10);
	take_at(&host, 14);
	assert_int_equal(news.ended, 0);
	take_at(&host, 15);
	assert_int_equal(news.ended, 1);
	assert_int_equal(news.last.end_ns, T + 95 * S / 10);
	/* An anomaly that goes on after the end of its incident is a new incident. */
	take_at(&host, 16);
	assert_int_equal(list(), 2);
	assert_string_equal(listed[0].cause.name.service, "host");
	mail = begin("mail", 17, 4);
	take_at(&mail, 17);
	assert_int_equal(list(), 3);
}

static struct act_anomaly surge(const char *service, double load)
{
	struct act_anomaly a = begin(service, 0, 4);

	a.load = load;
	a.blames = 2;
	a.blame[0] = (struct act_blame){.metric = "cpu_seconds_total",
					.share = 0.5,
					.value = 0.3 * load,
					.before = 0.3,
					.rate = true,
					.measure = ACT_MEASURE_CPU};
	a.blame[1] = (struct act_blame){.metric = "requests_in_flight",
					.share = 0.4,
					.value = load > 1,
					.before = 0,
					.measure = ACT_MEASURE_WAITING};
	return a;
}

static void more_requests_are_information(void **state)
{
	struct act_anomaly a = surge("cart", 3), host = begin("host", 0.1, 3);

	(void)state;
	host.blames = 1;
	host.blame[0] = a.blame[0];
	take_at(&a, 0);
	assert_true(act_incidents_is_load(incidents, a.instance));
	take_at(&host, 0.1);
	poll_at(0.9);
	assert_int_equal(news.began, 0);
	poll_at(1);
	assert_int_equal(news.began, 1);
	assert_int_equal(news.last.kind, ACT_INCIDENT_LOAD);
	assert_non_null(strstr(news.last.sentence, "3 times its usual number of requests"));
	assert_true(act_incidents_is_load(incidents, a.instance));
	/* Latency rises as well: now it is a fault. */
	a.blame[1] = (struct act_blame){.metric = "latency_seconds_p90",
					.share = 0.5,
					.value = 0.2,
					.before = 0.02,
					.measure = ACT_MEASURE_LATENCY};
	take_at(&a, 10);
	assert_int_equal(news.began, 2);
	assert_int_equal(news.last.kind, ACT_INCIDENT_FAULT);
	assert_false(act_incidents_is_load(incidents, a.instance));
	a.blames = 1;
	take_at(&a, 11);
	assert_int_equal(news.last.kind, ACT_INCIDENT_FAULT); /* and remains one */
}

static void what_load_does_not_explain_is_a_fault(void **state)
{
	const enum act_measure other[] = {ACT_MEASURE_CPU, ACT_MEASURE_ERRORS, 0, false};
	struct act_anomaly a;
	size_t k;

	(void)state;
	for (k = 0; k < 2; k++) { /* eight times the CPU or the errors, for twice the requests */
		a = surge(k ? "a" : "b", 2);
		a.blame[0].value = 2.4;
		a.blame[0].measure = other[k];
		take_at(&a, 0);
		assert_int_equal(list(), k + 1);
		assert_int_equal(listed[0].kind, ACT_INCIDENT_FAULT);
	}
	a = surge("c", 1.1); /* the usual requests */
	take_at(&a, 0);
	assert_int_equal((list(), listed[0].kind), ACT_INCIDENT_FAULT);
	assert_false(act_incidents_is_load(incidents, a.instance));
	a = surge("d", 0.3); /* fewer requests */
	take_at(&a, 0);
	assert_int_equal((list(), listed[0].kind), ACT_INCIDENT_LOAD);
	a = surge("e", 0.3); /* fewer requests, while more of them wait */
	a.blame[1].value = 9;
	take_at(&a, 0);
	assert_int_equal((list(), listed[0].kind), ACT_INCIDENT_FAULT);
	a = surge("g", 3); /* more requests, and its callers wait for it */
	strcpy(a.callers, "front");
	take_at(&a, 0);
	assert_int_equal((list(), listed[0].kind), ACT_INCIDENT_FAULT);
	a = surge("f", 0.05); /* none */
	take_at(&a, 0);
	assert_int_equal((list(), listed[0].kind), ACT_INCIDENT_FAULT);
}

/* Pushes findings that blame b, ten per second, and feeds the incidents. */
static void find_from_to(struct act_verdicts *v, struct act_verdict_pod *p, double from, double to,
			 double score, struct act_blame b)
{
	b.share = 0.3;
	for (long k = lround(10 * from); k <= lround(10 * to); k++) {
		struct act_finding f = {
			.ns = T + k * S / 10,
			.score = score,
			.threshold = 1,
			.anomalous = score > 1,
			.shadow_score = NAN,
			.load = b.measure == ACT_MEASURE_LOAD ? 0.05 : 1,
			.blames = 2,
			.blame = {{"cpu_seconds_total", 0.4, 0.01, 0.2, true, ACT_MEASURE_CPU, 0,
				   false},
				  b},
		};

		act_verdict_push(p, &f);
		act_verdicts_keep(v, f.ns, take_change, NULL);
		act_incidents_poll(incidents, f.ns, note, NULL);
	}
}

/*
 * An earlier fault is mentioned with its own time, whether or not the anomaly continued in between.
 */
static void a_sentence_names_what_is_wrong_now(void **state)
{
	static const struct act_pod_name name = {.pod = "cart-0", .service = "cart"};
	struct act_blame errors = {"errors_total", 0, 9, 0, true, ACT_MEASURE_ERRORS, 0, false},
			 slow = {"latency_seconds_p90", 0, 0.2,	 0.02, false,
				 ACT_MEASURE_LATENCY,	0, false},
			 leak = {"cache_bytes", 0, 2048, 1024, false, ACT_MEASURE_MEMORY, 0, false};
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){0});
	struct act_verdict_pod *p = act_verdicts_add(v, 7, &name);

	(void)state;
	find_from_to(v, p, 0, 20, 9, errors);
	find_from_to(v, p, 20.1, 40, 5, slow); /* in the same anomaly */
	assert_non_null(strstr(news.last.sentence, "cart-0 has had errors since 03:06:31 UTC: "));
	find_from_to(v, p, 40.1, 43, 0, leak);
	find_from_to(v, p, 43.1, 60, 3, leak); /* in another one */
	assert_int_equal(list(), 1);
	assert_string_equal(
		listed[0].sentence,
		"cart-0 has used more memory than usual since 03:07:14 UTC: cache_bytes rose to 2 "
		"KiB (usually 1 KiB). Before, it had errors from 03:06:31 UTC to 03:06:51 UTC, and "
		"it was slow from 03:06:51 UTC to 03:07:11 UTC. First, look at what uses its "
		"memory.");
	find_from_to(v, p, 60.1, 75, 0, leak);
	assert_int_equal(list(), 1);
	assert_string_equal(
		listed[0].sentence,
		"cart-0 used more memory than usual from 03:07:14 UTC to 03:07:31 UTC: cache_bytes "
		"rose to 2 KiB (usually 1 KiB). Before, it had errors from 03:06:31 UTC to 03:06:51 "
		"UTC, and it was slow from 03:06:51 UTC to 03:07:11 UTC.");
	act_verdicts_free(v);
}

/*
 * That the process stopped is said first, even if other evidence is stronger, until it works again.
 */
static void a_process_that_stops_is_said_first(void **state)
{
	static const struct act_pod_name name = {.pod = "cart-0", .service = "cart"};
	struct act_blame slow = {"latency_seconds_p90", 0, 0.2,	 0.02, false,
				 ACT_MEASURE_LATENCY,	0, false},
			 none = {"requests_total", 0, 0, 100, true, ACT_MEASURE_LOAD, 0, false};
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){0});
	struct act_verdict_pod *p = act_verdicts_add(v, 7, &name);

	(void)state;
	find_from_to(v, p, 0, 4, 9, slow);
	find_from_to(v, p, 4.1, 6, 2, none);
	find_from_to(v, p, 6.1, 9, 9, slow);
	assert_int_equal(list(), 1);
	assert_non_null(strstr(listed[0].sentence, "cart-0 has finished no work since 03:06:35 "));
	find_from_to(v, p, 9.1, 20, 9, slow);
	list();
	assert_non_null(strstr(listed[0].sentence, "cart-0 has been slow since "));
	assert_non_null(strstr(listed[0].sentence, ". Before, it finished no work from 03:06:35 "));
	act_verdicts_free(v);
}

/* The pods that take over its work show more evidence than its short silence. */
static void a_pod_that_stops_outranks_those_that_take_its_work(void **state)
{
	struct act_anomaly busy = begin("queue", 0, 9), stopped = begin("queue", 1, 3);

	(void)state;
	stopped.instance = ~busy.instance;
	busy.blame[0] = (struct act_blame){"jobs_done_total", 0.9, 40,	 20, true,
					   ACT_MEASURE_LOAD,  0,   false};
	busy.now = ACT_MEASURE_LOAD;
	busy.load = 2;
	busy.fault[ACT_MEASURE_LOAD] = (struct act_fault){busy.begin_ns, busy.begin_ns, true,
							  false};
	stopped.blame[0] = busy.blame[0];
	stopped.blame[0].value = 0;
	stopped.blame[0].measure = stopped.now = ACT_MEASURE_STOPPED;
	stopped.load = 0.01;
	stopped.fault[ACT_MEASURE_STOPPED] = (struct act_fault){stopped.begin_ns, stopped.begin_ns,
								false, false};
	take_at(&busy, 0.5);
	take_at(&stopped, 1);
	take_at(&busy, 2);
	assert_int_equal(list(), 1);
	assert_true(listed[0].cause.instance == stopped.instance);
	assert_non_null(
		strstr(listed[0].sentence, "queue-0 on node-1 has finished no work since "));
	/* If the other pod became busy long before the stop, only the evidence counts. */
	busy = begin("other", 30, 9);
	stopped = begin("other", 45, 3);
	stopped.instance = ~busy.instance;
	busy.now = ACT_MEASURE_LOAD;
	busy.fault[ACT_MEASURE_LOAD] = (struct act_fault){busy.begin_ns, busy.begin_ns, true,
							  false};
	stopped.fault[ACT_MEASURE_STOPPED] = (struct act_fault){stopped.begin_ns, stopped.begin_ns,
								false, false};
	take_at(&busy, 44);
	take_at(&stopped, 45);
	assert_int_equal(list(), 2);
	assert_true(listed[0].cause.instance == busy.instance);
}

/* It is open while connections are refused, also beyond the end of the process. */
static void refused_connections_end_when_the_service_is_back(void **state)
{
	struct act_anomaly cart = begin("cart", 0, 5), refused = begin("(host) (tcp)", 1, 4);

	(void)state;
	strcpy(refused.blame[0].metric,
	       "sidelight_tcp_failures_total{cause=\"refused\",port=\"80\"}");
	refused.blame[0].measure = ACT_MEASURE_OTHER;
	take_at(&cart, 0);
	take_at(&refused, 1);
	cart.unread = cart.died = true;
	end_at(&cart, 11);
	take_at(&refused, 20); /* the refused connections continue as an incident of their own */
	take_at(&refused, 30);
	assert_int_equal(list(), 2);
	assert_non_null(strstr(listed[1].sentence, ". Its process has ended."));
	assert_non_null(strstr(listed[0].sentence, "Connections to port 80 have been refused "));
	assert_int_equal(listed[0].end_ns, 0);
	end_at(&refused, 31);
	poll_at(36);
	list();
	assert_int_equal(listed[0].end_ns, T + 30 * S);
	assert_non_null(strstr(listed[0].sentence, "Connections to port 80 were refused from "));
	assert_null(strstr(listed[0].sentence, "First"));
}

static void bounds_hold_and_are_counted(void **state)
{
	struct act_incidents_stats stats;
	struct act_anomaly a = begin("cart", 0, 5);
	char id[ACT_EVENT_ID_BYTES];

	(void)state;
	act_incidents_free(incidents);
	incidents = act_incidents_new(
		&(struct act_incidents_opts){.settle_ns = 5 * S, .max_open = 2, .max_listed = 3});
	for (uint32_t i = 0; i < ACT_MEMBERS + 2; i++) {
		a.id = ++last_id;
		a.instance++;
		take_at(&a, 0);
		take_at(&a, 0.1);
	}
	assert_int_equal(list(), 1);
	assert_int_equal(listed[0].members, ACT_MEMBERS);
	assert_int_equal(listed[0].left_out, 2);
	for (int i = 0; i < 6; i++) {
		char service[] = "a";
		struct act_anomaly b;

		service[0] = (char)('a' + i);
		b = begin(service, 10 * i, 5);
		take_at(&b, 10 * i);
		if (i == 2)
			assert_true(act_incidents_id(incidents, &b, id));
		if (i < 5)
			end_at(&b, 10 * i + 1);
		poll_at(10 * i + 9);
	}
	a = begin("z", 59, 5);
	take_at(&a, 59);
	take_at(&a, 59.1);
	act_incidents_stats(incidents, &stats);
	assert_int_equal(stats.left_out, 2);
	assert_int_equal(stats.refused, 1);
	assert_int_equal(stats.open_faults, 2);
	assert_int_equal(stats.forgotten, 4);
	assert_int_equal(list(), 3);
	a.id = 1000;
	assert_false(act_incidents_id(incidents, &a, id));
	for (int i = 0; i < 5000; i++) {
		char callee[16];

		snprintf(callee, sizeof(callee), "%d", i);
		call("a", callee);
	}
	act_incidents_stats(incidents, &stats);
	assert_int_equal(stats.calls_left_out, 5000 - 4096);
}

/* An incident ends even if nothing is heard of its member any more, or if the clock is set back. */
static void it_ends_without_a_last_word(void **state)
{
	struct act_anomaly a = begin("cart", 0, 5), b;

	(void)state;
	take_at(&a, 1);
	poll_at(30);
	assert_int_equal(news.ended, 0);
	poll_at(62);
	assert_int_equal(news.ended, 1);
	b = begin("cart", 100, 5);
	take_at(&b, 100);
	end_at(&b, 101);
	poll_at(-3600);
	assert_int_equal(news.ended, 2);
}

/* Two incidents are the maximum here. The third fault lasts until one of them has ended. */
static void a_refused_fault_is_told_once_there_is_room(void **state)
{
	struct act_anomaly a = begin("cart", 0, 5), b = begin("mail", 0, 5), c = begin("db", 0, 5);
	struct act_incidents_stats stats;

	(void)state;
	start_with_places(2);
	take_at(&a, 0), take_at(&b, 0), take_at(&c, 0);
	take_at(&c, 2);
	act_incidents_stats(incidents, &stats);
	assert_int_equal(stats.refused, 1);
	assert_int_equal(news.began, 2);
	end_at(&a, 3);
	take_at(&b, 8), take_at(&c, 8);
	poll_at(9);
	assert_int_equal(news.ended, 1);
	take_at(&c, 9);
	poll_at(11);
	assert_int_equal(news.began, 3);
	assert_string_equal(news.last.cause.name.service, "db");
	assert_int_equal(news.last.begin_ns, T);
	act_incidents_stats(incidents, &stats);
	assert_int_equal(stats.refused, 1);
}

/* All pods of a service are one incident, and those beyond its list open no other. */
static void unlisted_members_stay_with_their_incident(void **state)
{
	struct act_anomaly a[ACT_MEMBERS + 2];
	const size_t n = sizeof(a) / sizeof(*a);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		a[i] = begin("cart", 0, 5);
		a[i].instance += 2 * i;
		take_at(&a[i], 0);
	}
	for (size_t i = 0; i < n; i++)
		take_at(&a[i], 2);
	assert_int_equal(list(), 1);
	assert_int_equal(listed[0].left_out, 2);
	for (size_t i = 0; i < ACT_MEMBERS; i++)
		end_at(&a[i], 3);
	poll_at(9);
	assert_int_equal(news.ended, 1);
	take_at(&a[n - 1], 9);
	poll_at(11);
	assert_int_equal(news.began, 1);
}

static void no_tenant_takes_all_places(void **state)
{
	struct act_anomaly of[8], other;
	char name[16];

	(void)state;
	start_with_places(8);
	for (size_t i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "loud-%c", (char)('a' + i));
		of[i] = begin(name, 0, 5);
		of[i].name.tenant = 1;
		take_at(&of[i], 0);
	}
	assert_int_equal(list(), 3);
	other = begin("mail", 0, 5);
	other.name.tenant = 2;
	take_at(&other, 0);
	assert_int_equal(list(), 4);
	other = begin("db", 0, 5);
	take_at(&other, 0);
	assert_int_equal(list(), 5);
}

static void own(struct act_anomaly *a, const char *owner)
{
	strcpy(a->name.owner, owner);
	a->instance += 1000 * a->id;
}

/* Pods of two tenants belong to two services, even if the names are equal and one is trusted. */
static void one_name_does_not_join_two_tenants(void **state)
{
	struct act_anomaly a[] = {begin("cart", 0, 5), begin("cart", 0.1, 6), begin("cart", 0.2, 7),
				  begin("cart", 0.3, 5)};

	(void)state;
	own(&a[1], "uid 1000");
	own(&a[2], "shop");
	own(&a[3], "uid 1000");
	strcpy(a[3].name.host, "node-2"); /* a replica */
	for (size_t i = 0; i < 4; i++)
		take_at(&a[i], 0.1 * (double)i);
	assert_int_equal(list(), 3);
	assert_int_equal(listed[0].members, 1);
	assert_int_equal(listed[1].members, 2);
	assert_int_equal(listed[2].members, 1);
}

/* Connections may be those of either tenant, so they join one, and do not join the two. */
static void connections_do_not_join_two_tenants(void **state)
{
	static const char *const owner[][3] = {
		{"", "uid 1000", ""}, {"uid 1001", "uid 1000", ""}, {"shop", "uid 1000", "shop"}};

	(void)state;
	for (size_t k = 0; k < sizeof(owner) / sizeof(*owner); k++) {
		for (size_t first = 0; first < 3; first++) {
			struct act_anomaly a[] = {begin("cart", 0, 5), begin("cart", 0.1, 6),
						  begin("cart (tcp)", 0.2, 7)};
			uint32_t members = 0;

			start_with_places(0);
			for (size_t i = 0; i < 3; i++) {
				own(&a[i], owner[k][i]);
				snprintf(a[i].name.host, sizeof(a[i].name.host), "node-%zu", i);
			}
			for (size_t i = 0; i < 3; i++)
				take_at(&a[(first + i) % 3], 0.1 * (double)i);
			assert_int_equal(list(), 2);
			for (size_t i = 0; i < 2; i++)
				members += listed[i].members;
			assert_int_equal(members, 3);
		}
	}
}

/* A kernel that knows the namespace of connections does not relate them to others. */
static void connections_join_their_namespace(void **state)
{
	struct act_anomaly tcp = begin("cart (tcp)", 0, 5), other = begin("cart", 0.1, 5),
			   cart = begin("cart", 0.2, 5);

	(void)state;
	own(&tcp, "shop");
	own(&other, "uid 1000");
	own(&cart, "shop");
	strcpy(other.name.host, "node-2");
	strcpy(cart.name.host, "node-3");
	take_at(&tcp, 0);
	take_at(&other, 0.1);
	assert_int_equal(list(), 2);
	take_at(&cart, 0.2);
	assert_int_equal(list(), 2);
	assert_int_equal(listed[1].members, 2);
}

/* A span tells of its publisher's services, and so joins only those. */
static void spans_relate_services_of_their_tenant(void **state)
{
	static const char *const owner[][2] = {
		{"", ""}, {"uid 1000", ""}, {"uid 1001", "uid 1001"}, {"uid 1000", "uid 1000"}};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct act_anomaly front = begin("front", 0, 5), cart = begin("cart", 0.1, 5);

		start_with_places(0);
		call_of("front", "cart", "uid 1000", false);
		own(&front, owner[i][0]);
		own(&cart, owner[i][1]);
		take_at(&front, 0);
		take_at(&cart, 0.1);
		assert_int_equal(list(), i == 3 ? 1 : 2);
	}
}

/* The kernel may know the namespace of a service that is called, and else only its name. */
static void connections_relate_services_that_may_be_theirs(void **state)
{
	static const struct {
		const char *kernel, *owner;
		size_t incidents;
	} is[] = {{"", "", 1},	   {"", "uid 1000", 1}, {"", "shop", 1},	{"shop", "shop", 1},
		  {"shop", "", 1}, {"shop", "bank", 2}, {"shop", "uid 1000", 2}};

	(void)state;
	for (size_t i = 0; i < sizeof(is) / sizeof(*is); i++) {
		struct act_anomaly front = begin("front", 0, 5), cart = begin("cart", 0.1, 5);

		start_with_places(0);
		own(&cart, is[i].owner);
		call_of("front", "cart", is[i].kernel, true);
		take_at(&front, 0);
		take_at(&cart, 0.1);
		assert_int_equal(list(), is[i].incidents);
	}
}

int main(void)
{
	setenv("TZ", "UTC", 1);
	tzset();

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(a_fault_and_its_callers_are_one),
		CASE(a_chain_is_one_and_two_chains_are_two),
		CASE(an_anomaly_between_two_incidents_makes_them_one),
		CASE(two_incidents_that_were_told_join),
		CASE(it_ends_once_when_all_have_settled),
		CASE(what_touches_an_ended_one_goes_on_with_it),
		CASE(the_cause_may_change_but_not_what_identifies_it),
		CASE(hosts_and_connections_join_and_are_no_glue),
		CASE(a_host_that_is_the_cause_takes_its_pods),
		CASE(a_host_holds_no_incident_open),
		CASE(more_requests_are_information),
		CASE(what_load_does_not_explain_is_a_fault),
		CASE(a_sentence_names_what_is_wrong_now),
		CASE(a_process_that_stops_is_said_first),
		CASE(a_pod_that_stops_outranks_those_that_take_its_work),
		CASE(refused_connections_end_when_the_service_is_back),
		CASE(bounds_hold_and_are_counted),
		CASE(a_refused_fault_is_told_once_there_is_room),
		CASE(unlisted_members_stay_with_their_incident),
		CASE(no_tenant_takes_all_places),
		CASE(it_ends_without_a_last_word),
		CASE(one_name_does_not_join_two_tenants),
		CASE(connections_do_not_join_two_tenants),
		CASE(connections_join_their_namespace),
		CASE(spans_relate_services_of_their_tenant),
		CASE(connections_relate_services_that_may_be_theirs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
