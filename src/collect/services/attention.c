// SPDX-License-Identifier: Apache-2.0
/*
 * attention.c - computes how much attention a service needs, and gives the reason. Pure functions.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/base.h"
#include "collect/services/internal.h"

#define ERRORS_LEAST	  0.05 /* fraction of failed requests that deserves attention */
#define RETRANSMITS_LEAST 1.0  /* retransmissions per second that deserve attention */

__attribute__((format(printf, 3, 4))) static void
set_attention(struct collect_service_view *v, double attention, const char *fmt, ...)
{
	va_list ap;

	v->attention = attention;
	va_start(ap, fmt);
	vsnprintf(v->attention_why, sizeof(v->attention_why), fmt, ap);
	va_end(ap);
}

/* Maps x to [low, high): the result approaches high as x grows. */
static double place_between(double low, double high, double x)
{
	return low + (high - low) * (x > 0 ? x / (1 + x) : 0);
}

void collect_services_attention(struct collect_service_view *v)
{
	double ratio = v->errors > 0 && v->requests > 0 ? BASE_MIN(v->errors / v->requests, 1.0)
							: 0;
	const struct collect_service_connections *c = &v->connections;

	if (v->culprit)
		set_attention(v, 100,
			      "anomalous, and the most likely cause of other services' "
			      "anomalies");
	else if (v->anomaly && !v->anomaly->end_ns)
		set_attention(v, place_between(80, 99, v->anomaly->peak - 1), "anomalous now");
	else if (ratio >= ERRORS_LEAST)
		set_attention(v, place_between(60, 79, 10 * ratio), "%.3g %% of its requests fail",
			      ratio * 100);
	else if (v->anomaly)
		set_attention(v, place_between(50, 59, v->anomaly->peak - 1),
			      "was anomalous in the last minute");
	else if (c->known && *c->why && !region_why_fine(c->limit))
		set_attention(v, 45, "something limits its connections: %s",
			      region_why_label(c->limit));
	else if (c->known && c->retransmits >= RETRANSMITS_LEAST)
		set_attention(v, place_between(35, 44, c->retransmits / 10),
			      "%.3g retransmissions per second", c->retransmits);
	else if (v->dead)
		set_attention(v, 30, "%u of its %u pods died", v->dead, v->pods);
	else if (v->stale)
		set_attention(v, 25, "%u of its %u pods are not read", v->stale, v->pods);
	else
		set_attention(v, v->requests > 0 ? place_between(0, 19, v->requests / 1000) : 0,
			      "%s", "");
}
