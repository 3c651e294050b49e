/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.h - interface between verbs.c, which reads and notifies, and verbs_connect.c, which
 * connects. Only with HAVE_VERBS.
 */
#ifndef SL_FABRIC_VERBS_H
#define SL_FABRIC_VERBS_H

#include "fabric/provider.h"
#include "fabric/auth.h"
#include "fabric/dial.h"
#include "fabric/merge.h"

struct fabric_verbs {
	struct fabric base;
	struct fabric_dial dial;
	char *device;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct fabric_verbs_proof request; /* the last request, if there is opts.secret */
	bool challenged;		   /* true if the cookie in request comes from the host */
	bool broken; /* posting failed: the next drive or poll resets the connection */

	uint32_t generation; /* generation of the queue pair; upper half of its wr_ids */
	uint32_t depth, signal_every;
	struct fabric_merge_limits limits;
	struct ibv_send_wr *chain; /* scratch space for post: opts.queue_depth entries */
	struct ibv_sge *sge;	   /* FABRIC_MERGE_AREAS_MAX per request */
	uint64_t board_addr;	   /* address of the host's verdict board */
	uint32_t board_rkey;
};

static inline struct fabric_verbs *fabric_verbs_of(struct fabric *f)
{
	return (struct fabric_verbs *)f;
}

/* verbs_connect.c. Starts to connect to the host. */
void fabric_verbs_start(struct fabric_verbs *v, uint64_t now_ns);
/* Takes the next step; once up, checks the connection periodically. */
void fabric_verbs_events(struct fabric_verbs *v, uint64_t now_ns);
/* Destroys all objects in reverse order of creation; NULL members are skipped. */
void fabric_verbs_tear_down(struct fabric_verbs *v);
/* Destroys the connection and ends all requests; timeout_ns is as for fabric_went_down(). */
void fabric_verbs_reset(struct fabric_verbs *v, uint64_t now_ns, uint64_t timeout_ns);

#endif
