/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_round.h - a request and its response through both hosts and the network: layer records of
 * client and server, matched by connection and bytes. Pure but for memory.
 *
 * Both network passages together take what the client measured between its device's send and
 * receive, less what the server measured between its own: two durations by one clock each, so no
 * offset is involved. Each passage by itself carries the bound of the offset.
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
	const struct tcp_layer_record *request; /* the server's record */
	int client;				/* side */
	int64_t part[TCP_PARTS]; /* ns; negative network passages are off by at least that */
	int64_t wires;		 /* both passages together, exact */
	int64_t bound;		 /* of each passage */
	int64_t total;		 /* from the client's call to its copy, by its clock */
};

struct tcp_net_rounds {
	struct tcp_net_round *v;
	size_t n;
	/* Requests that are not matched, by cause. */
	uint64_t incomplete;  /* the server's times are incomplete */
	uint64_t no_request;  /* client's segment with the request's last byte not recorded */
	uint64_t no_response; /* client's segment with the response's first byte not recorded */
	uint64_t refused;     /* contradictory times */
};

/*
 * records[s]: n[s] records of side s; sorts them. The rounds refer to them. Without an offset the
 * single passages are TCP_PART_NONE, their sum is not. 0 or -ENOMEM.
 */
int tcp_net_rounds_find(struct tcp_layer_record *records[2], const size_t n[2],
			const struct tcp_net_stat *stat, struct tcp_net_rounds *rounds);
void tcp_net_rounds_free(struct tcp_net_rounds *rounds);

#endif
