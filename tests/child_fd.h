/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child_fd.h - a writable descriptor of a child's memfd, as the agent gets it by SCM_RIGHTS. Not by
 * /proc: a region's memfd has mode 0444, and only root opens such a file for writing.
 */
#ifndef SL_TESTS_CHILD_FD_H
#define SL_TESTS_CHILD_FD_H

#include <errno.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* -1 with errno; close-on-exec. */
static inline int child_fd(pid_t pid, int fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), got, error;

	if (pidfd < 0)
		return -1;
	got = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	error = errno;
	close(pidfd);
	errno = error;
	return got;
}

#endif
