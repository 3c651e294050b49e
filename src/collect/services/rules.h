/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - what a metric says about the service that publishes it, by the naming conventions of
 * Prometheus and OpenTelemetry. One table in rules.c; docs/api.md repeats it. Pure functions, but
 * for collect_rule_again().
 */
#ifndef SL_COLLECT_SERVICES_RULES_H
#define SL_COLLECT_SERVICES_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "region/decode.h"

enum collect_rule_role {
	COLLECT_RULE_NONE,
	COLLECT_RULE_REQUESTS, /* counter */
	COLLECT_RULE_ERRORS,   /* counter */
	COLLECT_RULE_LATENCY,  /* histogram */
	COLLECT_RULE_CPU,      /* counter, s */
	COLLECT_RULE_MEMORY,   /* gauge, bytes */
	COLLECT_RULE_ROLES
};

struct collect_rule {
	enum collect_rule_role role;
	uint32_t rank; /* of several names of a region, the least counts */
	double unit;   /* of a latency: s per unit of its buckets */
};

struct collect_rule collect_rule_of(const struct region_metric *m);

/* A remembered rule of a metric; zeroed: none. */
#define COLLECT_RULE_MEMO 128u
struct collect_rule_memo {
	char name[COLLECT_RULE_MEMO], unit[24];
	enum sl_metric_kind kind;
	struct collect_rule rule;
};
/* The same as collect_rule_of(), with n remembered entries, one of which it may replace. */
struct collect_rule collect_rule_again(struct collect_rule_memo *memo, size_t n,
				       const struct region_metric *m);

/* Whether the labels of a metric say how its requests ended, and that they failed. */
enum collect_outcome { COLLECT_OUTCOME_UNKNOWN, COLLECT_OUTCOME_FINE, COLLECT_OUTCOME_ERROR };
enum collect_outcome collect_outcome_of(const struct region_metric *m);

#endif
