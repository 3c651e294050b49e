/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - struct agent, and the small parts of it that need no header of their own.
 *
 * One thread, the loop, owns the sockets. The lock guards everything in struct agent: the loop
 * holds it while it handles a batch of events and never while it waits; REST handlers take it for
 * one short step at a time.
 *
 * Names: conn - a connection to the unix socket; peer - the process at its other end; region - an
 * admitted memfd; slot - its place in the directory.
 */
#ifndef SL_AGENT_INTERNAL_H
#define SL_AGENT_INTERNAL_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <sidelight/attach.h>

#include "agent/agent.h"
#include "agent/counters.h"
#include "agent/timer.h"
#include "base/base.h"
#include "fabric/host.h"

#define AGENT_LOG "agent"

enum agent_source_kind {
	SOURCE_LISTEN,
	SOURCE_CONN,
	SOURCE_PEER,
	SOURCE_TIMER,
	SOURCE_WAKE,
	SOURCE_STOP,
	SOURCE_HOST,
	SOURCE_TCP
};
struct agent_source { /* what epoll's data points to */
	enum agent_source_kind kind;
};

struct agent_uid_count {
	uid_t uid;
	uint32_t regions, conns;
	uint64_t bytes;
	LIST_ENTRY(agent_uid_count) link;
};

struct agent_directory { /* the region that tells collectors what there is to read */
	int fd;		 /* read-only: what consumers get */
	void *map;
	size_t size;
	uint64_t instance;
	uint64_t hot[8];      /* as it stands in the map */
	uint64_t (*entry)[8]; /* in the map */
	struct fabric_host_key key;
};

struct agent_closer;
struct agent_conn;
struct agent_mr;
struct agent_peer;
struct agent_proxy;
struct agent_rdma;
struct agent_region;
struct agent_rest;
struct agent_self;
struct agent_tcp;

struct agent {
	pthread_mutex_t lock;
	struct agent_opts o;
	char *socket, *publish_socket, *host;
	uid_t uid;
	uint32_t *consumers;
	struct agent_source listen_source, publish_source, timer_source, wake_source, stop_source;
	int listen_fd, publish_fd, epoll_fd, timer_fd, wake_fd, spare_fd;
	dev_t socket_dev[2];
	ino_t socket_ino[2];
	uint64_t timer_due;
	uint64_t clock; /* tests: the current time; 0: CLOCK_MONOTONIC */
	uint64_t started_ns;

	struct agent_timer_queue timers[TIMER_COUNT];
	TAILQ_HEAD(conn_list, agent_conn) conns, graveyard;
	TAILQ_HEAD(, agent_peer) peer_graveyard;
	uint32_t conn_count, conn_max, consumer_conns;
	LIST_HEAD(, agent_uid_count) uids[64];

	struct agent_directory dir;
	struct agent_region **slots; /* [slot_count] */
	uint32_t slot_free_hint;
	LIST_HEAD(region_chain, agent_region) * by_id, *by_instance;
	uint32_t hash_mask;
	uint32_t slot_count; /* max_regions, plus those of our own */
	uint32_t region_count, state_count[SL_STATE_RETIRED + 1];
	uint32_t own_count; /* of region_count: the agent's own, outside all quotas */
	uint64_t memory;
	uint64_t last_id;
	uint64_t trimmed; /* n.freed at the last malloc_trim() */
	struct agent_counters n;

	uint64_t *verdict_board; /* lines by slot; NULL: without --rdma */
	struct agent_closer *closer;
	pthread_t closer_thread;
	LIST_HEAD(proxy_chain, agent_proxy) proxies[256]; /* by microservice */
	uint32_t proxy_count;
	uint64_t proxy_seed;
	struct agent_rdma *rdma;
	struct agent_rest *rest;
	struct agent_self *self;
	struct agent_tcp *tcp; /* NULL: without --tcp */
};

/* agent.c */
int agent_init(struct agent *a, const struct agent_opts *opts, char *error, size_t bytes);
void agent_fini(struct agent *a);
void agent_wake(struct agent *a); /* another thread changed a deadline */
struct agent_uid_count *agent_uid_find(struct agent *a, uid_t uid, bool make);
void agent_uid_drop(struct agent_uid_count *u);
bool agent_uid_trusted(const struct agent *a, uid_t uid);
void agent_bury(struct agent *a); /* frees what the events of a batch could refer to */
static inline uint64_t agent_now(const struct agent *a)
{
	return a->clock ? a->clock : base_now_ns();
}

/* listen.c: returns the listening descriptor, or -errno with one line in error */
int agent_listen(const char *path, unsigned int mode, dev_t *dev, ino_t *ino, char *error,
		 size_t bytes);
void agent_unlisten(int fd, const char *path, dev_t dev, ino_t ino);

/* closer.c */
bool agent_closer_ready(struct agent *a); /* another descriptor may be taken from a socket */
void agent_closer_close(struct agent *a, int fd);
void agent_closer_fini(struct agent *a);

/* store.c: systemd's file descriptor store, if there is one */
void agent_store_add(struct agent *a, struct agent_region *r, int fd);
void agent_store_remove(struct agent_region *r);
void agent_store_restore(struct agent *a);

/* self.c: with the lock held */
int agent_self_init(struct agent *a, char *error, size_t bytes);
void agent_self_sync(struct agent *a);
void agent_self_fini(struct agent *a);

/* rest.c */
int agent_rest_init(struct agent *a, char *error, size_t bytes);
void agent_rest_fini(struct agent *a); /* without the lock: waits for handlers */

/* directory.c */
int agent_directory_init(struct agent *a, char *error, size_t bytes);
void agent_directory_fini(struct agent *a);
void agent_directory_set(struct agent *a, uint32_t slot, const uint64_t cells[7]);
void agent_directory_hot(struct agent *a); /* writes the counts of live and refused regions */

/* status.c: with the lock held */
json_t *agent_region_json(const struct agent *a, const struct agent_region *r);
/* The status in a sealed read-only memfd, or -errno. */
int agent_status_memfd(struct agent *a, size_t *bytes);

/* verdict.c: verdicts of collectors on regions, relayed to the publishers */
void agent_verdict_take(struct agent *a, const struct sl_msg_verdict *v); /* a sound one */
/* The latest verdict that has not expired, or NULL. */
const struct sl_msg_verdict *agent_verdict_of(const struct agent *a, const struct agent_region *r);
/* The verdict board: one line per directory slot, writable by RDMA. */
size_t agent_verdict_board_bytes(const struct agent *a);
int agent_verdict_board_init(struct agent *a);
void agent_verdict_board_fini(struct agent *a);
void agent_verdict_board_notice(void *arg, uint32_t entry); /* a collector wrote this line */

/* tcp.c: kernel tables as regions: connections, layers and scheduler time */
struct agent_tcp_use {
	uint64_t open, closed, identities;
};
int agent_tcp_init(struct agent *a, char *error, size_t bytes);
void agent_tcp_fini(struct agent *a);
void agent_tcp_event(struct agent *a);
void agent_tcp_timer(struct agent *a, struct agent_timer *t);
void agent_tcp_use(struct agent *a, struct agent_tcp_use *use); /* also updates a->n */
json_t *agent_tcp_json(struct agent *a);			/* GET /tcp */
/* 0, or -errno with one line in why. */
int agent_tcp_filter(struct agent *a, const struct tcp_filter *filter, char *why, size_t bytes);

/* rdma.c: where regions are mapped and registered. Without --rdma: plain mappings, no keys */
int agent_rdma_init(struct agent *a, char *error, size_t bytes);
void agent_rdma_fini(struct agent *a);
void *agent_rdma_map(struct agent *a, int fd, uint64_t size); /* MAP_FAILED with errno */
void agent_rdma_unmap(struct agent *a, void *map, uint64_t size);
json_t *agent_rdma_queues_json(const struct agent *a, int64_t number); /* -1: all */
json_t *agent_rdma_connect_json(const struct agent *a);
json_t *agent_rdma_directory_json(const struct agent *a);
size_t agent_rdma_queue_count(const struct agent *a);
int agent_rdma_add(struct agent *a, struct agent_region *r);
void agent_rdma_remove(struct agent *a, struct agent_region *r);
void agent_rdma_event(struct agent *a);
void agent_rdma_timer_settle(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_release(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_reopen(struct agent *a, struct agent_timer *t);
void agent_rdma_retire(struct agent *a, struct agent_region *r);
uint32_t agent_rdma_mr_count(const struct agent *a);
/* Address and rkey of a region; 0: it has none now. */
struct fabric_host_key agent_rdma_key(const struct agent *a, const struct agent_region *r);

#endif
