/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scale.h - two signals per workload (the pods of one namespace and service) for autoscalers. One
 * thread writes, any thread reads.
 *
 * - pressure: how much longer requests to the pods take than usually. A pod's part is the P90 of
 * its requests now over its usual one, at most ACT_PRESSURE_MAX; pressure is the mean of the pods
 * that have requests, smoothed. 1 is as planned; above, pods are missing; below, there are too
 * many. What is odd but no slower does not count. NaN: no pod has requests.
 * - anomalous_ratio: share of the pods that are anomalous now.
 *
 * Smoothing: p += (1 - e^(-t / tau)) * (mean - p), so that one bad second adds no pod.
 */
#ifndef SL_ACT_SCALE_H
#define SL_ACT_SCALE_H

#include "act/verdict.h"

#define ACT_PRESSURE_MAX 10.0

struct act_workload {
	char kube_namespace[ACT_POD_LABEL_BYTES], service[ACT_POD_LABEL_BYTES];
	uint32_t pods, anomalous;
	uint32_t loaded; /* pods with requests */
	double pressure, anomalous_ratio;
	int64_t ns; /* CLOCK_REALTIME of the computation */
};

struct act_scale;

/* tau_ns: 0: 10 s. max: bound of workloads, 0: 1024; further ones are ignored. NULL: ENOMEM. */
struct act_scale *act_scale_new(uint64_t tau_ns, size_t max);
void act_scale_free(struct act_scale *s);

/* One pass over all pods: begin, each pod, end. Pods without a finding for 10 s do not count. */
void act_scale_begin(struct act_scale *s, int64_t now_ns);
void act_scale_pod(struct act_scale *s, const struct act_pod_verdict *v);
void act_scale_end(struct act_scale *s);

/* Copies at most max workloads of the last pass. Returns their number. Any thread. */
size_t act_scale_workloads(struct act_scale *s, struct act_workload *out, size_t max);

#endif
