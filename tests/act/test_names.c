// SPDX-License-Identifier: Apache-2.0
/*
 * test_names.c - whose a pod is, and what it may be called: a publisher chooses its service, but
 * not its owner, and none of the names that stand for the host and for the kernel's connections.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "act/explain.h"
#include "base/base.h"
#include "collect/judge/analysis.h"
#include "collect/read/collector_internal.h"

#define EVERY_NS  10000000u
#define TIMEOUT_S 60

static struct collect_tap tap;

int __wrap_collect_collector_tap(struct collect_collector *c, const struct collect_tap *t);
int __wrap_collect_collector_tap(struct collect_collector *c, const struct collect_tap *t)
{
	(void)c;
	tap = *t;
	return 0;
}

static struct collect_def load = {
	.metric = {.kind = SL_KIND_GAUGE_F64, .name = "load", .cells = 1}};
static struct collect_column column = {.def = &load};
static struct collect_layout layout = {.columns = 1, .cells = 1, .column = &column};

static const struct collect_tenant trusted = {.exempt = true};
static const struct collect_tenant user = {.who = {.key = 1, .uid = 1000}, .uid = "1000"};
static const struct collect_tenant other = {.who = {.key = 2, .uid = 1001}, .uid = "1001"};
static const struct collect_tenant pod = {
	.who = {.key = 3, .names = {.kube_namespace = "shop", .pod = "cart-0"}}, .uid = "0"};

/* Hands over rows as a worker does, until the judge knows the pod. */
static void name(const struct collect_tenant *tenant, const char *host, uint32_t kind,
		 const char *label, const char *service, struct act_pod_name *out)
{
	char error[256];
	struct collect_analysis *a =
		collect_analysis_new(&(struct collect_analysis_opts){.workers = 1,
								     .false_alarms = 1,
								     .every_ns = EVERY_NS,
								     .step_ns = 100000000,
								     .hold_ns = 60000000000u},
				     error, sizeof(error));
	const struct region_info info = {
		.kind = kind,
		.pid = 7,
		.label_count = 2,
		.labels = {{label, service}, {"namespace", "bank"}},
	};
	const uint64_t end = base_now_ns() + TIMEOUT_S * 1000000000ull;
	const double value = 0.25;
	struct act_pod_verdict v;
	void *own = NULL;
	uint64_t cell;

	assert_non_null(a);
	assert_int_equal(collect_analysis_attach(a, NULL), 0);
	memcpy(&cell, &value, sizeof(cell));
	do {
		const struct collect_tap_row row = {.instance = 7,
						    .info = &info,
						    .hostname = host,
						    .tenant = tenant,
						    .state = SL_STATE_LIVE,
						    .layout = 1,
						    .shape = &layout,
						    .columns = 1,
						    .value = &value,
						    .cell = &cell,
						    .ns = (int64_t)base_realtime_ns(),
						    .own = &own};

		if (tap.wants(tap.arg, &row))
			tap.row(tap.arg, &row);
		usleep(2000);
	} while (!act_verdicts_pod(collect_analysis_verdicts(a), 7, &v) && base_now_ns() < end);
	*out = v.name;
	tap.gone(tap.arg, 7, own);
	collect_analysis_free(a);
}

static const char *service_of(const struct collect_tenant *tenant, uint32_t kind, const char *label,
			      const char *service)
{
	static struct act_pod_name n;

	name(tenant, "node-1", kind, label, service, &n);
	return n.service;
}

#define METRICS SL_REGION_METRICS, "service"

static void no_tenant_takes_the_name_of_the_host(void **state)
{
	struct act_pod_name n;

	(void)state;
	assert_string_equal(service_of(&trusted, METRICS, "host"), "host");
	assert_string_equal(service_of(&user, METRICS, "host"), "exported_host");
	assert_string_equal(service_of(&pod, METRICS, "host"), "exported_host");
	assert_string_equal(service_of(&user, METRICS, "hosts"), "hosts");
	name(&user, "node-1", METRICS, "host", &n);
	assert_false(act_is_host(&n));
}

static void no_tenant_takes_the_names_of_connections(void **state)
{
	static const char *const claim[][2] = {
		{"cart (tcp)", "exported_cart"},
		{"cart (tcp) (tcp)", "exported_cart"},
		{"(host)", "exported_(host)"},
		{"(host) (tcp)", "exported_(host)"},
		{" (tcp)", " (tcp)"},
		/* cut off so that it ends in the suffix */
		{"a-name-of-57-bytes-that-goes-on-after-its-suffix--- (tcp) and more",
		 "exported_a-name-of-57-bytes-that-goes-on-after-its-suffix"},
	};
	const struct collect_tenant *const of[] = {&user, &pod, &trusted};
	struct act_pod_name n;

	(void)state;
	for (size_t i = 0; i < 3 * sizeof(claim) / sizeof(*claim); i++) {
		name(of[i % 3], "node-1", METRICS, claim[i / 3][0], &n);
		assert_string_equal(n.service, claim[i / 3][1]);
		assert_false(act_is_host(&n) || act_is_connections(&n));
	}
}

/* Users name systemd units, so the kernel's connections of a unit carry a claim, too. */
static void a_unit_is_not_taken_for_the_host(void **state)
{
	(void)state;
	assert_string_equal(service_of(&trusted, SL_REGION_FLOWS, "service", "cart"), "cart (tcp)");
	assert_string_equal(service_of(&trusted, SL_REGION_FLOWS, "unit", "(host)"),
			    "(host) (tcp)");
	assert_string_equal(service_of(&trusted, SL_REGION_FLOWS, "service", "(host)"),
			    "exported_(host) (tcp)");
	assert_string_equal(service_of(&trusted, SL_REGION_FLOWS, "service", "host"),
			    "exported_host (tcp)");
	assert_string_equal(service_of(&trusted, SL_REGION_FLOWS, "service", "a (tcp)"),
			    "exported_a (tcp)");
}

static void a_service_belongs_to_its_owner(void **state)
{
	struct act_pod_name a, b, c, d, tcp;

	(void)state;
	name(&user, "node-1", METRICS, "cart", &a);
	name(&user, "node-2", METRICS, "cart", &b);
	name(&other, "node-1", METRICS, "cart", &c);
	name(&trusted, "node-1", METRICS, "cart", &d);
	assert_string_equal(a.owner, "uid 1000");
	assert_true(act_is_same_service(&a, &b)); /* replicas on two hosts */
	assert_int_not_equal(a.tenant, b.tenant);
	assert_false(act_is_same_service(&a, &c));
	assert_false(act_is_same_service(&a, &d));
	name(&trusted, "node-1", SL_REGION_FLOWS, "service", "cart", &tcp);
	assert_string_equal(tcp.owner, "bank");
	assert_false(act_is_same_service(&a, &tcp));
	assert_true(act_is_same_service(&d, &tcp));
	tcp.owner[0] = tcp.kube_namespace[0] = '\0'; /* the kernel's host knows no namespace */
	assert_true(act_is_same_service(&a, &tcp));
}

static void a_namespace_is_attested_or_trusted(void **state)
{
	struct act_pod_name n;

	(void)state;
	name(&trusted, "node-1", METRICS, "cart", &n);
	assert_string_equal(n.kube_namespace, "bank");
	assert_string_equal(n.owner, "");
	name(&pod, "node-1", METRICS, "cart", &n);
	assert_string_equal(n.kube_namespace, "shop");
	assert_string_equal(n.owner, "shop");
	name(&user, "node-1", METRICS, "cart", &n);
	assert_string_equal(n.kube_namespace, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_tenant_takes_the_name_of_the_host),
		cmocka_unit_test(no_tenant_takes_the_names_of_connections),
		cmocka_unit_test(a_unit_is_not_taken_for_the_host),
		cmocka_unit_test(a_service_belongs_to_its_owner),
		cmocka_unit_test(a_namespace_is_attested_or_trusted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
