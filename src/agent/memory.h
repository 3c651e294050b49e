/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - accesses the memory of a region, of which some pages may not exist. A process that
 * touches a missing page is charged for it, so the agent only touches existing pages.
 *
 * The event loop must never wait for the lock of a publisher's inode. A publisher can hold this
 * lock for as long as it likes, by a write() from memory whose page faults it handles itself (FUSE,
 * userfaultfd). fchmod(), fallocate(), F_ADD_SEALS, write() and lseek() with SEEK_DATA take the
 * lock; read(), mmap(), fstat() and F_GET_SEALS do not.
 */
#ifndef SL_AGENT_MEMORY_H
#define SL_AGENT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "region/decode.h"

#define AGENT_SEAL_FUTURE_WRITE 0x0010 /* F_SEAL_FUTURE_WRITE, Linux 5.1 */

/* true if the line at offset contains anything but zeros */
bool agent_memory_held(int fd, uint64_t offset);
bool agent_memory_sparse(int fd, uint64_t bytes);
/* Like region_repair(), but only touches existing pages. */
uint64_t agent_memory_repair(int fd, void *map, const struct region_info *info);
/* Copies the existing pages into a memfd of fixed size. Returns a descriptor or -errno. */
int agent_memory_copy(int fd, uint64_t bytes);

#endif
