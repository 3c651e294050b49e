/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert.h - turns anomalies into notifications: alerts for Prometheus' Alertmanager (POST
 * /api/v2/alerts), and one JSON object per event for a webhook, which also has the form of
 * Alertmanager's own webhooks. Pure: produces text and decides when it is due; the callbacks send
 * it.
 *
 * An alert is sent when an anomaly begins, when a trace is kept for it, every `again_ns` while it
 * lasts, and when it ends. Its endsAt is four intervals ahead (as in Prometheus, so that one lost
 * message does not resolve it). Labels identify an alert and stay the same while it lasts; variable
 * data is in annotations. A webhook is called only at the beginning and at the end.
 */
#ifndef SL_ACT_ALERT_H
#define SL_ACT_ALERT_H

#include "act/verdict.h"

struct act_alerts;

struct act_alerts_opts {
	const char *link;  /* URL of the page without a final '/'; NULL: none. Copied. */
	uint64_t again_ns; /* interval between alerts; default (0) 60 s */
	size_t max;	   /* maximum number of concurrent anomalies; default (0) 4096 */
};

struct act_alerts_out {
	/* Receives an event of an anomaly; the text is valid during the call. */
	void (*webhook)(void *arg, const char *json, size_t bytes);
	/* Receives an array of `count` alerts. */
	void (*alertmanager)(void *arg, const char *json, size_t bytes, size_t count);
	void *arg; /* either callback may be NULL */
};

/* Returns NULL with errno ENOMEM on failure. Not thread-safe. */
struct act_alerts *act_alerts_new(const struct act_alerts_opts *opts);
void act_alerts_free(struct act_alerts *a);
/* Call for each change that act_verdicts_keep() reports. */
void act_alerts_take(struct act_alerts *a, const struct act_anomaly *anomaly,
		     const struct act_alerts_out *out);
/* Sends alerts that are due. */
void act_alerts_poll(struct act_alerts *a, int64_t now_ns, const struct act_alerts_out *out);
/*
 * Returns the number of anomalies without notification, because there were too many at a time, or
 * no memory.
 */
uint64_t act_alerts_lost(const struct act_alerts *a);

#endif
