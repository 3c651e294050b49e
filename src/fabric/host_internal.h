/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_internal.h - shared by host.c, which opens the device and registers memory, and host_conn.c,
 * which handles connections. Only with HAVE_VERBS.
 */
#ifndef SL_FABRIC_HOST_INTERNAL_H
#define SL_FABRIC_HOST_INTERNAL_H

#include "fabric/host.h"
#include "fabric/rdma.h"

#define NOTIFIERS_MAX 16u /* queue pairs */
#define NOTICES_OUT   64u /* in flight per notifier */

struct fabric_conn {
	struct fabric_conn *next;
	struct rdma_cm_id *id; /* NULL: not created by CM */
	struct ibv_qp *qp;
	uint64_t serial;
	uint64_t connected_ns; /* 0: not established */
	bool probing;	       /* a probe is in flight */
	bool notifies;
	bool writes;	/* a writer: gone() is called */
	uint32_t taken; /* receives to post again */
	char name[FABRIC_HOST_NAME_MAX];
};

struct fabric_host {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ibv_pd *pd;
	struct ibv_cq *cq; /* of all connections; completes only probes */
	struct ibv_device_attr device;
	struct ibv_comp_channel *bell; /* notifiers or writers: signals notices */
	struct ibv_cq *notices;
	uint32_t notifiers;
	void (*notice)(void *arg, uint32_t entry);
	void *notice_arg;
	struct fabric_host_writers writers; /* came NULL: no writers */
	int epoll, timer;
	struct fabric_conn *conns;
	uint32_t conn_count, max_queues, keepalive_ms;
	uint64_t serial;
	struct fabric_host_hello hello; /* magic 0: no directory yet, readers are rejected */
	struct fabric_host_stats stats;
};

/* host_conn.c. Frees a connection and its queue pair. All events of its id must be acknowledged. */
void fabric_host_drop(struct fabric_host *h, struct fabric_conn *c);

#endif
