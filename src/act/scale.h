/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scale.h - what pods that are not as usual mean for the number of them: two signals a workload
 * (the pods of one namespace and service), for whoever scales. One thread writes, any read.
 *
 * 	pressure         mean recent score of the pods, each at most ACT_PRESSURE_MAX, smoothed: 1
 * is where a pod is called anomalous, so a target of 1 adds pods when the workload as a whole goes
 * there anomalous_ratio  share of the pods that are within an anomaly, now
 *
 * Smoothing: p += (1 - e^(-t / tau)) * (mean - p), so that one bad second makes no pod.
 */
#ifndef SL_ACT_SCALE_H
#define SL_ACT_SCALE_H

#include "act/verdict.h"

#define ACT_PRESSURE_MAX 10.0

struct act_workload {
	char kube_namespace[ACT_POD_LABEL_BYTES], service[ACT_POD_LABEL_BYTES];
	uint32_t pods, anomalous;
	double pressure, anomalous_ratio;
	int64_t ns; /* CLOCK_REALTIME when it was worked out */
};

struct act_scale;

/* tau_ns: 0: 10 s. max: workloads, 0: 1024; more are left out and counted. NULL: ENOMEM. */
struct act_scale *act_scale_new(uint64_t tau_ns, size_t max);
void act_scale_free(struct act_scale *s);

/* One look at all pods: begin, each pod, end. Pods without a finding for 10 s do not count. */
void act_scale_begin(struct act_scale *s, int64_t now_ns);
void act_scale_pod(struct act_scale *s, const struct act_pod_verdict *v);
void act_scale_end(struct act_scale *s);

/* Copies of what the last look gave, at most max. Returns how many there are. Any thread. */
size_t act_scale_workloads(struct act_scale *s, struct act_workload *out, size_t max);
uint64_t act_scale_refused(struct act_scale *s);

#endif
