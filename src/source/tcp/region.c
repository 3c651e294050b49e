// SPDX-License-Identifier: Apache-2.0
#include "source/tcp/region.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <sys/mman.h>

#include "region/decode.h"

int tcp_region_map(struct tcp_region *r, int fd, uint64_t size, uint32_t kind,
		   const struct sl_region_section *sections, uint32_t count)
{
	void *map;

	size = (size + 4095) & ~4095ull;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	*r = (struct tcp_region){map, size, fd};
	return region_header_write(map, size, kind, sections, count);
}

void tcp_region_unmap(struct tcp_region *r)
{
	if (r->map)
		munmap(r->map, r->bytes);
}

int tcp_region_slot(uint64_t *copy, const uint64_t *from, uint32_t words, uint64_t state,
		    bool always)
{
	uint64_t owner[8];

	if (!region_copy_lines(copy, from, 1))
		return -EAGAIN;
	if (!(copy[0] & state) && !always)
		return 0;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (!region_copy_lines(copy + 8, from + 8, words / 8 - 1))
		return -EAGAIN;
	/* Check the owner's line again after copying all others. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return region_copy_lines(owner, from, 1) && !((owner[0] ^ copy[0]) & ~state) ? 1 : -EAGAIN;
}

int tcp_region_read_only(int map_fd)
{
	LIBBPF_OPTS(bpf_get_fd_by_id_opts, opts, .open_flags = BPF_F_RDONLY);
	struct bpf_map_info info = {0};
	uint32_t bytes = sizeof(info);
	int fd;

	if (bpf_obj_get_info_by_fd(map_fd, &info, &bytes))
		return -errno;
	fd = bpf_map_get_fd_by_id_opts(info.id, &opts);
	return fd < 0 ? -errno : fd;
}
