/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.h - one pod's rows of values in, verdicts out: rates of counters, normalisation learned
 * online, a detector, a threshold that follows a budget of false alarms, the metrics to blame.
 * May not know where values came from, what a verdict causes, files or clocks: time comes with the
 * rows, so a recorded day gives the same verdicts as the live one.
 *
 * One pipeline is used by one thread at a time. After creation nothing allocates; memory is about
 * 11 KiB + 650 bytes a column and what the detector takes (combined: 4 columns^2 bytes).
 *
 * Rows belong to steps of step_ns: each row is scored, against what was learned up to the step
 * before; the step as a whole is learned, once, when the next one begins. Rows of one step depend
 * on each other, so learning each would cost and teach nothing.
 *
 * A row is an anomaly by its own score, or by what the scores of its run of steps add up to, each
 * with a threshold (docs/analytics.md, Runs). Detectors whose scores are not comparable have no
 * runs.
 *
 * 	analyse_pipeline_columns(p, columns, n)           when the layout changes
 * 	analyse_pipeline_push(p, t_ns, values, &verdict)  each row, of a pod by itself; or, for many
 * pods, analyse_pipeline_score(...) for each and analyse_fleet_judge() over all: fleet.h
 */
#ifndef SL_ANALYSE_PIPELINE_H
#define SL_ANALYSE_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/calibrate.h"
#include "analyse/detector.h"

#define ANALYSE_BLAMED 8u
#define ANALYSE_NOBODY UINT32_MAX

struct analyse_pipeline_opts {
	uint32_t columns;    /* at most; rounded up to ANALYSE_ROW_LANES; default 64 */
	uint64_t step_ns;    /* default 1 s */
	uint64_t rate_ns;    /* rates of counters are smoothed over this; default 0: not */
	double false_alarms; /* an hour, that the user accepts of this pod; default 1 */
	uint64_t hold_ns;    /* anomalies that last longer become normal; default 2 min */
	double eta; /* probability that an anomalous step is learned all the same; default 0.05 */
	uint64_t seed;
	const struct analyse_detector_ops *detector; /* default: combined */
	const struct analyse_detector_ops *shadow;   /* scores, but does not act; default: none */
	struct analyse_detector_opts detail;	     /* dims and seed are set by the pipeline */
};

struct analyse_column {
	const char *name; /* with its labels: what the series is known by */
	bool counter;	  /* its rate per second is what counts */
};

struct analyse_verdict {
	uint64_t t_ns;
	float raw;    /* of the detector, in its unit */
	float common; /* of it what other pods show as well at the moment (fleet.h) */
	float score; /* comparable across pods and detectors: 1 is the threshold, of a step or a run
		      */
	float threshold; /* a step's, in the detector's unit; INFINITY while nothing is known */
	bool anomalous;	 /* score > 1 */
	bool drift;	 /* up to the step before, the model no longer fits: train it again */
	bool known;	 /* false: nothing learned yet, score is 0 */
	bool shadow_anomalous;
	float shadow_score;
	uint32_t blamed;
	struct {
		uint32_t column; /* index into the columns of analyse_pipeline_columns() */
		float share;	 /* of the raw score, 0..1 */
	} blame[ANALYSE_BLAMED];
};

struct analyse_pipeline_stats {
	uint64_t rows, steps, learned, anomalous;
	uint64_t backwards; /* rows refused: not later than the row before */
	uint64_t jumps;	  /* gaps, and clocks set back, after which recent levels were forgotten */
	uint64_t missing; /* values that were NaN or infinite, or too large (1e15) */
	uint64_t resets;  /* counters that began anew */
	uint64_t refused; /* columns that found no room */
	uint64_t forgotten; /* columns that gave their place to new ones */
};

struct analyse_pipeline;

/* NULL: errno EINVAL or ENOMEM. */
struct analyse_pipeline *analyse_pipeline_create(const struct analyse_pipeline_opts *opts);
void analyse_pipeline_free(struct analyse_pipeline *p); /* NULL is fine */

/*
 * The columns of all rows to come. A series is known again by its name, also after it was gone, as
 * long as no other needed its place. Returns how many found no place (they are left out of scores).
 */
uint32_t analyse_pipeline_columns(struct analyse_pipeline *p, const struct analyse_column *columns,
				  uint32_t n);

/*
 * values[n] as told by analyse_pipeline_columns(); NaN: missing. t_ns: later than that of the row
 * before. Score, judge by the pod's own threshold and settle. 0, or -EINVAL (counted) for a time
 * that is not later, which leaves the verdict empty. Earlier by more than ten steps: the clock was
 * set, and it goes on from there as after analyse_pipeline_rewind().
 */
int analyse_pipeline_push(struct analyse_pipeline *p, uint64_t t_ns, const double *values,
			  struct analyse_verdict *v);
/* The first half of it: the raw score, and the shares of it. */
int analyse_pipeline_score(struct analyse_pipeline *p, uint64_t t_ns, const double *values,
			   struct analyse_verdict *v);
/* The second half: v->common is known by now, and blame is ranked by the shares. */
void analyse_pipeline_settle(struct analyse_pipeline *p, struct analyse_verdict *v);

/*
 * What each metric adds to the raw score just scored: keys of names (0: no metric) and shares >= 0,
 * analyse_pipeline_dims() each, for fleet.h, which may lower shares in place before it settles.
 * Valid until the next row.
 */
uint32_t analyse_pipeline_dims(const struct analyse_pipeline *p);
const uint64_t *analyse_pipeline_keys(const struct analyse_pipeline *p);
float *analyse_pipeline_shares(struct analyse_pipeline *p);

enum analyse_learning {
	ANALYSE_LEARN_GATED =
		0,	   /* steps judged normal, and others after hold_ns with probability eta */
	ANALYSE_LEARN_ALL, /* every step: rows known to be free of faults */
	ANALYSE_LEARN_SCORES, /* the threshold alone: see analyse_pipeline_recalibrate() */
	ANALYSE_LEARN_NONE,
};
void analyse_pipeline_learning(struct analyse_pipeline *p, enum analyse_learning how);
/* Time begins anew, at any time: recent levels and rates are forgotten, what was learned stays. */
void analyse_pipeline_rewind(struct analyse_pipeline *p);
/*
 * The threshold is learned anew, and nothing else, from the rows that come: after training, from
 * the same rows, which by then are scored by what was learned of all of them.
 */
void analyse_pipeline_recalibrate(struct analyse_pipeline *p);
/* Scores go in here, too, from now on (fleet.h's, shared by comparable pods); NULL: its own alone.
 */
void analyse_pipeline_share(struct analyse_pipeline *p, struct analyse_thresholds *shared);

/* What it knows of itself, if it shares thresholds; else NULL. */
const struct analyse_thresholds *analyse_pipeline_thresholds(const struct analyse_pipeline *p);

void analyse_pipeline_stats(const struct analyse_pipeline *p, struct analyse_pipeline_stats *stats);
/* False alarms a step that the budget comes to. */
double analyse_pipeline_budget(const struct analyse_pipeline *p);
const struct analyse_detector_ops *analyse_pipeline_detector(const struct analyse_pipeline *p);

/*
 * Models: columns, normalisation, detector, calibration; not recent levels. Little-endian, with
 * magic, version, length and CRC-32.
 */
#define ANALYSE_MODEL_MAGIC   0x314c444f4d4c53ull /* "SLMODL1" */
#define ANALYSE_MODEL_VERSION 5u

size_t analyse_pipeline_save_bytes(const struct analyse_pipeline *p);
/* Returns the bytes written, or -ENOSPC. */
int64_t analyse_pipeline_save(const struct analyse_pipeline *p, void *buf, size_t bytes);
/*
 * Replaces what p has learned. -EPROTONOSUPPORT: another version; -EINVAL: cut short, damaged, of
 * another detector, or of more columns; p is then as it was created. A shared calibration stays
 * shared, and takes over the model's if it has learned nothing yet.
 */
int analyse_pipeline_load(struct analyse_pipeline *p, const void *buf, size_t bytes);
/* What a model was made for, without loading it. 0 or as analyse_pipeline_load() of what comes
 * first in it. */
struct analyse_model_info {
	char detector[16];
	uint32_t columns; /* a pipeline that loads it has as many */
	uint64_t step_ns, learned;
};
int analyse_pipeline_model_info(const void *buf, size_t bytes, struct analyse_model_info *info);
/*
 * Adds what another learned of the same columns and detector, on another host say. -EINVAL: they
 * differ, and p is unchanged.
 */
int analyse_pipeline_merge(struct analyse_pipeline *p, const struct analyse_pipeline *other);

#endif
