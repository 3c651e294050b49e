// SPDX-License-Identifier: Apache-2.0
/*
 * confine.c - applies capabilities(7), landlock(7) and seccomp(2) to all threads. Capabilities and
 * Landlock are properties of a thread: a signal makes each other thread apply them to itself.
 */
#include "base/confine.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/confine_internal.h"

#define THREADS_MAX 4096
#define PATIENCE_S  10 /* time for a thread to apply the limits */

/* Limits that each thread applies to itself. */
static struct {
	uint64_t capabilities;
	int ruleset; /* Landlock ruleset; -1 if none */
	sem_t done;
	int error; /* first error of any thread */
} now;

/* ---- one thread ---- */

/* Async-signal-safe. Returns 0 or -errno. */
static int apply_limits(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct own[_LINUX_CAPABILITY_U32S_3] = {0};
	struct __user_cap_data_struct keep[_LINUX_CAPABILITY_U32S_3];

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capget, &head, own))
		return -errno;
	/* Needs CAP_SETPCAP; without that capability no_new_privs already prevents any gain. */
	for (int c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; c++)
		if (!(now.capabilities >> c & 1))
			prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		keep[i].permitted = own[i].permitted & (uint32_t)(now.capabilities >> 32 * i);
		keep[i].effective = keep[i].permitted;
		keep[i].inheritable = 0;
	}
	/* Skip the call if there is nothing to drop: it may be forbidden. */
	if (memcmp(own, keep, sizeof(own)) && syscall(SYS_capset, &head, keep))
		return -errno;
	return now.ruleset >= 0 ? base_landlock_apply(now.ruleset) : 0;
}

static void on_signal(int signal)
{
	int saved = errno, err = apply_limits();

	(void)signal;
	if (err)
		__atomic_store_n(&now.error, err, __ATOMIC_RELAXED);
	sem_post(&now.done);
	errno = saved;
}

/* ---- all threads ---- */

struct threads {
	pid_t id[THREADS_MAX]; /* threads already asked */
	size_t n;
};

static bool is_known(const struct threads *t, pid_t id)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->id[i] == id)
			return true;
	return false;
}

/*
 * Signals threads that have not been asked yet. Returns the number of answers to expect, or -errno.
 */
static int ask_others(struct threads *t, int signal)
{
	DIR *d = opendir("/proc/self/task");
	int asked = 0, err = d ? 0 : -errno;
	struct dirent *e;

	while (!err && (e = readdir(d))) {
		pid_t id = (pid_t)strtol(e->d_name, NULL, 10);

		if (id <= 0 || id == gettid() || is_known(t, id))
			continue;
		if (t->n == THREADS_MAX)
			err = -E2BIG;
		else if (!tgkill(getpid(), id, signal))
			asked++;
		else if (errno != ESRCH) /* the thread has exited */
			err = -errno;
		if (!err)
			t->id[t->n++] = id;
	}
	if (d)
		closedir(d);
	return err ?: asked;
}

static int await_answers(int answers)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += PATIENCE_S;
	while (answers > 0)
		if (!sem_clockwait(&now.done, CLOCK_MONOTONIC, &end))
			answers--;
		else if (errno != EINTR)
			return -errno;
	return 0;
}

/*
 * Repeats the search until no new thread is found, because a thread that has not been asked yet may
 * start others.
 */
static int apply_everywhere(bool single)
{
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
	struct threads *others = single ? NULL : calloc(1, sizeof(*others));
	int signal = SIGRTMAX - 1, asked = 1, err;

	if (single)
		return apply_limits();
	if (!others)
		return -ENOMEM;
	sem_init(&now.done, 0, 0);
	sigaction(signal, &act, &before);
	err = apply_limits();
	while (!err && asked > 0) {
		asked = ask_others(others, signal);
		err = asked < 0 ? asked : await_answers(asked);
	}
	sigaction(signal, &before, NULL);
	sem_destroy(&now.done);
	free(others);
	return err ?: now.error;
}

int base_confine(const struct base_confine_opts *o, char *why, size_t bytes)
{
	bool instrumented = CONFINE_INSTRUMENTED, paths = false, calls = false;
	int err;

	now.capabilities = o->capabilities;
	now.ruleset = instrumented || o->any_path ? -1 : base_landlock_rules(o);
	paths = now.ruleset >= 0;
	now.error = 0;
	err = apply_everywhere(o->single || CONFINE_ALONE);
	if (now.ruleset >= 0)
		close(now.ruleset);
	if (err)
		return base_fail(why, bytes, err, "cannot drop privileges: %s", strerror(-err));
	if (!instrumented) {
		err = base_seccomp_apply(o->role, o->packets);
		calls = !err;
	}
	/* The kernel lacks seccomp, or an outer filter forbids it. */
	if (err && err != -ENOSYS && err != -EINVAL && err != -EPERM)
		return base_fail(why, bytes, err, "cannot restrict system calls: %s",
				 strerror(-err));
	base_logf(BASE_DEBUG, "confine", "capabilities=%#llx calls=%s paths=%s",
		  (unsigned long long)o->capabilities, calls ? "restricted" : "all",
		  paths ? "restricted" : "all");
	return 0;
}
