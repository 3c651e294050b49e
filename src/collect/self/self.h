/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.h - exposes what happens beside the collector, in the same program: families of the
 * collector's own series. Each function is called before collect_collector_start(), and its objects
 * outlive the collector's source. 0 or what collect_collector_attach() returns.
 */
#ifndef SL_COLLECT_SELF_SELF_H
#define SL_COLLECT_SELF_SELF_H

#include "collect/read/attach.h"

struct collect_discover;
struct collect_reports;
struct dta_store_server;
struct export_kafka;

/* What was discovered. */
int collect_self_discover(struct collect_collector *c, struct collect_discover *d);
/* The stores that this collector owns. */
int collect_self_stores(struct collect_collector *c, struct dta_store_server *stores);
/* What an HTTP server refuses, [HTTP_REFUSALS] of http.h. */
int collect_self_http(struct collect_collector *c, uint64_t *refused);
/* What Kafka gets, and the follower of lists, or NULL. */
int collect_self_kafka(struct collect_collector *c, struct export_kafka *kafka,
		       struct collect_reports *reports);

#endif
