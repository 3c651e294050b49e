// SPDX-License-Identifier: Apache-2.0
/* child.c - forks helper processes; see child.h. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/program.h"

#define STOP_MS 15000

static void leave_behind(int *sock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	*sock = dup2(*sock, BASE_CHILD_SOCK);
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

__attribute__((noreturn)) static void run_program(const char *path, char **argv, int sock,
						  pid_t parent)
{
	base_child_die_with(parent);
	fcntl(sock, F_SETFD, 0);
	execv(path, argv);
	base_logf(BASE_ERROR, argv[0], "%s: %s", path, strerror(errno));
	_exit(BASE_EXIT_FAILURE);
}

/* 0: it has started; otherwise its exit code. */
static int wait_started(const struct base_child *c)
{
	char started;
	ssize_t got;
	int status = 0;

	do
		got = recv(c->sock, &started, 1, 0);
	while (got < 0 && errno == EINTR);
	if (got == 1)
		return 0;
	close(c->sock);
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : BASE_EXIT_FAILURE;
}

int base_child_exec(struct base_child *c, const char *program, char **argv)
{
	const pid_t parent = getpid();
	char path[PATH_MAX];
	int err = base_program_find(program, path);

	argv[0] = (char *)(uintptr_t)program;
	err = err ?: base_child_fork(c, program);
	if (err > 0)
		run_program(path, argv, c->sock, parent);
	return err ?: wait_started(c);
}

bool base_child_started(void)
{
	return send(BASE_CHILD_SOCK, "", 1, MSG_NOSIGNAL) == 1;
}

void base_child_end(struct base_child *c)
{
	/* Other processes of the parent may have copies of the descriptor. */
	shutdown(c->sock, SHUT_RDWR);
	close(c->sock);
	for (int i = 0; i < STOP_MS; i++) {
		if (waitpid(c->pid, NULL, WNOHANG))
			return;
		usleep(1000);
	}
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
}

void base_child_die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* the parent ended before prctl() */
		_exit(0);
}
