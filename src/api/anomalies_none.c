// SPDX-License-Identifier: Apache-2.0
/* anomalies_none.c - replaces anomalies.c and services.c in builds without analysis. */
#include "api/internal.h"

void api_pod_verdict(struct base_json *j, void *collector, uint64_t instance)
{
	(void)j, (void)collector, (void)instance;
}

size_t api_anomalies(void *collector, uint64_t after, struct act_anomaly *out, size_t max)
{
	(void)collector, (void)after, (void)out, (void)max;
	return 0;
}

bool *api_still(uint64_t instance, size_t metrics)
{
	(void)instance, (void)metrics;
	return NULL;
}
