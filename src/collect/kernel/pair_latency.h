/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nets.h - latency between hosts that both record TCP segments at their devices (sidelight/nic.h),
 * as the collector makes it of their rings: what one host sent is matched with what the other got,
 * by the same matcher as 'sidelight tcp net' (source/tcp/net_stat.h).
 *
 *   net_ring.c  a link's part: READs a host's ring, ten times a second, beside the rounds
 *   nets.c      a thread that routes records to pairs of hosts, matches and counts; and the views
 *
 * The worker hands over batches, and waits for nobody. A pair is two hosts of which one sent to an
 * address that is the other's; a host's addresses are those that its own segments bear at its end.
 */
#ifndef SL_COLLECT_KERNEL_PAIR_LATENCY_H
#define SL_COLLECT_KERNEL_PAIR_LATENCY_H

#include "collect/collect.h"
#include "source/tcp/net_stat.h"

#define COLLECT_NET_PAIRS   64u /* of hosts, by default */
#define COLLECT_NET_PORTS   16u /* of services of a pair; the rest is port 0 */
#define COLLECT_NET_LATE_NS 10000000000u
enum collect_net_way { COLLECT_NET_THERE, COLLECT_NET_BACK, COLLECT_NET_BOTH, COLLECT_NET_WAYS };

struct collect_net_port_view {
	uint16_t port; /* of the service; 0: others */
	/* By enum collect_net_way; all since the pair is known, late of the last 10 to 20 s. */
	const struct tcp_net_hist *all[COLLECT_NET_WAYS];
	struct tcp_net_hist late[COLLECT_NET_WAYS];
	int64_t late_ns; /* how long exactly */
	double bound[2]; /* ns: mean of those in late; NaN: none */
	uint64_t reordered[2];
};

struct collect_net_pair_view {
	const char *target[2], *hostname[2]; /* of A, of B */
	bool stale;			     /* one of the rings was not read for long */
	struct tcp_net_totals totals;
	size_t ports;
	const struct collect_net_port_view *port;
};

struct collect_net_host_view {
	const char *target, *hostname;
	bool present;	    /* it has a ring now */
	uint64_t records;   /* read */
	uint64_t missed;    /* overwritten before they were read, or no room for them here */
	uint64_t headless;  /* packets whose header its programs could not read */
	uint64_t elsewhere; /* records whose other end is no host of ours */
	uint64_t shared;    /* records whose other end's address two hosts claim */
};

/* Views are valid during the call. Any thread; holds up the one that matches, and no worker. */
void collect_collector_pair_latency(struct collect_collector *c,
				    void (*fn)(const struct collect_net_pair_view *, void *),
				    void *arg);
void collect_collector_net_hosts(struct collect_collector *c,
				 void (*fn)(const struct collect_net_host_view *, void *),
				 void *arg);
/* Pairs that there was no room for. */
uint64_t collect_collector_net_refused(struct collect_collector *c);

#endif
