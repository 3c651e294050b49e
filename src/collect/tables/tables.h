/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.h - reads the tables that agents keep of their kernels, and sums them by workload. Views
 * are valid during the call, and block no worker. Without tables attached, there is nothing to
 * view.
 */
#ifndef SL_COLLECT_TABLES_TABLES_H
#define SL_COLLECT_TABLES_TABLES_H

#include "collect/read/collect.h"
#include "region/layers.h"

struct collect_tables_opts {
	uint64_t period_ns;    /* of reading; 0: 1 s */
	size_t groups;	       /* workloads with a role and a port; 0: 512 */
	const uint8_t *folded; /* bit p % 8 of [p / 8]: port p is "other"; NULL: none */
	size_t flows;	       /* connections of all hosts; 0: 65536 */
};

/* Before collect_collector_start(); freed by collect_collector_free(). 0 or -errno. */
int collect_tables_attach(struct collect_collector *c, const struct collect_tables_opts *opts);

/* ---- connections ---- */

struct region_flow;

struct collect_flow_view {
	const char *target, *hostname;
	bool stale; /* its table was not read recently */
	uint32_t slot;
	const struct region_flow *now;	    /* as last read */
	const struct region_flow *before;   /* a second or more earlier, or NULL */
	int64_t read_ns;		    /* CLOCK_REALTIME when now was first read */
	const struct region_info *workload; /* has the labels of its owner; NULL: not known yet */
};
/* All connections that are open or ended recently. */
void collect_collector_flows(struct collect_collector *c,
			     void (*fn)(const struct collect_flow_view *, void *), void *arg);

/* A host's flow table; counters are since the collector's start. */
struct collect_flow_table_view {
	const char *target, *hostname;
	const char *fault;     /* "" or region_fault_name() if it was dropped */
	bool present, stale;   /* present: the host has one now */
	uint64_t last_read_ns; /* CLOCK_REALTIME */
	uint32_t slots, slots_read, open;
	uint64_t passes, missed, opened, closed, unsettled, lost, unseen, journal_gaps;
};
/* Of hosts that have or had one. */
void collect_collector_flow_tables(struct collect_collector *c,
				   void (*fn)(const struct collect_flow_table_view *, void *),
				   void *arg);

/* ---- layers of the stack ---- */

struct collect_layers_view {
	const char *target, *hostname;
	const struct region_info *workload; /* has the labels of its owner */
	const char *role, *port;	    /* of the service: "server", "80" or "other" */
	bool stale;
	const struct region_layer_view *all;  /* since the collector first read it */
	const struct region_layer_view *late; /* of the last 10 to 20 s */
	int64_t late_ns;		      /* the exact window of late */
};
/* Latency of requests by layer, for each workload, role and port. */
void collect_collector_layers(struct collect_collector *c,
			      void (*fn)(const struct collect_layers_view *, void *), void *arg);

struct collect_layer_losses_view {
	const char *target, *hostname;
	bool present; /* the host has a layer table now */
	uint64_t passes;
	uint64_t lost[SL_CAUSES]; /* by enum sl_layer_cause, since its programs were loaded */
};
/* What the hosts could not attribute. */
void collect_collector_layer_losses(struct collect_collector *c,
				    void (*fn)(const struct collect_layer_losses_view *, void *),
				    void *arg);

#endif
