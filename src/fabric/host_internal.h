/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_internal.h - shared by host.c, which opens the device and registers memory, and host_conn.c,
 * which handles connections. Only with HAVE_VERBS.
 */
#ifndef SL_FABRIC_HOST_INTERNAL_H
#define SL_FABRIC_HOST_INTERNAL_H

#include "fabric/auth.h"
#include "fabric/host.h"
#include "fabric/rdma.h"

#define NOTIFIERS_MAX 16u /* queue pairs */
#define NOTICES_OUT   64u /* in flight per notifier */

struct fabric_conn {
	struct fabric_conn *next;
	struct rdma_cm_id *id; /* NULL: not created by CM */
	struct ibv_qp *qp;
	struct ibv_pd *pd; /* a notifier's own, with its registration of the board; else NULL */
	struct ibv_mr *board;
	uint8_t address[16]; /* by which queue pairs are shared */
	uint64_t serial;
	uint64_t accepted_ns, connected_ns; /* 0: not established */
	bool probing;			    /* a probe is in flight */
	bool notifies;
	bool writes;	/* a writer: gone() is called */
	uint32_t taken; /* receives to post again */
	char name[FABRIC_HOST_NAME_MAX];
};

struct fabric_host {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ibv_pd *pd; /* of readers or writers */
	struct ibv_cq *cq; /* of all connections; completes only probes */
	struct ibv_device_attr device;
	struct ibv_comp_channel *bell; /* notifiers or writers: signals notices */
	struct ibv_cq *notices;
	uint32_t notifiers;
	void (*notice)(void *arg, uint32_t entry);
	void *notice_arg;
	void *board;
	size_t board_bytes;
	struct fabric_auth *auth; /* NULL: no secret */
	bool shares;
	uint64_t notifier_ns;
	struct fabric_host_writers writers; /* came NULL: no writers */
	int epoll, timer;
	struct fabric_conn *conns;
	uint32_t conn_count, max_queues, keepalive_ms;
	uint64_t serial;
	struct fabric_host_hello hello; /* magic 0: no directory yet, readers are rejected */
	struct fabric_host_stats stats;
};

/* A connection request: a copy of its private data, padded with zeros. */
struct fabric_host_request {
	union {
		struct fabric_verbs_request plain;
		struct fabric_verbs_proof proof; /* with FABRIC_VERBS_PROOF */
	};
	uint32_t queue; /* the peer's */
	uint8_t reads;	/* that it wants in flight */
	uint8_t address[16];
};

/*
 * host_admit.c. Whether the request gets a queue pair. If not, say is the answer, with the cause,
 * or a challenge: error 0.
 */
bool fabric_host_admits(struct fabric_host *h, const struct rdma_cm_id *id,
			const struct fabric_host_request *r, enum fabric_refusal *cause,
			struct fabric_verbs_refusal *say);
/* Of connections that count together: an address, or the /64 of an IPv6 one that is routed. */
void fabric_host_share_of(const struct sockaddr *peer, uint8_t address[16]);

/* host_conn.c. Frees a connection and its queue pair. All events of its id must be acknowledged. */
void fabric_host_drop(struct fabric_host *h, struct fabric_conn *c);

#endif
