/* SPDX-License-Identifier: Apache-2.0 */
/*
 * analysis.h - a tap that turns each pod's row into features, and a thread that judges the pods of
 * all workers together and stores findings in act/verdict.h. It knows neither what a detector does
 * nor what a finding causes.
 *
 * The tap runs in the workers and delays their rounds by its time, which is measured. It uses one
 * row per pod and every_ns: faster rows add only noise to rates.
 *
 * Features: the rate of a counter; the value of a gauge; of a histogram the rate of observations,
 * and the mean and 90th percentile of the last one to two seconds; each state of a state set.
 */
#ifndef SL_COLLECT_JUDGE_ANALYSIS_H
#define SL_COLLECT_JUDGE_ANALYSIS_H

#include "act/verdict.h"
#include "collect/judge/edges.h"
#include "collect/read/collect.h"

struct collect_analysis_opts {
	unsigned int workers;	 /* of the collector */
	const char *detector;	 /* NULL: the default */
	const char *shadow;	 /* NULL: none */
	double false_alarms;	 /* accepted per pod and hour */
	uint64_t warm_up_ns;	 /* least warm-up of a pod without a model; 0: 60 s */
	uint64_t every_ns;	 /* of a pod's rows */
	uint64_t step_ns;	 /* resolution of what pipelines remember */
	const char *model;	 /* file, or NULL */
	uint64_t model_every_ns; /* of writing it, besides at the end; 0: at the end only */
	const char *record;	 /* folder to write rows to, or NULL */
	struct act_verdicts_opts verdicts;
};

struct collect_analysis;

/*
 * Reads the model's file, if it exists. A damaged file or one of another version is renamed to
 * FILE.refused, logged and counted, so that the collector starts anyway. NULL: error has one line.
 */
struct collect_analysis *collect_analysis_new(const struct collect_analysis_opts *opts, char *error,
					      size_t error_bytes);
/* Before collect_collector_start(). Returns what collect_collector_tap() does. */
int collect_analysis_attach(struct collect_analysis *a, struct collect_collector *c);
/* False: a trace would teach nothing now, as another one did so less than 100 ms ago. Any thread.
 */
bool collect_analysis_wants_trace(struct collect_analysis *a);
/* The spans of a kept trace teach which service calls which. Any thread. */
void collect_analysis_trace(struct collect_analysis *a, const struct collect_edges_span *span,
			    uint32_t n);
/*
 * The same from the kernel's connections, unless a trace was kept in the last minute. About once
 * per second, by the thread of collect_analysis_poll().
 */
void collect_analysis_connections(struct collect_analysis *a, struct collect_collector *c);
/* Writes recorded rows. About once per second, by one thread. */
void collect_analysis_poll(struct collect_analysis *a);
/* After collect_collector_free(): writes the rest. 0, or -errno, which is logged. */
int collect_analysis_free(struct collect_analysis *a);

struct act_verdicts *collect_analysis_verdicts(struct collect_analysis *a);
const struct collect_analysis_opts *
collect_analysis_opts(const struct collect_analysis *a); /* defaults filled in */

struct collect_analysis_stats {
	uint64_t rows, values;			/* scored */
	uint64_t busy_ns, judge_ns;		/* of all workers; of the judge's thread */
	uint64_t features, refused_features;	/* now; refused for lack of room, ever */
	uint64_t refused_pods;			/* out of memory, or too many */
	uint64_t late;				/* rows that came after their moment */
	uint64_t backwards;			/* rows not later than the one before */
	uint64_t queue_lost;			/* rows without room on the way to the judge */
	uint64_t missing;			/* values that are NaN or infinite */
	uint64_t lost_rows;			/* of the record */
	uint64_t models_refused, models_failed; /* failed: writes of the file */
	uint64_t warming;			/* pods in their warm-up */
	uint64_t traces;			/* that the call graph was learned from */
};
void collect_analysis_stats(const struct collect_analysis *a, struct collect_analysis_stats *out);

#endif
