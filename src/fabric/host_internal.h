/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_internal.h - interface between host.c, which opens the device and registers memory, and
 * host_conn.c, which handles connections. Only with HAVE_VERBS.
 */
#ifndef SL_FABRIC_HOST_INTERNAL_H
#define SL_FABRIC_HOST_INTERNAL_H

#include "fabric/gate.h"
#include "fabric/rdma.h"

#define NOTICES_OUT 64u /* maximum notices in flight per notifier */

struct fabric_conn {
	struct fabric_conn *next;
	/* connection of CM; NULL means the queue pair was not created by CM */
	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	/* a notifier's own domain, with the board registered in it; otherwise NULL */
	struct ibv_pd *pd;
	struct ibv_mr *board;
	uint8_t address[16]; /* address by which the share of queue pairs is counted */
	uint64_t serial;
	/* connected_ns is 0 until the connection is established */
	uint64_t accepted_ns, connected_ns;
	bool probing; /* true while a probe is in flight */
	bool notifies;
	bool writes;	/* the peer is a writer: call gone() at the end */
	uint32_t taken; /* number of receives to post again */
	char name[FABRIC_HOST_NAME_MAX];
};

struct fabric_verbs_host {
	struct fabric_host base;
	struct fabric_gate gate;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ibv_pd *pd; /* domain of readers or writers */
	struct ibv_cq *cq; /* shared by all connections; completes only probes */
	struct ibv_device_attr device;
	/* wakes the owner when notices from notifiers or writers arrive */
	struct ibv_comp_channel *bell;
	struct ibv_cq *notices;
	void (*notice)(void *arg, uint32_t entry);
	void *notice_arg;
	void *board;
	size_t board_bytes;
	uint64_t notifier_ns;
	struct fabric_host_writers writers; /* if came is NULL, no writers are accepted */
	int epoll, timer;
	struct fabric_conn *conns;
	uint32_t keepalive_ms;
	uint64_t serial;
};

static inline struct fabric_verbs_host *fabric_verbs_host_of(struct fabric_host *h)
{
	return (struct fabric_verbs_host *)h;
}

/* host_conn.c. Frees a connection and its queue pair. Acknowledge all events of its id first. */
void fabric_host_drop(struct fabric_verbs_host *h, struct fabric_conn *c);

/* host_conn.c. Implements struct fabric_host_ops. */
void fabric_verbs_host_dispatch(struct fabric_host *h);

#endif
