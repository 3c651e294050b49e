// SPDX-License-Identifier: Apache-2.0
/* net_round.c - follows requests and responses through both hosts and the network between them. */
#include "source/tcp/net_round.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* longest time between devices for which one clock offset is used */
#define ONE_OFFSET_NS 100000000u

static const char *const names[TCP_NET_PARTS] = {
	"client_tcp_out", "client_ip_out", "client_mac_out", "wire_there",     "server_mac_in",
	"server_ip_in",	  "server_tcp_in", "server_app",     "server_tcp_out", "server_ip_out",
	"server_mac_out", "wire_back",	   "client_mac_in",  "client_ip_in",   "client_tcp_in"};

const char *tcp_net_part_name(int part)
{
	return names[part];
}

/* Orders records by kind, connection and sequence number. */
static int compare_records(const void *x, const void *y)
{
	const struct tcp_layer_record *a = x, *b = y;
	int c = (int)a->kind - b->kind;

	c = c ? c : memcmp(a->key.local, b->key.local, 16);
	c = c ? c : memcmp(a->key.remote, b->key.remote, 16);
	c = c ? c : (int)a->key.local_port - b->key.local_port;
	c = c ? c : (int)a->key.remote_port - b->key.remote_port;
	if (c)
		return c;
	return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Finds the peer's segment that contains a byte. Returns NULL if there is none or more than one. */
static const struct tcp_layer_record *find_segment(const struct tcp_layer_record *v, size_t n,
						   const struct tcp_layer_record *server,
						   enum tcp_record_kind kind, uint32_t byte)
{
	struct tcp_layer_record want = {.kind = (uint8_t)kind, .seq = byte};
	size_t a;

	memcpy(want.key.local, server->key.remote, 16);
	memcpy(want.key.remote, server->key.local, 16);
	want.key.local_port = server->key.remote_port;
	want.key.remote_port = server->key.local_port;
	BASE_LOWER_BOUND(a, 0, n, compare_records(&v[a], &want) <= 0);
	if (!a || byte - v[a - 1].seq >= v[a - 1].length)
		return NULL;
	want.seq = v[a - 1].seq;
	if (compare_records(&v[a - 1], &want))
		return NULL;
	if (a > 1 && !compare_records(&v[a - 2], &want))
		/* there is another connection with the same ports, or a retransmission */
		return NULL;
	return &v[a - 1];
}

static int64_t elapsed_ns(uint64_t from, uint64_t to)
{
	return from && to ? (int64_t)(to - from) : TCP_NET_PART_NONE;
}

static bool assemble_round(struct tcp_net_round *r, const struct tcp_layer_record *q,
			   const struct tcp_layer_record *out, const struct tcp_layer_record *in,
			   const struct tcp_net_stat *stat)
{
	const uint64_t there[] = {out->sent, out->ip_out, out->queued, out->nic_out};
	const uint64_t server[] = {q->nic_in, q->ip_in,	 q->tcp_in, q->copied,
				   q->sent,   q->ip_out, q->queued, q->nic_out};
	const uint64_t back[] = {in->nic_in, in->ip_in, in->tcp_in, in->copied};
	int64_t theta[2], bound[2];
	bool a = r->client == 0;

	r->request = q;
	for (int i = 0; i < 3; i++) {
		r->part[TCP_NET_PART_CLIENT_TCP_OUT + i] = elapsed_ns(there[i], there[i + 1]);
		r->part[TCP_NET_PART_CLIENT_MAC_IN + i] = elapsed_ns(back[i], back[i + 1]);
	}
	for (int i = 0; i < 7; i++)
		r->part[TCP_NET_PART_SERVER_MAC_IN + i] = elapsed_ns(server[i], server[i + 1]);
	for (int i = 0; i < TCP_NET_PARTS; i++)
		if (i != TCP_NET_PART_WIRE_THERE && i != TCP_NET_PART_WIRE_BACK && r->part[i] < 0 &&
		    r->part[i] != TCP_NET_PART_NONE)
			return false;
	if (!out->nic_out || !in->nic_in || in->nic_in < out->nic_out)
		return false;
	r->total = elapsed_ns(out->sent, in->copied);
	r->wires = (int64_t)(in->nic_in - out->nic_out) - (int64_t)(q->nic_out - q->nic_in);
	r->part[TCP_NET_PART_WIRE_THERE] = r->part[TCP_NET_PART_WIRE_BACK] = TCP_NET_PART_NONE;
	/* B's clock minus A's, at the request's arrival and at the response's departure. */
	if (!tcp_net_stat_theta(stat, (int64_t)(a ? out->nic_out : q->nic_in), &theta[0],
				&bound[0]) ||
	    !tcp_net_stat_theta(stat, (int64_t)(a ? in->nic_in : q->nic_out), &theta[1], &bound[1]))
		return true;
	r->bound = bound[0] > bound[1] ? bound[0] : bound[1];
	/* Use the same clock offset in both directions, so that the parts add up to the total. */
	if (in->nic_in - out->nic_out <= ONE_OFFSET_NS) {
		int64_t apart = theta[1] - theta[0];

		theta[0] = theta[1] = theta[0] + apart / 2;
		r->bound += (llabs(apart) + 1) / 2;
	}
	r->part[TCP_NET_PART_WIRE_THERE] = (int64_t)(q->nic_in - out->nic_out) -
					   (a ? theta[0] : -theta[0]);
	r->part[TCP_NET_PART_WIRE_BACK] = (int64_t)(in->nic_in - q->nic_out) +
					  (a ? theta[1] : -theta[1]);
	return true;
}

int tcp_net_rounds_find(struct tcp_layer_record *records[2], const size_t n[2],
			const struct tcp_net_stat *stat, struct tcp_net_rounds *rounds)
{
	memset(rounds, 0, sizeof(*rounds));
	rounds->v = calloc(n[0] + n[1] + 1, sizeof(*rounds->v));
	if (!rounds->v)
		return -ENOMEM;
	for (int s = 0; s < 2; s++)
		if (n[s])
			qsort(records[s], n[s], sizeof(*records[s]), compare_records);
	for (int s = 0; s < 2; s++) {
		for (size_t i = 0; i < n[s]; i++) {
			const struct tcp_layer_record *q = &records[s][i], *out, *in;
			struct tcp_net_round *r = &rounds->v[rounds->n];

			if (q->kind != TCP_RECORD_REQUEST)
				break; /* requests come first in the sorted records */
			if (!q->length || !q->nic_in || !q->nic_out || q->nic_out < q->nic_in) {
				rounds->incomplete++;
				continue;
			}
			out = find_segment(records[!s], n[!s], q, TCP_RECORD_OUT,
					   q->seq + q->length - 1);
			in = find_segment(records[!s], n[!s], q, TCP_RECORD_IN, q->response_seq);
			r->client = !s;
			if (!out)
				rounds->no_request++;
			else if (!in)
				rounds->no_response++;
			else if (!assemble_round(r, q, out, in, stat))
				rounds->refused++;
			else
				rounds->n++;
		}
	}
	return 0;
}

void tcp_net_rounds_free(struct tcp_net_rounds *rounds)
{
	free(rounds->v);
	memset(rounds, 0, sizeof(*rounds));
}
