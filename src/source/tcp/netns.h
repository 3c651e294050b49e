/* SPDX-License-Identifier: Apache-2.0 */
/* netns.h - the network namespaces of this machine, one after the other. */
#ifndef SL_SOURCE_TCP_NETNS_H
#define SL_SOURCE_TCP_NETNS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Calls enter() once for each network namespace that a process is in, this thread's own first, and
 * where it returns true, here() in that namespace. One that this thread may not enter (setns(2)
 * needs CAP_SYS_ADMIN) is left out. Moves the calling thread alone, and back again: not for two
 * threads with one context. Namespaces without a process, which a mount or a descriptor keeps, are
 * not found.
 *
 * Returns 0; or -errno, also if the thread could not go back: then it is in another namespace.
 */
int tcp_netns_each(bool (*enter)(void *context, uint64_t inode),
		   void (*here)(void *context, uint64_t inode), void *context);

#endif
