/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the store server's files share: server.c (life and loop), session.c (messages),
 * epoch.c (epochs and sizes), rdma.c, json.c (status). Everything is under `lock` unless stated
 * otherwise.
 */
#ifndef SL_DTA_STORE_SERVER_INTERNAL_H
#define SL_DTA_STORE_SERVER_INTERNAL_H

#include <netinet/in.h>
#include <pthread.h>
#include <sys/types.h>

#include "dta/translate/control.h"
#include "dta/store_server/server.h"
#include "dta/query/json.h"
#include "dta/store/stores.h"

#define CONNS_MAX     256u
#define STRANGERS_MAX 64u /* connections before their welcome */
#define LISTENERS_MAX 8u
#define HELLO_NS      5000000000ull /* for a hello */

/* Units (slots or paths) in banks, and an estimate of those that other keys overwrote. */
struct dta_store_server_units {
	uint64_t standing;
	double lost, variance; /* of standing + lost */
	bool sampled;	       /* by a sample */
};

struct dta_server_store {
	struct dta_store_spec *spec;
	struct dta_store_object *objects; /* newest first; changed with `maps` held for writing */
	uint64_t epoch, oldest, since_ns; /* of the newest object; since: CLOCK_REALTIME */
	uint64_t due_ns;		  /* next rotation, CLOCK_MONOTONIC; 0: none */
	uint64_t told_ns; /* when the epoch was announced: drain_ns runs from here */
	struct dta_store_server_units expired; /* of zeroed banks and freed objects */
	struct dta_store_server_units before;  /* of its files when opened */
	uint64_t rotations, late;	       /* late: rotations that waited for a translator */
	uint64_t immediates;		       /* received */
	bool wanted, waiting;		       /* a rotation is due; and waits for a translator */
	uint64_t behind;	    /* the epoch after that of a gap, until it is filled; 0: none */
	bool zeroing;		    /* the loop zeroes a bank without the lock */
	bool overdue;		    /* logged that a translator exceeded drain_ns */
	struct dta_success success; /* under `measuring` */
	uint64_t measure_ns;	    /* earliest next measurement, CLOCK_MONOTONIC */
};

/* Why a connection ended before its welcome. */
enum dta_server_refusal {
	DTA_CONN_LEFT = 0, /* its peer closed it */
	DTA_CONN_CROWDED,  /* too many; those of the address that has most go first */
	DTA_CONN_SILENT,   /* no hello within HELLO_NS, with TLS or without */
	DTA_CONN_LONG,	   /* a message of more than DTA_CONTROL_FIRST_MAX bytes */
	DTA_CONN_PROOF,	   /* another secret, or none */
	DTA_CONN_WRONG,	   /* anything else that it said */
	DTA_CONN_REFUSALS
};

enum dta_server_conn_state { CONN_NEW = 0, CONN_WELCOMED, CONN_READER };

/*
 * A translator, also one whose connection is lost: it may still write while its process lives (shm)
 * or its queue pair exists (RDMA), and counts for epochs.
 */
struct dta_server_conn {
	struct dta_server_conn *next;
	struct dta_control_line *line; /* NULL: lost */
	enum dta_server_conn_state state;
	enum dta_server_refusal why;
	bool local;	      /* unix socket */
	bool secured;	      /* by TLS, as the file of stores has a secret */
	struct in6_addr from; /* IPv4 mapped; of a unix socket: its user */
	pid_t pid;
	int pidfd;
	char name[64], output[8], called[160];
	uint32_t lane, replicas;
	uint64_t came_ns;		/* CLOCK_MONOTONIC */
	uint64_t heard_ns;		/* CLOCK_REALTIME */
	uint64_t acked[DTA_STORES_MAX]; /* writes to no epoch before this one */
};

/* A translator's name: lane and account outlive connections. */
struct dta_server_known {
	char name[64];
	uint64_t heard_ns;		   /* CLOCK_REALTIME; 0: the lane is free */
	json_t *last;			   /* the account of its current run */
	json_t *reporters;		   /* that it told last */
	uint64_t more, told_ns;		   /* others that it knows; when, CLOCK_REALTIME */
	struct dta_translate_account past; /* the sum of earlier runs */
};

/* When a translator could not reach this collector, and the reports that a replica has instead. */
#define GAPS_MAX     64u
#define REPLICAS_MAX 64ul
struct dta_server_gap {
	char name[64];
	uint64_t from_ns, to_ns, reports; /* CLOCK_REALTIME */
	bool filled;			  /* read from a peer since */
};

/* A queue pair of a translator with this name. */
struct dta_server_queue {
	struct dta_server_queue *next;
	uint64_t queue;
	char name[64];
};

struct dta_store_server {
	struct dta_stores_config *config;
	char *path;
	uint64_t instance;
	struct {
		int fd;
		bool local;
		char address[160], unlink[112];
	} listener[LISTENERS_MAX];
	size_t listeners;
	int wake, spare; /* spare: a descriptor to close for rejecting a connection */
	pthread_t thread;
	bool started, stopping;
	pthread_mutex_t lock;
	pthread_rwlock_t maps;	   /* taken after lock; queries take only it, for reading */
	pthread_mutex_t measuring; /* taken before maps, without lock */
	struct dta_server_store *stores;
	size_t store_count;
	uint32_t next_object;
	uint64_t max_bytes; /* of all objects, after a resize; 0: the default */
	struct dta_server_conn *conns;
	size_t conn_count;
	struct dta_server_known known[SL_STORE_LANES_MAX];
	uint32_t lanes;				/* usable with this configuration */
	struct dta_translate_account forgotten; /* of names that lost their lane */
	struct fabric_host *host;		/* NULL: no RDMA, or its device is gone */
	uint64_t reopen_ns;			/* when to look for the device again */
	uint64_t devices_lost;
	uint64_t mended, mended_ns; /* objects that a translator had spoiled; the last look */
	struct dta_server_queue *queues;
	char called[160];		     /* what the last translator calls us */
	uint64_t refused[DTA_CONN_REFUSALS]; /* connections closed before their welcome */
	uint64_t reloads, reloads_refused;
	struct dta_server_gap gap[GAPS_MAX]; /* the latest last */
	uint32_t gaps;
	uint64_t began_ns; /* CLOCK_REALTIME */
	uint64_t catch_ns; /* when to read from the peer; 0: nothing is missing */
	uint32_t catch_gaps;
	int reload_fd; /* readable: a reload is requested (SIGHUP); or -1 */
};

/* session.c: reads a connection's messages. False: it must be closed. */
bool dta_store_server_serve(struct dta_store_server *o, struct dta_server_conn *c);
/* Announces a store's newest object, and its epoch, to all translators. */
void dta_store_server_notify_object(struct dta_store_server *o, struct dta_server_store *s);
void dta_store_server_notify_epoch(struct dta_store_server *o, struct dta_server_store *s);
/* Announces all tenants to all translators: rates and keys. */
void dta_store_server_notify_tenants(struct dta_store_server *o);
/* Drops a connection, with a reason to send or NULL. What it may still write keeps counting. */
void dta_store_server_disconnect(struct dta_store_server *o, struct dta_server_conn *c,
				 const char *why);
/* Frees connections that can no longer write. */
void dta_store_server_reap(struct dta_store_server *o);

/* epoch.c: opens or makes the objects of a store. */
#define STANDING_SAMPLE 4096u /* units; a bank of fewer than twice as many is read completely */
/* Adds the units of all banks of an object, estimated for large ones. */
void dta_store_server_units(const struct dta_store_object *at, struct dta_store_server_units *u);
int dta_store_server_store_open(struct dta_store_server *o, struct dta_server_store *s, char *error,
				size_t error_bytes);
/*
 * Rotates what is due; releases the lock while it zeroes a bank. Returns when to call it again at
 * the latest (CLOCK_MONOTONIC).
 */
uint64_t dta_store_server_epochs(struct dta_store_server *o, uint64_t now);

/*
 * server.c: draws a new instance, which RDMA translators must know, whenever memory is registered
 * anew.
 */
void dta_store_server_instance(struct dta_store_server *o);

/* json.c: adds a translator's account. It is untrusted: whatever is not a counter counts as 0. */
void dta_store_server_account_take(struct dta_translate_account *to, const json_t *account);

/*
 * series.c: [{"name","key","result","value"}] of the keys that the file lists, from the newest
 * epoch that has each; value only if found. NULL: it lists none.
 */
json_t *dta_store_server_series(struct dta_store_server *o, const struct dta_server_store *s);

/* rdma.c: no effect without RDMA. */
int dta_store_server_rdma_open(struct dta_store_server *o, char *error, size_t bytes);
/*
 * Handles the loss of the device and its return. Returns when to call it again at the latest
 * (CLOCK_MONOTONIC).
 */
uint64_t dta_store_server_rdma_watch(struct dta_store_server *o, uint64_t now);
void dta_store_server_rdma_close(struct dta_store_server *o); /* after freeing all objects */
uint16_t dta_store_server_rdma_port(const struct dta_store_server *o);
int dta_store_server_object_register(struct dta_store_server *o, struct dta_store_object *at);
void dta_store_server_object_unregister(struct dta_store_server *o, struct dta_store_object *at);
void dta_store_server_object_free(struct dta_store_server *o, struct dta_store_object *at,
				  bool unlink_file);
bool dta_store_server_has_queue(const struct dta_store_server *o, const char *name);
void dta_store_server_end_queues(struct dta_store_server *o, const char *name); /* NULL: all */
/* Makes our end of a raw queue pair. Returns the answer, or NULL with why. */
json_t *dta_store_server_queue(struct dta_store_server *o, const struct dta_server_conn *c,
			       const json_t *message, const char **why);

/* peer.c: before translators are admitted: lists of the peer. */
void dta_store_server_peer_lists(struct dta_store_server *o);
/* After a gap: stores are to be read from the peer, once their next epoch has begun. */
void dta_store_server_peer_wanted(struct dta_store_server *o);
/* Does so; releases the lock meanwhile. Returns when to call it again at the latest. */
uint64_t dta_store_server_peer(struct dta_store_server *o, uint64_t now);
/* Whether a peer that reads from here gets everything. */
bool dta_store_server_peer_reads(struct dta_store_server *o);

/* mend.c: puts right what translators spoiled, at most every MEND_NS unless it is urgent. */
void dta_store_server_mend(struct dta_store_server *o, bool urgent);

struct dta_server_store *dta_store_server_store(struct dta_store_server *o, const char *name);
struct dta_server_store *dta_store_server_store_number(struct dta_store_server *o, uint64_t tenant,
						       uint64_t number);
void dta_store_server_wake(struct dta_store_server *o);

#endif
