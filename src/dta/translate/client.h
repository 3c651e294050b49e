/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - a translator's connection with one owner of stores: the control channel (control.h),
 * the objects and stores that came over it, and the engine and output that write into them.
 * Connects by itself, again and again with a back-off; reports that come meanwhile are dropped as
 * DTA_DROP_OUTPUT_DOWN.
 *
 * One thread owns a client. Nothing here waits.
 */
#ifndef SL_DTA_TRANSLATE_CLIENT_H
#define SL_DTA_TRANSLATE_CLIENT_H

#include "dta/translate/control.h"

struct dta_client;

enum dta_client_output { DTA_CLIENT_SHM = 0, DTA_CLIENT_VERBS, DTA_CLIENT_RAW };

struct dta_client_opts {
	const char *collector; /* "unix:PATH" or HOST:PORT */
	const char *name;      /* of this translator, as in "hello" */
	enum dta_client_output output;
	const char *rdma_host;	/* verbs: NULL: the collector's HOST */
	const char *device;	/* verbs: NULL: as the route says */
	int gid_index, ib_port; /* verbs: -1, 0: as the route says */
	const char *interface;	/* raw: to send by */
	bool xdp;		/* raw: and that by AF_XDP */
	const char *file;	/* raw: into this pcap file instead */
	const void *secret;	/* of the control channel over TCP; NULL: none */
	size_t secret_bytes;
	struct dta_engine_opts engine;
	/* A "tenant" message, checked: for who authenticates packets. NULL: nobody. key NULL: of
	 * that tenant `required` is said. */
	void (*tenant)(void *arg, uint16_t tenant, bool required);
	void (*key)(void *arg, uint16_t tenant, int64_t reporter, const uint8_t *key, size_t bytes);
	void *arg;
};

/* NULL with errno and one line in error: what can't ever work. A collector that is not there is no
 * error. */
struct dta_client *dta_client_new(const struct dta_client_opts *opts, char *error,
				  size_t error_bytes);
/* Says the last account, and frees everything. What waits is flushed before by dta_client_finish().
 */
void dta_client_free(struct dta_client *c);

/* Connects, reads messages, drives output and engine. Each millisecond or so, and when the
 * descriptor is ready. */
void dta_client_drive(struct dta_client *c, uint64_t now_ns);
/* For poll(2); -1 while there is no connection. write: wants POLLOUT, too. */
int dta_client_fd(const struct dta_client *c, bool *write);
/* All stores are known and the output is up. */
bool dta_client_ready(const struct dta_client *c);
/* It has reports that wait for a timer. */
bool dta_client_waiting(const struct dta_client *c);
/* Has stores of this tenant, or knows of no tenant at all yet. */
bool dta_client_tenant(const struct dta_client *c, uint16_t tenant);

/* As dta_engine_block(). */
uint32_t dta_client_block(struct dta_client *c, uint16_t tenant, uint32_t reporter,
			  const struct dta_block *block, uint64_t now_ns);
/* At the end of a batch: the engine's timers, the output's doorbell. */
void dta_client_tick(struct dta_client *c, uint64_t now_ns);
/*
 * Has all that was given before since_ns, which the caller sets, taken effect, or been counted as
 * failed, unconfirmed or dropped? Ask until it has. But for what waits for the end of a sketch's
 * epoch.
 */
struct dta_client_mark {
	uint64_t since_ns,
		target; /* operations that are to be settled, once all have left the engine */
	bool given;
};
bool dta_client_settled(const struct dta_client *c, struct dta_client_mark *m);

/* What grows when reports, or operations of theirs, that were taken did not get into memory or may
 * not have. */
uint64_t dta_client_lost(const struct dta_client *c);
/* Little room is left for operations: a block of reports may be dropped for it. */
bool dta_client_congested(const struct dta_client *c);

/* Flushes all that waits. True when nothing waits, and everything that was written is complete;
 * else call again. */
bool dta_client_finish(struct dta_client *c, uint64_t now_ns);
/* It won't: what waits is dropped as DTA_DROP_OUTPUT_DOWN, operations on their way are unconfirmed.
 */
void dta_client_abandon(struct dta_client *c);

/* Fills in engine and output, and leaves the rest. */
void dta_client_account(const struct dta_client *c, struct dta_translate_account *a);
/* Tells the owner. */
void dta_client_notify(struct dta_client *c, const struct dta_translate_account *a);

#endif
