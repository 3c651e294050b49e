// SPDX-License-Identifier: Apache-2.0
/* trace_link.c - kept traces as exemplars of the histograms that counted their root spans */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "collect/read/collector_internal.h"
#include "collect/read/exemplars.h"

size_t collect_trace_links(struct collect_collector *c,
			   struct collect_trace_link out[COLLECT_TRACE_LINKS])
{
	for (unsigned int i = 0; i < c->parts; i++)
		if (c->part[i].of->trace_links)
			return c->part[i].of->trace_links(c->part[i].arg, out);
	return 0;
}

static bool is_latency(const struct collect_def *d)
{
	static const char *const words[] = {"duration", "latency", "response_time"};
	const char *name = d->family->name;
	const char *unit = strstr(name, "_seconds");

	if (d->type != EXPORT_FAMILY_HISTOGRAM || !unit || unit[sizeof("_seconds") - 1] ||
	    strstr(name, "client"))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strstr(name, words[i]))
			return true;
	return false;
}

static bool is_of_root(const struct collect_trace_link *l, const struct region_metric *m)
{
	const char *longest = "";

	for (uint32_t i = 0; i < m->label_count; i++)
		if (strlen(m->labels[i].value) > strlen(longest))
			longest = m->labels[i].value;
	return strstr(l->root, longest);
}

/*
 * Returns the bucket of a value, as numbered in region_metric; the last bucket holds all values
 * above the bounds.
 */
static uint32_t bucket_of(const struct region_metric *m, double v)
{
	uint32_t i = 0;
	double place;

	if (!region_is_exponential(m)) {
		while (i < m->bound_count && v > m->bounds[i])
			i++;
		return i;
	}
	if (v <= m->zero_threshold)
		return 0;
	place = ceil(ldexp(log2(v), m->scale)) - m->first_bucket + 1;
	return place < 1				  ? 1
	       : place > m->cells - SL_HIST_BUCKETS - 1.0 ? m->cells - SL_HIST_BUCKETS - 1
							  : (uint32_t)place;
}

bool collect_trace_link_fits(const struct collect_trace_link *l, const struct collect_def *d,
			     const uint64_t *cells, uint32_t *cell)
{
	const struct region_metric *m = &d->metric;

	if (!is_latency(d) || m->cells <= SL_HIST_BUCKETS || !is_of_root(l, m))
		return false;
	*cell = SL_HIST_BUCKETS + bucket_of(m, (double)l->duration_ns / 1e9);
	return *cell < m->cells && cells[*cell];
}

void collect_trace_link_exemplar(const struct collect_trace_link *l, uint32_t cell,
				 struct region_exemplar *out)
{
	int n = snprintf(out->text, sizeof(out->text), "trace_id") + 1;

	snprintf(out->text + n, sizeof(out->text) - (size_t)n, "%016llx%016llx",
		 (unsigned long long)l->trace_hi, (unsigned long long)l->trace_lo);
	out->labels[0] = (struct region_text_label){out->text, out->text + n};
	out->label_count = 1;
	out->cell = cell;
	out->value = (double)l->duration_ns / 1e9;
	out->ns = l->end_ns;
}
