/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - TCP segments at the network devices of this host, by eBPF (bpf/net.bpf.c): a ring of
 * records in a region of kind SL_REGION_NIC (sidelight/nic.h). Nothing is pinned: all of it ends
 * with the process.
 *
 * Not thread-safe: one thread uses one struct tcp_net, but readers of the mapping.
 */
#ifndef SL_SOURCE_TCP_NET_H
#define SL_SOURCE_TCP_NET_H

#include "region/nic.h"
#include "source/tcp/tcp.h"

struct tcp_net;

struct tcp_net_opts {
	uint32_t records; /* of the ring, made a power of two; 0: 65536, of 128 bytes each */
	/*
	 * Names of devices, 8 at most; none: those that are hardware, or a hypervisor's. A segment
	 * that crosses two of them is recorded twice, and then ambiguous.
	 */
	struct base_strings devices;
	struct tcp_filter filter; /* no cgroups and no pid: a device knows no sockets */
};

/* Loads and attaches. 0, or -errno with one line in why[], as tcp_open(). */
int tcp_net_open(const struct tcp_net_opts *options, struct tcp_net **net, char *why, size_t bytes);
void tcp_net_close(struct tcp_net *net); /* NULL is fine */

/*
 * How often the kernel left out a call, because the same program was running on that CPU in what
 * was interrupted (as tcp_catch_up() has it): a segment that was sent from an interrupt has no
 * record then.
 */
uint64_t tcp_net_left_out(const struct tcp_net *net);

/* Changes the filter at run time. 0 or -errno, why as above. */
int tcp_net_filter(struct tcp_net *net, const struct tcp_filter *filter, char *why, size_t bytes);

/* The region, as tcp_region() and tcp_region_fd(). */
const void *tcp_net_region(const struct tcp_net *net, size_t *bytes);
int tcp_net_region_fd(const struct tcp_net *net);
const struct region_nic_info *tcp_net_info(const struct tcp_net *net);

#endif
