/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - describes findings in words, for logs, alerts, the API and the page. Pure. */
#ifndef SL_ACT_EXPLAIN_H
#define SL_ACT_EXPLAIN_H

#include "act/incident.h"

#define ACT_LABEL_BYTES (ACT_POD_LABEL_BYTES + 16)

/*
 * Formats a readable name for a pod: the pod's name; if it has none, or just the host name, the
 * name of its container; failing that, the name of its service and the PID. The result is truncated
 * to fit. Returns text.
 */
const char *act_pod_label(const struct act_pod_name *n, char *text, size_t room);
/*
 * True for host metrics (service "host") and for services named after the host, such as "(host)
 * (tcp)".
 */
bool act_is_host(const struct act_pod_name *n);
/*
 * Returns the length of a service's name without the suffix that marks its connections: "cart" in
 * "cart (tcp)".
 */
size_t act_service_length(const char *service);
/*
 * Formats a metric's value with the unit given by the end of its name: "57.6 ms", "1.5 MiB", "12
 * per second", "140 % of a CPU".
 */
void act_value(char *text, size_t room, const struct act_blame *b, double value);
/*
 * Writes a sentence about one pod: what is wrong, when it started, and which metrics show it, with
 * their usual values and their values at the highest score. Times are local. The sentence is
 * truncated to fit.
 */
void act_explain(char *text, size_t room, const struct act_anomaly *a);
/*
 * Does the same for an incident, and adds what the callers see, the other pods, the next suspect,
 * and what to do first.
 */
void act_explain_incident(char *text, size_t room, const struct act_incident *i);

#endif
