// SPDX-License-Identifier: Apache-2.0
/*
 * spawn.c - the process that starts fronts. It is forked before there are threads, sensitive memory
 * and descriptors, and only forks: every front, including later ones, starts with nothing but the
 * program and what is sent to it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/child.h"
#include "base/confine.h"
#include "http/front.h"

#define STOP_MS 5000

struct http_front {
	struct base_child child;
};

/* ---- the spawner's process ---- */

static void end_front(pid_t *front)
{
	if (*front <= 0)
		return;
	kill(*front, SIGKILL);
	while (waitpid(*front, NULL, 0) < 0 && errno == EINTR)
		;
	*front = 0;
}

/* Receives one message with its descriptors. Returns false at the end. */
static bool receive_config(int sock, struct http_front_config *c, struct base_fds *fds)
{
	ssize_t got;

	do
		got = base_receive_fds(sock, c, sizeof(*c), 0, fds);
	while (got < 0 && http_message_again((int)-got));
	return got == sizeof(*c);
}

static void raise_limit(void)
{
	struct rlimit files;

	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

/* Each message replaces the running front by a new one; a message with 0 threads only stops it. */
__attribute__((noreturn)) static void spawn_fronts(int sock, bool unconfined)
{
	const struct base_confine_opts confine = {.role = BASE_ROLE_SPAWNER, .single = true};
	struct http_front_config c;
	struct base_fds fds;
	pid_t front = 0;
	char why[160];

	raise_limit();
	if (!unconfined && base_confine(&confine, why, sizeof(why))) {
		base_logf(BASE_ERROR, "http", "%s", why);
		_exit(0);
	}
	while (receive_config(sock, &c, &fds)) {
		end_front(&front);
		front = c.threads ? fork() : 0;
		if (!front && c.threads) {
			close(sock);
			http_front_serve(&c, fds.fd, fds.count, unconfined);
		}
		/* Close our copies, so that the control socket ends with the front. */
		while (fds.count)
			close(fds.fd[--fds.count]);
		while (send(sock, "", 1, MSG_NOSIGNAL) < 0 && http_message_again(errno))
			;
	}
	end_front(&front);
	_exit(0);
}

/* ---- the back's side ---- */

struct http_front *http_front_fork(bool unconfined)
{
	const struct timeval patience = {.tv_sec = STOP_MS / 1000};
	struct http_front *f = calloc(1, sizeof(*f));
	int err = f ? base_child_fork(&f->child, "sidelight-spawn") : -ENOMEM;

	if (err > 0)
		spawn_fronts(f->child.sock, unconfined);
	if (!err) {
		setsockopt(f->child.sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		return f;
	}
	free(f);
	errno = -err;
	return NULL;
}

/* Sends a message and waits for the answer. */
static int tell_spawner(struct http_front *f, const struct http_front_config *c, const int *fds,
			size_t n)
{
	int err = http_message_send_fds(f->child.sock, c, sizeof(*c), fds, n);
	char answer;

	return err ?: http_message_take(f->child.sock, &answer, 1);
}

int http_front_spawn(struct http_front *f, const struct http_front_config *c, const int *fds,
		     size_t n)
{
	return tell_spawner(f, c, fds, n);
}

void http_front_stop(struct http_front *f)
{
	const struct http_front_config none = {0};

	tell_spawner(f, &none, NULL, 0);
}

void http_front_end(struct http_front *f)
{
	if (!f)
		return;
	close(f->child.sock);
	for (int i = 0; i < STOP_MS && !waitpid(f->child.pid, NULL, WNOHANG); i++)
		usleep(1000);
	free(f);
}
