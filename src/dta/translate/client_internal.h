/* SPDX-License-Identifier: Apache-2.0 */
/* client_internal.h - declarations shared by client.c, client_output.c and client_stores.c */
#ifndef SL_DTA_TRANSLATE_CLIENT_INTERNAL_H
#define SL_DTA_TRANSLATE_CLIENT_INTERNAL_H

#include "dta/translate/client.h"
#include "dta/translate/control.h"
#include "fabric/lookup.h"

#define CLIENT_OBJECTS_MAX    4096u
#define CLIENT_STORES_MAX     1024u
#define CLIENT_BACKOFF_MIN_NS 50000000ull
/* number of stores with pending immediates; further stores send theirs immediately */
#define CLIENT_IMMEDIATES 64u

struct dta_client_object {
	struct dta_object o; /* the engine keeps a pointer to this member */
	uint32_t session;
	bool used;
};

struct dta_client_store {
	uint16_t tenant, id;
	uint32_t session;
	struct dta_client_object *object;
};

struct dta_client_rotation {
	uint16_t tenant, store;
	uint64_t epoch, settled;
};

struct dta_client {
	struct dta_client_opts opts;
	struct dta_control_address address;
	struct fabric_lookup *lookup; /* of its host, if it takes time */
	uint64_t lookup_ns; /* time since which an attempt to connect waits for it, or 0 */
	/* connection */
	int fd; /* socket while connecting */
	bool connecting, welcome, ready, up;
	struct dta_control_line *line;
	uint64_t backoff_ns, retry_ns, begun_ns, offered_ns;
	uint32_t session, lane;
	uint16_t port;
	/* instance of the store server; instance that `out` connects to */
	uint64_t instance, out_instance;
	char said[160];
	/* stores and output */
	struct dta_engine *engine;
	/* the output, which the engine uses as well; NULL without a session, except for shm */
	struct dta_output *out;
	struct dta_output_stats before; /* sum of the statistics of earlier outputs */
	struct dta_client_object *object[CLIENT_OBJECTS_MAX];
	struct dta_client_store store[CLIENT_STORES_MAX];
	struct dta_client_rotation rotation[CLIENT_STORES_MAX];
	uint32_t objects, stores, rotations;
	uint64_t tenant[UINT16_MAX / 64 + 1]; /* bitmap of the tenants announced in this session */
	uint64_t down;			      /* number of reports that arrived while not ready */
	uint32_t run;			      /* random number of this run, for the account */
	/* shm: immediates not yet sent */
	struct {
		uint32_t number;
		uint64_t count;
	} immediate[CLIENT_IMMEDIATES];
	uint32_t immediates;
};

/* Opens the output for mappings if it is not open. */
struct dta_output *dta_client_output_shm(struct dta_client *c);
/*
 * Opens a session's output, using its welcome message. Returns NULL on success, or the reason for
 * failure.
 */
const char *dta_client_output_open(struct dta_client *c);
void dta_client_output_close(struct dta_client *c);
void dta_client_output_drive(struct dta_client *c, uint64_t now_ns);
/* Connects to the store server's end of a raw queue pair. */
const char *dta_client_output_queue(struct dta_client *c, const json_t *message);
/* Sends the pending immediates of shm. */
void dta_client_output_notify(struct dta_client *c);
void dta_client_output_stats(const struct dta_client *c, struct dta_output_stats *out);

/*
 * client_stores.c: process messages from the store server. Return NULL, or the reason why the
 * session must end.
 */
const char *dta_client_add_object(struct dta_client *c, const json_t *message, int fd);
const char *dta_client_add_store(struct dta_client *c, const json_t *message);
const char *dta_client_rotate(struct dta_client *c, const json_t *message);
/* Called when all stores are announced; removes stores left from the previous session. */
void dta_client_stores_ready(struct dta_client *c);
/*
 * Sends "rotated" for each rotation whose preceding operations are all complete. Returns false if
 * that fails.
 */
bool dta_client_confirm_rotations(struct dta_client *c);
/* Whether pages of an object are lost because another process truncated its file. */
bool dta_client_taken_away(const struct dta_client *c);
/* Frees objects that no store uses. */
void dta_client_sweep(struct dta_client *c);

#endif
