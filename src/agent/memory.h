/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - the memory of a region, of which only some pages may exist. Who touches a page that
 * does not exist is charged for it, so that the agent touches only those that do.
 *
 * No call of the loop may wait for the lock of a publisher's inode. A publisher can hold that for
 * as long as it likes, by a write() from memory whose page fault it serves itself (FUSE,
 * userfaultfd). fchmod(), fallocate(), F_ADD_SEALS, write() and the search for data by lseek()
 * take it; read(), mmap(), fstat() and F_GET_SEALS do not.
 */
#ifndef SL_AGENT_MEMORY_H
#define SL_AGENT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "region/decode.h"

#define AGENT_SEAL_FUTURE_WRITE 0x0010 /* F_SEAL_FUTURE_WRITE, Linux 5.1 */

bool agent_memory_held(int fd, uint64_t offset); /* the line at offset is not of zeros */
bool agent_memory_sparse(int fd, uint64_t bytes);
/* region_repair() of the pages that exist. */
uint64_t agent_memory_repair(int fd, void *map, const struct region_info *info);
/* A memfd with the same pages, of fixed size. A descriptor or -errno. */
int agent_memory_copy(int fd, uint64_t bytes);

#endif
