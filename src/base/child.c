// SPDX-License-Identifier: Apache-2.0
/* child.c - forks helper processes; see child.h. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void leave_behind(int *sock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	*sock = dup2(*sock, STDERR_FILENO + 1);
	fcntl(*sock, F_SETFD, FD_CLOEXEC);
	close_range((unsigned int)*sock + 1, ~0u, 0);
}

int base_child_fork(struct base_child *c, const char *name)
{
	int pair[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	fflush(NULL); /* otherwise both processes would write the buffered data */
	c->pid = fork();
	err = c->pid < 0 ? -errno : 0;
	c->sock = pair[!c->pid];
	if (!c->pid) {
		prctl(PR_SET_NAME, name);
		leave_behind(&c->sock);
		return 1;
	}
	close(pair[1]);
	if (err)
		close(pair[0]);
	return err;
}

void base_child_die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* the parent ended before prctl() */
		_exit(0);
}
