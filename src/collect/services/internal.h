/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - internal state of the services, shared by the files of this folder */
#ifndef SL_COLLECT_SERVICES_INTERNAL_H
#define SL_COLLECT_SERVICES_INTERNAL_H

#include <pthread.h>

#include "base/table.h"
#include "base/thread.h"
#include "collect/services/latency.h"
#include "collect/services/rules.h"
#include "collect/services/services.h"

#define SERVICES_TICKS (COLLECT_SERVICES_WINDOW + 4)

struct collect_services_tick {
	bool told;		 /* the rates are known */
	double requests, errors; /* per second */
};

/* The total weight of the connections by limit, with the explanation of the heaviest connection. */
struct collect_services_limits {
	double weight[REGION_WHY_LIMITS], heaviest[REGION_WHY_LIMITS];
	char why[REGION_WHY_LIMITS][REGION_WHY_SENTENCE];
};

struct collect_services_service {
	struct base_node node; /* node by name */
	struct collect_services_service *next;
	struct collect_service_name name;
	uint32_t regions; /* number of regions that refer to the service */

	/* Results of the last look. */
	uint32_t pods, live, stale, dead, hosts, instances;
	const char *host[COLLECT_SERVICES_LISTED];
	uint64_t instance[COLLECT_SERVICES_LISTED];
	uint64_t changing, unchanged;
	char requests_metric[SL_NAME_MAX + 1], latency_metric[SL_NAME_MAX + 1];
	double cores, bytes; /* NaN if not known */
	/* values of the service's containers */
	double box_cores, box_bytes, cpu_ratio, memory_ratio, pressure[3];

	/* Results by tick. */
	struct collect_services_tick tick[SERVICES_TICKS];
	/* array of SERVICES_TICKS histograms; NULL if none yet */
	struct collect_latency_tick *latency;

	/* The kernel's figures of the last look. */
	double kernel_requests; /* requests per second; NaN if not known */
	struct collect_latency kernel_latency;
	uint32_t open;
	bool connected;
	double flow_bytes, flow_retransmits, rtt_sum, rtt_min_sum, rtt_weight;
	struct collect_services_limits *limits;

	struct act_anomaly *anomaly; /* set only while views are made */
	double suspicion;
};

struct collect_services_series {
	uint64_t word;
	uint32_t changed; /* tick of the last change + 1; 0 if no change has been seen yet */
};

struct collect_services_region {
	uint64_t instance;
	/* NULL if there is no service, or if it was left out */
	struct collect_services_service *service;
	const char *target;
	char container[13];
	bool kernel, live, stale; /* stale: its publisher is alive, but cannot be read now */
	bool host;		  /* the region describes its host, and the agent attests it */
	struct collect_services_series *series;
	size_t series_count, series_room;
	uint64_t fresh_ns;		/* CLOCK_MONOTONIC of the last read values; 0 if none */
	double sum[COLLECT_RULE_ROLES]; /* sum of the chosen metric at that time */
	/* rank of the chosen metric at that time; UINT32_MAX: none */
	uint32_t chosen[COLLECT_RULE_ROLES];
	double failed;			 /* number of failed requests, by their labels */
	double requests, errors, cores;	 /* per second before that time; NaN if not known */
	struct collect_latency *latency; /* cumulative latency at that time; NULL if none */
};

/*
 * The service that owns the connections of a process, for workloads whose names do not say so. A
 * container numbers its processes itself, so its pids differ from the host's.
 */
struct collect_services_process {
	uint64_t pid;
	const char *target;
	struct collect_services_service *service;
};

/* A container of a host or, if the ID is empty, the host itself. */
#define SERVICES_HOST_VALUES	8
#define SERVICES_HOST_RATES	4
#define SERVICES_CONTAINERS_MAX 2048u /* maximum containers per host */
struct collect_services_container {
	const char *target;
	char id[13];
	uint64_t fresh_ns; /* CLOCK_MONOTONIC of the values */
	double value[SERVICES_HOST_VALUES], rate[SERVICES_HOST_RATES]; /* NaN if not known */
	struct collect_services_service *user; /* service that the container was last assigned to */
};

/* One end of a connection. */
struct collect_services_end {
	uint64_t key;
	struct collect_services_service *service; /* NULL if not known */
	uint32_t open;
	double requests, bytes, retransmits, rtt;
	bool matched;
};

struct collect_services_edge {
	struct collect_services_service *from, *to; /* NULL if not a known service */
	uint32_t connections;
	double requests, bytes, retransmits, rtt_sum, rtt_weight;
};

#define SERVICES_RULES 512u
struct collect_services {
	struct collect_collector *c;
	pthread_mutex_t lock; /* protects all fields below, except for the thread's fields */
	struct collect_services_service *first;
	struct base_table by_name;
	/* memoised rules by hash of the metric's name */
	struct collect_rule_memo rule[SERVICES_RULES];
	size_t services;
	/* region is sorted by instance; next belongs to the current look */
	struct collect_services_region *region, *next;
	size_t regions, next_count, region_room, next_room;
	uint64_t series, left_out;
	uint32_t tick;			/* number of the last look; 0 if none */
	double seconds[SERVICES_TICKS]; /* duration of each tick */
	uint64_t looked_ns;		/* CLOCK_MONOTONIC of the last look */
	int64_t now_ns;			/* CLOCK_REALTIME of the last look */
	/* sorted by target and id */
	struct collect_services_container *container, *container_before;
	size_t containers, container_room, container_before_room;
	struct collect_services_process *process; /* sorted by pid */
	size_t processes, process_room;
	struct collect_services_end *initiated, *accepted;
	size_t n_initiated, n_accepted, initiated_room, accepted_room;
	struct collect_services_edge *edge;
	size_t edges, edge_room;
	unsigned int whys; /* number of limits determined in this look */

	struct base_thread thread;
};

/* Returns NULL if the region is not known. */
struct collect_services_region *collect_services_region(struct collect_services *s,
							uint64_t instance);
/*
 * collect_services_hosts() updates the containers and pressure of all hosts;
 * collect_services_saturation() assigns them to services.
 */
void collect_services_hosts(struct collect_services *s);
void collect_services_saturation(struct collect_services *s);
/* Updates the connections and edges. */
void collect_services_connections(struct collect_services *s);
/* Updates the requests and their latency as seen by the kernel. */
void collect_services_layers(struct collect_services *s);
/* Sets the attention and its reason. Pure function. */
void collect_services_attention(struct collect_service_view *v);

#endif
