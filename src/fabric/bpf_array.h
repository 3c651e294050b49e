/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpf_array.h - reads an eBPF array through a read-only descriptor. Such a descriptor cannot be
 * mapped: the kernel treats a shared mapping of a file that is not open for writing as private
 * (mm/mmap.c, do_mmap()), and maps do not support private mappings (kernel/bpf/syscall.c,
 * bpf_map_mmap()). So bpf(2) copies, without any capability since Linux 5.19. As in an RDMA READ,
 * words may be torn: check words reveal it.
 */
#ifndef SL_FABRIC_BPF_ARRAY_H
#define SL_FABRIC_BPF_ARRAY_H

#include <stdint.h>

struct fabric_bpf_array {
	int fd;
	uint32_t value, entries; /* bytes per element; number of elements */
	uint8_t *scratch;	 /* buffer for one element */
};

/*
 * fd comes from the agent; it is duplicated, and the caller keeps it. Returns 0 or -errno: -EINVAL
 * if it is not an array, or has another size; -EPERM if the kernel does not let this process read
 * maps.
 */
int fabric_bpf_array_open(struct fabric_bpf_array *a, int fd, uint64_t size);
void fabric_bpf_array_close(struct fabric_bpf_array *a);

/*
 * Reads [offset, offset + length) within size; zeros beyond the last element. Returns 0 or -errno.
 */
int fabric_bpf_array_read(const struct fabric_bpf_array *a, uint64_t offset, uint64_t length,
			  void *to);

#endif
