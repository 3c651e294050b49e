/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ofi_host.h - interface between ofi_host.c, whose thread answers READs, and ofi_sockets.c, which
 * monitors the provider's sockets. Only with HAVE_LIBFABRIC.
 */
#ifndef SL_FABRIC_OFI_HOST_H
#define SL_FABRIC_OFI_HOST_H

#include <dirent.h>
#include <pthread.h>

#include "fabric/host_ops.h"
#include "fabric/ofi.h"

#define NOTICES_OUT  8u /* maximum notices in flight per notifier */
#define READY_MAX    (FABRIC_NOTIFIERS_MAX * NOTICES_OUT)
#define SUSPECTS_MAX 64u /* maximum number of sockets without a connection request yet */

struct fabric_ofi_conn {
	struct fabric_ofi_conn *next;
	struct fid_ep *ep;
	struct sockaddr_storage peer;
	uint8_t address[16]; /* address by which the share of connections is counted */
	uint32_t serial;
	/* connected_ns is 0 until the connection is established */
	uint64_t accepted_ns, connected_ns;
	struct fabric_ofi_notices *notices; /* messages of a notifier; NULL for a reader */
	int fd;				    /* socket of the connection; -1 means not found yet */
	uint64_t sent;			    /* bytes sent on the socket when last counted */
};

/* A message that a notifier may have in flight. */
struct fabric_ofi_slot {
	struct fabric_ofi_notice notice;
	struct fabric_ofi_notices *of;
	bool queued;
};
struct fabric_ofi_notices {
	struct fabric_ofi_conn *conn; /* connection of the notifier; NULL means unused */
	struct fabric_ofi_slot slot[NOTICES_OUT];
};

struct fabric_ofi_suspect {
	struct sockaddr_storage peer;
	uint64_t since_ns; /* time when the socket was first seen; 0 means unused */
	bool seen;
};

struct fabric_ofi_host {
	struct fabric_host base;
	/* protects all below, and every call into libfabric except fi_trywait() */
	pthread_mutex_t lock;
	struct fabric_gate gate;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_pep *passive;
	struct fid_domain *domain;
	struct fid_cq *cq;
	int eq_fd, cq_fd, stop, bell; /* stop and bell are eventfd(2) */
	pthread_t thread;
	bool running;
	struct fabric_ofi_conn *conns;
	uint32_t serial;

	void (*notice)(void *arg, uint32_t entry);
	void *notice_arg, *board;
	size_t board_bytes;
	struct fabric_ofi_notices notices[FABRIC_NOTIFIERS_MAX];
	struct fabric_ofi_slot *ready[READY_MAX]; /* ring of messages ready for the caller */
	uint32_t ready_head, ready_count;

	DIR *descriptors; /* /proc/self/fd; NULL means sockets are not monitored */
	uint16_t port;
	uint64_t swept_ns;
	struct fabric_ofi_suspect suspect[SUSPECTS_MAX];
	uint32_t suspects;
	uint64_t rung_ns; /* time when the caller was last woken to read the counters */
};

/*
 * ofi_sockets.c. libfabric's tcp waits forever for the first bytes of a connection, and for a peer
 * whose machine is lost. So sockets of the port that belong to no connection are shut down if they
 * are old or too many; sockets of connections get keepalive. Also counts sent bytes.
 */
void fabric_ofi_sweep(struct fabric_ofi_host *h, uint64_t now_ns);
void fabric_ofi_sent(struct fabric_ofi_host *h, struct fabric_ofi_conn *c);

#endif
