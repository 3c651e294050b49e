/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - TCP segments at the network devices of this host, by eBPF (bpf/net.bpf.c): a ring of records in a
 * region of kind SL_REGION_NIC (sidelight/nic.h). Nothing is pinned: all of it ends with the process.
 *
 * Not thread-safe: one thread uses one struct sl_net, but readers of the mapping.
 */
#ifndef SL_SOURCE_TCP_NET_H
#define SL_SOURCE_TCP_NET_H

#include "region/nic.h"
#include "source/tcp/tcp.h"

struct sl_net;

struct sl_net_options {
	size_t sz;
	uint32_t records; /* of the ring, made a power of two; 0: 65536, of 128 bytes each */
	/*
	 * Names of devices, 8 at most; none: those that are hardware, or a hypervisor's. A segment that
	 * crosses two of them is recorded twice, and then ambiguous.
	 */
	struct sl_strings devices;
	struct sl_tcp_wanted wanted; /* no cgroups and no pid: a device knows no sockets */
};

/* Loads and attaches. 0, or -errno with one line in why[], as sl_tcp_open(). */
int sl_net_open(const struct sl_net_options *options, struct sl_net **net, char *why, size_t bytes);
void sl_net_close(struct sl_net *net); /* NULL is fine */

/*
 * How often the kernel left out a call, because the same program was running on that CPU in what was interrupted
 * (as sl_tcp_catch_up() has it): a segment that was sent from an interrupt has no record then.
 */
uint64_t sl_net_left_out(const struct sl_net *net);

/* Changes the filter at run time. 0 or -errno, why as above. */
int sl_net_filter(struct sl_net *net, const struct sl_tcp_wanted *wanted, char *why, size_t bytes);

/* The region, as sl_tcp_region() and sl_tcp_region_fd(). */
const void *sl_net_region(const struct sl_net *net, size_t *bytes);
int sl_net_region_fd(const struct sl_net *net);
const struct sl_nic_info *sl_net_info(const struct sl_net *net);

#endif
