/* SPDX-License-Identifier: Apache-2.0 */
/* Valid and invalid durations, sizes, numbers and addresses. */
#include <errno.h>
#include <string.h>

#include "support/test.h"
#include "base/base.h"
#include "base/sha256.h"
#include "base/text.h"

static void durations(void **state)
{
	static const struct {
		const char *s;
		int err;
		uint64_t ns;
	} t[] = {
		{"0", 0, 0},
		{"0.0", 0, 0},
		{"1ns", 0, 1},
		{"250us", 0, 250000},
		{"1ms", 0, 1000000},
		{"1.5s", 0, 1500000000},
		{"0.000000001s", 0, 1},
		{"1.000000000000000000000000001s", 0, 1000000000},
		{"2m", 0, 120000000000},
		{"1h", 0, 3600000000000},
		{"1d", 0, 86400000000000},
		{"9223372036854775807ns", 0, INT64_MAX},
		{"9223372036854775808ns", -ERANGE, 0},
		{"106751d", 0, UINT64_C(106751) * 86400000000000},
		{"106752d", -ERANGE, 0},
		{"18446744073709551615ns", -ERANGE, 0},
		{"18446744073709551616ns", -ERANGE, 0},
		{"18446744073709551615us", -ERANGE, 0},
		{"99999999999999999999999999h", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"1", -EINVAL, 0},
		{"ms", -EINVAL, 0},
		{"-1ms", -EINVAL, 0},
		{"+1ms", -EINVAL, 0},
		{" 1ms", -EINVAL, 0},
		{"1ms ", -EINVAL, 0},
		{"1 ms", -EINVAL, 0},
		{"1.ms", -EINVAL, 0},
		{".5ms", -EINVAL, 0},
		{"1e3ms", -EINVAL, 0},
		{"1MS", -EINVAL, 0},
		{"1msx", -EINVAL, 0},
		{"99999999999999999999999999", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint64_t ns = 77;

		assert_int_equal(base_parse_duration(t[i].s, &ns), t[i].err);
		assert_int_equal(ns, t[i].err ? 77 : t[i].ns);
	}
}

static void sizes(void **state)
{
	static const struct {
		const char *s;
		int err;
		uint64_t bytes;
	} t[] = {
		{"0", 0, 0},
		{"4096", 0, 4096},
		{"64K", 0, 65536},
		{"64k", 0, 65536},
		{"16M", 0, 16 << 20},
		{"16MiB", 0, 16 << 20},
		{"16MB", 0, 16 << 20},
		{"1G", 0, 1 << 30},
		{"1T", 0, UINT64_C(1) << 40},
		{"16777215T", 0, UINT64_C(16777215) << 40},
		{"16777216T", -ERANGE, 0},
		{"18446744073709551616", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"K", -EINVAL, 0},
		{"1.5M", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"1Q", -EINVAL, 0},
		{"1KK", -EINVAL, 0},
		{"1 K", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint64_t bytes = 77;

		assert_int_equal(base_parse_size(t[i].s, &bytes), t[i].err);
		assert_int_equal(bytes, t[i].err ? 77 : t[i].bytes);
	}
}

static void numbers(void **state)
{
	uint64_t v = 77;

	(void)state;
	assert_int_equal(base_parse_u64("18446744073709551615", 0, UINT64_MAX, &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(base_parse_u64("0010", 0, 10, &v), 0);
	assert_int_equal(v, 10);
	assert_int_equal(base_parse_u64("18446744073709551616", 0, UINT64_MAX, &v), -ERANGE);
	assert_int_equal(base_parse_u64("11", 0, 10, &v), -ERANGE);
	assert_int_equal(base_parse_u64("1", 2, 10, &v), -ERANGE);
	assert_int_equal(base_parse_u64("99999999999999999999x", 0, UINT64_MAX, &v), -EINVAL);
	assert_int_equal(base_parse_u64("", 0, 10, &v), -EINVAL);
	assert_int_equal(base_parse_u64("0x10", 0, 100, &v), -EINVAL);
	assert_int_equal(v, 10);
}

static void addresses(void **state)
{
	static const struct {
		const char *s;
		int err;
		const char *host;
		uint16_t port;
	} t[] = {
		{"127.0.0.1:9464", 0, "127.0.0.1", 9464},
		{"example.org:1", 0, "example.org", 1},
		{":0", 0, "", 0},
		{":65535", 0, "", 65535},
		{"[::1]:80", 0, "::1", 80},
		{"[fe80::1%eth0]:80", 0, "fe80::1%eth0", 80},
		{":65536", -ERANGE, NULL, 0},
		{"host", -EINVAL, NULL, 0},
		{"host:", -EINVAL, NULL, 0},
		{"host:http", -EINVAL, NULL, 0},
		{"::1:80", -EINVAL, NULL, 0},
		{"[::1:80", -EINVAL, NULL, 0},
		{"::1]:80", -EINVAL, NULL, 0},
		{"[]:80", -EINVAL, NULL, 0},
		{"a b:80", -EINVAL, NULL, 0},
		{"/run/x.sock:80", -EINVAL, NULL, 0},
		{"", -EINVAL, NULL, 0},
	};
	char host[256], small[4], longest[300];
	uint16_t port;

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		port = 77;
		assert_int_equal(base_parse_address(t[i].s, host, sizeof(host), &port), t[i].err);
		if (t[i].err) {
			assert_int_equal(port, 77);
			continue;
		}
		assert_string_equal(host, t[i].host);
		assert_int_equal(port, t[i].port);
	}
	assert_int_equal(base_parse_address("abc:1", small, sizeof(small), &port), 0);
	assert_int_equal(base_parse_address("abcd:1", small, sizeof(small), &port), -ERANGE);
	memset(longest, 'a', sizeof(longest));
	strcpy(longest + sizeof(longest) - 3, ":1");
	assert_int_equal(base_parse_address(longest, host, sizeof(host), &port), -ERANGE);
}

static void near_matches(void **state)
{
	unsigned least = BASE_NOT_NEAR;
	char endless[300];

	(void)state;
	memset(endless, 'a', sizeof(endless) - 1);
	endless[sizeof(endless) - 1] = 0;
	assert_false(base_nearer("help", "demo", &least)); /* three of four letters differ */
	assert_false(base_nearer("zzzzzz", "agent", &least));
	assert_false(base_nearer(endless, "agent", &least));
	assert_false(base_nearer("", "agent", &least));
	assert_false(base_nearer("a", "agent", &least)); /* many names begin with one letter */
	assert_int_equal(least, BASE_NOT_NEAR);
	assert_true(base_nearer("kitten", "sitting", &least));
	assert_int_equal(least, 3);
	assert_true(base_nearer("kitten", "mitten", &least));
	assert_false(base_nearer("kitten", "bitten", &least)); /* no nearer */
	assert_true(base_nearer("kitten", "kittens", &least)); /* begins with it */
	assert_int_equal(least, 0);
	least = BASE_NOT_NEAR;
	assert_true(base_nearer("agnet", "agent", &least));
}

/* NIST's examples, and an input of the maximum length. */
static void sha256_is_that_of_fips_180_4(void **state)
{
	static const struct {
		const char *text, *sum;
	} t[] = {
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"0123456789012345678901234567890123456789012345678901234",
		 "f34d5a0f80c0cbf84c8c0b90218c22637abd199965249da736a20143c8c9c9d9"},
	};
	uint8_t sum[32];
	char hex[65];

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		base_sha256(t[i].text, strlen(t[i].text), sum);
		base_hex(hex, sum, sizeof(sum));
		assert_string_equal(hex, t[i].sum);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations),	cmocka_unit_test(sizes),
		cmocka_unit_test(numbers),	cmocka_unit_test(addresses),
		cmocka_unit_test(near_matches), cmocka_unit_test(sha256_is_that_of_fips_180_4),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
