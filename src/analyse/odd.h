/* SPDX-License-Identifier: Apache-2.0 */
/*
 * odd.h - compares the replicas of a service with each other, and finds a replica that differs from
 * its siblings. Needs no learned model (docs/analytics.md, The odd one out). Hosts do different
 * work, so only their ports are compared. Runs once per step; allocates only when pods are added.
 * Not thread-safe.
 */
#ifndef SL_ANALYSE_ODD_H
#define SL_ANALYSE_ODD_H

#include "analyse/pipeline.h"

#define ANALYSE_ODD_SIBLINGS 3u /* a pod with fewer siblings is not compared */
/* maximum number of metrics compared per service, and of ports' series per host */
#define ANALYSE_ODD_METRICS 16u
#define ANALYSE_ODD_PORTS   128u

struct analyse_replicas; /* the pods of one service */

/* Returns NULL if out of memory. */
struct analyse_replicas *analyse_replicas_new(bool hosts);
void analyse_replicas_free(struct analyse_replicas *r);
/* From now on, compares the pod with the others. Returns 0 or -ENOMEM. */
int analyse_replicas_join(struct analyse_replicas *r, struct analyse_pipeline *p);
void analyse_replicas_leave(struct analyse_pipeline *p);

/* Stores the scored row of a pod, unless the pod already had one in this step. */
void analyse_odd_take(struct analyse_pipeline *p);
/* Compares the pod and its siblings, once per step. Call after all rows of the step. */
void analyse_odd_compare(struct analyse_pipeline *p);
/* Adds the result of the comparison to the verdict on the pod's row. */
void analyse_odd_settle(struct analyse_pipeline *p, struct analyse_verdict *v);
/* Accepts the current differences as normal. */
void analyse_odd_accept(struct analyse_pipeline *p);

#endif
