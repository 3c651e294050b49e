/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fleet.h - compares all pods at one moment: discounts shared evidence, as pods compete for each
 * metric's surprise (docs/analytics.md, Across the fleet). Metrics are matched by name. Pods whose
 * detector is comparable share one calibration: with n pods, the pooled tail has n times as many
 * scores, so a pod that has been quiet does not get a threshold that its first busy day would
 * exceed. Scores of other detectors have no common unit: those pods keep their own thresholds and
 * nothing is discounted. A fleet is not thread-safe; a live collector has one.
 */
#ifndef SL_ANALYSE_FLEET_H
#define SL_ANALYSE_FLEET_H

#include "analyse/graph.h"
#include "analyse/pipeline.h"

#define ANALYSE_FLEET_MIN     4u /* with fewer pods than this, no evidence counts as shared */
#define ANALYSE_FLEET_RIVALRY 3.0f

struct analyse_fleet;

/* q: false alarms per step and pod. Returns NULL with errno set on failure. */
struct analyse_fleet *analyse_fleet_create(double q, uint64_t seed);
void analyse_fleet_free(struct analyse_fleet *f);
/*
 * Adds a pod, whose scores then also count for the shared thresholds. Call before the pod's first
 * row. service: its name in the call graph, or NULL. -ENOMEM means the pod has joined, but cannot
 * become a suspect.
 */
int analyse_fleet_join(struct analyse_fleet *f, struct analyse_pipeline *p, const char *service);
/*
 * From now on, compares a pod that has joined with its replicas: the other pods passed with the
 * same service. Of hosts, only the ports are compared. Returns 0, -ENOMEM or -ENOSPC; after an
 * error, the pod is not compared.
 */
int analyse_fleet_replica(struct analyse_fleet *f, struct analyse_pipeline *p, const char *service,
			  bool host);
/* Call before analyse_pipeline_free() of a pod that has joined. */
void analyse_fleet_leave(struct analyse_fleet *f, struct analyse_pipeline *p);
/*
 * The call graph between services. The caller adds traces; the next judgement uses them. Without
 * traces, pods are judged alone (culprit.h needs a graph).
 */
struct analyse_graph *analyse_fleet_graph(struct analyse_fleet *f);
/*
 * Completes the verdicts on the scored rows of one moment, at most one per pod. -ENOMEM means the
 * verdicts are complete, but pods were not compared.
 */
int analyse_fleet_judge(struct analyse_fleet *f, struct analyse_pipeline *const *pods,
			struct analyse_verdict *verdicts, uint32_t n);
/*
 * Finds the services that call this pod and whose latencies at the last judged moment show that
 * calls to it take longer, in descending order of evidence. Returns their number, or -ENOENT if no
 * caller is known. Names are valid until the graph is freed.
 */
#define ANALYSE_CALLERS 3
int analyse_fleet_callers(const struct analyse_fleet *f, const struct analyse_pipeline *p,
			  const char *name[ANALYSE_CALLERS]);
struct analyse_thresholds *analyse_fleet_thresholds(struct analyse_fleet *f);

#endif
