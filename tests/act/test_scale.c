// SPDX-License-Identifier: Apache-2.0
/* test_scale.c - scaling signals come from live pods alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "act/scale.h"

#define S 1000000000ll
#define T (1000 * S)

static struct act_pod_verdict pod(const char *service, double slowdown, bool anomalous, int64_t ns)
{
	struct act_pod_verdict v = {.ns = ns, .slowdown = slowdown, .anomalous = anomalous};

	snprintf(v.name.service, sizeof(v.name.service), "%s", service);
	strcpy(v.name.kube_namespace, "shop");
	return v;
}

static void look(struct act_scale *s, int64_t now, const struct act_pod_verdict *v, size_t n)
{
	act_scale_begin(s, now);
	for (size_t i = 0; i < n; i++)
		act_scale_pod(s, &v[i]);
	act_scale_end(s);
}

static void signals_are_by_workload_smoothed_and_of_fresh_pods(void **state)
{
	struct act_scale *s = act_scale_new(10 * S, 0);
	struct act_pod_verdict v[] = {pod("cart", 1, false, T), pod("cart", 3, true, T),
				      pod("mail", 1e9, true, T), pod("cart", 100, true, T - 11 * S),
				      pod("cart", 100, true, 0)};
	struct act_workload w[4];

	(void)state;
	assert_int_equal(act_scale_workloads(s, w, 4), 0);
	look(s, T, v, 5);
	assert_int_equal(act_scale_workloads(s, w, 4), 2);
	assert_string_equal(w[0].service, "cart");
	assert_int_equal(w[0].pods, 2);
	assert_true(w[0].pressure == 2 && w[0].anomalous_ratio == 0.5);
	assert_true(w[1].pressure == ACT_PRESSURE_MAX && w[1].anomalous_ratio == 1);
	/* After tau, the signal has moved by 63 %. */
	v[0] = pod("cart", 1, false, T + 10 * S);
	look(s, T + 10 * S, v, 1);
	assert_int_equal(act_scale_workloads(s, w, 4), 1);
	assert_true(fabs(w[0].pressure - (1 + exp(-1))) < 1e-12 && w[0].anomalous_ratio == 0);
	look(s, T + 20 * S, NULL, 0);
	assert_int_equal(act_scale_workloads(s, w, 4), 0);
	act_scale_free(s);
}

/*
 * An autoscaler computes desired = ceil(pods * pressure / target). The effect of load on latency
 * must move it in the right direction, and anomalies that do not slow down requests must not move
 * it.
 */
static void pressure_above_one_adds_pods_below_takes_them(void **state)
{
	static const struct {
		double slowdown[2], recent;
		int from, to;
	} seen[] = {
		{{1, 1}, 0, 4, 4},	/* as planned */
		{{1, 1}, 1e6, 4, 4},	/* odd, but not slower */
		{{2, 2}, 0, 4, 8},	/* twice as slow */
		{{3, 1}, 0, 4, 8},	/* one of two pods is slow */
		{{0.5, 0.5}, 50, 4, 2}, /* twice as fast, which is odd, too */
		{{1.25, 0}, 0, 4, 5},	/* one has no requests */
		{{1e9, 1e9}, 0, 1, ACT_PRESSURE_MAX},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(seen) / sizeof(*seen); i++) {
		struct act_scale *s = act_scale_new(0, 0);
		struct act_pod_verdict v[] = {pod("cart", seen[i].slowdown[0], true, T),
					      pod("cart", seen[i].slowdown[1], true, T)};
		struct act_workload w;

		v[0].recent = v[1].recent = v[0].score = v[1].score = seen[i].recent;
		look(s, T, v, 2);
		assert_int_equal(act_scale_workloads(s, &w, 1), 1);
		assert_int_equal((int)ceil(seen[i].from * w.pressure), seen[i].to);
		act_scale_free(s);
	}
}

static void pressure_is_unknown_without_requests(void **state)
{
	struct act_scale *s = act_scale_new(10 * S, 0);
	struct act_pod_verdict v = pod("cart", 3, false, T);
	struct act_workload w;

	(void)state;
	look(s, T, &v, 1);
	v = pod("cart", 0, false, T + S);
	look(s, T + S, &v, 1);
	assert_int_equal(act_scale_workloads(s, &w, 1), 1);
	assert_true(isnan(w.pressure) && w.pods == 1 && w.loaded == 0);
	/* Data from before the pause does not count. */
	v = pod("cart", 1, false, T + 2 * S);
	look(s, T + 2 * S, &v, 1);
	assert_int_equal(act_scale_workloads(s, &w, 1), 1);
	assert_true(w.pressure == 1);
	act_scale_free(s);
}

/* Three hours back, after a look at T: e^(t / tau) is beyond all numbers. */
static void a_clock_that_is_set_back_makes_no_signal(void **state)
{
	struct act_scale *s = act_scale_new(10 * S, 0);
	struct act_pod_verdict v[] = {pod("cart", 2, false, 20 * T), pod("mail", 5, true, 20 * T)};
	struct act_workload w[2];

	(void)state;
	look(s, 20 * T, v, 2);
	for (int i = 0; i < 3; i++) {
		const int64_t now = 9 * T + i * 10 * S;

		v[0] = pod("cart", 1, false, now);
		v[1] = pod("mail", 1, false, now);
		look(s, now, v, 2);
		assert_int_equal(act_scale_workloads(s, w, 2), 2);
		assert_true(fabs(w[0].pressure - (1 + exp(-i))) < 1e-12);
		assert_true(fabs(w[1].pressure - (1 + 4 * exp(-i))) < 1e-12);
	}
	act_scale_free(s);
}

static void workloads_are_bounded_and_omissions_counted(void **state)
{
	struct act_scale *s = act_scale_new(0, 2);
	struct act_pod_verdict v[] = {pod("a", 1, false, T), pod("b", 1, false, T),
				      pod("c", 1, false, T), pod("a", 1, false, T)};
	struct act_workload w[4];

	(void)state;
	look(s, T, v, 4);
	assert_int_equal(act_scale_workloads(s, w, 4), 2);
	assert_int_equal(w[0].pods, 2);
	assert_int_equal(act_scale_left_out(s), 1);
	act_scale_free(s);
}

/* A user who claims a service moves the signal of that user alone. */
static void a_tenant_moves_its_own_signal_alone(void **state)
{
	struct act_scale *s = act_scale_new(0, 0);
	struct act_pod_verdict v[] = {pod("cart", 1, false, T), pod("cart", 9, true, T),
				      pod("cart", 1, false, T), pod("cart", 1, false, T)};
	struct act_workload w[4];

	(void)state;
	strcpy(v[1].name.owner, "uid 1000");
	strcpy(v[2].name.owner, "shop"); /* the namespace, as attested */
	look(s, T, v, 4);
	assert_int_equal(act_scale_workloads(s, w, 4), 2);
	assert_int_equal(w[0].pods, 3);
	assert_true(w[0].pressure == 1 && w[0].anomalous_ratio == 0);
	assert_string_equal(w[0].uid, "");
	assert_int_equal(w[1].pods, 1);
	assert_string_equal(w[1].uid, "1000");
	act_scale_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_are_by_workload_smoothed_and_of_fresh_pods),
		cmocka_unit_test(pressure_above_one_adds_pods_below_takes_them),
		cmocka_unit_test(pressure_is_unknown_without_requests),
		cmocka_unit_test(a_clock_that_is_set_back_makes_no_signal),
		cmocka_unit_test(workloads_are_bounded_and_omissions_counted),
		cmocka_unit_test(a_tenant_moves_its_own_signal_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
