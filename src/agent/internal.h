/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the files of the agent share.
 *
 * One thread, the loop, owns the sockets. Everything below struct agent is guarded by its lock:
 * the loop holds it while it handles a batch of events and never while it waits; REST handlers
 * take it for one short step at a time.
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

#include <sidelight/attach.h>
#include <sidelight/region.h>

#include "agent/agent.h"
#include "base/base.h"
#include "fabric/host.h"
#include "region/decode.h"

#define AGENT_LOG "agent"

/* ---- timers: a queue a delay, so that appending keeps it sorted ---- */

struct agent_timer {
	uint64_t due;
	struct agent_timer_queue *in; /* NULL: not running */
	TAILQ_ENTRY(agent_timer) link;
};

struct agent_timer_queue {
	uint64_t delay;
	void (*fn)(struct agent *a, struct agent_timer *t);
	TAILQ_HEAD(, agent_timer) head;
};

enum {
	TIMER_ORPHAN,	  /* connection lost: is the process dead, too? */
	TIMER_RESTORED,	  /* kept by systemd over our restart: will its publisher come back? */
	TIMER_GRACE,	  /* last words */
	TIMER_QUARANTINE, /* retired: readers stop within a lease, memory goes after two */
	TIMER_SILENT,	  /* connected and said nothing */
	TIMER_BLOCKED,	  /* does not take its answers */
	TIMER_IDLE,	  /* REST publisher that posts nothing */
	TIMER_SETTLE,	  /* registered on its own, long enough to be registered with others */
	TIMER_RELEASE,	  /* a registration that was replaced */
	TIMER_REOPEN,	  /* the RDMA device is gone */
	TIMER_TCP,	  /* what the kernel left out; who a cgroup is */
	TIMER_COUNT,
};

void agent_timer_start(struct agent_timer_queue *q, struct agent_timer *t, uint64_t now);
void agent_timer_stop(struct agent_timer *t);

/* ---- counters ---- */

enum agent_refusal {
	REFUSED_MALFORMED, /* a packet that can't be understood */
	REFUSED_PERMISSION,
	REFUSED_DESCRIPTOR, /* no memfd, or none that can be mapped */
	REFUSED_SEALS,
	REFUSED_SIZE, /* over --max-region-size, or sizes that differ */
	REFUSED_HEADER,
	REFUSED_INSTANCE, /* not the header's, or held by another connection */
	REFUSED_REGIONS,  /* --max-regions */
	REFUSED_MEMORY,	  /* --max-memory */
	REFUSED_QUOTA,	  /* of a uid or a connection */
	REFUSED_SYSTEM,	  /* mmap, registration, no memory */
	REFUSED_ABSENT,	  /* OPEN of an id that is not there */
	REFUSED_COUNT,
};
extern const char *const agent_refusal_names[REFUSED_COUNT];

enum agent_drop {
	DROP_MALFORMED, /* said what can't be understood */
	DROP_SILENT,	/* said nothing */
	DROP_SLOW,	/* took no answers */
	DROP_REFUSED,	/* was refused too often */
	DROP_CROWD,	/* too many connections */
	DROP_ERROR,	/* socket error */
	DROP_COUNT,
};
extern const char *const agent_drop_names[DROP_COUNT];

struct agent_counters {
	uint64_t connections, packets;
	uint64_t admitted, reattached, restored, dead, closed, expired, evicted, freed;
	uint64_t refused[REFUSED_COUNT], dropped[DROP_COUNT];
	uint64_t lines_repaired, lost_connections, extra_fds;
	uint64_t subscribed, opened, status;
	uint64_t rest_requests, rest_errors, rest_updates, rest_expired;
	uint64_t promotions, promoted_regions, breakups, registration_failures;
	uint64_t verdicts, verdicts_unknown, verdicts_refused, verdicts_lost;
	uint64_t tcp_refused, tcp_missed, tcp_cgroups_refused;
};

struct agent_counter_info {
	const char *name;
	size_t offset; /* in struct agent_counters */
	const char *help;
};
#define AGENT_COUNTERS 31
extern const struct agent_counter_info agent_counter_table[AGENT_COUNTERS]; /* self.c */

/* ---- peers, connections, regions ---- */

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

struct agent_peer {
	struct agent_source source;
	unsigned int refs; /* its connection, and each of its regions */
	int pidfd;	   /* -1: none to be had, or the process was seen dead */
	bool known;	   /* a pidfd was had: dead can be told from disconnected */
	bool dead;
	pid_t pid; /* 0: not visible from here */
	uid_t uid;
	gid_t gid;
	uint64_t start_ticks;
	struct agent_conn *conn;
	TAILQ_HEAD(, agent_region) regions;
	TAILQ_ENTRY(agent_peer) grave; /* events of this batch may still name it */
};

struct agent_packet { /* one that waits to be sent */
	size_t bytes;
	int fd;
	_Alignas(8) uint8_t data[sizeof(struct sl_msg) + sizeof(struct sl_msg_refused)];
};
#define OUT_MAX 4

enum agent_role { ROLE_NEW, ROLE_PUBLISHER, ROLE_CONSUMER, ROLE_STATUS };

struct agent_conn {
	struct agent_source source;
	int fd; /* -1: closed, or a test's */
	enum agent_role role;
	bool publish_only; /* came over --publish-socket */
	bool gone;	   /* waits for the end of the batch to be freed */
	bool hang_up;	   /* close as soon as the answers are out */
	struct agent_peer *peer;
	unsigned int regions, refusals;
	struct agent_timer timer; /* SILENT or BLOCKED */
	struct agent_packet *out[OUT_MAX];
	unsigned int out_count;
	uint32_t events; /* as epoll knows them */
	TAILQ_ENTRY(agent_conn) link;
};

struct agent_mr;    /* rdma.c */
struct agent_proxy; /* proxy.c */

struct agent_region {
	uint64_t id;
	uint32_t slot;
	enum sl_region_state state;
	bool orphan;	 /* state is still LIVE, connection is not */
	bool unrepaired; /* marked dead while its process lived on */
	bool stored;	 /* systemd keeps a copy of the descriptor, by this name: */
	char stored_name[80];
	int fd;	   /* read-only: what consumers get */
	void *map; /* read-write */
	dev_t dev;
	ino_t ino;
	uid_t uid;
	pid_t pid;			  /* as seen from here; info->pid is what it says itself */
	uint64_t admitted_ns, changed_ns; /* CLOCK_REALTIME */
	struct region_info *info;
	struct agent_conn *conn;
	struct agent_peer *peer;
	struct agent_proxy *proxy; /* REST writes it */
	bool self;		   /* the agent's own metrics */
	bool kernel;		   /* an eBPF map: the agent never writes to it */
	struct agent_mr *mr;
	struct agent_timer timer;      /* ORPHAN, GRACE or QUARANTINE */
	struct agent_timer settle;     /* SETTLE */
	struct sl_msg_verdict verdict; /* the last one, and when it came; 0: none yet */
	uint64_t verdict_ns;
	TAILQ_ENTRY(agent_region) peer_link;
	struct agent_region *next_id, *next_instance; /* hash chains */
};

struct agent_uid_count {
	uid_t uid;
	uint32_t regions, conns;
	uint64_t bytes;
	struct agent_uid_count *next;
};

struct agent_directory {
	int fd; /* read-only: what consumers get */
	void *map;
	size_t size;
	uint64_t instance;
	uint64_t hot[8];      /* as it stands in the map */
	uint64_t (*entry)[8]; /* in the map */
	struct fabric_host_key key;
};

struct agent_closer;
struct agent_rest;
struct agent_self;
struct agent_rdma;

struct agent {
	pthread_mutex_t lock;
	struct agent_opts o;
	char *socket, *publish_socket, *host;
	uid_t uid;
	uint32_t *consumers;
	struct agent_source listen_source, publish_source, timer_source, wake_source, stop_source,
		host_source;
	int listen_fd, publish_fd, epoll_fd, timer_fd, wake_fd, spare_fd;
	dev_t socket_dev[2];
	ino_t socket_ino[2];
	uint64_t timer_due;
	uint64_t clock; /* tests: the time, which goes by when they say so */
	uint64_t started_ns;
	bool offline; /* no sockets: conn_send() keeps answers in the connection (tests, fuzzing) */

	struct agent_timer_queue timers[TIMER_COUNT];
	TAILQ_HEAD(conn_list, agent_conn) conns, graveyard;
	TAILQ_HEAD(, agent_peer) peer_graveyard;
	uint32_t conn_count, conn_max, consumer_conns;
	struct agent_uid_count *uids[64];

	struct agent_directory dir;
	struct agent_region **slots; /* [max_regions] */
	uint32_t slot_free_hint;
	struct agent_region **by_id, **by_instance;
	uint32_t hash_mask;
	uint32_t slot_count; /* max_regions, and those of our own */
	uint32_t region_count, state_count[SL_STATE_RETIRED + 1];
	uint32_t own_count; /* of them: the agent's own, which use up nobody's room */
	uint64_t memory;
	uint64_t last_id;
	uint64_t trimmed; /* n.freed when the allocator last gave back what it held */
	struct agent_counters n;

	uint64_t *board; /* of verdicts, lines by slot; NULL: without --rdma */
	struct agent_closer *closer;
	pthread_t closer_thread;
	struct agent_proxy *proxies[256]; /* by microservice */
	uint32_t proxy_count;
	uint64_t proxy_seed;
	struct agent_rdma *rdma;
	struct agent_rest *rest;
	struct agent_self *self;
	struct tcp *tcp; /* NULL: without --tcp */
};

/* agent.c */
int agent_init(struct agent *a, const struct agent_opts *opts, char *error, size_t bytes);
void agent_fini(struct agent *a);
void agent_wake(struct agent *a); /* another thread changed a deadline */
struct agent_uid_count *agent_uid_find(struct agent *a, uid_t uid, bool make);
void agent_uid_drop(struct agent *a, struct agent_uid_count *u);
bool agent_uid_trusted(const struct agent *a, uid_t uid);
static inline uint64_t agent_now(const struct agent *a)
{
	return a->clock ? a->clock : base_now_ns();
}
void agent_expire(struct agent *a, uint64_t now);
uint64_t agent_next_due(const struct agent *a);
void agent_bury(struct agent *a);

/* listen.c: returns the listening descriptor or -errno with one line in error */
int agent_listen(const char *path, unsigned int mode, dev_t *dev, ino_t *ino, char *error,
		 size_t bytes);
void agent_unlisten(int fd, const char *path, dev_t dev, ino_t ino);

/* peer.c */
struct agent_peer *agent_peer_new(struct agent *a, int socket);
struct agent_peer *agent_peer_of_pid(struct agent *a, pid_t pid, uint64_t start_ticks);
void agent_peer_put(struct agent *a, struct agent_peer *p);
bool agent_peer_check(struct agent *a, struct agent_peer *p); /* true: dead */
void agent_peer_event(struct agent *a, struct agent_peer *p);
uint64_t agent_process_start_ticks(pid_t pid);

/* conn.c */
struct agent_conn *agent_conn_new(struct agent *a, int fd, struct agent_peer *peer,
				  bool publish_only);
void agent_conn_close(struct agent *a, struct agent_conn *c);
void agent_conn_drop(struct agent *a, struct agent_conn *c, enum agent_drop why);
void agent_conn_free(struct agent_conn *c);
void agent_conn_event(struct agent *a, struct agent_conn *c, uint32_t events);
void agent_conn_accept(struct agent *a, int listen_fd, bool publish_only);
/* Reads what waits in the socket; closes the connection when the peer has hung up. */
void agent_conn_drain(struct agent *a, struct agent_conn *c);
/* One packet. Takes the descriptor (-1: none); extra says that more came than one. */
void agent_conn_packet(struct agent *a, struct agent_conn *c, const void *data, size_t bytes,
		       int fd, bool extra);

/* Says what nobody asked, if it can go out at once; else -errno. */
int agent_conn_notify(struct agent_conn *c, uint16_t type, const void *payload, size_t bytes);

/* verdict.c */
void agent_verdict_take(struct agent *a, const struct sl_msg_verdict *v); /* a sound one */
const struct sl_msg_verdict *agent_verdict_of(const struct agent *a, const struct agent_region *r);
size_t agent_board_bytes(const struct agent *a);
int agent_board_init(struct agent *a);
void agent_board_fini(struct agent *a);
void agent_board_notice(void *arg, uint32_t entry); /* somebody wrote this line, and says so */

/* closer.c */
bool agent_closer_ready(struct agent *a);
void agent_closer_close(struct agent *a, int fd);
void agent_closer_fini(struct agent *a);

/* region.c */
struct agent_refused {
	enum agent_refusal cause;
	int error;
	char reason[252];
};
/*
 * Admits the memfd (which stays the caller's) or says why not: 0 or -1. conn and peer may be NULL.
 */
int agent_region_admit(struct agent *a, int fd, const struct sl_msg_publish *say,
		       struct agent_conn *conn, struct agent_peer *peer, struct agent_region **out,
		       struct agent_refused *why);
/*
 * The hook for what the kernel writes: an eBPF array in region format, of a kind beyond the
 * directory. fd: the map's, to be mapped for writing (or RDMA can't register it); read_only: what
 * consumers get, taken over also on failure; -1: none to be had, and local consumers are refused.
 * It is live until agent_region_retire(), which stops readers; fd must stay open until then only,
 * since the mapping holds the memory.
 */
int agent_region_admit_kernel(struct agent *a, int fd, int read_only, uint64_t size,
			      struct agent_region **out, struct agent_refused *why);
#define KERNEL_REGIONS 8u /* at most: places in the directory, of all and in quarantine */
struct agent_region *agent_region_by_id(struct agent *a, uint64_t id);
struct agent_region *agent_region_by_instance(struct agent *a, uint64_t instance);
void agent_region_lost(struct agent *a, struct agent_region *r);     /* its connection is gone */
void agent_region_restored(struct agent *a, struct agent_region *r); /* out of systemd's store */
void agent_region_dead(struct agent *a, struct agent_region *r);
void agent_region_revive(struct agent *a,
			 struct agent_region *r); /* closed by idleness, and back */
void agent_region_closed(struct agent *a, struct agent_region *r);
void agent_region_retire(struct agent *a, struct agent_region *r);
void agent_region_free(struct agent *a, struct agent_region *r);
void agent_region_publish(struct agent *a, struct agent_region *r); /* its entry, as it stands */
void agent_region_timer_orphan(struct agent *a, struct agent_timer *t);
void agent_region_timer_grace(struct agent *a, struct agent_timer *t);
void agent_region_timer_quarantine(struct agent *a, struct agent_timer *t);
const char *agent_region_label(const struct agent_region *r, const char *key); /* "" if none */
void agent_refused_count(struct agent *a, enum agent_refusal cause);

/* store.c: systemd keeps descriptors over a restart, if there is one that does */
void agent_store_add(struct agent *a, struct agent_region *r, int fd);
void agent_store_remove(struct agent *a, struct agent_region *r);
void agent_store_restore(struct agent *a);

/* proxy.c: more in proxy.h */
void agent_proxy_timer_idle(struct agent *a, struct agent_timer *t);
void agent_proxy_revived(struct agent_region *r);
void agent_proxy_retire(struct agent *a, struct agent_region *r);
void agent_proxy_free(struct agent *a, struct agent_region *r);

/* tcp.c: connections, layers and scheduler time, out of the kernel's memory */
int agent_tcp_init(struct agent *a, char *error, size_t bytes);
void agent_tcp_fini(struct agent *a);
void agent_tcp_event(struct agent *a);
void agent_tcp_timer(struct agent *a, struct agent_timer *t);
struct agent_tcp_use {
	uint64_t open, closed, identities;
};
void agent_tcp_use(struct agent *a, struct agent_tcp_use *use); /* also brings a->n up to date */
struct json_t *agent_tcp_json(struct agent *a);			/* null without --tcp */
/* 0, or -errno with one line in why. */
int agent_tcp_filter(struct agent *a, const struct tcp_filter *wanted, char *why, size_t bytes);

/* self.c */
int agent_self_init(struct agent *a, char *error, size_t bytes);
void agent_self_sync(struct agent *a);
void agent_self_fini(struct agent *a);

/* rest.c */
int agent_rest_init(struct agent *a, char *error, size_t bytes);
void agent_rest_fini(struct agent *a); /* without the lock: waits for handlers */

/* status.c: all with the lock held */
struct json_t;
struct json_t *agent_region_json(const struct agent *a, const struct agent_region *r);
struct json_t *agent_status_json(const struct agent *a);
/* The status in a sealed memfd (read-only), or -errno. */
int agent_status_memfd(struct agent *a, size_t *bytes);

/* rdma.c: without --rdma, plain mappings and no keys */
int agent_rdma_init(struct agent *a, char *error, size_t bytes);
void agent_rdma_fini(struct agent *a);
void *agent_rdma_map(struct agent *a, int fd, uint64_t size); /* MAP_FAILED with errno */
void agent_rdma_unmap(struct agent *a, void *map, uint64_t size);
struct json_t *agent_rdma_queues_json(const struct agent *a, int64_t number); /* -1: all */
struct json_t *agent_rdma_connect_json(const struct agent *a);
struct json_t *agent_rdma_directory_json(const struct agent *a);
size_t agent_rdma_queue_count(const struct agent *a);
int agent_rdma_add(struct agent *a, struct agent_region *r);
void agent_rdma_remove(struct agent *a, struct agent_region *r);
void agent_rdma_event(struct agent *a);
void agent_rdma_timer_settle(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_release(struct agent *a, struct agent_timer *t);
void agent_rdma_timer_reopen(struct agent *a, struct agent_timer *t);
void agent_rdma_retire(struct agent *a, struct agent_region *r);
uint32_t agent_rdma_mr_count(const struct agent *a);
void agent_rdma_where(const struct agent *a, const struct agent_region *r, uint64_t *addr,
		      uint32_t *rkey);

/* directory.c */
int agent_directory_init(struct agent *a, char *error, size_t bytes);
void agent_directory_fini(struct agent *a);
void agent_directory_set(struct agent *a, uint32_t slot, const uint64_t cells[7]);
void agent_directory_hot(struct agent *a); /* live, refused */

/* build.c: regions that the agent makes itself */
struct agent_build {
	uint32_t kind;
	uint64_t size;
	const struct sl_region_section *section;
	uint32_t section_count;
	const struct region_text_label *labels;
	size_t label_count;
	uint32_t pid;
	uint64_t start_ticks;
};
/* A sealed memfd (read-write) and its mapping; instance is chosen. 0 or -errno. */
int agent_build_region(const struct agent_build *b, const char *name, int *fd, void **map,
		       uint64_t *instance);
void agent_line_store(uint64_t *to, const uint64_t cells[7]);	    /* all of a line of our own */
void agent_line_set(uint64_t *line, unsigned int cell, uint64_t v); /* one cell; others may add */
int agent_reopen_read_only(int fd);				    /* a descriptor or -errno */

#endif
