/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - the passive side: registers memory for remote reading and accepts connections over
 * librdmacm, or over a provider of libfabric (ofi_host.c). Over verbs it takes no part in a READ.
 * Single-threaded: the caller's loop polls fabric_host_fd() and calls fabric_host_dispatch().
 *
 * The private data of an accepted connection is struct fabric_host_hello: where the directory is. A
 * collector that exits disconnects, even when it is killed (its kernel does it). One whose machine
 * or link is lost cannot, and a queue pair that only responds never notices, so each connection is
 * probed every keepalive_ms by a WRITE of no bytes and freed when that fails.
 *
 * Connections are of three kinds. Readers may READ and nothing else. Notifiers may WRITE, and only
 * the verdict board is registered for that: one WRITE with immediate data per notice, so that this
 * side sleeps until there is one. Each notifier has a protection domain of its own, which holds the
 * board and nothing else; its key ends with the connection. Writers belong to a store server
 * (src/dta/store_server/rdma.c): they WRITE and FETCH_ADD into registered stores, and READ nothing.
 *
 * With a secret, readers and notifiers prove it before they get a queue pair: auth.h.
 */
#ifndef SL_FABRIC_HOST_H
#define SL_FABRIC_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FABRIC_VERBS_PORT 7475

struct fabric_host;

struct fabric_host_opts {
	const char *provider; /* of libfabric, "tcp"; NULL: verbs, by librdmacm */
	const char *device;   /* ibv device name; NULL: the one that the address is routed to */
	const char *address;  /* to listen on; NULL: the device's */
	uint16_t port;	      /* 0: FABRIC_VERBS_PORT */
	int gid_index;	      /* -1: chosen by the address */
	int ib_port;	      /* 0: 1 */
	uint32_t
		max_queues; /* limit of queue pairs; 0: 64. Further ones are rejected and counted */
	uint32_t keepalive_ms; /* interval of probes; 0: 5000 */
	bool shares;	       /* no address takes the queue pairs of others: base/share.h */
	const void *secret;    /* of readers and notifiers; NULL: none is asked for */
	size_t secret_bytes;
	uint64_t notifier_ns; /* a notifier this old is disconnected, for another key; 0: none */
};

/* Private data of RDMA-CM accept, little-endian, 48 bytes (CM allows 196 for RC). */
struct fabric_host_hello {
	uint32_t magic;	  /* "SLH1" */
	uint32_t version; /* 1 */
	uint64_t agent_instance;
	uint64_t directory_addr;
	uint64_t directory_length;
	uint32_t directory_rkey;
	uint32_t board_rkey; /* for this connection; 0: no verdict board */
	uint64_t board_addr; /* one struct sl_board_line per entry of the directory */
};

struct fabric_host_key {
	uint64_t addr;
	uint32_t rkey;
	void *mr; /* the provider's own */
};

#define FABRIC_PROVIDER_MAX 16u /* of a provider's name, terminator included */
/* "NAME:ADDR:PORT", "NAME::PORT" for loopback; port 0: any. 0 or -EINVAL. */
int fabric_host_parse(const char *text, char provider[FABRIC_PROVIDER_MAX], char address[256],
		      uint16_t *port);

/* NULL with errno and one line in error (ENODEV no such device, EADDRINUSE, EOPNOTSUPP, ...). */
struct fabric_host *fabric_host_open(const struct fabric_host_opts *opts, char *error,
				     size_t error_bytes);
/* Ends every connection. Unregister all memory first. NULL is fine. */
void fabric_host_close(struct fabric_host *h);

/* For REMOTE_READ only. map must be writable, or registration fails with EFAULT. 0 or -errno. */
int fabric_host_register(struct fabric_host *h, void *map, size_t bytes,
			 struct fabric_host_key *key);
void fabric_host_unregister(struct fabric_host *h, struct fabric_host_key *key);

/*
 * Accepts notifiers from now on, and registers the verdict board for each; once. After a failure,
 * close the host. map must stay until then. fabric_host_dispatch() calls notice with the immediate
 * data of each WRITE, which may be any number.
 */
int fabric_host_let_notify(struct fabric_host *h, void *map, size_t bytes,
			   void (*notice)(void *arg, uint32_t entry), void *arg);

/* For connections from now on; first before the first dispatch. */
void fabric_host_set_directory(struct fabric_host *h, const struct fabric_host_key *key,
			       uint64_t length, uint64_t agent_instance);

int fabric_host_fd(const struct fabric_host *h);  /* poll for reading */
void fabric_host_dispatch(struct fabric_host *h); /* never blocks */

/* ---- writers ---- */

#define FABRIC_HOST_NAME_MAX 32u /* of a writer, terminator included */

struct fabric_host_writers {
	uint64_t instance; /* that a writer must present; also in its hello */
	/* A writer asks to connect. True accepts it; then gone(queue) follows once. */
	bool (*came)(void *arg, uint64_t queue, const char *name);
	/* Its queue pair is destroyed. May be NULL, like immediate. */
	void (*gone)(void *arg, uint64_t queue, const char *name);
	void (*immediate)(void *arg, uint64_t queue, uint32_t number);
	void *arg;
};

/* Accepts writers from now on; once, and not together with a verdict board. 0, or -errno: close. */
int fabric_host_let_write(struct fabric_host *h, const struct fabric_host_writers *writers);
/* fabric_host_register() for REMOTE_WRITE and REMOTE_ATOMIC. */
int fabric_host_register_writable(struct fabric_host *h, void *map, size_t bytes,
				  struct fabric_host_key *key);
/*
 * A writer's queue pair that is not created by CM: in INIT, to be brought up by the caller; came()
 * is not called. NULL with errno: ENOSPC max_queues. Only with RDMA.
 */
struct ibv_qp *fabric_host_queue_new(struct fabric_host *h, const char *name, uint64_t *queue);
/* Destroys a queue pair of any kind; gone() is called for a writer. 0 or -ENOENT. */
int fabric_host_queue_end(struct fabric_host *h, uint64_t queue);

/* ---- introspection ---- */

struct fabric_host_queue {
	uint32_t qp_num;
	char peer[64];	/* address:port */
	char state[16]; /* "RTS", "ERR", ... */
	uint64_t connected_ns;
};
/* Fills in up to max queue pairs; returns how many there are. */
size_t fabric_host_queues(const struct fabric_host *h, struct fabric_host_queue *out, size_t max);

enum fabric_refusal {
	FABRIC_REFUSED_MALFORMED,
	FABRIC_REFUSED_PROOF,  /* no proof of the secret, or one that is wrong or used */
	FABRIC_REFUSED_SHARE,  /* of its address */
	FABRIC_REFUSED_FULL,   /* no queue pair is free */
	FABRIC_REFUSED_SYSTEM, /* not ready, no board, out of memory */
	FABRIC_REFUSED_COUNT,
};

struct fabric_host_stats {
	uint64_t accepted, rejected, disconnected, notices;
	uint64_t refused[FABRIC_REFUSED_COUNT]; /* their sum is rejected */
	uint64_t challenged, half_open;		/* half_open: dropped, as never established */
	/* Of a libfabric provider: what its thread cost this host, and what was sent. */
	uint64_t cpu_ns, sent_bytes, silent;
	bool lost; /* the device is gone: unregister all, close, and open again */
	char device[64], gid[48], address[64];
	int gid_index, ib_port;
	uint16_t port;
};
void fabric_host_stats(const struct fabric_host *h, struct fabric_host_stats *out);

#endif
