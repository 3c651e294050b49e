/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verdict.h - the findings of analysis for consumers: the last finding of each pod, the recent
 * course of its score, and anomalies as intervals. Knows neither detectors nor consequences.
 *
 * Threads:
 *
 * - writers, at most one per pod at a time (the judge). A finding never waits: what cannot be shown
 *   because a reader holds the lock is shown with the next one.
 * - the keeper, one thread that calls act_verdicts_keep() several times per second, which turns
 *   findings into the list of anomalies and frees pods that are gone.
 * - readers, any number; they get copies.
 *
 * An anomaly begins with the first anomalous finding and ends after hold_ns without one, or two of
 * the pod's rows if these take longer. This hysteresis turns a score that swings around its
 * threshold into one interval.
 */
#ifndef SL_ACT_VERDICT_H
#define SL_ACT_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACT_BLAMES	      3u
#define ACT_BLAME_BYTES	      96u /* longer names are truncated */
#define ACT_POD_LABEL_BYTES   64u /* longer labels are truncated */
#define ACT_SCORES_KEPT	      600u
#define ACT_EXPLANATION_BYTES 512u
#define ACT_TRACE_ID_BYTES    16u
#define ACT_EVENT_ID_BYTES    40u

/* A metric that explains a finding. */
struct act_blame {
	char metric[ACT_BLAME_BYTES];
	double share;  /* of the score, 0 .. 1 */
	double value;  /* the metric's value; NaN: unknown */
	double before; /* its usual value; NaN: unknown */
};

/* How well a pod is known. Coarse: judged by thresholds that are still wide. */
enum act_state { ACT_LEARNING, ACT_COARSE, ACT_READY };
extern const char *const act_state_names[];

/* The analysis of one row of one pod. */
struct act_finding {
	int64_t ns;	  /* CLOCK_REALTIME of the row */
	double score;	  /* >= 0 */
	double suspicion; /* of struct analyse_verdict; unit and threshold as of score */
	double threshold; /* +Inf while the model is learning */
	bool anomalous, drift;
	enum act_state state;
	double slowdown; /* P90 of requests to it over the usual one; 0: not known */
	double least; /* factor of a P90 latency that would be an anomaly; 0, INFINITY: not known */
	bool shadow_anomalous; /* of the shadow detector */
	double shadow_score;   /* NaN: none */
	uint32_t blames;
	struct {
		const char *metric;
		double share, value, before;
		bool rate; /* value and before are per second */
	} blame[ACT_BLAMES];
	/* For the explanation: */
	double delay;	     /* s by which calls to the pod take longer; 0: none known */
	const char *callers; /* that show it; "": none; NULL: its callers are not known */
	const char *next;    /* the other pod that scores most; NULL: none */
	double next_score;
};

/* Truncated to fit. */
struct act_pod_name {
	char pod[ACT_POD_LABEL_BYTES], service[ACT_POD_LABEL_BYTES];
	char kube_namespace[ACT_POD_LABEL_BYTES], host[ACT_POD_LABEL_BYTES];
	char container[ACT_POD_LABEL_BYTES];
	uint32_t process; /* on its host; 0: not known */
};

struct act_anomaly {
	uint64_t id; /* 1, 2, ... in the order of listing */
	uint64_t instance;
	struct act_pod_name name;
	int64_t begin_ns, last_ns; /* first and last anomalous finding */
	int64_t minute;		   /* of its begin; a later one of the pod has a higher number */
	int64_t end_ns;		   /* when its end was known; 0: it goes on */
	bool unread;		   /* it ended because the pod is no longer read */
	uint64_t findings;	   /* anomalous ones */
	double peak, threshold;	   /* highest score, and its threshold */
	uint32_t blames;	   /* of the highest score */
	struct act_blame blame[ACT_BLAMES];
	char explanation[ACT_EXPLANATION_BYTES]; /* at the highest score; see explain.h */
	bool has_trace;
	uint8_t trace[ACT_TRACE_ID_BYTES]; /* a trace kept because of it */
};

struct act_pod_verdict {
	uint64_t instance;
	struct act_pod_name name;
	int64_t ns; /* of the last finding; 0: none yet */
	double score, suspicion, threshold;
	double recent;	/* highest score of the last two to three steps */
	bool anomalous; /* within an anomaly */
	bool drift;
	enum act_state state;
	double least, slowdown; /* of the last finding */
	bool shadow_anomalous;
	double shadow_score;
	int64_t begin_ns; /* of the current or last anomaly; 0: none yet */
	uint32_t blames;
	struct act_blame blame[ACT_BLAMES];   /* of the last anomalous finding */
	uint64_t findings, anomalies, alarms; /* alarms: anomalous findings */
	uint64_t shadow_alarms;
	int64_t trace_ns; /* when a trace was kept because of it; 0: never */
	uint8_t trace[ACT_TRACE_ID_BYTES];
};

struct act_verdicts_opts {
	size_t max_pods;      /* 0: 16384 */
	size_t max_anomalies; /* in the list; 0: 1024 */
	uint64_t hold_ns;     /* 0: 1 s */
	uint64_t unread_ns;   /* silence that ends an anomaly; 0: 10 s */
	uint64_t step_ns;     /* of the course of scores; 0: 500 ms */
};

struct act_verdicts;
struct act_verdict_pod;

struct act_verdicts *act_verdicts_new(const struct act_verdicts_opts *opts); /* NULL: ENOMEM */
void act_verdicts_free(struct act_verdicts *v); /* after all writers; frees the pods */

/* ---- writers ---- */

/* NULL with errno ENOSPC (max_pods; each call is counted) or ENOMEM. */
struct act_verdict_pod *act_verdicts_add(struct act_verdicts *v, uint64_t instance,
					 const struct act_pod_name *name);
void act_verdict_push(struct act_verdict_pod *pod, const struct act_finding *f);
/* The pod is gone: its anomaly ends. The caller does not use the pointer again. */
void act_verdict_gone(struct act_verdict_pod *pod);

/* ---- the keeper ---- */

/*
 * Reports changes since the last call: each anomaly that began, has new findings, or ended, also if
 * the list has dropped it. `changed` must be short and must not call into v.
 */
void act_verdicts_keep(struct act_verdicts *v, int64_t now_ns,
		       void (*changed)(const struct act_anomaly *a, void *arg), void *arg);
/*
 * A trace was kept because of a pod's anomaly, at now_ns (CLOCK_REALTIME). The first stays with the
 * current anomaly, which counts as a change of it; the last with the pod. Any thread.
 */
void act_verdicts_traced(struct act_verdicts *v, uint64_t instance, int64_t now_ns,
			 const uint8_t trace[ACT_TRACE_ID_BYTES]);

/* ---- readers ---- */

/* False: no such pod. */
bool act_verdicts_pod(struct act_verdicts *v, uint64_t instance, struct act_pod_verdict *out);
/*
 * The largest score of a pod since since_ns, in thresholds; 0 if there is no such pod or it never
 * had an anomaly, as while it is learning.
 */
double act_verdicts_worst(struct act_verdicts *v, uint64_t instance, int64_t since_ns);
/* As the above, of the pod's suspicion; also of a pod that never had an anomaly. */
double act_verdicts_suspicion(struct act_verdicts *v, uint64_t instance, int64_t since_ns);
/* fn must be short and must not call into v. */
void act_verdicts_pods(struct act_verdicts *v, void (*fn)(const struct act_pod_verdict *, void *),
		       void *arg);
/* At most max anomalies with ids above after, newest first. Returns their number. */
size_t act_verdicts_anomalies(struct act_verdicts *v, uint64_t after, struct act_anomaly *out,
			      size_t max);
/* Number of listed anomalies that began at since_ns or later. */
uint64_t act_verdicts_begun(struct act_verdicts *v, int64_t since_ns);
/*
 * The course of a pod's score, oldest first: the highest of each step with findings. The arrays
 * have ACT_SCORES_KEPT entries. Returns their number; 0 if there is no such pod.
 */
size_t act_verdicts_scores(struct act_verdicts *v, uint64_t instance, int64_t *ns, float *score,
			   float *threshold);

/*
 * Names an anomaly in what is sent: by the pod and the minute of its begin. Collectors that read
 * the same pod find an anomaly some rows apart, so this is equal at all of them, unless one finds
 * it before a full minute and another after it.
 */
void act_anomaly_event_id(const struct act_anomaly *a, char out[ACT_EVENT_ID_BYTES]);

struct act_verdicts_stats {
	uint64_t pods, anomalous, drifting, shadow_anomalous; /* now */
	uint64_t refused_pods, findings, alarms, shadow_alarms;
	uint64_t anomalies; /* listed so far */
	uint64_t missed;    /* began and ended between two calls of act_verdicts_keep() */
	uint64_t forgotten; /* dropped from the list for newer ones */
};
void act_verdicts_stats(struct act_verdicts *v, struct act_verdicts_stats *out);

#endif
