/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - describes findings in words, for logs, alerts, the API and the page. Pure. */
#ifndef SL_ACT_EXPLAIN_H
#define SL_ACT_EXPLAIN_H

#include "act/incident.h"

#define ACT_LABEL_BYTES	      (ACT_POD_LABEL_BYTES + 16)
#define ACT_EXPLANATION_BYTES 768u
#define ACT_SHARE_SAID	      0.1 /* minimum share of each further metric in a sentence */

/* A position in a buffer at which text is appended, and the bytes left there, including the NUL. */
struct act_text {
	char *at;
	size_t left;
};
/* Appends formatted text, truncated to the bytes left. */
void act_append(struct act_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
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
/* True for the connections of a workload or host. */
bool act_is_connections(const struct act_pod_name *n);
#define ACT_RANK_NAMES 2 /* from this rank on, a metric names the fault */
/*
 * Returns how strongly a blamed metric points to a fault: 0 for an improvement, 1 for most metrics,
 * and at least ACT_RANK_NAMES for those that name the fault.
 */
int act_rank_blame(const struct act_blame *b);
/* Returns the blamed metric that describes the fault best; NULL if n is 0. */
const struct act_blame *act_find_lead(const struct act_blame *blame, uint32_t n);
/*
 * Returns the port of a host's own connections that an anomaly is about, if a process of this host
 * serves it; otherwise 0.
 */
uint16_t act_find_port(const struct act_anomaly *a);
/*
 * True for pods of one service and owner, and for the connections of such pods; for hosts, if it is
 * the same one. Connections whose owner is not known belong to each service of their name.
 */
bool act_is_same_service(const struct act_pod_name *a, const struct act_pod_name *b);
/*
 * Writes act_pod_name.owner of a tenant that is neither trusted nor unknown. kube_namespace: as
 * attested, or "".
 */
void act_name_owner(char owner[ACT_POD_LABEL_BYTES], const char *kube_namespace, const char *uid);
/* Returns the uid in the name of a pod's owner, or "" if the owner is not a user. */
const char *act_owner_uid(const struct act_pod_name *n);
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
 * Writes sentences about one pod: what is wrong and since when; which metrics show it, with their
 * values at the highest score and their usual values; and what to do first. Times are local.
 * Truncates the text to fit, and returns it.
 */
const char *act_explain(char *text, size_t room, const struct act_anomaly *a);
/*
 * Does the same for an incident, and adds the effect on callers, the next suspect and the other
 * pods.
 */
void act_explain_incident(char *text, size_t room, const struct act_incident *i);

#endif
