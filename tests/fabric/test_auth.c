// SPDX-License-Identifier: Apache-2.0
/* test_auth.c - the proof of a secret in private data of RDMA-CM; needs no device. */
#include <errno.h>
#include <string.h>

#include "fabric/auth.h"
#include "support/test.h"

static const char secret[] = "a secret of more than 16 bytes",
		  other[] = "and one that is different";
static const uint8_t here[16] = {1}, there[16] = {2};

#define S     1000000000ull
#define NOW   (5000 * S)
#define QUEUE 17u

/* Makes a request as a collector does that has received the answer to its challenge. */
static struct fabric_verbs_proof answer(const struct fabric_auth *a, const char *by, uint8_t nonce)
{
	struct fabric_verbs_proof p = {
		.magic = 1, .version = 1, .flags = 4, .nonce = {nonce, nonce}};

	fabric_auth_challenge(a, here, &p, NOW, p.cookie);
	fabric_auth_prove(by, strlen(by), &p, QUEUE);
	return p;
}

static struct fabric_auth *host_of(const char *with)
{
	struct fabric_auth *a = fabric_auth_new(with, strlen(with));

	assert_non_null(a);
	return a;
}

static void a_proof_counts_once(void **state)
{
	struct fabric_auth *a = host_of(secret);
	struct fabric_verbs_proof p = answer(a, secret, 1), q = answer(a, secret, 2);

	(void)state;
	assert_int_equal(fabric_auth_check(a, here, &p, QUEUE, NOW), 0);
	assert_int_equal(fabric_auth_check(a, here, &p, QUEUE, NOW), -EKEYREJECTED);
	assert_int_equal(fabric_auth_check(a, here, &q, QUEUE, NOW + S), 0);
	assert_int_equal(fabric_auth_check(a, here, &p, QUEUE, NOW + S), -EKEYREJECTED);
	fabric_auth_free(a);
}

static void a_proof_is_of_the_secret_and_its_connection(void **state)
{
	struct fabric_auth *a = host_of(secret), *b = host_of(secret);
	struct fabric_verbs_proof p = answer(a, other, 1), none = {.magic = 1};

	(void)state;
	assert_int_equal(fabric_auth_check(a, here, &p, QUEUE, NOW), -EKEYREJECTED);
	p = answer(a, secret, 1);
	assert_int_equal(fabric_auth_check(a, here, &p, QUEUE + 1, NOW), -EKEYREJECTED);
	/* A challenge is only valid for one host, address and time. */
	assert_int_equal(fabric_auth_check(b, here, &p, QUEUE, NOW), -EAGAIN);
	assert_int_equal(fabric_auth_check(a, there, &p, QUEUE, NOW), -EAGAIN);
	assert_int_equal(fabric_auth_check(a, here, &p, QUEUE, NOW + 11 * S), -EAGAIN);
	assert_int_equal(fabric_auth_check(a, here, &p, QUEUE, NOW - S), -EAGAIN);
	/* Its time never occurs again while a host is up. */
	for (int bit = 40; bit < 58; bit++)
		assert_int_equal(fabric_auth_check(a, here, &p, QUEUE, NOW + (1ull << bit)),
				 -EAGAIN);
	assert_int_equal(fabric_auth_check(a, here, &none, QUEUE, NOW), -EAGAIN);
	for (size_t bit = 0; bit < 8 * sizeof(p); bit++) {
		struct fabric_verbs_proof q = p;

		((uint8_t *)&q)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(fabric_auth_check(a, here, &q, QUEUE, NOW), 0);
	}
	assert_int_equal(fabric_auth_check(a, here, &p, QUEUE, NOW), 0);
	fabric_auth_free(a);
	fabric_auth_free(b);
}

static void a_host_proves_it_for_its_hello(void **state)
{
	struct fabric_auth *a = host_of(secret), *b = host_of(other);
	struct fabric_verbs_welcome w = {.hello = {.directory_addr = 4096, .directory_rkey = 7}};
	struct fabric_verbs_proof p = answer(a, secret, 1), q = answer(a, secret, 2);

	(void)state;
	assert_false(fabric_auth_welcome_fits(secret, strlen(secret), &p, QUEUE, &w));
	fabric_auth_welcome(b, &p, QUEUE, &w);
	assert_false(fabric_auth_welcome_fits(secret, strlen(secret), &p, QUEUE, &w));
	fabric_auth_welcome(a, &p, QUEUE, &w);
	assert_true(fabric_auth_welcome_fits(secret, strlen(secret), &p, QUEUE, &w));
	assert_false(fabric_auth_welcome_fits(secret, strlen(secret), &q, QUEUE, &w));
	assert_false(fabric_auth_welcome_fits(secret, strlen(secret), &p, QUEUE + 1, &w));
	for (size_t bit = 0; bit < 8 * sizeof(w); bit++) {
		struct fabric_verbs_welcome x = w;

		((uint8_t *)&x)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(fabric_auth_welcome_fits(secret, strlen(secret), &p, QUEUE, &x));
	}
	/* A host's proof differs from a collector's, so it cannot be sent back. */
	memcpy(p.proof, w.proof, sizeof(p.proof));
	assert_int_equal(fabric_auth_check(a, here, &p, QUEUE, NOW), -EKEYREJECTED);
	fabric_auth_free(a);
	fabric_auth_free(b);
}

static void strangers_do_not_fill_what_is_remembered(void **state)
{
	struct fabric_auth *a = host_of(secret);
	struct fabric_verbs_proof p;

	(void)state;
	for (uint32_t i = 0; i < 3 * FABRIC_PROOFS_RECENT; i++) {
		p = answer(a, other, (uint8_t)i);
		assert_int_equal(fabric_auth_check(a, here, &p, i, NOW), -EKEYREJECTED);
	}
	/* One with the secret does, and waits until the oldest is stale. */
	for (uint32_t i = 0; i < FABRIC_PROOFS_RECENT; i++) {
		p = answer(a, secret, (uint8_t)i);
		fabric_auth_prove(secret, strlen(secret), &p, i);
		assert_int_equal(fabric_auth_check(a, here, &p, i, NOW + 5 * S), 0);
	}
	p = answer(a, secret, 1);
	assert_int_equal(fabric_auth_check(a, here, &p, QUEUE, NOW + 6 * S), -EBUSY);
	fabric_auth_challenge(a, here, &p, NOW + 16 * S, p.cookie);
	fabric_auth_prove(secret, strlen(secret), &p, QUEUE);
	assert_int_equal(fabric_auth_check(a, here, &p, QUEUE, NOW + 16 * S), 0);
	fabric_auth_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_proof_counts_once),
		cmocka_unit_test(a_proof_is_of_the_secret_and_its_connection),
		cmocka_unit_test(a_host_proves_it_for_its_hello),
		cmocka_unit_test(strangers_do_not_fill_what_is_remembered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
