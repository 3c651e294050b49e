/* SPDX-License-Identifier: Apache-2.0 */
/* client_internal.h - what client.c and client_output.c share. */
#ifndef SL_DTA_TRANSLATE_CLIENT_INTERNAL_H
#define SL_DTA_TRANSLATE_CLIENT_INTERNAL_H

#include <sys/socket.h>

#include "dta/translate/client.h"

#define CLIENT_OBJECTS_MAX 4096u
#define CLIENT_STORES_MAX  1024u
#define CLIENT_NONCE_MAX   64u
#define CLIENT_IMMEDIATES  64u /* stores that are told of at a time; more: at once */

struct dta_client_object {
	struct dta_object o; /* the engine points at it: it stays where it is */
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

/*
 * What the engine takes for its output over RDMA: hands on to the one of the session, if there is
 * one. shm is given to the engine itself, which then writes without a call for each unit, and stays
 * for good.
 */
struct dta_client_front {
	struct dta_output output;
	struct dta_client *client;
};

struct dta_client {
	struct dta_client_opts opts;
	struct sockaddr_storage address;
	socklen_t address_bytes;
	char host[256];
	/* connection */
	int fd; /* while it connects */
	bool connecting, welcome, ready, up;
	struct dta_control_line *line;
	uint64_t backoff_ns, retry_ns, begun_ns, offered_ns;
	uint32_t session, lane;
	uint16_t port;
	uint64_t instance, out_instance; /* of the owner; whose memory what is under way is for */
	uint8_t nonce[32];
	char said[160];
	/* what it writes into, and by what */
	struct dta_client_front front;
	struct dta_engine *engine;
	struct dta_output *out;
	struct dta_output_stats before; /* of the outputs of sessions that are over */
	struct dta_client_object *object[CLIENT_OBJECTS_MAX];
	struct dta_client_store store[CLIENT_STORES_MAX];
	struct dta_client_rotation rotation[CLIENT_STORES_MAX];
	uint32_t objects, stores, rotations;
	uint64_t tenant[UINT16_MAX / 64 + 1]; /* those that this session has named */
	uint64_t down;			      /* reports that came while it was not ready */
	/* shm: immediates that the owner was not yet told */
	struct {
		uint32_t number;
		uint64_t count;
	} immediate[CLIENT_IMMEDIATES];
	uint32_t immediates;
};

extern const struct dta_output_ops dta_client_front_ops;

/* The output of mappings: once. 0 or -ENOMEM. */
int dta_client_output_shm(struct dta_client *c);
/* The output of a session, as its welcome says. NULL, or what is wrong. */
const char *dta_client_output_open(struct dta_client *c);
void dta_client_output_close(struct dta_client *c);
void dta_client_output_drive(struct dta_client *c, uint64_t now_ns);
/* The owner's end of a raw queue pair. */
const char *dta_client_output_queue(struct dta_client *c, const json_t *message);
/* Messages that the output has for the owner: immediates of shm. */
void dta_client_output_notify(struct dta_client *c);
void dta_client_output_stats(const struct dta_client *c, struct dta_output_stats *out);

#endif
