/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - the passive side: registers memory for remote reading and accepts connections over
 * librdmacm, or over TCP (tcp_host.c). Over verbs it takes no part in a READ.
 * Single-threaded: the caller's loop polls fabric_host_fd() and calls fabric_host_dispatch().
 *
 * The private data of an accepted connection is struct fabric_host_hello, which locates the
 * directory. A collector that exits disconnects, even if it is killed (its kernel does so). If its
 * machine or link is lost, it cannot, and a queue pair that only responds never notices. So each
 * connection is probed every keepalive_ms by an empty WRITE, and freed when that fails.
 *
 * There are three kinds of connections. Readers may READ and nothing else. Notifiers may WRITE, and
 * only the verdict board is registered for that: one WRITE with immediate data per notice, so that
 * this side sleeps until one arrives. Each notifier has a protection domain of its own, which holds
 * only the board; its key is invalidated with the connection. Writers belong to a store server
 * (src/dta/store_server/rdma.c): they WRITE and FETCH_ADD into registered stores, and READ nothing.
 *
 * With a secret, readers and notifiers must authenticate before they get a queue pair (auth.h).
 */
#ifndef SL_FABRIC_HOST_H
#define SL_FABRIC_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FABRIC_VERBS_PORT 7475

struct fabric_host;

struct fabric_host_opts {
	bool tcp; /* READs over TCP, for a host without RDMA */
	/* name of the ibv device; NULL means the device that has the address */
	const char *device;
	const char *address; /* address to listen on; NULL means the device's address */
	uint16_t port;	     /* port to listen on; 0 means FABRIC_VERBS_PORT */
	int gid_index;	     /* index of the GID; -1 means chosen by the address */
	int ib_port;	     /* port of the device; 0 means 1 */
	/* maximum number of queue pairs; 0 means 64. More are rejected and counted */
	uint32_t max_queues;
	uint32_t keepalive_ms; /* interval between probes in ms; 0 means 5000 */
	bool shares; /* limit each address to a fair share of the queue pairs: base/share.h */
	const void *secret; /* secret of readers and notifiers; NULL means not required */
	size_t secret_bytes;
	/* age at which a notifier is disconnected to get another key; 0 means never */
	uint64_t notifier_ns;
};

/* Private data of RDMA-CM accept, little-endian, 48 bytes (CM allows 196 for RC). */
struct fabric_host_hello {
	uint32_t magic;	  /* "SLH1" */
	uint32_t version; /* 1 */
	uint64_t agent_instance;
	uint64_t directory_addr;
	uint64_t directory_length;
	uint32_t directory_rkey;
	uint32_t board_rkey; /* key for this connection; 0 means no verdict board */
	uint64_t board_addr; /* address of one struct sl_board_line per directory entry */
};

struct fabric_host_key {
	uint64_t addr;
	uint32_t rkey;
	void *mr; /* private to the provider */
};

/* Parses "tcp:ADDR:PORT", "tcp::PORT" for loopback; port 0 means any. Returns 0 or -EINVAL. */
int fabric_host_parse(const char *text, char address[256], uint16_t *port);

/*
 * On failure returns NULL with errno set (ENODEV, EADDRINUSE, EOPNOTSUPP, ...) and a line in error.
 */
struct fabric_host *fabric_host_open(const struct fabric_host_opts *opts, char *error,
				     size_t error_bytes);
/* Closes all connections. Unregister all memory first. Accepts NULL. */
void fabric_host_close(struct fabric_host *h);

/*
 * Registers memory for REMOTE_READ only; map must be writable (else EFAULT). Returns 0 or -errno.
 */
int fabric_host_register(struct fabric_host *h, void *map, size_t bytes,
			 struct fabric_host_key *key);
void fabric_host_unregister(struct fabric_host *h, struct fabric_host_key *key);

/*
 * Starts accepting notifiers, and registers the verdict board for each; call once. After a failure,
 * close the host. map must stay valid until then. fabric_host_dispatch() calls notice with the
 * immediate data of each WRITE, which may be any number.
 */
int fabric_host_let_notify(struct fabric_host *h, void *map, size_t bytes,
			   void (*notice)(void *arg, uint32_t entry), void *arg);

/* Applies to future connections; call it before the first dispatch. */
void fabric_host_set_directory(struct fabric_host *h, const struct fabric_host_key *key,
			       uint64_t length, uint64_t agent_instance);

int fabric_host_fd(const struct fabric_host *h);  /* poll for reading */
void fabric_host_dispatch(struct fabric_host *h); /* never blocks */

/* ---- writers ---- */

#define FABRIC_HOST_NAME_MAX 32u /* maximum length of a writer's name, including the NUL */

struct fabric_host_writers {
	uint64_t instance; /* instance that a writer must present; also part of its hello */
	/* A writer requests a connection. Return true to accept it; gone(queue) follows later. */
	bool (*came)(void *arg, uint64_t queue, const char *name);
	/* Its queue pair was destroyed. May be NULL, like immediate. */
	void (*gone)(void *arg, uint64_t queue, const char *name);
	void (*immediate)(void *arg, uint64_t queue, uint32_t number);
	void *arg;
};

/*
 * Starts accepting writers; call once, and not together with a verdict board. Returns 0, or -errno;
 * then close the host.
 */
int fabric_host_let_write(struct fabric_host *h, const struct fabric_host_writers *writers);
/* Like fabric_host_register(), for REMOTE_WRITE and REMOTE_ATOMIC. */
int fabric_host_register_writable(struct fabric_host *h, void *map, size_t bytes,
				  struct fabric_host_key *key);
/*
 * Creates a writer's queue pair without CM: in state INIT, for the caller to bring up; came() is
 * not called. Returns NULL with errno on failure, such as ENOSPC if max_queues is reached. RDMA
 * only.
 */
struct ibv_qp *fabric_host_queue_new(struct fabric_host *h, const char *name, uint64_t *queue);
/* Destroys a queue pair of any kind; calls gone() for a writer. Returns 0 or -ENOENT. */
int fabric_host_queue_end(struct fabric_host *h, uint64_t queue);

/* ---- introspection ---- */

struct fabric_host_queue {
	uint32_t qp_num;
	char peer[64];	/* address:port */
	char state[16]; /* "RTS", "ERR", ... */
	uint64_t connected_ns;
};
/* Fills in up to max queue pairs; returns the total number. */
size_t fabric_host_queues(const struct fabric_host *h, struct fabric_host_queue *out, size_t max);

enum fabric_refusal {
	FABRIC_REFUSED_MALFORMED,
	FABRIC_REFUSED_PROOF,  /* authentication missing, wrong or reused */
	FABRIC_REFUSED_SHARE,  /* the share of the address is used up */
	FABRIC_REFUSED_FULL,   /* no free queue pair */
	FABRIC_REFUSED_SYSTEM, /* not ready, no verdict board, or out of memory */
	FABRIC_REFUSED_COUNT,
};

struct fabric_host_stats {
	uint64_t accepted, rejected, disconnected, notices;
	uint64_t refused[FABRIC_REFUSED_COUNT]; /* their sum equals rejected */
	uint64_t challenged, half_open; /* half_open: dropped because they were never established */
	/* TCP only: CPU time of its thread, bytes sent, sockets closed while silent. */
	uint64_t cpu_ns, sent_bytes, silent;
	bool lost; /* the device was removed: unregister all, close, and open again */
	char device[64], gid[48], address[64];
	int gid_index, ib_port;
	uint16_t port;
};
void fabric_host_stats(const struct fabric_host *h, struct fabric_host_stats *out);

#endif
