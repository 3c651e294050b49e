// SPDX-License-Identifier: Apache-2.0
/* test_ring.c - 10,000 hosts over collectors: even, the same for all, and no move without need. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "collect/discover/ring.h"

#define HOSTS 10000u
#define PEERS 25u

static char host[HOSTS][32], name[PEERS][32];
static const char *peer[PEERS], *backwards[PEERS];
static size_t owner[HOSTS];

static void names(void)
{
	for (unsigned int i = 0; i < HOSTS; i++)
		snprintf(host[i], sizeof(host[i]), "10.%u.%u.%u:18515", i >> 16, i >> 8 & 255,
			 i & 255);
	for (unsigned int i = 0; i < PEERS; i++) {
		snprintf(name[i], sizeof(name[i]), "collector-%u:9464", i);
		peer[i] = backwards[PEERS - 1 - i] = name[i];
	}
}

static void shares_are_even_and_agreed_on(void **state)
{
	bool alive[PEERS];
	size_t share[PEERS] = {0};

	(void)state;
	names();
	memset(alive, true, sizeof(alive));
	for (size_t i = 0; i < HOSTS; i++) {
		owner[i] = collect_ring_owner(host[i], peer, alive, PEERS);
		assert_true(owner[i] < PEERS);
		share[owner[i]]++;
		/* Whatever the order in which a process learned of its peers. */
		assert_string_equal(
			peer[owner[i]],
			backwards[collect_ring_owner(host[i], backwards, alive, PEERS)]);
	}
	/* 400 each, with a deviation of sqrt(400 * 24/25) = 19.6: five of them either way. */
	for (size_t i = 0; i < PEERS; i++)
		assert_in_range(share[i], 302, 498);
}

static void a_death_moves_its_share_alone(void **state)
{
	bool alive[PEERS];
	size_t moved = 0, share = 0, to[PEERS] = {0};

	(void)state;
	memset(alive, true, sizeof(alive));
	alive[7] = false;
	for (size_t i = 0; i < HOSTS; i++) {
		size_t now = collect_ring_owner(host[i], peer, alive, PEERS);

		share += owner[i] == 7;
		if (now == owner[i])
			continue;
		assert_int_equal(owner[i], 7);
		moved++;
		to[now]++;
	}
	assert_int_equal(moved, share);
	for (size_t i = 0; i < PEERS; i++) /* the share is shared by all others */
		assert_true(i == 7 ? !to[i] : to[i] > 0);
	memset(alive, false, sizeof(alive));
	assert_int_equal(collect_ring_owner(host[0], peer, alive, PEERS), PEERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_even_and_agreed_on),
		cmocka_unit_test(a_death_moves_its_share_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
