/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - a process of our own, which talks with the one that forked it by a socket. */
#ifndef SL_BASE_CHILD_H
#define SL_BASE_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

struct base_child {
	pid_t pid;
	int sock; /* SOCK_SEQPACKET; each side has its end of it */
};

/*
 * Forks. 0 in the parent, or -errno. 1 in the child: of the parent it has standard error, for log
 * lines, and the socket. It goes by the name, of which 15 characters are kept, and is deaf to the
 * signals that tell the parent to end: the parent tells it, by closing the socket.
 */
int base_child_fork(struct base_child *c, const char *name);
/*
 * Starts a program of this installation (program.h) as such a child, whose end of the socket is
 * descriptor BASE_CHILD_SOCK; argv[0] is set here. Waits until it calls base_child_started(). 0, or
 * -errno; -ENOENT: it is not installed. Otherwise the exit code of the program, which has logged
 * why it ended.
 */
int base_child_exec(struct base_child *c, const char *program, char **argv);
#define BASE_CHILD_SOCK 3
/* Called by the program. False: no parent has started it so. */
bool base_child_started(void);
/* Closes the socket, and waits for the end of the process, which is killed if it takes 15 s. */
void base_child_end(struct base_child *c);
/*
 * In the child: forks a worker, and another one when it has ended, until the parent closes its end
 * of the socket. The worker's return value is the exit code; it has to end by that, too.
 */
void base_child_supervise(const char *log, int sock, int (*work)(void *arg, int sock), void *arg);
/* Called after fork(): this process is killed when the thread that forked it ends. */
void base_child_die_with(pid_t parent);

#endif
