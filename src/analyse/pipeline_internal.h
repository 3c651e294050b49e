/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline_internal.h - the inside of a pipeline: pipeline.c takes rows and makes verdicts,
 * pipeline_learn.c learns from finished steps, pipeline_model.c saves, loads and merges.
 */
#ifndef SL_ANALYSE_PIPELINE_INTERNAL_H
#define SL_ANALYSE_PIPELINE_INTERNAL_H

#include "analyse/culprit.h"
#include "analyse/normalise.h"
#include "analyse/pipeline.h"
#include "analyse/count.h"
#include "analyse/reading.h"
#include "analyse/role.h"

#define ANALYSE_LATE 10u /* steps without an anomaly after which a score is learned */

struct analyse_slot {
	uint64_t seen; /* layout of its last use */
	bool counter;
	struct analyse_role role;
	struct analyse_count_past errors; /* of a counter of errors */
	double counted;			  /* its value when it was last learned; NaN: none */
};

/* A column that the culprit looks at: a latency quantile, or a resource. */
struct analyse_witness {
	uint16_t slot;
	struct analyse_role role;
};

struct analyse_pipeline {
	struct analyse_pipeline_opts opts;
	uint32_t dims, used; /* used: columns in the layout */
	uint64_t layout, step, last_ns, random;
	double q;
	bool begun, step_anomalous, step_scored, drift;
	bool *held;	    /* dims: baselines held during an anomaly */
	uint64_t holding;   /* steps held, less the normal ones since */
	bool was_held;	    /* at the step before, by an anomaly */
	uint32_t anomalous; /* consecutive anomalous steps */
	struct {
		uint32_t steps;		   /* consecutive steps above the usual score */
		float above[ANALYSE_LATE]; /* ring: excess of each over it */
		float sum, peak;	   /* largest sum of them so far; largest score */
		float kind[ANALYSE_KINDS]; /* largest of each kind */
		bool found;		   /* it had an anomaly */
	} run;
	struct {
		uint32_t times[2];    /* disturbances of the warm-up so far; by errors */
		uint64_t steps, last; /* of them, with their pauses; the last one */
		bool now, errors;     /* the step is improbable; by its errors alone */
		bool odd, out;	      /* the step before was anomalous; was left out */
	} warm;
	float step_verdict; /* the step's score in thresholds */
	uint32_t doubtful;  /* consecutive steps of which it is more than DOUBT, without runs */
	double news;	    /* anomalies beyond twice the budget: see no_news() */
	enum analyse_learning learning;
	float step_score, step_shadow, step_kind[ANALYSE_KINDS]; /* kind: NAN: not judged */
	/* Of the row, from the fleet: */
	float kind[ANALYSE_KINDS]; /* evidence; NAN: not judged */
	float mine;		   /* probability that no other pod explains it */
	bool joint;		   /* latencies and resources are judged for all pods together */
	struct analyse_training_sample {
		float score, run, shadow, kind[ANALYSE_KINDS]; /* NAN: not to be learned */
		bool within;  /* a step of a run that another represents */
	} late[ANALYSE_LATE]; /* ring: to be learned later */
	uint32_t late_at, late_n;
	struct analyse_normaliser normaliser;
	struct analyse_thresholds own, *thresholds;
	struct analyse_calibration shadow_calibration;
	void *detector, *shadow;
	struct analyse_reading reading;
	struct analyse_witness *witness;       /* dims */
	uint32_t witnesses;		       /* of the layout */
	uint8_t *role;			       /* dims: enum analyse_role_kind of the slot */
	uint8_t *group;			       /* dims: enum analyse_kind of the slot */
	struct analyse_slot *slots;	       /* dims */
	uint64_t *keys;			       /* dims: hashed names; 0: free slot */
	uint32_t *slot_of;		       /* column -> slot, or ANALYSE_NONE */
	uint32_t *column_of;		       /* slot -> column, or ANALYSE_NONE */
	float *x, *z, *move, *blame, *scratch; /* dims each, of the last row */
	float *floats;
	float testimony;		 /* of this row: analyse_pipeline_testify() */
	double measured[ANALYSE_TAILS];	 /* of this row: analyse_pipeline_measured() */
	struct analyse_pipeline *by;	 /* who measured them at this row; NULL: they are its own */
	bool measures;			 /* of this row: those of another */
	bool was_measured;		 /* at the row that was judged before */
	struct analyse_suspect *suspect; /* in a fleet that knows its calls; else NULL */
	struct analyse_pipeline_stats stats;
};

/* ---- pipeline.c ---- */

/* The last row's evidence of each kind, with p->joint known. */
void analyse_pipeline_weigh(struct analyse_pipeline *p);

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
double analyse_pipeline_kind_threshold(struct analyse_pipeline *p, enum analyse_kind kind);
/*
 * The threshold of a run. While few runs are known, at least ANALYSE_FAST steps' thresholds: a
 * shorter run is one event and was judged as one.
 */
double analyse_pipeline_run_threshold(struct analyse_pipeline *p);
/* The sum of the last steps of the run and the current one; 0: no run. */
float analyse_pipeline_run_sum(const struct analyse_pipeline *p);
/* Whether a row of the warm-up is too improbable to be learned. */
bool analyse_pipeline_is_odd(const struct analyse_pipeline *p, const struct analyse_verdict *v);
/* Learns from the finished step, if there is one. */
void analyse_pipeline_end_step(struct analyse_pipeline *p);
/* Forgets the current anomaly, run and scores to be learned. */
void analyse_pipeline_forget(struct analyse_pipeline *p);

#endif
