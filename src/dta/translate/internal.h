/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - internals shared by translate.c, account.c, device.c and replicas.c */
#ifndef SL_DTA_TRANSLATE_INTERNAL_H
#define SL_DTA_TRANSLATE_INTERNAL_H

#include "dta/translate/credits.h"
#include "dta/translate/exporters.h"
#include "dta/translate/gap_file.h"
#include "dta/translate/hash_ring.h"
#include "dta/translate/reflect.h"
#include "dta/translate/translate.h"

#define DTA_BATCH 512u	/* datagrams per receive call */
#define HELD_MAX  1024u /* pending acknowledgements; beyond that, reporters must ask again */

/*
 * An input. Answers are sent through the input that received the packet. decoder: for device
 * packets, otherwise NULL.
 */
struct dta_source {
	struct dta_input *in;
	bool ended;
	enum dta_device device;
	struct dta_decoder *decoder;
	struct dta_map_batch *batch;
	struct dta_exporter_list *exporters;
	struct dta_worker *worker;
	uint64_t unproven; /* see struct dta_device_account */
};

/*
 * Acknowledgements held back until their reports are in memory, so that no report is lost if the
 * translator is killed after its reporter released it.
 */
struct dta_translate_held {
	uint32_t count;
	struct {
		struct dta_loss_key to;
		struct dta_answer answer;
	} a[HELD_MAX];
};

struct dta_worker {
	struct dta_translate_opts opts;
	char name[64];
	struct dta_source source[DTA_TRANSLATE_INPUTS];
	uint32_t sources;
	/* reporters of all inputs; legacy: reporters that use form B, or NULL */
	struct dta_loss *loss, *legacy;
	uint64_t translator; /* hash of the translator's name, as used in packets */
	uint32_t signer; /* number of the key that signed the current packet (dta_auth_check()) */
	struct dta_client *client[DTA_HASH_RING_MEMBERS_MAX];
	struct dta_hash_ring ring;
	struct dta_tenants *tenants;
	struct dta_credits credits;
	struct dta_reflect reflect;
	struct dta_translate_account account; /* excludes engines, outputs and windows */
	/* what each collector was told of the counts that concern no collector (account.c) */
	struct dta_translate_account share[DTA_HASH_RING_MEMBERS_MAX];
	uint64_t looked_ns, told_ns, busy_ns;
	atomic_bool ready;
	uint64_t turns; /* number of iterations of the worker's loop; relaxed */
	uint64_t up;	/* bit i: collector i is ready */
	/* received datagrams; those in [at, came) are not processed yet */
	struct dta_datagram datagram[DTA_BATCH];
	uint32_t at, came, from;
	struct dta_packet packet;
	uint64_t fresh[DTA_LOSS_FRESH_WORDS];
	uint8_t *gathered; /* buffer for items of the same collector; holds any block */
	/* [0]: acknowledgements waiting until the marks settle; [1]: those collected since then */
	struct dta_translate_held *held[2];
	struct dta_client_mark mark[DTA_HASH_RING_MEMBERS_MAX];
	uint64_t lost[DTA_HASH_RING_MEMBERS_MAX]; /* previous values of dta_client_lost() */
	uint64_t losers; /* bitmap of collectors that lost writes recently */
	/* one gap per collector; points into the gap file, or to own_gap */
	struct dta_translate_gap *gap;
	struct dta_translate_gap own_gap[DTA_HASH_RING_MEMBERS_MAX];
	uint64_t now; /* arrival time of the datagrams that device.c processes */
};

/* replicas.c: returns the first members on the ring that are in up. */
uint64_t dta_worker_members(const struct dta_worker *w, uint64_t hash, uint64_t up);
/* Counts a report for each of its members that is down. */
void dta_worker_missed(struct dta_worker *w, uint64_t hash);
/* Starts gaps, and announces gaps that have ended. Called after w->up changed. */
void dta_worker_gaps(struct dta_worker *w, uint64_t was_up);
/* Returns true if reports may be lost, in which case pending acknowledgements must be withdrawn. */
bool dta_worker_lost(struct dta_worker *w);

/* translate.c, for device.c: passes reports to the collectors of their keys. */
void dta_worker_dispatch(struct dta_worker *w, const struct dta_header *h,
			 const struct dta_block *b, uint64_t now);

/* ---- device.c: datagrams of devices ---- */

/* Sets up a source for the kind of input given in the worker's options. Returns 0 or -ENOMEM. */
int dta_worker_device_open(struct dta_worker *w, uint32_t source);
void dta_worker_device_close(struct dta_source *s);
void dta_worker_device_take(struct dta_worker *w, uint32_t source, const struct dta_datagram *d,
			    uint64_t now, uint64_t real);
/*
 * Dispatches the reports collected so far. Called after each batch of datagrams and when the worker
 * is idle. all: include those for which the decoder awaits more datagrams.
 */
void dta_worker_device_flush(struct dta_worker *w, uint32_t source, uint64_t now, bool all);
void dta_worker_device_account(const struct dta_worker *w, struct dta_translate_account *a);

/*
 * Returns the number of packets dropped for lack of room, by the kernel at all inputs and between
 * workers.
 */
uint64_t dta_worker_drops(const struct dta_worker *w);
/* Sends each collector its account. */
void dta_worker_notify(struct dta_worker *w);

#endif
