/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.h - turns one pod's rows of values into verdicts: computes rates of counters, normalises
 * online, applies a detector and a threshold that keeps a budget of false alarms, and ranks the
 * metrics to blame. Independent of sources, actions, files and clocks: the time comes with the
 * rows, so a recorded day gives the same verdicts as the live one.
 *
 * A pipeline is used by one thread at a time. It allocates at creation only: about 28 KiB (11 KiB
 * in a fleet), 700 bytes per column, and the detector's state (combined: 4 columns^2 bytes).
 *
 * Rows belong to steps of step_ns. Each row is scored against the state learned up to the previous
 * step; each step is learned once, when the next begins, because rows of one step depend on each
 * other.
 *
 * A row is anomalous by its own score or by the sum of scores in its run of steps; each has a
 * threshold (docs/analytics.md, Runs). Detectors whose scores are not comparable have no runs.
 *
 *	analyse_pipeline_columns(p, columns, n)           when the layout changes
 *	analyse_pipeline_push(p, t_ns, values, &verdict)  each row of a single pod
 *
 * For many pods, call analyse_pipeline_score() for each and analyse_fleet_judge() for all
 * (fleet.h).
 */
#ifndef SL_ANALYSE_PIPELINE_H
#define SL_ANALYSE_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/calibrate.h"
#include "analyse/detector.h"

#define ANALYSE_BLAMED	8u
#define ANALYSE_NONE	UINT32_MAX
#define ANALYSE_HOLD_NS 21600000000000u /* 6 h */

struct analyse_pipeline_opts {
	/* maximum number; rounded up to a multiple of ANALYSE_ROW_LANES; default 64 */
	uint32_t columns;
	uint64_t step_ns; /* default 1 s */
	/* time covered by rates of counters; default 0, the time since the previous row */
	uint64_t rate_ns;
	double false_alarms; /* accepted false alarms per hour; default 1 */
	uint64_t hold_ns;    /* anomalies that last longer become normal; default ANALYSE_HOLD_NS */
	double eta;	     /* probability of learning an anomalous step; default 0.05 */
	uint64_t seed;
	const struct analyse_detector_ops *detector; /* default: combined */
	/* scores rows without effect on verdicts; default: none */
	const struct analyse_detector_ops *shadow;
	/* options of the detector; the pipeline sets dims and seed */
	struct analyse_detector_opts detail;
};

struct analyse_column {
	const char *name; /* name with labels, which identifies the series */
	bool counter;	  /* analyse the rate per second */
};

struct analyse_verdict {
	uint64_t t_ns;
	float raw;     /* score of the detector, in its unit */
	float common;  /* part of raw that is shared or explained by other pods (fleet.h) */
	float culprit; /* evidence for this pod among all (culprit.h); NaN without a call graph */
	/* enum analyse_kind with the highest score; ANALYSE_KINDS means all kinds together */
	uint8_t kind;
	float score; /* comparable across pods and detectors: 1 is the threshold of a step or run */
	/*
	 * The part of the score that comes from `culprit`; 0 without a call graph. Since pods
	 * compete for the same evidence, the sum over pods is the evidence that any of them has a
	 * fault.
	 */
	float suspicion;
	/* threshold of a step, in the detector's unit; INFINITY while nothing is known */
	float threshold;
	/* seconds by which calls to the pod take longer, according to its callers; 0 if none */
	float delay;
	/*
	 * Part of the score from error counts, which need no learned threshold: 1 is the threshold.
	 */
	float errors;
	/*
	 * score > 1, or > 0.5 while an anomaly is open and its metrics have not returned to normal;
	 * before the score is reduced because the row repeats an earlier one
	 */
	bool anomalous;
	bool drift; /* as of the previous step, the model no longer fits and should be retrained */
	bool known; /* false if nothing is learned yet; the score is then 0 */
	bool shadow_anomalous;
	float shadow_score;
	/*
	 * Result of the comparison with the siblings (fleet.h), which needs no learned model. All 0
	 * if the pod does not differ from them.
	 */
	struct {
		float score;	     /* 1 is the threshold */
		uint32_t siblings;   /* number of siblings in the comparison */
		uint32_t column;     /* the worst metric, ... */
		float value, median; /* ... its current level, and the median over all siblings */
	} odd;
	uint32_t blamed;
	struct {
		uint32_t column;   /* index in the columns of analyse_pipeline_columns() */
		float share;	   /* share of the raw score, 0 to 1 */
		float before, now; /* usual value and value of the row; per second for counters */
		/* the metric measures requests or their consequences: CPU time or waiting work */
		bool load;
		bool grows; /* a queue that has only grown for some time */
	} blame[ANALYSE_BLAMED];
};

struct analyse_pipeline_stats {
	uint64_t rows, steps, learned, anomalous;
	/* rows refused because their time is not later than that of the last row */
	uint64_t backwards;
	uint64_t jumps;	    /* gaps and clocks set back, after which recent levels were discarded */
	uint64_t missing;   /* values that were NaN, infinite or, for gauges, beyond 1e15 */
	uint64_t resets;    /* counter resets */
	uint64_t refused;   /* columns for which there was no space */
	uint64_t forgotten; /* number of columns replaced by new ones */
};

struct analyse_pipeline;

/* Returns NULL with errno EINVAL or ENOMEM on failure. */
struct analyse_pipeline *analyse_pipeline_create(const struct analyse_pipeline_opts *opts);
void analyse_pipeline_free(struct analyse_pipeline *p); /* accepts NULL */

/*
 * Sets the columns of all following rows. A series is recognised by its name, even after an
 * absence, unless another series took its slot. Returns the number of columns without a slot; they
 * do not enter scores.
 */
uint32_t analyse_pipeline_columns(struct analyse_pipeline *p, const struct analyse_column *columns,
				  uint32_t n);

/*
 * Scores the row values[n] (NaN if missing) at t_ns, judges it by the pod's own threshold and
 * settles it. Returns 0, or -EINVAL (counted) with an empty verdict unless t_ns is later than the
 * previous row. A time more than ten steps back means that the clock was set, and acts like
 * analyse_pipeline_rewind().
 */
int analyse_pipeline_push(struct analyse_pipeline *p, uint64_t t_ns, const double *values,
			  struct analyse_verdict *v);
/* First half of push: computes the raw score and its shares. */
int analyse_pipeline_score(struct analyse_pipeline *p, uint64_t t_ns, const double *values,
			   struct analyse_verdict *v);
/*
 * Call between the halves to add external evidence that this pod is the culprit in this row, as a
 * log likelihood ratio, at least 0. Only used in a fleet with a call graph.
 */
void analyse_pipeline_testify(struct analyse_pipeline *p, float evidence);
/*
 * Call between the halves, when all rows of the moment are scored. The arguments are P90, P95 and
 * P99, in s (NaN if not known), of the requests to this pod, as measured by another pod. In a fleet
 * with a call graph, they replace its own, and the measuring pod is not a suspect, because its
 * symptoms are those of this pod.
 */
void analyse_pipeline_measured(struct analyse_pipeline *p, struct analyse_pipeline *by,
			       const double seconds[3]);
/*
 * Second half of push, with v->common known: computes the verdict, and ranks the blame by shares.
 */
void analyse_pipeline_settle(struct analyse_pipeline *p, struct analyse_verdict *v);

enum analyse_learning {
	/* learn steps judged normal; others after hold_ns with probability eta */
	ANALYSE_LEARN_GATED = 0,
	ANALYSE_LEARN_ALL,    /* learn every step: rows are known to be free of faults */
	ANALYSE_LEARN_WARM,   /* learn the first steps of a pod, except improbable ones */
	ANALYSE_LEARN_SCORES, /* learn only the threshold: see analyse_pipeline_recalibrate() */
	ANALYSE_LEARN_NONE,
};
void analyse_pipeline_learning(struct analyse_pipeline *p, enum analyse_learning how);
/* Restarts time: discards recent levels and rates, and keeps the learned state. */
void analyse_pipeline_rewind(struct analyse_pipeline *p);
/*
 * Declares the pod's present behaviour normal and ends its anomaly, as if the anomaly had lasted
 * for hold_ns. Metrics outside their normal range learn their usual moves, or rates of errors,
 * again.
 */
void analyse_pipeline_accept(struct analyse_pipeline *p);
/* True if the warm-up should continue: the last step was anomalous, and may become usual. */
bool analyse_pipeline_disturbed(const struct analyse_pipeline *p);
/*
 * Learns the threshold again, and nothing else, from the following rows. After training, push the
 * same rows again: they are now scored by the complete model.
 */
void analyse_pipeline_recalibrate(struct analyse_pipeline *p);
void analyse_pipeline_stats(const struct analyse_pipeline *p, struct analyse_pipeline_stats *stats);
/*
 * How well a pod is known. Coarse: it is judged, but with wide thresholds because it has too few
 * steps (docs/analytics.md, Thresholds). least: the smallest factor by which a 90th percentile of
 * its latencies must rise, if nothing else moves, to be an anomaly; INFINITY if no factor is
 * enough, or it has no latencies.
 */
enum analyse_state { ANALYSE_LEARNING, ANALYSE_COARSE, ANALYSE_READY };
enum analyse_state analyse_pipeline_state(struct analyse_pipeline *p, double *least);
/*
 * Returns the P90 of requests to this pod in the last row, divided by its usual P90: 2 is twice as
 * slow. If it has several P90s, returns the mean; if it has no requests, 0.
 */
double analyse_pipeline_slowdown(const struct analyse_pipeline *p);
/* Returns the budget in false alarms per step. */
double analyse_pipeline_budget(const struct analyse_pipeline *p);

/*
 * Models: columns, normalisation, detector and calibration, without recent levels. Little-endian,
 * with magic, version, length and CRC-32.
 */
#define ANALYSE_MODEL_MAGIC   0x314c444f4d4c53ull /* "SLMODL1" */
#define ANALYSE_MODEL_VERSION 8u

/*
 * Saves the model of n >= 1 pods: the learned state of the first pod, merged with the state of the
 * other pods that have the same columns. Returns its size and *buf, which the caller frees, or
 * -errno.
 */
int64_t analyse_pipeline_save_all(struct analyse_pipeline *const *pods, uint32_t n, void **buf);
/*
 * Replaces the learned state of p. Returns 0; -EPROTONOSUPPORT for another version; or -EINVAL for
 * a truncated or damaged model, another detector, or another number of columns; p is then reset.
 * Shared thresholds remain shared; if they have learned nothing yet, they are replaced by the
 * model's.
 */
int analyse_pipeline_load(struct analyse_pipeline *p, const void *buf, size_t bytes);
/* Returns the number of columns that a pipeline needs in order to load a model of p. */
uint32_t analyse_pipeline_width(const struct analyse_pipeline *p);
/* Describes a model without loading it. Returns 0, or an error of analyse_pipeline_load(). */
struct analyse_model_info {
	char detector[16];
	uint32_t columns; /* number of columns that a pipeline must have to load this model */
	uint64_t step_ns, learned;
};
int analyse_pipeline_model_info(const void *buf, size_t bytes, struct analyse_model_info *info);
/*
 * Adds the learned state of another pipeline with the same columns and detector, for example from
 * another host. Returns -EINVAL, without changing p, if they differ.
 */
int analyse_pipeline_merge(struct analyse_pipeline *p, const struct analyse_pipeline *other);

#endif
