/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_bpf_array.h - reads an eBPF array through a descriptor that allows no more. Such a one
 * can't be mapped: the kernel takes a shared mapping of a file that is not open for writing for a
 * private one (mm/mmap.c, do_mmap()), and has none of maps (kernel/bpf/syscall.c, bpf_map_mmap()).
 * So it is bpf(2) that copies, which since Linux 5.19 needs no capability. Words may be torn in it
 * as in an RDMA READ: lines tell.
 */
#ifndef SL_FABRIC_BPF_ARRAY_H
#define SL_FABRIC_BPF_ARRAY_H

#include <stdint.h>

struct fabric_bpf_array {
	int fd;
	uint32_t value, entries; /* bytes of an element, number of them */
	uint8_t *scratch;	 /* for one element */
};

/*
 * fd: what an agent sent; it stays the caller's, and is duplicated. 0, or -errno: -EINVAL no array,
 * or one that has not size bytes; -EPERM the kernel does not let this process read maps.
 */
int fabric_bpf_array_open(struct fabric_bpf_array *a, int fd, uint64_t size);
void fabric_bpf_array_close(struct fabric_bpf_array *a);

/* [offset, offset + length), which is within size. Beyond the last element are zeroes. 0 or -errno.
 */
int fabric_bpf_array_read(const struct fabric_bpf_array *a, uint64_t offset, uint64_t length,
			  void *to);

#endif
