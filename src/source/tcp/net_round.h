/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_round.h - a request and its response through both hosts and the wire: the records of layers
 * of the client and of the server, put together by connection and by the bytes that they carry.
 * Pure but for memory.
 *
 * Both wires together are what the client saw between its device and back, less what the server saw
 * between its own: two durations, each by one clock, so that no offset is in it. Each wire by
 * itself bears the bound of the offset.
 */
#ifndef SL_SOURCE_TCP_NET_ROUND_H
#define SL_SOURCE_TCP_NET_ROUND_H

#include "source/tcp/bpf/layer_shared.h"
#include "source/tcp/net_stat.h"

enum tcp_net_part { /* in the order of time */
		    TCP_PART_CLIENT_TCP_OUT,
		    TCP_PART_CLIENT_IP_OUT,
		    TCP_PART_CLIENT_MAC_OUT,
		    TCP_PART_WIRE_THERE,
		    TCP_PART_SERVER_MAC_IN,
		    TCP_PART_SERVER_IP_IN,
		    TCP_PART_SERVER_TCP_IN,
		    TCP_PART_SERVER_APP,
		    TCP_PART_SERVER_TCP_OUT,
		    TCP_PART_SERVER_IP_OUT,
		    TCP_PART_SERVER_MAC_OUT,
		    TCP_PART_WIRE_BACK,
		    TCP_PART_CLIENT_MAC_IN,
		    TCP_PART_CLIENT_IP_IN,
		    TCP_PART_CLIENT_TCP_IN,
		    TCP_PARTS
};
const char *tcp_net_part_name(int part); /* "wire_there" */

#define TCP_PART_NONE INT64_MIN /* not measured */

struct tcp_net_round {
	const struct tcp_layer_record *request; /* as the server saw it */
	int client;				/* side */
	int64_t part[TCP_PARTS]; /* ns; wires may be negative, and then are off by that at least */
	int64_t wires;		 /* both together, exact */
	int64_t bound;		 /* of each wire */
	int64_t total;		 /* from the client's call to its copy: by its clock */
};

struct tcp_net_rounds {
	struct tcp_net_round *v;
	size_t n;
	/* Requests of servers that are none of them, by cause. */
	uint64_t incomplete;  /* the server's times are not complete */
	uint64_t no_request;  /* the client's segment with the request's last byte was not seen */
	uint64_t no_response; /* ... with the response's first byte */
	uint64_t refused;     /* times that contradict each other */
};

/*
 * records[s]: of side s, n[s] of them; sorted on the way. The rounds refer to them. 0 or -ENOMEM.
 * Without an offset the wires are TCP_PART_NONE; their sum is not.
 */
int tcp_net_rounds_find(struct tcp_layer_record *records[2], const size_t n[2],
			const struct tcp_net_stat *stat, struct tcp_net_rounds *rounds);
void tcp_net_rounds_free(struct tcp_net_rounds *rounds);

#endif
