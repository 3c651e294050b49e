/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scale.h - two signals per workload (the pods of one namespace, service and user) for autoscalers.
 * One thread writes, any thread reads.
 * - pressure: the current P90 of requests to a pod divided by its usual P90, at most
 *   ACT_PRESSURE_MAX, as a smoothed mean over the pods that have requests. At 1, the number of pods
 *   is right; above 1, there are too few; below 1, too many. Anomalies that do not slow down
 *   requests have no effect. NaN means no pod has requests.
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
	/*
	 * user who owns the pods; "" if they belong to a namespace, or to a trusted or an unknown
	 * tenant
	 */
	char uid[ACT_POD_LABEL_BYTES];
	uint32_t pods, anomalous;
	uint32_t loaded; /* number of pods with requests */
	double pressure, anomalous_ratio;
	int64_t ns; /* time of the computation, CLOCK_REALTIME */
};

struct act_scale;

/*
 * tau_ns: 0 means 10 s. max: maximum number of workloads, 0 means 1024; the pods of others are left
 * out and counted. Returns NULL with errno ENOMEM on failure.
 */
struct act_scale *act_scale_new(uint64_t tau_ns, size_t max);
void act_scale_free(struct act_scale *s);

/* One pass over all pods: begin, each pod, end. Pods without a finding for 10 s are ignored. */
void act_scale_begin(struct act_scale *s, int64_t now_ns);
void act_scale_pod(struct act_scale *s, const struct act_pod_verdict *v);
void act_scale_end(struct act_scale *s);

/* Copies at most max workloads of the last pass. Returns their number. Thread-safe. */
size_t act_scale_workloads(struct act_scale *s, struct act_workload *out, size_t max);
/* Returns the number of pods that passes have left out. Thread-safe. */
uint64_t act_scale_left_out(const struct act_scale *s);

#endif
