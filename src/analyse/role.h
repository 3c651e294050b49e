/* SPDX-License-Identifier: Apache-2.0 */
/*
 * role.h - what a metric says about its pod, by its name: the conventions of Prometheus and
 * OpenTelemetry, and those of the recorded days.
 */
#ifndef SL_ANALYSE_ROLE_H
#define SL_ANALYSE_ROLE_H

#include <stdbool.h>
#include <stdint.h>

enum analyse_role_kind {
	ANALYSE_ROLE_OTHER,
	ANALYSE_ROLE_LOAD,    /* the work that a pod is given, or a metric of its node */
	ANALYSE_ROLE_LATENCY, /* another number of latencies than the following quantiles */
	ANALYSE_ROLE_CLIENT,  /* a latency quantile of calls that the pod makes */
	ANALYSE_ROLE_SERVER,  /* of requests to it */
	ANALYSE_ROLE_RESOURCE,
	ANALYSE_ROLE_ERRORS, /* a counter of them */
};
enum analyse_resource { ANALYSE_CPU, ANALYSE_MEMORY, ANALYSE_RESOURCES };

struct analyse_role {
	uint8_t kind; /* enum analyse_role_kind */
	uint8_t part; /* of a latency: enum analyse_tail_quantile; of a resource: which one */
};

/* name: of a column, with labels. counter: its rate is analysed. */
struct analyse_role analyse_role_of(const char *name, bool counter);

#endif
