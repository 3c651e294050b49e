/* SPDX-License-Identifier: Apache-2.0 */
/* culprit_internal.h - the state of culprit.c, which culprit_paths.c allocates. */
#ifndef SL_ANALYSE_CULPRIT_INTERNAL_H
#define SL_ANALYSE_CULPRIT_INTERNAL_H

#include "analyse/culprit.h"
#include "analyse/level.h"

#define CULPRIT_LATENCY_MIN 1e-3 /* seconds; smaller differences are rounding errors */
#define CULPRIT_DELAYS	    8u	 /* number of delays to try, from DELAY_MIN to DELAY_MAX */
#define CULPRIT_PAST	    4u

struct analyse_suspect {
	const struct analyse_culprit *among;
	uint64_t step;
	/* fresh: number of steps since the clock jumped, at most ANALYSE_NOW */
	uint32_t index, service, fresh;
	bool next; /* the current observation belongs to a new step */
	bool known[ANALYSE_LATENCIES], raised;
	uint8_t recents, past_n;
	struct analyse_level level[ANALYSE_LATENCIES][ANALYSE_TAILS];
	float last[ANALYSE_LATENCIES][ANALYSE_TAILS]; /* last known log latency */
	float past[CULPRIT_PAST]; /* weighted evidence of past steps, latest first */
};

/* Where a caller's predicted quantile lies: at log survival t, between two usual quantiles. */
struct analyse_culprit_quantile {
	bool delayed; /* it is a quantile of the delayed calls only */
	uint8_t segment;
	float t;
};

struct analyse_culprit_term { /* one kind of a caller's latency, and a callee's share of it */
	uint32_t caller, callee;
	enum analyse_latency kind;
	float share, calls;
	/* number of the callee's replicas when quantile[] was computed; 0 if it was not computed */
	uint32_t replicas;
	struct analyse_culprit_quantile quantile[ANALYSE_TAILS];
};

/* The evidence of rival pods: the largest, and the sum of exp(evidence - largest). */
struct analyse_culprit_rivals {
	float most;
	double sum;
};

struct analyse_culprit_service {
	struct analyse_suspect **pod; /* pods seen in this step */
	uint32_t pods;
	size_t room;
	uint32_t first, terms; /* range of the terms in which the service is the callee */
	/* number of the part; services connected by calls, even indirectly, have the same part */
	uint32_t part;
	/* rivals among the pods of the part with this index */
	struct analyse_culprit_rivals rivals;
	bool raised; /* one of its pods has more evidence than RAISED */
	bool judged;
	bool linked; /* calls from it or to it are known */
	bool open;   /* a pod of the part with this index has an open anomaly */
	bool apart;  /* no calls between it and the culprit, in either direction */
	bool above;  /* its requests reach the culprit */
	/*
	 * most evidence from errors: in one of its pods; in a service that it calls, even
	 * indirectly
	 */
	float errors, errors_below;
	float late[CULPRIT_DELAYS];
	/*
	 * odds of a fault in one of its pods; in a pod of a service that it calls, even indirectly;
	 * in a pod of the part with this index
	 */
	double odds, below, part_odds;
};

struct analyse_culprit {
	struct analyse_suspect **suspect;
	uint32_t suspects;
	size_t suspect_room;
	struct analyse_culprit_service *service;
	uint32_t services;
	struct analyse_culprit_term *term;
	uint32_t terms;
	/* delays to try; tail: -log survival of each quantile */
	float delay[CULPRIT_DELAYS], tail[ANALYSE_TAILS];
	struct analyse_culprit_quantile own[ANALYSE_TAILS], all[ANALYSE_TAILS];
};

void analyse_culprit_free_paths(struct analyse_culprit *c);

#endif
