/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_collector.h - replaces the collector at link time: the introspection of collect.h returns
 * data set by a test. Not locked: change it only while no request runs.
 */
#ifndef FAKE_COLLECTOR_H
#define FAKE_COLLECTOR_H

#include "collect/tables/pair_latency.h"
#include "collect/judge/live.h"
#include "collect/read/past.h"
#include "collect/trace/trace.h"
#include "collect/tables/tables.h"

struct fake_metric {
	struct region_metric metric;
	const uint64_t *value;
	const struct collect_point *points;
	size_t point_count;
};

struct fake_region {
	struct collect_region_view view;
	struct region_info info;
	struct fake_metric *metrics;
	size_t metric_count;
	int64_t found_ns, read_ns, ended_ns; /* ended_ns 0: it is listed */
	uint64_t fresh_ns;		     /* CLOCK_MONOTONIC of the last READ */
};

/* The observations of a histogram, oldest first. */
struct fake_observed {
	uint64_t instance;
	uint32_t metric;
	int64_t ns;
	const struct collect_bucket *v;
	size_t n;
};

struct collect_collector {
	bool ready;
	struct collect_host_view *hosts;
	size_t host_count;
	struct fake_region *regions;
	size_t region_count;
	struct collect_worker_view *workers;
	size_t worker_count;
	struct collect_collector_totals totals;
	const struct collect_layers_view *layers;
	size_t layer_count;
	const struct collect_layer_losses_view *losses; /* NULL: none */
	const struct collect_net_pair_view *pair;	/* NULL: none */
	const struct collect_net_host_view *rings;
	size_t ring_count;
	struct collect_flow_view *flows;
	size_t flow_count;
	struct collect_flow_table_view *tables;
	size_t table_count;
	const struct fake_observed *observed;
	size_t observed_count;
	const struct collect_life *lives;
	size_t life_count;
	struct act_verdicts *verdicts;
	struct act_incidents *incidents;
	struct act_scale *scale;
};

struct collect_tracer {
	const struct collect_trace *traces;
	size_t trace_count;
};

/* call it before a request and after its answer, in the thread that makes changes */
void fake_sync(void);

#endif
