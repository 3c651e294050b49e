/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measured.h - the latency of requests to a pod as measured by its kernel (layer app of
 * docs/tcp.md), taken from the columns of the pod's connections. This is better evidence than the
 * application's own metrics: it provides the three quantiles that the fleet stage needs, over all
 * requests, even if the application publishes none. Pure functions.
 */
#ifndef SL_COLLECT_JUDGE_MEASURED_H
#define SL_COLLECT_JUDGE_MEASURED_H

#include <stdint.h>

#include "analyse/culprit.h"
#include "analyse/pipeline.h"

/*
 * Suffix of the service that stands for a workload's connections; the pod's own service does not
 * have it.
 */
#define COLLECT_MEASURED_SERVICE " (tcp)"
#define COLLECT_MEASURED_PORTS	 8u /* maximum number of ports; further ports are ignored */

struct collect_measured {
	uint32_t ports;
	struct {
		/* column numbers of the count and the quantiles */
		uint32_t count, tail[ANALYSE_TAILS];
	} port[COLLECT_MEASURED_PORTS];
};

/* Finds the request columns of a layout. */
void collect_measured_find(struct collect_measured *m, const struct analyse_column *columns,
			   uint32_t n);
/* Returns P90, P95 and P99 in seconds at the port that served most requests; NaN means unknown. */
void collect_measured_take(const struct collect_measured *m, const double *value,
			   double seconds[ANALYSE_TAILS]);

#endif
