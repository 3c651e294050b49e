/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables.h - reads the tables in which agents publish statistics of their hosts' kernels
 * (connections, layers of the network stack, tasks), and sums the statistics by workload. The
 * arguments of callbacks are valid only during the call. A callback never blocks a worker. Unless
 * collect_tables_attach() was called, there is nothing to visit, and no callback is called.
 */
#ifndef SL_COLLECT_TABLES_TABLES_H
#define SL_COLLECT_TABLES_TABLES_H

#include "collect/read/collect.h"
#include "region/layers.h"
#include "region/why.h"

struct collect_tables_opts {
	uint64_t period_ns; /* time between two readings; 0 means 1 s */
	size_t groups;	    /* maximum number of workloads with a role and a port; 0 means 512 */
	/* port p is counted as "other" if bit p % 8 of folded[p / 8] is set; NULL means none */
	const uint8_t *folded;
	size_t flows; /* maximum number of connections on all hosts; 0 means 65536 */
};

/*
 * Must be called before collect_collector_start(); collect_collector_free() detaches the tables.
 * Returns 0 or -errno.
 */
int collect_tables_attach(struct collect_collector *c, const struct collect_tables_opts *opts);

/* ---- connections ---- */

struct region_flow;

/* A connection that has not changed for this long is idle, and not limited by anything. */
#define COLLECT_FLOW_SILENT_NS 3000000000ll

struct collect_flow_view {
	const char *target, *hostname;
	bool stale; /* the flow table was not read recently */
	uint32_t slot;
	const struct region_flow *now;	    /* state of the flow as last read */
	const struct region_flow *before;   /* state a second or more earlier, or NULL */
	int64_t read_ns;		    /* CLOCK_REALTIME when `now` was first read */
	const struct region_info *workload; /* region info with the owner's labels, or NULL */
	/* for collect_flow_why(): all connections, and the host's number; NULL if not known */
	struct collect_flow_ends *ends;
	size_t host;
};
/*
 * Explains what limits a connection, using both of its ends if both are read. now_ns:
 * CLOCK_REALTIME. Call only while the view is valid.
 */
void collect_flow_why(const struct collect_flow_view *v, int64_t now_ns, struct region_why *out);
/* Calls fn for all connections that are open or were closed recently. */
void collect_collector_flows(struct collect_collector *c,
			     void (*fn)(const struct collect_flow_view *, void *), void *arg);

/* A host's flow table; counters start with the collector. */
struct collect_flow_table_view {
	const char *target, *hostname;
	const char *fault;     /* "", or region_fault_name() if the table was dropped */
	bool present, stale;   /* present: the host has a flow table now */
	uint64_t last_read_ns; /* CLOCK_REALTIME */
	uint32_t slots, slots_read, open;
	uint64_t passes, missed, opened, closed, unsettled, lost, unseen, journal_gaps;
};
/* Calls fn for each host that has or had a flow table. */
void collect_collector_flow_tables(struct collect_collector *c,
				   void (*fn)(const struct collect_flow_table_view *, void *),
				   void *arg);

/* ---- layers of the stack ---- */

struct collect_layers_view {
	const char *target, *hostname;
	const struct region_info *workload; /* region info with the owner's labels */
	/* role and port of the service, such as "server" and "80"; the port may be "other" */
	const char *role, *port;
	bool stale;
	const struct region_layer_view *all;  /* counts since the collector first read the table */
	const struct region_layer_view *late; /* counts of the last 10 to 20 s */
	int64_t late_ns;		      /* exact duration of the `late` window */
};
/* Calls fn with the request latency by layer, for each workload, role and port. */
void collect_collector_layers(struct collect_collector *c,
			      void (*fn)(const struct collect_layers_view *, void *), void *arg);

struct collect_layer_losses_view {
	const char *target, *hostname;
	bool present; /* the host has a layer table now */
	uint64_t passes;
	/* events lost since the host's programs were loaded, by enum sl_layer_cause */
	uint64_t lost[SL_CAUSES];
};
/* Calls fn with the counts of events that each host could not attribute. */
void collect_collector_layer_losses(struct collect_collector *c,
				    void (*fn)(const struct collect_layer_losses_view *, void *),
				    void *arg);

#endif
