/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.h - from one pod's rows of values to verdicts: rates of counters, normalisation learned
 * online, a detector, a threshold that keeps a budget of false alarms, the metrics to blame. Knows
 * no sources, consequences, files or clocks: time comes with the rows, so a recorded day gives the
 * same verdicts as the live one.
 *
 * A pipeline is used by one thread at a time. It allocates at creation only: about 28 KiB (11 KiB
 *in a fleet) + 700 bytes per column and what the detector takes (combined: 4 columns^2 bytes).
 *
 * Rows belong to steps of step_ns. Each row is scored against what was learned up to the step
 * before; each step is learned once, when the next begins, because rows of one step depend on each
 * other.
 *
 * A row is anomalous by its own score or by the sum of scores of its run of steps, each with a
 * threshold (docs/analytics.md, Runs). Detectors whose scores are not comparable have no runs.
 *
 *	analyse_pipeline_columns(p, columns, n)           when the layout changes
 *	analyse_pipeline_push(p, t_ns, values, &verdict)  each row of a single pod
 *
 * For many pods, analyse_pipeline_score() for each and analyse_fleet_judge() for all (fleet.h).
 */
#ifndef SL_ANALYSE_PIPELINE_H
#define SL_ANALYSE_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/calibrate.h"
#include "analyse/detector.h"

#define ANALYSE_BLAMED 8u
#define ANALYSE_NONE   UINT32_MAX

struct analyse_pipeline_opts {
	uint32_t columns; /* at most; rounded up to ANALYSE_ROW_LANES; default 64 */
	uint64_t step_ns; /* default 1 s */
	uint64_t
		rate_ns; /* rates of counters are over this time; default 0: since the row before */
	double false_alarms; /* accepted false alarms per hour; default 1 */
	uint64_t hold_ns;    /* anomalies that last longer become normal; default 2 min */
	double eta;	     /* probability that an anomalous step is learned; default 0.05 */
	uint64_t seed;
	const struct analyse_detector_ops *detector; /* default: combined */
	const struct analyse_detector_ops
		*shadow;		     /* scores without effect on verdicts; default: none */
	struct analyse_detector_opts detail; /* dims and seed are set by the pipeline */
};

struct analyse_column {
	const char *name; /* with labels: identifies the series */
	bool counter;	  /* its rate per second is analysed */
};

struct analyse_verdict {
	uint64_t t_ns;
	float raw;     /* of the detector, in its unit */
	float common;  /* the part of raw that other pods show too, or explain (fleet.h) */
	float culprit; /* what speaks for this pod among all (culprit.h); NaN: no call graph */
	uint8_t kind;  /* enum analyse_kind that scored most; ANALYSE_KINDS: all together */
	float score; /* comparable across pods and detectors: 1 is the threshold of a step or run */
	/*
	 * Of the score the part of `culprit`, 0 without call graph. As pods compete for the same
	 * evidence, those of several add up to what speaks for any of them.
	 */
	float suspicion;
	float threshold; /* of a step, in the detector's unit; INFINITY while nothing is known */
	float delay;	 /* s by which calls to the pod take longer, as its callers show; 0: none */
	uint32_t next;	 /* place in the moment of the other pod that scores most; ANALYSE_NONE */
	/*
	 * Of the score the part of counts of errors, whose probability is known before thresholds
	 * are: 1 is the threshold.
	 */
	float errors;
	bool anomalous; /* score > 1 */
	bool drift;	/* as of the step before, the model no longer fits: train it again */
	bool known;	/* false: nothing learned yet, score is 0 */
	bool shadow_anomalous;
	float shadow_score;
	uint32_t blamed;
	struct {
		uint32_t column;   /* index into the columns of analyse_pipeline_columns() */
		float share;	   /* of the raw score, 0..1 */
		float before, now; /* usual value and that of the row; counters: per second */
	} blame[ANALYSE_BLAMED];
};

struct analyse_pipeline_stats {
	uint64_t rows, steps, learned, anomalous;
	uint64_t backwards; /* rows refused for a time not later than the last */
	uint64_t jumps;	    /* gaps and clocks set back, after which recent levels were forgotten */
	uint64_t missing;   /* values NaN, infinite or beyond 1e15 */
	uint64_t resets;    /* counters that were reset */
	uint64_t refused;   /* columns without room */
	uint64_t forgotten; /* columns replaced by new ones */
};

struct analyse_pipeline;

/* NULL: errno EINVAL or ENOMEM. */
struct analyse_pipeline *analyse_pipeline_create(const struct analyse_pipeline_opts *opts);
void analyse_pipeline_free(struct analyse_pipeline *p); /* accepts NULL */

/*
 * Sets the columns of all rows to come. A series is recognised by its name, also after an absence,
 * unless another needed its place. Returns how many found no place; they do not enter scores.
 */
uint32_t analyse_pipeline_columns(struct analyse_pipeline *p, const struct analyse_column *columns,
				  uint32_t n);

/*
 * Scores the row values[n] (NaN: missing) at t_ns, judges it by the pod's own threshold and settles
 * it. 0, or -EINVAL (counted) with an empty verdict unless t_ns is later than the row before. A
 * time more than ten steps back means that the clock was set, and acts as
 * analyse_pipeline_rewind().
 */
int analyse_pipeline_push(struct analyse_pipeline *p, uint64_t t_ns, const double *values,
			  struct analyse_verdict *v);
/* The first half: the raw score and its shares. */
int analyse_pipeline_score(struct analyse_pipeline *p, uint64_t t_ns, const double *values,
			   struct analyse_verdict *v);
/*
 * In between: evidence from elsewhere that this pod is the culprit at this row, as a log likelihood
 * ratio, at least 0. It counts in a fleet that knows its calls.
 */
void analyse_pipeline_testify(struct analyse_pipeline *p, float evidence);
/*
 * In between, when all rows of the moment are scored: P90, P95 and P99 in s (NaN: not known) of the
 * requests to this pod, as another one measures them. They take the place of its own in a fleet
 * that knows its calls, and who measures is no suspect: what it shows is the pod's.
 */
void analyse_pipeline_measured(struct analyse_pipeline *p, struct analyse_pipeline *by,
			       const double seconds[3]);
/* The second half, with v->common known: the verdict, and the blame ranked by shares. */
void analyse_pipeline_settle(struct analyse_pipeline *p, struct analyse_verdict *v);

enum analyse_learning {
	ANALYSE_LEARN_GATED =
		0,	      /* steps judged normal; others after hold_ns with probability eta */
	ANALYSE_LEARN_ALL,    /* every step: rows known to be free of faults */
	ANALYSE_LEARN_WARM,   /* a pod's first steps: all but what is improbable so far */
	ANALYSE_LEARN_SCORES, /* the threshold only: see analyse_pipeline_recalibrate() */
	ANALYSE_LEARN_NONE,
};
void analyse_pipeline_learning(struct analyse_pipeline *p, enum analyse_learning how);
/* Restarts time: recent levels and rates are forgotten, what was learned stays. */
void analyse_pipeline_rewind(struct analyse_pipeline *p);
/* The warm-up should go on: the last step was anomalous, and it is not known yet whether it stays.
 */
bool analyse_pipeline_disturbed(const struct analyse_pipeline *p);
/*
 * Relearns only the threshold from the rows to come: after training, from the same rows, now scored
 * by the whole model.
 */
void analyse_pipeline_recalibrate(struct analyse_pipeline *p);
void analyse_pipeline_stats(const struct analyse_pipeline *p, struct analyse_pipeline_stats *stats);
/*
 * How well a pod is known. Coarse: it is judged, but its thresholds are wide for lack of steps
 * (docs/analytics.md, Thresholds). least: the smallest factor by which a 90th percentile of its
 * latencies must rise, if nothing else moves, to be an anomaly; INFINITY: none is enough, or it has
 * none.
 */
enum analyse_state { ANALYSE_LEARNING, ANALYSE_COARSE, ANALYSE_READY };
enum analyse_state analyse_pipeline_state(struct analyse_pipeline *p, double *least);
/*
 * The P90 of requests to this pod in the last row, over its usual one: 2 is twice as slow. The mean
 * of several; 0: not known, as without requests.
 */
double analyse_pipeline_slowdown(const struct analyse_pipeline *p);
/* The budget in false alarms per step. */
double analyse_pipeline_budget(const struct analyse_pipeline *p);

/*
 * Models: columns, normalisation, detector and calibration, without recent levels. Little-endian,
 * with magic, version, length and CRC-32.
 */
#define ANALYSE_MODEL_MAGIC   0x314c444f4d4c53ull /* "SLMODL1" */
#define ANALYSE_MODEL_VERSION 8u

size_t analyse_pipeline_save_bytes(const struct analyse_pipeline *p);
/* Returns the bytes written, or -ENOSPC. */
int64_t analyse_pipeline_save(const struct analyse_pipeline *p, void *buf, size_t bytes);
/*
 * The model of n >= 1 pods: what the first has learned, and those of the others that have the same
 * columns. Returns its bytes, *buf to be freed, or -errno.
 */
int64_t analyse_pipeline_save_all(struct analyse_pipeline *const *pods, uint32_t n, void **buf);
/*
 * Replaces what p has learned. -EPROTONOSUPPORT: another version; -EINVAL: truncated, damaged,
 * another detector or number of columns; p is then as created. Shared thresholds stay shared, and
 * take over the model's if they have learned nothing.
 */
int analyse_pipeline_load(struct analyse_pipeline *p, const void *buf, size_t bytes);
/* The columns that a pipeline must have to load a model of p. */
uint32_t analyse_pipeline_width(const struct analyse_pipeline *p);
/* Describes a model without loading it. 0, or an error of analyse_pipeline_load() in the header. */
struct analyse_model_info {
	char detector[16];
	uint32_t columns; /* of a pipeline that can load it */
	uint64_t step_ns, learned;
};
int analyse_pipeline_model_info(const void *buf, size_t bytes, struct analyse_model_info *info);
/*
 * Adds what another learned of the same columns and detector, for example on another host. -EINVAL
 * without a change if they differ.
 */
int analyse_pipeline_merge(struct analyse_pipeline *p, const struct analyse_pipeline *other);

#endif
