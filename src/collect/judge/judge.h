/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judge.h - verdicts on the pods of all workers, one moment at a time. It uses no clock, thread or
 * queue: equal calls give bit-identical verdicts, so that sidelight replay can repeat the
 * collector's findings. Not thread-safe.
 *
 * Rows of a moment are judged in the order of their instances, regardless of the order of arrival.
 */
#ifndef SL_COLLECT_JUDGE_JUDGE_H
#define SL_COLLECT_JUDGE_JUDGE_H

#include "analyse/fleet.h"

struct collect_models;
struct collect_edges_span;

/*
 * A finding: the judged row of a pod, and whether the pod is still learning. Valid during the call.
 */
struct collect_judge_finding {
	void *own; /* pointer that the caller passed to collect_judge_layout() */
	int64_t ns;
	const double *value; /* values as passed in, one per column */
	const struct analyse_verdict *verdict;
	/*
	 * anomalous: the verdict. In the warm-up, only errors and the comparison with siblings can
	 * make it true.
	 */
	bool warming, anomalous;
	enum analyse_state state;
	bool changed;	 /* this finding changed the state */
	double least;	 /* result `least` of analyse_pipeline_state() */
	double slowdown; /* result of analyse_pipeline_slowdown() */
	/*
	 * The anomaly came with the pod, for example with a new version: it was found by the end of
	 * the pod's first minute, in which the pod is judged by the model of its predecessors or
	 * siblings. Time of the pod's first row, or 0.
	 */
	int64_t born_ns;
	/* callers that also show an anomalous pod's fault; NULL if not known (verdict.h) */
	const char *callers;
};

struct collect_judge_opts {
	const struct analyse_detector_ops *detector, *shadow; /* shadow may be NULL */
	double false_alarms; /* accepted false alarms per pod and hour */
	uint64_t warm_up_ns; /* minimum warm-up of a pod without a model */
	uint64_t step_ns;    /* time resolution of the pipelines' memory */
	uint64_t hold_ns;    /* an anomaly that lasts longer becomes normal; 0 means the default */
	struct collect_models *models;
	void (*found)(void *arg, const struct collect_judge_finding *f);
	void *arg;
};

/* returns NULL if out of memory */
struct collect_judge *collect_judge_new(const struct collect_judge_opts *opts);
void collect_judge_free(struct collect_judge *j); /* j may be NULL */

struct collect_judge_pod {
	uint64_t instance;
	int64_t ns; /* time of the pod's first row with these columns */
	/* `service` selects the pod's model and its place in the call graph */
	const char *name, *service;
	/*
	 * act_pod_name.owner; NULL means "". Only pods of one owner share a model or are replicas:
	 * the model of the owner "uid 1000" and the service "cart" is named "uid 1000/cart".
	 */
	const char *owner;
	/* name in recordings, unique among pods of the same name; NULL means use `name` */
	const char *label;
	void *own; /* pointer passed to findings; set by the pod's first layout */
};

/*
 * Sets the columns of a pod's future rows; the first call creates the pod. All arguments are
 * copied. Returns 0, -ENOMEM, or -EINVAL if the detector refuses its options.
 */
int collect_judge_layout(struct collect_judge *j, const struct collect_judge_pod *pod,
			 const struct analyse_column *columns, uint32_t n);
/*
 * Adds a row to the current moment, with one value per column; at most one row per pod. The values
 * are copied.
 */
int collect_judge_row(struct collect_judge *j, uint64_t instance, int64_t ns, const double *value);
/* Returns the pointer that the caller passed for the pod, or NULL if there is no such pod. */
void *collect_judge_own(const struct collect_judge *j, uint64_t instance);
/*
 * Removes the pod and its row in the current moment. Returns the caller's pointer, or NULL if there
 * is no such pod.
 */
void *collect_judge_gone(struct collect_judge *j, uint64_t instance);
/*
 * Declares the pod's present behaviour normal: see analyse_pipeline_accept(). Returns 0, or -ENOENT
 * if there is no such pod.
 */
int collect_judge_accept(struct collect_judge *j, uint64_t instance);
/* Judges the rows of the moment, calling found() once for each. */
void collect_judge_moment(struct collect_judge *j);

/* Saves the pods' models by service, except those of pods that are still learning. */
void collect_judge_keep(struct collect_judge *j);

/*
 * Writes the service of a span as text: "uid 1000/cart", or "cart" without an owner. A service that
 * the kernel names is "(tcp) NAMESPACE/cart" with its namespace, which may be "". to: NULL to count
 * only. Returns the number of bytes including the NUL.
 */
size_t collect_judge_span(char *to, const struct collect_edges_span *span);
/*
 * Writes the spans of a trace, each of which consists of its parent (u32, as in analyse/graph.h)
 * and the text above, with names of the call graph. A service that the kernel names is that of its
 * namespace's pods or, if the namespace is not known, that of its only owner. Returns the spans, to
 * be freed, and their length, or NULL if out of memory.
 */
uint8_t *collect_judge_resolve(const struct collect_judge *j, const uint8_t *spans, uint32_t n,
			       size_t *bytes);
/*
 * Learns the callers of services from a trace of n spans with such names. Returns 0 or -ENOMEM.
 */
int collect_judge_trace(struct collect_judge *j, const uint8_t *spans, uint32_t n);

/* Formats a finding as a line of a recording and of sidelight replay. */
#define COLLECT_JUDGE_HEAD "unix_s,pod,score,anomalous,blame1,blame2,blame3,blame\n"
#define COLLECT_JUDGE_LINE 4096
void collect_judge_line(char *out, size_t bytes, const char *pod,
			const struct collect_judge_finding *f,
			const struct analyse_column *columns);

struct collect_judge_stats {
	uint64_t rows;		   /* rows scored */
	uint64_t refused_features; /* features left out so far because there was no room */
	uint64_t late;		   /* rows that are not later than the previous one */
	uint64_t missing;	   /* values that are NaN or infinite */
	uint64_t warming;	   /* pods in warm-up now */
};
const struct collect_judge_stats *collect_judge_stats(const struct collect_judge *j);

#endif
