// SPDX-License-Identifier: Apache-2.0
/* test_tenants.c - a hostile tenant harms its own series and no others. */
#include <stdlib.h>
#include <string.h>

#include <sidelight/flow.h>

#include "collect/read/collector_internal.h"
#include "collect/read/host.h"
#include "collect/read/link.h"
#include "collect/read/reads.h"
#include "collect/read/turn.h"
#include "collect/read/worker.h"
#include "fixture.h"

static const struct region_tenant root = {.key = 1, .trusted = true};
static const struct region_tenant alice = {.key = 2, .uid = 1001};
static const struct region_tenant mallory = {.key = 3, .uid = 666};
static const struct region_tenant boxed = {
	.key = 4,
	.contained = true,
	.container = {0x0a, 0x1b, 0x2c, 0x3d, 0x4e, 0x5f, 0x60},
	.pod = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
		0x77, 0x88},
};

/* An entry with the record of its tenant. */
static void put_as(struct mock_host *h, uint32_t index, uint64_t id, struct pod *p, uint32_t state,
		   const struct region_tenant *who)
{
	struct region_tenant record = *who;

	record.id = id;
	record.instance = p->m.header->instance;
	mock_tenant(h, index, &record);
	put(h, index, id, p, state);
}

static struct mock_host *host_with_tenants(uint32_t entries)
{
	struct mock_host *h = mock_host("one", entries);

	mock_tenants(h);
	return h;
}

static void identity_labels_are_attested(void **state)
{
	struct mock_host *h = host_with_tenants(16);
	struct collect_collector *c;
	struct pod p[3];

	(void)state;
	pod_make(&p[0], 7, LABELS("container_id\0mine\0uid\0mine"));
	pod_make(&p[1], 8, LABELS("pod_uid\0victim"));
	pod_make(&p[2], 9, LABELS("pod\0b"));
	for (int i = 0; i < 3; i++)
		counter(&p[i], "a_total", "container_id", "inner");
	put_as(h, 0, 1, &p[0], SL_STATE_LIVE, &root);
	put_as(h, 1, 2, &p[1], SL_STATE_LIVE, &mallory);
	put_as(h, 2, 3, &p[2], SL_STATE_LIVE, &boxed);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, collect_collector_ready(c));
	WITHIN(3000, has(c, "a_total{container_id=\"mine\",uid=\"mine\",host=\"node-1\",process="
			    "\"4711\",exported_container_id=\"inner\"} 0"));
	WITHIN(3000, has(c, "a_total{exported_pod_uid=\"victim\",host=\"node-1\",uid=\"666\","
			    "process=\"4711\",exported_container_id=\"inner\"} 0"));
	WITHIN(3000, has(c, "a_total{pod=\"b\",host=\"node-1\",uid=\"0\",container_id="
			    "\"0a1b2c3d4e5f\",pod_uid=\"12345678-9abc-def0-1122-334455667788\","
			    "process=\"4711\",exported_container_id=\"inner\"} 0"));
	collect_collector_free(c);
	for (int i = 0; i < 3; i++)
		make_free(&p[i].m);
}

/* Keys that clients without UTF-8 support would see as those of an identity. */
static void identity_labels_have_no_lookalikes(void **state)
{
	static const char *const keys[] = {"container.id", "pod-uid", "pod\xc3\xa9uid", "process."};
	struct mock_host *h = host_with_tenants(16);
	struct collect_collector *c;
	struct pod p;
	size_t bytes;
	char *text;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0p"));
	for (int i = 0; i < 4; i++)
		make_metric(&p.m, &(struct make_metric){.kind = SL_KIND_GAUGE | SL_KIND_REPLACEABLE,
							.name = "a",
							.labels = {keys[i], "victim", NULL}});
	put_as(h, 0, 1, &p, SL_STATE_LIVE, &mallory);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, mentions(c, "process.\"=\"victim\"} 0"));
	text = scrape_as(c, EXPORT_FORMAT_TEXT, false, &bytes);
	assert_null(strstr(text, ",container_id=\"victim\""));
	assert_null(strstr(text, ",pod_uid=\"victim\""));
	assert_non_null(strstr(text, ",exported_container_id=\"victim\"} 0\n"));
	assert_non_null(strstr(text, ",exported_pod_uid=\"victim\"} 0\n"));
	assert_non_null(strstr(text, ",process_=\"victim\"} 0\n"));
	free(text);
	collect_collector_free(c);
	make_free(&p.m);
}

/* A publisher cannot set labels that the agent attests. */
static void names_are_attested(void **state)
{
	const struct region_names names = {
		.kube_namespace = "shop", .pod = "cart-0", .container = "app"};
	struct mock_host *h = host_with_tenants(16);
	struct collect_collector *c;
	struct pod p[2];

	(void)state;
	pod_make(&p[0], 7, LABELS("pod\0victim\0namespace\0kube-system"));
	pod_make(&p[1], 8, LABELS("pod\0b"));
	for (int i = 0; i < 2; i++)
		counter(&p[i], "a_total", "container", "inner");
	mock_names(h, 0, 1, &names);
	mock_names(h, 1, 7, &names); /* of another entry */
	put_as(h, 0, 1, &p[0], SL_STATE_LIVE, &boxed);
	put_as(h, 1, 2, &p[1], SL_STATE_LIVE, &mallory);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, collect_collector_ready(c));
	WITHIN(3000, has(c, "a_total{namespace=\"shop\",pod=\"cart-0\",container=\"app\","
			    "exported_pod=\"victim\",exported_namespace=\"kube-system\","
			    "host=\"node-1\",uid=\"0\",container_id=\"0a1b2c3d4e5f\",pod_uid="
			    "\"12345678-9abc-def0-1122-334455667788\",process=\"4711\","
			    "exported_container=\"inner\"} 0"));
	WITHIN(3000, has(c, "a_total{pod=\"b\",host=\"node-1\",uid=\"666\",process=\"4711\","
			    "container=\"inner\"} 0"));
	collect_collector_free(c);
	for (int i = 0; i < 2; i++)
		make_free(&p[i].m);
}

/* Pod 4711 of service web, whose process is the 4711th, and one whose pod is a default. */
static void sums_keep_an_attested_pod(void **state)
{
	const struct region_names names = {.kube_namespace = "shop", .pod = "web-4711"};
	struct mock_host *h = host_with_tenants(16);
	struct collect_collector *c;
	struct pod p[2];

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		pod_make(&p[i], 7 + i, LABELS("service\0web\0pod\0web-4711"));
		counter(&p[i], "a_total", NULL, NULL);
	}
	mock_names(h, 0, 1, &names);
	put_as(h, 0, 1, &p[0], SL_STATE_LIVE, &boxed);
	put_as(h, 1, 2, &p[1], SL_STATE_LIVE, &mallory);
	c = start(&(struct collect_collector_opts){.period_ns = MS, .sum_processes = true});
	WITHIN(3000, mentions(c, "a_total{namespace=\"shop\",pod=\"web-4711\",service=\"web\","));
	WITHIN(3000, has(c, "a_total{service=\"web\",host=\"node-1\",uid=\"666\"} 0"));
	collect_collector_free(c);
	for (unsigned int i = 0; i < 2; i++)
		make_free(&p[i].m);
}

/* Gauges that the attacker places before counters and gauges of others; one has a unique name. */
static void no_tenant_removes_an_earlier_ones_series(void **state)
{
	struct mock_host *h = host_with_tenants(16);
	static const double bounds[] = {1, 2};
	struct collect_collector *c;
	struct pod evil, good, user;

	(void)state;
	pod_make(&evil, 7, LABELS("pod\0evil"));
	pod_make(&good, 8, LABELS("pod\0good"));
	pod_make(&user, 9, LABELS("pod\0user"));
	metric_of(&evil, SL_KIND_GAUGE, "http_requests");
	metric_of(&evil, SL_KIND_GAUGE, "http_requests_total");
	metric_of(&evil, SL_KIND_GAUGE, "jobs_total");
	make_metric(&evil.m, &(struct make_metric){.kind = SL_KIND_HISTOGRAM,
						   .name = "queue",
						   .bounds = bounds,
						   .bound_count = 2});
	metric_of(&evil, SL_KIND_GAUGE, "own");
	counter(&good, "http_requests_total", NULL, NULL);
	metric_of(&good, SL_KIND_GAUGE, "queue_count");
	counter(&user, "jobs_total", NULL, NULL);
	/* The order in the directory does not show the age; the ids do. */
	put_as(h, 0, 2, &evil, SL_STATE_LIVE, &mallory);
	for (int turn = 0; turn < 2; turn++) { /* and again after a restart */
		c = start(&(struct collect_collector_opts){.period_ns = MS});
		WITHIN(3000, mentions(c, "\nown{"));
		put_as(h, 2, 1, &user, SL_STATE_LIVE, &alice);
		put_as(h, 1, 3, &good, SL_STATE_LIVE, &root);
		WITHIN(3000, mentions(c, "\nhttp_requests_total{pod=\"good\""));
		WITHIN(3000, mentions(c, "\nqueue_count{pod=\"good\""));
		WITHIN(3000, mentions(c, "\njobs_total{pod=\"user\""));
		WITHIN(3000, !mentions(c, "\nhttp_requests_total{pod=\"evil\""));
		WITHIN(3000, !mentions(c, "\njobs_total{pod=\"evil\""));
		assert_true(mentions(c, "\nhttp_requests{pod=\"evil\""));
		assert_false(mentions(c, "\nqueue_bucket{"));
		assert_true(mentions(c, "\nown{"));
		assert_true(self_value(c, "sidelight_tenant_conflicts", "uid=\"666\"") == 3);
		assert_true(self_value(c, "sidelight_tenant_conflicts", "uid=\"1001\"") == 0);
		collect_collector_free(c);
	}
	make_free(&evil.m);
	make_free(&good.m);
	make_free(&user.m);
}

/* Names that the attacker takes before the pods of others arrive. */
static void no_tenant_keeps_names_from_later_ones(void **state)
{
	struct mock_host *h = host_with_tenants(16);
	static const double bounds[] = {1, 2};
	struct collect_collector *c;
	struct pod evil, p[2];

	(void)state;
	pod_make(&evil, 7, LABELS("pod\0evil"));
	metric_of(&evil, SL_KIND_GAUGE, "http_requests_total");
	metric_of(&evil, SL_KIND_GAUGE, "jobs");
	metric_of(&evil, SL_KIND_GAUGE, "jobs_total");
	make_metric(&evil.m, &(struct make_metric){.kind = SL_KIND_HISTOGRAM,
						   .name = "queue",
						   .bounds = bounds,
						   .bound_count = 2});
	metric_of(&evil, SL_KIND_GAUGE, "own");
	put_as(h, 0, 1, &evil, SL_STATE_LIVE, &mallory);
	for (int i = 0; i < 2; i++) {
		pod_make(&p[i], 8u + (unsigned int)i, LABELS("pod\0good"));
		counter(&p[i], "http_requests_total", NULL, NULL);
		counter(&p[i], "jobs_total", NULL, NULL);
		metric_of(&p[i], SL_KIND_GAUGE, "queue_count");
	}
	for (int turn = 0; turn < 2; turn++) { /* and again after a restart */
		c = start(&(struct collect_collector_opts){.period_ns = MS});
		WITHIN(3000, mentions(c, "\nown{"));
		put_as(h, 1, 2, &p[0], SL_STATE_LIVE, &alice);
		put_as(h, 2, 3, &p[1], SL_STATE_LIVE, &boxed);
		WITHIN(3000, mentions(c, "\nhttp_requests_total{pod=\"good\""));
		WITHIN(3000, mentions(c, "\njobs_total{pod=\"good\""));
		WITHIN(3000, mentions(c, "\nqueue_count{pod=\"good\""));
		WITHIN(3000, self_value(c, "sidelight_tenant_conflicts", "uid=\"666\"") == 3);
		assert_false(mentions(c, "\nhttp_requests_total{pod=\"evil\""));
		assert_true(mentions(c, "\njobs{pod=\"evil\""));
		assert_false(mentions(c, "\nqueue_bucket{"));
		assert_false(mentions(c, "\njobs_total{pod=\"evil\""));
		assert_true(self_value(c, "sidelight_tenant_conflicts", "uid=\"1001\"") == 0);
		collect_collector_free(c);
	}
	make_free(&evil.m);
	for (int i = 0; i < 2; i++)
		make_free(&p[i].m);
}

static void equal_labels_of_tenants_stay_apart(void **state)
{
	struct mock_host *h = host_with_tenants(16);
	struct collect_collector *c;
	struct pod evil, good;
	uint32_t a, b;

	(void)state;
	pod_make(&evil, 7, LABELS("pod\0p"));
	pod_make(&good, 8, LABELS("pod\0p"));
	a = counter(&evil, "a_total", NULL, NULL);
	b = counter(&good, "a_total", NULL, NULL);
	make_cell_set(&evil.m, 1, a, 666);
	make_cell_set(&good.m, 1, b, 5);
	put_as(h, 0, 1, &evil, SL_STATE_LIVE, &mallory);
	put_as(h, 1, 2, &good, SL_STATE_LIVE, &root);
	for (int sums = 0; sums < 2; sums++) {
		c = start(&(struct collect_collector_opts){.period_ns = MS, .sum_processes = sums});
		WITHIN(3000, collect_collector_ready(c));
		WITHIN(3000,
		       has(c, sums ? "a_total{pod=\"p\",host=\"node-1\"} 5"
				   : "a_total{pod=\"p\",host=\"node-1\",process=\"4711\"} 5"));
		WITHIN(3000,
		       has(c,
			   sums ? "a_total{pod=\"p\",host=\"node-1\",uid=\"666\"} 666"
				: "a_total{pod=\"p\",host=\"node-1\",uid=\"666\",process=\"4711\""
				  "} 666"));
		collect_collector_free(c);
	}
	make_free(&evil.m);
	make_free(&good.m);
}

static void fill(struct pod *p, unsigned int metrics)
{
	char name[32];

	for (unsigned int i = 0; i < metrics; i++) {
		snprintf(name, sizeof(name), "m%03u_total", i);
		counter(p, name, NULL, NULL);
	}
}

static void no_tenant_takes_all_series(void **state)
{
	enum { HOGS = 8 };
	struct mock_host *h = host_with_tenants(16);
	struct collect_collector *c;
	struct pod evil[HOGS], good, root_pod;

	(void)state;
	for (unsigned int i = 0; i < HOGS; i++) {
		pod_make(&evil[i], 100 + i, LABELS("pod\0evil"));
		fill(&evil[i], 100);
		put_as(h, i, i + 1, &evil[i], SL_STATE_LIVE, &mallory);
	}
	c = start(&(struct collect_collector_opts){.period_ns = MS, .max_series = 640});
	WITHIN(3000, collect_collector_ready(c));
	/* A stranger gets half of the capacity that is left after the reserve. */
	WITHIN(3000, self_value(c, "sidelight_tenant_series", "uid=\"666\"") == 280);
	pod_make(&good, 7, LABELS("pod\0good"));
	fill(&good, 64);
	put_as(h, 8, 20, &good, SL_STATE_LIVE, &alice);
	WITHIN(3000, self_value(c, "sidelight_tenant_series", "uid=\"1001\"") == 64);
	WITHIN(3000, mentions(c, "\nm063_total{pod=\"good\""));
	pod_make(&root_pod, 8, LABELS("pod\0root"));
	fill(&root_pod, 200);
	put_as(h, 9, 21, &root_pod, SL_STATE_LIVE, &root);
	WITHIN(3000, self_value(c, "sidelight_tenant_series", "uid=\"0\"") == 200);
	assert_true(self_value(c, "sidelight_tenant_series", "uid=\"666\"") == 280);
	assert_true(self_value(c, "sidelight_tenant_refused_series_total", "uid=\"666\"") == 520);
	collect_collector_free(c);
	for (unsigned int i = 0; i < HOGS; i++)
		make_free(&evil[i].m);
	make_free(&good.m);
	make_free(&root_pod.m);
}

static double shown_of(struct collect_collector *c, const char *pod)
{
	char *text = scrape(c), labels[64];
	double n = 0;

	snprintf(labels, sizeof(labels), "{pod=\"%s", pod);
	for (const char *at = text; (at = strstr(at, labels)); at++)
		n++;
	free(text);
	return n;
}

static void retire_pod(struct mock_host *h, struct collect_collector *c, uint32_t index,
		       struct pod *p, const struct region_tenant *who)
{
	const double before = self_value(c, "sidelight_collector_expired_regions_total", NULL);

	put_as(h, index, index + 1, p, SL_STATE_RETIRED, who);
	WITHIN(3000, self_value(c, "sidelight_collector_expired_regions_total", NULL) > before);
	WITHIN(3000, collect_collector_turned(c));
}

static void no_tenant_takes_all_sums_of_ended_pods(void **state)
{
	enum { HOGS = 8, GOOD = HOGS, ROOT, PODS = ROOT + 2 };
	static const unsigned int metrics[] = {[GOOD] = 64, [ROOT] = 200, [ROOT + 1] = 300};
	struct mock_host *h = host_with_tenants(16);
	const struct region_tenant *who[PODS];
	struct collect_collector *c;
	struct pod p[PODS];

	(void)state;
	for (unsigned int i = 0; i < PODS; i++) {
		char labels[] = "pod\0evil-a";

		if (i >= HOGS)
			memcpy(labels + 4, i == GOOD ? "good" : "root", 4);
		labels[9] = (char)('a' + i);
		who[i] = i < HOGS ? &mallory : i == GOOD ? &alice : &root;
		pod_make(&p[i], 7 + i, labels, sizeof(labels));
		fill(&p[i], i < HOGS ? 100 : metrics[i]);
		put_as(h, i, i + 1, &p[i], SL_STATE_LIVE, who[i]);
	}
	c = start(&(struct collect_collector_opts){
		.period_ns = MS, .sum_processes = true, .retired_cells = 640});
	WITHIN(3000, shown_of(c, "") == 800 + 64 + 500);
	for (unsigned int i = 0; i < HOGS; i++)
		retire_pod(h, c, i, &p[i], &mallory);
	/* A stranger has at most half of what the reserve leaves, and loses its oldest sums. */
	WITHIN(3000, shown_of(c, "evil") <= 280);
	assert_true(shown_of(c, "evil-h") == 100);
	assert_true(shown_of(c, "evil-a") == 0);
	assert_true(self_value(c, "sidelight_collector_refused_total", "retired_sums") ==
		    800 - shown_of(c, "evil"));
	retire_pod(h, c, GOOD, &p[GOOD], &alice);
	retire_pod(h, c, ROOT, &p[ROOT], &root);
	WITHIN(3000, shown_of(c, "root-j") == 200);
	/* All cells are in use: those with the most lose some. */
	retire_pod(h, c, ROOT + 1, &p[ROOT + 1], &root);
	WITHIN(3000, shown_of(c, "root-k") == 300);
	assert_true(shown_of(c, "good") == 64);
	assert_true(GET(c->retired_cells) <= 640);
	WITHIN(3000, shown_of(c, "") == (double)GET(c->retired_cells));
	collect_collector_free(c);
	for (unsigned int i = 0; i < PODS; i++)
		make_free(&p[i].m);
}

static void no_tenant_takes_the_exposition(void **state)
{
	struct mock_host *h = host_with_tenants(16);
	struct collect_collector *c;
	struct pod evil[2], good, root_pod;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		pod_make(&evil[i], 100 + i, i ? "pod\0evil-1" : "pod\0evil-0",
			 sizeof("pod\0evil-0"));
		fill(&evil[i], 100);
		put_as(h, i, i + 1, &evil[i], SL_STATE_LIVE, &mallory);
	}
	pod_make(&good, 7, LABELS("pod\0good"));
	fill(&good, 64);
	put_as(h, 8, 20, &good, SL_STATE_LIVE, &alice);
	pod_make(&root_pod, 8, LABELS("pod\0root"));
	fill(&root_pod, 200);
	put_as(h, 9, 21, &root_pod, SL_STATE_LIVE, &root);
	c = start(&(struct collect_collector_opts){.period_ns = MS, .max_exposed_series = 364});
	/* Alice has all of hers, and the others half of the rest. */
	WITHIN(3000, shown_of(c, "good") == 64);
	WITHIN(3000, shown_of(c, "evil") == 150);
	WITHIN(3000, shown_of(c, "root") == 150);
	assert_true(self_value(c, "sidelight_collector_left_out_series", NULL) == 100);
	collect_collector_free(c);
	for (unsigned int i = 0; i < 2; i++)
		make_free(&evil[i].m);
	make_free(&good.m);
	make_free(&root_pod.m);
}

/* ---- layouts ---- */

static struct {
	pthread_mutex_t lock;
	bool held;
	uint32_t made, of_evil; /* of_evil: before the first one of alice */
	bool alice;
} layouts = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct collect_layout *__real_collect_layout_new(struct collect_collector *c,
						 struct collect_region *r, const void *schema,
						 size_t bytes, uint64_t generation,
						 enum region_fault *fault);
struct collect_layout *__wrap_collect_layout_new(struct collect_collector *c,
						 struct collect_region *r, const void *schema,
						 size_t bytes, uint64_t generation,
						 enum region_fault *fault);
struct collect_layout *__wrap_collect_layout_new(struct collect_collector *c,
						 struct collect_region *r, const void *schema,
						 size_t bytes, uint64_t generation,
						 enum region_fault *fault)
{
	__atomic_fetch_add(&layouts.made, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&layouts.held, __ATOMIC_RELAXED))
		usleep(1000);
	pthread_mutex_lock(&layouts.lock);
	layouts.alice |= r->tenant->who.uid == alice.uid;
	layouts.of_evil += r->tenant->who.uid == mallory.uid && !layouts.alice;
	pthread_mutex_unlock(&layouts.lock);
	return __real_collect_layout_new(c, r, schema, bytes, generation, fault);
}

static bool all_schemas_read(struct mock_host *h, uint64_t last)
{
	for (uint64_t id = 1; id <= last; id++)
		if (reads_of(h, id) < 3) /* header, hot line, schema */
			return false;
	return true;
}

static void no_tenant_delays_anothers_first_layout(void **state)
{
	enum { HOGS = 12 };
	struct mock_host *h = host_with_tenants(16);
	struct collect_collector *c;
	struct pod evil[HOGS], good;

	(void)state;
	__atomic_store_n(&layouts.held, true, __ATOMIC_RELAXED);
	layouts.made = layouts.of_evil = 0;
	layouts.alice = false;
	for (unsigned int i = 0; i < HOGS; i++) {
		pod_make(&evil[i], 100 + i, LABELS("pod\0evil"));
		fill(&evil[i], 100);
		put_as(h, i, i + 1, &evil[i], SL_STATE_LIVE, &mallory);
	}
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, all_schemas_read(h, HOGS) && GET(layouts.made) == 1);
	pod_make(&good, 7, LABELS("pod\0good"));
	fill(&good, 64);
	put_as(h, HOGS, HOGS + 1, &good, SL_STATE_LIVE, &alice);
	WITHIN(3000, all_schemas_read(h, HOGS + 1));
	usleep(20000); /* the last schema is on its way to control */
	__atomic_store_n(&layouts.held, false, __ATOMIC_RELAXED);
	WITHIN(3000, mentions(c, "\nm063_total{pod=\"good\""));
	pthread_mutex_lock(&layouts.lock);
	assert_in_range(layouts.of_evil, 1, 2);
	pthread_mutex_unlock(&layouts.lock);
	WITHIN(30000, self_value(c, "sidelight_tenant_series", "uid=\"666\"") == HOGS * 100);
	collect_collector_free(c);
	for (unsigned int i = 0; i < HOGS; i++)
		make_free(&evil[i].m);
	make_free(&good.m);
}

/* ---- rounds ---- */

static void fair_parts_of_a_round(void **state)
{
	struct collect_claim idle[] = {{.lines = 10}, {.lines = 80}};
	struct collect_claim hog[] = {{.lines = 10}, {.lines = 900}, {.lines = 20}};
	struct collect_claim equal[] = {{.lines = 100}, {.lines = 100}, {.lines = 100}};
	struct collect_claim trusted[] = {{.lines = 900, .exempt = true}, {.lines = 500}};
	struct collect_claim alone[] = {{.lines = 1000}};

	(void)state;
	collect_turns_divide(idle, 2, 100); /* enough for all */
	assert_true(!idle[0].part && !idle[1].part);
	collect_turns_divide(hog, 3, 100); /* the second one gets what the others leave */
	assert_true(!hog[0].part && hog[1].part == 70 && !hog[2].part);
	collect_turns_divide(equal, 3, 30); /* overload that is no single tenant's fault */
	assert_true(!equal[0].part && !equal[1].part && !equal[2].part);
	collect_turns_divide(trusted, 2, 100);
	assert_int_equal(trusted[0].part, 0);
	collect_turns_divide(alone, 1, 100);
	assert_int_equal(alone[0].part, 0);
}

/*
 * Each asks again after its turn: no region waits for another twice, and the total rate stays the
 * same.
 */
static void exemplars_are_read_by_turns_of_a_tenant(void **state)
{
	enum { REGIONS = 5, PIECE = 20 };
	struct collect_turn t = {0};
	uint64_t due[REGIONS], had[REGIONS] = {0}, now, pieces = 0;

	(void)state;
	for (int i = 0; i < REGIONS; i++)
		due[i] = collect_turn_exemplars(&t, 1000, PIECE);
	for (now = 1000; now < 1000 + 100 * PIECE; now++)
		for (int i = 0; i < REGIONS; i++) {
			if (now < due[i])
				continue;
			had[i]++;
			pieces++;
			due[i] = collect_turn_exemplars(&t, now, PIECE);
		}
	assert_int_equal(pieces, 100);
	for (int i = 0; i < REGIONS; i++)
		assert_int_equal(had[i], 100 / REGIONS);
	/* A tenant that reads alone after a pause has neither debt nor credit. */
	assert_int_equal(collect_turn_exemplars(&t, 1000000, PIECE), 1000000);
	assert_int_equal(collect_turn_exemplars(&t, 1000000, PIECE), 1000000 + PIECE);
}

static void costly_tenant_is_read_in_its_turn(void **state)
{
	enum { HOGS = 12, LINES = 16384 };
	struct mock_host *h = host_with_tenants(16);
	struct collect_collector *c;
	struct pod evil[HOGS], good;
	uint32_t last[HOGS], a;

	(void)state;
	for (unsigned int i = 0; i < HOGS; i++) {
		char labels[] = "pod\0evil-00";

		snprintf(labels + 9, 3, "%02u", i);
		make_metrics(&evil[i].m, LINES, 3, 1 << 16, labels, sizeof(labels));
		evil[i].instance = evil[i].m.header->instance = 100 + i;
		make_header_check(&evil[i].m);
		counter(&evil[i], "first_total", NULL, NULL);
		evil[i].m.next_cell = LINES * SL_LINE_CELLS - 1;
		last[i] = counter(&evil[i], "last_total", NULL, NULL);
		put_as(h, i, i + 1, &evil[i], SL_STATE_LIVE, &mallory);
	}
	pod_make(&good, 7, LABELS("pod\0good"));
	a = counter(&good, "a_total", NULL, NULL);
	put_as(h, HOGS, HOGS + 1, &good, SL_STATE_LIVE, &alice);
	/* 600,000 lines, 38 MB, are too much for half a millisecond on any machine. */
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(9000, self_value(c, "sidelight_tenant_read_every", "uid=\"666\"") > 1);
	assert_true(self_value(c, "sidelight_tenant_read_every", "uid=\"1001\"") == 1);
	/* It is still read completely, including its last values. */
	for (unsigned int i = 0; i < HOGS; i++)
		set(h, &evil[i], 1, last[i], 1);
	set(h, &good, 1, a, 5);
	WITHIN(3000, self_value(c, "a_total", NULL) == 5);
	WITHIN(30000, self_value(c, "last_total", NULL) == HOGS);
	set(h, &evil[0], 2, last[0], 41);
	put_as(h, 0, 1, &evil[0], SL_STATE_DEAD, &mallory);
	WITHIN(30000, self_value(c, "last_total", "evil-00") == 42);
	/* No longer slow, because there is enough for all. */
	for (unsigned int i = 0; i < HOGS; i++)
		put_as(h, i, i + 1, &evil[i], SL_STATE_RETIRED, &mallory);
	WITHIN(9000, self_value(c, "last_total", NULL) == -1);
	collect_collector_free(c);
	for (unsigned int i = 0; i < HOGS; i++)
		make_free(&evil[i].m);
	make_free(&good.m);
}

/* A link with the regions of one slow tenant, which may post READs and gets no answer by itself. */
struct slow_link {
	struct collect_worker worker;
	struct collect_turn *turn;
	struct collect_link link;
	struct collect_region region[4];
	struct region_info info;
	struct collect_plan_read read[3];
};

static struct slow_link *slow_link(uint32_t every, uint64_t part)
{
	struct slow_link *s = calloc(1, sizeof(*s));
	struct collect_tenant *t = calloc(1, sizeof(*t) + sizeof(struct collect_turn));
	struct collect_link *l = &s->link;

	s->turn = &t->turn[0];
	s->turn->every = every;
	s->turn->part = part;
	l->worker = &s->worker;
	l->op = calloc(LINK_OPS, sizeof(*l->op));
	l->read = calloc(LINK_OPS, sizeof(*l->read));
	l->landing = malloc(3 * COLLECT_PLAN_READ_MAX);
	l->landing_bytes = 3 * COLLECT_PLAN_READ_MAX;
	l->tenant = calloc(1, sizeof(struct collect_tenant *));
	l->tenant[0] = t;
	l->tenants = 1;
	l->divide_ns = UINT64_MAX;
	for (int i = 0; i < 3; i++)
		s->read[i].length = COLLECT_PLAN_READ_MAX;
	for (int i = 0; i < 4; i++)
		s->region[i] = (struct collect_region){.link = l,
						       .tenant = t,
						       .worker = &s->worker,
						       .info = &s->info,
						       .step = STEP_BOUND,
						       .plan = {.reads = 3, .read = s->read}};
	return s;
}

static void slow_link_free(struct slow_link *s)
{
	free(s->link.tenant[0]);
	free(s->link.tenant);
	free(s->link.landing);
	free(s->link.read);
	free(s->link.op);
	free(s);
}

/*
 * The part of a round is enough for two regions, but the READs in flight for one only: the first
 * two must not be read again before the last two.
 */
static void every_region_of_a_slow_tenant_has_its_turn(void **state)
{
	struct slow_link *s = slow_link(2, 6 * COLLECT_PLAN_READ_MAX / SL_LINE_SIZE);
	struct collect_link *l = &s->link;
	uint32_t passes[4] = {0};

	(void)state;
	for (int round = 0; round < 100; round++) {
		collect_turns_begin(l, 0);
		l->cursor = 0;
		for (int i = 0; i < 4; i++) {
			struct collect_region *r = &s->region[i];
			bool due = collect_turn_due(r);

			if (!r->pass && !(due && collect_pass_start(l, r, true)))
				continue;
			collect_pass_issue(l, r);
			passes[i] += r->pass_read == 3;
			r->pass = r->pass_read < 3;
		}
		l->ops_live = l->op_head = 0; /* all READs are answered */
		l->landing_used = 0;
		l->rounds++;
	}
	for (int i = 0; i < 4; i++)
		assert_in_range(passes[i], 19, 26);
	slow_link_free(s);
}

/* Rounds that take ten times the period do not make a slow tenant's series come and go. */
static void late_rounds_hide_no_slow_tenant(void **state)
{
	struct slow_link *s = slow_link(60, 6 * COLLECT_PLAN_READ_MAX / SL_LINE_SIZE);
	struct collect_collector c = {.opts = {.period_ns = 5 * MS, .stale_ns = 2000 * MS}};
	struct collect_host host = {.links = 1};
	struct collect_link *l = &s->link;
	struct collect_region *r = &s->region[0];
	uint64_t now = 1;

	(void)state;
	r->tenant->host = &host;
	r->host = &host;
	r->c = &c;
	for (int round = 0; round < 600; round++, now += 50 * MS) {
		host.fresh_ns = now;
		collect_turns_begin(l, now);
		if (collect_turn_due(r) && collect_pass_start(l, r, true)) {
			r->fresh_ns = now;
			r->pass = false;
		}
		if (round > 120)
			assert_true(collect_region_visible(r, now));
		l->rounds++;
	}
	/* It is hidden if the host is no longer read, or if laps end without reading it. */
	assert_true(collect_region_visible(r, host.fresh_ns));
	assert_false(collect_region_visible(r, host.fresh_ns + 2000 * MS));
	s->turn->last_lap_at_ns = now;
	assert_false(collect_region_visible(r, r->fresh_ns + 2000 * MS));
	slow_link_free(s);
}

/* The passes of a tenant's other regions may use up its part in every round. */
static void passes_of_a_slow_tenant_delay_no_schema(void **state)
{
	struct slow_link *s = slow_link(2, 1);
	struct collect_region *r = &s->region[0];

	(void)state;
	s->turn->credit = -1;
	r->schema_step = SCHEMA_WANTED;
	r->hot.schema_used = SL_LINE_SIZE;
	collect_schema_read(&s->link, r, base_now_ns());
	assert_int_equal(s->link.ops_live, 1);
	free(r->schema_bytes);
	slow_link_free(s);
}

/* ---- what a stranger may not be ---- */

static void stranger_has_no_kernel_table(void **state)
{
	struct mock_host *h = host_with_tenants(16);
	struct region_tenant who = mallory;
	struct collect_collector *c;
	struct pod p;

	(void)state;
	pod_make(&p, 7, LABELS("pod\0evil"));
	p.m.header->kind = SL_REGION_FLOWS;
	p.m.header->section[1].type = SL_SECTION_FLOWS;
	p.m.header->section[1].stride = SL_FLOW_SIZE;
	p.m.header->section[1].length = 4 * SL_FLOW_SIZE;
	p.m.header->section[2].type = SL_SECTION_JOURNAL;
	p.m.header->section[2].stride = SL_LINE_SIZE;
	p.m.header->section[2].length = 4 * SL_LINE_SIZE;
	make_header_check(&p.m);
	who.id = 1;
	who.instance = 7;
	mock_tenant(h, 0, &who);
	mock_put_flows(h, 0, 1, p.m.mem, p.m.size, SL_STATE_LIVE, 7);
	c = start_tables(&(struct collect_collector_opts){.period_ns = MS},
			 &(struct collect_tables_opts){0});
	WITHIN(3000, faults(c, "section") == 1);
	collect_collector_free(c);
	make_free(&p.m);
}

static void instance_belongs_to_its_tenant(void **state)
{
	struct mock_host *h = host_with_tenants(16);
	struct region_tenant who = mallory;
	struct collect_collector *c;
	struct pod p, q;

	(void)state;
	/* The directory names another instance than its header, as the tenant's record says. */
	pod_make(&p, 7, LABELS("pod\0p"));
	counter(&p, "a_total", NULL, NULL);
	p.instance = 1234;
	put_as(h, 0, 1, &p, SL_STATE_LIVE, &mallory);
	/* The record says that the header has another instance: this is not its memory. */
	pod_make(&q, 8, LABELS("pod\0q"));
	counter(&q, "b_total", NULL, NULL);
	who.id = 2;
	who.instance = 9;
	mock_tenant(h, 1, &who);
	put(h, 1, 2, &q, SL_STATE_LIVE);
	c = start(&(struct collect_collector_opts){.period_ns = MS, .region_series = true});
	WITHIN(3000, mentions(c, "\na_total{"));
	WITHIN(3000, mentions(c, "instance_id=\"00000000000004d2\""));
	WITHIN(3000, self_value(c, "sidelight_collector_read_errors_total", "wrong_instance") > 0);
	assert_false(mentions(c, "\nb_total{"));
	assert_false(mentions(c, "instance_id=\"0000000000000007\""));
	collect_collector_free(c);
	make_free(&p.m);
	make_free(&q.m);
}

static uint64_t index_us; /* duration of the next index */

struct collect_index *__real_collect_index_new(struct collect_collector *c);
struct collect_index *__wrap_collect_index_new(struct collect_collector *c);
struct collect_index *__wrap_collect_index_new(struct collect_collector *c)
{
	usleep((useconds_t)__atomic_exchange_n(&index_us, 0, __ATOMIC_RELAXED));
	return __real_collect_index_new(c);
}

/* An index that took 2 s would keep every new pod waiting for 18 s. */
static void a_large_index_delays_no_other_tenant(void **state)
{
	struct mock_host *h = host_with_tenants(16);
	struct collect_collector *c;
	struct pod p[4];
	uint64_t put_ns;

	(void)state;
	for (uint64_t i = 0; i < 4; i++) {
		char name[] = "a_total";

		name[0] = (char)('a' + i);
		pod_make(&p[i], 7 + i, LABELS("pod\0p"));
		counter(&p[i], name, NULL, NULL);
	}
	put_as(h, 0, 1, &p[0], SL_STATE_LIVE, &mallory);
	c = start(&(struct collect_collector_opts){.period_ns = MS});
	WITHIN(3000, mentions(c, "\na_total{"));
	__atomic_store_n(&index_us, 2000000, __ATOMIC_RELAXED);
	put_as(h, 1, 2, &p[1], SL_STATE_LIVE, &mallory);
	WITHIN(5000, mentions(c, "\nb_total{"));
	put_ns = base_now_ns();
	put_as(h, 2, 3, &p[2], SL_STATE_LIVE, &mallory);
	WITHIN(3000, self_value(c, "sidelight_tenant_held_layouts_total", "uid=\"666\"") > 0);
	put_as(h, 3, 4, &p[3], SL_STATE_LIVE, &alice);
	while (!mentions(c, "\nd_total{") && base_now_ns() - put_ns < 15000 * MS)
		usleep(10000);
	assert_true(base_now_ns() - put_ns < 15000 * MS);
	WITHIN(3000, mentions(c, "\nc_total{"));
	collect_collector_free(c);
	for (int i = 0; i < 4; i++)
		make_free(&p[i].m);
}

struct ended_count {
	size_t of_alice, others;
};

static bool count_ended(void *arg, const struct collect_series_view *v)
{
	struct ended_count *n = arg;

	if (v->of.instance == 7)
		n->of_alice += v->of.ended_ns != 0;
	else
		n->others += v->of.ended_ns != 0;
	return true;
}

/* Pods that a tenant starts and ends all the time take only its own share of the past. */
static void ended_pods_leave_others_their_place(void **state)
{
	struct mock_host *h = host_with_tenants(64);
	struct ended_count n = {0};
	const struct collect_series_walk walk = {.series = count_ended, .arg = &n, .since_ns = 1};
	struct collect_point point;
	struct collect_collector *c;
	struct pod p[21];

	(void)state;
	for (uint32_t i = 0; i < 21; i++) {
		char name[32], value[400];

		pod_make(&p[i], 7 + i, LABELS("pod\0p"));
		for (int k = 0; k < 30; k++) {
			snprintf(name, sizeof(name), "c%u_%d_total", i, k);
			snprintf(value, sizeof(value), "%0399d", k);
			counter(&p[i], name, "label", value);
		}
		put_as(h, i, 1 + i, &p[i], SL_STATE_LIVE, i ? &mallory : &alice);
	}
	c = start(&(struct collect_collector_opts){.period_ns = MS, .history_bytes = 4 << 20});
	for (uint32_t i = 0; i < 21; i++)
		WITHIN(3000, read_history(c, 7 + i, 0, 0, INT64_MAX, &point, 1) == 1);
	for (uint32_t i = 0; i < 21; i++)
		put_as(h, i, 1 + i, &p[i], SL_STATE_RETIRED, i ? &mallory : &alice);
	WITHIN(3000, GET(c->series_count) == 0);
	WITHIN(1000,
	       (n = (struct ended_count){0}, !collect_collector_series(c, &walk)) && n.others);
	assert_int_equal(n.of_alice, 30);
	assert_true(n.others > 0 && n.others < 20 * 30);
	/* Without the time of an end, it is the one that ended last. */
	assert_int_equal(read_history(c, 7, 0, 0, INT64_MAX, &point, 1), 1);
	collect_collector_free(c);
	for (int i = 0; i < 21; i++)
		make_free(&p[i].m);
}

const struct CMUnitTest tenants_tests[] = {
	TEST(a_large_index_delays_no_other_tenant),
	TEST(identity_labels_are_attested),
	TEST(identity_labels_have_no_lookalikes),
	TEST(names_are_attested),
	TEST(sums_keep_an_attested_pod),
	TEST(no_tenant_removes_an_earlier_ones_series),
	TEST(no_tenant_keeps_names_from_later_ones),
	TEST(equal_labels_of_tenants_stay_apart),
	TEST(no_tenant_takes_all_series),
	TEST(no_tenant_takes_the_exposition),
	TEST(no_tenant_takes_all_sums_of_ended_pods),
	TEST(ended_pods_leave_others_their_place),
	TEST(no_tenant_delays_anothers_first_layout),
	TEST(fair_parts_of_a_round),
	TEST(exemplars_are_read_by_turns_of_a_tenant),
	TEST(costly_tenant_is_read_in_its_turn),
	TEST(every_region_of_a_slow_tenant_has_its_turn),
	TEST(passes_of_a_slow_tenant_delay_no_schema),
	TEST(late_rounds_hide_no_slow_tenant),
	TEST(stranger_has_no_kernel_table),
	TEST(instance_belongs_to_its_tenant),
	{0},
};
