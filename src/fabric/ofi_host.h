/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ofi_host.h - shared by ofi_host.c, whose thread serves, and ofi_sockets.c, which keeps an eye on
 * the provider's sockets. Only with HAVE_LIBFABRIC.
 */
#ifndef SL_FABRIC_OFI_HOST_H
#define SL_FABRIC_OFI_HOST_H

#include <dirent.h>
#include <pthread.h>

#include "fabric/host_ops.h"
#include "fabric/ofi.h"

#define NOTICES_OUT  8u /* in flight per notifier */
#define READY_MAX    (FABRIC_NOTIFIERS_MAX * NOTICES_OUT)
#define SUSPECTS_MAX 64u /* sockets that have not asked to connect */

struct fabric_ofi_conn {
	struct fabric_ofi_conn *next;
	struct fid_ep *ep;
	struct sockaddr_storage peer;
	uint8_t address[16]; /* by which connections are shared */
	uint32_t serial;
	uint64_t accepted_ns, connected_ns; /* 0: not established */
	struct fabric_ofi_notices *notices; /* of a notifier */
	int fd;				    /* its socket; -1: not found yet */
	uint64_t sent;			    /* bytes of it, counted so far */
};

/* What a notifier may have in flight. */
struct fabric_ofi_slot {
	struct fabric_ofi_notice notice;
	struct fabric_ofi_notices *of;
	bool queued;
};
struct fabric_ofi_notices {
	struct fabric_ofi_conn *conn; /* NULL: free */
	struct fabric_ofi_slot slot[NOTICES_OUT];
};

struct fabric_ofi_suspect {
	struct sockaddr_storage peer;
	uint64_t since_ns; /* 0: free */
	bool seen;
};

struct fabric_ofi_host {
	struct fabric_host base;
	pthread_mutex_t lock; /* of all below, and of every call into libfabric but fi_trywait() */
	struct fabric_gate gate;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_pep *passive;
	struct fid_domain *domain;
	struct fid_cq *cq;
	int eq_fd, cq_fd, stop, bell; /* the last two: eventfd(2) */
	pthread_t thread;
	bool running;
	struct fabric_ofi_conn *conns;
	uint32_t serial;

	void (*notice)(void *arg, uint32_t entry);
	void *notice_arg, *board;
	size_t board_bytes;
	struct fabric_ofi_notices notices[FABRIC_NOTIFIERS_MAX];
	struct fabric_ofi_slot *ready[READY_MAX]; /* a ring */
	uint32_t ready_head, ready_count;

	DIR *descriptors; /* /proc/self/fd; NULL: sockets are not watched */
	uint16_t port;
	uint64_t swept_ns;
	struct fabric_ofi_suspect suspect[SUSPECTS_MAX];
	uint32_t suspects;
	uint64_t rung_ns; /* when the caller was last woken to count */
};

/*
 * ofi_sockets.c. libfabric's tcp waits without end for the first bytes of a connection, and for a
 * peer whose machine is lost. So sockets of the port that belong to no connection are shut down
 * when they are old or too many; those of connections get keepalive. Also counts what was sent.
 */
void fabric_ofi_sweep(struct fabric_ofi_host *h, uint64_t now_ns);
void fabric_ofi_sent(struct fabric_ofi_host *h, struct fabric_ofi_conn *c);

#endif
