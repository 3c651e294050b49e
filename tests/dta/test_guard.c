// SPDX-License-Identifier: Apache-2.0
/*
 * test_guard.c - a mapping of a file that is truncated or punched reads as zeros, and the process
 * survives.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"
#include "dta/store/guard.h"

#define PAGES 64u

static size_t page;

static volatile uint8_t *mapping(int *fd)
{
	void *at;

	page = (size_t)sysconf(_SC_PAGESIZE);
	*fd = memfd_create("test", MFD_CLOEXEC);
	assert_int_equal(ftruncate(*fd, (off_t)(PAGES * page)), 0);
	at = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	assert_true(at != MAP_FAILED);
	memset(at, 1, PAGES * page);
	return at;
}

static void what_was_truncated_reads_as_zeros_and_is_counted(void)
{
	const uint64_t before = dta_guard_total();
	const int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	volatile uint8_t *at;
	eventfd_t n;
	int fd;

	at = mapping(&fd);
	assert_int_equal(dta_guard_add((void *)(uintptr_t)at, PAGES * page, fd, wake), 0);
	assert_int_equal(ftruncate(fd, (off_t)(10 * page)), 0);
	assert_int_equal(at[10 * page - 1], 1);
	assert_int_equal(dta_guard_faults((void *)(uintptr_t)at), 0);
	assert_int_equal(eventfd_read(wake, &n), -1);
	assert_int_equal(at[20 * page + 7], 0);
	assert_int_equal(eventfd_read(wake, &n), 0);
	at[20 * page + 7] = 9;
	assert_int_equal(at[20 * page + 7], 9);
	assert_int_equal(at[PAGES * page - 1], 0); /* covered by the first fault */
	assert_int_equal(dta_guard_faults((void *)(uintptr_t)at), 1);
	assert_int_equal(at[15 * page], 0); /* before it */
	assert_int_equal(dta_guard_faults((void *)(uintptr_t)(at + page)), 2);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(at[0], 0);
	assert_int_equal(at[20 * page + 7], 0); /* covered once more */
	assert_int_equal(dta_guard_total() - before, 3);
	dta_guard_remove((void *)(uintptr_t)at);
	assert_int_equal(dta_guard_faults((void *)(uintptr_t)at), 0);
	munmap((void *)(uintptr_t)at, PAGES * page);
	close(fd);
	close(wake);
}

/* Accesses to adjacent mappings, and to mappings no longer guarded, end the process as before. */
static void only_what_is_guarded_is_covered(void)
{
	for (int how = 0; how < 3; how++) {
		volatile uint8_t *at, *other;
		int fd, other_fd, status;
		pid_t pid;

		at = mapping(&fd);
		other = mapping(&other_fd);
		assert_int_equal(dta_guard_add((void *)(uintptr_t)at, PAGES * page, fd, -1), 0);
		pid = fork();
		if (!pid) {
			if (how == 1)
				dta_guard_remove((void *)(uintptr_t)at);
			if (ftruncate(fd, 0) || ftruncate(other_fd, 0))
				_exit(2);
			_exit(how == 2 ? other[0] : at[0]);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (how)
			assert_true((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) ||
				    (WIFEXITED(status) && WEXITSTATUS(status))); /* a sanitizer */
		else
			assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
		dta_guard_remove((void *)(uintptr_t)at);
		munmap((void *)(uintptr_t)at, PAGES * page);
		munmap((void *)(uintptr_t)other, PAGES * page);
		close(fd);
		close(other_fd);
	}
}

/* In one test, because cmocka installs its signal handler in each test. */
static void mappings_taken_away_are_survived(void **state)
{
	(void)state;
	signal(SIGBUS, SIG_DFL);
	what_was_truncated_reads_as_zeros_and_is_counted();
	only_what_is_guarded_is_covered();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mappings_taken_away_are_survived),
	};

	return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
