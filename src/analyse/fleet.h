/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fleet.h - all pods at one moment: discounts what they share, as pods compete for each metric's
 * surprise (docs/analytics.md, Across the fleet). Metrics are matched by name.
 *
 * Pods whose detector is comparable share one calibration: the pooled tail has as many times more
 * scores as there are pods, and a quiet past does not give a pod a threshold that its first day of
 * work exceeds. Scores of other detectors have no common unit: those pods keep their own thresholds
 * and nothing is discounted.
 *
 * A fleet is not thread-safe; a live collector has one per worker.
 */
#ifndef SL_ANALYSE_FLEET_H
#define SL_ANALYSE_FLEET_H

#include "analyse/pipeline.h"

#define ANALYSE_FLEET_MIN     4u /* with fewer pods nothing is common */
#define ANALYSE_FLEET_RIVALRY 3.0f

struct analyse_fleet;

/* q: false alarms per step and pod. NULL: errno. */
struct analyse_fleet *analyse_fleet_create(double q, uint64_t seed);
void analyse_fleet_free(struct analyse_fleet *f);
/* Scores are learned into the shared thresholds too. Call before the pod's first row. */
void analyse_fleet_join(struct analyse_fleet *f, struct analyse_pipeline *p);
/*
 * Completes and settles the verdicts of one moment's scored rows, at most one per pod. -ENOMEM:
 * settled, but without comparing pods.
 */
int analyse_fleet_judge(struct analyse_fleet *f, struct analyse_pipeline *const *pods,
			struct analyse_verdict *verdicts, uint32_t n);
struct analyse_thresholds *analyse_fleet_thresholds(struct analyse_fleet *f);

#endif
