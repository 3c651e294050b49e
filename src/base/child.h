/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - a process of our own, which talks with the one that forked it by a socket. */
#ifndef SL_BASE_CHILD_H
#define SL_BASE_CHILD_H

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
/* Called after fork(): this process is killed when the thread that forked it ends. */
void base_child_die_with(pid_t parent);

#endif
