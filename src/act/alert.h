/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert.h - anomalies as notifications: alerts for Prometheus' Alertmanager (POST /api/v2/alerts),
 * and one JSON object per event for a webhook, which also has the form of Alertmanager's own
 * webhooks. Pure: makes text and decides when it is due; the callbacks send it.
 *
 * An alert is sent when an anomaly begins, when a trace is kept for it, every `again_ns` while it
 * lasts, with an endsAt four times as far ahead (as Prometheus does, so that one lost message does
 * not resolve it), and with its end. Labels identify an alert and stay the same as long as it
 * lasts; what changes is in annotations. A webhook gets begin and end only.
 */
#ifndef SL_ACT_ALERT_H
#define SL_ACT_ALERT_H

#include "act/verdict.h"

struct act_alerts;

struct act_alerts_opts {
	const char *link;  /* URL of the page, without '/' at its end; NULL: none. Copied. */
	uint64_t again_ns; /* 0: 60 s */
	size_t max;	   /* concurrent anomalies; 0: 4096 */
};

struct act_alerts_out {
	/* An anomaly's event; the text is valid during the call. */
	void (*webhook)(void *arg, const char *json, size_t bytes);
	/* An array of `count` alerts. */
	void (*alertmanager)(void *arg, const char *json, size_t bytes, size_t count);
	void *arg; /* either callback may be NULL */
};

/* NULL: ENOMEM. Not thread-safe. */
struct act_alerts *act_alerts_new(const struct act_alerts_opts *opts);
void act_alerts_free(struct act_alerts *a);
/* For each change that act_verdicts_keep() reports. */
void act_alerts_take(struct act_alerts *a, const struct act_anomaly *anomaly,
		     const struct act_alerts_out *out);
/* Sends the alerts that are due. */
void act_alerts_poll(struct act_alerts *a, int64_t now_ns, const struct act_alerts_out *out);
/* Anomalies without a notification: too many at a time, or out of memory. */
uint64_t act_alerts_lost(const struct act_alerts *a);

#endif
