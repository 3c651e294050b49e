/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - struct agent, and what agent.c does for the other files.
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

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <sidelight/region.h>

#include "agent/agent.h"
#include "agent/counters.h"
#include "agent/directory.h"
#include "agent/timer.h"
#include "base/base.h"

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

/* A unix socket that the agent listens on. */
struct agent_listener {
	struct agent_source source;
	char *path; /* NULL: none */
	int fd;
	dev_t dev;
	ino_t ino;
};
enum { LISTEN_SOCKET, LISTEN_PUBLISH, LISTEN_CONSUME, LISTENERS };

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
struct agent_tenant;

struct agent {
	pthread_mutex_t lock;
	struct agent_opts o;
	char *host;
	struct agent_listener listen[LISTENERS];
	uid_t uid;
	uint32_t *consumers;
	struct agent_source timer_source, wake_source, stop_source;
	int epoll_fd, timer_fd, wake_fd, spare_fd;
	uint64_t timer_due;
	uint64_t clock; /* tests: the current time; 0: CLOCK_MONOTONIC */
	uint64_t started_ns;

	struct agent_timer_queue timers[TIMER_COUNT];
	struct agent_timer alive;
	TAILQ_HEAD(conn_list, agent_conn) conns, graveyard;
	TAILQ_HEAD(, agent_peer) peer_graveyard;
	uint32_t conn_count, conn_max, consumer_conns;
	uint64_t fd_max; /* descriptors for connections and regions */
	uint64_t turn;	 /* of the loop: every connection that is ready was seen once */
	LIST_HEAD(, agent_tenant) tenants[64];
	struct agent_names *names; /* of tenants, also of those that are gone; NULL: none yet */
	char cgroup_root[256];	   /* of the hierarchy that tells containers apart; "": none */
	unsigned long cgroup_number;
	uint64_t own_place; /* hash of the agent's own container; 0: none */

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
	LIST_HEAD(proxy_chain, agent_proxy) proxies[256]; /* by microservice */
	uint32_t proxy_count;
	uint64_t proxy_seed;
	struct agent_rdma *rdma;
	struct agent_rest *rest;
	struct agent_self *self;
	struct agent_tcp *tcp; /* NULL: without --tcp */
};

int agent_init(struct agent *a, const struct agent_opts *opts, char *error, size_t bytes);
void agent_fini(struct agent *a);
void agent_wake(struct agent *a); /* another thread changed a deadline */
/* Whether it may read all regions. */
bool agent_tenant_consumes(const struct agent *a, const struct agent_tenant *t);
void agent_bury(struct agent *a); /* frees what the events of a batch could refer to */
static inline uint64_t agent_now(const struct agent *a)
{
	return a->clock ? a->clock : base_now_ns();
}

#endif
