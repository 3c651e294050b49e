/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - the owner's side of RDMA: registers objects for remote writing, lets translators
 * connect, and tells when one of them can do nothing more. It takes no part in a WRITE or a
 * FETCH_ADD.
 *
 * Two kinds of queue pairs: those that come by RDMA-CM (output verbs), and those whose other end is
 * made by hand (output raw), which control.h's "queue" messages set up. Both may WRITE and
 * FETCH_ADD into what is registered, and READ nothing.
 *
 * Single-threaded: the owner's loop polls dta_rdma_host_fd() and calls dta_rdma_host_dispatch(),
 * from which all callbacks come; gone(), and immediate() for what had come until then, also out of
 * dta_rdma_host_end() and dta_rdma_host_close().
 */
#ifndef SL_DTA_IO_RDMA_HOST_H
#define SL_DTA_IO_RDMA_HOST_H

#include "dta/io/roce.h"

#define DTA_VERBS_PORT 7476
#define DTA_NAME_MAX   32u /* of a translator, with its end */

struct dta_rdma_host;

struct dta_rdma_host_opts {
	const char *device;  /* ibv device name; NULL: the one that the address routes to, or the
				first */
	const char *address; /* to listen on; NULL: the device's */
	uint16_t port;	     /* of RDMA-CM; 0: DTA_VERBS_PORT */
	int gid_index;	     /* -1: chosen by the address */
	int ib_port;	     /* 0: 1 */
	uint32_t max_queues; /* of both kinds together; 0: 64 */
	uint32_t
		keepalive_ms; /* how often a silent translator is probed for being there; 0: 5000 */
	/*
	 * Of the owner, as its welcome says it. Who connects must know it, so that nobody gets in
	 * by RDMA who was not let in by the control channel: choose it at random.
	 */
	uint64_t instance;
	/*
	 * A translator asks to connect; name is printable. True lets it in, and gone(queue) will be
	 * called once. queue: never given twice. NULL: everybody who knows the instance.
	 */
	bool (*came)(void *arg, uint64_t queue, const char *name);
	/* Its queue pair has been destroyed: no WRITE or FETCH_ADD of it can arrive any more. */
	void (*gone)(void *arg, uint64_t queue, const char *name);
	/* A WRITE with immediate; number is what the translator says, anything. */
	void (*immediate)(void *arg, uint64_t queue, uint32_t number);
	void *arg;
};

/* NULL with errno and one line in error: ENODEV, EADDRINUSE, EOPNOTSUPP built without RDMA, ... */
struct dta_rdma_host *dta_rdma_host_open(const struct dta_rdma_host_opts *opts, char *error,
					 size_t error_bytes);
/* Ends every queue pair (gone() is called). Unregister all memory first. NULL is nothing. */
void dta_rdma_host_close(struct dta_rdma_host *h);

struct dta_rdma_host_key {
	uint64_t addr; /* of the first byte: as "object" says it */
	uint32_t rkey;
	void *mr; /* the device's */
};
/*
 * REMOTE_WRITE and REMOTE_ATOMIC, never REMOTE_READ. map: of page-aligned, writable, shared memory.
 * 0 or -errno: -ENOMEM also where `ulimit -l` is too low.
 */
int dta_rdma_host_register(struct dta_rdma_host *h, void *map, uint64_t bytes,
			   struct dta_rdma_host_key *key);
void dta_rdma_host_unregister(struct dta_rdma_host *h, struct dta_rdma_host_key *key);

int dta_rdma_host_fd(const struct dta_rdma_host *h);  /* poll for reading */
void dta_rdma_host_dispatch(struct dta_rdma_host *h); /* never blocks */

/*
 * Output raw: makes a queue pair towards theirs, which came in a "queue" message, and says what to
 * answer. came() is not asked. May wait for an answer to ARP. 0; -EINVAL theirs is not sound;
 * -ENOSPC max_queues; -errno of the device.
 */
int dta_rdma_host_queue(struct dta_rdma_host *h, const char *name,
			const struct dta_roce_end *theirs, struct dta_roce_end *ours,
			uint64_t *queue);
/* Destroys one of either kind, and calls gone(). -ENOENT. */
int dta_rdma_host_end(struct dta_rdma_host *h, uint64_t queue);

struct dta_rdma_host_stats {
	uint64_t accepted, rejected, ended, immediates, registered_objects, registered_bytes;
	uint32_t queues;
	bool lost; /* the device is gone: close, and open again when it is back */
	char device[64], gid[48], address[64];
	uint16_t port; /* of RDMA-CM: for the welcome */
};
void dta_rdma_host_stats(const struct dta_rdma_host *h, struct dta_rdma_host_stats *out);

#endif
