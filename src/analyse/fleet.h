/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fleet.h - all pods at one moment: what they share is nobody's fault. Load that rises, a node that
 * is busy and a slow dependency move the same metric of many pods; the culprit is who moves more
 * than the others. So pods compete for each metric's surprise: with c what metric m adds to a pod's
 * score, and a the mean of what it adds to the other pods',
 *
 * 	c' = c * c / (c + ANALYSE_FLEET_RIVALRY * a)
 *
 * which leaves c as it is if nobody else shows it, and takes most of it if all do: explaining away,
 * as between causes of one effect (J. Pearl, Probabilistic Reasoning in Intelligent Systems, 1988).
 * Metrics are the same by name. The score of a pod is the sum of its c'.
 *
 * Pods whose detector is comparable share one calibration: the pooled tail has as many times more
 * scores as there are pods, and no pod with a quiet past gets a threshold that its first day of
 * work exceeds. As far as pods differ, each has its own share of what exceeds t (calibrate.h): one
 * threshold for all would be that of the restless ones. Others keep their own thresholds, and
 * nothing is taken off: their shares have no unit.
 *
 * One thread; a live collector has one fleet a worker.
 */
#ifndef SL_ANALYSE_FLEET_H
#define SL_ANALYSE_FLEET_H

#include "analyse/pipeline.h"

#define ANALYSE_FLEET_MIN     4u /* with fewer pods nothing is common */
#define ANALYSE_FLEET_RIVALRY 3.0f

struct analyse_fleet;

/* q: false alarms a step and pod. NULL: errno. */
struct analyse_fleet *analyse_fleet_create(double q, uint64_t seed);
void analyse_fleet_free(struct analyse_fleet *f);
/* Before its first row; undone by analyse_pipeline_share(p, NULL). */
void analyse_fleet_join(struct analyse_fleet *f, struct analyse_pipeline *p);
/*
 * The scored rows of one moment, one a pod: verdicts are completed and settled. Pods without a row
 * are left out. -ENOMEM: settled, but without looking across.
 */
int analyse_fleet_judge(struct analyse_fleet *f, struct analyse_pipeline *const *pods,
			struct analyse_verdict *verdicts, uint32_t n);
struct analyse_thresholds *analyse_fleet_thresholds(struct analyse_fleet *f);

#endif
