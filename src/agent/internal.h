/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - struct agent, and functions that other files of this folder use.
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

#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include <sidelight/attach.h>
#include <sidelight/region.h>

#include "agent/agent.h"
#include "agent/counters.h"
#include "agent/timer.h"
#include "base/base.h"
#include "base/table.h"
#include "fabric/host.h"
#include "region/decode.h"

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

/* Slot of the directory's own entry, used with --rdma. */
#define AGENT_DIRECTORY_SLOT 0u

struct agent_directory {
	int fd; /* read-only descriptor, passed to consumers */
	void *map;
	size_t size;
	uint64_t instance;
	uint64_t hot[8];	/* copy of the hot line in the map */
	uint64_t (*entry)[8];	/* array of entries in the map */
	uint64_t (*tenant)[16]; /* tenant of each entry, in the map */
	uint64_t (*names)[SL_NAMES_SIZE / 8];
	struct fabric_host_key key;
};

/* A unix socket that the agent listens on. */
struct agent_listener {
	struct agent_source source;
	const char *path; /* NULL means not used */
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
struct tcp_filter;

struct agent {
	pthread_mutex_t lock;
	struct agent_opts o;
	const char *host;
	char hostname[HOST_NAME_MAX + 1], *consume_path;
	struct agent_listener listen[LISTENERS];
	uid_t uid;
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
	bool draining; /* reattach_region() reads the packets of a connection that has hung up */
	struct base_table by_id, by_instance;
	uint32_t slot_count; /* max_regions plus the agent's own */
	uint32_t region_count, state_count[SL_STATE_RETIRED + 1];
	/* the agent's own regions, which are included in region_count but exempt from quotas */
	uint32_t own_count;
	uint64_t memory;
	uint64_t stored_bytes; /* length of all names in systemd's store, with separators */
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
/*
 * Starts or stops waiting until a descriptor is readable; no effect in an agent without a loop.
 * agent_watch() returns 0 or -errno.
 */
int agent_watch(struct agent *a, int fd, struct agent_source *s, enum agent_source_kind kind);
void agent_unwatch(struct agent *a, int fd);
void agent_wake(struct agent *a); /* called after another thread has changed a deadline */
/* Returns true if the tenant may read all regions. */
bool agent_tenant_consumes(const struct agent *a, const struct agent_tenant *t);
void agent_bury(struct agent *a); /* frees structs that the last batch of events could refer to */
static inline uint64_t agent_now(const struct agent *a)
{
	return a->clock ? a->clock : base_now_ns();
}

/* ---- listen.c ---- */

/* Binds l->path and fills in the rest of l. Returns 0, or -errno with one line in error. */
int agent_listen(struct agent_listener *l, unsigned int mode, char *error, size_t error_bytes);
void agent_unlisten(struct agent_listener *l);

/* ---- closer.c: closes descriptors whose close() may block, separately for each tenant ---- */

/*
 * Returns false while too many of the tenant's descriptors wait to be closed. Until then, do not
 * receive more from its sockets.
 */
bool agent_closer_may_take(struct agent *a, const struct agent_tenant *t);
/*
 * Closes a descriptor that a client sent: immediately if this is safe, otherwise in a thread.
 * agent_closer_later() always uses a thread.
 */
void agent_closer_close(struct agent *a, const struct agent_tenant *t, int fd);
void agent_closer_later(struct agent *a, const struct agent_tenant *t, int fd);
/* Calls agent_seal() on a client's memory in a thread, then closes the descriptor. */
void agent_closer_seal(struct agent *a, const struct agent_tenant *t, int fd);
/* Closes a connection, which may have unread descriptors. The peer sees end of file at once. */
void agent_closer_hang_up(struct agent *a, const struct agent_tenant *t, int sock);
/* number of waiting descriptors of all tenants */
uint64_t agent_closer_waiting(const struct agent *a);
void agent_closer_fini(struct agent *a);

/* ---- store.c ---- */

void agent_store_add(struct agent *a, struct agent_region *r, int fd);
void agent_store_remove(struct agent *a, struct agent_region *r);
void agent_store_restore(struct agent *a);

/* ---- self.c: the agent's own metrics; call all functions with the lock held ---- */

int agent_self_init(struct agent *a, char *error, size_t bytes);
void agent_self_sync(struct agent *a);
void agent_self_fini(struct agent *a);

/* ---- status.c: the agent's state as JSON; call all functions with the lock held ---- */

json_t *agent_region_json(const struct agent *a, const struct agent_region *r);
/* Returns the status in a sealed read-only memfd, or -errno. */
int agent_status_memfd(struct agent *a, size_t *bytes);

/* ---- tcp.c ---- */

struct agent_tcp_use {
	uint64_t open, closed, identities;
};

/* Starts the loader. Returns 0 or -errno. */
int agent_tcp_start(struct agent *a, char *error, size_t bytes);
/* Waits until the loader has loaded its programs, and admits its tables. Returns 0 or -errno. */
int agent_tcp_init(struct agent *a, char *error, size_t bytes);
void agent_tcp_fini(struct agent *a);
void agent_tcp_event(struct agent *a);
void agent_tcp_use(struct agent *a, struct agent_tcp_use *use); /* also updates a->n */
json_t *agent_tcp_json(struct agent *a);			/* reply of GET /tcp */
/*
 * Call with the lock held, from any thread but the loop's. Releases the lock while it waits for the
 * loader. Returns 0, or -errno with one line in why.
 */
int agent_tcp_filter(struct agent *a, const struct tcp_filter *filter, char *why, size_t bytes);
void agent_tcp_cancel(struct agent *a); /* ends these waits when the loop has ended */

/* ---- verdict.c ---- */

/* v must be a valid verdict */
void agent_verdict_take(struct agent *a, const struct sl_msg_verdict *v);
/*
 * Combines the verdicts of all readers: the region is anomalous while one of them says so. Expired
 * verdicts do not count. Returns false if there is no verdict.
 */
bool agent_verdict_combined(const struct agent *a, const struct agent_region *r,
			    struct sl_msg_verdict *out);

/* ---- the verdict board: one line per directory slot, writable by RDMA ---- */

size_t agent_verdict_board_bytes(const struct agent *a);
int agent_verdict_board_init(struct agent *a);
void agent_verdict_board_fini(struct agent *a);
/* called when a collector has written this line */
void agent_verdict_board_notice(void *arg, uint32_t entry);

/* ---- directory.c ---- */

int agent_directory_init(struct agent *a, char *error, size_t bytes);
void agent_directory_fini(struct agent *a);
void agent_directory_set(struct agent *a, uint32_t slot, const uint64_t cells[7]);
void agent_directory_tenant(struct agent *a, uint32_t slot, const struct region_tenant *tenant);
void agent_directory_hot(struct agent *a); /* writes the counts of live and refused regions */

/* ---- rdma.c: maps and registers regions; without --rdma, plain mappings without keys ---- */

/* agent_rdma_start() is declared in agent.h. */
int agent_rdma_init(struct agent *a, char *error, size_t bytes);
/* Ends remote reading. Call it before freeing regions whose keys readers may still use. */
void agent_rdma_stop(struct agent *a);
void agent_rdma_fini(struct agent *a);
/* Returns MAP_FAILED with errno on failure. */
void *agent_rdma_map(struct agent *a, int fd, uint64_t size, bool writable);
void agent_rdma_unmap(struct agent *a, void *map, uint64_t size);
json_t *agent_rdma_queues_json(struct agent *a);
json_t *agent_rdma_connect_json(const struct agent *a);
size_t agent_rdma_queue_count(const struct agent *a);
/* returns -ENODATA if the region has holes */
int agent_rdma_add(struct agent *a, struct agent_region *r);
void agent_rdma_remove(struct agent *a, struct agent_region *r);
void agent_rdma_event(struct agent *a);
/* Updates counters from the host's. Returns the CPU time of the thread that serves READs, in ns. */
uint64_t agent_rdma_count(struct agent *a);
void agent_rdma_timer_settle(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_register(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_release(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_age(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_left(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_renew(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_reopen(struct agent *a, struct agent_timer *t);
void agent_rdma_retire(struct agent *a, struct agent_region *r);
struct fabric_host *agent_rdma_host(const struct agent *a); /* returns NULL if no device is open */
uint32_t agent_rdma_mr_count(const struct agent *a);
/* Returns address and rkey of a region, 0 while it has none. */
struct fabric_host_key agent_rdma_key(const struct agent *a, const struct agent_region *r);

/* ---- build.c ---- */

struct agent_build {
	uint32_t kind;
	uint64_t size;
	const struct sl_region_section *section;
	uint32_t section_count;
	const struct region_text_label *labels;
	size_t label_count;
};

/* Creates a memfd of fixed size, its mapping and a random instance. Returns 0 or -errno. */
int agent_build_region(const struct agent_build *b, const char *name, int *fd, void **map,
		       uint64_t *instance);
void agent_line_set(uint64_t *line, unsigned int cell,
		    uint64_t v);    /* sets a cell of a line that others may add to */
int agent_reopen_read_only(int fd); /* returns a descriptor or -errno */
/* Prevents writing except through existing mappings, and further seals. Returns 0 or -errno. */
int agent_seal(int fd);

/* ---- memory.c ---- */

/*
 * Accesses the memory of a region, of which some pages may not exist. A process that touches a
 * missing page is charged for it, so the agent only touches existing pages.
 *
 * The event loop must never wait for the lock of a publisher's inode. A publisher can hold this
 * lock for as long as it likes, by a write() from memory whose page faults it handles itself (FUSE,
 * userfaultfd). fchmod(), fallocate(), F_ADD_SEALS, write() and lseek() with SEEK_DATA take the
 * lock; read(), mmap(), fstat() and F_GET_SEALS do not.
 */

#define AGENT_SEAL_FUTURE_WRITE 0x0010 /* F_SEAL_FUTURE_WRITE, Linux 5.1 */

/* true if the line at offset contains anything but zeros */
bool agent_memory_held(int fd, uint64_t offset);
bool agent_memory_sparse(int fd, uint64_t bytes);
/* Like region_repair(), but only touches existing pages. */
uint64_t agent_memory_repair(int fd, void *map, const struct region_info *info);
/* Copies the existing pages into a memfd of fixed size. Returns a descriptor or -errno. */
int agent_memory_copy(int fd, uint64_t bytes);

#endif
