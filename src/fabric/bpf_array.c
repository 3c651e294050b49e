// SPDX-License-Identifier: Apache-2.0
#include "fabric/provider.h"
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE	  4096u
#define VALUE_MAX (1u << 20)

/* Reads the array's sizes from the kernel, which refuses descriptors that are not of bpf(2). */
static int read_description(struct fabric_bpf_array *a, int fd)
{
	struct bpf_map_info info;
	union bpf_attr attr;

	memset(&info, 0, sizeof(info));
	memset(&attr, 0, sizeof(attr));
	attr.info.bpf_fd = (uint32_t)fd;
	attr.info.info_len = sizeof(info);
	attr.info.info = (uintptr_t)&info;
	if (syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof(attr)))
		return errno == EPERM ? -EPERM : -EINVAL;
	/* The descriptor of a program has other fields here; look_up() refuses it. */
	if (info.type != BPF_MAP_TYPE_ARRAY || info.key_size != sizeof(uint32_t) ||
	    !info.value_size || info.value_size % 8 || info.value_size > VALUE_MAX ||
	    !info.max_entries)
		return -EINVAL;
	a->value = info.value_size;
	a->entries = info.max_entries;
	return 0;
}

/* Copies `count` existing elements, beginning with `first`. */
static int look_up(const struct fabric_bpf_array *a, uint32_t first, uint32_t count, void *to)
{
	uint32_t before = first - 1, last, keys[64];

	while (count) {
		uint32_t n = count < 64 ? count : 64;
		union bpf_attr attr;

		memset(&attr, 0, sizeof(attr));
		attr.batch.in_batch = first ? (uintptr_t)&before : 0;
		attr.batch.out_batch = (uintptr_t)&last;
		attr.batch.keys = (uintptr_t)keys;
		attr.batch.values = (uintptr_t)to;
		attr.batch.count = n;
		attr.batch.map_fd = (uint32_t)a->fd;
		/* ENOENT means the end of the array. */
		if (syscall(SYS_bpf, BPF_MAP_LOOKUP_BATCH, &attr, sizeof(attr)) && errno != ENOENT)
			return -errno;
		if (attr.batch.count != n || keys[0] != first)
			return -EIO;
		first += n;
		before = first - 1;
		count -= n;
		to = (uint8_t *)to + (uint64_t)n * a->value;
	}
	return 0;
}

int fabric_bpf_array_open(struct fabric_bpf_array *a, int fd, uint64_t size)
{
	int err;

	*a = (struct fabric_bpf_array){.fd = -1};
	err = read_description(a, fd);
	if (err)
		return err;
	if (size > (((uint64_t)a->value * a->entries + PAGE - 1) & ~(uint64_t)(PAGE - 1)))
		return -EINVAL;
	a->scratch = malloc(a->value);
	a->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (!a->scratch || a->fd < 0) {
		err = a->scratch ? -errno : -ENOMEM;
		fabric_bpf_array_close(a);
		return err;
	}
	err = look_up(a, 0, 1, a->scratch); /* checks the permission */
	if (err)
		fabric_bpf_array_close(a);
	return err;
}

void fabric_bpf_array_close(struct fabric_bpf_array *a)
{
	if (a->fd >= 0)
		close(a->fd);
	free(a->scratch);
	*a = (struct fabric_bpf_array){.fd = -1};
}

int fabric_bpf_array_read(const struct fabric_bpf_array *a, uint64_t offset, uint64_t length,
			  void *to)
{
	uint8_t *out = to;

	while (length) {
		uint64_t element = offset / a->value, within = offset % a->value, n;
		int err = 0;

		/* the range is beyond the array, in the rest of its last page */
		if (element >= a->entries) {
			memset(out, 0, length);
			return 0;
		}
		if (!within && length >= a->value) {
			n = length / a->value;
			n = BASE_MIN(n, a->entries - element);
			err = look_up(a, (uint32_t)element, (uint32_t)n, out);
			n *= a->value;
		} else {
			n = a->value - within;
			n = BASE_MIN(n, length);
			err = look_up(a, (uint32_t)element, 1, a->scratch);
			memcpy(out, a->scratch + within, n);
		}
		if (err)
			return err;
		out += n;
		offset += n;
		length -= n;
	}
	return 0;
}
