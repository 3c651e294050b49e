/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - records TCP segments at the network devices of this host with eBPF (bpf/net.bpf.c), in a
 * ring in a region of kind SL_REGION_NIC (sidelight/nic.h). Nothing is pinned: all programs and
 * maps are removed when the process exits.
 *
 * A struct tcp_net must be used by one thread at a time. Any number of readers may map the region.
 */
#ifndef SL_SOURCE_TCP_NET_H
#define SL_SOURCE_TCP_NET_H

#include "region/nic.h"
#include "source/tcp/tcp.h"

struct tcp_net;

struct tcp_net_opts {
	/* ring size in records of 128 bytes; rounded up to a power of two; 0 means 65536 */
	uint32_t records;
	/*
	 * Names of at most 8 devices. Empty means the devices of the hardware or hypervisor. A
	 * segment that crosses two devices is recorded twice and becomes ambiguous.
	 */
	struct base_strings devices;
	/* must not select cgroups or a pid, as sockets are unknown at a device */
	struct tcp_filter filter;
};

/* Loads and attaches the programs. Returns 0, or -errno with one line in why[], like tcp_open(). */
int tcp_net_open(const struct tcp_net_opts *options, struct tcp_net **net, char *why, size_t bytes);
void tcp_net_close(struct tcp_net *net); /* NULL is fine */

/*
 * Number of calls that the kernel skipped because the same program was interrupted on that CPU (see
 * tcp_catch_up()). A segment sent from such an interrupt is not recorded.
 */
uint64_t tcp_net_left_out(const struct tcp_net *net);

/* Changes the filter at run time. Returns 0, or -errno with one line in why[]. */
int tcp_net_filter(struct tcp_net *net, const struct tcp_filter *filter, char *why, size_t bytes);

/* valid until tcp_net_close() */
const struct tcp_region *tcp_net_region(const struct tcp_net *net);
const struct region_nic_info *tcp_net_info(const struct tcp_net *net);

#endif
