/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair_latency.h - latency between two hosts that both record TCP segments at their devices
 * (sidelight/nic.h). The matcher of 'sidelight tcp net' (source/tcp/net_stat.h) pairs the segments
 * sent by one host with those received by the other. Each ring is READ ten times per second,
 * outside the rounds. Workers hand over batches and do not wait.
 *
 * Two hosts form a pair once one has sent to an address of the other. A host's addresses are the
 * local addresses in its own records.
 */
#ifndef SL_COLLECT_TABLES_PAIR_LATENCY_H
#define SL_COLLECT_TABLES_PAIR_LATENCY_H

#include "collect/read/collect.h"
#include "source/tcp/net_stat.h"

#define COLLECT_NET_PAIRS   64u /* maximum number of pairs */
#define COLLECT_NET_PORTS   16u /* maximum services per pair; the rest are counted as port 0 */
#define COLLECT_NET_LATE_NS 10000000000u
enum collect_net_way { COLLECT_NET_THERE, COLLECT_NET_BACK, COLLECT_NET_BOTH, COLLECT_NET_WAYS };

struct collect_net_port_view {
	uint16_t port; /* port of the service; 0 means all others */
	/*
	 * By enum collect_net_way. all: since the pair was first seen; late: over the last 10 to 20
	 * s.
	 */
	const struct tcp_net_hist *all[COLLECT_NET_WAYS];
	struct tcp_net_hist late[COLLECT_NET_WAYS];
	int64_t late_ns; /* exact duration of the `late` window */
	double bound[2]; /* mean error bound over the `late` window, in ns; NaN if unknown */
	uint64_t reordered[2];
};

struct collect_net_pair_view {
	const char *target[2], *hostname[2]; /* names of hosts A and B */
	bool stale;			     /* one of the rings was not read recently */
	struct tcp_net_totals totals;
	size_t ports;
	const struct collect_net_port_view *port;
};

struct collect_net_host_view {
	const char *target, *hostname;
	bool present;	    /* the host has a ring now */
	uint64_t records;   /* number of records read */
	uint64_t missed;    /* records overwritten before they were read, or beyond WAITING_MAX */
	uint64_t headless;  /* packets whose header the host's programs could not read */
	uint64_t elsewhere; /* records whose other end is not a host of this collector */
	uint64_t shared;    /* records whose other end's address is claimed by two hosts */
};

/* Views are valid during the call. Thread-safe; blocks matching, but no worker. */
void collect_collector_pair_latency(struct collect_collector *c,
				    void (*fn)(const struct collect_net_pair_view *, void *),
				    void *arg);
void collect_collector_net_hosts(struct collect_collector *c,
				 void (*fn)(const struct collect_net_host_view *, void *),
				 void *arg);
/* Returns the number of records refused because they belong to pairs beyond the limit. */
uint64_t collect_collector_net_refused(struct collect_collector *c);

#endif
