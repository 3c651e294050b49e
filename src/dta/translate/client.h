/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - a translator's connection to one store server: the control channel (control.h), the
 * objects and stores announced on it, and the engine and output that write to them. It connects by
 * itself, with a back-off between attempts; reports are dropped as DTA_DROP_OUTPUT_DOWN meanwhile.
 *
 * Single-threaded and non-blocking.
 */
#ifndef SL_DTA_TRANSLATE_CLIENT_H
#define SL_DTA_TRANSLATE_CLIENT_H

#include "dta/io/output_rdma.h"
#include "dta/translate/control.h"
#include "dta/wire/auth.h"

struct dta_client;

enum dta_client_output { DTA_CLIENT_SHM = 0, DTA_CLIENT_VERBS, DTA_CLIENT_RAW };

struct dta_client_opts {
	const char *collector; /* "unix:PATH" or HOST:PORT */
	const char *name;      /* of this translator, as in "hello" */
	enum dta_client_output output;
	uint32_t replicas; /* collectors per report, for queries */
	/* host NULL: the collector's; port, name and instance are filled in */
	struct dta_output_verbs_opts verbs;
	struct dta_output_raw_opts raw;
	/* Of the control channel over TCP, or NULL: a collector that does not prove it is refused.
	 */
	const void *secret;
	size_t secret_bytes;
	struct dta_engine_opts engine;
	/*
	 * A checked "tenant" message, for authentication: whether packets must carry a MAC, and all
	 * keys, instead of those before. Only a unix socket or a proof of the secret may loosen
	 * what is required, and set keys. May be NULL.
	 */
	void (*tenant)(void *arg, uint16_t tenant, bool required);
	void (*keys)(void *arg, uint16_t tenant, const struct dta_key_spec *keys, size_t n);
	void *arg;
};

/*
 * NULL with errno and one line in error if it can never work. An absent collector is not an error.
 */
struct dta_client *dta_client_new(const struct dta_client_opts *opts, char *error,
				  size_t error_bytes);
/* Frees everything. Flush before with dta_client_finish(). */
void dta_client_free(struct dta_client *c);

/*
 * Connects, reads messages, drives output and engine. Call it about every millisecond, and when the
 * descriptor is ready.
 */
void dta_client_drive(struct dta_client *c, uint64_t now_ns);
/* For poll(2); -1 without a connection. write: also wait for POLLOUT. */
int dta_client_fd(const struct dta_client *c, bool *write);
/* All stores are announced and the output is up. */
bool dta_client_ready(const struct dta_client *c);
/* Reports wait for a timer. */
bool dta_client_waiting(const struct dta_client *c);
/* The tenant has stores, or tenants are not known yet. */
bool dta_client_tenant(const struct dta_client *c, uint16_t tenant);

/* As dta_engine_block(). */
uint32_t dta_client_block(struct dta_client *c, uint16_t tenant, uint32_t reporter,
			  const struct dta_block *block, uint64_t now_ns);
/* As dta_engine_prefetch(). */
void dta_client_prefetch(const struct dta_client *c, const uint8_t *packet, size_t bytes);
/* After a batch: runs the engine's timers and rings the output's doorbell. */
void dta_client_tick(struct dta_client *c, uint64_t now_ns);
/*
 * Whether every report given before since_ns (set by the caller) has taken effect or been counted
 * as failed, unconfirmed or dropped. Poll until true. Reports of a sketch's unfinished epoch are
 * exempt.
 */
struct dta_client_mark {
	uint64_t since_ns, target; /* operations to settle, once all reports left the engine */
	bool given;
};
bool dta_client_settled(const struct dta_client *c, struct dta_client_mark *m);

/* Grows when accepted reports or their operations did not, or may not, reach memory. */
uint64_t dta_client_lost(const struct dta_client *c);
/* Few operations fit: a block of reports may be dropped. */
bool dta_client_congested(const struct dta_client *c);

/* Flushes everything. True when nothing waits and all writes are complete; call it until then. */
bool dta_client_finish(struct dta_client *c, uint64_t now_ns);
/* Gives up: drops what waits as DTA_DROP_OUTPUT_DOWN; operations in flight count as unconfirmed. */
void dta_client_abandon(struct dta_client *c);

/* Fills in engine and output only. */
void dta_client_account(const struct dta_client *c, struct dta_translate_account *a);
/* Sends the account to the store server. */
void dta_client_notify(struct dta_client *c, const struct dta_translate_account *a);
/* Whether the session is open; and sends a message in it (takes its reference). */
bool dta_client_welcomed(const struct dta_client *c);
void dta_client_tell(struct dta_client *c, json_t *message);

#endif
