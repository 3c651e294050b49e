/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert.h - anomalies as others are told of them: in the form of Prometheus' Alertmanager (POST
 * /api/v2/alerts, an array of alerts), and as one JSON object an event for a webhook, which is of
 * the form of Alertmanager's own webhooks, too. Pure: makes text, says when it is due, and sends
 * nothing.
 *
 * An alert is sent when an anomaly begins, when a trace is kept because of it, again every
 * `again_ns` while it goes on, with an endsAt four times as far ahead (as Prometheus does, so that
 * a lost message neither ends it nor keeps it up for ever), and once more with its end. Labels say
 * whose it is, and stay as they are as long as it lasts, since they are what an Alertmanager knows
 * it by; what changes is in annotations. A webhook is told of begin and end only.
 */
#ifndef SL_ACT_ALERT_H
#define SL_ACT_ALERT_H

#include "act/verdict.h"

struct act_alerts;

struct act_alerts_opts {
	const char *link;  /* of the page, without '/' at its end; NULL: none. Copied. */
	uint64_t again_ns; /* 0: 60 s */
	size_t max;	   /* anomalies that go on at a time; 0: 4096 */
};

struct act_alerts_out {
	/* An anomaly's event; text is valid during the call. */
	void (*webhook)(void *arg, const char *json, size_t bytes);
	/* Several alerts at once, count of them. */
	void (*alertmanager)(void *arg, const char *json, size_t bytes, size_t count);
	void *arg; /* either of the two may be NULL */
};

/* NULL: ENOMEM. One thread. */
struct act_alerts *act_alerts_new(const struct act_alerts_opts *opts);
void act_alerts_free(struct act_alerts *a);
/* What act_verdicts_keep() said. */
void act_alerts_take(struct act_alerts *a, const struct act_anomaly *anomaly,
		     const struct act_alerts_out *out);
/* Sends to Alertmanager what is due. */
void act_alerts_poll(struct act_alerts *a, int64_t now_ns, const struct act_alerts_out *out);
/* Anomalies that were not told of: too many at a time, or no memory. */
uint64_t act_alerts_lost(const struct act_alerts *a);

#endif
