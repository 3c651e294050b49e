// SPDX-License-Identifier: Apache-2.0
/* test_child.c - restarts a helper while other threads take every free descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"
#include "base/child.h"

#define LIMIT 64

/* The helper: runs until its parent hangs up. */
static void wait_for_parent(void *arg, const struct base_child_start *with)
{
	char byte;

	(void)arg, (void)with;
	while (recv(BASE_CHILD_SOCK, &byte, 1, 0) > 0)
		;
	_exit(0);
}

/* Another thread: takes all descriptors. */
static void take_descriptors(void)
{
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		;
	assert_int_equal(errno, EMFILE);
}

static void a_helper_is_restarted_without_descriptors(void **state)
{
	const struct base_child_opts o = {
		.name = "test", .what = "the helper", .log = "test", .run = wait_for_parent};
	const struct rlimit few = {LIMIT, LIMIT};
	struct base_child *c;
	const char *name;
	uint64_t restarts;

	(void)state;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	c = base_child_fork(&o);
	assert_non_null(c);
	assert_int_equal(base_child_start(c, NULL), 0);
	for (uint64_t i = 1; i <= 2; i++) {
		take_descriptors();
		assert_true(base_child_ended(c));
		take_descriptors();
		assert_int_equal(base_child_start(c, NULL), 0);
		assert_true(base_child_sock(c) >= 0);
		assert_true(base_children_restarts(0, &name, &restarts));
		assert_int_equal(restarts, i);
	}
	base_child_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_helper_is_restarted_without_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
