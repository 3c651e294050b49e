// SPDX-License-Identifier: Apache-2.0
#include "agent/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

#define PAGE	   4096u /* page size; a hole is at least this large on any machine */
#define STEP_PAGES 4u

static bool is_zero(const uint8_t *p, size_t n)
{
	return !*p && !memcmp(p, p + 1, n - 1);
}

bool agent_memory_held(int fd, uint64_t offset)
{
	uint8_t line[SL_LINE_SIZE];

	return fd < 0 || (pread(fd, line, sizeof(line), (off_t)offset) == sizeof(line) &&
			  !is_zero(line, sizeof(line)));
}

bool agent_memory_sparse(int fd, uint64_t bytes)
{
	struct stat st;

	return fstat(fd, &st) || (uint64_t)st.st_blocks * 512 < bytes;
}

uint64_t agent_memory_repair(int fd, void *map, const struct region_info *info)
{
	uint8_t step[STEP_PAGES * PAGE];
	uint64_t repaired;

	if (fd < 0) /* an eBPF map, written by the kernel */
		return region_repair(map, info);
	if (!agent_memory_held(fd, info->hot))
		return 0;
	repaired = region_repair_within(map, info, info->hot, info->hot + SL_LINE_SIZE);
	for (uint64_t at = 0; at < info->size; at += sizeof(step)) {
		ssize_t n = pread(fd, step, sizeof(step), (off_t)at);

		/*
		 * Skip pages of zeros, because lines of zeros are valid. Handle only a few pages at
		 * a time, because other processes may punch holes.
		 */
		for (ssize_t i = 0; i < n; i += PAGE)
			if (!is_zero(step + i, BASE_MIN((size_t)(n - i), (size_t)PAGE)))
				repaired += region_repair_within(map, info, at + (uint64_t)i,
								 at + (uint64_t)i + PAGE);
	}
	return repaired;
}

int agent_memory_copy(int from, uint64_t bytes)
{
	int fd = memfd_create("sidelight-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING), err = 0;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		err = -errno;
	for (uint64_t at = 0; !err && at < bytes; at += PAGE) {
		uint8_t page[PAGE];
		size_t n = BASE_MIN(bytes - at, (uint64_t)PAGE);

		if (pread(from, page, n, (off_t)at) != (ssize_t)n ||
		    (!is_zero(page, n) && pwrite(fd, page, n, (off_t)at) != (ssize_t)n))
			err = errno ? -errno : -EIO;
	}
	if (!err)
		return fd;
	close(fd);
	return err;
}
