/* SPDX-License-Identifier: Apache-2.0 */
/* region.h - turns an eBPF array into a region; see sidelight-region(5). */
#ifndef SL_SOURCE_TCP_REGION_H
#define SL_SOURCE_TCP_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sidelight/region.h>

struct tcp_region {
	void *map; /* writable mapping, or NULL */
	size_t bytes;
	int fd; /* descriptor of the array, which other processes may map */
};

/* Maps size bytes of array fd, in whole pages, and writes the header. Returns 0 or -errno. */
int tcp_region_map(struct tcp_region *r, int fd, uint64_t size, uint32_t kind,
		   const struct sl_region_section *sections, uint32_t count);
void tcp_region_unmap(struct tcp_region *r);

/* Returns the address of an offset in the region. */
static inline const uint64_t *tcp_region_at(const struct tcp_region *r, uint64_t offset)
{
	return (const uint64_t *)((const char *)r->map + offset);
}

/*
 * Copies a slot of this many words. Its first line has the owner and the state. state: mask of the
 * state's bits in word 0, which are 0 in a free slot. always: copy free slots as well. Returns 1; 0
 * if the slot is free and always is false; -EAGAIN if it kept changing, or changed its owner.
 */
int tcp_region_slot(uint64_t *copy, const uint64_t *from, uint32_t words, uint64_t state,
		    bool always);

/*
 * Returns a read-only descriptor of the map for consumers, or -errno: -EPERM without CAP_SYS_ADMIN,
 * which is needed to get a descriptor by id.
 */
int tcp_region_read_only(int map_fd);

#endif
