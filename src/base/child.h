/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - a helper process that talks to its parent over a socket. */
#ifndef SL_BASE_CHILD_H
#define SL_BASE_CHILD_H

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
/* Call after fork(): the kernel kills this process when the thread that forked it ends. */
void base_child_die_with(pid_t parent);

#endif
