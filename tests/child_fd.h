/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child_fd.h - a writable descriptor of a child's memfd, as the agent gets it by SCM_RIGHTS.
 * Opening it in /proc would not do: a region's memfd has mode 0444, so only root can open it for
 * writing.
 */
#ifndef SL_TESTS_CHILD_FD_H
#define SL_TESTS_CHILD_FD_H

#include <errno.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Returns -1 with errno on failure. The descriptor is close-on-exec. */
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
