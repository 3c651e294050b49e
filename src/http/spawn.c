// SPDX-License-Identifier: Apache-2.0
/*
 * spawn.c - the process that starts fronts. It is forked before threads, memory worth reading and
 * descriptors, and does nothing but fork: so each front, the first and those after it, begins with
 * what is in the program and what it is sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/confine.h"
#include "http/front.h"

#define STOP_MS 5000

struct http_front {
	pid_t pid;
	int sock;
};

/* ---- its process ---- */

static void end_front(pid_t *front)
{
	if (*front <= 0)
		return;
	kill(*front, SIGKILL);
	while (waitpid(*front, NULL, 0) < 0 && errno == EINTR)
		;
	*front = 0;
}

/* One message with its descriptors. False: the end. */
static bool receive(int sock, struct http_front_config *c, struct base_fds *fds)
{
	ssize_t got;

	do
		got = base_receive_fds(sock, c, sizeof(*c), 0, fds);
	while (got < 0 && http_message_again((int)-got));
	return got == sizeof(*c);
}

/* Standard error for log lines, and the socket: nothing else of the process that forked. */
static void leave_behind(int *sock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct rlimit files;

	prctl(PR_SET_NAME, "sidelight-spawn");
	signal(SIGPIPE, SIG_IGN);
	/* They end with the process that started them, which these signals tell to end in order. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	*sock = dup2(*sock, STDERR_FILENO + 1);
	fcntl(*sock, F_SETFD, FD_CLOEXEC);
	close_range((unsigned int)*sock + 1, ~0u, 0);
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

/* Each message begins a front in place of the one before; one without threads only ends that. */
__attribute__((noreturn)) static void spawn(int sock, bool unconfined)
{
	const struct base_confine_opts confine = {.role = BASE_ROLE_SPAWNER, .single = true};
	struct http_front_config c;
	struct base_fds fds;
	pid_t front = 0;
	char why[160];

	leave_behind(&sock);
	if (!unconfined && base_confine(&confine, why, sizeof(why))) {
		base_logf(BASE_ERROR, "http", "%s", why);
		_exit(0);
	}
	while (receive(sock, &c, &fds)) {
		end_front(&front);
		front = c.threads ? fork() : 0;
		if (!front && c.threads) {
			close(sock);
			http_front_serve(&c, fds.fd, fds.count, unconfined);
		}
		/* Without a front, that is the end of its control socket. */
		while (fds.count)
			close(fds.fd[--fds.count]);
		while (send(sock, "", 1, MSG_NOSIGNAL) < 0 && http_message_again(errno))
			;
	}
	end_front(&front);
	_exit(0);
}

/* ---- the side of the back ---- */

struct http_front *http_front_fork(bool unconfined)
{
	const struct timeval patience = {.tv_sec = STOP_MS / 1000};
	struct http_front *f = calloc(1, sizeof(*f));
	int pair[2], err;

	if (!f)
		return NULL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		err = errno;
		free(f);
		errno = err;
		return NULL;
	}
	fflush(NULL);
	f->pid = fork();
	if (!f->pid)
		spawn(pair[1], unconfined);
	err = f->pid < 0 ? errno : 0;
	close(pair[1]);
	f->sock = pair[0];
	setsockopt(f->sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (!err)
		return f;
	close(pair[0]);
	free(f);
	errno = err;
	return NULL;
}

/* Waits for the answer. */
static int tell(struct http_front *f, const struct http_front_config *c, const int *fds, size_t n)
{
	int err = http_message_send_fds(f->sock, c, sizeof(*c), fds, n);
	char answer;

	return err ?: http_message_take(f->sock, &answer, 1);
}

int http_front_spawn(struct http_front *f, const struct http_front_config *c, const int *fds,
		     size_t n)
{
	return tell(f, c, fds, n);
}

void http_front_stop(struct http_front *f)
{
	const struct http_front_config none = {0};

	tell(f, &none, NULL, 0);
}

void http_front_end(struct http_front *f)
{
	if (!f)
		return;
	close(f->sock);
	for (int i = 0; i < STOP_MS && !waitpid(f->pid, NULL, WNOHANG); i++)
		usleep(1000);
	free(f);
}
