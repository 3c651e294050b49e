// SPDX-License-Identifier: Apache-2.0
/*
 * child.c - the parent's side of helper processes: starts them through their spawners (spawner.c),
 * and decides what to do when one exits.
 */
#include "base/child.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "base/spawner.h"

#define STOP_MS	  15000
#define ANSWER_S  5
#define KILLED_MS 5000
#define ENDING_MS 200 /* maximum time between the closing of a process's socket and its exit */
#define DEATHS	  3
#define DEATHS_NS 60000000000ull

/* A child process, and this end of its socket. */
struct process {
	pid_t pid; /* 0 means none */
	int sock;
};

struct deaths {
	char name[32];
	uint64_t restarts; /* relaxed */
	uint64_t at[DEATHS - 1];
};

struct base_child {
	struct base_child *next;
	const struct base_child_opts *o;
	pthread_mutex_t lock;
	struct process spawner[2]; /* [1] replaces [0] if [0] exits */
	struct process helper;
	/* sockets of processes that have exited, each kept for the successor's: see keep_place() */
	int kept[3];
	unsigned int kept_count;
	struct deaths own, spawners;
};

static struct base_child *children; /* changes only while there is one thread */
static bool failed;		    /* relaxed */

/* ---- exits ---- */

/* Stops the main thread's loop, like SIGTERM. A confined process may not call kill(). */
static void fail_process(void)
{
	relaxed_store(failed, true);
	syscall(SYS_tgkill, getpid(), getpid(), SIGTERM);
}

/*
 * Shuts down a process's socket, but keeps its descriptor until the successor's socket arrives.
 * Otherwise, if descriptors are short, another thread could take the free one, and no successor
 * could be started.
 */
static void keep_place(struct base_child *c, struct process *p)
{
	shutdown(p->sock, SHUT_RDWR);
	if (c->kept_count < sizeof(c->kept) / sizeof(*c->kept))
		c->kept[c->kept_count++] = p->sock;
	else
		close(p->sock);
	*p = (struct process){0, -1};
}

static void free_place(struct base_child *c)
{
	if (c->kept_count)
		close(c->kept[--c->kept_count]);
}

/* Waits for the process. Returns false if it has not exited within patience_ms. */
static bool reap(struct base_child *c, struct process *p, int *status, int patience_ms)
{
	pid_t got = 0;

	for (int i = 0; i <= patience_ms; i++) {
		got = waitpid(p->pid, status, WNOHANG);
		if (got)
			break;
		if (i < patience_ms)
			usleep(1000);
	}
	if (!got)
		return false;
	if (got < 0)
		*status = 0;
	keep_place(c, p);
	return true;
}

/* Counts and logs the exit of a process. Returns false if this process must exit as well. */
static bool note_end(struct base_child *c, struct deaths *d, const char *what, int status)
{
	const bool killed = WIFSIGNALED(status), orderly = !status;
	const int value = killed ? WTERMSIG(status) : WEXITSTATUS(status);
	const uint64_t now = base_now_ns();
	bool often = false;

	/* An orderly exit does not count as a death: a helper may exit in order to be restarted. */
	if (!orderly) {
		often = d->at[0] && now - d->at[0] < DEATHS_NS;
		memmove(d->at, d->at + 1, sizeof(d->at) - sizeof(*d->at));
		d->at[DEATHS - 2] = now;
	}
	if (often) {
		base_logf(BASE_ERROR, c->o->log,
			  "%s exited three times within a minute, so this process exits and the "
			  "service manager restarts everything helper=%s %s=%d",
			  what, d->name, killed ? "signal" : "status", value);
		fail_process();
		return false;
	}
	relaxed_add(d->restarts, 1);
	base_logf(BASE_WARN, c->o->log, "%s exited: restarting it helper=%s %s=%d", what, d->name,
		  killed ? "signal" : "status", value);
	return true;
}

/* ---- spawners ---- */

/* A spawner that is stopped counts as gone. */
static void limit_answer(int sock)
{
	const struct timeval patience = {.tv_sec = ANSWER_S};

	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

/* Sends a request to the first spawner. Returns 0 or -errno; -EPIPE means it is gone. */
static int ask_spawner(struct base_child *c, const struct base_spawner_ask *ask,
		       const struct base_child_start *with, struct process *out)
{
	static const struct base_child_start nothing;
	const int sock = c->spawner[0].sock;
	struct base_spawner_answer answer;
	struct iovec parts[2] = {{.iov_base = (void *)(uintptr_t)ask, .iov_len = sizeof(*ask)}};
	ssize_t got;
	int fd = -1;

	with = with ?: &nothing;
	parts[1].iov_base = (void *)(uintptr_t)with->message;
	parts[1].iov_len = with->bytes;
	if (!c->spawner[0].pid)
		return -EPIPE;
	got = base_send_fds(sock, parts, with->bytes ? 2 : 1, with->fds, with->fd_count, 0);
	if (got < 0)
		return got == -ECONNRESET ? -EPIPE : (int)got;
	/* Wait for the answer first, so that no other thread has time to take the free place. */
	if (recv(sock, &answer, sizeof(answer), MSG_PEEK) == sizeof(answer) && answer.pid > 0)
		free_place(c);
	got = base_receive_fd(sock, &answer, sizeof(answer), 0, &fd);
	if (got != sizeof(answer) && got != -EMFILE) {
		if (fd >= 0)
			close(fd);
		return -EPIPE;
	}
	if (out && answer.pid > 0)
		*out = (struct process){answer.pid, fd};
	if (fd >= 0 && ask->what == BASE_SPAWNER_FORK)
		limit_answer(fd);
	return got < 0 ? (int)got : answer.error;
}

/*
 * If the first spawner is gone, the second takes its place. If there is no second one, forks it.
 * Returns 0 or -EPIPE.
 */
static int replace_spawner(struct base_child *c)
{
	const struct base_spawner_ask ask = {.what = BASE_SPAWNER_FORK};
	int err;

	if (!c->spawner[0].pid) {
		c->spawner[0] = c->spawner[1];
		c->spawner[1] = (struct process){0, -1};
	}
	if (c->spawner[1].pid)
		return 0;
	err = ask_spawner(c, &ask, NULL, &c->spawner[1]);
	if (!err)
		return 0;
	base_logf(BASE_ERROR, c->o->log,
		  "cannot restart %s: the processes that start it have exited, so this process "
		  "exits and the service manager restarts everything helper=%s",
		  c->o->what, c->o->name);
	fail_process();
	return -EPIPE;
}

static int check_spawners(struct base_child *c)
{
	bool ended = false;
	int status;

	for (int i = 0; i < 2; i++)
		if (c->spawner[i].pid && reap(c, &c->spawner[i], &status, 0)) {
			/*
			 * A spawner must not exit by itself, so even an orderly exit counts as a
			 * death.
			 */
			ended = true;
			if (!note_end(c, &c->spawners, "a spawner", status ?: SIGKILL))
				return -EPIPE;
		}
	return ended ? replace_spawner(c) : 0;
}

/* Like ask_spawner(), but if the first spawner is gone, asks the second. */
static int ask_any(struct base_child *c, const struct base_spawner_ask *ask,
		   const struct base_child_start *with, struct process *out)
{
	int err = ask_spawner(c, ask, with, out), status = 0;

	if (err != -EPIPE || relaxed_load(failed))
		return err;
	/* A spawner that does not answer counts as dead: it exits when its socket is closed. */
	if (c->spawner[0].pid && !reap(c, &c->spawner[0], &status, ENDING_MS)) {
		keep_place(c, &c->spawner[0]);
		status = SIGKILL;
	}
	if (!note_end(c, &c->spawners, "a spawner", status) || replace_spawner(c))
		return -EPIPE;
	return ask_spawner(c, ask, with, out);
}

struct base_child *base_child_fork(const struct base_child_opts *o)
{
	const struct base_spawner_ask ask = {.what = BASE_SPAWNER_FORK};
	struct base_child *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return NULL;
	c->o = o;
	c->helper.sock = c->spawner[1].sock = -1;
	pthread_mutex_init(&c->lock, NULL);
	snprintf(c->own.name, sizeof(c->own.name), "%s", o->name);
	snprintf(c->spawners.name, sizeof(c->spawners.name), "%s-spawner", o->name);
	err = base_spawner_fork(o, &c->spawner[0].pid, &c->spawner[0].sock);
	if (!err) {
		limit_answer(c->spawner[0].sock);
		err = ask_spawner(c, &ask, NULL, &c->spawner[1]);
		c->next = children;
		children = c;
	}
	if (!err)
		return c;
	base_child_free(c);
	errno = -err;
	return NULL;
}

/* ---- the helper ---- */

/* Waits for the helper to exit, and kills it after patience_ms. Returns its status. */
static int end_helper(struct base_child *c, int patience_ms)
{
	const struct base_spawner_ask ask = {.what = BASE_SPAWNER_KILL, .pid = c->helper.pid};
	int status = 0;

	if (reap(c, &c->helper, &status, patience_ms))
		return status;
	ask_any(c, &ask, NULL, NULL);
	if (!reap(c, &c->helper, &status, KILLED_MS))
		keep_place(c, &c->helper);
	return status;
}

int base_child_start(struct base_child *c, const struct base_child_start *with)
{
	const struct base_spawner_ask ask = {.what = BASE_SPAWNER_START};
	int status, err = 0;

	pthread_mutex_lock(&c->lock);
	/* A helper that never became ready is still running. */
	status = c->helper.pid ? end_helper(c, 0) : 0;
	if (status && !note_end(c, &c->own, c->o->what, status))
		err = -EPIPE;
	err = err ?: ask_any(c, &ask, with, &c->helper);
	if (err && c->helper.pid)
		end_helper(c, 0);
	pthread_mutex_unlock(&c->lock);
	return err;
}

int base_child_sock(const struct base_child *c)
{
	return c->helper.sock;
}

int base_child_await(struct base_child *c)
{
	char started;
	ssize_t got;
	int status;

	do
		got = recv(c->helper.sock, &started, 1, 0);
	while (got < 0 && errno == EINTR);
	if (got == 1)
		return 0;
	status = end_helper(c, ENDING_MS);
	return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : BASE_EXIT_FAILURE;
}

bool base_child_has_ended(struct base_child *c)
{
	siginfo_t info = {0};

	return c->helper.pid &&
	       !waitid(P_PID, (id_t)c->helper.pid, &info, WEXITED | WNOHANG | WNOWAIT) &&
	       info.si_pid;
}

bool base_child_ended(struct base_child *c)
{
	bool again;

	pthread_mutex_lock(&c->lock);
	again = !c->helper.pid || note_end(c, &c->own, c->o->what, end_helper(c, ENDING_MS));
	pthread_mutex_unlock(&c->lock);
	return again && !relaxed_load(failed);
}

bool base_child_again(struct base_child *c, const struct base_child_start *with)
{
	int err = base_child_ended(c) ? base_child_start(c, with) : -ECANCELED;

	if (err && !relaxed_load(failed)) {
		base_logf(BASE_ERROR, c->o->log,
			  "cannot restart %s, so this process exits and the service manager "
			  "restarts everything helper=%s error=%s",
			  c->o->what, c->o->name, strerror(-err));
		fail_process();
	}
	return !err;
}

void base_child_stop(struct base_child *c, int patience_ms)
{
	pthread_mutex_lock(&c->lock);
	if (c->helper.pid) {
		/*
		 * close() is not enough, because other processes may have copies of the descriptor.
		 */
		shutdown(c->helper.sock, SHUT_RDWR);
		end_helper(c, patience_ms);
	}
	pthread_mutex_unlock(&c->lock);
}

void base_child_free(struct base_child *c)
{
	int status;

	if (!c)
		return;
	base_child_stop(c, STOP_MS);
	for (struct base_child **at = &children; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	for (int i = 0; i < 2; i++)
		if (c->spawner[i].pid) {
			shutdown(c->spawner[i].sock, SHUT_RDWR);
			if (!reap(c, &c->spawner[i], &status, STOP_MS))
				keep_place(c, &c->spawner[i]);
		}
	while (c->kept_count)
		free_place(c);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- all helpers ---- */

void base_children_check(void)
{
	for (struct base_child *c = children; c && !relaxed_load(failed); c = c->next) {
		pthread_mutex_lock(&c->lock);
		check_spawners(c);
		pthread_mutex_unlock(&c->lock);
	}
}

int base_children_fd(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	fd = pthread_sigmask(SIG_BLOCK, &set, NULL)
		     ? -EINVAL
		     : signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

bool base_children_failed(void)
{
	return relaxed_load(failed);
}

bool base_children_restarts(size_t i, const char **name, uint64_t *restarts)
{
	for (const struct base_child *c = children; c; c = c->next)
		for (int k = 0; k < 2; k++) {
			const struct deaths *d = k ? &c->spawners : &c->own;

			if (i--)
				continue;
			*name = d->name;
			*restarts = relaxed_load(d->restarts);
			return true;
		}
	return false;
}
