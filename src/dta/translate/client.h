/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - a translator's connection with one owner of stores: the control channel (control.h), the objects and
 * stores that came over it, and the engine and output that write into them. Connects by itself, again and again
 * with a back-off; reports that come meanwhile are dropped as SL_DROP_OUTPUT_DOWN.
 *
 * One thread owns a client. Nothing here waits.
 */
#ifndef SL_DTA_TRANSLATE_CLIENT_H
#define SL_DTA_TRANSLATE_CLIENT_H

#include "dta/translate/control.h"

struct sl_client;

enum sl_client_output { SL_CLIENT_SHM = 0, SL_CLIENT_VERBS, SL_CLIENT_RAW };

struct sl_client_opts {
	const char *collector; /* "unix:PATH" or HOST:PORT */
	const char *name;      /* of this translator, as in "hello" */
	enum sl_client_output output;
	const char *rdma_host; /* verbs: NULL: the collector's HOST */
	const char *device;    /* verbs: NULL: as the route says */
	int gid_index, ib_port; /* verbs: -1, 0: as the route says */
	const char *interface; /* raw: to send by */
	bool xdp;	       /* raw: and that by AF_XDP */
	const char *file;      /* raw: into this pcap file instead */
	const void *secret;    /* of the control channel over TCP; NULL: none */
	size_t secret_bytes;
	struct sl_engine_opts engine;
	/* A "tenant" message, checked: for who authenticates packets. NULL: nobody. key NULL: of that tenant
	 * `required` is said. */
	void (*tenant)(void *arg, uint16_t tenant, bool required);
	void (*key)(void *arg, uint16_t tenant, int64_t reporter, const uint8_t *key, size_t bytes);
	void *arg;
};

/* NULL with errno and one line in error: what can't ever work. A collector that is not there is no error. */
struct sl_client *sl_client_new(const struct sl_client_opts *opts, char *error, size_t error_bytes);
/* Says the last account, and frees everything. What waits is flushed before by sl_client_finish(). */
void sl_client_free(struct sl_client *c);

/* Connects, reads messages, drives output and engine. Each millisecond or so, and when the descriptor is ready. */
void sl_client_drive(struct sl_client *c, uint64_t now_ns);
/* For poll(2); -1 while there is no connection. write: wants POLLOUT, too. */
int sl_client_fd(const struct sl_client *c, bool *write);
/* All stores are known and the output is up. */
bool sl_client_ready(const struct sl_client *c);
/* It has reports that wait for a timer. */
bool sl_client_waiting(const struct sl_client *c);
/* Has stores of this tenant, or knows of no tenant at all yet. */
bool sl_client_tenant(const struct sl_client *c, uint16_t tenant);

/* As sl_engine_block(). */
uint32_t sl_client_block(struct sl_client *c, uint16_t tenant, uint32_t reporter, const struct sl_dta_block *block,
			 uint64_t now_ns);
/* At the end of a batch: the engine's timers, the output's doorbell. */
void sl_client_tick(struct sl_client *c, uint64_t now_ns);
/*
 * Has all that was given before since_ns, which the caller sets, taken effect, or been counted as failed, unconfirmed
 * or dropped? Ask until it has. But for what waits for the end of a sketch's epoch.
 */
struct sl_client_mark {
	uint64_t since_ns, target; /* operations that are to be settled, once all have left the engine */
	bool given;
};
bool sl_client_settled(const struct sl_client *c, struct sl_client_mark *m);

/* What grows when reports, or operations of theirs, that were taken did not get into memory or may not have. */
uint64_t sl_client_lost(const struct sl_client *c);
/* Little room is left for operations: a block of reports may be dropped for it. */
bool sl_client_congested(const struct sl_client *c);

/* Flushes all that waits. True when nothing waits, and everything that was written is complete; else call again. */
bool sl_client_finish(struct sl_client *c, uint64_t now_ns);
/* It won't: what waits is dropped as SL_DROP_OUTPUT_DOWN, operations on their way are unconfirmed. */
void sl_client_abandon(struct sl_client *c);

/* Fills in engine and output, and leaves the rest. */
void sl_client_account(const struct sl_client *c, struct sl_translate_account *a);
/* Tells the owner. */
void sl_client_tell(struct sl_client *c, const struct sl_translate_account *a);

#endif
