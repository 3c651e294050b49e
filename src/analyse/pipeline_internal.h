/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline_internal.h - a pipeline from within: pipeline.c takes rows and makes verdicts,
 * pipeline_learn.c learns from steps that are over, pipeline_model.c saves, loads and merges what
 * was learned.
 */
#ifndef SL_ANALYSE_PIPELINE_INTERNAL_H
#define SL_ANALYSE_PIPELINE_INTERNAL_H

#include "analyse/normalise.h"
#include "analyse/pipeline.h"

#define ANALYSE_LATE 10u /* steps: a score is learned when nothing was found for so long */

struct analyse_slot {
	uint64_t seen;	 /* layout in which it was used last */
	double last;	 /* a counter's value before; NaN: none */
	float rate, top; /* top: the largest rate since it was 0 */
	bool counter;
};

struct analyse_pipeline {
	struct analyse_pipeline_opts opts;
	uint32_t dims, used; /* used: columns of the layout */
	uint64_t layout, step, last_ns, random;
	double q;
	bool begun, step_anomalous, step_scored, drift;
	bool *held;	    /* dims: baselines that wait while the anomaly lasts */
	uint64_t holding;   /* steps for which they did, less the normal ones since */
	uint32_t anomalous; /* steps, one after the other */
	struct {
		uint32_t steps; /* of a run so far: one after the other above the usual */
		float above[ANALYSE_LATE]; /* a ring: by how much each of the last was */
		float sum, peak;	   /* the largest sum of them so far; the largest score */
		bool found;		   /* an anomaly came in it */
	} run;
	double news; /* anomalies beyond twice the budget: see no_news() */
	enum analyse_learning learning;
	float step_score, step_shadow;
	struct analyse_training_sample {
		float score, run, shadow; /* NAN: nothing to be learned of it */
		bool within;		  /* a step of a run, for which another one stands */
	} late[ANALYSE_LATE];		  /* a ring: still to be learned */
	uint32_t late_at, late_n;
	struct analyse_normaliser normaliser;
	struct analyse_thresholds own, *thresholds;
	struct analyse_calibration shadow_calibration;
	void *detector, *shadow;
	struct analyse_slot *slots;	       /* dims */
	uint64_t *keys;			       /* dims: of names; 0: a free slot */
	uint32_t *slot_of;		       /* column -> slot, or ANALYSE_NOBODY */
	uint32_t *column_of;		       /* slot -> column, or ANALYSE_NOBODY */
	float *x, *z, *move, *blame, *scratch; /* dims each, of the last row */
	float *floats;
	struct analyse_pipeline_stats stats;
};

/* ---- pipeline.c ---- */

/*
 * Runs are of scores that have a unit, and of steps short enough for a baseline to wait for some:
 * it follows within ANALYSE_FAST - 1 by itself.
 */
bool analyse_pipeline_has_runs(const struct analyse_pipeline *p);
int analyse_pipeline_init_thresholds(const struct analyse_pipeline *p,
				     struct analyse_thresholds *t);
void *analyse_pipeline_new_detector(const struct analyse_pipeline *p,
				    const struct analyse_detector_ops *ops);

/* ---- pipeline_learn.c ---- */

double analyse_pipeline_threshold(struct analyse_pipeline *p);
/*
 * Of few runs little is known. At the least it takes what a threshold's worth of steps adds up to
 * until baselines that do not wait have followed: what is shorter is one event, and was judged as
 * one.
 */
double analyse_pipeline_run_threshold(struct analyse_pipeline *p);
/* What its last steps add up to, with the one under way. 0: there is no run. */
float analyse_pipeline_run_sum(const struct analyse_pipeline *p);
/* The step is over: what it has shown is learned. Without one it does nothing. */
void analyse_pipeline_end_step(struct analyse_pipeline *p);
/* What went on: anomaly, run, scores that were to be learned. */
void analyse_pipeline_forget(struct analyse_pipeline *p);

#endif
