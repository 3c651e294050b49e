/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verdict.h - what analysis says of the pods, for those who act on it: the last finding of each
 * pod, the recent course of its score, and anomalies as intervals. Knows neither how findings come
 * about nor what they cause.
 *
 * Three kinds of threads:
 *   writers    one a pod at a time (the collector's workers). They never wait: what can't be shown
 *              at once because somebody is looking is shown with the next finding.
 *   keeper     one thread that calls act_verdicts_keep() several times a second and so turns
 *              findings into the list of anomalies. It also frees pods that are gone.
 *   readers    any; they get copies.
 *
 * An anomaly begins with the first anomalous finding and ends when there was none for hold_ns; it
 * spans the time from the first to the last of them. That is the hysteresis: a score that swings
 * around its threshold makes one interval, not many.
 */
#ifndef SL_ACT_VERDICT_H
#define SL_ACT_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACT_BLAMES	    3u
#define ACT_BLAME_BYTES	    96u /* longer names are cut */
#define ACT_POD_LABEL_BYTES 64u /* ... labels as well */
#define ACT_SCORES_KEPT	    600u
#define ACT_TRACE_ID_BYTES  16u

/* A metric that explains a finding. */
struct act_blame {
	char metric[ACT_BLAME_BYTES];
	double share; /* of the score, 0 .. 1 */
	double value; /* that it had; NaN: not known */
};

/* What analysis says of one row of one pod. */
struct act_finding {
	int64_t ns;	  /* CLOCK_REALTIME of the row */
	double score;	  /* >= 0 */
	double threshold; /* +Inf while the model is learning */
	bool anomalous, drift;
	bool shadow_anomalous; /* what a detector says that is only tried */
	double shadow_score;   /* NaN: there is none */
	uint32_t blames;
	struct {
		const char *metric;
		double share, value;
	} blame[ACT_BLAMES];
};

/* Cut to fit. */
struct act_pod_name {
	char pod[ACT_POD_LABEL_BYTES], service[ACT_POD_LABEL_BYTES];
	char kube_namespace[ACT_POD_LABEL_BYTES], host[ACT_POD_LABEL_BYTES];
};

struct act_anomaly {
	uint64_t id; /* 1, 2, ... in the order in which they were kept */
	uint64_t instance;
	struct act_pod_name name;
	int64_t begin_ns, last_ns; /* first and last anomalous finding */
	int64_t end_ns;		   /* when it was known to be over; 0: it goes on */
	bool unread;		   /* it ended because the pod is not read any more */
	uint64_t findings;	   /* anomalous ones */
	double peak, threshold;	   /* highest score, and the threshold then */
	uint32_t blames;	   /* of the highest score */
	struct act_blame blame[ACT_BLAMES];
	bool has_trace;
	uint8_t trace[ACT_TRACE_ID_BYTES]; /* one that was kept because of it */
};

struct act_pod_verdict {
	uint64_t instance;
	struct act_pod_name name;
	int64_t ns; /* of the last finding; 0: none yet */
	double score, threshold;
	double recent;	/* highest score of the last two to three steps of its course */
	bool anomalous; /* within an anomaly */
	bool drift;
	bool shadow_anomalous;
	double shadow_score;
	int64_t begin_ns; /* of the anomaly that goes on, or of the last one; 0: none yet */
	uint32_t blames;
	struct act_blame blame[ACT_BLAMES];   /* of the last anomalous finding */
	uint64_t findings, anomalies, alarms; /* findings; anomalies; anomalous findings */
	uint64_t shadow_alarms;
	int64_t trace_ns; /* when a trace was kept because of it; 0: none */
	uint8_t trace[ACT_TRACE_ID_BYTES];
};

struct act_verdicts_opts {
	size_t max_pods;      /* 0: 16384 */
	size_t max_anomalies; /* kept; 0: 1024 */
	uint64_t hold_ns;     /* 0: 2 s */
	uint64_t unread_ns;   /* no finding for so long ends an anomaly; 0: 10 s */
	uint64_t step_ns;     /* of the course of scores; 0: 500 ms */
};

struct act_verdicts;
struct act_verdict_pod;

struct act_verdicts *act_verdicts_new(const struct act_verdicts_opts *opts); /* NULL: ENOMEM */
void act_verdicts_free(struct act_verdicts *v); /* after all writers; frees the pods */

/* ---- writers ---- */

/*
 * NULL with errno EAGAIN (somebody is looking: with the next row), ENOSPC (max_pods; counted once
 * a call) or ENOMEM. Does not wait.
 */
struct act_verdict_pod *act_verdicts_add(struct act_verdicts *v, uint64_t instance,
					 const struct act_pod_name *name);
void act_verdict_push(struct act_verdict_pod *pod, const struct act_finding *f);
/* The pod is no more: an anomaly that goes on ends. The pointer is not used afterwards. */
void act_verdict_gone(struct act_verdict_pod *pod);

/* ---- the keeper ---- */

/*
 * What changed since the last call: each anomaly that began, goes on with new findings, or ended,
 * also if the list forgot it meanwhile.
 * changed must be short and must not call into v.
 */
void act_verdicts_keep(struct act_verdicts *v, int64_t now_ns,
		       void (*changed)(const struct act_anomaly *a, void *arg), void *arg);
/*
 * A trace was kept because of a pod's anomaly: the first one stays with the anomaly that goes on,
 * which counts as a change of it; the last one with the pod. Any thread.
 */
/* now_ns: CLOCK_REALTIME. */
void act_verdicts_traced(struct act_verdicts *v, uint64_t instance, int64_t now_ns,
			 const uint8_t trace[ACT_TRACE_ID_BYTES]);

/* ---- readers ---- */

/* False: no such pod. */
bool act_verdicts_pod(struct act_verdicts *v, uint64_t instance, struct act_pod_verdict *out);
/*
 * The largest score of a pod since then, in thresholds; 0 if there is no such pod, or it never had
 * an anomaly, as while it is learned what is usual.
 */
double act_verdicts_worst(struct act_verdicts *v, uint64_t instance, int64_t since_ns);
/* fn must be short and must not call into v. */
void act_verdicts_pods(struct act_verdicts *v, void (*fn)(const struct act_pod_verdict *, void *),
		       void *arg);
/* The newest first, at most max, with ids above after. Returns their number. */
size_t act_verdicts_anomalies(struct act_verdicts *v, uint64_t after, struct act_anomaly *out,
			      size_t max);
/* How many of the anomalies that are kept began at since_ns or later. */
uint64_t act_verdicts_begun(struct act_verdicts *v, int64_t since_ns);
/*
 * The course of a pod's score, oldest first: the highest of each step that had findings. Arrays of
 * ACT_SCORES_KEPT. Returns their number; 0 if there is no such pod.
 */
size_t act_verdicts_scores(struct act_verdicts *v, uint64_t instance, int64_t *ns, float *score,
			   float *threshold);

struct act_verdicts_stats {
	uint64_t pods, anomalous, drifting, shadow_anomalous; /* now */
	uint64_t refused_pods, findings, alarms, shadow_alarms;
	uint64_t anomalies; /* that were kept, ever */
	uint64_t missed;    /* began and ended unseen, between two calls of act_verdicts_keep() */
	uint64_t forgotten; /* fell out of the list for newer ones */
};
void act_verdicts_stats(struct act_verdicts *v, struct act_verdicts_stats *out);

#endif
