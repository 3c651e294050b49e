/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the files of the agent share.
 *
 * One thread, the loop, owns the sockets. Everything below struct sl_agent is guarded by its lock:
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

#define LOG "agent"

/* ---- timers: a queue a delay, so that appending keeps it sorted -------------------------------- */

struct timer {
	uint64_t due;
	struct timer_queue *in; /* NULL: not running */
	TAILQ_ENTRY(timer) link;
};

struct timer_queue {
	uint64_t delay;
	void (*fn)(struct sl_agent *a, struct timer *t);
	TAILQ_HEAD(, timer) head;
};

enum {
	TIMER_ORPHAN,     /* connection lost: is the process dead, too? */
	TIMER_RESTORED,   /* kept by systemd over our restart: will its publisher come back? */
	TIMER_GRACE,      /* last words */
	TIMER_QUARANTINE, /* retired: readers stop within a lease, memory goes after two */
	TIMER_SILENT,     /* connected and said nothing */
	TIMER_BLOCKED,    /* does not take its answers */
	TIMER_IDLE,       /* REST publisher that posts nothing */
	TIMER_SETTLE,     /* registered on its own, long enough to be registered with others */
	TIMER_RELEASE,    /* a registration that was replaced */
	TIMER_REOPEN,     /* the RDMA device is gone */
	TIMER_TCP,        /* what the kernel left out; who a cgroup is */
	TIMER_COUNT,
};

void timer_start(struct timer_queue *q, struct timer *t, uint64_t now);
void timer_stop(struct timer *t);

/* ---- counters ---------------------------------------------------------------------------------- */

enum refusal {
	REFUSED_MALFORMED, /* a packet that can't be understood */
	REFUSED_PERMISSION,
	REFUSED_DESCRIPTOR,/* no memfd, or none that can be mapped */
	REFUSED_SEALS,
	REFUSED_SIZE,      /* over --max-region-size, or sizes that differ */
	REFUSED_HEADER,
	REFUSED_INSTANCE,  /* not the header's, or held by another connection */
	REFUSED_REGIONS,   /* --max-regions */
	REFUSED_MEMORY,    /* --max-memory */
	REFUSED_QUOTA,     /* of a uid or a connection */
	REFUSED_SYSTEM,    /* mmap, registration, no memory */
	REFUSED_ABSENT,    /* OPEN of an id that is not there */
	REFUSED_COUNT,
};
extern const char *const refusal_names[REFUSED_COUNT];

enum drop {
	DROP_MALFORMED, /* said what can't be understood */
	DROP_SILENT,    /* said nothing */
	DROP_SLOW,      /* took no answers */
	DROP_REFUSED,   /* was refused too often */
	DROP_CROWD,     /* too many connections */
	DROP_ERROR,     /* socket error */
	DROP_COUNT,
};
extern const char *const drop_names[DROP_COUNT];

struct counters {
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

struct counter_info {
	const char *name;
	size_t offset; /* in struct counters */
	const char *help;
};
#define COUNTERS 31
extern const struct counter_info counter_table[COUNTERS]; /* self.c */

/* ---- peers, connections, regions ----------------------------------------------------------------- */

enum source_kind { SOURCE_LISTEN, SOURCE_CONN, SOURCE_PEER, SOURCE_TIMER, SOURCE_WAKE, SOURCE_STOP,
		   SOURCE_HOST, SOURCE_TCP };
struct source { /* what epoll's data points to */
	enum source_kind kind;
};

struct peer {
	struct source source;
	unsigned int refs;  /* its connection, and each of its regions */
	int pidfd;          /* -1: none to be had, or the process was seen dead */
	bool known;         /* a pidfd was had: dead can be told from disconnected */
	bool dead;
	pid_t pid;          /* 0: not visible from here */
	uid_t uid;
	gid_t gid;
	uint64_t start_ticks;
	struct conn *conn;
	TAILQ_HEAD(, region) regions;
	TAILQ_ENTRY(peer) grave; /* events of this batch may still name it */
};

struct packet { /* one that waits to be sent */
	size_t bytes;
	int fd;
	_Alignas(8) uint8_t data[sizeof(struct sl_msg) + sizeof(struct sl_msg_refused)];
};
#define OUT_MAX 4

enum role { ROLE_NEW, ROLE_PUBLISHER, ROLE_CONSUMER, ROLE_STATUS };

struct conn {
	struct source source;
	int fd;              /* -1: closed, or a test's */
	enum role role;
	bool publish_only;   /* came over --publish-socket */
	bool gone;           /* waits for the end of the batch to be freed */
	bool hang_up;        /* close as soon as the answers are out */
	struct peer *peer;
	unsigned int regions, refusals;
	struct timer timer;  /* SILENT or BLOCKED */
	struct packet *out[OUT_MAX];
	unsigned int out_count;
	uint32_t events;     /* as epoll knows them */
	TAILQ_ENTRY(conn) link;
};

struct mr; /* rdma.c */
struct proxy; /* proxy.c */

struct region {
	uint64_t id;
	uint32_t slot;
	enum sl_region_state state;
	bool orphan;        /* state is still LIVE, connection is not */
	bool unrepaired;    /* marked dead while its process lived on */
	bool stored;        /* systemd keeps a copy of the descriptor, by this name: */
	char stored_name[80];
	int fd;             /* read-only: what consumers get */
	void *map;          /* read-write */
	dev_t dev;
	ino_t ino;
	uid_t uid;
	pid_t pid;          /* as seen from here; info->pid is what it says itself */
	uint64_t admitted_ns, changed_ns; /* CLOCK_REALTIME */
	struct sl_region_info *info;
	struct conn *conn;
	struct peer *peer;
	struct proxy *proxy; /* REST writes it */
	bool self;           /* the agent's own metrics */
	bool kernel;         /* an eBPF map: the agent never writes to it */
	struct mr *mr;
	struct timer timer;   /* ORPHAN, GRACE or QUARANTINE */
	struct timer settle;  /* SETTLE */
	struct sl_msg_verdict verdict; /* the last one, and when it came; 0: none yet */
	uint64_t verdict_ns;
	TAILQ_ENTRY(region) peer_link;
	struct region *next_id, *next_instance; /* hash chains */
};

struct uid_count {
	uid_t uid;
	uint32_t regions, conns;
	uint64_t bytes;
	struct uid_count *next;
};

struct directory {
	int fd;      /* read-only: what consumers get */
	void *map;
	size_t size;
	uint64_t instance;
	uint64_t hot[8];      /* as it stands in the map */
	uint64_t (*entry)[8]; /* in the map */
	struct sl_host_key key;
};

struct closer;
struct rest;
struct self;
struct rdma;

struct sl_agent {
	pthread_mutex_t lock;
	struct sl_agent_opts o;
	char *socket, *publish_socket, *host;
	uid_t uid;
	uint32_t *consumers;
	struct source listen_source, publish_source, timer_source, wake_source, stop_source,
		host_source;
	int listen_fd, publish_fd, epoll_fd, timer_fd, wake_fd, spare_fd;
	dev_t socket_dev[2];
	ino_t socket_ino[2];
	uint64_t timer_due;
	uint64_t clock; /* tests: the time, which goes by when they say so */
	uint64_t started_ns;
	bool offline; /* no sockets: conn_send() keeps answers in the connection (tests, fuzzing) */

	struct timer_queue timers[TIMER_COUNT];
	TAILQ_HEAD(conn_list, conn) conns, graveyard;
	TAILQ_HEAD(, peer) peer_graveyard;
	uint32_t conn_count, conn_max, consumer_conns;
	struct uid_count *uids[64];

	struct directory dir;
	struct region **slots;      /* [max_regions] */
	uint32_t slot_free_hint;
	struct region **by_id, **by_instance;
	uint32_t hash_mask;
	uint32_t slot_count; /* max_regions, and those of our own */
	uint32_t region_count, state_count[SL_STATE_RETIRED + 1];
	uint32_t own_count; /* of them: the agent's own, which use up nobody's room */
	uint64_t memory;
	uint64_t last_id;
	uint64_t trimmed; /* n.freed when the allocator last gave back what it held */
	struct counters n;

	uint64_t *board; /* of verdicts, lines by slot; NULL: without --rdma */
	struct closer *closer;
	pthread_t closer_thread;
	struct proxy *proxies[256]; /* by microservice */
	uint32_t proxy_count;
	uint64_t proxy_seed;
	struct rdma *rdma;
	struct rest *rest;
	struct self *self;
	struct tcp *tcp; /* NULL: without --tcp */
};

/* agent.c */
int agent_init(struct sl_agent *a, const struct sl_agent_opts *opts, char *error, size_t bytes);
void agent_fini(struct sl_agent *a);
void agent_wake(struct sl_agent *a); /* another thread changed a deadline */
struct uid_count *uid_find(struct sl_agent *a, uid_t uid, bool make);
void uid_drop(struct sl_agent *a, struct uid_count *u);
bool uid_trusted(const struct sl_agent *a, uid_t uid);
static inline uint64_t agent_now(const struct sl_agent *a)
{
	return a->clock ? a->clock : sl_now_ns();
}
void agent_expire(struct sl_agent *a, uint64_t now);
uint64_t agent_next_due(const struct sl_agent *a);
void agent_bury(struct sl_agent *a);

/* listen.c: returns the listening descriptor or -errno with one line in error */
int agent_listen(const char *path, unsigned int mode, dev_t *dev, ino_t *ino, char *error,
		 size_t bytes);
void agent_unlisten(int fd, const char *path, dev_t dev, ino_t ino);

/* peer.c */
struct peer *peer_new(struct sl_agent *a, int socket);
struct peer *peer_of_pid(struct sl_agent *a, pid_t pid, uint64_t start_ticks);
void peer_put(struct sl_agent *a, struct peer *p);
bool peer_check(struct sl_agent *a, struct peer *p); /* true: dead */
void peer_event(struct sl_agent *a, struct peer *p);
uint64_t process_start_ticks(pid_t pid);

/* conn.c */
struct conn *conn_new(struct sl_agent *a, int fd, struct peer *peer, bool publish_only);
void conn_close(struct sl_agent *a, struct conn *c);
void conn_drop(struct sl_agent *a, struct conn *c, enum drop why);
void conn_free(struct conn *c);
void conn_event(struct sl_agent *a, struct conn *c, uint32_t events);
void conn_accept(struct sl_agent *a, int listen_fd, bool publish_only);
/* Reads what waits in the socket; closes the connection when the peer has hung up. */
void conn_drain(struct sl_agent *a, struct conn *c);
/* One packet. Takes the descriptor (-1: none); extra says that more came than one. */
void conn_packet(struct sl_agent *a, struct conn *c, const void *data, size_t bytes, int fd,
		 bool extra);

/* Says what nobody asked, if it can go out at once; else -errno. */
int conn_tell(struct conn *c, uint16_t type, const void *payload, size_t bytes);

/* verdict.c */
void verdict_take(struct sl_agent *a, const struct sl_msg_verdict *v); /* a sound one */
const struct sl_msg_verdict *verdict_of(const struct sl_agent *a, const struct region *r);
size_t board_bytes(const struct sl_agent *a);
int board_init(struct sl_agent *a);
void board_fini(struct sl_agent *a);
void board_notice(void *arg, uint32_t entry); /* somebody wrote this line, and says so */

/* closer.c */
bool closer_ready(struct sl_agent *a);
void closer_close(struct sl_agent *a, int fd);
void closer_fini(struct sl_agent *a);

/* region.c */
struct refused {
	enum refusal cause;
	int error;
	char reason[252];
};
/*
 * Admits the memfd (which stays the caller's) or says why not: 0 or -1. conn and peer may be NULL.
 */
int region_admit(struct sl_agent *a, int fd, const struct sl_msg_publish *say, struct conn *conn,
		 struct peer *peer, struct region **out, struct refused *why);
/*
 * The hook for what the kernel writes: an eBPF array in region format, of a kind beyond the directory. fd: the
 * map's, to be mapped for writing (or RDMA can't register it); read_only: what consumers get, taken over
 * also on failure; -1: none to be had, and local consumers are refused. It is live until region_retire(), which
 * stops readers; fd must stay open until then only, since the mapping holds the memory.
 */
int region_admit_kernel(struct sl_agent *a, int fd, int read_only, uint64_t size,
			struct region **out, struct refused *why);
#define KERNEL_REGIONS 8u /* at most: places in the directory, of all and in quarantine */
struct region *region_by_id(struct sl_agent *a, uint64_t id);
struct region *region_by_instance(struct sl_agent *a, uint64_t instance);
void region_lost(struct sl_agent *a, struct region *r);   /* its connection is gone */
void region_restored(struct sl_agent *a, struct region *r); /* out of systemd's store */
void region_dead(struct sl_agent *a, struct region *r);
void region_revive(struct sl_agent *a, struct region *r); /* closed by idleness, and back */
void region_closed(struct sl_agent *a, struct region *r);
void region_retire(struct sl_agent *a, struct region *r);
void region_free(struct sl_agent *a, struct region *r);
void region_publish(struct sl_agent *a, struct region *r); /* its entry, as it stands */
void region_timer_orphan(struct sl_agent *a, struct timer *t);
void region_timer_grace(struct sl_agent *a, struct timer *t);
void region_timer_quarantine(struct sl_agent *a, struct timer *t);
const char *region_label(const struct region *r, const char *key); /* "" if none */
void refused_count(struct sl_agent *a, enum refusal cause);

/* store.c: systemd keeps descriptors over a restart, if there is one that does */
void store_add(struct sl_agent *a, struct region *r, int fd);
void store_remove(struct sl_agent *a, struct region *r);
void store_restore(struct sl_agent *a);

/* proxy.c: more in proxy.h */
void proxy_timer_idle(struct sl_agent *a, struct timer *t);
void proxy_revived(struct region *r);
void proxy_retire(struct sl_agent *a, struct region *r);
void proxy_free(struct sl_agent *a, struct region *r);

/* tcp.c: connections, layers and scheduler time, out of the kernel's memory */
int tcp_init(struct sl_agent *a, char *error, size_t bytes);
void tcp_fini(struct sl_agent *a);
void tcp_event(struct sl_agent *a);
void tcp_timer(struct sl_agent *a, struct timer *t);
struct tcp_use {
	uint64_t open, closed, identities;
};
void tcp_use(struct sl_agent *a, struct tcp_use *use); /* also brings a->n up to date */
struct json_t *tcp_json(struct sl_agent *a);	       /* null without --tcp */
/* 0, or -errno with one line in why. */
int tcp_filter(struct sl_agent *a, const struct sl_tcp_wanted *wanted, char *why, size_t bytes);

/* self.c */
int self_init(struct sl_agent *a, char *error, size_t bytes);
void self_sync(struct sl_agent *a);
void self_fini(struct sl_agent *a);

/* rest.c */
int rest_init(struct sl_agent *a, char *error, size_t bytes);
void rest_fini(struct sl_agent *a); /* without the lock: waits for handlers */

/* status.c: all with the lock held */
struct json_t;
struct json_t *region_json(const struct sl_agent *a, const struct region *r);
struct json_t *status_json(const struct sl_agent *a);
/* The status in a sealed memfd (read-only), or -errno. */
int status_memfd(struct sl_agent *a, size_t *bytes);

/* rdma.c: without --rdma, plain mappings and no keys */
int rdma_init(struct sl_agent *a, char *error, size_t bytes);
void rdma_fini(struct sl_agent *a);
void *rdma_map(struct sl_agent *a, int fd, uint64_t size); /* MAP_FAILED with errno */
void rdma_unmap(struct sl_agent *a, void *map, uint64_t size);
struct json_t *rdma_queues_json(const struct sl_agent *a, int64_t number); /* -1: all */
struct json_t *rdma_connect_json(const struct sl_agent *a);
struct json_t *rdma_directory_json(const struct sl_agent *a);
size_t rdma_queue_count(const struct sl_agent *a);
int rdma_add(struct sl_agent *a, struct region *r);
void rdma_remove(struct sl_agent *a, struct region *r);
void rdma_event(struct sl_agent *a);
void rdma_timer_settle(struct sl_agent *a, struct timer *t);
void rdma_timer_release(struct sl_agent *a, struct timer *t);
void rdma_timer_reopen(struct sl_agent *a, struct timer *t);
void rdma_retire(struct sl_agent *a, struct region *r);
uint32_t rdma_mr_count(const struct sl_agent *a);
void rdma_where(const struct sl_agent *a, const struct region *r, uint64_t *addr, uint32_t *rkey);

/* directory.c */
int directory_init(struct sl_agent *a, char *error, size_t bytes);
void directory_fini(struct sl_agent *a);
void directory_set(struct sl_agent *a, uint32_t slot, const uint64_t cells[7]);
void directory_hot(struct sl_agent *a); /* live, refused */

/* build.c: regions that the agent makes itself */
struct build {
	uint32_t kind;
	uint64_t size;
	const struct sl_region_section *section;
	uint32_t section_count;
	const struct sl_text_label *labels;
	size_t label_count;
	uint32_t pid;
	uint64_t start_ticks;
};
/* A sealed memfd (read-write) and its mapping; instance is chosen. 0 or -errno. */
int build_region(const struct build *b, const char *name, int *fd, void **map,
		 uint64_t *instance);
void line_store(uint64_t *to, const uint64_t cells[7]);       /* all of a line of our own */
void line_set(uint64_t *line, unsigned int cell, uint64_t v); /* one cell; others may add */
int reopen_read_only(int fd); /* a descriptor or -errno */

#endif
