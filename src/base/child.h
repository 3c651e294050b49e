/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h - helper processes. Each starts again when it has ended, with a log line and a count. If
 * it ends three times within a minute, this process ends with an error, so that the service manager
 * starts all anew.
 *
 * A helper is started by a spawner: a process that is forked before there are threads, secrets and
 * other descriptors, keeps the privileges of that moment, and only forks. A second spawner replaces
 * the first one if that ends, and makes another.
 */
#ifndef SL_BASE_CHILD_H
#define SL_BASE_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define BASE_CHILD_SOCK	   3	/* the helper's end of the socket to this process */
#define BASE_CHILD_MESSAGE 512u /* bytes that a helper is started with, at most */

/* What a helper is started with. */
struct base_child_start {
	const void *message;
	size_t bytes;
	const int *fds;
	size_t fd_count;
};

struct base_child_opts {
	const char *name; /* for metrics and log lines, such as "http" */
	const char *what; /* for log lines, such as "the process that serves clients" */
	const char *log;  /* component of log lines */
	/* Every spawner runs it once, and ends if it returns false; or NULL. */
	bool (*confine)(void *arg);
	/* The helper. It inherits standard error, BASE_CHILD_SOCK and what it is started with. */
	void (*run)(void *arg, const struct base_child_start *with);
	void *arg;
};

struct base_child;

/*
 * Forks the spawners. o and its strings must stay valid. Call it from the main thread. Returns NULL
 * with errno.
 */
struct base_child *base_child_fork(const struct base_child_opts *o);
/* Starts the helper; one that runs is killed first. with may be NULL. Returns 0 or -errno. */
int base_child_start(struct base_child *c, const struct base_child_start *with);
/* This process's end of the socket of the running helper, SOCK_SEQPACKET; -1: none runs. */
int base_child_sock(const struct base_child *c);
/*
 * Waits until a helper that runs a program calls base_child_started(). Returns 0; if the program
 * ends instead, it has logged the reason, and its exit code is returned.
 */
int base_child_await(struct base_child *c);
/*
 * The running helper has ended, or has to: ends it, counts it and logs it. Returns false if this
 * process is about to end for it.
 */
bool base_child_ended(struct base_child *c);
/*
 * As base_child_ended(), and starts the helper again, as it was without a message. If that fails,
 * this process ends.
 */
bool base_child_again(struct base_child *c);
/* Whether the running helper has ended. */
bool base_child_has_ended(struct base_child *c);
/* Shuts the helper's socket down and waits for it to end; kills it after that time. */
void base_child_stop(struct base_child *c, int patience_ms);
/* Stops the helper, within 15 s, and its spawners, and frees c. NULL is ignored. */
void base_child_free(struct base_child *c);

/* Replaces spawners that have ended. Call it every second, or when a child has ended. */
void base_children_check(void);
/* A descriptor that is readable when a child has ended; call it before there are threads. */
int base_children_fd(void);
/* Whether this process ends because a helper can't be started again. */
bool base_children_failed(void);
/*
 * How often the i-th helper was started again. Spawners count as helpers of their own. Returns
 * false if there are fewer.
 */
bool base_children_restarts(size_t i, const char **name, uint64_t *restarts);

/*
 * For .run: replaces the process by a program of this installation (program.h), which gets argv,
 * with argv[0] set. Returns only if that fails, with a log line.
 */
void base_child_exec(const char *log, const char *program, char **argv);
/* The program calls this once it runs. Returns false if it was not started as a helper. */
bool base_child_started(void);

#endif
