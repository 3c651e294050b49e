/* SPDX-License-Identifier: Apache-2.0 */
/* netns.h - iterates over the network namespaces of this host. */
#ifndef SL_SOURCE_TCP_NETNS_H
#define SL_SOURCE_TCP_NETNS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Calls enter() once for each network namespace that has a process, starting with the calling
 * thread's own. Where enter() returns true, calls here() inside that namespace. Namespaces that
 * this thread may not enter are skipped (setns(2) needs CAP_SYS_ADMIN). Only the calling thread
 * switches namespaces, and switches back. Namespaces held only by a mount or a descriptor are not
 * found.
 *
 * Returns 0 or -errno. If the thread could not switch back, it also returns -errno, and the thread
 * is left in another namespace.
 */
int tcp_netns_each(bool (*enter)(void *context, uint64_t inode),
		   void (*here)(void *context, uint64_t inode), void *context);

#endif
