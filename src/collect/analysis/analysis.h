/* SPDX-License-Identifier: Apache-2.0 */
/*
 * analysis.h - pipelines on what is read: a tap of the collector that turns each pod's row into
 * features, has its pipeline score them and all pods of a worker judged together, and leaves
 * findings where act/verdict.h keeps them. Knows neither what a detector does nor what a finding
 * causes.
 *
 * All of it runs in the workers, so what it takes is taken from their rounds; it is measured. Only
 * one row a pod and every_ns is looked at: rows that come faster add nothing but noise to rates.
 *
 * Features of a metric: a counter's rate; a gauge; of a histogram its rate of observations, and
 * mean and 90th percentile of those of the last one to two seconds; each state of a state set.
 */
#ifndef SL_COLLECT_ANALYSIS_ANALYSIS_H
#define SL_COLLECT_ANALYSIS_ANALYSIS_H

#include "act/verdict.h"
#include "collect/collect.h"

struct collect_analysis_opts {
	unsigned int workers;	 /* of the collector */
	const char *detector;	 /* NULL: the default */
	const char *shadow;	 /* NULL: none */
	double false_alarms;	 /* an hour and pod; 0: 1 */
	uint64_t warm_up_ns;	 /* of a pod that no model is known of, at least; 0: 60 s */
	uint64_t every_ns;	 /* 0: 100 ms */
	uint64_t step_ns;	 /* what the past is remembered in; 0: 1 s */
	const char *model;	 /* file, or NULL */
	uint64_t model_every_ns; /* it is written so often, and at the end; 0: at the end only */
	const char *record;	 /* folder to write rows to, or NULL */
	struct act_verdicts_opts verdicts;
};

struct collect_analysis;

/*
 * Reads the model's file, if there is one. One that is damaged or of another version is put aside
 * (FILE.refused), said and counted, as a collector that starts anew is of more use than one that
 * does not start. NULL with one line in error.
 */
struct collect_analysis *collect_analysis_new(const struct collect_analysis_opts *opts, char *error,
					      size_t error_bytes);
/* Before collect_collector_start(); what collect_collector_tap() returns. */
int collect_analysis_attach(struct collect_analysis *a, struct collect_collector *c);
/* Writes what is to be recorded. Once a second or so, by one thread. */
void collect_analysis_poll(struct collect_analysis *a);
/* After collect_collector_free(): writes what is left to write. 0, or -errno of that, which is
 * logged. */
int collect_analysis_free(struct collect_analysis *a);

struct act_verdicts *collect_analysis_verdicts(struct collect_analysis *a);
const struct collect_analysis_opts *
collect_analysis_opts(const struct collect_analysis *a); /* defaults filled in */

struct collect_analysis_stats {
	uint64_t rows, values;		     /* scored */
	uint64_t busy_ns;		     /* of all workers, in analysis */
	uint64_t features, refused_features; /* now; that found no place in a pipeline, ever */
	uint64_t refused_pods;		     /* no memory, or too many */
	uint64_t late;			     /* rows that were not later than the one before */
	uint64_t missing;		     /* values that were NaN or infinite */
	uint64_t lost_rows;		     /* of the record */
	uint64_t models_loaded, models_refused;
	uint64_t models_written, models_failed; /* times that the file was, and could not be */
	uint64_t warming;			/* pods in their warm-up */
};
void collect_analysis_stats(const struct collect_analysis *a, struct collect_analysis_stats *out);

#endif
