/* SPDX-License-Identifier: Apache-2.0 */
/* client_internal.h - what client.c and client_output.c share. */
#ifndef SL_DTA_TRANSLATE_CLIENT_INTERNAL_H
#define SL_DTA_TRANSLATE_CLIENT_INTERNAL_H

#include <sys/socket.h>

#include "dta/translate/client.h"

#define CLIENT_OBJECTS_MAX    4096u
#define CLIENT_STORES_MAX     1024u
#define CLIENT_BACKOFF_MIN_NS 50000000ull
#define CLIENT_IMMEDIATES     64u /* stores with pending immediates; more are sent at once */

struct dta_client_object {
	struct dta_object o; /* the engine keeps a pointer to it */
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
	struct sockaddr_storage address;
	socklen_t address_bytes;
	char host[256];
	/* connection */
	int fd; /* while connecting */
	bool connecting, welcome, ready, up;
	struct dta_control_line *line;
	uint64_t backoff_ns, retry_ns, begun_ns, offered_ns;
	uint32_t session, lane;
	uint16_t port;
	uint64_t instance, out_instance; /* of the store server; of out's */
	char said[160];
	/* stores and output */
	struct dta_engine *engine;
	struct dta_output *out;		/* also the engine's; NULL without a session, but for shm */
	struct dta_output_stats before; /* of earlier outputs */
	struct dta_client_object *object[CLIENT_OBJECTS_MAX];
	struct dta_client_store store[CLIENT_STORES_MAX];
	struct dta_client_rotation rotation[CLIENT_STORES_MAX];
	uint32_t objects, stores, rotations;
	uint64_t tenant[UINT16_MAX / 64 + 1]; /* those announced in this session */
	uint64_t down;			      /* reports that came while not ready */
	/* shm: immediates that are not sent yet */
	struct {
		uint32_t number;
		uint64_t count;
	} immediate[CLIENT_IMMEDIATES];
	uint32_t immediates;
};

/* Opens the output for mappings, once. */
struct dta_output *dta_client_output_shm(struct dta_client *c);
/* Opens a session's output by its welcome. NULL, or the reason why not. */
const char *dta_client_output_open(struct dta_client *c);
void dta_client_output_close(struct dta_client *c);
void dta_client_output_drive(struct dta_client *c, uint64_t now_ns);
/* Connects to the store server's end of a raw queue pair. */
const char *dta_client_output_queue(struct dta_client *c, const json_t *message);
/* Sends the pending immediates of shm. */
void dta_client_output_notify(struct dta_client *c);
void dta_client_output_stats(const struct dta_client *c, struct dta_output_stats *out);

/* Sends a message (takes its reference), if there is a connection. */
void dta_client_send(struct dta_client *c, json_t *message);

/* client_stores.c: messages of the store server. NULL, or why the session must end. */
const char *dta_client_add_object(struct dta_client *c, const json_t *message, int fd);
const char *dta_client_add_store(struct dta_client *c, const json_t *message);
const char *dta_client_rotate(struct dta_client *c, const json_t *message);
/* All stores are announced: removes those of the previous session. */
void dta_client_stores_ready(struct dta_client *c);
/* Sends "rotated" for rotations whose earlier operations are complete. */
void dta_client_confirm_rotations(struct dta_client *c);
/* Pages of an object are gone: another process truncated its file. */
bool dta_client_taken_away(const struct dta_client *c);
/* Frees objects without a store. */
void dta_client_sweep(struct dta_client *c);

#endif
