/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert.h - turns incidents into notifications: alerts for Prometheus' Alertmanager (POST
 * /api/v2/alerts), and one JSON object per event for a webhook, which also has the form of
 * Alertmanager's own webhooks. Pure: produces text; the callbacks send it.
 *
 * An alert is sent whenever there is news of an incident (incident.h): when it begins, when its
 * cause changes or a trace is kept, every `again_ns` while it lasts, and when it ends. Its endsAt
 * is four intervals ahead (as in Prometheus, so that one lost message does not resolve it). Labels
 * identify an alert and stay the same while it lasts; variable data is in annotations. A webhook is
 * called only at the beginning and at the end. Receivers are not notified of load.
 */
#ifndef SL_ACT_ALERT_H
#define SL_ACT_ALERT_H

#include "act/incident.h"

struct act_alerts;

struct act_alerts_out {
	/* Receives an event of an incident; the text is valid during the call. */
	void (*webhook)(void *arg, const char *id, const char *json, size_t bytes);
	/* Receives an array of `count` alerts. */
	void (*alertmanager)(void *arg, const char *json, size_t bytes, size_t count);
	void *arg; /* either callback may be NULL */
};

/*
 * link: URL of the page without a final '/', copied; NULL means none. again_ns: the interval
 * between alerts. Returns NULL with errno ENOMEM on failure. Not thread-safe.
 */
struct act_alerts *act_alerts_new(const char *link, uint64_t again_ns);
void act_alerts_free(struct act_alerts *s);
/* Call for each incident with news that act_incidents_poll() reports. */
void act_alerts_take(struct act_alerts *s, const struct act_incident *i, unsigned int news,
		     int64_t now_ns, const struct act_alerts_out *out);
/* Sends the alerts taken since the last call. */
void act_alerts_send(struct act_alerts *s, const struct act_alerts_out *out);
/* Returns the number of notifications lost for lack of memory. */
uint64_t act_alerts_lost(const struct act_alerts *s);

#endif
