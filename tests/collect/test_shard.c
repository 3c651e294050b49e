// SPDX-License-Identifier: Apache-2.0
/*
 * test_shard.c - which of N collectors read a host: an even share each, R per host, and few moves
 * when N changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "collect/discover/shard.h"

#define HOSTS	10000u
#define MEMBERS 25u

static char host[HOSTS][32];

static int make_names(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < HOSTS; i++)
		snprintf(host[i], sizeof(host[i]), "10.%u.%u.%u:18515", i >> 16, i >> 8 & 255,
			 i & 255);
	return 0;
}

/* A bit for each member of n that reads the host. */
static uint64_t readers(unsigned int n, unsigned int replicas, const char *name)
{
	uint64_t all = 0;

	for (unsigned int i = 0; i < n; i++)
		all |= (uint64_t)collect_shard_reads(&(struct collect_shard){i, n}, replicas, name)
		       << i;
	return all;
}

static int count(uint64_t bits)
{
	return __builtin_popcountll(bits);
}

static void each_host_has_as_many_readers_as_replicas(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < HOSTS / 10; i++)
		for (unsigned int r = 1; r <= 4; r++)
			for (unsigned int n = 1; n <= 6; n++)
				assert_int_equal(count(readers(n, r, host[i])), r < n ? r : n);
}

static void shares_are_even(void **state)
{
	unsigned int share[2][MEMBERS] = {0};

	(void)state;
	for (unsigned int i = 0; i < HOSTS; i++)
		for (unsigned int r = 1; r <= 2; r++)
			for (uint64_t b = readers(MEMBERS, r, host[i]); b; b &= b - 1)
				share[r - 1][__builtin_ctzll(b)]++;
	/* 400 each, with a deviation of sqrt(400 * 24/25) = 19.6: five of them either way. */
	for (unsigned int i = 0; i < MEMBERS; i++) {
		assert_in_range(share[0][i], 302, 498);
		assert_in_range(share[1][i], 660, 940);
	}
}

static void one_more_member_takes_its_share_alone(void **state)
{
	(void)state;
	for (unsigned int r = 1; r <= 2; r++) {
		unsigned int moved = 0, from[MEMBERS] = {0};

		for (unsigned int i = 0; i < HOSTS; i++) {
			uint64_t before = readers(MEMBERS - 1, r, host[i]);
			uint64_t after = readers(MEMBERS, r, host[i]);

			if (before == after)
				continue;
			moved++;
			/* One reader is replaced by the new member. */
			assert_int_equal(after & ~before, 1u << (MEMBERS - 1));
			assert_int_equal(count(before & ~after), 1);
			from[__builtin_ctzll(before & ~after)]++;
		}
		assert_in_range(moved, 302 * r, 498 * r);
		for (unsigned int i = 0; i < MEMBERS - 1; i++)
			assert_true(from[i] > 0);
	}
}

/* Collectors of all versions must agree, so the readers of these hosts never change. */
static void readers_are_those_of_every_version(void **state)
{
	(void)state;
	assert_int_equal(readers(3, 1, "node-0"), 0x4);
	assert_int_equal(readers(3, 2, "node-0"), 0x6);
	assert_int_equal(readers(25, 1, "10.0.0.7:18515"), 0x1);
}

static void parses(const char *text, unsigned int member, unsigned int members)
{
	struct collect_shard s = {99, 99};
	char error[256] = "";

	if (!members) {
		assert_true(collect_shard_parse(text, &s, error, sizeof(error)) < 0);
		assert_true(*error && !strchr(error, '\n'));
		assert_int_equal(s.members, 99);
		return;
	}
	assert_int_equal(collect_shard_parse(text, &s, error, sizeof(error)), 0);
	assert_int_equal(s.member, member);
	assert_int_equal(s.members, members);
}

static void the_grammar_is_as_documented(void **state)
{
	static const char *const wrong[] = {
		"",	 "3",	"3/3",	  "1/0",      "/3",   "1/",	"-1/3",	  "1/3 ", "1 /3",
		"0x1/3", "a/3", "0/1025", "0/999999", "auto", "auto/x", "Auto/3", "file:"};

	(void)state;
	parses("0/1", 0, 1);
	parses("2/3", 2, 3);
	parses("1023/1024", 1023, 1024);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		parses(wrong[i], 0, 0);
	setenv("POD_NAME", "sidelight-collector-2", 1);
	parses("auto/3", 2, 3);
	parses("auto/2", 0, 0);
	setenv("POD_NAME", "web-12.example.com", 1);
	parses("auto/13", 12, 13);
	for (size_t i = 0; i < 4; i++) {
		setenv("POD_NAME", (const char *[]){"web", "web-", "web-x1", ""}[i], 1);
		parses("auto/3", 0, 0);
	}
	unsetenv("POD_NAME");
}

static void parses_file(const char *text, size_t bytes, unsigned int member, unsigned int members)
{
	char path[256], source[sizeof(path) + 8];
	FILE *f;

	snprintf(path, sizeof(path), "%s/shard-%d", getenv("TMPDIR") ?: "/tmp", (int)getpid());
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, bytes, f), bytes);
	fclose(f);
	snprintf(source, sizeof(source), "file:%s", path);
	parses(source, member, members);
	unlink(path);
}

static void a_file_has_it_on_its_first_line(void **state)
{
	(void)state;
	setenv("POD_NAME", "collector-4", 1);
	parses_file("1/2", 3, 1, 2);
	parses_file("1/2\n", 4, 1, 2);
	parses_file("1/2 \r\nand more\n", 15, 1, 2);
	parses_file("auto/5\n", 7, 4, 5);
	parses_file("", 0, 0, 0);
	parses_file("\n1/2\n", 5, 0, 0);
	parses_file("1/2\0", 4, 1, 2);
	parses_file("file:x\n", 7, 0, 0);
	unsetenv("POD_NAME");
	parses("file:/nowhere/at/all", 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_host_has_as_many_readers_as_replicas),
		cmocka_unit_test(shares_are_even),
		cmocka_unit_test(one_more_member_takes_its_share_alone),
		cmocka_unit_test(readers_are_those_of_every_version),
		cmocka_unit_test(the_grammar_is_as_documented),
		cmocka_unit_test(a_file_has_it_on_its_first_line),
	};

	return cmocka_run_group_tests(tests, make_names, NULL);
}
