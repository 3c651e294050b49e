/* SPDX-License-Identifier: Apache-2.0 */
/* owner_internal.h - what the owner's files share: owner.c life and loop, owner_talk.c messages,
 * owner_epoch.c epochs and sizes, owner_json.c status. All of it is under `lock`, but for what is
 * said to be otherwise. */
#ifndef SL_DTA_STORE_SERVER_INTERNAL_H
#define SL_DTA_STORE_SERVER_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "dta/translate/control.h"
#include "dta/store_server/server.h"
#include "dta/query/json.h"
#include "dta/store/stores.h"

#define CONNS_MAX     256u
#define LISTENERS_MAX 8u
#define HELLO_NS      5000000000ull /* for a hello, and for a proof */

/* What banks of slots or paths hold, and what they held before another key took its place: an
 * estimate. */
struct dta_store_server_units {
	uint64_t standing;
	double lost, variance; /* of lost */
	bool sampled;	       /* not every place was looked at */
};

struct dta_server_store {
	struct dta_store_spec *spec;
	struct dta_store_object *objects; /* newest first; changed with `maps` held for writing */
	uint64_t epoch, oldest, since_ns; /* of the newest object; since: CLOCK_REALTIME */
	uint64_t due_ns;		  /* CLOCK_MONOTONIC of the next rotation; 0: none */
	uint64_t told_ns;		  /* when the epoch was told: drain_ns counts from here */
	struct dta_store_server_units
		expired;		      /* of banks that were zeroed, and objects that went */
	struct dta_store_server_units before; /* of its files when it was opened */
	uint64_t rotations, late;   /* late: rotations that had to wait for a translator */
	uint64_t immediates;	    /* that woke us */
	bool wanted, waiting;	    /* a rotation is due; it waits for a translator */
	bool zeroing;		    /* the loop is in a bank, without the lock */
	bool overdue;		    /* somebody did not answer within drain_ns: was said */
	struct dta_success success; /* with `measuring` held */
	uint64_t measure_ns;	    /* CLOCK_MONOTONIC: measured again not before */
};

enum dta_server_conn_state { CONN_NEW = 0, CONN_CHALLENGED, CONN_WELCOMED };

/*
 * A translator, also one whose connection is lost: while its process lives (shm) or its queue pair
 * is there (RDMA) it may still write, and counts for epochs.
 */
struct dta_server_conn {
	struct dta_server_conn *next;
	struct dta_control_line *line; /* NULL: lost */
	enum dta_server_conn_state state;
	bool local; /* unix socket */
	pid_t pid;
	int pidfd;
	char name[64], output[8], nonce[129], ours[33], called[160];
	uint32_t lane;
	uint64_t came_ns;		/* CLOCK_MONOTONIC */
	uint64_t heard_ns;		/* CLOCK_REALTIME */
	uint64_t acked[DTA_STORES_MAX]; /* writes into no epoch before this one */
};

/* What a name has reported: lanes and accounts outlive connections. */
struct dta_server_known {
	char name[64];
	uint64_t heard_ns;		   /* CLOCK_REALTIME; 0: the lane is free */
	json_t *last;			   /* the account of its present run */
	struct dta_translate_account past; /* sums of those before */
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
	int wake, spare; /* spare: given up for a moment to turn somebody away */
	pthread_t thread;
	bool started, stopping;
	pthread_mutex_t lock;
	pthread_rwlock_t maps;	   /* taken after lock; queries take it alone, for reading */
	pthread_mutex_t measuring; /* taken before maps, without lock */
	struct dta_server_store *stores;
	size_t store_count;
	uint32_t next_object;
	struct dta_server_conn *conns;
	size_t conn_count;
	struct dta_server_known known[SL_STORE_LANES_MAX];
	uint32_t lanes;				/* in use by this configuration */
	struct dta_translate_account forgotten; /* of names whose lane is another's now */
	struct dta_rdma_host *host;		/* NULL: no RDMA, or its device is gone */
	uint64_t reopen_ns;			/* when to look for the device again */
	uint64_t devices_lost;
	struct dta_server_queue *queues;
	char called[160]; /* what translators call us, going by the last one that came */
	uint64_t refused; /* connections that were let go before they were welcome */
	uint64_t reloads, reloads_refused;
	int reload_fd; /* readable: somebody asks for a reload (SIGHUP); -1 */
};

/* owner_talk.c: takes what a connection says. False: it is to be closed. */
bool dta_store_server_hear(struct dta_store_server *o, struct dta_server_conn *c);
/* Tells all translators of the newest object of a store, and of its epoch. */
void dta_store_server_notify_object(struct dta_store_server *o, struct dta_server_store *s);
void dta_store_server_notify_epoch(struct dta_store_server *o, struct dta_server_store *s);
/* Tells all translators of every tenant: rate, keys. */
void dta_store_server_notify_tenants(struct dta_store_server *o);
/* Its connection is lost, or was closed here with these words: what it may still write keeps
 * counting. */
void dta_store_server_lose(struct dta_store_server *o, struct dta_server_conn *c, const char *why);
/* Frees those that can write no more. */
void dta_store_server_bury(struct dta_store_server *o);

/* owner_epoch.c: opens or makes the objects of a store. */
#define STANDING_SAMPLE 4096u /* units: all of a bank of fewer than twice as many */
/* Adds what all banks of an object hold: counted, or of larger ones estimated. */
void dta_store_server_units(const struct dta_store_object *at, struct dta_store_server_units *u);
int dta_store_server_store_open(struct dta_store_server *o, struct dta_server_store *s, char *error,
				size_t error_bytes);
/*
 * Rotates what is due. Leaves the lock while it zeroes a bank. Returns when it wants to be called
 * again, at the latest (CLOCK_MONOTONIC ns).
 */
uint64_t dta_store_server_epochs(struct dta_store_server *o, uint64_t now);

/* owner.c: whom translators by RDMA must know; another after its memory was registered anew. */
void dta_store_server_instance(struct dta_store_server *o);

/* owner_json.c: adds to what there is; of JSON what is no counter of an account, a stranger's,
 * counts as 0. */
void dta_store_server_account_add(struct dta_translate_account *to,
				  const struct dta_translate_account *from);
void dta_store_server_account_take(struct dta_translate_account *to, const json_t *account);

/* owner_rdma.c: all of it does nothing without RDMA. */
int dta_store_server_rdma_open(struct dta_store_server *o, char *error, size_t bytes);
/*
 * If the device is gone, ends what was on it, and opens it again when it is back. Returns when it
 * wants to be called again, at the latest (CLOCK_MONOTONIC ns).
 */
uint64_t dta_store_server_rdma_watch(struct dta_store_server *o, uint64_t now);
void dta_store_server_rdma_close(struct dta_store_server *o); /* after all objects were freed */
uint16_t dta_store_server_rdma_port(const struct dta_store_server *o);
int dta_store_server_object_register(struct dta_store_server *o, struct dta_store_object *at);
void dta_store_server_object_free(struct dta_store_server *o, struct dta_store_object *at,
				  bool unlink_file);
bool dta_store_server_queue_add(struct dta_store_server *o, uint64_t queue, const char *name);
bool dta_store_server_has_queue(const struct dta_store_server *o, const char *name);
void dta_store_server_end_queues(struct dta_store_server *o, const char *name); /* NULL: all */
/* The other end of a queue pair that was made by hand: what to answer, or NULL with why. */
json_t *dta_store_server_queue(struct dta_store_server *o, const struct dta_server_conn *c,
			       const json_t *message, const char **why);

struct dta_server_store *dta_store_server_store(struct dta_store_server *o, const char *name);
struct dta_server_store *dta_store_server_store_number(struct dta_store_server *o, uint64_t tenant,
						       uint64_t number);
void dta_store_server_wake(struct dta_store_server *o);

#endif
