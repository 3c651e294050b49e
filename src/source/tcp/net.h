/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - TCP segments at the network devices of this host, by eBPF (bpf/net.bpf.c): a ring of
 * records in a region of kind SL_REGION_NIC (sidelight/nic.h). Nothing is pinned: everything ends
 * with the process.
 *
 * One thread per struct tcp_net; any number of readers of the mapping.
 */
#ifndef SL_SOURCE_TCP_NET_H
#define SL_SOURCE_TCP_NET_H

#include "region/nic.h"
#include "source/tcp/tcp.h"

struct tcp_net;

struct tcp_net_opts {
	uint32_t records; /* of the ring, 128 bytes each; rounded up to a power of two; 0: 65536 */
	/*
	 * Names of devices, at most 8; none: those of hardware or a hypervisor. A segment that
	 * crosses two of them is recorded twice, and then ambiguous.
	 */
	struct base_strings devices;
	struct tcp_filter filter; /* without cgroups and pid: a device knows no sockets */
};

/* Loads and attaches. 0, or -errno with one line in why[], as for tcp_open(). */
int tcp_net_open(const struct tcp_net_opts *options, struct tcp_net **net, char *why, size_t bytes);
void tcp_net_close(struct tcp_net *net); /* NULL is fine */

/*
 * Calls that the kernel skipped because the same program was interrupted on that CPU (see
 * tcp_catch_up()): a segment sent from an interrupt then has no record.
 */
uint64_t tcp_net_left_out(const struct tcp_net *net);

/* Changes the filter at run time. 0 or -errno, why as above. */
int tcp_net_filter(struct tcp_net *net, const struct tcp_filter *filter, char *why, size_t bytes);

const struct tcp_region *tcp_net_region(const struct tcp_net *net); /* until the close */
const struct region_nic_info *tcp_net_info(const struct tcp_net *net);

#endif
