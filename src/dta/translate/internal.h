/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what translate.c and account.c share */
#ifndef SL_DTA_TRANSLATE_INTERNAL_H
#define SL_DTA_TRANSLATE_INTERNAL_H

#include "dta/wire/auth.h"
#include "dta/translate/credits.h"
#include "dta/translate/gap_file.h"
#include "dta/translate/hash_ring.h"
#include "dta/translate/reflect.h"
#include "dta/translate/translate.h"

#define DTA_BATCH 512u	/* datagrams per call */
#define HELD_MAX  1024u /* pending acknowledgements; beyond, a reporter asks again */

/* An input: answers go out where packets came in. decoder: of devices' packets; else NULL. */
struct dta_source {
	struct dta_input *in;
	bool ended;
	enum dta_device device;
	struct dta_decoder *decoder;
	struct dta_map_batch *batch;
	struct dta_worker *worker;
	uint64_t unproven; /* see struct dta_device_account */
};

/*
 * Acknowledgements held until their reports are in memory, so that a killed translator loses
 * nothing that a reporter has released.
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
	struct dta_loss *loss, *legacy; /* reporters of all inputs; legacy: of form B, or NULL */
	uint64_t translator;		/* its name, as packets have it */
	uint32_t signer;		/* of the packet: dta_auth_check() */
	struct dta_client *client[DTA_HASH_RING_MEMBERS_MAX];
	struct dta_hash_ring ring;
	struct dta_auth *auth;
	struct dta_credits credits;
	struct dta_reflect reflect;
	struct dta_translate_account account; /* without engines, outputs and windows */
	uint64_t looked_ns, told_ns, busy_ns;
	atomic_bool ready;
	uint64_t turns;				 /* of its loop; relaxed */
	uint64_t up;				 /* bit i: collector i is ready */
	struct dta_datagram datagram[DTA_BATCH]; /* [at, came) are not taken */
	uint32_t at, came, from;
	struct dta_packet packet;
	uint64_t fresh[DTA_LOSS_FRESH_WORDS];
	uint8_t *gathered;		    /* items for one collector */
	struct dta_translate_held *held[2]; /* waiting for marks; collected since */
	struct dta_client_mark mark[DTA_HASH_RING_MEMBERS_MAX];
	uint64_t lost[DTA_HASH_RING_MEMBERS_MAX]; /* of dta_client_lost() */
	uint64_t losers;			  /* collectors that lost writes lately */
	struct dta_translate_gap *gap;		  /* per collector; in a file, or own_gap */
	struct dta_translate_gap own_gap[DTA_HASH_RING_MEMBERS_MAX];
	uint64_t now; /* of the datagrams that device.c takes */
};

/* replicas.c: the first members on the ring, of those in up. */
uint64_t dta_worker_members(const struct dta_worker *w, uint64_t hash, uint64_t up);
/* Counts a report for those of its members that are away. */
void dta_worker_missed(struct dta_worker *w, uint64_t hash);
/* After w->up changed: begins gaps, and tells those that ended. */
void dta_worker_gaps(struct dta_worker *w, uint64_t was_up);
/* Whether reports may be lost: pending acknowledgements must be withdrawn. */
bool dta_worker_lost(struct dta_worker *w);

/* translate.c, for device.c: reports to the collectors of their keys. */
void dta_worker_dispatch(struct dta_worker *w, const struct dta_header *h,
			 const struct dta_block *b, uint64_t now);

/* ---- device.c: what devices send ---- */

/* Gives a source what the worker's options say that it brings. 0, -ENOMEM. */
int dta_worker_device_open(struct dta_worker *w, uint32_t source);
void dta_worker_device_close(struct dta_source *s);
void dta_worker_device_take(struct dta_worker *w, uint32_t source, const struct dta_datagram *d,
			    uint64_t now, uint64_t real);
/* After a batch of datagrams: gives the reports that are gathered. */
void dta_worker_device_flush(struct dta_worker *w, uint32_t source, uint64_t now);
void dta_worker_device_account(const struct dta_worker *w, struct dta_translate_account *a);

/* Packets dropped for lack of room: by the kernel, at all inputs; and between workers. */
uint64_t dta_worker_drops(const struct dta_worker *w);
/* Sends each collector its account. */
void dta_worker_notify(struct dta_worker *w);

#endif
