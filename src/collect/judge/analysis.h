/* SPDX-License-Identifier: Apache-2.0 */
/*
 * analysis.h - a tap that turns each pod's rows into features, and a thread that judges the pods of
 * all workers together and stores the findings in act/verdict.h. Neither depends on the internals
 * of a detector or on the consequences of a finding.
 *
 * The tap runs in the workers and delays their rounds by its time, which is measured. It uses one
 * row per pod per every_ns: more frequent rows would only add noise to rates.
 *
 * Features: the rate of a counter; the value of a gauge; for a histogram, the rate of observations,
 * and the mean and 90th percentile of the last one to two seconds; each state of a state set.
 */
#ifndef SL_COLLECT_JUDGE_ANALYSIS_H
#define SL_COLLECT_JUDGE_ANALYSIS_H

#include "act/incident.h"
#include "collect/judge/edges.h"
#include "collect/judge/judge.h"
#include "collect/judge/models.h"
#include "collect/read/collect.h"

struct collect_analysis_opts {
	unsigned int workers;	 /* number of the collector's workers */
	const char *detector;	 /* name of the detector; NULL means the default */
	const char *shadow;	 /* name of the shadow detector; NULL means none */
	double false_alarms;	 /* acceptable number of false alarms per pod and hour */
	uint64_t warm_up_ns;	 /* minimum warm-up of a pod without a model; 0 means 60 s */
	uint64_t every_ns;	 /* interval between a pod's rows */
	uint64_t step_ns;	 /* time resolution of the pipelines' memory */
	uint64_t hold_ns;	 /* an anomaly that lasts longer becomes normal */
	const char *model;	 /* path of the model file, or NULL */
	uint64_t model_every_ns; /* interval between writes of the model; 0 means only on exit */
	const char *record;	 /* folder to write rows to, or NULL */
	struct act_incidents *incidents; /* told which services call each other */
};

struct collect_analysis;

/*
 * Reads the model file, if it exists. A damaged file or a file of another version is renamed to
 * FILE.refused, logged and counted, so that the collector starts anyway. Returns NULL with a
 * one-line message in error.
 */
struct collect_analysis *collect_analysis_new(const struct collect_analysis_opts *opts, char *error,
					      size_t error_bytes);
/*
 * Must be called before collect_collector_start(). Returns the result of collect_collector_tap().
 */
int collect_analysis_attach(struct collect_analysis *a, struct collect_collector *c);
/*
 * Returns false if a trace would be ignored now, because the last one is less than 100 ms old.
 * Thread-safe.
 */
bool collect_analysis_wants_trace(struct collect_analysis *a);
/*
 * Learns from the spans of a kept trace which services call each other, and tells the incidents.
 * Thread-safe.
 */
void collect_analysis_trace(struct collect_analysis *a, const struct collect_edges_span *span,
			    uint32_t n);
/*
 * Learns the same thing from the kernel's connections, unless a trace was kept in the last minute.
 * Called about once per second by the thread of collect_analysis_poll().
 */
void collect_analysis_connections(struct collect_analysis *a, struct collect_collector *c);
/*
 * Declares the present behaviour of a pod (collect_tap_row.instance) normal as of its next row: its
 * anomaly is over. Returns 0, or -ENOMEM. An unknown pod is ignored. Thread-safe.
 */
int collect_analysis_accept(struct collect_analysis *a, uint64_t instance);
/* Writes recorded rows. Called about once per second by one thread. */
void collect_analysis_poll(struct collect_analysis *a);
/*
 * Writes the remaining data; call after collect_collector_free(). Returns 0 or -errno, which is
 * logged.
 */
int collect_analysis_free(struct collect_analysis *a);

struct act_verdicts *collect_analysis_verdicts(struct collect_analysis *a);
/* Returns the options with defaults filled in. */
const struct collect_analysis_opts *collect_analysis_opts(const struct collect_analysis *a);

struct collect_analysis_stats {
	struct collect_judge_stats judge;
	struct collect_models_stats models;
	uint64_t busy_ns; /* CPU time of all workers */
	/*
	 * Pods refused because there were too many, or no memory, and their rows until the judge
	 * accepts them.
	 */
	uint64_t refused_pods, refused_rows;
	uint64_t late;	     /* rows that arrived after their moment was judged */
	uint64_t queue_lost; /* rows dropped for lack of room in the queue to the judge */
	uint64_t lost_rows;  /* rows missing from the record */
};
void collect_analysis_stats(const struct collect_analysis *a, struct collect_analysis_stats *out);

#endif
