// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "collect/judge/measured.h"
#include "collect/tables/workload_layout.h"

#define COUNT WORKLOAD_LAYERS_METRIC "_count"

static const char *const quantile[ANALYSE_TAILS] = {
	WORKLOAD_LAYERS_METRIC "_p90",
	WORKLOAD_LAYERS_METRIC "_p95",
	WORKLOAD_LAYERS_METRIC "_p99",
};

/* Returns the labels if the name belongs to this metric, otherwise NULL. */
static const char *labels_of(const char *name, const char *metric)
{
	size_t n = strlen(metric);

	return !strncmp(name, metric, n) && name[n] == '{' ? name + n : NULL;
}

static uint32_t column_of(const struct analyse_column *columns, uint32_t n, const char *metric,
			  const char *labels)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *of = labels_of(columns[i].name, metric);

		if (of && !strcmp(of, labels))
			return i;
	}
	return ANALYSE_NONE;
}

void collect_measured_find(struct collect_measured *m, const struct analyse_column *columns,
			   uint32_t n)
{
	m->ports = 0;
	for (uint32_t i = 0; i < n && m->ports < COLLECT_MEASURED_PORTS; i++) {
		const char *labels = labels_of(columns[i].name, COUNT);
		bool whole = true;

		if (!labels || !strstr(labels, "layer=\"app\"") ||
		    !strstr(labels, "role=\"server\""))
			continue;
		m->port[m->ports].count = i;
		for (uint32_t j = 0; j < ANALYSE_TAILS; j++) {
			uint32_t at = column_of(columns, n, quantile[j], labels);

			m->port[m->ports].tail[j] = at;
			whole &= at != ANALYSE_NONE;
		}
		m->ports += whole;
	}
}

void collect_measured_take(const struct collect_measured *m, const double *value,
			   double seconds[ANALYSE_TAILS])
{
	uint32_t best = ANALYSE_NONE;

	for (uint32_t i = 0; i < m->ports; i++)
		if (!isnan(value[m->port[i].count]) &&
		    (best == ANALYSE_NONE || value[m->port[i].count] > value[m->port[best].count]))
			best = i;
	for (uint32_t j = 0; j < ANALYSE_TAILS; j++)
		seconds[j] = best == ANALYSE_NONE ? (double)NAN
						  : 1e-9 * value[m->port[best].tail[j]];
}
