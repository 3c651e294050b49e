/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpf_array.h - reads an eBPF array through a read-only descriptor. Such a descriptor cannot be
 * mapped: the kernel treats a shared mapping of a file that is not open for writing as a private
 * one (mm/mmap.c, do_mmap()), and maps do not support those (kernel/bpf/syscall.c, bpf_map_mmap()).
 * So bpf(2) copies, without capability since Linux 5.19. Words may be torn as in an RDMA READ:
 * check words tell.
 */
#ifndef SL_FABRIC_BPF_ARRAY_H
#define SL_FABRIC_BPF_ARRAY_H

#include <stdint.h>

struct fabric_bpf_array {
	int fd;
	uint32_t value, entries; /* bytes per element, number of elements */
	uint8_t *scratch;	 /* one element */
};

/*
 * fd: from the agent; duplicated, and stays the caller's. 0, or -errno: -EINVAL not an array, or
 * one of another size; -EPERM the kernel does not let this process read maps.
 */
int fabric_bpf_array_open(struct fabric_bpf_array *a, int fd, uint64_t size);
void fabric_bpf_array_close(struct fabric_bpf_array *a);

/* Reads [offset, offset + length) within size; zeros beyond the last element. 0 or -errno. */
int fabric_bpf_array_read(const struct fabric_bpf_array *a, uint64_t offset, uint64_t length,
			  void *to);

#endif
