/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * shared.h - definitions shared by eBPF programs and user space: the filter, the key of a flow, and
 * settings. Uses fixed-width types only.
 */
#ifndef SL_SOURCE_TCP_BPF_SHARED_H
#define SL_SOURCE_TCP_BPF_SHARED_H

#include <linux/types.h>

#define TCP_PORT_WORDS 1024 /* bitmap of 65,536 ports */

/* Selects the flows to record: all set fields must match. Changes at run time, .generation last. */
struct tcp_kernel_filter {
	__u32 generation; /* incremented with each change, so that decisions are made again */
	/* 2^N - 1: record flows whose hash has these bits 0, at both ends; 0 means all */
	__u32 sample_mask;
	__u32 netns;	/* inode number of the network namespace; 0 means all */
	__u32 pid;	/* thread group id; 0 means all */
	__u8 by_port;	/* require that the local or remote port is set in ports[] */
	__u8 by_cidr;	/* require that the remote address is in map tcp_cidrs */
	__u8 by_cgroup; /* require that the socket's cgroup is in map tcp_cgroups */
	__u8 pad[5];
	__u64 ports[TCP_PORT_WORDS];
};

/*
 * IPv6 addresses; IPv4 addresses, including those of AF_INET6 sockets, are mapped (::ffff:a.b.c.d).
 */
struct tcp_flow_key {
	__u8 local[16], remote[16];    /* addresses in network byte order */
	__u16 local_port, remote_port; /* ports in host byte order */
	__u8 family;		       /* address family of the packets: AF_INET or AF_INET6 */
	__u8 mapped;		       /* 1 if the socket is AF_INET6, but uses IPv4 */
	__u16 pad;
	__u32 netns;
	__u32 pad2;
	__u64 cgroup; /* id of the cgroup in the unified hierarchy; 0 means unknown */
};

struct tcp_cidr_key { /* key of the LPM trie tcp_cidrs; IPv4 prefixes are 96 bits longer */
	__u32 prefix;
	__u8 address[16];
};

/* ---- flow.bpf.c and tcp.c ---- */

/* Elements of the map tcp_flows, of SL_FLOW_SIZE bytes: header, hot, slots, journal, cgroups. */
#define TCP_FLOWS_HOT_ELEMENT	8
#define TCP_FLOWS_FIRST_ELEMENT 9

/* Set before loading. */
struct tcp_flow_settings {
	__u64 interval_ns, quarantine_ns;
	__u32 slots; /* number of slots, at most SL_FLOWS_MAX */
	/* size of tcp_dirty and tcp_quarantine, a power of two >= slots, minus 1 */
	__u32 ring_mask;
	__u32 journal_mask;  /* number of lines in the journal, a power of two, minus 1 */
	__u32 journal_first; /* first element of the journal */
	__u32 tick_us;	     /* length of a jiffy in microseconds: 1e6 / HZ */
	__u32 near_shift;    /* shift that converts a 32-bit hash to an index of tcp_near */
	__u32 cgroups;	     /* number of slots for cgroup names; 0 means no names */
	__u32 drops_first;   /* first element of the lines of dropped segments by flow */
	__u32 reasons_first; /* first element of the lines of dropped segments by reason */
	/*
	 * 1 if the kernel does not report the receiving socket of a dropped segment (before Linux
	 * 6.11); the programs then remember the last socket of each CPU
	 */
	__u32 remember;
};

/* ---- net.bpf.c and net.c ---- */

/* Elements of the map net_ring, SL_NIC_SIZE bytes each: header page, page of the hot line, ring. */
#define TCP_NET_HOT_ELEMENT   32
#define TCP_NET_FIRST_ELEMENT 64

#define TCP_NET_DEVICES	      8

/* Set before loading. */
struct tcp_net_settings {
	__u32 ring_mask; /* number of records in the ring, a power of two, minus 1 */
	/* 0 means all devices with a parent, which belong to the hardware or a hypervisor */
	__u32 devices;
	char device[TCP_NET_DEVICES][16]; /* names of the devices, padded with 0 */
};

#endif
