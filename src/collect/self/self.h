/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.h - adds series about other parts of the same program to the collector's own. Each function
 * must be called before collect_collector_start(), and its objects must outlive the collector's
 * source. Returns 0 or an error of collect_collector_attach().
 */
#ifndef SL_COLLECT_SELF_SELF_H
#define SL_COLLECT_SELF_SELF_H

#include "collect/read/attach.h"

struct collect_discover;
struct collect_reports;
struct dta_store_server;
struct export_kafka;

/* Series about the discovered hosts. */
int collect_self_discover(struct collect_collector *c, struct collect_discover *d);
/* Series about the stores that this collector owns. */
int collect_self_stores(struct collect_collector *c, struct dta_store_server *stores);
/* Series about requests refused by an HTTP server; refused: [HTTP_REFUSALS] of http.h. */
int collect_self_http(struct collect_collector *c, uint64_t *refused);
/* Series about messages to Kafka. */
int collect_self_kafka(struct collect_collector *c, struct export_kafka *kafka);
/* Series about lists whose items go to Kafka. */
int collect_self_reports(struct collect_collector *c, struct collect_reports *reports);
/* Series about helper processes of this program (base/child.h). */
int collect_self_helpers(struct collect_collector *c);

#endif
