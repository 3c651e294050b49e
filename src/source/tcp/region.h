/* SPDX-License-Identifier: Apache-2.0 */
/* region.h - an eBPF array becomes a region that readers find their way in: sidelight-region(5). */
#ifndef SL_SOURCE_TCP_REGION_H
#define SL_SOURCE_TCP_REGION_H

#include <stddef.h>
#include <stdint.h>

#include <sidelight/region.h>

/*
 * Maps the array behind map_fd for reading and writing, size bytes rounded up to whole pages, and
 * writes its header. munmap() of *bytes ends it. 0 or -errno.
 */
int tcp_region_map(int map_fd, uint64_t size, uint32_t kind,
		   const struct sl_region_section *sections, uint32_t count, void **map,
		   size_t *bytes);

/*
 * Another descriptor of the map, by which nobody can write to it nor map it for writing: for
 * consumers. Or -errno: -EPERM without CAP_SYS_ADMIN, as the kernel gives descriptors by id to
 * nobody else.
 */
int tcp_region_read_only(int map_fd);

#endif
