/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - writes verdicts to the verdict boards of hosts, over a separate connection per host
 * and on the thread of live.c, so that a slow host delays no round. A verdict is written when it
 * changes and again before it expires; failed writes are retried.
 */
#ifndef SL_COLLECT_JUDGE_NOTIFY_H
#define SL_COLLECT_JUDGE_NOTIFY_H

#include "act/incident.h"
#include "collect/read/collect.h"

struct collect_notify;

/* ttl_ns: how long a verdict is valid. Returns NULL with errno on failure. */
struct collect_notify *collect_notify_new(struct collect_collector *c, uint64_t ttl_ns);
void collect_notify_free(struct collect_notify *t);

/*
 * Called when an anomaly begins, continues or ends: sends a verdict at once if this changes the
 * pod's verdict. A pod is not notified of load.
 */
void collect_notify_anomaly(struct collect_notify *t, const struct act_anomaly *a,
			    struct act_incidents *incidents);
/* Drives the connections. Called several times per second. */
void collect_notify_poll(struct collect_notify *t, uint64_t now_ns);
/* Sends all verdicts that are new or due for renewal. */
void collect_notify_pods(struct collect_notify *t, struct act_verdicts *v,
			 struct act_incidents *incidents, uint64_t now_ns);

/* May be called by any thread. */
struct collect_notify_stats {
	uint64_t notified, untold; /* verdicts written, and failed attempts */
};
void collect_notify_stats(const struct collect_notify *t, struct collect_notify_stats *out);

#endif
