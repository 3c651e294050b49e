// SPDX-License-Identifier: Apache-2.0
/* anomalies_none.c - replaces anomalies.c and services.c in builds without analysis. */
#include "api/internal.h"

void api_pod_verdict(struct base_json *j, void *collector, uint64_t instance)
{
	(void)j, (void)collector, (void)instance;
}

bool api_pod_anomalous(void *collector, uint64_t instance)
{
	(void)collector, (void)instance;
	return false;
}

void api_incidents(void *collector, bool (*fn)(const struct act_incident *i, void *arg), void *arg)
{
	(void)collector, (void)fn, (void)arg;
}

bool *api_still(uint64_t instance, size_t metrics)
{
	(void)instance, (void)metrics;
	return NULL;
}
