// SPDX-License-Identifier: Apache-2.0
/* fake_collector.c - see fake_collector.h. */
#include <assert.h>
#include <errno.h>

#include "fake_collector.h"

/* Callbacks under way on this thread: the API must not ask on from inside one. */
static __thread unsigned int depth;

bool sl_collector_ready(const struct sl_collector *c)
{
	return c->ready;
}

void sl_collector_hosts(struct sl_collector *c, void (*fn)(const struct sl_host_view *, void *),
			void *arg)
{
	for (size_t i = 0; i < c->host_count; i++)
		fn(&c->hosts[i], arg);
}

void sl_collector_regions(struct sl_collector *c, void (*fn)(const struct sl_region_view *, void *),
			  void *arg)
{
	assert(!depth++);
	for (size_t i = 0; i < c->region_count; i++)
		fn(&c->regions[i].view, arg);
	depth--;
}

void sl_collector_flows(struct sl_collector *c, void (*fn)(const struct sl_flow_view *, void *),
			void *arg)
{
	for (size_t i = 0; i < c->flow_count; i++)
		fn(&c->flows[i], arg);
}

void sl_collector_layers(struct sl_collector *c, void (*fn)(const struct sl_layers_view *, void *),
			 void *arg)
{
	for (size_t i = 0; i < c->layer_count; i++)
		fn(&c->layers[i], arg);
}

void sl_collector_layer_losses(struct sl_collector *c,
			       void (*fn)(const struct sl_layer_losses_view *, void *), void *arg)
{
	if (c->losses)
		fn(c->losses, arg);
}

void sl_collector_nets(struct sl_collector *c, void (*fn)(const struct sl_net_pair_view *, void *),
		       void *arg)
{
	if (c->pair)
		fn(c->pair, arg);
}

void sl_collector_net_hosts(struct sl_collector *c,
			    void (*fn)(const struct sl_net_host_view *, void *), void *arg)
{
	for (size_t i = 0; i < c->ring_count; i++)
		fn(&c->rings[i], arg);
}

uint64_t sl_collector_net_refused(struct sl_collector *c)
{
	(void)c;
	return 5;
}

void sl_collector_flow_tables(struct sl_collector *c,
			      void (*fn)(const struct sl_flow_table_view *, void *), void *arg)
{
	for (size_t i = 0; i < c->table_count; i++)
		fn(&c->tables[i], arg);
}

static struct fake_region *find(struct sl_collector *c, uint64_t instance)
{
	for (size_t i = 0; i < c->region_count; i++)
		if (c->regions[i].info.instance == instance)
			return &c->regions[i];
	return NULL;
}

int sl_collector_metrics(struct sl_collector *c, uint64_t instance,
			 void (*fn)(const struct sl_metric *, const uint64_t *value, void *),
			 void *arg)
{
	struct fake_region *r = find(c, instance);

	if (!r)
		return -ENOENT;
	assert(!depth++);
	for (size_t i = 0; i < r->metric_count; i++)
		fn(&r->metrics[i].metric, r->metrics[i].value, arg);
	depth--;
	return 0;
}

ssize_t sl_collector_history(struct sl_collector *c, uint64_t instance, uint32_t metric,
			     int64_t from_ns, struct sl_point *out, size_t max)
{
	struct fake_region *r = find(c, instance);
	struct fake_metric *m = NULL;
	size_t first = 0, n = 0;

	for (size_t i = 0; r && i < r->metric_count; i++)
		if (r->metrics[i].metric.id == metric)
			m = &r->metrics[i];
	if (!m)
		return -ENOENT;
	while (first < m->point_count && m->points[first].ns < from_ns)
		first++;
	if (m->point_count - first > max)
		first = m->point_count - max;
	while (first < m->point_count)
		out[n++] = m->points[first++];
	return (ssize_t)n;
}

void sl_collector_workers(struct sl_collector *c, void (*fn)(const struct sl_worker_view *, void *),
			  void *arg)
{
	for (size_t i = 0; i < c->worker_count; i++)
		fn(&c->workers[i], arg);
}

void sl_collector_totals(struct sl_collector *c, struct sl_collector_totals *out)
{
	*out = c->totals;
}

bool sl_collector_analysis(struct sl_collector *c, struct sl_analysis_view *out)
{
	*out = (struct sl_analysis_view){.verdicts = c->verdicts,
					 .detector = "combined",
					 .false_alarms = 1,
					 .warming = 2,
					 .scale = c->scale};
	return c->verdicts != NULL;
}
