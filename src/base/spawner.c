// SPDX-License-Identifier: Apache-2.0
/*
 * spawner.c - the process that starts a helper. It is forked before there are threads, secrets and
 * other descriptors. All it does is read short messages from its parent, and fork or kill. The
 * processes that it forks are its siblings: the parent waits for them, and they exit when the
 * parent does.
 */
#include "base/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

static void leave_behind(int sock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(sock, BASE_CHILD_SOCK);
	fcntl(BASE_CHILD_SOCK, F_SETFD, FD_CLOEXEC);
	close_range(BASE_CHILD_SOCK + 1, ~0u, 0);
}

/* The kernel kills this process when the thread that forked it, or forked its spawner, exits. */
static void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* the parent exited before prctl() */
		_exit(0);
}

/* Like fork(), but the new process is a sibling. */
static pid_t fork_sibling(void)
{
	return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
}

/*
 * Forks a process that dies with the parent. Sets *sock in both processes to their ends of a socket
 * pair. Returns 1 in the new process, and 0 or -errno in this one; *pid is 0 after a failure.
 */
static int fork_with_socket(pid_t (*fork_process)(void), pid_t parent, pid_t *pid, int *sock)
{
	int pair[2], err, own;

	*pid = 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	*pid = fork_process();
	if (*pid < 0) {
		err = -errno;
		*pid = 0;
		close(pair[0]);
		close(pair[1]);
		return err;
	}
	own = !*pid;
	if (own)
		die_with(parent);
	close(pair[!own]);
	*sock = pair[own];
	return own;
}

/* Handles one message. Returns false when the parent is gone, and true in a new spawner as well. */
static bool serve_parent(const struct base_child_opts *o, pid_t parent)
{
	static char packet[sizeof(struct base_spawner_ask) + BASE_CHILD_MESSAGE];
	struct base_spawner_answer answer = {0};
	struct base_spawner_ask ask;
	struct base_fds fds;
	struct iovec out = {.iov_base = &answer, .iov_len = sizeof(answer)};
	int theirs = -1, forked = 0;
	ssize_t got;

	got = base_receive_fds(BASE_CHILD_SOCK, packet, sizeof(packet), 0, &fds);
	if (got < (ssize_t)sizeof(ask))
		return false;
	memcpy(&ask, packet, sizeof(ask));
	if (ask.what == BASE_SPAWNER_KILL)
		kill(ask.pid, SIGKILL);
	else
		forked = fork_with_socket(fork_sibling, parent, &answer.pid, &theirs);
	answer.error = forked < 0 ? forked : 0;
	if (forked > 0) {
		dup3(theirs, BASE_CHILD_SOCK, O_CLOEXEC);
		close(theirs);
	}
	if (forked > 0 && ask.what == BASE_SPAWNER_START) {
		const struct base_child_start with = {packet + sizeof(ask),
						      (size_t)got - sizeof(ask), fds.fd, fds.count};

		o->run(o->arg, &with);
		_exit(BASE_EXIT_FAILURE);
	}
	while (fds.count)
		close(fds.fd[--fds.count]);
	if (forked > 0)
		return true;
	got = base_send_fds(BASE_CHILD_SOCK, &out, 1, &theirs, theirs >= 0, 0);
	if (theirs >= 0)
		close(theirs);
	return got >= 0;
}

int base_spawner_fork(const struct base_child_opts *o, pid_t *pid, int *sock)
{
	const pid_t parent = getpid();
	int forked;

	fflush(NULL); /* otherwise both processes would write the buffered data */
	forked = fork_with_socket(fork, parent, pid, sock);
	if (forked <= 0)
		return forked;
	prctl(PR_SET_NAME, "sidelight-spawn");
	leave_behind(*sock);
	if (!o->confine || o->confine(o->arg))
		while (serve_parent(o, parent))
			;
	_exit(0);
}

/* ---- helpers that are programs ---- */

void base_child_exec(const char *log, const char *program, char **argv)
{
	char path[PATH_MAX];
	int err = base_program_find(program, path);

	argv[0] = (char *)(uintptr_t)program;
	fcntl(BASE_CHILD_SOCK, F_SETFD, 0);
	if (!err) {
		execv(path, argv);
		err = -errno;
	}
	base_logf(BASE_ERROR, log, "%s: %s", program, strerror(-err));
}

bool base_child_started(void)
{
	return send(BASE_CHILD_SOCK, "", 1, MSG_NOSIGNAL) == 1;
}
