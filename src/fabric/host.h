/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - the passive side of verbs, used by the agent: registers memory for remote reading and
 * accepts collectors' connections over librdmacm. It is never involved in a READ.
 *
 * The private data of an accepted connection is struct fabric_host_hello: where the directory is.
 * Single-threaded: the agent's loop polls fabric_host_fd() and calls fabric_host_dispatch().
 *
 * A collector that goes away says so, also when it is killed (its kernel does). One whose machine
 * or link is gone can't, and a queue pair that only answers never notices: hence a probe of
 * every connection each keepalive_ms, a WRITE of no bytes, after whose failure it is freed.
 *
 * Two kinds of connections. Those of readers may READ and nothing else. Those that asked to notify
 * may WRITE, and of all memory only the board is registered for that: one WRITE with immediate data
 * a notice, so that this side sleeps until there is one.
 *
 * A third kind is not an agent's but of the owner of stores (src/dta/io/rdma_host.h): writers, who
 * WRITE and FETCH_ADD into what is registered for that, and READ nothing.
 */
#ifndef SL_FABRIC_HOST_H
#define SL_FABRIC_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FABRIC_VERBS_PORT 7475

struct fabric_host;

struct fabric_host_opts {
	const char *device;    /* ibv device name; NULL: the one that the address routes to */
	const char *address;   /* to listen on; NULL: the device's */
	uint16_t port;	       /* 0: FABRIC_VERBS_PORT */
	int gid_index;	       /* -1: chosen by the address */
	int ib_port;	       /* 0: 1 */
	uint32_t max_queues;   /* queue pairs at most; 0: 64. More are rejected and counted */
	uint32_t keepalive_ms; /* how often a silent collector is probed for being there; 0: 5000 */
};

/* Private data of RDMA-CM accept, little-endian, 48 bytes (CM allows 196 for RC). */
struct fabric_host_hello {
	uint32_t magic;	  /* "SLH1" */
	uint32_t version; /* 1 */
	uint64_t agent_instance;
	uint64_t directory_addr;
	uint64_t directory_length;
	uint32_t directory_rkey;
	uint32_t board_rkey; /* 0: no board */
	uint64_t board_addr; /* struct sl_board_line for each entry of the directory */
};

struct fabric_host_key {
	uint64_t addr;
	uint32_t rkey;
	void *mr; /* provider's own */
};

/* NULL with errno and one line in error (ENODEV no such device, EADDRINUSE, EOPNOTSUPP, ...). */
struct fabric_host *fabric_host_open(const struct fabric_host_opts *opts, char *error,
				     size_t error_bytes);
/* Ends every connection. Unregister all memory first. NULL is nothing. */
void fabric_host_close(struct fabric_host *h);

/* REMOTE_READ only. map must be writable (registration fails with EFAULT otherwise). 0 or -errno */
int fabric_host_register(struct fabric_host *h, void *map, size_t bytes,
			 struct fabric_host_key *key);
void fabric_host_unregister(struct fabric_host *h, struct fabric_host_key *key);

/*
 * The same for REMOTE_WRITE, at most once a host: the memory that collectors may notify us by.
 * notice is called by fabric_host_dispatch() with the immediate data of each, which may be
 * anything.
 */
int fabric_host_register_board(struct fabric_host *h, void *map, size_t bytes,
			       struct fabric_host_key *key,
			       void (*notice)(void *arg, uint32_t entry), void *arg);

/* Call once before the first dispatch. */
void fabric_host_set_directory(struct fabric_host *h, const struct fabric_host_key *key,
			       uint64_t length, uint64_t agent_instance);

int fabric_host_fd(const struct fabric_host *h);  /* poll for reading */
void fabric_host_dispatch(struct fabric_host *h); /* never blocks */

/* ---- writers ---- */

#define FABRIC_HOST_NAME_MAX 32u /* of a writer, with its end */

struct fabric_host_writers {
	uint64_t instance; /* that a writer must know, and finds again in the hello */
	/* One asks to connect. True lets it in; then gone(queue) follows, once. */
	bool (*came)(void *arg, uint64_t queue, const char *name);
	/* Its queue pair has been destroyed. May be NULL, as may be immediate. */
	void (*gone)(void *arg, uint64_t queue, const char *name);
	void (*immediate)(void *arg, uint64_t queue, uint32_t number);
	void *arg;
};

/* Lets writers in from now on; once, and not with a board. 0 or -errno. */
int fabric_host_let_write(struct fabric_host *h, const struct fabric_host_writers *writers);
/* REMOTE_WRITE and REMOTE_ATOMIC. As fabric_host_register(). */
int fabric_host_register_writable(struct fabric_host *h, void *map, size_t bytes,
				  struct fabric_host_key *key);
/*
 * A writer's queue pair that is not made by CM: in INIT, and for the caller to bring up; came() is
 * not asked. NULL with errno: ENOSPC max_queues. Only with RDMA.
 */
struct ibv_qp *fabric_host_queue_new(struct fabric_host *h, const char *name, uint64_t *queue);
/* Destroys a queue pair of any kind; of a writer gone() is called. -ENOENT. */
int fabric_host_queue_end(struct fabric_host *h, uint64_t queue);

/* ---- looking at it ---- */

struct fabric_host_queue {
	uint32_t qp_num;
	char peer[64];	/* address:port */
	char state[16]; /* "RTS", "ERR", ... */
	uint64_t connected_ns;
};
/* The queue pairs in use, up to max; returns the number there are. */
size_t fabric_host_queues(const struct fabric_host *h, struct fabric_host_queue *out, size_t max);

struct fabric_host_stats {
	uint64_t accepted, rejected, disconnected, registered_regions, registered_bytes;
	uint64_t notices;
	bool lost; /* the device is gone: unregister all, close, and open again when it is back */
	char device[64], gid[48], address[64];
	int gid_index, ib_port;
	uint16_t port;
};
void fabric_host_stats(const struct fabric_host *h, struct fabric_host_stats *out);

#endif
