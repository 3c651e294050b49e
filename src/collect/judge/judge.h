/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judge.h - verdicts on the pods of all workers, a moment at a time. Knows no clock, thread or
 * queue: equal calls give equal verdicts to the bit, so that sidelight replay repeats what the
 * collector found. One thread at a time.
 *
 * Rows of a moment are judged in the order of their instances, in whatever order they came.
 */
#ifndef SL_COLLECT_JUDGE_JUDGE_H
#define SL_COLLECT_JUDGE_JUDGE_H

#include "analyse/fleet.h"

struct collect_models;

/* A finding: the row of a moment, and whether the pod still learns. Valid during the call. */
struct collect_judge_finding {
	void *own; /* of collect_judge_layout() */
	int64_t ns;
	const double *value; /* as pushed; columns */
	const struct analyse_verdict *verdict;
	bool warming, anomalous; /* anomalous: the verdict, or that of errors in the warm-up */
	enum analyse_state state;
	bool changed;	     /* the state, with this finding */
	double least;	     /* of analyse_pipeline_state() */
	double slowdown;     /* of analyse_pipeline_slowdown() */
	const char *callers; /* of an anomalous pod, that show it; NULL: not known; see verdict.h */
	void *next;	     /* own of verdict->next; NULL: none */
	double next_score;
};

struct collect_judge_opts {
	const struct analyse_detector_ops *detector, *shadow; /* shadow: or NULL */
	double false_alarms;				      /* accepted per pod and hour */
	uint64_t warm_up_ns; /* least warm-up of a pod without a model */
	uint64_t step_ns;    /* resolution of what pipelines remember */
	struct collect_models *models;
	void (*found)(void *arg, const struct collect_judge_finding *f);
	void *arg;
};

struct collect_judge *collect_judge_new(const struct collect_judge_opts *opts); /* NULL: ENOMEM */
void collect_judge_free(struct collect_judge *j);				/* NULL is fine */

struct collect_judge_pod {
	uint64_t instance;
	int64_t ns;		    /* of its first row with these columns */
	const char *name, *service; /* service: names its model and its place in the call graph */
	const char *label; /* for recordings: tells it from others of its name; NULL: its name */
	void *own;	   /* for findings; with the pod's first layout */
};

/*
 * The columns of a pod's rows to come; the first makes the pod. Copies what it needs. 0, -ENOMEM,
 * or -EINVAL: the detector refuses its options.
 */
int collect_judge_layout(struct collect_judge *j, const struct collect_judge_pod *pod,
			 const struct analyse_column *columns, uint32_t n);
/* A row of the present moment, with as many values as columns; at most one per pod. Copies it. */
int collect_judge_row(struct collect_judge *j, uint64_t instance, int64_t ns, const double *value);
void *collect_judge_own(const struct collect_judge *j, uint64_t instance); /* NULL: no such pod */
/* The pod is gone, and its row of this moment. Returns its own, or NULL: there is no such pod. */
void *collect_judge_gone(struct collect_judge *j, uint64_t instance);
/* Judges the rows of the moment: one call of found() for each. */
void collect_judge_moment(struct collect_judge *j);

/* Saves the pods' models by service; the pods that still learn have none. */
void collect_judge_keep(struct collect_judge *j);

/*
 * A trace of n spans, from which it learns which service calls which: for each its parent in the
 * trace (u32, as in analyse/graph.h) and its service, NUL-terminated. 0 or -ENOMEM.
 */
int collect_judge_trace(struct collect_judge *j, const uint8_t *spans, uint32_t n);

/* A finding as a line of a recording and of sidelight replay. */
#define COLLECT_JUDGE_HEAD "unix_s,pod,score,anomalous,blame1,blame2,blame3\n"
void collect_judge_line(char *out, size_t bytes, const char *pod,
			const struct collect_judge_finding *f,
			const struct analyse_column *columns);

struct collect_judge_stats {
	uint64_t rows, values;		     /* scored */
	uint64_t features, refused_features; /* now; for lack of room, ever */
	uint64_t late;			     /* rows not later than the one before */
	uint64_t missing;		     /* values that are NaN or infinite */
	uint64_t pods, warming;		     /* now */
};
const struct collect_judge_stats *collect_judge_stats(const struct collect_judge *j);

#endif
