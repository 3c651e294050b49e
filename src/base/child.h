/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h - helper processes. A helper that exits is restarted, with a log line and a count. If it
 * exits three times within a minute, this process exits with an error, so that the service manager
 * restarts everything.
 *
 * A helper is started by a spawner: a process that is forked before there are threads, secrets and
 * other descriptors, keeps the privileges of that moment, and only forks. There are two: if the
 * first one exits, the second one takes its place and forks another.
 */
#ifndef SL_BASE_CHILD_H
#define SL_BASE_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define BASE_CHILD_SOCK	   3	/* the helper's end of the socket to its parent */
#define BASE_CHILD_MESSAGE 512u /* maximum number of bytes passed to a helper on startup */

/* Data that a helper receives on startup. */
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
	/* Called once by each spawner, which exits if it returns false. May be NULL. */
	bool (*confine)(void *arg);
	/* Runs in the helper. Only standard error, BASE_CHILD_SOCK and with->fds are open. */
	void (*run)(void *arg, const struct base_child_start *with);
	void *arg;
};

struct base_child;

/*
 * Forks the spawners. Call from the main thread. o and its strings must stay valid. Returns NULL
 * with errno.
 */
struct base_child *base_child_fork(const struct base_child_opts *o);
/* Starts the helper, and kills a running one first. with may be NULL. Returns 0 or -errno. */
int base_child_start(struct base_child *c, const struct base_child_start *with);
/* Returns this end of the running helper's SOCK_SEQPACKET socket, or -1 if no helper is running. */
int base_child_sock(const struct base_child *c);
/*
 * For a helper that runs a program: waits until it calls base_child_started(). Returns 0, or the
 * program's exit code if it exits instead. The program has then logged the reason.
 */
int base_child_await(struct base_child *c);
/*
 * Call when the helper has exited or must exit: stops it if necessary, and counts and logs its
 * exit. Returns false if this process is about to exit as well.
 */
bool base_child_ended(struct base_child *c);
/*
 * Like base_child_ended(), and then starts the helper again. with may be NULL. If that fails, this
 * process exits.
 */
bool base_child_again(struct base_child *c, const struct base_child_start *with);
/* Returns true if the helper has exited. */
bool base_child_has_ended(struct base_child *c);
/* Shuts down the helper's socket, waits for the helper to exit, and kills it after patience_ms. */
void base_child_stop(struct base_child *c, int patience_ms);
/*
 * Stops the helper, for which it waits up to 15 s, and the helper's spawners, then frees c. c may
 * be NULL.
 */
void base_child_free(struct base_child *c);

/* Replaces spawners that have exited. Call every second, or when a child has exited. */
void base_children_check(void);
/* Returns a descriptor that becomes readable when a child exits. Call before there are threads. */
int base_children_fd(void);
/* Returns true if this process is exiting because a helper cannot be restarted. */
bool base_children_failed(void);
/*
 * Reports how often the i-th helper was restarted. Spawners count as separate helpers. Returns
 * false if there are fewer.
 */
bool base_children_restarts(size_t i, const char **name, uint64_t *restarts);

/*
 * For .run: executes another program of this installation (program.h) with argv, and sets argv[0].
 * Returns only on failure, after logging it.
 */
void base_child_exec(const char *log, const char *program, char **argv);
/* The program calls this when it is ready. Returns false if it was not started as a helper. */
bool base_child_started(void);

#endif
