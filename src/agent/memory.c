// SPDX-License-Identifier: Apache-2.0
#include "agent/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

/* The pages from *at on that exist: [*at, *end). False: none; the whole, if that cannot be told. */
static bool next_held(int fd, uint64_t bytes, uint64_t *at, uint64_t *end)
{
	off_t data = lseek(fd, (off_t)*at, SEEK_DATA), hole;

	if (data < 0 || (uint64_t)data >= bytes)
		return false;
	hole = lseek(fd, data, SEEK_HOLE);
	*at = (uint64_t)data;
	*end = hole < 0 ? bytes : BASE_MIN((uint64_t)hole, bytes);
	return *end > *at;
}

bool agent_memory_held(int fd, uint64_t offset)
{
	return fd < 0 || lseek(fd, (off_t)offset, SEEK_DATA) == (off_t)offset;
}

bool agent_memory_sparse(int fd, uint64_t bytes)
{
	struct stat st;

	return fstat(fd, &st) || (uint64_t)st.st_blocks * 512 < bytes;
}

uint64_t agent_memory_repair(int fd, void *map, const struct region_info *info)
{
	uint64_t repaired;

	if (fd < 0) /* written by the kernel */
		return region_repair(map, info);
	if (!agent_memory_held(fd, info->hot))
		return 0;
	repaired = region_repair_within(map, info, info->hot, info->hot + SL_LINE_SIZE);
	for (uint64_t at = 0, end; next_held(fd, info->size, &at, &end); at = end)
		repaired += region_repair_within(map, info, at, end);
	return repaired;
}

int agent_memory_copy(int from, uint64_t bytes)
{
	int fd = memfd_create("sidelight-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING), err = 0;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		err = -errno;
	for (uint64_t at = 0, end; !err && next_held(from, bytes, &at, &end); at = end) {
		while (!err && at < end) {
			uint8_t page[4096];
			size_t n = BASE_MIN(end - at, (uint64_t)sizeof(page));

			if (pread(from, page, n, (off_t)at) != (ssize_t)n ||
			    pwrite(fd, page, n, (off_t)at) != (ssize_t)n)
				err = errno ? -errno : -EIO;
			at += n;
		}
	}
	if (!err)
		return fd;
	close(fd);
	return err;
}
