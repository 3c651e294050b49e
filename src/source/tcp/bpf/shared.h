/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * shared.h - shared by programs in the kernel and user space: the filter, the key of a flow, and
 * settings. Fixed-width types only.
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

/* ---- flow.bpf.c and tcp.c ---- */

/* Elements of the map tcp_flows, SL_FLOW_SIZE bytes: header, hot line, slots, journal, cgroups. */
#define TCP_FLOWS_HOT_ELEMENT	8
#define TCP_FLOWS_FIRST_ELEMENT 9

/* Set before loading. */
struct tcp_flow_settings {
	__u64 interval_ns, quarantine_ns;
	__u32 slots;	     /* at most SL_FLOWS_MAX */
	__u32 ring_mask;     /* of tcp_dirty and tcp_quarantine: a power of two >= slots, minus 1 */
	__u32 journal_mask;  /* lines, a power of two, minus 1 */
	__u32 journal_first; /* first element of the journal */
	__u32 tick_us;	     /* 1e6 / HZ */
	__u32 near_shift;    /* from a 32-bit hash to a place of tcp_near */
	__u32 cgroups;	     /* slots for names of cgroups; 0: none */
};

/* ---- net.bpf.c and net.c ---- */

/* Elements of the map net_ring, SL_NIC_SIZE bytes: header page, page of the hot line, ring. */
#define TCP_NET_HOT_ELEMENT   32
#define TCP_NET_FIRST_ELEMENT 64

#define TCP_NET_DEVICES	      8

/* Set before loading. */
struct tcp_net_settings {
	__u32 ring_mask; /* records, a power of two, minus 1 */
	__u32 devices;	 /* 0: all with a parent device: hardware's, or a hypervisor's */
	char device[TCP_NET_DEVICES][16]; /* names; padded with 0 */
};

#endif
