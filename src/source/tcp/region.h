/* SPDX-License-Identifier: Apache-2.0 */
/* region.h - makes an eBPF array a region: sidelight-region(5). */
#ifndef SL_SOURCE_TCP_REGION_H
#define SL_SOURCE_TCP_REGION_H

#include <stddef.h>
#include <stdint.h>

#include <sidelight/region.h>

struct tcp_region {
	void *map; /* writable; NULL: none */
	size_t bytes;
	int fd; /* the array's, for others to map */
};

/*
 * Maps the array fd, size bytes rounded up to whole pages, and writes its header. 0 or -errno.
 */
int tcp_region_map(struct tcp_region *r, int fd, uint64_t size, uint32_t kind,
		   const struct sl_region_section *sections, uint32_t count);
void tcp_region_unmap(struct tcp_region *r);

/* The memory at an offset. */
static inline const uint64_t *tcp_region_at(const struct tcp_region *r, uint64_t offset)
{
	return (const uint64_t *)((const char *)r->map + offset);
}

/*
 * A read-only descriptor of the map, for consumers, or -errno: -EPERM without CAP_SYS_ADMIN, which
 * getting a descriptor by id requires.
 */
int tcp_region_read_only(int map_fd);

#endif
