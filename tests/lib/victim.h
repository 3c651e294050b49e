/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim.h - a writer in a separate process that dies: by SIGKILL at a random moment, many times,
 * or, with ptrace, stopped after each of its instructions, where it might have died.
 *
 * The writer records what it did in memory that it shares with the test (victim_memory()). The
 * first word is the number of its region's descriptor, -1 until there is one.
 */
#ifndef SL_TEST_VICTIM_H
#define SL_TEST_VICTIM_H

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../child_fd.h"
#include "reader.h"
#include "support/test.h"

/* Allocates one page; returns NULL on failure. */
static inline void *victim_memory(void)
{
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return map == MAP_FAILED ? NULL : map;
}

/* Called by the writer: from here on it may be killed. */
static inline void victim_ready(int *at, int fd)
{
	alarm(TEST_HANGS_S); /* in case no signal kills us */
	__atomic_store_n(at, fd, __ATOMIC_RELEASE);
}

/*
 * Kills this many writers, each within 0.4 ms of its start; passes to check what each has left
 * behind.
 */
static inline void victims_killed(int *at, int rounds, void (*reset)(void), void (*write)(void),
				  void (*check)(int fd))
{
	unsigned int seed = (unsigned int)time(NULL);

	print_message("seed %u, %d writers\n", seed, rounds);
	for (int i = 0; i < rounds; i++) {
		struct timespec nap = {0, (long)(rand_r(&seed) % 400) * 1000};
		int fd, number;
		pid_t pid;

		reset();
		*at = -1;
		pid = fork();
		if (!pid)
			write();
		while ((number = __atomic_load_n(at, __ATOMIC_ACQUIRE)) < 0)
			usleep(20);
		fd = child_fd(pid, number);
		assert_true(fd >= 0);
		nanosleep(&nap, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		check(fd);
		close(fd);
	}
}

/* Called by the writer before and after the part to be stepped through. */
static inline void victim_traced(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no stopped child */
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
}

static inline void victim_over(void)
{
	raise(SIGSTOP);
	_exit(0);
}

/*
 * Starts a writer, which stops itself by victim_traced(), and steps it to victim_over(): begin gets
 * its region, and look is called after each instruction. Returns their number.
 */
static inline uint64_t victim_stepped(int *at, void (*write)(int), int kind, void (*begin)(int fd),
				      void (*look)(uint64_t step))
{
	uint64_t steps = 0;
	int status, fd;
	pid_t pid;

	*at = -1;
	pid = fork();
	if (!pid)
		write(kind);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	fd = child_fd(pid, *at);
	assert_true(fd >= 0);
	begin(fd);
	for (;; steps++) {
		assert_true(steps < 2000000);
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSTOPPED(status));
		if (WSTOPSIG(status) == SIGSTOP)
			break;
		assert_int_equal(WSTOPSIG(status), SIGTRAP);
		look(steps);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(fd);
	return steps;
}

#endif
