/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_internal.h - what host.c, which opens the device and registers memory, and host_conn.c,
 * which lets queue pairs come and go, share. Included by these two alone, and only with HAVE_VERBS.
 */
#ifndef SL_FABRIC_HOST_INTERNAL_H
#define SL_FABRIC_HOST_INTERNAL_H

#include "fabric/host.h"
#include "fabric/rdma.h"

#define NOTIFIERS_MAX 16u /* of the queue pairs */
#define NOTICES_OUT   64u /* that one of them may make before we have looked */

struct fabric_conn {
	struct fabric_conn *next;
	struct rdma_cm_id *id; /* NULL: of a queue pair that was not made by CM */
	struct ibv_qp *qp;
	uint64_t serial;
	uint64_t connected_ns; /* 0: not yet established */
	bool probing;	       /* a probe is on its way */
	bool notifies;
	bool writes;	/* a writer's: it is told of when it ends */
	uint32_t taken; /* its receives that are to be posted again */
	char name[FABRIC_HOST_NAME_MAX];
};

struct fabric_host {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ibv_pd *pd;
	struct ibv_cq *cq; /* of all connections: holds nothing but ends of probes */
	struct ibv_device_attr device;
	struct ibv_comp_channel *bell; /* with a board, or writers: rings when there are notices */
	struct ibv_cq *notices;
	uint32_t notifiers;
	void (*notice)(void *arg, uint32_t entry);
	void *notice_arg;
	struct fabric_host_writers writers; /* came NULL: there are none */
	int epoll, timer;
	struct fabric_conn *conns;
	uint32_t conn_count, max_queues, keepalive_ms;
	uint64_t serial;
	struct fabric_host_hello hello; /* magic 0: no directory yet, no reader is let in */
	struct fabric_host_stats stats;
};

/* host_conn.c. Frees a connection and its queue pair at once. No event of its id may be
 * unacknowledged. */
void fabric_host_drop(struct fabric_host *h, struct fabric_conn *c);

#endif
