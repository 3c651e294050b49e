/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_round.h - follows a request and its response through both hosts and the network, by matching
 * layer records of client and server by connection and byte range. Performs no I/O.
 *
 * The time of both network passages together is the client's time between its device's send and
 * receive, minus the server's time between its device's receive and send. Each is a duration
 * measured by one clock, so the offset does not matter. The time of a single passage carries the
 * error bound of the offset.
 */
#ifndef SL_SOURCE_TCP_NET_ROUND_H
#define SL_SOURCE_TCP_NET_ROUND_H

#include "source/tcp/bpf/layer_shared.h"
#include "source/tcp/net_stat.h"

enum tcp_net_part { /* parts of a round, in chronological order */
		    TCP_NET_PART_CLIENT_TCP_OUT,
		    TCP_NET_PART_CLIENT_IP_OUT,
		    TCP_NET_PART_CLIENT_MAC_OUT,
		    TCP_NET_PART_WIRE_THERE,
		    TCP_NET_PART_SERVER_MAC_IN,
		    TCP_NET_PART_SERVER_IP_IN,
		    TCP_NET_PART_SERVER_TCP_IN,
		    TCP_NET_PART_SERVER_APP,
		    TCP_NET_PART_SERVER_TCP_OUT,
		    TCP_NET_PART_SERVER_IP_OUT,
		    TCP_NET_PART_SERVER_MAC_OUT,
		    TCP_NET_PART_WIRE_BACK,
		    TCP_NET_PART_CLIENT_MAC_IN,
		    TCP_NET_PART_CLIENT_IP_IN,
		    TCP_NET_PART_CLIENT_TCP_IN,
		    TCP_NET_PARTS
};
const char *tcp_net_part_name(int part); /* returns a name, such as "wire_there" */

#define TCP_NET_PART_NONE INT64_MIN /* not measured */

struct tcp_net_round {
	const struct tcp_layer_record *request; /* the server's record of the request */
	int client;				/* side of the client, 0 or 1 */
	/* times in ns; a negative passage shows the minimum error of its offset */
	int64_t part[TCP_NET_PARTS];
	int64_t wires; /* exact time of both network passages together */
	int64_t bound; /* error bound of each network passage */
	/* from the client's send call to its copy of the response, by the client's clock */
	int64_t total;
};

struct tcp_net_rounds {
	struct tcp_net_round *v;
	size_t n;
	/* Requests that were not matched, by cause. */
	uint64_t incomplete; /* the server's record has incomplete timestamps */
	/* the client's segment with the last byte of the request was not recorded */
	uint64_t no_request;
	/* the client's segment with the first byte of the response was not recorded */
	uint64_t no_response;
	uint64_t refused; /* the timestamps contradict each other */
};

/*
 * Finds the rounds in n[s] records of each side s, and sorts the records. The rounds point into the
 * records. Without a clock offset, single passages are TCP_NET_PART_NONE, but their sum is known.
 * Returns 0 or -ENOMEM.
 */
int tcp_net_rounds_find(struct tcp_layer_record *records[2], const size_t n[2],
			const struct tcp_net_stat *stat, struct tcp_net_rounds *rounds);
void tcp_net_rounds_free(struct tcp_net_rounds *rounds);

#endif
