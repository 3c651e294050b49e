/* SPDX-License-Identifier: Apache-2.0 */
/* netns.h - iterates over the network namespaces of this host. */
#ifndef SL_SOURCE_TCP_NETNS_H
#define SL_SOURCE_TCP_NETNS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Calls enter() once for each network namespace with a process, this thread's own first, and where
 * it returns true, here() in that namespace. Skips namespaces that this thread may not enter
 * (setns(2) needs CAP_SYS_ADMIN). Only the calling thread moves, and returns. Namespaces held only
 * by a mount or a descriptor are not found.
 *
 * 0, or -errno, also if the thread could not return: it is then in another namespace.
 */
int tcp_netns_each(bool (*enter)(void *context, uint64_t inode),
		   void (*here)(void *context, uint64_t inode), void *context);

#endif
