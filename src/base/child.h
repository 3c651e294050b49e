/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - a helper process that talks to its parent over a socket. */
#ifndef SL_BASE_CHILD_H
#define SL_BASE_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

struct base_child {
	pid_t pid;
	int sock; /* SOCK_SEQPACKET; each side has one end */
};

/*
 * Forks. Returns 0 in the parent, or -errno; 1 in the child. The child inherits only standard
 * error, for log lines, and the socket. Its process name is `name`, cut to 15 characters. It
 * ignores the signals that tell the parent to end: the parent ends it by closing the socket.
 */
int base_child_fork(struct base_child *c, const char *name);
/*
 * Starts a program of this installation (program.h) as such a child and waits until it calls
 * base_child_started(). Its end of the socket is descriptor BASE_CHILD_SOCK. Sets argv[0]. Returns
 * 0, or -errno; -ENOENT means that the program is not installed. If the program ends instead, it
 * has logged the reason, and its exit code is returned.
 */
int base_child_exec(struct base_child *c, const char *program, char **argv);
#define BASE_CHILD_SOCK 3
/* The program calls this once it runs. Returns false if it was not started by base_child_exec(). */
bool base_child_started(void);
/* Closes the socket and waits for the process to end. Kills it after 15 s. */
void base_child_end(struct base_child *c);
/*
 * In the child: forks a worker, and restarts it when it ends, until the parent closes its end of
 * the socket. The worker must end then, too; its return value is its exit code.
 */
void base_child_supervise(const char *log, int sock, int (*work)(void *arg, int sock), void *arg);
/* Call after fork(): the kernel kills this process when the thread that forked it ends. */
void base_child_die_with(pid_t parent);

#endif
