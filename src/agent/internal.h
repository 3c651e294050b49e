/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - struct agent, and the functions of agent.c that other files use.
 *
 * A single thread, the event loop, owns the sockets. The lock protects everything in struct agent:
 * the loop holds the lock while it handles a batch of events, but not while it waits; REST handlers
 * take the lock for one short step at a time.
 *
 * Names: conn - a connection to the unix socket; peer - the process at its other end; region - an
 * admitted memfd; slot - index in the directory.
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
#include "base/table.h"

#define AGENT_LOG "agent"

enum agent_source_kind {
	SOURCE_LISTEN,
	SOURCE_CONN,
	SOURCE_PEER,
	SOURCE_TIMER,
	SOURCE_WAKE,
	SOURCE_STOP,
	SOURCE_HOST,
	SOURCE_TCP,
	SOURCE_CHILDREN
};
struct agent_source { /* the target of epoll's data pointer */
	enum agent_source_kind kind;
};

/* A unix socket that the agent listens on. */
struct agent_listener {
	struct agent_source source;
	char *path; /* NULL means not used */
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
	struct agent_source timer_source, wake_source, stop_source, children_source;
	int epoll_fd, timer_fd, wake_fd, spare_fd;
	uint64_t timer_due;
	uint64_t clock; /* current time in tests; 0 means use CLOCK_MONOTONIC */
	uint64_t started_ns;

	struct agent_timer_queue timers[TIMER_COUNT];
	struct agent_timer alive;
	TAILQ_HEAD(conn_list, agent_conn) conns, graveyard;
	TAILQ_HEAD(, agent_peer) peer_graveyard;
	uint32_t conn_count, conn_max, consumer_conns;
	uint64_t fd_max; /* descriptors available to connections and regions */
	/* number of the loop's turn; in a turn, each ready connection is handled once */
	uint64_t turn;
	uint64_t end_turn; /* number of calls to agent_timer_expire() */
	LIST_HEAD(, agent_tenant) tenants[64];
	/* names of tenants, kept beyond their last connection; NULL means none yet */
	struct agent_names *names;
	/* root of the cgroup hierarchy that shows containers; "" means none */
	char cgroup_root[256];
	unsigned long cgroup_number;
	uint64_t own_place; /* hash of the agent's own container; 0 means not in a container */

	struct agent_directory dir;
	struct agent_region **slots; /* array of regions with slot_count elements */
	uint32_t slot_free_hint;
	struct base_table by_id, by_instance;
	uint32_t slot_count; /* max_regions plus the agent's own */
	uint32_t region_count, state_count[SL_STATE_RETIRED + 1];
	/* the agent's own regions, which are included in region_count but exempt from quotas */
	uint32_t own_count;
	uint64_t memory;
	uint64_t last_id;
	uint64_t trimmed; /* value of n.freed at the last malloc_trim() */
	struct agent_counters n;

	uint64_t *verdict_board; /* one line per slot; NULL without --rdma */
	struct agent_closer *closer;
	struct base_table proxies; /* by microservice */
	struct agent_rdma *rdma;
	struct agent_rest *rest;
	struct agent_self *self;
	struct agent_tcp *tcp; /* kernel tables; NULL without --tcp */
};

int agent_init(struct agent *a, const struct agent_opts *opts, char *error, size_t bytes);
void agent_fini(struct agent *a);
void agent_wake(struct agent *a); /* called after another thread has changed a deadline */
/* Returns true if the tenant may read all regions. */
bool agent_tenant_consumes(const struct agent *a, const struct agent_tenant *t);
void agent_bury(struct agent *a); /* frees structs that the last batch of events could refer to */
static inline uint64_t agent_now(const struct agent *a)
{
	return a->clock ? a->clock : base_now_ns();
}

#endif
