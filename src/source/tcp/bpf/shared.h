/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * shared.h - shared by programs in the kernel and user space: settings that may change at run time,
 * and the key of a flow. Fixed-width types only; needs __u32 and friends (linux/types.h, or
 * kernel.h in a program).
 */
#ifndef SL_SOURCE_TCP_BPF_SHARED_H
#define SL_SOURCE_TCP_BPF_SHARED_H

#include <linux/types.h>

#define TCP_PORT_WORDS 1024 /* 65,536 ports, one bit each */

/* Which flows to record: all set fields must match. Changed at run time; .generation last. */
struct tcp_kernel_filter {
	__u32 generation;  /* grows with each change: decisions are made again */
	__u32 sample_mask; /* 2^N - 1: flows whose hash has these bits 0, at both ends; 0: all */
	__u32 netns;	   /* inode number of the network namespace; 0: all */
	__u32 pid;	   /* thread group id; 0: all */
	__u8 by_port;	   /* the local or the remote port has its bit in ports[] */
	__u8 by_cidr;	   /* the remote address is in map tcp_cidrs */
	__u8 by_cgroup;	   /* the socket's cgroup is in map tcp_cgroups */
	__u8 pad[5];
	__u64 ports[TCP_PORT_WORDS];
};

/* Addresses as IPv6; IPv4 (and IPv4 mapped by an AF_INET6 socket) as ::ffff:a.b.c.d. */
struct tcp_flow_key {
	__u8 local[16], remote[16];    /* network order */
	__u16 local_port, remote_port; /* host order */
	__u8 family;		       /* of the packets: AF_INET or AF_INET6 */
	__u8 mapped;		       /* 1: IPv4 on a socket of AF_INET6 */
	__u16 pad;
	__u32 netns;
	__u32 pad2;
	__u64 cgroup; /* id in the unified hierarchy; 0: unknown */
};

struct tcp_cidr_key { /* of the LPM trie tcp_cidrs: IPv4 with 96 more bits of prefix */
	__u32 prefix;
	__u8 address[16];
};

#endif
