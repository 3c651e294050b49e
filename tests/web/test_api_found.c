// SPDX-License-Identifier: Apache-2.0
/* test_api_found.c - anomalies, incidents and scaling signals. */
#include <math.h>

#include "act/incident.h"
#include "act/scale.h"
#include "api.h"
#include "base/base.h"
#include "collect/read/past.h"

static void free_verdicts(void *what)
{
	act_verdicts_free(what);
}

static void free_incidents(void *what)
{
	act_incidents_free(what);
}

static void free_scale(void *what)
{
	act_scale_free(what);
}

static void take_anomaly(const struct act_anomaly *a, void *arg)
{
	act_incidents_take(arg, a, a->last_ns);
}

static void no_news(const struct act_incident *i, unsigned int news, void *arg)
{
	(void)i;
	(void)news;
	(void)arg;
}

/* The incident of the anomaly of findings_are_told_with_what_is_to_blame(). */
static void expect_incident(const char *event)
{
	json_t *whole, *list = ask_list("/api/v1/incidents", "incidents", &whole), *i, *member;

	assert_int_equal(json_array_size(list), 1);
	i = json_array_get(list, 0);
	assert_string_equal(string(i, "id"), event);
	assert_string_equal(string(i, "kind"), "fault");
	assert_string_equal(string(i, "state"), "open");
	assert_true(number(i, "number") == 1);
	assert_true(json_is_null(json_object_get(i, "end")));
	assert_true(json_is_null(json_object_get(i, "load")));
	assert_string_equal(string(json_object_get(i, "cause"), "service"), "cart");
	assert_int_equal(json_array_size(json_object_get(i, "members")), 1);
	member = json_array_get(json_object_get(i, "members"), 0);
	assert_true(number(member, "anomaly") == 1);
	assert_true(number(member, "peak") == 3.5);
	assert_non_null(strstr(string(i, "sentence"), "cart-0 on node-1 "));
	assert_true(json_is_object(json_object_get(whole, "analysis")));
	json_decref(whole);
	ask_list("/api/v1/incidents?after=1", "incidents", &whole);
	assert_int_equal(json_array_size(json_object_get(whole, "incidents")), 0);
	json_decref(whole);
	ask_list("/api/v1/incidents?state=open&limit=1", "incidents", &whole);
	assert_int_equal(json_array_size(json_object_get(whole, "incidents")), 1);
	json_decref(whole);
	ask_list("/api/v1/incidents?state=ended", "incidents", &whole);
	assert_int_equal(json_array_size(json_object_get(whole, "incidents")), 0);
	json_decref(whole);
	json_decref(ask_json("/api/v1/incidents?limit=257", 400));
	json_decref(ask_json("/api/v1/incidents?state=over", 400));
}

void findings_are_told_with_what_is_to_blame(void **state)
{
	static const struct act_pod_name name = {
		.pod = "cart-0", .service = "cart", .kube_namespace = "shop", .host = "node-1"};
	struct act_verdicts *v =
		act_verdicts_new(&(struct act_verdicts_opts){.hold_ns = 1000000000});
	struct act_verdict_pod *p = act_verdicts_add(v, CART, &name);
	struct act_incidents *incidents = act_incidents_new(&(struct act_incidents_opts){0});
	int64_t t = 1763694391000000000;
	struct act_finding f = {.ns = t, .score = 0.5, .threshold = INFINITY, .shadow_score = NAN};
	json_t *whole, *list, *verdict, *blame;
	char path[64];

	(void)state;
	whole = ask_json("/api/v1/anomalies", 200);
	assert_true(json_is_null(json_object_get(whole, "analysis")));
	json_decref(whole);
	whole = ask_json("/api/v1/incidents", 200);
	assert_true(json_is_null(json_object_get(whole, "analysis")));
	json_decref(whole);
	snprintf(path, sizeof(path), "/api/v1/scores?instance=%llx", (unsigned long long)CART);
	json_decref(ask_json(path, 404));
	collector.verdicts = v;
	collector.incidents = incidents;
	act_verdict_push(p, &f);
	whole = ask_json(path, 200);
	verdict = json_object_get(whole, "verdict");
	assert_true(json_is_true(json_object_get(verdict, "learning")));
	assert_true(json_is_null(json_array_get(json_object_get(whole, "threshold"), 0)));
	json_decref(whole);
	f = (struct act_finding){.ns = t + 1000000000,
				 .score = 3.5,
				 .threshold = 1,
				 .anomalous = true,
				 .state = ACT_COARSE,
				 .least = 1.5,
				 .shadow_score = 2,
				 .blames = 1,
				 .blame = {{.metric = "latency_seconds_p90{path=\"/\"}",
					    .share = 0.75,
					    .value = NAN,
					    .before = 0.02}}};
	act_verdict_push(p, &f);
	act_verdicts_keep(v, f.ns, take_anomaly, incidents);
	act_incidents_poll(incidents, f.ns, no_news, NULL);

	list = ask_list("/api/v1/anomalies", "anomalies", &whole);
	assert_int_equal(json_array_size(list), 1);
	assert_string_equal(string(json_array_get(list, 0), "service"), "cart");
	assert_true(json_is_null(json_object_get(json_array_get(list, 0), "end")));
	assert_true(number(json_array_get(list, 0), "peak") == 3.5);
	blame = json_array_get(json_object_get(json_array_get(list, 0), "blame"), 0);
	assert_string_equal(string(blame, "metric"), "latency_seconds_p90{path=\"/\"}");
	assert_true(number(blame, "share") == 0.75);
	assert_true(json_is_null(json_object_get(blame, "value")));
	assert_true(number(blame, "before") == 0.02);
	assert_non_null(strstr(string(json_array_get(list, 0), "explanation"),
			       ": p90 of latency_seconds{path=\"/\"} is unusual. First, "));
	expect_incident(string(json_array_get(list, 0), "incident"));
	assert_true(number(json_object_get(whole, "analysis"), "anomalous") == 1);
	json_decref(whole);
	list = ask_list("/api/v1/anomalies?after=1", "anomalies", &whole);
	assert_int_equal(json_array_size(list), 0);
	json_decref(whole);

	list = ask_list("/api/v1/pods?q=cart-0", "pods", &whole);
	verdict = json_object_get(json_array_get(list, 0), "verdict");
	assert_true(json_is_true(json_object_get(verdict, "anomalous")));
	assert_true(number(verdict, "shadow_score") == 2);
	assert_string_equal(string(verdict, "state"), "coarse");
	assert_true(number(verdict, "least_latency_factor") == 1.5);
	json_decref(whole);
	list = ask_list("/api/v1/pods?q=mail-0", "pods", &whole);
	assert_null(json_object_get(json_array_get(list, 0), "verdict"));
	json_decref(whole);
	list = ask_list(path, "score", &whole);
	assert_int_equal(json_array_size(list), 2);
	assert_true(json_number_value(json_array_get(list, 1)) == 3.5);
	json_decref(whole);
	json_decref(ask_json("/api/v1/scores", 400));
	json_decref(ask_json("/api/v1/scores?instance=xyz", 400));
	json_decref(ask_json("/api/v1/scores?instance=2", 404));
	json_decref(ask_json("/api/v1/anomalies?limit=1001", 400));
	collector.verdicts = NULL;
	collector.incidents = NULL;
	free_at_the_end(free_verdicts, v);
	free_at_the_end(free_incidents, incidents);
}

/* Returns the text of the mark at the end of an incident with this cause. */
static void end_incident(struct act_anomaly a, char *text, size_t bytes)
{
	struct act_incidents *incidents = act_incidents_new(&(struct act_incidents_opts){0});
	json_t *whole, *list;

	act_incidents_take(incidents, &a, a.last_ns);
	act_incidents_poll(incidents, a.last_ns + 5000000000, no_news, NULL);
	a.end_ns = a.last_ns + 5000000000;
	act_incidents_take(incidents, &a, a.end_ns);
	act_incidents_poll(incidents, a.end_ns + 60000000000, no_news, NULL);
	collector.incidents = incidents;
	list = ask_list("/api/v1/marks?start=1000&end=1100", "marks", &whole);
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(string(json_array_get(list, 0), "kind"), "incident");
	assert_string_equal(string(json_array_get(list, 1), "kind"), "end");
	snprintf(text, bytes, "%s", string(json_array_get(list, 1), "text"));
	json_decref(whole);
	collector.incidents = NULL;
	free_at_the_end(free_incidents, incidents);
}

void the_end_of_an_incident_says_how_it_ended(void **state)
{
	struct act_anomaly a = {.id = 1,
				.instance = CART,
				.name = {.pod = "cart-0", .service = "cart", .host = "node-1"},
				.begin_ns = 1010000000000,
				.last_ns = 1020000000000,
				.findings = 10,
				.peak = 3,
				.threshold = 1};
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.max_pods = 1});
	char text[100];

	(void)state;
	collector.verdicts = v;
	end_incident(a, text, sizeof(text));
	assert_string_equal(text, "cart-0 is back to normal");
	a.unread = true;
	end_incident(a, text, sizeof(text));
	assert_string_equal(text, "cart-0 is no longer read");
	a.died = true;
	end_incident(a, text, sizeof(text));
	assert_string_equal(text, "cart-0 has ended");
	collector.verdicts = NULL;
	free_at_the_end(free_verdicts, v);
}

void namespaces_have_deployments_of_their_own(void **state)
{
#define START(s, id, name_space, v)                                                            \
	{                                                                                      \
		.ns = (s)*1000000000ll, .kind = COLLECT_LIFE_START, .instance = (id),          \
		.service = "cart", .kube_namespace = name_space, .pod = "cart-0", .version = v \
	}
	static const struct collect_life lives[] = {
		START(1000, 1, "shop", "1.0"), START(1001, 2, "test", "1.0"),
		START(1010, 3, "shop", "2.0"), START(1011, 4, "test", "2.1"),
		START(1012, 5, "test", "2.1")};
#undef START
	static const char *const texts[] = {"cart-0 began", "cart-0 began",
					    "cart: 2.0 replaced 1.0",
					    "cart: 2.1 replaced 1.0 (2 pods)"};
	json_t *whole, *list;

	(void)state;
	collector.lives = lives;
	collector.life_count = sizeof(lives) / sizeof(*lives);
	list = ask_list("/api/v1/marks?start=1000&end=1100", "marks", &whole);
	assert_int_equal(json_array_size(list), sizeof(texts) / sizeof(*texts));
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_string_equal(string(json_array_get(list, i), "text"), texts[i]);
	json_decref(whole);
	collector.life_count = 0;
}

void too_many_marks_leave_out_no_incident(void **state)
{
	static struct collect_life lives[1500];
	const struct act_anomaly a = {.id = 1,
				      .instance = CART,
				      .name = {.pod = "cart-0", .service = "cart"},
				      .begin_ns = 1005000000000,
				      .last_ns = 1006000000000,
				      .findings = 10,
				      .peak = 3,
				      .threshold = 1};
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.max_pods = 1});
	struct act_incidents *incidents = act_incidents_new(&(struct act_incidents_opts){0});
	json_t *whole, *list;
	size_t found = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(lives) / sizeof(*lives); i++) {
		lives[i] = (struct collect_life){.ns = 1001000000000 + (int64_t)i * 10000000,
						 .kind = COLLECT_LIFE_START,
						 .instance = i + 1,
						 .service = "job"};
		snprintf(lives[i].pod, sizeof(lives[i].pod), "rank-%zu", i);
	}
	act_incidents_take(incidents, &a, a.last_ns);
	act_incidents_poll(incidents, a.last_ns, no_news, NULL);
	collector.verdicts = v;
	collector.incidents = incidents;
	collector.lives = lives;
	collector.life_count = sizeof(lives) / sizeof(*lives);
	list = ask_list("/api/v1/marks?start=1000&end=1100", "marks", &whole);
	assert_int_equal(json_array_size(list), 1000);
	assert_true(json_is_true(json_object_get(whole, "truncated")));
	for (size_t i = 0; i < 1000; i++)
		found += !strcmp(string(json_array_get(list, i), "kind"), "incident");
	assert_int_equal(found, 1);
	assert_string_equal(string(json_array_get(list, 999), "text"), "rank-1499 began");
	json_decref(whole);
	collector.life_count = 0;
	collector.verdicts = NULL;
	collector.incidents = NULL;
	free_at_the_end(free_incidents, incidents);
	free_at_the_end(free_verdicts, v);
}

/* The older incident is still open, and the newer one is over. */
void jobs_name_the_rank_that_is_slow_now(void **state)
{
	static struct fake_metric steps = {.metric = {.kind = SL_KIND_COUNTER,
						      .name = "mpi_step_seconds_count",
						      .unit = "",
						      .help = ""},
					   .value = value_500};
	static struct fake_region ranks[2];
	struct act_anomaly a = {.id = 1,
				.instance = 100,
				.name = {.pod = "rank-0", .service = "ocean", .host = "n7"},
				.begin_ns = 1010000000000,
				.last_ns = 1090000000000,
				.findings = 10,
				.peak = 3,
				.threshold = 1};
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.max_pods = 1});
	struct act_incidents *incidents = act_incidents_new(&(struct act_incidents_opts){0});
	json_t *whole, *list, *slow;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		ranks[i] = regions[0];
		ranks[i].view.info = &ranks[i].info;
		ranks[i].info.instance = 100 + i;
		ranks[i].info.labels[0] = (struct region_text_label){"job", "4711"};
		ranks[i].info.labels[1] = (struct region_text_label){"rank", i ? "1" : "0"};
		ranks[i].metrics = &steps;
		ranks[i].metric_count = 1;
	}
	act_incidents_take(incidents, &a, a.last_ns);
	a.id = 2;
	a.instance = 101;
	a.name = (struct act_pod_name){.pod = "rank-1", .service = "ice", .host = "n8"};
	a.last_ns = 1020000000000;
	act_incidents_take(incidents, &a, a.last_ns);
	a.end_ns = 1025000000000;
	act_incidents_take(incidents, &a, a.end_ns);
	act_incidents_poll(incidents, 1090000000000, no_news, NULL);
	collector.verdicts = v;
	collector.incidents = incidents;
	collector.regions = ranks;
	collector.region_count = 2;
	list = ask_list("/api/v1/jobs", "jobs", &whole);
	assert_int_equal(json_array_size(list), 1);
	slow = json_object_get(json_array_get(list, 0), "slow");
	assert_string_equal(string(slow, "rank"), "0");
	assert_true(json_is_null(json_object_get(slow, "end")));
	json_decref(whole);
	collector.regions = regions;
	collector.region_count = 5;
	collector.verdicts = NULL;
	collector.incidents = NULL;
	free_at_the_end(free_incidents, incidents);
	free_at_the_end(free_verdicts, v);
}

/* Each value is that of another node. */
void a_start_that_is_no_time_hides_no_other(void **state)
{
	static const double starts[] = {1700000000, -5, 1e300, -1e300, INFINITY, 4e9, 0};
	enum { NODES = sizeof(starts) / sizeof(*starts) };
	static const struct region_text_label labels[] = {
		{"id", "/slurm/uid_7/job_4711"}, {"name", "4711"}, {"user", "7"}};
	static struct collect_point started[NODES];
	static struct fake_metric metric[NODES];
	static struct fake_region cgroups[NODES];
	static char hosts[NODES][8];
	json_t *whole, *list;

	(void)state;
	for (size_t i = 0; i < NODES; i++) {
		snprintf(hosts[i], sizeof(hosts[i]), "n%zu", i);
		started[i] = (struct collect_point){.ns = 1763694391000000000, .value = starts[i]};
		metric[i] = (struct fake_metric){.metric = {.kind = SL_KIND_GAUGE_F64,
							    .name = "container_start_time_seconds",
							    .unit = "",
							    .help = "",
							    .label_count = 3,
							    .labels = labels},
						 .value = value_500,
						 .points = &started[i],
						 .point_count = 1};
		cgroups[i] = regions[0];
		cgroups[i].view.info = &cgroups[i].info;
		cgroups[i].info.instance = 100 + i;
		cgroups[i].info.label_count = 1;
		cgroups[i].info.labels[0] = (struct region_text_label){"host", hosts[i]};
		cgroups[i].metrics = &metric[i];
		cgroups[i].metric_count = 1;
	}
	collector.regions = cgroups;
	collector.region_count = NODES;
	list = ask_list("/api/v1/jobs", "jobs", &whole);
	assert_int_equal(json_array_size(list), 1);
	assert_true(number(json_array_get(list, 0), "node_count") == NODES);
	assert_true(number(json_array_get(list, 0), "begin") == starts[0]);
	json_decref(whole);
	collector.regions = regions;
	collector.region_count = 5;
}

/* Two services of a namespace, one without, and one that a user claims. */
static struct act_scale *scaled(int64_t t)
{
	struct act_scale *s = act_scale_new(0, 0);
	struct act_pod_verdict p = {.ns = t, .slowdown = 1.2341};

	act_scale_begin(s, t);
	strcpy(p.name.service, "cart");
	strcpy(p.name.kube_namespace, "shop");
	act_scale_pod(s, &p);
	strcpy(p.name.service, "mail");
	p.recent = 3;
	act_scale_pod(s, &p);
	strcpy(p.name.kube_namespace, "");
	p.anomalous = true;
	act_scale_pod(s, &p);
	strcpy(p.name.owner, "uid 1000");
	act_scale_pod(s, &p);
	act_scale_end(s);
	return s;
}

void scaling_is_told_as_kubernetes_wants_it(void **state)
{
	static const char base[] = "/apis/external.metrics.k8s.io/v1beta1";
	static const struct {
		const char *path;
		int status;
		size_t items;
	} asked[] = {
		{"/namespaces/shop/sidelight_scaling_pressure", 200, 2},
		{"/namespaces/shop/sidelight_scaling_pressure?labelSelector=service%3Dcart", 200,
		 1},
		{"/namespaces/shop/sidelight_scaling_pressure?labelSelector=service+notin+(cart)",
		 200, 1},
		{"/namespaces/default/sidelight_scaling_anomalous_ratio", 200, 1},
		/* a user's claim is not added to the service's own value */
		{"/namespaces/default/sidelight_scaling_anomalous_ratio?labelSelector=service%3D"
		 "mail",
		 200, 1},
		{"/namespaces/default/sidelight_scaling_anomalous_ratio?labelSelector=uid%3D1000",
		 200, 1},
		{"/namespaces/nowhere/sidelight_scaling_pressure", 200, 0},
		{"/namespaces/shop/sidelight_scaling_pressure?labelSelector=a%3D%3D%3Db", 400, 0},
		{"/namespaces/shop/sidelight_scaling_pressure?labelSelector=in+(", 400, 0},
		{"/namespaces/shop/unknown", 404, 0},
		{"/namespaces/shop", 404, 0},
		{"/namespaces/shop/sidelight_scaling_pressure/more", 404, 0},
	};
	struct act_verdicts *v = act_verdicts_new(&(struct act_verdicts_opts){.max_pods = 1});
	struct act_scale *s = scaled(1763694391000000000);
	json_t *j, *item;
	char path[200];

	(void)state;
	snprintf(path, sizeof(path), "%s%s", base, asked[0].path);
	j = ask_json(path, 404);
	assert_string_equal(string(j, "kind"), "Status");
	json_decref(j);
	collector.verdicts = v;
	collector.scale = s;
	j = ask_json("/apis", 200);
	assert_string_equal(string(j, "kind"), "APIGroupList");
	json_decref(j);
	json_decref(ask_json("/apis/external.metrics.k8s.io", 200));
	j = ask_json("/openapi/v2", 200);
	assert_string_equal(string(j, "swagger"), "2.0");
	assert_true(json_is_object(json_object_get(j, "paths")));
	json_decref(j);
	j = ask_json(base, 200);
	assert_string_equal(string(j, "kind"), "APIResourceList");
	assert_string_equal(string(j, "groupVersion"), "external.metrics.k8s.io/v1beta1");
	assert_int_equal(json_array_size(json_object_get(j, "resources")), 2);
	json_decref(j);
	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
		snprintf(path, sizeof(path), "%s%s", base, asked[i].path);
		j = ask_json(path, asked[i].status);
		if (asked[i].status == 200) {
			assert_string_equal(string(j, "kind"), "ExternalMetricValueList");
			assert_int_equal(json_array_size(json_object_get(j, "items")),
					 asked[i].items);
		} else {
			assert_string_equal(string(j, "kind"), "Status");
			assert_string_equal(string(j, "status"), "Failure");
			assert_true(number(j, "code") == asked[i].status);
		}
		item = json_array_get(json_object_get(j, "items"), 0);
		if (i == 1) {
			assert_string_equal(string(item, "value"), "1235m"); /* rounded up */
			assert_string_equal(string(item, "timestamp"), "2025-11-21T03:06:31Z");
			assert_string_equal(string(item, "metricName"),
					    "sidelight_scaling_pressure");
		}
		if (i == 3)
			assert_string_equal(string(item, "value"), "1");
		json_decref(j);
	}
	collector.verdicts = NULL;
	collector.scale = NULL;
	free_at_the_end(free_scale, s);
	free_at_the_end(free_verdicts, v);
}
