// SPDX-License-Identifier: Apache-2.0
/*
 * test_feature.c - features missing in this kernel are found by trial, and missing features are
 * reported in one line.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "support/test.h"
#include "source/tcp/feature.h"
#include "source/tcp/hook.h"

/* Skips the test if no trial is possible. */
static void need_trials(int error[TCP_FEATURES])
{
	int err = tcp_features_probe(error);
	char why[256];

	if (!err)
		return;
	tcp_hooks_refusal(err, why, sizeof(why));
	print_message("SKIP: %s\n", why);
	skip();
}

static unsigned int version(const char *release)
{
	unsigned int major = 0, minor = 0;

	assert_int_equal(sscanf(release, "%u.%u", &major, &minor), 2);
	return major << 16 | minor;
}

/* A distribution may have added it to an older kernel. */
static void each_feature_works_from_its_version_on(void **state)
{
	int error[TCP_FEATURES], before = 0;
	struct utsname kernel;

	(void)state;
	need_trials(error);
	uname(&kernel);
	for (int i = 0; i < TCP_FEATURES; i++) {
		const struct tcp_feature_info *f = &tcp_feature_table[i];

		assert_true((int)version(f->since) >= before);
		before = (int)version(f->since);
		assert_true(f->parts && f->parts < 1u << TCP_FEATURE_USERS);
		print_message("%s: %d\n", f->name, error[i]);
		if (version(kernel.release) >= version(f->since))
			assert_int_equal(error[i], 0);
		else
			assert_true(!error[i] || error[i] == -ENOTSUP);
	}
}

static void a_helper_is_known_by_trial(void **state)
{
	int error[TCP_FEATURES];

	(void)state;
	need_trials(error);
	assert_int_equal(tcp_feature_helper(BPF_FUNC_ktime_get_ns), 0);
	assert_int_equal(tcp_feature_helper(BPF_FUNC_map_lookup_elem), 0);
	/* A helper that no kernel has, and one that only programs with a packet may call. */
	assert_int_equal(tcp_feature_helper(100000), -ENOTSUP);
	assert_int_equal(tcp_feature_helper(BPF_FUNC_skb_vlan_push), -ENOTSUP);
}

static void what_is_lacking_is_said_in_one_line(void **state)
{
	int error[TCP_FEATURES] = {0};
	char why[256], small[24];

	(void)state;
	for (int part = 0; part < TCP_FEATURE_USERS; part++)
		assert_int_equal(
			tcp_features_lacking(error, (enum tcp_part)part, "6.1.0", why, sizeof(why)),
			0);
	error[TCP_FEATURE_LOOP] = -ENOTSUP;
	assert_int_equal(tcp_features_lacking(error, TCP_PART_FLOWS, "5.15.0-1", why, sizeof(why)),
			 -ENOTSUP);
	assert_string_equal(why, "Linux 5.15.0-1 lacks bpf_loop() (5.17)");
	assert_int_equal(tcp_features_lacking(error, TCP_PART_CPU, "5.15.0-1", why, sizeof(why)),
			 0);
	assert_int_equal(tcp_features_lacking(error, TCP_PART_NET, "5.15.0-1", why, sizeof(why)),
			 0);
	/* A trial that was impossible proves nothing. */
	error[TCP_FEATURE_FETCH] = -EPERM;
	assert_int_equal(tcp_features_lacking(error, TCP_PART_REPORT, "5.15", why, sizeof(why)), 0);
	error[TCP_FEATURE_FRAMES] = -ENOTSUP;
	assert_int_equal(tcp_features_lacking(error, TCP_PART_REPORT, "5.15", why, sizeof(why)),
			 -ENOTSUP);
	assert_string_equal(why, "Linux 5.15 lacks bpf_xdp_store_bytes() (5.18)");
	error[TCP_FEATURE_TIMER] = -ENOTSUP;
	assert_int_equal(tcp_features_lacking(error, TCP_PART_LAYERS, "5.14", why, sizeof(why)),
			 -ENOTSUP);
	assert_string_equal(why, "Linux 5.14 lacks timers (5.15), bpf_loop() (5.17)");
	/* The longest text fits in the loader's message, and is truncated in a smaller buffer. */
	for (int i = 0; i < TCP_FEATURES; i++)
		error[i] = -ENOTSUP;
	tcp_features_lacking(error, TCP_PART_FLOWS, "5.4.0-190-generic", why, sizeof(why));
	assert_non_null(strstr(why, "bpf_loop() (5.17)"));
	assert_int_equal(tcp_features_lacking(error, TCP_PART_FLOWS, "5.4", small, sizeof(small)),
			 -ENOTSUP);
	assert_string_equal(small, "Linux 5.4 lacks ring bu");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_feature_works_from_its_version_on),
		cmocka_unit_test(a_helper_is_known_by_trial),
		cmocka_unit_test(what_is_lacking_is_said_in_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
