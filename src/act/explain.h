/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - describes findings in words, for logs, alerts, the API and the page. Pure. */
#ifndef SL_ACT_EXPLAIN_H
#define SL_ACT_EXPLAIN_H

#include "act/incident.h"

#define ACT_LABEL_BYTES (ACT_POD_LABEL_BYTES + 16)

/*
 * Formats a readable name of a pod: its own name or, if it has none or only that of its host, the
 * name of its container, or else the name of its service with the process number. Truncated to fit;
 * returns text.
 */
const char *act_pod_label(const struct act_pod_name *n, char *text, size_t room);
/* True for the metrics of a host ("host"), and for what is named after it, as "(host) (tcp)". */
bool act_is_host(const struct act_pod_name *n);
/* Returns the length of a service's name without the suffix of its connections, as in "cart (tcp)".
 */
size_t act_service_length(const char *service);
/*
 * Formats a value of a metric with the unit that its name ends with: "57.6 ms", "1.5 MiB", "12
 * per second", "140 % of a CPU".
 */
void act_value(char *text, size_t room, const struct act_blame *b, double value);
/*
 * Writes a sentence about one pod: what is wrong, since when, and the metrics that show it, with
 * their usual values and those at the highest score. Times are local. Truncated to fit.
 */
void act_explain(char *text, size_t room, const struct act_anomaly *a);
/*
 * The same about an incident, with what its callers see, the other pods, the next suspect, and what
 * to do first.
 */
void act_explain_incident(char *text, size_t room, const struct act_incident *i);

#endif
