/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - declarations shared by the store server's files: server.c (lifetime and loop),
 * session.c (messages), epoch.c (epochs and sizes), rdma.c, json.c (status). Everything is
 * protected by `lock` unless stated otherwise.
 */
#ifndef SL_DTA_STORE_SERVER_INTERNAL_H
#define SL_DTA_STORE_SERVER_INTERNAL_H

#include <netinet/in.h>
#include <pthread.h>
#include <sys/types.h>

#include "dta/translate/control.h"
#include "dta/translate/exporters.h"
#include "dta/store_server/server.h"
#include "dta/query/json.h"
#include "dta/store/stores.h"

#define CONNS_MAX     256u
#define STRANGERS_MAX 64u /* connections not welcomed yet */
#define LISTENERS_MAX 8u
#define HELLO_NS      5000000000ull /* time limit for the hello */

/*
 * Number of units (slots or paths) in banks, and an estimate of the number of units overwritten by
 * other keys.
 */
struct dta_store_server_units {
	uint64_t standing;
	double lost, variance; /* variance of standing + lost */
	bool sampled;	       /* estimated from a sample */
};

struct dta_server_store {
	struct dta_store_spec *spec;
	/* newest first; changed only while `maps` is held for writing */
	struct dta_store_object *objects;
	/* epochs of the newest object, and the start time of the current epoch (CLOCK_REALTIME) */
	uint64_t epoch, oldest, since_ns;
	/* start of epoch e in [e % SL_STORE_BANKS_MAX], 0 if unknown; read without the lock */
	uint64_t begins_ns[SL_STORE_BANKS_MAX];
	uint64_t due_ns;  /* time of the next rotation, CLOCK_MONOTONIC; 0 means none */
	uint64_t told_ns; /* time at which the epoch was announced; drain_ns starts there */
	/* units in banks that were zeroed and in objects that were freed */
	struct dta_store_server_units expired;
	struct dta_store_server_units before; /* units in the store's files when they were opened */
	uint64_t rotations, late;   /* late: number of rotations that waited for a translator */
	uint64_t immediates;	    /* number received */
	bool wanted, waiting;	    /* a rotation is due; a rotation is waiting for a translator */
	uint64_t behind;	    /* the epoch after that of an unfilled gap; 0 means none */
	bool zeroing;		    /* the loop is zeroing a bank without holding the lock */
	bool overdue;		    /* it was already logged that a translator exceeded drain_ns */
	struct dta_success success; /* protected by `measuring` */
	uint64_t measure_ns;	    /* earliest time of the next measurement, CLOCK_MONOTONIC */
};

/* Reasons why a connection was closed before its welcome. */
enum dta_server_refusal {
	DTA_CONN_LEFT = 0, /* closed by the peer */
	/* too many connections; the address with the most loses its oldest connection */
	DTA_CONN_CROWDED,
	DTA_CONN_SILENT, /* no hello within HELLO_NS, with or without TLS */
	DTA_CONN_LONG,	 /* a message longer than DTA_CONTROL_FIRST_MAX bytes */
	DTA_CONN_PROOF,	 /* a wrong secret, or no secret */
	DTA_CONN_WRONG,	 /* any other invalid message */
	DTA_CONN_REFUSALS
};

enum dta_server_conn_state { CONN_NEW = 0, CONN_WELCOMED, CONN_READER };

/*
 * A translator. If its connection is lost, it stays in the list and still counts for epochs while
 * it can write: as long as its process runs (shm) or its queue pair exists (RDMA).
 */
struct dta_server_conn {
	struct dta_server_conn *next;
	struct dta_control_line *line; /* NULL means that the connection is lost */
	enum dta_server_conn_state state;
	enum dta_server_refusal why;
	bool local;	      /* connected by a unix socket */
	bool secured;	      /* uses TLS, because the stores file has a secret */
	struct in6_addr from; /* address of the peer, IPv4 mapped; on a unix socket, its user ID */
	pid_t pid;
	int pidfd;
	char name[64], output[8], called[160];
	uint32_t lane, replicas;
	uint64_t run; /* number of the translator's current run; 0 means unknown */
	/* time at which the peer connected, and of its last message, CLOCK_MONOTONIC */
	uint64_t came_ns, heard_ns;
	/* per store: the translator no longer writes to epochs before this one */
	uint64_t acked[DTA_STORES_MAX];
};

/*
 * State of a translator: its lane and account. It is kept under the translator's name after the
 * connection closes.
 */
struct dta_server_known {
	char name[64];
	uint64_t heard_ns; /* time of the last message, CLOCK_REALTIME; 0 means a free lane */
	uint64_t run;	   /* number of the translator's current run */
	json_t *last;	   /* account of the current run */
	json_t *reporters; /* latest list of reporters that the translator sent */
	json_t *exporters; /* latest complete list of exporters */
	json_t *coming;	   /* pieces received of the next list of exporters, or NULL */
	/* number of reporters missing from the list; time of the list, CLOCK_REALTIME */
	uint64_t more, told_ns;
};

/*
 * A run that another run, or another translator, has replaced. A translator that was only cut off
 * continues its run when it returns; its account then counts in place of this one.
 */
#define RUNS_MAX 256u
struct dta_server_run {
	char name[64]; /* empty: not used */
	uint64_t number;
	struct dta_translate_account account; /* waiting and missing reports: of unknown fate */
};

/*
 * A period in which a translator could not reach this collector, and the number of reports that
 * only a replica has.
 */
#define GAPS_MAX     64u
#define REPLICAS_MAX 64ul
struct dta_server_gap {
	char name[64];
	uint64_t from_ns, to_ns, reports; /* times are CLOCK_REALTIME */
	bool filled; /* a peer's data has since filled the gap in all stores that can catch up */
};

/* A queue pair, and the name of its translator. */
struct dta_server_queue {
	struct dta_server_queue *next;
	uint64_t queue;
	char name[64];
};

struct dta_store_server {
	struct dta_stores_config *config;
	char *path;
	uint64_t instance;
	struct dta_server_listener {
		int fd;
		bool local, open; /* open: other hosts can reach it */
		char address[160], unlink[112];
	} listener[LISTENERS_MAX];
	size_t listeners;
	int wake, spare; /* spare: a descriptor that is closed when a connection must be rejected */
	pthread_t thread;
	bool started, stopping;
	pthread_mutex_t lock;
	pthread_rwlock_t maps;	   /* taken after lock; queries take only this lock, for reading */
	pthread_mutex_t measuring; /* taken before maps, without holding lock */
	struct dta_server_store *stores;
	size_t store_count;
	uint32_t next_object;
	uint64_t max_bytes; /* limit on all objects together after a resize; 0 means the default */
	struct dta_server_conn *conns;
	size_t conn_count;
	struct dta_server_known known[SL_STORE_LANES_MAX];
	uint32_t lanes; /* number of lanes that all stores have */
	struct dta_server_run run[RUNS_MAX];
	uint32_t next_run;			/* the entry that the next replaced run takes */
	struct dta_translate_account forgotten; /* sum of the runs that were in its place */
	struct fabric_host *host;		/* NULL if there is no RDMA or the device is lost */
	uint64_t reopen_ns;			/* next time to look for the device */
	uint64_t devices_lost;
	uint64_t mended, mended_ns; /* number of repaired objects; time of the last check */
	struct dta_server_queue *queues;
	char called[160]; /* address of this collector as last used by a translator */
	/* connections closed before their welcome, by reason */
	uint64_t refused[DTA_CONN_REFUSALS];
	uint64_t reloads, reloads_refused;
	struct dta_server_gap gap[GAPS_MAX]; /* newest last */
	uint32_t gaps;
	uint64_t began_ns; /* start time, CLOCK_REALTIME */
	uint64_t catch_ns; /* next time to read from the peer; 0 means nothing is missing */
	uint32_t catch_gaps;
	int reload_fd; /* readable when a reload is requested (SIGHUP); or -1 */
};

/* session.c: reads a connection's messages. Returns false if it must be closed. */
bool dta_store_server_serve(struct dta_store_server *o, struct dta_server_conn *c);
/* Announce a store's newest object, or its epoch, to all translators. */
void dta_store_server_notify_object(struct dta_store_server *o, struct dta_server_store *s);
void dta_store_server_notify_epoch(struct dta_store_server *o, struct dta_server_store *s);
/* Announces the rates and keys of all tenants to all translators. */
void dta_store_server_notify_tenants(struct dta_store_server *o);
/*
 * Drops a connection, with a reason to send, or NULL. The translator counts for epochs as long as
 * it can still write.
 */
void dta_store_server_disconnect(struct dta_store_server *o, struct dta_server_conn *c,
				 const char *why);
/* Frees the lane and all other state of a translator. */
void dta_store_server_forget(struct dta_server_known *k);
/* Frees connections whose translators can no longer write. */
void dta_store_server_reap(struct dta_store_server *o);

/* epoch.c: opens or creates a store's objects. */
/* units; a bank with fewer than twice as many units is read completely */
#define STANDING_SAMPLE 4096u
/* Adds the units of all banks of an object; large banks are sampled. */
void dta_store_server_units(const struct dta_store_object *at, struct dta_store_server_units *u);
int dta_store_server_store_open(struct dta_store_server *o, struct dta_server_store *s, char *error,
				size_t error_bytes);
/*
 * Performs due rotations; releases the lock while zeroing a bank. Returns the time by which it must
 * be called again (CLOCK_MONOTONIC).
 */
uint64_t dta_store_server_epochs(struct dta_store_server *o, uint64_t now);

/*
 * server.c: chooses a new instance number. RDMA translators must present it, so it changes whenever
 * memory is registered again.
 */
void dta_store_server_instance(struct dta_store_server *o);

/*
 * json.c: adds a translator's account. The account is untrusted; anything that is not a counter
 * counts as 0.
 */
void dta_store_server_account_take(struct dta_translate_account *to, const json_t *account);

/*
 * series.c: returns [{"name","key","result","value"}] for the keys listed in the stores file, each
 * from the newest epoch that has it, with value only if found. Returns NULL if the file lists no
 * keys.
 */
json_t *dta_store_server_series(struct dta_store_server *o, const struct dta_server_store *s);

/* rdma.c: these functions have no effect without RDMA. */
int dta_store_server_rdma_open(struct dta_store_server *o, char *error, size_t bytes);
/*
 * Handles loss and return of the device. Returns the time by which it must be called again
 * (CLOCK_MONOTONIC).
 */
uint64_t dta_store_server_rdma_watch(struct dta_store_server *o, uint64_t now);
void dta_store_server_rdma_close(struct dta_store_server *o); /* call after all objects are freed */
uint16_t dta_store_server_rdma_port(const struct dta_store_server *o);
int dta_store_server_object_register(struct dta_store_server *o, struct dta_store_object *at);
void dta_store_server_object_unregister(struct dta_store_server *o, struct dta_store_object *at);
void dta_store_server_object_free(struct dta_store_server *o, struct dta_store_object *at,
				  bool unlink_file);
bool dta_store_server_has_queue(const struct dta_store_server *o, const char *name);
/* NULL means all names */
void dta_store_server_end_queues(struct dta_store_server *o, const char *name);
/* Creates this end of a raw queue pair. Returns the answer, or NULL with the reason in why. */
json_t *dta_store_server_queue(struct dta_store_server *o, const struct dta_server_conn *c,
			       const json_t *message, const char **why);

/* peer.c: reads the lists from the peer; called before translators are admitted. */
void dta_store_server_peer_lists(struct dta_store_server *o);
/* Requests that stores be read from the peer after a gap, once their next epoch has started. */
void dta_store_server_peer_wanted(struct dta_store_server *o);
/*
 * Reads requested stores; releases the lock while reading. Returns the time by which it must be
 * called again.
 */
uint64_t dta_store_server_peer(struct dta_store_server *o, uint64_t now);
/* Whether a peer that reads stores from this collector gets all reports. */
bool dta_store_server_peer_reads(struct dta_store_server *o);
/* Whether all stores with keys can catch up, which needs two epochs. */
bool dta_store_server_peer_fills(const struct dta_store_server *o);

/*
 * mend.c: repairs objects that translators damaged; checks at most once per MEND_NS unless urgent.
 */
void dta_store_server_mend(struct dta_store_server *o, bool urgent);

/*
 * server.c: returns -EACCES with one line in error if other hosts can reach a listener, and the
 * configuration neither has a secret nor allows this.
 */
int dta_store_server_check_open(const struct dta_store_server *o,
				const struct dta_stores_config *config, char *error, size_t bytes);
/* server.c: returns the translator that has a lane, preferably a connected one, or NULL. */
const struct dta_server_conn *dta_store_server_of_lane(const struct dta_store_server *o,
						       uint32_t lane);
struct dta_server_store *dta_store_server_store(struct dta_store_server *o, const char *name);
struct dta_server_store *dta_store_server_store_number(struct dta_store_server *o, uint64_t tenant,
						       uint64_t number);
void dta_store_server_wake(struct dta_store_server *o);

#endif
