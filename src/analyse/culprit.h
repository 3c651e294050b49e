/* SPDX-License-Identifier: Apache-2.0 */
/*
 * culprit.h - finds the one pod of a fleet, if any, that explains the observations of all pods at a
 * step. It combines two kinds of evidence: how unusual the moves of the pod's resources are, and
 * how likely it is that calls to it take longer, given the latencies of all its direct and indirect
 * callers. docs/analytics.md, The culprit, derives it. Independent of metrics, files and clocks: a
 * step is a call. Equal calls give equal bits. Not thread-safe; allocates only when suspects,
 * services or paths are added.
 */
#ifndef SL_ANALYSE_CULPRIT_H
#define SL_ANALYSE_CULPRIT_H

#include <stdbool.h>
#include <stdint.h>

#include "analyse/graph.h"
#include "analyse/role.h"
#include "sketch/blob.h"

enum analyse_latency { ANALYSE_CLIENT, ANALYSE_SERVER, ANALYSE_LATENCIES };
enum analyse_tail_quantile { ANALYSE_P90, ANALYSE_P95, ANALYSE_P99, ANALYSE_TAILS };

/* Observations of a pod in one step. */
struct analyse_observation {
	double latency[ANALYSE_LATENCIES][ANALYSE_TAILS]; /* seconds; NaN if not known */
	/*
	 * novelty of the pod's resources: the sum over resource groups of the log of the largest
	 * move
	 */
	float novelty;
	/*
	 * amounts by which evidence from errors, and from other metrics, exceeds the usual amount
	 */
	float errors, other;
	uint64_t step; /* another row of the same step replaces the previous one */
	bool measured; /* server latencies include all requests, so a slow pod shows in them */
	bool learn;    /* the step is considered normal: learn the spread of latencies */
	/*
	 * The pod has an open anomaly. Its usual latencies stay as they are, and so do those of the
	 * pods connected to it by calls, because they show its fault.
	 */
	bool open;
};

/* Conclusions about a pod, as log likelihood ratios. */
struct analyse_suspicion {
	/* new evidence of this step: evidence times posterior, minus the part already scored */
	float score;
	float weighted;	 /* evidence times posterior */
	float evidence;	 /* sum of novelty, max(late, 0), failing * errors, and other */
	float late;	 /* evidence that calls to it take longer */
	float posterior; /* probability that this pod, and no other, is the culprit */
	float delay;	 /* likeliest delay of a call to it, s; 0 unless late > 0 */
	float failing;	 /* probability that no service below explains its errors by its own */
	float mine;	 /* probability that no service below explains its symptoms */
	float alone;	 /* probability that no other pod explains its symptoms */
};

struct analyse_culprit;
struct analyse_suspect;

struct analyse_culprit *analyse_culprit_new(void); /* returns NULL if memory is exhausted */
void analyse_culprit_free(struct analyse_culprit *c);
/*
 * Adds a pod. service: number in the graph, or ANALYSE_NO_SERVICE. Returns NULL if out of memory.
 */
struct analyse_suspect *analyse_culprit_add(struct analyse_culprit *c, uint32_t service);
void analyse_culprit_remove(struct analyse_culprit *c, struct analyse_suspect *s);
#define ANALYSE_NO_SERVICE UINT32_MAX
/* Replaces the call graph and copies the paths. After -ENOMEM, there is no call graph. */
int analyse_culprit_paths(struct analyse_culprit *c, const struct analyse_path *paths, uint32_t n);

/*
 * Processes one moment: takes the observations of n suspects, each at most once, and computes the
 * conclusions. prior: probability of a fault in a pod at a step, for suspicion.mine.
 */
void analyse_culprit_step(struct analyse_culprit *c, struct analyse_suspect *const *suspects,
			  const struct analyse_observation *seen, uint32_t n, double prior,
			  struct analyse_suspicion *out);
/*
 * Finds the services that call s and whose latencies at the last step show that calls to it take
 * longer, in descending order of evidence. Returns their number, at most `most`, or -ENOENT if it
 * has no callers.
 */
int analyse_culprit_callers(struct analyse_culprit *c, const struct analyse_suspect *s,
			    uint32_t *service, uint32_t most);
/*
 * Returns the smallest factor by which the pod's server latencies must rise before the evidence
 * that the pod itself is slow reaches `evidence`; INFINITY if its latencies are not known.
 */
double analyse_culprit_factor(const struct analyse_suspect *s, double evidence);
/*
 * Returns how far a latency (role ANALYSE_ROLE_CLIENT or ANALYSE_ROLE_SERVER) is above its usual
 * level, as a difference of logarithms; 0 if it is not above.
 */
float analyse_culprit_rise(const struct analyse_suspect *s, const struct analyse_role *of);
/* Call when latencies of this kind start to come from another source. Discards earlier levels. */
void analyse_culprit_forget(struct analyse_suspect *s, enum analyse_latency kind);
/*
 * Call when the pod's behaviour becomes the new normal. Discards its levels and those of its
 * callers.
 */
void analyse_culprit_accept(struct analyse_suspect *s);
/* Call when the time has jumped. Discards the current level and keeps the usual one. */
void analyse_culprit_rewind(struct analyse_suspect *s);

#endif
