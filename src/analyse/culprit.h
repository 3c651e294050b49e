/* SPDX-License-Identifier: Apache-2.0 */
/*
 * culprit.h - which one pod of a fleet, if any, explains what all of them show at a step: how new
 * the moves of its resources are, and how likely calls to it take longer, given the latencies of
 * all its callers, direct and indirect. docs/analytics.md, The culprit, derives it.
 *
 * It knows no metrics, files or clocks: a step is a call. Equal calls give equal bits. It is not
 * thread-safe, and allocates only when suspects, services or paths are added.
 */
#ifndef SL_ANALYSE_CULPRIT_H
#define SL_ANALYSE_CULPRIT_H

#include <stdbool.h>
#include <stdint.h>

#include "analyse/graph.h"
#include "sketch/blob.h"

enum analyse_latency { ANALYSE_CLIENT, ANALYSE_SERVER, ANALYSE_LATENCIES };
enum analyse_tail_quantile { ANALYSE_P90, ANALYSE_P95, ANALYSE_P99, ANALYSE_TAILS };

/* What a pod shows at a step. */
struct analyse_observation {
	double latency[ANALYSE_LATENCIES][ANALYSE_TAILS]; /* s; NaN: not known */
	float novelty; /* of its resources: the sum over groups of the log of the largest move */
	float other;   /* of what else it shows, beyond what is usual */
	uint64_t step; /* a further row of the same step replaces the one before */
	bool measured; /* server latencies are of all requests: a slow pod shows in them */
	bool learn;    /* the step is taken as normal: the spread of latencies learns */
};

/* What follows for it; log likelihood ratios. */
struct analyse_suspicion {
	float score; /* news of this step: evidence times posterior, less what was scored before */
	float weighted;	 /* evidence times posterior */
	float evidence;	 /* novelty + max(late, 0) + other */
	float late;	 /* that calls to it take longer */
	float posterior; /* that it is this pod and no other */
	float delay;	 /* s: the likeliest delay of a call to it; 0 unless late > 0 */
	float mine;	 /* probability that no service below it explains what it shows */
	float alone;	 /* that no other pod does */
};

struct analyse_culprit;
struct analyse_suspect;

struct analyse_culprit *analyse_culprit_new(void); /* NULL: out of memory */
void analyse_culprit_free(struct analyse_culprit *c);
/* A pod. service: of the graph, or ANALYSE_NO_SERVICE. NULL: out of memory. */
struct analyse_suspect *analyse_culprit_add(struct analyse_culprit *c, uint32_t service);
void analyse_culprit_remove(struct analyse_culprit *c, struct analyse_suspect *s);
#define ANALYSE_NO_SERVICE UINT32_MAX
/* Replaces the call graph; the paths are copied. -ENOMEM: without a graph from now on. */
int analyse_culprit_paths(struct analyse_culprit *c, const struct analyse_path *paths, uint32_t n);

/*
 * One moment: observations of n suspects, each at most once, and what follows for them. prior: of a
 * fault of a pod at a step, for suspicion.mine.
 */
void analyse_culprit_step(struct analyse_culprit *c, struct analyse_suspect *const *suspects,
			  const struct analyse_observation *seen, uint32_t n, double prior,
			  struct analyse_suspicion *out);
/*
 * The services that call s and whose latencies of the last step show that calls to it take longer,
 * those that show it most first: their number, at most `most`. -ENOENT: none calls it.
 */
int analyse_culprit_callers(struct analyse_culprit *c, const struct analyse_suspect *s,
			    uint32_t *service, uint32_t most);
/*
 * The smallest factor of its server latencies for which the evidence that it is slow itself is at
 * least this; INFINITY: its latencies are not known.
 */
double analyse_culprit_factor(const struct analyse_suspect *s, double evidence);
/* Latencies of this kind come from elsewhere now: earlier levels say nothing of them. */
void analyse_culprit_forget(struct analyse_suspect *s, enum analyse_latency kind);
/* Time jumped: the current level is not known, the usual one stays. */
void analyse_culprit_rewind(struct analyse_suspect *s);

#endif
