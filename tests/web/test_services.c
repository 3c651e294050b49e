// SPDX-License-Identifier: Apache-2.0
/* test_services.c - the view of services, from the last values of a simulated collector. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "act/incident.h"
#include "collect/read/calc.h"
#include "collect/services/internal.h"
#include "fake_collector.h"
#include "region/flows.h"
#include "region/layers.h"
#include "support/test.h"
#include "collect/tables/tables.h"

#define SECOND	 1000000000ull
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- rules ---- */

static struct region_metric named(const char *name, enum sl_metric_kind kind)
{
	return (struct region_metric){
		.name = name, .kind = kind, .unit = "", .help = "", .cells = 1};
}

static void names_are_known_by_their_conventions(void **state)
{
	static const struct {
		const char *name;
		enum sl_metric_kind kind;
		enum collect_rule_role role;
		double unit;
	} of[] = {
		{"http_requests_total", SL_KIND_COUNTER, COLLECT_RULE_REQUESTS, 1},
		{"shop_requests_total", SL_KIND_COUNTER_F64, COLLECT_RULE_REQUESTS, 1},
		{"grpc_server_handled_total", SL_KIND_COUNTER, COLLECT_RULE_REQUESTS, 1},
		{"queue_jobs_done_total", SL_KIND_COUNTER, COLLECT_RULE_REQUESTS, 1},
		{"queue_jobs_queued_total", SL_KIND_COUNTER, COLLECT_RULE_NONE, 1},
		{"queue_jobs_failed_total", SL_KIND_COUNTER, COLLECT_RULE_ERRORS, 1},
		{"mail_errors_total", SL_KIND_COUNTER, COLLECT_RULE_ERRORS, 1},
		{"http_requests", SL_KIND_GAUGE, COLLECT_RULE_NONE, 1},
		{"http_requests_in_flight", SL_KIND_GAUGE, COLLECT_RULE_NONE, 1},
		/*
		 * Metrics of others: requests that it makes, those of its own scrapes, those of the
		 * kernel.
		 */
		{"http_client_requests_total", SL_KIND_COUNTER, COLLECT_RULE_NONE, 1},
		{"http.client.request.duration", SL_KIND_HISTOGRAM, COLLECT_RULE_NONE, 1},
		{"promhttp_metric_handler_requests_total", SL_KIND_COUNTER, COLLECT_RULE_NONE, 1},
		{"sidelight_tcp_requests_total", SL_KIND_COUNTER, COLLECT_RULE_NONE, 1},
		{"http_request_duration_seconds", SL_KIND_HISTOGRAM, COLLECT_RULE_LATENCY, 1},
		{"http.server.request.duration", SL_KIND_HISTOGRAM_EXP, COLLECT_RULE_LATENCY, 1},
		{"http_server_requests_seconds", SL_KIND_HISTOGRAM, COLLECT_RULE_LATENCY, 1},
		{"http_server_duration_milliseconds", SL_KIND_HISTOGRAM, COLLECT_RULE_LATENCY,
		 1e-3},
		{"shop_request_duration_us", SL_KIND_HISTOGRAM, COLLECT_RULE_LATENCY, 1e-6},
		{"http_request_duration_seconds", SL_KIND_GAUGE, COLLECT_RULE_NONE, 1},
		{"process_cpu_seconds_total", SL_KIND_COUNTER_F64, COLLECT_RULE_CPU, 1},
		{"shop_cpu_seconds_total", SL_KIND_COUNTER_F64, COLLECT_RULE_CPU, 1},
		{"node_cpu_seconds_total", SL_KIND_COUNTER_F64, COLLECT_RULE_NONE, 1},
		{"process_resident_memory_bytes", SL_KIND_GAUGE, COLLECT_RULE_MEMORY, 1},
		{"_total", SL_KIND_COUNTER, COLLECT_RULE_NONE, 1},
		{"requests_total", SL_KIND_COUNTER, COLLECT_RULE_NONE, 1},
	};
	struct region_metric m;
	char longest[400];

	(void)state;
	for (size_t i = 0; i < COUNT(of); i++) {
		struct collect_rule r;

		m = named(of[i].name, of[i].kind);
		r = collect_rule_of(&m);
		if (r.role != of[i].role ||
		    (r.role == COLLECT_RULE_LATENCY && r.unit != of[i].unit))
			fail_msg("%s is %d in %g s, not %d", of[i].name, (int)r.role, r.unit,
				 (int)of[i].role);
	}
	/* Without a unit in the name, the unit of the metric counts. */
	m = named("http.server.duration", SL_KIND_HISTOGRAM);
	m.unit = "ms";
	assert_true(collect_rule_of(&m).unit == 1e-3);
	memset(longest, 'x', sizeof(longest));
	strcpy(longest + sizeof(longest) - sizeof("_requests_total"), "_requests_total");
	m = named(longest, SL_KIND_COUNTER);
	assert_int_equal(collect_rule_of(&m).role, COLLECT_RULE_NONE);
	/* The exact name of a convention precedes a name that only ends alike. */
	assert_true(collect_rule_of(&(struct region_metric){.name = "http_requests_total",
							    .kind = SL_KIND_COUNTER,
							    .unit = ""})
			    .rank <
		    collect_rule_of(&(struct region_metric){.name = "cache_requests_total",
							    .kind = SL_KIND_COUNTER,
							    .unit = ""})
			    .rank);
}

static void failures_are_known_by_their_labels(void **state)
{
	static const struct {
		const char *key, *value;
		enum collect_outcome outcome;
	} of[] = {
		{"code", "200", COLLECT_OUTCOME_FINE},
		{"code", "404", COLLECT_OUTCOME_FINE},
		{"code", "503", COLLECT_OUTCOME_ERROR},
		{"status", "5xx", COLLECT_OUTCOME_ERROR},
		{"status", "50", COLLECT_OUTCOME_FINE},
		{"http.response.status_code", "500", COLLECT_OUTCOME_ERROR},
		{"grpc_code", "OK", COLLECT_OUTCOME_FINE},
		{"grpc_code", "NotFound", COLLECT_OUTCOME_FINE},
		{"grpc_code", "Unavailable", COLLECT_OUTCOME_ERROR},
		{"outcome", "SERVER_ERROR", COLLECT_OUTCOME_ERROR},
		{"error.type", "timeout", COLLECT_OUTCOME_ERROR},
		{"error.type", "", COLLECT_OUTCOME_UNKNOWN},
		{"route", "/500", COLLECT_OUTCOME_UNKNOWN},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(of); i++) {
		struct region_metric m = named("x_requests_total", SL_KIND_COUNTER);

		m.label_count = 1;
		m.labels = &(struct region_text_label){of[i].key, of[i].value};
		if (collect_outcome_of(&m) != of[i].outcome)
			fail_msg("%s=%s is %d", of[i].key, of[i].value,
				 (int)collect_outcome_of(&m));
	}
}

/* ---- latency ---- */

static void quantiles_are_those_of_the_histogram(void **state)
{
	static const double bounds[] = {0.001, 0.0025, 0.005, 0.01, 0.1, 0.25, 1};
	uint64_t classic[8] = {5, 100, 900, 300, 40, 0, 2, 0}, exponential[62] = {0};
	struct region_metric c = named("a_duration_seconds", SL_KIND_HISTOGRAM), e = c;
	static const double quantiles[] = {0.1, 0.5, 0.9, 0.99, 0.999};

	(void)state;
	c.bounds = bounds;
	c.bound_count = COUNT(bounds);
	c.bucket_count = COUNT(classic);
	e.kind = SL_KIND_HISTOGRAM_EXP;
	e.scale = 2;
	e.first_bucket = -20;
	e.bucket_count = COUNT(exponential);
	for (unsigned int i = 0; i < 60; i++)
		exponential[i] = i * i % 97;
	for (size_t i = 0; i < COUNT(quantiles); i++) {
		struct collect_latency l = {0}, x = {0};
		double want, got;

		collect_latency_add(&l, &c, classic, 1);
		collect_latency_add(&x, &e, exponential, 1e-3);
		want = collect_quantile(&c, classic, quantiles[i]);
		got = collect_latency_quantile(&l, quantiles[i]);
		if (!(fabs(got / want - 1) < 0.095))
			fail_msg("classic %g: %g, not %g", quantiles[i], got, want);
		want = collect_quantile(&e, exponential, quantiles[i]) * 1e-3;
		got = collect_latency_quantile(&x, quantiles[i]);
		if (!(fabs(got / want - 1) < 0.2)) /* its own buckets are of factor 1.19 */
			fail_msg("exponential %g: %g, not %g", quantiles[i], got, want);
		assert_true(fabs(collect_latency_count(&l) - 1347) < 1e-6);
	}
}

static void observations_of_any_size_are_counted(void **state)
{
	struct collect_latency l = {0};

	(void)state;
	assert_true(isnan(collect_latency_quantile(&l, 0.5)));
	collect_latency_spread(&l, 0, 1e-12, 1);
	collect_latency_spread(&l, -5, 0, 1);
	collect_latency_spread(&l, 1e300, INFINITY, 1);
	collect_latency_spread(&l, 1e9, 1e9, 1);
	collect_latency_spread(&l, NAN, NAN, 1);
	collect_latency_spread(&l, 0, INFINITY, 1);
	collect_latency_spread(&l, 0, 1, NAN);
	assert_true(collect_latency_count(&l) == 6);
	assert_true(isfinite(collect_latency_quantile(&l, 1)));
}

/* ---- services ---- */

static uint64_t served, failed, jobs, buckets[2 + 4], depth;
static const struct region_text_label ok[] = {{"code", "200"}}, wrong[] = {{"code", "500"}};
static const double bounds[] = {0.001, 0.01, 0.1};
static struct fake_metric shop_metrics[] = {
	{.metric = {.name = "http_requests_total",
		    .kind = SL_KIND_COUNTER,
		    .id = 0,
		    .cells = 1,
		    .unit = "",
		    .label_count = 1,
		    .labels = ok},
	 .value = &served},
	{.metric = {.name = "http_requests_total",
		    .kind = SL_KIND_COUNTER,
		    .id = 1,
		    .cells = 1,
		    .unit = "",
		    .label_count = 1,
		    .labels = wrong},
	 .value = &failed},
	{.metric = {.name = "http_request_duration_seconds",
		    .kind = SL_KIND_HISTOGRAM,
		    .id = 2,
		    .cells = 6,
		    .unit = "seconds",
		    .bounds = bounds,
		    .bound_count = 3,
		    .bucket_count = 4},
	 .value = buckets},
	/* Another metric of the same rule counts the same requests. */
	{.metric = {.name = "zzz_http_requests_total",
		    .kind = SL_KIND_COUNTER,
		    .id = 3,
		    .cells = 1,
		    .unit = ""},
	 .value = &served},
	{.metric = {.name = "depth", .kind = SL_KIND_GAUGE, .id = 4, .cells = 1, .unit = ""},
	 .value = &depth},
};
static struct fake_metric queue_metrics[] = {
	{.metric = {.name = "queue_jobs_done_total",
		    .kind = SL_KIND_COUNTER,
		    .id = 0,
		    .cells = 1,
		    .unit = ""},
	 .value = &jobs},
};

#define REGION(i, p, ...)                                                   \
	{                                                                   \
		.view = {.target = "a",                                     \
			 .hostname = "node-1",                              \
			 .fault = "",                                       \
			 .state = SL_STATE_LIVE,                            \
			 .tenant = {.container = ""}},                      \
		.info = {.instance = i, .pid = p, .labels = {__VA_ARGS__}}, \
	}
enum { SHOP, QUEUE, SHOP_TCP, DB_TCP, AGENT, HOST_TCP, HOST, REGIONS };
static struct fake_region regions[REGIONS] = {
	[SHOP] = REGION(1, 100, {"service", "shop"}, {"namespace", "web"}),
	[QUEUE] = REGION(2, 200, {"service", "queue"}),
	[SHOP_TCP] = REGION(11, 0, {"service", "shop (tcp)"}, {"namespace", "web"}),
	[DB_TCP] = REGION(12, 0, {"service", "db (tcp)"}),
	[AGENT] = REGION(13, 5, {"service", "sidelight-agent"}),
	[HOST_TCP] = REGION(14, 0, {"unit", "(host)"}),
	[HOST] = REGION(15, 5, {"service", "host"}),
};
static const struct region_text_label box[] = {{"container_id", "0123456789abcdef"}};
static uint64_t used, working, limit, quota, period, waited, host_waited;
#define BOX(i, n, k, v, labels_, count)           \
	{                                         \
		.metric = {.name = n,             \
			   .kind = k,             \
			   .id = i,               \
			   .cells = 1,            \
			   .unit = "",            \
			   .labels = labels_,     \
			   .label_count = count}, \
		.value = &(v)                     \
	}
static struct fake_metric host_metrics[] = {
	BOX(0, "container_cpu_usage_seconds_total", SL_KIND_COUNTER, used, box, 1),
	BOX(1, "container_memory_working_set_bytes", SL_KIND_GAUGE, working, box, 1),
	BOX(2, "container_spec_memory_limit_bytes", SL_KIND_GAUGE, limit, box, 1),
	BOX(3, "container_spec_cpu_quota", SL_KIND_GAUGE, quota, box, 1),
	BOX(4, "container_spec_cpu_period", SL_KIND_GAUGE, period, box, 1),
	BOX(5, "container_pressure_io_waiting_seconds_total", SL_KIND_COUNTER, waited, box, 1),
	/* The root cgroup, which is not a container. */
	BOX(6, "container_cpu_usage_seconds_total", SL_KIND_COUNTER, served, NULL, 0),
	BOX(7, "node_pressure_cpu_waiting_seconds_total", SL_KIND_COUNTER, host_waited, NULL, 0),
};
static struct collect_collector collector;
static struct collect_services *services;
static uint64_t clock_ns;
static bool unread; /* the agent is away: regions are looked at, but not read */

static int begin(void **state)
{
	(void)state;
	served = failed = jobs = depth = 0;
	unread = false;
	memset(buckets, 0, sizeof(buckets));
	for (int i = 0; i < REGIONS; i++) {
		struct region_info *info = &regions[i].info;

		info->label_count = 0;
		while (info->labels[info->label_count].key)
			info->label_count++;
		info->kind = i == SHOP_TCP || i == DB_TCP || i == HOST_TCP ? SL_REGION_FLOWS
									   : SL_REGION_METRICS;
		regions[i].view.info = info;
		regions[i].view.state = SL_STATE_LIVE;
		regions[i].view.stale = false;
	}
	regions[SHOP].info.instance = 1;
	regions[SHOP].metrics = shop_metrics;
	regions[SHOP].metric_count = COUNT(shop_metrics);
	regions[QUEUE].metrics = queue_metrics;
	regions[QUEUE].metric_count = COUNT(queue_metrics);
	regions[HOST].metrics = host_metrics;
	regions[HOST].metric_count = COUNT(host_metrics);
	for (int i = 0; i < REGIONS; i++)
		regions[i].view.tenant = (struct collect_tenant_view){.container = ""};
	collector = (struct collect_collector){.regions = regions, .region_count = REGIONS};
	services = collect_services_new(&collector);
	assert_non_null(services);
	clock_ns = 1000 * SECOND;
	return 0;
}

static int end(void **state)
{
	(void)state;
	collect_services_free(services);
	return 0;
}

static void look(void)
{
	for (size_t i = 0; i < collector.region_count && !unread; i++)
		collector.regions[i].fresh_ns = clock_ns;
	collect_services_look(services, (int64_t)(1700000000 * SECOND + clock_ns), clock_ns);
	clock_ns += SECOND;
}

struct seen {
	const char *service;
	struct collect_service_view view;
	char name[64], why[256], all[512];
	struct collect_services_totals totals;
	bool found;
	int n;
};

static void see(const struct collect_service_view *v, void *arg)
{
	struct seen *s = arg;

	snprintf(s->all + strlen(s->all), sizeof(s->all) - strlen(s->all), "%s ", v->service);
	s->n++;
	if (strcmp(v->service, s->service))
		return;
	s->view = *v;
	s->found = true;
	snprintf(s->why, sizeof(s->why), "%s", v->connections.why);
}

static struct seen service(const char *name, unsigned int window)
{
	struct seen s = {.service = name};

	collect_services_each(services, window, see, &s, &s.totals);
	return s;
}

static void requests_errors_and_latency_are_those_of_the_window(void **state)
{
	struct seen s;

	(void)state;
	look();
	s = service("shop", 10);
	assert_true(s.found && isnan(s.view.requests) && isnan(s.view.p50));
	for (int i = 0; i < 20; i++) {
		served += i < 10 ? 90 : 300;
		failed += 10;
		buckets[2 + (i < 10)] += 100;
		look();
	}
	s = service("shop", 10);
	assert_string_equal(s.view.kube_namespace, "web");
	assert_string_equal(s.view.requests_metric, "http_requests_total");
	assert_int_equal(s.view.requests_from, COLLECT_FROM_APPLICATION);
	assert_true(fabs(s.view.requests - 310) < 1e-6 && fabs(s.view.errors - 10) < 1e-6);
	assert_true(s.view.p50 <= 0.001 && s.view.p99 <= 0.0011);
	/* The older half was slower. */
	s = service("shop", 20);
	assert_true(fabs(s.view.requests - 205) < 1e-6);
	assert_true(s.view.p99 > 0.005 && s.view.p99 < 0.011);
	assert_true(fabs(s.view.spark[59] - 310) < 1e-6 && fabs(s.view.spark[40] - 100) < 1e-6 &&
		    isnan(s.view.spark[39]));
	/* A service without data has no zeros. */
	s = service("db", 10);
	assert_true(s.found && s.view.requests_from == COLLECT_FROM_NOTHING && !s.view.pods);
	/* Sidelight's own services are not shown. */
	assert_string_equal(s.all, s.n == 3 ? s.all : "three services");
	assert_null(strstr(s.all, "agent"));
	assert_null(strstr(s.all, "host"));
}

static void a_counter_that_goes_back_makes_no_rate(void **state)
{
	struct seen s;

	(void)state;
	served = 1000000;
	for (int i = 0; i < 3; i++) {
		served += 50;
		look();
	}
	served = 3;
	look();
	served += 50;
	look();
	s = service("shop", 60);
	assert_true(fabs(s.view.requests - 50) < 1e-6);
	/* Neither does a new process with a new history. */
	regions[SHOP].info.instance = 77;
	served += 900000;
	look();
	served += 50;
	look();
	s = service("shop", 60);
	assert_true(fabs(s.view.requests - 50) < 1e-6);
}

static void a_pod_that_is_not_read_has_no_request_rate(void **state)
{
	struct seen s;

	(void)state;
	for (int i = 0; i < 6; i++) {
		served += 50;
		look();
	}
	regions[SHOP].view.stale = true;
	for (int i = 0; i < 5; i++)
		look();
	s = service("shop", 5);
	assert_true(isnan(s.view.requests));
	/* The growth in the meantime does not count as that of one second. */
	regions[SHOP].view.stale = false;
	served += 6 * 50;
	buckets[2] += 6 * 50;
	look();
	s = service("shop", 5);
	assert_true(isnan(s.view.requests) && isnan(s.view.p50));
	served += 50;
	look();
	s = service("shop", 60);
	assert_true(fabs(s.view.requests - 50) < 1e-6);
}

/* Fails unless every known rate of the last minute is this one, and `known` of them are known. */
static void assert_even(const struct seen *s, double rate, int known)
{
	for (unsigned int i = 0; i < COLLECT_SERVICES_WINDOW; i++) {
		const double v = s->view.spark[i];

		if (fabs(v - rate) > 1e-6)
			fail_msg("%g requests per second at %u", v, i);
		known -= !isnan(v);
	}
	assert_int_equal(known, 0);
	assert_true(fabs(s->view.requests - rate) < 1e-6);
}

static void an_agents_restart_is_no_outage(void **state)
{
	struct seen s;

	(void)state;
	for (int i = 0; i < 6; i++) {
		served += 40;
		failed += 10;
		look();
	}
	/* Requests go on. */
	unread = true;
	for (int i = 0; i < 2; i++) {
		look();
		s = service("shop", 10);
		assert_even(&s, 50, 6 + i);
	}
	unread = false;
	served += 3 * 40;
	failed += 3 * 10;
	look();
	s = service("shop", 10);
	assert_even(&s, 50, 8);
	assert_true(fabs(s.view.errors - 10) < 1e-6);
}

static void a_region_read_rarely_has_its_mean_rate(void **state)
{
	static uint64_t cpu;
	static struct fake_metric metrics[] = {
		{.metric = {.name = "queue_jobs_done_total",
			    .kind = SL_KIND_COUNTER,
			    .id = 0,
			    .cells = 1,
			    .unit = ""},
		 .value = &jobs},
		{.metric = {.name = "process_cpu_seconds_total",
			    .kind = SL_KIND_COUNTER,
			    .id = 1,
			    .cells = 1,
			    .unit = ""},
		 .value = &cpu},
	};
	struct seen s;

	(void)state;
	regions[QUEUE].metrics = metrics;
	regions[QUEUE].metric_count = COUNT(metrics);
	for (int i = 0; i < 35; i++) {
		unread = i % 7;
		jobs += unread ? 0 : 7 * 30;
		cpu += unread ? 0 : 7 * 2;
		look();
		s = service("queue", 1);
		if (i < 7)
			continue; /* a rate needs two READs */
		assert_even(&s, 30, i - 6);
		assert_true(fabs(s.view.saturation.cores - 2) < 1e-6);
	}
	/* Its process ends, and its last values are read: there are no more requests. */
	unread = false;
	jobs += 7 * 30;
	regions[QUEUE].view.state = SL_STATE_DEAD;
	look();
	unread = true;
	look();
	s = service("queue", 1);
	assert_true(s.view.requests == 0);
}

static void series_that_stand_still_are_told_apart(void **state)
{
	struct seen s;

	(void)state;
	look();
	s = service("shop", 10);
	assert_int_equal(s.view.changing, 0);
	assert_int_equal(s.view.unchanged, 5);
	served++;
	depth = 7;
	look();
	s = service("shop", 10);
	assert_int_equal(s.view.changing, 3); /* one counter has two names */
	assert_int_equal(s.totals.changing, 3);
	assert_int_equal(s.totals.unchanged, 3);
	for (unsigned int i = 0; i < COLLECT_SERVICES_WINDOW; i++)
		look();
	s = service("shop", 10);
	assert_int_equal(s.view.changing, 0);
}

static void pods_are_counted_by_their_state(void **state)
{
	struct seen s;

	(void)state;
	regions[QUEUE].view.state = SL_STATE_DEAD;
	look();
	s = service("queue", 10);
	assert_int_equal(s.view.pods, 1);
	assert_int_equal(s.view.dead, 1);
	assert_true(s.view.attention >= 25 && strstr(s.view.attention_why, "died"));
	assert_true(!strncmp(s.all, "queue ", 6));
	/* A service without pods or connections is forgotten. */
	collector.region_count = 1;
	look();
	s = service("queue", 10);
	assert_true(!s.found && s.n == 1);
}

static void more_services_than_fit_are_counted(void **state)
{
	enum { MANY = COLLECT_SERVICES_MAX + 100 };
	struct fake_region *many = calloc(MANY, sizeof(*many));
	char(*name)[16] = calloc(MANY, sizeof(*name));
	struct seen s;

	(void)state;
	for (unsigned int i = 0; i < MANY; i++) {
		many[i] = regions[QUEUE];
		many[i].info.instance = 1000 + i;
		snprintf(name[i], sizeof(name[i]), "s%u", i);
		many[i].info.labels[0].value = name[i];
		many[i].view.info = &many[i].info;
	}
	collector.regions = many;
	collector.region_count = MANY;
	look();
	look();
	s = service("s0", 10);
	assert_true(s.found);
	assert_int_equal(s.n, COLLECT_SERVICES_MAX);
	assert_int_equal(s.totals.left_out, 100);
	/* The memory of services that are gone is reused. */
	collector.regions = regions;
	collector.region_count = REGIONS;
	look();
	look();
	assert_int_equal(service("shop", 10).n, 3);
	free(many);
	free(name);
}

/* Pretend that an agent is read at two of its addresses. */
static void a_region_may_be_listed_twice(void **state)
{
	struct fake_region twice[2] = {regions[SHOP], regions[SHOP]};

	(void)state;
	for (int i = 0; i < 2; i++)
		twice[i].view.info = &twice[i].info;
	look();
	collector.regions = twice;
	collector.region_count = 2;
	for (int i = 0; i < 3; i++)
		look();
	assert_true(service("shop", 10).found);
	collector.regions = regions;
	collector.region_count = REGIONS;
	look();
}

/* ---- attention ---- */

static void attention_has_its_order(void **state)
{
	static struct act_anomaly now = {.peak = 1e6, .threshold = 1},
				  past = {.peak = 1e6, .threshold = 1, .end_ns = 1};
	struct collect_service_view v[] = {
		{.anomaly = &now, .culprit = true, .requests = NAN},
		{.anomaly = &now, .requests = NAN},
		{.requests = 100, .errors = 6},
		{.anomaly = &past, .requests = NAN},
		{.connections = {.known = true, .why = "losses", .limit = REGION_WHY_LOSS_FAST},
		 .requests = 1e9},
		{.connections = {.known = true, .why = "", .retransmits = 2}, .requests = 1e9},
		{.dead = 1, .pods = 2, .requests = 1e9},
		{.stale = 1, .pods = 2, .requests = 1e9},
		{.requests = 1e9, .errors = 0},
		{.requests = 1},
		{.requests = NAN, .errors = NAN},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(v); i++) {
		collect_services_attention(&v[i]);
		if (i && !(v[i - 1].attention > v[i].attention))
			fail_msg("%zu: %g, before it %g", i, v[i].attention, v[i - 1].attention);
		assert_true(v[i].attention >= 0 && v[i].attention <= 100);
		assert_int_equal(!*v[i].attention_why, i >= 8);
	}
}

/* ---- anomalies ---- */

static void take_anomaly(const struct act_anomaly *a, void *arg)
{
	(void)arg;
	act_incidents_take(collector.incidents, a, a->last_ns);
}

static void no_news(const struct act_incident *i, unsigned int news, void *arg)
{
	(void)i;
	(void)news;
	(void)arg;
}

/* blame: what the blamed metric measures; it rose to `load` times its usual value. */
static void find_with(struct act_verdicts *v, struct act_verdict_pod *p, double score, double load,
		      enum act_measure blame)
{
	struct act_finding f = {
		.ns = (int64_t)(1700000000 * SECOND + clock_ns),
		.score = score,
		.threshold = 1,
		.anomalous = score > 1,
		.state = ACT_READY,
		.shadow_score = NAN,
		.load = load,
		.blames = 1,
		.blame = {
			{.metric = "x", .share = 1, .value = load, .before = 1, .measure = blame}}};

	f.suspicion = load > 0 ? 0 : score;
	act_verdict_push(p, &f);
	act_verdicts_keep(v, f.ns, take_anomaly, NULL);
}

static void find(struct act_verdicts *v, struct act_verdict_pod *p, double score)
{
	find_with(v, p, score, 0, ACT_MEASURE_OTHER);
}

static void load_needs_no_attention(void **state)
{
	static const struct act_pod_name name = {.pod = "x", .service = "x"};
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = SECOND});
	struct act_verdict_pod *shop = act_verdicts_add(v, 1, &name);

	(void)state;
	collector.verdicts = v;
	collector.incidents = act_incidents_new(&(struct act_incidents_opts){0});
	look();
	find_with(v, shop, 2, 3, ACT_MEASURE_CPU);
	assert_null(service("shop", 10).view.anomaly);
	find_with(v, shop, 3, 3, ACT_MEASURE_LATENCY);
	/* It is a fault, which is decided after a few seconds. */
	act_incidents_poll(collector.incidents, (int64_t)(1700000003 * SECOND + clock_ns), no_news,
			   NULL);
	assert_non_null(service("shop", 10).view.anomaly);
	act_incidents_free(collector.incidents);
	collector.incidents = NULL;
	collector.verdicts = NULL;
	act_verdicts_free(v);
}

static void the_culprit_stands_on_top(void **state)
{
	static const struct act_pod_name name = {.pod = "x", .service = "x"};
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = SECOND});
	struct act_verdict_pod *shop = act_verdicts_add(v, 1, &name),
			       *queue = act_verdicts_add(v, 2, &name);
	struct seen s;

	(void)state;
	collector.verdicts = v;
	collector.incidents = act_incidents_new(&(struct act_incidents_opts){0});
	look();
	find(v, shop, 2);
	find(v, queue, 5);
	s = service("queue", 10);
	assert_true(s.view.culprit && s.view.anomaly && !strncmp(s.all, "queue shop ", 11));
	assert_int_equal(s.view.anomaly->instance, 2);
	assert_true(s.view.attention == 100);
	s = service("shop", 10);
	assert_true(!s.view.culprit && s.view.anomaly && s.view.attention >= 80);
	/* It ends, is shown for a minute, and then no longer. */
	for (int i = 0; i < 5; i++) {
		look();
		find(v, queue, 0.1);
		find(v, shop, 0.1);
	}
	s = service("queue", 10);
	assert_true(s.view.anomaly && s.view.anomaly->end_ns && !s.view.culprit);
	for (int i = 0; i < 61; i++)
		look();
	s = service("queue", 10);
	assert_null(s.view.anomaly);
	/* Without known callers, there is no evidence that it causes anything else. */
	find_with(v, queue, 5, 1, ACT_MEASURE_OTHER);
	s = service("queue", 10);
	assert_true(s.view.anomaly && !s.view.anomaly->end_ns && !s.view.culprit);
	act_incidents_free(collector.incidents);
	collector.incidents = NULL;
	collector.verdicts = NULL;
	act_verdicts_free(v);
}

/* ---- connections ---- */

static struct region_flow now[8], before[8];
static struct collect_flow_view flows[8];

static void end_of(int i, const char *target, int workload, uint8_t local, uint8_t remote,
		   bool active)
{
	const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 10};

	now[i] = (struct region_flow){
		.id = (uint64_t)i + 1,
		.state = SL_STATE_LIVE,
		.flags = active ? SL_FLOW_ACTIVE : 0,
		.local_port = active ? 40000 : 80,
		.remote_port = active ? 80 : 40000,
		.changed_ns = 10 * SECOND,
		.srtt_us = 2000,
		.data_segs_in = 10,
		.data_segs_out = 10,
		.bytes_acked = 1000,
		.retrans = 4,
	};
	memcpy(now[i].local, mapped, 16);
	memcpy(now[i].remote, mapped, 16);
	now[i].local[15] = local;
	now[i].remote[15] = remote;
	before[i] = now[i];
	before[i].changed_ns = 9 * SECOND;
	before[i].data_segs_in = before[i].data_segs_out = 0;
	before[i].bytes_acked = before[i].retrans = 0;
	flows[i] = (struct collect_flow_view){
		.target = target,
		.hostname = target,
		.now = &now[i],
		.before = &before[i],
		.read_ns = (int64_t)(1700000000 * SECOND + clock_ns),
		.workload = &regions[workload].info,
	};
}

struct edges {
	int n;
	char text[512];
	struct collect_service_edge last;
	char from_namespace[96];
};

static void edge(const struct collect_service_edge *e, void *arg)
{
	struct edges *all = arg;

	all->n++;
	all->last = *e;
	snprintf(all->from_namespace, sizeof(all->from_namespace), "%s",
		 e->from ? e->from->kube_namespace : "");
	snprintf(all->text + strlen(all->text), sizeof(all->text) - strlen(all->text), "%s>%s:%u ",
		 e->from ? e->from->service : "-", e->to ? e->to->service : "-", e->connections);
}

static struct edges edges(void)
{
	struct edges all = {0};

	collect_services_edges(services, edge, &all);
	return all;
}

static void both_ends_of_a_connection_are_one_edge(void **state)
{
	struct edges e;
	struct seen s;

	(void)state;
	/* Seen by two hosts. */
	end_of(0, "a", SHOP_TCP, 1, 2, true);
	end_of(1, "b", DB_TCP, 2, 1, false);
	collector.flows = flows;
	collector.flow_count = 2;
	look();
	e = edges();
	assert_string_equal(e.text, "shop>db:1 ");
	assert_string_equal(e.from_namespace, "web");
	assert_true(fabs(e.last.requests - 10) < 1e-6 && fabs(e.last.retransmits - 8) < 1e-6 &&
		    fabs(e.last.rtt - 0.002) < 1e-9);
	s = service("db", 10);
	assert_true(s.view.connections.known && s.view.connections.open == 1 &&
		    fabs(s.view.connections.retransmits - 4) < 1e-6);
	/* By both of its processes on one host, which may have a separate network. */
	for (int i = 0; i < 2; i++) {
		flows[i].target = "a";
		now[i].local[12] = now[i].remote[12] = 127;
	}
	look();
	assert_string_equal(edges().text, "shop>db:1 ");
	now[1].netns = 4711;
	look();
	assert_int_equal(edges().n, 2);
}

static void an_unknown_end_is_outside(void **state)
{
	(void)state;
	end_of(0, "a", SHOP_TCP, 1, 9, true);
	end_of(1, "a", SHOP_TCP, 1, 8, false);
	end_of(2, "a", HOST_TCP, 3, 4, true); /* neither end is known */
	end_of(3, "a", SHOP_TCP, 1, 7, true);
	now[3].flags |= SL_FLOW_LISTENER;
	end_of(4, "a", SHOP_TCP, 1, 6, true);
	flows[4].stale = true;
	collector.flows = flows;
	collector.flow_count = 5;
	look();
	assert_int_equal(edges().n, 2);
	assert_non_null(strstr(edges().text, "shop>-:1"));
	assert_non_null(strstr(edges().text, "->shop:1"));
	/* A publishing process is known by its PID, unless it is in a container. */
	now[2].pid = 200;
	look();
	assert_non_null(strstr(edges().text, "queue>-:1"));
	regions[QUEUE].view.tenant.container = "0123456789ab";
	look();
	assert_null(strstr(edges().text, "queue"));
	regions[QUEUE].view.tenant.container = "";
	flows[2].target = "b";
	look();
	assert_null(strstr(edges().text, "queue"));
}

static void what_holds_connections_back_is_told(void **state)
{
	struct seen s;

	(void)state;
	end_of(0, "a", SHOP_TCP, 1, 2, false);
	now[0].busy_us = before[0].busy_us + 900000;
	now[0].rwnd_us = before[0].rwnd_us + 890000;
	now[0].flight = 1000;
	now[0].bytes_sent = now[0].bytes_acked = 5000000;
	now[0].retrans = before[0].retrans;
	collector.flows = flows;
	collector.flow_count = 1;
	look();
	s = service("shop", 10);
	assert_false(region_why_fine(s.view.connections.limit));
	assert_true(*s.why && s.view.attention == 45);
	/* Old limits no longer count. */
	clock_ns += 10 * SECOND;
	look();
	s = service("shop", 10);
	assert_string_equal(s.why, "");
	assert_true(s.view.connections.open == 1 && s.view.connections.bytes == 0);
}

static void without_metrics_the_kernel_tells(void **state)
{
	static struct region_layer_view late;
	const struct collect_layers_view layers[] = {
		{.workload = &regions[DB_TCP].info,
		 .role = "server",
		 .late = &late,
		 .late_ns = 10 * SECOND},
		{.workload = &regions[DB_TCP].info,
		 .role = "client",
		 .late = &late,
		 .late_ns = 10 * SECOND},
		{.workload = &regions[SHOP_TCP].info,
		 .role = "server",
		 .late = &late,
		 .late_ns = 10 * SECOND},
	};
	struct seen s;

	(void)state;
	late.count[SL_COUNT_REQUESTS] = 500;
	late.cell[SL_LAYER_APP][SL_LAYER_OVER - 12] = 500; /* up to 2^-3 s */
	collector.layers = layers;
	collector.layer_count = COUNT(layers);
	look();
	served += 20;
	look();
	s = service("db", 10);
	assert_int_equal(s.view.requests_from, COLLECT_FROM_KERNEL);
	assert_int_equal(s.view.latency_from, COLLECT_FROM_KERNEL);
	assert_true(fabs(s.view.requests - 50) < 1e-9 && isnan(s.view.errors));
	assert_true(s.view.p50 > 0.088 && s.view.p50 < 0.125);
	assert_true(fabs(s.view.p50 / (region_layer_quantile(late.cell[SL_LAYER_APP], 0.5) * 1e-9) -
			 1) < 0.1);
	/* Data of the application takes precedence. */
	s = service("shop", 10);
	assert_int_equal(s.view.requests_from, COLLECT_FROM_APPLICATION);
	assert_true(fabs(s.view.requests - 20) < 1e-9 &&
		    s.view.latency_from == COLLECT_FROM_NOTHING);
}

/* ---- saturation ---- */

static void saturation_is_that_of_the_container(void **state)
{
	struct seen s;

	(void)state;
	regions[SHOP].view.tenant.container = "0123456789ab";
	used = 100;
	working = 50;
	limit = 200;
	quota = 400000;
	period = 100000;
	look();
	used += 2;
	waited += 1;
	host_waited += 3;
	look();
	s = service("shop", 10);
	assert_true(fabs(s.view.saturation.cores - 2) < 1e-6 &&
		    fabs(s.view.saturation.cpu_ratio - 0.5) < 1e-6);
	assert_true(s.view.saturation.bytes == 50 && s.view.saturation.memory_ratio == 0.25);
	assert_true(s.view.saturation.pressure[2] == 1 && isnan(s.view.saturation.pressure[0]));
	/* The rate holds until the next READ, which covers the time since the previous one. */
	for (int i = 0; i < 2; i++) {
		unread = !i;
		used += i ? 4 : 0;
		waited += i ? 2 : 0;
		host_waited += i ? 6 : 0;
		look();
		s = service("shop", 10);
		assert_true(fabs(s.view.saturation.cores - 2) < 1e-6 &&
			    fabs(s.view.saturation.pressure[2] - 1) < 1e-6);
	}
	/* A service without a container has the pressure of its host, and nothing else. */
	s = service("queue", 10);
	assert_true(isnan(s.view.saturation.cores) && isnan(s.view.saturation.bytes));
	assert_true(s.view.saturation.pressure[0] == 1 && isnan(s.view.saturation.pressure[2]));
	/* Without limits there are no ratios. */
	quota = (uint64_t)-1;
	limit = 0;
	look();
	s = service("shop", 10);
	assert_true(isnan(s.view.saturation.cpu_ratio) && isnan(s.view.saturation.memory_ratio));
	/* Another publisher cannot publish this. */
	regions[HOST].view.tenant.known = true;
	look();
	look();
	s = service("shop", 10);
	assert_true(isnan(s.view.saturation.cores) && isnan(s.view.saturation.pressure[2]));
	regions[HOST].view.tenant.trusted = true;
	look();
	look();
	s = service("shop", 10);
	assert_true(s.view.saturation.cores == 0 && s.view.saturation.bytes == 50);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_known_by_their_conventions),
		cmocka_unit_test(failures_are_known_by_their_labels),
		cmocka_unit_test(quantiles_are_those_of_the_histogram),
		cmocka_unit_test(observations_of_any_size_are_counted),
		TEST(requests_errors_and_latency_are_those_of_the_window),
		TEST(a_counter_that_goes_back_makes_no_rate),
		TEST(a_pod_that_is_not_read_has_no_request_rate),
		TEST(an_agents_restart_is_no_outage),
		TEST(a_region_read_rarely_has_its_mean_rate),
		TEST(series_that_stand_still_are_told_apart),
		TEST(pods_are_counted_by_their_state),
		TEST(more_services_than_fit_are_counted),
		TEST(a_region_may_be_listed_twice),
		cmocka_unit_test(attention_has_its_order),
		TEST(load_needs_no_attention),
		TEST(the_culprit_stands_on_top),
		TEST(both_ends_of_a_connection_are_one_edge),
		TEST(an_unknown_end_is_outside),
		TEST(what_holds_connections_back_is_told),
		TEST(without_metrics_the_kernel_tells),
		TEST(saturation_is_that_of_the_container),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
