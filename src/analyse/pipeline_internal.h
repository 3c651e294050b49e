/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline_internal.h - the inside of a pipeline: pipeline.c takes rows and makes verdicts,
 * pipeline_learn.c learns from finished steps, pipeline_model.c saves, loads and merges.
 */
#ifndef SL_ANALYSE_PIPELINE_INTERNAL_H
#define SL_ANALYSE_PIPELINE_INTERNAL_H

#include "analyse/normalise.h"
#include "analyse/pipeline.h"

#define ANALYSE_LATE 10u /* steps without an anomaly after which a score is learned */

struct analyse_slot {
	uint64_t seen;	 /* layout of its last use */
	double last;	 /* previous value of a counter; NaN: none */
	float rate, top; /* top: largest rate since it was 0 */
	bool counter;
};

struct analyse_pipeline {
	struct analyse_pipeline_opts opts;
	uint32_t dims, used; /* used: columns in the layout */
	uint64_t layout, step, last_ns, random;
	double q;
	bool begun, step_anomalous, step_scored, drift;
	bool *held;	    /* dims: baselines held during an anomaly */
	uint64_t holding;   /* steps held, less the normal ones since */
	uint32_t anomalous; /* consecutive anomalous steps */
	struct {
		uint32_t steps;		   /* consecutive steps above the usual score */
		float above[ANALYSE_LATE]; /* ring: excess of each over it */
		float sum, peak;	   /* largest sum of them so far; largest score */
		bool found;		   /* it had an anomaly */
	} run;
	double news; /* anomalies beyond twice the budget: see no_news() */
	enum analyse_learning learning;
	float step_score, step_shadow;
	struct analyse_training_sample {
		float score, run, shadow; /* NAN: not to be learned */
		bool within;		  /* a step of a run that another represents */
	} late[ANALYSE_LATE];		  /* ring: to be learned later */
	uint32_t late_at, late_n;
	struct analyse_normaliser normaliser;
	struct analyse_thresholds own, *thresholds;
	struct analyse_calibration shadow_calibration;
	void *detector, *shadow;
	struct analyse_slot *slots;	       /* dims */
	uint64_t *keys;			       /* dims: hashed names; 0: free slot */
	uint32_t *slot_of;		       /* column -> slot, or ANALYSE_NONE */
	uint32_t *column_of;		       /* slot -> column, or ANALYSE_NONE */
	float *x, *z, *move, *blame, *scratch; /* dims each, of the last row */
	float *floats;
	struct analyse_pipeline_stats stats;
};

/* ---- pipeline.c ---- */

/*
 * Runs need scores with a unit and steps short enough to hold baselines for more than the
 * ANALYSE_FAST - 1 in which they follow by themselves.
 */
bool analyse_pipeline_has_runs(const struct analyse_pipeline *p);
int analyse_pipeline_init_thresholds(const struct analyse_pipeline *p,
				     struct analyse_thresholds *t);
void *analyse_pipeline_new_detector(const struct analyse_pipeline *p,
				    const struct analyse_detector_ops *ops);

/* ---- pipeline_learn.c ---- */

double analyse_pipeline_threshold(struct analyse_pipeline *p);
/*
 * The threshold of a run. While few runs are known, at least ANALYSE_FAST steps' thresholds: a
 * shorter run is one event and was judged as one.
 */
double analyse_pipeline_run_threshold(struct analyse_pipeline *p);
/* The sum of the last steps of the run and the current one; 0: no run. */
float analyse_pipeline_run_sum(const struct analyse_pipeline *p);
/* Learns from the finished step, if there is one. */
void analyse_pipeline_end_step(struct analyse_pipeline *p);
/* Forgets the current anomaly, run and scores to be learned. */
void analyse_pipeline_forget(struct analyse_pipeline *p);

#endif
