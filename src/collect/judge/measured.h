/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measured.h - the latency of requests to a pod as its kernel measures it (layer app of
 * docs/tcp.md), among the columns of its connections. It is better evidence than the application's
 * own: it has the three quantiles that the fleet stage needs, of all requests, also where the
 * application publishes none. Pure functions.
 */
#ifndef SL_COLLECT_JUDGE_MEASURED_H
#define SL_COLLECT_JUDGE_MEASURED_H

#include <stdbool.h>
#include <stdint.h>

#include "analyse/culprit.h"
#include "analyse/pipeline.h"

/* Ends the service of a workload's connections; that of the pod itself is without it. */
#define COLLECT_MEASURED_SERVICE " (tcp)"
#define COLLECT_MEASURED_PORTS	 8u /* more are not looked at */

struct collect_measured {
	uint32_t ports;
	struct {
		uint32_t count, tail[ANALYSE_TAILS]; /* columns */
	} port[COLLECT_MEASURED_PORTS];
};

/* Finds the columns of a layout. */
void collect_measured_find(struct collect_measured *m, const struct analyse_column *columns,
			   uint32_t n);
/* P90, P95, P99 in s at the port that served most requests; NaN: not known. */
void collect_measured_take(const struct collect_measured *m, const double *value,
			   double seconds[ANALYSE_TAILS]);

#endif
