/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_collector.h - stands in for the collector at link time: what the introspection of collect.h
 * shows is what a test put in. Not locked: change it only while nobody asks.
 */
#ifndef FAKE_COLLECTOR_H
#define FAKE_COLLECTOR_H

#include "collect/kernel/pair_latency.h"

struct fake_metric {
	struct sl_metric metric;
	const uint64_t *value;
	const struct sl_point *points;
	size_t point_count;
};

struct fake_region {
	struct sl_region_view view;
	struct sl_region_info info;
	struct fake_metric *metrics;
	size_t metric_count;
};

struct sl_collector {
	bool ready;
	struct sl_host_view *hosts;
	size_t host_count;
	struct fake_region *regions;
	size_t region_count;
	struct sl_worker_view *workers;
	size_t worker_count;
	struct sl_collector_totals totals;
	const struct sl_layers_view *layers;
	size_t layer_count;
	const struct sl_layer_losses_view *losses; /* NULL: none */
	const struct sl_net_pair_view *pair; /* NULL: none */
	const struct sl_net_host_view *rings;
	size_t ring_count;
	struct sl_flow_view *flows;
	size_t flow_count;
	struct sl_flow_table_view *tables;
	size_t table_count;
	struct sl_verdicts *verdicts;
	struct sl_scale *scale;
};

#endif
