// SPDX-License-Identifier: Apache-2.0
/* supervise.c - the supervisor reads nothing that others say: it forks, and waits. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/child.h"

#define SECOND_NS    1000000000ull
#define STOP_MS	     10000
#define PAUSE_MAX_MS 30000

static pid_t fork_worker(int sock, int (*work)(void *arg, int sock), void *arg)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	base_child_die_with(parent);
	_exit(work(arg, sock));
}

/* Waits for the worker's end. True: the parent asks for it, too. */
static bool wait_worker(pid_t pid, int sock)
{
	int child = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p[] = {{child, POLLIN, 0}, {sock, POLLIN, 0}};
	bool stop = false;

	/* Without it, the worker's own end is waited for: it sees the socket, too. */
	while (child >= 0 && poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (p[1].revents) {
		stop = true;
		if (child >= 0 && poll(p, 1, STOP_MS) <= 0)
			kill(pid, SIGKILL);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (child >= 0)
		close(child);
	return stop || poll(&p[1], 1, 0) > 0;
}

void base_child_supervise(const char *log, int sock, int (*work)(void *arg, int sock), void *arg)
{
	uint64_t pause_ms = 1000, started;

	for (;;) {
		struct pollfd p = {sock, POLLIN, 0};
		pid_t pid = fork_worker(sock, work, arg);

		started = base_now_ns();
		if (pid > 0 && wait_worker(pid, sock))
			return;
		/* One that fails at once is not started in a loop. */
		if (base_now_ns() - started > 60 * SECOND_NS)
			pause_ms = 1000;
		base_logf(BASE_WARN, log, "the worker ended; starting again in_ms=%llu",
			  (unsigned long long)pause_ms);
		if (poll(&p, 1, (int)pause_ms) > 0)
			return;
		pause_ms = BASE_MIN(pause_ms * 2, (uint64_t)PAUSE_MAX_MS);
	}
}
