/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - derives the role of a metric for its service from the naming conventions of Prometheus
 * and OpenTelemetry. The table is in rules.c; docs/api.md repeats it. Pure functions, except for
 * collect_rule_again().
 */
#ifndef SL_COLLECT_SERVICES_RULES_H
#define SL_COLLECT_SERVICES_RULES_H

#include <stddef.h>
#include <stdint.h>

#include "region/decode.h"

enum collect_rule_role {
	COLLECT_RULE_NONE,
	COLLECT_RULE_REQUESTS, /* counter */
	COLLECT_RULE_ERRORS,   /* counter */
	COLLECT_RULE_LATENCY,  /* histogram */
	COLLECT_RULE_CPU,      /* counter in seconds */
	COLLECT_RULE_MEMORY,   /* gauge in bytes */
	COLLECT_RULE_ROLES
};

struct collect_rule {
	enum collect_rule_role role;
	uint32_t rank; /* if a region has several names for a role, the lowest rank wins */
	double unit;   /* for latencies: seconds per unit of the buckets */
};

struct collect_rule collect_rule_of(const struct region_metric *m);

/* The memoised rule of a metric; all zeros if empty. */
#define COLLECT_RULE_MEMO 128u
struct collect_rule_memo {
	char name[COLLECT_RULE_MEMO], unit[24];
	enum sl_metric_kind kind;
	struct collect_rule rule;
};
/*
 * Like collect_rule_of(), but looks the name up in a cache of n entries, and may replace an entry.
 */
struct collect_rule collect_rule_again(struct collect_rule_memo *memo, size_t n,
				       const struct region_metric *m);

/* Whether the labels of a metric say how its requests ended, and whether they failed. */
enum collect_outcome { COLLECT_OUTCOME_UNKNOWN, COLLECT_OUTCOME_FINE, COLLECT_OUTCOME_ERROR };
enum collect_outcome collect_outcome_of(const struct region_metric *m);

#endif
