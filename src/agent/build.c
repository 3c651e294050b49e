// SPDX-License-Identifier: Apache-2.0
/* build.c - regions that the agent creates itself: the directory, and regions for REST clients. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/peer.h"
#include "agent/region.h"
#include "region/text.h"

/*
 * Sets a cell of a line to which others may add at the same time. It does so by adding the
 * difference, because additions commute.
 */
void agent_line_set(uint64_t *line, unsigned int cell, uint64_t v)
{
	uint64_t delta = v - __atomic_load_n(&line[cell], __ATOMIC_RELAXED);

	__atomic_fetch_add(&line[cell], delta, __ATOMIC_RELAXED);
	__atomic_fetch_add(&line[7], delta * sl_line_k[cell], __ATOMIC_RELAXED);
}

/*
 * A memfd is created with mode 0777, and opening /proc/PID/fd/N only checks the inode's mode, so a
 * consumer could reopen its read-only descriptor for writing. Mode 0444 prevents this for all users
 * except the owner and root, and the seal for these two as well. fchmod() fails for another user's
 * memfd unless the agent is root; libsidelight calls it itself. Both calls may block forever, see
 * memory.h.
 */
int agent_seal(int fd)
{
	(void)!fchmod(fd, 0444);
	return fcntl(fd, F_ADD_SEALS, AGENT_SEAL_FUTURE_WRITE | F_SEAL_SEAL) ? -errno : 0;
}

/* O_NONBLOCK: do not wait for the holder of a lease on the file (F_SETLEASE). */
int agent_reopen_read_only(int fd)
{
	char path[32];
	int ro;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return ro < 0 ? -errno : ro;
}

int agent_build_region(const struct agent_build *b, const char *name, int *out_fd, void **out_map,
		       uint64_t *instance)
{
	struct sl_region_header *h;
	char labels[SL_HEADER_LABELS_MAX];
	size_t used = region_text_put_labels(labels, sizeof(labels), b->labels, b->label_count);
	int fd, err;

	if (used > sizeof(labels) || b->section_count > SL_SECTIONS_MAX)
		return -E2BIG;
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	/*
	 * Allocate now, so that a host that is out of memory fails here instead of with SIGBUS
	 * later.
	 */
	err = -posix_fallocate(fd, 0, (off_t)b->size);
	if (!err && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		err = -errno;
	if (err)
		goto err_fd;
	h = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED) {
		err = -errno;
		goto err_fd;
	}
	err = region_header_write(h, b->size, b->kind, b->section, b->section_count);
	if (err)
		goto err_map;
	h->start_ticks = agent_process_start_ticks(getpid());
	memcpy(h->labels, labels, used);
	h->label_bytes = (uint32_t)used;
	region_header_seal(h);

	*out_fd = fd;
	*out_map = h;
	*instance = h->instance;
	return 0;

err_map:
	munmap(h, b->size);
err_fd:
	close(fd);
	return err;
}
