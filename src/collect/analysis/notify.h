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

struct collect_notify;

/* ttl_ns: how long a verdict holds without news. NULL: out of memory. */
struct collect_notify *collect_notify_new(struct collect_collector *c, uint64_t ttl_ns);
void collect_notify_free(struct collect_notify *t);

/* An anomaly began, goes on or ended: said at once if the pod is not known to be so. */
void collect_notify_anomaly(struct collect_notify *t, const struct act_anomaly *a);
/* Moves connections on. Several times a second. */
void collect_notify_poll(struct collect_notify *t, uint64_t now_ns);
/* Looks at all pods: says what was not said yet, and what is due to be said again. */
void collect_notify_pods(struct collect_notify *t, struct act_verdicts *v, uint64_t now_ns);

/* Any thread. */
struct collect_notify_stats {
	uint64_t notified, untold; /* that the fabric took; that it did not, each time */
};
void collect_notify_stats(const struct collect_notify *t, struct collect_notify_stats *out);

#endif
