/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tell.h - verdicts go back to the hosts: a connection of its own to each host that has pods to be
 * told, on the thread that keeps the anomalies, so that a host that does not listen holds up no
 * round. Said when it changes, and again before it expires; what can't be said now is said later.
 */
#ifndef SL_COLLECT_ANALYSIS_NOTIFY_H
#define SL_COLLECT_ANALYSIS_NOTIFY_H

#include "act/verdict.h"
#include "collect/collect.h"

struct tell;

/* ttl_ns: how long a verdict holds without news. NULL: out of memory. */
struct tell *tell_new(struct sl_collector *c, uint64_t ttl_ns);
void tell_free(struct tell *t);

/* An anomaly began, goes on or ended: said at once if the pod is not known to be so. */
void tell_anomaly(struct tell *t, const struct sl_anomaly *a);
/* Moves connections on. Several times a second. */
void tell_turn(struct tell *t, uint64_t now_ns);
/* Looks at all pods: says what was not said yet, and what is due to be said again. */
void tell_pods(struct tell *t, struct sl_verdicts *v, uint64_t now_ns);

/* Any thread. */
struct tell_stats {
	uint64_t told, untold; /* that the fabric took; that it did not, each time */
};
void tell_stats(const struct tell *t, struct tell_stats *out);

#endif
