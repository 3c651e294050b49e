// SPDX-License-Identifier: Apache-2.0
/* fake_collector.c - see fake_collector.h. */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "fake_collector.h"
#include "base/budget.h"
#include "collect/tables/tables.h"

/*
 * Number of callbacks running in this thread: the API must make no further calls from inside one.
 */
static __thread unsigned int depth;

/*
 * A request and its answer order the writes of the test and the reads of the server. They pass
 * through another process, where the thread sanitizer cannot follow.
 */
void fake_sync(void)
{
	static atomic_uint passed;

	atomic_fetch_add(&passed, 1);
}

static void leave(const char *unused)
{
	(void)unused;
	fake_sync();
}

#define FAKE_REQUEST                                            \
	__attribute__((cleanup(leave))) const char request = 0; \
	(void)request;                                          \
	fake_sync()

bool collect_collector_ready(const struct collect_collector *c)
{
	FAKE_REQUEST;
	return c->ready;
}

void collect_collector_hosts(struct collect_collector *c,
			     void (*fn)(const struct collect_host_view *, void *), void *arg)
{
	FAKE_REQUEST;
	for (size_t i = 0; i < c->host_count; i++)
		fn(&c->hosts[i], arg);
}

void collect_collector_regions(struct collect_collector *c,
			       void (*fn)(const struct collect_region_view *, void *), void *arg)
{
	FAKE_REQUEST;
	assert(!depth++);
	for (size_t i = 0; i < c->region_count; i++)
		fn(&c->regions[i].view, arg);
	depth--;
}

void collect_collector_flows(struct collect_collector *c,
			     void (*fn)(const struct collect_flow_view *, void *), void *arg)
{
	FAKE_REQUEST;
	for (size_t i = 0; i < c->flow_count; i++)
		fn(&c->flows[i], arg);
}

void collect_collector_layers(struct collect_collector *c,
			      void (*fn)(const struct collect_layers_view *, void *), void *arg)
{
	FAKE_REQUEST;
	for (size_t i = 0; i < c->layer_count; i++)
		fn(&c->layers[i], arg);
}

void collect_collector_layer_losses(struct collect_collector *c,
				    void (*fn)(const struct collect_layer_losses_view *, void *),
				    void *arg)
{
	FAKE_REQUEST;
	if (c->losses)
		fn(c->losses, arg);
}

void collect_collector_pair_latency(struct collect_collector *c,
				    void (*fn)(const struct collect_net_pair_view *, void *),
				    void *arg)
{
	FAKE_REQUEST;
	if (c->pair)
		fn(c->pair, arg);
}

void collect_collector_net_hosts(struct collect_collector *c,
				 void (*fn)(const struct collect_net_host_view *, void *),
				 void *arg)
{
	FAKE_REQUEST;
	for (size_t i = 0; i < c->ring_count; i++)
		fn(&c->rings[i], arg);
}

uint64_t collect_collector_net_refused(struct collect_collector *c)
{
	FAKE_REQUEST;
	(void)c;
	return 5;
}

void collect_collector_flow_tables(struct collect_collector *c,
				   void (*fn)(const struct collect_flow_table_view *, void *),
				   void *arg)
{
	FAKE_REQUEST;
	for (size_t i = 0; i < c->table_count; i++)
		fn(&c->tables[i], arg);
}

static struct fake_region *find(struct collect_collector *c, uint64_t instance)
{
	for (size_t i = 0; i < c->region_count; i++)
		if (c->regions[i].info.instance == instance)
			return &c->regions[i];
	return NULL;
}

int collect_collector_metrics(struct collect_collector *c, uint64_t instance,
			      void (*fn)(const struct region_metric *, const uint64_t *value,
					 void *),
			      void *arg, uint64_t *fresh_ns)
{
	FAKE_REQUEST;
	struct fake_region *r = find(c, instance);

	if (!r)
		return -ENOENT;
	assert(!depth++);
	for (size_t i = 0; i < r->metric_count; i++)
		fn(&r->metrics[i].metric, r->metrics[i].value, arg);
	depth--;
	if (fresh_ns)
		*fresh_ns = r->fresh_ns;
	return 0;
}

int collect_collector_metric(struct collect_collector *c, uint64_t instance, uint32_t metric,
			     void (*fn)(const struct region_metric *, const uint64_t *value,
					void *),
			     void *arg)
{
	FAKE_REQUEST;
	struct fake_region *r = find(c, instance);

	for (size_t i = 0; r && i < r->metric_count; i++)
		if (r->metrics[i].metric.id == metric) {
			fn(&r->metrics[i].metric, r->metrics[i].value, arg);
			return 0;
		}
	return -ENOENT;
}

static ssize_t find_points(struct collect_collector *c, uint64_t instance, uint32_t metric,
			   int64_t from_ns, int64_t to_ns, struct collect_point *out, size_t max)
{
	FAKE_REQUEST;
	struct fake_region *r = find(c, instance);
	struct fake_metric *m = NULL;
	size_t first = 0, end, n = 0;

	for (size_t i = 0; r && i < r->metric_count; i++)
		if (r->metrics[i].metric.id == metric)
			m = &r->metrics[i];
	if (!m)
		return -ENOENT;
	for (end = m->point_count; end && m->points[end - 1].ns > to_ns;)
		end--;
	while (first < end && m->points[first].ns < from_ns)
		first++;
	if (end - first > max)
		first = end - max;
	while (first < end)
		out[n++] = m->points[first++];
	return (ssize_t)n;
}

int collect_collector_series(struct collect_collector *c, const struct collect_series_walk *walk)
{
	FAKE_REQUEST;
	for (size_t i = 0; i < c->region_count; i++)
		for (size_t k = 0; k < c->regions[i].metric_count; k++) {
			const struct region_info *info = &c->regions[i].info;
			const struct region_metric *m = &c->regions[i].metrics[k].metric;
			const char *keys[32], *values[32];
			struct collect_series_view v = {.of = {.instance = info->instance,
							       .metric = m->id,
							       .ended_ns = c->regions[i].ended_ns},
							.found_ns = c->regions[i].found_ns,
							.read_ns = c->regions[i].read_ns,
							.m = m,
							.name = m->name,
							.keys = keys,
							.values = values};

			if (m->kind == SL_KIND_INFO || m->kind == SL_KIND_STATESET ||
			    (v.of.ended_ns &&
			     (!walk->since_ns || v.of.ended_ns < walk->since_ns)) ||
			    (walk->family && !walk->family(walk->arg, m->name, m)))
				continue;
			for (uint32_t l = 0; l < info->label_count; l++) {
				keys[v.labels] = info->labels[l].key;
				values[v.labels++] = info->labels[l].value;
			}
			for (uint32_t l = 0; l < m->label_count; l++) {
				keys[v.labels] = m->labels[l].key;
				values[v.labels++] = m->labels[l].value;
			}
			if (!walk->series(walk->arg, &v))
				return 0;
		}
	return 0;
}

ssize_t collect_collector_observed(struct collect_collector *c, const struct collect_series_ref *of,
				   int64_t from_ns, int64_t to_ns,
				   bool (*fn)(void *arg, int64_t ns, const struct collect_bucket *v,
					      size_t n),
				   void *arg)
{
	FAKE_REQUEST;
	ssize_t calls = 0;

	for (size_t i = c->observed_count; i-- > 0;) {
		const struct fake_observed *o = &c->observed[i];

		if (o->instance != of->instance || o->metric != of->metric || o->ns <= from_ns ||
		    o->ns > to_ns)
			continue;
		calls++;
		if (!fn(arg, o->ns, o->v, o->n))
			break;
	}
	return calls;
}

size_t collect_collector_lives(struct collect_collector *c, struct collect_life *out, size_t max)
{
	FAKE_REQUEST;
	size_t n = c->life_count < max ? c->life_count : max;

	for (size_t i = 0; i < n; i++)
		out[i] = c->lives[c->life_count - n + i];
	return n;
}

ssize_t collect_collector_points(struct collect_collector *c, const struct collect_series_ref *of,
				 int64_t known_ns, int64_t from_ns, int64_t to_ns,
				 struct collect_point *out, size_t max, struct base_budget *budget)
{
	(void)known_ns;
	base_budget_spend(budget, 1);
	return find_points(c, of->instance, of->metric, from_ns, to_ns, out, max);
}

struct collect_chunks *collect_chunks_new(void)
{
	return calloc(1, 1);
}

void collect_chunks_free(struct collect_chunks *ch)
{
	free(ch);
}

ssize_t collect_collector_history_again(struct collect_collector *c, struct collect_chunks *ch,
					const struct collect_series_ref *of, int64_t from_ns,
					int64_t to_ns, struct collect_point *out, size_t max,
					struct base_budget *budget)
{
	(void)ch;
	base_budget_spend(budget, 1);
	return find_points(c, of->instance, of->metric, from_ns, to_ns, out, max);
}

void collect_collector_workers(struct collect_collector *c,
			       void (*fn)(const struct collect_worker_view *, void *), void *arg)
{
	FAKE_REQUEST;
	for (size_t i = 0; i < c->worker_count; i++)
		fn(&c->workers[i], arg);
}

void collect_collector_totals(struct collect_collector *c, struct collect_collector_totals *out)
{
	FAKE_REQUEST;
	*out = c->totals;
}

bool collect_collector_analysis(struct collect_collector *c, struct collect_analysis_view *out)
{
	FAKE_REQUEST;
	*out = (struct collect_analysis_view){.verdicts = c->verdicts,
					      .incidents = c->incidents,
					      .detector = "combined",
					      .false_alarms = 1,
					      .warming = 2,
					      .scale = c->scale};
	return c->verdicts != NULL;
}

void collect_tracer_list(struct collect_tracer *t, bool (*fn)(const struct collect_trace *, void *),
			 void *arg)
{
	FAKE_REQUEST;
	for (size_t i = 0; i < t->trace_count && fn(&t->traces[i], arg); i++)
		;
}

bool collect_tracer_get(struct collect_tracer *t, uint64_t trace_hi, uint64_t trace_lo,
			void (*fn)(const struct collect_trace *, void *), void *arg)
{
	FAKE_REQUEST;
	for (size_t i = 0; i < t->trace_count; i++)
		if (t->traces[i].trace_hi == trace_hi && t->traces[i].trace_lo == trace_lo) {
			fn(&t->traces[i], arg);
			return true;
		}
	return false;
}
