/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline_internal.h - internals of a pipeline: pipeline.c turns rows into verdicts,
 * pipeline_event.c judges events, pipeline_blame.c weighs the metrics, pipeline_learn.c learns from
 * finished steps, pipeline_model.c saves, loads and merges.
 */
#ifndef SL_ANALYSE_PIPELINE_INTERNAL_H
#define SL_ANALYSE_PIPELINE_INTERNAL_H

#include "analyse/culprit.h"
#include "analyse/normalise.h"
#include "analyse/pipeline.h"
#include "analyse/count.h"
#include "analyse/reading.h"
#include "analyse/role.h"

/* minimum threshold of comparable scores, which are log likelihood ratios */
#define ANALYSE_EVIDENCE_MIN 1.0f
#define ANALYSE_USUAL_SD     3	 /* a level this many deviations from the mean is still normal */
#define ANALYSE_GROWTH	     4u	 /* a queue has grown if it is longer than this many steps ago */
#define ANALYSE_LATE	     10u /* number of steps without an anomaly before a score is learned */

struct analyse_slot {
	uint64_t seen; /* layout in which the slot was last used */
	bool counter;
	struct analyse_role role;
	struct analyse_count_past errors; /* history of a counter of errors */
	double counted;			  /* value of the counter when last learned; NaN if none */
	struct {
		bool judged;		    /* the series is a gauge of waiting work */
		float step[ANALYSE_GROWTH]; /* the last steps, latest first; NaN if missing */
		uint32_t steps;		    /* number of consecutive steps in which it grew */
		/* learned steps that followed a growing one, and how many of them grew as well */
		float after, more;
	} growth;
};

/* A column used for finding the culprit: a latency quantile, or a resource. */
struct analyse_witness {
	uint16_t slot;
	struct analyse_role role;
};

struct analyse_pipeline {
	struct analyse_pipeline_opts opts;
	uint32_t dims, used; /* used: number of columns in the layout */
	uint64_t layout, step, last_ns, random;
	double q;
	bool begun, step_anomalous, step_scored, drift;
	bool *held;	  /* per column: true if the baseline is held during an anomaly */
	uint8_t *back;	  /* per held column, number of consecutive steps at its usual level */
	float *away;	  /* per held column, its usual |move| during the anomaly */
	uint64_t holding; /* number of steps held, minus the number of normal steps since then */
	bool open;	  /* an anomaly is open, and baselines are held */
	/*
	 * calm: number of steps since the open anomaly last had evidence; pause: largest value so
	 * far
	 */
	uint32_t calm, pause;
	/* number of its steps so far, and the largest score of a row in them */
	uint32_t open_steps;
	float open_peak;
	bool step_lasts;    /* the step belongs to the open anomaly */
	bool step_away;	    /* the step has evidence for a new or the open anomaly */
	bool was_held;	    /* an anomaly held baselines in the previous step */
	uint32_t anomalous; /* number of consecutive anomalous steps */
	struct {
		uint32_t steps;		   /* number of consecutive steps above the usual score */
		float above[ANALYSE_LATE]; /* ring: excess of each step over the usual score */
		float sum, peak;	   /* largest sum of excesses so far; largest score */
		float kind[ANALYSE_KINDS]; /* largest score of each kind */
		bool found;		   /* there was an anomaly in the run */
	} run;
	struct {
		/*
		 * number of disturbances in the warm-up so far: all disturbances, and disturbances
		 * caused by errors
		 */
		uint32_t times[2];
		/* total length of the disturbances, including pauses; step of the last one */
		uint64_t steps, last;
		/* the step is improbable; it is improbable only because of its errors */
		bool now, errors;
		/* the previous step was anomalous; the pipeline did not learn from it */
		bool odd, out;
	} warm;
	float step_verdict; /* score of the step in multiples of the threshold */
	/* consecutive steps with step_verdict above DOUBT, if there are no runs */
	uint32_t doubtful;
	double excess;	    /* number of anomalies beyond the budget, see count_excess() */
	uint64_t excess_at; /* step in which the last anomaly counted in .excess began */
	double news; /* number of anomalies beyond twice the budget, see anomalies_are_usual() */
	enum analyse_learning learning;
	float step_score, step_shadow, step_kind[ANALYSE_KINDS]; /* step_kind: NAN if not judged */
	/* State of the row, from the fleet: */
	float kind[ANALYSE_KINDS]; /* evidence of each kind; NAN if not judged */
	bool inherits;		   /* the pod is in its first minute, and has inherited a model */
	/* time of its first row, or of the first row after the clock jumped back */
	uint64_t born_ns;
	uint64_t worked_ns; /* last row with finished work */
	uint64_t silent_ns; /* first row without finished work since then; 0 if there is none */
	uint32_t stopped;   /* slot of the work counter that has stopped, or ANALYSE_NONE */
	float silent_s;	    /* for this long it has finished no work; 0 if less than a second */
	float pause_s[2];   /* the two longest silences that ended, longest first */
	uint32_t grows;	    /* slot of the queue that only grows, or ANALYSE_NONE */
	uint32_t queues;    /* number of slots with growth.judged */
	float mine;	    /* probability that the pod itself caused the row's symptoms */
	float delayed;	    /* evidence that calls to the pod take longer */
	bool joint;	    /* latencies and resources are judged jointly for all pods */
	struct analyse_training_sample {
		float score, run, shadow, kind[ANALYSE_KINDS]; /* NAN means do not learn */
		bool within;  /* the step belongs to a run that another step represents */
	} late[ANALYSE_LATE]; /* ring of samples to be learned later */
	uint32_t late_at, late_n;
	struct analyse_normaliser normaliser;
	struct analyse_thresholds own, *thresholds;
	struct analyse_calibration shadow_calibration;
	void *detector, *shadow;
	struct analyse_reading reading;
	struct analyse_witness *witness; /* the first `witnesses` entries are in use */
	uint32_t witnesses;		 /* number of witnesses in the layout */
	uint8_t *role;			 /* per slot, enum analyse_role_kind */
	uint8_t *group;			 /* per slot, enum analyse_kind */
	struct analyse_slot *slots;	 /* the slots, as many as dims */
	/* per slot, the hash of the name; 0 means a free slot */
	uint64_t *keys;
	uint32_t *slot_of;		       /* slot of each column, or ANALYSE_NONE */
	uint32_t *column_of;		       /* column of each slot, or ANALYSE_NONE */
	float *x, *z, *move, *blame, *scratch; /* for the last row, dims elements each */
	float *floats;
	float testimony; /* evidence given by analyse_pipeline_testify() for this row */
	/* latencies given by analyse_pipeline_measured() for this row */
	double measured[ANALYSE_TAILS];
	/* pod that measured them for this row; NULL means the pod itself */
	struct analyse_pipeline *by;
	bool measures; /* the pod measures another one's latencies in this row */
	/* the latencies were measured by another pod in the previously judged row */
	bool was_measured;
	struct analyse_odd *odd; /* comparison with its siblings; NULL if it is not compared */
	struct analyse_suspect *suspect; /* suspect in a fleet with a call graph; otherwise NULL */
	struct analyse_pipeline_stats stats;
};

/* ---- pipeline.c ---- */

/* The kind of evidence that a metric of this role gives. */
enum analyse_kind analyse_pipeline_kind_of(enum analyse_role_kind role);

/* Runs need comparable scores and steps shorter than a minute. */
bool analyse_pipeline_has_runs(const struct analyse_pipeline *p);
int analyse_pipeline_init_thresholds(const struct analyse_pipeline *p,
				     struct analyse_thresholds *t);
void *analyse_pipeline_new_detector(const struct analyse_pipeline *p,
				    const struct analyse_detector_ops *ops);

/* ---- pipeline_event.c ---- */

/*
 * Replaces p->move of metrics that show errors, silence or growth in the last row. w: seconds over
 * which rates are computed.
 */
void analyse_pipeline_judge_events(struct analyse_pipeline *p, double w);

/* ---- pipeline_blame.c ---- */

/*
 * With steps of a minute or longer: reduces the evidence of metrics that changed by a few per cent,
 * as levels of healthy services do within minutes. Returns the sum of all evidence.
 */
float analyse_pipeline_weigh_changes(struct analyse_pipeline *p);
/* Computes the evidence of each kind for the last row, once p->joint is known. */
void analyse_pipeline_weigh(struct analyse_pipeline *p);

/*
 * Finds, for each resource, the slot of the metric that changed most in the last row; ANALYSE_NONE
 * means that none changed.
 */
void analyse_pipeline_novelty(const struct analyse_pipeline *p, uint32_t most[ANALYSE_RESOURCES]);
/* Ranks the metrics by their parts of the evidence. */
void analyse_pipeline_rank_blame(struct analyse_pipeline *p, struct analyse_verdict *v);

/* ---- pipeline_learn.c ---- */

double analyse_pipeline_threshold(struct analyse_pipeline *p);
double analyse_pipeline_kind_threshold(struct analyse_pipeline *p, enum analyse_kind kind);
/*
 * Returns the threshold of a counter of work that has stopped, or INFINITY if the silence is hardly
 * longer than two earlier ones.
 */
double analyse_pipeline_silence_threshold(const struct analyse_pipeline *p);
/*
 * Returns the threshold of a run. While few runs are known, it is at least the threshold of
 * ANALYSE_FAST steps: a shorter run is a single event and has been judged as one.
 */
double analyse_pipeline_run_threshold(struct analyse_pipeline *p);
/* Returns the sum of the run's last steps and the current one; 0 if there is no run. */
float analyse_pipeline_run_sum(const struct analyse_pipeline *p);
/*
 * True if the row belongs to the open anomaly: one of the metrics that the anomaly holds is still
 * outside its normal range.
 */
bool analyse_pipeline_lasts(const struct analyse_pipeline *p, float score);
/*
 * Returns the score to report for a row of an anomaly that may be open. With steps of a minute or
 * longer, a row that is no stronger than an earlier one mostly repeats it, because baselines are
 * held; its score grows with the length of the anomaly.
 */
float analyse_pipeline_discount_repeated(const struct analyse_pipeline *p, float score);
/* Makes the last row the normal level of the metrics that are outside their normal range. */
void analyse_pipeline_take_level(struct analyse_pipeline *p);
/* True if the row may be in a pause of the open anomaly, which has had longer pauses before. */
bool analyse_pipeline_pauses(const struct analyse_pipeline *p);
/*
 * Returns the factor by which a pod's thresholds are raised because its anomalies exceed the
 * budget; at least 1. This bounds false alarms on series with heavier tails than the thresholds
 * assume.
 */
float analyse_pipeline_strictness(const struct analyse_pipeline *p);
/* Ends the open anomaly: the baselines that it held adapt again. */
void analyse_pipeline_release(struct analyse_pipeline *p);
/* True if a row of the warm-up is too improbable to be learned. */
bool analyse_pipeline_is_odd(const struct analyse_pipeline *p, const struct analyse_verdict *v);
/* Learns from the finished step, if there is one. */
void analyse_pipeline_end_step(struct analyse_pipeline *p);
/* Discards the current anomaly, run and scores to be learned. */
void analyse_pipeline_forget(struct analyse_pipeline *p);

#endif
