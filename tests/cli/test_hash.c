// SPDX-License-Identifier: Apache-2.0
/* test_hash.c - the key of a process's hashes, on a machine that has just booted. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "support/test.h"
#include "base/hash.h"

static int waited;
static bool made;

ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned int flags);

/* There is no entropy yet, and a signal interrupts the first call that waits for it. */
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned int flags)
{
	if (flags & GRND_NONBLOCK) {
		errno = EAGAIN;
		return -1;
	}
	if (!waited++) {
		errno = EINTR;
		return -1;
	}
	memset(to, 0x5a, bytes);
	made = true;
	return (ssize_t)bytes;
}

static void keys_wait_for_entropy(void **state)
{
	(void)state;
	assert_int_equal(base_hash_u64(1), base_hash_u64(1));
	assert_int_not_equal(base_hash_u64(1), base_hash_u64(2));
	assert_true(made);
	assert_int_equal(waited, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_wait_for_entropy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
