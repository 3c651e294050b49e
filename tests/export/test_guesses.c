// SPDX-License-Identifier: Apache-2.0
/* test_guesses.c - whatever guesses of passwords cost, and from how many addresses they come. */
#include <crypt.h>
#include <string.h>

#include "support/test.h"
#include "base/base.h"
#include "http/web.h"

#define MS 1000000ull

static uint64_t now_ns = 3600000 * MS, cost_ns, spent_ns;

uint64_t __wrap_base_now_ns(void);
char *__wrap_crypt_rn(const char *phrase, const char *setting, void *data, int bytes);

uint64_t __wrap_base_now_ns(void)
{
	return now_ns;
}

char *__wrap_crypt_rn(const char *phrase, const char *setting, void *data, int bytes)
{
	now_ns += cost_ns;
	spent_ns += cost_ns;
	snprintf(data, (size_t)bytes, "%s", strcmp(phrase, "right") ? "other" : setting);
	return data;
}

/* A minute of guesses, each from another address, while a known user goes on. */
static void guesses_of_all_peers_take_a_tenth_of_the_time(void **state)
{
	static const char right[] = "Basic cmVhZGVyOnJpZ2h0", wrong[] = "Basic cmVhZGVyOndyb25n";
	static const uint64_t costs[] = {5 * MS, 50 * MS, 800 * MS}; /* bcrypt from 6 to 14 */
	struct http_web_user reader = {.name = "reader", .hash = "hash", .role = HTTP_READER};
	const struct http_web w = {.users = &reader, .user_count = 1, .dummy = "dummy"};
	const struct http_web_user *user;

	(void)state;
	for (size_t i = 0; i < sizeof(costs) / sizeof(*costs); i++) {
		static struct http_users u;
		unsigned char peer[HTTP_PEER_KEY] = {0};
		const uint64_t end_ns = now_ns + 60000 * MS;

		memset(&u, 0, sizeof(u));
		pthread_mutex_init(&u.lock, NULL);
		cost_ns = costs[i];
		spent_ns = 0;
		assert_int_equal(http_users_try(&u, &w, peer, right, &user), HTTP_GUESS_RIGHT);
		for (uint32_t n = 1; now_ns < end_ns; n++, now_ns += 10 * MS) {
			memcpy(peer, &n, sizeof(n));
			assert_int_not_equal(http_users_try(&u, &w, peer, wrong, &user),
					     HTTP_GUESS_RIGHT);
			assert_int_equal(http_users_try(&u, &w, peer, right, &user),
					 HTTP_GUESS_RIGHT);
		}
		/* A tenth of the minute, 1.5 s at first, and the guess that exceeded it. */
		assert_true(spent_ns >= 5000 * MS && spent_ns <= 7600 * MS + cost_ns);
		pthread_mutex_destroy(&u.lock);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guesses_of_all_peers_take_a_tenth_of_the_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
