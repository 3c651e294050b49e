/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - a translator's connection to one store server: the control channel (control.h), the
 * objects and stores announced on it, and the engine and output that write to them. It reconnects
 * automatically, with a back-off between attempts. Reports that arrive while it is not connected
 * are dropped as DTA_DROP_OUTPUT_DOWN.
 *
 * Single-threaded and non-blocking.
 */
#ifndef SL_DTA_TRANSLATE_CLIENT_H
#define SL_DTA_TRANSLATE_CLIENT_H

#include "dta/io/output_rdma.h"
#include "dta/translate/control.h"
#include "dta/translate/tenants.h"

struct dta_client;

enum dta_client_output { DTA_CLIENT_SHM = 0, DTA_CLIENT_VERBS, DTA_CLIENT_RAW };

struct dta_client_opts {
	const char *collector; /* "unix:PATH" or HOST:PORT */
	const char *name;      /* this translator's name in "hello" */
	enum dta_client_output output;
	uint32_t replicas; /* number of collectors per report; queries need it */
	/* if host is NULL, the collector's host is used; port, name and instance are filled in */
	struct dta_output_verbs_opts verbs;
	struct dta_output_raw_opts raw;
	/*
	 * Control channel secret for TCP, or NULL. A collector that does not authenticate with the
	 * secret is refused.
	 */
	const void *secret;
	size_t secret_bytes;
	struct dta_engine_opts engine;
	/*
	 * Receives valid "tenant" messages, as those of collector `number`. Only a unix socket, or
	 * a peer that authenticated with the secret, may relax the requirement of a MAC and set
	 * keys. May be NULL.
	 */
	struct dta_tenants *tenants;
	uint32_t number;
};

/*
 * Returns NULL with one line in error if the options can never work. It is not an error if the
 * collector is absent.
 */
struct dta_client *dta_client_new(const struct dta_client_opts *opts, char *error,
				  size_t error_bytes);
/* Frees everything. Call dta_client_finish() first to flush. */
void dta_client_free(struct dta_client *c);

/*
 * Connects, reads messages, and drives output and engine. Call it about every millisecond, and
 * whenever the descriptor is ready.
 */
void dta_client_drive(struct dta_client *c, uint64_t now_ns);
/* Returns the descriptor for poll(2), or -1 without a connection. write: also wait for POLLOUT. */
int dta_client_fd(const struct dta_client *c, bool *write);
/* Whether all stores are announced and the output is up. */
bool dta_client_ready(const struct dta_client *c);
/* Whether reports wait for a timer. */
bool dta_client_waiting(const struct dta_client *c);
/* Whether the tenant has stores; true until the tenants are known. */
bool dta_client_tenant(const struct dta_client *c, uint16_t tenant);

/* Like dta_engine_block(). */
uint32_t dta_client_block(struct dta_client *c, uint16_t tenant, uint32_t reporter,
			  const struct dta_block *block, uint64_t now_ns);
/* Like dta_engine_prefetch(). */
void dta_client_prefetch(const struct dta_client *c, const uint8_t *packet, size_t bytes);
/* Runs the engine's timers and rings the output's doorbell. Call it after each batch. */
void dta_client_tick(struct dta_client *c, uint64_t now_ns);
/*
 * Whether every report accepted before since_ns (set by the caller) has taken effect, or has been
 * counted as failed, unconfirmed or dropped. Poll until it returns true. Reports in an unfinished
 * sketch epoch are exempt.
 */
struct dta_client_mark {
	/* number of operations that must settle once all reports have left the engine */
	uint64_t since_ns, target;
	bool given;
};
bool dta_client_settled(const struct dta_client *c, struct dta_client_mark *m);

/* Returns a counter that grows whenever accepted reports did not, or may not, reach memory. */
uint64_t dta_client_lost(const struct dta_client *c);
/* Whether the output has so little room that a block of reports may be dropped. */
bool dta_client_congested(const struct dta_client *c);

/*
 * Flushes everything. Call it until it returns true, which means that nothing waits and all writes
 * are complete.
 */
bool dta_client_finish(struct dta_client *c, uint64_t now_ns);
/*
 * While not ready: gives up what dta_client_settled() waits for, so that reporters can resend it to
 * another collector. Drops the reports that wait for a timer as DTA_DROP_OUTPUT_DOWN, and counts
 * operations in flight as unconfirmed if the connection has ended.
 */
void dta_client_give_up(struct dta_client *c);
/*
 * Drops all waiting reports as DTA_DROP_OUTPUT_DOWN and counts operations in flight as unconfirmed.
 */
void dta_client_abandon(struct dta_client *c);

/* Fills in only the parts for the engine and the output. */
void dta_client_account(const struct dta_client *c, struct dta_translate_account *a);
/* Sends the account to the store server. */
void dta_client_notify(struct dta_client *c, const struct dta_translate_account *a);
bool dta_client_welcomed(const struct dta_client *c); /* whether the session is open */
/* Sends a message and releases the caller's reference. Returns false if it cannot be sent. */
bool dta_client_send(struct dta_client *c, json_t *message);

#endif
