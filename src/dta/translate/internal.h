/* SPDX-License-Identifier: Apache-2.0 */
/* translate_internal.h - what translate.c and translate_account.c share. */
#ifndef SL_DTA_TRANSLATE_INTERNAL_H
#define SL_DTA_TRANSLATE_INTERNAL_H

#include "dta/wire/auth.h"
#include "dta/translate/credits.h"
#include "dta/translate/hash_ring.h"
#include "dta/translate/translate.h"

#define DTA_BATCH 512u	/* datagrams at a time */
#define HELD_MAX  1024u /* acknowledgements at a time; of more, a reporter asks again */

/* An input, and who sends by it: an answer goes out where its packets came in. */
struct dta_source {
	struct dta_input *in;
	struct dta_loss *loss, *legacy;
	bool ended;
};

/*
 * Acknowledgements, until what they are of is in the memory of stores: a translator that is killed
 * then takes nothing along that a reporter has let go of.
 */
struct dta_translate_held {
	uint32_t count;
	struct {
		struct dta_source *source;
		struct dta_loss_key to;
		struct dta_answer answer;
	} a[HELD_MAX];
};

struct dta_worker {
	struct dta_translate_opts opts;
	char name[64];
	struct dta_source source[DTA_TRANSLATE_INPUTS];
	uint32_t sources;
	struct dta_client *client[DTA_HASH_RING_MEMBERS_MAX];
	struct dta_hash_ring ring;
	struct dta_auth *auth;
	struct dta_credits credits;
	struct dta_translate_account account; /* without what engines, outputs and windows count */
	uint64_t looked_ns, told_ns, busy_ns;
	atomic_bool ready;
	uint64_t up;				 /* bit i: collector i can be written to */
	struct dta_datagram datagram[DTA_BATCH]; /* [at, came) of source from are not yet taken */
	uint32_t at, came, from;
	struct dta_packet packet;
	uint64_t fresh[DTA_LOSS_FRESH_WORDS];
	uint8_t *gathered; /* items of one collector */
	struct dta_translate_held
		*held[2]; /* those that wait for marks, and those that came since */
	struct dta_client_mark mark[DTA_HASH_RING_MEMBERS_MAX];
	uint64_t lost; /* by outputs, of what was taken */
};

/* Tells each collector what was its own. */
void dta_worker_notify(struct dta_worker *w);

#endif
