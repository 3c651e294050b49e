// SPDX-License-Identifier: Apache-2.0
#include "source/tcp/region.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static void boot_id(uint8_t out[16])
{
	char text[40] = "", hex[3] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC), n = 0;
	unsigned int byte;

	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) < 36)
		text[0] = 0;
	close(fd);
	for (const char *p = text; *p && p[1] && n < 16; p += 2) {
		if (*p == '-')
			p++;
		memcpy(hex, p, 2);
		if (sscanf(hex, "%2x", &byte) != 1)
			return;
		out[n++] = (uint8_t)byte;
	}
}

int tcp_region_map(int map_fd, uint64_t size, uint32_t kind,
		   const struct sl_region_section *sections, uint32_t count, void **map,
		   size_t *bytes)
{
	struct sl_region_header *h;
	struct timespec now;

	size = (size + 4095) & ~4095ull;
	h = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
	if (h == MAP_FAILED)
		return -errno;
	memcpy(h->magic, SL_REGION_MAGIC, sizeof(h->magic));
	h->version = SL_REGION_VERSION;
	h->header_size = SL_HEADER_SIZE;
	h->size = size;
	h->kind = kind;
	h->pid = (uint32_t)getpid();
	clock_gettime(CLOCK_REALTIME, &now);
	h->start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	boot_id(h->boot_id);
	while (!h->instance)
		if (getrandom(&h->instance, sizeof(h->instance), 0) < 0 && errno != EINTR) {
			int err = -errno;

			munmap(h, size);
			return err;
		}
	h->section_count = count;
	memcpy(h->section, sections, count * sizeof(*sections));
	h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
	*map = h;
	*bytes = size;
	return 0;
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
