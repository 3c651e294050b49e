/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verdict.h - the findings of the analysis for consumers: the last finding of each pod, the recent
 * history of its score, and anomalies as intervals. Independent of detectors and of actions.
 *
 * Threads:
 * - writers, at most one per pod at a time (the judge). Reporting a finding never blocks: if a
 *   reader holds the lock, the finding is shown together with the next one.
 * - the keeper, one thread that calls act_verdicts_keep() several times per second. This turns
 *   findings into the list of anomalies and frees removed pods.
 * - readers, any number; they get copies.
 *
 * An anomaly begins with the first anomalous finding and ends after hold_ns without one, or after
 * two rows of the pod if that takes longer. This hysteresis turns a score that oscillates around
 * its threshold into one interval.
 */
#ifndef SL_ACT_VERDICT_H
#define SL_ACT_VERDICT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACT_BLAMES	    8u
#define ACT_BLAME_BYTES	    96u /* longer metric names are truncated */
#define ACT_POD_LABEL_BYTES 64u /* longer pod labels are truncated */
#define ACT_SCORES_KEPT	    600u
#define ACT_TRACE_ID_BYTES  16u
#define ACT_EVENT_ID_BYTES  40u
#define ACT_CALLERS_BYTES   128u /* longer lists of callers are truncated */

/* What a metric measures, in the categories needed to tell load from faults. */
enum act_measure {
	ACT_MEASURE_OTHER,
	ACT_MEASURE_LOAD, /* work given to the pod */
	ACT_MEASURE_LATENCY,
	ACT_MEASURE_ERRORS,
	ACT_MEASURE_CPU,
	ACT_MEASURE_MEMORY,
	ACT_MEASURE_WAITING, /* requests in flight, lengths of queues */
	ACT_MEASURE_STOPPED, /* the pod used to finish work, and now finishes none */
	/* of a port of a host: lost packets, pause frames from its peer, speed of its link */
	ACT_MEASURE_LOSSES,
	ACT_MEASURE_PAUSES,
	ACT_MEASURE_SPEED,
};
#define ACT_MEASURES	 11u
#define ACT_LOAD_STOPPED 0.1 /* below this fraction of the usual number, requests have stopped */

/* True if the change of what was measured is an improvement. */
static inline bool act_is_improvement(enum act_measure measure, double value, double before)
{
	if (measure == ACT_MEASURE_SPEED)
		return value > before;
	return value < before && (measure == ACT_MEASURE_LATENCY || measure == ACT_MEASURE_ERRORS ||
				  measure == ACT_MEASURE_CPU || measure == ACT_MEASURE_WAITING ||
				  measure == ACT_MEASURE_LOSSES || measure == ACT_MEASURE_PAUSES);
}

/* Returns the factor that is farther from 1, as a ratio; 0 means that a factor is not known. */
static inline double act_farther_from_1(double a, double b)
{
	return b > 0 && (!(a > 0) || fabs(log(b)) > fabs(log(a))) ? b : a;
}

/*
 * Why the steps of an MPI rank take longer than usual (docs/clusters.md). The values of now
 * and before are page faults per step for ACT_STEP_FAULTS, and otherwise seconds per step.
 */
enum act_step_cause {
	ACT_STEP_UNKNOWN,
	ACT_STEP_COMPUTES,  /* its CPU time rose */
	ACT_STEP_PREEMPTED, /* it is off the CPU because others use it */
	ACT_STEP_FAULTS,    /* it is off the CPU because it waits for pages from a disk */
	ACT_STEP_STOPPED,   /* it is off the CPU for another reason */
};
struct act_step {
	enum act_step_cause cause;
	double rise; /* seconds by which a step takes longer; 0 if the cause is unknown */
	double value, before;
};

/* A metric that explains a finding. */
struct act_blame {
	char metric[ACT_BLAME_BYTES];
	double share;  /* share of the score, 0 to 1 */
	double value;  /* the metric's value; NaN if unknown */
	double before; /* the metric's usual value; NaN if unknown */
	bool rate;     /* value and before are per second */
	enum act_measure measure;
	/*
	 * number of replicas of the pod whose median is `before`; 0 if it is the pod's own usual
	 * value
	 */
	uint32_t siblings;
	bool grows; /* a queue that has only grown for some time */
};

/* How well a pod is known. Coarse: its thresholds are still wide. */
enum act_state { ACT_LEARNING, ACT_COARSE, ACT_READY };
extern const char *const act_state_names[];

/* The analysis of one row of one pod. */
struct act_finding {
	int64_t ns;	  /* time of the row, CLOCK_REALTIME */
	double score;	  /* >= 0 */
	double suspicion; /* from struct analyse_verdict; same unit and threshold as score */
	double threshold; /* threshold of the score; +Inf while the model is learning */
	bool anomalous, drift;
	enum act_state state;
	double slowdown; /* P90 of requests to the pod divided by its usual P90; 0 if not known */
	/* smallest factor of a P90 latency that would be an anomaly; 0 or INFINITY if not known */
	double least;
	bool shadow_anomalous; /* verdict of the shadow detector */
	double shadow_score;   /* score of the shadow detector; NaN if there is none */
	uint32_t blames;
	struct act_blame blame[ACT_BLAMES];
	double load;  /* requests to the pod divided by the usual requests; 0 if not known */
	bool working; /* the pod is known to finish more than ACT_LOAD_STOPPED of its usual work */
	double delay; /* seconds by which calls to the pod take longer; 0 if not known */
	/* callers that show the delay; "" or NULL if none is known */
	const char *callers;
	int64_t born_ns; /* see act_anomaly */
	/* the longest queue of the pod, or its requests in flight; NULL if not known */
	const char *queue;
	double waiting; /* its length */
	struct act_step step;
};

/* Names are truncated to fit. */
struct act_pod_name {
	char pod[ACT_POD_LABEL_BYTES], service[ACT_POD_LABEL_BYTES];
	char kube_namespace[ACT_POD_LABEL_BYTES], host[ACT_POD_LABEL_BYTES];
	char container[ACT_POD_LABEL_BYTES];
	/*
	 * The pod's owner: "uid 1000", or its namespace if the host attests it; "" for a trusted or
	 * an unknown tenant. Connections belong to the namespace of their workload, if the kernel's
	 * host knows it. Each tenant chooses its names, so pods of two owners are of two services.
	 */
	char owner[ACT_POD_LABEL_BYTES];
	uint32_t process; /* PID on its host; 0 if not known */
	uint64_t tenant;  /* the pod counts for the share of this tenant; 0 if it has no limit */
};

#define ACT_FAULT_OVER_NS 10000000000ll /* a fault that does not show for this long is over */

/*
 * A fault of a pod; act_anomaly.fault[] has one per measure. A pod may have several faults, at once
 * or one after another.
 */
struct act_fault {
	int64_t begin_ns, last_ns; /* 0 if the pod has not had this fault */
	bool risen;
	bool led; /* this was the current fault before another one replaced it */
};

struct act_anomaly {
	uint64_t id; /* 1, 2, ... in the order of listing */
	uint64_t instance;
	struct act_pod_name name;
	int64_t begin_ns, last_ns; /* times of the first and the last anomalous finding */
	/*
	 * Minute used in the event ID: the minute in which the anomaly began, or a later one if the
	 * pod's previous anomaly has that minute.
	 */
	int64_t minute;
	int64_t end_ns;		/* time when the end was detected; 0 while the anomaly continues */
	bool unread;		/* ended because the pod is no longer read */
	bool died;		/* its process has ended */
	uint64_t findings;	/* number of anomalous findings */
	double peak, threshold; /* highest score, and its threshold */
	double suspicion;	/* highest suspicion, in the same unit */
	/* the load farthest from 1 among all anomalous findings; 0 if not known */
	double load;
	/*
	 * now: the current fault; fault[]: all faults, by measure. The blamed metrics, delay and
	 * callers come from the finding with the highest score while `now` was the current fault.
	 */
	enum act_measure now;
	struct act_fault fault[ACT_MEASURES];
	uint32_t blames;
	struct act_blame blame[ACT_BLAMES];
	double delay;
	char callers[ACT_CALLERS_BYTES];
	/* first row of the pod if the anomaly came with it, unlike its predecessors; otherwise 0 */
	int64_t born_ns;
	/* act_finding.queue and .waiting while the pod finishes no work; "" if not known */
	char queue[ACT_BLAME_BYTES];
	double waiting;
	struct act_step step;
	/*
	 * process that listens on act_find_port(), such as "shop[4711]"; "" if unknown; set by the
	 * keeper
	 */
	char server[ACT_POD_LABEL_BYTES];
	bool has_trace;
	uint8_t trace[ACT_TRACE_ID_BYTES]; /* id of a trace kept because of the anomaly */
};

struct act_pod_verdict {
	uint64_t instance;
	struct act_pod_name name;
	int64_t ns; /* time of the last finding; 0 if none yet */
	double score, suspicion, threshold;
	double recent;	/* highest score of the last two to three steps */
	bool anomalous; /* true while an anomaly is in progress */
	bool drift;
	enum act_state state;
	double least, slowdown; /* values of the last finding */
	bool shadow_anomalous;
	double shadow_score;
	int64_t begin_ns; /* start of the current or last anomaly; 0 if none yet */
	uint32_t blames;
	struct act_blame blame[ACT_BLAMES];   /* metrics blamed for the last anomalous finding */
	uint64_t findings, anomalies, alarms; /* alarms: number of anomalous findings */
	uint64_t shadow_alarms;
	int64_t trace_ns; /* time when a trace was last kept because of the pod; 0 means never */
	uint8_t trace[ACT_TRACE_ID_BYTES];
};

struct act_verdicts_opts {
	size_t max_pods;      /* maximum number of pods; 0 means 16384 */
	size_t max_anomalies; /* length of the list; 0 means 1024 */
	/* time for which an anomaly continues without an anomalous finding; 0 means 1 s */
	uint64_t hold_ns;
	uint64_t unread_ns; /* an anomaly ends when its pod is silent for this long; 0 means 10 s */
	uint64_t step_ns;   /* step of the score history; 0 means 500 ms */
};

struct act_verdicts;
struct act_verdict_pod;

/* Returns NULL with errno ENOMEM on failure. */
struct act_verdicts *act_verdicts_new(const struct act_verdicts_opts *opts);
/* call after all writers have finished; frees the pods */
void act_verdicts_free(struct act_verdicts *v);

/* ---- writers ---- */

/*
 * Adds a pod. Returns NULL with errno ENOSPC (max_pods reached; each such call is counted) or
 * ENOMEM.
 */
struct act_verdict_pod *act_verdicts_add(struct act_verdicts *v, uint64_t instance,
					 const struct act_pod_name *name);
/*
 * Publishes a finding. A finding is not anomalous if everything unusual in it is an improvement,
 * such as lower latency.
 */
void act_verdict_push(struct act_verdict_pod *pod, const struct act_finding *f);
/* Removes a pod and ends its anomaly. The caller must not use the pointer again. */
void act_verdict_gone(struct act_verdict_pod *pod);

/* ---- the keeper ---- */

/*
 * Reports changes since the last call: each anomaly that began, has new findings, or ended, even if
 * the list has dropped it. `changed` must be short and must not call into v.
 */
void act_verdicts_keep(struct act_verdicts *v, int64_t now_ns,
		       void (*changed)(const struct act_anomaly *a, void *arg), void *arg);
/*
 * Reports that a trace was kept because of a pod's anomaly, at now_ns (CLOCK_REALTIME). The current
 * anomaly keeps the first one, which counts as a change; the pod keeps the last one. Any thread.
 */
void act_verdicts_traced(struct act_verdicts *v, uint64_t instance, int64_t now_ns,
			 const uint8_t trace[ACT_TRACE_ID_BYTES]);

/* ---- readers ---- */

/* Returns false if there is no such pod. */
bool act_verdicts_pod(struct act_verdicts *v, uint64_t instance, struct act_pod_verdict *out);
struct act_worst {
	double score; /* 0 if the pod never had an anomaly, for example while it is learning */
	double suspicion;
};
/*
 * Returns the largest score and suspicion of a pod since since_ns, in multiples of the threshold; 0
 * if there is no such pod.
 */
struct act_worst act_verdicts_worst(struct act_verdicts *v, uint64_t instance, int64_t since_ns);
/* fn must be short and must not call into v. */
void act_verdicts_pods(struct act_verdicts *v, void (*fn)(const struct act_pod_verdict *, void *),
		       void *arg);
/* Returns at most max anomalies with ids above `after`, newest first, and their number. */
size_t act_verdicts_anomalies(struct act_verdicts *v, uint64_t after, struct act_anomaly *out,
			      size_t max);
/* Returns the number of listed anomalies that began at since_ns or later. */
uint64_t act_verdicts_begun(struct act_verdicts *v, int64_t since_ns);
/*
 * Copies the history of a pod's score, oldest first: the highest score of each step with findings.
 * The arrays have ACT_SCORES_KEPT entries. Returns the number of steps; 0 if there is no such pod.
 */
size_t act_verdicts_scores(struct act_verdicts *v, uint64_t instance, int64_t *ns, float *score,
			   float *threshold);

/*
 * Writes the ID of an anomaly for messages, made of the pod and the minute in which the anomaly
 * began. Collectors that read the same pod detect an anomaly within a few rows of each other, so
 * the ID is usually the same at all of them; it differs if a full minute lies in between.
 */
void act_anomaly_event_id(const struct act_anomaly *a, char out[ACT_EVENT_ID_BYTES]);

struct act_verdicts_stats {
	uint64_t pods, anomalous, drifting; /* current counts */
	uint64_t refused_pods, findings, alarms, shadow_alarms;
	uint64_t anomalies; /* number listed so far */
	uint64_t missed; /* number that began and ended between two calls of act_verdicts_keep() */
	uint64_t forgotten; /* dropped from the list to make space for newer ones */
};
void act_verdicts_stats(struct act_verdicts *v, struct act_verdicts_stats *out);

#endif
