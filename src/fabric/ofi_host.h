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

struct ofi_conn {
	struct ofi_conn *next;
	struct fid_ep *ep;
	struct sockaddr_storage peer;
	uint8_t address[16]; /* by which connections are shared */
	uint32_t serial;
	uint64_t accepted_ns, connected_ns; /* 0: not established */
	struct ofi_notices *notices;	    /* of a notifier */
	int fd;				    /* its socket; -1: not found yet */
	uint64_t sent;			    /* bytes of it, counted so far */
};

/* What a notifier may have in flight. */
struct ofi_slot {
	struct ofi_notice notice;
	struct ofi_notices *of;
	bool queued;
};
struct ofi_notices {
	struct ofi_conn *conn; /* NULL: free */
	struct ofi_slot slot[NOTICES_OUT];
};

struct ofi_suspect {
	struct sockaddr_storage peer;
	uint64_t since_ns; /* 0: free */
	bool seen;
};

struct ofi_host {
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
	struct ofi_conn *conns;
	uint32_t serial;

	void (*notice)(void *arg, uint32_t entry);
	void *notice_arg, *board;
	size_t board_bytes;
	struct ofi_notices notices[FABRIC_NOTIFIERS_MAX];
	struct ofi_slot *ready[READY_MAX]; /* a ring */
	uint32_t ready_head, ready_count;

	DIR *descriptors; /* /proc/self/fd; NULL: sockets are not watched */
	uint16_t port;
	uint64_t swept_ns;
	struct ofi_suspect suspect[SUSPECTS_MAX];
	uint32_t suspects;
	uint64_t rung_ns; /* when the caller was last woken to count */
};

/*
 * ofi_sockets.c. libfabric's tcp waits without end for the first bytes of a connection, and for a
 * peer whose machine is lost. So sockets of the port that belong to no connection are shut down
 * when they are old or too many; those of connections get keepalive. Also counts what was sent.
 */
void fabric_ofi_sweep(struct ofi_host *h, uint64_t now_ns);
void fabric_ofi_sent(struct ofi_host *h, struct ofi_conn *c);

#endif
