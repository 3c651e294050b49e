/* SPDX-License-Identifier: Apache-2.0 */
/* families.h - the collector's own series about kernel tables */
#ifndef SL_COLLECT_TABLES_FAMILIES_H
#define SL_COLLECT_TABLES_FAMILIES_H

#include "collect/read/self.h"
#include "collect/tables/pair_latency.h"

extern const struct collect_self_group collect_self_tcp; /* families.c */
extern const struct collect_self_group collect_self_net; /* net_families.c */

struct collect_net_port {
	char text[8]; /* port number, or "other" */
	struct tcp_net_hist hist[COLLECT_NET_WAYS];
};

struct collect_net_pair {
	const char *target[2], *hostname[2]; /* valid until the collector is freed */
	struct tcp_net_totals totals;
	size_t ports;
	struct collect_net_port *port;
};

/* Pair latencies, copied at the start of the walk. */
struct collect_self_net {
	size_t pairs;
	struct collect_net_pair pair[COLLECT_NET_PAIRS];
	size_t hosts;
	struct collect_net_host_view *host;
	uint64_t refused;
	uint64_t bucket[TCP_NET_BUCKETS];
	bool failed;
};

bool collect_self_net_begin(struct collect_self *s); /* returns false if out of memory */
void collect_self_net_end(struct collect_self *s);

#endif
